// RUN: tenon-opt %s --split-input-file --print-op-generic | filecheck %s

// Text as upstream prints it is read, where xDSL knows the generic form of an op alone.
func.func @parallel(%l: index, %u: index, %s: index, %x: f32) -> f32 {
  scf.parallel (%i, %j) = (%l, %l) to (%u, %u) step (%s, %s) {
  } {threads}
  %sum = scf.parallel (%i) = (%l) to (%u) step (%s) init (%x) -> f32 {
    scf.reduce(%x : f32) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      scf.reduce.return %c : f32
    }
  }
  return %sum : f32
}
// CHECK-LABEL: sym_name = "parallel"
// CHECK:         "scf.parallel"(%l, %l, %u, %u, %s, %s) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
// CHECK-NEXT:    ^bb{{.*}}(%i: index, %j: index):
// CHECK-NEXT:      "scf.reduce"() : () -> ()
// CHECK-NEXT:    }) {threads}
// CHECK:         "scf.parallel"(%l, %u, %s, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}>

// -----

func.func @while(%p: i1) {
  scf.while : () -> () {
    scf.condition(%p)
  } do {
    scf.yield
  }
  return
}
// CHECK-LABEL: sym_name = "while"
// CHECK:         "scf.while"() ({

// -----

func.func @copy(%x: memref<4xf32>, %y: memref<4xf32>) {
  memref.copy %x, %y : memref<4xf32> to memref<4xf32>
  return
}
// CHECK-LABEL: sym_name = "copy"
// CHECK:         "memref.copy"(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()

// -----

memref.global "private" constant @c : memref<2xf32> = dense<[1.0, 2.0]> {alignment = 64 : i64}
memref.global @u : memref<2xf32> = uninitialized
// CHECK: "memref.global"() <{sym_name = "c", sym_visibility = "private", type = memref<2xf32>, initial_value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, constant, alignment = 64 : i64}>
// CHECK: "memref.global"() <{sym_name = "u", sym_visibility = "public", type = memref<2xf32>, initial_value}>
