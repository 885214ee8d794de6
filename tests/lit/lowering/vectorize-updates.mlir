// RUN: tenon-opt %s --split-input-file -p 'vectorize-updates{vector-bits=256}' | filecheck %s

// What is the same for all of the row comes first; of 23 elements, 16 are updated in whole vectors, then 4
// and 2 in narrower ones, and the last one by itself.
func.func private @scatter(%o: memref<9x23xf32>, %i: memref<5xindex>, %u: memref<5x23xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c23 = arith.constant 23 : index
  scf.for %r = %c0 to %c5 step %c1 {
    scf.for %j = %c0 to %c23 step %c1 {
      %p = memref.load %i[%r] : memref<5xindex>
      %a = memref.load %o[%p, %j] : memref<9x23xf32>
      %b = memref.load %u[%r, %j] : memref<5x23xf32>
      %c = arith.addf %a, %b : f32
      memref.store %c, %o[%p, %j] : memref<9x23xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @scatter
// CHECK:         scf.for %r = %c0 to %c5 step %c1 {
// CHECK-NEXT:      %p = memref.load %i[%r] : memref<5xindex>
// CHECK-NEXT:      %[[WHOLE:.*]] = arith.constant 16 : index
// CHECK-NEXT:      %[[WIDTH:.*]] = arith.constant 8 : index
// CHECK-NEXT:      scf.for %[[J:.*]] = %c0 to %[[WHOLE]] step %[[WIDTH]] {
// CHECK-NEXT:        %[[A:.*]] = vector.load %o[%p, %[[J]]] : memref<9x23xf32>, vector<8xf32>
// CHECK-NEXT:        %[[B:.*]] = vector.load %u[%r, %[[J]]] : memref<5x23xf32>, vector<8xf32>
// CHECK-NEXT:        %[[C:.*]] = arith.addf %[[A]], %[[B]] : vector<8xf32>
// CHECK-NEXT:        vector.store %[[C]], %o[%p, %[[J]]] : memref<9x23xf32>, vector<8xf32>
// CHECK-NEXT:      }
// CHECK:           scf.for {{.*}} = %[[WHOLE]] to %[[FOUR:.*]] step
// CHECK-NEXT:        vector.load %o{{.*}} vector<4xf32>
// CHECK:           scf.for {{.*}} = %[[FOUR]] to %[[TWO:.*]] step
// CHECK-NEXT:        vector.load %o{{.*}} vector<2xf32>
// CHECK:           scf.for %j = %[[TWO]] to %c23 step %c1 {
// CHECK-NEXT:        %a = memref.load %o[%p, %j]

// -----

// Lanes of one vector may not meet the same element.
func.func private @elements(%o: memref<9x20xf32>, %i: memref<5x20xindex>, %u: memref<5x20xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c20 = arith.constant 20 : index
  scf.for %r = %c0 to %c5 step %c1 {
    scf.for %j = %c0 to %c20 step %c1 {
      %p = memref.load %i[%r, %j] : memref<5x20xindex>
      %a = memref.load %o[%r, %p] : memref<9x20xf32>
      %b = memref.load %u[%r, %j] : memref<5x20xf32>
      %c = arith.addf %a, %b : f32
      memref.store %c, %o[%r, %p] : memref<9x20xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @elements
// CHECK-NOT:     vector

// -----

// A slice that starts at loaded numbers: its rows are parallel, and what is added to the index is the same for a row.
func.func private @slice(%o: memref<9x40xf32>, %s: memref<2xindex>, %u: memref<5x16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  "scf.parallel"(%c0, %c0, %c5, %c16, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%r: index, %j: index):
    %p = memref.load %s[%c1] : memref<2xindex>
    %q = arith.addi %p, %j : index
    %b = memref.load %u[%r, %j] : memref<5x16xf32>
    memref.store %b, %o[%r, %q] : memref<9x40xf32>
    scf.reduce
  }) {distinct} : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @slice
// CHECK:         "scf.parallel"(%c0, %c5, %c1)
// CHECK:           %[[P:.*]] = memref.load %s[%c1]
// CHECK:           scf.for %[[J:.*]] = %c0 to %{{.*}} step %{{.*}} {
// CHECK-NEXT:        %[[Q:.*]] = arith.addi %[[P]], %[[J]] : index
// CHECK-NEXT:        %[[B:.*]] = vector.load %u[%{{.*}}, %[[J]]] : memref<5x16xf32>, vector<8xf32>
// CHECK-NEXT:        vector.store %[[B]], %o[%{{.*}}, %[[Q]]] : memref<9x40xf32>, vector<8xf32>

// -----

// Several rows may be updated at once, one and the same among them: an element is met by its own lane alone.
func.func private @exchange(%o: memref<9x16xi32>, %i: memref<2xindex>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %p = memref.load %i[%c0] : memref<2xindex>
  %q = memref.load %i[%c1] : memref<2xindex>
  scf.for %j = %c0 to %c16 step %c1 {
    %a = memref.load %o[%p, %j] : memref<9x16xi32>
    %b = memref.load %o[%q, %j] : memref<9x16xi32>
    %c = arith.minui %a, %b : i32
    memref.store %c, %o[%p, %j] : memref<9x16xi32>
    %d = arith.maxui %a, %b : i32
    memref.store %d, %o[%q, %j] : memref<9x16xi32>
  }
  func.return
}
// CHECK-LABEL: @exchange
// CHECK:         scf.for %[[J:.*]] = %c0 to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[A:.*]] = vector.load %o[%p, %[[J]]] : memref<9x16xi32>, vector<8xi32>
// CHECK-NEXT:      %[[B:.*]] = vector.load %o[%q, %[[J]]] : memref<9x16xi32>, vector<8xi32>
// CHECK-NEXT:      %[[C:.*]] = arith.minui %[[A]], %[[B]] : vector<8xi32>
// CHECK-NEXT:      vector.store %[[C]], %o[%p, %[[J]]] : memref<9x16xi32>, vector<8xi32>
// CHECK-NEXT:      %[[D:.*]] = arith.maxui %[[A]], %[[B]] : vector<8xi32>
// CHECK-NEXT:      vector.store %[[D]], %o[%q, %[[J]]] : memref<9x16xi32>, vector<8xi32>

// -----

// Where one of the rows is updated further on, a lane meets what another one writes.
func.func private @further_on(%o: memref<9x17xi32>, %p: index, %q: index) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %j = %c0 to %c16 step %c1 {
    %a = memref.load %o[%q, %j] : memref<9x17xi32>
    %k = arith.addi %j, %c1 : index
    memref.store %a, %o[%p, %k] : memref<9x17xi32>
    memref.store %a, %o[%q, %j] : memref<9x17xi32>
  }
  func.return
}
// CHECK-LABEL: @further_on
// CHECK-NOT:     vector

// -----

// A loop that ends before it begins touches nothing.
func.func private @nothing(%o: memref<8x40xf32>, %u: memref<2x40xf32>, %r: memref<2xindex>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c5 to %c3 step %c1 {
    %p = memref.load %r[%c0] : memref<2xindex>
    %a = memref.load %o[%p, %i] : memref<8x40xf32>
    %b = memref.load %u[%c0, %i] : memref<2x40xf32>
    %c = arith.addf %a, %b : f32
    memref.store %c, %o[%p, %i] : memref<8x40xf32>
  }
  func.return
}
// CHECK-LABEL: func.func private @nothing
// CHECK:         [[P:%.*]] = memref.load %r
// CHECK-NEXT:    scf.for [[I:%.*]] = %c5 to %c3 step %c1
// CHECK-NEXT:      memref.load %o[[[P]], [[I]]]
