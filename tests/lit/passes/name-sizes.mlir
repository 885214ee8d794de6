// RUN: tenon-opt %s --split-input-file -p name-sizes | filecheck %s

// Each unknown dimension gets a name.
func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) {
  func.return
}
// CHECK:       @main(%x: tensor<?x3xf32> {tenon.shape = ["x_d0", 3 : i64]}, %y: tensor<?x3xf32> {tenon.shape = ["y_d0", 3 : i64]})

// -----

// Two dimensions that an op asks to be equal get one name.
func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = tenon.matmul %x, %w : tensor<?x?xf32>, tensor<?x?xf32> -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}
// CHECK:       @main(%x: {{.*}} {tenon.shape = ["x_d0", "x_d1"]}, %w: {{.*}} {tenon.shape = ["x_d1", "w_d1"]})

// -----

// An argument may bring names, which others take over where an op asks for it.
func.func @main(%x: tensor<?x4xf32> {tenon.shape = ["batch", 4]}, %y: tensor<?x?xf32>) -> tensor<?x4xf32> {
  %z = tenon.matmul %y, %x : tensor<?x?xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  func.return %z : tensor<?x4xf32>
}
// CHECK:       @main(%x: {{.*}} {tenon.shape = ["batch", 4 : i64]}, %y: {{.*}} {tenon.shape = ["y_d0", "batch"]})

// -----

// What follows from sizes is inferred: the rank of the results, and that %z has as many columns as %y.
func.func @main(%x: tensor<?x4xf32>, %y: tensor<4x?xf32>, %z: tensor<?xf32>) -> tensor<*xf32> {
  %a = tenon.matmul %x, %y : tensor<?x4xf32>, tensor<4x?xf32> -> tensor<*xf32>
  %b = tenon.add %a, %z : tensor<*xf32>, tensor<?xf32> -> tensor<*xf32>
  func.return %b : tensor<*xf32>
}
// CHECK:       @main({{.*}}, %y: {{.*}} {tenon.shape = [4 : i64, "y_d1"]}, %z: {{.*}} {tenon.shape = ["y_d1"]})
// CHECK-NEXT:    %a = tenon.matmul {{.*}} -> tensor<?x?xf32>
// CHECK-NEXT:    %b = tenon.add {{.*}} -> tensor<?x?xf32>
