// RUN: tenon-opt %s -p split-frozen --split-input-file | filecheck %s

// %t depends on frozen arguments alone, and so does %u, which only %t needs.
func.func @main(%x: tensor<4x300xf32>, %w: tensor<300x8xf32> {tenon.frozen}, %b: tensor<8xf32> {tenon.frozen}) -> tensor<4x8xf32> {
  %u = tenon.exp %b : tensor<8xf32> -> tensor<8xf32>
  %t = tenon.multiply %w, %u : tensor<300x8xf32>, tensor<8xf32> -> tensor<300x8xf32>
  %y = tenon.matmul %x, %t : tensor<4x300xf32>, tensor<300x8xf32> -> tensor<4x8xf32>
  %z = tenon.add %y, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  func.return %z : tensor<4x8xf32>
}
// CHECK:       func.func @main(%x: {{.*}}, %w: {{.*}} {tenon.frozen}, %b: {{.*}} {tenon.frozen}, %t: tensor<300x8xf32>)
// CHECK-SAME:    attributes {prepare = @prepare}
// CHECK-NEXT:    %y = tenon.matmul %x, %t
// CHECK-NEXT:    %z = tenon.add %y, %b
// CHECK-NEXT:    func.return %z
// CHECK:       func.func @prepare(%w: {{.*}}, %b: {{.*}}) -> tensor<300x8xf32> attributes {frozen = array<i64: 1, 2>}
// CHECK-NEXT:    %u = tenon.exp %b
// CHECK-NEXT:    %t = tenon.multiply %w, %u
// CHECK-NEXT:    func.return %t

// -----

// What a small argument grows to is computed at each call, from what is prepared of it.
func.func @main(%x: tensor<512x512xf32>, %s: tensor<512xf32> {tenon.frozen}) -> tensor<512x512xf32> {
  %e = tenon.exp %s : tensor<512xf32> -> tensor<512xf32>
  %r = tenon.reshape %e {shape = [512, 1]} : tensor<512xf32> -> tensor<512x1xf32>
  %m = tenon.add %e, %r : tensor<512xf32>, tensor<512x1xf32> -> tensor<512x512xf32>
  %y = tenon.multiply %x, %m : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
  func.return %y : tensor<512x512xf32>
}
// CHECK:       func.func @main(%x: {{.*}}, %s: {{.*}} {tenon.frozen}, %e: tensor<512xf32>)
// CHECK-NEXT:    %r = tenon.reshape %e
// CHECK-NEXT:    %m = tenon.add %e, %r
// CHECK:       func.func @prepare(%s: tensor<512xf32>) -> tensor<512xf32>
// CHECK-NEXT:    %e = tenon.exp %s
// CHECK-NEXT:    func.return %e

// -----

// A cast to a wider type would be read from memory in the place of the narrow one.
func.func @main(%x: tensor<4x4096xf32>, %w: tensor<4096x4xi8> {tenon.frozen}) -> tensor<4x4xf32> {
  %c = tenon.cast %w {dtype = f32} : tensor<4096x4xi8> -> tensor<4096x4xf32>
  %y = tenon.matmul %x, %c : tensor<4x4096xf32>, tensor<4096x4xf32> -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
// CHECK:       func.func @main(%x: {{.*}}, %w: tensor<4096x4xi8> {tenon.frozen}) ->
// CHECK-NEXT:    tenon.cast %w
// CHECK-NOT:   @prepare

// -----

// A reshape costs nothing, so that what it is of is prepared.
func.func @main(%x: tensor<4x6xf32>, %w: tensor<24xf32> {tenon.frozen}) -> tensor<4x6xf32> {
  %e = tenon.exp %w : tensor<24xf32> -> tensor<24xf32>
  %r = tenon.reshape %e {shape = [4, 6]} : tensor<24xf32> -> tensor<4x6xf32>
  %y = tenon.add %x, %r : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}
// CHECK:       func.func @main({{.*}}, %e: tensor<24xf32>)
// CHECK-NEXT:    %r = tenon.reshape %e
// CHECK:       func.func @prepare(%w: tensor<24xf32>) -> tensor<24xf32>
// CHECK-NEXT:    %e = tenon.exp %w
// CHECK-NEXT:    func.return %e

// -----

// Without frozen arguments there is nothing to prepare.
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %e = tenon.exp %w : tensor<4xf32> -> tensor<4xf32>
  %y = tenon.add %x, %e : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK:       func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    tenon.exp %w
// CHECK-NOT:   @prepare
