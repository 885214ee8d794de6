// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// x & true -> x and x & false -> false
func.func @and_truth(%x: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>) {
  %true = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %false = tenon.constant {value = dense<false> : tensor<4xi1>} : tensor<4xi1>
  %a = tenon.bitwise_and %x, %true : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  %b = tenon.bitwise_and %x, %false : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  func.return %a, %b : tensor<4xi1>, tensor<4xi1>
}
// CHECK-LABEL: @and_truth
// CHECK-NEXT:    %false = tenon.constant {value = dense<false> : tensor<4xi1>} : tensor<4xi1>
// CHECK-NEXT:    func.return %x, %false

// -----

// x | false -> x and x | true -> true
func.func @and_truth_or(%x: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>) {
  %false = tenon.constant {value = dense<false> : tensor<i1>} : tensor<i1>
  %true = tenon.constant {value = dense<true> : tensor<4xi1>} : tensor<4xi1>
  %a = tenon.bitwise_or %x, %false : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  %b = tenon.bitwise_or %x, %true : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  func.return %a, %b : tensor<4xi1>, tensor<4xi1>
}
// CHECK-LABEL: @and_truth_or
// CHECK-NEXT:    %true = tenon.constant {value = dense<true> : tensor<4xi1>} : tensor<4xi1>
// CHECK-NEXT:    func.return %x, %true

// -----

// not(not(x)) -> x, of bits and of truth values; of a number it is whether that is 0.
func.func @double_not(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi1>) {
  %a = tenon.bitwise_not %x : tensor<4xi8> -> tensor<4xi8>
  %b = tenon.bitwise_not %a : tensor<4xi8> -> tensor<4xi8>
  %c = tenon.logical_not %x : tensor<4xi8> -> tensor<4xi1>
  %d = tenon.logical_not %c : tensor<4xi1> -> tensor<4xi1>
  func.return %b, %d : tensor<4xi8>, tensor<4xi1>
}
// CHECK-LABEL: @double_not
// CHECK-NEXT:    %c = tenon.logical_not %x
// CHECK-NEXT:    %d = tenon.logical_not %c
// CHECK-NEXT:    func.return %x, %d

// -----

// select(false, x, y) -> y
func.func @select_known(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %false = tenon.constant {value = dense<false> : tensor<4xi1>} : tensor<4xi1>
  %a = tenon.select %false, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
// CHECK-LABEL: @select_known
// CHECK-NEXT:    func.return %y

// -----

// select(c, x, x) -> x
func.func @select_known_by_equal_choices(%c: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
// CHECK-LABEL: @select_known_by_equal_choices
// CHECK-NEXT:    func.return %x

// -----

// select(c, true, false) -> c
func.func @select_truth(%c: tensor<3xi1>) -> tensor<3xi1> {
  %true = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %false = tenon.constant {value = dense<false> : tensor<i1>} : tensor<i1>
  %s = tenon.select %c, %true, %false : tensor<3xi1>, tensor<i1>, tensor<i1> -> tensor<3xi1>
  func.return %s : tensor<3xi1>
}
// CHECK-LABEL: @select_truth
// CHECK-NEXT:    func.return %c

// -----

// select(not(c), x, y) -> select(c, y, x)
func.func @select_by_opposite(%c: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %n = tenon.logical_not %c : tensor<3xi1> -> tensor<3xi1>
  %s = tenon.select %n, %x, %y : tensor<3xi1>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return %s : tensor<3xf32>
}
// CHECK-LABEL: @select_by_opposite
// CHECK-NEXT:    %s = tenon.select %c, %y, %x
// CHECK-NEXT:    func.return %s

// -----

// cond(true, a, b) -> a
func.func @cond_known(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %r = tenon.cond %true -> (tensor<4xf32>) {
    %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @cond_known
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    func.return %a

// -----

// What nothing uses of a checkpoint is not computed in it.
func.func @checkpoint_unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a, %b = tenon.checkpoint -> (tensor<4xf32>, tensor<4xf32>) {
    %e = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    %s = tenon.sin %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %e, %s : tensor<4xf32>, tensor<4xf32>
  }
  func.return %b : tensor<4xf32>
}
// CHECK-LABEL: @checkpoint_unused
// CHECK-NEXT:    %b = tenon.checkpoint -> (tensor<4xf32>) {
// CHECK-NEXT:      %s = tenon.sin %x
// CHECK-NEXT:      tenon.yield %s
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %b

// -----

// An op without effects whose results are not used is gone.
func.func @dead_ops(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.sin %a : tensor<4xf32> -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: @dead_ops
// CHECK-NEXT:    func.return %x
