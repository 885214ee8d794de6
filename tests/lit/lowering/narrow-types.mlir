// RUN: tenon-opt %s --split-input-file -p convert-tensor-to-structured -o %t.structured.mlir
// RUN: filecheck %s --input-file %t.structured.mlir --check-prefix STRUCTURED
// RUN: tenon-opt %t.structured.mlir -p erase-narrow-types | filecheck %s

// Until they are erased, types of 8 bits and less are MLIR's own, and converted by the ops of arith.
func.func @main(%x: tensor<4xf32>, %q: tensor<4xui4>, %k: tensor<4xi4>) -> (tensor<4xf8E4M3FN>, tensor<4xf32>, tensor<4xi32>) {
  %a = tenon.cast %x {dtype = f8E4M3FN} : tensor<4xf32> -> tensor<4xf8E4M3FN>
  %b = tenon.cast %q {dtype = f32} : tensor<4xui4> -> tensor<4xf32>
  %c = tenon.cast %k {dtype = i32} : tensor<4xi4> -> tensor<4xi32>
  func.return %a, %b, %c : tensor<4xf8E4M3FN>, tensor<4xf32>, tensor<4xi32>
}
// STRUCTURED-LABEL: @main
// STRUCTURED-SAME:    (%x: tensor<4xf32>, %q: tensor<4xi4>, %k: tensor<4xi4>)
// STRUCTURED-SAME:    attributes {dtypes = (f32, ui4, i4) -> (f8E4M3FN, f32, i32)}
// STRUCTURED:         arith.truncf %{{.*}} : f32 to f8E4M3FN
// STRUCTURED:         arith.extui %{{.*}} : i4 to i8
// STRUCTURED:         arith.extsi %{{.*}} : i4 to i8
// Then they are bytes. Of the bits of four, the upper ones are 0 in memory; a sign is spread by arithmetic on bytes.
// CHECK-LABEL: @main
// CHECK-SAME:    (%x: tensor<4xf32>, %q: tensor<4xi8>, %k: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xf32>, tensor<4xi32>)
// CHECK-SAME:    attributes {dtypes = (f32, ui4, i4) -> (f8E4M3FN, f32, i32)}
// CHECK:         ^{{.*}}(%{{.*}}: f32, %{{.*}}: i8):
// CHECK:           arith.trunci %{{.*}} : i32 to i8
// CHECK:         ^{{.*}}(%[[Q:.*]]: i8, %{{.*}}: f32):
// CHECK-NEXT:      arith.uitofp %[[Q]] : i8 to f32
// CHECK:         ^{{.*}}(%[[K:.*]]: i8, %{{.*}}: i32):
// CHECK-NEXT:      %[[SIGN:.*]] = arith.constant 8 : i8
// CHECK-NEXT:      %[[FLIPPED:.*]] = arith.xori %[[K]], %[[SIGN]] : i8
// CHECK-NEXT:      %[[SPREAD:.*]] = arith.subi %[[FLIPPED]], %[[SIGN]] : i8
// CHECK-NEXT:      arith.extsi %[[SPREAD]] : i8 to i32

// -----

// Constants become their codes.
func.func private @constants() -> (tensor<3xf8E5M2>, tensor<2xi4>, tensor<5xui2>) {
  %a = tenon.constant {value = dense<[1.5, 0x7C, -2.0]> : tensor<3xf8E5M2>} : tensor<3xf8E5M2>
  %b = tenon.constant {value = dense<[-1, 7]> : tensor<2xi4>} : tensor<2xi4>
  %c = tenon.constant {value = dense<3> : tensor<5xui2>} : tensor<5xui2>
  func.return %a, %b, %c : tensor<3xf8E5M2>, tensor<2xi4>, tensor<5xui2>
}
// STRUCTURED-LABEL: @constants
// STRUCTURED-NEXT:    arith.constant dense<[1.500000e+00, 0x7c, -2.000000e+00]> : tensor<3xf8E5M2>
// STRUCTURED-NEXT:    arith.constant dense<[-1, 7]> : tensor<2xi4>
// CHECK-LABEL: @constants
// CHECK-NEXT:    arith.constant dense<[62, 124, -64]> : tensor<3xi8>
// CHECK-NEXT:    arith.constant dense<[15, 7]> : tensor<2xi8>
// CHECK-NEXT:    arith.constant dense<3> : tensor<5xi8>

// -----

// What is only moved is moved as bytes.
func.func private @moved(%x: tensor<2x3xf4E2M1FN>) -> tensor<3x2xf4E2M1FN> {
  %a = tenon.transpose %x : tensor<2x3xf4E2M1FN> -> tensor<3x2xf4E2M1FN>
  func.return %a : tensor<3x2xf4E2M1FN>
}
// CHECK-LABEL: @moved
// CHECK:         ^{{.*}}(%[[X:.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT:      linalg.yield %[[X]] : i8
