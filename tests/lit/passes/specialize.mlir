// RUN: tenon-opt %s -p 'specialize{arguments="4x3xf32","tensor<3x5xf32>"}' | filecheck %s

// Every type that follows from those of the arguments is inferred again, also in regions.
func.func @main(%x: tensor<?x3xf32>, %w: tensor<*xf32>) -> tensor<*xf32> {
  %p = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %y = tenon.matmul %x, %w : tensor<?x3xf32>, tensor<*xf32> -> tensor<*xf32>
  %z = tenon.exp %y : tensor<*xf32> -> tensor<*xf32>
  %s = tenon.sum %z {axis = [1]} : tensor<*xf32> -> tensor<*xf32>
  %a = func.call @double(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %z : tensor<*xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4x5xf32>
// CHECK:         tenon.matmul %x, %w : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    tenon.exp {{.*}} -> tensor<4x5xf32>
// CHECK-NEXT:    tenon.sum {{.*}} -> tensor<4xf32>
// CHECK-NEXT:    func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:    func.return {{.*}} : tensor<4x5xf32>

// A function that is called takes the types that it is called with.
func.func private @double(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = tenon.add %x, %x : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
// CHECK:       func.func private @double(%x: tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:    tenon.add %x, %x : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
