// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// c + x -> x + c
func.func @constants_go_right(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %y = tenon.add %two, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @constants_go_right
// CHECK-NEXT:    %two = tenon.constant {value = dense<2.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %y = tenon.add %x, %two
// CHECK-NEXT:    func.return %y

// -----

// x + -0.0 -> x, on floats
func.func @add_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<-0.0> : tensor<f32>} : tensor<f32>
  %y = tenon.add %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @add_zero
// CHECK-NEXT:    func.return %x

// -----

// -0.0 + 0.0 is 0.0, which is not -0.0.
func.func @add_zero_keeps_the_sign_of_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %y = tenon.add %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @add_zero_keeps_the_sign_of_zero
// CHECK-NEXT:    %zero = tenon.constant {value = dense<0.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %y = tenon.add %x, %zero
// CHECK-NEXT:    func.return %y

// -----

// x + 0 -> x, on integers
func.func @add_zero_on_integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %zero = tenon.constant {value = dense<0> : tensor<i32>} : tensor<i32>
  %y = tenon.add %x, %zero : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}
// CHECK-LABEL: @add_zero_on_integers
// CHECK-NEXT:    func.return %x

// -----

// The zero was broadcast to the shape of the result, so that the broadcast stays.
func.func @add_zero_keeps_the_type(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = tenon.constant {value = dense<-0.0> : tensor<2x3xf32>} : tensor<2x3xf32>
  %a = tenon.add %x, %zero : tensor<3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
// CHECK-LABEL: @add_zero_keeps_the_type
// CHECK-NEXT:    %a = tenon.broadcast_to %x {shape = [2, 3]} : tensor<3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %a : tensor<2x3xf32>

// -----

// x + -y -> x - y and -x + y -> y - x
func.func @add_negative(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %m = tenon.negative %x : tensor<4xf32> -> tensor<4xf32>
  %n = tenon.negative %y : tensor<4xf32> -> tensor<4xf32>
  %a = tenon.add %x, %n : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.add %m, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @add_negative
// CHECK-NEXT:    %a = tenon.subtract %x, %y
// CHECK-NEXT:    %b = tenon.subtract %y, %x
// CHECK-NEXT:    func.return %a, %b

// -----

// x - 0.0 -> x
func.func @subtract_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %y = tenon.subtract %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @subtract_zero
// CHECK-NEXT:    func.return %x

// -----

// -0.0 - x -> -x
func.func @subtract_zero_from_the_left(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<-0.0> : tensor<f32>} : tensor<f32>
  %y = tenon.subtract %zero, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @subtract_zero_from_the_left
// CHECK-NEXT:    %y = tenon.negative %x
// CHECK-NEXT:    func.return %y

// -----

// 0.0 - 0.0 is 0.0, which is not the negative of 0.0.
func.func @subtract_zero_keeps_the_sign_of_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %y = tenon.subtract %zero, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @subtract_zero_keeps_the_sign_of_zero
// CHECK-NEXT:    %zero = tenon.constant {value = dense<0.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %y = tenon.subtract %zero, %x
// CHECK-NEXT:    func.return %y

// -----

// x - -y -> x + y
func.func @subtract_negative(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %n = tenon.negative %y : tensor<4xf32> -> tensor<4xf32>
  %z = tenon.subtract %x, %n : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: @subtract_negative
// CHECK-NEXT:    %z = tenon.add %x, %y
// CHECK-NEXT:    func.return %z

// -----

// x - x -> 0, on integers; a float may be NaN.
func.func @subtract_itself(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %a = tenon.subtract %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.subtract %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  func.return %a, %b : tensor<4xf32>, tensor<4xi32>
}
// CHECK-LABEL: @subtract_itself
// CHECK-NEXT:    %a = tenon.subtract %x, %x
// CHECK-NEXT:    %b = tenon.constant {value = dense<0> : tensor<4xi32>} : tensor<4xi32>
// CHECK-NEXT:    func.return %a, %b

// -----

// x * 1 -> x and x * -1 -> -x
func.func @multiply_by_one(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = tenon.constant {value = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %minus = tenon.constant {value = dense<-1.0> : tensor<f32>} : tensor<f32>
  %a = tenon.multiply %x, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.multiply %x, %minus : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @multiply_by_one
// CHECK-NEXT:    %b = tenon.negative %x
// CHECK-NEXT:    func.return %x, %b

// -----

// x * 0 -> 0, on integers; a float times zero may be NaN.
func.func @multiply_by_zero(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %f0 = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %i0 = tenon.constant {value = dense<0> : tensor<i32>} : tensor<i32>
  %a = tenon.multiply %x, %f0 : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.multiply %i, %i0 : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  func.return %a, %b : tensor<4xf32>, tensor<4xi32>
}
// CHECK-LABEL: @multiply_by_zero
// CHECK-NEXT:    %f0 = tenon.constant {value = dense<0.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %a = tenon.multiply %x, %f0
// CHECK-NEXT:    %b = tenon.constant {value = dense<0> : tensor<4xi32>} : tensor<4xi32>
// CHECK-NEXT:    func.return %a, %b

// -----

// (x + 2) + 3 -> x + 5, on integers; floats round each sum.
func.func @gather_integer_constants(%x: tensor<4xi32>) -> tensor<4xi32> {
  %two = tenon.constant {value = dense<2> : tensor<i32>} : tensor<i32>
  %three = tenon.constant {value = dense<3> : tensor<i32>} : tensor<i32>
  %a = tenon.add %x, %two : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %b = tenon.add %a, %three : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  func.return %b : tensor<4xi32>
}
// CHECK-LABEL: @gather_integer_constants
// CHECK-NEXT:    %b = tenon.constant {value = dense<5> : tensor<i32>} : tensor<i32>
// CHECK-NEXT:    %b_1 = tenon.add %x, %b
// CHECK-NEXT:    func.return %b_1

// -----

// x / 1 -> x * 1 -> x and x / -1 -> x * -1 -> -x
func.func @divide_by_power_of_two_of_either_sign(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = tenon.constant {value = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %minus = tenon.constant {value = dense<-1.0> : tensor<f32>} : tensor<f32>
  %a = tenon.divide %x, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.divide %x, %minus : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @divide_by_power_of_two_of_either_sign
// CHECK-NEXT:    %b = tenon.negative %x
// CHECK-NEXT:    func.return %x, %b

// -----

// x / 4 -> x * 0.25; the reciprocal of 3 is rounded.
func.func @divide_by_power_of_two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %four = tenon.constant {value = dense<4.0> : tensor<f32>} : tensor<f32>
  %three = tenon.constant {value = dense<3.0> : tensor<f32>} : tensor<f32>
  %a = tenon.divide %x, %four : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.divide %x, %three : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @divide_by_power_of_two
// CHECK-NEXT:    %three = tenon.constant {value = dense<3.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %a = tenon.constant {value = dense<2.500000e-01> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %a_1 = tenon.multiply %x, %a
// CHECK-NEXT:    %b = tenon.divide %x, %three
// CHECK-NEXT:    func.return %a_1, %b

// -----

// -(-x) -> x
func.func @double_negative(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.negative %x : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.negative %a : tensor<4xf32> -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
// CHECK-LABEL: @double_negative
// CHECK-NEXT:    func.return %x

// -----

// -(x - y) -> y - x, on integers; on floats it would change the sign of zero.
func.func @double_negative_of_a_difference(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %a = tenon.subtract %x, %y : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %b = tenon.negative %a : tensor<4xi32> -> tensor<4xi32>
  func.return %b : tensor<4xi32>
}
// CHECK-LABEL: @double_negative_of_a_difference
// CHECK-NEXT:    %b = tenon.subtract %y, %x
// CHECK-NEXT:    func.return %b

// -----

// abs(-x) -> abs(x) and abs(abs(x)) -> abs(x)
func.func @absolute_of_signed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %n = tenon.negative %x : tensor<4xf32> -> tensor<4xf32>
  %a = tenon.abs %n : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.abs %a : tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @absolute_of_signed
// CHECK-NEXT:    %a = tenon.abs %x
// CHECK-NEXT:    %b = tenon.abs %x
// CHECK-NEXT:    func.return %a, %b

// -----

// power(x, 1) -> x and power(x, 2) -> x * x
func.func @power_of_small_integer(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = tenon.constant {value = dense<1.0> : tensor<f32>} : tensor<f32>
  %two = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %a = tenon.power %x, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.power %x, %two : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @power_of_small_integer
// CHECK-NEXT:    %b = tenon.multiply %x, %x
// CHECK-NEXT:    func.return %x, %b

// -----

// power(x, -1) -> reciprocal(x) and power(x, 0) -> 1
func.func @power_of_small_integer_below_one(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %minus = tenon.constant {value = dense<-1.0> : tensor<f32>} : tensor<f32>
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %a = tenon.power %x, %minus : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.power %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @power_of_small_integer_below_one
// CHECK-NEXT:    %a = tenon.reciprocal %x
// CHECK-NEXT:    %b = tenon.constant {value = dense<1.000000e+00> : tensor<4xf32>} : tensor<4xf32>
// CHECK-NEXT:    func.return %a, %b

// -----

// maximum(x, x) -> x, and likewise minimum
func.func @same_operands(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.maximum %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.minimum %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @same_operands
// CHECK-NEXT:    func.return %x, %x
