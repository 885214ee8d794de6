// RUN: tenon-opt %s --split-input-file -p 'block-scans{machine="l2=4096"}' | filecheck %s

// 8 KiB of products: half the cache holds four of sixteen steps. The state goes from block to block, results are put
// together again, and what is the same in each step is read by each block.
func.func @blocks(%x: tensor<16x4x4xf32>, %w: tensor<4x32xf32>, %b: tensor<32xf32>, %h: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<16x4x8xf32>) {
  %p = tenon.matmul %x, %w : tensor<16x4x4xf32>, tensor<4x32xf32> -> tensor<16x4x32xf32>
  %z = tenon.add %p, %b : tensor<16x4x32xf32>, tensor<32xf32> -> tensor<16x4x32xf32>
  %r, %y = tenon.scan init(%h : tensor<4x8xf32>) slices(%z : tensor<16x4x32xf32>) length 16 reverse -> (tensor<4x8xf32>, tensor<16x4x8xf32>) {
  ^bb0(%c: tensor<4x8xf32>, %s: tensor<4x32xf32>):
    %t = tenon.slice %s {starts = [0, 0], limits = [4, 8]} : tensor<4x32xf32> -> tensor<4x8xf32>
    %n = tenon.maximum %c, %t : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    tenon.yield %n, %n : tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.return %r, %y : tensor<4x8xf32>, tensor<16x4x8xf32>
}
// CHECK-LABEL: @blocks
// CHECK-NEXT:    [[X:%.*]] = tenon.reshape %x {shape = [4, 4, 4, 4]}
// CHECK-NEXT:    [[R:%.*]], [[Y:%.*]] = tenon.scan init(%h : tensor<4x8xf32>) slices([[X]] : tensor<4x4x4x4xf32>) length 4 reverse -> (tensor<4x8xf32>, tensor<4x4x4x8xf32>) {
// CHECK-NEXT:    ^{{.*}}([[H:%.*]]: tensor<4x8xf32>, [[B:%.*]]: tensor<4x4x4xf32>):
// CHECK-NEXT:      [[P:%.*]] = tenon.contract {{.*}}extents = [4, 32, 4, 4], shape = [4, 4, 32]
// CHECK-NEXT:      [[Z:%.*]] = tenon.add [[P]], %b
// CHECK-NEXT:      [[Q:%.*]], [[V:%.*]] = tenon.scan init([[H]] : tensor<4x8xf32>) slices([[Z]] : tensor<4x4x32xf32>) length 4 reverse
// CHECK:           tenon.yield [[Q]], [[V]]
// CHECK:         tenon.reshape [[Y]] {shape = [16, 4, 8]}

// -----

// What others read as well is there as a whole; of a number of steps that nothing divides there are no blocks.
func.func @whole(%x: tensor<16x4x4xf32>, %w: tensor<4x32xf32>, %h: tensor<4x32xf32>, %u: tensor<17x4x4xf32>) -> (tensor<4x32xf32>, tensor<16x4x32xf32>, tensor<4x32xf32>) {
  %z = tenon.matmul %x, %w : tensor<16x4x4xf32>, tensor<4x32xf32> -> tensor<16x4x32xf32>
  %r = tenon.scan init(%h : tensor<4x32xf32>) slices(%z : tensor<16x4x32xf32>) length 16 -> (tensor<4x32xf32>) {
  ^bb0(%c: tensor<4x32xf32>, %s: tensor<4x32xf32>):
    %n = tenon.maximum %c, %s : tensor<4x32xf32>, tensor<4x32xf32> -> tensor<4x32xf32>
    tenon.yield %n : tensor<4x32xf32>
  }
  %v = tenon.matmul %u, %w : tensor<17x4x4xf32>, tensor<4x32xf32> -> tensor<17x4x32xf32>
  %q = tenon.scan init(%h : tensor<4x32xf32>) slices(%v : tensor<17x4x32xf32>) length 17 -> (tensor<4x32xf32>) {
  ^bb1(%d: tensor<4x32xf32>, %t: tensor<4x32xf32>):
    %m = tenon.maximum %d, %t : tensor<4x32xf32>, tensor<4x32xf32> -> tensor<4x32xf32>
    tenon.yield %m : tensor<4x32xf32>
  }
  func.return %r, %z, %q : tensor<4x32xf32>, tensor<16x4x32xf32>, tensor<4x32xf32>
}
// CHECK-LABEL: @whole
// CHECK-NEXT:    tenon.matmul %x, %w
// CHECK-NEXT:    tenon.scan {{.*}} length 16
// CHECK:         tenon.matmul %u, %w
// CHECK-NEXT:    tenon.scan {{.*}} length 17

// -----

// As much would be stacked, and copied, as is saved.
func.func @stacked(%x: tensor<16x4x4xf32>, %w: tensor<4x32xf32>, %h: tensor<4x32xf32>) -> tensor<16x4x32xf32> {
  %z = tenon.matmul %x, %w : tensor<16x4x4xf32>, tensor<4x32xf32> -> tensor<16x4x32xf32>
  %r, %y = tenon.scan init(%h : tensor<4x32xf32>) slices(%z : tensor<16x4x32xf32>) length 16 -> (tensor<4x32xf32>, tensor<16x4x32xf32>) {
  ^bb0(%c: tensor<4x32xf32>, %s: tensor<4x32xf32>):
    %n = tenon.maximum %c, %s : tensor<4x32xf32>, tensor<4x32xf32> -> tensor<4x32xf32>
    tenon.yield %n, %n : tensor<4x32xf32>, tensor<4x32xf32>
  }
  func.return %y : tensor<16x4x32xf32>
}
// CHECK-LABEL: @stacked
// CHECK-NEXT:    tenon.matmul
// CHECK-NEXT:    tenon.scan {{.*}} length 16

// -----

// A weight that outgrows the cache comes from afar for each block.
func.func @large_weight(%x: tensor<16x4x20xf32>, %w: tensor<20x64xf32>, %h: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %z = tenon.matmul %x, %w : tensor<16x4x20xf32>, tensor<20x64xf32> -> tensor<16x4x64xf32>
  %r = tenon.scan init(%h : tensor<4x64xf32>) slices(%z : tensor<16x4x64xf32>) length 16 -> (tensor<4x64xf32>) {
  ^bb0(%c: tensor<4x64xf32>, %s: tensor<4x64xf32>):
    %n = tenon.maximum %c, %s : tensor<4x64xf32>, tensor<4x64xf32> -> tensor<4x64xf32>
    tenon.yield %n : tensor<4x64xf32>
  }
  func.return %r : tensor<4x64xf32>
}
// CHECK-LABEL: @large_weight
// CHECK-NEXT:    tenon.matmul

// -----

// Steps that are on a diagonal of what they give stay together.
func.func @on_the_diagonal(%x: tensor<8x4x4xf32>, %w: tensor<4x8xf32>, %h: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %z = tenon.contract [%x, %w] {maps = [affine_map<(t, b, i, h) -> (t, b, i)>, affine_map<(t, b, i, h) -> (i, h)>, affine_map<(t, b, i, h) -> (t, b, t, h)>], extents = [8, 4, 4, 8], shape = [8, 4, 8, 8]} : [tensor<8x4x4xf32>, tensor<4x8xf32>] -> tensor<8x4x8x8xf32>
  %r = tenon.scan init(%h : tensor<4x8xf32>) slices(%z : tensor<8x4x8x8xf32>) length 8 -> (tensor<4x8xf32>) {
  ^bb0(%c: tensor<4x8xf32>, %s: tensor<4x8x8xf32>):
    %t = tenon.sum %s {axis = [1]} : tensor<4x8x8xf32> -> tensor<4x8xf32>
    %n = tenon.maximum %c, %t : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    tenon.yield %n : tensor<4x8xf32>
  }
  func.return %r : tensor<4x8xf32>
}
// CHECK-LABEL: @on_the_diagonal
// CHECK-NEXT:    tenon.contract
// CHECK-NEXT:    tenon.scan {{.*}} length 8
