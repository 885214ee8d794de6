// RUN: tenon run %s --args iota:2x3xf32,iota:3x2xf32 | filecheck %s
// RUN: tenon-opt %s -p convert-structured-to-loops | tenon run - --args iota:2x3xf32,iota:3x2xf32 | filecheck %s

// The program of run_from_tensor.mlir on buffers: what is not passed in or out lies in the arena, here at byte 64.
func.func @main(%x: memref<2x3xf32>, %w: memref<3x2xf32>, %out0: memref<2x2xf32>, %arena: memref<80xi8>) attributes {num_inputs = 2 : i64, num_outputs = 1 : i64} {
  %offset = arith.constant 64 : index
  %y = memref.view %arena[%offset][] : memref<80xi8> to memref<2x2xf32>
  func.call @kernel_0(%x, %w, %y) : (memref<2x3xf32>, memref<3x2xf32>, memref<2x2xf32>) -> ()
  func.call @kernel_1(%y, %out0) : (memref<2x2xf32>, memref<2x2xf32>) -> ()
  func.return
}
func.func private @kernel_0(%x: memref<2x3xf32>, %w: memref<3x2xf32>, %y: memref<2x2xf32>) attributes {kernel, num_inputs = 2 : i64, num_outputs = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<2x2xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<2x3xf32>, memref<3x2xf32>) outs(%y : memref<2x2xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %product = arith.mulf %a, %b : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  }
  func.return
}
func.func private @kernel_1(%y: memref<2x2xf32>, %out0: memref<2x2xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %twelve = arith.constant 12.0 : f32
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%y : memref<2x2xf32>) outs(%out0 : memref<2x2xf32>) {
  ^bb0(%a: f32, %unused: f32):
    %z = arith.subf %a, %twelve : f32
    %positive = arith.maximumf %z, %zero : f32
    linalg.yield %positive : f32
  }
  func.return
}
// CHECK:      result 0: float32[2, 2]
// CHECK-NEXT: {{\[\[}} 0.  1.]
// CHECK-NEXT:  [16. 28.]]
