// RUN: tenon-opt %s --split-input-file -p chain-products | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'chain-products,fuse{strips=false ranges=false},convert-tensor-to-structured,fuse-structured,bufferize,decide-steps{machine=sm_90}' | filecheck %s --check-prefix STEPS

// softmax(Q Kᵀ) V is one kernel, with a mask between; sums are divided in place of weights. Pieces of keys are gone through once, and columns of values
// have the lanes of keys.
func.func @attention(%q: tensor<256x64xbf16>, %k: tensor<64x512xbf16>, %v: tensor<512x64xbf16>, %bias: tensor<512xbf16>) -> tensor<256x64xbf16> {
  %s = tenon.matmul %q, %k : tensor<256x64xbf16>, tensor<64x512xbf16> -> tensor<256x512xbf16>
  %b = tenon.add %s, %bias : tensor<256x512xbf16>, tensor<512xbf16> -> tensor<256x512xbf16>
  %x = tenon.cast %b {dtype = f32} : tensor<256x512xbf16> -> tensor<256x512xf32>
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %d = tenon.subtract %x, %m : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %e = tenon.exp %d : tensor<256x512xf32> -> tensor<256x512xf32>
  %l = tenon.sum %e {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %p = tenon.divide %e, %l : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %w = tenon.cast %p {dtype = bf16} : tensor<256x512xf32> -> tensor<256x512xbf16>
  %o = tenon.matmul %w, %v : tensor<256x512xbf16>, tensor<512x64xbf16> -> tensor<256x64xbf16>
  func.return %o : tensor<256x64xbf16>
}
// CHECK-LABEL: @attention
// CHECK:         tenon.matmul %q, %k {chained = 0 : i64}
// CHECK:         %l = tenon.sum %e {axis = [-1], keepdims = true, chained = 0 : i64}
// CHECK-NEXT:    [[W:%.*]] = tenon.cast %e {dtype = bf16, chained = 0 : i64}
// CHECK-NEXT:    [[A:%.*]] = tenon.cast [[W]] {dtype = f32, chained = 0 : i64}
// CHECK-NEXT:    [[V:%.*]] = tenon.cast %v {dtype = f32, chained = 0 : i64}
// CHECK-NEXT:    [[N:%.*]] = tenon.matmul [[A]], [[V]] {chained = 0 : i64}
// CHECK-NEXT:    [[D:%.*]] = tenon.divide [[N]], %l {chained = 0 : i64}
// CHECK-NEXT:    [[O:%.*]] = tenon.cast [[D]] {dtype = bf16, chained = 0 : i64}
// CHECK-NEXT:    func.return [[O]]
// STEPS-LABEL: func.func private @kernel_0(%q: memref<256x64xbf16>, %k: memref<64x512xbf16>, %bias: memref<512xbf16>, %v: memref<512x64xbf16>
// STEPS-SAME:    "split(j, 64) -> jo, jb", "split(jb, 8) -> ju, js", "split(js, 2) -> jl, jv", "unroll(ju)", "bind(jl, lane)", "vectorize(jv)"
// STEPS-SAME:    "bind(ll, lane, like=jl)"
// STEPS-SAME:    "contract(kf, mma)", "contract(ju, mma)", "online(jo)", "pipeline(jo, 2)"]

// -----

// Weights that are a result are in memory, and so are scores that nothing divides, those of f32, and rows of long heads.
func.func @weights(%q: tensor<256x64xbf16>, %k: tensor<64x512xbf16>, %v: tensor<512x64xbf16>) -> (tensor<256x64xbf16>, tensor<256x512xbf16>) {
  %s = tenon.matmul %q, %k : tensor<256x64xbf16>, tensor<64x512xbf16> -> tensor<256x512xbf16>
  %x = tenon.cast %s {dtype = f32} : tensor<256x512xbf16> -> tensor<256x512xf32>
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %d = tenon.subtract %x, %m : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %e = tenon.exp %d : tensor<256x512xf32> -> tensor<256x512xf32>
  %l = tenon.sum %e {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %p = tenon.divide %e, %l : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %w = tenon.cast %p {dtype = bf16} : tensor<256x512xf32> -> tensor<256x512xbf16>
  %o = tenon.matmul %w, %v : tensor<256x512xbf16>, tensor<512x64xbf16> -> tensor<256x64xbf16>
  func.return %o, %w : tensor<256x64xbf16>, tensor<256x512xbf16>
}
// CHECK-LABEL: @weights
// CHECK-NOT:     chained
// STEPS-LABEL: func.func @weights

// -----

// The gradient of softmax(Q Kᵀ) V computes scores again, in a kernel that sums along rows, for dQ, and one that does along columns, for dK and dV.
// Both take the logarithm of the sum of exponentials of a row, which the forward kernel gives, and the sum of dO ∘ O.
func.func @gradient(%q: tensor<256x64xbf16>, %k: tensor<512x64xbf16>, %v: tensor<512x64xbf16>, %g: tensor<256x64xbf16>) -> (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<512x64xbf16>, tensor<512x64xbf16>) {
  %s = tenon.contract [%q, %k] {maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], extents = [256, 512, 64], shape = [256, 512]} : [tensor<256x64xbf16>, tensor<512x64xbf16>] -> tensor<256x512xbf16>
  %x = tenon.cast %s {dtype = f32} : tensor<256x512xbf16> -> tensor<256x512xf32>
  %m = tenon.max %x {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %d = tenon.subtract %x, %m : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %e = tenon.exp %d : tensor<256x512xf32> -> tensor<256x512xf32>
  %l = tenon.sum %e {axis = [-1], keepdims = true} : tensor<256x512xf32> -> tensor<256x1xf32>
  %p = tenon.divide %e, %l : tensor<256x512xf32>, tensor<256x1xf32> -> tensor<256x512xf32>
  %w = tenon.cast %p {dtype = bf16} : tensor<256x512xf32> -> tensor<256x512xbf16>
  %o = tenon.matmul %w, %v : tensor<256x512xbf16>, tensor<512x64xbf16> -> tensor<256x64xbf16>
  %dp = tenon.contract [%g, %v] {maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], extents = [256, 512, 64], shape = [256, 512]} : [tensor<256x64xbf16>, tensor<512x64xbf16>] -> tensor<256x512xbf16>
  %dv = tenon.contract [%g, %w] {maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d1, d2)>], extents = [256, 512, 64], shape = [512, 64]} : [tensor<256x64xbf16>, tensor<256x512xbf16>] -> tensor<512x64xbf16>
  %t = tenon.multiply %dp, %w : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x512xbf16>
  %r = tenon.sum %t {axis = [-1], keepdims = true} : tensor<256x512xbf16> -> tensor<256x1xbf16>
  %u = tenon.multiply %w, %r : tensor<256x512xbf16>, tensor<256x1xbf16> -> tensor<256x512xbf16>
  %ds = tenon.subtract %t, %u : tensor<256x512xbf16>, tensor<256x512xbf16> -> tensor<256x512xbf16>
  %dq = tenon.matmul %ds, %k : tensor<256x512xbf16>, tensor<512x64xbf16> -> tensor<256x64xbf16>
  %dk = tenon.contract [%ds, %q] {maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>], extents = [256, 512, 64], shape = [512, 64]} : [tensor<256x512xbf16>, tensor<256x64xbf16>] -> tensor<512x64xbf16>
  func.return %o, %dq, %dk, %dv : tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<512x64xbf16>, tensor<512x64xbf16>
}
// CHECK-LABEL: @gradient
// CHECK:         [[LOG:%.*]] = tenon.log %l {chained = 2 : i64}
// CHECK-NEXT:    [[L:%.*]] = tenon.add %m, [[LOG]] {chained = 2 : i64}
// CHECK:         {{%o.*}} = tenon.cast {{%.*}} {dtype = bf16, chained = 2 : i64}
// CHECK:         [[D:%.*]] = tenon.sum {{%.*}} {axis = [-1], keepdims = true} : tensor<256x64xf32>
// CHECK:         [[DIFF:%.*]] = tenon.subtract {{%.*}}, [[L]] {chained = 0 : i64}
// CHECK-NEXT:    [[P:%.*]] = tenon.exp [[DIFF]] {chained = 0 : i64}
// CHECK-NEXT:    tenon.multiply {{%.*}}, [[P]] {chained = 0 : i64}
// CHECK-NEXT:    tenon.multiply [[P]], [[D]] {chained = 0 : i64}
// CHECK:         %dq = tenon.cast {{%.*}} {dtype = bf16, chained = 0 : i64}
// CHECK:         %dv = tenon.cast {{%.*}} {dtype = bf16, chained = 1 : i64}
// CHECK:         %dk = tenon.cast {{%.*}} {dtype = bf16, chained = 1 : i64}
// CHECK-NEXT:    func.return {{%.*}}, %dq, %dk, %dv
// STEPS-LABEL: func.func @gradient
// STEPS:       func.func private @kernel_0
// STEPS-SAME:    "online(jo)"
// STEPS:       func.func private @kernel_1
// STEPS-SAME:    "split(i, 128) -> ig, ib", "split(ib, 32) -> iw, ir"
// STEPS-SAME:    "contract(ku, mma)", "contract(ju, mma)", "pieces(jo)", "pipeline(jo, 2)"]
// STEPS:       func.func private @kernel_2
// STEPS-SAME:    "split(j, 64) -> jg, jb", "split(jb, 16) -> jw, jr"
// STEPS-SAME:    "split(i, 64) -> io, ib", "split(ib, 8) -> iu, is", "split(is, 2) -> il, iv", "unroll(iu)", "bind(il, lane)", "vectorize(iv)"
// STEPS-SAME:    "bind({{[a-z]}}l, lane, like=il)"
// STEPS-SAME:    "contract({{[a-z]}}u, mma)", "contract({{[a-z]}}u, mma)", "contract(iu, mma)", "pieces(io)", "pipeline(io, 2)"]
