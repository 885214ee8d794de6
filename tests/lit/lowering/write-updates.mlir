// RUN: tenon-opt %s -p write-updates | filecheck %s

// What is computed for a part of %x goes to its place there; of %x it reads the elements that it replaces.
func.func @add_to_part(%x: tensor<8x9xf32>, %a: tensor<8x7xf32>) -> tensor<8x9xf32> {
  %u = func.call @compute(%x, %a) : (tensor<8x9xf32>, tensor<8x7xf32>) -> tensor<8x7xf32>
  %y = func.call @replace(%x, %u) : (tensor<8x9xf32>, tensor<8x7xf32>) -> tensor<8x9xf32>
  func.return %y : tensor<8x9xf32>
}
func.func private @compute(%x: tensor<8x9xf32>, %a: tensor<8x7xf32>) -> tensor<8x7xf32> attributes {kernel} {
  %0 = tensor.empty() : tensor<8x7xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1 + 2)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %a : tensor<8x9xf32>, tensor<8x7xf32>) outs(%0 : tensor<8x7xf32>) {
  ^bb0(%b: f32, %c: f32, %d: f32):
    %e = arith.addf %b, %c : f32
    linalg.yield %e : f32
  } -> tensor<8x7xf32>
  func.return %1 : tensor<8x7xf32>
}
func.func private @replace(%x: tensor<8x9xf32>, %u: tensor<8x7xf32>) -> tensor<8x9xf32> attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  %0 = scf.for %i = %c0 to %c8 step %c1 iter_args(%rows = %x) -> (tensor<8x9xf32>) {
    %1 = scf.for %j = %c0 to %c7 step %c1 iter_args(%row = %rows) -> (tensor<8x9xf32>) {
      %k = arith.addi %j, %c2 : index
      %new = tensor.extract %u[%i, %j] : tensor<8x7xf32>
      %2 = tensor.insert %new into %row[%i, %k] : tensor<8x9xf32>
      scf.yield %2 : tensor<8x9xf32>
    }
    scf.yield %1 : tensor<8x9xf32>
  }
  func.return %0 : tensor<8x9xf32>
}
// CHECK-LABEL: func.func @add_to_part
// CHECK-NEXT:    [[Y:%.*]] = func.call @compute_into_replace_0(%a, %x)
// CHECK-NEXT:    func.return [[Y]]
// CHECK:       func.func private @compute_into_replace_0(%a: tensor<8x7xf32>, [[X:%.*]]: tensor<8x9xf32>) -> tensor<8x9xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, (d1 + 2))>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 + 2))>]
// CHECK-SAME:      ins([[X]], %a : tensor<8x9xf32>, tensor<8x7xf32>) outs([[X]] : tensor<8x9xf32>)
// CHECK-NOT:   func.func private @compute(
// CHECK-NOT:   func.func private @replace(
