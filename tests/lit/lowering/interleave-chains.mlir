// RUN: tenon-opt %s --split-input-file -p interleave-chains | filecheck %s
// RUN: tenon-opt %s --split-input-file -p interleave-chains,interleave-chains | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'interleave-chains{registers=1}' | filecheck %s --check-prefix FEW

// Two polynomials of neighbouring vectors take turns; indices go first.
func.func private @polynomials(%x: memref<64xf32>, %p: vector<16xf32>, %o: memref<64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  "scf.parallel"(%c0, %c64, %c32) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %a0 = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
    %a1 = math.fma %p, %a0, %p : vector<16xf32>
    %a2 = math.fma %a1, %a0, %p : vector<16xf32>
    %a3 = math.fma %a2, %a0, %p : vector<16xf32>
    %a4 = math.fma %a3, %a0, %p : vector<16xf32>
    %a5 = math.fma %a4, %a0, %p : vector<16xf32>
    %a6 = math.fma %a5, %a0, %p : vector<16xf32>
    vector.store %a6, %o[%i] : memref<64xf32>, vector<16xf32>
    %j = arith.addi %i, %c16 : index
    %b0 = vector.load %x[%j] : memref<64xf32>, vector<16xf32>
    %b1 = math.fma %p, %b0, %p : vector<16xf32>
    %b2 = math.fma %b1, %b0, %p : vector<16xf32>
    %b3 = math.fma %b2, %b0, %p : vector<16xf32>
    %b4 = math.fma %b3, %b0, %p : vector<16xf32>
    %b5 = math.fma %b4, %b0, %p : vector<16xf32>
    %b6 = math.fma %b5, %b0, %p : vector<16xf32>
    vector.store %b6, %o[%j] : memref<64xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @polynomials
// CHECK:         %j = arith.addi %i, %c16
// CHECK-NEXT:    %a0 = vector.load %x[%i]
// CHECK-NEXT:    %b0 = vector.load %x[%j]
// CHECK-NEXT:    %a1 = math.fma %p, %a0, %p
// CHECK-NEXT:    %b1 = math.fma %p, %b0, %p
// CHECK-NEXT:    %a2 = math.fma
// CHECK-NEXT:    %b2 = math.fma
// CHECK:         vector.store %a6, %o[%i]
// CHECK-NEXT:    vector.store %b6, %o[%j]
// Where registers hold the values of one alone, chains stay in order.
// FEW-LABEL:   @polynomials
// FEW:           vector.store %a6, %o[%i]
// FEW-NEXT:      %b0 = vector.load %x[%j]

// -----

// The second vector may have to wait for what the first one stores.
func.func private @in_place(%x: memref<64xf32>, %p: vector<16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c32 {
    %a0 = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
    %a1 = math.fma %p, %a0, %p : vector<16xf32>
    %a2 = math.fma %a1, %a0, %p : vector<16xf32>
    %a3 = math.fma %a2, %a0, %p : vector<16xf32>
    %a4 = math.fma %a3, %a0, %p : vector<16xf32>
    %a5 = math.fma %a4, %a0, %p : vector<16xf32>
    %a6 = math.fma %a5, %a0, %p : vector<16xf32>
    vector.store %a6, %x[%i] : memref<64xf32>, vector<16xf32>
    %j = arith.addi %i, %c16 : index
    %b0 = vector.load %x[%j] : memref<64xf32>, vector<16xf32>
    %b1 = math.fma %p, %b0, %p : vector<16xf32>
    %b2 = math.fma %b1, %b0, %p : vector<16xf32>
    %b3 = math.fma %b2, %b0, %p : vector<16xf32>
    %b4 = math.fma %b3, %b0, %p : vector<16xf32>
    %b5 = math.fma %b4, %b0, %p : vector<16xf32>
    %b6 = math.fma %b5, %b0, %p : vector<16xf32>
    vector.store %b6, %x[%j] : memref<64xf32>, vector<16xf32>
  }
  func.return
}
// CHECK-LABEL: @in_place
// CHECK:         vector.store %a6, %x[%i]
// CHECK-NEXT:    %j = arith.addi
// CHECK-NEXT:    %b0 = vector.load %x[%j]

// -----

// Chains that differ stay as they are where one's store would come before the other's load: %o and %y may be one buffer.
func.func private @two_results(%x: memref<64xf32>, %y: memref<64xf32>, %o: memref<64xf32>, %p: memref<64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  "scf.parallel"(%c0, %c64, %c16) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %a0 = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
    %b0 = vector.load %y[%i] : memref<64xf32>, vector<16xf32>
    %a1 = arith.mulf %a0, %a0 : vector<16xf32>
    %a2 = arith.mulf %a1, %a0 : vector<16xf32>
    %a3 = arith.mulf %a2, %a0 : vector<16xf32>
    %a4 = arith.mulf %a3, %a0 : vector<16xf32>
    %a5 = arith.mulf %a4, %a0 : vector<16xf32>
    %a6 = arith.mulf %a5, %a0 : vector<16xf32>
    %b1 = arith.addf %b0, %b0 : vector<16xf32>
    %b2 = arith.addf %b1, %b0 : vector<16xf32>
    %b3 = arith.addf %b2, %b0 : vector<16xf32>
    %b4 = arith.addf %b3, %b0 : vector<16xf32>
    %b5 = arith.addf %b4, %b0 : vector<16xf32>
    %b6 = arith.addf %b5, %b0 : vector<16xf32>
    vector.store %a6, %o[%i] : memref<64xf32>, vector<16xf32>
    vector.store %b6, %p[%i] : memref<64xf32>, vector<16xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
// CHECK-LABEL: @two_results
// CHECK:         %a0 = vector.load %x[%i]
// CHECK-NEXT:    %b0 = vector.load %y[%i]
// CHECK:         vector.store %a6, %o[%i]
// CHECK-NEXT:    vector.store %b6, %p[%i]

// -----

// Branches for rare numbers are ops of chains, and one is around them for where there are no such.
func.func private @rare_numbers(%x: memref<32xf32>, %p: vector<16xf32>, %o: memref<32xf32>) attributes {kernel} {
  %i = arith.constant 0 : index
  %j = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  scf.for %k = %i to %c32 step %c32 {
    %a0 = vector.load %x[%i] : memref<32xf32>, vector<16xf32>
    %a1 = arith.mulf %a0, %a0 : vector<16xf32>
    %a2 = arith.mulf %a1, %a0 : vector<16xf32>
    %a3 = arith.mulf %a2, %a0 : vector<16xf32>
    %a4 = arith.mulf %a3, %a0 : vector<16xf32>
    %a5 = arith.mulf %a4, %a0 : vector<16xf32>
    %a6 = arith.cmpf olt, %a5, %p : vector<16xf32>
    %a7 = vector.reduction <or>, %a6 : vector<16xi1> into i1
    %a8 = scf.if %a7 -> (vector<16xf32>) {
      %a9 = arith.negf %a5 : vector<16xf32>
      scf.yield %a9 : vector<16xf32>
    } else {
      scf.yield %a5 : vector<16xf32>
    }
    vector.store %a8, %o[%i] : memref<32xf32>, vector<16xf32>
    %b0 = vector.load %x[%j] : memref<32xf32>, vector<16xf32>
    %b1 = arith.mulf %b0, %b0 : vector<16xf32>
    %b2 = arith.mulf %b1, %b0 : vector<16xf32>
    %b3 = arith.mulf %b2, %b0 : vector<16xf32>
    %b4 = arith.mulf %b3, %b0 : vector<16xf32>
    %b5 = arith.mulf %b4, %b0 : vector<16xf32>
    %b6 = arith.cmpf olt, %b5, %p : vector<16xf32>
    %b7 = vector.reduction <or>, %b6 : vector<16xi1> into i1
    %b8 = scf.if %b7 -> (vector<16xf32>) {
      %b9 = arith.negf %b5 : vector<16xf32>
      scf.yield %b9 : vector<16xf32>
    } else {
      scf.yield %b5 : vector<16xf32>
    }
    vector.store %b8, %o[%j] : memref<32xf32>, vector<16xf32>
  }
  func.return
}
// CHECK-LABEL: @rare_numbers
// CHECK:         %a7 = vector.reduction
// CHECK-NEXT:    %b7 = vector.reduction
// CHECK-NEXT:    [[ANY:%.*]] = arith.ori %a7, %b7
// CHECK-NEXT:    %a8, %b8 = scf.if [[ANY]]
// CHECK-NEXT:      scf.if %a7
// CHECK:           scf.if %b7
// CHECK:           scf.yield %a5, %b5
// CHECK-NEXT:    }
// CHECK-NEXT:    vector.store %a8, %o[%i]
// CHECK-NEXT:    vector.store %b8, %o[%j]
