// REQUIRES: mlir
// RUN: tenon-opt %s -o %t.mlir
// RUN: %mlir_opt %t.mlir -o %t.upstream.mlir
// RUN: filecheck %s --input-file %t.upstream.mlir

// Tiles of matrices read and print as upstream's, and upstream takes them.
func.func @tiles(%a: memref<64x64xbf16>, %b: memref<32x32x2xbf16>, %o: memref<64x32xf32>, %x: memref<16x64xi8>, %s: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = amx.tile_zero : !amx.tile<16x16xf32>
  %sum = scf.for %k = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (!amx.tile<16x16xf32>) {
    %l = amx.tile_load %a[%c0, %k], %s : memref<64x64xbf16> into !amx.tile<16x32xbf16>
    %r = amx.tile_load %b[%k, %c0, %c0], %s : memref<32x32x2xbf16> into !amx.tile<16x32xbf16>
    %p = amx.tile_mulf %l, %r, %acc : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
    scf.yield %p : !amx.tile<16x16xf32>
  }
  amx.tile_store %o[%c0, %c0], %sum, %s : memref<64x32xf32>, !amx.tile<16x16xf32>
  %f = amx.tile_load %x[%c0, %c0], %s : memref<16x64xi8> into !amx.tile<16x64xi8>
  %g = amx.tile_load %x[%c0, %c0], %s : memref<16x64xi8> into !amx.tile<16x64xi8>
  %z = amx.tile_zero : !amx.tile<16x16xi32>
  %u = amx.tile_muli %f zext, %g, %z : !amx.tile<16x64xi8>, !amx.tile<16x64xi8>, !amx.tile<16x16xi32>
  %v = amx.tile_muli %f, %g zext, %u : !amx.tile<16x64xi8>, !amx.tile<16x64xi8>, !amx.tile<16x16xi32>
  func.return
}
// CHECK: amx.tile_zero : !amx.tile<16x16xf32>
// CHECK: amx.tile_mulf
// CHECK: amx.tile_store
// CHECK: amx.tile_muli {{.*}} zext, %{{.*}}, %
