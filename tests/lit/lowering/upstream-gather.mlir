// REQUIRES: mlir
// RUN: tenon run %s --args iota:2x8xf32,iota:4xi32 | filecheck %s
// RUN: env TENON_INTERPRET=1 tenon run %s --args iota:2x8xf32,iota:4xi32 | filecheck %s
// RUN: tenon-opt %s -o %t.mlir
// RUN: %mlir_opt %t.mlir | filecheck %s --check-prefix TEXT

// Elements at places of their own, the last lane masked off: read, printed and meant as upstream does.
func.func @main(%x: memref<2x8xf32>, %p: memref<4xi32>, %o: memref<4xf32>, %arena: memref<0xi8>) attributes {num_inputs = 2 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %mask = arith.constant dense<[true, true, true, false]> : vector<4xi1>
  %others = arith.constant dense<-1.0> : vector<4xf32>
  %i = vector.load %p[%c0] : memref<4xi32>, vector<4xi32>
  %twice = arith.addi %i, %i : vector<4xi32>
  %places = arith.index_cast %twice : vector<4xi32> to vector<4xindex>
  %v = vector.gather %x[%c1, %c1][%places], %mask, %others : memref<2x8xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
  vector.store %v, %o[%c0] : memref<4xf32>, vector<4xf32>
  func.return
}
// CHECK: [ 9. 11. 13. -1.]
// TEXT: vector.gather %{{.*}}[%{{.*}}, %{{.*}}] [%{{.*}}], %{{.*}}, %{{.*}} : memref<2x8xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32> into vector<4xf32>
