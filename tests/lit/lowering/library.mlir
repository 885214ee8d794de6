// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine="sm_90 libraries=cublas"}' | filecheck %s --check-prefix STEPS
// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine="sm_90 libraries=cublas"},apply-steps{machine="sm_90 libraries=cublas"}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine=sm_90}' | filecheck %s --check-prefix WITHOUT

// A large product of f32, of a transposed operand, is left to cuBLAS where there is one: it becomes a declaration.
func.func private @large(%a: memref<4096x4096xf32>, %b: memref<4096x4096xf32>, %o: memref<4096x4096xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<4096x4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4096x4096xf32>, memref<4096x4096xf32>) outs(%o : memref<4096x4096xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  func.return
}
// STEPS: func.func private @large({{.*}}schedule = ["library(cublas)"]
// CHECK: func.func private @large(memref<4096x4096xf32>, memref<4096x4096xf32>, memref<4096x4096xf32>) -> () attributes {
// CHECK-SAME: library = "cublas", sizes = array<i64: 4096, 4096, 4096, 1>, left = array<i64: 0, 4096, 0, 0>, right = array<i64: 1, 4096, 1, 0>, result = array<i64: 2, 4096, 0, 0>
// WITHOUT: func.func private @large({{.*}}schedule = ["split

// -----

// What computes in place is none of it: cuBLAS reads operands while it writes.
func.func @main(%x: memref<4096x4096xf32>) {
  func.call @in_place(%x, %x) : (memref<4096x4096xf32>, memref<4096x4096xf32>) -> ()
  func.return
}
func.func private @in_place(%a: memref<4096x4096xf32>, %o: memref<4096x4096xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<4096x4096xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %a : memref<4096x4096xf32>, memref<4096x4096xf32>) outs(%o : memref<4096x4096xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  func.return
}
// STEPS: func.func private @in_place
// STEPS-NOT: library(cublas)
