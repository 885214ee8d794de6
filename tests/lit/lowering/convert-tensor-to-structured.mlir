// RUN: tenon-opt %s -p convert-tensor-to-structured --split-input-file --verify-diagnostics | filecheck %s

// One loop per dimension of the result; what is broadcast is read at fewer of the loops' indices.
func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  %z = tenon.add %x, %y : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
// CHECK-LABEL: @elementwise
// CHECK-NEXT:    %[[EMPTY:.*]] = tensor.empty() : tensor<2x3xf32>
// CHECK-NEXT:    %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %y : {{.*}}) outs(%[[EMPTY]] : tensor<2x3xf32>) {
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT:      linalg.yield %[[SUM]] : f32

// -----

// However long the formula, it is rounded to f16 once.
func.func @f16_is_computed_in_f32(%x: tensor<4xf16>) -> tensor<4xf16> {
  %y = tenon.silu %x : tensor<4xf16> -> tensor<4xf16>
  func.return %y : tensor<4xf16>
}
// CHECK-LABEL: @f16_is_computed_in_f32
// CHECK:         arith.extf %{{.*}} : f16 to f32
// CHECK-NOT:     arith.extf
// CHECK-NOT:     f16
// CHECK:         math.exp %{{.*}} : f32
// CHECK:         arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT:    linalg.yield

// -----

// The sum starts from zero in a tensor without the reduced dimension, which is put back where it is asked for.
func.func @reduction(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  %s = tenon.sum %x {axis = [1], keepdims = true} : tensor<2x3xf32> -> tensor<2x1xf32>
  func.return %s : tensor<2x1xf32>
}
// CHECK-LABEL: @reduction
// CHECK-NEXT:    %[[EMPTY:.*]] = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %[[START:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%[[EMPTY]] : tensor<2xf32>)
// CHECK-NEXT:    %[[SUM:.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : {{.*}}) outs(%[[START]] : {{.*}}) {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32, %[[SO_FAR:.*]]: f32):
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addf %[[SO_FAR]], %[[X]] : f32
// CHECK-NEXT:      linalg.yield %[[NEXT]] : f32
// CHECK:         %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], {{.*}} ins(%[[SUM]] : tensor<2xf32>)

// -----

// The value and its index are found together; NaN is larger than all, and the first of equals wins.
func.func @argument_of_the_largest(%x: tensor<2x3xf32>) -> tensor<2xi64> {
  %i = tenon.argmax %x {axis = 1} : tensor<2x3xf32> -> tensor<2xi64>
  func.return %i : tensor<2xi64>
}
// CHECK-LABEL: @argument_of_the_largest
// CHECK:         arith.constant 0xff800000 : f32
// CHECK:         %{{.*}}, %i = linalg.generic
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32, %[[BEST:.*]]: f32, %[[AT:.*]]: i64):
// CHECK-NEXT:      %[[NO_BETTER:.*]] = arith.cmpf ole, %[[X]], %[[BEST]] : f32
// CHECK-NEXT:      %[[TRUE:.*]] = arith.constant true
// CHECK-NEXT:      %[[BETTER:.*]] = arith.xori %[[NO_BETTER]], %[[TRUE]] : i1
// CHECK-NEXT:      %[[NUMBER:.*]] = arith.cmpf oeq, %[[BEST]], %[[BEST]] : f32
// CHECK-NEXT:      %[[TAKE:.*]] = arith.andi %[[BETTER]], %[[NUMBER]] : i1
// CHECK-NEXT:      %[[VALUE:.*]] = arith.select %[[TAKE]], %[[X]], %[[BEST]] : f32
// CHECK-NEXT:      %[[INDEX:.*]] = linalg.index 1 : index
// CHECK-NEXT:      %[[COLUMN:.*]] = arith.index_cast %[[INDEX]] : index to i64
// CHECK-NEXT:      %[[PLACE:.*]] = arith.select %[[TAKE]], %[[COLUMN]], %[[AT]] : i64
// CHECK-NEXT:      linalg.yield %[[VALUE]], %[[PLACE]] : f32, i64

// -----

// The loops of the result are parallel, the one that is summed over is a reduction.
func.func @contraction(%x: tensor<4x3xf32>, %y: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %z = tenon.matmul %x, %y : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
  func.return %z : tensor<4x5xf32>
}
// CHECK-LABEL: @contraction
// CHECK:         %z = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[SUM:.*]]: f32):
// CHECK-NEXT:      %[[PRODUCT:.*]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addf %[[SUM]], %[[PRODUCT]] : f32
// CHECK-NEXT:      linalg.yield %[[NEXT]] : f32

// -----

// An empty tensor tells the size of the window, since no operand has it as a dimension.
func.func @windows(%x: tensor<1x6x8xf32>) -> tensor<1x3x4xf32> {
  %m = tenon.window_max %x {window = [2, 2], stride = [2, 2]} : tensor<1x6x8xf32> -> tensor<1x3x4xf32>
  func.return %m : tensor<1x3x4xf32>
}
// CHECK-LABEL: @windows
// CHECK-NEXT:    %[[WINDOW:.*]] = tensor.empty() : tensor<2x2xf32>
// CHECK:         %m = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d4, ((d0 * 2) + d2), ((d1 * 2) + d3))>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]} ins(%x, %[[WINDOW]] :
// CHECK:         arith.maximumf

// -----

// The largest element is carried along with its place in the window.
func.func @places_in_windows(%x: tensor<1x6xf32>) -> tensor<1x2xi64> {
  %m = tenon.window_argmax %x {window = [3], stride = [3]} : tensor<1x6xf32> -> tensor<1x2xi64>
  func.return %m : tensor<1x2xi64>
}
// CHECK-LABEL: @places_in_windows
// CHECK:         %{{.*}}, %m = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, ((d0 * 3) + d1))>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d2, d0)>], iterator_types = ["parallel", "reduction", "parallel"]}
// CHECK:           linalg.index 1 : index

// -----

// A convolution has as many loops over the image, and over the window, as there are spatial dimensions.
func.func @convolution(%x: tensor<1x1x2x9xf32>, %w: tensor<1x4x2x3xf32>) -> tensor<1x1x4x4xf32> {
  %y = tenon.convolution %x, %w {stride = [2]} : tensor<1x1x2x9xf32>, tensor<1x4x2x3xf32> -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}
// CHECK-LABEL: @convolution
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, ((d3 * 2) + d5))>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}

// -----

// Where elements come from is the map that the operand is read with.
func.func @index_map(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %t = tenon.transpose %x : tensor<2x3xf32> -> tensor<3x2xf32>
  %f = tenon.flip %x {axis = [1]} : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %t, %f : tensor<3x2xf32>, tensor<2x3xf32>
}
// CHECK-LABEL: @index_map
// CHECK:         %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK:         %f = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, ((d1 * -1) + 2))>, affine_map<(d0, d1) -> (d0, d1)>]

// -----

// An index that is data: counted from the end where it is negative, then kept inside.
func.func @indexing(%x: tensor<6x2xf32>, %i: tensor<4xi64>) -> tensor<4x2xf32> {
  %g = tenon.gather %x, %i : tensor<6x2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  func.return %g : tensor<4x2xf32>
}
// CHECK-LABEL: @indexing
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], {{.*}} ins(%i
// CHECK:           %[[COLUMN:.*]] = linalg.index 1 : index
// CHECK:           %[[FROM_END:.*]] = arith.addi
// CHECK:           arith.select %{{.*}}, %[[FROM_END]],
// CHECK:           arith.maxsi
// CHECK:           %[[INSIDE:.*]] = arith.minsi
// CHECK:           tensor.extract %x[%[[INSIDE]], %[[COLUMN]]] : tensor<6x2xf32>

// -----

// One update after the other; one that falls outside leaves what it would have replaced.
func.func @scatter(%x: tensor<6xf32>, %i: tensor<4xi64>, %u: tensor<4xf32>) -> tensor<6xf32> {
  %s = tenon.scatter_add %x, %i, %u : tensor<6xf32>, tensor<4xi64>, tensor<4xf32> -> tensor<6xf32>
  func.return %s : tensor<6xf32>
}
// CHECK-LABEL: @scatter
// CHECK:         %s = scf.for %[[I:.*]] = {{.*}} iter_args(%[[SO_FAR:.*]] = %x) -> (tensor<6xf32>) {
// CHECK:           %[[INSIDE:.*]] = arith.cmpi ult
// CHECK:           %[[OLD:.*]] = tensor.extract %[[SO_FAR]][%{{.*}}] : tensor<6xf32>
// CHECK:           %[[UPDATE:.*]] = tensor.extract %u[%{{.*}}] : tensor<4xf32>
// CHECK:           %[[SUM:.*]] = arith.addf %[[OLD]], %[[UPDATE]] : f32
// CHECK-NEXT:      %[[NEW:.*]] = arith.select %[[INSIDE]], %[[SUM]], %[[OLD]] : f32
// CHECK-NEXT:      %[[NEXT:.*]] = tensor.insert %[[NEW]] into %[[SO_FAR]]
// CHECK-NEXT:      scf.yield %[[NEXT]] : tensor<6xf32>

// -----

// A reshape takes the shape as a constant.
func.func @reshape(%x: tensor<6xf32>) -> (tensor<2x3xf32>) {
  %r = tenon.reshape %x {shape = [2, 3]} : tensor<6xf32> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}
// CHECK-LABEL: @reshape
// CHECK-NEXT:    %[[SHAPE:.*]] = arith.constant dense<[2, 3]> : tensor<2xindex>
// CHECK-NEXT:    %r = tensor.reshape %x(%[[SHAPE]])

// -----

// Constants are those of `arith`, of rank 0, too.
func.func @constants() -> (tensor<f32>, tensor<2xf32>) {
  %a = tenon.constant {value = dense<2.0> : tensor<f32>} : tensor<f32>
  %b = tenon.constant {value = dense<[1.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  func.return %a, %b : tensor<f32>, tensor<2xf32>
}
// CHECK-LABEL: @constants
// CHECK-NEXT:    %a = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:    %b = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>

// -----

// A branch gives tensors; the predicate is extracted.
func.func @cond(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tenon.cond %p -> (tensor<4xf32>) {
    %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
    tenon.yield %a : tensor<4xf32>
  } else {
    tenon.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @cond
// CHECK-NEXT:    %[[P:.*]] = tensor.extract %p[] : tensor<i1>
// CHECK-NEXT:    %r = scf.if %[[P]] -> (tensor<4xf32>) {
// CHECK:           %a = linalg.generic
// CHECK:             math.exp
// CHECK:           scf.yield %a : tensor<4xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %x : tensor<4xf32>
// CHECK-NEXT:    }

// -----

// A loop carries tensors; what it goes on by is extracted.
func.func @while_loop(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %q, %r = tenon.while_loop init(%p, %x : tensor<i1>, tensor<4xf32>) {
  ^bb0(%more: tensor<i1>, %v: tensor<4xf32>):
    tenon.yield %more : tensor<i1>
  } do {
  ^bb0(%more: tensor<i1>, %v: tensor<4xf32>):
    %not = tenon.logical_not %more : tensor<i1> -> tensor<i1>
    tenon.yield %not, %v : tensor<i1>, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
// CHECK-LABEL: @while_loop
// CHECK-NEXT:    %q, %r = scf.while (%more = %p, %v = %x) : (tensor<i1>, tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
// CHECK-NEXT:      %[[MORE:.*]] = tensor.extract %more[] : tensor<i1>
// CHECK-NEXT:      scf.condition(%[[MORE]]) %more, %v
// CHECK-NEXT:    } do {
// CHECK:           %not = linalg.generic
// CHECK:           scf.yield %not, %{{.*}} : tensor<i1>, tensor<4xf32>

// -----

// The last slice comes first, and what a step stacks goes to the place that its slice came from.
func.func @scan(%start: tensor<3xf32>, %rows: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %total, %sums = tenon.scan init(%start : tensor<3xf32>) slices(%rows : tensor<4x3xf32>) length 4 reverse -> (tensor<3xf32>, tensor<4x3xf32>) {
  ^bb0(%sum: tensor<3xf32>, %row: tensor<3xf32>):
    %next = tenon.add %sum, %row : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
    tenon.yield %next, %row : tensor<3xf32>, tensor<3xf32>
  }
  func.return %total, %sums : tensor<3xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: @scan
// CHECK:         %[[STACKED:.*]] = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    %total, %sums = scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%sum = %start, %[[SO_FAR:.*]] = %[[STACKED]]) -> (tensor<3xf32>, tensor<4x3xf32>) {
// CHECK-NEXT:      %[[LAST:.*]] = arith.constant 3 : index
// CHECK-NEXT:      %[[AT:.*]] = arith.subi %[[LAST]], %[[STEP]] : index
// CHECK-NEXT:      %row = tensor.extract_slice %rows[%[[AT]], 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<3xf32>
// CHECK:           %next = linalg.generic
// CHECK:           %[[NEXT:.*]] = tensor.insert_slice %row into %[[SO_FAR]][%[[AT]], 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
// CHECK-NEXT:      scf.yield %next, %[[NEXT]]

// -----

// Where windows or sums read it, what is padded is put into a tensor of the padding.
func.func private @padded(%x: tensor<2x3xf32>) -> tensor<2xf32> attributes {kernel} {
  %y = tenon.pad %x {low = [0, 1], high = [0, 1]} : tensor<2x3xf32> -> tensor<2x5xf32>
  %z = tenon.contract [%y] {maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], extents = [2, 5], shape = [2]} : [tensor<2x5xf32>] -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}
// CHECK-LABEL: @padded
// CHECK: %[[AROUND:.*]] = linalg.fill
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 + 1))>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xf32>) outs(%[[AROUND]]

// -----

// What is composed of others has no loops of its own.
func.func @composite(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.softmax %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK: tenon.softmax: is no structured op; run decompose first

// -----

// Loops have bounds.
func.func @unknown_shape(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = tenon.exp %x : tensor<?xf32> -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
// CHECK: tenon.exp: the shape of tensor<?xf32> must be known before lowering

// -----

// A search takes as many steps as the length has bits, whatever it finds, and chooses instead of branching: of 5
// elements it looks at one of 3, then of 1 more each time, at places that are inside of the sequence as they are.
func.func @search(%x: tensor<5xf32>, %v: tensor<9xf32>) -> tensor<9xi64> {
  %r = tenon.searchsorted %x, %v : tensor<5xf32>, tensor<9xf32> -> tensor<9xi64>
  func.return %r : tensor<9xi64>
}
// CHECK-LABEL: @search
// CHECK-NOT:     scf.
// CHECK-NOT:     arith.maxsi
// CHECK:         %[[V:.*]] = tensor.extract %v
// CHECK:         %[[AFTER:.*]] = arith.addi %[[LOW:.*]], %{{.*}} : index
// CHECK:         %[[FOUND:.*]] = tensor.extract %x
// CHECK:         arith.cmpf ole, %[[V]], %[[FOUND]] : f32
// CHECK:         arith.select %{{.*}}, %[[AFTER]], %[[LOW]] : index
// CHECK-COUNT-2: tensor.extract %x
// CHECK-NOT:     tensor.extract
// CHECK-NOT:     scf.
// CHECK:         linalg.yield
