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
