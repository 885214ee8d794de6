// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="avx512 tiles=bf16,i8"}' | filecheck %s --check-prefix SCHEDULE
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="avx512"}' | filecheck %s --check-prefix PLAIN
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="avx512 tiles=bf16,i8"},convert-structured-to-loops' | filecheck %s

// Two by two tiles of sums take all registers; columns are copied in pairs, rows are read where they are.
func.func private @pairs(%a: memref<64x64xbf16>, %b: memref<64x32xbf16>, %o: memref<64x32xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<64x32xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x64xbf16>, memref<64x32xbf16>) outs(%o : memref<64x32xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %v = arith.extf %x : bf16 to f32
    %w = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %w : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// SCHEDULE-LABEL: @pairs
// SCHEDULE: jam_count = 32 : i64, pack = 1 : i64, jam_block = 64 : i64, dot = 2 : i64, depth = 2 : i64, tile = 16 : i64, vector_block = 32 : i64, pack_block = {{[0-9]+}} : i64}
// PLAIN-LABEL: @pairs
// PLAIN-NOT: tile
// CHECK-LABEL: @pairs
// CHECK: %[[PANEL:.*]] = memref.alloc() : memref<32x32x2xbf16>
// CHECK: vector.shuffle {{.*}}[0, 16, 1, 17
// CHECK-COUNT-4: amx.tile_zero : !amx.tile<16x16xf32>
// CHECK: scf.for
// CHECK-COUNT-2: amx.tile_load %[[PANEL]]{{.*}} : memref<32x32x2xbf16> into !amx.tile<16x32xbf16>
// CHECK: amx.tile_load %a{{.*}} : memref<64x64xbf16> into !amx.tile<16x32xbf16>
// CHECK-COUNT-2: amx.tile_mulf
// CHECK: amx.tile_load %a
// CHECK-COUNT-2: amx.tile_mulf
// CHECK: scf.yield
// CHECK-COUNT-4: amx.tile_store %o

// -----

// At the edges tiles are smaller. The last step along the sum is filled with zeros, in copies of both operands.
func.func private @edges(%a: memref<50x70xbf16>, %b: memref<70x40xbf16>, %o: memref<50x40xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<50x70xbf16>, memref<70x40xbf16>) outs(%o : memref<50x40xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %v = arith.extf %x : bf16 to f32
    %w = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %w : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// SCHEDULE-LABEL: @edges
// SCHEDULE: pack_jam = 0 : i64
// CHECK-LABEL: @edges
// CHECK-DAG: arith.constant dense<0.000000e+00> : vector<32xbf16>
// CHECK: memref.alloc() : memref<48x48x2xbf16>
// CHECK: memref.alloc() : memref<50x48x2xbf16>
// CHECK: amx.tile_load %o{{.*}} into !amx.tile<16x16xf32>
// CHECK: amx.tile_mulf {{.*}} : !amx.tile<2x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<2x16xf32>
// CHECK: amx.tile_mulf {{.*}} : !amx.tile<16x32xbf16>, !amx.tile<16x16xbf16>, !amx.tile<16x8xf32>
// CHECK: amx.tile_mulf {{.*}} : !amx.tile<2x32xbf16>, !amx.tile<16x16xbf16>, !amx.tile<2x8xf32>

// -----

// Bytes of either sign: none is changed, and nothing has to be corrected.
func.func private @fours(%a: memref<32x128xi8>, %b: memref<128x32xi8>, %o: memref<32x32xi32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<32x128xi8>, memref<128x32xi8>) outs(%o : memref<32x32xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %v = arith.extsi %x : i8 to i32
    %w = arith.extui %y : i8 to i32
    %p = arith.muli %v, %w : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  }
  func.return
}
// CHECK-LABEL: @fours
// CHECK-NOT: arith.xori
// CHECK: memref.alloc() : memref<32x32x4xi8>
// CHECK: amx.tile_muli %{{.*}}, %{{.*}} zext, %{{.*}} : !amx.tile<16x64xi8>, !amx.tile<16x64xi8>, !amx.tile<16x16xi32>

// -----

// What is done to the sums shares strips with the product; the columns are copied before all of them.
func.func private @epilogue(%a: memref<128x64xbf16>, %b: memref<64x64xbf16>, %o: memref<128x64xbf16>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<128x64xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<128x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<128x64xbf16>, memref<64x64xbf16>) outs(%sums : memref<128x64xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %v = arith.extf %x : bf16 to f32
    %w = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %w : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%sums : memref<128x64xf32>) outs(%o : memref<128x64xbf16>) {
  ^bb0(%x: f32, %y: bf16):
    %r = arith.truncf %x : f32 to bf16
    linalg.yield %r : bf16
  }
  func.return
}
// SCHEDULE-LABEL: @epilogue
// SCHEDULE-SAME: strips = array<i64: 64, 64>
// CHECK-LABEL: @epilogue
// CHECK: memref.alloc() : memref<32x64x2xbf16>
// CHECK: "scf.parallel"
// CHECK: vector.store
// CHECK: "scf.parallel"
// CHECK: %[[SUMS:.*]] = memref.alloca() : memref<64x64xf32>
// CHECK: amx.tile_store %[[SUMS]]
// CHECK: vector.load %[[SUMS]]
// CHECK: arith.truncf
// CHECK: memref.dealloc
