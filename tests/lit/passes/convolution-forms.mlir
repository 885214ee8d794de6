// RUN: tenon-opt %s --split-input-file -p convolution-forms | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'convolution-forms{machine=avx2 filtering=false}' | filecheck %s --check-prefix AVX2
// RUN: tenon-opt %s --split-input-file -p 'convolution-forms{machine="l2=32768"}' | filecheck %s --check-prefix SMALL
// RUN: tenon-opt %s --split-input-file -p convolution-forms{matrices=true} | filecheck %s --check-prefix MATRICES

// Where windows step along a row, columns of one kind are put side by side first.
func.func @strided_convolution(%x: tensor<1x1x8x32x65xf32>, %w: tensor<1x8x8x3x3xf32>) -> tensor<1x1x8x15x32xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<1x1x8x32x65xf32>, tensor<1x8x8x3x3xf32> -> tensor<1x1x8x15x32xf32>
  func.return %y : tensor<1x1x8x15x32xf32>
}
// CHECK-LABEL: @strided_convolution
// CHECK:         tenon.convolution {{.*}} {stride = [2, 1], dilation = [1, 1]} : tensor<1x1x8x32x33xf32>, tensor<1x8x8x3x2xf32>
// CHECK:         tenon.convolution {{.*}} {stride = [2, 1], dilation = [1, 1]} : tensor<1x1x8x32x32xf32>, tensor<1x8x8x3x1xf32>
// CHECK-NEXT:    %y = tenon.add

// -----

// Vectors run along filters where windows step: the weight in blocks of two vectors, the image as it is. A weight that
// stays near is multiplied row by row, another one for a whole image at a time.
func.func @along_filters(%x: tensor<2x1x8x33x65xf32>, %w: tensor<1x64x8x3x3xf32>) -> tensor<2x1x64x16x32xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<2x1x8x33x65xf32>, tensor<1x64x8x3x3xf32> -> tensor<2x1x64x16x32xf32>
  func.return %y : tensor<2x1x64x16x32xf32>
}
// CHECK-LABEL: @along_filters
// CHECK:         %[[WEIGHT:.*]] = tenon.transpose {{.*}} -> tensor<1x2x8x3x3x32xf32>
// CHECK-NEXT:    %[[SUMS:.*]] = tenon.contract [%x, %[[WEIGHT]]] {{.*}} extents = [1, 2, 16, 2, 32, 32, 8, 3, 3]
// CHECK-NEXT:    tenon.transpose %[[SUMS]] {permutation = [1, 0, 3, 5, 2, 4]}
// AVX2-LABEL: @along_filters
// AVX2:         tenon.contract {{.*}} extents = [1, 2, 16, 4, 32, 16, 8, 3, 3]
// SMALL-LABEL: @along_filters
// SMALL:         tenon.contract {{.*}} extents = [1, 2, 2, 16, 32, 32, 8, 3, 3]
// MATRICES-LABEL: @along_filters
// MATRICES:     tenon.convolution

// -----

// Filters that fill most of their vectors are one block.
func.func @most_of_two_vectors(%x: tensor<2x1x8x33x65xf32>, %w: tensor<1x24x8x3x3xf32>) -> tensor<2x1x24x16x32xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<2x1x8x33x65xf32>, tensor<1x24x8x3x3xf32> -> tensor<2x1x24x16x32xf32>
  func.return %y : tensor<2x1x24x16x32xf32>
}
// CHECK-LABEL: @most_of_two_vectors
// CHECK:         tenon.contract {{.*}} extents = [1, 2, 16, 1, 32, 24, 8, 3, 3]

// -----

// Channels by themselves, of rows that fill less than half of a vector: vectors along channels, and padding around the image in this order.
func.func @along_channels(%x: tensor<1x32x1x7x7xf32>, %w: tensor<32x1x1x7x7xf32>) -> tensor<1x32x1x7x7xf32> {
  %padded = tenon.pad %x {low = [0, 0, 0, 3, 3], high = [0, 0, 0, 3, 3]} : tensor<1x32x1x7x7xf32> -> tensor<1x32x1x13x13xf32>
  %y = tenon.convolution %padded, %w : tensor<1x32x1x13x13xf32>, tensor<32x1x1x7x7xf32> -> tensor<1x32x1x7x7xf32>
  func.return %y : tensor<1x32x1x7x7xf32>
}
// CHECK-LABEL: @along_channels
// CHECK:         tenon.transpose {{.*}} -> tensor<1x2x7x7x16xf32>
// CHECK-NEXT:    tenon.pad {{.*}} -> tensor<1x2x13x13x16xf32>
// CHECK-NEXT:    tenon.contract {{.*}} extents = [1, 2, 7, 7, 16, 7, 7]

// -----

// Each element of an image serves one filter: where rows fill most of a vector, or windows are small, images stay as they are.
func.func @channels_of_short_rows(%x: tensor<1x32x1x9x9xf32>, %w: tensor<32x1x1x3x3xf32>) -> tensor<1x32x1x7x7xf32> {
  %y = tenon.convolution %x, %w : tensor<1x32x1x9x9xf32>, tensor<32x1x1x3x3xf32> -> tensor<1x32x1x7x7xf32>
  func.return %y : tensor<1x32x1x7x7xf32>
}
// CHECK-LABEL: @channels_of_short_rows
// CHECK-NEXT:    tenon.convolution %x, %w

// -----

// Windows of one element, as in the gradient of an image: a product over channels along all of the image.
func.func @single_elements(%x: tensor<1x1x64x7x7xf32>, %w: tensor<1x32x64x1x1xf32>) -> tensor<1x1x32x7x7xf32> {
  %y = tenon.convolution %x, %w : tensor<1x1x64x7x7xf32>, tensor<1x32x64x1x1xf32> -> tensor<1x1x32x7x7xf32>
  func.return %y : tensor<1x1x32x7x7xf32>
}
// CHECK-LABEL: @single_elements
// CHECK:         tenon.contract {{.*}} extents = [1, 1, 32, 49, 64]

// -----

// Few windows that many filters read are columns of a matrix: windows of windows, so that those of an element of the
// weight lie side by side.
func.func @windows_as_columns(%x: tensor<1x1x8x16x16xf32>, %w: tensor<1x128x8x3x3xf32>) -> tensor<1x1x128x7x7xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<1x1x8x16x16xf32>, tensor<1x128x8x3x3xf32> -> tensor<1x1x128x7x7xf32>
  func.return %y : tensor<1x1x128x7x7xf32>
}
// CHECK-LABEL: @windows_as_columns
// CHECK:         tenon.sliding_windows {{.*}} {window = [7, 7], stride = [1, 1], dilation = [2, 2]} {{.*}} -> tensor<1x1x8x3x3x7x7xf32>
// CHECK:         tenon.matmul {{.*}} : tensor<1x128x72xf32>, tensor<1x1x72x49xf32>

// -----

// Of fewer filters vectors run along these where an image has few windows, if the weight is put in order once.
func.func @few_windows(%x: tensor<1x1x8x9x9xf32>, %w: tensor<1x32x8x3x3xf32> {tenon.frozen}) -> tensor<1x1x32x7x7xf32> {
  %y = tenon.convolution %x, %w : tensor<1x1x8x9x9xf32>, tensor<1x32x8x3x3xf32> -> tensor<1x1x32x7x7xf32>
  func.return %y : tensor<1x1x32x7x7xf32>
}
// CHECK-LABEL: @few_windows
// CHECK:         tenon.contract {{.*}} extents = [1, 1, 7, 1, 7, 32, 8, 3, 3]

// -----

// Windows that are whole blocks: the places in a block are channels, and windows that do not overlap a product of matrices.
func.func @patches(%x: tensor<1x1x3x64x66xf32>, %w: tensor<1x20x3x4x4xf32>) -> tensor<1x1x20x16x16xf32> {
  %y = tenon.convolution %x, %w {stride = [4]} : tensor<1x1x3x64x66xf32>, tensor<1x20x3x4x4xf32> -> tensor<1x1x20x16x16xf32>
  func.return %y : tensor<1x1x20x16x16xf32>
}
// CHECK-LABEL: @patches
// CHECK-NEXT:    %[[CUT:.*]] = tenon.slice %x {starts = [0, 0, 0, 0, 0], limits = [1, 1, 3, 64, 64]
// CHECK-NEXT:    %[[BLOCKS:.*]] = tenon.reshape %[[CUT]] {shape = [1, 1, 3, 16, 4, 16, 4]}
// CHECK-NEXT:    %[[MOVED:.*]] = tenon.transpose %[[BLOCKS]] {permutation = [0, 1, 2, 4, 6, 3, 5]}
// CHECK-NEXT:    %[[IMAGE:.*]] = tenon.reshape %[[MOVED]] {shape = [1, 1, 48, 16, 16]}
// CHECK:         tenon.reshape {{.*}} {shape = [1, 20, 48, 1, 1]}
// CHECK:         %[[ROWS:.*]] = tenon.reshape %[[IMAGE]] {shape = [1, 1, 48, 256]}
// CHECK:         tenon.contract [%[[ROWS]], {{.*}} extents = [1, 1, 20, 256, 48]

// -----

// Along a row, where neighbours must be neighbours in memory, a tap of 0 may fill up the last block.
func.func @nearly_whole_blocks(%x: tensor<1x1x3x133x133xf32>, %w: tensor<1x20x3x7x7xf32>) -> tensor<1x1x20x64x64xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<1x1x3x133x133xf32>, tensor<1x20x3x7x7xf32> -> tensor<1x1x20x64x64xf32>
  func.return %y : tensor<1x1x20x64x64xf32>
}
// CHECK-LABEL: @nearly_whole_blocks
// CHECK:         tenon.pad %w
// CHECK:         %y = tenon.convolution {{.*}} {stride = [2, 1], dilation = [1, 1]} : tensor<1x1x6x133x67xf32>, tensor<1x20x6x7x4xf32>

// -----

// The rows of a narrow image are one long row.
func.func @narrow_convolution(%x: tensor<1x1x32x9x9xf32>, %w: tensor<1x32x32x3x3xf32>) -> tensor<1x1x32x7x7xf32> {
  %y = tenon.convolution %x, %w : tensor<1x1x32x9x9xf32>, tensor<1x32x32x3x3xf32> -> tensor<1x1x32x7x7xf32>
  func.return %y : tensor<1x1x32x7x7xf32>
}
// CHECK-LABEL: @narrow_convolution
// CHECK:         %[[ROWS:.*]] = tenon.reshape %x {shape = [1, 1, 1, 32, 81]}
// CHECK:         %[[SUMS:.*]] = tenon.contract [%[[ROWS]], %w] {{.*}} extents = [1, 1, 32, 61, 32, 3, 3], shape = [1, 1, 32, 61]}
// CHECK:         %y = tenon.sliding_windows %[[SUMS]] {window = [7], stride = [9]}

// -----

// Where windows step, there is such a row for each place between two of them, and the weight is read in steps.
func.func @narrow_strided_convolution(%x: tensor<1x1x32x15x15xf32>, %w: tensor<1x32x32x3x3xf32>) -> tensor<1x1x32x7x7xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<1x1x32x15x15xf32>, tensor<1x32x32x3x3xf32> -> tensor<1x1x32x7x7xf32>
  func.return %y : tensor<1x1x32x7x7xf32>
}
// CHECK-LABEL: @narrow_strided_convolution
// CHECK:         %[[PHASES:.*]] = tenon.transpose {{.*}} {permutation = [0, 1, 4, 6, 2, 3, 5]}
// CHECK:         %[[ROWS:.*]] = tenon.reshape %[[PHASES]] {shape = [1, 1, 4, 32, 64]}
// CHECK:         tenon.contract [%[[ROWS]], %w] {{.*}}(d0, d1, 0, d4, ((d3 + (d5 * 8)) + d6)){{.*}}(d1, d2, d4, (d5 * 2), (d6 * 2))>{{.*}} extents = [1, 1, 32, 55, 32, 2, 2]
// CHECK:         tenon.contract [%[[ROWS]], %w] {{.*}}(d0, d1, 1, {{.*}}(d1, d2, d4, (d5 * 2), ((d6 * 2) + 1))>{{.*}} extents = [1, 1, 32, 55, 32, 2, 1]
// CHECK:         tenon.contract [%[[ROWS]], %w] {{.*}} extents = [1, 1, 32, 55, 32, 1, 2]
// CHECK:         tenon.contract [%[[ROWS]], %w] {{.*}} extents = [1, 1, 32, 55, 32, 1, 1]
// CHECK:         %y = tenon.sliding_windows {{.*}} {window = [7], stride = [8]}

// -----

// Windows of 3 rows: 4 rows of the result take the products of 6, between transforms by small constant matrices.
func.func @filtering_along_rows(%x: tensor<1x1x16x34x34xf32>, %w: tensor<1x16x16x3x3xf32>) -> tensor<1x1x16x32x32xf32> {
  %y = tenon.convolution %x, %w : tensor<1x1x16x34x34xf32>, tensor<1x16x16x3x3xf32> -> tensor<1x1x16x32x32xf32>
  func.return %y : tensor<1x1x16x32x32xf32>
}
// CHECK-LABEL: @filtering_along_rows
// CHECK:         %[[IMAGE:.*]] = tenon.contract [%x, {{.*}} -> tensor<1x1x6x16x8x34xf32>
// CHECK:         %[[ROWS:.*]] = tenon.reshape %[[IMAGE]] {shape = [1, 1, 6, 16, 272]}
// CHECK:         %[[WEIGHT:.*]] = tenon.contract [%w, {{.*}} -> tensor<1x6x16x16x3xf32>
// CHECK:         %[[PRODUCT:.*]] = tenon.contract [%[[ROWS]], %[[WEIGHT]]] {{.*}} -> tensor<1x1x16x6x270xf32>
// CHECK:         %[[RESULT:.*]] = tenon.contract [%[[PRODUCT]], {{.*}} -> tensor<1x1x16x8x4x32xf32>
// CHECK:         tenon.reshape %[[RESULT]]
// AVX2-LABEL: @filtering_along_rows
// AVX2-NEXT:    %y = tenon.convolution %x, %w

// -----

// Vectors of eight are filled well by a row of 14 windows, those of sixteen are not.
func.func @rows_of_fourteen(%x: tensor<1x1x32x16x16xf32>, %w: tensor<1x8x32x3x3xf32>) -> tensor<1x1x8x14x14xf32> {
  %y = tenon.convolution %x, %w : tensor<1x1x32x16x16xf32>, tensor<1x8x32x3x3xf32> -> tensor<1x1x8x14x14xf32>
  func.return %y : tensor<1x1x8x14x14xf32>
}
// CHECK-LABEL: @rows_of_fourteen
// CHECK:         %y = tenon.sliding_windows {{.*}} {window = [14], stride = [16]}
// AVX2-LABEL: @rows_of_fourteen
// AVX2-NEXT:    %y = tenon.convolution %x, %w

// -----

// The gradient of a weight, told by its maps: vectors along the filters of the cotangent as it is, in blocks of four, and
// a sum for each image and for so many of its rows that a quarter of the cache holds them. Where products have no panels
// and channels are few, these and the places of the window are columns of one product.
func.func @weight_gradient(%g: tensor<2x1x64x16x16xf32>, %x: tensor<2x1x3x33x18xf32>) -> tensor<1x64x3x3x3xf32> {
  %y = tenon.contract [%g, %x] {maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d5, d3 * 2 + d6, d4 + d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>], extents = [2, 1, 64, 16, 16, 3, 3, 3], shape = [1, 64, 3, 3, 3]} : [tensor<2x1x64x16x16xf32>, tensor<2x1x3x33x18xf32>] -> tensor<1x64x3x3x3xf32>
  func.return %y : tensor<1x64x3x3x3xf32>
}
// CHECK-LABEL: @weight_gradient
// CHECK:         tenon.contract {{.*}} extents = [2, 3, 3, 3, 64, 16, 16]
// CHECK:         tenon.sum
// AVX2-LABEL: @weight_gradient
// AVX2:         tenon.contract {{.*}} extents = [2, 2, 3, 3, 3, 32, 16, 16]
// SMALL-LABEL: @weight_gradient
// SMALL:         tenon.contract {{.*}} extents = [2, 8, 3, 3, 3, 64, 2, 16]
// MATRICES-LABEL: @weight_gradient
// MATRICES:         tenon.sliding_windows %x {window = [16, 16], stride = [1, 1], dilation = [2, 1]}
// MATRICES:         tenon.contract {{.*}} extents = [64, 27, 2, 256]

// -----

// Of few channels: vectors along places, and a sum for each image, of which the nearest cache holds what a tile of filters
// reads for all taps.
func.func @weight_gradient_along_places(%g: tensor<4x1x8x32x16xf32>, %x: tensor<4x1x4x34x18xf32>) -> tensor<1x8x4x3x3xf32> {
  %y = tenon.contract [%g, %x] {maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d5, d3 + d6, d4 + d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d5, d6, d7)>], extents = [4, 1, 8, 32, 16, 4, 3, 3], shape = [1, 8, 4, 3, 3]} : [tensor<4x1x8x32x16xf32>, tensor<4x1x4x34x18xf32>] -> tensor<1x8x4x3x3xf32>
  func.return %y : tensor<1x8x4x3x3xf32>
}
// CHECK-LABEL: @weight_gradient_along_places
// CHECK:         tenon.contract {{.*}} extents = [4, 8, 4, 3, 3, 32, 16]
// CHECK:         tenon.sum
// MATRICES-LABEL: @weight_gradient_along_places
// MATRICES-NEXT:    tenon.contract {{.*}} extents = [4, 1, 8, 32, 16, 4, 3, 3]

// -----

// One for each example of a batch, whose image all of them share. Without panels the filters of a block come last, of all
// images.
func.func @batched_weight_gradient(%g: tensor<5x2x1x64x16x16xf32>, %x: tensor<2x1x3x18x18xf32>) -> tensor<5x1x64x3x3x3xf32> {
  %y = tenon.contract [%g, %x] {maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d1, d2, d6, d4 + d7, d5 + d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d2, d3, d6, d7, d8)>], extents = [5, 2, 1, 64, 16, 16, 3, 3, 3], shape = [5, 1, 64, 3, 3, 3]} : [tensor<5x2x1x64x16x16xf32>, tensor<2x1x3x18x18xf32>] -> tensor<5x1x64x3x3x3xf32>
  func.return %y : tensor<5x1x64x3x3x3xf32>
}
// CHECK-LABEL: @batched_weight_gradient
// CHECK:         tenon.contract {{.*}} extents = [5, 2, 3, 3, 3, 64, 16, 16]
// MATRICES-LABEL: @batched_weight_gradient
// MATRICES:         tenon.transpose {{.*}} -> tensor<5x1x2x1x1x1x16x16x64xf32>
// MATRICES:         tenon.contract {{.*}} extents = [5, 3, 3, 3, 64, 2, 16, 16]

// -----

// Halves that became doubles are summed up as doubles.
func.func @doubles(%x: tensor<2x1x32x16x16xf16>, %w: tensor<1x64x32x3x3xf16>) -> tensor<2x1x64x14x14xf64> {
  %a = tenon.cast %x {dtype = f64} : tensor<2x1x32x16x16xf16> -> tensor<2x1x32x16x16xf64>
  %v = tenon.cast %w {dtype = f64} : tensor<1x64x32x3x3xf16> -> tensor<1x64x32x3x3xf64>
  %y = tenon.convolution %a, %v : tensor<2x1x32x16x16xf64>, tensor<1x64x32x3x3xf64> -> tensor<2x1x64x14x14xf64>
  func.return %y : tensor<2x1x64x14x14xf64>
}
// MATRICES-LABEL: @doubles
// MATRICES:         tenon.contract {{.*}} -> tensor<2x1x64x6x62xf64>

// -----

// Halves that a processor multiplies as matrices: channels last, all rows one behind the other, the places of a window
// one dimension of the weight. What was widened is read as it was.
func.func @halves(%x: tensor<2x32x14x14xbf16>, %w: tensor<1x64x32x3x3xbf16>) -> tensor<2x1x64x14x14xf32> {
  %a = tenon.cast %x {dtype = f32} : tensor<2x32x14x14xbf16> -> tensor<2x32x14x14xf32>
  %b = tenon.reshape %a {shape = [2, 1, 32, 14, 14]} : tensor<2x32x14x14xf32> -> tensor<2x1x32x14x14xf32>
  %p = tenon.pad %b {low = [0, 0, 0, 1, 1], high = [0, 0, 0, 1, 1]} : tensor<2x1x32x14x14xf32> -> tensor<2x1x32x16x16xf32>
  %v = tenon.cast %w {dtype = f32} : tensor<1x64x32x3x3xbf16> -> tensor<1x64x32x3x3xf32>
  %y = tenon.convolution %p, %v : tensor<2x1x32x16x16xf32>, tensor<1x64x32x3x3xf32> -> tensor<2x1x64x14x14xf32>
  func.return %y : tensor<2x1x64x14x14xf32>
}
// MATRICES-LABEL: @halves
// MATRICES:         tenon.pad {{.*}} -> tensor<2x1x32x16x16xbf16>
// MATRICES:         tenon.transpose {{.*}} -> tensor<2x1x16x16x32xbf16>
// MATRICES:         tenon.transpose {{.*}} -> tensor<3x3x1x64x32xbf16>
// MATRICES:         tenon.contract {{.*}}(d0, ((d2 + (d4 * 16)) + d5), d3)>{{.*}}(((d4 * 3) + d5), d1, d3)>{{.*}} extents = [2, 64, 222, 32, 3, 3]
// MATRICES:         tenon.sliding_windows
