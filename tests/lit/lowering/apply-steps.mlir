// RUN: tenon-opt %s -p apply-steps{after_step=true} | filecheck %s

// A loop is split, its parts are bound to blocks and threads, and four neighbours are moved by one instruction. The last
// block has threads without an element.
// CHECK:      // after split(i, 256) -> i0, i1
// CHECK-NEXT: // nest @doubled
// CHECK-NEXT: //   axis i < 1000: i0 * 256 + i1
// CHECK-NEXT: //   loop i0 < 4: in order
// CHECK-NEXT: //   loop i1 < 256: in order
// CHECK-NEXT: //   a1[i] = f(a0[i])
// CHECK:      // after pack(a1, registers)
// CHECK-NEXT: // nest @doubled
// CHECK-NEXT: //   axis i < 1000: i0 * 256 + i2 * 4 + i3
// CHECK-NEXT: //   loop i0 < 4: grid
// CHECK-NEXT: //   loop i2 < 64: block
// CHECK-NEXT: //   loop i3 < 4: vector
// CHECK-NEXT: //   buffer a0: registers
// CHECK-NEXT: //   buffer a1: registers
func.func private @doubled(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {kernel, schedule = [
  "split(i, 256) -> i0, i1", "split(i1, 4) -> i2, i3", "bind(i0, grid)", "bind(i2, block)", "vectorize(i3)",
  "pack(a0, registers)", "pack(a1, registers)"
]} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : memref<1000xf32>) outs(%o : memref<1000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @doubled
// CHECK-SAME:    grid = array<i64: 4, 1, 1>, block = array<i64: 64, 1, 1>, index_bits = 32
// CHECK:         %[[BLOCK:.*]] = "gpu.block_id"()
// CHECK:         %[[THREAD:.*]] = "gpu.thread_id"()
// CHECK:         %[[HELD:.*]] = memref.alloca() : memref<4xf32, 5 : i64>
// CHECK:         %[[INSIDE:.*]] = arith.cmpi slt, %[[AT:.*]], %{{.*}} : index
// CHECK:         scf.if %[[INSIDE]] {
// CHECK-NEXT:      %[[LOADED:.*]] = vector.load %x[%[[AT]]] : memref<1000xf32>, vector<4xf32>
// CHECK-NEXT:      vector.store %[[LOADED]], %[[HELD]]
// CHECK:         %[[MADE:.*]] = memref.alloca() : memref<4xf32, 5 : i64>
// CHECK:         scf.for %[[LANE:.*]] = {{.*}} {
// CHECK-NEXT:      %[[A:.*]] = memref.load %[[HELD]][%[[LANE]]]
// CHECK-NEXT:      %[[C:.*]] = arith.addf %[[A]], %[[A]] : f32
// CHECK-NEXT:      memref.store %[[C]], %[[MADE]][%[[LANE]]]
// CHECK-NEXT:    } {unroll}
// CHECK:         scf.if %[[INSIDE]] {
// CHECK-NEXT:      %[[GIVEN:.*]] = vector.load %[[MADE]]
// CHECK-NEXT:      vector.store %[[GIVEN]], %o[%[[AT]]]

// Eight neighbours are one access of bf16 and two of f32: none has more than 16 bytes.
func.func private @widened(%x: memref<1024xbf16>, %o: memref<1024xf32>) attributes {kernel, schedule = [
  "split(i, 8) -> i0, i1", "bind(i0, block)", "vectorize(i1)", "pack(a0, registers)", "pack(a1, registers)"
]} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : memref<1024xbf16>) outs(%o : memref<1024xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %c = arith.extf %a : bf16 to f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @widened
// CHECK:         vector.load %x[%{{.*}}] : memref<1024xbf16>, vector<8xbf16>
// CHECK:         vector.store %{{.*}}, %o[%[[FIRST:.*]]] : memref<1024xf32>, vector<4xf32>
// CHECK:         %[[SECOND:.*]] = arith.addi %[[FIRST]], %{{.*}} : index
// CHECK:         vector.store %{{.*}}, %o[%[[SECOND]]] : memref<1024xf32>, vector<4xf32>

// A row is added up by two warps: along lanes by shuffles, then in shared memory; the first thread stores.
func.func private @row_sums(%x: memref<5x64xf32>, %o: memref<5xf32>) attributes {kernel, schedule = [
  "bind(i, grid)", "split(j, 32) -> jw, jl", "bind(jw, warp)", "bind(jl, lane)"
]} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<5xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
                  iterator_types = ["parallel", "reduction"]} ins(%x : memref<5x64xf32>) outs(%o : memref<5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @row_sums
// CHECK-SAME:    grid = array<i64: 5, 1, 1>, block = array<i64: 64, 1, 1>
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         %[[SLOTS:.*]] = memref.alloca() : memref<2x1xf32, 3 : i64>
// CHECK:         scf.if
// CHECK:           memref.store %{{.*}}, %[[SLOTS]]
// CHECK:         "gpu.barrier"()
// CHECK:         memref.load %[[SLOTS]]
// CHECK:         scf.if
// CHECK:           memref.store %{{.*}}, %o[%{{.*}}] : memref<5xf32>

// Without steps a kernel stays as it is.
func.func private @left(%o: memref<5xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<5xf32>)
  func.return
}
// CHECK-LABEL: func.func private @left
// CHECK:         linalg.fill
