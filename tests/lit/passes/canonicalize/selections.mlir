// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// sum(select(i == iota, x, 0)) -> select(0 <= i < size, x[i], 0), with the other conditions
func.func @sum_of_chosen(%x: tensor<6x40xf32>, %i: tensor<6x1xi64>, %c: tensor<6x1xi1>) -> tensor<6xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %classes = tenon.iota {shape = [40]} : tensor<40xi64>
  %equal = tenon.equal %i, %classes : tensor<6x1xi64>, tensor<40xi64> -> tensor<6x40xi1>
  %both = tenon.bitwise_and %equal, %c : tensor<6x40xi1>, tensor<6x1xi1> -> tensor<6x40xi1>
  %chosen = tenon.select %both, %x, %zero : tensor<6x40xi1>, tensor<6x40xf32>, tensor<f32> -> tensor<6x40xf32>
  %y = tenon.sum %chosen {axis = [1]} : tensor<6x40xf32> -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}
// CHECK-LABEL: @sum_of_chosen
// CHECK-NOT:     tenon.sum
// CHECK:         tenon.gather_elements %x, %i {axis = 1}
// CHECK:         tenon.select {{.*}} -> tensor<6xf32>

// -----

// A product of the same is read as a whole.
func.func @product(%x: tensor<6x40xf32>, %i: tensor<6x1xi64>) -> tensor<6xf32> {
  %zero = tenon.constant {value = dense<0.0> : tensor<f32>} : tensor<f32>
  %classes = tenon.iota {shape = [40]} : tensor<40xi64>
  %equal = tenon.equal %i, %classes : tensor<6x1xi64>, tensor<40xi64> -> tensor<6x40xi1>
  %chosen = tenon.select %equal, %x, %zero : tensor<6x40xi1>, tensor<6x40xf32>, tensor<f32> -> tensor<6x40xf32>
  %y = tenon.prod %chosen {axis = [1]} : tensor<6x40xf32> -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}
// CHECK-LABEL: @product
// CHECK-NOT:     gather
