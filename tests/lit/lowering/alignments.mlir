// RUN: tenon-opt %s -p 'bufferize{alignment=16},decide-steps{machine=sm_90}' --split-input-file | filecheck %s

// A slice begins where its offset tells: rows of 16 bytes at such multiples, in all calls, and are read by vectors.
func.func @rows(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %lower = arith.constant 0 : index
  %upper = arith.constant 8 : index
  %step = arith.constant 1 : index
  %last = scf.for %i = %lower to %upper step %step iter_args(%to = %y) -> (tensor<4xf32>) {
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
    %next = func.call @sum(%row, %to) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  %z = func.call @sum(%y, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %last, %z : tensor<4xf32>, tensor<4xf32>
}
func.func private @sum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%none : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func private @sum
// CHECK-SAME:   alignments = array<i64: 16, 16, 16>
// CHECK-SAME:   "split(i, 4) -> i_, iv", "vectorize(iv)"

// -----

// The least that is known in all calls counts: of rows of 24 bytes every other one begins at a multiple of 16, and the
// part that begins at an element of 4 is nowhere in particular.
func.func @rows_and_parts(%x: tensor<8x6xf32>, %i: index) -> (tensor<6xf32>, tensor<4xf32>) {
  %row = tensor.extract_slice %x[%i, 0] [1, 6] [1, 1] : tensor<8x6xf32> to tensor<6xf32>
  %0 = func.call @negative_row(%row) : (tensor<6xf32>) -> tensor<6xf32>
  %even = tensor.extract_slice %x[%i, 2] [1, 4] [1, 1] : tensor<8x6xf32> to tensor<4xf32>
  %1 = func.call @negative(%even) : (tensor<4xf32>) -> tensor<4xf32>
  %odd = tensor.extract_slice %x[%i, 1] [1, 4] [1, 1] : tensor<8x6xf32> to tensor<4xf32>
  %2 = func.call @negative(%odd) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %2 : tensor<6xf32>, tensor<4xf32>
}
func.func private @negative_row(%x: tensor<6xf32>) -> tensor<6xf32> attributes {kernel} {
  %none = tensor.empty() : tensor<6xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
    ins(%x : tensor<6xf32>) outs(%none : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  func.return %0 : tensor<6xf32>
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
// CHECK:      func.func private @negative_row
// CHECK-SAME:   alignments = array<i64: 8, 16>
// CHECK:      func.func private @negative
// CHECK-SAME:   alignments = array<i64: 4, 16>
