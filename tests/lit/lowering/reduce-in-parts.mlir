// RUN: tenon-opt %s --split-input-file -p 'reduce-in-parts{machine=sm_90}' | filecheck %s

// A long sum is one of 512 sums of 2048 numbers, and then the sum of these.
func.func @main(%x: memref<1024x1024xf32>, %o: memref<f32>) {
  func.call @sum(%x, %o) : (memref<1024x1024xf32>, memref<f32>) -> ()
  func.return
}
func.func private @sum(%x: memref<1024x1024xf32>, %o: memref<f32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<f32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>],
                  iterator_types = ["reduction", "reduction"]} ins(%x : memref<1024x1024xf32>) outs(%o : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[VIEW:.*]] = memref.reinterpret_cast %x to offset: [0], sizes: [512, 2048], strides: [2048, 1]
// CHECK-NEXT:    %[[PARTS:.*]] = memref.alloc() : memref<512xf32>
// CHECK-NEXT:    func.call @sum_parts(%[[VIEW]], %[[PARTS]])
// CHECK-NEXT:    func.call @sum(%x, %o, %[[PARTS]])
// CHECK-LABEL: func.func private @sum_parts
// CHECK:         %[[NEUTRAL:.*]] = arith.constant -0.0
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
// CHECK-LABEL: func.func private @sum
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
// CHECK:           arith.addf %{{.*}}, %{{.*}} fastmath<reassoc>

// -----

// Many rows are work for all multiprocessors as they are.
func.func private @rows(%x: memref<4096x1024xf32>, %o: memref<4096xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]} ins(%x : memref<4096x1024xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-NOT:   _parts
// CHECK:       func.func private @rows(%x: memref<4096x1024xf32>, %o: memref<4096xf32>)
