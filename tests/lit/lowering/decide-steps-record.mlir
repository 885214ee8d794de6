// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine=sm_90 record="%S/Inputs/tuning-cuda.json" processor=sm_90}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine=sm_90 record="%S/Inputs/tuning-cuda.json" processor="sm_90 Other"}' | filecheck %s --check-prefix MODEL

// What the record says of kernels of this structure on the only GPU of the architecture counts, whatever they are called.
func.func private @any_name(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<1000xf32>) outs(%o : memref<1000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: @any_name
// CHECK-SAME: schedule = ["split(i, 8) -> i0, i1", "bind(i0, grid)", "bind(i1, block)"]
// MODEL-LABEL: @any_name
// MODEL-SAME: schedule = ["split(i, 4) -> i_, iv"

// -----

// In place it is another kernel: what is known of its memory counts.
func.func @main(%x: memref<1000xf32>) {
  func.call @in_place(%x, %x) : (memref<1000xf32>, memref<1000xf32>) -> ()
  func.return
}
func.func private @in_place(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<1000xf32>) outs(%o : memref<1000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @in_place
// CHECK-SAME: schedule = ["split(i, 4) -> i_, iv"
