// RUN: not tenon run %s --args iota:2x3xf32 2>&1 | filecheck %s --check-prefix COUNT
// RUN: not tenon run %s --args iota:2x3xf32,iota:3x3xf32 2>&1 | filecheck %s --check-prefix SHAPE
// RUN: not tenon run %s --args iota:2x3xf64,iota:3x2xf32 2>&1 | filecheck %s --check-prefix DTYPE
// RUN: not tenon run %s --args iota:2x3xq8,iota:3x2xf32 2>&1 | filecheck %s --check-prefix GENERATED
// RUN: not tenon run %s --args %t.missing.npy,iota:3x2xf32 2>&1 | filecheck %s --check-prefix MISSING
// RUN: echo text > %t.npy
// RUN: not tenon run %s --args %t.npy,iota:3x2xf32 2>&1 | filecheck %s --check-prefix CONTENTS
// RUN: not tenon run %s --args iota:2x3xf32,iota:3x2xf32 -o %t.txt 2>&1 | filecheck %s --check-prefix OUTPUT
// RUN: not tenon run %t.missing.mlir 2>&1 | filecheck %s --check-prefix FILE

// What is wrong with arguments is said in one line, which names the argument, what it takes and what was given.
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>) {
  %y = tenon.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  func.return %y, %x : tensor<2x2xf32>, tensor<2x3xf32>
}
// COUNT:     tenon: error: @main takes 2 arguments (tensor<2x3xf32>, tensor<3x2xf32>), got 1
// SHAPE:     tenon: error: argument w of @main is tensor<3x2xf32>, got f32[3, 3]
// DTYPE:     tenon: error: argument x of @main is tensor<2x3xf32>, got f64[2, 3]
// GENERATED: tenon: error: iota:2x3xq8: dtype q8 is not one of {{.*}}; write shape and dtype like iota:4x3xf32
// MISSING:   tenon: error: {{.*}}.npy: no such file or directory
// CONTENTS:  tenon: error: {{.*}}.npy is not a .npy file of numbers
// OUTPUT:    tenon: error: output {{.*}}.txt ends neither in .npy nor in .npz
// FILE:      tenon: error: {{.*}}.missing.mlir: no such file or directory
