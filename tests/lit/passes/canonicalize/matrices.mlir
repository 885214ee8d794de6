// RUN: tenon-opt %s -p canonicalize,cse --split-input-file | filecheck %s

// Where a matrix is decomposed anyway, its equations are solved by the vectors that are there.
func.func @solve_by_vectors(%a: tensor<5x3xf64>, %b: tensor<5x2xf64>) -> (tensor<3x2xf64>, tensor<5x3xf64>) {
  %x, %s = tenon.least_squares %a, %b : tensor<5x3xf64>, tensor<5x2xf64> -> (tensor<3x2xf64>, tensor<3xf64>)
  %u, %t, %vh = tenon.svd %a {full_matrices = false} : tensor<5x3xf64> -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3x3xf64>)
  func.return %x, %u : tensor<3x2xf64>, tensor<5x3xf64>
}
// CHECK-LABEL: @solve_by_vectors
// CHECK-NEXT:    tenon.svd %a
// CHECK-NOT:     tenon.svd
// CHECK-NOT:     tenon.least_squares
// CHECK:         func.return

// -----

// So are those of the transposed matrix.
func.func @solve_by_vectors_of_transposed(%a: tensor<5x3xf64>, %b: tensor<3x2xf64>) -> (tensor<5x2xf64>, tensor<5x3xf64>) {
  %t = tenon.transpose %a {permutation = [1, 0]} : tensor<5x3xf64> -> tensor<3x5xf64>
  %x, %s = tenon.least_squares %t, %b : tensor<3x5xf64>, tensor<3x2xf64> -> (tensor<5x2xf64>, tensor<3xf64>)
  %u, %v, %vh = tenon.svd %a {full_matrices = false} : tensor<5x3xf64> -> (tensor<5x3xf64>, tensor<3xf64>, tensor<3x3xf64>)
  func.return %x, %u : tensor<5x2xf64>, tensor<5x3xf64>
}
// CHECK-LABEL: @solve_by_vectors_of_transposed
// CHECK-NOT:     tenon.least_squares
// CHECK:         [[B:%.*]] = tenon.matmul %vh, %b
// CHECK:         tenon.matmul %u, %{{.*}}

// -----

// Without a decomposition they are left to LAPACK.
func.func @not_decomposed(%a: tensor<5x3xf64>, %b: tensor<5x2xf64>) -> tensor<3x2xf64> {
  %x, %s = tenon.least_squares %a, %b : tensor<5x3xf64>, tensor<5x2xf64> -> (tensor<3x2xf64>, tensor<3xf64>)
  func.return %x : tensor<3x2xf64>
}
// CHECK-LABEL: @not_decomposed
// CHECK-NEXT:    tenon.least_squares
