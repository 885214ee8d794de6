// REQUIRES: nvrtc
// RUN: tenon explain %s --target cuda:sm_90a | filecheck %s

// On a GPU: what each decider says, the tiles that the chosen one has, what the kernel takes, and the time predicted.
func.func @main(%x: tensor<2048x2048xbf16>, %y: tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
  %r = tenon.matmul %x, %y : tensor<2048x2048xbf16>, tensor<2048x2048xbf16> -> tensor<2048x2048xbf16>
  func.return %r : tensor<2048x2048xbf16>
}
// CHECK:      kernel_0: parallel 2048, parallel 2048, reduction 2048 f32; parallel 2048, parallel 2048 bf16
// CHECK-NEXT:   tenon.matmul ({{.*}}explain_cuda.mlir:6)
// CHECK-NEXT:   calls  predicted_us  bound       blocks  threads  registers  shared
// CHECK-NEXT:   1      {{[0-9.]+ +}}arithmetic  128     288
// CHECK-NEXT:   transposes: a statement reduces
// CHECK:        warpgroup instructions: chosen
// CHECK-NEXT:     tile     blocks  cycles  bound
// CHECK-NEXT:     128x256  128     {{[0-9]+ +}}latency
// CHECK:          contract(kf, wgmma)
// CHECK:        matrix instructions: possible as well
// CHECK:      predicted for one launch of each, by the data sheet of sm_90a: {{[0-9.]+}} us
