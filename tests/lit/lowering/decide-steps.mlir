// RUN: tenon-opt %s --split-input-file -p 'decide-steps{machine=sm_90}' | filecheck %s

// Elements on large devices: four vectors of 16 bytes to each thread, less what a second operand adds.
func.func private @elements(%x: memref<1048576xf32>, %o: memref<1048576xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<1048576xf32>) outs(%o : memref<1048576xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @elements
// CHECK-SAME:    schedule = ["split(i, 4) -> i_, iv", "vectorize(iv)", "split(i_, 256) -> ig, it", "split(ig, 4) -> ib, iu", "unroll(iu)", "bind(ib, grid)", "bind(it, block)", "pack(a0, registers)", "pack(a1, registers)"]

// -----

// Short rows share a warp: eight lanes each.
func.func private @short_rows(%x: memref<65536x64xf32>, %o: memref<65536xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<65536xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<65536x64xf32>) outs(%o : memref<65536xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @short_rows
// CHECK-SAME:    "split(j_, 4) -> jp, jt", "unroll(jp)", "split(i, 32) -> ig, ib", "bind(ig, grid)", "split(ib, 8) -> iw, il", "bind(iw, warp)", "bind(il, lane)", "bind(jt, lane)"

// -----

// What is called with an argument and a result in the same memory says so.
func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) {
  func.call @in_place(%x, %x) : (memref<64xf32>, memref<64xf32>) -> ()
  func.call @apart(%x, %y) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @in_place(%a: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  "memref.copy"(%a, %o) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @apart(%a: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  "memref.copy"(%a, %o) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
// CHECK-LABEL: func.func private @in_place
// CHECK-SAME:    shared_arguments = array<i64: 0, 1>
// CHECK-LABEL: func.func private @apart
// CHECK-NOT:     shared_arguments

// -----

// Parts of the arena that do not meet are apart, also where one is shown by another shape.
func.func @main(%arena: memref<512xi8>) {
  %behind = arith.constant 256 : index
  %a = memref.view %arena[%behind][] : memref<512xi8> to memref<64xf32>
  %b = memref.reinterpret_cast %a to offset: [0], sizes: [4, 16], strides: [16, 1] : memref<64xf32> to memref<4x16xf32>
  %zero = arith.constant 0 : index
  %c = memref.view %arena[%zero][] : memref<512xi8> to memref<4x16xf32>
  func.call @apart(%b, %c) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  func.return
}
func.func private @apart(%a: memref<4x16xf32>, %o: memref<4x16xf32>) attributes {kernel} {
  func.return
}
// CHECK-LABEL: func.func private @apart
// CHECK-NOT:     shared_arguments

// -----

// Rows that overlap may be anywhere in the memory that they are of.
func.func @main(%a: memref<64xf32>) {
  %b = memref.reinterpret_cast %a to offset: [0], sizes: [4, 16], strides: [8, 1] : memref<64xf32> to memref<4x16xf32, strided<[8, 1]>>
  func.call @overlapping(%b, %a) : (memref<4x16xf32, strided<[8, 1]>>, memref<64xf32>) -> ()
  func.return
}
func.func private @overlapping(%a: memref<4x16xf32, strided<[8, 1]>>, %o: memref<64xf32>) attributes {kernel} {
  func.return
}
// CHECK-LABEL: func.func private @overlapping
// CHECK-SAME:    shared_arguments = array<i64: 0, 1>

// -----

// A result that may have the memory of a donated argument may be the same memory as that.
func.func @main(%x: memref<64xf32>, %z: memref<64xf32>, %y: memref<64xf32>, %arena: memref<0xi8>)
    attributes {num_inputs = 2 : i64, num_outputs = 1 : i64, donations = array<i64: 0>} {
  func.call @from_donated(%x, %y) : (memref<64xf32>, memref<64xf32>) -> ()
  func.call @from_other(%z, %y) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @from_donated(%a: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  "memref.copy"(%a, %o) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
func.func private @from_other(%a: memref<64xf32>, %o: memref<64xf32>) attributes {kernel} {
  "memref.copy"(%a, %o) : (memref<64xf32>, memref<64xf32>) -> ()
  func.return
}
// CHECK-LABEL: func.func private @from_donated
// CHECK-SAME:    shared_arguments = array<i64: 0, 1>
// CHECK-LABEL: func.func private @from_other
// CHECK-NOT:     shared_arguments
// CHECK:         func.return

// -----

// Scatters are loops, which no decider knows.
func.func private @loop(%o: memref<64xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c64 step %c1 {
    memref.store %zero, %o[%i] : memref<64xf32>
  }
  func.return
}
// CHECK-LABEL: func.func private @loop
// CHECK-SAME:    unscheduled = "scf.for is no statement over loops"

// -----

// A transpose reads squares of 32 by 32 numbers through shared memory, four side by side.
func.func private @transpose(%x: memref<512x256xf32>, %o: memref<256x512xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]} ins(%x : memref<512x256xf32>) outs(%o : memref<256x512xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @transpose
// CHECK-SAME:    "split(j, 128) -> jg, jb", "split(jb, 32) -> ju, js", "split(js, 4) -> jt, jv"
// CHECK-SAME:    "pack(a0, shared, pad=1)", "pack(a0, registers)"

// -----

// Lanes have columns, warps have rows: so few columns to a warp that each multiprocessor has a block, by vectors.
func.func private @column_sums(%x: memref<512x8192xf32>, %o: memref<8192xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8192xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
                  iterator_types = ["reduction", "parallel"]} ins(%x : memref<512x8192xf32>) outs(%o : memref<8192xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @column_sums
// CHECK-SAME:    "split(j, 4) -> j_, jv", "vectorize(jv)", "split(j_, 8) -> jg, jl", "bind(jg, grid)"
// CHECK-SAME:    "split(i, 64) -> ip, iw", "split(ip, 4) -> io, iu", "unroll(iu)", "split(iw, 4) -> ib, il", "bind(ib, warp)", "bind(il, lane)", "bind(jl, lane)"

// -----

// A tile of 128 by 128 numbers for each block, 8 by 8 for each thread.
func.func private @product(%a: memref<2048x512xf32>, %b: memref<512x2048xf32>, %o: memref<2048x2048xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<2048x2048xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<2048x512xf32>, memref<512x2048xf32>) outs(%o : memref<2048x2048xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @product
// CHECK-SAME:    "split(i, 256) -> ig, ib", "split(ib, 64) -> iu, ir", "split(ir, 16) -> iw, is", "split(is, 4) -> il, iv"
// CHECK-SAME:    "split(j, 128) -> jg, jb", "split(jb, 64) -> ju, jr", "split(jr, 32) -> jw, js", "split(js, 4) -> jl, jv"
// CHECK-SAME:    "split(k, 8) -> ko, ki", "pack(a0, shared, at=ko, inner=i, pad=4)", "pack(a0, registers)", "pack(a1, shared, at=ko, inner=j)", "pack(a1, registers)", "pack(a2, registers)", "pipeline(ko, 2)"

// -----

// Of few tiles four sets of warps have a slice of the sums each.
func.func private @few_tiles(%a: memref<1024x1024xf32>, %b: memref<1024x1024xf32>, %o: memref<1024x1024xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<1024x1024xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1024x1024xf32>, memref<1024x1024xf32>) outs(%o : memref<1024x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @few_tiles
// CHECK-SAME:    "split(i, 128) -> ig, ib", "split(ib, 64) -> iu, ir"
// CHECK-SAME:    "split(k, 32) -> ko, kb", "split(kb, 8) -> kw, ki", "bind(kw, warp)"
// CHECK-SAME:    "pipeline(ko, 2)"

// -----

// Windows of no elements.
func.func private @windows_of_none(%x: memref<0x66xf32>, %y: memref<3xf32>, %o: memref<64xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<64xf32>)
  linalg.generic {indexing_maps = [affine_map<(a, u, w) -> (u, a + w)>, affine_map<(a, u, w) -> (w)>, affine_map<(a, u, w) -> (a)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x, %y : memref<0x66xf32>, memref<3xf32>) outs(%o : memref<64xf32>) {
  ^bb0(%v: f32, %t: f32, %acc: f32):
    %s = arith.addf %acc, %v : f32
    linalg.yield %s : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @windows_of_none
// CHECK-SAME:    schedule =
