// RUN: tenon-opt %s -p canonicalize --split-input-file | filecheck %s

// A mask that compares an index of rows with one of columns is a band, however it is written.
func.func @compare_indices() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %two = tenon.constant {value = dense<2> : tensor<i64>} : tensor<i64>
  %k = tenon.add %i, %two : tensor<40x1xi64>, tensor<i64> -> tensor<40x1xi64>
  %m = tenon.less %j, %k : tensor<1x50xi64>, tensor<40x1xi64> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @compare_indices
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], upper = 1}
// CHECK-NEXT:    func.return %m

// -----

// Rows less columns: the other way around.
func.func @compare_indices_by_their_difference() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1], dtype = i32} : tensor<40x1xi32>
  %j = tenon.iota {shape = [1, 50], axis = 1, dtype = i32} : tensor<1x50xi32>
  %d = tenon.subtract %i, %j : tensor<40x1xi32>, tensor<1x50xi32> -> tensor<40x50xi32>
  %seven = tenon.constant {value = dense<7> : tensor<i32>} : tensor<i32>
  %m = tenon.less %d, %seven : tensor<40x50xi32>, tensor<i32> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @compare_indices_by_their_difference
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], lower = -6}
// CHECK-NEXT:    func.return %m

// -----

// Not a band: both count the rows.
func.func @compare_indices_of_rows_alone() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 50]} : tensor<40x50xi64>
  %j = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %m = tenon.less %i, %j : tensor<40x50xi64>, tensor<40x1xi64> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @compare_indices_of_rows_alone
// CHECK:         %m = tenon.less %i, %j

// -----

// The dtype ends before the sum does.
func.func @compare_indices_with_sums_that_wrap() -> tensor<40x50xi1> {
  %i = tenon.iota {shape = [40, 1], dtype = i8} : tensor<40x1xi8>
  %j = tenon.iota {shape = [1, 50], axis = 1, dtype = i8} : tensor<1x50xi8>
  %c = tenon.constant {value = dense<120> : tensor<i8>} : tensor<i8>
  %k = tenon.add %i, %c : tensor<40x1xi8>, tensor<i8> -> tensor<40x1xi8>
  %m = tenon.less %j, %k : tensor<1x50xi8>, tensor<40x1xi8> -> tensor<40x50xi1>
  func.return %m : tensor<40x50xi1>
}
// CHECK-LABEL: @compare_indices_with_sums_that_wrap
// CHECK:         %m = tenon.less %j, %k

// -----

// The products end behind the dtype, though their difference does not.
func.func @compare_indices_with_products_that_wrap() -> tensor<31x31xi1> {
  %i = tenon.iota {shape = [31, 1], dtype = i8} : tensor<31x1xi8>
  %j = tenon.iota {shape = [1, 31], axis = 1, dtype = i8} : tensor<1x31xi8>
  %j2 = tenon.add %j, %j : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %j4 = tenon.add %j2, %j2 : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %j5 = tenon.add %j4, %j : tensor<1x31xi8>, tensor<1x31xi8> -> tensor<1x31xi8>
  %k = tenon.add %j4, %i : tensor<1x31xi8>, tensor<31x1xi8> -> tensor<31x31xi8>
  %m = tenon.less %j5, %k : tensor<1x31xi8>, tensor<31x31xi8> -> tensor<31x31xi1>
  func.return %m : tensor<31x31xi1>
}
// CHECK-LABEL: @compare_indices_with_products_that_wrap
// CHECK:         %m = tenon.less %j5, %k

// -----

// Any number may be compared with: all places are inside, or none.
func.func @compare_indices_far_from_the_matrix() -> (tensor<40x50xi1>, tensor<40x50xi1>) {
  %i = tenon.iota {shape = [40, 1]} : tensor<40x1xi64>
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %d = tenon.subtract %j, %i : tensor<1x50xi64>, tensor<40x1xi64> -> tensor<40x50xi64>
  %least = tenon.constant {value = dense<-9223372036854775808> : tensor<i64>} : tensor<i64>
  %m = tenon.less %d, %least : tensor<40x50xi64>, tensor<i64> -> tensor<40x50xi1>
  %n = tenon.greater %least, %d : tensor<i64>, tensor<40x50xi64> -> tensor<40x50xi1>
  func.return %m, %n : tensor<40x50xi1>, tensor<40x50xi1>
}
// CHECK-LABEL: @compare_indices_far_from_the_matrix
// CHECK-NEXT:    %m = tenon.band {shape = [40, 50], upper = -40}
// CHECK-NEXT:    %n = tenon.band {shape = [40, 50], upper = -40}
// CHECK-NEXT:    func.return %m, %n

// -----

// Read in order these are not consecutive numbers: 0 to 7 eight times.
func.func @compare_indices_of_repeated_numbers() -> tensor<64x50xi1> {
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %p = tenon.iota {shape = [8, 8], axis = 1} : tensor<8x8xi64>
  %rows = tenon.reshape %p {shape = [64, 1]} : tensor<8x8xi64> -> tensor<64x1xi64>
  %m = tenon.less %j, %rows : tensor<1x50xi64>, tensor<64x1xi64> -> tensor<64x50xi1>
  func.return %m : tensor<64x50xi1>
}
// CHECK-LABEL: @compare_indices_of_repeated_numbers
// CHECK:         %m = tenon.less %j, %rows

// -----

// Nor are 64 zeros: the iota counts along the axis of size 1.
func.func @compare_indices_of_zeros() -> tensor<64x50xi1> {
  %j = tenon.iota {shape = [1, 50], axis = 1} : tensor<1x50xi64>
  %q = tenon.iota {shape = [1, 64]} : tensor<1x64xi64>
  %zeros = tenon.reshape %q {shape = [64, 1]} : tensor<1x64xi64> -> tensor<64x1xi64>
  %m = tenon.less %j, %zeros : tensor<1x50xi64>, tensor<64x1xi64> -> tensor<64x50xi1>
  func.return %m : tensor<64x50xi1>
}
// CHECK-LABEL: @compare_indices_of_zeros
// CHECK:         %m = tenon.less %j, %zeros

// -----

// not(band(upper=u)) -> band(lower=u + 1)
func.func @opposite_band() -> tensor<40x40xi1> {
  %o = tenon.band {shape = [40, 40], upper = -8} : tensor<40x40xi1>
  %n = tenon.logical_not %o : tensor<40x40xi1> -> tensor<40x40xi1>
  func.return %n : tensor<40x40xi1>
}
// CHECK-LABEL: @opposite_band
// CHECK-NEXT:    %n = tenon.band {shape = [40, 40], lower = -7}
// CHECK-NEXT:    func.return %n

// -----

// and(band(upper=u), band(lower=l)) -> band(lower=l, upper=u): a sliding window
func.func @both_bands() -> tensor<40x40xi1> {
  %u = tenon.band {shape = [40, 40], upper = 0} : tensor<40x40xi1>
  %l = tenon.band {shape = [40, 40], lower = -7} : tensor<40x40xi1>
  %w = tenon.logical_and %u, %l : tensor<40x40xi1>, tensor<40x40xi1> -> tensor<40x40xi1>
  func.return %w : tensor<40x40xi1>
}
// CHECK-LABEL: @both_bands
// CHECK-NEXT:    %w = tenon.band {shape = [40, 40], lower = -7, upper = 0}
// CHECK-NEXT:    func.return %w

// -----

// broadcast_to(band) -> band and reshape(band) -> band, where the matrices stay
func.func @spread_band() -> tensor<2x1x40x40xi1> {
  %u = tenon.band {shape = [40, 40], upper = 0} : tensor<40x40xi1>
  %b = tenon.broadcast_to %u {shape = [2, 40, 40]} : tensor<40x40xi1> -> tensor<2x40x40xi1>
  %r = tenon.reshape %b {shape = [2, 1, 40, 40]} : tensor<2x40x40xi1> -> tensor<2x1x40x40xi1>
  func.return %r : tensor<2x1x40x40xi1>
}
// CHECK-LABEL: @spread_band
// CHECK-NEXT:    %r = tenon.band {shape = [2, 1, 40, 40], upper = 0}
// CHECK-NEXT:    func.return %r

// -----

// A constant that is true in the top right corner alone is a band; one that is false there is the opposite of a band.
func.func @constant_band() -> (tensor<32x32xi1>, tensor<32x32xi1>) {
  %true = tenon.constant {value = dense<true> : tensor<1x1xi1>} : tensor<1x1xi1>
  %false = tenon.constant {value = dense<false> : tensor<1x1xi1>} : tensor<1x1xi1>
  %a = tenon.pad %true {low = [0, 31], high = [31, 0], value = 0.0} : tensor<1x1xi1> -> tensor<32x32xi1>
  %b = tenon.pad %false {low = [0, 31], high = [31, 0], value = 1.0} : tensor<1x1xi1> -> tensor<32x32xi1>
  func.return %a, %b : tensor<32x32xi1>, tensor<32x32xi1>
}
// CHECK-LABEL: @constant_band
// CHECK-NEXT:    %a = tenon.band {shape = [32, 32], lower = 31}
// CHECK-NEXT:    %b = tenon.band {shape = [32, 32], upper = 30}
// CHECK-NEXT:    func.return %a, %b
