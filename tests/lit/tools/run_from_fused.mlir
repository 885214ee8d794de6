// RUN: tenon run %s --args iota:2x3xf32,iota:3x2xf32 | filecheck %s
// RUN: tenon-opt %s -p convert-tensor-to-structured,fuse-structured | tenon run - --args iota:2x3xf32,iota:3x2xf32 | filecheck %s

// The program of run_from_tensor.mlir in two fusion groups.
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %y = func.call @kernel_0(%x, %w) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r = func.call @kernel_1(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
func.func private @kernel_0(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> attributes {kernel} {
  %y = tenon.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
func.func private @kernel_1(%y: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {kernel} {
  %twelve = tenon.constant {value = dense<12.0> : tensor<f32>} : tensor<f32>
  %z = tenon.subtract %y, %twelve : tensor<2x2xf32>, tensor<f32> -> tensor<2x2xf32>
  %r = tenon.relu %z : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
// CHECK:      result 0: float32[2, 2]
// CHECK-NEXT: {{\[\[}} 0.  1.]
// CHECK-NEXT:  [16. 28.]]
