// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// reshape(x) -> x, broadcast_to(x) -> x, slice(x) -> x and flip(x) -> x, where they leave x as it is
func.func @same_shape(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = tenon.reshape %x {shape = [2, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %b = tenon.broadcast_to %a {shape = [2, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %c = tenon.slice %b {starts = [0, 0], limits = [2, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}
// CHECK-LABEL: @same_shape
// CHECK-NEXT:    func.return %x

// -----

// So does a flip of axes of size 1.
func.func @flip_of_ones(%x: tensor<2x1x1xf32>) -> (tensor<2x1x1xf32>, tensor<2x1x1xf32>) {
  %a = tenon.flip %x {axis = [1, 2]} : tensor<2x1x1xf32> -> tensor<2x1x1xf32>
  %b = tenon.flip %x {axis = [0, 1]} : tensor<2x1x1xf32> -> tensor<2x1x1xf32>
  func.return %a, %b : tensor<2x1x1xf32>, tensor<2x1x1xf32>
}
// CHECK-LABEL: @flip_of_ones
// CHECK-NEXT:    %b = tenon.flip %x
// CHECK-NEXT:    func.return %x, %b

// -----

// A slice that runs backwards keeps the shape, but not the order.
func.func @same_shape_in_reverse(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = tenon.slice %x {starts = [2], limits = [-1], strides = [-1]} : tensor<3xf32> -> tensor<3xf32>
  func.return %c : tensor<3xf32>
}
// CHECK-LABEL: @same_shape_in_reverse
// CHECK-NEXT:    %c = tenon.slice %x {starts = [2], limits = [-1], strides = [-1]}
// CHECK-NEXT:    func.return %c

// -----

// slice(pad(x)) -> pad(x), by less, or slice(x), where elementwise ops use a range of what is padded with a number
func.func @slice_of_padded(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %p = tenon.pad %x {low = [1, 1], high = [1, 1]} : tensor<8x8xf32> -> tensor<10x10xf32>
  %l = tenon.slice %p {starts = [1, 0], limits = [9, 8]} : tensor<10x10xf32> -> tensor<8x8xf32>
  %c = tenon.slice %p {starts = [2, 1], limits = [9, 8]} : tensor<10x10xf32> -> tensor<7x7xf32>
  %e = tenon.exp %c : tensor<7x7xf32> -> tensor<7x7xf32>
  %q = tenon.pad %e {low = [0, 0], high = [1, 1]} : tensor<7x7xf32> -> tensor<8x8xf32>
  %r = tenon.add %l, %q : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  func.return %r : tensor<8x8xf32>
}
// CHECK-LABEL: @slice_of_padded
// CHECK-NEXT:    %l = tenon.pad %x {low = [0, 1], high = [0, -1]} : tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK-NEXT:    %c = tenon.slice %x {starts = [1, 0], limits = [8, 7]}
// CHECK-NEXT:    %e = tenon.exp %c

// -----

// A range of the padding alone has nothing of x, and others than elementwise ops may want it in memory.
func.func @slice_of_padding(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<9xf32>) {
  %p = tenon.pad %x {low = [2], high = [2]} : tensor<8xf32> -> tensor<12xf32>
  %a = tenon.slice %p {starts = [0], limits = [2]} : tensor<12xf32> -> tensor<2xf32>
  %e = tenon.exp %a : tensor<2xf32> -> tensor<2xf32>
  %b = tenon.slice %p {starts = [0], limits = [9]} : tensor<12xf32> -> tensor<9xf32>
  func.return %e, %b : tensor<2xf32>, tensor<9xf32>
}
// CHECK-LABEL: @slice_of_padding
// CHECK-NEXT:    %p = tenon.pad
// CHECK-NEXT:    %a = tenon.slice %p
// CHECK-NEXT:    %e = tenon.exp
// CHECK-NEXT:    %b = tenon.slice %p

// -----

// reshape(reshape(x)) -> reshape(x)
func.func @reshape_of_reshape(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  %a = tenon.reshape %x {shape = [12]} : tensor<2x6xf32> -> tensor<12xf32>
  %b = tenon.reshape %a {shape = [4, 3]} : tensor<12xf32> -> tensor<4x3xf32>
  func.return %b : tensor<4x3xf32>
}
// CHECK-LABEL: @reshape_of_reshape
// CHECK-NEXT:    %b = tenon.reshape %x {shape = [4, 3]}
// CHECK-NEXT:    func.return %b

// -----

// broadcast_to(broadcast_to(x)) -> broadcast_to(x)
func.func @broadcast_of_broadcast(%x: tensor<3xf32>) -> tensor<4x2x3xf32> {
  %a = tenon.broadcast_to %x {shape = [2, 3]} : tensor<3xf32> -> tensor<2x3xf32>
  %b = tenon.broadcast_to %a {shape = [4, 2, 3]} : tensor<2x3xf32> -> tensor<4x2x3xf32>
  func.return %b : tensor<4x2x3xf32>
}
// CHECK-LABEL: @broadcast_of_broadcast
// CHECK-NEXT:    %b = tenon.broadcast_to %x {shape = [4, 2, 3]}
// CHECK-NEXT:    func.return %b

// -----

// Rows and columns that are repeated one after the other are repeated at once.
func.func @broadcast_of_reshaped(%x: tensor<5x4xf32>) -> tensor<10x12xf32> {
  %a = tenon.reshape %x {shape = [5, 1, 4]} : tensor<5x4xf32> -> tensor<5x1x4xf32>
  %b = tenon.broadcast_to %a {shape = [5, 2, 4]} : tensor<5x1x4xf32> -> tensor<5x2x4xf32>
  %c = tenon.reshape %b {shape = [10, 4, 1]} : tensor<5x2x4xf32> -> tensor<10x4x1xf32>
  %d = tenon.broadcast_to %c {shape = [10, 4, 3]} : tensor<10x4x1xf32> -> tensor<10x4x3xf32>
  %e = tenon.reshape %d {shape = [10, 12]} : tensor<10x4x3xf32> -> tensor<10x12xf32>
  func.return %e : tensor<10x12xf32>
}
// CHECK-LABEL: @broadcast_of_reshaped
// CHECK-NEXT:    [[A:%.*]] = tenon.reshape %x {shape = [5, 1, 4, 1]}
// CHECK-NEXT:    [[B:%.*]] = tenon.broadcast_to [[A]] {shape = [5, 2, 4, 3]}
// CHECK-NEXT:    %e = tenon.reshape [[B]] {shape = [10, 12]}
// CHECK-NEXT:    func.return %e

// -----

// Not where elementwise ops repeat by themselves.
func.func @broadcast_of_reshaped_is_implied(%x: tensor<5x4xf32>, %y: tensor<10x4x3xf32>) -> tensor<10x4x3xf32> {
  %a = tenon.reshape %x {shape = [5, 1, 4]} : tensor<5x4xf32> -> tensor<5x1x4xf32>
  %b = tenon.broadcast_to %a {shape = [5, 2, 4]} : tensor<5x1x4xf32> -> tensor<5x2x4xf32>
  %c = tenon.reshape %b {shape = [10, 4, 1]} : tensor<5x2x4xf32> -> tensor<10x4x1xf32>
  %d = tenon.broadcast_to %c {shape = [10, 4, 3]} : tensor<10x4x1xf32> -> tensor<10x4x3xf32>
  %e = tenon.add %d, %y : tensor<10x4x3xf32>, tensor<10x4x3xf32> -> tensor<10x4x3xf32>
  func.return %e : tensor<10x4x3xf32>
}
// CHECK-LABEL: @broadcast_of_reshaped_is_implied
// CHECK:         %e = tenon.add %c, %y

// -----

// transpose(x) -> x, where the order of the axes stays
func.func @identity_transpose(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %t = tenon.transpose %x {permutation = [0, 1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %t : tensor<2x3xf32>
}
// CHECK-LABEL: @identity_transpose
// CHECK-NEXT:    func.return %x

// -----

// transpose(transpose(x)) -> transpose(x)
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %t = tenon.transpose %x {permutation = [1, 2, 0]} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %u = tenon.transpose %t {permutation = [1, 2, 0]} : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  func.return %u : tensor<4x2x3xf32>
}
// CHECK-LABEL: @transpose_of_transpose
// CHECK-NEXT:    %u = tenon.transpose %x {permutation = [2, 0, 1]}
// CHECK-NEXT:    func.return %u

// -----

// Two that cancel are none.
func.func @transpose_of_transpose_that_cancel(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<2x3xf32> -> tensor<3x2xf32>
  %u = tenon.transpose %t {permutation = [1, 0]} : tensor<3x2xf32> -> tensor<2x3xf32>
  func.return %u : tensor<2x3xf32>
}
// CHECK-LABEL: @transpose_of_transpose_that_cancel
// CHECK-NEXT:    func.return %x

// -----

// reshape(sum(x)) -> sum(x, keepdims)
func.func @keep_reduced_dimensions(%x: tensor<4x3xf32>) -> tensor<4x1xf32> {
  %s = tenon.sum %x {axis = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  %r = tenon.reshape %s {shape = [4, 1]} : tensor<4xf32> -> tensor<4x1xf32>
  func.return %r : tensor<4x1xf32>
}
// CHECK-LABEL: @keep_reduced_dimensions
// CHECK-NEXT:    %r = tenon.sum %x {axis = [1], keepdims = true}
// CHECK-NEXT:    func.return %r

// -----

// reshape(f(x)) -> f(reshape(x)): the reshape meets the reduction.
func.func @reshape_before_elementwise(%x: tensor<4x3xf32>) -> tensor<4x1xf32> {
  %n = tenon.constant {value = dense<3.0> : tensor<f32>} : tensor<f32>
  %s = tenon.sum %x {axis = [1]} : tensor<4x3xf32> -> tensor<4xf32>
  %m = tenon.divide %s, %n : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %r = tenon.reshape %m {shape = [4, 1]} : tensor<4xf32> -> tensor<4x1xf32>
  func.return %r : tensor<4x1xf32>
}
// CHECK-LABEL: @reshape_before_elementwise
// CHECK-NEXT:    %n = tenon.constant {value = dense<3.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %r = tenon.sum %x {axis = [1], keepdims = true}
// CHECK-NEXT:    %r_1 = tenon.divide %r, %n
// CHECK-NEXT:    func.return %r_1

// -----

// sum(x) -> reshape(x), where each element is alone
func.func @reduce_nothing(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  %s = tenon.sum %x {axis = [1]} : tensor<4x1xf32> -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}
// CHECK-LABEL: @reduce_nothing
// CHECK-NEXT:    %s = tenon.reshape %x {shape = [4]}
// CHECK-NEXT:    func.return %s

// -----

// f(broadcast_to(x), y) -> f(x, y), where y gives the shape
func.func @broadcast_is_implied(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %b = tenon.broadcast_to %x {shape = [2, 3]} : tensor<3xf32> -> tensor<2x3xf32>
  %z = tenon.add %b, %y : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
// CHECK-LABEL: @broadcast_is_implied
// CHECK-NEXT:    %z = tenon.add %x, %y
// CHECK-NEXT:    func.return %z

// -----

// A repeated constant becomes a scalar.
func.func @broadcast_is_implied_by_constants(%y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %b = tenon.constant {value = dense<7.0> : tensor<2x3xf32>} : tensor<2x3xf32>
  %z = tenon.add %y, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
// CHECK-LABEL: @broadcast_is_implied_by_constants
// CHECK-NEXT:    %0 = tenon.constant {value = dense<7.000000e+00> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:    %z = tenon.add %y, %0
// CHECK-NEXT:    func.return %z

// -----

// Behind a contraction, the reshape comes last: what is added runs over the contraction's loops. A reshape of %r is free.
func.func @elementwise_before_reshape(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %r: tensor<8x2x3xf32>) -> tensor<8x2x3xf32> {
  %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %i = tenon.reshape %c {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %y = tenon.add %i, %r : tensor<8x2x3xf32>, tensor<8x2x3xf32> -> tensor<8x2x3xf32>
  func.return %y : tensor<8x2x3xf32>
}
// CHECK-LABEL: @elementwise_before_reshape
// CHECK-NEXT:    %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %y = tenon.reshape %r {shape = [8, 6]} : tensor<8x2x3xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %y_1 = tenon.add %c, %y : tensor<8x6xf32>, tensor<8x6xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %y_2 = tenon.reshape %y_1 {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
// CHECK-NEXT:    func.return %y_2 : tensor<8x2x3xf32>

// -----

// So for what follows it, and where %b is broadcast along all of the dimensions that the reshape makes of one.
func.func @elementwise_before_reshape_with_a_bias(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<8x1x1xf32>) -> tensor<8x2x3xf32> {
  %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %i = tenon.reshape %c {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %s = tenon.add %i, %b : tensor<8x2x3xf32>, tensor<8x1x1xf32> -> tensor<8x2x3xf32>
  %t = tenon.tanh %s : tensor<8x2x3xf32> -> tensor<8x2x3xf32>
  func.return %t : tensor<8x2x3xf32>
}
// CHECK-LABEL: @elementwise_before_reshape_with_a_bias
// CHECK-NEXT:    %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %s = tenon.reshape %b {shape = [8, 1]} : tensor<8x1x1xf32> -> tensor<8x1xf32>
// CHECK-NEXT:    %s_1 = tenon.add %c, %s : tensor<8x6xf32>, tensor<8x1xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %t = tenon.tanh %s_1 : tensor<8x6xf32> -> tensor<8x6xf32>
// CHECK-NEXT:    %t_1 = tenon.reshape %t {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
// CHECK-NEXT:    func.return %t_1 : tensor<8x2x3xf32>

// -----

// Not where an operand is broadcast along a part of them.
func.func @elementwise_before_reshape_not_along_a_part(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<2x1xf32>) -> tensor<8x2x3xf32> {
  %c = tenon.matmul %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %i = tenon.reshape %c {shape = [8, 2, 3]} : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %y = tenon.add %i, %b : tensor<8x2x3xf32>, tensor<2x1xf32> -> tensor<8x2x3xf32>
  func.return %y : tensor<8x2x3xf32>
}
// CHECK-LABEL: @elementwise_before_reshape_not_along_a_part
// CHECK:         %i = tenon.reshape %c {shape = [8, 2, 3]}
// CHECK-NEXT:    %y = tenon.add %i, %b

// -----

// pad(x) -> x, where nothing is added or cut off
func.func @pad_by_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %p = tenon.pad %x {low = [0, 0], high = [0, 0]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %p : tensor<2x3xf32>
}
// CHECK-LABEL: @pad_by_nothing
// CHECK-NEXT:    func.return %x

// -----

// concatenate([x]) -> x
func.func @concatenate_one(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = tenon.concatenate [%x] {axis = 1} : [tensor<2x3xf32>] -> tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}
// CHECK-LABEL: @concatenate_one
// CHECK-NEXT:    func.return %x

// -----

// Elements beside each other, each added to zeros of the others, are one tensor behind the other. A gap, an overlap, or
// what is put there in place of 0 makes another sum.
func.func @sum_of_pads(%x: tensor<2x3xf32>, %y: tensor<2x2xf32>, %z: tensor<2x4xf32>) -> (tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x5xf32>) {
  %a = tenon.pad %y {low = [0, 3], high = [0, 4]} : tensor<2x2xf32> -> tensor<2x9xf32>
  %b = tenon.pad %x {low = [0, 0], high = [0, 6]} : tensor<2x3xf32> -> tensor<2x9xf32>
  %c = tenon.pad %z {low = [0, 5], high = [0, 0]} : tensor<2x4xf32> -> tensor<2x9xf32>
  %d = tenon.add %a, %b : tensor<2x9xf32>, tensor<2x9xf32> -> tensor<2x9xf32>
  %e = tenon.add %d, %c : tensor<2x9xf32>, tensor<2x9xf32> -> tensor<2x9xf32>
  %f = tenon.add %b, %c : tensor<2x9xf32>, tensor<2x9xf32> -> tensor<2x9xf32>
  %g = tenon.pad %x {low = [0, 0], high = [0, 2], value = 1.0} : tensor<2x3xf32> -> tensor<2x5xf32>
  %h = tenon.pad %y {low = [0, 3], high = [0, 0]} : tensor<2x2xf32> -> tensor<2x5xf32>
  %i = tenon.add %g, %h : tensor<2x5xf32>, tensor<2x5xf32> -> tensor<2x5xf32>
  func.return %e, %f, %i : tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x5xf32>
}
// CHECK-LABEL: @sum_of_pads
// CHECK:         [[E:%.*]] = tenon.concatenate [%x, %y, %z] {axis = 1}
// CHECK-NEXT:    [[F:%.*]] = tenon.add %b, %c
// CHECK:         [[I:%.*]] = tenon.add %g, %h
// CHECK-NEXT:    func.return [[E]], [[F]], [[I]]
