// RUN: tenon-opt %s -p bufferize | filecheck %s

// An entry takes its outputs and the arena; a temporary is a view of the arena.
func.func @main(%x: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %0 = func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = func.call @transpose(%0) : (tensor<4x3xf32>) -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}
// CHECK:      func.func @main(%x: memref<4x3xf32>, %out0: memref<3x4xf32>, %arena: memref<48xi8>) attributes {num_inputs = 1 : i64, num_outputs = 1 : i64}
// CHECK-NEXT:   [[OFFSET:%.*]] = arith.constant 0 : index
// CHECK-NEXT:   [[TEMPORARY:%.*]] = memref.view %arena{{\[}}[[OFFSET]]{{\]}}[] : memref<48xi8> to memref<4x3xf32>
// CHECK-NEXT:   func.call @double(%x, [[TEMPORARY]])
// CHECK-NEXT:   func.call @transpose([[TEMPORARY]], %out0)
// CHECK-NEXT:   func.return

// An elementwise kernel writes over an operand that dies, here in the output.
func.func @in_place(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = func.call @double(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK:      func.func @in_place(%x: memref<4x3xf32>, %out0: memref<4x3xf32>, %arena: memref<0xi8>)
// CHECK-NEXT:   func.call @double(%x, %out0)
// CHECK-NEXT:   func.call @double(%out0, %out0)

// So does one that has a loop of one iteration besides, as reading a part of a dimension needs; a loop of more keeps the
// operand, of which a later iteration reads what an earlier one has written.
func.func @in_place_but_for_unit_loops(%x: tensor<4x3xf32>, %y: tensor<4x4xf32>) -> tensor<4x3xf32> {
  %0 = func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = func.call @add_first(%0, %y) : (tensor<4x3xf32>, tensor<4x4xf32>) -> tensor<4x3xf32>
  %2 = func.call @add_any(%1, %y) : (tensor<4x3xf32>, tensor<4x4xf32>) -> tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}
// CHECK:      func.func @in_place_but_for_unit_loops
// CHECK:        [[TEMPORARY:%.*]] = memref.view %arena
// CHECK:        func.call @double(%x, [[TEMPORARY]])
// CHECK-NEXT:   func.call @add_first([[TEMPORARY]], %y, [[TEMPORARY]])
// CHECK-NEXT:   func.call @add_any([[TEMPORARY]], %y, %out0)

// A reshape of a result is written into the output, which is taken for a buffer of the other shape.
func.func @reshaped_result(%x: tensor<4x3xf32>) -> tensor<12xf32> {
  %0 = func.call @double(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
  func.return %1 : tensor<12xf32>
}
// CHECK:      func.func @reshaped_result
// CHECK-NEXT:   [[OUTPUT:%.*]] = memref.reinterpret_cast %out0 to offset: [0], sizes: [4, 3], strides: [3, 1]
// CHECK-NEXT:   func.call @double(%x, [[OUTPUT]])
// CHECK-NEXT:   func.return

// Inputs, constants and results that are returned twice are copied.
func.func @returned_input(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %c = arith.constant dense<1.0> : tensor<4x3xf32>
  func.return %x, %c : tensor<4x3xf32>, tensor<4x3xf32>
}
// CHECK:      func.func @returned_input
// CHECK:        [[CONSTANT:%.*]] = memref.get_global @constant_0 : memref<4x3xf32>
// CHECK-DAG:    "memref.copy"(%x, %out0)
// CHECK-DAG:    "memref.copy"([[CONSTANT]], %out1)

// The result of a reduction starts as the fill it accumulates into; what one generic hands to the next is allocated.
func.func private @sum_of_doubles(%x: tensor<4x3xf32>) -> tensor<4xf32> attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%0 : tensor<4x3xf32>) outs(%filled : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK:      func.func private @sum_of_doubles(%x: memref<4x3xf32>, %out0: memref<4xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64}
// CHECK-NEXT:   [[DOUBLES:%.*]] = memref.alloc() : memref<4x3xf32>
// CHECK:        linalg.generic {{.*}} ins(%x : memref<4x3xf32>) outs([[DOUBLES]] : memref<4x3xf32>)
// CHECK:        linalg.fill ins(%zero : f32) outs(%out0 : memref<4xf32>)
// CHECK-NEXT:   linalg.generic {{.*}} ins([[DOUBLES]] : memref<4x3xf32>) outs(%out0 : memref<4xf32>)

// What the functions above call.
func.func private @double(%x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %0 : tensor<4x3xf32>
}
func.func private @transpose(%x: tensor<4x3xf32>) -> tensor<3x4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<3x4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x3xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}
func.func private @add_first(%x: tensor<4x3xf32>, %y: tensor<4x4xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %one = tensor.empty() : tensor<1xi8>
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {
    indexing_maps = [
      affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b)>, affine_map<(a, b, c) -> (a, b + c)>,
      affine_map<(a, b, c) -> (a, b)>
    ],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%one, %x, %y : tensor<1xi8>, tensor<4x3xf32>, tensor<4x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: i8, %p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %0 : tensor<4x3xf32>
}
func.func private @add_any(%x: tensor<4x3xf32>, %y: tensor<4x4xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %one = tensor.empty() : tensor<2xi8>
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {
    indexing_maps = [
      affine_map<(a, b, c) -> (c)>, affine_map<(a, b, c) -> (a, b)>, affine_map<(a, b, c) -> (a, b + c)>,
      affine_map<(a, b, c) -> (a, b)>
    ],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%one, %x, %y : tensor<2xi8>, tensor<4x3xf32>, tensor<4x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%i: i8, %p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %0 : tensor<4x3xf32>
}

// An element that is computed three times is not read where it was written.
func.func @twice_of_part(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @add_to_itself(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @add_to_itself(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<3xi8>
  %g = tensor.empty() : tensor<3xi8>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0 + 1)>, affine_map<(d0, d1) -> (d0 + 1)>], iterator_types = ["parallel", "parallel"]} ins(%g, %e, %x : tensor<3xi8>, tensor<3xi8>, tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%g0: i8, %n: i8, %b: f32, %d: f32):
    %s = arith.addf %b, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func private @add_to_itself(%x: memref<4xf32>, %out0: memref<4xf32>)
// CHECK:         "memref.copy"(%x, %out0)
// CHECK:         linalg.generic {{.*}} ins(%g, %e, %x : {{.*}} outs(%out0 : memref<4xf32>)
