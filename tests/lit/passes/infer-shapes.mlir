// RUN: tenon-opt %s -p infer-shapes --split-input-file --verify-diagnostics | filecheck %s

// What follows from the arguments is inferred: ranks, dimensions, and the results of the function.
func.func @ranks_and_dimensions(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<*xf32> {
  %y = tenon.matmul %x, %w : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<?x?xf32>
  %z = tenon.exp %y : tensor<?x?xf32> -> tensor<*xf32>
  func.return %z : tensor<*xf32>
}
// CHECK-LABEL: func.func @ranks_and_dimensions(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>) -> tensor<4x5xf32>
// CHECK-NEXT:    tenon.matmul %x, %w : tensor<4x3xf32>, tensor<3x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    tenon.exp %y : tensor<4x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    func.return %z : tensor<4x5xf32>

// -----

// What does not follow stays as it is.
func.func @what_stays_unknown(%x: tensor<?x3xf32>, %y: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %a = tenon.transpose %x : tensor<?x3xf32> -> tensor<*xf32>
  %b = tenon.exp %y : tensor<*xf32> -> tensor<*xf32>
  func.return %a, %b : tensor<*xf32>, tensor<*xf32>
}
// CHECK-LABEL: func.func @what_stays_unknown
// CHECK-SAME:    -> (tensor<3x?xf32>, tensor<*xf32>)

// -----

// Sizes also follow from settings.
func.func @sizes_in_settings(%x: tensor<4x6xf32>) -> tensor<?x?xf32> {
  %a = tenon.reshape %x {shape = [-1, 3]} : tensor<4x6xf32> -> tensor<?x?xf32>
  %b = tenon.slice %a {starts = [1, 0], limits = [7, 3], strides = [2, 1]} : tensor<?x?xf32> -> tensor<?x?xf32>
  %c = tenon.concatenate [%b, %b] {axis = 0} : [tensor<?x?xf32>, tensor<?x?xf32>] -> tensor<?x?xf32>
  func.return %c : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @sizes_in_settings
// CHECK:         tenon.reshape {{.*}} -> tensor<8x3xf32>
// CHECK-NEXT:    tenon.slice {{.*}} -> tensor<3x3xf32>
// CHECK-NEXT:    tenon.concatenate {{.*}} -> tensor<6x3xf32>

// -----

// Where the type of an argument says what a name stands for, the name is that number everywhere.
func.func @names_that_are_numbers(%x: tensor<4x?xf32> {tenon.shape = ["n", "m"]}) -> tensor<?x?xf32> {
  %a = tenon.iota {shape = ["n", "2*m"], axis = 0, dtype = f32} : tensor<?x?xf32>
  %n = tenon.size {value = ["n"]} : tensor<i64>
  func.return %a : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @names_that_are_numbers(%x: tensor<4x?xf32> {tenon.shape = [4 : i64, "m"]}) -> tensor<4x?xf32>
// CHECK-NEXT:    tenon.iota {shape = [4, "2*m"], {{.*}} : tensor<4x?xf32>
// CHECK-NEXT:    tenon.size {value = [4]}

// -----

// A name is one number.
func.func @names_that_are_two_numbers(%x: tensor<4xf32> {tenon.shape = ["n"]}, %y: tensor<5x?xf32> {tenon.shape = ["n", "m"]}) {
  func.return
}
// CHECK: @names_that_are_two_numbers: dimension 0 of argument 1 is 5, and n is 4 in another

// -----

// A result of `cond` has what both branches have.
func.func @branches(%p: tensor<i1>, %x: tensor<4x3xf32>, %y: tensor<5x3xf32>) -> tensor<?x?xf32> {
  %r:2 = tenon.cond %p -> (tensor<?x?xf32>, tensor<?x?xf32>) {
    %a = tenon.exp %x : tensor<4x3xf32> -> tensor<?x?xf32>
    tenon.yield %a, %a : tensor<?x?xf32>, tensor<?x?xf32>
  } else {
    tenon.yield %x, %y : tensor<4x3xf32>, tensor<5x3xf32>
  }
  %s = tenon.exp %r#1 : tensor<?x?xf32> -> tensor<?x?xf32>
  func.return %s : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @branches
// CHECK-SAME:    -> tensor<?x3xf32>
// CHECK-NEXT:    tenon.cond %p -> (tensor<4x3xf32>, tensor<?x3xf32>)
// CHECK-NEXT:      tenon.exp %x : tensor<4x3xf32> -> tensor<4x3xf32>

// -----

// A carried value keeps the type that it begins with.
func.func @loops(%x: tensor<4xf32>) -> tensor<?xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<?xf32>
  %w = tenon.while_loop init(%y : tensor<?xf32>) {
  ^bb0(%v: tensor<?xf32>):
    %s = tenon.sum %v : tensor<?xf32> -> tensor<f32>
    %c = tenon.less %s, %s : tensor<f32>, tensor<f32> -> tensor<i1>
    tenon.yield %c : tensor<i1>
  } do {
  ^bb1(%v: tensor<?xf32>):
    %e = tenon.exp %v : tensor<?xf32> -> tensor<?xf32>
    tenon.yield %e : tensor<?xf32>
  }
  func.return %w : tensor<?xf32>
}
// CHECK-LABEL: func.func @loops
// CHECK-SAME:    -> tensor<4xf32>
// CHECK:         tenon.while_loop init(%y : tensor<4xf32>) {
// CHECK-NEXT:    ^{{.*}}(%v: tensor<4xf32>):
// CHECK:         } do {
// CHECK:           tenon.exp {{.*}} : tensor<4xf32> -> tensor<4xf32>

// -----

// What a scan stacks has a new first dimension.
func.func @scans(%w: tensor<4xf32>, %xs: tensor<5x4xf32>) -> tensor<5x?xf32> {
  %r, %all = tenon.scan init(%w : tensor<4xf32>) slices(%xs : tensor<5x4xf32>) length 5 -> (tensor<4xf32>, tensor<5x?xf32>) {
  ^bb2(%total: tensor<4xf32>, %step: tensor<?xf32>):
    %t = tenon.add %total, %step : tensor<4xf32>, tensor<?xf32> -> tensor<4xf32>
    tenon.yield %t, %t : tensor<4xf32>, tensor<4xf32>
  }
  func.return %all : tensor<5x?xf32>
}
// CHECK-LABEL: func.func @scans
// CHECK-SAME:    -> tensor<5x4xf32>
// CHECK:         tenon.scan {{.*}} -> (tensor<4xf32>, tensor<5x4xf32>)
// CHECK:           tenon.add %total, %step : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>

// -----

// A carried value cannot have another shape after a step.
func.func @carried_value_that_changes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = tenon.while_loop init(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<?xf32>):
    %s = tenon.sum %v : tensor<?xf32> -> tensor<f32>
    %c = tenon.less %s, %s : tensor<f32>, tensor<f32> -> tensor<i1>
    tenon.yield %c : tensor<i1>
  } do {
  ^bb1(%v: tensor<?xf32>):
    %e = tenon.concatenate [%v, %v] {axis = 0} : [tensor<?xf32>, tensor<?xf32>] -> tensor<?xf32>
    tenon.yield %e : tensor<?xf32>
  }
  func.return %w : tensor<4xf32>
}
// CHECK: tenon.while_loop: yielded value 0 has shape (8,), and (4,) is given: {{.*}}infer-shapes.mlir:121

// -----

// All calls agree, so the function itself takes what they give; its calls go on as before.
func.func @calls_that_agree(%x: tensor<4x3xf32>) -> tensor<?x3xf32> {
  %y = tenon.exp %x : tensor<4x3xf32> -> tensor<?x3xf32>
  %a = func.call @twice(%y) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %b = func.call @twice(%a) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %b : tensor<?x3xf32>
}
func.func private @twice(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = tenon.add %x, %x : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
// CHECK-LABEL: func.func @calls_that_agree
// CHECK:         %a = func.call @twice(%y) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:    %b = func.call @twice(%a) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-LABEL: func.func private @twice(%x: tensor<4x3xf32>) -> tensor<4x3xf32>

// -----

// For each list of types that it is called with, there is a copy of the function.
func.func @calls_that_differ(%x: tensor<4xf32>, %y: tensor<5xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %u = tenon.exp %x : tensor<4xf32> -> tensor<?xf32>
  %v = tenon.exp %y : tensor<5xf32> -> tensor<?xf32>
  %a = func.call @double(%u) : (tensor<?xf32>) -> tensor<?xf32>
  %b = func.call @double(%v) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %a, %b : tensor<?xf32>, tensor<?xf32>
}
func.func private @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = tenon.add %x, %x : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
// CHECK-LABEL: func.func @calls_that_differ
// CHECK-SAME:    -> (tensor<4xf32>, tensor<5xf32>)
// CHECK:         %a = func.call @double_0(%u)
// CHECK-NEXT:    %b = func.call @double_1(%v)
// CHECK-NOT:     @double(
// CHECK:       func.func private @double_1(%x: tensor<5xf32>) -> tensor<5xf32>
// CHECK:       func.func private @double_0(%x: tensor<4xf32>) -> tensor<4xf32>

// -----

// What callers outside of the module see keeps its type.
func.func @call_of_a_public_function(%x: tensor<4xf32>) -> tensor<?xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<?xf32>
  %a = func.call @public(%y) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %a : tensor<?xf32>
}
func.func @public(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = tenon.exp %x : tensor<?xf32> -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
// CHECK-LABEL: func.func @call_of_a_public_function
// CHECK:         func.call @public_0(%y) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func @public(%x: tensor<?xf32>) -> tensor<?xf32>
// CHECK:       func.func private @public_0(%x: tensor<4xf32>) -> tensor<4xf32>

// -----

// A function whose own calls were taken care of is copied with them, and they are inferred again.
func.func private @inner(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = tenon.exp %x : tensor<?x?xf32> -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}
func.func @calls_and_is_called(%x: tensor<?x4xf32>) -> tensor<?x?xf32> {
  %y = tenon.exp %x : tensor<?x4xf32> -> tensor<?x?xf32>
  %z = func.call @inner(%y) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %z : tensor<?x?xf32>
}
func.func @call_of_what_calls(%x: tensor<3x4xf32>) -> tensor<?x?xf32> {
  %y = tenon.exp %x : tensor<3x4xf32> -> tensor<?x4xf32>
  %z = func.call @calls_and_is_called(%y) : (tensor<?x4xf32>) -> tensor<?x?xf32>
  func.return %z : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @calls_and_is_called(%x: tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK:         func.call @inner_0(%y) : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-LABEL: func.func private @calls_and_is_called_0(%x: tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK:         func.call @inner_1(%y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK-LABEL: func.func @call_of_what_calls(%x: tensor<3x4xf32>) -> tensor<3x4xf32>

// -----

// A function that calls itself with ever larger shapes is an error.
func.func @shapes_without_end(%x: tensor<1xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a = tenon.concatenate [%x, %x] {axis = 0} : [tensor<1xf32>, tensor<1xf32>] -> tensor<?xf32>
  %b = func.call @longer(%x, %a) : (tensor<1xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %b : tensor<?xf32>
}
func.func private @longer(%x: tensor<1xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a = tenon.concatenate [%x, %y] {axis = 0} : [tensor<1xf32>, tensor<?xf32>] -> tensor<?xf32>
  %b = func.call @longer(%x, %a) : (tensor<1xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %b : tensor<?xf32>
}
// CHECK: regions are nested, or functions call themselves with other shapes, too deeply
