// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine=sm_90},apply-steps{machine=sm_90}' | filecheck %s

// A running sum of rows: four lanes to each, which exchange what they have by two shuffles. A lane whose number has the
// bit is behind the other one.
func.func private @short_rows(%x: memref<65536x64xf32>, %o: memref<65536x64xf32>) attributes {kernel} {
  %sum = memref.alloc() : memref<65536xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%sum : memref<65536xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<65536x64xf32>) outs(%sum, %o : memref<65536xf32>, memref<65536x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.addf %b, %a : f32
    linalg.yield %d, %d : f32, f32
  }
  func.return
}
// CHECK-LABEL: func.func private @short_rows
// CHECK-SAME:    schedule = ["split(j, 4) -> j_, jv", "vectorize(jv)", "split(j_, 4) -> jp, jt", "unroll(jp)", "split(i, 32) -> ig, ib", "bind(ig, grid)", "split(ib, 8) -> iw, il", "bind(iw, warp)", "bind(il, lane)", "bind(jt, lane)", "pack(a0, registers)", "pack(a1, registers)"]
// CHECK:         vector.load %x
// CHECK:         %[[BIT:.*]] = arith.andi %[[LANE:.*]], %{{.*}} : index
// CHECK-NEXT:    %[[BEHIND:.*]] = arith.cmpi eq, %[[BIT]], %{{.*}} : index
// CHECK:         %[[OTHER:.*]], %{{.*}} = gpu.shuffle xor %[[OWN:.*]], %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:    %[[EARLIER:.*]] = arith.select %[[BEHIND]], %[[OTHER]], %[[OWN]] : f32
// CHECK-NEXT:    %[[LATER:.*]] = arith.select %[[BEHIND]], %[[OWN]], %[[OTHER]] : f32
// CHECK-NEXT:    %[[ALL:.*]] = arith.addf %[[EARLIER]], %[[LATER]] : f32
// CHECK-NEXT:    gpu.shuffle xor %[[ALL]]
// CHECK-NOT:     gpu.shuffle
// CHECK-NOT:     gpu.barrier
// CHECK:         vector.store %{{.*}}, %o

// -----

// The products before each place of a row: warps exchange what they have in shared memory, behind a barrier.
func.func private @long_rows(%x: memref<128x4096xf64>, %o: memref<128x4096xf64>) attributes {kernel} {
  %product = memref.alloc() : memref<128xf64>
  %one = arith.constant 1.0 : f64
  linalg.fill ins(%one : f64) outs(%product : memref<128xf64>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<128x4096xf64>) outs(%product, %o : memref<128xf64>, memref<128x4096xf64>) {
  ^bb0(%a: f64, %b: f64, %c: f64):
    %d = arith.mulf %b, %a : f64
    linalg.yield %d, %b : f64, f64
  }
  func.return
}
// CHECK-LABEL: func.func private @long_rows
// CHECK-SAME:    "bind(i, grid)", "split(jt, 32) -> jw, jl", "bind(jw, warp)", "bind(jl, lane)"
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         memref.alloca() : memref<16x{{.*}}xf64, 3 : i64>
// CHECK:         "gpu.barrier"()
// CHECK:         scf.for

// -----

// A difference is not associative.
func.func private @alternating(%x: memref<128x4096xf32>, %o: memref<128x4096xf32>) attributes {kernel} {
  %sum = memref.alloc() : memref<128xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%sum : memref<128xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<128x4096xf32>) outs(%sum, %o : memref<128xf32>, memref<128x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d, %d : f32, f32
  }
  func.return
}
// CHECK-LABEL: func.func private @alternating
// CHECK-SAME:    rows, columns, whole reductions: a statement goes on from what it wrote
