// RUN: tenon-opt %s --split-input-file -p dce | filecheck %s

func.func @unused_ops_vanish(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
  %c = tenon.cond %p -> (tensor<4xf32>) {
    tenon.yield %b : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: @unused_ops_vanish
// CHECK-NEXT:    func.return %x

// -----

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
// CHECK-NOT:     tenon.exp
// CHECK-NOT:     tenon.tanh
// CHECK:         func.return %c

// -----

func.func private @unknown()
func.func @effects_stay() {
  func.call @unknown() : () -> ()
  func.return
}
// CHECK-LABEL: @effects_stay
// CHECK-NEXT:    func.call @unknown

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
// CHECK-NOT: @even
