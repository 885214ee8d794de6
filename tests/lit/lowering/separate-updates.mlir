// RUN: tenon-opt %s -p separate-updates | filecheck %s
// RUN: tenon-opt %s -p 'separate-updates,apply-steps{machine=sm_90}' | filecheck %s --check-prefix OWNERS
// RUN: tenon-opt %s -p 'separate-updates,apply-steps{machine="sm_90 deterministic=false"}' | filecheck %s --check-prefix ATOMIC

// Rows are added at places that the program computes: behind what gives them their first values, in a kernel of its own.
func.func @main(%p: memref<100xi64>, %v: memref<100x64xf32>, %o: memref<20x64xf32>) {
  func.call @added(%p, %v, %o) : (memref<100xi64>, memref<100x64xf32>, memref<20x64xf32>) -> ()
  func.return
}
func.func private @added(%p: memref<100xi64>, %v: memref<100x64xf32>, %o: memref<20x64xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c100 = arith.constant 100 : index
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      outs(%o : memref<20x64xf32>) {
  ^bb0(%a: f32):
    linalg.yield %zero : f32
  }
  scf.for %u = %c0 to %c100 step %c1 {
    scf.for %j = %c0 to %c64 step %c1 {
      %n = memref.load %p[%u] : memref<100xi64>
      %row = arith.index_cast %n : i64 to index
      %x = memref.load %v[%u, %j] : memref<100x64xf32>
      %before = memref.load %o[%row, %j] : memref<20x64xf32>
      %after = arith.addf %before, %x : f32
      memref.store %after, %o[%row, %j] : memref<20x64xf32>
    }
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    func.call @added_before(%p, %v, %o)
// CHECK-NEXT:    func.call @added(%p, %v, %o)
// CHECK-LABEL: func.func private @added_before
// CHECK:         linalg.generic
// CHECK-NOT:     scf.for
// CHECK-LABEL: func.func private @added
// CHECK-NOT:     linalg.generic
// CHECK:         scf.for

// OWNERS-LABEL: func.func private @added(
// OWNERS-SAME:    grid = array<i64: 10, 1, 1>, block = array<i64: 128, 1, 1>
// OWNERS:         scf.for
// OWNERS:           %[[WAITING:.*]] = nvvm.vote.sync ballot %{{.*}}, %{{.*}} -> i32
// OWNERS:           scf.while (%{{.*}} = %[[WAITING]]) : (i32) -> i32 {
// OWNERS:             math.cttz
// OWNERS:             scf.for
// OWNERS:               memref.load %o
// OWNERS:               memref.store %{{.*}}, %o

// ATOMIC-LABEL: func.func private @added(
// ATOMIC-SAME:    grid = array<i64: 7, 1, 1>, block = array<i64: 256, 1, 1>
// ATOMIC-NOT:     memref.load %o
// ATOMIC:         scf.if
// ATOMIC-NEXT:      "memref.atomic_rmw"(%{{.*}}, %o, %{{.*}}, %{{.*}}) <{kind = 0 : i64}>

// -----

// Integers are the same in any order: blocks count in shared memory, and then combine their counts with the result.
func.func private @counted(%p: memref<1000000xi32>, %o: memref<16xi32>) attributes {kernel} {
  %one = arith.constant 1 : i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant 1000000 : index
  scf.for %u = %c0 to %end step %c1 {
    %n = memref.load %p[%u] : memref<1000000xi32>
    %place = arith.index_cast %n : i32 to index
    %before = memref.load %o[%place] : memref<16xi32>
    %after = arith.addi %before, %one : i32
    memref.store %after, %o[%place] : memref<16xi32>
  }
  func.return
}
// OWNERS-LABEL: func.func private @counted(
// OWNERS-SAME:    grid = array<i64: 977, 1, 1>, block = array<i64: 256, 1, 1>
// OWNERS:         %[[COPY:.*]] = memref.alloca() : memref<16xi32, 3 : i64>
// OWNERS:         memref.store %{{.*}}, %[[COPY]]
// OWNERS:         "gpu.barrier"
// OWNERS-COUNT-4: "memref.atomic_rmw"(%{{.*}}, %[[COPY]], %{{.*}}) <{kind = 1 : i64}>
// OWNERS:         "gpu.barrier"
// OWNERS:         "memref.atomic_rmw"(%{{.*}}, %o, %{{.*}}) <{kind = 1 : i64}>
