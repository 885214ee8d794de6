// RUN: tenon compile %s -o %t
// RUN: filecheck %s --input-file %t/main.ll

// A loop with threads is a call of the pool; its body is a function of what it uses and of the number of the chunk.
func.func @main(%x: memref<64xf32>, %o: memref<64xf32>, %arena: memref<0xi8>) attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
  func.call @kernel_0(%x, %o) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @kernel_0(%x: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %first = memref.load %x[%c0] : memref<64xf32>
  "scf.parallel"(%c0, %c64, %c8) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %row = memref.alloca() : memref<8xf32>
    %v = vector.load %x[%i] : memref<64xf32>, vector<8xf32>
    %b = vector.broadcast %first : f32 to vector<8xf32>
    %w = arith.addf %v, %b : vector<8xf32>
    vector.store %w, %row[%c0] : memref<8xf32>, vector<8xf32>
    vector.store %w, %o[%i] : memref<64xf32>, vector<8xf32>
    scf.reduce
  }) {threads} : (index, index, index) -> ()
  func.return
}
// CHECK:      define internal void @kernel_0(ptr noalias {{.*}}%a0, ptr noalias {{.*}}%a1)
// CHECK:        %[[CONTEXT:.*]] = alloca [24 x i8], align 64
// CHECK:        %[[FIRST:.*]] = load float, ptr %a0
// CHECK:        store float %[[FIRST]], ptr %{{.*}}
// CHECK:        call void @tenon_parallel_for(ptr @kernel_0_part[[N:.*]], ptr %[[CONTEXT]], i64 8)
// CHECK-NEXT:   ret void
// CHECK:      define internal void @kernel_0_chunk{{.*}}(ptr noalias align 4 dereferenceable(256) %a0, float %a1, ptr noalias align 4 dereferenceable(256) %a2, i64 %chunk)
// CHECK:        alloca [32 x i8], align 64
// CHECK-NEXT:   mul nsw i64 %chunk, 8
// CHECK:      define internal void @kernel_0_part{{.*}}(ptr noalias readonly %context, i64 %chunk)
// CHECK:        %[[A1:.*]] = load float
// CHECK:        call void @kernel_0_chunk{{.*}}(ptr %{{.*}}, float %[[A1]], ptr %{{.*}}, i64 %chunk)
// CHECK:      declare void @tenon_parallel_for(ptr, ptr, i64)
