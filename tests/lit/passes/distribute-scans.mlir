// RUN: tenon-opt %s --split-input-file -p distribute-scans,dce | filecheck %s

// The product of a slice with a weight is one product of all slices; what is added to it alone goes with it. The
// product of the carried value stays.
func.func @products_of_slices(%x: tensor<8x2x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>, %h: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %r = tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>) {
  ^bb0(%c: tensor<2x16xf32>, %s: tensor<2x16xf32>):
    %p = tenon.matmul %s, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %q = tenon.add %p, %b : tensor<2x16xf32>, tensor<16xf32> -> tensor<2x16xf32>
    %k = tenon.matmul %c, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %n = tenon.add %q, %k : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %n : tensor<2x16xf32>
  }
  func.return %r : tensor<2x16xf32>
}
// CHECK-LABEL: @products_of_slices
// CHECK-NEXT:    [[P:%.*]] = tenon.matmul %x, %w
// CHECK-NEXT:    [[Q:%.*]] = tenon.add [[P]], %b
// CHECK-NEXT:    tenon.scan init(%h : tensor<2x16xf32>) slices([[Q]] : tensor<8x2x16xf32>) length 8
// CHECK-NEXT:    ^{{.*}}([[C:%.*]]: tensor<2x16xf32>, [[S:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      [[K:%.*]] = tenon.matmul [[C]], %w
// CHECK-NEXT:      tenon.add [[S]], [[K]]

// -----

// A weight that is smaller than the product is read by each step at less cost than the product.
func.func @small_weights_stay(%x: tensor<8x64x2xf32>, %w: tensor<2x16xf32>, %h: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %r = tenon.scan init(%h : tensor<64x16xf32>) slices(%x : tensor<8x64x2xf32>) length 8 -> (tensor<64x16xf32>) {
  ^bb0(%c: tensor<64x16xf32>, %s: tensor<64x2xf32>):
    %p = tenon.matmul %s, %w : tensor<64x2xf32>, tensor<2x16xf32> -> tensor<64x16xf32>
    %n = tenon.maximum %p, %c : tensor<64x16xf32>, tensor<64x16xf32> -> tensor<64x16xf32>
    tenon.yield %n : tensor<64x16xf32>
  }
  func.return %r : tensor<64x16xf32>
}
// CHECK-LABEL: @small_weights_stay
// CHECK-NEXT:    tenon.scan init(%h : tensor<64x16xf32>) slices(%x : tensor<8x64x2xf32>)
// CHECK:           tenon.matmul

// -----

// Outputs that are a product of what is carried are computed from the carried values of all steps.
func.func @products_behind_the_loop(%x: tensor<8x2x16xf32>, %w: tensor<16x16xf32>, %h: tensor<2x16xf32>) -> tensor<8x2x16xf32> {
  %r, %y = tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>, tensor<8x2x16xf32>) {
  ^bb0(%c: tensor<2x16xf32>, %s: tensor<2x16xf32>):
    %n = tenon.maximum %c, %s : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %p = tenon.matmul %n, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %q = tenon.tanh %p : tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %n, %q : tensor<2x16xf32>, tensor<2x16xf32>
  }
  func.return %y : tensor<8x2x16xf32>
}
// CHECK-LABEL: @products_behind_the_loop
// CHECK-NEXT:    [[R:%.*]], [[H:%.*]] = tenon.scan
// CHECK-NEXT:    ^{{.*}}([[C:%.*]]: tensor<2x16xf32>, [[S:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      [[N:%.*]] = tenon.maximum [[C]], [[S]]
// CHECK-NEXT:      tenon.yield [[N]], [[N]]
// CHECK-NEXT:    }
// CHECK-NEXT:    [[P:%.*]] = tenon.matmul [[H]], %w
// CHECK-NEXT:    tenon.tanh [[P]]

// -----

// Outer products that are added up are one contraction over the steps; a sum of what is
// stacked for it goes with it, and is one sum over rows and steps.
func.func @gradient_of_a_weight(%x: tensor<8x2x16xf32>, %g: tensor<2x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>) {
  %z = tenon.constant {value = dense<0.0> : tensor<16xf32>} : tensor<16xf32>
  %r, %v, %u = tenon.scan init(%g, %w, %z : tensor<2x16xf32>, tensor<16x16xf32>, tensor<16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 reverse -> (tensor<2x16xf32>, tensor<16x16xf32>, tensor<16xf32>) {
  ^bb0(%c: tensor<2x16xf32>, %a: tensor<16x16xf32>, %e: tensor<16xf32>, %s: tensor<2x16xf32>):
    %n = tenon.maximum %c, %s : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %t = tenon.transpose %s : tensor<2x16xf32> -> tensor<16x2xf32>
    %p = tenon.matmul %t, %n : tensor<16x2xf32>, tensor<2x16xf32> -> tensor<16x16xf32>
    %q = tenon.add %a, %p : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %m = tenon.sum %n {axis = [0]} : tensor<2x16xf32> -> tensor<16xf32>
    %o = tenon.add %m, %e : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
    tenon.yield %n, %q, %o : tensor<2x16xf32>, tensor<16x16xf32>, tensor<16xf32>
  }
  func.return %v, %u : tensor<16x16xf32>, tensor<16xf32>
}
// CHECK-LABEL: @gradient_of_a_weight
// CHECK:         [[R:%.*]], [[N:%.*]] = tenon.scan init(%g : tensor<2x16xf32>)
// CHECK-NEXT:    ^{{.*}}([[C:%.*]]: tensor<2x16xf32>, [[S:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      [[M:%.*]] = tenon.maximum [[C]], [[S]]
// CHECK-NEXT:      tenon.yield [[M]], [[M]]
// CHECK-NEXT:    }
// CHECK-NEXT:    [[T:%.*]] = tenon.transpose %x
// CHECK-NEXT:    [[P:%.*]] = tenon.contract [[[T]], [[N]]]
// CHECK-SAME:      (d0, d1, d2, d3) -> (d0, d1)>], extents = [16, 16, 2, 8]
// CHECK-NEXT:    [[W:%.*]] = tenon.add %w, [[P]]
// CHECK-NEXT:    [[B:%.*]] = tenon.sum [[N]] {axis = [0, 1]}
// CHECK-NEXT:    func.return [[W]], [[B]]

// -----

// A carried value that another one reads is a sum that each step needs; one that nothing reads is dropped, as is an
// output that nothing needs. A carried value that stays is what it was, and a copy of a sequence is the sequence.
func.func @what_is_needed_stays(%x: tensor<8xf32>, %i: tensor<f32>, %j: tensor<f32>) -> (tensor<f32>, tensor<8xf32>) {
  %a, %b, %c, %d, %e = tenon.scan init(%i, %i, %j : tensor<f32>, tensor<f32>, tensor<f32>) slices(%x : tensor<8xf32>) length 8 -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%f: tensor<f32>, %g: tensor<f32>, %h: tensor<f32>, %s: tensor<f32>):
    %k = tenon.add %f, %s : tensor<f32>, tensor<f32> -> tensor<f32>
    %l = tenon.multiply %k, %h : tensor<f32>, tensor<f32> -> tensor<f32>
    %m = tenon.tanh %g : tensor<f32> -> tensor<f32>
    tenon.yield %l, %m, %h, %s, %m : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
  func.return %a, %d : tensor<f32>, tensor<8xf32>
}
// CHECK-LABEL: @what_is_needed_stays
// CHECK-NEXT:    [[A:%.*]] = tenon.scan init(%i : tensor<f32>) slices(%x : tensor<8xf32>) length 8 -> (tensor<f32>) {
// CHECK-NEXT:    ^{{.*}}([[F:%.*]]: tensor<f32>, [[S:%.*]]: tensor<f32>):
// CHECK-NEXT:      [[K:%.*]] = tenon.add [[F]], [[S]]
// CHECK-NEXT:      [[L:%.*]] = tenon.multiply [[K]], %j
// CHECK-NEXT:      tenon.yield [[L]]
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return [[A]], %x

// -----

// A step reads the weight twice, so that its gradient has two terms: both are contractions of all steps behind the loop.
func.func @weights_used_twice(%x: tensor<8x2x16xf32>, %y: tensor<8x2x16xf32>, %h: tensor<2x16xf32>, %g: tensor<16x16xf32>) -> (tensor<2x16xf32>, tensor<16x16xf32>) {
  %r, %s = tenon.scan init(%h, %g : tensor<2x16xf32>, tensor<16x16xf32>) slices(%x, %y : tensor<8x2x16xf32>, tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>, tensor<16x16xf32>) {
  ^bb0(%a: tensor<2x16xf32>, %b: tensor<16x16xf32>, %c: tensor<2x16xf32>, %d: tensor<2x16xf32>):
    %e = tenon.multiply %a, %c : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %f = tenon.contract [%e, %c] {maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], extents = [16, 16, 2], shape = [16, 16]} : [tensor<2x16xf32>, tensor<2x16xf32>] -> tensor<16x16xf32>
    %i = tenon.contract [%e, %d] {maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], extents = [16, 16, 2], shape = [16, 16]} : [tensor<2x16xf32>, tensor<2x16xf32>] -> tensor<16x16xf32>
    %j = tenon.add %f, %i : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    %k = tenon.add %b, %j : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    tenon.yield %e, %k : tensor<2x16xf32>, tensor<16x16xf32>
  }
  func.return %r, %s : tensor<2x16xf32>, tensor<16x16xf32>
}
// CHECK-LABEL: @weights_used_twice
// CHECK-NEXT:    tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8
// CHECK-NOT:       tenon.contract
// CHECK:           tenon.yield
// CHECK-COUNT-2: tenon.contract [{{.*}} extents = [{{.*}}8{{.*}}], shape = [16, 16]}
