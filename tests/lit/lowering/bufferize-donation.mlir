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

// Rows of a donated operand are replaced where they are; the copy finds that it is in its place already.
func.func @row(%x: tensor<4x4xf32>, %r: tensor<4xf32>) -> tensor<4x4xf32> attributes {donations = array<i64: 0>} {
  %0 = func.call @with_row(%x, %r) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
// CHECK:      func.func @row(%x: memref<4x4xf32>, %r: memref<4xf32>, %out0: memref<4x4xf32>
// CHECK-NEXT:   "memref.copy"(%x, %out0)
// CHECK-NEXT:   func.call @with_row(%r, %out0)

// What is large and stays is copied by a kernel.
func.func @large(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  func.return %x : tensor<1024x1024xf32>
}
// CHECK:      func.func @large
// CHECK-NEXT:   func.call @copy_0(%x, %out0)

// Replaces a row.
func.func private @with_row(%x: tensor<4x4xf32>, %r: tensor<4xf32>) -> tensor<4x4xf32> attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %0 = scf.for %j = %c0 to %c4 step %c1 iter_args(%to = %x) -> (tensor<4x4xf32>) {
    %e = tensor.extract %r[%j] : tensor<4xf32>
    %with = tensor.insert %e into %to[%c1, %j] : tensor<4x4xf32>
    scf.yield %with : tensor<4x4xf32>
  }
  func.return %0 : tensor<4x4xf32>
}

// What the functions above call.
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
