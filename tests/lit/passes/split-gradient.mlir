// RUN: tenon-opt %s -p split-gradient --split-input-file | filecheck %s
// RUN: not tenon-opt %s -p split-gradient,split-gradient --split-input-file 2>&1 | filecheck %s --check-prefix NONE

// NONE: split-gradient: there are no functions @main and @main_vjp

// The product is kept; its exp is a result, and the constant is made again.
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %p = tenon.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = tenon.exp %p : tensor<8x8xf32> -> tensor<8x8xf32>
  func.return %y : tensor<8x8xf32>
}
func.func @main_vjp(%x: tensor<8x8xf32>, %g: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = tenon.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = tenon.exp %p : tensor<8x8xf32> -> tensor<8x8xf32>
  %two = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %d = tenon.multiply %g, %two : tensor<8x8xf32>, tensor<f32> -> tensor<8x8xf32>
  %e = tenon.multiply %d, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %f = tenon.multiply %e, %p : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  func.return %y, %f : tensor<8x8xf32>, tensor<8x8xf32>
}
// CHECK:       func.func @main_forward(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
// CHECK-NEXT:    %p = tenon.matmul %x, %x
// CHECK-NEXT:    %y = tenon.exp %p
// CHECK-NEXT:    func.return %y, %p
// CHECK:       func.func @main_backward(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %p: tensor<8x8xf32>, %g: tensor<8x8xf32>) -> tensor<8x8xf32> {
// CHECK-NEXT:    %two = tenon.constant {value = dense<2.000000e+00> : tensor<f32>}
// CHECK-NEXT:    %d = tenon.multiply %g, %two
// CHECK-NEXT:    %e = tenon.multiply %d, %y
// CHECK-NEXT:    %f = tenon.multiply %e, %p
// CHECK-NEXT:    func.return %f

// -----

// Of a chain of elementwise ops one value is kept, what arguments give cheaply is computed again.
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  %s = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  func.return %s : tensor<f32>
}
func.func @main_vjp(%x: tensor<8xf32>, %g: tensor<f32>) -> (tensor<f32>, tensor<8xf32>) {
  %c = tenon.cumsum %x {axis = 0} : tensor<8xf32> -> tensor<8xf32>
  %a = tenon.exp %c : tensor<8xf32> -> tensor<8xf32>
  %b = tenon.tanh %a : tensor<8xf32> -> tensor<8xf32>
  %e = tenon.exp %x : tensor<8xf32> -> tensor<8xf32>
  %s = tenon.sum %b : tensor<8xf32> -> tensor<f32>
  %0 = tenon.multiply %g, %a : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %1 = tenon.multiply %0, %b : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %2 = tenon.multiply %1, %e : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  func.return %s, %2 : tensor<f32>, tensor<8xf32>
}
// CHECK:       func.func @main_forward
// CHECK:         func.return %s, %a
// CHECK:       func.func @main_backward
// CHECK-NEXT:    %b = tenon.tanh %a
// CHECK-NEXT:    %e = tenon.exp %x
// CHECK-NEXT:    tenon.multiply %g, %a

// -----

// What is to be computed again is not kept.
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %p = tenon.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  func.return %p : tensor<8x8xf32>
}
func.func @main_vjp(%x: tensor<8x8xf32>, %g: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = tenon.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = tenon.checkpoint -> (tensor<8x8xf32>) attributes {recomputed} {
    %r = tenon.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    tenon.yield %r : tensor<8x8xf32>
  }
  %d = tenon.multiply %g, %q : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  func.return %p, %d : tensor<8x8xf32>, tensor<8x8xf32>
}
// CHECK:       func.func @main_forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
// CHECK:         func.return %p
// CHECK:       func.func @main_backward
// CHECK-NEXT:    %q = tenon.checkpoint
// CHECK-NEXT:      tenon.matmul %x, %x
