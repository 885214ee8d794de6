// RUN: tenon-opt %s --split-input-file -p 'parallelize{grain=1000 chunks=16}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'parallelize{grain=1000 chunks=16},parallelize{grain=1000 chunks=16}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p parallelize{grain=1000000} | filecheck %s --check-prefix LARGE-GRAIN

// The launch of threads would take longer than this loop.
func.func private @little_work_stays(%x: memref<64xf32>, %v: f32) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  "scf.parallel"(%c0, %c64, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    memref.store %v, %x[%i] : memref<64xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @little_work_stays
// CHECK-NOT:     threads
// CHECK:         func.return

// -----

// Chunks of 63 iterations: 16 of them, of which the last is shorter. What a chunk is does not depend on threads.
func.func private @rows(%x: memref<1000x64xf32>, %o: memref<1000x64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %c1000 = arith.constant 1000 : index
  "scf.parallel"(%c0, %c1000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    "scf.parallel"(%c0, %c64, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = vector.load %x[%i, %j] : memref<1000x64xf32>, vector<16xf32>
      %w = math.exp %v : vector<16xf32>
      vector.store %w, %o[%i, %j] : memref<1000x64xf32>, vector<16xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @rows
// CHECK:       %[[LENGTH:.*]] = arith.constant 63 : index
// CHECK:       "scf.parallel"(%c0, %c1000, %[[LENGTH]])
// CHECK-NEXT:  ^bb0(%[[FIRST:.*]]: index):
// CHECK:         %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[LENGTH]] : index
// CHECK-NEXT:    %[[LAST:.*]] = arith.minsi %[[NEXT]], %c1000 : index
// CHECK-NEXT:    "scf.parallel"(%[[FIRST]], %[[LAST]], %c1)
// CHECK:           "scf.parallel"(%c0, %c64, %c16)
// CHECK:       }) {threads} : (index, index, index) -> ()
// CHECK-NEXT:  func.return
// LARGE-GRAIN-LABEL: @rows
// LARGE-GRAIN-NOT: threads
// LARGE-GRAIN-LABEL: @launch

// -----

// The outermost dimension has 5 iterations, so the next one is cut as well, into 3 parts; tiles that divide need no
// minimum.
func.func private @tiles(%x: memref<5x900xf32>, %o: memref<5x900xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c900 = arith.constant 900 : index
  "scf.parallel"(%c0, %c0, %c5, %c900, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<5x900xf32>
    %w = math.exp %v : f32
    memref.store %w, %o[%i, %j] : memref<5x900xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @tiles
// CHECK:       "scf.parallel"(%c0, %c0, %c5, %c900, %{{.*}}, %{{.*}})
// CHECK-NEXT:  ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NOT:     arith.minsi
// CHECK:         "scf.parallel"(%[[I]], %[[J]], %{{.*}}, %{{.*}}, %c1, %c1)

// -----

// Two iterations are too few to share, but the loop inside is long: it is cut for each of them.
func.func private @inside(%x: memref<2x9000xf32>, %o: memref<2x9000xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c9000 = arith.constant 9000 : index
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    "scf.parallel"(%c0, %c9000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = memref.load %x[%i, %j] : memref<2x9000xf32>
      %w = math.exp %v : f32
      memref.store %w, %o[%i, %j] : memref<2x9000xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @inside
// CHECK:       "scf.parallel"(%c0, %c2, %c1)
// CHECK:         "scf.parallel"(%c0, %c9000, %{{.*}})
// CHECK:         }) {threads}
// CHECK-NEXT:    scf.reduce
// CHECK-NEXT:  }) : (index, index, index) -> ()

// -----

// Threads share the rows by parts and keep the copy that these read; the last part has the row that is left.
func.func private @copies(%x: memref<2x64xf32>, %o: memref<2x1001xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %c1000 = arith.constant 1000 : index
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %copy = memref.alloc() : memref<64xf32>
    "scf.parallel"(%c0, %c64, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = memref.load %x[%i, %j] : memref<2x64xf32>
      memref.store %v, %copy[%j] : memref<64xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    "scf.parallel"(%c0, %c1000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %w = memref.load %copy[%c0] : memref<64xf32>
      %e = math.exp %w : f32
      memref.store %e, %o[%i, %j] : memref<2x1001xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    %last = memref.load %copy[%c1] {beside} : memref<64xf32>
    memref.store %last, %o[%i, %c1000] {beside} : memref<2x1001xf32>
    memref.dealloc %copy : memref<64xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @copies
// CHECK:       "scf.parallel"(%c0, %{{.*}}, %c2, %{{.*}}, %c1, %{{.*}})
// CHECK-NEXT:  ^bb0(%{{.*}}: index, %[[PART:.*]]: index):
// CHECK-NEXT:    %[[COPY:.*]] = memref.alloc() {kept} : memref<64xf32>
// CHECK-NEXT:    scf.index_switch %{{.*}} {kept}
// CHECK-NEXT:    default {
// CHECK-NEXT:      "scf.parallel"(%c0, %c64, %c1)
// CHECK:         %[[FIRST:.*]] = arith.muli %[[PART]], %{{.*}} : index
// CHECK-NEXT:    %[[NEXT:.*]] = arith.addi %[[FIRST]], %{{.*}} : index
// CHECK-NEXT:    %[[END:.*]] = arith.minsi %[[NEXT]], %c1000 : index
// CHECK-NEXT:    "scf.parallel"(%[[FIRST]], %[[END]], %c1)
// CHECK:         %[[IS_LAST:.*]] = arith.cmpi eq, %[[PART]], %{{.*}} : index
// CHECK-NEXT:    scf.if %[[IS_LAST]] {
// CHECK-NEXT:      memref.load %[[COPY]][%c1]
// CHECK:         memref.dealloc %[[COPY]]
// CHECK:       }) {threads} : (index, index, index, index, index, index) -> ()

// -----

// A size known at launch: the length of a chunk is computed from it.
func.func private @launch(%x: memref<?xf32>, %o: memref<?xf32>, %n: index) attributes {kernel, sizes = ["n"]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  "scf.parallel"(%c0, %n, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<?xf32>
    %w = math.exp %v : f32
    memref.store %w, %o[%i] : memref<?xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @launch
// CHECK:       arith.muli %{{.*}}, %{{.*}} : index
// CHECK:       arith.divui
// CHECK:       %[[LENGTH:.*]] = arith.ceildivui %{{.*}}, %{{.*}} : index
// CHECK-NEXT:  "scf.parallel"(%c0, %n, %[[LENGTH]])

// -----

// What is left at an edge runs beside the loop in front: one launch has the tiles of both, those of the first before
// those of the second. Constants between them come first. A corner of one sum is computed by itself.
func.func private @edge(%x: memref<30x90xf32>, %o: memref<30x90xf32>, %corner: memref<f32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c30 = arith.constant 30 : index
  %c64 = arith.constant 64 : index
  "scf.parallel"(%c0, %c0, %c30, %c64, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<30x90xf32>
    %w = math.exp %v : f32
    memref.store %w, %o[%i, %j] : memref<30x90xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  %c90 = arith.constant 90 : index
  "scf.parallel"(%c0, %c64, %c30, %c90, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<30x90xf32>
    %w = math.tanh %v : f32
    memref.store %w, %o[%i, %j] : memref<30x90xf32>
    scf.reduce
  }) {beside} : (index, index, index, index, index, index) -> ()
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %c0 to %c30 step %c1 iter_args(%before = %zero) -> (f32) {
    %v = memref.load %x[%i, %c0] : memref<30x90xf32>
    %after = arith.addf %before, %v : f32
    scf.yield %after : f32
  } {beside}
  memref.store %sum, %corner[] {beside} : memref<f32>
  func.return
}
// CHECK-LABEL: @edge
// CHECK:       %c90 = arith.constant 90 : index
// CHECK-NEXT:  %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-NEXT:  %[[TILES:.*]] = arith.constant 14 : index
// CHECK-NEXT:  %[[ONE:.*]] = arith.constant 1 : index
// CHECK-NEXT:  "scf.parallel"(%[[ZERO]], %[[TILES]], %[[ONE]])
// CHECK-NEXT:  ^bb0(%[[NUMBER:.*]]: index):
// CHECK-NEXT:    %[[FIRST:.*]] = arith.constant 10 : index
// CHECK-NEXT:    %[[IS_FIRST:.*]] = arith.cmpi ult, %[[NUMBER]], %[[FIRST]] : index
// CHECK-NEXT:    scf.if %[[IS_FIRST]] {
// CHECK:           arith.muli %[[NUMBER]], %{{.*}} : index
// CHECK:           math.exp
// CHECK:         } else {
// CHECK-NEXT:      %[[LATER:.*]] = arith.subi %[[NUMBER]], %[[FIRST]] : index
// CHECK:           arith.muli %[[LATER]], %{{.*}} : index
// CHECK:           math.tanh
// CHECK:         }
// CHECK:       }) {threads}
// CHECK-NOT:   {threads}
// CHECK:       scf.for
// CHECK-NOT:   {threads}
// CHECK:       func.return

// -----

// Of neighbours that are not marked, each has its own launch: the second may need what the first does.
func.func private @in_order(%x: memref<50000xf32>, %o: memref<50000xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c50000 = arith.constant 50000 : index
  "scf.parallel"(%c0, %c50000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<50000xf32>
    memref.store %v, %o[%i] : memref<50000xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  "scf.parallel"(%c0, %c50000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = memref.load %o[%i] : memref<50000xf32>
    memref.store %v, %x[%i] : memref<50000xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @in_order
// CHECK-COUNT-2: {threads}

// -----

// Each chunk of a reduction has a partial result; they are combined in the order of the chunks.
func.func private @sum(%x: memref<16000xf32>, %o: memref<f32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c16000 = arith.constant 16000 : index
  %init = arith.constant dense<1.0> : vector<16xf32>
  %r = scf.for %i = %c0 to %c16000 step %c16 iter_args(%a = %init) -> (vector<16xf32>) {
    %v = vector.load %x[%i] : memref<16000xf32>, vector<16xf32>
    %next = arith.addf %a, %v : vector<16xf32>
    scf.yield %next : vector<16xf32>
  }
  %s = vector.reduction <add>, %r : vector<16xf32> into f32
  memref.store %s, %o[] : memref<f32>
  func.return
}
// CHECK-LABEL: @sum
// CHECK:       %[[LENGTH:.*]] = arith.constant 1792 : index
// CHECK:       %[[NEUTRAL:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK:       %[[PARTIAL:.*]] = memref.alloca() : memref<9x16xf32>
// CHECK:       "scf.parallel"(%c0, %c16000, %[[LENGTH]])
// CHECK-NEXT:  ^bb0(%[[FIRST:.*]]: index):
// CHECK:         %[[P:.*]] = scf.for %{{.*}} = %[[FIRST]] to %{{.*}} step %c16 iter_args(%{{.*}} = %[[NEUTRAL]])
// CHECK:         vector.store %[[P]], %[[PARTIAL]][%{{.*}}, %{{.*}}]
// CHECK:       }) {threads}
// CHECK-NEXT:  %[[R:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %init)
// CHECK:         vector.load %[[PARTIAL]]
// CHECK:       vector.reduction <add>, %[[R]]

// -----

// A loop in a function that is no kernel stays as it is.
func.func @no_kernel(%o: memref<9000xf32>, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9000 = arith.constant 9000 : index
  "scf.parallel"(%c0, %c9000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %w = math.exp %x : f32
    memref.store %w, %o[%i] : memref<9000xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @no_kernel
// CHECK-NOT:   threads

// -----

// Chunks of updates have a copy of the result each, which are combined in their order.
func.func private @updates(%places: memref<4096xindex>, %x: memref<4096xf32>, %v: f32, %o: memref<16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4096 = arith.constant 4096 : index
  scf.for %i = %c0 to %c4096 step %c1 {
    %p = memref.load %places[%i] : memref<4096xindex>
    %a = memref.load %o[%p] : memref<16xf32>
    %u = memref.load %x[%i] : memref<4096xf32>
    %inside = arith.cmpf ogt, %v, %u : f32
    %b = arith.addf %a, %u : f32
    %c = arith.select %inside, %b, %a : f32
    memref.store %c, %o[%p] : memref<16xf32>
  }
  func.return
}
// CHECK-LABEL: @updates
// CHECK:         %[[COPIES:.*]] = memref.alloca() : memref<16x16xf32>
// CHECK:         "scf.parallel"
// CHECK-NEXT:    ^bb0(%[[FIRST:.*]]: index):
// CHECK:           %[[SLOT:.*]] = arith.divui
// CHECK-NEXT:      scf.for %[[J:.*]] = %{{.*}} to
// CHECK-NEXT:        memref.store %{{.*}}, %[[COPIES]][%[[SLOT]], %[[J]]]
// CHECK:           scf.for %i = %[[FIRST]] to
// CHECK:             %a = memref.load %[[COPIES]][%[[SLOT]], %p]
// CHECK:             memref.store %c, %[[COPIES]][%[[SLOT]], %p]
// CHECK:         }) {threads}
// CHECK:         scf.for %[[CHUNK:.*]] = %{{.*}} to %{{.*}} step
// CHECK-NEXT:      scf.for %[[K:.*]] = %{{.*}} to
// CHECK-NEXT:        %[[OWN:.*]] = memref.load %o[%[[K]]]
// CHECK-NEXT:        %[[OTHER:.*]] = memref.load %[[COPIES]][%[[CHUNK]], %[[K]]]
// CHECK-NEXT:        %[[SUM:.*]] = arith.addf %[[OWN]], %[[OTHER]]
// CHECK-NEXT:        memref.store %[[SUM]], %o[%[[K]]]

// -----

// What is added depends on what was added before.
func.func private @updates_in_order(%places: memref<4096xindex>, %x: memref<4096xf32>, %v: f32, %o: memref<16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4096 = arith.constant 4096 : index
  scf.for %i = %c0 to %c4096 step %c1 {
    %p = memref.load %places[%i] : memref<4096xindex>
    %a = memref.load %o[%p] : memref<16xf32>
    %u = memref.load %x[%i] : memref<4096xf32>
    %inside = arith.cmpf ogt, %a, %u : f32
    %b = arith.addf %a, %u : f32
    %c = arith.select %inside, %b, %a : f32
    memref.store %c, %o[%p] : memref<16xf32>
  }
  func.return
}
// CHECK-LABEL: @updates_in_order
// CHECK-NOT:     threads
// CHECK:         func.return

// -----

// So it does where elements of the result are read elsewhere.
func.func private @updates_from_the_result(%places: memref<4096xindex>, %v: f32, %o: memref<16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4096 = arith.constant 4096 : index
  scf.for %i = %c0 to %c4096 step %c1 {
    %p = memref.load %places[%i] : memref<4096xindex>
    %a = memref.load %o[%p] : memref<16xf32>
    %u = memref.load %o[%i] : memref<16xf32>
    %inside = arith.cmpf ogt, %v, %u : f32
    %b = arith.addf %a, %u : f32
    %c = arith.select %inside, %b, %a : f32
    memref.store %c, %o[%p] : memref<16xf32>
  }
  func.return
}
// CHECK-LABEL: @updates_from_the_result
// CHECK-NOT:     threads
// CHECK:         func.return
