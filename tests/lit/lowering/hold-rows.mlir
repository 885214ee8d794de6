// RUN: tenon-opt %s --split-input-file -p hold-rows | filecheck %s

// The row that is updated stays in registers until another one is due.
func.func private @updates(%o: memref<9x32xf32>, %i: memref<5xindex>, %u: memref<5x32xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%r] : memref<5xindex>
    scf.for %j = %c0 to %c32 step %c16 {
      %a = vector.load %o[%p, %j] : memref<9x32xf32>, vector<16xf32>
      %b = vector.load %u[%r, %j] : memref<5x32xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %o[%p, %j] : memref<9x32xf32>, vector<16xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @updates
// CHECK:         %c32 = arith.constant 32 : index
// CHECK-NEXT:    %[[FIRST:.*]] = arith.constant 0 : index
// CHECK:         vector.load %o[%[[FIRST]],
// CHECK:         vector.load %o[%[[FIRST]],
// CHECK:         %[[END:.*]], %[[E0:.*]], %[[E1:.*]] = scf.for %[[R:.*]] = %c0 to %c5 step %c1 iter_args(%[[Q:.*]] = %[[FIRST]], %[[H0:.*]] = %{{.*}}, %[[H1:.*]] = %{{.*}})
// CHECK-NEXT:      %p = memref.load %i[%[[R]]]
// CHECK-NEXT:      %[[SAME:.*]] = arith.cmpi eq, %p, %[[Q]] : index
// CHECK-NEXT:      %[[A0:.*]], %[[A1:.*]] = scf.if %[[SAME]]
// CHECK-NEXT:        scf.yield %[[H0]], %[[H1]]
// CHECK-NEXT:      } else {
// CHECK:             vector.store %[[H0]], %o[%[[Q]],
// CHECK:             vector.store %[[H1]], %o[%[[Q]],
// CHECK:             vector.load %o[%p,
// CHECK:             vector.load %o[%p,
// CHECK:           %[[B0:.*]] = vector.load %u[%[[R]],
// CHECK-NEXT:      %[[C0:.*]] = arith.addf %[[A0]], %[[B0]]
// CHECK:           %[[C1:.*]] = arith.addf %[[A1]],
// CHECK-NEXT:      scf.yield %p, %[[C0]], %[[C1]]
// CHECK:         vector.store %[[E0]], %o[%[[END]],
// CHECK:         vector.store %[[E1]], %o[%[[END]],

// -----

// In parallel, the first row is one of those that the iteration keeps to.
func.func private @batches(%o: memref<3x9x16xf32>, %i: memref<3x5xindex>, %u: memref<3x5x16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  "scf.parallel"(%c0, %c3, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%n: index):
    scf.for %r = %c0 to %c5 step %c1 {
      %p = memref.load %i[%n, %r] : memref<3x5xindex>
      scf.for %j = %c0 to %c16 step %c16 {
        %a = vector.load %o[%n, %p, %j] : memref<3x9x16xf32>, vector<16xf32>
        %b = vector.load %u[%n, %r, %j] : memref<3x5x16xf32>, vector<16xf32>
        %c = arith.addf %a, %b : vector<16xf32>
        vector.store %c, %o[%n, %p, %j] : memref<3x9x16xf32>, vector<16xf32>
      }
    }
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @batches
// CHECK:         ^bb0(%n: index):
// CHECK-NEXT:      %[[FIRST:.*]] = arith.constant 0 : index
// CHECK:           vector.load %o[%n, %[[FIRST]],
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %[[FIRST]],

// -----

// Parallel updates may meet in the first row, a row that is read by its neighbours has to be in memory, and one that has the
// number of the update is met once.
func.func private @left_alone(%o: memref<9x16xf32>, %i: memref<3x5xindex>, %u: memref<9x16xf32>, %t: memref<5x9x16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  "scf.parallel"(%c0, %c3, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%n: index):
    scf.for %r = %c0 to %c5 step %c1 {
      %p = memref.load %i[%n, %r] : memref<3x5xindex>
      scf.for %j = %c0 to %c16 step %c16 {
        %a = vector.load %o[%p, %j] : memref<9x16xf32>, vector<16xf32>
        %b = vector.load %u[%r, %j] : memref<9x16xf32>, vector<16xf32>
        %c = arith.addf %a, %b : vector<16xf32>
        vector.store %c, %o[%p, %j] : memref<9x16xf32>, vector<16xf32>
      }
    }
    scf.reduce
  }) : (index, index, index) -> ()
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%c0, %r] : memref<3x5xindex>
    scf.for %j = %c0 to %c16 step %c16 {
      %a = vector.load %o[%p, %j] : memref<9x16xf32>, vector<16xf32>
      %b = vector.load %o[%r, %j] : memref<9x16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %o[%p, %j] : memref<9x16xf32>, vector<16xf32>
    }
  }
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%c0, %r] : memref<3x5xindex>
    scf.for %j = %c0 to %c16 step %c16 {
      %a = vector.load %t[%r, %p, %j] : memref<5x9x16xf32>, vector<16xf32>
      %b = vector.load %u[%r, %j] : memref<9x16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %t[%r, %p, %j] : memref<5x9x16xf32>, vector<16xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @left_alone
// CHECK-NOT:     iter_args
// CHECK:         func.return

// -----

// Windows overlap: what one vector stores, the next one loads. And rows that follow each other are not met again.
func.func private @windows(%o: memref<9x20xf32>, %i: memref<5xindex>, %u: memref<5x16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%r] : memref<5xindex>
    scf.for %j = %c0 to %c2 step %c1 {
      %a = vector.load %o[%p, %j] : memref<9x20xf32>, vector<16xf32>
      %b = vector.load %u[%r, %c0] : memref<5x16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %o[%p, %j] : memref<9x20xf32>, vector<16xf32>
    }
  }
  scf.for %r = %c0 to %c5 step %c1 {
    %p = arith.addi %r, %c1 : index
    scf.for %j = %c0 to %c16 step %c16 {
      %a = vector.load %o[%p, %j] : memref<9x20xf32>, vector<16xf32>
      %b = vector.load %u[%r, %c0] : memref<5x16xf32>, vector<16xf32>
      %c = arith.addf %a, %b : vector<16xf32>
      vector.store %c, %o[%p, %j] : memref<9x20xf32>, vector<16xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @windows
// CHECK-NOT:     iter_args
// CHECK:         func.return

// -----

// Vectors of one dimension alone make up a row.
func.func private @of_no_dimension(%x: memref<64xf32>, %y: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  scf.for %i = %start to %end step %step {
    scf.for %j = %start to %end step %step {
      %u = vector.load %y[%i] : memref<64xf32>, vector<f32>
      vector.store %u, %x[%j] : memref<64xf32>, vector<f32>
    }
  }
  func.return
}
// CHECK-LABEL: @of_no_dimension
// CHECK: scf.for
// CHECK: scf.for
// CHECK: vector.store
