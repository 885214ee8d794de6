// REQUIRES: mlir
// RUN: tenon run %s --args iota:3x4xf32 | filecheck %s
// RUN: tenon-opt %s -p inline,layout,decompose,canonicalize,cse,layout,canonicalize,cse,dce,fuse -o %t.fused.mlir
// RUN: tenon-opt %t.fused.mlir -p convert-tensor-to-structured,fuse-structured,bufferize -o %t.buffered.mlir
// RUN: tenon-opt %t.buffered.mlir -p schedule{vector-bits=256},convert-structured-to-loops,expand-math -o %t.loops.mlir
// RUN: filecheck %s --input-file %t.loops.mlir --check-prefix LOOPS
// RUN: sed -n 's,^// ENTRY: ,,p' %s > %t.entry.mlir
// RUN: sed -e '/^builtin.module/r %t.entry.mlir' -e 's/memref<[0-9]*xi8>/memref<4096xi8>/g' %t.loops.mlir -i
// RUN: %mlir_opt %t.loops.mlir %mlir_to_llvm | %mlir_runner %mlir_entry | filecheck %s

// MLIR's own tools run the loop IR of a program, with its vectors and its inline exp, and print the numbers of `tenon run`.
func.func @main(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<20xf32>) {
  %scale = tenon.constant {value = dense<0.01> : tensor<f32>} : tensor<f32>
  %t = tenon.multiply %x, %scale : tensor<3x4xf32>, tensor<f32> -> tensor<3x4xf32>
  %i = tenon.iota {shape = [80], dtype = f32} : tensor<80xf32>
  %w = tenon.reshape %i {shape = [4, 20]} : tensor<80xf32> -> tensor<4x20xf32>
  %y = tenon.matmul %t, %w : tensor<3x4xf32>, tensor<4x20xf32> -> tensor<3x20xf32>
  %s = tenon.softmax %y : tensor<3x20xf32> -> tensor<3x20xf32>
  %z = tenon.multiply %s, %y : tensor<3x20xf32>, tensor<3x20xf32> -> tensor<3x20xf32>
  %r = tenon.sum %z {axis = [1]} : tensor<3x20xf32> -> tensor<3xf32>
  %m = tenon.max %s {axis = [0]} : tensor<3x20xf32> -> tensor<20xf32>
  func.return %r, %m : tensor<3xf32>, tensor<20xf32>
}
// The numbers are NumPy's in f64, cut where f32 may differ.
// CHECK: [{{ *}}3.4869{{[0-9]*[, ]+}}10.940{{[0-9]*[, ]+}}18.801{{[0-9]* *}}]
// CHECK: [0.02665{{[0-9]*[, ]+}}0.02830{{[0-9]*[, ]+}}0.03005{{[0-9]*[, ]+}}0.03190
// CHECK: 0.2163{{[0-9]*[, ]+}}0.3162{{[0-9]* *}}]

// The columns go in twos of eight lanes and a rest of four; no function of a library is left.
// LOOPS-LABEL: func.func @main
// LOOPS-NOT:   math.exp
// LOOPS:       vector.fma {{.*}} vector<8xf32>
// LOOPS:       vector.fma {{.*}} vector<4xf32>
// LOOPS:       vector.reduction <maximumf>
// LOOPS:       math.fma {{.*}} vector<8xf32>
// LOOPS:       vector.maskedload
// LOOPS:       vector.reduction <add>

// ENTRY: memref.global "private" constant @x : memref<3x4xf32> = dense<[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]>
// ENTRY: func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}
// ENTRY: func.func @entry() {
// ENTRY:   %x = memref.get_global @x : memref<3x4xf32>
// ENTRY:   %r = memref.alloc() : memref<3xf32>
// ENTRY:   %m = memref.alloc() : memref<20xf32>
// ENTRY:   %arena = memref.alloc() : memref<4096xi8>
// ENTRY:   func.call @main(%x, %r, %m, %arena) : (memref<3x4xf32>, memref<3xf32>, memref<20xf32>, memref<4096xi8>) -> ()
// ENTRY:   %r_unranked = memref.cast %r : memref<3xf32> to memref<*xf32>
// ENTRY:   %m_unranked = memref.cast %m : memref<20xf32> to memref<*xf32>
// ENTRY:   func.call @printMemrefF32(%r_unranked) : (memref<*xf32>) -> ()
// ENTRY:   func.call @printMemrefF32(%m_unranked) : (memref<*xf32>) -> ()
// ENTRY:   return
// ENTRY: }
