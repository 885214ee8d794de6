// RUN: tenon-opt %s --split-input-file -p recompute | filecheck %s

// What %g is computed from depends on %o, the contraction of the scores: %d gets scores of its own. Sums of rows are
// small and stay.
func.func @scores_of_a_gradient(%q: tensor<8x128x16xf32>, %k: tensor<8x16x128xf32>, %v: tensor<8x128x16xf32>) -> tensor<8x128x128xf32> {
  %s = tenon.matmul %q, %k : tensor<8x128x16xf32>, tensor<8x16x128xf32> -> tensor<8x128x128xf32>
  %e = tenon.exp %s : tensor<8x128x128xf32> -> tensor<8x128x128xf32>
  %n = tenon.sum %e {axis = [2], keepdims = true} : tensor<8x128x128xf32> -> tensor<8x128x1xf32>
  %p = tenon.divide %e, %n : tensor<8x128x128xf32>, tensor<8x128x1xf32> -> tensor<8x128x128xf32>
  %o = tenon.matmul %p, %v : tensor<8x128x128xf32>, tensor<8x128x16xf32> -> tensor<8x128x16xf32>
  %g = tenon.matmul %o, %k : tensor<8x128x16xf32>, tensor<8x16x128xf32> -> tensor<8x128x128xf32>
  %d = tenon.multiply %p, %g : tensor<8x128x128xf32>, tensor<8x128x128xf32> -> tensor<8x128x128xf32>
  func.return %d : tensor<8x128x128xf32>
}
// CHECK-LABEL: @scores_of_a_gradient
// CHECK:         [[N:%.*]] = tenon.sum
// CHECK:         [[O:%.*]] = tenon.matmul %p, %v
// CHECK-NEXT:    [[G:%.*]] = tenon.matmul [[O]], %k
// CHECK-NEXT:    [[T:%.*]] = tenon.matmul %q, %k {recomputed}
// CHECK-NEXT:    [[F:%.*]] = tenon.exp [[T]] {recomputed}
// CHECK-NEXT:    [[R:%.*]] = tenon.divide [[F]], [[N]] {recomputed}
// CHECK-NEXT:    tenon.multiply [[R]], [[G]]

// -----

// With as many elements as the operands have, to keep them costs less than to compute them.
func.func @small_results_are_kept(%q: tensor<8x16x128xf32>, %k: tensor<8x128x16xf32>, %v: tensor<8x16x16xf32>) -> tensor<8x16x16xf32> {
  %s = tenon.matmul %q, %k : tensor<8x16x128xf32>, tensor<8x128x16xf32> -> tensor<8x16x16xf32>
  %o = tenon.matmul %s, %v : tensor<8x16x16xf32>, tensor<8x16x16xf32> -> tensor<8x16x16xf32>
  %d = tenon.multiply %s, %o : tensor<8x16x16xf32>, tensor<8x16x16xf32> -> tensor<8x16x16xf32>
  func.return %d : tensor<8x16x16xf32>
}
// CHECK-LABEL: @small_results_are_kept
// CHECK-NOT:     recomputed

// -----

// What is computed again stands where it is first needed: the first op that is late (%d) needs %s alone, and the others
// more that is defined behind it.
func.func @behind_what_it_is_computed_from(%q: tensor<128x16xf32>, %k: tensor<16x128xf32>, %v: tensor<128x16xf32>) -> (tensor<128x128xf32>, tensor<128x128xf32>) {
  %s = tenon.matmul %q, %k : tensor<128x16xf32>, tensor<16x128xf32> -> tensor<128x128xf32>
  %o = tenon.matmul %s, %v : tensor<128x128xf32>, tensor<128x16xf32> -> tensor<128x16xf32>
  %g = tenon.matmul %o, %k : tensor<128x16xf32>, tensor<16x128xf32> -> tensor<128x128xf32>
  %d = tenon.multiply %s, %g : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
  %c = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %t = tenon.add %s, %c : tensor<128x128xf32>, tensor<f32> -> tensor<128x128xf32>
  %e = tenon.multiply %t, %d : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
  func.return %d, %e : tensor<128x128xf32>, tensor<128x128xf32>
}
// CHECK-LABEL: @behind_what_it_is_computed_from
// CHECK:         [[G:%.*]] = tenon.matmul %o, %k
// CHECK-NEXT:    [[S:%.*]] = tenon.matmul %q, %k {recomputed}
// CHECK-NEXT:    [[D:%.*]] = tenon.multiply [[S]], [[G]]
// CHECK-NEXT:    [[C:%.*]] = tenon.constant
// CHECK:         [[T:%.*]] = tenon.add [[S]], [[C]] {recomputed}
// CHECK-NEXT:    tenon.multiply [[T]], [[D]]
