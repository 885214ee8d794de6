// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured,bufferize | filecheck %s
// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured,bufferize | tenon run - --args iota:1x4xf32,iota:4x1xf32 | filecheck %s --check-prefix RESULT
// RUN: tenon run %s --args iota:1x4xf32,iota:4x1xf32 | filecheck %s --check-prefix RESULT
// RUN: env TENON_INTERPRET=1 tenon run %s --args iota:1x4xf32,iota:4x1xf32 | filecheck %s --check-prefix RESULT

// Both entries get outputs and an arena; what @prepare gives is an argument that callers of @main do not see.
func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x1xf32> {tenon.frozen}, %t: tensor<4x1xf32>) -> tensor<1x1xf32> attributes {prepare = @prepare} {
  %y = tenon.matmul %x, %t : tensor<1x4xf32>, tensor<4x1xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
func.func @prepare(%w: tensor<4x1xf32>) -> tensor<4x1xf32> attributes {frozen = array<i64: 1>} {
  %t = tenon.multiply %w, %w : tensor<4x1xf32>, tensor<4x1xf32> -> tensor<4x1xf32>
  func.return %t : tensor<4x1xf32>
}
// CHECK:      func.func @main(%x: memref<1x4xf32>, %w: memref<4x1xf32> {tenon.frozen}, %t: memref<4x1xf32>, %out0: memref<1x1xf32>, %arena: memref<0xi8>)
// CHECK-SAME:   prepare = @prepare
// CHECK:      func.func @prepare(%w: memref<4x1xf32>, %out0: memref<4x1xf32>, %arena: memref<0xi8>)
// CHECK-SAME:   frozen = array<i64: 1>
// RESULT:     {{.*}}36
