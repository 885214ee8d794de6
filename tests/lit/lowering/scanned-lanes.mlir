// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured,bufferize,schedule{vector-bits=128},convert-structured-to-loops | filecheck %s

// Lanes are combined with those one, then two before them, with zeros in front, and with the sum that all lanes carry.
func.func @running_sum(%x: tensor<8xi32>) -> tensor<8xi32> {
  %y = tenon.cumsum %x : tensor<8xi32> -> tensor<8xi32>
  func.return %y : tensor<8xi32>
}
// CHECK-LABEL: @kernel_0
// CHECK:         %[[X:.*]] = vector.load %x[%{{.*}}] : memref<8xi32>, vector<4xi32>
// CHECK-NEXT:    %[[ZEROS:.*]] = vector.broadcast %{{.*}} : i32 to vector<4xi32>
// CHECK-NEXT:    %[[ONE:.*]] = vector.shuffle %[[ZEROS]], %[[X]] [0, 4, 5, 6]
// CHECK-NEXT:    %[[PAIRS:.*]] = arith.addi %[[ONE]], %[[X]] : vector<4xi32>
// CHECK-NEXT:    %[[TWO:.*]] = vector.shuffle %[[ZEROS]], %[[PAIRS]] [0, 1, 4, 5]
// CHECK-NEXT:    %[[ALL:.*]] = arith.addi %[[TWO]], %[[PAIRS]] : vector<4xi32>
// CHECK-NEXT:    %[[SUMS:.*]] = arith.addi %{{.*}}, %[[ALL]] : vector<4xi32>
// CHECK-NEXT:    vector.store %[[SUMS]], %out0
// CHECK-NEXT:    %[[LAST:.*]] = vector.shuffle %[[SUMS]], %[[SUMS]] [3, 3, 3, 3]
