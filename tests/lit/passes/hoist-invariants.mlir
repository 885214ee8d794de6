// RUN: tenon-opt %s --split-input-file -p hoist-invariants | filecheck %s

// A transpose of what comes from outside is the same in each step.
func.func @transposed_weight(%w: tensor<4x4xf32>, %h: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %r = tenon.scan init(%h : tensor<2x4xf32>) length 3 -> (tensor<2x4xf32>) {
  ^bb0(%c: tensor<2x4xf32>):
    %t = tenon.transpose %w : tensor<4x4xf32> -> tensor<4x4xf32>
    %n = tenon.matmul %c, %t : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    tenon.yield %n : tensor<2x4xf32>
  }
  func.return %r : tensor<2x4xf32>
}
// CHECK-LABEL: @transposed_weight
// CHECK-NEXT:    [[T:%.*]] = tenon.transpose %w
// CHECK-NEXT:    tenon.scan
// CHECK-NEXT:    ^{{.*}}(%c: tensor<2x4xf32>):
// CHECK-NEXT:      tenon.matmul %c, [[T]]

// -----

// A broadcast and a constant would be read from memory: what is needed of them outside is there twice.
func.func @only_what_is_worth_its_memory(%b: tensor<1xf32>, %x: tensor<4096xf32>) -> tensor<4096xf32> {
  %r = tenon.scan init(%x : tensor<4096xf32>) length 3 -> (tensor<4096xf32>) {
  ^bb0(%c: tensor<4096xf32>):
    %two = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
    %d = tenon.multiply %b, %two : tensor<1xf32>, tensor<f32> -> tensor<1xf32>
    %s = tenon.broadcast_to %d {shape = [4096]} : tensor<1xf32> -> tensor<4096xf32>
    %m = tenon.multiply %c, %s : tensor<4096xf32>, tensor<4096xf32> -> tensor<4096xf32>
    %n = tenon.add %m, %two : tensor<4096xf32>, tensor<f32> -> tensor<4096xf32>
    tenon.yield %n : tensor<4096xf32>
  }
  func.return %r : tensor<4096xf32>
}
// CHECK-LABEL: @only_what_is_worth_its_memory
// CHECK-NEXT:    [[C:%.*]] = tenon.constant
// CHECK-NEXT:    [[D:%.*]] = tenon.multiply %b, [[C]]
// CHECK-NEXT:    tenon.scan
// CHECK:           %two_1 = tenon.constant
// CHECK-NEXT:      %s = tenon.broadcast_to [[D]]
// CHECK-NEXT:      tenon.multiply %c, %s

// -----

// What leaves an inner loop leaves the one around it as well; what depends on that one's values stays there.
func.func @nested_loops(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>) -> tensor<4xf32> {
  %z = tenon.constant {value = dense<0.0> : tensor<4xf32>} : tensor<4xf32>
  %r = tenon.scan init(%z : tensor<4xf32>) slices(%x : tensor<2x4xf32>) length 2 -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %s: tensor<4xf32>):
    %q = tenon.while_loop init(%a : tensor<4xf32>) {
    ^bb1(%b: tensor<4xf32>):
      %m = tenon.sum %b : tensor<4xf32> -> tensor<f32>
      %l = tenon.sum %w : tensor<4x4xf32> -> tensor<f32>
      %p = tenon.less %m, %l : tensor<f32>, tensor<f32> -> tensor<i1>
      tenon.yield %p : tensor<i1>
    } do {
    ^bb2(%d: tensor<4xf32>):
      %e = tenon.exp %s : tensor<4xf32> -> tensor<4xf32>
      %f = tenon.add %d, %e : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      tenon.yield %f : tensor<4xf32>
    }
    tenon.yield %q : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @nested_loops
// CHECK:         [[L:%.*]] = tenon.sum %w
// CHECK-NEXT:    tenon.scan
// CHECK-NEXT:    ^{{.*}}:
// CHECK-NEXT:      [[E:%.*]] = tenon.exp %s
// CHECK-NEXT:      tenon.while_loop
// CHECK:           tenon.less %m, [[L]]
// CHECK:           tenon.add %d, [[E]]

// -----

// The body may never run, so a loop in it that might not end does not run before.
func.func @loop_that_might_not_end(%x: tensor<f32>, %go: tensor<i1>) -> tensor<f32> {
  %r = tenon.while_loop init(%x : tensor<f32>) {
  ^bb0(%a: tensor<f32>):
    tenon.yield %go : tensor<i1>
  } do {
  ^bb1(%b: tensor<f32>):
    %q = tenon.while_loop init(%x : tensor<f32>) {
    ^bb2(%c: tensor<f32>):
      tenon.yield %go : tensor<i1>
    } do {
    ^bb3(%d: tensor<f32>):
      tenon.yield %d : tensor<f32>
    }
    tenon.yield %q : tensor<f32>
  }
  func.return %r : tensor<f32>
}
// CHECK-LABEL: @loop_that_might_not_end
// CHECK-NEXT:    %r = tenon.while_loop
// CHECK:           %q = tenon.while_loop
