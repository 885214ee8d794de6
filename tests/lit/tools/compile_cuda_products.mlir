// REQUIRES: nvrtc
// RUN: tenon compile %s --target cuda:sm_80 -o %t | filecheck %s --check-prefix FILES
// RUN: filecheck %s --input-file %t/main.sm_80.cu
// RUN: filecheck %s --input-file %t/main.sm_80.txt --check-prefix TABLE
// RUN: filecheck %s --input-file %t/main.sm_80.schedules.txt --check-prefix WHY

// A product of f16 in CUDA: asynchronous copies, matrices loaded by warps, products by their instructions.
func.func @main(%x: tensor<2048x512xf16>, %y: tensor<2560x512xf16>) -> tensor<2048x2560xf16> {
  %z = tenon.transpose %y {permutation = [1, 0]} : tensor<2560x512xf16> -> tensor<512x2560xf16>
  %r = tenon.matmul %x, %z : tensor<2048x512xf16>, tensor<512x2560xf16> -> tensor<2048x2560xf16>
  func.return %r : tensor<2048x2560xf16>
}
// FILES: main.sm_80.cubin

// CHECK:      extern "C" __global__ __launch_bounds__(128) void kernel_0(
// CHECK:        tn_cp_async<16>(
// CHECK:        tn_cp_async_commit();
// CHECK:        tn_cp_async_wait<2>();
// CHECK-NEXT:   __syncthreads();
// CHECK:        tn_ldmatrix_x4(
// CHECK:        tn_ldmatrix_x4(
// CHECK:        tn_mma_m16n8k16_f16(
// CHECK:        tn_cp_async_wait<2>();
// CHECK-NEXT:   __syncthreads();

// TABLE: kernel_0{{ +}}{{[0-9]+}}{{ +}}128

// WHY:      kernel_0
// WHY-NEXT:   transposes: {{.+}}
// WHY-NEXT:   elementwise: {{.+}}
// WHY:        matrix instructions: chosen
// WHY-NEXT:     tile     blocks  cycles   bound
// WHY-NEXT:     128x128  320     {{[0-9]+ +}}products
// WHY:          pack(a0, shared, at=ko, swizzle=4, copy=async)
// WHY:          contract(kf, mma)
