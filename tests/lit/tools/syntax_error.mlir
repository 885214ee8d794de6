// RUN: not tenon-opt %s 2>&1 | filecheck %s
// RUN: not tenon run %s 2>&1 | filecheck %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.exp %x tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK:      syntax_error.mlir:5:21
// CHECK-NEXT:   %y = tenon.exp %x tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:                     ^^^^^^
// CHECK-NEXT:                     Expected ':'
