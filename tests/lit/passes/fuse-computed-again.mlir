// RUN: tenon-opt %s -p 'fuse{machine="l2=262144"}' --split-input-file | filecheck %s

// What is made from arguments by cheap ops is not stored for other kernels: each has it of its own.
func.func @differences_are_made_twice(%x: tensor<1024x128xf32>, %m: tensor<128xf32>) -> tensor<1024x128xf32> {
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %d {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %r = tenon.multiply %d, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  func.return %r : tensor<1024x128xf32>
}
// CHECK-LABEL: @differences_are_made_twice
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_0(%x, %m) : (tensor<1024x128xf32>, tensor<128xf32>) -> tensor<f32>
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_1(%x, %m, [[S]])
// CHECK-NEXT:    func.return [[R]]
// CHECK:       func.func private @kernel_0
// CHECK-NEXT:    tenon.subtract
// CHECK-NEXT:    tenon.sum
// CHECK:       func.func private @kernel_1
// CHECK-NEXT:    tenon.subtract
// CHECK-NEXT:    tenon.multiply

// -----

// A division takes no longer than memory, two do.
func.func @quotients_are_made_twice(%x: tensor<1024x128xf32>, %m: tensor<128xf32>) -> (tensor<1024x128xf32>, tensor<1024x128xf32>) {
  %d = tenon.divide %x, %m : tensor<1024x128xf32>, tensor<128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %d {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %r = tenon.multiply %d, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  %e = tenon.divide %m, %x : tensor<128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  %f = tenon.divide %m, %e : tensor<128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  %t = tenon.sum %f {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %u = tenon.multiply %f, %t : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  func.return %r, %u : tensor<1024x128xf32>, tensor<1024x128xf32>
}
// CHECK-LABEL: @quotients_are_made_twice
// CHECK-DAG:     [[S:%.*]] = func.call @kernel_0(%x, %m) : (tensor<1024x128xf32>, tensor<128xf32>) -> tensor<f32>
// CHECK-DAG:     func.call @kernel_{{[0-9]+}}(%x, %m, [[S]])
// CHECK-DAG:     [[F:%.*]] = func.call @kernel_{{[0-9]+}}(%m, %x) : (tensor<128xf32>, tensor<1024x128xf32>) -> tensor<1024x128xf32>

// -----

// The other ops of the kernel that made a value stay; what several values are made from is read once.
func.func @chains_are_made_twice(%x: tensor<1024x128xf32>, %m: tensor<128xf32>) -> (tensor<1024x128xf32>, tensor<1024x128xf32>) {
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<128xf32> -> tensor<1024x128xf32>
  %q = tenon.multiply %d, %d : tensor<1024x128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  %e = tenon.exp %q : tensor<1024x128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %e {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %t = tenon.add %q, %d : tensor<1024x128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  %r = tenon.multiply %t, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  func.return %e, %r : tensor<1024x128xf32>, tensor<1024x128xf32>
}
// CHECK-LABEL: @chains_are_made_twice
// CHECK-NEXT:    [[E:%.*]] = func.call @kernel_0(%x, %m)
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_1([[E]])
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_2(%x, %m, [[S]])
// CHECK-NEXT:    func.return [[E]], [[R]]
// CHECK:       func.func private @kernel_0
// CHECK-NEXT:    tenon.subtract
// CHECK-NEXT:    tenon.multiply
// CHECK-NEXT:    tenon.exp
// CHECK-NEXT:    func.return
// CHECK:       func.func private @kernel_2
// CHECK-NEXT:    tenon.subtract
// CHECK-NEXT:    tenon.multiply
// CHECK-NEXT:    tenon.add
// CHECK-NEXT:    tenon.multiply

// -----

// What takes more than a few ops of arithmetic is stored.
func.func @exponentials_are_made_once(%x: tensor<1024x128xf32>) -> tensor<1024x128xf32> {
  %e = tenon.exp %x : tensor<1024x128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %e {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %r = tenon.multiply %e, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  func.return %r : tensor<1024x128xf32>
}
// CHECK-LABEL: @exponentials_are_made_once
// CHECK:         [[E:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_1([[E]])
// CHECK-NEXT:    func.call @kernel_2([[E]], [[S]])

// -----

// So is a value that is made from more large values than it saves.
func.func @sums_of_two_are_made_once(%x: tensor<1024x128xf32>, %y: tensor<1024x128xf32>) -> tensor<1024x128xf32> {
  %d = tenon.add %x, %y : tensor<1024x128xf32>, tensor<1024x128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %d {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %r = tenon.multiply %d, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  func.return %r : tensor<1024x128xf32>
}
// CHECK-LABEL: @sums_of_two_are_made_once
// CHECK:         [[D:%.*]] = func.call @kernel_0(%x, %y)
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_1([[D]])
// CHECK-NEXT:    func.call @kernel_2([[D]], [[S]])

// -----

// And what is returned, or small enough to stay in a cache.
func.func @what_is_returned_is_there(%x: tensor<1024x128xf32>, %z: tensor<256x128xf32>, %m: tensor<128xf32>) -> (tensor<1024x128xf32>, tensor<1024x128xf32>, tensor<256x128xf32>) {
  %d = tenon.subtract %x, %m : tensor<1024x128xf32>, tensor<128xf32> -> tensor<1024x128xf32>
  %s = tenon.sum %d {axis = [0, 1]} : tensor<1024x128xf32> -> tensor<f32>
  %r = tenon.multiply %d, %s : tensor<1024x128xf32>, tensor<f32> -> tensor<1024x128xf32>
  %c = tenon.subtract %z, %m : tensor<256x128xf32>, tensor<128xf32> -> tensor<256x128xf32>
  %t = tenon.sum %c {axis = [0, 1]} : tensor<256x128xf32> -> tensor<f32>
  %u = tenon.multiply %c, %t : tensor<256x128xf32>, tensor<f32> -> tensor<256x128xf32>
  func.return %d, %r, %u : tensor<1024x128xf32>, tensor<1024x128xf32>, tensor<256x128xf32>
}
// CHECK-LABEL: @what_is_returned_is_there
// CHECK:         [[D:%.*]] = func.call @kernel_0(%x, %m)
// CHECK-NEXT:    [[S:%.*]] = func.call @kernel_1([[D]])
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_2([[D]], [[S]])
// CHECK-NEXT:    [[C:%.*]] = func.call @kernel_3(%z, %m)
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_4([[C]])
// CHECK-NEXT:    func.call @kernel_5([[C]], [[T]])

// -----

// Rows too long to be kept are computed again by each loop over them: the whole of a batch norm is one kernel.
func.func @long_rows(%x: tensor<64x32768xf32>) -> tensor<64x32768xf32> {
  %n = tenon.constant {value = dense<3.2768e+04> : tensor<f32>} : tensor<f32>
  %s = tenon.sum %x {axis = [1], keepdims = true} : tensor<64x32768xf32> -> tensor<64x1xf32>
  %m = tenon.divide %s, %n : tensor<64x1xf32>, tensor<f32> -> tensor<64x1xf32>
  %d = tenon.subtract %x, %m : tensor<64x32768xf32>, tensor<64x1xf32> -> tensor<64x32768xf32>
  %q = tenon.multiply %d, %d : tensor<64x32768xf32>, tensor<64x32768xf32> -> tensor<64x32768xf32>
  %v = tenon.sum %q {axis = [1], keepdims = true} : tensor<64x32768xf32> -> tensor<64x1xf32>
  %r = tenon.multiply %d, %v : tensor<64x32768xf32>, tensor<64x1xf32> -> tensor<64x32768xf32>
  func.return %r : tensor<64x32768xf32>
}
// CHECK-LABEL: @long_rows
// CHECK-NEXT:    [[R:%.*]] = func.call @kernel_0(%x)
// CHECK-NEXT:    func.return [[R]]
