// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512} | filecheck %s
// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=0} | filecheck %s --check-prefix SCALAR
// RUN: tenon-opt %s --split-input-file -p 'schedule{machine="halves=true"}' | filecheck %s --check-prefix HALVES

// As many vectors along contiguous elements as keep the processor busy.
func.func private @contiguous_elements(%x: memref<4096xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @contiguous_elements
// CHECK-NEXT:    linalg.generic {{.*}} {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 2 : i64}}

// -----

// A wide number that is one for all lanes makes none of them wider, such as that of a row.
func.func private @wide_scalars(%x: memref<4096x64xf32>, %p: memref<50xi64>, %o: memref<50x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : memref<50xi64>) outs(%o : memref<50x64xf32>) {
  ^bb0(%q: i64, %acc: f32):
    %r = arith.index_cast %q : i64 to index
    %j = linalg.index 1 : index
    %v = memref.load %x[%r, %j] : memref<4096x64xf32>
    linalg.yield %v : f32
  }
  func.return
}
// CHECK-LABEL: @wide_scalars
// CHECK-NEXT:    linalg.generic {{.*}} {schedule = {vector = 1 : i64, width = 16 : i64

// -----

// So are those of which the inner one goes over a dimension in steps that divide it.
func.func private @collapsed_steps(%x: memref<3x10xf32>, %o: memref<3x5xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j * 2 + 1)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<3x10xf32>) outs(%o : memref<3x5xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @collapsed_steps
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0) -> (((d0 * 2) + 1))>, affine_map<(d0) -> (d0)>]
// CHECK-SAME:    memref<30xf32>

// -----

// The loops over rows and columns are one where nothing tells them apart.
func.func private @collapsed_loops(%x: memref<3x5xf32>, %o: memref<3x5xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<3x5xf32>) outs(%o : memref<3x5xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @collapsed_loops
// CHECK:         [[X:%.*]] = memref.collapse_shape %x {{.*}} into memref<15xf32>
// CHECK-NEXT:    linalg.generic {{.*}} iterator_types = ["parallel"]} ins([[X]] :

// -----

// The sum of each row goes along the row, in several vectors that are combined at its end.
func.func private @sums_of_rows(%x: memref<64x1024xf32>, %o: memref<64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x1024xf32>) outs(%o : memref<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @sums_of_rows
// CHECK-NEXT:    linalg.generic {{.*}} {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64}}

// -----

// What is decided in the text stays.
func.func private @decided(%x: memref<4096xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096xf32>) outs(%o : memref<4096xf32>) attrs = {schedule = {vector = 0 : i64, width = 2 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @decided
// CHECK-NEXT:    linalg.generic {{.*}} {schedule = {vector = 0 : i64, width = 2 : i64}}

// -----

// The contiguous loop of the result is vectorized; rows are computed together, since they share the loads of %b.
func.func private @matmul(%a: memref<64x32xf32>, %b: memref<32x128xf32>, %o: memref<64x128xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x32xf32>, memref<32x128xf32>) outs(%o : memref<64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64}
// SCALAR-LABEL: @matmul
// SCALAR-NOT: schedule

// -----

// With few rows to share a copy, the iterations of the reduced loop become the lanes.
func.func private @matmul_transposed_few_rows(%a: memref<4x32xf32>, %b: memref<128x32xf32>, %o: memref<4x128xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x32xf32>, memref<128x32xf32>) outs(%o : memref<4x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_transposed_few_rows
// CHECK: schedule = {vector = 2 : i64, width = 16 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 8 : i64}

// -----

// Where the reduced loop is the contiguous one of both operands, the other operand is copied to panels of 64 columns.
func.func private @matmul_transposed(%a: memref<64x32xf32>, %b: memref<128x32xf32>, %o: memref<64x128xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x32xf32>, memref<128x32xf32>) outs(%o : memref<64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_transposed
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64}

// -----

// They share the loads of the operand that would have to be fetched again: here %b, which is read once for all rows.
func.func private @matmul_transposed_read_once(%a: memref<3x1024xf32>, %b: memref<512x1024xf32>, %o: memref<3x512xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<3x1024xf32>, memref<512x1024xf32>) outs(%o : memref<3x512xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_transposed_read_once
// CHECK: schedule = {vector = 2 : i64, width = 16 : i64, unroll = 2 : i64, jam = 0 : i64, jam_count = 3 : i64}

// -----

// A result that outgrows the cache is written along its rows, if the columns stay in there.
func.func private @large_result(%a: memref<1024x8xf32>, %b: memref<8x1024xf32>, %o: memref<1024x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<1024x8xf32>, memref<8x1024xf32>) outs(%o : memref<1024x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @large_result
// CHECK: schedule = {{{.*}}jam_count = 6 : i64, jam_block = 6 : i64}

// -----

// Beside an operand that is streamed, strips are as wide as can be: without %w they would have 64 columns.
func.func private @update(%x: memref<128x512xf32>, %y: memref<128x784xf32>, %w: memref<512x784xf32>, %o: memref<512x784xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<512x784xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<512x784xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : memref<128x512xf32>, memref<128x784xf32>) outs(%s : memref<512x784xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%s, %w : memref<512x784xf32>, memref<512x784xf32>) outs(%o : memref<512x784xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.subf %b, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK: @update({{.*}}strips = array<i64: 36, 832>

// -----

// Columns that outgrow the cache are copied in strips, too, which have the more rows then.
func.func private @with_bias(%x: memref<256x1024xf32>, %w: memref<1024x1024xf32>, %b: memref<1024xf32>, %o: memref<256x1024xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<256x1024xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<256x1024xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<256x1024xf32>, memref<1024x1024xf32>) outs(%s : memref<256x1024xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%s, %b : memref<256x1024xf32>, memref<1024xf32>) outs(%o : memref<256x1024xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK: @with_bias({{.*}}strips = array<i64: 258, 64>
// CHECK: schedule = {{{.*}}pack = 1 : i64

// -----

// So they are beside an operand that is streamed, if there are many products for each of its bytes.
func.func private @scaled(%x: memref<2048x256xf32>, %w: memref<256x256xf32>, %b: memref<2048x256xf32>, %o: memref<2048x256xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<2048x256xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<2048x256xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<2048x256xf32>, memref<256x256xf32>) outs(%s : memref<2048x256xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%s, %b : memref<2048x256xf32>, memref<2048x256xf32>) outs(%o : memref<2048x256xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.mulf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @scaled
// CHECK: schedule = {{{.*}}pack = 1 : i64

// -----

// Sums that are long are cut into blocks, so that a panel of columns stays in the cache, in strips as well.
func.func private @long_sums(%x: memref<256x8192xf32>, %w: memref<8192x512xf32>, %b: memref<512xf32>, %o: memref<256x512xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<256x512xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<256x512xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<256x8192xf32>, memref<8192x512xf32>) outs(%s : memref<256x512xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%s, %b : memref<256x512xf32>, memref<512xf32>) outs(%o : memref<256x512xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK: @long_sums
// CHECK: schedule = {{{.*}}pack = 1 : i64, block = 2048 : i64}

// -----

// Of few columns all are in one vector, some lanes of which are left out. The rows, too many to stay near, are fetched a
// tile ahead.
func.func private @ten_columns(%a: memref<128x256xf32>, %b: memref<256x10xf32>, %o: memref<128x10xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<128x256xf32>, memref<256x10xf32>) outs(%o : memref<128x10xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @ten_columns
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 8 : i64, fetch_jam = 0 : i64}

// -----

// A small sum over many rows of both operands takes a few of those at a time.
func.func private @tall(%a: memref<60000x128xf32>, %b: memref<60000x64xf32>, %o: memref<128x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<60000x128xf32>, memref<60000x64xf32>) outs(%o : memref<128x64xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @tall
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, rows = 96 : i64, strip = 64 : i64, split = 3840 : i64, ahead = 96 : i64}

// -----

// Operands that outgrow the cache are copied: columns in panels of a tile, rows where the reduction does not run along them.
func.func private @matmul_large(%a: memref<1024x4096xf32>, %b: memref<4096x1024xf32>, %o: memref<1024x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<1024x4096xf32>, memref<4096x1024xf32>) outs(%o : memref<1024x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_large
// CHECK: schedule = {{{.*}}jam_count = 6 : i64, pack = 1 : i64, block = 2048 : i64}
func.func private @matmul_transposed_rows(%a: memref<1024x1024xf32>, %b: memref<1024x1024xf32>, %o: memref<1024x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<1024x1024xf32>, memref<1024x1024xf32>) outs(%o : memref<1024x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// Partial sums of more than an eighth of the cache would be read and written too often: here a half. Where a copy
// serves few tiles they stay.
func.func private @weight_gradient(%a: memref<8192x512xf32>, %b: memref<8192x256xf32>, %o: memref<512x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<8192x512xf32>, memref<8192x256xf32>) outs(%o : memref<512x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
func.func private @of_few_columns(%a: memref<8192x512xf32>, %b: memref<8192x192xf32>, %o: memref<512x192xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<8192x512xf32>, memref<8192x192xf32>) outs(%o : memref<512x192xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @matmul_transposed_rows
// CHECK: schedule = {{{.*}}jam_count = 6 : i64, pack = 1 : i64, pack_jam = 0 : i64, jam_block = 1026 : i64}
// CHECK-LABEL: @weight_gradient
// CHECK: schedule = {{{.*}}pack_jam = 0
// CHECK-LABEL: @of_few_columns
// CHECK: schedule = {{{.*}}rows = 96

// -----

// Where both are copied, a long reduction is cut so that a block has many rows.
func.func private @long_transposed_rows(%a: memref<4096x1024xf32>, %b: memref<4096x512xf32>, %o: memref<1024x512xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4096x1024xf32>, memref<4096x512xf32>) outs(%o : memref<1024x512xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @long_transposed_rows
// CHECK: schedule = {{{.*}}pack = 1 : i64, pack_jam = 0 : i64, jam_block = 1026 : i64, block = 1024 : i64}

// -----

// Columns that outgrow the nearest cache are copied for many rows, not for a few; where products take two halves of a
// vector, those that take more than half of a core's cache, for more rows.
func.func private @many_rows(%a: memref<512x1024xf32>, %b: memref<1024x256xf32>, %o: memref<512x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<512x1024xf32>, memref<1024x256xf32>) outs(%o : memref<512x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @many_rows
// CHECK: schedule = {{{.*}}pack = 1 : i64, fetch_jam = 0 : i64}
// HALVES-LABEL: @many_rows
// HALVES: schedule = {{{.*}}pack = 1 : i64, fetch_jam = 0 : i64}
func.func private @few_rows(%a: memref<504x1024xf32>, %b: memref<1024x256xf32>, %o: memref<504x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<504x1024xf32>, memref<1024x256xf32>) outs(%o : memref<504x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @few_rows
// CHECK: schedule = {{{.*}}pack = 1 : i64, fetch_jam = 0 : i64}
// HALVES-LABEL: @few_rows
// HALVES-NOT: pack
// HALVES: schedule = {{{.*}}fetch_jam = 0 : i64}
func.func private @fewer_rows(%a: memref<120x1024xf32>, %b: memref<1024x256xf32>, %o: memref<120x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<120x1024xf32>, memref<1024x256xf32>) outs(%o : memref<120x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @fewer_rows
// CHECK-NOT: pack
// CHECK: schedule = {{{.*}}fetch_jam = 0 : i64}

// -----

// Columns that stay in the cache are not copied where loads keep ahead of products, and blocks of rows leave them their
// place.
func.func private @transposed_rows_near_columns(%a: memref<1024x1024xf32>, %b: memref<1024x256xf32>, %o: memref<1024x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<1024x1024xf32>, memref<1024x256xf32>) outs(%o : memref<1024x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @transposed_rows_near_columns
// CHECK: schedule = {{{.*}}jam_count = 6 : i64, pack = 1 : i64, pack_jam = 0 : i64, jam_block = 1026 : i64}
// HALVES-LABEL: @transposed_rows_near_columns
// HALVES: schedule = {{{.*}}jam_count = 6 : i64, pack_jam = 0 : i64, jam_block = 96 : i64}

// -----

// Loops over which all operands are contiguous become one, on the GPU too.
func.func private @small_inner_dimensions(%x: memref<8x16x8x8xf32>, %o: memref<8x16x8x8xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : memref<8x16x8x8xf32>) outs(%o : memref<8x16x8x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @small_inner_dimensions
// CHECK: memref.collapse_shape %o {{.*}} into memref<8192xf32>
// CHECK: schedule = {vector = 0 : i64, width = 16 : i64, unroll = 2 : i64}
// SCALAR-LABEL: @small_inner_dimensions
// SCALAR: linalg.generic {{.*}} ins(%{{.*}} : memref<8192xf32>)

// -----

// Slices of rows are pieces of memory with gaps, which the processor does not foresee: rows half a page on are fetched.
func.func private @pieces(%x: memref<64x1024xf32>, %o: memref<64x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, (d1 + 512))>, affine_map<(d0, d1) -> (d0, (d1 + 768))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %x : memref<64x1024xf32>, memref<64x1024xf32>) outs(%o : memref<64x256xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @pieces
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 2 : i64, ahead = 2 : i64}

// -----

// Not where they stay near, and not where they are as long as a page.
func.func private @near_pieces(%x: memref<32x1024xf32>, %o: memref<32x256xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, (d1 + 512))>, affine_map<(d0, d1) -> (d0, (d1 + 768))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %x : memref<32x1024xf32>, memref<32x1024xf32>) outs(%o : memref<32x256xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @near_pieces
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 2 : i64}
func.func private @long_pieces(%x: memref<64x4096xf32>, %o: memref<64x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, (d1 + 2048))>, affine_map<(d0, d1) -> (d0, (d1 + 3072))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %x : memref<64x4096xf32>, memref<64x4096xf32>) outs(%o : memref<64x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @long_pieces
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 2 : i64}

// -----

// A decision in the text stands.
func.func private @pinned(%x: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) attrs = {schedule = {vector = 0 : i64, width = 4 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @pinned
// CHECK: schedule = {vector = 0 : i64, width = 4 : i64}

// -----

// Elements a few apart are loaded with what lies between them.
func.func private @every_other(%x: memref<64x65xf32>, %w: memref<3xf32>, %o: memref<64x32xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1 * 2 + d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<64x65xf32>, memref<3xf32>) outs(%o : memref<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @every_other
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64

// -----

// Where an input and the result are contiguous along different loops, square tiles are transposed in registers.
func.func private @transposed(%x: memref<64x48xf32>, %o: memref<48x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<64x48xf32>) outs(%o : memref<48x64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @transposed
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 16 : i64}

// -----

// Down the columns of long rows, a few rows are read together, in parts that threads share.
func.func private @columns(%x: memref<512x4096xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : memref<512x4096xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @columns
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, rows = 8 : i64, strip = 4096 : i64, split = 32 : i64, ahead = 16 : i64}

// -----

// Where few rows of products share an operand that outgrows the cache, it is streamed: with more rows, in longer blocks.
func.func private @three_rows(%a: memref<3x4096xf32>, %b: memref<4096x1024xf32>, %o: memref<3x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<3x4096xf32>, memref<4096x1024xf32>) outs(%o : memref<3x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @three_rows
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 3 : i64, rows = 8 : i64, strip = 1024 : i64, split = 256 : i64, ahead = 16 : i64}
func.func private @eight_rows(%a: memref<8x4096xf32>, %b: memref<4096x1024xf32>, %o: memref<8x1024xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<8x4096xf32>, memref<4096x1024xf32>) outs(%o : memref<8x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @eight_rows
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 3 : i64, jam = 0 : i64, jam_count = 8 : i64, rows = 64 : i64, strip = 512 : i64, ahead = 64 : i64}

// -----

// The best of a row and where it was: each lane looks for itself.
func.func private @argmax(%x: memref<64x1000xf32>, %v: memref<64xf32>, %o: memref<64xi64>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<64x1000xf32>) outs(%v, %o : memref<64xf32>, memref<64xi64>) {
  ^bb0(%a: f32, %best: f32, %where: i64):
    %better = arith.cmpf ogt, %a, %best : f32
    %value = arith.select %better, %a, %best : f32
    %index = linalg.index 1 : index
    %number = arith.index_cast %index : index to i64
    %place = arith.select %better, %number, %where : i64
    linalg.yield %value, %place : f32, i64
  }
  func.return
}
// CHECK-LABEL: @argmax
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64}

// -----

// Windows of neighbouring rows overlap: the taps from row to row are written out, for as many rows as registers hold.
func.func private @overlapping_windows(%x: memref<18x66xf32>, %w: memref<3x3xf32>, %o: memref<16x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0 + d2, d1 + d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : memref<18x66xf32>, memref<3x3xf32>) outs(%o : memref<16x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @overlapping_windows
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 8 : i64, taps = 2 : i64}

// They go together with no blocks of rows, however large the image is.
func.func private @overlapping_windows_of_columns(%x: memref<1084x1920xf32>, %w: memref<5xf32>, %o: memref<1080x1920xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0 + d2, d1)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<1084x1920xf32>, memref<5xf32>) outs(%o : memref<1080x1920xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @overlapping_windows_of_columns
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 8 : i64, taps = 2 : i64}

// However many images there are: they share nothing but the filter.
func.func private @windows_of_many_images(%x: memref<32x18x66xf32>, %w: memref<3x3xf32>, %o: memref<32x16x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(n, i, j, h, w) -> (n, i + h, j + w)>, affine_map<(n, i, j, h, w) -> (h, w)>, affine_map<(n, i, j, h, w) -> (n, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : memref<32x18x66xf32>, memref<3x3xf32>) outs(%o : memref<32x16x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @windows_of_many_images
// CHECK: schedule = {vector = 2 : i64, width = 16 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 8 : i64, taps = 3 : i64}

// -----

// Sums do not depend on the order of their loops: the rows of all batches are one reduction.
func.func private @gradient_of_weights(%g: memref<8x16x32xf32>, %x: memref<8x16x64xf32>, %o: memref<32x64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d3, d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d3, d0, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d2)>], iterator_types = ["reduction", "parallel", "parallel", "reduction"]} ins(%g, %x : memref<8x16x32xf32>, memref<8x16x64xf32>) outs(%o : memref<32x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @gradient_of_weights
// CHECK: linalg.generic {{{.*}}iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME: memref<128x32xf32>, memref<128x64xf32>

// -----

// The first of equal elements is the one that the loops meet first, so they stay in their order.
func.func private @first_of_equals(%x: memref<8x16xf32>, %o: memref<f32>, %p: memref<i64>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<8x16xf32>) outs(%o, %p : memref<f32>, memref<i64>) {
  ^bb0(%a: f32, %best: f32, %count: i64):
    %better = arith.cmpf ogt, %a, %best : f32
    %value = arith.select %better, %a, %best : f32
    %one = arith.constant 1 : i64
    %more = arith.addi %count, %one : i64
    %changes = arith.select %better, %more, %count : i64
    linalg.yield %value, %changes : f32, i64
  }
  func.return
}
// CHECK-LABEL: @first_of_equals
// CHECK: linalg.generic {{{.*}}iterator_types = ["reduction", "reduction"]} {{.*}}memref<8x16xf32>

// -----

// Strips end where tiles of columns do: one of 96 rows, as without a mask, would compute 32 columns that none of them sees.
func.func private @causal(%q: memref<256x32xf32>, %k: memref<32x256xf32>, %v: memref<256x32xf32>, %o: memref<256x32xf32>) attributes {kernel, num_inputs = 3 : i64, num_outputs = 1 : i64} {
  %sums = memref.alloc() : memref<256xf32>
  %shares = memref.alloc() : memref<256x256xf32>
  %scores = memref.alloc() : memref<256x256xf32>
  %weights = memref.alloc() : memref<256x256xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%scores : memref<256x256xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %k : memref<256x32xf32>, memref<32x256xf32>) outs(%scores : memref<256x256xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%scores : memref<256x256xf32>) outs(%weights : memref<256x256xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %none = arith.constant 0.0 : f32
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %i = arith.index_cast %row : index to i32
    %j = arith.index_cast %column : index to i32
    %distance = arith.subi %j, %i : i32
    %here = arith.constant 0 : i32
    %seen = arith.cmpi sle, %distance, %here : i32
    %e = math.exp %a : f32
    %r = arith.select %seen, %e, %none : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%sums : memref<256xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%weights : memref<256x256xf32>) outs(%sums : memref<256xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%weights, %sums : memref<256x256xf32>, memref<256xf32>) outs(%shares : memref<256x256xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<256x32xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%shares, %v : memref<256x256xf32>, memref<256x32xf32>) outs(%o : memref<256x32xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @causal
// CHECK-SAME: strips = array<i64: 64>

// -----

// Eight tiles read the same columns, which stay near: no blocks, and partial sums stay in registers.
func.func private @columns_of_eight_tiles(%a: memref<64x256xf32>, %b: memref<256x3136xf32>, %o: memref<64x3136xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x256xf32>, memref<256x3136xf32>) outs(%o : memref<64x3136xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @columns_of_eight_tiles
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 3 : i64, jam = 0 : i64, jam_count = 8 : i64, ahead = 32 : i64}

// -----

// With more rows a copy pays, though for fewer than where it outgrows the cache.
func.func private @columns_of_twelve_tiles(%a: memref<96x256xf32>, %b: memref<256x3136xf32>, %o: memref<96x3136xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<96x256xf32>, memref<256x3136xf32>) outs(%o : memref<96x3136xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @columns_of_twelve_tiles
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64, pack = 1 : i64}

// -----

// Rows are streamed just so where other statements take their sums: all have strips as long as is streamed.
func.func private @streamed_and_added_to(%a: memref<1x4096xf32>, %b: memref<4096x4096xf32>, %c: memref<4096xf32>, %o: memref<1x4096xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<1x4096xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<1x4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<1x4096xf32>, memref<4096x4096xf32>) outs(%s : memref<1x4096xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%s, %c : memref<1x4096xf32>, memref<4096xf32>) outs(%o : memref<1x4096xf32>) {
  ^bb0(%x: f32, %y: f32, %old: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @streamed_and_added_to
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, rows = 8 : i64, strip = 4096 : i64, split = 256 : i64, ahead = 16 : i64}
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64}

// -----

// No blocks of rows where strips cut what is added up over: they are a part of the rows already.
func.func private @sums_over_a_shared_loop(%a: memref<2048x64xf32>, %k: memref<2048x64xf32>, %b: memref<2048x64xf32>, %o: memref<2048x64xf32>, %r: memref<2048xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<2048x2048xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<2048x2048xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %k : memref<2048x64xf32>, memref<2048x64xf32>) outs(%s : memref<2048x2048xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %acc, %p : f32
    linalg.yield %t : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<2048x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d2, d1)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%s, %b : memref<2048x2048xf32>, memref<2048x64xf32>) outs(%o : memref<2048x64xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %acc, %p : f32
    linalg.yield %t : f32
  }
  func.return
}
// CHECK-LABEL: @sums_over_a_shared_loop
// CHECK-NOT: rows =

// -----

// What is made element by element is made for a strip of rows and all that is added up over: the sums stay in registers.
func.func private @sums_of_elements(%a: memref<512x384xf32>, %b: memref<384x256xf32>, %o: memref<512x256xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<512x384xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<512x384xf32>) outs(%s : memref<512x384xf32>) {
  ^bb0(%x: f32, %old: f32):
    %e = math.exp %x : f32
    linalg.yield %e : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<512x256xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %b : memref<512x384xf32>, memref<384x256xf32>) outs(%o : memref<512x256xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %acc, %p : f32
    linalg.yield %t : f32
  }
  func.return
}
// CHECK-LABEL: @sums_of_elements
// CHECK-SAME:    strips = array<i64: {{[0-9]+}}>}
// CHECK:         schedule = {vector = 1 : i64, width = 16 : i64
// CHECK:         math.exp
// CHECK:         schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64, jam_count = 6 : i64

// -----

// Columns that lie in blocks, as a panel would, are not copied; where a block has more columns than a tile they are.
func.func private @blocks_of_columns(%a: memref<256x256xf32>, %b: memref<8x256x32xf32>, %o: memref<256x8x32xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<256x8x32xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : memref<256x256xf32>, memref<8x256x32xf32>) outs(%o : memref<256x8x32xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %acc, %m : f32
    linalg.yield %t : f32
  }
  func.return
}
func.func private @blocks_of_several_tiles(%a: memref<256x256xf32>, %b: memref<8x256x128xf32>, %o: memref<256x8x128xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<256x8x128xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : memref<256x256xf32>, memref<8x256x128xf32>) outs(%o : memref<256x8x128xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %m = arith.mulf %x, %y : f32
    %t = arith.addf %acc, %m : f32
    linalg.yield %t : f32
  }
  func.return
}
// CHECK-LABEL: @blocks_of_columns
// CHECK:         schedule = {vector = 2 : i64, width = 16 : i64, unroll = 2 : i64, jam = 0 : i64, jam_count = 14 : i64, fetch_jam = 0 : i64}
// CHECK-LABEL: @blocks_of_several_tiles
// CHECK:         pack = 1

// -----

// 49 columns are three vectors and one column, which is summed with lanes along the reduction.
func.func private @one_column_left(%a: memref<256x512xf32>, %b: memref<512x49xf32>, %o: memref<256x49xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<256x512xf32>, memref<512x49xf32>) outs(%o : memref<256x49xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @one_column_left
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 3 : i64, jam = 0 : i64, jam_count = 8 : i64, pack = 1 : i64, fetch_jam = 0 : i64, rest = 2 : i64}

// -----

// 60 columns leave too many for sums with lanes along the reduction.
func.func private @most_of_a_vector_left(%a: memref<256x512xf32>, %b: memref<512x60xf32>, %o: memref<256x60xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<256x512xf32>, memref<512x60xf32>) outs(%o : memref<256x60xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @most_of_a_vector_left
// CHECK-NOT: rest =

// -----

// What is computed once per row, of its sum, has a row in each lane, and sums that share an operand several rows at once.
func.func private @function_of_each_sum(%a: memref<400x40xf32>, %v: memref<40xf32>, %o: memref<400xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<400xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<400xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a, %v : memref<400x40xf32>, memref<40xf32>) outs(%s : memref<400xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%s : memref<400xf32>) outs(%o : memref<400xf32>) {
  ^bb0(%x: f32, %y: f32):
    %e = math.exp %x : f32
    linalg.yield %e : f32
  }
  func.return
}
// CHECK-LABEL: @function_of_each_sum
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 8 : i64}
// CHECK: schedule = {vector = 0 : i64, width = 16 : i64, unroll = 4 : i64}

// -----

// Lanes along many columns, though the result has the 10 rows as neighbours: tiles of sums are transposed.
func.func private @few_rows_as_neighbours(%a: memref<64x10xf32>, %b: memref<64x512xf32>, %o: memref<512x10xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d1, d0)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x10xf32>, memref<64x512xf32>) outs(%o : memref<512x10xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @few_rows_as_neighbours
// CHECK: schedule = {vector = 1 : i64, width = 16 : i64, unroll = 4 : i64, jam = 0 : i64

// -----

// Where rows fill vectors as well, nothing is transposed.
func.func private @as_many_rows(%a: memref<64x512xf32>, %b: memref<64x512xf32>, %o: memref<512x512xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d1, d0)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<64x512xf32>, memref<64x512xf32>) outs(%o : memref<512x512xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @as_many_rows
// CHECK: schedule = {vector = 0 : i64

// -----

// What a tile reads of windows of 256 channels outgrows the nearest cache: tiles go over a few channels at a time.
func.func private @windows_of_many_channels(%x: memref<256x29x29xf32>, %w: memref<256x3x3x32xf32>, %o: memref<32x14x14xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d0 * 2 + d4, d1 * 2 + d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5, d2)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d0, d1)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : memref<256x29x29xf32>, memref<256x3x3x32xf32>) outs(%o : memref<32x14x14xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @windows_of_many_channels
// CHECK: schedule = {vector = 2 : i64, width = 16 : i64, unroll = 2 : i64, jam = 1 : i64, jam_count = 14 : i64, block = 43 : i64}

// -----

// That of 64 does not.
func.func private @windows_of_few_channels(%x: memref<64x29x29xf32>, %w: memref<64x3x3x32xf32>, %o: memref<32x14x14xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d0 * 2 + d4, d1 * 2 + d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5, d2)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d0, d1)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : memref<64x29x29xf32>, memref<64x3x3x32xf32>) outs(%o : memref<32x14x14xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @windows_of_few_channels
// CHECK: schedule = {vector = 2 : i64, width = 16 : i64, unroll = 2 : i64, jam = 1 : i64, jam_count = 14 : i64}

// -----

// Lanes of sums are combined, and added to what is in memory, once for whole images of a channel, of as many as stay near.
func.func private @lanes_that_are_combined(%g: memref<8x32x28x28xf32>, %x: memref<8x32x30x30xf32>, %o: memref<8x32x28x28xf32>, %s: memref<32x3x3xf32>) attributes {kernel, num_outputs = 2 : i64} {
  linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g : memref<8x32x28x28xf32>) outs(%o : memref<8x32x28x28xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%s : memref<32x3x3xf32>)
  linalg.generic {indexing_maps = [affine_map<(n, c, i, j, h, w) -> (n, c, i, j)>, affine_map<(n, c, i, j, h, w) -> (n, c, i + h, j + w)>, affine_map<(n, c, i, j, h, w) -> (c, h, w)>], iterator_types = ["reduction", "parallel", "reduction", "reduction", "parallel", "parallel"]} ins(%o, %x : memref<8x32x28x28xf32>, memref<8x32x30x30xf32>) outs(%s : memref<32x3x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK: @lanes_that_are_combined{{.*}} strips = array<i64: 1, 2, 28, 32>

// -----

// Sums along narrow images have lanes along what is kept; what is added up then comes from vectors, too.
func.func private @images_narrower_than_vectors(%g: memref<8x32x7x7xf32>, %x: memref<8x32x11x11xf32>, %o: memref<8x32x7x7xf32>, %s: memref<32x5x5xf32>) attributes {kernel, num_outputs = 2 : i64} {
  linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g : memref<8x32x7x7xf32>) outs(%o : memref<8x32x7x7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%s : memref<32x5x5xf32>)
  linalg.generic {indexing_maps = [affine_map<(n, c, i, j, h, w) -> (n, c, i, j)>, affine_map<(n, c, i, j, h, w) -> (n, c, i + h, j + w)>, affine_map<(n, c, i, j, h, w) -> (c, h, w)>], iterator_types = ["reduction", "parallel", "reduction", "reduction", "parallel", "parallel"]} ins(%o, %x : memref<8x32x7x7xf32>, memref<8x32x11x11xf32>) outs(%s : memref<32x5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK: @images_narrower_than_vectors{{.*}} strips = array<i64: 1, 8, 7, 7>
