// RUN: not tenon-opt %s -p bufferize 2>&1 | filecheck %s

// A function without a body that is no kernel has no buffers.
func.func private @other(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
// CHECK: pass 'bufferize' failed: bufferize: @other has no body, and is no kernel, where one block is needed
