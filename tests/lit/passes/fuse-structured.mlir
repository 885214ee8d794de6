// RUN: tenon-opt %s --split-input-file -p fuse-structured | filecheck %s

// An elementwise producer moves into the reduction that is its only use.
func.func private @into_reduction(%x: tensor<4x3xf32>) -> tensor<4xf32> attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
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
// CHECK-LABEL: @into_reduction
// CHECK-NOT:     "parallel", "parallel"
// CHECK:         ins(%x : tensor<4x3xf32>) outs(%filled : tensor<4xf32>) {
// CHECK-NEXT:    ^bb0([[ELEMENT:%.*]]: f32, [[SUM:%.*]]: f32):
// CHECK-NEXT:      [[EXP:%.*]] = math.exp [[ELEMENT]] : f32
// CHECK-NEXT:      [[NEW:%.*]] = arith.addf [[EXP]], [[SUM]] : f32

// -----

// A producer that is returned as well becomes a second result.
func.func private @returned_too(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]
  } ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]
  } ins(%0 : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @returned_too
// CHECK:         [[DOUBLE:%.*]], [[EXP:%.*]] = linalg.generic
// CHECK-NEXT:    ^bb0([[ELEMENT:%.*]]: f32, {{%.*}}: f32, {{%.*}}: f32):
// CHECK-NEXT:      [[E:%.*]] = math.exp [[ELEMENT]] : f32
// CHECK-NEXT:      [[D:%.*]] = arith.addf [[E]], [[E]] : f32
// CHECK-NEXT:      linalg.yield [[D]], [[E]] : f32, f32
// CHECK:         func.return [[EXP]], [[DOUBLE]]

// -----

// The elements of a broadcast row are read four times: an exponential stays outside.
func.func private @expensive_broadcast(%x: tensor<4x3xf32>, %row: tensor<3xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %empty = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]
  } ins(%row : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %1 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x, %0 : tensor<4x3xf32>, tensor<3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK-LABEL: @expensive_broadcast
// CHECK:         [[ROW:%.*]] = linalg.generic
// CHECK:         linalg.generic {{.*}} ins(%x, [[ROW]]
