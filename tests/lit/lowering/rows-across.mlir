// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512} | filecheck %s

// What lies across rows that are added up and written is copied in square tiles, and all else has its lanes along rows.
func.func private @rows_across(%x: memref<64x48xf32>, %y: memref<48x64xf32>, %o: memref<48xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : memref<64x48xf32>, memref<48x64xf32>) outs(%o : memref<48xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @rows_across
// CHECK:         [[T:%.*]] = memref.alloc() : memref<48x64xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%x : memref<64x48xf32>) outs([[T]] : memref<48x64xf32>)
// CHECK-SAME:      {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 16 : i64}}
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]
// CHECK-SAME:      ins([[T]], %y : {{.*}}) {{.*}} {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64}}

// -----

// Where nothing lies along rows, lanes across them need no copy.
func.func private @all_across(%x: memref<64x48xf32>, %o: memref<48xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x48xf32>) outs(%o : memref<48xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @all_across
// CHECK-NOT:     memref.alloc
// CHECK:         ins(%x : memref<64x48xf32>) {{.*}} {schedule = {vector = 0 : i64

// -----

// Of an argument that is read in part, every second column of some rows, that part is copied.
func.func private @part(%x: memref<70x100xf32>, %y: memref<48x64xf32>, %o: memref<48xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j + 3, i * 2 + 1)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : memref<70x100xf32>, memref<48x64xf32>) outs(%o : memref<48xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @part
// CHECK:         [[T:%.*]] = memref.alloc() : memref<48x64xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ((d1 + 3), ((d0 * 2) + 1))>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME:      {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 16 : i64}}
// CHECK:           ins([[T]], %y :
