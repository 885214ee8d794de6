// RUN: tenon-opt %s -p canonicalize | filecheck %s

func.func @two_transposes_cancel(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<2x3xf32> -> tensor<3x2xf32>
  %u = tenon.transpose %t {permutation = [1, 0]} : tensor<3x2xf32> -> tensor<2x3xf32>
  func.return %u : tensor<2x3xf32>
}
// CHECK-LABEL: @two_transposes_cancel
// CHECK-NEXT:    func.return %x

func.func @neutral_elements_vanish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %negative_zero = tenon.constant {value = dense<-0.0> : tensor<f32>} : tensor<f32>
  %one = tenon.constant {value = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %a = tenon.add %negative_zero, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.multiply %a, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %c = tenon.divide %b, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %d = tenon.subtract %c, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}
// CHECK-LABEL: @neutral_elements_vanish
// CHECK-NEXT:    func.return %x

// -0.0 + 0.0 and 0.0 - 0.0 are 0.0, which is neither -0.0 nor the negative of 0.0.
func.func @zeros_keep_their_sign(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %a = tenon.add %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.subtract %zero, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @zeros_keep_their_sign
// CHECK:         %a = tenon.add %x, %zero
// CHECK-NEXT:    %b = tenon.subtract %zero, %x

// What the neutral element was broadcast to is the shape of the result, so that the broadcast stays.
func.func @the_type_of_a_result_stays(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = tenon.constant {value = dense<-0.0> : tensor<2x3xf32>} : tensor<2x3xf32>
  %a = tenon.add %x, %zero : tensor<3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}
// CHECK-LABEL: @the_type_of_a_result_stays
// CHECK-NEXT:    %a = tenon.broadcast_to %x {shape = [2, 3]} : tensor<3xf32> -> tensor<2x3xf32>

// A float times zero may be NaN.
func.func @times_zero(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %f0 = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %i0 = tenon.constant {value = dense<0> : tensor<i32>} : tensor<i32>
  %a = tenon.multiply %x, %f0 : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.multiply %i, %i0 : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  func.return %a, %b : tensor<4xf32>, tensor<4xi32>
}
// CHECK-LABEL: @times_zero
// CHECK:         %a = tenon.multiply %x
// CHECK-NEXT:    %b = tenon.constant {value = dense<0> : tensor<4xi32>}

func.func @division_by_a_power_of_two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %four = tenon.constant {value = dense<4.0> : tensor<f32>} : tensor<f32>
  %three = tenon.constant {value = dense<3.0> : tensor<f32>} : tensor<f32>
  %a = tenon.divide %x, %four : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.divide %x, %three : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @division_by_a_power_of_two
// CHECK:         dense<2.500000e-01>
// CHECK-NEXT:    %a{{.*}} = tenon.multiply %x
// CHECK-NEXT:    %b = tenon.divide %x, %three

func.func @casts_that_lose_nothing(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xi1>) {
  %a = tenon.cast %x {dtype = f32} : tensor<4xf16> -> tensor<4xf32>
  %b = tenon.cast %a {dtype = f16} : tensor<4xf32> -> tensor<4xf16>
  %c = tenon.cast %a {dtype = i32} : tensor<4xf32> -> tensor<4xi32>
  %d = tenon.cast %c {dtype = i1} : tensor<4xi32> -> tensor<4xi1>
  func.return %b, %d : tensor<4xf16>, tensor<4xi1>
}
// CHECK-LABEL: @casts_that_lose_nothing
// CHECK-NEXT:    %c = tenon.cast %x {dtype = i32}
// CHECK-NEXT:    %d = tenon.cast %c {dtype = i1}
// CHECK-NEXT:    func.return %x, %d

func.func @constants_are_computed() -> (tensor<2x2xf32>, tensor<1000x1000xf32>) {
  %a = tenon.constant {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : tensor<2x2xf32>
  %b = tenon.transpose %a {permutation = [1, 0]} : tensor<2x2xf32> -> tensor<2x2xf32>
  %c = tenon.constant {value = dense<2.0> : tensor<1000x1000xf32>} : tensor<1000x1000xf32>
  %d = tenon.multiply %c, %c : tensor<1000x1000xf32>, tensor<1000x1000xf32> -> tensor<1000x1000xf32>
  func.return %b, %d : tensor<2x2xf32>, tensor<1000x1000xf32>
}
// CHECK-LABEL: @constants_are_computed
// CHECK-NEXT:    %b = tenon.constant {value = dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]>
// CHECK-NEXT:    %d = tenon.constant {value = dense<4.000000e+00> : tensor<1000x1000xf32>}

// The overflow of an f32 is infinity.
func.func @overflow() -> tensor<i1> {
  %a = tenon.constant {value = dense<3.0e38> : tensor<f32>} : tensor<f32>
  %b = tenon.multiply %a, %a : tensor<f32>, tensor<f32> -> tensor<f32>
  %c = tenon.isinf %b : tensor<f32> -> tensor<i1>
  func.return %c : tensor<i1>
}
// CHECK-LABEL: @overflow
// CHECK-NEXT:    %c = tenon.constant {value = dense<true> : tensor<i1>}

func.func @reshape_meets_reduction(%x: tensor<4x3xf32>) -> tensor<4x1xf32> {
  %n = tenon.constant {value = dense<3.0> : tensor<f32>} : tensor<f32>
  %s = tenon.sum %x {axis = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  %m = tenon.divide %s, %n : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %r = tenon.reshape %m {shape = [4, 1]} : tensor<4xf32> -> tensor<4x1xf32>
  func.return %r : tensor<4x1xf32>
}
// CHECK-LABEL: @reshape_meets_reduction
// CHECK:         tenon.sum %x {axis = [1], keepdims = true}
// CHECK-NEXT:    tenon.divide
// CHECK-NEXT:    func.return

func.func @known_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %r = tenon.cond %true -> (tensor<4xf32>) {
    %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @known_branch
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    func.return %a

// What follows a contraction runs over its loops, and a reshape behind both: operands of the same shape and those that
// are broadcast along all of the dimensions that the reshape makes of one, are reshaped instead, which is free.
func.func @behind_contraction(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<8x1x1xf32>, %r: tensor<8x2x3xf32>) -> tensor<8x2x3xf32> {
  %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %i = tenon.reshape %c {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %s = tenon.add %i, %b : tensor<8x2x3xf32>, tensor<8x1x1xf32> -> tensor<8x2x3xf32>
  %y = tenon.add %s, %r : tensor<8x2x3xf32>, tensor<8x2x3xf32> -> tensor<8x2x3xf32>
  func.return %y : tensor<8x2x3xf32>
}
// CHECK-LABEL: @behind_contraction
// CHECK-NEXT:    %c = tenon.matmul
// CHECK-NEXT:    [[B:%.*]] = tenon.reshape %b {shape = [8, 1]}
// CHECK-NEXT:    [[S:%.*]] = tenon.add %c, [[B]] : tensor<8x6xf32>, tensor<8x1xf32>
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape %r {shape = [8, 6]}
// CHECK-NEXT:    [[T:%.*]] = tenon.add [[S]], [[R]] : tensor<8x6xf32>, tensor<8x6xf32>
// CHECK-NEXT:    {{.*}} = tenon.reshape [[T]] {shape = [8, 2, 3]}

// Not where an operand is broadcast along a part of them.
func.func @broadcast_along_a_part(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<2x1xf32>) -> tensor<8x2x3xf32> {
  %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %i = tenon.reshape %c {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %y = tenon.add %i, %b : tensor<8x2x3xf32>, tensor<2x1xf32> -> tensor<8x2x3xf32>
  func.return %y : tensor<8x2x3xf32>
}
// CHECK-LABEL: @broadcast_along_a_part
// CHECK:         %y = tenon.add %i, %b

// The weights of rows are divided by their sums behind the product that adds them up, which has fewer elements.
func.func @normalized_rows_are_divided_late(%z: tensor<4x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %m = tenon.max %z {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %d = tenon.subtract %z, %m : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %e = tenon.exp %d : tensor<4x16xf32> -> tensor<4x16xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %p = tenon.divide %e, %s : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %o = tenon.matmul %p, %v : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @normalized_rows_are_divided_late
// CHECK:         %e = tenon.exp
// CHECK:         %s = tenon.sum %e
// CHECK-NEXT:    %{{.*}} = tenon.matmul %e, %v
// CHECK-NEXT:    %{{.*}} = tenon.divide %{{.*}}, %s : tensor<4x8xf32>, tensor<4x1xf32>

// Columns that are summed to one do not go along with rows of the result, other divisors may be too large or too small,
// and a result that has more elements stays undivided.
func.func @other_quotients_stay(%z: tensor<4x4xf32>, %v: tensor<4x2xf32>, %w: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x8xf32>) {
  %m = tenon.max %z {axis = [0], keepdims = true} : tensor<4x4xf32> -> tensor<1x4xf32>
  %d = tenon.subtract %z, %m : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  %e = tenon.exp %d : tensor<4x4xf32> -> tensor<4x4xf32>
  %s = tenon.sum %e {axis = [0], keepdims = true} : tensor<4x4xf32> -> tensor<1x4xf32>
  %p = tenon.divide %e, %s : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  %o = tenon.matmul %p, %v : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %t = tenon.sum %z {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %q = tenon.divide %z, %t : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %r = tenon.matmul %q, %v : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %n = tenon.max %z {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %f = tenon.subtract %z, %n : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %g = tenon.exp %f : tensor<4x4xf32> -> tensor<4x4xf32>
  %u = tenon.sum %g {axis = [1], keepdims = true} : tensor<4x4xf32> -> tensor<4x1xf32>
  %h = tenon.divide %g, %u : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %x = tenon.matmul %h, %w : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %o, %r, %x : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x8xf32>
}
// CHECK-LABEL: @other_quotients_stay
// CHECK:         tenon.matmul %p, %v
// CHECK:         tenon.matmul %q, %v
// CHECK:         tenon.matmul %h, %w

// Next to the largest number of all rows, those of one may be so small that products with them are 0.
func.func @quotients_of_small_rows_stay(%z: tensor<4x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %m = tenon.max %z {keepdims = true} : tensor<4x16xf32> -> tensor<1x1xf32>
  %d = tenon.subtract %z, %m : tensor<4x16xf32>, tensor<1x1xf32> -> tensor<4x16xf32>
  %e = tenon.exp %d : tensor<4x16xf32> -> tensor<4x16xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<4x16xf32> -> tensor<4x1xf32>
  %p = tenon.divide %e, %s : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
  %o = tenon.matmul %p, %v : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  func.return %o : tensor<4x8xf32>
}
// CHECK-LABEL: @quotients_of_small_rows_stay
// CHECK:         tenon.matmul %p, %v
