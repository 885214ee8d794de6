// RUN: tenon-opt %s -p expand-math{exact=exp,powf} | filecheck %s

// What is named is computed in f64 and rounded once; in f64 it is left to the C library.
func.func @exact(%x: f32, %d: f64) -> (f32, f32, f32, f64) {
  %a = math.exp %x : f32
  %b = math.tanh %x : f32
  %c = math.powf %x, %x : f32
  %e = math.exp %d : f64
  func.return %a, %b, %c, %e : f32, f32, f32, f64
}
// CHECK-LABEL: @exact
// CHECK:         %[[X:.*]] = arith.extf %x : f32 to f64
// CHECK-NOT:     math.exp
// CHECK:         %a = arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT:     math.tanh
// CHECK-NOT:     math.powf
// CHECK:         %c = arith.select
// CHECK:         %e = math.exp %d : f64
