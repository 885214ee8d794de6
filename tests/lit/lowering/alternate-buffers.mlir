// RUN: tenon-opt %s --split-input-file -p alternate-buffers,bufferize | filecheck %s

// A state that is turned round is read until the last element of the next one is written. Two steps at a time, it goes
// to a second place and comes back.
func.func @even(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %lower = arith.constant 0 : index
  %upper = arith.constant 6 : index
  %step = arith.constant 1 : index
  %0 = scf.for %i = %lower to %upper step %step iter_args(%state = %x) -> (tensor<8x8xf32>) {
    %next = func.call @transpose(%state) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %next : tensor<8x8xf32>
  }
  func.return %0 : tensor<8x8xf32>
}
func.func private @transpose(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {kernel}
// CHECK:      func.func @even
// CHECK:        [[SECOND:%.*]] = memref.view %arena
// CHECK:        [[BY:%.*]] = arith.constant 2 : index
// CHECK:        "memref.copy"(%x, %out0)
// CHECK-NEXT:   scf.for %i = %lower to %upper step [[BY]] {
// CHECK-NOT:      memref.copy
// CHECK:          func.call @transpose(%out0, [[SECOND]])
// CHECK-NEXT:     func.call @transpose([[SECOND]], %out0)
// CHECK-NEXT:   }

// -----

// Of an odd number the first step is taken before, from the argument: there is nothing to copy at all. The index of a
// step is the one that it had, and what does not depend on the state stays as it is.
func.func @odd(%x: tensor<8x8xf32>, %rows: tensor<9x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %lower = arith.constant 2 : index
  %upper = arith.constant 7 : index
  %step = arith.constant 1 : index
  %none = arith.constant dense<0.0> : tensor<8xf32>
  %0, %1 = scf.for %i = %lower to %upper step %step iter_args(%state = %x, %last = %none) -> (tensor<8x8xf32>, tensor<8xf32>) {
    %next = func.call @transpose(%state) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %row = tensor.extract_slice %rows[%i, 0] [1, 8] [1, 1] : tensor<9x8xf32> to tensor<8xf32>
    scf.yield %next, %row : tensor<8x8xf32>, tensor<8xf32>
  }
  func.return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @transpose(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {kernel}
// CHECK:      func.func @odd
// CHECK:        func.call @transpose(%x, %out0)
// CHECK:        [[FROM:%.*]] = arith.constant 3 : index
// CHECK:        scf.for [[I:%.*]] = [[FROM]] to %upper
// CHECK-NEXT:     [[NEXT:%.*]] = arith.addi [[I]], {{%.*}} : index
// CHECK-NEXT:     func.call @transpose(%out0, [[SECOND:%[a-z0-9_]+]])
// CHECK-NEXT:     func.call @transpose([[SECOND]], %out0)
// CHECK-NEXT:     arith.muli [[NEXT]],

// -----

// What two steps back and one step back are exchange their places.
func.func @wave(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %lower = arith.constant 0 : index
  %upper = arith.constant 4 : index
  %step = arith.constant 1 : index
  %0, %1 = scf.for %i = %lower to %upper step %step iter_args(%before = %x, %now = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    %next = func.call @average(%before, %now) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %now, %next : tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @average(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
    iterator_types = ["parallel"]
  } ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @wave
// CHECK:        scf.for
// CHECK-NOT:      memref.copy
// CHECK:          func.call @average(%out0, %out1, %out0)
// CHECK-NEXT:     func.call @average(%out1, %out0, %out1)
// CHECK-NEXT:   }

// -----

// A state that can be computed in its own place is, one step at a time; so is one whose number of steps is not known,
// and one of a single step.
func.func @left_alone(%x: tensor<4xf32>, %y: tensor<8x8xf32>, %p: tensor<index>) -> (tensor<4xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %lower = arith.constant 0 : index
  %upper = arith.constant 4 : index
  %step = arith.constant 1 : index
  %0 = scf.for %i = %lower to %upper step %step iter_args(%state = %x) -> (tensor<4xf32>) {
    %next = func.call @double(%state) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  %n = tensor.extract %p[] : tensor<index>
  %1 = scf.for %i = %lower to %n step %step iter_args(%state = %y) -> (tensor<8x8xf32>) {
    %next = func.call @transpose(%state) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %next : tensor<8x8xf32>
  }
  %2 = scf.for %i = %lower to %step step %step iter_args(%state = %y) -> (tensor<8x8xf32>) {
    %next = func.call @transpose(%state) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %next : tensor<8x8xf32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @transpose(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {kernel}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]
  } ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @left_alone
// CHECK:        scf.for {{%.*}} = %lower to %upper step %step {
// CHECK-NEXT:     func.call @double(%out0, %out0)
// CHECK-NEXT:   }
// CHECK:        scf.for {{%.*}} = %lower to %n step %step {
// CHECK-NEXT:     func.call @transpose
// CHECK:        scf.for {{%.*}} = %lower to %step step %step {
