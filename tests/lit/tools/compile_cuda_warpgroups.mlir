// REQUIRES: nvrtc
// RUN: tenon compile %s --target cuda:sm_90a -o %t
// RUN: filecheck %s --input-file %t/main.sm_90a.cu
// RUN: filecheck %s --input-file %t/main.sm_90a.schedules.txt --check-prefix WHY

// A product of bf16 on Hopper: pieces of operands are copied, shown to the proxy of wgmma, and multiplied by four warps.
func.func @main(%x: tensor<2048x2048xbf16>, %y: tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
  %r = tenon.matmul %x, %y : tensor<2048x2048xbf16>, tensor<2048x2048xbf16> -> tensor<2048x2048xbf16>
  func.return %r : tensor<2048x2048xbf16>
}
// CHECK:      extern "C" __global__ __launch_bounds__(256) void kernel_0(
// CHECK:        tn_cp_async<16>(
// CHECK:        tn_cp_async_wait<1>();
// CHECK-NEXT:   tn_fence_proxy_async();
// CHECK-NEXT:   __syncthreads();
// CHECK:        for
// CHECK:        tn_wgmma_fence();
// CHECK:        tn_wgmma_m64n256k16_bf16<0, 1>({{.+}}, 16, 1024, 128), {{.+}}, 8192, 1024, 128), true);
// CHECK:        tn_wgmma_commit();
// CHECK-NEXT:   tn_wgmma_wait<1>();
// CHECK-NEXT:   tn_cp_async_wait<1>();
// CHECK-NEXT:   tn_fence_proxy_async();
// CHECK-NEXT:   __syncthreads();
// CHECK:        tn_wgmma_wait<0>();

// WHY:      kernel_0
// WHY:        warpgroup instructions: chosen
// WHY-NEXT:     tile     blocks  cycles  bound
// WHY-NEXT:     128x256  128     {{[0-9]+ +}}latency
// WHY:          pack(a0, shared, at=ko, swizzle=8, copy=async)
// WHY-NEXT:     pack(a1, shared, at=ko, swizzle=8, copy=async, panel=64)
// WHY:          contract(kf, wgmma)
