// RUN: tenon-opt %s -p expand-math{exact=exp,powf} | filecheck %s

// What is named is computed in f64 and rounded once: powers inline, other functions by the C library.
func.func @exact(%x: f32) -> (f32, f32, f32) {
  %a = math.exp %x : f32
  %b = math.tanh %x : f32
  %c = math.powf %x, %x : f32
  func.return %a, %b, %c : f32, f32, f32
}
// CHECK-LABEL: @exact
// CHECK:         %[[X:.*]] = arith.extf %x : f32 to f64
// CHECK-NEXT:    %[[POWER:.*]] = math.exp %[[X]] : f64
// CHECK-NEXT:    %a = arith.truncf %[[POWER]] : f64 to f32
// CHECK-NOT:     math.tanh
// CHECK-NOT:     math.powf
// CHECK:         %c = arith.select
