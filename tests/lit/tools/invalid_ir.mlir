// RUN: not tenon-opt %s 2>&1 | filecheck %s
// RUN: not tenon run %s --args zeros:4x3xf32,zeros:2x5xf32 2>&1 | filecheck %s

// The op that does not verify is marked where it stands.
func.func @main(%x: tensor<4x3xf32>, %y: tensor<2x5xf32>) -> tensor<4x5xf32> {
  %z = tenon.matmul %x, %y : tensor<4x3xf32>, tensor<2x5xf32> -> tensor<4x5xf32>
  func.return %z : tensor<4x5xf32>
}
// CHECK:      error: {{.*}}invalid_ir.mlir:6:3: tenon.matmul: dimension k is 3 in x and 2 in y
// CHECK:      %z = "tenon.matmul"(%x, %y)
// CHECK-NEXT: ^^^
