// RUN: tenon-opt %s -p inline --split-input-file | filecheck %s

func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @calls_take_in_functions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z, %w = func.call @outer(%y) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %z, %w : tensor<4xf32>, tensor<4xf32>
}
// CHECK-NOT:   func.func private
// CHECK-LABEL: @calls_take_in_functions
// CHECK-NEXT:    [[Y:%.*]] = tenon.exp %x
// CHECK-NEXT:    [[Z:%.*]] = tenon.exp [[Y]]
// CHECK-NEXT:    func.return [[Z]], [[Y]]

// -----

func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @kernels_stay(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @kernel_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @kernels_stay
// CHECK-NEXT:    func.call @kernel_0
