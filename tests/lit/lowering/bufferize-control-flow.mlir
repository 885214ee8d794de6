// RUN: tenon-opt %s -p bufferize | filecheck %s

// Both branches write into the output.
func.func @branches(%x: tensor<8x4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %c = tensor.extract %p[] : tensor<i1>
  %0 = scf.if %c -> (tensor<4xf32>) {
    %1 = func.call @column_sums(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    %zeros = arith.constant dense<0.0> : tensor<4xf32>
    scf.yield %zeros : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @branches
// CHECK:        %c = memref.load %p[] : memref<i1>
// CHECK-NEXT:   scf.if %c {
// CHECK-NEXT:     func.call @column_sums(%x, %out0)
// CHECK-NEXT:   } else {
// CHECK-NEXT:     "memref.copy"([[ZEROS:%.*]], %out0)
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return

// A loop that swaps what it carries saves one of the two.
func.func @swap(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %lower = arith.constant 0 : index
  %upper = arith.constant 3 : index
  %step = arith.constant 1 : index
  %a, %b = scf.for %i = %lower to %upper step %step iter_args(%p = %x, %q = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %q, %p : tensor<4xf32>, tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK:      func.func @swap
// CHECK:        [[SAVED:%.*]] = memref.view %arena
// CHECK:        "memref.copy"(%x, %out0)
// CHECK-NEXT:   "memref.copy"(%y, %out1)
// CHECK-NEXT:   scf.for
// CHECK-NEXT:     "memref.copy"(%out0, [[SAVED]])
// CHECK-NEXT:     "memref.copy"(%out1, %out0)
// CHECK-NEXT:     "memref.copy"([[SAVED]], %out1)
// CHECK-NEXT:   }

// The rows of a temporary are views of the arena at a computed offset.
func.func @rows(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %lower = arith.constant 0 : index
  %upper = arith.constant 8 : index
  %step = arith.constant 1 : index
  %none = tensor.empty() : tensor<8x4xf32>
  %rows = scf.for %i = %lower to %upper step %step iter_args(%to = %none) -> (tensor<8x4xf32>) {
    %sums = func.call @column_sums(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
    %with = tensor.insert_slice %sums into %to[%i, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<8x4xf32>
    scf.yield %with : tensor<8x4xf32>
  }
  %0 = func.call @column_sums(%rows) : (tensor<8x4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func @rows
// CHECK:        scf.for %i
// CHECK-NEXT:     [[STEP:%.*]] = arith.muli %i, {{%.*}} : index
// CHECK-NEXT:     [[OFFSET:%.*]] = arith.addi {{%.*}}, [[STEP]] : index
// CHECK-NEXT:     [[ROW:%.*]] = memref.view %arena{{\[}}[[OFFSET]]{{\]}}[] : memref<128xi8> to memref<4xf32>
// CHECK-NEXT:     func.call @column_sums(%x, [[ROW]])
// CHECK-NEXT:   }

// A scatter updates its operand where the result is to be: the caller copies it there, unless it is there already.
func.func private @add_one_at(%x: tensor<4xf32>, %at: tensor<2xi64>) -> tensor<4xf32> attributes {kernel} {
  %one = arith.constant 1.0 : f32
  %lower = arith.constant 0 : index
  %upper = arith.constant 2 : index
  %step = arith.constant 1 : index
  %0 = scf.for %i = %lower to %upper step %step iter_args(%to = %x) -> (tensor<4xf32>) {
    %number = tensor.extract %at[%i] : tensor<2xi64>
    %index = arith.index_cast %number : i64 to index
    %old = tensor.extract %to[%index] : tensor<4xf32>
    %new = arith.addf %old, %one : f32
    %with = tensor.insert %new into %to[%index] : tensor<4xf32>
    scf.yield %with : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK:      func.func private @add_one_at(%at: memref<2xi64>, %out0: memref<4xf32>) attributes {{.*}}updated = array<i64: 0>
// CHECK-NOT:    memref.copy
// CHECK:        scf.for %i
// CHECK-NEXT:     %number = memref.load %at[%i]
// CHECK-NEXT:     %index = arith.index_cast
// CHECK-NEXT:     %old = memref.load %out0[%index]
// CHECK-NEXT:     %new = arith.addf
// CHECK-NEXT:     memref.store %new, %out0[%index]

// What the functions above call.
func.func private @column_sums(%x: tensor<8x4xf32>) -> tensor<4xf32> attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>],
    iterator_types = ["reduction", "parallel"]
  } ins(%x : tensor<8x4xf32>) outs(%filled : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
