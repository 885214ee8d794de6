// RUN: tenon-opt %s --split-input-file -p reciprocals | filecheck %s

// One of the exponentials that %s adds up is 1; what divides twice is inverted once.
func.func @softmax(%x: tensor<32x8xf32>, %y: tensor<32x8xf32>) -> (tensor<32x8xf32>, tensor<32x8xf32>) {
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %d = tenon.subtract %x, %m : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  %e = tenon.exp %d : tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %e {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %q = tenon.divide %e, %s : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  %r = tenon.divide %y, %s : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  func.return %q, %r : tensor<32x8xf32>, tensor<32x8xf32>
}
// CHECK-LABEL: @softmax
// CHECK:         [[R:%.*]] = tenon.divide {{%.*}}, %s : tensor<f32>, tensor<32x1xf32> -> tensor<32x1xf32>
// CHECK-NEXT:    tenon.multiply %e, [[R]]
// CHECK-NEXT:    tenon.multiply %y, [[R]]

// -----

// A root is at most 2^64, and a number is added.
func.func @norm(%x: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %c = tenon.constant {value = dense<1.0e-12> : tensor<f32>} : tensor<f32>
  %p = tenon.multiply %x, %x : tensor<32x8xf32>, tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %p {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %r = tenon.sqrt %s : tensor<32x1xf32> -> tensor<32x1xf32>
  %m = tenon.add %r, %c : tensor<32x1xf32>, tensor<f32> -> tensor<32x1xf32>
  %q = tenon.divide %x, %m : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  func.return %q : tensor<32x8xf32>
}
// CHECK-LABEL: @norm
// CHECK:         tenon.multiply %x, {{%.*}} : tensor<32x8xf32>, tensor<32x1xf32>
// CHECK-NEXT:    func.return

// -----

// The root of a small sum may be 0.
func.func @may_be_zero(%x: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %p = tenon.multiply %x, %x : tensor<32x8xf32>, tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %p {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %r = tenon.sqrt %s : tensor<32x1xf32> -> tensor<32x1xf32>
  %q = tenon.divide %x, %r : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  func.return %q : tensor<32x8xf32>
}
// CHECK-LABEL: @may_be_zero
// CHECK:         tenon.divide %x, %r

// -----

// A sum may be so large that its reciprocal is subnormal.
func.func @may_be_huge(%x: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %c = tenon.constant {value = dense<1.0> : tensor<f32>} : tensor<f32>
  %p = tenon.abs %x : tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %p {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %r = tenon.maximum %s, %c : tensor<32x1xf32>, tensor<f32> -> tensor<32x1xf32>
  %q = tenon.divide %x, %r : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  func.return %q : tensor<32x8xf32>
}
// CHECK-LABEL: @may_be_huge
// CHECK:         tenon.divide %x, %r

// -----

// The largest is that of all rows, so that the sum of one may be as small as can be.
func.func @largest_of_all(%x: tensor<32x8xf32>) -> tensor<32x8xf32> {
  %m = tenon.max %x {axis = [0, 1], keepdims = true} : tensor<32x8xf32> -> tensor<1x1xf32>
  %d = tenon.subtract %x, %m : tensor<32x8xf32>, tensor<1x1xf32> -> tensor<32x8xf32>
  %e = tenon.exp %d : tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %e {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %q = tenon.divide %e, %s : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  func.return %q : tensor<32x8xf32>
}
// CHECK-LABEL: @largest_of_all
// CHECK:         tenon.divide %e, %s

// -----

// Two elements for each sum are as few divisions as with reciprocals.
func.func @few(%x: tensor<32x2xf32>) -> tensor<32x2xf32> {
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<32x2xf32> -> tensor<32x1xf32>
  %d = tenon.subtract %x, %m : tensor<32x2xf32>, tensor<32x1xf32> -> tensor<32x2xf32>
  %e = tenon.exp %d : tensor<32x2xf32> -> tensor<32x2xf32>
  %s = tenon.sum %e {axis = [-1], keepdims = true} : tensor<32x2xf32> -> tensor<32x1xf32>
  %q = tenon.divide %e, %s : tensor<32x2xf32>, tensor<32x1xf32> -> tensor<32x2xf32>
  func.return %q : tensor<32x2xf32>
}
// CHECK-LABEL: @few
// CHECK:         tenon.divide %e, %s

// -----

// Weights that a product of matrices multiplies are quotients, so that fusion can compute them again.
func.func @weights(%x: tensor<32x8xf32>, %v: tensor<8x4xf32>) -> tensor<32x4xf32> {
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %d = tenon.subtract %x, %m : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  %e = tenon.exp %d : tensor<32x8xf32> -> tensor<32x8xf32>
  %s = tenon.sum %e {axis = [-1], keepdims = true} : tensor<32x8xf32> -> tensor<32x1xf32>
  %q = tenon.divide %e, %s : tensor<32x8xf32>, tensor<32x1xf32> -> tensor<32x8xf32>
  %o = tenon.matmul %q, %v : tensor<32x8xf32>, tensor<8x4xf32> -> tensor<32x4xf32>
  func.return %o : tensor<32x4xf32>
}
// CHECK-LABEL: @weights
// CHECK:         tenon.divide %e, %s
