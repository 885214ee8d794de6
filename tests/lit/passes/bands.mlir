// RUN: tenon-opt %s -p canonicalize | filecheck %s

// A mask that compares an index of rows with one of columns is a band, however it is written.
func.func @comparison() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %two = tenon.constant {value = dense<2> : tensor<i64>} : tensor<i64>
  %k = tenon.add %i, %two : tensor<40x1xi64>, tensor<i64> -> tensor<40x1xi64>
  %m = tenon.less %j, %k : tensor<1x50xi64>, tensor<40x1xi64> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @comparison
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], upper = 1}

// Rows less columns: the other way around.
func.func @difference() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1], dtype = i32} : tensor<40x1xi32>
  %j = tenon.iota {shape = [1, 50], axis = 1, dtype = i32} : tensor<1x50xi32>
  %d = tenon.subtract %i, %j : tensor<40x1xi32>, tensor<1x50xi32> -> tensor<40x50xi32>
  %seven = tenon.constant {value = dense<7> : tensor<i32>} : tensor<i32>
  %m = tenon.less %d, %seven : tensor<40x50xi32>, tensor<i32> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @difference
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], lower = -6}

// A sliding window, for each head.
func.func @window() -> tensor<1x2x40x40xi1> {
  %u = tenon.band {shape = [40, 40], upper = 0} : tensor<40x40xi1>
  %o = tenon.band {shape = [40, 40], upper = -8} : tensor<40x40xi1>
  %n = tenon.logical_not %o : tensor<40x40xi1> -> tensor<40x40xi1>
  %w = tenon.logical_and %u, %n : tensor<40x40xi1>, tensor<40x40xi1> -> tensor<40x40xi1>
  %m = tenon.broadcast_to %w {shape = [1, 2, 40, 40]} : tensor<40x40xi1> -> tensor<1x2x40x40xi1>
  func.return %m : tensor<1x2x40x40xi1>
}
// CHECK-LABEL: @window
// CHECK-NEXT:    %m = tenon.band {shape = [1, 2, 40, 40], lower = -7, upper = 0}

// Not a band: both count the rows.
func.func @not_a_band() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 50]} : tensor<40x50xi64>
  %j = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %m = tenon.less %i, %j : tensor<40x50xi64>, tensor<40x1xi64> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @not_a_band
// CHECK:         %m = tenon.less

// The dtype ends before the sum does.
func.func @sums_that_wrap() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1], dtype = i8} : tensor<40x1xi8>
  %j = tenon.iota {shape = [1, 50], axis = 1, dtype = i8} : tensor<1x50xi8>
  %c = tenon.constant {value = dense<120> : tensor<i8>} : tensor<i8>
  %k = tenon.add %i, %c : tensor<40x1xi8>, tensor<i8> -> tensor<40x1xi8>
  %m = tenon.less %j, %k : tensor<1x50xi8>, tensor<40x1xi8> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @sums_that_wrap
// CHECK:         %m = tenon.less

// The products end behind the dtype, though their difference does not.
func.func @products_that_wrap() -> tensor<31x31xi1> {
  %i = tenon.iota {shape = [31, 1], dtype = i8} : tensor<31x1xi8>
  %j = tenon.iota {shape = [1, 31], axis = 1, dtype = i8} : tensor<1x31xi8>
  %j2 = tenon.add %j, %j : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %j4 = tenon.add %j2, %j2 : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %j5 = tenon.add %j4, %j : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %k = tenon.add %j4, %i : tensor<1x31xi8>, tensor<31x1xi8> -> tensor<31x31xi8>
  %m = tenon.less %j5, %k : tensor<1x31xi8>, tensor<31x31xi8> -> tensor<31x31xi1>
  func.return %m : tensor<31x31xi1>
}
// CHECK-LABEL: @products_that_wrap
// CHECK:         %m = tenon.less

// Read in order, these are not consecutive numbers: 0 to 7 eight times, and zeros.
func.func @matrices_in_order() -> (tensor<64x50xi1>, tensor<64x50xi1>) {
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %p = tenon.iota {shape = [8, 8], axis = 1} : tensor<8x8xi64>
  %q = tenon.iota {shape = [1, 64]} : tensor<1x64xi64>
  %rows = tenon.reshape %p {shape = [64, 1]} : tensor<8x8xi64> -> tensor<64x1xi64>
  %zeros = tenon.reshape %q {shape = [64, 1]} : tensor<1x64xi64> -> tensor<64x1xi64>
  %m = tenon.less %j, %rows : tensor<1x50xi64>, tensor<64x1xi64> -> tensor<64x50xi1>
  %n = tenon.less %j, %zeros : tensor<1x50xi64>, tensor<64x1xi64> -> tensor<64x50xi1>
  func.return %m, %n : tensor<64x50xi1>, tensor<64x50xi1>
}
// CHECK-LABEL: @matrices_in_order
// CHECK:         %m = tenon.less
// CHECK:         %n = tenon.less

// Any number may be compared with: all places are inside, or none.
func.func @far_bounds() -> (tensor<40x50xi1>, tensor<40x50xi1>) {
  %i = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %d = tenon.subtract %j, %i : tensor<1x50xi64>, tensor<40x1xi64> -> tensor<40x50xi64>
  %least = tenon.constant {value = dense<-9223372036854775808> : tensor<i64>} : tensor<i64>
  %m = tenon.less %d, %least : tensor<40x50xi64>, tensor<i64> -> tensor<40x50xi1>
  %n = tenon.greater %least, %d : tensor<i64>, tensor<40x50xi64> -> tensor<40x50xi1>
  func.return %m, %n : tensor<40x50xi1>, tensor<40x50xi1>
}
// CHECK-LABEL: @far_bounds
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], upper = -40}
// CHECK-NEXT:    %n = tenon.band {shape = [40, 50], upper = -40}

// A choice between true and false is the condition.
func.func @truth(%c: tensor<3xi1>) -> tensor<3xi1> {
  %t = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %f = tenon.constant {value = dense<false> : tensor<i1>} : tensor<i1>
  %s = tenon.select %c, %t, %f : tensor<3xi1>, tensor<i1>, tensor<i1> -> tensor<3xi1>
  func.return %s : tensor<3xi1>
}
// CHECK-LABEL: @truth
// CHECK-NEXT:    func.return %c
