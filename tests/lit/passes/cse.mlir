// RUN: tenon-opt %s --split-input-file -p cse | filecheck %s

func.func @equal_ops_merge(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<1xf32>) {
  %a = tenon.sum %x : tensor<4xf32> -> tensor<f32>
  %b = tenon.sum %x : tensor<4xf32> -> tensor<f32>
  %c = tenon.sum %x {keepdims = true} : tensor<4xf32> -> tensor<1xf32>
  func.return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<1xf32>
}
// CHECK-LABEL: @equal_ops_merge
// CHECK-NEXT:    %a = tenon.sum %x : tensor<4xf32> -> tensor<f32>
// CHECK-NEXT:    %c = tenon.sum %x {keepdims = true}
// CHECK-NEXT:    func.return %a, %a, %c

// -----

// A region sees what the blocks around it compute; two regions do not see each other.
func.func @regions(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %b = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    %c = tenon.tanh %b : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %c : tensor<4xf32>
  } else {
    %d = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %d : tensor<4xf32>
  }
  %e = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
  func.return %r, %e : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @regions
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NOT:     tenon.exp
// CHECK:         %c = tenon.tanh %a
// CHECK:         %d = tenon.tanh %a
// CHECK:         %e = tenon.tanh %a

// -----

func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.multiply %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @unknown(tensor<4xf32>) -> tensor<4xf32>
// A call is as pure as what it calls.
func.func @calls(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = func.call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @calls
// CHECK-NEXT:    %a = func.call @square
// CHECK-NEXT:    %c = func.call @unknown
// CHECK-NEXT:    %d = func.call @unknown
// CHECK-NEXT:    func.return %a, %a, %c, %d
