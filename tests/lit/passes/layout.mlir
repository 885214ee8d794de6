// RUN: tenon-opt %s --split-input-file -p layout | filecheck %s

// matmul(transpose(x), transpose(w)) -> contract(x, w), with other index maps
func.func @transpose_into_contraction(%x: tensor<5x4xf32>, %w: tensor<6x5xf32>) -> tensor<4x6xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<5x4xf32> -> tensor<4x5xf32>
  %u = tenon.transpose %w {permutation = [1, 0]} : tensor<6x5xf32> -> tensor<5x6xf32>
  %y = tenon.matmul %t, %u : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}
// CHECK-LABEL: @transpose_into_contraction
// CHECK-NEXT:    %y = tenon.contract [%x, %w] {maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], extents = [4, 6, 5], shape = [4, 6]}
// CHECK-NEXT:    func.return %y

// -----

// transpose(matmul(x, w)) -> contract(x, w), with the result's index transposed
func.func @transpose_of_contraction(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> tensor<6x4xf32> {
  %y = tenon.matmul %x, %w : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32>
  %z = tenon.transpose %y {permutation = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
  func.return %z : tensor<6x4xf32>
}
// CHECK-LABEL: @transpose_of_contraction
// CHECK-NEXT:    %z = tenon.contract [%x, %w] {maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d1, d0)>], extents = [4, 6, 5], shape = [6, 4]}
// CHECK-NEXT:    func.return %z

// -----

// sum(transpose(x), axis) -> sum(x, permutation[axis])
func.func @transpose_into_reduction(%x: tensor<2x3x4xf32>) -> tensor<2x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0, 2]} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %s = tenon.sum %t {axis = [0]} : tensor<3x2x4xf32> -> tensor<2x4xf32>
  func.return %s : tensor<2x4xf32>
}
// CHECK-LABEL: @transpose_into_reduction
// CHECK-NEXT:    %s = tenon.sum %x {axis = [1]}
// CHECK-NEXT:    func.return %s

// -----

// Not where what is left would be in another order.
func.func @transpose_into_reduction_keeps_order(%x: tensor<2x3x4xf32>) -> tensor<3x2xf32> {
  %t = tenon.transpose %x {permutation = [1, 0, 2]} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %s = tenon.sum %t {axis = [2]} : tensor<3x2x4xf32> -> tensor<3x2xf32>
  func.return %s : tensor<3x2xf32>
}
// CHECK-LABEL: @transpose_into_reduction_keeps_order
// CHECK-NEXT:    %t = tenon.transpose %x {permutation = [1, 0, 2]}
// CHECK-NEXT:    %s = tenon.sum %t {axis = [2]}
// CHECK-NEXT:    func.return %s

// -----

// f(transpose(x)) -> transpose(f(x)), where the transpose cancels another one
func.func @transpose_after_elementwise(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %r = tenon.relu %t : tensor<4x3xf32> -> tensor<4x3xf32>
  %u = tenon.transpose %r {permutation = [1, 0]} : tensor<4x3xf32> -> tensor<3x4xf32>
  func.return %u : tensor<3x4xf32>
}
// CHECK-LABEL: @transpose_after_elementwise
// CHECK-NEXT:    %r = tenon.relu %x
// CHECK-NEXT:    func.return %r

// -----

// A bias beside it only needs another shape.
func.func @transpose_after_elementwise_with_a_bias(%x: tensor<2x3x4x5xf32>, %b: tensor<3xf32>) -> tensor<2x3x4x5xf32> {
  %t = tenon.transpose %x {permutation = [0, 2, 3, 1]} : tensor<2x3x4x5xf32> -> tensor<2x4x5x3xf32>
  %a = tenon.add %t, %b : tensor<2x4x5x3xf32>, tensor<3xf32> -> tensor<2x4x5x3xf32>
  %u = tenon.transpose %a {permutation = [0, 3, 1, 2]} : tensor<2x4x5x3xf32> -> tensor<2x3x4x5xf32>
  func.return %u : tensor<2x3x4x5xf32>
}
// CHECK-LABEL: @transpose_after_elementwise_with_a_bias
// CHECK-NEXT:    %[[B:.*]] = tenon.reshape %b {shape = [1, 3, 1, 1]}
// CHECK-NEXT:    %a = tenon.add %x, %[[B]]
// CHECK-NEXT:    func.return %a

// -----

// Nothing behind the op takes the transpose in, so that it stays where the op reads it.
func.func @transpose_after_elementwise_not_in_front_of_results(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %r = tenon.relu %t : tensor<4x3xf32> -> tensor<4x3xf32>
  func.return %r : tensor<4x3xf32>
}
// CHECK-LABEL: @transpose_after_elementwise_not_in_front_of_results
// CHECK-NEXT:    %t = tenon.transpose %x {permutation = [1, 0]}
// CHECK-NEXT:    %r = tenon.relu %t
// CHECK-NEXT:    func.return %r

// -----

// Several uses of a transpose, as a gradient has of what went forward: all that is between transposes is reordered.
func.func @transposes_with_several_uses(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %r = tenon.relu %t : tensor<4x3xf32> -> tensor<4x3xf32>
  %m = tenon.multiply %r, %t : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %u = tenon.transpose %r {permutation = [1, 0]} : tensor<4x3xf32> -> tensor<3x4xf32>
  %v = tenon.transpose %m {permutation = [1, 0]} : tensor<4x3xf32> -> tensor<3x4xf32>
  func.return %u, %v : tensor<3x4xf32>, tensor<3x4xf32>
}
// CHECK-LABEL: @transposes_with_several_uses
// CHECK-NEXT:    %r = tenon.relu %x
// CHECK-NEXT:    %m = tenon.multiply %r, %x
// CHECK-NEXT:    func.return %r, %m

// -----

// Ops along axes have these elsewhere: sums that keep their axes, arrays that are joined, padded or cut.
func.func @axes_move(%x: tensor<3x4xf32>) -> tensor<7x5xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %s = tenon.sum %t {axis = [1], keepdims = true} : tensor<4x3xf32> -> tensor<4x1xf32>
  %c = tenon.concatenate [%t, %s, %t] {axis = 1} : [tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>] -> tensor<4x7xf32>
  %p = tenon.pad %c {low = [1, 0], high = [0, 0]} : tensor<4x7xf32> -> tensor<5x7xf32>
  %u = tenon.transpose %p {permutation = [1, 0]} : tensor<5x7xf32> -> tensor<7x5xf32>
  func.return %u : tensor<7x5xf32>
}
// CHECK-LABEL: @axes_move
// CHECK-NEXT:    %s = tenon.sum %x {axis = [0], keepdims = true}
// CHECK-NEXT:    %c = tenon.concatenate [%x, %s, %x] : {{.*}} -> tensor<7x4xf32>
// CHECK-NEXT:    %p = tenon.pad %c {low = [0, 1], high = [0, 0]}
// CHECK-NEXT:    func.return %p

// -----

// Not where more would be transposed than is: one transpose in place of another is none less.
func.func @as_many_transposes(%x: tensor<3x4xf32>, %y: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %a = tenon.add %t, %y : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %m = tenon.multiply %a, %y : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %z = tenon.reshape %m {shape = [3, 4]} : tensor<4x3xf32> -> tensor<3x4xf32>
  func.return %z : tensor<3x4xf32>
}
// CHECK-LABEL: @as_many_transposes
// CHECK-NEXT:    %t = tenon.transpose %x
// CHECK-NEXT:    %a = tenon.add %t, %y
// CHECK-NEXT:    %m = tenon.multiply %a, %y
// CHECK-NEXT:    %z = tenon.reshape %m

// -----

// What is gathered from is in memory anyway: a transpose before it would part the padding from what is computed for it.
func.func @transpose_to_gather_from(%x: tensor<118x78xf32>, %i: tensor<79xi64>, %j: tensor<112xi64>) -> tensor<112x82xf32> {
  %g = tenon.gather %x, %i : tensor<118x78xf32>, tensor<79xi64> -> tensor<79x78xf32>
  %p = tenon.pad %g {low = [3, 3], high = [0, 1]} : tensor<79x78xf32> -> tensor<82x82xf32>
  %t = tenon.transpose %p {permutation = [1, 0]} : tensor<82x82xf32> -> tensor<82x82xf32>
  %y = tenon.gather %t, %j : tensor<82x82xf32>, tensor<112xi64> -> tensor<112x82xf32>
  func.return %y : tensor<112x82xf32>
}
// CHECK-LABEL: @transpose_to_gather_from
// CHECK-NEXT:    %g = tenon.gather %x, %i
// CHECK-NEXT:    %p = tenon.pad %g
// CHECK-NEXT:    %t = tenon.transpose %p
// CHECK-NEXT:    %y = tenon.gather %t, %j

// -----

// Nor is what is repeated along a leading axis computed where it is read.
func.func @transpose_to_repeat(%x: tensor<9x40xf32>, %i: tensor<36xi64>) -> tensor<3x46x36xf32> {
  %g = tenon.gather %x, %i : tensor<9x40xf32>, tensor<36xi64> -> tensor<36x40xf32>
  %p = tenon.pad %g {low = [0, 3], high = [0, 3]} : tensor<36x40xf32> -> tensor<36x46xf32>
  %t = tenon.transpose %p {permutation = [1, 0]} : tensor<36x46xf32> -> tensor<46x36xf32>
  %y = tenon.broadcast_to %t {shape = [3, 46, 36]} : tensor<46x36xf32> -> tensor<3x46x36xf32>
  func.return %y : tensor<3x46x36xf32>
}
// CHECK-LABEL: @transpose_to_repeat
// CHECK-NEXT:    %g = tenon.gather %x, %i
// CHECK-NEXT:    %p = tenon.pad %g
// CHECK-NEXT:    %t = tenon.transpose %p
// CHECK-NEXT:    %y = tenon.broadcast_to %t

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

// transpose(x) -> reshape(x), where only axes of size 1 move
func.func @transpose_of_ones(%x: tensor<1x3x4xf32>) -> tensor<3x1x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0, 2]} : tensor<1x3x4xf32> -> tensor<3x1x4xf32>
  func.return %t : tensor<3x1x4xf32>
}
// CHECK-LABEL: @transpose_of_ones
// CHECK-NEXT:    %t = tenon.reshape %x {shape = [3, 1, 4]}
// CHECK-NEXT:    func.return %t

// -----

// A contraction over windows keeps the transposes that give it neighbours to compute together.
#g = affine_map<(k, c, f, o) -> (o, f)>
#x = affine_map<(k, c, f, o) -> (c, o + k)>
#w = affine_map<(k, c, f, o) -> (k, c, f)>
func.func @windows_keep_neighbours(%g: tensor<16x30xf32>, %x: tensor<4x32xf32>) -> tensor<16x4x3xf32> {
  %t = tenon.transpose %g {permutation = [1, 0]} : tensor<16x30xf32> -> tensor<30x16xf32>
  %w = tenon.contract [%t, %x] {maps = [#g, #x, #w], extents = [3, 4, 16, 30], shape = [3, 4, 16]} : [tensor<30x16xf32>, tensor<4x32xf32>] -> tensor<3x4x16xf32>
  %y = tenon.transpose %w {permutation = [2, 1, 0]} : tensor<3x4x16xf32> -> tensor<16x4x3xf32>
  func.return %y : tensor<16x4x3xf32>
}
// CHECK-LABEL: @windows_keep_neighbours
// CHECK-NEXT:    %t = tenon.transpose %g {permutation = [1, 0]}
// CHECK-NEXT:    %w = tenon.contract [%t, %x]
// CHECK-NEXT:    %y = tenon.transpose %w {permutation = [2, 1, 0]}
// CHECK-NEXT:    func.return %y

// -----

// The result of windows is transposed by their contraction, whose weight keeps its neighbours along the other dimension.
func.func @windows_along_filters(%x: tensor<8x49xf32>, %w: tensor<32x8x3xf32>) -> tensor<32x24xf32> {
  %t = tenon.transpose %w {permutation = [1, 2, 0]} : tensor<32x8x3xf32> -> tensor<8x3x32xf32>
  %y = tenon.contract [%x, %t] {maps = [affine_map<(d0, d1, d2, d3) -> (d2, ((d0 * 2) + d3))>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], extents = [24, 32, 8, 3], shape = [24, 32]} : [tensor<8x49xf32>, tensor<8x3x32xf32>] -> tensor<24x32xf32>
  %z = tenon.transpose %y {permutation = [1, 0]} : tensor<24x32xf32> -> tensor<32x24xf32>
  func.return %z : tensor<32x24xf32>
}
// CHECK-LABEL: @windows_along_filters
// CHECK-NEXT:    %t = tenon.transpose %w
// CHECK-NEXT:    %z = tenon.contract [%x, %t] {{.*}}affine_map<(d0, d1, d2, d3) -> (d1, d0)>]
// CHECK-NEXT:    func.return %z
