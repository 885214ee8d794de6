// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | filecheck %s
// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | tenon-opt | filecheck %s

// In each strip of 8 columns the first block of rows begins with the fill, the others with what is stored. While a block
// is computed, the vectors of the rows two blocks further are fetched, for both jammed rows of the result at once.
func.func private @ahead(%a: memref<2x12xf32>, %b: memref<12x16xf32>, %o: memref<2x16xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<2x16xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<2x12xf32>, memref<12x16xf32>) outs(%o : memref<2x16xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 2, rows = 2, strip = 8, ahead = 4}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @ahead
// CHECK-COUNT-2: "scf.parallel"
// CHECK: scf.for
// CHECK: memref.prefetch %b[%{{.*}}, %{{.*}}], read, locality<2>, data : memref<12x16xf32>
// CHECK: scf.for %[[BLOCK:[0-9]+]] = %{{[0-9]+}} to %[[END:[0-9]+]] step
// CHECK: "scf.parallel"
// CHECK-COUNT-2: vector.load %o
// CHECK: scf.for %[[INSIDE:[0-9]+]] =
// CHECK-NEXT: %[[ROW:[0-9]+]] = arith.addi %[[BLOCK]], %[[INSIDE]] : index
// CHECK: vector.load %b[%[[ROW]],
// CHECK-COUNT-2: vector.fma
// CHECK-NEXT: %[[LATER:[0-9]+]] = arith.addi %[[ROW]], %{{[0-9]+}} : index
// CHECK-NEXT: memref.prefetch %b[%[[LATER]], %{{.*}}], read, locality<2>, data : memref<12x16xf32>
// CHECK-NEXT: scf.yield

// -----

// Each step of a tile of 2 rows fetches 2 elements of the next two: they are 2 rows and twice as far along them.
func.func private @next_rows(%a: memref<4x12xf32>, %b: memref<12x8xf32>, %o: memref<4x8xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<4x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x12xf32>, memref<12x8xf32>) outs(%o : memref<4x8xf32>) attrs = {schedule = {vector = 1, width = 8, unroll = 1, jam = 0, jam_count = 2, fetch_jam = 0}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @next_rows
// CHECK: %[[TWO:[0-9]+]] = arith.constant 2 : index
// CHECK: %[[NEXT:[0-9]+]] = arith.addi %{{[0-9]+}}, %[[TWO]] : index
// CHECK: scf.for %[[K:[0-9]+]] =
// CHECK: %[[SHARE:[0-9]+]] = arith.muli %[[K]], %[[TWO]] : index
// CHECK: memref.prefetch %a[%[[NEXT]], %[[SHARE]]], read, locality<2>, data : memref<4x12xf32>
// CHECK: scf.yield

// -----

// A long sum: groups of 5 blocks of 8 rows begin with nothing, in accumulators of their own.
func.func private @groups(%a: memref<2048x16xf32>, %o: memref<16xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<16xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<2048x16xf32>) outs(%o : memref<16xf32>) attrs = {schedule = {vector = 0, width = 4, unroll = 1, rows = 8, strip = 8}} {
  ^bb0(%x: f32, %acc: f32):
    %r = arith.addf %acc, %x : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @groups
// CHECK-DAG: %[[GROUP:[0-9]+]] = arith.constant 40 : index
// CHECK-DAG: %[[NOTHING:[0-9]+]] = arith.constant -0.000000e+00 : f32
// CHECK: %[[OWN:[0-9]+]] = memref.alloc() : memref<16xf32>
// CHECK: "scf.parallel"
// CHECK: vector.store %{{[0-9]+}}, %o
// CHECK: scf.for %{{[0-9]+}} = %{{[0-9]+}} to %{{[0-9]+}} step %[[GROUP]]
// CHECK: vector.store %{{[0-9]+}}, %[[OWN]]
// CHECK: scf.for %{{[0-9]+}} = %{{[0-9]+}} to %[[GROUP]] step
// CHECK: vector.load %[[OWN]]
// CHECK: vector.store %{{[0-9]+}}, %[[OWN]]
// CHECK: %[[PART:[0-9]+]] = vector.load %[[OWN]]
// CHECK: arith.addf %{{[0-9]+}}, %[[PART]]
// CHECK: vector.store %{{[0-9]+}}, %o
// CHECK: memref.dealloc %[[OWN]]

// -----

// Threads share the rows: parts of 8 begin with nothing, in rows of their own, the last one of 4 beside the others. These
// are combined in their order, beginning with the fill.
func.func private @parts(%a: memref<20x8xf32>, %o: memref<8xf32>) attributes {kernel} {
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%one : f32) outs(%o : memref<8xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : memref<20x8xf32>) outs(%o : memref<8xf32>) attrs = {schedule = {vector = 0, width = 8, unroll = 1, rows = 4, strip = 8, split = 8}} {
  ^bb0(%x: f32, %acc: f32):
    %r = arith.addf %acc, %x : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @parts
// CHECK-DAG: %[[NOTHING:[0-9]+]] = arith.constant -0.000000e+00 : f32
// CHECK: %[[SUMS:[0-9]+]] = memref.alloc() : memref<3x8xf32>
// CHECK: %[[START:[0-9]+]] = vector.broadcast %[[NOTHING]] : f32 to vector<8xf32>
// CHECK: "scf.parallel"
// CHECK-NEXT: ^bb0(%[[PART:[0-9]+]]: index):
// CHECK: scf.for {{.*}} iter_args(%{{[0-9]+}} = %[[START]])
// CHECK: vector.store %{{[0-9]+}}, %[[SUMS]][%[[PART]],
// CHECK: scf.reduce
// CHECK: vector.store %{{[0-9]+}}, %[[SUMS]][%{{[0-9]+}}, %{{[0-9]+}}] {beside}
// CHECK: %[[FILL:[0-9]+]] = vector.broadcast %one : f32 to vector<8xf32>
// CHECK: scf.for %[[ROW:[0-9]+]] = {{.*}} iter_args(%{{[0-9]+}} = %[[FILL]])
// CHECK-NEXT: vector.load %[[SUMS]][%[[ROW]],
