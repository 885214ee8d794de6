// REQUIRES: mlir
// RUN: tenon-opt %s -p fuse,convert-tensor-to-structured -o %t.structured.mlir
// RUN: %mlir_opt %t.structured.mlir | filecheck %s
// RUN: tenon-opt %t.structured.mlir -p erase-narrow-types,bufferize | %mlir_opt -o %t.buffered.mlir
// RUN: filecheck %s --input-file %t.buffered.mlir --check-prefix BYTES

// Upstream reads the types, numbers of them in each of their forms, and the conversions.
func.func @main(%x: tensor<8xf8E8M0FNU>, %y: tensor<8xf8E4M3FNUZ>) -> (tensor<8xf4E2M1FN>, tensor<8xi2>, tensor<4xf8E5M2>, tensor<2xi4>) {
  %a = tenon.cast %x {dtype = f4E2M1FN} : tensor<8xf8E8M0FNU> -> tensor<8xf4E2M1FN>
  %b = tenon.cast %y {dtype = i2} : tensor<8xf8E4M3FNUZ> -> tensor<8xi2>
  %c = tenon.constant {value = dense<[0x7E, 0xFC, -0.0, 57344.0]> : tensor<4xf8E5M2>} : tensor<4xf8E5M2>
  %d = tenon.constant {value = dense<[-8, 7]> : tensor<2xi4>} : tensor<2xi4>
  func.return %a, %b, %c, %d : tensor<8xf4E2M1FN>, tensor<8xi2>, tensor<4xf8E5M2>, tensor<2xi4>
}
// CHECK:     arith.constant dense<[-8, 7]> : tensor<2xi4>
// CHECK:     arith.extf %{{.*}} : f8E8M0FNU to f32
// CHECK:     arith.truncf %{{.*}} : f32 to f4E2M1FN
// CHECK:     arith.fptosi %{{.*}} : f32 to i2
// BYTES-NOT: xf8
// BYTES-NOT: xi4
