// RUN: tenon-opt %s -p "batch{size=8},batch{size=8 function=branches},batch{size=8 function=loops},batch{size=8 function=scanned},batch{size=8 function=alone},batch{size=2 function=shared}" | filecheck %s
// RUN: tenon-opt %s -p "batch{size=8},batch{size=5}" | filecheck %s --check-prefix TWICE
// RUN: tenon-opt %s -p "batch{size=8},differentiate,canonicalize,cse,dce" | filecheck %s --check-prefix GRADIENT
// RUN: not tenon-opt %s -p "batch{size=8 function=calling}" 2>&1 | filecheck %s --check-prefix CALL
// RUN: not tenon-opt %s -p "batch{size=8 function=helper}" 2>&1 | filecheck %s --check-prefix CALLED
// RUN: tenon-opt %s -p "inline,batch{size=8 function=calling}" | filecheck %s --check-prefix INLINED
// RUN: not tenon-opt %s -p "batch{size=8 function=nothing}" 2>&1 | filecheck %s --check-prefix NAME
// RUN: not tenon-opt %s -p "batch{size=-1}" 2>&1 | filecheck %s --check-prefix SIZE

// Every argument and result has the examples along a new first dimension; axes are counted behind it.
func.func @main(%x: tensor<4x3xf32>, %y: tensor<3xf32>) -> tensor<4xf32> {
  %0 = tenon.multiply %x, %y : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>
  %1 = tenon.softmax %0 {axis = 0} : tensor<4x3xf32> -> tensor<4x3xf32>
  %2 = tenon.sum %1 {axis = [-1]} : tensor<4x3xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: @main(%x: tensor<8x4x3xf32>, %y: tensor<8x3xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:    %[[ROW:.*]] = tenon.expand_dims %y {axis = [1]} : tensor<8x3xf32> -> tensor<8x1x3xf32>
// CHECK-NEXT:    %[[PRODUCT:.*]] = tenon.multiply %x, %[[ROW]]
// CHECK-NEXT:    %[[SOFT:.*]] = tenon.softmax %[[PRODUCT]] {axis = 1}
// CHECK-NEXT:    %[[SUM:.*]] = tenon.sum %[[SOFT]] {axis = [2]} : tensor<8x4x3xf32> -> tensor<8x4xf32>
// CHECK-NEXT:    func.return %[[SUM]]

// TWICE-LABEL: @main(%x: tensor<5x8x4x3xf32>, %y: tensor<5x8x3xf32>) -> tensor<5x8x4xf32>

// GRADIENT-LABEL: @main_vjp(%x: tensor<8x4x3xf32>, %y: tensor<8x3xf32>, %0: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4x3xf32>, tensor<8x3xf32>)

// A predicate that differs among examples takes both branches.
func.func @branches(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tenon.cond %p -> (tensor<3xf32>) {
    %a = tenon.sin %x : tensor<3xf32> -> tensor<3xf32>
    tenon.yield %a : tensor<3xf32>
  } else {
    tenon.yield %x : tensor<3xf32>
  }
  func.return %0 : tensor<3xf32>
}
// CHECK-LABEL: @branches(%p: tensor<8xi1>, %x: tensor<8x3xf32>) -> tensor<8x3xf32>
// CHECK-NEXT:    %[[SIN:.*]] = tenon.sin %x : tensor<8x3xf32>
// CHECK-NEXT:    %[[CHOICE:.*]] = tenon.expand_dims %p {axis = [1]} : tensor<8xi1> -> tensor<8x1xi1>
// CHECK-NEXT:    tenon.select %[[CHOICE]], %[[SIN]], %x

// Each example leaves the loop by itself: it stays what it was while others go on.
func.func @loops(%x: tensor<f32>) -> tensor<f32> {
  %0 = tenon.while_loop init(%x : tensor<f32>) {
  ^bb0(%v: tensor<f32>):
    %c = tenon.less %v, %v : tensor<f32>, tensor<f32> -> tensor<i1>
    tenon.yield %c : tensor<i1>
  } do {
  ^bb0(%v: tensor<f32>):
    %d = tenon.exp %v : tensor<f32> -> tensor<f32>
    tenon.yield %d : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: @loops(%x: tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:    %[[ACTIVE:.*]] = tenon.less %x, %x
// CHECK-NEXT:    tenon.while_loop init(%x, %[[ACTIVE]] : tensor<8xf32>, tensor<8xi1>) {
// CHECK-NEXT:    ^bb0(%[[VALUE:.*]]: tensor<8xf32>, %[[GOES_ON:.*]]: tensor<8xi1>):
// CHECK-NEXT:      tenon.any %[[GOES_ON]] : tensor<8xi1> -> tensor<i1>
// CHECK:         } do {
// CHECK:           %[[NEXT:.*]] = tenon.exp
// CHECK-NEXT:      tenon.select %{{.*}}, %[[NEXT]], %

// All examples take a step together: slices have the steps first.
func.func @scanned(%x: tensor<f32>, %xs: tensor<4xf32>) -> tensor<f32> {
  %0 = tenon.scan init(%x : tensor<f32>) slices(%xs : tensor<4xf32>) length 4 -> (tensor<f32>) {
  ^bb0(%c: tensor<f32>, %a: tensor<f32>):
    %1 = tenon.multiply %c, %a : tensor<f32>, tensor<f32> -> tensor<f32>
    tenon.yield %1 : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: @scanned(%x: tensor<8xf32>, %xs: tensor<8x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:    %[[STEPS:.*]] = tenon.transpose %xs {permutation = [1, 0]} : tensor<8x4xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    tenon.scan init(%x : tensor<8xf32>) slices(%[[STEPS]] : tensor<4x8xf32>) length 4
// CHECK-NEXT:    ^{{.*}}(%[[C:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<8xf32>):
// CHECK-NEXT:      tenon.multiply %[[C]], %[[A]]

// An op that cannot take all examples at once runs for one after the other.
func.func @alone(%x: tensor<6xf32>, %starts: tensor<1xi64>) -> tensor<2xf32> {
  %0 = tenon.dynamic_slice %x, %starts {sizes = [2]} : tensor<6xf32>, tensor<1xi64> -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
// CHECK-LABEL: @alone(%x: tensor<8x6xf32>, %starts: tensor<8x1xi64>) -> tensor<8x2xf32>
// CHECK-NEXT:    %[[PARTS:.*]] = tenon.scan slices(%x, %starts : tensor<8x6xf32>, tensor<8x1xi64>) length 8 -> (tensor<8x2xf32>) {
// CHECK-NEXT:    ^{{.*}}(%[[ONE:.*]]: tensor<6xf32>, %[[START:.*]]: tensor<1xi64>):
// CHECK-NEXT:      %[[PART:.*]] = tenon.dynamic_slice %[[ONE]], %[[START]] {sizes = [2]}
// CHECK-NEXT:      tenon.yield %[[PART]]
// CHECK:         func.return %[[PARTS]]

// What is the same for every example is computed once, and repeated where it is a result.
func.func @shared(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = tenon.constant {value = dense<2.0> : tensor<3xf32>} : tensor<3xf32>
  %1 = tenon.exp %0 : tensor<3xf32> -> tensor<3xf32>
  func.return %1, %x : tensor<3xf32>, tensor<3xf32>
}
// CHECK-LABEL: @shared(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK:         %[[EXP:.*]] = tenon.exp %{{.*}} : tensor<3xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[BOTH:.*]] = tenon.broadcast_to %[[EXP]] {shape = [2, 3]}
// CHECK-NEXT:    func.return %[[BOTH]], %x

// Calls are in the way: each function is batched by itself, and one that is called stays as its calls expect it.
func.func private @helper(%x: tensor<3xf32>) -> tensor<3xf32> {
  func.return %x : tensor<3xf32>
}
func.func @calling(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = func.call @helper(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
// CALL: pass 'batch' failed: batch: func.call: functions are batched one by one; run inline first
// CALLED: pass 'batch' failed: batch: @helper is called, and its calls pass one example; run inline first
// INLINED-LABEL: @calling(%x: tensor<8x3xf32>) -> tensor<8x3xf32>

// NAME: pass 'batch' failed: batch: there is no function @nothing
// SIZE: pass 'batch' failed: batch: size is -1, which is negative
