// RUN: tenon-opt %s --split-input-file -p split-products | filecheck %s

// Each of two gates has its blocks of the matrix, of what is added in each step, and of the bias, taken in front of the
// loop as the matrix is.
func.func @gates(%q: tensor<4x8x4xf32>, %h: tensor<2x8xf32>, %z: tensor<8x2x16xf32>, %b: tensor<16xf32>) -> tensor<2x8xf32> {
  %r = tenon.scan init(%h : tensor<2x8xf32>) slices(%z : tensor<8x2x16xf32>) length 8 -> (tensor<2x8xf32>) {
  ^bb0(%c: tensor<2x8xf32>, %s: tensor<2x16xf32>):
    %p = tenon.contract [%c, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (i, j, w)>], extents = [2, 4, 4, 8], shape = [2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<2x4x4xf32>
    %m = tenon.reshape %p {shape = [2, 16]} : tensor<2x4x4xf32> -> tensor<2x16xf32>
    %a = tenon.add %m, %s : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %d = tenon.add %a, %b : tensor<2x16xf32>, tensor<16xf32> -> tensor<2x16xf32>
    %f = tenon.slice %d {starts = [0, 0], limits = [2, 8]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %g = tenon.slice %d {starts = [0, 8], limits = [2, 16]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %n = tenon.multiply %f, %g : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
    tenon.yield %n : tensor<2x8xf32>
  }
  func.return %r : tensor<2x8xf32>
}
// CHECK-LABEL: @gates
// CHECK-NEXT:    [[Q0:%.*]] = tenon.slice %q {starts = [0, 0, 0], limits = [2, 8, 4]}
// CHECK-NEXT:    [[R0:%.*]] = tenon.reshape %b {shape = [4, 4]}
// CHECK-NEXT:    [[B0:%.*]] = tenon.slice [[R0]] {starts = [0, 0], limits = [2, 4]}
// CHECK-NEXT:    [[Q1:%.*]] = tenon.slice %q {starts = [2, 0, 0], limits = [4, 8, 4]}
// CHECK:         tenon.scan
// CHECK-NEXT:    ^{{.*}}
// CHECK-NEXT:      [[P0:%.*]] = tenon.contract [%c, [[Q0]]] {{.*}}extents = [2, 2, 4, 8], shape = [2, 2, 4]}
// CHECK-NEXT:      [[M0:%.*]] = tenon.reshape [[P0]] {shape = [2, 8]}
// CHECK-NEXT:      tenon.contract [%c, [[Q1]]]
// CHECK-NEXT:      tenon.reshape
// CHECK-NEXT:      [[T0:%.*]] = tenon.reshape %s {shape = [2, 4, 4]}
// CHECK-NEXT:      [[S0:%.*]] = tenon.slice [[T0]] {starts = [0, 0, 0], limits = [2, 2, 4]}
// CHECK-NEXT:      [[U0:%.*]] = tenon.reshape [[S0]] {shape = [2, 8]}
// CHECK-NEXT:      [[A0:%.*]] = tenon.add [[M0]], [[U0]]
// CHECK:           [[A1:%.*]] = tenon.add
// CHECK-NEXT:      [[V0:%.*]] = tenon.reshape [[B0]] {shape = [8]}
// CHECK-NEXT:      [[D0:%.*]] = tenon.add [[A0]], [[V0]]
// CHECK:           [[D1:%.*]] = tenon.add [[A1]]
// CHECK-NEXT:      tenon.multiply [[D0]], [[D1]]

// -----

// What is read as a whole as well, parts of blocks, and columns that are in two slices stay together.
func.func @together(%q: tensor<4x8x4xf32>, %h: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<8x2x16xf32>) {
  %r, %s = tenon.scan init(%h : tensor<2x8xf32>) length 8 -> (tensor<2x8xf32>, tensor<8x2x16xf32>) {
  ^bb0(%c: tensor<2x8xf32>):
    %p = tenon.contract [%c, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (i, j, w)>], extents = [2, 4, 4, 8], shape = [2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<2x4x4xf32>
    %m = tenon.reshape %p {shape = [2, 16]} : tensor<2x4x4xf32> -> tensor<2x16xf32>
    %f = tenon.slice %m {starts = [0, 0], limits = [2, 8]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %g = tenon.slice %m {starts = [0, 8], limits = [2, 16]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %n = tenon.multiply %f, %g : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
    tenon.yield %n, %m : tensor<2x8xf32>, tensor<2x16xf32>
  }
  %t = tenon.scan init(%h : tensor<2x8xf32>) length 8 -> (tensor<2x8xf32>) {
  ^bb1(%d: tensor<2x8xf32>):
    %o = tenon.contract [%d, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (i, j, w)>], extents = [2, 4, 4, 8], shape = [2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<2x4x4xf32>
    %l = tenon.reshape %o {shape = [2, 16]} : tensor<2x4x4xf32> -> tensor<2x16xf32>
    %u = tenon.slice %l {starts = [0, 0], limits = [2, 8]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %v = tenon.slice %l {starts = [0, 4], limits = [2, 12]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %w = tenon.multiply %u, %v : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
    tenon.yield %w : tensor<2x8xf32>
  }
  func.return %t, %s : tensor<2x8xf32>, tensor<8x2x16xf32>
}
// CHECK-LABEL: @together
// CHECK-NEXT:    tenon.scan
// CHECK:           tenon.contract [%c, %q]
// CHECK-NOT:       tenon.contract
// CHECK:         tenon.scan
// CHECK:           tenon.contract [%d, %q]
// CHECK-NOT:       tenon.contract

// -----

// A slice is computed where it was: more may be done to the product with it.
func.func @taken_on_the_way(%q: tensor<4x8x4xf32>, %h: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %r = tenon.scan init(%h : tensor<2x8xf32>) length 8 -> (tensor<2x8xf32>) {
  ^bb0(%c: tensor<2x8xf32>):
    %p = tenon.contract [%c, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (i, j, w)>], extents = [2, 4, 4, 8], shape = [2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<2x4x4xf32>
    %m = tenon.reshape %p {shape = [2, 16]} : tensor<2x4x4xf32> -> tensor<2x16xf32>
    %f = tenon.slice %m {starts = [0, 0], limits = [2, 8]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %d = tenon.concatenate [%f, %f] {axis = 1} : [tensor<2x8xf32>, tensor<2x8xf32>] -> tensor<2x16xf32>
    %n = tenon.multiply %m, %d : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %g = tenon.slice %n {starts = [0, 8], limits = [2, 16]} : tensor<2x16xf32> -> tensor<2x8xf32>
    tenon.yield %g : tensor<2x8xf32>
  }
  func.return %r : tensor<2x8xf32>
}
// CHECK-LABEL: @taken_on_the_way
// CHECK:           [[M0:%.*]] = tenon.reshape {{.*}} {shape = [2, 8]}
// CHECK:           [[M1:%.*]] = tenon.reshape {{.*}} {shape = [2, 8]}
// CHECK:           tenon.concatenate [[[M0]], [[M0]]]
// CHECK:           [[G:%.*]] = tenon.multiply [[M1]]
// CHECK-NEXT:      tenon.yield [[G]]

// -----

// What only some steps do stays in its branch, with the whole product in front of it, and so do blocks that are on a
// diagonal of the result.
func.func @whole(%q: tensor<4x8x4xf32>, %h: tensor<2x8xf32>, %t: tensor<i1>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %r = tenon.scan init(%h : tensor<2x8xf32>) length 8 -> (tensor<2x8xf32>) {
  ^bb0(%c: tensor<2x8xf32>):
    %p = tenon.contract [%c, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (i, j, w)>], extents = [2, 4, 4, 8], shape = [2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<2x4x4xf32>
    %m = tenon.reshape %p {shape = [2, 16]} : tensor<2x4x4xf32> -> tensor<2x16xf32>
    %f = tenon.slice %m {starts = [0, 0], limits = [2, 8]} : tensor<2x16xf32> -> tensor<2x8xf32>
    %n = tenon.cond %t -> (tensor<2x8xf32>) {
      %e = tenon.negative %m : tensor<2x16xf32> -> tensor<2x16xf32>
      %g = tenon.slice %e {starts = [0, 8], limits = [2, 16]} : tensor<2x16xf32> -> tensor<2x8xf32>
      tenon.yield %g : tensor<2x8xf32>
    } else {
      tenon.yield %f : tensor<2x8xf32>
    }
    tenon.yield %n : tensor<2x8xf32>
  }
  %s = tenon.scan init(%h : tensor<2x8xf32>) length 8 -> (tensor<2x8xf32>) {
  ^bb1(%a: tensor<2x8xf32>):
    %o = tenon.contract [%a, %q] {maps = [affine_map<(i, j, w, k) -> (i, k)>, affine_map<(i, j, w, k) -> (j, k, w)>, affine_map<(i, j, w, k) -> (j, i, j, w)>], extents = [2, 4, 4, 8], shape = [4, 2, 4, 4]} : [tensor<2x8xf32>, tensor<4x8x4xf32>] -> tensor<4x2x4x4xf32>
    %l = tenon.reshape %o {shape = [4, 2, 16]} : tensor<4x2x4x4xf32> -> tensor<4x2x16xf32>
    %u = tenon.slice %l {starts = [0, 0, 0], limits = [4, 2, 8]} : tensor<4x2x16xf32> -> tensor<4x2x8xf32>
    %v = tenon.slice %l {starts = [0, 0, 8], limits = [4, 2, 16]} : tensor<4x2x16xf32> -> tensor<4x2x8xf32>
    %w = tenon.multiply %u, %v : tensor<4x2x8xf32>, tensor<4x2x8xf32> -> tensor<4x2x8xf32>
    %x = tenon.sum %w {axis = [0]} : tensor<4x2x8xf32> -> tensor<2x8xf32>
    tenon.yield %x : tensor<2x8xf32>
  }
  func.return %r, %s : tensor<2x8xf32>, tensor<2x8xf32>
}
// CHECK-LABEL: @whole
// CHECK-NEXT:    tenon.scan
// CHECK:           tenon.contract [%c, %q]
// CHECK:         tenon.scan
// CHECK:           tenon.contract [%a, %q]
