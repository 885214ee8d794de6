// RUN: tenon-opt %s -p bufferize --split-input-file | filecheck %s

// A kernel reads rows of an argument, and writes rows of a result, where they are. Where they begin is part of their
// type, which the kernel's parameters have as well.
func.func @rows(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %lower = arith.constant 0 : index
  %upper = arith.constant 8 : index
  %step = arith.constant 1 : index
  %none = tensor.empty() : tensor<8x4xf32>
  %rows = scf.for %i = %lower to %upper step %step iter_args(%to = %none) -> (tensor<8x4xf32>) {
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
    %next = func.call @negative(%row) : (tensor<4xf32>) -> tensor<4xf32>
    %with = tensor.insert_slice %next into %to[%i, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<8x4xf32>
    scf.yield %with : tensor<8x4xf32>
  }
  func.return %rows : tensor<8x4xf32>
}
func.func private @negative(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%none : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @rows
// CHECK:        scf.for %i
// CHECK:          [[ROW:%.*]] = memref.reinterpret_cast %x to offset: [{{%.*}}], sizes: [4], strides: [1] :
// CHECK:          [[NEXT:%.*]] = memref.reinterpret_cast %out0 to offset: [{{%.*}}], sizes: [4], strides: [1] :
// CHECK-NEXT:     func.call @negative([[ROW]], [[NEXT]])
// CHECK-NEXT:   }
// CHECK:      func.func private @negative(%x: memref<4xf32, strided<[1], offset: ?>>,

// -----

// What else is passed to such a kernel is cast to that type.
func.func @rows_and_whole(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %i = arith.constant 2 : index
  %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
  %0 = func.call @negative(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @negative(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @negative(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%none : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @rows_and_whole
// CHECK:        func.call @negative({{%.*}}, %out0)
// CHECK-NEXT:   [[Y:%.*]] = "memref.cast"(%y) : (memref<4xf32>) -> memref<4xf32, strided<[1], offset: ?>>
// CHECK-NEXT:   func.call @negative([[Y]], %out1)

// -----

// A kernel that is not known takes buffers of its own: the row is copied.
func.func @unknown(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %i = arith.constant 2 : index
  %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
  %0 = func.call @library(%row) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @library(tensor<4xf32>) -> tensor<4xf32> attributes {kernel}
// CHECK:      func.func @unknown
// CHECK:        "memref.copy"({{%.*}}, [[ROW:%.*]]) : (memref<4xf32, strided<[1], offset: ?>>, memref<4xf32>)
// CHECK-NEXT:   func.call @library([[ROW]], %out0)

// -----

// The first result is where the argument was, which is donated: its row is copied before that is overwritten.
func.func @overwritten(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  attributes {donations = array<i64: 0, -1>} {
  %i = arith.constant 2 : index
  %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
  %all = func.call @negative_all(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %0 = func.call @negative(%row) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %all, %0 : tensor<8x4xf32>, tensor<4xf32>
}
func.func private @negative_all(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<8x4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<8x4xf32>) outs(%none : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<8x4xf32>
  func.return %0 : tensor<8x4xf32>
}
func.func private @negative(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%none : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @overwritten
// CHECK:        "memref.copy"({{%.*}}, [[ROW:%.*]]) : (memref<4xf32, strided<[1], offset: ?>>, memref<4xf32>)
// CHECK-NEXT:   func.call @negative_all(%x, %out0)
// CHECK-NEXT:   func.call @negative([[ROW]], %out1)

// -----

// What is a reshape of a kernel's result is written where it goes as well.
func.func @reshaped_rows(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %lower = arith.constant 0 : index
  %upper = arith.constant 8 : index
  %step = arith.constant 1 : index
  %none = tensor.empty() : tensor<8x2x2xf32>
  %rows = scf.for %i = %lower to %upper step %step iter_args(%to = %none) -> (tensor<8x2x2xf32>) {
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
    %next = func.call @exp(%row) : (tensor<4xf32>) -> tensor<4xf32>
    %square = tensor.expand_shape %next [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
    %with = tensor.insert_slice %square into %to[%i, 0, 0] [1, 2, 2] [1, 1, 1] : tensor<2x2xf32> into tensor<8x2x2xf32>
    scf.yield %with : tensor<8x2x2xf32>
  }
  %sums = func.call @last(%rows) : (tensor<8x2x2xf32>) -> tensor<8x4xf32>
  func.return %sums : tensor<8x4xf32>
}
func.func private @exp(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%none : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @last(%x: tensor<8x2x2xf32>) -> tensor<8x4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, 1, 1)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<8x2x2xf32>) outs(%none : tensor<8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8x4xf32>
  func.return %0 : tensor<8x4xf32>
}
// CHECK-LABEL: @reshaped_rows
// CHECK:         scf.for
// CHECK:           [[AT:%.*]] = memref.view %arena
// CHECK-NEXT:      func.call @exp({{%.*}}, [[AT]])
// CHECK-NOT:       memref.copy
// CHECK:         func.call @last
