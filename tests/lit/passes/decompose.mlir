// RUN: tenon-opt %s --split-input-file -p decompose | filecheck %s
// RUN: tenon-opt %s --split-input-file -p "decompose{only=softmax}" | filecheck %s --check-prefix ONLY

func.func @composites_are_written_out(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %y = tenon.softmax %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %z = tenon.mean %x {axis = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  func.return %y, %z : tensor<4x8xf32>, tensor<4xf32>
}
// CHECK-LABEL: @composites_are_written_out
// CHECK-NOT:     tenon.softmax
// CHECK-NOT:     tenon.mean
// CHECK:         tenon.max
// CHECK:         tenon.exp
// CHECK:         tenon.sum
// CHECK:         tenon.divide
// ONLY-LABEL: @composites_are_written_out
// ONLY-NOT:     tenon.softmax
// ONLY:         tenon.exp
// ONLY:         tenon.mean %x

// -----

// Padding is put around the image first, where sizes tell how much; all that is left is one contraction.
func.func @convolution(%x: tensor<1x2x9xf32>, %w: tensor<4x2x3xf32>) -> tensor<1x4x5xf32> {
  %y = tenon.conv %x, %w, none {padding = "same", stride = [2]} : tensor<1x2x9xf32>, tensor<4x2x3xf32>, none -> tensor<1x4x5xf32>
  func.return %y : tensor<1x4x5xf32>
}
// CHECK-LABEL: @convolution
// CHECK-NEXT:    %[[GROUPS:.*]] = tenon.reshape %x {shape = [1, 1, 2, 9]}
// CHECK-NEXT:    %[[X:.*]] = tenon.pad %[[GROUPS]] {low = [0, 0, 0, 1], high = [0, 0, 0, 1]}
// CHECK-NEXT:    %[[W:.*]] = tenon.reshape %w {shape = [1, 4, 2, 3]}
// CHECK-NEXT:    %[[Y:.*]] = tenon.convolution %[[X]], %[[W]] {stride = [2]}
// CHECK-NEXT:    %y = tenon.reshape %[[Y]] {shape = [1, 4, 5]}

// -----

// Windows of one element: a matrix product along all of the image.
func.func @weighted_channels(%x: tensor<1x2x4x5xf32>, %w: tensor<3x2x1x1xf32>) -> tensor<1x3x4x5xf32> {
  %y = tenon.conv2d %x, %w, none : tensor<1x2x4x5xf32>, tensor<3x2x1x1xf32>, none -> tensor<1x3x4x5xf32>
  func.return %y : tensor<1x3x4x5xf32>
}
// CHECK-LABEL: @weighted_channels
// CHECK:         tenon.matmul {{.*}} : tensor<1x3x2xf32>, tensor<1x1x2x20xf32> -> tensor<1x1x3x20xf32>

// -----

// The transposed convolution is one of an image with zeros between its elements, by the mirrored weight.
func.func @transposed(%x: tensor<1x2x4xf32>, %w: tensor<2x3x3xf32>) -> tensor<1x3x7xf32> {
  %y = tenon.conv_transpose1d %x, %w, none {stride = [2], padding = [1]} : tensor<1x2x4xf32>, tensor<2x3x3xf32>, none -> tensor<1x3x7xf32>
  func.return %y : tensor<1x3x7xf32>
}
// CHECK-LABEL: @transposed
// CHECK:         tenon.flip
// CHECK:         tenon.dilate {{.*}} {steps = [1, 1, 1, 2]} : tensor<1x1x2x4xf32> -> tensor<1x1x2x7xf32>
// CHECK:         tenon.convolution

// -----

// The least number stands for what is not there.
func.func @pooling(%x: tensor<1x9x8xf32>) -> tensor<1x4x5xf32> {
  %y = tenon.max_pool %x {window = [3, 2], stride = [2], padding = [0, 0, 1, 1]} : tensor<1x9x8xf32> -> tensor<1x4x5xf32>
  func.return %y : tensor<1x4x5xf32>
}
// CHECK-LABEL: @pooling
// CHECK-NEXT:    %[[PADDED:.*]] = tenon.pad %x {low = [0, 0, 1], high = [0, 0, 1], value = -inf}
// CHECK-NEXT:    %y = tenon.window_max %[[PADDED]] {window = [3, 2], stride = [2, 2], dilation = [1, 1]}
