// RUN: tenon-opt %s -p decompose | filecheck %s
// RUN: tenon-opt %s -p "decompose{only=softmax}" | filecheck %s --check-prefix ONLY

func.func @composites_are_written_out(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %y = tenon.softmax %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %z = tenon.mean %x {axis = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  func.return %y, %z : tensor<4x8xf32>, tensor<4xf32>
}
// CHECK-LABEL: @composites_are_written_out
// CHECK-NOT:     tenon.softmax
// CHECK-NOT:     tenon.mean
// CHECK:         tenon.max
// CHECK:         tenon.exp
// CHECK:         tenon.sum
// CHECK:         tenon.divide

// ONLY-LABEL: @composites_are_written_out
// ONLY-NOT:     tenon.softmax
// ONLY:         tenon.exp
// ONLY:         tenon.mean %x
