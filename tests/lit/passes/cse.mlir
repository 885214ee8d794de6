// RUN: tenon-opt %s --split-input-file -p cse | filecheck %s

// Equal ops on equal operands are one.
func.func @equal_ops_merge(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = tenon.sum %x : tensor<4xf32> -> tensor<f32>
  %b = tenon.sum %x : tensor<4xf32> -> tensor<f32>
  func.return %a, %b : tensor<f32>, tensor<f32>
}
// CHECK-LABEL: @equal_ops_merge
// CHECK-NEXT:    %a = tenon.sum %x
// CHECK-NEXT:    func.return %a, %a

// -----

// Other settings make another op.
func.func @settings_tell_ops_apart(%x: tensor<4xf32>) -> (tensor<f32>, tensor<1xf32>) {
  %a = tenon.sum %x : tensor<4xf32> -> tensor<f32>
  %b = tenon.sum %x {keepdims = true} : tensor<4xf32> -> tensor<1xf32>
  func.return %a, %b : tensor<f32>, tensor<1xf32>
}
// CHECK-LABEL: @settings_tell_ops_apart
// CHECK-NEXT:    %a = tenon.sum %x
// CHECK-NEXT:    %b = tenon.sum %x {keepdims = true}
// CHECK-NEXT:    func.return %a, %b

// -----

// What merges makes operands equal, so that what uses them merges, too.
func.func @chains_merge(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %c = tenon.tanh %a : tensor<4xf32> -> tensor<4xf32>
  %d = tenon.tanh %b : tensor<4xf32> -> tensor<4xf32>
  func.return %c, %d : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @chains_merge
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    %c = tenon.tanh %a
// CHECK-NEXT:    func.return %c, %c

// -----

// A region sees what the blocks around it compute.
func.func @regions_see_what_is_around(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %b = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %b : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %a, %r : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @regions_see_what_is_around
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    %r = tenon.cond %p
// CHECK-NEXT:      tenon.yield %a

// -----

// Two regions do not see each other, and what follows sees neither.
func.func @regions_are_not_seen(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %a = tenon.tanh %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    %b = tenon.tanh %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %b : tensor<4xf32>
  }
  %c = tenon.tanh %x : tensor<4xf32> -> tensor<4xf32>
  func.return %r, %c : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @regions_are_not_seen
// CHECK:           %a = tenon.tanh %x
// CHECK:           %b = tenon.tanh %x
// CHECK:         %c = tenon.tanh %x

// -----

// A checkpoint computes again what was computed before, so that it need not be kept.
func.func @checkpoints_compute_again(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  %r = tenon.checkpoint -> (tensor<4xf32>) attributes {recomputed} {
    %b = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %b : tensor<4xf32>
  }
  func.return %a, %r : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @checkpoints_compute_again
// CHECK-NEXT:    %a = tenon.exp %x
// CHECK-NEXT:    %r = tenon.checkpoint
// CHECK-NEXT:      %b = tenon.exp %x

// -----

// A call has no effects if what it calls has none.
func.func @calls_merge(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.multiply %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: @calls_merge
// CHECK-NEXT:    %a = func.call @square(%x)
// CHECK-NEXT:    func.return %a, %a

// -----

// What a function without a body does is not known.
func.func private @unknown(tensor<4xf32>) -> tensor<4xf32>
func.func @unknown_calls_stay(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = func.call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @unknown_calls_stay
// CHECK-NEXT:    %a = func.call @unknown(%x)
// CHECK-NEXT:    %b = func.call @unknown(%x)
// CHECK-NEXT:    func.return %a, %b

// -----

// Two buffers that are to be written are not one.
func.func @empty_tensors_stay() -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tensor.empty() : tensor<4xf32>
  %b = tensor.empty() : tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @empty_tensors_stay
// CHECK-NEXT:    %a = tensor.empty()
// CHECK-NEXT:    %b = tensor.empty()
// CHECK-NEXT:    func.return %a, %b

// -----

// Loops that do the same are one; those whose bodies differ are not.
func.func @equal_loops_merge(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %a = tenon.scan init(%x : tensor<f32>) length 3 -> (tensor<f32>) {
  ^bb0(%c: tensor<f32>):
    %d = tenon.exp %c : tensor<f32> -> tensor<f32>
    tenon.yield %d : tensor<f32>
  }
  %b = tenon.scan init(%x : tensor<f32>) length 3 -> (tensor<f32>) {
  ^bb0(%e: tensor<f32>):
    %f = tenon.exp %e : tensor<f32> -> tensor<f32>
    tenon.yield %f : tensor<f32>
  }
  %g = tenon.scan init(%x : tensor<f32>) length 3 -> (tensor<f32>) {
  ^bb0(%h: tensor<f32>):
    %i = tenon.exp %x : tensor<f32> -> tensor<f32>
    tenon.yield %i : tensor<f32>
  }
  func.return %a, %b, %g : tensor<f32>, tensor<f32>, tensor<f32>
}
// CHECK-LABEL: @equal_loops_merge
// CHECK:         %a = tenon.scan
// CHECK-NOT:     %b = tenon.scan
// CHECK:         %g = tenon.scan
// CHECK:         func.return %a, %a, %g
