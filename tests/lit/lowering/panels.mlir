// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | filecheck %s

// The tile of the transposed operand is copied once, in squares of 4 by 4, and read by all rows.
func.func private @matmul_transposed(%a: memref<6x8xf32>, %b: memref<8x8xf32>, %o: memref<6x8xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<6x8xf32>, memref<8x8xf32>) outs(%o : memref<6x8xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack = 1}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_transposed
// CHECK: scf.parallel
// CHECK: %[[PANEL:.*]] = memref.alloc() : memref<8x4xf32>
// CHECK: scf.parallel
// CHECK-COUNT-4: vector.load %b
// CHECK-COUNT-8: vector.shuffle
// CHECK-COUNT-4: vector.store {{.*}}, %[[PANEL]]
// CHECK: scf.parallel
// CHECK: scf.for
// CHECK: vector.load %[[PANEL]]
// CHECK-COUNT-3: vector.fma
// CHECK: memref.dealloc %[[PANEL]]

// -----

// What is widened is copied as what it is widened to: rows and columns, each once.
func.func private @widened(%a: memref<6x8xf16>, %b: memref<8x4xf16>, %o: memref<6x4xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<6x8xf16>, memref<8x4xf16>) outs(%o : memref<6x4xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack = 1, pack_jam = 0, jam_block = 6}} {
  ^bb0(%x: f16, %y: f16, %acc: f32):
    %v = arith.extf %x : f16 to f32
    %w = arith.extf %y : f16 to f32
    %p = arith.mulf %v, %w : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @widened
// CHECK: %[[ROWS:.*]] = memref.alloc() : memref<6x8xf32>
// CHECK: %[[ROW:.*]] = arith.extf %{{.*}} : vector<4xf16> to vector<4xf32>
// CHECK-NEXT: vector.store %[[ROW]], %[[ROWS]]
// CHECK: %[[COLUMNS:.*]] = memref.alloc() : memref<8x4xf32>
// CHECK: %[[COLUMN:.*]] = arith.extf %{{.*}} : vector<4xf16> to vector<4xf32>
// CHECK-NEXT: vector.store %[[COLUMN]], %[[COLUMNS]]
// CHECK-NOT: arith.extf
// CHECK: vector.fma
// CHECK-NOT: arith.extf
// CHECK: func.return

// -----

// Between blocks of the reduction the output holds partial sums; rows are copied block by block, in squares of 4 by 4,
// so that each is contiguous along the reduction.
func.func private @blocks(%a: memref<8x6xf32>, %b: memref<8x4xf32>, %o: memref<6x4xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<6x4xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<8x6xf32>, memref<8x4xf32>) outs(%o : memref<6x4xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack_jam = 0, jam_block = 6, block = 4}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @blocks
// CHECK: vector.store {{.*}}, %o
// CHECK: scf.for
// CHECK: %[[ROWS:.*]] = memref.alloc() : memref<6x4xf32>
// CHECK-COUNT-4: vector.load %a
// CHECK-COUNT-8: vector.shuffle
// CHECK-COUNT-4: vector.store {{.*}}, %[[ROWS]]
// CHECK: vector.load %o
// CHECK: memref.load %[[ROWS]]
// CHECK: vector.fma

// -----

// The rows of a panel do not lie a multiple of a quarter of a page apart: they would share few sets of the cache.
func.func private @rows_apart(%a: memref<256x6xf32>, %b: memref<256x4xf32>, %o: memref<6x4xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<256x6xf32>, memref<256x4xf32>) outs(%o : memref<6x4xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack = 1, pack_jam = 0, jam_block = 6}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @rows_apart
// CHECK: memref.alloc() : memref<6x272xf32>
// CHECK: memref.alloc() : memref<256x4xf32>

// -----

// Of two loops that are summed over the one of a single iteration is not last, where it would be padded.
func.func private @one_of_each(%a: memref<20x1x6xf32>, %b: memref<20x1x4xf32>, %o: memref<6x4xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3, d0)>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%a, %b : memref<20x1x6xf32>, memref<20x1x4xf32>) outs(%o : memref<6x4xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack = 1, pack_jam = 0, jam_block = 6}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @one_of_each
// CHECK: memref.alloc() : memref<6x1x20xf32>
// CHECK: memref.alloc() : memref<1x20x4xf32>

// -----

// Rows of an input that outgrows the cache are fetched before they are copied: those of %a
// four later, as they are copied in squares of 4 by 4, those of %b 16.
func.func private @far_rows(%a: memref<16384x32xf32>, %b: memref<16384x32xf32>, %o: memref<32x32xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<16384x32xf32>, memref<16384x32xf32>) outs(%o : memref<32x32xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 4, pack = 1, pack_jam = 0, jam_block = 8}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @far_rows
// CHECK: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK: %[[SIXTEEN:.*]] = arith.constant 16 : index
// CHECK: ^bb0(%[[K:.*]]: index, %[[I:.*]]: index):
// CHECK-NEXT: %[[LATER:.*]] = arith.addi %[[K]], %[[FOUR]] : index
// CHECK-NEXT: %[[ROW:.*]] = arith.addi %{{.*}}, %[[I]] : index
// CHECK-NEXT: memref.prefetch %a[%[[LATER]], %[[ROW]]], read
// CHECK: vector.load %a[%[[K]], %[[ROW]]]
// CHECK: ^bb0(%[[J:.*]]: index):
// CHECK: ^bb0(%[[L:.*]]: index):
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[L]], %[[SIXTEEN]] : index
// CHECK-NEXT: memref.prefetch %b[%[[NEXT]], %[[J]]], read
// CHECK-NEXT: vector.load %b[%[[L]], %[[J]]]

// -----

// What does not fill a vector has a panel along the reduction, and its sums are those of lanes combined: for the same
// rows, behind the vectors.
func.func private @rest(%a: memref<6x8xf32>, %b: memref<8x5xf32>, %o: memref<6x5xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<6x8xf32>, memref<8x5xf32>) outs(%o : memref<6x5xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 3, pack = 1, rest = 2}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @rest
// CHECK: %[[FULL:.*]] = memref.alloc() : memref<8x4xf32>
// CHECK: %[[REST:.*]] = memref.alloc() : memref<1x8xf32>
// CHECK: scf.parallel
// CHECK: vector.load %[[FULL]]
// CHECK-COUNT-3: vector.fma
// CHECK: vector.load %a
// CHECK: vector.load %[[REST]]
// CHECK-COUNT-3: vector.fma
// CHECK-COUNT-3: vector.reduction
