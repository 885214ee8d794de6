// RUN: tenon-opt %s --split-input-file -p schedule | filecheck %s --check-prefix=DECIDED
// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | filecheck %s
// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | tenon-opt | filecheck %s

// Each row is stored and added to the sums. Blocks of four rows add up in a row of partial sums each, the last block two
// rows; behind them the sums start from what the fill says, and the partial ones are added in order.
func.func private @blocks(%x: memref<10x8xf32>, %o: memref<10x8xf32>, %s: memref<8xf32>) attributes {kernel, sum_block = 4 : i64} {
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<10x8xf32>) outs(%o : memref<10x8xf32>) attrs = {schedule = {vector = 1, width = 8, unroll = 1}} {
  ^bb0(%a: f32, %b: f32):
    %y = arith.mulf %a, %a : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%s : memref<8xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%o : memref<10x8xf32>) outs(%s : memref<8xf32>) attrs = {schedule = {vector = 1, width = 8, unroll = 1}} {
  ^bb0(%a: f32, %acc: f32):
    %y = arith.addf %acc, %a : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @blocks
// CHECK:         %[[NEUTRAL:[0-9]+]] = arith.constant -0.000000e+00 : f32
// CHECK:         %[[PARTIAL:[0-9]+]] = memref.alloc() : memref<3x8xf32>
// CHECK:         "scf.parallel"
// CHECK-NEXT:    ^bb0(%[[BLOCK:[0-9]+]]: index):
// CHECK-NEXT:      vector.store %{{[0-9]+}}, %[[PARTIAL]][%[[BLOCK]], %{{[0-9]+}}]
// CHECK:           scf.for
// CHECK:             vector.store %{{[0-9]+}}, %o
// CHECK:             %[[SUM:[0-9]+]] = vector.load %[[PARTIAL]][%[[BLOCK]], %{{[0-9]+}}]
// CHECK:             %[[NEXT:[0-9]+]] = arith.addf %[[SUM]],
// CHECK-NEXT:        vector.store %[[NEXT]], %[[PARTIAL]][%[[BLOCK]], %{{[0-9]+}}]
// CHECK:         scf.for
// CHECK:           vector.store %{{[0-9]+}}, %o
// CHECK:         %[[TOTAL:[0-9]+]] = scf.for
// CHECK-NEXT:      vector.load %[[PARTIAL]]
// CHECK:         vector.store %[[TOTAL]], %s
// CHECK-NEXT:    memref.dealloc %[[PARTIAL]]

// -----

// Without the attribute, rows are added up where the sums are. 64 blocks are decided where rows are many.
func.func private @decided(%x: memref<4096x96xf32>, %o: memref<4096x96xf32>, %s: memref<96xf32>) attributes {kernel} {
  %one = arith.constant 1.0 : f32
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4096x96xf32>) outs(%o : memref<4096x96xf32>) {
  ^bb0(%a: f32, %b: f32):
    %y = arith.mulf %a, %a : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%one : f32) outs(%s : memref<96xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%o : memref<4096x96xf32>) outs(%s : memref<96xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %y = arith.mulf %acc, %a : f32
    linalg.yield %y : f32
  }
  func.return
}
// DECIDED-LABEL: @decided
// DECIDED-SAME:    sum_block = 171 : i64
// CHECK-LABEL: @decided
// CHECK-NOT:     memref.alloc()
// CHECK:         memref.store %one, %s
// CHECK:         scf.for
// CHECK:           memref.store %{{[0-9]+}}, %o
// CHECK:           memref.store %{{[0-9]+}}, %s
