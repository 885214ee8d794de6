// RUN: tenon-opt %s -p differentiate | filecheck %s
// RUN: tenon-opt %s -p differentiate,decompose,canonicalize,cse | filecheck %s --check-prefix=TWICE
// RUN: tenon-opt %s -p differentiate,decompose,canonicalize,cse,fuse,convert-tensor-to-structured | filecheck %s --check-prefix=ONCE-INLINED

// What the region computes is not kept for the gradient.
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = tenon.checkpoint -> (tensor<3xf32>) {
    %e = tenon.exp %x : tensor<3xf32> -> tensor<3xf32>
    %s = tenon.sin %e : tensor<3xf32> -> tensor<3xf32>
    tenon.yield %s : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}
// The backward part computes again, with the cotangent as its input.
// CHECK-LABEL: @main_vjp(%x: tensor<3xf32>, %0: tensor<3xf32>)
// CHECK:         tenon.checkpoint -> (tensor<3xf32>) {
// CHECK-NEXT:      tenon.exp %x
// CHECK:         tenon.checkpoint inputs(%0 : tensor<3xf32>) -> (tensor<3xf32>) attributes {recomputed} {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<3xf32>):
// CHECK-NEXT:      tenon.exp %x
// CHECK:           tenon.yield

// Nothing merges it with what was computed before, which is no region any more.
// TWICE-LABEL: @main_vjp
// TWICE-NEXT:    [[E:%.*]] = tenon.exp %x
// TWICE-NEXT:    [[S:%.*]] = tenon.sin [[E]]
// TWICE-NEXT:    [[G:%.*]] = tenon.checkpoint
// TWICE-NEXT:    ^bb0
// TWICE-NEXT:      [[R:%.*]] = tenon.exp %x
// TWICE:         func.return [[S]], [[G]]

// Kernels do not cross it; then it is gone.
// ONCE-INLINED-LABEL: @main_vjp
// ONCE-INLINED-NEXT:    func.call
// ONCE-INLINED-NEXT:    func.call
// ONCE-INLINED-NEXT:    func.return
