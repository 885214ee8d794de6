// RUN: tenon-opt %s --split-input-file -p 'specialize{arguments="4x3xf32","tensor<3x5xf32>"}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'specialize{arguments="4x3xf32, 3x5xf32"}' | filecheck %s

// Every type that follows from those of the arguments is inferred again.
func.func @main(%x: tensor<?x3xf32>, %w: tensor<*xf32>) -> tensor<*xf32> {
  %y = tenon.matmul %x, %w : tensor<?x3xf32>, tensor<*xf32> -> tensor<*xf32>
  %z = tenon.sum %y {axis = [1]} : tensor<*xf32> -> tensor<*xf32>
  func.return %z : tensor<*xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4xf32>
// CHECK-NEXT:    %y = tenon.matmul {{.*}} -> tensor<4x5xf32>
// CHECK-NEXT:    %z = tenon.sum {{.*}} -> tensor<4xf32>
// CHECK-NEXT:    func.return %z : tensor<4xf32>

// -----

// Also in regions.
func.func @main(%x: tensor<?x3xf32>, %p: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %true = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %r = tenon.cond %true -> (tensor<3x?xf32>) {
    %e = tenon.exp %p : tensor<3x?xf32> -> tensor<3x?xf32>
    tenon.yield %e : tensor<3x?xf32>
  } else {
    tenon.yield %p : tensor<3x?xf32>
  }
  func.return %r : tensor<3x?xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:         %r = tenon.cond {{.*}} -> (tensor<3x5xf32>)
// CHECK-NEXT:      tenon.exp {{.*}} -> tensor<3x5xf32>

// -----

// A function that is called takes the types that it is called with.
func.func @main(%x: tensor<?x3xf32>, %w: tensor<*xf32>) -> tensor<?x3xf32> {
  %a = func.call @double(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %a : tensor<?x3xf32>
}
func.func private @double(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = tenon.add %x, %x : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
// CHECK:         func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK:       func.func private @double(%x: tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:    tenon.add %x, %x : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
