// RUN: tenon-opt %s --split-input-file -p convert-tensor-to-structured,vanish-weights | filecheck %s

// Beside the largest of a row, whose weight is 1, those that vanish in sums and products do not show.
func.func private @attention(%x: tensor<4x8xf32>, %v: tensor<8x2xf32>) -> (tensor<4x1xf32>, tensor<4x2xf32>) attributes {kernel} {
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %d = tenon.subtract %x, %m : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %w = tenon.exp %d : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = tenon.sum %w {axis = [-1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %o = tenon.matmul %w, %v : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  func.return %s, %o : tensor<4x1xf32>, tensor<4x2xf32>
}
// CHECK-LABEL: @attention
// CHECK:         math.exp {{.*}} fastmath<afn> : f32

// -----

// Weights that others find stay as they are.
func.func private @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {kernel} {
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %d = tenon.subtract %x, %m : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %w = tenon.exp %d : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = tenon.sum %w {axis = [-1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %o = tenon.divide %w, %s : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @softmax
// CHECK-NOT:     fastmath

// -----

// The largest of other elements than those that are summed may be far from all of them.
func.func private @other_axis(%x: tensor<8x8xf32>) -> tensor<8x1xf32> attributes {kernel} {
  %m = tenon.max %x {axis = [0], keepdims = true} : tensor<8x8xf32> -> tensor<1x8xf32>
  %d = tenon.subtract %x, %m : tensor<8x8xf32>, tensor<1x8xf32> -> tensor<8x8xf32>
  %w = tenon.exp %d : tensor<8x8xf32> -> tensor<8x8xf32>
  %s = tenon.sum %w {axis = [1], keepdims = true} : tensor<8x8xf32> -> tensor<8x1xf32>
  func.return %s : tensor<8x1xf32>
}
// CHECK-LABEL: @other_axis
// CHECK-NOT:     fastmath

// -----

// So may the largest of a row from a column.
func.func private @other_place(%x: tensor<8x8xf32>) -> tensor<1x8xf32> attributes {kernel} {
  %m = tenon.max %x {axis = [1], keepdims = false} : tensor<8x8xf32> -> tensor<8xf32>
  %d = tenon.subtract %x, %m : tensor<8x8xf32>, tensor<8xf32> -> tensor<8x8xf32>
  %w = tenon.exp %d : tensor<8x8xf32> -> tensor<8x8xf32>
  %s = tenon.sum %w {axis = [0], keepdims = true} : tensor<8x8xf32> -> tensor<1x8xf32>
  func.return %s : tensor<1x8xf32>
}
// CHECK-LABEL: @other_place
// CHECK-NOT:     fastmath
