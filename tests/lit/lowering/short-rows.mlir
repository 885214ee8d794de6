// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512} | filecheck %s
// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512},convert-structured-to-loops | filecheck %s --check-prefix LOOPS

// Rows of three fill no vector with their exponentials: they are copied to columns, which sixteen rows fill, and a vector holds one of these.
func.func private @short_rows(%x: memref<4096x3xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4096x3xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.exp %a : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @short_rows
// CHECK:         [[T:%.*]] = memref.alloc() : memref<3x4096xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME:      ins(%x : memref<4096x3xf32>) outs([[T]] : memref<3x4096xf32>)
// CHECK-SAME:      {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 3 : i64}}
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>]
// CHECK-SAME:      ins([[T]] : memref<3x4096xf32>) {{.*}} {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 4 : i64}}

// The elements of sixteen rows are three vectors in memory. Each column is chosen from them by two shuffles.
// LOOPS-LABEL: @short_rows
// LOOPS:         [[FLAT:%.*]] = memref.collapse_shape %x {{\[\[}}0 : i64, 1 : i64]] : memref<4096x3xf32> into memref<12288xf32>
// LOOPS:         [[COLUMNS:%.*]] = memref.alloca() : memref<3x64xf32>
// LOOPS:           [[A:%.*]] = vector.load [[FLAT]][{{.*}}] : memref<12288xf32>, vector<16xf32>
// LOOPS:           [[B:%.*]] = vector.load [[FLAT]][{{.*}}] : memref<12288xf32>, vector<16xf32>
// LOOPS:           [[C:%.*]] = vector.load [[FLAT]][{{.*}}] : memref<12288xf32>, vector<16xf32>
// LOOPS:           [[AB:%.*]] = vector.shuffle [[A]], [[B]] [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 11, 12, 13, 14, 15]
// LOOPS:           vector.shuffle [[AB]], [[C]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29]
// LOOPS:           vector.store {{.*}}, [[COLUMNS]]

// -----

// What is written in rows is interleaved from columns again; the intermediate has columns alone.
func.func private @rows_of_results(%x: memref<4096x2xf32>, %o: memref<4096x2xf32>) attributes {kernel} {
  %t = memref.alloc() : memref<4096x2xf32>
  %s = memref.alloc() : memref<4096xf32>
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4096x2xf32>) outs(%t : memref<4096x2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%s : memref<4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%t : memref<4096x2xf32>) outs(%s : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%t, %s : memref<4096x2xf32>, memref<4096xf32>) outs(%o : memref<4096x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @rows_of_results
// CHECK-COUNT-3: memref.alloc() : memref<2x4096xf32>
// CHECK:         ins({{.*}} : memref<2x4096xf32>) outs(%o : memref<4096x2xf32>) attrs =  {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}}

// LOOPS-LABEL: @rows_of_results
// LOOPS:         [[FIRST:%.*]] = vector.shuffle [[A:%.*]], [[B:%.*]] [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23]
// LOOPS-NEXT:    [[SECOND:%.*]] = vector.shuffle [[A]], [[B]] [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31]
// LOOPS:         vector.store [[FIRST]], {{.*}} : memref<8192xf32>
// LOOPS:         vector.store [[SECOND]], {{.*}} : memref<8192xf32>

// -----

// Rows that fill vectors stay rows where little is done with them.
func.func private @rows_of_two_vectors(%x: memref<4096x32xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4096x32xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @rows_of_two_vectors
// CHECK-NEXT:    linalg.generic {{.*}} ins(%x : memref<4096x32xf32>) {{.*}} {schedule = {vector = 1 :

// -----

// Fewer rows are enough where a tile of them is soon written out.
func.func private @fewer_shorter_rows(%x: memref<64x3xf32>, %o: memref<64xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x3xf32>) outs(%o : memref<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.exp %a : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @fewer_shorter_rows
// CHECK-NEXT:    %{{.*}} = memref.alloc() : memref<3x64xf32>

// -----

// A few rows are not worth more code.
func.func private @few_rows(%x: memref<20x3xf32>, %o: memref<20xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<20x3xf32>) outs(%o : memref<20xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.exp %a : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @few_rows
// CHECK-NEXT:    linalg.generic {{.*}} ins(%x : memref<20x3xf32>)

// -----

// A row that another statement sees shifted cannot become a column of it.
func.func private @seen_otherwise(%x: memref<4096x3xf32>, %o: memref<4096xf32>, %p: memref<4095xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4096x3xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.exp %a : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i + 1, 0)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096x3xf32>) outs(%p : memref<4095xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @seen_otherwise
// CHECK-NOT:     memref.alloc
// CHECK:         func.return

// -----

// Statements that write a column each of short rows write rows of columns, which are interleaved at the end; what they read of two columns comes apart first.
func.func private @a_column_each(%x: memref<4096x2xf32>, %o: memref<4096x2xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i, 0)>, affine_map<(i) -> (i, 1)>, affine_map<(i) -> (i, 0)>], iterator_types = ["parallel"]}
      ins(%x, %x : memref<4096x2xf32>, memref<4096x2xf32>) outs(%o : memref<4096x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i, 0)>, affine_map<(i) -> (i, 1)>, affine_map<(i) -> (i, 1)>], iterator_types = ["parallel"]}
      ins(%x, %x : memref<4096x2xf32>, memref<4096x2xf32>) outs(%o : memref<4096x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @a_column_each
// CHECK-COUNT-2: memref.alloc() : memref<2x4096xf32>
// CHECK:         affine_map<(d0) -> (0, d0)>{{.*}} {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 4 : i64}}
// CHECK:         affine_map<(d0) -> (1, d0)>{{.*}} {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 4 : i64}}
// CHECK:         outs(%o : memref<4096x2xf32>) attrs =  {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}}

// -----

// One column of four is not worth that.
func.func private @one_of_four(%x: memref<4096x4xf32>, %o: memref<4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i, 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096x4xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @one_of_four
// CHECK-NOT:     memref.alloc

// -----

// Rows that become columns of the result are transposed whole, in as many shuffles as they have elements.
func.func private @channels_first(%x: memref<4096x3xf32>, %o: memref<3x4096xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(c, i) -> (i, c)>, affine_map<(c, i) -> (c, i)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4096x3xf32>) outs(%o : memref<3x4096xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @channels_first
// CHECK:         {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 3 : i64}}

// -----

// Columns that nothing writes keep what they hold.
func.func private @one_of_two(%x: memref<4096x2xf32>, %o: memref<4096x2xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i, 0)>, affine_map<(i) -> (i, 1)>, affine_map<(i) -> (i, 0)>], iterator_types = ["parallel"]}
      ins(%x, %x : memref<4096x2xf32>, memref<4096x2xf32>) outs(%o : memref<4096x2xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %e = math.exp %a : f32
    %r = arith.addf %e, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @one_of_two
// CHECK-NOT:     outs(%o {{.*}} jam_count

// -----

// So does another image.
func.func private @one_image(%x: memref<4096xf32>, %o: memref<2x4096x2xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (1, i, 0)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096xf32>) outs(%o : memref<2x4096x2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.exp %a : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (1, i, 1)>], iterator_types = ["parallel"]}
      ins(%x : memref<4096xf32>) outs(%o : memref<2x4096x2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %e = math.tanh %a : f32
    linalg.yield %e : f32
  }
  func.return
}
// CHECK-LABEL: @one_image
// CHECK-NOT:     memref.alloc

// -----

// Lanes along rows of three would be two; sixteen rows are read, shuffled into columns and back, and written as a whole.
func.func private @a_number_for_each_column(%x: memref<4096x3xf32>, %b: memref<3xf32>, %o: memref<4096x3xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : memref<4096x3xf32>, memref<3xf32>) outs(%o : memref<4096x3xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @a_number_for_each_column
// CHECK:         {schedule = {vector = 0 : i64, width = 16 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 3 : i64}}

// -----

// Rows of ten fill five lanes of eight, and would take ten shuffles.
func.func private @longer_rows(%x: memref<4096x10xf32>, %b: memref<10xf32>, %o: memref<4096x10xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : memref<4096x10xf32>, memref<10xf32>) outs(%o : memref<4096x10xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @longer_rows
// CHECK:         {schedule = {vector = 1 : i64, width = 8 : i64

// -----

// Short rows that a product gives are copied to columns behind it, strip by strip; the product itself has rows.
func.func private @of_a_product(%a: memref<4096x8xf32>, %b: memref<8x10xf32>, %o: memref<4096xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<4096x10xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<4096x10xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4096x8xf32>, memref<8x10xf32>) outs(%p : memref<4096x10xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %m = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<4096x10xf32>) outs(%o : memref<4096xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %e = math.exp %x : f32
    %r = arith.addf %acc, %e : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @of_a_product
// CHECK-SAME:    strips = array<i64: 96>
// CHECK:         outs([[P:%.*]] : memref<4096x10xf32>) attrs =  {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 8 : i64, fetch_jam = 0 : i64}}
// CHECK:         ins([[P]] : memref<4096x10xf32>) outs([[T:%.*]] : memref<10x4096xf32>)
// CHECK:         ins([[T]] : memref<10x4096xf32>) outs(%o : memref<4096xf32>) attrs =  {schedule = {vector = 0 : i64
