// RUN: tenon-opt %s -p fuse --split-input-file | filecheck %s

func.func @softmax_is_one_kernel(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<64x128xf32> -> tensor<64x1xf32>
  %d = tenon.subtract %x, %m : tensor<64x128xf32>, tensor<64x1xf32> -> tensor<64x128xf32>
  %e = tenon.exp %d : tensor<64x128xf32> -> tensor<64x128xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<64x128xf32> -> tensor<64x1xf32>
  %y = tenon.divide %e, %s : tensor<64x128xf32>, tensor<64x1xf32> -> tensor<64x128xf32>
  func.return %y : tensor<64x128xf32>
}
// CHECK-LABEL: @softmax_is_one_kernel
// CHECK-NEXT:    [[Y:%.*]] = func.call @kernel_0(%x) : (tensor<64x128xf32>) -> tensor<64x128xf32>
// CHECK-NEXT:    func.return [[Y]]
// CHECK:       func.func private @kernel_0(%x: tensor<64x128xf32>) -> tensor<64x128xf32> attributes {kernel}
// CHECK-NEXT:    tenon.max
// CHECK-NEXT:    tenon.subtract
// CHECK-NEXT:    tenon.exp
// CHECK-NEXT:    tenon.sum
// CHECK-NEXT:    tenon.divide
// CHECK-NEXT:    func.return

// -----

// The row of %e, 400 KB, is too large to be kept: it is a result of one kernel and an argument of the next.
func.func @rows_fit_on_a_stack(%x: tensor<64x100000xf32>) -> tensor<64x100000xf32> {
  %e = tenon.exp %x : tensor<64x100000xf32> -> tensor<64x100000xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<64x100000xf32> -> tensor<64x1xf32>
  %y = tenon.divide %e, %s : tensor<64x100000xf32>, tensor<64x1xf32> -> tensor<64x100000xf32>
  func.return %y : tensor<64x100000xf32>
}
// CHECK-LABEL: @rows_fit_on_a_stack
// CHECK-NEXT:    [[E:%.*]], [[S:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.call @kernel_1([[E]], [[S]])

// -----

// Nothing follows a reduction over all elements in its kernel; the dimensions it keeps are a matter of shape.
func.func @full_reductions_end_kernels(%x: tensor<8x8xf32>) -> tensor<1x1xf32> {
  %two = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %a = tenon.multiply %x, %two : tensor<8x8xf32>, tensor<f32> -> tensor<8x8xf32>
  %s = tenon.sum %a {keepdims = true} : tensor<8x8xf32> -> tensor<1x1xf32>
  %y = tenon.exp %s : tensor<1x1xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
// CHECK-LABEL: @full_reductions_end_kernels
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_0(%x) : (tensor<8x8xf32>) -> tensor<f32>
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape [[S]] {shape = [1, 1]}
// CHECK-NEXT:    func.call @kernel_1([[R]])
// CHECK:       @kernel_0
// CHECK-NEXT:    tenon.constant
// CHECK-NEXT:    tenon.multiply
// CHECK-NEXT:    tenon.sum %a : tensor<8x8xf32> -> tensor<f32>

// -----

// %c needs both %a and, through the contraction, %a's kernel: they cannot be one.
func.func @groups_do_not_depend_on_each_other_in_a_circle(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = tenon.exp %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %b = tenon.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %c = tenon.add %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %c : tensor<4x4xf32>
}
// CHECK-LABEL: @groups_do_not_depend_on_each_other_in_a_circle
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    [[B:%.*]] = func.call @kernel_1([[A]])
// CHECK-NEXT:    func.call @kernel_2([[A]], [[B]])

// -----

func.func @equal_kernels_are_one_function(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = tenon.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = tenon.exp %a : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = tenon.matmul %b, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d = tenon.exp %c : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %d : tensor<4x4xf32>
}
// CHECK-LABEL: @equal_kernels_are_one_function
// CHECK-NEXT:    func.call @kernel_0(%x, %w)
// CHECK-NEXT:    func.call @kernel_1
// CHECK-NEXT:    func.call @kernel_0
// CHECK-NEXT:    func.call @kernel_1
// CHECK-NOT:   @kernel_2

// -----

// What a region uses from outside becomes an argument of its kernels.
func.func @kernels_in_regions(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %b = tenon.add %a, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    tenon.yield %b : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @kernels_in_regions
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    %r = tenon.cond %p
// CHECK-NEXT:      [[B:%.*]] = func.call @kernel_1([[A]], %x)
// CHECK-NEXT:      tenon.yield [[B]]

// -----

// Many elements that are no single number stay outside; so does a reshape, which is the same memory.
func.func @what_stays_outside(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %c = tenon.constant {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : tensor<4xf32>
  %a = tenon.add %x, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %r = tenon.reshape %a {shape = [2, 2]} : tensor<4xf32> -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
// CHECK-LABEL: @what_stays_outside
// CHECK-NEXT:    %c = tenon.constant
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x, %c)
// CHECK-NEXT:    tenon.reshape [[A]]
