// RUN: tenon-opt %s | filecheck %s
// RUN: tenon-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: tenon-opt %s --print-op-generic | tenon-opt | filecheck %s

func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  %z = tenon.add %x, %y : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
// CHECK-LABEL:   @elementwise
// CHECK-NEXT:      %z = tenon.add %x, %y : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
// GENERIC-LABEL: sym_name = "elementwise"
// GENERIC:         %z = "tenon.add"(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>

// A setting that has its default value is not printed.
func.func @defaults_are_elided(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tenon.leaky_relu %x {negative_slope = 0.01} : tensor<4xf32> -> tensor<4xf32>
  %b = tenon.leaky_relu %x {negative_slope = 0.2} : tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL:   @defaults_are_elided
// CHECK-NEXT:      %a = tenon.leaky_relu %x : tensor<4xf32>
// CHECK-NEXT:      %b = tenon.leaky_relu %x {negative_slope = 0.2} : tensor<4xf32>
// GENERIC-LABEL: sym_name = "defaults_are_elided"
// GENERIC:         %b = "tenon.leaky_relu"(%x) <{negative_slope = 2.000000e-01 : f64}>

// Every kind of setting reads as what it is: numbers, truth values, strings, lists, dtypes.
func.func @settings(%x: tensor<2x3xf32>) -> (tensor<1x1xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2x1xi64>) {
  %a = tenon.sum %x {axis = [0, 1], keepdims = true} : tensor<2x3xf32> -> tensor<1x1xf32>
  %b = tenon.gelu %x {approximate = "tanh"} : tensor<2x3xf32> -> tensor<2x3xf32>
  %c = tenon.cast %x {dtype = bf16} : tensor<2x3xf32> -> tensor<2x3xbf16>
  %d = tenon.argmax %x {axis = 1, keepdims = true} : tensor<2x3xf32> -> tensor<2x1xi64>
  func.return %a, %b, %c, %d : tensor<1x1xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2x1xi64>
}
// CHECK-LABEL:   @settings
// CHECK-NEXT:      %a = tenon.sum %x {axis = [0, 1], keepdims = true}
// CHECK-NEXT:      %b = tenon.gelu %x {approximate = "tanh"}
// CHECK-NEXT:      %c = tenon.cast %x {dtype = bf16}
// CHECK-NEXT:      %d = tenon.argmax %x {axis = 1, keepdims = true}
// GENERIC-LABEL: sym_name = "settings"
// GENERIC:         "tenon.sum"(%x) <{axis = array<i64: 0, 1>, keepdims = true}>

func.func @constants() -> (tensor<f32>, tensor<2x2xi64>, tensor<3xi1>, tensor<3xi32>) {
  %a = tenon.constant {value = dense<0x7f800000> : tensor<f32>} : tensor<f32>
  %b = tenon.constant {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>} : tensor<2x2xi64>
  %c = tenon.constant {value = dense<[true, false, true]> : tensor<3xi1>} : tensor<3xi1>
  %d = tenon.iota {shape = [3], dtype = i32} : tensor<3xi32>
  func.return %a, %b, %c, %d : tensor<f32>, tensor<2x2xi64>, tensor<3xi1>, tensor<3xi32>
}
// CHECK-LABEL:   @constants
// CHECK-NEXT:      %a = tenon.constant {value = dense<0x7f800000> : tensor<f32>} : tensor<f32>
// CHECK-NEXT:      %b = tenon.constant {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>} : tensor<2x2xi64>
// CHECK-NEXT:      %c = tenon.constant {value = dense<[true, false, true]> : tensor<3xi1>} : tensor<3xi1>
// CHECK-NEXT:      %d = tenon.iota {shape = [3], dtype = i32} : tensor<3xi32>

// An optional operand that is absent is `none`; a variadic one is a list.
func.func @absent_and_repeated_operands(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
  %a = tenon.clip %x, none, %w : tensor<4xf32>, none, tensor<4xf32> -> tensor<4xf32>
  %b = tenon.layer_norm %x, %w, none : tensor<4xf32>, tensor<4xf32>, none -> tensor<4xf32>
  %c = tenon.concatenate [%x, %w] : [tensor<4xf32>, tensor<4xf32>] -> tensor<8xf32>
  func.return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
}
// CHECK-LABEL:   @absent_and_repeated_operands
// CHECK-NEXT:      %a = tenon.clip %x, none, %w : tensor<4xf32>, none, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:      %b = tenon.layer_norm %x, %w, none : tensor<4xf32>, tensor<4xf32>, none -> tensor<4xf32>
// CHECK-NEXT:      %c = tenon.concatenate [%x, %w] : [tensor<4xf32>, tensor<4xf32>] -> tensor<8xf32>
// GENERIC-LABEL: sym_name = "absent_and_repeated_operands"
// GENERIC:         %a = "tenon.clip"(%x, %w) <{operandSegmentSizes = array<i32: 1, 0, 1>}>

func.func @several_results(%x: tensor<4xf32>) -> tensor<2xf32> {
  %a, %b = tenon.split %x {sections = 2} : tensor<4xf32> -> (tensor<2xf32>, tensor<2xf32>)
  func.return %b : tensor<2xf32>
}
// CHECK-LABEL:   @several_results
// CHECK-NEXT:      %a, %b = tenon.split %x {sections = 2} : tensor<4xf32> -> (tensor<2xf32>, tensor<2xf32>)

// What is not known of a shape is `?`, or `*` for all of it; inference goes as far as it can.
func.func @unknown_shapes(%x: tensor<?x3xf32>, %y: tensor<*xf32>) -> (tensor<?xf32>, tensor<*xf32>, tensor<?x4xf32>) {
  %w = tenon.iota {shape = [3, 4], dtype = f32} : tensor<3x4xf32>
  %a = tenon.sum %x {axis = [1]} : tensor<?x3xf32> -> tensor<?xf32>
  %b = tenon.exp %y : tensor<*xf32> -> tensor<*xf32>
  %c = tenon.matmul %x, %w : tensor<?x3xf32>, tensor<3x4xf32> -> tensor<?x4xf32>
  func.return %a, %b, %c : tensor<?xf32>, tensor<*xf32>, tensor<?x4xf32>
}
// CHECK-LABEL:   @unknown_shapes
// CHECK:           %a = tenon.sum %x {axis = [1]} : tensor<?x3xf32> -> tensor<?xf32>
// CHECK-NEXT:      %b = tenon.exp %y : tensor<*xf32> -> tensor<*xf32>
// CHECK-NEXT:      %c = tenon.matmul %x, %w : tensor<?x3xf32>, tensor<3x4xf32> -> tensor<?x4xf32>

// Attributes of others carry a dialect's name and go along.
func.func @attributes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x {mine.mark, mine.depth = 2 : i64} : tensor<4xf32> -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
// CHECK-LABEL:   @attributes
// CHECK-NEXT:      %a = tenon.exp %x {mine.mark, mine.depth = 2 : i64} : tensor<4xf32>

func.func @one_op_of_each_family(%x: tensor<1x4x6xf32>, %w: tensor<6x5xf32>, %i: tensor<2xi64>, %u: tensor<2x4x6xf32>) -> tensor<1x4x6xf32> {
  %composite = tenon.softmax %x {axis = 1} : tensor<1x4x6xf32> -> tensor<1x4x6xf32>
  %reduction = tenon.max %x : tensor<1x4x6xf32> -> tensor<f32>
  %contraction = tenon.contract [%w] {maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], extents = [6, 5], shape = [5]} : [tensor<6x5xf32>] -> tensor<5xf32>
  %window = tenon.window_max %x {window = [2, 3], stride = [2, 3]} : tensor<1x4x6xf32> -> tensor<1x2x2xf32>
  %index_map = tenon.transpose %w {permutation = [1, 0]} : tensor<6x5xf32> -> tensor<5x6xf32>
  %indexing = tenon.gather %w, %i {axis = 1} : tensor<6x5xf32>, tensor<2xi64> -> tensor<6x2xf32>
  %scatter = tenon.scatter_add %x, %i, %u : tensor<1x4x6xf32>, tensor<2xi64>, tensor<2x4x6xf32> -> tensor<1x4x6xf32>
  func.return %scatter : tensor<1x4x6xf32>
}
// CHECK-LABEL:   @one_op_of_each_family
// CHECK-NEXT:      %composite = tenon.softmax %x {axis = 1} : tensor<1x4x6xf32> -> tensor<1x4x6xf32>
// CHECK-NEXT:      %reduction = tenon.max %x : tensor<1x4x6xf32> -> tensor<f32>
// CHECK-NEXT:      %contraction = tenon.contract [%w] {maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], extents = [6, 5], shape = [5]} : [tensor<6x5xf32>] -> tensor<5xf32>
// CHECK-NEXT:      %window = tenon.window_max %x {window = [2, 3], stride = [2, 3]} : tensor<1x4x6xf32> -> tensor<1x2x2xf32>
// CHECK-NEXT:      %index_map = tenon.transpose %w {permutation = [1, 0]} : tensor<6x5xf32> -> tensor<5x6xf32>
// CHECK-NEXT:      %indexing = tenon.gather %w, %i {axis = 1} : tensor<6x5xf32>, tensor<2xi64> -> tensor<6x2xf32>
// CHECK-NEXT:      %scatter = tenon.scatter_add %x, %i, %u : tensor<1x4x6xf32>, tensor<2xi64>, tensor<2x4x6xf32> -> tensor<1x4x6xf32>

// Padding is sizes or a name.
func.func @padding(%x: tensor<1x2x9xf32>, %w: tensor<4x2x3xf32>) -> (tensor<1x4x5xf32>, tensor<1x2x5xf32>) {
  %named = tenon.conv %x, %w, none {padding = "same", stride = [2]} : tensor<1x2x9xf32>, tensor<4x2x3xf32>, none -> tensor<1x4x5xf32>
  %sizes = tenon.max_pool1d %x {window = [2], padding = [0, 1]} : tensor<1x2x9xf32> -> tensor<1x2x5xf32>
  func.return %named, %sizes : tensor<1x4x5xf32>, tensor<1x2x5xf32>
}
// CHECK-LABEL:   @padding
// CHECK-NEXT:      %named = tenon.conv %x, %w, none {stride = [2], padding = "same"} : tensor<1x2x9xf32>, tensor<4x2x3xf32>, none -> tensor<1x4x5xf32>
// CHECK-NEXT:      %sizes = tenon.max_pool1d %x {window = [2], padding = [0, 1]} : tensor<1x2x9xf32> -> tensor<1x2x5xf32>
// GENERIC-LABEL: sym_name = "padding"
// GENERIC:         padding = "same"
// GENERIC:         padding = array<i64: 0, 1>

// Optional operands behind the last one that is there may be left out.
func.func @absent_operands(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %i: tensor<2xi64>) -> (tensor<f32>, tensor<2x3xf32>) {
  %loss = tenon.cross_entropy %x, %i : tensor<2x3xf32>, tensor<2xi64> -> tensor<f32>
  %norm = tenon.layer_norm %x, none, %w {axis = [1]} : tensor<2x3xf32>, none, tensor<3xf32> -> tensor<2x3xf32>
  func.return %loss, %norm : tensor<f32>, tensor<2x3xf32>
}
// CHECK-LABEL:   @absent_operands
// CHECK-NEXT:      %loss = tenon.cross_entropy %x, %i, none : tensor<2x3xf32>, tensor<2xi64>, none -> tensor<f32>
// CHECK-NEXT:      %norm = tenon.layer_norm %x, none, %w
