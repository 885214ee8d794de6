// REQUIRES: nvrtc
// RUN: tenon compile %s --target cuda:sm_90 -o %t | filecheck %s --check-prefix FILES
// RUN: filecheck %s --input-file %t/main.sm_90.cu
// RUN: head -c 4 %t/main.sm_90.cubin | filecheck %s --check-prefix ELF
// RUN: not tenon compile %s --target cuda:sm_1 2>&1 | filecheck %s --check-prefix ARCH

// CUDA source and machine code for one architecture, without a GPU.
func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
  %y = tenon.relu %x : tensor<300xf32> -> tensor<300xf32>
  func.return %y : tensor<300xf32>
}
// FILES:      main.grid.mlir
// FILES-NEXT: main.sm_90.cu
// FILES-NEXT: main.sm_90.cubin
// FILES-NEXT: main.sm_90.txt
// FILES-NEXT: main.sm_90.schedules.txt
// FILES-NEXT: main.sm_90.json

// CHECK:      // sm_90
// CHECK:      extern "C" __global__ {{.*}} void kernel_0(float *__restrict__ x_0, float *__restrict__ out0_1, int {{.*}}) {
// CHECK:        threadIdx.x
// CHECK:        {{.*}} > 0.0f;

// ELF: ELF

// ARCH: tenon: error: emit_cuda: arch is 'sm_1', not one such as 'sm_90'
