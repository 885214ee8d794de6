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

// A choice between true and false is the condition.
func.func @truth(%c: tensor<3xi1>) -> tensor<3xi1> {
  %t = tenon.constant {value = dense<true> : tensor<i1>} : tensor<i1>
  %f = tenon.constant {value = dense<false> : tensor<i1>} : tensor<i1>
  %s = tenon.select %c, %t, %f : tensor<3xi1>, tensor<i1>, tensor<i1> -> tensor<3xi1>
  func.return %s : tensor<3xi1>
}
// CHECK-LABEL: @truth
// CHECK-NEXT:    func.return %c
