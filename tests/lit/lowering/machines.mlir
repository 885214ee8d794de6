// RUN: tenon-opt %s --split-input-file -p schedule | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine=avx2}' | filecheck %s --check-prefix AVX2
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine=neon}' | filecheck %s --check-prefix NEON
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="l2=65536 halves=true"}' | filecheck %s --check-prefix SMALL
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="halves=true"}' | filecheck %s --check-prefix HALVES
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="avx2 l1=65536"}' | filecheck %s --check-prefix NEAR
// RUN: not tenon-opt %s --split-input-file -p 'schedule{machine=avx3}' 2>&1 | filecheck %s --check-prefix NAME
// RUN: not tenon-opt %s --split-input-file -p 'schedule{machine="l4=1"}' 2>&1 | filecheck %s --check-prefix FACT
// RUN: not tenon-opt %s --split-input-file -p 'schedule{machine="l2=big"}' 2>&1 | filecheck %s --check-prefix VALUE
// RUN: not tenon-opt %s --split-input-file -p 'convert-structured-to-loops{machine="line=0"}' 2>&1 | filecheck %s --check-prefix LEAST

// A tile takes three quarters of the registers: 24 of 32, or 12 of 16. Neon has as many registers as AVX-512, of a
// quarter of the size. Where the second operand, of 128 KiB, outgrows the nearest cache, it is copied to panels; where
// products take two halves of a vector each, only where it outgrows the cache of a core.
func.func private @matmul(%a: memref<192x128xf32>, %b: memref<128x256xf32>, %o: memref<192x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<192x128xf32>, memref<128x256xf32>) outs(%o : memref<192x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64}
// AVX2-LABEL: @matmul
// AVX2: schedule = {vector = 1 : i64, width = 8 : i64, unroll = 2 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64}
// NEON-LABEL: @matmul
// NEON: schedule = {vector = 1 : i64, width = 4 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64}
// HALVES-LABEL: @matmul
// HALVES: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64}
// SMALL-LABEL: @matmul
// SMALL: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64, fetch_jam = 0 : i64}

// -----

// Columns of a matrix are added up in strips, whose sums take half of the nearest cache.
func.func private @columns(%x: memref<4096x8192xf32>, %o: memref<8192xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : memref<4096x8192xf32>) outs(%o : memref<8192xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// AVX2-LABEL: @columns
// AVX2: strip = 4096 : i64
// NEAR-LABEL: @columns
// NEAR: strip = 8192 : i64
// NAME:  schedule: machine is 'avx3', none of generic, avx512, avx2, sse, neon
// FACT:  schedule: machine has no fact 'l4', its facts are vector-bits, registers, part-bits, l1, l2, l3, line, page, scaling, multiply-add, halves, dots
// VALUE: schedule: machine has l2=big, expected an integer
// LEAST: convert-structured-to-loops: line is 0, expected at least 8
