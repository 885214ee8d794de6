// RUN: tenon-opt %s --split-input-file -p inline | filecheck %s

// The body of a private function takes the place of its calls.
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @calls_take_in_functions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = func.call @inner(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-NOT:   private
// CHECK-LABEL: @calls_take_in_functions
// CHECK-NEXT:    %y = tenon.exp %x
// CHECK-NEXT:    %y_1 = tenon.exp %y
// CHECK-NEXT:    func.return %y_1

// -----

// A function that calls another one takes that in first; a result may be an argument.
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @calls_in_functions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z, %w = func.call @outer(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %z, %w : tensor<4xf32>, tensor<4xf32>
}
// CHECK-NOT:   private
// CHECK-LABEL: @calls_in_functions
// CHECK-NEXT:    %y = tenon.exp %x
// CHECK-NEXT:    func.return %y, %x

// -----

// A kernel is compiled by itself.
func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @kernels_stay(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @kernel_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @kernels_stay
// CHECK-NEXT:    %y = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return %y

// -----

// What callers outside of the module see stays, and so does what has no body.
func.func private @unknown(tensor<4xf32>) -> tensor<4xf32>
func.func @seen(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @public_functions_and_declarations_stay(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @seen(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = func.call @unknown(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: @public_functions_and_declarations_stay
// CHECK-NEXT:    %y = func.call @seen(%x)
// CHECK-NEXT:    %z = func.call @unknown(%y)
// CHECK-NEXT:    func.return %z
