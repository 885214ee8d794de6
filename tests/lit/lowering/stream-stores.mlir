// RUN: tenon-opt %s -p 'stream-stores{cache=8192}' | filecheck %s
// RUN: tenon-opt %s -p 'stream-stores{cache=8192},stream-stores{cache=8192}' | filecheck %s
// RUN: tenon-opt %s -p stream-stores{cache=65536} | filecheck %s --check-prefix LARGE-CACHE

// The caller's array may begin anywhere, so there are two loops. What follows the last whole vector is stored as before.
func.func private @doubled(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c992 = arith.constant 992 : index
  "scf.parallel"(%c0, %c992, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %x[%i] : memref<1000xf32>, vector<16xf32>
    %w = arith.addf %v, %v : vector<16xf32>
    vector.store %w, %o[%i] : memref<1000xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  %tail = vector.load %x[%c992] : memref<1000xf32>, vector<8xf32>
  vector.store %tail, %o[%c992] : memref<1000xf32>, vector<8xf32>
  func.return
}
// CHECK-LABEL: @doubled
// CHECK:       %[[PLACE:.*]] = "memref.extract_aligned_pointer_as_index"(%o) : (memref<1000xf32>) -> index
// CHECK-NEXT:  %[[BEYOND:.*]] = arith.remui %[[PLACE]], %{{.*}} : index
// CHECK-NEXT:  %[[ALIGNED:.*]] = arith.cmpi eq, %[[BEYOND]], %{{.*}} : index
// CHECK-NEXT:  scf.if %[[ALIGNED]] {
// CHECK:         vector.store %{{.*}}, %o[%{{.*}}] {alignment = 64 : i64, nontemporal = true}
// CHECK:       } else {
// CHECK:         vector.store %{{.*}}, %o[%{{.*}}] : memref<1000xf32>, vector<16xf32>
// CHECK:       }
// CHECK-NOT:   nontemporal
// CHECK:       func.return
// LARGE-CACHE-LABEL: @doubled
// LARGE-CACHE-NOT: nontemporal
// LARGE-CACHE-LABEL: @launch

// Rows of 500 bytes do not begin at lines.
func.func private @rows(%x: memref<100x125xf32>, %o: memref<100x125xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c100 = arith.constant 100 : index
  %c112 = arith.constant 112 : index
  "scf.parallel"(%c0, %c0, %c100, %c112, %c1, %c16) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %v = vector.load %x[%i, %j] : memref<100x125xf32>, vector<16xf32>
    vector.store %v, %o[%i, %j] : memref<100x125xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @rows
// CHECK-NOT:   nontemporal

// What is read again in the kernel stays in the caches.
func.func private @accumulated(%x: memref<1024xf32>, %o: memref<1024xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  "scf.parallel"(%c0, %c1024, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %x[%i] : memref<1024xf32>, vector<16xf32>
    %p = vector.load %o[%i] : memref<1024xf32>, vector<16xf32>
    %w = arith.addf %v, %p : vector<16xf32>
    vector.store %w, %o[%i] : memref<1024xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @accumulated
// CHECK-NOT:   nontemporal

// Stores of half a line that lie apart leave lines half full; those that follow each other fill them.
func.func private @halves(%x: memref<2x1024xf32>, %o: memref<2x1024xf32>, %p: memref<1024xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  "scf.parallel"(%c0, %c1024, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %x[%c0, %i] : memref<2x1024xf32>, vector<8xf32>
    vector.store %v, %o[%c0, %i] : memref<2x1024xf32>, vector<8xf32>
    vector.store %v, %p[%i] : memref<1024xf32>, vector<8xf32>
    %j = arith.addi %i, %c8 : index
    vector.store %v, %p[%j] : memref<1024xf32>, vector<8xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @halves
// CHECK:       scf.if
// CHECK-NOT:   %o[%{{.*}}] {alignment
// CHECK:       vector.store %{{.*}}, %p[%{{.*}}] {alignment = 32 : i64, nontemporal = true}
// CHECK:       vector.store %{{.*}}, %p[%{{.*}}] {alignment = 32 : i64, nontemporal = true}
// CHECK:       } else {

// A result in the place of an operand is in the caches by then.
func.func private @in_place(%x: memref<1024xf32>, %o: memref<1024xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c1024 = arith.constant 1024 : index
  "scf.parallel"(%c0, %c1024, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %x[%i] : memref<1024xf32>, vector<16xf32>
    vector.store %v, %o[%i] : memref<1024xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @in_place
// CHECK-NOT:   nontemporal

// Two kilobytes that another kernel reads are still there; only together with the operand it is four.
func.func private @read_again(%x: memref<512xf32>, %o: memref<512xf32>) attributes {kernel, num_inputs = 1 : i64, num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c512 = arith.constant 512 : index
  "scf.parallel"(%c0, %c512, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %v = vector.load %x[%i] : memref<512xf32>, vector<16xf32>
    vector.store %v, %o[%i] : memref<512xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @read_again
// CHECK-NOT:   nontemporal

// The calls, which tell what is read again.
func.func @launch(%x: memref<1000xf32>, %o: memref<1000xf32>, %a: memref<1024xf32>, %b: memref<512xf32>, %c: memref<512xf32>) attributes {num_inputs = 1 : i64, num_outputs = 4 : i64} {
  func.call @doubled(%x, %o) : (memref<1000xf32>, memref<1000xf32>) -> ()
  func.call @in_place(%a, %a) : (memref<1024xf32>, memref<1024xf32>) -> ()
  func.call @read_again(%b, %c) : (memref<512xf32>, memref<512xf32>) -> ()
  func.call @read_again(%c, %b) : (memref<512xf32>, memref<512xf32>) -> ()
  func.return
}
// CHECK-LABEL: @launch
