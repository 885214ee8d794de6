// RUN: tenon-opt %s --split-input-file -p keep-products | filecheck %s

// The reverse scan computes what the first one did from the values that it carried: it takes the sum of both products
// from there. What is cheap (%f) it computes again.
func.func @products_of_a_gradient(%x: tensor<8x2x16xf32>, %w: tensor<16x16xf32>, %u: tensor<16x16xf32>, %h: tensor<2x16xf32>) -> tensor<2x16xf32> {
  %r, %s = tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>, tensor<8x2x16xf32>) {
  ^bb0(%a: tensor<2x16xf32>, %b: tensor<2x16xf32>):
    %c = tenon.matmul %b, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %d = tenon.matmul %a, %u : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %e = tenon.add %c, %d : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %f = tenon.tanh %e : tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %f, %a : tensor<2x16xf32>, tensor<2x16xf32>
  }
  %g = tenon.scan init(%r : tensor<2x16xf32>) slices(%s, %x : tensor<8x2x16xf32>, tensor<8x2x16xf32>) length 8 reverse -> (tensor<2x16xf32>) {
  ^bb0(%i: tensor<2x16xf32>, %j: tensor<2x16xf32>, %k: tensor<2x16xf32>):
    %l = tenon.matmul %k, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %m = tenon.matmul %j, %u : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %n = tenon.add %l, %m : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %o = tenon.cos %n : tensor<2x16xf32> -> tensor<2x16xf32>
    %p = tenon.multiply %i, %o : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %q = tenon.sin %n : tensor<2x16xf32> -> tensor<2x16xf32>
    %t = tenon.multiply %p, %q : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %t : tensor<2x16xf32>
  }
  func.return %g : tensor<2x16xf32>
}
// CHECK-LABEL: @products_of_a_gradient
// CHECK-NEXT:    [[R:%.*]], [[S:%.*]], [[Z:%.*]] = tenon.scan
// CHECK:           [[E:%.*]] = tenon.add %c, %d
// CHECK-NEXT:      [[F:%.*]] = tenon.tanh [[E]]
// CHECK-NEXT:      tenon.yield [[F]], %a, [[E]]
// CHECK-NEXT:    }
// CHECK-NEXT:    tenon.scan init([[R]] : tensor<2x16xf32>) slices([[Z]] : tensor<8x2x16xf32>) length 8 reverse
// CHECK-NEXT:    ^{{.*}}([[I:%.*]]: tensor<2x16xf32>, [[N:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      tenon.cos [[N]]

// -----

// Products of other slices, or with another weight, are other products.
func.func @other_products(%x: tensor<8x2x16xf32>, %y: tensor<8x2x16xf32>, %w: tensor<16x16xf32>, %h: tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>) {
  %r, %s = tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>, tensor<8x2x16xf32>) {
  ^bb0(%a: tensor<2x16xf32>, %b: tensor<2x16xf32>):
    %c = tenon.matmul %b, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %d = tenon.maximum %c, %a : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %d, %a : tensor<2x16xf32>, tensor<2x16xf32>
  }
  %q = tenon.scan init(%r : tensor<2x16xf32>) slices(%s, %y : tensor<8x2x16xf32>, tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>) {
  ^bb0(%e: tensor<2x16xf32>, %f: tensor<2x16xf32>, %g: tensor<2x16xf32>):
    %i = tenon.matmul %f, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %j = tenon.matmul %g, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %k = tenon.maximum %i, %j : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %l = tenon.maximum %k, %e : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %l : tensor<2x16xf32>
  }
  func.return %r, %q : tensor<2x16xf32>, tensor<2x16xf32>
}
// CHECK-LABEL: @other_products
// CHECK:         slices(%s, %y : tensor<8x2x16xf32>, tensor<8x2x16xf32>)
// CHECK:           tenon.matmul
// CHECK:           tenon.matmul

// -----

// A sum with a slice that nothing else reads is kept in place of both, one with a slice of another sequence is not.
func.func @sums_with_slices(%x: tensor<8x2x16xf32>, %y: tensor<8x2x16xf32>, %w: tensor<16x16xf32>, %h: tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>) {
  %r, %s = tenon.scan init(%h : tensor<2x16xf32>) slices(%x : tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>, tensor<8x2x16xf32>) {
  ^bb0(%a: tensor<2x16xf32>, %b: tensor<2x16xf32>):
    %c = tenon.matmul %a, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %d = tenon.add %b, %c : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %d, %a : tensor<2x16xf32>, tensor<2x16xf32>
  }
  %p = tenon.scan init(%r : tensor<2x16xf32>) slices(%s, %x : tensor<8x2x16xf32>, tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>) {
  ^bb0(%e: tensor<2x16xf32>, %f: tensor<2x16xf32>, %g: tensor<2x16xf32>):
    %i = tenon.matmul %f, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %j = tenon.add %g, %i : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %k = tenon.maximum %j, %e : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %k : tensor<2x16xf32>
  }
  %q = tenon.scan init(%r : tensor<2x16xf32>) slices(%s, %y : tensor<8x2x16xf32>, tensor<8x2x16xf32>) length 8 -> (tensor<2x16xf32>) {
  ^bb0(%e: tensor<2x16xf32>, %f: tensor<2x16xf32>, %g: tensor<2x16xf32>):
    %i = tenon.matmul %f, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %j = tenon.add %g, %i : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    %k = tenon.maximum %j, %e : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
    tenon.yield %k : tensor<2x16xf32>
  }
  func.return %p, %q : tensor<2x16xf32>, tensor<2x16xf32>
}
// CHECK-LABEL: @sums_with_slices
// CHECK-NEXT:    {{.*}}, [[D:%.*]], [[C:%.*]] = tenon.scan
// CHECK:           tenon.yield %d, %a, %d, %c
// CHECK:         slices([[D]] : tensor<8x2x16xf32>) length 8 ->
// CHECK-NEXT:    ^bb0([[E:%.*]]: tensor<2x16xf32>, [[J:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      tenon.maximum [[J]], [[E]]
// CHECK:         slices(%y, [[C]] : tensor<8x2x16xf32>, tensor<8x2x16xf32>)
// CHECK-NEXT:    ^bb0({{.*}}, [[G:%.*]]: tensor<2x16xf32>, [[I:%.*]]: tensor<2x16xf32>):
// CHECK-NEXT:      tenon.add [[G]], [[I]]

// -----

// The gradient of a linear step reads nothing that was saved, also of a scan inside: nothing is computed for it.
func.func @linear_steps(%h: tensor<4xf32>, %x: tensor<8x3x4xf32>) -> tensor<4xf32> {
  %r, %s, %t = tenon.scan init(%h : tensor<4xf32>) slices(%x : tensor<8x3x4xf32>) length 8 -> (tensor<4xf32>, tensor<8x4xf32>, tensor<8x3x4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<3x4xf32>):
    %c, %d = tenon.scan init(%a : tensor<4xf32>) slices(%b : tensor<3x4xf32>) length 3 -> (tensor<4xf32>, tensor<3x4xf32>) {
    ^bb0(%e: tensor<4xf32>, %f: tensor<4xf32>):
      %g = tenon.add %e, %f : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      tenon.yield %g, %e : tensor<4xf32>, tensor<4xf32>
    }
    tenon.yield %c, %a, %d : tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>
  }
  %q = tenon.scan init(%h : tensor<4xf32>) slices(%s, %t : tensor<8x4xf32>, tensor<8x3x4xf32>) length 8 reverse -> (tensor<4xf32>) {
  ^bb0(%i: tensor<4xf32>, %j: tensor<4xf32>, %k: tensor<3x4xf32>):
    %l = tenon.scan init(%i : tensor<4xf32>) slices(%k : tensor<3x4xf32>) length 3 reverse -> (tensor<4xf32>) {
    ^bb0(%m: tensor<4xf32>, %n: tensor<4xf32>):
      %o = tenon.negative %m : tensor<4xf32> -> tensor<4xf32>
      tenon.yield %o : tensor<4xf32>
    }
    tenon.yield %l : tensor<4xf32>
  }
  func.return %q : tensor<4xf32>
}
// CHECK-LABEL: @linear_steps
// CHECK-NEXT:    %q = tenon.scan init(%h : tensor<4xf32>) length 8 reverse -> (tensor<4xf32>) {
// CHECK-NEXT:    ^{{.*}}([[I:%.*]]: tensor<4xf32>):
// CHECK-NEXT:      %l = tenon.scan init([[I]] : tensor<4xf32>) length 3 reverse -> (tensor<4xf32>) {
