// RUN: tenon-opt %s --split-input-file -p decompose | filecheck %s
// RUN: tenon-opt %s --split-input-file -p "decompose{only=softmax}" | filecheck %s --check-prefix ONLY
// RUN: tenon-opt %s --split-input-file -p "decompose{packs=32,64}" | filecheck %s --check-prefix PACKS
// RUN: tenon-opt %s --split-input-file -p "decompose{serial-rows=false}" | filecheck %s --check-prefix PIECES

// A composite op becomes what it is composed of.
func.func @composites_are_written_out(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tenon.softmax %x : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// CHECK-LABEL: @composites_are_written_out
// CHECK-NEXT:    %0 = tenon.max %x {axis = [-1], keepdims = true}
// CHECK-NEXT:    %1 = tenon.subtract %x, %0
// CHECK-NEXT:    %2 = tenon.exp %1
// CHECK-NEXT:    %3 = tenon.sum %2 {axis = [-1], keepdims = true}
// CHECK-NEXT:    %y = tenon.divide %2, %3

// -----

// With `only`, those that are named.
func.func @those_that_are_named(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %y = tenon.softmax %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %z = tenon.mean %x {axis = [1]} : tensor<4x8xf32> -> tensor<4xf32>
  func.return %y, %z : tensor<4x8xf32>, tensor<4xf32>
}
// CHECK-LABEL: @those_that_are_named
// CHECK-NOT:     tenon.mean
// CHECK:         func.return
// ONLY-LABEL: @those_that_are_named
// ONLY:         %y = tenon.divide
// ONLY-NEXT:    %z = tenon.mean %x

// -----

// What differentiation alone asks for has been asked.
func.func @identities_vanish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = tenon.stop_gradient %x : tensor<4xf32> -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK-LABEL: @identities_vanish
// CHECK-NEXT:    func.return %x

// -----

// The body of a checkpoint takes its place.
func.func @checkpoints_vanish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tenon.checkpoint -> (tensor<4xf32>) {
    %e = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %e : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @checkpoints_vanish
// CHECK-NEXT:    %e = tenon.exp %x
// CHECK-NEXT:    func.return %e

// -----

// What one computes again stays apart.
func.func @recomputed_checkpoints_stay(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tenon.checkpoint -> (tensor<4xf32>) attributes {recomputed} {
    %e = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %e : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @recomputed_checkpoints_stay
// CHECK-NEXT:    %r = tenon.checkpoint -> (tensor<4xf32>) attributes {recomputed} {
// CHECK-NEXT:      %e = tenon.exp %x
// CHECK-NEXT:      tenon.yield %e

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

// -----

// Rows are sorted by their digits, or by partition in vectors, where an instruction packs lanes of their bits.
func.func @sorted(%x: tensor<3x900xf32>) -> tensor<3x900xf32> {
  %y = tenon.sort %x : tensor<3x900xf32> -> tensor<3x900xf32>
  func.return %y : tensor<3x900xf32>
}
// CHECK-LABEL: @sorted
// CHECK:         tenon.sort_rows
// PACKS-LABEL: @sorted
// PACKS:         tenon.partition_sort
// PIECES-LABEL: @sorted
// PIECES:        tiles.sort

// -----

// On a GPU rows that no block holds are moved by one digit after the other, and tiles have leading elements of their own.
func.func @long_row(%x: tensor<1x9000xi8>) -> (tensor<1x9000xi8>, tensor<1x3xi8>, tensor<1x3xi64>) {
  %y = tenon.sort %x : tensor<1x9000xi8> -> tensor<1x9000xi8>
  %v, %p = tenon.top_k %x {k = 3} : tensor<1x9000xi8> -> (tensor<1x3xi8>, tensor<1x3xi64>)
  func.return %y, %v, %p : tensor<1x9000xi8>, tensor<1x3xi8>, tensor<1x3xi64>
}
// PIECES-LABEL: @long_row
// PIECES:        tiles.count_digits %[[ROWS:[0-9]+]] {digit = 0, tiles = 2}
// PIECES:        %[[SUMS:.*]] = tenon.cumsum %{{.*}} {axis = 1, exclusive = true}
// PIECES-NEXT:   %[[STARTS:.*]] = tenon.reshape %[[SUMS]]
// PIECES-NEXT:   tiles.move_by_digit %[[ROWS]], %[[STARTS]]
// PIECES:        %[[LEADING:.*]] = tiles.leading %{{.*}} {tiles = 2, k = 3, descending = true}
// PIECES:        tiles.leading %{{.*}} {tiles = 1, k = 3, descending = true} : tensor<1x6xi8>

// -----

// Lanes of 16 bits are not packed here.
func.func @sorted_halves(%x: tensor<3x900xf16>) -> tensor<3x900xf16> {
  %y = tenon.sort %x : tensor<3x900xf16> -> tensor<3x900xf16>
  func.return %y : tensor<3x900xf16>
}
// CHECK-LABEL: @sorted_halves
// CHECK:         tenon.sort_rows
// PACKS-LABEL: @sorted_halves
// PACKS:         tenon.sort_rows

// -----

// Places are sorted below the elements, in keys of 64 bits.
func.func @places(%x: tensor<3x900xf32>) -> tensor<3x900xi64> {
  %y = tenon.argsort %x : tensor<3x900xf32> -> tensor<3x900xi64>
  func.return %y : tensor<3x900xi64>
}
// CHECK-LABEL: @places
// CHECK:         tenon.argsort_rows
// PACKS-LABEL: @places
// PACKS:         %[[KEYS:.*]] = tenon.bitwise_or
// PACKS-NEXT:    tenon.partition_sort %[[KEYS]]
// PACKS:         tenon.bitwise_and

// -----

// Below elements of 64 bits there is no room: bits at their end are left out, and what is tied without them is sorted by them.
func.func @places_of_wide(%x: tensor<3x900xi64>) -> tensor<3x900xi64> {
  %y = tenon.argsort %x : tensor<3x900xi64> -> tensor<3x900xi64>
  func.return %y : tensor<3x900xi64>
}
// CHECK-LABEL: @places_of_wide
// CHECK:         tenon.argsort_rows
// PACKS-LABEL: @places_of_wide
// PACKS:         %[[UPPER:.*]] = tenon.shift_right %[[KEYS:.*]], %{{.*}} : tensor<3x900xui64>, tensor<3x1xui64>
// PACKS:         %[[SORTED:.*]] = tenon.partition_sort
// PACKS:         partition.break_ties %[[SORTED]], %[[KEYS]], %{{.*}} {place_bits = 10}

// -----

// Rows shorter than a vector are sorted side by side.
func.func @short_rows(%x: tensor<900x9xf32>) -> tensor<900x9xf32> {
  %y = tenon.sort %x : tensor<900x9xf32> -> tensor<900x9xf32>
  func.return %y : tensor<900x9xf32>
}
// PACKS-LABEL: @short_rows
// PACKS:         tenon.sort_groups

// -----

// An element that is not zero goes to the row that is the number of those before it; nothing is looked for.
func.func @places_of_ones(%x: tensor<6xi1>) -> tensor<2x1xi64> {
  %p = tenon.argwhere %x {size = 2} : tensor<6xi1> -> tensor<2x1xi64>
  func.return %p : tensor<2x1xi64>
}
// CHECK-LABEL: @places_of_ones
// CHECK-NOT:     tenon.searchsorted
// CHECK:         %[[COUNT:.*]] = tenon.cumsum %{{.*}} : tensor<6xi64> -> tensor<6xi64>
// CHECK:         tenon.scatter_add {{.*}} : tensor<2xi64>, tensor<6xi64>, tensor<6xi64> -> tensor<2xi64>
// CHECK-NOT:     tenon.searchsorted
