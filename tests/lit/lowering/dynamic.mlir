// RUN: tenon-opt %s -p name-sizes | filecheck %s
// RUN: tenon-opt %s -p name-sizes,decompose,canonicalize,cse,dce,fuse,convert-tensor-to-structured,fuse-structured | filecheck %s --check-prefix STRUCTURED
// RUN: tenon-opt %s -p name-sizes,decompose,canonicalize,cse,dce,fuse,convert-tensor-to-structured,fuse-structured,bufferize | filecheck %s --check-prefix BUFFERED
// RUN: tenon-opt %s -p name-sizes,decompose,canonicalize,cse,dce,fuse,convert-tensor-to-structured,fuse-structured,bufferize,schedule{vector-bits=256},convert-structured-to-loops | filecheck %s --check-prefix LOOPS
// RUN: tenon run %s --args ones:3x8xf32,iota:8x2xf32,ones:3x2xf32 | filecheck %s --check-prefix VALUES

// The rows of %x and %y are as many as are given at launch; %w says what the other dimension of %x is.
func.func @main(%x: tensor<?x?xf32>, %w: tensor<8x2xf32>, %y: tensor<?x2xf32>) -> tensor<2xf32> {
  %0 = tenon.matmul %x, %w : tensor<?x?xf32>, tensor<8x2xf32> -> tensor<?x2xf32>
  %1 = tenon.subtract %0, %y : tensor<?x2xf32>, tensor<?x2xf32> -> tensor<?x2xf32>
  %2 = tenon.mean %1 {axis = [0]} : tensor<?x2xf32> -> tensor<2xf32>
  func.return %2 : tensor<2xf32>
}

// Dimensions that must be equal have one name; one that must be 8 has none.
// CHECK:      func.func @main(%x: tensor<?x8xf32> {tenon.shape = ["x_d0", 8 : i64]}, %w: tensor<8x2xf32>,
// CHECK-SAME:                 %y: tensor<?x2xf32> {tenon.shape = ["x_d0", 2 : i64]})
// CHECK:      tenon.matmul %x, %w : tensor<?x8xf32>, tensor<8x2xf32> -> tensor<?x2xf32>

// Functions take sizes as arguments and pass them on. The mean divides by one.
// STRUCTURED:      func.func @main(%x: tensor<?x8xf32>, {{.*}}, %x_d0: index) -> tensor<2xf32> attributes {sizes = ["x_d0"]}
// STRUCTURED:      func.call @kernel_0(%x, %w, %y, %x_d0)
// STRUCTURED:      func.func private @kernel_0({{.*}}, %[[N:.*]]: index) -> tensor<?x2xf32> attributes {kernel, sizes = ["x_d0"]}
// STRUCTURED:      tensor.empty(%[[N]]) : tensor<?x2xf32>
// STRUCTURED:      arith.index_cast %{{.*}} : index to i64

// Sizes come behind the outputs. What an intermediate takes of the arena, whose length depends on them, starts at 0.
// BUFFERED:      func.func @main(%x: memref<?x8xf32>, %w: memref<8x2xf32>, %y: memref<?x2xf32>, %out0: memref<2xf32>,
// BUFFERED-SAME:                 %x_d0: index, %arena: memref<?xi8>)
// BUFFERED-SAME: num_inputs = 3 : i64, num_outputs = 1 : i64
// BUFFERED:      memref.view %arena[%{{.*}}][%x_d0] : memref<?xi8> to memref<?x2xf32>

// Loops end where the size says.
// LOOPS:      func.func private @kernel_0({{.*}}, %[[N:.*]]: index) attributes {kernel,
// LOOPS:      %[[FULL:.*]] = arith.divui %[[N]],
// LOOPS:      arith.remui %[[N]],
// LOOPS:      "scf.parallel"

// VALUES: result 0: float32[2]
// VALUES: [55. 63.]
