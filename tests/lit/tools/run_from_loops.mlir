// RUN: tenon run %s --args iota:2x3xf32,iota:3x2xf32 | filecheck %s
// RUN: tenon run %s --interpret --args iota:2x3xf32,iota:3x2xf32 | filecheck %s

// The program of run_from_tensor.mlir as loops: scalars in the one kernel, vectors in the other.
func.func @main(%x: memref<2x3xf32>, %w: memref<3x2xf32>, %out0: memref<2x2xf32>, %arena: memref<16xi8>) attributes {num_inputs = 2 : i64, num_outputs = 1 : i64} {
  %offset = arith.constant 0 : index
  %y = memref.view %arena[%offset][] : memref<16xi8> to memref<2x2xf32>
  func.call @kernel_0(%x, %w, %y) : (memref<2x3xf32>, memref<3x2xf32>, memref<2x2xf32>) -> ()
  func.call @kernel_1(%y, %out0) : (memref<2x2xf32>, memref<2x2xf32>) -> ()
  func.return
}
func.func private @kernel_0(%x: memref<2x3xf32>, %w: memref<3x2xf32>, %y: memref<2x2xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  "scf.parallel"(%c0, %c0, %c2, %c2, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    %total = scf.for %k = %c0 to %c3 step %c1 iter_args(%sum = %zero) -> (f32) {
      %a = memref.load %x[%i, %k] : memref<2x3xf32>
      %b = memref.load %w[%k, %j] : memref<3x2xf32>
      %product = arith.mulf %a, %b : f32
      %next = arith.addf %sum, %product : f32
      scf.yield %next : f32
    }
    memref.store %total, %y[%i, %j] : memref<2x2xf32>
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return
}
func.func private @kernel_1(%y: memref<2x2xf32>, %out0: memref<2x2xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %twelve = arith.constant dense<12.0> : vector<2xf32>
  %zero = arith.constant dense<0.0> : vector<2xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    %a = vector.load %y[%i, %c0] : memref<2x2xf32>, vector<2xf32>
    %z = arith.subf %a, %twelve : vector<2xf32>
    %positive = arith.maximumf %z, %zero : vector<2xf32>
    vector.store %positive, %out0[%i, %c0] : memref<2x2xf32>, vector<2xf32>
  }
  func.return
}
// CHECK:      result 0: float32[2, 2]
// CHECK-NEXT: {{\[\[}} 0.  1.]
// CHECK-NEXT:  [16. 28.]]
