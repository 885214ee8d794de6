// RUN: tenon-opt %s --split-input-file -p 'pack-invariants{machine="vector-bits=128 l1=256"}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'pack-invariants{machine="vector-bits=128"}' | filecheck %s --check-prefix NEAR

// Blocks of eight columns, each in one piece of memory, are copied in front of the loop. What stays near is left, and so
// is a matrix that is one block.
func.func @blocks(%w: tensor<12x16xf32>, %h: tensor<8x12xf32>, %m: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %r = tenon.scan init(%h : tensor<8x12xf32>) length 8 -> (tensor<8x12xf32>) {
  ^bb0(%c: tensor<8x12xf32>):
    %p = tenon.matmul %c, %w : tensor<8x12xf32>, tensor<12x16xf32> -> tensor<8x16xf32>
    %n = tenon.matmul %p, %m : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
    tenon.yield %n : tensor<8x12xf32>
  }
  func.return %r : tensor<8x12xf32>
}
// CHECK-LABEL: @blocks
// CHECK-NEXT:    [[R:%.*]] = tenon.reshape %w {shape = [12, 2, 8]}
// CHECK-NEXT:    [[Q:%.*]] = tenon.transpose [[R]] {permutation = [1, 0, 2]} : tensor<12x2x8xf32> -> tensor<2x12x8xf32>
// CHECK-NEXT:    tenon.scan
// CHECK-NEXT:    ^{{.*}}
// CHECK-NEXT:      [[B:%.*]] = tenon.contract [%c, [[Q]]] {{.*}} -> tensor<8x2x8xf32>
// CHECK-NEXT:      %p = tenon.reshape [[B]] {shape = [8, 16]}
// CHECK-NEXT:      tenon.matmul %p, %m
// NEAR-LABEL: @blocks
// NEAR-NEXT:     tenon.scan

// -----

// Rows of the matrix that are columns of the product, and one matrix for each of a batch: what is summed over goes between
// blocks and columns.
func.func @order(%w: tensor<3x16x8xf32>, %h: tensor<3x8x8xf32>) -> tensor<3x8x8xf32> {
  %r = tenon.scan init(%h : tensor<3x8x8xf32>) length 8 -> (tensor<3x8x8xf32>) {
  ^bb0(%c: tensor<3x8x8xf32>):
    %p = tenon.contract [%c, %w] {maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>, affine_map<(b, i, j, k) -> (b, i, j)>], extents = [3, 8, 16, 8], shape = [3, 8, 16]} : [tensor<3x8x8xf32>, tensor<3x16x8xf32>] -> tensor<3x8x16xf32>
    %s = tenon.slice %p {starts = [0, 0, 0], limits = [3, 8, 8]} : tensor<3x8x16xf32> -> tensor<3x8x8xf32>
    tenon.yield %s : tensor<3x8x8xf32>
  }
  func.return %r : tensor<3x8x8xf32>
}
// CHECK-LABEL: @order
// CHECK:         [[Q:%.*]] = tenon.transpose {{.*}} {permutation = [0, 1, 3, 2]} : tensor<3x2x8x8xf32> -> tensor<3x2x8x8xf32>
// CHECK-NEXT:    tenon.scan
// CHECK:           tenon.contract [%c, [[Q]]] {maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], extents = [3, 8, 2, 8, 8], shape = [3, 8, 2, 8]}

// -----

// In front of the outermost loop in which it is the same; of an inner loop of few steps, that is the one around it.
func.func @nested(%w: tensor<12x16xf32>, %h: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %r = tenon.while_loop init(%h : tensor<8x12xf32>) {
  ^bb0(%a: tensor<8x12xf32>):
    %s = tenon.sum %a : tensor<8x12xf32> -> tensor<f32>
    %o = tenon.constant {value = dense<1.0> : tensor<f32>} : tensor<f32>
    %l = tenon.less %s, %o : tensor<f32>, tensor<f32> -> tensor<i1>
    tenon.yield %l : tensor<i1>
  } do {
  ^bb1(%b: tensor<8x12xf32>):
    %q = tenon.scan init(%b : tensor<8x12xf32>) length 2 -> (tensor<8x12xf32>) {
    ^bb2(%c: tensor<8x12xf32>):
      %p = tenon.matmul %c, %w : tensor<8x12xf32>, tensor<12x16xf32> -> tensor<8x16xf32>
      %n = tenon.slice %p {starts = [0, 0], limits = [8, 12]} : tensor<8x16xf32> -> tensor<8x12xf32>
      tenon.yield %n : tensor<8x12xf32>
    }
    tenon.yield %q : tensor<8x12xf32>
  }
  func.return %r : tensor<8x12xf32>
}
// CHECK-LABEL: @nested
// CHECK-NEXT:    tenon.reshape %w
// CHECK-NEXT:    tenon.transpose
// CHECK-NEXT:    tenon.while_loop
// CHECK-NOT:     tenon.transpose

// -----

// Few steps or few rows do not pay for a copy; what a step has computed is another matrix in the next; f16 is widened on
// the way.
func.func @left_as_it_is(%w: tensor<16x16xf32>, %h: tensor<8x16xf32>, %g: tensor<4x16xf32>, %v: tensor<16x16xf16>, %f: tensor<8x16xf16>) -> (tensor<8x16xf32>, tensor<4x16xf32>, tensor<16x16xf32>, tensor<8x16xf16>) {
  %q = tenon.scan init(%h : tensor<8x16xf32>) length 7 -> (tensor<8x16xf32>) {
  ^bb0(%c: tensor<8x16xf32>):
    %n = tenon.matmul %c, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
    tenon.yield %n : tensor<8x16xf32>
  }
  %r, %s, %t = tenon.scan init(%g, %w, %f : tensor<4x16xf32>, tensor<16x16xf32>, tensor<8x16xf16>) length 9 -> (tensor<4x16xf32>, tensor<16x16xf32>, tensor<8x16xf16>) {
  ^bb1(%a: tensor<4x16xf32>, %b: tensor<16x16xf32>, %d: tensor<8x16xf16>):
    %m = tenon.matmul %a, %w : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
    %e = tenon.matmul %b, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %o = tenon.matmul %d, %v : tensor<8x16xf16>, tensor<16x16xf16> -> tensor<8x16xf16>
    tenon.yield %m, %e, %o : tensor<4x16xf32>, tensor<16x16xf32>, tensor<8x16xf16>
  }
  func.return %q, %r, %s, %t : tensor<8x16xf32>, tensor<4x16xf32>, tensor<16x16xf32>, tensor<8x16xf16>
}
// CHECK-LABEL: @left_as_it_is
// CHECK-NOT:     tenon.reshape
// CHECK-NOT:     tenon.contract

// -----

// So does a matrix whose columns index the result twice.
func.func @on_the_diagonal(%w: tensor<16x16xf32>, %h: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %r = tenon.scan init(%h : tensor<8x16xf32>) length 9 -> (tensor<8x16xf32>) {
  ^bb0(%c: tensor<8x16xf32>):
    %p = tenon.contract [%c, %w] {maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (j, i, j)>], extents = [8, 16, 16], shape = [16, 8, 16]} : [tensor<8x16xf32>, tensor<16x16xf32>] -> tensor<16x8x16xf32>
    %n = tenon.sum %p {axis = [0]} : tensor<16x8x16xf32> -> tensor<8x16xf32>
    tenon.yield %n : tensor<8x16xf32>
  }
  func.return %r : tensor<8x16xf32>
}
// CHECK-LABEL: @on_the_diagonal
// CHECK-NEXT:    tenon.scan
// CHECK:           tenon.contract [%c, %w]
