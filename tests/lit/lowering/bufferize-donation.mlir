// RUN: tenon-opt %s -p bufferize | filecheck %s

// The output may be the input's memory, which the kernel reads element by element: it writes straight into it.
func.func @last_use(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {donations = array<i64: 0>} {
  %0 = func.call @double(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
// CHECK:      func.func @last_use(%x: memref<4x4xf32>, %out0: memref<4x4xf32>, %arena: memref<0xi8>)
// CHECK-NEXT:   func.call @double(%x, %out0)

// The input is read again after the first result is known, so that result waits in the arena.
func.func @later_use(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {donations = array<i64: 0, -1>} {
  %0 = func.call @double(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = func.call @double(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
// CHECK:      func.func @later_use
// CHECK:        [[WAITS:%.*]] = memref.view %arena
// CHECK-NEXT:   func.call @double(%x, [[WAITS]])
// CHECK-NEXT:   func.call @double(%x, %out1)
// CHECK-NEXT:   "memref.copy"([[WAITS]], %out0)

func.func private @double(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
