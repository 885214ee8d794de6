// REQUIRES: mlir
// RUN: tenon run %s --args ones:3xf32,iota:4x3xf32 | filecheck %s
// RUN: tenon-opt %s -p decompose,fuse,convert-tensor-to-structured,bufferize,convert-structured-to-loops -o %t.loops.mlir
// RUN: sed -n 's,^// ENTRY: ,,p' %s > %t.entry.mlir
// RUN: sed -e '/^builtin.module/r %t.entry.mlir' -e 's/memref<[0-9]*xi8>/memref<4096xi8>/g' %t.loops.mlir -i
// RUN: %mlir_opt %t.loops.mlir %mlir_to_llvm | %mlir_runner %mlir_entry | filecheck %s

// A loop over the rows of a tensor, from the last: MLIR's own tools print the numbers of `tenon run`.
func.func @main(%start: tensor<3xf32>, %rows: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %total, %sums = tenon.scan init(%start : tensor<3xf32>) slices(%rows : tensor<4x3xf32>) length 4 reverse -> (tensor<3xf32>, tensor<4x3xf32>) {
  ^bb0(%sum: tensor<3xf32>, %row: tensor<3xf32>):
    %next = tenon.add %sum, %row : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
    %twice = tenon.add %next, %next : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
    tenon.yield %next, %twice : tensor<3xf32>, tensor<3xf32>
  }
  func.return %total, %sums : tensor<3xf32>, tensor<4x3xf32>
}
// CHECK: [19{{[., ]+}}23{{[., ]+}}27{{\.?}}]
// CHECK: [38{{[., ]+}}46{{[., ]+}}54{{\.?}}]
// CHECK: [38{{[., ]+}}44{{[., ]+}}50{{\.?}}]
// CHECK: [32{{[., ]+}}36{{[., ]+}}40{{\.?}}]
// CHECK: [20{{[., ]+}}22{{[., ]+}}24{{\.?}}]

// ENTRY: memref.global "private" constant @start : memref<3xf32> = dense<1.0>
// ENTRY: memref.global "private" constant @rows : memref<4x3xf32> = dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]>
// ENTRY: func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}
// ENTRY: func.func @entry() {
// ENTRY:   %start = memref.get_global @start : memref<3xf32>
// ENTRY:   %rows = memref.get_global @rows : memref<4x3xf32>
// ENTRY:   %total = memref.alloc() : memref<3xf32>
// ENTRY:   %sums = memref.alloc() : memref<4x3xf32>
// ENTRY:   %arena = memref.alloc() : memref<4096xi8>
// ENTRY:   func.call @main(%start, %rows, %total, %sums, %arena) : (memref<3xf32>, memref<4x3xf32>, memref<3xf32>, memref<4x3xf32>, memref<4096xi8>) -> ()
// ENTRY:   %total_unranked = memref.cast %total : memref<3xf32> to memref<*xf32>
// ENTRY:   %sums_unranked = memref.cast %sums : memref<4x3xf32> to memref<*xf32>
// ENTRY:   func.call @printMemrefF32(%total_unranked) : (memref<*xf32>) -> ()
// ENTRY:   func.call @printMemrefF32(%sums_unranked) : (memref<*xf32>) -> ()
// ENTRY:   return
// ENTRY: }
