// RUN: tenon-opt %s -p hoist-loads | filecheck %s

// What is the same in all iterations is loaded in front of the loop, with what computes its place.
func.func private @row(%x: memref<64xf32>, %y: memref<65xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  %one = arith.constant 1 : index
  scf.for %i = %start to %end step %one {
    scf.for %j = %start to %end step %step {
      %k = arith.addi %i, %one : index
      %s = memref.load %y[%k] : memref<65xf32>
      %u = vector.broadcast %s : f32 to vector<8xf32>
      vector.store %u, %x[%j] : memref<64xf32>, vector<8xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @row
// CHECK:       scf.for %i =
// CHECK-NEXT:    %[[K:.*]] = arith.addi %i, %one : index
// CHECK-NEXT:    %[[S:.*]] = memref.load %y[%[[K]]]
// CHECK-NEXT:    scf.for %j =
// CHECK-NEXT:      vector.broadcast %[[S]]

// The last dimension of a parallel loop is separated from the others for that.
func.func private @columns(%x: memref<4x64xf32>, %y: memref<4xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %rows = arith.constant 4 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  %one = arith.constant 1 : index
  "scf.parallel"(%start, %start, %rows, %end, %one, %step) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %s = memref.load %y[%i] : memref<4xf32>
    %v = vector.load %x[%i, %j] : memref<4x64xf32>, vector<8xf32>
    %u = vector.broadcast %s : f32 to vector<8xf32>
    %w = arith.mulf %u, %v : vector<8xf32>
    vector.store %w, %x[%i, %j] : memref<4x64xf32>, vector<8xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @columns
// CHECK:       "scf.parallel"(%start, %rows, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
// CHECK-NEXT:  ^{{.*}}(%i: index):
// CHECK-NEXT:    %[[S:.*]] = memref.load %y[%i]
// CHECK-NEXT:    "scf.parallel"(%start, %end, %step) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
// CHECK-NEXT:    ^{{.*}}(%j: index):
// CHECK-NEXT:      vector.load %x[%i, %j]

// Not what the loop stores to, ...
func.func private @stored(%x: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  scf.for %j = %start to %end step %step {
    %s = memref.load %x[%start] : memref<64xf32>
    %u = vector.broadcast %s : f32 to vector<8xf32>
    vector.store %u, %x[%j] : memref<64xf32>, vector<8xf32>
  }
  func.return
}
// CHECK-LABEL: @stored
// CHECK:       scf.for
// CHECK-NEXT:    memref.load

// ... nor where the loop may not run at all: the place may be none of the buffer's.
func.func private @unknown(%x: memref<64xf32>, %y: memref<64xf32>, %n: index) attributes {kernel} {
  %start = arith.constant 0 : index
  %step = arith.constant 8 : index
  scf.for %j = %start to %n step %step {
    %s = memref.load %y[%start] : memref<64xf32>
    %u = vector.broadcast %s : f32 to vector<8xf32>
    vector.store %u, %x[%j] : memref<64xf32>, vector<8xf32>
  }
  func.return
}
// CHECK-LABEL: @unknown
// CHECK:       scf.for
// CHECK-NEXT:    memref.load
