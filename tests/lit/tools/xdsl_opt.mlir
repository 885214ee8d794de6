// RUN: xdsl-opt %s -p decompose,layout,fuse,convert-tensor-to-structured,bufferize,convert-structured-to-loops | filecheck %s

// Stock xDSL finds the dialect and the passes of every stage.
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tenon.softmax %x : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// CHECK-NOT:   tenon.
// CHECK-LABEL: func.func @main(%x: memref<4x8xf32>, %out0: memref<4x8xf32>
// CHECK:         func.call @kernel_0
// CHECK-LABEL: func.func private @kernel_0
// CHECK:         scf.for
// CHECK:           arith.maximumf
// CHECK:         math.exp
// CHECK:         arith.divf
