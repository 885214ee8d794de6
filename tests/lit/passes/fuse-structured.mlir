// RUN: tenon-opt %s --split-input-file -p fuse-structured | filecheck %s
// RUN: tenon-opt %s --split-input-file -p fuse-structured{loops=true} | filecheck %s --check-prefix LOOPS

// A fill becomes the number that it is filled with.
func.func private @fill_becomes_a_number(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%two : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x, %f : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: @fill_becomes_a_number
// CHECK-NOT:     linalg.fill
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%p: f32, %o: f32):
// CHECK-NEXT:      %two = arith.constant 2.0
// CHECK-NEXT:      {{.*}} = arith.mulf %p, %two

// -----

// So does what a loop reads of one.
func.func private @loop_reads_a_number(%i: tensor<9xindex>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %zero = arith.constant 0 : index
  %step = arith.constant 1 : index
  %n = arith.constant 9 : index
  %0 = scf.for %k = %zero to %n step %step iter_args(%h = %x) -> (tensor<4xf32>) {
    %p = tensor.extract %i[%k] : tensor<9xindex>
    %u = tensor.extract %f[%k] : tensor<9xf32>
    %v = tensor.extract %h[%p] : tensor<4xf32>
    %s = arith.addf %v, %u : f32
    %t = tensor.insert %s into %h[%p] : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: @loop_reads_a_number
// CHECK-NOT:     linalg.fill
// CHECK:         arith.addf %v, %one

// -----

// A transposed copy becomes an index map of what reads it.
func.func private @copy_becomes_an_index_map(%x: tensor<3x4xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<4x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %0 : tensor<4x3xf32>
}
// CHECK-LABEL: @copy_becomes_an_index_map
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]{{.*}} ins(%x :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      {{.*}} = math.exp %p

// -----

// An elementwise producer moves into the reduction that is its only use.
func.func private @into_reduction(%x: tensor<4x3xf32>) -> tensor<4xf32> attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %v = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<4x3xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: @into_reduction
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<4x3xf32>) outs(%f : tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%p: f32, %o: f32):
// CHECK-NEXT:      %r = math.exp %p
// CHECK-NEXT:      {{.*}} = arith.addf %r, %o

// -----

// A cheap producer is computed again for each row that it is broadcast to.
func.func private @cheap_broadcast(%x: tensor<4x3xf32>, %row: tensor<3xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %v = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%row : tensor<3xf32>) outs(%v : tensor<3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x3xf32>, tensor<3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK-LABEL: @cheap_broadcast
// CHECK:         linalg.generic {{.*}} ins(%x, %row : tensor<4x3xf32>, tensor<3xf32>)
// CHECK-NEXT:    ^bb0(%p: f32, [[ROW:%.*]]: f32, %o: f32):
// CHECK-NEXT:      %r = arith.addf [[ROW]], [[ROW]]
// CHECK-NEXT:      {{.*}} = arith.mulf %p, %r

// -----

// An exponential is not: the row is kept.
func.func private @expensive_broadcast(%x: tensor<4x3xf32>, %row: tensor<3xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %v = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%row : tensor<3xf32>) outs(%v : tensor<3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x3xf32>, tensor<3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK-LABEL: @expensive_broadcast
// CHECK:         %0 = linalg.generic {{.*}} ins(%row :
// CHECK:         linalg.generic {{.*}} ins(%x, %0 :

// -----

// A producer that is returned as well becomes a second result.
func.func private @returned_too(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @returned_too
// CHECK:         %0, %1 = linalg.generic {{.*}} ins(%x : tensor<4xf32>) outs(%e, %e :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %r = math.exp %p
// CHECK-NEXT:      [[D:%.*]] = arith.addf %r, %r
// CHECK-NEXT:      linalg.yield [[D]], %r
// CHECK:         func.return %1, %0

// -----

// Two that read the same in the same way are one of two results.
func.func private @same_reads_merge(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.sin %p : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @same_reads_merge
// CHECK:         %0, %1 = linalg.generic {{.*}} ins(%x : tensor<4xf32>) outs(%e, %e :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %r = math.exp %p
// CHECK-NEXT:      [[S:%.*]] = math.sin %p
// CHECK-NEXT:      linalg.yield [[S]], %r

// -----

// Equal operands are passed once.
func.func private @equal_operands(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: @equal_operands
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%p: f32, %o: f32):
// CHECK-NEXT:      {{.*}} = arith.mulf %p, %p

// -----

// The index of a loop is that of the loop of the consumer.
func.func private @indices_are_renamed(%x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {kernel} {
  %v = tensor.empty() : tensor<3xi64>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%v : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<3xi64>
  %e = tensor.empty() : tensor<4x3xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x3xf32>, tensor<3xi64>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%p: f32, %q: i64, %o: f32):
    %s = arith.sitofp %q : i64 to f32
    %r = arith.mulf %p, %s : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}
// CHECK-LABEL: @indices_are_renamed
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<4x3xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      {{.*}} = linalg.index 1

// -----

// Two reversals meet, and the first five elements are read in order: a loop that were the index alone would run over all.
func.func private @part_of_a_dimension(%x: tensor<8xf32>) -> tensor<5xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<5xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a * -1 + 4)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<5xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<5xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a) -> (a * -1 + 4)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<5xf32>) outs(%e : tensor<5xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<5xf32>
  func.return %1 : tensor<5xf32>
}
// CHECK-LABEL: @part_of_a_dimension
// CHECK:         %[[ONE:.*]] = tensor.empty() : tensor<1xi8>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> ((d0 + d1))>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "parallel"]} ins(%[[ONE]], %x : tensor<1xi8>, tensor<8xf32>)
// CHECK-NOT:     linalg.generic

// -----

// What only a generic that nothing uses reads besides is used once.
func.func private @unused_readers(%x: tensor<8xf32>) -> tensor<8xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %unused = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %p = tensor.extract %0[%i] : tensor<8xf32>
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}
// CHECK-LABEL: @unused_readers
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<8xf32>)
// CHECK:         math.exp
// CHECK-NEXT:    arith.negf
// CHECK-NOT:     linalg.generic

// -----

// What a loop reads of an elementwise generic, each element once, is computed in the loop where that is asked for.
func.func private @loop_computes_what_it_reads(%i: tensor<9xi32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel} {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<9xi32>
  %half = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<9xi32>) outs(%e : tensor<9xi32>) {
  ^bb0(%p: i32, %o: i32):
    %two = arith.constant 2 : i32
    %q = arith.divsi %p, %two : i32
    linalg.yield %q : i32
  } -> tensor<9xi32>
  %zero = arith.constant 0 : index
  %step = arith.constant 1 : index
  %n = arith.constant 9 : index
  %0 = scf.for %k = %zero to %n step %step iter_args(%h = %x) -> (tensor<4xf32>) {
    %u = tensor.extract %half[%k] : tensor<9xi32>
    %p = arith.index_cast %u : i32 to index
    %t = tensor.insert %one into %h[%p] : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: @loop_computes_what_it_reads
// CHECK:         linalg.generic
// LOOPS-LABEL: @loop_computes_what_it_reads
// LOOPS-NOT:     linalg.generic
// LOOPS:         scf.for %[[K:.*]] = %zero
// LOOPS-NEXT:      %[[I:.*]] = tensor.extract %i[%[[K]]]
// LOOPS-NEXT:      %[[TWO:.*]] = arith.constant 2 : i32
// LOOPS-NEXT:      %[[PLACE:.*]] = arith.divsi %[[I]], %[[TWO]] : i32
// LOOPS-NEXT:      arith.index_cast %[[PLACE]] : i32 to index

// -----

// What only takes elements from other places is read where it comes from, by each of several.
func.func private @moved(%x: tensor<5xf32>, %e: tensor<9xf32>, %d: tensor<7xf32>) -> tensor<7xf32> attributes {kernel} {
  %p = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<9xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %c = arith.constant 5 : index
    %r = arith.remui %i, %c : index
    %v = tensor.extract %x[%r] : tensor<5xf32>
    linalg.yield %v : f32
  } -> tensor<9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i + 1)>, affine_map<(i) -> (i + 2)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%p, %p : tensor<9xf32>, tensor<9xf32>) outs(%d : tensor<7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %z = arith.subf %b, %a : f32
    linalg.yield %z : f32
  } -> tensor<7xf32>
  func.return %y : tensor<7xf32>
}
// CHECK-LABEL: @moved
// CHECK-NOT:     ins(%p
// CHECK-COUNT-2: tensor.extract %x
// CHECK-NOT:     tensor.extract
