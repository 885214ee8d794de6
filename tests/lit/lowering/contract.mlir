// RUN: tenon-opt %s -p 'decide-steps{machine=sm_80}' | filecheck %s --check-prefix STEPS
// RUN: tenon-opt %s -p 'decide-steps{machine=sm_80},apply-steps{machine=sm_80 after_step=true}' | filecheck %s
// RUN: tenon-opt %s -p 'decide-steps{machine=sm_80},apply-steps{machine=sm_80}' | tenon-opt -o /dev/null
// RUN: tenon-opt %s -p 'decide-steps{machine=sm_86}' | filecheck %s --check-prefix SLOW

// A product of bf16 by the instructions of warps. The right operand has its columns as neighbours: it is transposed when
// its fragments are loaded.
// STEPS-LABEL: func.func private @product
// STEPS-SAME:    "split(i, 128) -> ig, ib", "split(ib, 64) -> iw, ir", "split(ir, 16) -> iu, is", "split(is, 8) -> ih, il"
// STEPS-SAME:    "split(j, 64) -> jg, jb", "split(jb, 32) -> jw, jr", "split(jr, 8) -> ju, js", "split(js, 2) -> jl, jv"
// STEPS-SAME:    "split(k, 32) -> ko, ki", "split(ki, 16) -> ku, kf", "pack(a0, shared, at=ko, swizzle=4, copy=async)", "pack(a0, fragments)", "pack(a1, shared, at=ko, swizzle=8, copy=async)", "pack(a1, fragments)", "pack(a2, registers)", "contract(kf, mma)", "pipeline(ko, 4)"]
// CHECK:       // after pipeline(ko, 4)
// CHECK-NEXT:  // nest @product
// CHECK:       //   loop ko < 16: in order, 4 stages
// CHECK-NEXT:  //   loop ku < 2: in order
// CHECK-NEXT:  //   loop kf < 16: tn_mma_m16n8k16_bf16
// CHECK-NEXT:  //   buffer a0: shared at ko, fragments
// CHECK-NEXT:  //   buffer a1: shared at ko, fragments
// CHECK-NEXT:  //   buffer a2: registers
// CHECK-NEXT:  //   a2[i, j] = f(a0[i, k], a1[k, j]) over k
func.func private @product(%a: memref<2048x512xbf16>, %b: memref<512x2048xbf16>, %o: memref<2048x2048xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<2048x2048xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<2048x512xbf16>, memref<512x2048xbf16>) outs(%o : memref<2048x2048xf32>) {
  ^bb0(%x: bf16, %y: bf16, %z: f32):
    %v = arith.extf %x : bf16 to f32
    %w = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %w : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @product
// CHECK-SAME:    grid = array<i64: 512, 1, 1>, block = array<i64: 128, 1, 1>
// CHECK:         %[[LEFT:.*]] = memref.alloca() : memref<4x128x32xbf16, 3 : i64>
// CHECK:         %[[RIGHT:.*]] = memref.alloca() : memref<4x32x64xbf16, 3 : i64>
// CHECK:         %[[SUMS:.*]] = memref.alloca() : memref<4x4x2x2xf32, 5 : i64>
// Three pieces are on the way before the first is waited for.
// CHECK-COUNT-3: nvgpu.device_async_create_group {}
// CHECK-NEXT:    nvgpu.device_async_wait %{{.*}} {numGroups = 2 : i32}
// CHECK-NEXT:    "gpu.barrier"()
// CHECK:         %[[CHUNK:.*]] = arith.xori %{{.*}} : index
// CHECK-NEXT:    %[[PLACE:.*]] = arith.muli %[[CHUNK]]
// CHECK-NEXT:    "nvgpu.device_async_copy"(%[[LEFT]], %{{.*}}, %{{.*}}, %[[PLACE]], %a
// CHECK:         "nvgpu.device_async_copy"(%[[RIGHT]]
// CHECK:         %[[GROUP:.*]] = nvgpu.device_async_create_group {}
// CHECK:         nvgpu.ldmatrix %[[LEFT]]{{.*}} {transpose = false, numTiles = 4 : i32}
// CHECK:         nvgpu.ldmatrix %[[RIGHT]]{{.*}} {transpose = true, numTiles = 4 : i32}
// CHECK:         %[[SUM:.*]] = vector.load %[[SUMS]]
// CHECK-NEXT:    %[[MORE:.*]] = nvgpu.mma.sync(%{{.*}}, %{{.*}}, %[[SUM]])
// CHECK-NEXT:    vector.store %[[MORE]], %[[SUMS]]
// CHECK:         nvgpu.device_async_wait %[[GROUP]] {numGroups = 2 : i32}
// CHECK-NEXT:    "gpu.barrier"()
// CHECK:         vector.store %{{.*}}, %o[

// Rows that begin at odd numbers of f16 are copied by way of registers, in two stages.
func.func private @odd(%a: memref<64x63xf16>, %b: memref<63x64xf16>, %o: memref<64x64xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<64x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<64x63xf16>, memref<63x64xf16>) outs(%o : memref<64x64xf32>) {
  ^bb0(%x: f16, %y: f16, %z: f32):
    %v = arith.extf %x : f16 to f32
    %w = arith.extf %y : f16 to f32
    %p = arith.mulf %v, %w : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// STEPS-LABEL: func.func private @odd
// STEPS-SAME:    "pack(a0, shared, at=ko, swizzle=4)", "pack(a0, fragments)", "pack(a1, shared, at=ko, swizzle=2)", "pack(a1, fragments)", "pack(a2, registers)", "contract(kf, mma)", "pipeline(ko, 2)"]

// Places of a window are loops around the pieces of channels: a copy begins where the window is.
func.func private @windows(%x: memref<1x64x64x32xbf16>, %w: memref<3x3x64x32xbf16>, %o: memref<1x64x62x62xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<1x64x62x62xf32>)
  linalg.generic {indexing_maps = [affine_map<(n, f, i, j, c, h, w) -> (n, i + h, j + w, c)>, affine_map<(n, f, i, j, c, h, w) -> (h, w, f, c)>, affine_map<(n, f, i, j, c, h, w) -> (n, f, i, j)>],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : memref<1x64x64x32xbf16>, memref<3x3x64x32xbf16>) outs(%o : memref<1x64x62x62xf32>) {
  ^bb0(%x0: bf16, %y: bf16, %z: f32):
    %v = arith.extf %x0 : bf16 to f32
    %u = arith.extf %y : bf16 to f32
    %p = arith.mulf %v, %u : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// STEPS-LABEL: func.func private @windows
// STEPS-SAME:    "reorder(i, k, j, l, n, o, m)"
// STEPS-SAME:    "pack(a1, shared, at=mo, swizzle=4, copy=async)", "pack(a1, fragments)", "pack(a0, shared, at=mo, swizzle=4, copy=async)", "pack(a0, fragments)", "pack(a2, registers)", "contract(mf, mma)", "pipeline(mo, 4)"]
// CHECK-LABEL: func.func private @windows
// CHECK-COUNT-3: nvgpu.device_async_create_group {}
// CHECK:         scf.for %[[PIECE:.*]] = {{.*}} {
// CHECK:           %[[NEXT:.*]] = arith.addi %[[PIECE]], %{{.*}} : index
// CHECK:           %[[ROW:.*]] = arith.divui %[[NEXT]]
// CHECK:           %[[COLUMN:.*]] = arith.remui %[[NEXT]]
// CHECK:           "nvgpu.device_async_copy"
// CHECK:           nvgpu.mma.sync

// f64: lanes load two neighbours along the reduced axis, or one of two rows, which unused elements keep in other banks.
// A GPU without units for that has fused multiply-adds.
func.func private @doubles(%a: memref<4096x512xf64>, %b: memref<512x4096xf64>, %o: memref<4096x4096xf64>) attributes {kernel} {
  %zero = arith.constant 0.0 : f64
  linalg.fill ins(%zero : f64) outs(%o : memref<4096x4096xf64>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<4096x512xf64>, memref<512x4096xf64>) outs(%o : memref<4096x4096xf64>) {
  ^bb0(%x: f64, %y: f64, %z: f64):
    %p = arith.mulf %x, %y : f64
    %s = arith.addf %z, %p : f64
    linalg.yield %s : f64
  }
  func.return
}
// SLOW-LABEL:  func.func private @doubles
// SLOW-NOT:      contract
// SLOW-SAME:     pipeline
// STEPS-LABEL: func.func private @doubles
// STEPS-SAME:    "split(i, 128) -> ig, ib", "split(ib, 64) -> iw, ir"
// STEPS-SAME:    "split(j, 64) -> jg, jb", "split(jb, 32) -> jw, jr"
// STEPS-SAME:    "pack(a0, shared, at=ko, copy=async)", "pack(a0, fragments)", "pack(a1, shared, at=ko, pad=2, copy=async)", "pack(a1, fragments)", "pack(a2, registers)", "contract(kf, mma)", "pipeline(ko, 4)"]
// CHECK-LABEL: func.func private @doubles
// CHECK:         %[[LEFT:.*]] = memref.alloca() : memref<4x128x8xf64, 3 : i64>
// CHECK:         %[[RIGHT:.*]] = memref.alloca() : memref<4x8x66xf64, 3 : i64>
// CHECK:         vector.load %[[LEFT]]{{.*}} vector<2xf64>
// CHECK:         memref.load %[[RIGHT]]
// CHECK:         nvgpu.mma.sync({{.*}}) {mmaShape = [16 : i64, 8 : i64, 8 : i64]} : (vector<4x1xf64>, vector<2x1xf64>, vector<2x2xf64>) -> vector<2x2xf64>
