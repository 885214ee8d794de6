// RUN: tenon run %s --args iota:4xf32,3 -o %t.npz
// RUN: tenon run %s --args %t.npz -o %t.npz
// RUN: tenon run %s --args %t.npz | filecheck %s
// RUN: not tenon run %s --args iota:4xf32,3 -o %t.npy 2>&1 | filecheck %s --check-prefix NPY

// A number is an argument without dimensions; the results in an archive are the arguments of the next run, in order.
func.func @main(%x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<i64>) {
  %ten = tenon.constant {value = dense<10.0> : tensor<f32>} : tensor<f32>
  %y = tenon.multiply %x, %ten : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %m = tenon.add %n, %n : tensor<i64>, tensor<i64> -> tensor<i64>
  func.return %y, %m : tensor<4xf32>, tensor<i64>
}
// CHECK:      result 0: float32[4]
// CHECK-NEXT: [   0. 1000. 2000. 3000.]
// CHECK-NEXT: result 1: int64[]
// CHECK-NEXT: 24

// NPY: tenon: error: 2 results do not fit into {{.*}}.npy; use .npz
