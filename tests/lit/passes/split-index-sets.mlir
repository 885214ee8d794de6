// RUN: tenon-opt %s --split-input-file -p split-index-sets | filecheck %s

// Each part of a concatenation is written by a loop of its own, which asks nothing, and what computes it is fused.
func.func private @joined(%x: tensor<16xf32>, %y: tensor<24xf32>) -> tensor<40xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%y : tensor<24xf32>) outs(%e : tensor<24xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<24xf32>
  %g = tensor.empty() : tensor<40xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%g : tensor<40xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %zero = arith.constant 0 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %c23 = arith.constant 23 : index
    %a = arith.minsi %i, %c15 : index
    %s = arith.subi %i, %c16 : index
    %t = arith.maxsi %s, %zero : index
    %b = arith.minsi %t, %c23 : index
    %u = tensor.extract %x[%a] : tensor<16xf32>
    %v = tensor.extract %f[%b] : tensor<24xf32>
    %is_first = arith.cmpi slt, %i, %c16 : index
    %w = arith.select %is_first, %u, %v : f32
    %z = arith.negf %w : f32
    linalg.yield %z : f32
  } -> tensor<40xf32>
  func.return %0 : tensor<40xf32>
}
// CHECK-LABEL: @joined
// CHECK:         %[[PART:.*]] = linalg.generic {indexing_maps = [{{.*}}affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> ((d0 + d1))>]{{.*}} ins({{.*}}%x : {{.*}})
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[X:.*]] = arith.negf
// CHECK-NEXT:      linalg.yield %[[X]]
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ((d0 + 16))>]{{.*}} ins(%y : tensor<24xf32>) outs(%[[PART]] : tensor<40xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[EXP:.*]] = math.exp
// CHECK-NEXT:      %[[Y:.*]] = arith.negf %[[EXP]]
// CHECK-NEXT:      linalg.yield %[[Y]]
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return

// -----

// The rows above padded ones are not cut along the columns, since nothing of the tensor is there.
func.func private @padded(%x: tensor<8x32xf32>) -> tensor<9x33xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<9x33xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<9x33xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %value = arith.constant 5.0 : f32
    %p = arith.subi %i, %one : index
    %q = arith.subi %j, %one : index
    %r = arith.maxsi %p, %zero : index
    %s = arith.maxsi %q, %zero : index
    %t = tensor.extract %x[%r, %s] : tensor<8x32xf32>
    %in_row = arith.cmpi ult, %p, %c8 : index
    %u = arith.select %in_row, %t, %value : f32
    %in_column = arith.cmpi ult, %q, %c32 : index
    %v = arith.select %in_column, %u, %value : f32
    linalg.yield %v : f32
  } -> tensor<9x33xf32>
  func.return %0 : tensor<9x33xf32>
}
// CHECK-LABEL: @padded
// CHECK:         linalg.generic {{.*}}affine_map<(d0, d1, d2) -> ((d0 + d2), d1)>]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[ABOVE:.*]] = arith.constant 5.0
// CHECK-NEXT:      linalg.yield %[[ABOVE]]
// CHECK:         linalg.generic {{.*}}affine_map<(d0, d1, d2) -> ((d0 + 1), (d1 + d2))>]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      %[[BEFORE:.*]] = arith.constant 5.0
// CHECK-NEXT:      linalg.yield %[[BEFORE]]
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d0 + 1), (d1 + 1))>]{{.*}} ins(%x :
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, {{.*}}):
// CHECK-NEXT:      linalg.yield %[[X]]
// CHECK-NOT:     linalg.generic

// -----

// Where the places of a read are sums of loops, it is an operand.
func.func private @read(%x: tensor<9xf32>) -> tensor<8xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %t = tensor.extract %x[%i] : tensor<9xf32>
    linalg.yield %t : f32
  } -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK-LABEL: @read
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> ((d0 + d1))>, affine_map<(d0, d1) -> (d0)>]{{.*}} ins({{.*}}, %x :
// CHECK-NEXT:    ^bb0({{.*}}, %[[X:.*]]: f32, {{.*}}):
// CHECK-NEXT:      linalg.yield %[[X]]

// -----

// Columns of many short rows are.
func.func private @columns(%x: tensor<2000xf32>, %y: tensor<2000xf32>) -> tensor<2000x2xf32> attributes {kernel} {
  %e = tensor.empty() : tensor<2000x2xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<2000xf32>, tensor<2000xf32>) outs(%e : tensor<2000x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %j = linalg.index 1 : index
    %one = arith.constant 1 : index
    %is_first = arith.cmpi slt, %j, %one : index
    %r = arith.select %is_first, %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<2000x2xf32>
  func.return %0 : tensor<2000x2xf32>
}
// CHECK-LABEL: @columns
// CHECK:         [[FIRST:%.*]] = linalg.generic {{.*}} ins({{.*}}%x {{.*}}) outs({{.*}}
// CHECK:           linalg.yield
// CHECK:         linalg.generic {{.*}}(d0, (d1 + 1))>]{{.*}} ins({{.*}}%y {{.*}}) outs([[FIRST]]

// -----

// Runs of single elements are not worth loops; nor is known here what two loops decide together.
func.func private @stays(%x: tensor<32xf32>, %y: tensor<32xf32>) -> (tensor<32x2xf32>, tensor<32x2xi1>) attributes {kernel} {
  %e = tensor.empty() : tensor<32x2xf32>
  %f = tensor.empty() : tensor<32x2xi1>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<32xf32>, tensor<32xf32>) outs(%e : tensor<32x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %j = linalg.index 1 : index
    %one = arith.constant 1 : index
    %is_first = arith.cmpi slt, %j, %one : index
    %r = arith.select %is_first, %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<32x2xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%f : tensor<32x2xi1>) {
  ^bb0(%o: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.cmpi slt, %i, %j : index
    linalg.yield %r : i1
  } -> tensor<32x2xi1>
  func.return %0, %1 : tensor<32x2xf32>, tensor<32x2xi1>
}
// CHECK-LABEL: @stays
// CHECK:         arith.cmpi slt
// CHECK-NEXT:    arith.select
// CHECK:         arith.cmpi slt
// CHECK-NOT:     linalg.generic

// -----

// A sum goes on behind what it added up in the range before; an inner loop is cut by nothing, as each of its iterations
// belongs between others of the outer one.
func.func private @combined(%x: tensor<16xf32>, %y: tensor<16xf32>) -> (tensor<f32>, tensor<f32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %w = tensor.empty() : tensor<32xi8>
  %v = tensor.empty() : tensor<4xi8>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]}
      ins(%w : tensor<32xi8>) outs(%init : tensor<f32>) {
  ^bb0(%n: i8, %acc: f32):
    %i = linalg.index 0 : index
    %c16 = arith.constant 16 : index
    %s = arith.remui %i, %c16 : index
    %p = tensor.extract %x[%s] : tensor<16xf32>
    %q = tensor.extract %y[%s] : tensor<16xf32>
    %is_first = arith.cmpi slt, %i, %c16 : index
    %r = arith.select %is_first, %p, %q : f32
    %t = arith.addf %acc, %r : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%v, %w : tensor<4xi8>, tensor<32xi8>) outs(%init : tensor<f32>) {
  ^bb0(%n: i8, %m: i8, %acc: f32):
    %i = linalg.index 1 : index
    %c16 = arith.constant 16 : index
    %is_first = arith.cmpi slt, %i, %c16 : index
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %r = arith.select %is_first, %one, %two : f32
    %t = arith.mulf %acc, %r : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  func.return %0, %1 : tensor<f32>, tensor<f32>
}
// CHECK-LABEL: @combined
// CHECK:         %[[INIT:.*]] = linalg.fill
// CHECK:         %[[FIRST:.*]] = linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%x : tensor<16xf32>) outs(%[[INIT]]
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT:      arith.addf %[[ACC]], %[[X]]
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%y : tensor<16xf32>) outs(%[[FIRST]]
// CHECK:         linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]}
// CHECK:           arith.cmpi
// CHECK-NEXT:      {{.*}}
// CHECK-NEXT:      {{.*}}
// CHECK-NEXT:      arith.select
// CHECK-NOT:     linalg.generic

// -----

// A loop of one iteration is at a place that is known: what was a part before is cut again.
func.func private @a_part_is_cut(%x: tensor<32xf32>, %y: tensor<32xf32>, %z: tensor<64xf32>) -> tensor<64xf32> attributes {kernel} {
  %one = tensor.empty() : tensor<1xi8>
  %loop = tensor.empty() : tensor<48xi8>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a + b)>], iterator_types = ["parallel", "parallel"]}
      ins(%loop, %one : tensor<48xi8>, tensor<1xi8>) outs(%z : tensor<64xf32>) {
  ^bb0(%l: i8, %s: i8, %o: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %i = arith.addi %a, %b : index
    %zero = arith.constant 0 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %p = arith.minsi %i, %c31 : index
    %q = arith.subi %i, %c32 : index
    %r = arith.maxsi %q, %zero : index
    %u = tensor.extract %x[%p] : tensor<32xf32>
    %v = tensor.extract %y[%r] : tensor<32xf32>
    %is_first = arith.cmpi slt, %i, %c32 : index
    %w = arith.select %is_first, %u, %v : f32
    linalg.yield %w : f32
  } -> tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
// CHECK-LABEL: @a_part_is_cut
// CHECK:         linalg.generic {{.*}} ins({{.*}}%x : {{.*}}tensor<32xf32>) outs(%z
// CHECK:         linalg.generic {{.*}} ins({{.*}}%y : {{.*}}tensor<32xf32>) outs(
// CHECK-NOT:     tensor.extract

// -----

// What is read for nothing is not read, though no loop is cut: what computes it goes.
func.func private @nothing_is_chosen(%x: tensor<32xf32>) -> tensor<16xf32> attributes {kernel} {
  %f = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<32xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<32xf32>
  %e = tensor.empty() : tensor<16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %c20 = arith.constant 20 : index
    %five = arith.constant 5.0 : f32
    %p = arith.remsi %i, %c20 : index
    %u = tensor.extract %y[%p] : tensor<32xf32>
    %is_first = arith.cmpi slt, %i, %c20 : index
    %w = arith.select %is_first, %five, %u : f32
    linalg.yield %w : f32
  } -> tensor<16xf32>
  func.return %0 : tensor<16xf32>
}
// CHECK-LABEL: @nothing_is_chosen
// CHECK-NOT:     tensor.extract
// CHECK-NOT:     math.exp
