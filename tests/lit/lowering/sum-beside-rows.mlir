// RUN: tenon-opt %s -p 'sum-beside-rows{machine="sm_90 multiprocessors=2"}' | filecheck %s

// Columns of what a kernel makes of rows, and of nothing else but for that, are added up in groups of 32 rows.
func.func @main(%x: memref<256x64xf32>, %y: memref<256x64xf32>, %s: memref<64xf32>) {
  %t = memref.alloc() : memref<256x64xf32>
  func.call @rows(%x, %t, %y) : (memref<256x64xf32>, memref<256x64xf32>, memref<256x64xf32>) -> ()
  func.call @columns(%t, %s) : (memref<256x64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @rows(%x: memref<256x64xf32>, %t: memref<256x64xf32>, %y: memref<256x64xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<256xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%m : memref<256xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%x : memref<256x64xf32>) outs(%m : memref<256xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>,
                                   affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : memref<256x64xf32>, memref<256xf32>) outs(%t, %y : memref<256x64xf32>, memref<256x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    %e = arith.mulf %a, %b : f32
    %f = arith.subf %a, %b : f32
    linalg.yield %e, %f : f32, f32
  }
  func.return
}
func.func private @columns(%t: memref<256x64xf32>, %s: memref<64xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%s : memref<64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
                  iterator_types = ["reduction", "parallel"]} ins(%t : memref<256x64xf32>) outs(%s : memref<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK:         func.call @rows_sums0(%{{.*}}, %{{.*}}, %[[PARTS:.*]]) : (memref<16x16x64xf32>, memref<16x16x64xf32>, memref<16x64xf32>)
// CHECK-NEXT:    func.call @rows_sums0_columns(%[[PARTS]], %s)
// CHECK-LABEL: func.func private @rows_sums0
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]
