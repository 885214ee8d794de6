// RUN: tenon-opt %s --split-input-file -p write-updates | filecheck %s

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

// -----

// Kernels of two that would have one name have two.
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>, %a: tensor<7xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %u = func.call @compute(%x, %a) : (tensor<8xf32>, tensor<7xf32>) -> tensor<7xf32>
  %0 = func.call @replace(%x, %u) : (tensor<8xf32>, tensor<7xf32>) -> tensor<8xf32>
  %v = func.call @compute(%y, %a) : (tensor<8xf32>, tensor<7xf32>) -> tensor<7xf32>
  %1 = func.call @replace_0(%z, %v) : (tensor<8xf32>, tensor<7xf32>) -> tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @compute(%x: tensor<8xf32>, %a: tensor<7xf32>) -> tensor<7xf32> attributes {kernel} {
  %0 = tensor.empty() : tensor<7xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 + 1)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %a : tensor<8xf32>, tensor<7xf32>) outs(%0 : tensor<7xf32>) {
  ^bb0(%b: f32, %c: f32, %d: f32):
    %e = arith.addf %b, %c : f32
    linalg.yield %e : f32
  } -> tensor<7xf32>
  func.return %1 : tensor<7xf32>
}
func.func private @replace(%x: tensor<8xf32>, %u: tensor<7xf32>) -> tensor<8xf32> attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %0 = scf.for %i = %c0 to %c7 step %c1 iter_args(%t = %x) -> (tensor<8xf32>) {
    %k = arith.addi %i, %c1 : index
    %new = tensor.extract %u[%i] : tensor<7xf32>
    %2 = tensor.insert %new into %t[%k] : tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}
func.func private @replace_0(%x: tensor<8xf32>, %u: tensor<7xf32>) -> tensor<8xf32> attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %0 = scf.for %i = %c0 to %c7 step %c1 iter_args(%t = %x) -> (tensor<8xf32>) {
    %new = tensor.extract %u[%i] : tensor<7xf32>
    %2 = tensor.insert %new into %t[%i] : tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    func.call @compute_into_replace_0(%a, %x)
// CHECK-NEXT:    func.call @compute_into_replace_0_1(%y, %a, %z)

// -----

// What has fewer dimensions than %x stays a tensor of its own.
func.func @put(%x: tensor<8x7xf32>, %a: tensor<7xf32>) -> tensor<8x7xf32> {
  %u = func.call @compute(%a) : (tensor<7xf32>) -> tensor<7xf32>
  %y = func.call @replace(%x, %u) : (tensor<8x7xf32>, tensor<7xf32>) -> tensor<8x7xf32>
  func.return %y : tensor<8x7xf32>
}
func.func private @compute(%a: tensor<7xf32>) -> tensor<7xf32> attributes {kernel} {
  %0 = tensor.empty() : tensor<7xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<7xf32>) outs(%0 : tensor<7xf32>) {
  ^bb0(%c: f32, %d: f32):
    %e = arith.addf %c, %c : f32
    linalg.yield %e : f32
  } -> tensor<7xf32>
  func.return %1 : tensor<7xf32>
}
func.func private @replace(%x: tensor<8x7xf32>, %u: tensor<7xf32>) -> tensor<8x7xf32> attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c7 = arith.constant 7 : index
  %1 = scf.for %j = %c0 to %c7 step %c1 iter_args(%row = %x) -> (tensor<8x7xf32>) {
      %new = tensor.extract %u[%j] : tensor<7xf32>
      %2 = tensor.insert %new into %row[%c3, %j] : tensor<8x7xf32>
      scf.yield %2 : tensor<8x7xf32>
  }
  func.return %1 : tensor<8x7xf32>
}
// CHECK-LABEL: func.func @put
// CHECK-NEXT:    [[U:%.*]] = func.call @compute(%a)
// CHECK-NEXT:    func.call @replace(%x, [[U]])
