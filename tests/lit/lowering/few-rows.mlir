// RUN: tenon-opt %s --split-input-file -p name-sizes,layout,decompose,fuse,convert-tensor-to-structured,bufferize,few-rows,schedule{vector-bits=128} | filecheck %s
// RUN: tenon-opt %s --split-input-file -p name-sizes,layout,decompose,fuse,convert-tensor-to-structured,bufferize,few-rows,schedule{vector-bits=512},convert-structured-to-loops | filecheck %s --check-prefix LOOPS

// Where only the launch counts rows, those of few take the columns as they are, and those of many a copy.
func.func @main(%x: tensor<?x512xf32> {tenon.shape = ["n", 512]}, %w: tensor<512x512xf32>) -> tensor<?x512xf32> {
  %p = tenon.matmul %x, %w : tensor<?x512xf32>, tensor<512x512xf32> -> tensor<?x512xf32>
  func.return %p : tensor<?x512xf32>
}
// CHECK-LABEL: @main
// CHECK: %[[FEW:.*]] = arith.cmpi ult, %n, %{{.*}} : index
// CHECK-NEXT: scf.if %[[FEW]] {
// CHECK-NEXT: func.call @kernel_0_few(
// CHECK-NEXT: } else {
// CHECK-NEXT: func.call @kernel_0(
// CHECK-LABEL: func.func private @kernel_0(
// CHECK: pack = 1
// CHECK-LABEL: func.func private @kernel_0_few(
// CHECK-SAME: few = {n = 8 : i64}
// CHECK-NOT: pack = 1
// CHECK: schedule = {vector = 1

// Whole tiles of eight, or one of seven, six and so on, along whole tiles of columns and along what is left of these.
// LOOPS-LABEL: func.func private @kernel_0_few(
// LOOPS-COUNT-16: scf.for
// LOOPS-NOT: scf.for
// LOOPS: func.return

// -----

// Columns that are apart are summed along the reduction for four rows and fewer, and copied for more.
func.func @main(%x: tensor<?x512xf32> {tenon.shape = ["n", 512]}, %w: tensor<512x512xf32>) -> tensor<?x512xf32> {
  %t = tenon.transpose %w {permutation = [1, 0]} : tensor<512x512xf32> -> tensor<512x512xf32>
  %p = tenon.matmul %x, %t : tensor<?x512xf32>, tensor<512x512xf32> -> tensor<?x512xf32>
  func.return %p : tensor<?x512xf32>
}
// CHECK-LABEL: @main
// CHECK: func.call @kernel_0_fewest(
// CHECK-NEXT: } else {
// CHECK-NEXT: arith.cmpi ult
// CHECK: func.call @kernel_0_few(
// CHECK-NEXT: } else {
// CHECK-NEXT: func.call @kernel_0(
// CHECK-LABEL: func.func private @kernel_0_fewest(
// CHECK-SAME: few = {n = 4 : i64}
// CHECK-NOT: pack = 1
// CHECK-LABEL: func.func private @kernel_0_few(
// CHECK: pack = 1
