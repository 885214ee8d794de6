// RUN: tenon run %s --args iota:2x3xf32,iota:3x2xf32 | filecheck %s
// RUN: tenon run %s --interpret --args iota:2x3xf32,iota:3x2xf32 | filecheck %s

// relu(x w - 12) for x and w that count from 0. The files run_from_*.mlir are this program at every stage.
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %y = tenon.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  %twelve = tenon.constant {value = dense<12.0> : tensor<f32>} : tensor<f32>
  %z = tenon.subtract %y, %twelve : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %r = tenon.relu %z : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
// CHECK:      result 0: float32[2, 2]
// CHECK-NEXT: {{\[\[}} 0.  1.]
// CHECK-NEXT:  [16. 28.]]
