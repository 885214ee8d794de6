// RUN: tenon-opt %s --split-input-file -p schedule{vector-bits=512} | filecheck %s

// Pixels of an image run on within its padding: a row of them is one loop.
func.func private @within_padding(%x: memref<480x640x3xf32>, %o: memref<482x642x3xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i + 1, j + 1, k)>],
                  iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<480x640x3xf32>) outs(%o : memref<482x642x3xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @within_padding
// CHECK-DAG:     %[[O:.*]] = memref.collapse_shape %o {{.*}} : memref<482x642x3xf32> into memref<482x1926xf32>
// CHECK-DAG:     %[[X:.*]] = memref.collapse_shape %x {{.*}} : memref<480x640x3xf32> into memref<480x1920xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d0 + 1), (d1 + 3))>]
// CHECK-SAME:      ins(%[[X]] {{.*}} outs(%[[O]] {{.*}} {schedule = {vector = 1 : i64, width = 16 : i64

// -----

// A part that begins where the image does is told from all of it by a loop of one iteration, and so is its extent.
func.func private @first_columns(%n: memref<600xi8>, %one: memref<1xi8>, %x: memref<480x640x3xf32>, %o: memref<480x700x3xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (j)>, affine_map<(i, j, k, l) -> (l)>, affine_map<(i, j, k, l) -> (i, j + l, k)>, affine_map<(i, j, k, l) -> (i, j + l, k)>],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %one, %x : memref<600xi8>, memref<1xi8>, memref<480x640x3xf32>) outs(%o : memref<480x700x3xf32>) {
  ^bb0(%b: i8, %c: i8, %a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @first_columns
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, (d1 + d2))>, affine_map<(d0, d1, d2) -> (d0, (d1 + d2))>]
// CHECK-SAME:      memref<1800xi8>, memref<1xi8>, memref<480x1920xf32>) outs({{.*}} : memref<480x2100xf32>)

// -----

// What is at one place of the outer dimension, such as an edge, sees both as one as well.
func.func private @edge(%x: memref<480x640x3xf32>, %y: memref<480x3xf32>, %o: memref<480x641x3xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j + 1, k)>],
                  iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<480x640x3xf32>) outs(%o : memref<480x641x3xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, 0, k)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : memref<480x3xf32>) outs(%o : memref<480x641x3xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @edge
// CHECK:         affine_map<(d0, d1) -> (d0, (d1 + 3))>{{.*}} outs({{.*}} : memref<480x1923xf32>)
// CHECK:         affine_map<(d0, d1, d2) -> (d0, (d1 + d2))>{{.*}} outs({{.*}} : memref<480x1923xf32>)
