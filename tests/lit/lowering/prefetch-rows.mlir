// RUN: tenon-opt %s --split-input-file -p 'prefetch-rows{least=1024}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'prefetch-rows{least=1024},prefetch-rows{least=1024}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p prefetch-rows | filecheck %s --check-prefix SMALL

// Rows of 1024 bytes are asked for four rows ahead; the last ones, again and again, at the end.
func.func private @gather(%x: memref<100x256xf32>, %i: memref<50xindex>, %o: memref<50x256xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c50 = arith.constant 50 : index
  %c256 = arith.constant 256 : index
  "scf.parallel"(%c0, %c0, %c50, %c256, %c1, %c16) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%r: index, %j: index):
    %p = memref.load %i[%r] : memref<50xindex>
    %v = vector.load %x[%p, %j] : memref<100x256xf32>, vector<16xf32>
    vector.store %v, %o[%r, %j] : memref<50x256xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @gather
// CHECK:         %p = memref.load %i[%r]
// CHECK-NEXT:    %[[FOUR:.*]] = arith.constant 4 : index
// CHECK-NEXT:    %[[NEXT:.*]] = arith.addi %r, %[[FOUR]] : index
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1 : index
// CHECK-NEXT:    %[[LAST:.*]] = arith.subi %c50, %[[ONE]] : index
// CHECK-NEXT:    %[[LATER:.*]] = arith.minsi %[[NEXT]], %[[LAST]] : index
// CHECK-NEXT:    %[[ROW:.*]] = memref.load %i[%[[LATER]]] : memref<50xindex>
// CHECK-NEXT:    memref.prefetch %x[%[[ROW]], %j], read, locality<3>, data
// CHECK-NEXT:    %v = vector.load %x[%p, %j]
// CHECK-NOT:     memref.prefetch
// SMALL-LABEL: @gather
// SMALL-NOT:     memref.prefetch

// -----

// The rows of a bag are numbered by two loops: behind the last one of a bag come those of the next. Both halves of a line
// are asked for at once.
func.func private @bags(%x: memref<100x32xf32>, %i: memref<50x20xindex>, %o: memref<50x32xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c20 = arith.constant 20 : index
  %c50 = arith.constant 50 : index
  scf.for %r = %c0 to %c50 step %c1 {
    scf.for %k = %c0 to %c20 step %c1 {
      %p = memref.load %i[%r, %k] : memref<50x20xindex>
      %v = vector.load %x[%p, %c0] : memref<100x32xf32>, vector<8xf32>
      %w = vector.load %x[%p, %c8] : memref<100x32xf32>, vector<8xf32>
      vector.store %v, %o[%r, %c0] : memref<50x32xf32>, vector<8xf32>
      vector.store %w, %o[%r, %c8] : memref<50x32xf32>, vector<8xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @bags
// CHECK:         %[[K:.*]] = arith.addi %k, %{{.*}} : index
// CHECK-NEXT:    %[[ON:.*]] = arith.cmpi sge, %[[K]], %c20 : index
// CHECK:         %[[WRAPPED:.*]] = arith.addi %[[K]], %{{.*}} : index
// CHECK-NEXT:    %[[LATER_K:.*]] = arith.select %[[ON]], %[[WRAPPED]], %[[K]] : index
// CHECK:         %[[NEXT_R:.*]] = arith.addi %r, %{{.*}} : index
// CHECK-NEXT:    %[[R:.*]] = arith.select %[[ON]], %[[NEXT_R]], %r : index
// CHECK:         %[[LATER_R:.*]] = arith.minsi %[[R]], %{{.*}} : index
// CHECK-NEXT:    %[[ROW:.*]] = memref.load %i[%[[LATER_R]], %[[LATER_K]]] : memref<50x20xindex>
// CHECK-NEXT:    memref.prefetch %x[%[[ROW]], %c0], read, locality<3>, data
// CHECK-NOT:     memref.prefetch

// -----

// Where the numbers of rows are written in the same loop, those of later iterations are not known yet.
func.func private @written(%x: memref<100x256xf32>, %i: memref<50xindex>, %o: memref<50x256xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c50 = arith.constant 50 : index
  scf.for %r = %c0 to %c50 step %c1 {
    %p = memref.load %i[%r] : memref<50xindex>
    memref.store %c0, %i[%r] : memref<50xindex>
    %v = vector.load %x[%p, %c0] : memref<100x256xf32>, vector<16xf32>
    vector.store %v, %o[%r, %c0] : memref<50x256xf32>, vector<16xf32>
  }
  func.return
}
// CHECK-LABEL: @written
// CHECK-NOT:     memref.prefetch

// -----

// The hardware foresees rows that follow each other.
func.func private @copy(%x: memref<100x256xf32>, %o: memref<100x256xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c100 = arith.constant 100 : index
  scf.for %r = %c0 to %c100 step %c1 {
    %v = vector.load %x[%r, %c0] : memref<100x256xf32>, vector<16xf32>
    vector.store %v, %o[%r, %c0] : memref<100x256xf32>, vector<16xf32>
  }
  func.return
}
// CHECK-LABEL: @copy
// CHECK-NOT:     memref.prefetch

// -----

// A number that is read under a condition may not be there in another iteration.
func.func private @conditional(%x: memref<100x256xf32>, %i: memref<50xindex>, %b: memref<50xi1>, %o: memref<50x256xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c50 = arith.constant 50 : index
  scf.for %r = %c0 to %c50 step %c1 {
    %c = memref.load %b[%r] : memref<50xi1>
    scf.if %c {
      %p = memref.load %i[%r] : memref<50xindex>
      %v = vector.load %x[%p, %c0] : memref<100x256xf32>, vector<16xf32>
      vector.store %v, %o[%r, %c0] : memref<50x256xf32>, vector<16xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @conditional
// CHECK-NOT:     memref.prefetch
