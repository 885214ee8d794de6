// RUN: tenon-opt %s --split-input-file -p common-loops | filecheck %s

// Both sides of the reshape run over the dimensions that either is made of, and only what others use is reshaped.
func.func @group_norm(%x: tensor<16x64x56x56xf32>, %w: tensor<64xf32>) -> tensor<16x64x56x56xf32> {
  %g = tenon.reshape %x {shape = [16, 8, 25088]} : tensor<16x64x56x56xf32> -> tensor<16x8x25088xf32>
  %s = tenon.sum %g {axis = [-1], keepdims = true} : tensor<16x8x25088xf32> -> tensor<16x8x1xf32>
  %d = tenon.divide %g, %s : tensor<16x8x25088xf32>, tensor<16x8x1xf32> -> tensor<16x8x25088xf32>
  %r = tenon.reshape %d {shape = [16, 64, 56, 56]} : tensor<16x8x25088xf32> -> tensor<16x64x56x56xf32>
  %c = tenon.reshape %w {shape = [1, 64, 1, 1]} : tensor<64xf32> -> tensor<1x64x1x1xf32>
  %y = tenon.multiply %r, %c : tensor<16x64x56x56xf32>, tensor<1x64x1x1xf32> -> tensor<16x64x56x56xf32>
  func.return %y : tensor<16x64x56x56xf32>
}
// CHECK-LABEL: @group_norm
// CHECK-NEXT:    [[C:%.*]] = tenon.reshape %w {shape = [1, 8, 8, 1, 1]}
// CHECK-NEXT:    [[G:%.*]] = tenon.reshape %x {shape = [16, 8, 8, 56, 56]}
// CHECK-NEXT:    [[S:%.*]] = tenon.sum [[G]] {axis = [2, 3, 4], keepdims = true} : tensor<16x8x8x56x56xf32> -> tensor<16x8x1x1x1xf32>
// CHECK-NEXT:    [[D:%.*]] = tenon.divide [[G]], [[S]]
// CHECK-NEXT:    [[Y:%.*]] = tenon.multiply [[D]], [[C]] : tensor<16x8x8x56x56xf32>, tensor<1x8x8x1x1xf32>
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape [[Y]] {shape = [16, 64, 56, 56]}
// CHECK-NEXT:    func.return [[R]]

// -----

// Merged dimensions are those that they were merged of; what runs over these already stays.
func.func @merged(%x: tensor<16x64x3136xf32>) -> tensor<1024xf32> {
  %a = tenon.exp %x : tensor<16x64x3136xf32> -> tensor<16x64x3136xf32>
  %r = tenon.reshape %a {shape = [1024, 3136]} : tensor<16x64x3136xf32> -> tensor<1024x3136xf32>
  %s = tenon.sum %r {axis = [1]} : tensor<1024x3136xf32> -> tensor<1024xf32>
  func.return %s : tensor<1024xf32>
}
// CHECK-LABEL: @merged
// CHECK-NEXT:    [[A:%.*]] = tenon.exp %x
// CHECK-NEXT:    [[S:%.*]] = tenon.sum [[A]] {axis = [2]} : tensor<16x64x3136xf32> -> tensor<16x64xf32>
// CHECK-NEXT:    tenon.reshape [[S]] {shape = [1024]}

// -----

// Parts of 6x4 that are parts of 4x6 as well would not be in the order of memory.
func.func @neither_split_nor_merged(%x: tensor<6x4x100xf32>) -> tensor<4x6x100xf32> {
  %a = tenon.exp %x : tensor<6x4x100xf32> -> tensor<6x4x100xf32>
  %r = tenon.reshape %a {shape = [4, 6, 100]} : tensor<6x4x100xf32> -> tensor<4x6x100xf32>
  %b = tenon.exp %r : tensor<4x6x100xf32> -> tensor<4x6x100xf32>
  func.return %b : tensor<4x6x100xf32>
}
// CHECK-LABEL: @neither_split_nor_merged
// CHECK-NEXT:    [[A:%.*]] = tenon.exp %x
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape [[A]]
// CHECK-NEXT:    tenon.exp [[R]]

// -----

// An activation can be computed where the product is, over its loops.
func.func @the_loops_of_a_contraction_stay(%x: tensor<64x32xf32>, %y: tensor<32x96xf32>) -> tensor<4x16x96xf32> {
  %p = tenon.matmul %x, %y : tensor<64x32xf32>, tensor<32x96xf32> -> tensor<64x96xf32>
  %a = tenon.exp %p : tensor<64x96xf32> -> tensor<64x96xf32>
  %r = tenon.reshape %a {shape = [4, 16, 96]} : tensor<64x96xf32> -> tensor<4x16x96xf32>
  %b = tenon.exp %r : tensor<4x16x96xf32> -> tensor<4x16x96xf32>
  func.return %b : tensor<4x16x96xf32>
}
// CHECK-LABEL: @the_loops_of_a_contraction_stay
// CHECK:         tenon.exp %p : tensor<64x96xf32>
// CHECK:         tenon.exp %r : tensor<4x16x96xf32>

// -----

// Rows of two elements leave vectors empty,
func.func @short_rows(%x: tensor<16x28x28x1xf32>) -> tensor<16x28x56xf32> {
  %c = tenon.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  %a = tenon.multiply %x, %c : tensor<16x28x28x1xf32>, tensor<2xf32> -> tensor<16x28x28x2xf32>
  %r = tenon.reshape %a {shape = [16, 28, 56]} : tensor<16x28x28x2xf32> -> tensor<16x28x56xf32>
  %b = tenon.exp %r : tensor<16x28x56xf32> -> tensor<16x28x56xf32>
  func.return %b : tensor<16x28x56xf32>
}
// CHECK-LABEL: @short_rows
// CHECK:         tenon.exp %r : tensor<16x28x56xf32>

// -----

// but where these are combined.
func.func @short_rows_are_combined(%x: tensor<16x28x56xf32>) -> tensor<16x28x28xf32> {
  %a = tenon.exp %x : tensor<16x28x56xf32> -> tensor<16x28x56xf32>
  %r = tenon.reshape %a {shape = [16, 28, 28, 2]} : tensor<16x28x56xf32> -> tensor<16x28x28x2xf32>
  %s = tenon.sum %r {axis = [3]} : tensor<16x28x28x2xf32> -> tensor<16x28x28xf32>
  func.return %s : tensor<16x28x28xf32>
}
// CHECK-LABEL: @short_rows_are_combined
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape %x {shape = [16, 28, 28, 2]}
// CHECK-NEXT:    [[A:%.*]] = tenon.exp [[R]]
// CHECK-NEXT:    tenon.sum [[A]] {axis = [3]}

// -----

// With a dimension of size 1 more it stays a reshape.
func.func @a_dimension_more(%x: tensor<16x7x4x96xf32>, %y: tensor<16x28x96x32xf32>) -> tensor<16x28x96x32xf32> {
  %a = tenon.exp %x : tensor<16x7x4x96xf32> -> tensor<16x7x4x96xf32>
  %r = tenon.reshape %a {shape = [16, 28, 96, 1]} : tensor<16x7x4x96xf32> -> tensor<16x28x96x1xf32>
  %b = tenon.multiply %r, %y : tensor<16x28x96x1xf32>, tensor<16x28x96x32xf32> -> tensor<16x28x96x32xf32>
  func.return %b : tensor<16x28x96x32xf32>
}
// CHECK-LABEL: @a_dimension_more
// CHECK:         tenon.multiply %r, %y

// -----

// A slice has a dimension of size 1 where it was cut, and what is stacked has another one: what is computed between them has it, too.
func.func @columns(%x: tensor<2000x2xf32>, %n: tensor<2000xf32>) -> tensor<2000x2xf32> {
  %a = tenon.slice %x {starts = [0, 0], limits = [2000, 1]} : tensor<2000x2xf32> -> tensor<2000x1xf32>
  %s = tenon.reshape %a {shape = [2000]} : tensor<2000x1xf32> -> tensor<2000xf32>
  %p = tenon.multiply %s, %n : tensor<2000xf32>, tensor<2000xf32> -> tensor<2000xf32>
  %e = tenon.exp %p : tensor<2000xf32> -> tensor<2000xf32>
  %f = tenon.reshape %e {shape = [2000, 1]} : tensor<2000xf32> -> tensor<2000x1xf32>
  %g = tenon.reshape %n {shape = [2000, 1]} : tensor<2000xf32> -> tensor<2000x1xf32>
  %c = tenon.concatenate [%f, %g] {axis = 1} : [tensor<2000x1xf32>, tensor<2000x1xf32>] -> tensor<2000x2xf32>
  func.return %c : tensor<2000x2xf32>
}
// CHECK-LABEL: @columns
// CHECK-NEXT:    [[N:%.*]] = tenon.reshape %n {shape = [2000, 1]}
// CHECK-NEXT:    %a = tenon.slice %x
// CHECK-NEXT:    %p = tenon.multiply %a, [[N]]
// CHECK-NEXT:    %e = tenon.exp %p
// CHECK-NEXT:    tenon.concatenate [%e, [[N]]]

// -----

// So have slices along other dimensions, and what they cut.
func.func @steps(%x: tensor<2000xf32>, %y: tensor<1000x1xf32>) -> tensor<1000x2xf32> {
  %a = tenon.slice %x {starts = [1], limits = [2000], strides = [2]} : tensor<2000xf32> -> tensor<1000xf32>
  %e = tenon.exp %a : tensor<1000xf32> -> tensor<1000xf32>
  %f = tenon.reshape %e {shape = [1000, 1]} : tensor<1000xf32> -> tensor<1000x1xf32>
  %c = tenon.concatenate [%f, %y] {axis = 1} : [tensor<1000x1xf32>, tensor<1000x1xf32>] -> tensor<1000x2xf32>
  func.return %c : tensor<1000x2xf32>
}
// CHECK-LABEL: @steps
// CHECK-NEXT:    [[X:%.*]] = tenon.reshape %x {shape = [2000, 1]}
// CHECK-NEXT:    %a = tenon.slice [[X]] {starts = [1, 0], limits = [2000, 1], strides = [2, 1]}
// CHECK-NEXT:    %e = tenon.exp %a
// CHECK-NEXT:    tenon.concatenate [%e, %y]

// -----

// So has what computes that.
func.func @computed_steps(%x: tensor<4000xf32>) -> tensor<2000x2xf32> {
  %y = tenon.exp %x : tensor<4000xf32> -> tensor<4000xf32>
  %a = tenon.slice %y {starts = [0], limits = [4000], strides = [2]} : tensor<4000xf32> -> tensor<2000xf32>
  %b = tenon.slice %y {starts = [1], limits = [4000], strides = [2]} : tensor<4000xf32> -> tensor<2000xf32>
  %n = tenon.negative %b : tensor<2000xf32> -> tensor<2000xf32>
  %r = tenon.reshape %n {shape = [2000, 1]} : tensor<2000xf32> -> tensor<2000x1xf32>
  %t = tenon.reshape %a {shape = [2000, 1]} : tensor<2000xf32> -> tensor<2000x1xf32>
  %c = tenon.concatenate [%r, %t] {axis = 1} : [tensor<2000x1xf32>, tensor<2000x1xf32>] -> tensor<2000x2xf32>
  func.return %c : tensor<2000x2xf32>
}
// CHECK-LABEL: @computed_steps
// CHECK:         %y = tenon.exp {{.*}} : tensor<4000x1xf32>
// CHECK-NEXT:    %a = tenon.slice %y
// CHECK-NEXT:    %b = tenon.slice %y
// CHECK-NEXT:    %n = tenon.negative %b
// CHECK-NEXT:    tenon.concatenate [%n, %a]

// -----

// What is done to each element of columns side by side, seen as longer rows, runs over the columns,
func.func @side_by_side(%a: tensor<2000x32x1xf32>, %b: tensor<2000x32x1xf32>) -> tensor<2000x64xbf16> {
  %c = tenon.concatenate [%a, %b] {axis = 2} : [tensor<2000x32x1xf32>, tensor<2000x32x1xf32>] -> tensor<2000x32x2xf32>
  %r = tenon.reshape %c {shape = [2000, 64]} : tensor<2000x32x2xf32> -> tensor<2000x64xf32>
  %e = tenon.cast %r {dtype = bf16} : tensor<2000x64xf32> -> tensor<2000x64xbf16>
  func.return %e : tensor<2000x64xbf16>
}
// CHECK-LABEL: @side_by_side
// CHECK:         tenon.cast %c {dtype = bf16} : tensor<2000x32x2xf32>

// -----

// but not where some of these elements are combined.
func.func @side_by_side_and_summed(%a: tensor<2000x32x1xf32>, %b: tensor<2000x32x1xf32>) -> tensor<64xf32> {
  %c = tenon.concatenate [%a, %b] {axis = 2} : [tensor<2000x32x1xf32>, tensor<2000x32x1xf32>] -> tensor<2000x32x2xf32>
  %r = tenon.reshape %c {shape = [2000, 64]} : tensor<2000x32x2xf32> -> tensor<2000x64xf32>
  %e = tenon.exp %r : tensor<2000x64xf32> -> tensor<2000x64xf32>
  %s = tenon.sum %e {axis = [0]} : tensor<2000x64xf32> -> tensor<64xf32>
  func.return %s : tensor<64xf32>
}
// CHECK-LABEL: @side_by_side_and_summed
// CHECK:         tenon.exp %r : tensor<2000x64xf32>

// -----

// A reduction sums the dimensions of size 1 as well.
func.func @sum_of_a_column(%x: tensor<40x50x3xf32>) -> tensor<40xf32> {
  %a = tenon.slice %x {starts = [0, 0, 1], limits = [40, 50, 2]} : tensor<40x50x3xf32> -> tensor<40x50x1xf32>
  %s = tenon.reshape %a {shape = [40, 50]} : tensor<40x50x1xf32> -> tensor<40x50xf32>
  %e = tenon.exp %s : tensor<40x50xf32> -> tensor<40x50xf32>
  %r = tenon.sum %e {axis = [1]} : tensor<40x50xf32> -> tensor<40xf32>
  func.return %r : tensor<40xf32>
}
// CHECK-LABEL: @sum_of_a_column
// CHECK-NEXT:    %a = tenon.slice %x
// CHECK-NEXT:    %e = tenon.exp %a
// CHECK-NEXT:    %r = tenon.sum %e {axis = [1, 2]}

// -----

// Two neighbours have the value without the dimension, one with it.
func.func @as_most_have_it(%x: tensor<2000x2xf32>, %y: tensor<8x2000xf32>) -> (tensor<2000xf32>, tensor<2000x3xf32>) {
  %m = tenon.sum %y {axis = [0]} : tensor<8x2000xf32> -> tensor<2000xf32>
  %e = tenon.exp %m : tensor<2000xf32> -> tensor<2000xf32>
  %s = tenon.cumsum %e {axis = 0} : tensor<2000xf32> -> tensor<2000xf32>
  %f = tenon.reshape %e {shape = [2000, 1]} : tensor<2000xf32> -> tensor<2000x1xf32>
  %c = tenon.concatenate [%f, %x] {axis = 1} : [tensor<2000x1xf32>, tensor<2000x2xf32>] -> tensor<2000x3xf32>
  func.return %s, %c : tensor<2000xf32>, tensor<2000x3xf32>
}
// CHECK-LABEL: @as_most_have_it
// CHECK:         %e = tenon.exp %m : tensor<2000xf32> -> tensor<2000xf32>

// -----

// A constant has the dimensions that it has.
func.func @sum_of_a_constant(%x: tensor<2x1xf32>) -> tensor<2xf32> {
  %c = tenon.constant {value = dense<[[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]]> : tensor<2x3xf32>} : tensor<2x3xf32>
  %s = tenon.sum %c {axis = [1]} : tensor<2x3xf32> -> tensor<2xf32>
  %r = tenon.reshape %x {shape = [2]} : tensor<2x1xf32> -> tensor<2xf32>
  %y = tenon.add %s, %r : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
// CHECK-LABEL: @sum_of_a_constant
// CHECK:         tenon.add %s, %r : tensor<2xf32>
