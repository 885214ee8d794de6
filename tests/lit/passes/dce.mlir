// RUN: tenon-opt %s --split-input-file -p dce | filecheck %s

// What nothing uses is gone, and then what only that used.
func.func @unused_ops_vanish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: @unused_ops_vanish
// CHECK-NEXT:    func.return %x

// -----

// An op with regions has the effects of what is in them.
func.func @unused_regions_vanish(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %c = tenon.cond %p -> (tensor<4xf32>) {
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: @unused_regions_vanish
// CHECK-NEXT:    func.return %x

// -----

// Inside of a region that stays.
func.func @inside_of_regions(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %c = tenon.cond %p -> (tensor<4xf32>) {
    %b = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %x : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %c : tensor<4xf32>
}
// CHECK-LABEL: @inside_of_regions
// CHECK-NEXT:    %c = tenon.cond %p
// CHECK-NEXT:      tenon.yield %x

// -----

// A call of what is not known may have effects.
func.func private @unknown()
func.func @effects_stay() {
  func.call @unknown() : () -> ()
  func.return
}
// CHECK-LABEL: @effects_stay
// CHECK-NEXT:    func.call @unknown()
// CHECK-NEXT:    func.return

// -----

// An unused call of a function without effects is gone, and so is the function.
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.multiply %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @unused_calls_vanish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}
// CHECK-NOT:   @square
// CHECK-LABEL: @unused_calls_vanish
// CHECK-NEXT:    func.return %x

// -----

// Functions that only call each other cannot be reached.
func.func private @even(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @odd(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @odd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @even(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @unreachable_functions_vanish() {
  func.return
}
// CHECK-NOT:   @even
// CHECK-NOT:   @odd
// CHECK-LABEL: @unreachable_functions_vanish
// CHECK-NEXT:    func.return
