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
// CHECK:         %[[NEUTRAL:.*]] = arith.constant 0.000000e+00
// CHECK-NEXT:    linalg.fill ins(%[[NEUTRAL]] : f32)
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

// -----

// No number of parts near 528 divides a length of 1000003: the parts are multiples of 16 from places that are told by an
// index, and what is left is one more part.
func.func @main(%x: memref<1000003xf32>, %o: memref<f32>) {
  func.call @odd(%x, %o) : (memref<1000003xf32>, memref<f32>) -> ()
  func.return
}
func.func private @odd(%x: memref<1000003xf32>, %o: memref<f32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<f32>)
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : memref<1000003xf32>) outs(%o : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK:         %[[SUMS:.*]] = memref.alloc() : memref<[[#PARTS:]]xf32>
// CHECK:         func.call @odd_parts(%x, %{{.*}})
// CHECK:         func.call @odd_rest(%x, %{{.*}})
// CHECK:         func.call @odd(%{{.*}}%[[SUMS]])
// CHECK-LABEL: func.func private @odd_parts
// CHECK:         affine_map<(d0, d1) -> (((d0 * {{.*}}) + d1))>
// CHECK-LABEL: func.func private @odd_rest
// CHECK:         affine_map<(d0) -> ((d0 + {{.*}}))>
// CHECK-LABEL: func.func private @odd(

// -----

// The place of the largest of two million: each part has its largest and where that is. Of these the first of the largest
// is taken, so that parts may be combined in order.
func.func @main(%x: memref<2097152xi32>, %o: memref<i64>) {
  func.call @largest(%x, %o) : (memref<2097152xi32>, memref<i64>) -> ()
  func.return
}
func.func private @largest(%x: memref<2097152xi32>, %o: memref<i64>) attributes {kernel} {
  %best = memref.alloc() : memref<i32>
  %least = arith.constant -2147483648 : i32
  linalg.fill ins(%least : i32) outs(%best : memref<i32>)
  %zero = arith.constant 0 : i64
  linalg.fill ins(%zero : i64) outs(%o : memref<i64>)
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>],
                  iterator_types = ["reduction"]} ins(%x : memref<2097152xi32>) outs(%best, %o : memref<i32>, memref<i64>) {
  ^bb0(%a: i32, %b: i32, %p: i64):
    %better = arith.cmpi sgt, %a, %b : i32
    %value = arith.select %better, %a, %b : i32
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %place = arith.select %better, %j, %p : i64
    linalg.yield %value, %place : i32, i64
  }
  func.return
}
// CHECK-LABEL: func.func private @largest_parts
// CHECK-SAME:    memref<[[#PARTS:]]xi32>, %{{.*}}: memref<[[#PARTS]]xi64>)
// CHECK:         linalg.index 1 : index
// CHECK:         linalg.index 0 : index
// CHECK:         arith.muli
// CHECK:         arith.addi
// CHECK-NOT:   @largest_rest
// CHECK-LABEL: func.func private @largest(
// CHECK:         attrs =  {associative}
// CHECK:         %[[BETTER:.*]] = arith.cmpi sgt
// CHECK-NEXT:    arith.select %[[BETTER]], {{.*}} : i32
// CHECK-NEXT:    arith.select %[[BETTER]], {{.*}} : i64

// -----

// Sums along the same loops are parts of one kernel; what is stored in front of them is computed by one of its own.
func.func @main(%x: memref<64x32x4096xf32>, %y: memref<64x32x4096xf32>, %o: memref<32xf32>, %p: memref<32xf32>) {
  func.call @sums(%x, %y, %o, %p) : (memref<64x32x4096xf32>, memref<64x32x4096xf32>, memref<32xf32>, memref<32xf32>) -> ()
  func.return
}
func.func private @sums(%x: memref<64x32x4096xf32>, %y: memref<64x32x4096xf32>, %o: memref<32xf32>, %p: memref<32xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<64x32x4096xf32>) outs(%y : memref<64x32x4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %a : f32
    linalg.yield %c : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<32xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j)>], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%x : memref<64x32x4096xf32>) outs(%o : memref<32xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  linalg.fill ins(%zero : f32) outs(%p : memref<32xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j)>], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%y, %x : memref<64x32x4096xf32>, memref<64x32x4096xf32>) outs(%p : memref<32xf32>) {
  ^bb0(%a: f32, %d: f32, %b: f32):
    %e = arith.mulf %a, %d : f32
    %c = arith.addf %b, %e : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    func.call @sums_elements(%x, %y)
// CHECK:         func.call @sums_parts(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (memref<16x4x32x4096xf32>, memref<16x4x32x4096xf32>, memref<16x32xf32>, memref<16x32xf32>)
// CHECK-NEXT:    func.call @sums(%x, %y, %o, %p,
// CHECK-LABEL: func.func private @sums_elements(%x: memref<64x32x4096xf32>, %y: memref<64x32x4096xf32>)
// CHECK:         iterator_types = ["parallel", "parallel", "parallel"]
// CHECK-LABEL: func.func private @sums_parts
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction"]} ins(%0, %1 {{.*}}) outs(%2, %3
// CHECK-LABEL: func.func private @sums(
// CHECK:         linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]}
// CHECK-NOT:     linalg.generic
