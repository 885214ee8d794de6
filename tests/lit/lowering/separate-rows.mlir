// RUN: tenon-opt %s --split-input-file -p separate-rows | filecheck %s

// The place within a row is data; no iteration leaves its row.
func.func private @rows_are_parallel(%i: memref<5xindex>, %o: memref<5x9xf32>, %v: f32) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%r] : memref<5xindex>
    memref.store %v, %o[%r, %p] : memref<5x9xf32>
  }
  func.return
}
// CHECK-LABEL: @rows_are_parallel
// CHECK:         "scf.parallel"(%c0, %c5, %c1)
// CHECK-NEXT:    ^bb0(%r: index):
// CHECK-NEXT:      %p = memref.load %i[%r]
// CHECK-NEXT:      memref.store %v, %o[%r, %p]

// -----

// Places within a row are data, but no iteration leaves its row: they run in parallel. What they alone use shrinks to a
// row.
func.func private @rows(%i: memref<5x20xindex>, %u: memref<5x20xf32>, %o: memref<5x9xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c20 = arith.constant 20 : index
  %s = memref.alloc() : memref<5x9xf32>
  scf.for %r = %c0 to %c5 step %c1 {
    scf.for %j = %c0 to %c20 step %c1 {
      %p = memref.load %i[%r, %j] : memref<5x20xindex>
      %a = memref.load %u[%r, %j] : memref<5x20xf32>
      memref.store %a, %s[%r, %p] : memref<5x9xf32>
      %b = memref.load %s[%r, %c1] : memref<5x9xf32>
      memref.store %b, %o[%r, %p] : memref<5x9xf32>
    }
  }
  memref.dealloc %s : memref<5x9xf32>
  func.return
}
// CHECK-LABEL: @rows
// CHECK-NOT:     memref.alloc()
// CHECK:         "scf.parallel"(%c0, %c5, %c1)
// CHECK-NEXT:    ^{{.*}}(%r: index):
// CHECK-NEXT:      %s = memref.alloca() : memref<9xf32>
// CHECK:           memref.store %a, %s[%p] : memref<9xf32>
// CHECK-NEXT:      %b = memref.load %s[%c1] : memref<9xf32>
// CHECK-NEXT:      memref.store %b, %o[%r, %p] : memref<5x9xf32>

// -----

// Iterations that write at places which are data may meet, and so may those that read what another one writes.
func.func private @meeting(%i: memref<5x20xindex>, %u: memref<5x20xf32>, %o: memref<5x9xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %r = %c0 to %c5 step %c1 {
    %p = memref.load %i[%r, %c0] : memref<5x20xindex>
    %a = memref.load %u[%r, %c0] : memref<5x20xf32>
    memref.store %a, %o[%p, %c0] : memref<5x9xf32>
  }
  scf.for %q = %c0 to %c5 step %c1 {
    %b = memref.load %o[%c1, %c0] : memref<5x9xf32>
    memref.store %b, %o[%q, %c0] : memref<5x9xf32>
  }
  func.return
}
// CHECK-LABEL: @meeting
// CHECK-NOT:     scf.parallel
// CHECK:         func.return

// -----

// So may those whose vectors run across the rows, those that write through a view, and those that copy.
func.func private @crossing(%v: vector<4xf32>, %a: f32, %o: memref<9xf32>, %p: memref<5x4xf32>, %q: memref<5x4xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %r = %c0 to %c5 step %c1 {
    vector.store %v, %o[%r] : memref<9xf32>, vector<4xf32>
  }
  %w = memref.reinterpret_cast %p to offset: [4], sizes: [4, 4], strides: [4, 1] : memref<5x4xf32> to memref<4x4xf32, strided<[4, 1], offset: 4>>
  scf.for %r = %c0 to %c5 step %c1 {
    memref.store %a, %p[%r, %c0] : memref<5x4xf32>
    memref.store %a, %w[%r, %c0] : memref<4x4xf32, strided<[4, 1], offset: 4>>
  }
  scf.for %r = %c0 to %c5 step %c1 {
    memref.store %a, %p[%r, %c0] : memref<5x4xf32>
    "memref.copy"(%p, %q) : (memref<5x4xf32>, memref<5x4xf32>) -> ()
  }
  func.return
}
// CHECK-LABEL: @crossing
// CHECK-NOT:     scf.parallel
// CHECK:         func.return

// -----

// What is used outside of the loop, too, keeps its rows.
func.func private @kept(%u: memref<5xf32>, %o: memref<5xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %s = memref.alloca() : memref<5xf32>
  scf.for %r = %c0 to %c5 step %c1 {
    %a = memref.load %u[%r] : memref<5xf32>
    memref.store %a, %s[%r] : memref<5xf32>
  }
  %b = memref.load %s[%c1] : memref<5xf32>
  memref.store %b, %o[%c0] : memref<5xf32>
  func.return
}
// CHECK-LABEL: @kept
// CHECK:         "scf.parallel"
// CHECK:           memref.store %{{.*}}, %s[%{{.*}}] : memref<5xf32>
