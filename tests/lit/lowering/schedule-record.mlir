// RUN: tenon-opt %s --split-input-file -p 'schedule{vector-bits=512 record="%S/Inputs/tuning.json" processor="one 512"}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'schedule{vector-bits=512 record="%S/Inputs/tuning.json" processor="another 512"}' | filecheck %s --check-prefix MODEL

// What the record says of kernels of this structure on this processor counts, whatever the kernel and its operands are called.
func.func private @any_name(%a: memref<64x32xf32>, %b: memref<32x128xf32>, %o: memref<64x128xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x32xf32>, memref<32x128xf32>) outs(%o : memref<64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @any_name
// CHECK: schedule = {vector = 1 : i64, width = 8 : i64, unroll = 2 : i64, jam = 0 : i64, jam_count = 4 : i64}
// MODEL-LABEL: @any_name
// MODEL: schedule = {vector = 1 : i64, width = 16 : i64
// MODEL-SAME: jam = 0 : i64

// -----

// A kernel that the record does not know gets the cost model's choice.
func.func private @other_shape(%a: memref<64x33xf32>, %b: memref<33x128xf32>, %o: memref<64x128xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x33xf32>, memref<33x128xf32>) outs(%o : memref<64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @other_shape
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64
