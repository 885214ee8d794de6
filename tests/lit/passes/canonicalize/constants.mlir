// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// What is computed from constants alone is a constant.
func.func @fold() -> tensor<2x2xf32> {
  %a = tenon.constant {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : tensor<2x2xf32>
  %b = tenon.transpose %a {permutation = [1, 0]} : tensor<2x2xf32> -> tensor<2x2xf32>
  func.return %b : tensor<2x2xf32>
}
// CHECK-LABEL: @fold
// CHECK-NEXT:    %b = tenon.constant {value = dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>} : tensor<2x2xf32>
// CHECK-NEXT:    func.return %b

// -----

// Of equal elements one is computed, whatever the shape.
func.func @fold_one_element() -> tensor<1000x1000xf32> {
  %c = tenon.constant {value = dense<2.0> : tensor<1000x1000xf32>} : tensor<1000x1000xf32>
  %d = tenon.multiply %c, %c : tensor<1000x1000xf32>, tensor<1000x1000xf32> -> tensor<1000x1000xf32>
  func.return %d : tensor<1000x1000xf32>
}
// CHECK-LABEL: @fold_one_element
// CHECK-NEXT:    %d = tenon.constant {value = dense<4.000000e+00> : tensor<1000x1000xf32>} : tensor<1000x1000xf32>
// CHECK-NEXT:    func.return %d

// -----

// The overflow of an f32 is infinity.
func.func @fold_overflow() -> tensor<i1> {
  %a = tenon.constant {value = dense<3.0e38> : tensor<f32>} : tensor<f32>
  %b = tenon.multiply %a, %a : tensor<f32>, tensor<f32> -> tensor<f32>
  %c = tenon.isinf %b : tensor<f32> -> tensor<i1>
  func.return %c : tensor<i1>
}
// CHECK-LABEL: @fold_overflow
// CHECK-NEXT:    %c = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
// CHECK-NEXT:    func.return %c

// -----

// More than 1024 numbers that are not all the same would be more to keep than the op is to run.
func.func @fold_leaves_large_results() -> tensor<40x40xi64> {
  %a = tenon.constant {value = dense<[1, 2]> : tensor<2xi64>} : tensor<2xi64>
  %b = tenon.tile %a {repeats = [800]} : tensor<2xi64> -> tensor<1600xi64>
  %c = tenon.reshape %b {shape = [40, 40]} : tensor<1600xi64> -> tensor<40x40xi64>
  func.return %c : tensor<40x40xi64>
}
// CHECK-LABEL: @fold_leaves_large_results
// CHECK-NEXT:    %a = tenon.constant {value = dense<[1, 2]> : tensor<2xi64>} : tensor<2xi64>
// CHECK-NEXT:    %b = tenon.tile %a {repeats = [800]}
// CHECK-NEXT:    %c = tenon.reshape %b {shape = [40, 40]}
// CHECK-NEXT:    func.return %c

// -----

// constant([c, c, c]) -> constant(c), which is added as one number; the generic form keeps all of them.
func.func @repeated_constant(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = "tenon.constant"() <{value = dense<[3.0, 3.0, 3.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
  %y = tenon.add %x, %c : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}
// CHECK-LABEL: @repeated_constant
// CHECK-NEXT:    %0 = tenon.constant {value = dense<3.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %y = tenon.add %x, %0
// CHECK-NEXT:    func.return %y

// -----

// cast(x) -> x, to the dtype that x has
func.func @cast_to_same(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.cast %x {dtype = f32} : tensor<4xf32> -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
// CHECK-LABEL: @cast_to_same
// CHECK-NEXT:    func.return %x

// -----

// f16 to f32 loses nothing, so that the way back is no cast, and the way to i32 is one.
func.func @cast_of_cast(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xi32>) {
  %a = tenon.cast %x {dtype = f32} : tensor<4xf16> -> tensor<4xf32>
  %b = tenon.cast %a {dtype = f16} : tensor<4xf32> -> tensor<4xf16>
  %c = tenon.cast %a {dtype = i32} : tensor<4xf32> -> tensor<4xi32>
  func.return %b, %c : tensor<4xf16>, tensor<4xi32>
}
// CHECK-LABEL: @cast_of_cast
// CHECK-NEXT:    %c = tenon.cast %x {dtype = i32}
// CHECK-NEXT:    func.return %x, %c

// -----

// 0.5 is 0 as an i32, and true.
func.func @cast_of_cast_that_loses_something(%x: tensor<4xf16>) -> tensor<4xi1> {
  %c = tenon.cast %x {dtype = i32} : tensor<4xf16> -> tensor<4xi32>
  %d = tenon.cast %c {dtype = i1} : tensor<4xi32> -> tensor<4xi1>
  func.return %d : tensor<4xi1>
}
// CHECK-LABEL: @cast_of_cast_that_loses_something
// CHECK-NEXT:    %c = tenon.cast %x {dtype = i32}
// CHECK-NEXT:    %d = tenon.cast %c {dtype = i1}
// CHECK-NEXT:    func.return %d
