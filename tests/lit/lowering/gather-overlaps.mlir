// RUN: tenon-opt %s --split-input-file -p gather-overlaps | filecheck %s

// Windows of three elements, two apart, are added to where they came from: at most two of them reach a place.
func.func private @overlapping(%x: memref<28x3xf32>, %o: memref<57xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<57xf32>)
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a * 2 + w)>],
                  iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x3xf32>) outs(%o : memref<57xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @overlapping
// CHECK:         linalg.fill
// CHECK:         memref.alloc() : memref<2xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
// CHECK:           arith.remui
// CHECK:           arith.divui
// CHECK:           %[[INSIDE:.*]] = arith.andi
// CHECK:           %[[TERM:.*]] = memref.load %x
// CHECK:           %[[SUM:.*]] = arith.addf %[[BEFORE:.*]], %[[TERM]]
// CHECK:           arith.select %[[INSIDE]], %[[SUM]], %[[BEFORE]]

// -----

// Differences are no monoid: they are taken in the order of the program.
func.func private @differences(%x: memref<28x3xf32>, %o: memref<57xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a * 2 + w)>],
                  iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x3xf32>) outs(%o : memref<57xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @differences
// CHECK:         iterator_types = ["reduction", "reduction"]
