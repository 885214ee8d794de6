// RUN: tenon-opt %s --split-input-file -p gather-overlaps | filecheck %s

// Windows of three elements, two apart, are added to where they came from: at most two of them reach a place.
func.func private @overlapping(%x: memref<28x3xf32>, %o: memref<57xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a * 2 + w)>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x3xf32>) outs(%o : memref<57xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK:   linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : memref<2xf32>)
// CHECK:     %[[SUM:.*]] = arith.addf %[[BEFORE:.*]], %{{.*}}
// CHECK:     arith.select %{{.*}}, %[[SUM]], %[[BEFORE]]

// -----

// Elements of a window that are two apart reach each place, one of each.
func.func private @dilated(%x: memref<28x3xf32>, %o: memref<57xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a + w * 2)>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x3xf32>) outs(%o : memref<57xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK:   linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : memref<3xf32>)

// -----

// Differences are no monoid: they are taken in the order of the program.
func.func private @differences(%x: memref<28x3xf32>, %o: memref<57xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a * 2 + w)>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x3xf32>) outs(%o : memref<57xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK:   iterator_types = ["reduction", "reduction"]

// -----

// Windows that are further apart than they are long reach a place once at most.
func.func private @apart(%x: memref<28x2xf32>, %o: memref<90xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a * 3 + w)>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<28x2xf32>) outs(%o : memref<90xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @apart
// CHECK:   linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : memref<1xf32>)

// -----

// Sums each of whose results has a loop of its own stay as they are.
func.func private @rows(%x: memref<90x4xf32>, %o: memref<90xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (a, w)>, affine_map<(a, w) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<90x4xf32>) outs(%o : memref<90xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @rows
// CHECK:   linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>

// -----

// Elements may lie in any order: they are loaded from computed places.
func.func private @turned(%x: memref<3x28xf32>, %o: memref<90xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(a, w) -> (w, a)>, affine_map<(a, w) -> (a * 2 + w)>], iterator_types = ["reduction", "reduction"]} ins(%x : memref<3x28xf32>) outs(%o : memref<90xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  }
  func.return
}
// CHECK-LABEL: func.func private @turned
// CHECK:   memref.load %x
