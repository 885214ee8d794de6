// RUN: tenon-opt %s --split-input-file -p convert-tensor-to-structured | filecheck %s

// The ops say which integers are unsigned, the types no longer do. What callers pass is kept in an attribute.
func.func @main(%x: tensor<4xui8>, %y: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xi1>, tensor<4xf32>) {
  %a = tenon.floor_divide %x, %y : tensor<4xui8>, tensor<4xui8> -> tensor<4xui8>
  %b = tenon.less %x, %y : tensor<4xui8>, tensor<4xui8> -> tensor<4xi1>
  %c = tenon.cast %x {dtype = f32} : tensor<4xui8> -> tensor<4xf32>
  func.return %a, %b, %c : tensor<4xui8>, tensor<4xi1>, tensor<4xf32>
}
// CHECK-LABEL: @main
// CHECK-SAME:    (%x: tensor<4xi8>, %y: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi1>, tensor<4xf32>)
// CHECK-SAME:    attributes {dtypes = (ui8, ui8) -> (ui8, i1, f32)}
// CHECK-NOT:     ui8
// CHECK:         arith.divui %{{.*}}, %{{.*}} : i8
// CHECK:         arith.cmpi ult, %{{.*}}, %{{.*}} : i8
// CHECK:         arith.uitofp %{{.*}} : i8 to f32

// -----

// A constant keeps its bits.
func.func private @constant() -> tensor<2xui16> {
  %c = tenon.constant {value = dense<[1, 65535]> : tensor<2xui16>} : tensor<2xui16>
  func.return %c : tensor<2xui16>
}
// CHECK-LABEL: @constant
// CHECK-SAME:    () -> tensor<2xi16> {
// CHECK-NEXT:    arith.constant dense<[1, -1]> : tensor<2xi16>

// -----

// Between types of one width there is nothing to convert.
func.func private @same_width(%x: tensor<4xui32>) -> tensor<4xi32> {
  %a = tenon.cast %x {dtype = i32} : tensor<4xui32> -> tensor<4xi32>
  func.return %a : tensor<4xi32>
}
// CHECK-LABEL: @same_width
// CHECK:         ^bb0(%[[X:.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT:      linalg.yield %[[X]] : i32

// -----

// Without unsigned types there is nothing to keep.
func.func private @signed(%x: tensor<4xi8>) -> tensor<4xi8> {
  %a = tenon.floor_divide %x, %x : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  func.return %a : tensor<4xi8>
}
// CHECK-LABEL: @signed
// CHECK-SAME:    (%x: tensor<4xi8>) -> tensor<4xi8> {
// CHECK:         arith.floordivsi
