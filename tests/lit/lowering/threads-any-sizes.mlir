// RUN: tenon compile %s -o %t
// RUN: filecheck %s --input-file %t/main.ll

// Where no number says how many chunks there are, LLVM is to know no more of where one begins than that it is somewhere.
func.func @main(%n: memref<1xi64>, %o: memref<64x64xf32>, %arena: memref<0xi8>) attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
  func.call @kernel_0(%n, %o) : (memref<1xi64>, memref<64x64xf32>) -> ()
  func.return
}
func.func private @kernel_0(%n: memref<1xi64>, %o: memref<64x64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %f = arith.constant 1.0 : f32
  %loaded = memref.load %n[%c0] : memref<1xi64>
  %step = arith.index_cast %loaded : i64 to index
  %c64 = arith.constant 64 : index
  "scf.parallel"(%c0, %c0, %c64, %c64, %step, %step) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    memref.store %f, %o[%i, %j] : memref<64x64xf32>
    scf.reduce
  }) {threads} : (index, index, index, index, index, index) -> ()
  func.return
}
// CHECK:      define internal void @kernel_0_chunk
// CHECK:        udiv i64 %chunk, %{{.*}}
// CHECK-NEXT:   %[[ROW:.*]] = mul nsw i64
// CHECK-NEXT:   freeze i64 %[[ROW]]
// CHECK-NEXT:   %[[COLUMN:.*]] = mul nsw i64
// CHECK-NEXT:   freeze i64 %[[COLUMN]]
