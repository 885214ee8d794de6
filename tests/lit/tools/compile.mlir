// RUN: tenon compile %s -o %t | filecheck %s --check-prefix FILES
// RUN: filecheck %s --input-file %t/main.ll
// RUN: filecheck %s --input-file %t/main.cpu.json --check-prefix JSON
// RUN: filecheck %s --input-file %t/main.loops.mlir --check-prefix LOOPS
// RUN: not tenon compile %s --target wasm 2>&1 | filecheck %s --check-prefix TARGET

// LLVM IR, machine code, the loop IR they were made from, and what to pass.
func.func @main(%x: tensor<5xf32>) -> tensor<f32> {
  %y = tenon.sum %x : tensor<5xf32> -> tensor<f32>
  func.return %y : tensor<f32>
}
// FILES:      main.loops.mlir
// FILES-NEXT: main.ll
// FILES-NEXT: main.o
// FILES-NEXT: main.cpu.json

// CHECK:      define void @main(ptr {{.*}}%args)
// CHECK:      define internal void @kernel_0(ptr {{.*}}dereferenceable(20) %a0, ptr {{.*}}dereferenceable(4) %a1)

// JSON: {"inputs": {{\[\[\[}}5], "f32"]], "outputs": {{\[\[\[}}], "f32"]], "arena_bytes": 0, "donations": [-1], "work": {{[0-9]+}}, "preparation": null}

// LOOPS: func.func @main(%x: memref<5xf32>, %out0: memref<f32>, %arena: memref<0xi8>)

// TARGET: tenon: error: target 'wasm' is neither cpu nor cuda:ARCH, such as cuda:sm_90
