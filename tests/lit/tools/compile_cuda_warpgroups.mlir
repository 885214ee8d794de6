// REQUIRES: nvrtc
// RUN: tenon compile %s --target cuda:sm_90a -o %t
// RUN: filecheck %s --input-file %t/main.sm_90a.cu
// RUN: filecheck %s --input-file %t/main.sm_90a.schedules.txt --check-prefix WHY

// A product of bf16 on Hopper: one warp has boxes of both operands copied, and others multiply them by four warps each.
// Nothing follows the product: registers suffice without three more warps that leave theirs.
func.func @main(%x: tensor<2048x2048xbf16>, %y: tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
  %r = tenon.matmul %x, %y : tensor<2048x2048xbf16>, tensor<2048x2048xbf16> -> tensor<2048x2048xbf16>
  func.return %r : tensor<2048x2048xbf16>
}
// CHECK:      extern "C" __global__ __launch_bounds__(288) void kernel_0({{.+}}, const __grid_constant__ TnTensorMap {{.+}}, const __grid_constant__ TnTensorMap
// CHECK:        tn_fence_mbarrier_init();
// CHECK:        __syncthreads();
// CHECK-NOT:      tn_setmaxnreg
// CHECK:          tn_mbarrier_wait(
// CHECK-NEXT:     tn_wgmma_fence();
// CHECK:          tn_wgmma_m64n256k16_bf16<0, 1>({{.+}}, 16, 1024, 128), {{.+}}, 8192, 1024, 128), true);
// CHECK:          tn_wgmma_commit();
// CHECK-NEXT:     tn_wgmma_wait<1>();
// CHECK:          tn_mbarrier_arrive(
// CHECK:        tn_wgmma_wait<0>();
// CHECK-NOT:    tn_setmaxnreg
// CHECK:        tn_elect();
// CHECK:          tn_mbarrier_wait(
// CHECK-NEXT:     tn_mbarrier_expect({{.+}}, 49152);
// CHECK:          tn_tma_load_2d(
// CHECK-NOT:      tn_cp_async

// WHY:      kernel_0
// WHY:        warpgroup instructions: chosen
// WHY-NEXT:     tile     blocks  cycles  bound
// WHY-NEXT:     128x256  128     {{[0-9]+ +}}latency
// WHY:          pack(a0, shared, at=ko, swizzle=8, copy=boxes)
// WHY-NEXT:     pack(a1, shared, at=ko, swizzle=8, copy=boxes, panel=64)
// WHY:          contract(kf, wgmma)
// WHY-NEXT:     pipeline(ko, 4)
// WHY-NOT:      registers(
