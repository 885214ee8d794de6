// RUN: tenon-opt %s -p mark-final | filecheck %s

// A loop over vectors is final: LLVM only chooses instructions for it.
// CHECK: func.func private @vectors(%{{.*}}: memref<64xf32>) attributes {kernel, final} {
func.func private @vectors(%x: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  scf.for %i = %start to %end step %step {
    %v = vector.load %x[%i] : memref<64xf32>, vector<8xf32>
    %w = arith.addf %v, %v : vector<8xf32>
    vector.store %w, %x[%i] : memref<64xf32>, vector<8xf32>
  }
  func.return
}

// Without loops there is nothing to improve.
// CHECK: func.func @main(%{{.*}}: memref<64xf32>) attributes {final} {
func.func @main(%x: memref<64xf32>) {
  func.call @vectors(%x) : (memref<64xf32>) -> ()
  func.return
}

// LLVM makes vectors of a loop over scalars, even if somebody said that it is final.
// CHECK: func.func private @scalars(%{{.*}}: memref<64xf32>) attributes {kernel} {
func.func private @scalars(%x: memref<64xf32>) attributes {kernel, final} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 1 : index
  scf.for %i = %start to %end step %step {
    %v = memref.load %x[%i] : memref<64xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %x[%i] : memref<64xf32>
  }
  func.return
}

// Not where there are no more of them than lanes, beside vectors: then few passes are enough.
// CHECK: func.func private @few_scalars(%{{.*}}: memref<64xf32>) attributes {kernel, few_passes} {
func.func private @few_scalars(%x: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %few = arith.constant 16 : index
  %end = arith.constant 64 : index
  %one = arith.constant 1 : index
  %step = arith.constant 8 : index
  %f = arith.constant 0.0 : f32
  scf.for %i = %start to %few step %one {
    memref.store %f, %x[%i] : memref<64xf32>
  }
  scf.for %i = %few to %end step %step {
    %v = vector.load %x[%i] : memref<64xf32>, vector<8xf32>
    %w = arith.addf %v, %v : vector<8xf32>
    vector.store %w, %x[%i] : memref<64xf32>, vector<8xf32>
  }
  func.return
}

// But where a loop around them has no vectors either: it has many scalars.
// CHECK: func.func private @triples(%{{.*}}: memref<64x3xf32>) attributes {kernel} {
func.func private @triples(%x: memref<64x3xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %few = arith.constant 3 : index
  %end = arith.constant 64 : index
  %one = arith.constant 1 : index
  %f = arith.constant 0.0 : f32
  scf.for %i = %start to %end step %one {
    scf.for %j = %start to %few step %one {
      memref.store %f, %x[%i, %j] : memref<64x3xf32>
    }
  }
  func.return
}

// It moves the load of %y out of the inner loop.
// CHECK: func.func private @invariant(%{{.*}}: memref<64xf32>, %{{.*}}: memref<64xf32>) attributes {kernel} {
func.func private @invariant(%x: memref<64xf32>, %y: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  scf.for %i = %start to %end step %step {
    scf.for %j = %start to %end step %step {
      %u = vector.load %y[%i] : memref<64xf32>, vector<8xf32>
      vector.store %u, %x[%j] : memref<64xf32>, vector<8xf32>
    }
  }
  func.return
}

// It writes out a loop of two iterations, by few of its passes.
// CHECK: func.func private @short(%{{.*}}: memref<16xf32>) attributes {kernel, few_passes} {
func.func private @short(%x: memref<16xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 16 : index
  %step = arith.constant 8 : index
  scf.for %i = %start to %end step %step {
    %v = vector.load %x[%i] : memref<16xf32>, vector<8xf32>
    %w = arith.addf %v, %v : vector<8xf32>
    vector.store %w, %x[%i] : memref<16xf32>, vector<8xf32>
  }
  func.return
}

// Not where another loop carries a register tile, which it would write out as well: what is left over stays as it is.
// CHECK: func.func private @tile(%{{.*}}: memref<16xf32>, %{{.*}}: memref<64xf32>) attributes {kernel, final} {
func.func private @tile(%x: memref<16xf32>, %y: memref<64xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %end = arith.constant 16 : index
  %step = arith.constant 8 : index
  %one = arith.constant 1 : index
  scf.for %i = %start to %step step %one {
    %v = memref.load %y[%i] : memref<64xf32>
    memref.store %v, %x[%i] : memref<16xf32>
  }
  %z = vector.load %x[%start] : memref<16xf32>, vector<8xf32>
  %s:12 = scf.for %i = %start to %end step %step iter_args(%a0 = %z, %a1 = %z, %a2 = %z, %a3 = %z, %a4 = %z, %a5 = %z, %a6 = %z, %a7 = %z, %a8 = %z, %a9 = %z, %a10 = %z, %a11 = %z) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
    %v = vector.load %y[%i] : memref<64xf32>, vector<8xf32>
    %w = arith.addf %a0, %v : vector<8xf32>
    scf.yield %w, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11 : vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
  }
  vector.store %s#0, %x[%start] : memref<16xf32>, vector<8xf32>
  func.return
}

// And it keeps a small allocation in registers.
// CHECK: func.func private @scratch(%{{.*}}: memref<8xf32>) attributes {kernel, few_passes} {
func.func private @scratch(%x: memref<8xf32>) attributes {kernel} {
  %start = arith.constant 0 : index
  %s = memref.alloca() : memref<8xf32>
  %v = vector.load %x[%start] : memref<8xf32>, vector<8xf32>
  vector.store %v, %s[%start] : memref<8xf32>, vector<8xf32>
  func.return
}
