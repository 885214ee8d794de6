// RUN: tenon-opt %s --split-input-file -p sum-in-steps | filecheck %s

// %m keeps rows of samples, which the gradient %w adds up: it adds up channels first, for which both run over samples.
func.func @another_keeps_rows(%x: tensor<32x8x100xf32>, %y: tensor<32x8x100xf32>) -> (tensor<32x8x100xf32>, tensor<8xf32>) {
  %m = tenon.sum %x {axis = [1, 2], keepdims = true} : tensor<32x8x100xf32> -> tensor<32x1x1xf32>
  %d = tenon.subtract %x, %m : tensor<32x8x100xf32>, tensor<32x1x1xf32> -> tensor<32x8x100xf32>
  %p = tenon.multiply %d, %y : tensor<32x8x100xf32>, tensor<32x8x100xf32> -> tensor<32x8x100xf32>
  %w = tenon.sum %p {axis = [0, 2]} : tensor<32x8x100xf32> -> tensor<8xf32>
  func.return %d, %w : tensor<32x8x100xf32>, tensor<8xf32>
}
// CHECK-LABEL: @another_keeps_rows
// CHECK:         [[R:%.*]] = tenon.sum %p {axis = [2], keepdims = true} : tensor<32x8x100xf32> -> tensor<32x8x1xf32>
// CHECK-NEXT:    tenon.sum [[R]] {axis = [0, 2]} : tensor<32x8x1xf32> -> tensor<8xf32>

// -----

// What is computed from %w over all elements is in a loop over channels with it.
func.func @statistics_stay_whole(%x: tensor<32x8x100xf32>) -> (tensor<32x1x1xf32>, tensor<32x8x100xf32>) {
  %m = tenon.sum %x {axis = [1, 2], keepdims = true} : tensor<32x8x100xf32> -> tensor<32x1x1xf32>
  %w = tenon.sum %x {axis = [0, 2], keepdims = true} : tensor<32x8x100xf32> -> tensor<1x8x1xf32>
  %d = tenon.subtract %x, %w : tensor<32x8x100xf32>, tensor<1x8x1xf32> -> tensor<32x8x100xf32>
  func.return %m, %d : tensor<32x1x1xf32>, tensor<32x8x100xf32>
}
// CHECK-LABEL: @statistics_stay_whole
// CHECK:         tenon.sum %x {axis = [0, 2], keepdims = true}

// -----

// Nobody else runs over samples; each sum alone reads its operand once.
func.func @unrelated(%x: tensor<32x8x100xf32>, %y: tensor<32x8x100xf32>) -> (tensor<32x1x1xf32>, tensor<8xf32>) {
  %m = tenon.sum %x {axis = [1, 2], keepdims = true} : tensor<32x8x100xf32> -> tensor<32x1x1xf32>
  %w = tenon.sum %y {axis = [0, 2]} : tensor<32x8x100xf32> -> tensor<8xf32>
  func.return %m, %w : tensor<32x1x1xf32>, tensor<8xf32>
}
// CHECK-LABEL: @unrelated
// CHECK:         tenon.sum %y {axis = [0, 2]}

// -----

// A sum of f16 is rounded once.
func.func @minifloats(%x: tensor<32x8x100xf16>) -> (tensor<32x1x1xf16>, tensor<8xf16>) {
  %m = tenon.sum %x {axis = [1, 2], keepdims = true} : tensor<32x8x100xf16> -> tensor<32x1x1xf16>
  %w = tenon.sum %x {axis = [0, 2]} : tensor<32x8x100xf16> -> tensor<8xf16>
  func.return %m, %w : tensor<32x1x1xf16>, tensor<8xf16>
}
// CHECK-LABEL: @minifloats
// CHECK:         tenon.sum %x {axis = [0, 2]}
