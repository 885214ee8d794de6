// RUN: tenon-opt %s --split-input-file -p block-sums | filecheck %s

// Blocks of one length begin with nothing, and what they give is added up.
func.func @long_sum(%x: memref<640xf32>) -> f32 attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c640 = arith.constant 640 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %c640 step %c1 iter_args(%a = %zero) -> (f32) {
    %e = memref.load %x[%i] : memref<640xf32>
    %b = arith.addf %a, %e : f32
    scf.yield %b : f32
  }
  func.return %r : f32
}
// CHECK-LABEL: @long_sum
// CHECK:         %[[NOTHING:.*]] = arith.constant -0.000000e+00 : f32
// CHECK:         %[[LENGTH:.*]] = arith.constant 64 : index
// CHECK-NEXT:    %[[R:.*]] = scf.for %[[K:.*]] = %c0 to %c640 step %[[LENGTH]] iter_args(%[[TOTAL:.*]] = %zero) -> (f32) {
// CHECK-NEXT:      %[[END:.*]] = arith.addi %[[K]], %[[LENGTH]] : index
// CHECK-NEXT:      %[[PART:.*]] = scf.for %{{.*}} = %[[K]] to %[[END]] step %c1 iter_args(%{{.*}} = %[[NOTHING]]) -> (f32) {
// CHECK:           %[[SUM:.*]] = arith.addf %[[TOTAL]], %[[PART]] : f32
// CHECK-NEXT:      scf.yield %[[SUM]] : f32
// CHECK:         func.return %[[R]]

// -----

// A loop in another one, whose sum goes through both: what is inside begins with nothing, and the other is cut.
func.func @nested(%x: memref<1000x100xf32>) -> f32 attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1000 = arith.constant 1000 : index
  %c100 = arith.constant 100 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %c1000 step %c1 iter_args(%a = %zero) -> (f32) {
    %s = scf.for %j = %c0 to %c100 step %c1 iter_args(%b = %a) -> (f32) {
      %e = memref.load %x[%i, %j] : memref<1000x100xf32>
      %c = math.fma %e, %e, %b : f32
      scf.yield %c : f32
    }
    scf.yield %s : f32
  }
  func.return %r : f32
}
// CHECK-LABEL: @nested
// CHECK:         scf.for {{.*}} to %c1000 step %{{.*}} iter_args(%[[TOTAL:.*]] = %zero)
// CHECK:           %[[END:.*]] = arith.minsi %{{.*}}, %c1000 : index
// CHECK-NEXT:      %[[ROWS:.*]] = scf.for {{.*}} to %[[END]] step %c1 iter_args(%[[OF_ROWS:.*]] = %{{.*}})
// CHECK-NEXT:        %[[ROW:.*]] = scf.for {{.*}} to %c100
// CHECK:             arith.addf %[[OF_ROWS]], %[[ROW]]
// CHECK:           arith.addf %[[TOTAL]], %[[ROWS]]

// -----

// Not for what is no sum: a maximum, a running sum that is stored, and a sum of integers.
func.func @others(%x: memref<640xf32>, %n: memref<640xi32>, %o: memref<640xf32>) -> (f32, f32, i32) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %c640 = arith.constant 640 : index
  %c1 = arith.constant 1 : index
  %r, %s, %t = scf.for %i = %c0 to %c640 step %c1 iter_args(%a = %zero, %b = %zero, %c = %none) -> (f32, f32, i32) {
    %e = memref.load %x[%i] : memref<640xf32>
    %d = memref.load %n[%i] : memref<640xi32>
    %f = arith.maximumf %a, %e : f32
    %g = arith.addf %b, %e : f32
    memref.store %g, %o[%i] : memref<640xf32>
    %h = arith.addi %c, %d : i32
    scf.yield %f, %g, %h : f32, f32, i32
  }
  func.return %r, %s, %t : f32, f32, i32
}
// CHECK-LABEL: @others
// CHECK:         scf.for %{{.*}} = %c0 to %c640 step %c1
// CHECK-NOT:     scf.for

// -----

// What was in memory is added at the end: the sum begins with nothing.
func.func @sum_in_memory(%x: memref<100xf32>, %o: memref<f32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c100 = arith.constant 100 : index
  %c1 = arith.constant 1 : index
  %before = memref.load %o[] : memref<f32>
  %r = scf.for %i = %c0 to %c100 step %c1 iter_args(%a = %before) -> (f32) {
    %e = memref.load %x[%i] : memref<100xf32>
    %b = arith.addf %a, %e : f32
    scf.yield %b : f32
  }
  memref.store %r, %o[] : memref<f32>
  func.return
}
// CHECK-LABEL: @sum_in_memory
// CHECK:         %r = scf.for {{.*}} iter_args(%a = %[[NOTHING:.*]]) -> (f32) {
// CHECK:         %[[SUM:.*]] = arith.addf %before, %r : f32
// CHECK-NEXT:    memref.store %[[SUM]], %o[]
