// RUN: tenon-opt %s -p map-to-grid | filecheck %s

// One thread per element; the last block has threads without one.
func.func private @elementwise(%x: memref<300x7xf32>, %o: memref<300x7xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c300 = arith.constant 300 : index
  "scf.parallel"(%c0, %c0, %c300, %c7, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %v = memref.load %x[%i, %j] : memref<300x7xf32>
    memref.store %v, %o[%i, %j] : memref<300x7xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @elementwise
// CHECK-SAME:    grid = array<i64: 9, 1, 1>, block = array<i64: 256, 1, 1>
// CHECK:         %[[THREAD:.*]] = "gpu.thread_id"()
// CHECK:         %[[BLOCK:.*]] = "gpu.block_id"()
// CHECK:         %[[FIRST:.*]] = arith.muli %[[BLOCK]], %{{.*}} : index
// CHECK:         %[[NUMBER:.*]] = arith.addi %[[FIRST]], %[[THREAD]] : index
// CHECK:         %[[INSIDE:.*]] = arith.cmpi ult, %[[NUMBER]], %{{.*}} : index
// CHECK:         scf.if %[[INSIDE]] {
// CHECK:           %[[I:.*]] = arith.divui %[[NUMBER]], %{{.*}} : index
// CHECK:           %[[J:.*]] = arith.remui %[[NUMBER]], %{{.*}} : index
// CHECK:           memref.load %x[%[[I]], %[[J]]]

// One block per row: the sum is divided among its threads, and so are the stores that need it.
func.func private @rows(%x: memref<5x200xf32>, %o: memref<5x200xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c200 = arith.constant 200 : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c5, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %scratch = memref.alloca() : memref<200xf32>
    "scf.parallel"(%c0, %c200, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = memref.load %x[%i, %j] : memref<5x200xf32>
      %e = math.exp %v : f32
      memref.store %e, %scratch[%j] : memref<200xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    %sum = scf.for %j = %c0 to %c200 step %c1 iter_args(%acc = %zero) -> (f32) {
      %e = memref.load %scratch[%j] : memref<200xf32>
      %next = arith.addf %acc, %e : f32
      scf.yield %next : f32
    }
    memref.store %sum, %o[%i, %c0] : memref<5x200xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @rows
// CHECK-SAME:    grid = array<i64: 5, 1, 1>, block = array<i64: 256, 1, 1>
// CHECK:         %[[THREAD:.*]] = "gpu.thread_id"()
// CHECK:         %[[IS_FIRST:.*]] = arith.cmpi eq, %[[THREAD]], %{{.*}} : index
// CHECK:         %[[ROW:.*]] = "gpu.block_id"()
// CHECK:         %scratch = memref.alloca() : memref<200xf32, 3 : i64>
// CHECK:         scf.for %[[J:.*]] = %[[THREAD]] to %{{.*}} step %{{.*}} {
// CHECK:           memref.store %{{.*}}, %scratch[%[[J]]]
// CHECK:         "gpu.barrier"()
// CHECK:         %[[PARTIAL:.*]] = scf.for %{{.*}} = %[[THREAD]] to %{{.*}} step %{{.*}} iter_args
// CHECK:         %[[TOTAL:.*]] = "gpu.all_reduce"(%[[PARTIAL]]) ({
// CHECK:         %sum = arith.addf %zero, %[[TOTAL]] : f32
// CHECK-NEXT:    scf.if %[[IS_FIRST]] {
// CHECK-NEXT:      memref.store %sum, %o[%[[ROW]], %c0]

// Scratch that does not fit into shared memory is a workspace: the caller allocates it, and each block has its part.
func.func @main(%x: memref<2x11000xf32>, %o: memref<2x11000xf32>, %arena: memref<0xi8>) {
  func.call @long_rows(%x, %o) : (memref<2x11000xf32>, memref<2x11000xf32>) -> ()
  func.return
}
// CHECK-LABEL: @main
// CHECK-NEXT:    %[[WORKSPACE:.*]] = memref.alloc() : memref<88000xi8>
// CHECK-NEXT:    func.call @long_rows(%x, %o, %[[WORKSPACE]])

// The kernel takes the workspace as its last argument.
func.func private @long_rows(%x: memref<2x11000xf32>, %o: memref<2x11000xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c11000 = arith.constant 11000 : index
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %scratch = memref.alloca() : memref<11000xf32>
    "scf.parallel"(%c0, %c11000, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = memref.load %x[%i, %j] : memref<2x11000xf32>
      memref.store %v, %scratch[%j] : memref<11000xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: func.func private @long_rows
// CHECK-SAME:    %[[PARTS:[0-9]+]]: memref<88000xi8>) attributes
// CHECK:         %[[ROW:.*]] = "gpu.block_id"()
// CHECK-NEXT:    %[[BYTES:.*]] = arith.constant 44000 : index
// CHECK-NEXT:    %[[OFFSET:.*]] = arith.muli %[[ROW]], %[[BYTES]] : index
// CHECK-NEXT:    %scratch = memref.view %[[PARTS]][%[[OFFSET]]][] : memref<88000xi8> to memref<11000xf32>

// Nothing to do is no launch.
func.func private @nothing(%x: memref<0xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c0, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    memref.store %v, %x[%i] : memref<0xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @nothing
// CHECK-SAME:    grid = array<i64: 0, 1, 1>
