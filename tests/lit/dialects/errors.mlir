// RUN: tenon-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Each message names the op, the rule, both values and the arguments they came from.

func.func @sizes_that_disagree(%x: tensor<4x3xf32>, %y: tensor<2x5xf32>) {
  %z = tenon.matmul %x, %y : tensor<4x3xf32>, tensor<2x5xf32> -> tensor<4x5xf32>
  func.return
}
// CHECK: tenon.matmul: dimension k is 3 in x and 2 in y

// -----

func.func @shapes_that_do_not_broadcast(%x: tensor<4x3xf32>, %y: tensor<4xf32>) {
  %z = tenon.add %x, %y : tensor<4x3xf32>, tensor<4xf32> -> tensor<4x3xf32>
  func.return
}
// CHECK: tenon.add: shapes do not broadcast: dimension -1 is 3 in x and 4 in y

// -----

func.func @dtypes_that_differ(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  %z = tenon.add %x, %y : tensor<4xf32>, tensor<4xf64> -> tensor<4xf64>
  func.return
}
// CHECK: tenon.add: dtype is f32 in x and f64 in y

// -----

func.func @dtype_that_an_op_does_not_take(%x: tensor<4xi32>) {
  %z = tenon.exp %x : tensor<4xi32> -> tensor<4xi32>
  func.return
}
// CHECK: operand 'x' at position 0 does not verify:
// CHECK: dtype is i32 where one of f16, bf16, f32, f64 is needed

// -----

func.func @dtype_that_is_none(%x: tensor<4xf32>) {
  %z = tenon.cast %x {dtype = f24} : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK:      tenon.cast %x {dtype = f24}
// CHECK-NEXT:                        ^^^
// CHECK-NEXT:                        type expected

// -----

func.func @result_that_is_not_inferred(%x: tensor<4xf32>) {
  %z = tenon.exp %x : tensor<4xf32> -> tensor<5xf32>
  func.return
}
// CHECK: tenon.exp: result type is tensor<5xf32> but tensor<4xf32> is inferred from operands and settings

// -----

func.func @rank(%x: tensor<2x3x4xf32>, %w: tensor<8x3x2x2xf32>) {
  %z = tenon.conv2d %x, %w, none : tensor<2x3x4xf32>, tensor<8x3x2x2xf32>, none -> tensor<2x8x1x1xf32>
  func.return
}
// CHECK: tenon.conv2d: rank of x is 3 where 4 is needed

// -----

func.func @operand_that_is_missing(%x: tensor<2x3xf32>) {
  %z = tenon.cross_entropy %x : tensor<2x3xf32> -> tensor<f32>
  func.return
}
// CHECK: tenon.cross_entropy: operand labels is missing (operands: logits, labels, weight)

// -----

func.func @type_that_is_missing(%x: tensor<4xf32>) {
  %z = tenon.add %x, %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: tenon.add: type of operand y is missing (operands: x, y)

// -----

func.func @operand_too_many(%x: tensor<4xf32>) {
  %z = tenon.exp %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: tenon.exp: operand behind the last one (operands: x)

// -----

func.func @operands_without_brackets(%x: tensor<4xf32>) {
  %z = tenon.concatenate %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  func.return
}
// CHECK: tenon.concatenate: operand tensors stands in brackets, as a list

// -----

func.func @axis(%x: tensor<2x3xf32>) {
  %z = tenon.sum %x {axis = [2]} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}
// CHECK: tenon.sum: axis is 2 but the rank is 2

// -----

func.func @setting_of_another_kind(%x: tensor<2x3xf32>) {
  %z = tenon.sum %x {axis = "rows"} : tensor<2x3xf32> -> tensor<2xf32>
  func.return
}
// CHECK:      tenon.sum %x {axis = "rows"}
// CHECK-NEXT:                   ^^^^^^
// CHECK-NEXT:                   '[' expected

// -----

func.func @setting_that_is_none_of_the_choices(%x: tensor<4xf32>) {
  %z = tenon.gelu %x {approximate = "sigmoid"} : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: "sigmoid" is not one of 'none', 'tanh'
// CHECK: %z = "tenon.gelu"(%x)

// -----

func.func @setting_given_twice(%x: tensor<4xf32>) {
  %z = tenon.sum %x {keepdims = true, keepdims = false} : tensor<4xf32> -> tensor<f32>
  func.return
}
// CHECK: tenon.sum: 'keepdims' is given twice

// -----

func.func @setting_that_is_missing(%x: tensor<4xf32>) {
  %z = tenon.reshape %x : tensor<4xf32> -> tensor<2x2xf32>
  func.return
}
// CHECK: tenon.reshape: setting 'shape' is missing

// -----

func.func @setting_that_the_op_does_not_have(%x: tensor<4xf32>) {
  %z = tenon.softmax %x {axes = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: tenon.softmax: unknown setting 'axes' (settings: axis), did you mean 'axis'

// -----

func.func @setting_of_another_kind(%x: tensor<4xf32>) {
  %z = tenon.softmax %x {axis = "rows"} : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: tenon.softmax: setting 'axis': Expected integer literal

// -----

func.func @results_without_parentheses(%x: tensor<4xf32>) {
  %y, %z = tenon.top_k %x {k = 2} : tensor<4xf32> -> tensor<2xf32>, tensor<2xi64>
  func.return
}
// CHECK: tenon.top_k: the types of results values, indices stand in parentheses

// -----

func.func @more_operands_than_types(%x: tensor<4xf32>) {
  %z = tenon.concatenate [%x, %x] : [tensor<4xf32>] -> tensor<8xf32>
  func.return
}
// CHECK: tenon.concatenate: tensors has 2 values and 1 types

// -----

func.func @operand_of_another_type(%x: tensor<4xf32>) {
  %z = tenon.exp %x : tensor<5xf32> -> tensor<5xf32>
  func.return
}
// CHECK: operand is used with type tensor<5xf32>, but has been previously used or defined with type tensor<4xf32>

// -----

func.func @op_that_is_not_there(%x: tensor<4xf32>) {
  %z = tenon.expp %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK: operation tenon.expp is not registered, did you mean 'tenon.exp'

// -----

func.func @predicate(%p: tensor<1xi1>) {
  "tenon.cond"(%p) ({
    tenon.yield
  }, {
    tenon.yield
  }) : (tensor<1xi1>) -> ()
  func.return
}
// CHECK: tenon.cond: predicate is tensor<1xi1> where tensor<i1> is needed

// -----

func.func @branches(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<5xf32>) {
  %r = tenon.cond %p -> (tensor<4xf32>) {
    tenon.yield %x : tensor<4xf32>
  } else {
    tenon.yield %y : tensor<5xf32>
  }
  func.return
}
// CHECK: tenon.cond: otherwise yields tensor<5xf32> as value 0 where tensor<4xf32> is needed

// -----

func.func @number_of_slices(%x: tensor<4xf32>) {
  tenon.scan slices(%x : tensor<4xf32>) length 3 -> () {
  ^bb0(%e: tensor<f32>):
    tenon.yield
  }
  func.return
}
// CHECK: tenon.scan: sequence 0 has shape (4,) where 3 slices are needed

// -----

func.func @condition(%n: tensor<i64>) {
  %r = tenon.while_loop init(%n : tensor<i64>) {
  ^bb0(%i: tensor<i64>):
    tenon.yield %i : tensor<i64>
  } do {
  ^bb0(%i: tensor<i64>):
    tenon.yield %i : tensor<i64>
  }
  func.return
}
// CHECK: tenon.while_loop: condition yields tensor<i64> as value 0 where tensor<i1> is needed

// -----

func.func @syntax(%x: tensor<4xf32>) {
  %z = tenon.exp %x tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK:      tenon.exp %x tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:              ^^^^^^
// CHECK-NEXT:              Expected ':'

// -----

func.func @op_that_is_misspelled(%x: tensor<4xf32>) {
  %y = tenon.sofmax %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}
// CHECK:      errors.mlir:{{[0-9]+}}:8
// CHECK:      tenon.sofmax %x
// CHECK-NEXT: ^^^^^^^^^^^^
// CHECK-NEXT: operation tenon.sofmax is not registered, did you mean 'tenon.softmax'

// -----

// Values are looked for where they are used, within the function.
func.func @value_that_is_not_defined(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %y : tensor<4xf32>
}
func.func @another(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// CHECK:      func.return %y
// CHECK-NEXT:             ^^
// CHECK-NEXT:             value %y is used but not defined

// -----

func.func @literal_that_no_memory_holds() {
  %y = arith.constant dense<1.0> : tensor<2147483648xf32>
  func.return
}
// CHECK: the values of tensor<2147483648xf32> take 8589934592 bytes, and a literal has up to 1073741824

// -----

func.func @number_out_of_range() {
  %y = tenon.constant {value = dense<[1, 18446744073709551616]> : tensor<2xi64>} : tensor<2xi64>
  func.return
}
// CHECK: errors.mlir:{{[0-9]+}}:3
// CHECK: Integer value 18446744073709551616 is out of range for type i64

// -----

func.func @element_that_is_not_stored() {
  %y = tenon.constant {value = dense<0> : tensor<tf32>} : tensor<tf32>
  func.return
}
// CHECK: errors.mlir:{{[0-9]+}}:3
// CHECK: dtype tf32 is not one of f16, bf16, f32, f64

// -----

func.func @a_storage_type(%x: tensor<4xf8E4M3FN>) {
  %z = tenon.exp %x : tensor<4xf8E4M3FN> -> tensor<4xf8E4M3FN>
  func.return
}
// CHECK: dtype is f8E4M3FN where one of f16, bf16, f32, f64 is needed; f8E4M3FN is a storage type: cast first (tenon.cast)

// -----

func.func @numbers_of_a_type_that_is_not_stored() {
  %z = tenon.constant {value = dense<0> : tensor<tf32>} : tensor<tf32>
  func.return
}
// CHECK: dtype tf32 is not one of f16, bf16

// -----

func.func @numbers_without_a_form_in_memory() {
  %z = tenon.constant {value = dense<[1, 2]> : tensor<2xi128>} : tensor<2xi128>
  func.return
}
// CHECK: dense: the numbers are of a type that has no form in memory
