// RUN: tenon-opt %s -p differentiate,canonicalize,dce --split-input-file | filecheck %s

// What flows back to a value from several uses is added up.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %f = tenon.exp %e : tensor<4xf32> -> tensor<4xf32>
  %z = tenon.add %f, %e : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: func.func @main_vjp(%x: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK:         %[[THROUGH_F:.*]] = tenon.multiply %[[G:[0-9]+]], %f
// CHECK-NEXT:    %[[TO_E:.*]] = tenon.add %[[G]], %[[THROUGH_F]]
// CHECK-NEXT:    %[[TO_X:.*]] = tenon.multiply %[[TO_E]], %e
// CHECK-NEXT:    func.return %z, %[[TO_X]]

// -----

// A contraction's gradients are contractions: the cotangent takes the place of the operand.
func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %z = tenon.matmul %x, %w : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
  func.return %z : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @main_vjp(
// CHECK:         %[[TO_X:.*]] = tenon.contract [%[[G:[0-9]+]], %w] {maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>]
// CHECK-NEXT:    %[[TO_W:.*]] = tenon.contract [%[[G]], %x] {maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>]
// CHECK-NEXT:    func.return %z, %[[TO_X]], %[[TO_W]]

// -----

// What a result is declared to be tells the extents that the operands do not.
func.func @main(%x: tensor<?x?xf32>, %w: tensor<2x5xf32>) -> tensor<4x5xf32> {
  %z = tenon.matmul %x, %w : tensor<?x?xf32>, tensor<2x5xf32> -> tensor<4x5xf32>
  func.return %z : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @main_vjp(
// CHECK-COUNT-2: extents = [4, 5, 2]

// -----

// An op without a rule is run again on tensors, here as a selection, and that is differentiated.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = tenon.leaky_relu %x {negative_slope = 0.5} : tensor<4xf32> -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: func.func @main_vjp(
// CHECK:         %[[POSITIVE:.*]] = tenon.greater %x, %{{.*}}
// CHECK:         %[[SLOPE:.*]] = tenon.constant {value = dense<5.000000e-01>
// CHECK:         %[[LEFT:.*]] = tenon.select %[[POSITIVE]], %[[G:[0-9]+]], %{{.*}}
// CHECK:         %[[REST:.*]] = tenon.select %[[POSITIVE]], %{{.*}}, %[[G]]
// CHECK-NEXT:    %[[RIGHT:.*]] = tenon.multiply %[[REST]], %[[SLOPE]]
// CHECK-NEXT:    %[[TO_X:.*]] = tenon.add %[[LEFT]], %[[RIGHT]]
// CHECK-NEXT:    func.return %z, %[[TO_X]]

// -----

// Where nothing flows back the gradient is zero.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = tenon.stop_gradient %x : tensor<4xf32> -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: func.func @main_vjp(
// CHECK:         %[[ZERO:.*]] = tenon.constant {value = dense<0.000000e+00> : tensor<4xf32>}
// CHECK-NEXT:    func.return %z, %[[ZERO]]

// -----

// The branch that was taken is computed again, with its gradient.
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @main_vjp(
// CHECK:         %r = tenon.cond %p
// CHECK:         %[[TO_X:.*]] = tenon.cond %p -> (tensor<4xf32>) {
// CHECK-NEXT:      %[[A:.*]] = tenon.exp %x
// CHECK-NEXT:      %[[THROUGH:.*]] = tenon.multiply %[[G:[0-9]+]], %[[A]]
// CHECK-NEXT:      tenon.yield %[[THROUGH]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      tenon.yield %[[G]]
// CHECK:         func.return %r, %[[TO_X]]
