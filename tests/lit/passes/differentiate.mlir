// RUN: tenon-opt %s -p "differentiate,differentiate{function=product},differentiate{function=scanned},differentiate{function=integers},canonicalize,cse,dce" | filecheck %s
// RUN: not tenon-opt %s -p "differentiate{function=endless}" 2>&1 | filecheck %s --check-prefix WHILE
// RUN: not tenon-opt %s -p "differentiate{function=calling}" 2>&1 | filecheck %s --check-prefix CALL
// RUN: not tenon-opt %s -p "differentiate{function=nothing}" 2>&1 | filecheck %s --check-prefix NAME
// RUN: not tenon-opt %s -p "differentiate,differentiate" 2>&1 | filecheck %s --check-prefix TWICE

// The derived function takes a cotangent per floating-point result and gives a gradient per floating-point argument.
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tenon.sin %x : tensor<3xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
// CHECK-LABEL: @main_vjp(%x: tensor<3xf32>, %0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT:    %[[VALUE:.*]] = tenon.sin %x
// CHECK-NEXT:    %[[SLOPE:.*]] = tenon.cos %x
// CHECK-NEXT:    %[[GRADIENT:.*]] = tenon.multiply %0, %[[SLOPE]]
// CHECK-NEXT:    func.return %[[VALUE]], %[[GRADIENT]]

// What was broadcast is summed.
func.func @product(%x: tensor<4x3xf32>, %y: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = tenon.multiply %x, %y : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>
  func.return %0 : tensor<4x3xf32>
}
// CHECK-LABEL: @product_vjp(%x: tensor<4x3xf32>, %y: tensor<3xf32>, %0: tensor<4x3xf32>)
// CHECK-NEXT:    %[[VALUE:.*]] = tenon.multiply %x, %y
// CHECK-NEXT:    %[[TO_X:.*]] = tenon.multiply %0, %y
// CHECK-NEXT:    %[[PRODUCT:.*]] = tenon.multiply %0, %x
// CHECK-NEXT:    %[[TO_Y:.*]] = tenon.sum %[[PRODUCT]] {axis = [0]}
// CHECK-NEXT:    func.return %[[VALUE]], %[[TO_X]], %[[TO_Y]]

// The forward scan saves what its steps are given; the backward one runs from the last step to the first.
func.func @scanned(%x: tensor<f32>, %xs: tensor<4xf32>) -> tensor<f32> {
  %0 = tenon.scan init(%x : tensor<f32>) slices(%xs : tensor<4xf32>) length 4 -> (tensor<f32>) {
  ^bb0(%c: tensor<f32>, %a: tensor<f32>):
    %1 = tenon.multiply %c, %a : tensor<f32>, tensor<f32> -> tensor<f32>
    tenon.yield %1 : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: @scanned_vjp(%x: tensor<f32>, %xs: tensor<4xf32>, %0: tensor<f32>)
// CHECK-NEXT:    %[[VALUE:.*]], %[[SAVED:.*]] = tenon.scan init(%x {{.*}}length 4 ->
// CHECK:         tenon.scan init(%0 : tensor<f32>) slices(%[[SAVED]], %xs : {{.*}}length 4 reverse ->

// Integers have no gradient.
func.func @integers(%x: tensor<f32>, %n: tensor<i64>) -> (tensor<f32>, tensor<i64>) {
  %0 = tenon.negative %x : tensor<f32> -> tensor<f32>
  func.return %0, %n : tensor<f32>, tensor<i64>
}
// CHECK-LABEL: @integers_vjp(%x: tensor<f32>, %n: tensor<i64>, %0: tensor<f32>) -> (tensor<f32>, tensor<i64>, tensor<f32>)

// How many steps would have to be saved is not known.
func.func @endless(%x: tensor<f32>) -> tensor<f32> {
  %0 = tenon.while_loop init(%x : tensor<f32>) {
  ^bb0(%v: tensor<f32>):
    %1 = tenon.less %v, %v : tensor<f32>, tensor<f32> -> tensor<i1>
    tenon.yield %1 : tensor<i1>
  } do {
  ^bb0(%v: tensor<f32>):
    tenon.yield %v : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// WHILE: pass 'differentiate' failed: tenon.while_loop: has no reverse-mode gradient, nor a jvp, since its number of steps is not known

// Calls are in the way: each function is differentiated by itself.
func.func @calling(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = func.call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
// CALL: pass 'differentiate' failed: func.call: functions are differentiated one by one; run inline first

// NAME: pass 'differentiate' failed: differentiate: there is no function @nothing
// TWICE: pass 'differentiate' failed: differentiate: there is a function @main_vjp already
