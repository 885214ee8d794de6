// RUN: tenon-opt %s --split-input-file -p sort-updates,canonicalize,cse,dce | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'sort-updates{deterministic=false},canonicalize,cse,dce' | filecheck %s --check-prefix ANY

// Sums of floats are those of runs of one place: rows of 8, as places depend on the first index alone.
func.func @rows(%x: tensor<40x2x4xf32>, %i: tensor<9000xi64>, %v: tensor<9000x2x4xf32>) -> tensor<40x2x4xf32> {
  %r = tenon.scatter_add %x, %i, %v : tensor<40x2x4xf32>, tensor<9000xi64>, tensor<9000x2x4xf32> -> tensor<40x2x4xf32>
  func.return %r : tensor<40x2x4xf32>
}
// CHECK-LABEL: @rows
// CHECK-NOT:     tenon.scatter
// CHECK-DAG:     %[[X:.*]] = tenon.reshape %x {shape = [40, 8]}
// CHECK-DAG:     %[[V:.*]] = tenon.reshape %v {shape = [9000, 8]}
// CHECK:         tiles.move_pairs_by_digit {{.*}} {digit = 0}
// CHECK-NOT:     digit = 1
// CHECK:         %[[PLACES:.*]] = tenon.reshape %{{.*}} {shape = [9000]}
// CHECK:         %[[ORDER:.*]] = tenon.reshape %{{.*}} {shape = [9000]}
// CHECK:         tenon.searchsorted %[[PLACES]]
// CHECK:         %[[NEAR:.*]] = runs.near_totals %[[PLACES]], %[[ORDER]], %[[V]] {rows = 40, length = 32, combine = "add"}
// CHECK:         %[[FAR:.*]] = runs.far_totals %[[PLACES]], %[[NEAR]]
// CHECK:         runs.combine %[[X]], %{{.*}}, %[[ORDER]], %[[V]], %[[NEAR]], %[[FAR]] {length = 32, combine = "add"}
// ANY-LABEL: @rows
// ANY-NEXT:      tenon.scatter_add

// -----

// So are extremes, which may be zeros of both signs and NaN.
func.func @extremes(%x: tensor<40xf32>, %i: tensor<9000xi64>, %v: tensor<9000xf32>) -> tensor<40xf32> {
  %r = tenon.scatter_elements %x, %i, %v {reduction = "max"} : tensor<40xf32>, tensor<9000xi64>, tensor<9000xf32> -> tensor<40xf32>
  func.return %r : tensor<40xf32>
}
// CHECK-LABEL: @extremes
// CHECK:         runs.combine {{.*}}combine = "maximum"
// ANY-LABEL: @extremes
// ANY:           runs.combine

// -----

// Of updates that replace an element the last one is that of the largest number.
func.func @replaced(%x: tensor<40x3xf32>, %i: tensor<9000x1xi64>, %v: tensor<9000x3xf32>) -> tensor<40x3xf32> {
  %r = tenon.scatter_nd %x, %i, %v : tensor<40x3xf32>, tensor<9000x1xi64>, tensor<9000x3xf32> -> tensor<40x3xf32>
  func.return %r : tensor<40x3xf32>
}
// CHECK-LABEL: @replaced
// CHECK:         %[[LAST:.*]] = tenon.scatter_elements %{{.*}} {reduction = "max"} : tensor<40xi32>
// CHECK:         %[[FOUND:.*]] = tenon.gather %[[LAST]]
// CHECK:         %[[IS_LAST:.*]] = tenon.equal %[[FOUND]]
// CHECK:         %[[OWN:[0-9]+]] = tenon.select %[[IS_LAST]]
// CHECK:         runs.write %x, %[[OWN]], %v

// -----

// Counts are those of integers, and integers of less than 32 bits are updated as such.
func.func @counts(%i: tensor<9000xi64>, %x: tensor<40xi8>, %v: tensor<9000xi8>) -> (tensor<40xf32>, tensor<40xi8>) {
  %zero = tenon.constant {value = dense<0.0> : tensor<40xf32>} : tensor<40xf32>
  %one = tenon.constant {value = dense<1.0> : tensor<9000xf32>} : tensor<9000xf32>
  %r = tenon.scatter_add %zero, %i, %one : tensor<40xf32>, tensor<9000xi64>, tensor<9000xf32> -> tensor<40xf32>
  %s = tenon.scatter_add %x, %i, %v : tensor<40xi8>, tensor<9000xi64>, tensor<9000xi8> -> tensor<40xi8>
  func.return %r, %s : tensor<40xf32>, tensor<40xi8>
}
// CHECK-LABEL: @counts
// CHECK:         tenon.scatter_add {{.*}} -> tensor<40xi32>
// CHECK:         tenon.cast {{.*}} -> tensor<40xf32>
// CHECK:         tenon.scatter_add {{.*}} -> tensor<40xi32>
// CHECK:         tenon.cast {{.*}} -> tensor<40xi8>

// -----

// Of many rows only those with updates are read and written.
func.func @most_stay(%x: tensor<90000x4xf32>, %i: tensor<9000xi64>, %v: tensor<9000x4xf32>) -> tensor<90000x4xf32> {
  %r = tenon.scatter_add %x, %i, %v : tensor<90000x4xf32>, tensor<9000xi64>, tensor<9000x4xf32> -> tensor<90000x4xf32>
  func.return %r : tensor<90000x4xf32>
}
// CHECK-LABEL: @most_stay
// CHECK:         %[[X:[0-9]+]] = tenon.gather %x, %[[OWN:[0-9]+]]
// CHECK:         %[[COMBINED:[0-9]+]] = runs.combine %[[X]]
// CHECK-NEXT:    runs.write %x, %[[OWN]], %[[COMBINED]]

// -----

// Few updates stay as they are.
func.func @few(%x: tensor<40xf32>, %i: tensor<90xi64>, %v: tensor<90xf32>) -> tensor<40xf32> {
  %r = tenon.scatter_add %x, %i, %v : tensor<40xf32>, tensor<90xi64>, tensor<90xf32> -> tensor<40xf32>
  func.return %r : tensor<40xf32>
}
// CHECK-LABEL: @few
// CHECK-NEXT:    tenon.scatter_add
