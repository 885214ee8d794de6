// RUN: tenon-opt %s --split-input-file -p check-results | filecheck %s

// Floating-point results are checked, behind the ops that compute them; constants and integers are not.
func.func @ops(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %c = tenon.constant {value = dense<1.0> : tensor<f32>} : tensor<f32>
  %y = tenon.add %x, %c : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
  %z = tenon.cast %y {dtype = i32} : tensor<2xf32> -> tensor<2xi32>
  func.return %y, %z : tensor<2xf32>, tensor<2xi32>
}
// CHECK-LABEL: @ops
// CHECK-NEXT:    tenon.constant
// CHECK-NEXT:    %y = tenon.add
// CHECK-NEXT:    debug.check_finite %y {what = "tenon.add"
// CHECK-SAME:    : tensor<2xf32> -> ()
// CHECK-NEXT:    tenon.cast
// CHECK-NEXT:    func.return

// -----

// What is in regions is checked there, each of several results by its number.
func.func @loop(%x: tensor<f32>, %v: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %y, %w = tenon.scan init(%x : tensor<f32>) slices(%v : tensor<3xf32>) length 3 -> (tensor<f32>, tensor<3xf32>) {
  ^bb0(%c: tensor<f32>, %s: tensor<f32>):
    %n = tenon.sin %c : tensor<f32> -> tensor<f32>
    tenon.yield %n, %s : tensor<f32>, tensor<f32>
  }
  func.return %y, %w : tensor<f32>, tensor<3xf32>
}
// CHECK-LABEL: @loop
// CHECK:         %n = tenon.sin
// CHECK-NEXT:    debug.check_finite %n {what = "tenon.sin"
// CHECK-NEXT:    tenon.yield
// CHECK:         debug.check_finite %y {what = "result 0 of tenon.scan"
// CHECK-NEXT:    debug.check_finite %w {what = "result 1 of tenon.scan"
