// RUN: tenon-opt %s --split-input-file -p layout | filecheck %s

func.func @contractions_take_in_transposes(%x: tensor<5x4xf32>, %w: tensor<6x5xf32>) -> tensor<6x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<5x4xf32> -> tensor<4x5xf32>
  %u = tenon.transpose %w {permutation = [1, 0]} : tensor<6x5xf32> -> tensor<5x6xf32>
  %y = tenon.matmul %t, %u : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32>
  %z = tenon.transpose %y {permutation = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
  func.return %z : tensor<6x4xf32>
}
// CHECK-LABEL: @contractions_take_in_transposes
// CHECK-NEXT:    tenon.contract [%x, %w] {maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d0)>]
// CHECK-NEXT:    func.return

// -----

func.func @reductions_take_in_transposes(%x: tensor<2x3x4xf32>) -> tensor<2x4xf32> {
  %t = tenon.transpose %x {permutation = [1, 0, 2]} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %s = tenon.sum %t {axis = [0]} : tensor<3x2x4xf32> -> tensor<2x4xf32>
  func.return %s : tensor<2x4xf32>
}
// CHECK-LABEL: @reductions_take_in_transposes
// CHECK-NEXT:    tenon.sum %x {axis = [1]}

// -----

// The transposes on both sides of elementwise ops cancel; the bias only needs another shape.
func.func @transposes_meet_through_elementwise_ops(%x: tensor<2x3x4x5xf32>, %b: tensor<3xf32>) -> tensor<2x3x4x5xf32> {
  %t = tenon.transpose %x {permutation = [0, 2, 3, 1]} : tensor<2x3x4x5xf32> -> tensor<2x4x5x3xf32>
  %a = tenon.add %t, %b : tensor<2x4x5x3xf32>, tensor<3xf32> -> tensor<2x4x5x3xf32>
  %r = tenon.relu %a : tensor<2x4x5x3xf32> -> tensor<2x4x5x3xf32>
  %u = tenon.transpose %r {permutation = [0, 3, 1, 2]} : tensor<2x4x5x3xf32> -> tensor<2x3x4x5xf32>
  func.return %u : tensor<2x3x4x5xf32>
}
// CHECK-LABEL: @transposes_meet_through_elementwise_ops
// CHECK-NEXT:    [[B:%.*]] = tenon.reshape %b {shape = [1, 3, 1, 1]}
// CHECK-NEXT:    [[A:%.*]] = tenon.add %x, [[B]]
// CHECK-NEXT:    [[R:%.*]] = tenon.relu [[A]]
// CHECK-NEXT:    func.return [[R]]

// -----

// Nothing behind the op takes the transpose in, so that it stays where the op reads it.
func.func @transposes_stay_in_front_of_results(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<3x4xf32> -> tensor<4x3xf32>
  %r = tenon.relu %t : tensor<4x3xf32> -> tensor<4x3xf32>
  func.return %r : tensor<4x3xf32>
}
// CHECK-LABEL: @transposes_stay_in_front_of_results
// CHECK-NEXT:    [[T:%.*]] = tenon.transpose %x
// CHECK-NEXT:    tenon.relu [[T]]

// -----

// A contraction over windows keeps the transposes that give it neighbours to compute together.
#cotangent = affine_map<(k, c, f, o) -> (o, f)>
#image = affine_map<(k, c, f, o) -> (c, o + k)>
#weight = affine_map<(k, c, f, o) -> (k, c, f)>
func.func @windows_keep_neighbours(%g: tensor<16x30xf32>, %x: tensor<4x32xf32>) -> tensor<16x4x3xf32> {
  %t = tenon.transpose %g {permutation = [1, 0]} : tensor<16x30xf32> -> tensor<30x16xf32>
  %w = tenon.contract [%t, %x] {maps = [#cotangent, #image, #weight], extents = [3, 4, 16, 30], shape = [3, 4, 16]} : [tensor<30x16xf32>, tensor<4x32xf32>] -> tensor<3x4x16xf32>
  %y = tenon.transpose %w {permutation = [2, 1, 0]} : tensor<3x4x16xf32> -> tensor<16x4x3xf32>
  func.return %y : tensor<16x4x3xf32>
}
// CHECK-LABEL: @windows_keep_neighbours
// CHECK-NEXT:    %t = tenon.transpose %g
// CHECK-NEXT:    %w = tenon.contract [%t, %x]
// CHECK-NEXT:    %y = tenon.transpose %w
