// RUN: tenon-opt %s --split-input-file -p 'prefetch-next{least=1024 nearest=1024}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'prefetch-next{least=1024 nearest=1024},prefetch-next{least=1024 nearest=1024}' | filecheck %s
// RUN: tenon-opt %s --split-input-file -p 'prefetch-next{least=1024 nearest=1023}' | filecheck %s --check-prefix LONG

// The second loop reads a row again and writes one: of both the next is asked for, of the last row itself.
func.func private @twice(%x: memref<100x32xf32>, %o: memref<100x32xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c100 = arith.constant 100 : index
  scf.for %i = %c0 to %c100 step %c1 {
    scf.for %j = %c0 to %c32 step %c16 {
      %a = vector.load %x[%i, %j] : memref<100x32xf32>, vector<16xf32>
    }
    scf.for %k = %c0 to %c32 step %c16 {
      %b = vector.load %x[%i, %k] : memref<100x32xf32>, vector<16xf32>
      vector.store %b, %o[%i, %k] : memref<100x32xf32>, vector<16xf32>
    }
  }
  func.return
}
// CHECK-LABEL: @twice
// CHECK:         scf.for %i =
// CHECK:           [[A:%.*]] = arith.addi %i, {{%.*}}
// CHECK-NEXT:      [[L:%.*]] = arith.constant 99
// CHECK-NEXT:      [[N:%.*]] = arith.minsi [[A]], [[L]]
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        vector.load
// CHECK-NEXT:      }
// CHECK-NEXT:      scf.for %k =
// CHECK-NEXT:        memref.prefetch %x{{\[}}[[N]], %k], read, locality<3>
// CHECK-NEXT:        vector.load
// CHECK-NEXT:        memref.prefetch %o{{\[}}[[N]], %k], write, locality<3>
// CHECK-NEXT:        vector.store
// LONG-LABEL: @twice
// LONG-NOT:     prefetch

// -----

// Each element is read once, by a loop and by what is left of it, and the store goes past the caches.
func.func private @once(%x: memref<16x32xf32>, %o: memref<16x32xf32>, %a: vector<16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  scf.for %i = %c0 to %c16 step %c1 {
    scf.for %j = %c0 to %c16 step %c16 { %b = vector.load %x[%i, %j] : memref<16x32xf32>, vector<16xf32> }
    scf.for %j = %c16 to %c32 step %c16 { %b = vector.load %x[%i, %j] : memref<16x32xf32>, vector<16xf32> }
    scf.for %j = %c0 to %c32 step %c16 { vector.store %a, %o[%i, %j] {nontemporal = true} : memref<16x32xf32>, vector<16xf32> }
  }
  func.return
}
// CHECK-LABEL: @once
// CHECK-NOT:     prefetch
