// RUN: not tenon-opt %s -p canonicalize,convert-linalg-to-loops --reproducer-dir %t 2>&1 | filecheck %s

// A failing pass names itself and leaves the IR before it, with the command that repeats the failure.
func.func @on_tensors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// CHECK: tenon-opt: error: pass 'convert-linalg-to-loops' failed:
// CHECK: tenon-opt: the ir before it is in {{.*}}.mlir
// CHECK: tenon-opt: repeat with: tenon-opt {{.*}}.mlir -p convert-linalg-to-loops
