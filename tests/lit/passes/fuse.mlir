// RUN: tenon-opt %s -p fuse --split-input-file | filecheck %s
// RUN: tenon-opt %s -p fuse{strips=false} --split-input-file | filecheck %s --check-prefix ALONE
// RUN: tenon-opt %s -p 'fuse{strips=false long-rows=16}' --split-input-file | filecheck %s --check-prefix LONG
// RUN: tenon-opt %s -p fuse{updates=any} --split-input-file | filecheck %s --check-prefix UPDATES
// RUN: tenon-opt %s -p fuse{updates=arithmetic} --split-input-file | filecheck %s --check-prefix ARITHMETIC
// RUN: tenon-opt %s -p 'fuse{machine="halves=true"}' --split-input-file | filecheck %s --check-prefix HALVES

// Ops on each element share their loops; what is between them is never in memory.
func.func @elementwise_ops_are_one_kernel(%x: tensor<64x128xf32>, %y: tensor<128xf32>) -> tensor<64x128xf32> {
  %a = tenon.exp %x : tensor<64x128xf32> -> tensor<64x128xf32>
  %b = tenon.add %a, %y : tensor<64x128xf32>, tensor<128xf32> -> tensor<64x128xf32>
  func.return %b : tensor<64x128xf32>
}
// CHECK-LABEL: @elementwise_ops_are_one_kernel
// CHECK-NEXT:    %b = func.call @kernel_0(%x, %y)
// CHECK-NEXT:    func.return %b
// CHECK:       func.func private @kernel_0
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    %b = tenon.add %a, %y
// CHECK-NEXT:    func.return %b

// -----

// Ops that have no value in common are kernels of their own.
func.func @unrelated_ops_are_two_kernels(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = tenon.exp %x : tensor<64xf32> -> tensor<64xf32>
  %b = tenon.sin %y : tensor<64xf32> -> tensor<64xf32>
  func.return %a, %b : tensor<64xf32>, tensor<64xf32>
}
// CHECK-LABEL: @unrelated_ops_are_two_kernels
// CHECK-NEXT:    %a = func.call @kernel_0(%x)
// CHECK-NEXT:    %b = func.call @kernel_1(%y)
// CHECK-NEXT:    func.return %a, %b

// -----

// A transpose reads what was computed from memory, with what follows it.
func.func @transposes_begin_kernels(%x: tensor<64x128xf32>) -> tensor<128x64xf32> {
  %a = tenon.exp %x : tensor<64x128xf32> -> tensor<64x128xf32>
  %t = tenon.transpose %a {permutation = [1, 0]} : tensor<64x128xf32> -> tensor<128x64xf32>
  %b = tenon.sin %t : tensor<128x64xf32> -> tensor<128x64xf32>
  func.return %b : tensor<128x64xf32>
}
// CHECK-LABEL: @transposes_begin_kernels
// CHECK-NEXT:    %a = func.call @kernel_0(%x)
// CHECK-NEXT:    %b = func.call @kernel_1(%a)
// CHECK-NEXT:    func.return %b
// CHECK:       func.func private @kernel_0
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    func.return %a
// CHECK:       func.func private @kernel_1
// CHECK-NEXT:    %t = tenon.transpose %a {permutation = [1, 0]}
// CHECK-NEXT:    %b = tenon.sin %t
// CHECK-NEXT:    func.return %b

// -----

// The loops over windows are scheduled as a whole.
func.func @windows_are_alone(%x: tensor<64x128xf32>) -> tensor<64x126xf32> {
  %a = tenon.exp %x : tensor<64x128xf32> -> tensor<64x128xf32>
  %w = tenon.window_max %a {window = [3], stride = [1], dilation = [1]} : tensor<64x128xf32> -> tensor<64x126xf32>
  %b = tenon.sin %w : tensor<64x126xf32> -> tensor<64x126xf32>
  func.return %b : tensor<64x126xf32>
}
// CHECK-LABEL: @windows_are_alone
// CHECK-NEXT:    %a = func.call @kernel_0(%x)
// CHECK-NEXT:    %w = func.call @kernel_1(%a)
// CHECK-NEXT:    %b = func.call @kernel_2(%w)
// CHECK-NEXT:    func.return %b

// -----

// Four long rows would leave threads idle.
func.func @few_rows_are_not_shared(%x: tensor<4x100000xf16>) -> tensor<4x100000xf16> {
  %s = tenon.max %x {axis = [1], keepdims = true} : tensor<4x100000xf16> -> tensor<4x1xf16>
  %y = tenon.subtract %x, %s : tensor<4x100000xf16>, tensor<4x1xf16> -> tensor<4x100000xf16>
  func.return %y : tensor<4x100000xf16>
}
// CHECK-LABEL: @few_rows_are_not_shared
// CHECK-NEXT:    %s = func.call @kernel_0(%x)
// CHECK-NEXT:    %s_1 = tenon.reshape %s {shape = [4, 1]}
// CHECK-NEXT:    %y = func.call @kernel_1(%x, %s_1)
// CHECK-NEXT:    func.return %y

// -----

// One at the end is written by the kernel that computes it.
func.func @transposes_end_kernels(%x: tensor<64x128xf32>) -> tensor<128x64xf32> {
  %a = tenon.exp %x : tensor<64x128xf32> -> tensor<64x128xf32>
  %t = tenon.transpose %a {permutation = [1, 0]} : tensor<64x128xf32> -> tensor<128x64xf32>
  func.return %t : tensor<128x64xf32>
}
// CHECK-LABEL: @transposes_end_kernels
// CHECK-NEXT:    %t = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return %t
// CHECK:       func.func private @kernel_0
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    %t = tenon.transpose %a {permutation = [1, 0]}
// CHECK-NEXT:    func.return %t

// -----

// All that is done with a row is done while it is near.
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

// %c needs both %a and, through the contraction, %a's kernel: it can only join the contraction.
func.func @groups_do_not_depend_on_each_other_in_a_circle(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = tenon.exp %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %b = tenon.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %c = tenon.add %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %c : tensor<4x4xf32>
}
// CHECK-LABEL: @groups_do_not_depend_on_each_other_in_a_circle
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.call @kernel_1([[A]])
// CHECK:       @kernel_1
// CHECK-NEXT:    tenon.matmul
// CHECK-NEXT:    tenon.add

// -----

// What is computed twice in the same way is compiled once.
func.func @equal_kernels_are_one_function(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = tenon.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = tenon.cumsum %a {axis = 0} : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = tenon.matmul %b, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d = tenon.cumsum %c {axis = 0} : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %d : tensor<4x4xf32>
}
// CHECK-LABEL: @equal_kernels_are_one_function
// CHECK-NEXT:    func.call @kernel_0(%x, %w)
// CHECK-NEXT:    func.call @kernel_1
// CHECK-NEXT:    func.call @kernel_0
// CHECK-NEXT:    func.call @kernel_1

// -----

// What is done to each element of a contraction is done while it is in a cache.
func.func @epilogues_join_contractions(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %b: tensor<16xf32>) -> tensor<64x16xf32> {
  %a = tenon.matmul %x, %w : tensor<64x32xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  %s = tenon.add %a, %b : tensor<64x16xf32>, tensor<16xf32> -> tensor<64x16xf32>
  %y = tenon.tanh %s : tensor<64x16xf32> -> tensor<64x16xf32>
  func.return %y : tensor<64x16xf32>
}
// CHECK-LABEL: @epilogues_join_contractions
// CHECK-NEXT:    [[Y:%.*]] = func.call @kernel_0(%x, %w, %b)
// CHECK-NEXT:    func.return [[Y]]
// ALONE-LABEL: @epilogues_join_contractions
// ALONE-NEXT:    [[Y:%.*]] = func.call @kernel_0(%x, %w, %b)
// ALONE-NEXT:    func.return [[Y]]

// -----

// Without strips a contraction takes in what is combined with its result, and neither what computes an operand nor what
// reduces rows of the result.
func.func @rows_do_not_join(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %r: tensor<64x16xf32>) -> tensor<64xf32> {
  %e = tenon.exp %x : tensor<64x32xf32> -> tensor<64x32xf32>
  %f = tenon.exp %r : tensor<64x16xf32> -> tensor<64x16xf32>
  %a = tenon.matmul %e, %w : tensor<64x32xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
  %s = tenon.add %a, %f : tensor<64x16xf32>, tensor<64x16xf32> -> tensor<64x16xf32>
  %m = tenon.max %s {axis = [1]} : tensor<64x16xf32> -> tensor<64xf32>
  func.return %m : tensor<64xf32>
}
// ALONE-LABEL: @rows_do_not_join
// ALONE-NEXT:    [[E:%.*]] = func.call @kernel_0(%x)
// ALONE-NEXT:    [[S:%.*]] = func.call @kernel_1(%r, [[E]], %w)
// ALONE-NEXT:    func.call @kernel_2([[S]])

// -----

// The scores of an attention are never in memory as a whole: a strip of rows of them is all that is needed at a time.
// All strips read the keys, which are transposed once.
func.func @attention_is_one_kernel(%q: tensor<8x128x64xf32>, %k: tensor<8x128x64xf32>, %v: tensor<8x128x64xf32>) -> tensor<8x128x64xf32> {
  %s = tenon.contract [%q, %k] {maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>], extents = [8, 128, 128, 64], shape = [8, 128, 128]} : [tensor<8x128x64xf32>, tensor<8x128x64xf32>] -> tensor<8x128x128xf32>
  %m = tenon.max %s {axis = [2], keepdims = true} : tensor<8x128x128xf32> -> tensor<8x128x1xf32>
  %d = tenon.subtract %s, %m : tensor<8x128x128xf32>, tensor<8x128x1xf32> -> tensor<8x128x128xf32>
  %e = tenon.exp %d : tensor<8x128x128xf32> -> tensor<8x128x128xf32>
  %n = tenon.sum %e {axis = [2], keepdims = true} : tensor<8x128x128xf32> -> tensor<8x128x1xf32>
  %p = tenon.divide %e, %n : tensor<8x128x128xf32>, tensor<8x128x1xf32> -> tensor<8x128x128xf32>
  %o = tenon.matmul %p, %v : tensor<8x128x128xf32>, tensor<8x128x64xf32> -> tensor<8x128x64xf32>
  func.return %o : tensor<8x128x64xf32>
}
// CHECK-LABEL: @attention_is_one_kernel
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_0(%k) : (tensor<8x128x64xf32>) -> tensor<8x64x128xf32>
// CHECK-NEXT:    [[O:%.*]] = func.call @kernel_1(%q, [[T]], %v)
// CHECK-NEXT:    func.return [[O]]

// -----

// So are points, whose few coordinates are all that lies side by side, where another reduction follows.
func.func @points_are_transposed(%x: tensor<500x1x3xf32>, %y: tensor<1x900x3xf32>) -> tensor<500xf32> {
  %d = tenon.subtract %x, %y : tensor<500x1x3xf32>, tensor<1x900x3xf32> -> tensor<500x900x3xf32>
  %e = tenon.exp %d : tensor<500x900x3xf32> -> tensor<500x900x3xf32>
  %s = tenon.sum %e {axis = [2]} : tensor<500x900x3xf32> -> tensor<500x900xf32>
  %m = tenon.max %s {axis = [1]} : tensor<500x900xf32> -> tensor<500xf32>
  func.return %m : tensor<500xf32>
}
// CHECK-LABEL: @points_are_transposed
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_0(%y) : (tensor<1x900x3xf32>) -> tensor<1x3x900xf32>
// CHECK-NEXT:    func.call @kernel_1([[T]], %x)

// -----

// Weights that are copied for each strip are so only where that is less than what would be in memory without strips.
func.func @what_is_passed_is_less(%x: tensor<1024x512xf32>, %w: tensor<512x1024xf32>) -> tensor<1024x1024xf32> {
  %a = tenon.relu %x : tensor<1024x512xf32> -> tensor<1024x512xf32>
  %b = tenon.matmul %a, %w : tensor<1024x512xf32>, tensor<512x1024xf32> -> tensor<1024x1024xf32>
  func.return %b : tensor<1024x1024xf32>
}
// CHECK-LABEL: @what_is_passed_is_less
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.call @kernel_1([[A]], %w)
func.func @weights_are_less(%x: tensor<1024x512xf32>, %w: tensor<512x128xf32>) -> tensor<1024x128xf32> {
  %a = tenon.relu %x : tensor<1024x512xf32> -> tensor<1024x512xf32>
  %b = tenon.matmul %a, %w : tensor<1024x512xf32>, tensor<512x128xf32> -> tensor<1024x128xf32>
  func.return %b : tensor<1024x128xf32>
}
// CHECK-LABEL: @weights_are_less
// CHECK-NEXT:    [[B:%.*]] = func.call @kernel_2(%x, %w)
// CHECK-NEXT:    func.return [[B]]

// -----

// 32 MiB of weights are too much to be read for each strip of rows.
func.func @weights_stay_in_a_cache(%x: tensor<512x2048xf32>, %w: tensor<2048x4096xf32>) -> tensor<512x1xf32> {
  %a = tenon.matmul %x, %w : tensor<512x2048xf32>, tensor<2048x4096xf32> -> tensor<512x4096xf32>
  %m = tenon.max %a {axis = [1], keepdims = true} : tensor<512x4096xf32> -> tensor<512x1xf32>
  func.return %m : tensor<512x1xf32>
}
// CHECK-LABEL: @weights_stay_in_a_cache
// CHECK-NEXT:    [[A:%.*]] = func.call @kernel_0(%x, %w)
// CHECK-NEXT:    func.call @kernel_1([[A]])
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

// -----

// The gradient needs %h, too, so that it is in memory anyway: the next layer reads it there.
func.func @inputs_of_layers_are_kept(%x: tensor<128x32xf32>, %w: tensor<32x64xf32>, %v: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = tenon.matmul %x, %w : tensor<128x32xf32>, tensor<32x64xf32> -> tensor<128x64xf32>
  %h = tenon.tanh %a : tensor<128x64xf32> -> tensor<128x64xf32>
  %y = tenon.matmul %h, %v : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  %g = tenon.contract [%h, %y] {maps = [affine_map<(i, j, m) -> (m, i)>, affine_map<(i, j, m) -> (m, j)>, affine_map<(i, j, m) -> (i, j)>], extents = [64, 64, 128], shape = [64, 64]} : [tensor<128x64xf32>, tensor<128x64xf32>] -> tensor<64x64xf32>
  func.return %g : tensor<64x64xf32>
}
// CHECK-LABEL: @inputs_of_layers_are_kept
// CHECK-NEXT:    [[H:%.*]] = func.call @kernel_0(%x, %w)
// CHECK-NEXT:    [[Y:%.*]] = func.call @kernel_1([[H]], %v)
// CHECK-NEXT:    func.call @kernel_2([[H]], [[Y]])

// -----

// Each channel is padded just before its windows are read: a channel is a loop of both.
func.func @windows_of_each_channel(%x: tensor<1x64x1x30x30xf32>, %w: tensor<64x1x1x3x3xf32>) -> tensor<1x64x1x30x30xf32> {
  %p = tenon.pad %x {low = [0, 0, 0, 1, 1], high = [0, 0, 0, 1, 1]} : tensor<1x64x1x30x30xf32> -> tensor<1x64x1x32x32xf32>
  %y = tenon.convolution %p, %w : tensor<1x64x1x32x32xf32>, tensor<64x1x1x3x3xf32> -> tensor<1x64x1x30x30xf32>
  func.return %y : tensor<1x64x1x30x30xf32>
}
// CHECK-LABEL: @windows_of_each_channel
// CHECK-NEXT:    %y = func.call @kernel_0(%x, %w)
// CHECK-NEXT:    func.return

// -----

// All filters read the same windows, so that the channels, which are added up, are padded before.
func.func @windows_of_all_channels(%x: tensor<1x1x64x30x30xf32>, %w: tensor<1x64x64x3x3xf32>) -> tensor<1x1x64x30x30xf32> {
  %p = tenon.pad %x {low = [0, 0, 0, 1, 1], high = [0, 0, 0, 1, 1]} : tensor<1x1x64x30x30xf32> -> tensor<1x1x64x32x32xf32>
  %y = tenon.convolution %p, %w : tensor<1x1x64x32x32xf32>, tensor<1x64x64x3x3xf32> -> tensor<1x1x64x30x30xf32>
  func.return %y : tensor<1x1x64x30x30xf32>
}
// CHECK-LABEL: @windows_of_all_channels
// CHECK-NEXT:    [[P:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    %y = func.call @kernel_1([[P]], %w)

// -----

// A band is part of the kernels that use it, and needs no memory.
func.func @bands_are_cloned(%x: tensor<2x64x64xf32>, %y: tensor<f32>) -> (tensor<2x64xf32>, tensor<64x64xf32>) {
  %m = tenon.band {shape = [64, 64], upper = 0} : tensor<64x64xi1>
  %s = tenon.select %m, %x, %y : tensor<64x64xi1>, tensor<2x64x64xf32>, tensor<f32> -> tensor<2x64x64xf32>
  %r = tenon.sum %s {axis = [2]} : tensor<2x64x64xf32> -> tensor<2x64xf32>
  %o = tenon.sum %x {axis = [0]} : tensor<2x64x64xf32> -> tensor<64x64xf32>
  %t = tenon.select %m, %o, %y : tensor<64x64xi1>, tensor<64x64xf32>, tensor<f32> -> tensor<64x64xf32>
  func.return %r, %t : tensor<2x64xf32>, tensor<64x64xf32>
}
// CHECK-LABEL: @bands_are_cloned
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_0(%x, %y)
// CHECK:         func.return [[R]]
// CHECK:       @kernel_0(%x: tensor<2x64x64xf32>, %y: tensor<f32>)
// CHECK-NEXT:    tenon.band {shape = [64, 64], upper = 0}

// -----

// One that is returned is computed once, for all.
func.func @bands_that_are_results(%x: tensor<64x64xf32>, %y: tensor<f32>) -> (tensor<64x64xi1>, tensor<64x64xf32>) {
  %m = tenon.band {shape = [64, 64], upper = 0} : tensor<64x64xi1>
  %t = tenon.select %m, %x, %y : tensor<64x64xi1>, tensor<64x64xf32>, tensor<f32> -> tensor<64x64xf32>
  func.return %m, %t : tensor<64x64xi1>, tensor<64x64xf32>
}
// CHECK-LABEL: @bands_that_are_results
// CHECK:         func.call @kernel_0
// CHECK-COUNT-1: tenon.band

// -----

// What is widened for a contraction is widened in its kernel, also if something else uses it.
func.func @contractions_read_what_is_narrow(%a: tensor<64x32xi8>, %b: tensor<32x48xi8>) -> (tensor<64x48xi32>, tensor<32xi32>) {
  %x = tenon.cast %a {dtype = i32} : tensor<64x32xi8> -> tensor<64x32xi32>
  %y = tenon.cast %b {dtype = i32} : tensor<32x48xi8> -> tensor<32x48xi32>
  %z = tenon.matmul %x, %y : tensor<64x32xi32>, tensor<32x48xi32> -> tensor<64x48xi32>
  %s = tenon.sum %y {axis = [1]} : tensor<32x48xi32> -> tensor<32xi32>
  func.return %z, %s : tensor<64x48xi32>, tensor<32xi32>
}
// CHECK-LABEL: @contractions_read_what_is_narrow
// CHECK-DAG:     func.call @[[PRODUCT:.*]](%a, %b) : (tensor<64x32xi8>, tensor<32x48xi8>) -> tensor<64x48xi32>
// CHECK-DAG:     func.call @[[SUM:.*]](%b) : (tensor<32x48xi8>) -> tensor<32xi32>
// CHECK:       func.func private @[[PRODUCT]](
// CHECK:         tenon.cast %a
// CHECK:         tenon.cast %b
// CHECK:         tenon.matmul

// -----

// The sum over rows is added up by the kernel that has each row, behind what is done with it.
func.func @rows_are_summed_where_they_are(%x: tensor<1024x128xf32>) -> (tensor<1024x128xf32>, tensor<128xf32>) {
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<1024x128xf32> -> tensor<1024x1xf32>
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<1024x1xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %d {axis = [0]} : tensor<1024x128xf32> -> tensor<128xf32>
  func.return %d, %s : tensor<1024x128xf32>, tensor<128xf32>
}
// CHECK-LABEL: @rows_are_summed_where_they_are
// CHECK-NEXT:    func.call @kernel_0(%x)
// CHECK-NEXT:    func.return
// CHECK:         tenon.subtract
// CHECK-NEXT:    tenon.sum

// -----

// So is one of an argument that the kernel reads, though it could come first.
func.func @rows_of_arguments_are_summed(%x: tensor<1024x128xf32>, %y: tensor<1024x128xf32>) -> (tensor<128xf32>, tensor<1024x128xf32>) {
  %s = tenon.sum %y {axis = [0]} : tensor<1024x128xf32> -> tensor<128xf32>
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<1024x128xf32> -> tensor<1024x1xf32>
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<1024x1xf32> -> tensor<1024x128xf32>
  %p = tenon.multiply %d, %y : tensor<1024x128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  func.return %s, %p : tensor<128xf32>, tensor<1024x128xf32>
}
// CHECK-LABEL: @rows_of_arguments_are_summed
// CHECK-NEXT:    func.call @kernel_0
// CHECK-NEXT:    func.return
// CHECK:         tenon.multiply
// CHECK-NEXT:    tenon.sum %y

// -----

// One of few columns stays alone.
func.func @sums_of_few_columns(%z: tensor<65536x4xf32>) -> (tensor<65536x4xf32>, tensor<4xf32>) {
  %e = tenon.exp %z : tensor<65536x4xf32> -> tensor<65536x4xf32>
  %f = tenon.sum %e {axis = [0]} : tensor<65536x4xf32> -> tensor<4xf32>
  func.return %e, %f : tensor<65536x4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @sums_of_few_columns
// CHECK-NEXT:    [[E:%.*]] = func.call @kernel_0(%z)
// CHECK-NEXT:    func.call @kernel_1([[E]])

// -----

// A sum that a row needs is complete when its kernel is.
func.func @sums_that_rows_need(%x: tensor<1024x128xf32>) -> tensor<1024x128xf32> {
  %s = tenon.sum %x {axis = [0]} : tensor<1024x128xf32> -> tensor<128xf32>
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<1024x128xf32> -> tensor<1024x1xf32>
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<1024x1xf32> -> tensor<1024x128xf32>
  %t = tenon.add %d, %s : tensor<1024x128xf32>, tensor<128xf32> -> tensor<1024x128xf32>
  func.return %t : tensor<1024x128xf32>
}
// CHECK-LABEL: @sums_that_rows_need
// CHECK-COUNT-2: func.call

// -----

// A product that copies its operands into panels, here the one that it reads across, shares no loops.
#x = affine_map<(i, j, k) -> (k, i)>
#y = affine_map<(i, j, k) -> (k, j)>
#o = affine_map<(i, j, k) -> (i, j)>
func.func @products_by_panels_are_alone(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %a = tenon.contract [%x, %y] {maps = [#x, #y, #o], extents = [2048, 2048, 2048], shape = [2048, 2048]} : [tensor<2048x2048xf32>, tensor<2048x2048xf32>] -> tensor<2048x2048xf32>
  %b = tenon.tanh %a : tensor<2048x2048xf32> -> tensor<2048x2048xf32>
  func.return %b : tensor<2048x2048xf32>
}
// CHECK-LABEL: @products_by_panels_are_alone
// CHECK-NEXT:    %a = func.call @kernel_0(%x, %y)
// CHECK-NEXT:    func.call @kernel_1(%a)

// Of operands that stay in a core's cache there are panels only where loads do not keep ahead of products.
func.func @near_operands(%x: tensor<1024x128xf32>, %y: tensor<1024x128xf32>) -> tensor<128x128xf32> {
  %a = tenon.contract [%x, %y] {maps = [#x, #y, #o], extents = [128, 128, 1024], shape = [128, 128]} : [tensor<1024x128xf32>, tensor<1024x128xf32>] -> tensor<128x128xf32>
  %b = tenon.tanh %a : tensor<128x128xf32> -> tensor<128x128xf32>
  func.return %b : tensor<128x128xf32>
}
// CHECK-LABEL: @near_operands
// CHECK-COUNT-2: func.call
// HALVES-LABEL: @near_operands
// HALVES-NEXT:   func.call @kernel_{{[0-9]+}}(%x, %y)
// HALVES-NEXT:   func.return

// -----

// A layer copies the columns of its weight for each strip, in order, and has no transpose in front.
#l = affine_map<(i, j, k) -> (i, k)>
#v = affine_map<(i, j, k) -> (j, k)>
#p = affine_map<(i, j, k) -> (i, j)>
func.func @layer(%x: tensor<64x256xf32>, %w: tensor<128x256xf32>) -> tensor<64x128xf32> {
  %a = tenon.contract [%x, %w] {maps = [#l, #v, #p], extents = [64, 128, 256], shape = [64, 128]} : [tensor<64x256xf32>, tensor<128x256xf32>] -> tensor<64x128xf32>
  %b = tenon.tanh %a : tensor<64x128xf32> -> tensor<64x128xf32>
  func.return %b : tensor<64x128xf32>
}
// CHECK-LABEL: @layer
// CHECK-NEXT:    %b = func.call @kernel_{{[0-9]+}}(%x, %w)
// CHECK-NEXT:    func.return

// -----

// The weight that each step reads is transposed in front of the loop.
#h = affine_map<(i, j, k) -> (i, k)>
#w = affine_map<(i, j, k) -> (j, k)>
#p = affine_map<(i, j, k) -> (i, j)>
func.func @transposed_in_front_of_a_loop(%h: tensor<64x256xf32>, %w: tensor<256x256xf32>) -> tensor<64x256xf32> {
  %r = tenon.scan init(%h : tensor<64x256xf32>) length 8 -> (tensor<64x256xf32>) {
  ^bb0(%c: tensor<64x256xf32>):
    %a = tenon.contract [%c, %w] {maps = [#h, #w, #p], extents = [64, 256, 256], shape = [64, 256]} : [tensor<64x256xf32>, tensor<256x256xf32>] -> tensor<64x256xf32>
    %b = tenon.tanh %a : tensor<64x256xf32> -> tensor<64x256xf32>
    tenon.yield %b : tensor<64x256xf32>
  }
  func.return %r : tensor<64x256xf32>
}
// CHECK-LABEL: @transposed_in_front_of_a_loop
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_0(%w)
// CHECK-NEXT:    tenon.scan
// CHECK-NEXT:    ^{{.*}}:
// CHECK-NEXT:      func.call @kernel_1(%c, [[T]])
// CHECK-NEXT:      tenon.yield

// -----

// A concatenation takes in what only it uses, slices among it, and goes with what uses it.
func.func @moved_ranges_are_computed_where_they_go(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = tenon.slice %x {starts = [0, 32], limits = [64, 64]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %n = tenon.negative %a : tensor<64x32xf32> -> tensor<64x32xf32>
  %b = tenon.slice %x {starts = [0, 0], limits = [64, 32]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %c = tenon.concatenate [%n, %b] {axis = 1} : [tensor<64x32xf32>, tensor<64x32xf32>] -> tensor<64x64xf32>
  %y = tenon.multiply %c, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}
// CHECK-LABEL: @moved_ranges_are_computed_where_they_go
// CHECK-NEXT:    func.call @kernel_0(%x)
// CHECK-NEXT:    func.return

// -----

// What two slices read, each its own part, is computed where these go.
func.func @parts_that_meet_again(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tenon.exp %x : tensor<64x64xf32> -> tensor<64x64xf32>
  %a = tenon.slice %e {starts = [0, 0], limits = [20, 64]} : tensor<64x64xf32> -> tensor<20x64xf32>
  %b = tenon.slice %e {starts = [20, 0], limits = [64, 64]} : tensor<64x64xf32> -> tensor<44x64xf32>
  %c = tenon.concatenate [%b, %a] : [tensor<44x64xf32>, tensor<20x64xf32>] -> tensor<64x64xf32>
  func.return %c : tensor<64x64xf32>
}
// CHECK-LABEL: @parts_that_meet_again
// CHECK-NEXT:    func.call @kernel_0(%x)
// CHECK-NEXT:    func.return

// -----

// What two parts are made of is taken in with them if it is only moved: each part reads it for itself.
func.func @parts_of_the_same_slices(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = tenon.slice %x {starts = [0, 0], limits = [64, 32]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %b = tenon.slice %x {starts = [0, 32], limits = [64, 64]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %s = tenon.add %a, %b : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
  %d = tenon.subtract %a, %b : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
  %c = tenon.concatenate [%s, %d] {axis = 1} : [tensor<64x32xf32>, tensor<64x32xf32>] -> tensor<64x64xf32>
  func.return %c : tensor<64x64xf32>
}
// CHECK-LABEL: @parts_of_the_same_slices
// CHECK-NEXT:    func.call @kernel_0(%x)
// CHECK-NEXT:    func.return

// -----

// So does each with what is cheap, such as a cast.
func.func @parts_of_the_same_cast(%x: tensor<64x64xbf16>) -> tensor<64x64xf32> {
  %f = tenon.cast %x {dtype = f32} : tensor<64x64xbf16> -> tensor<64x64xf32>
  %a = tenon.slice %f {starts = [0, 0], limits = [64, 32]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %b = tenon.slice %f {starts = [0, 32], limits = [64, 64]} : tensor<64x64xf32> -> tensor<64x32xf32>
  %s = tenon.add %a, %b : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
  %d = tenon.subtract %a, %b : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
  %c = tenon.concatenate [%s, %d] {axis = 1} : [tensor<64x32xf32>, tensor<64x32xf32>] -> tensor<64x64xf32>
  func.return %c : tensor<64x64xf32>
}
// CHECK-LABEL: @parts_of_the_same_cast
// CHECK-NEXT:    func.call @kernel_0(%x)
// CHECK-NEXT:    func.return

// -----

// What is computed for two parts is computed once, and in memory.
func.func @parts_of_the_same_value(%x: tensor<64x64xf32>) -> tensor<64x128xf32> {
  %e = tenon.exp %x : tensor<64x64xf32> -> tensor<64x64xf32>
  %n = tenon.negative %e : tensor<64x64xf32> -> tensor<64x64xf32>
  %m = tenon.multiply %e, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %c = tenon.concatenate [%n, %m] {axis = 1} : [tensor<64x64xf32>, tensor<64x64xf32>] -> tensor<64x128xf32>
  func.return %c : tensor<64x128xf32>
}
// CHECK-LABEL: @parts_of_the_same_value
// CHECK-NEXT:    %n, %m = func.call @kernel_0(%x)
// CHECK-NEXT:    func.call @kernel_1(%n, %m)

// -----

// Parts that overlap are read from memory.
func.func @parts_that_overlap(%x: tensor<64x64xf32>) -> tensor<104x64xf32> {
  %e = tenon.exp %x : tensor<64x64xf32> -> tensor<64x64xf32>
  %a = tenon.slice %e {starts = [0, 0], limits = [60, 64]} : tensor<64x64xf32> -> tensor<60x64xf32>
  %b = tenon.slice %e {starts = [20, 0], limits = [64, 64]} : tensor<64x64xf32> -> tensor<44x64xf32>
  %c = tenon.concatenate [%b, %a] : [tensor<44x64xf32>, tensor<60x64xf32>] -> tensor<104x64xf32>
  func.return %c : tensor<104x64xf32>
}
// CHECK-LABEL: @parts_that_overlap
// CHECK-NEXT:    %[[E:.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.call @kernel_1(%[[E]])

// -----

// Columns of many short rows are computed where they go, and share the loop over rows with what is computed for both.
func.func @columns(%x: tensor<2000x1xf32>) -> tensor<2000x2xf32> {
  %e = tenon.exp %x : tensor<2000x1xf32> -> tensor<2000x1xf32>
  %n = tenon.negative %e : tensor<2000x1xf32> -> tensor<2000x1xf32>
  %m = tenon.sin %e : tensor<2000x1xf32> -> tensor<2000x1xf32>
  %c = tenon.concatenate [%n, %m] {axis = 1} : [tensor<2000x1xf32>, tensor<2000x1xf32>] -> tensor<2000x2xf32>
  func.return %c : tensor<2000x2xf32>
}
// CHECK-LABEL: @columns
// CHECK-NEXT:    %c = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return %c

// -----

// What is only moved may be repeated along rows.
func.func @moved_for_each_element(%x: tensor<2000x4xf32>) -> tensor<2000x4xf32> {
  %a = tenon.slice %x {starts = [0, 0], limits = [2000, 3]} : tensor<2000x4xf32> -> tensor<2000x3xf32>
  %b = tenon.slice %x {starts = [0, 3], limits = [2000, 4]} : tensor<2000x4xf32> -> tensor<2000x1xf32>
  %p = tenon.multiply %a, %b : tensor<2000x3xf32>, tensor<2000x1xf32> -> tensor<2000x3xf32>
  %c = tenon.concatenate [%p, %b] {axis = 1} : [tensor<2000x3xf32>, tensor<2000x1xf32>] -> tensor<2000x4xf32>
  func.return %c : tensor<2000x4xf32>
}
// CHECK-LABEL: @moved_for_each_element
// CHECK-NEXT:    %c = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return %c

// -----

// So may what is computed of a whole row before.
func.func @computed_before(%x: tensor<2000x4xui8>) -> tensor<2000x4xi32> {
  %y = tenon.cast %x {dtype = i32} : tensor<2000x4xui8> -> tensor<2000x4xi32>
  %a = tenon.slice %y {starts = [0, 0], limits = [2000, 3]} : tensor<2000x4xi32> -> tensor<2000x3xi32>
  %b = tenon.slice %y {starts = [0, 3], limits = [2000, 4]} : tensor<2000x4xi32> -> tensor<2000x1xi32>
  %p = tenon.multiply %a, %b : tensor<2000x3xi32>, tensor<2000x1xi32> -> tensor<2000x3xi32>
  %c = tenon.concatenate [%p, %b] {axis = 1} : [tensor<2000x3xi32>, tensor<2000x1xi32>] -> tensor<2000x4xi32>
  func.return %c : tensor<2000x4xi32>
}
// CHECK-LABEL: @computed_before
// CHECK-NEXT:    %c = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return %c

// -----

// What is computed for a row is not computed again for each of its elements.
func.func @computed_for_rows(%x: tensor<2000x4xf32>) -> tensor<2000x4xf32> {
  %a = tenon.slice %x {starts = [0, 0], limits = [2000, 3]} : tensor<2000x4xf32> -> tensor<2000x3xf32>
  %b = tenon.slice %x {starts = [0, 3], limits = [2000, 4]} : tensor<2000x4xf32> -> tensor<2000x1xf32>
  %e = tenon.exp %b : tensor<2000x1xf32> -> tensor<2000x1xf32>
  %p = tenon.multiply %a, %e : tensor<2000x3xf32>, tensor<2000x1xf32> -> tensor<2000x3xf32>
  %c = tenon.concatenate [%p, %b] {axis = 1} : [tensor<2000x3xf32>, tensor<2000x1xf32>] -> tensor<2000x4xf32>
  func.return %c : tensor<2000x4xf32>
}
// CHECK-LABEL: @computed_for_rows
// CHECK-NEXT:    %b, %p = func.call @kernel_0(%x)
// CHECK-NEXT:    %c = func.call @kernel_1(%p, %b)

// -----

// It reads from memory what is needed elsewhere, too, and runs of single elements.
func.func @ranges_that_stay_in_memory(%x: tensor<64x1xf32>, %y: tensor<64x64xf32>) -> (tensor<64x2xf32>, tensor<64x64xf32>, tensor<64x128xf32>) {
  %a = tenon.exp %x : tensor<64x1xf32> -> tensor<64x1xf32>
  %c = tenon.concatenate [%a, %x] {axis = 1} : [tensor<64x1xf32>, tensor<64x1xf32>] -> tensor<64x2xf32>
  %b = tenon.exp %y : tensor<64x64xf32> -> tensor<64x64xf32>
  %d = tenon.concatenate [%b, %y] {axis = 1} : [tensor<64x64xf32>, tensor<64x64xf32>] -> tensor<64x128xf32>
  func.return %c, %b, %d : tensor<64x2xf32>, tensor<64x64xf32>, tensor<64x128xf32>
}
// CHECK-LABEL: @ranges_that_stay_in_memory
// CHECK-COUNT-4: func.call

// -----

// A sum of rows that nothing else computes with is made where others read these rows.
func.func @rows_that_others_read(%x: tensor<256x4096xf32>) -> (tensor<256x4096xf32>, tensor<256xf32>) {
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<256x4096xf32> -> tensor<256x1xf32>
  %d = tenon.subtract %x, %m : tensor<256x4096xf32>, tensor<256x1xf32> -> tensor<256x4096xf32>
  %s = tenon.sum %x {axis = [1]} : tensor<256x4096xf32> -> tensor<256xf32>
  func.return %d, %s : tensor<256x4096xf32>, tensor<256xf32>
}
// CHECK-LABEL: @rows_that_others_read
// CHECK-NEXT:    [[D:%.*]], [[S:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return [[D]], [[S]]

// -----

// Dimensions of size 1 are in nobody's way.
func.func @rows_that_others_read_with_a_dimension_of_one(%x: tensor<256x1x4096xf32>) -> (tensor<256x1x4096xf32>, tensor<256x1xf32>) {
  %m = tenon.max %x {axis = [2], keepdims = true} : tensor<256x1x4096xf32> -> tensor<256x1x1xf32>
  %d = tenon.subtract %x, %m : tensor<256x1x4096xf32>, tensor<256x1x1xf32> -> tensor<256x1x4096xf32>
  %s = tenon.sum %x {axis = [2]} : tensor<256x1x4096xf32> -> tensor<256x1xf32>
  func.return %d, %s : tensor<256x1x4096xf32>, tensor<256x1xf32>
}
// CHECK-LABEL: @rows_that_others_read_with_a_dimension_of_one
// CHECK-NEXT:    [[D:%.*]], [[S:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return [[D]], [[S]]

// -----

// What is computed element by element stays out of a product that adds up over its rows: by itself the product keeps
// its sums in registers.
func.func @adds_up_elements(%x: tensor<8x512x128xf32>, %g: tensor<8x512x128xf32>) -> tensor<8x128x128xf32> {
  %e = tenon.exp %x : tensor<8x512x128xf32> -> tensor<8x512x128xf32>
  %w = tenon.contract [%e, %g] {maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], extents = [8, 128, 128, 512], shape = [8, 128, 128]} : [tensor<8x512x128xf32>, tensor<8x512x128xf32>] -> tensor<8x128x128xf32>
  func.return %w : tensor<8x128x128xf32>
}
// CHECK-LABEL: @adds_up_elements
// CHECK-COUNT-2: func.call @kernel_

// -----

// Where that is asked for, a scatter takes in what places and updates are computed from, for it alone.
func.func @scatters_compute_their_updates(%x: tensor<50xi32>, %i: tensor<99xi32>, %v: tensor<99xi32>) -> tensor<50xi32> {
  %j = tenon.negative %i : tensor<99xi32> -> tensor<99xi32>
  %w = tenon.multiply %v, %v : tensor<99xi32>, tensor<99xi32> -> tensor<99xi32>
  %y = tenon.scatter_add %x, %j, %w : tensor<50xi32>, tensor<99xi32>, tensor<99xi32> -> tensor<50xi32>
  func.return %y : tensor<50xi32>
}
// CHECK-LABEL: @scatters_compute_their_updates
// CHECK-COUNT-3: func.call
// UPDATES-LABEL: @scatters_compute_their_updates
// UPDATES-NEXT:    %y = func.call @kernel_0(%i, %v, %x)
// UPDATES:       func.func private @kernel_0
// UPDATES-NEXT:    tenon.negative
// UPDATES-NEXT:    tenon.multiply
// UPDATES-NEXT:    tenon.scatter_add

// -----

// The rows of a bag are combined where they are read. Elements that lie apart are put side by side before.
func.func @bags_of_rows(%e: tensor<2000x48xf32>, %i: tensor<300x12xi64>) -> tensor<300x48xf32> {
  %g = tenon.gather %e, %i : tensor<2000x48xf32>, tensor<300x12xi64> -> tensor<300x12x48xf32>
  %y = tenon.max %g {axis = [1]} : tensor<300x12x48xf32> -> tensor<300x48xf32>
  func.return %y : tensor<300x48xf32>
}
// CHECK-LABEL: @bags_of_rows
// CHECK-NEXT:    [[Y:%.*]] = func.call @kernel_{{[0-9]+}}(%e, %i)
// CHECK-NEXT:    func.return [[Y]]
func.func @sum_of_elements(%e: tensor<2000xf32>, %i: tensor<9000xi64>) -> tensor<f32> {
  %g = tenon.gather %e, %i : tensor<2000xf32>, tensor<9000xi64> -> tensor<9000xf32>
  %y = tenon.sum %g {axis = [0]} : tensor<9000xf32> -> tensor<f32>
  func.return %y : tensor<f32>
}
// CHECK-LABEL: @sum_of_elements
// CHECK-NEXT:    [[G:%.*]] = func.call @kernel_{{[0-9]+}}(%e, %i)
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}([[G]])

// -----

// A scalar is reduced over nothing, and has no rows.
func.func @any_of_a_scalar(%x: tensor<i1>) -> tensor<i1> {
  %y = tenon.any %x : tensor<i1> -> tensor<i1>
  func.return %y : tensor<i1>
}
// CHECK-LABEL: @any_of_a_scalar
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}(%x)

// -----

// Of functions there may be more at a time elsewhere.
func.func @functions_of_updates(%i: tensor<3000xi64>, %v: tensor<3000xf32>, %x: tensor<90xf32>) -> tensor<90xf32> {
  %p = tenon.negative %i : tensor<3000xi64> -> tensor<3000xi64>
  %e = tenon.exp %v : tensor<3000xf32> -> tensor<3000xf32>
  %y = tenon.scatter_add %x, %p, %e : tensor<90xf32>, tensor<3000xi64>, tensor<3000xf32> -> tensor<90xf32>
  func.return %y : tensor<90xf32>
}
// UPDATES-LABEL: @functions_of_updates
// UPDATES-NEXT:    func.call @kernel_{{[0-9]+}}(%i, %v, %x)
// ARITHMETIC-LABEL: @functions_of_updates
// ARITHMETIC-NEXT:    [[E:%.*]] = func.call @kernel_{{[0-9]+}}(%v)
// ARITHMETIC-NEXT:    func.call @kernel_{{[0-9]+}}(%i, %x, [[E]])

// -----

// Rows that are too long to be kept are gone through several times where there are as many as is asked for.
func.func @long_rows_are_one_kernel(%x: tensor<16x65536xf32>) -> tensor<16x65536xf32> {
  %m = tenon.max %x {axis = [1], keepdims = true} : tensor<16x65536xf32> -> tensor<16x1xf32>
  %d = tenon.subtract %x, %m : tensor<16x65536xf32>, tensor<16x1xf32> -> tensor<16x65536xf32>
  %e = tenon.exp %d : tensor<16x65536xf32> -> tensor<16x65536xf32>
  %s = tenon.sum %e {axis = [1], keepdims = true} : tensor<16x65536xf32> -> tensor<16x1xf32>
  %y = tenon.divide %e, %s : tensor<16x65536xf32>, tensor<16x1xf32> -> tensor<16x65536xf32>
  func.return %y : tensor<16x65536xf32>
}
// CHECK-LABEL: @long_rows_are_one_kernel
// CHECK-COUNT-2: func.call
// LONG-LABEL:  @long_rows_are_one_kernel
// LONG-NEXT:     %y = func.call @kernel_0(%x)
// LONG-NEXT:     func.return %y

// -----

// Windows of channels by themselves read what is padded where it is, whatever loops follow: padding joins their kernel.
func.func @padding_joins_windows(%x: tensor<1x64x1x128x128xf32>, %w: tensor<64x1x1x3x3xf32>) -> tensor<1x64x1x128x128xf32> {
  %p = tenon.pad %x {low = [0, 0, 0, 1, 1], high = [0, 0, 0, 1, 1]} : tensor<1x64x1x128x128xf32> -> tensor<1x64x1x130x130xf32>
  %y = tenon.convolution %p, %w : tensor<1x64x1x130x130xf32>, tensor<64x1x1x3x3xf32> -> tensor<1x64x1x128x128xf32>
  %r = tenon.relu %y : tensor<1x64x1x128x128xf32> -> tensor<1x64x1x128x128xf32>
  func.return %r : tensor<1x64x1x128x128xf32>
}
// CHECK-LABEL: @padding_joins_windows
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_0(%x, %w)
// CHECK-NEXT:    func.return [[R]]

// -----

// Windows too far apart for vectors with all elements in between do not.
func.func @padding_before_distant_windows(%x: tensor<1x64x1x128x128xf32>, %w: tensor<64x1x1x3x3xf32>) -> tensor<1x64x1x26x26xf32> {
  %p = tenon.pad %x {low = [0, 0, 0, 1, 1], high = [0, 0, 0, 1, 1]} : tensor<1x64x1x128x128xf32> -> tensor<1x64x1x130x130xf32>
  %y = tenon.convolution %p, %w {stride = [5]} : tensor<1x64x1x130x130xf32>, tensor<64x1x1x3x3xf32> -> tensor<1x64x1x26x26xf32>
  func.return %y : tensor<1x64x1x26x26xf32>
}
// CHECK-LABEL: @padding_before_distant_windows
// CHECK-COUNT-2: func.call @kernel_

// -----

// What joins results of contractions as pieces of memory is no kernel: each is written where it goes.
func.func @joined_products(%a: tensor<16x32xf32>, %b: tensor<16x32xf32>, %w: tensor<32x8xf32>) -> tensor<2x16x8xf32> {
  %p = tenon.matmul %a, %w : tensor<16x32xf32>, tensor<32x8xf32> -> tensor<16x8xf32>
  %q = tenon.matmul %b, %w : tensor<16x32xf32>, tensor<32x8xf32> -> tensor<16x8xf32>
  %r = tenon.reshape %p {shape = [1, 16, 8]} : tensor<16x8xf32> -> tensor<1x16x8xf32>
  %s = tenon.reshape %q {shape = [1, 16, 8]} : tensor<16x8xf32> -> tensor<1x16x8xf32>
  %y = tenon.concatenate [%r, %s] : [tensor<1x16x8xf32>, tensor<1x16x8xf32>] -> tensor<2x16x8xf32>
  func.return %y : tensor<2x16x8xf32>
}
// CHECK-LABEL: @joined_products
// CHECK:         tensor.empty() : tensor<2x16x8xf32>
// CHECK:         func.call @kernel_0(%a, %w)
// CHECK:         tensor.insert_slice {{.*}}[0, 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK:         func.call @kernel_0(%b, %w)
// CHECK:         tensor.insert_slice {{.*}}[1, 0, 0] [1, 16, 8] [1, 1, 1]
// CHECK-NOT:   tenon.concatenate

// -----

// Long rows that are fewer than wanted are no work for all: what goes through them again does so in a kernel of its own.
func.func @few_long_rows(%x: tensor<64x8x64x64xf32>) -> tensor<64x8x64x64xf32> {
  %s = tenon.sum %x {axis = [0, 2, 3], keepdims = true} : tensor<64x8x64x64xf32> -> tensor<1x8x1x1xf32>
  %y = tenon.subtract %x, %s : tensor<64x8x64x64xf32>, tensor<1x8x1x1xf32> -> tensor<64x8x64x64xf32>
  func.return %y : tensor<64x8x64x64xf32>
}
// LONG-LABEL: @few_long_rows
// LONG:         func.call @kernel_0(%x)
// LONG:         func.call @kernel_1(%x,

// -----

// A number has no loop that could be along rows.
func.func @reduction_of_a_number(%x: tensor<f32>) -> tensor<i1> {
  %a = tenon.all %x : tensor<f32> -> tensor<i1>
  func.return %a : tensor<i1>
}
// CHECK-LABEL: func.func private @kernel_0
// CHECK:         tenon.all

// -----

// A mean of windows is divided where its sum is, which is a contraction of one operand then.
func.func @mean_of_windows(%x: tensor<4x8x16x16xf32>, %c: tensor<4x8x8x8xf32>) -> tensor<4x8x8x8xf32> {
  %s = tenon.window_sum %x {window = [2, 2], stride = [2, 2], dilation = [1, 1]} : tensor<4x8x16x16xf32> -> tensor<4x8x8x8xf32>
  %y = tenon.multiply %s, %c : tensor<4x8x8x8xf32>, tensor<4x8x8x8xf32> -> tensor<4x8x8x8xf32>
  func.return %y : tensor<4x8x8x8xf32>
}
// CHECK-LABEL: @mean_of_windows
// CHECK-NEXT:    [[Y:%.*]] = func.call @kernel_0(%x, %c)
// CHECK-NEXT:    func.return [[Y]]
// CHECK:         tenon.contract [%x]
// ALONE-LABEL: @mean_of_windows
// ALONE:         func.call @kernel_1
