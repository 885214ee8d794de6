// RUN: tenon-opt %s --split-input-file -p 'schedule{vector-bits=512 dots=bf16,i8}' | filecheck %s --check-prefix SCHEDULE
// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512} | filecheck %s --check-prefix PLAIN
// RUN: tenon-opt %s --split-input-file -p 'schedule{vector-bits=512 dots=bf16,i8},convert-structured-to-loops' | filecheck %s

// Lanes take pairs along the reduction: from a panel in which rows of %b are interleaved, and from %a as it is.
func.func private @pairs(%a: memref<32x9xbf16>, %b: memref<9x16xbf16>, %o: memref<32x16xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<32x9xbf16>, memref<9x16xbf16>) outs(%o : memref<32x16xf32>) {
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
// SCHEDULE: pack = 1 : i64, dot = 2 : i64, depth = 2 : i64}
// PLAIN-LABEL: @pairs
// PLAIN-NOT: dot =
// CHECK-LABEL: @pairs
// CHECK: %[[PANEL:.*]] = memref.alloc() : memref<5x16x2xbf16>
// CHECK: %[[FLAT:.*]] = memref.collapse_shape %[[PANEL]]
// CHECK: vector.shuffle {{.*}}[0, 16, 1, 17
// CHECK: vector.store {{.*}}, %[[FLAT]]
// CHECK: %[[ODD:.*]] = vector.load %b
// CHECK: vector.shuffle %[[ODD]], %{{.*}}[0, 16, 1, 17
// CHECK: scf.for
// CHECK: %[[ROW:.*]] = vector.load %a{{.*}} : memref<32x9xbf16>, vector<2xbf16>
// CHECK: %[[ROWS:.*]] = vector.broadcast %[[ROW]] : vector<2xbf16> to vector<16x2xbf16>
// CHECK: arith.extf %[[ROWS]] : vector<16x2xbf16> to vector<16x2xf32>
// CHECK: vector.load %[[PANEL]]{{.*}} : memref<5x16x2xbf16>, vector<16x2xbf16>
// CHECK: vector.contract {{.*}} : vector<16x2xf32>, vector<16x2xf32> into vector<16xf32>
// CHECK: vector.maskedload %a{{.*}} into vector<2xbf16>
// CHECK: vector.contract

// -----

// Both operands are signed: that of the rows is copied as unsigned numbers, 128 more, and the sums are corrected.
func.func private @fours(%a: memref<32x64xi8>, %b: memref<64x16xi8>, %o: memref<32x16xi32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<32x64xi8>, memref<64x16xi8>) outs(%o : memref<32x16xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %v = arith.extsi %x : i8 to i32
    %w = arith.extsi %y : i8 to i32
    %p = arith.muli %v, %w : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  }
  func.return
}
// SCHEDULE-LABEL: @fours
// SCHEDULE: pack = 1 : i64, pack_jam = 0 : i64, jam_block = 32 : i64, dot = 2 : i64, depth = 4 : i64}
// CHECK-LABEL: @fours
// CHECK: %[[SCALE:.*]] = arith.constant dense<-128> : vector<16xi32>
// CHECK: %[[ROWS:.*]] = memref.alloc() : memref<32x16x4xi8>
// CHECK: %[[ROW:.*]] = vector.load %a{{.*}} vector<64xi8>
// CHECK: arith.xori %[[ROW]]
// CHECK: %[[COLUMNS:.*]] = memref.alloc() : memref<16x16x4xi8>
// CHECK: %[[CORRECTIONS:.*]] = memref.alloc() : memref<16xi32>
// CHECK: arith.muli %{{.*}}, %[[SCALE]] : vector<16xi32>
// CHECK: vector.store {{.*}}, %[[CORRECTIONS]]
// CHECK: vector.load %[[CORRECTIONS]]
// CHECK: scf.for
// CHECK: arith.ext{{.}}i
// CHECK: vector.contract {{.*}} : vector<16x4xi32>, vector<16x4xi32> into vector<16xi32>

// -----

// Groups of rows that are not neighbours in memory are interleaved, and transposed in squares of 16 groups.
func.func private @fours_across(%a: memref<64x32xi8>, %b: memref<64x32xi8>, %o: memref<32x32xi32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x32xi8>, memref<64x32xi8>) outs(%o : memref<32x32xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %v = arith.extsi %x : i8 to i32
    %w = arith.extsi %y : i8 to i32
    %p = arith.muli %v, %w : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  }
  func.return
}
// CHECK-LABEL: @fours_across
// CHECK: %[[ROWS:.*]] = memref.alloc() : memref<32x16x4xi8>
// CHECK: %[[FLAT:.*]] = memref.collapse_shape %[[ROWS]]
// CHECK-COUNT-64: vector.load %a{{.*}} vector<16xi8>
// CHECK: vector.bitcast {{.*}} : vector<64xi8> to vector<16xi32>
// CHECK-COUNT-16: vector.store {{.*}}, %[[FLAT]]

// -----

// Columns that are a single vector would have a row loaded for one product each: lanes have the rows, which are neighbours
// in %a, and sums are transposed on their way to memory.
func.func private @columns_of_one_vector(%a: memref<64x32xi8>, %b: memref<64x16xi8>, %o: memref<32x16xi32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x32xi8>, memref<64x16xi8>) outs(%o : memref<32x16xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %v = arith.extsi %x : i8 to i32
    %w = arith.extsi %y : i8 to i32
    %p = arith.muli %v, %w : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  }
  func.return
}
// SCHEDULE-LABEL: @columns_of_one_vector
// SCHEDULE: schedule = {vector = 0 : i64, width = 16 : i64, unroll = 2 : i64, jam = 1 : i64,{{.*}} pack = 0 : i64, pack_jam = 1 : i64,{{.*}} dot = 2 : i64, depth = 4 : i64}

// -----

// An unsigned operand beside a signed one is what processors multiply: nothing is copied for its sign.
func.func private @unsigned_by_signed(%a: memref<32x64xi8>, %b: memref<64x16xi8>, %o: memref<32x16xi32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<32x64xi8>, memref<64x16xi8>) outs(%o : memref<32x16xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %v = arith.extui %x : i8 to i32
    %w = arith.extsi %y : i8 to i32
    %p = arith.muli %v, %w : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  }
  func.return
}
// SCHEDULE-LABEL: @unsigned_by_signed
// SCHEDULE: pack = 1 : i64, dot = 2 : i64, depth = 4 : i64}

// -----

// With few rows to share a copy of %b, it is read as it is.
func.func private @few_rows(%a: memref<4x64xbf16>, %b: memref<64x16xbf16>, %o: memref<4x16xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x64xbf16>, memref<64x16xbf16>) outs(%o : memref<4x16xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %v = arith.extf %x : bf16 to f32
    %w = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %w : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// SCHEDULE-LABEL: @few_rows
// SCHEDULE-NOT: dot =
