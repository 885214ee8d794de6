// RUN: tenon run %s --args iota:2x3xf32,iota:3x2xf32 | filecheck %s
// RUN: tenon-opt %s -p bufferize | tenon run - --args iota:2x3xf32,iota:3x2xf32 | filecheck %s

// The program of run_from_tensor.mlir as loops over tensors.
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %y = func.call @kernel_0(%x, %w) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r = func.call @kernel_1(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
func.func private @kernel_0(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> tensor<2x2xf32> attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x2xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x3xf32>, tensor<3x2xf32>) outs(%start : tensor<2x2xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %product = arith.mulf %a, %b : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  } -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
func.func private @kernel_1(%y: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {kernel} {
  %twelve = arith.constant 12.0 : f32
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2x2xf32>) outs(%empty : tensor<2x2xf32>) {
  ^bb0(%a: f32, %unused: f32):
    %z = arith.subf %a, %twelve : f32
    %positive = arith.maximumf %z, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
// CHECK:      result 0: float32[2, 2]
// CHECK-NEXT: {{\[\[}} 0.  1.]
// CHECK-NEXT:  [16. 28.]]
