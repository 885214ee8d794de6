// RUN: tenon-opt %s | filecheck %s
// RUN: tenon-opt %s --print-op-generic | tenon-opt | filecheck %s

// Regions use values from around them; `tenon.yield` gives what a region computes.
func.func @cond(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @cond
// CHECK-NEXT:    %r = tenon.cond %p -> (tensor<4xf32>) {
// CHECK-NEXT:      %a = tenon.exp %x
// CHECK-NEXT:      tenon.yield %a : tensor<4xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      tenon.yield %x : tensor<4xf32>
// CHECK-NEXT:    }

func.func @while_loop(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %i, %r = tenon.while_loop init(%n, %x : tensor<i64>, tensor<4xf32>) {
  ^bb0(%k: tensor<i64>, %v: tensor<4xf32>):
    %zero = tenon.constant {value = dense<0> : tensor<i64>} : tensor<i64>
    %more = tenon.greater %k, %zero : tensor<i64>, tensor<i64> -> tensor<i1>
    tenon.yield %more : tensor<i1>
  } do {
  ^bb0(%k: tensor<i64>, %v: tensor<4xf32>):
    %one = tenon.constant {value = dense<1> : tensor<i64>} : tensor<i64>
    %less = tenon.subtract %k, %one : tensor<i64>, tensor<i64> -> tensor<i64>
    %w = tenon.exp %v : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %less, %w : tensor<i64>, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @while_loop
// CHECK-NEXT:    %i, %r = tenon.while_loop init(%n, %x : tensor<i64>, tensor<4xf32>) {
// CHECK-NEXT:    ^{{.*}}(%k: tensor<i64>, %v: tensor<4xf32>):
// CHECK:           tenon.yield %more : tensor<i1>
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^{{.*}}(%{{.*}}: tensor<i64>, %{{.*}}: tensor<4xf32>):
// CHECK:           tenon.yield %less, %w : tensor<i64>, tensor<4xf32>

// The running sums of the rows, last row first.
func.func @scan(%start: tensor<3xf32>, %rows: tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>) {
  %total, %sums = tenon.scan init(%start : tensor<3xf32>) slices(%rows : tensor<5x3xf32>) length 5 reverse -> (tensor<3xf32>, tensor<5x3xf32>) {
  ^bb0(%sum: tensor<3xf32>, %row: tensor<3xf32>):
    %next = tenon.add %sum, %row : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
    tenon.yield %next, %next : tensor<3xf32>, tensor<3xf32>
  }
  func.return %total, %sums : tensor<3xf32>, tensor<5x3xf32>
}
// CHECK-LABEL: @scan
// CHECK-NEXT:    %total, %sums = tenon.scan init(%start : tensor<3xf32>) slices(%rows : tensor<5x3xf32>) length 5 reverse -> (tensor<3xf32>, tensor<5x3xf32>) {
// CHECK-NEXT:    ^{{.*}}(%sum: tensor<3xf32>, %row: tensor<3xf32>):
// CHECK-NEXT:      %next = tenon.add %sum, %row
// CHECK-NEXT:      tenon.yield %next, %next : tensor<3xf32>, tensor<3xf32>

// What is not there is left out.
func.func @scan_without_state(%x: tensor<3xf32>) -> tensor<5x3xf32> {
  %copies = tenon.scan length 5 -> (tensor<5x3xf32>) {
    tenon.yield %x : tensor<3xf32>
  }
  func.return %copies : tensor<5x3xf32>
}
// CHECK-LABEL: @scan_without_state
// CHECK-NEXT:    %copies = tenon.scan length 5 -> (tensor<5x3xf32>) {
// CHECK-NEXT:      tenon.yield %x : tensor<3xf32>
