// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// The weights of rows are divided by their sums behind the product that adds them up, which has fewer elements.
func.func @divide_product(%z: tensor<4x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %m = tenon.max %z {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %d = tenon.subtract %z, %m : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %e = tenon.exp %d : tensor<4x16xf32> -> tensor<4x16xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %p = tenon.divide %e, %s : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %o = tenon.matmul %p, %v : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @divide_product
// CHECK:         %e = tenon.exp %d
// CHECK-NEXT:    %s = tenon.sum %e {axis = [1], keepdims = true}
// CHECK-NEXT:    %o = tenon.matmul %e, %v
// CHECK-NEXT:    %o_1 = tenon.divide %o, %s

// -----

// Columns that are summed to one do not go along with rows of the result.
func.func @divide_product_not_of_columns(%z: tensor<4x4xf32>, %v: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %m = tenon.max %z {axis = [0], keepdims = true} : tensor<4x4xf32> -> tensor<1x4xf32>
  %d = tenon.subtract %z, %m : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  %e = tenon.exp %d : tensor<4x4xf32> -> tensor<4x4xf32>
  %s = tenon.sum %e {axis = [0], keepdims = true} : tensor<4x4xf32> -> tensor<1x4xf32>
  %p = tenon.divide %e, %s : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  %o = tenon.matmul %p, %v : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  func.return %o : tensor<4x2xf32>
}
// CHECK-LABEL: @divide_product_not_of_columns
// CHECK:         %o = tenon.matmul %p, %v

// -----

// Other divisors may be too large or too small.
func.func @divide_product_not_by_any_sum(%z: tensor<4x4xf32>, %v: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %s = tenon.sum %z {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %q = tenon.divide %z, %s : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %o = tenon.matmul %q, %v : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  func.return %o : tensor<4x2xf32>
}
// CHECK-LABEL: @divide_product_not_by_any_sum
// CHECK:         %o = tenon.matmul %q, %v

// -----

// A result that has more elements stays undivided.
func.func @divide_product_not_where_it_is_larger(%z: tensor<4x4xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = tenon.max %z {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %d = tenon.subtract %z, %m : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %e = tenon.exp %d : tensor<4x4xf32> -> tensor<4x4xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %p = tenon.divide %e, %s : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %o = tenon.matmul %p, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @divide_product_not_where_it_is_larger
// CHECK:         %o = tenon.matmul %p, %v

// -----

// Next to the largest number of all rows, those of one may be so small that products with them are 0.
func.func @divide_product_not_of_small_rows(%z: tensor<4x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %m = tenon.max %z {keepdims = true} : tensor<4x16xf32> -> tensor<1x1xf32>
  %d = tenon.subtract %z, %m : tensor<4x16xf32>, tensor<1x1xf32> -> tensor<4x16xf32>
  %e = tenon.exp %d : tensor<4x16xf32> -> tensor<4x16xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %p = tenon.divide %e, %s : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %o = tenon.matmul %p, %v : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @divide_product_not_of_small_rows
// CHECK:         %o = tenon.matmul %p, %v
