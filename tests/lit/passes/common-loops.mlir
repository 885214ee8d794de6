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
// CHECK-NEXT:    [[G:%.*]] = tenon.reshape %x {shape = [16, 8, 8, 56, 56]}
// CHECK-NEXT:    [[S:%.*]] = tenon.sum [[G]] {axis = [2, 3, 4], keepdims = true} : tensor<16x8x8x56x56xf32> -> tensor<16x8x1x1x1xf32>
// CHECK-NEXT:    [[D:%.*]] = tenon.divide [[G]], [[S]]
// CHECK-NEXT:    [[C:%.*]] = tenon.reshape %w {shape = [1, 8, 8, 1, 1]}
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
