// RUN: tenon-opt %s -p convert-tensor-to-structured --split-input-file | filecheck %s
// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured,bufferize,convert-structured-to-loops --split-input-file | filecheck %s --check-prefix LOOPS
// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured,bufferize,convert-structured-to-loops,separate-rows --split-input-file | filecheck %s --check-prefix SEPARATE

// A running sum is one generic with the sum so far and the result; the loop along the axis is run in order, from the
// end if `reverse`. f16 is summed in f32.
func.func @running_sum(%x: tensor<4x3xf16>) -> tensor<4x3xf16> {
  %y = tenon.cumsum %x {exclusive = true, reverse = true} : tensor<4x3xf16> -> tensor<4x3xf16>
  func.return %y : tensor<4x3xf16>
}
// CHECK-LABEL: @running_sum
// CHECK:         %[[START:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<3xf32>)
// CHECK:         %{{.*}}, %y = linalg.generic {{.*}}affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (((d0 * -1) + 3), d1)>], iterator_types = ["reduction", "parallel"]} ins(%{{.*}}, %x : tensor<4xf16>, tensor<4x3xf16>) outs(%[[START]], %{{.*}} : tensor<3xf32>, tensor<4x3xf16>) {
// CHECK-NEXT:    ^{{.*}}(%{{.*}}: f16, %[[X:.*]]: f16, %[[SO_FAR:.*]]: f32, %{{.*}}: f16):
// CHECK-NEXT:      %[[WIDE:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[SO_FAR]], %[[WIDE]] : f32
// CHECK-NEXT:      %[[RESULT:.*]] = arith.truncf %[[SO_FAR]] : f32 to f16
// CHECK-NEXT:      linalg.yield %[[SUM]], %[[RESULT]] : f32, f16

// Columns are independent of each other, and the sum of one is a number of its own.
// LOOPS-LABEL: func.func private @kernel_0
// LOOPS:         "scf.parallel"
// LOOPS:           %[[SUM:.*]] = memref.alloca() : memref<f32>
// LOOPS-NOT:       memref.alloca
// LOOPS:           memref.store %{{.*}}, %[[SUM]][] : memref<f32>
// LOOPS:           scf.for
// LOOPS:             memref.load %[[SUM]][] : memref<f32>
// LOOPS:             memref.store %{{.*}}, %[[SUM]][] : memref<f32>
// LOOPS:             memref.store %{{.*}}, %out0[%{{.*}}, %{{.*}}] : memref<4x3xf16>

// -----

// Rows of more than a few elements are sorted by their digits: counted in one pass over the row, moved in one for each.
// A thread does a row, in memory of its own.
func.func @digits(%x: tensor<3x70xi16>) -> tensor<3x70xi16> {
  %v = tenon.sort_rows %x : tensor<3x70xi16> -> tensor<3x70xi16>
  func.return %v : tensor<3x70xi16>
}
// CHECK-LABEL: @digits
// CHECK:         %[[RESULT:.*]] = tensor.empty() : tensor<3x70xi16>
// CHECK:         scf.for %[[ROW:[a-z0-9_]+]] = {{.*}} -> (tensor<3x256x2xi32>, tensor<3x70xi16>, tensor<3x70xi16>, tensor<3x70xi16>) {
// CHECK-COUNT-6:   scf.for
// CHECK:             tensor.insert %{{.*}} into %{{.*}}[%[[ROW]], %{{.*}}] : tensor<3x70xi16>

// SEPARATE-LABEL: func.func private @kernel_0
// SEPARATE:         "scf.parallel"
// SEPARATE:           memref.alloca() : memref<70xi16>
// SEPARATE-NEXT:      {{.*}} memref.alloca() : memref<256x2xi32>
// SEPARATE-NEXT:      {{.*}} memref.alloca() : memref<70xi16>
// SEPARATE-NOT:       memref.alloca
// SEPARATE:           func.return

// -----

// The first few elements of a row are kept in order while it is read, in blocks: one in which nothing stands before the
// last of them is passed over.
func.func @select(%x: tensor<3x70xf32>) -> tensor<3x2xi64> {
  %p = tenon.leading_places %x {k = 2} : tensor<3x70xf32> -> tensor<3x2xi64>
  func.return %p : tensor<3x2xi64>
}
// CHECK-LABEL: @select
// CHECK:         scf.for %[[ROW:[a-z0-9_]+]] =
// CHECK:           tensor.extract %x[%[[ROW]], %{{.*}}] : tensor<3x70xf32>
// CHECK:           %[[LAST:[a-z0-9_]+]] = tensor.extract %{{.*}}[%[[ROW]], %{{.*}}] : tensor<3x2xf32>
// CHECK:           %[[VALUE:[a-z0-9_]+]] = tensor.extract %x[%[[ROW]], %{{.*}}] : tensor<3x70xf32>
// CHECK-NEXT:      %{{.*}} = arith.cmpf oeq, %[[VALUE]], %[[VALUE]] : f32
// CHECK:           scf.yield %{{.*}} : i1
// CHECK:           scf.if
