// RUN: env TENON_VECTOR_BITS=512 tenon explain %s | filecheck %s
// RUN: env TENON_VECTOR_BITS=512 tenon explain %s --json | filecheck %s --check-prefix JSON
// RUN: not tenon explain %s --target cuda 2>&1 | filecheck %s --check-prefix TARGET

// On a CPU: the ways there are for the statements of a kernel, which loops could be vectors, and what is against the
// others.
func.func @main(%x: tensor<20x33xf32>, %y: tensor<33x48xf32>) -> (tensor<20x48xf32>, tensor<20x33xf32>) {
  %p = tenon.matmul %x, %y : tensor<20x33xf32>, tensor<33x48xf32> -> tensor<20x48xf32>
  %s = tenon.softmax %x {axis = 1} : tensor<20x33xf32> -> tensor<20x33xf32>
  func.return %p, %s : tensor<20x48xf32>, tensor<20x33xf32>
}
// CHECK:      kernel_0: parallel 20, parallel 48, reduction 33 f32
// CHECK-NEXT:   tenon.matmul ({{.*}}explain.mlir:8)
// CHECK-NEXT:   calls  read  written  operations
// CHECK-NEXT:   1      8976  3840     63360
// CHECK-NEXT:   each statement alone: chosen
// CHECK-NEXT:     statement  loop  kind       iterations  width  filled  obstacle
// CHECK-NEXT:     0          0     parallel   20          16     -       an access to memref<20x48xf32> has no unit stride along it
// CHECK-NEXT:     0          1     parallel   48          16     16.0    -
// CHECK-NEXT:     0          2     reduction  33          16     -       an access to memref<33x48xf32> has no unit stride along it
// CHECK-NEXT:     statement 0: vector 1, width 16
// CHECK-NEXT: kernel_1: parallel 20, reduction 33 f32; parallel 20, parallel 33 f32;
// CHECK:        strips: no contraction has a tile along loops that all statements share
// CHECK-NEXT:   own loops: chosen
// CHECK:        shared loop 0: no lanes along it for statement 0, 2

// JSON:      "target": "cpu"
// JSON:      "kernel": "kernel_0"
// JSON:      "name": "each statement alone"
// JSON-NEXT: "obstacle": null
// JSON-NEXT: "chosen": true

// TARGET: tenon: error: target 'cuda' is neither cpu nor cuda:ARCH, such as cuda:sm_90
