// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// gather_nd(x, concatenate([i, j], -1)) -> gather(reshape(x), i * size + j), each place bounded first
func.func @gather_of_joined_places(%x: tensor<5x7xf32>, %i: tensor<9x1xi64>, %j: tensor<9x1xi64>) -> tensor<9xf32> {
  %p = tenon.concatenate [%i, %j] {axis = -1} : [tensor<9x1xi64>, tensor<9x1xi64>] -> tensor<9x2xi64>
  %y = tenon.gather_nd %x, %p : tensor<5x7xf32>, tensor<9x2xi64> -> tensor<9xf32>
  func.return %y : tensor<9xf32>
}
// CHECK-LABEL: @gather_of_joined_places
// CHECK-DAG:     tenon.clip %i
// CHECK-DAG:     tenon.clip %j
// CHECK:         [[X:%.*]] = tenon.reshape %x {shape = [35]}
// CHECK-NEXT:    tenon.gather [[X]], {{.*}} tensor<9xi32> -> tensor<9xf32>

// -----

// Rows of examples come one after the other.
func.func @gather_of_joined_places_of_examples(%x: tensor<4x5x7x2xf32>, %i: tensor<4x9x1xi64>) -> tensor<4x9x2xf32> {
  %p = tenon.concatenate [%i, %i] {axis = -1} : [tensor<4x9x1xi64>, tensor<4x9x1xi64>] -> tensor<4x9x2xi64>
  %y = tenon.gather_nd %x, %p {batch_dims = 1} : tensor<4x5x7x2xf32>, tensor<4x9x2xi64> -> tensor<4x9x2xf32>
  func.return %y : tensor<4x9x2xf32>
}
// CHECK-LABEL: @gather_of_joined_places_of_examples
// CHECK:         [[E:%.*]] = tenon.iota {shape = [4, 1, 1], dtype = i32}
// CHECK:         tenon.multiply [[E]], %{{.*}}
// CHECK:         [[X:%.*]] = tenon.reshape %x {shape = [140, 2]}
// CHECK-NEXT:    tenon.gather [[X]], {{.*}} tensor<4x9xi32> -> tensor<4x9x2xf32>

// -----

// Indices that are there as pairs are read as such.
func.func @pairs(%x: tensor<5x7xf32>, %p: tensor<9x2xi64>) -> tensor<9xf32> {
  %y = tenon.gather_nd %x, %p : tensor<5x7xf32>, tensor<9x2xi64> -> tensor<9xf32>
  func.return %y : tensor<9xf32>
}
// CHECK-LABEL: @pairs
// CHECK-NEXT:    tenon.gather_nd %x, %p

// -----

// scatter_nd(x, concatenate([i, j], -1), y) -> scatter_nd(reshape(x), i * size + j, y), through the bounds of a gradient
func.func @scatter_of_joined_places(%x: tensor<5x7xf32>, %i: tensor<9x1xi64>, %j: tensor<9x1xi64>, %y: tensor<9xf32>) -> tensor<5x7xf32> {
  %p = tenon.concatenate [%i, %j] {axis = -1} : [tensor<9x1xi64>, tensor<9x1xi64>] -> tensor<9x2xi64>
  %l = tenon.constant {value = dense<[-5, -7]> : tensor<2xi64>} : tensor<2xi64>
  %h = tenon.constant {value = dense<[4, 6]> : tensor<2xi64>} : tensor<2xi64>
  %c = tenon.clip %p, %l, %h : tensor<9x2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<9x2xi64>
  %r = tenon.scatter_nd %x, %c, %y {reduction = "add"} : tensor<5x7xf32>, tensor<9x2xi64>, tensor<9xf32> -> tensor<5x7xf32>
  func.return %r : tensor<5x7xf32>
}
// CHECK-LABEL: @scatter_of_joined_places
// CHECK-NOT:     tenon.concatenate
// CHECK:         [[R:%.*]] = tenon.scatter_nd {{.*}} tensor<35xf32>, tensor<9x1xi32>, tensor<9xf32>
// CHECK-NEXT:    tenon.reshape [[R]] {shape = [5, 7]}

// -----

// scatter_nd(x, reshape(i), y) -> scatter_add(x, i, y)
func.func @sum_at_places(%x: tensor<5x7xf32>, %i: tensor<9xi64>, %y: tensor<9x7xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>) {
  %p = tenon.reshape %i {shape = [9, 1]} : tensor<9xi64> -> tensor<9x1xi64>
  %a = tenon.scatter_nd %x, %p, %y {reduction = "add"} : tensor<5x7xf32>, tensor<9x1xi64>, tensor<9x7xf32> -> tensor<5x7xf32>
  %m = tenon.scatter_nd %x, %p, %y {reduction = "max"} : tensor<5x7xf32>, tensor<9x1xi64>, tensor<9x7xf32> -> tensor<5x7xf32>
  func.return %a, %m : tensor<5x7xf32>, tensor<5x7xf32>
}
// CHECK-LABEL: @sum_at_places
// CHECK:         tenon.scatter_add %x, %i, %y
// CHECK-NEXT:    tenon.scatter_nd
