// RUN: tenon-opt %s --split-input-file -p 'scan-in-parts{machine=sm_90}' | filecheck %s

// A running sum of one row of 2^20 numbers: 256 sums of 4096 numbers, the sums before each of these, and then each part
// from there on.
func.func @main(%x: memref<1048576xf32>, %o: memref<1048576xf32>) {
  func.call @sums(%x, %o) : (memref<1048576xf32>, memref<1048576xf32>) -> ()
  func.return
}
func.func private @sums(%x: memref<1048576xf32>, %o: memref<1048576xf32>) attributes {kernel} {
  %sum = memref.alloc() : memref<f32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%sum : memref<f32>)
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                  iterator_types = ["reduction"]} ins(%x : memref<1048576xf32>)
      outs(%sum, %o : memref<f32>, memref<1048576xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.addf %b, %a : f32
    linalg.yield %d, %d : f32, f32
  }
  func.return
}
// CHECK-LABEL: func.func @main
// CHECK:         func.call @sums_parts(%x, %[[TOTALS:.*]]) : (memref<1048576xf32>, memref<256xf32>) -> ()
// CHECK-NEXT:    func.call @sums_starts(%[[TOTALS]], %[[STARTS:.*]], %{{.*}}) : (memref<256xf32>, memref<256xf32>, memref<f32>) -> ()
// CHECK-NEXT:    func.call @sums(%x, %o, %[[STARTS]]) : (memref<1048576xf32>, memref<1048576xf32>, memref<256xf32>) -> ()
// CHECK-NEXT:    func.return
// CHECK-LABEL: func.func private @sums_parts
// CHECK:         arith.constant -0.000000e+00 : f32
// CHECK:         affine_map<(d0, d1) -> (((d0 * 4096) + d1))>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]
// CHECK-LABEL: func.func private @sums_starts
// CHECK:         affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["reduction"]
// CHECK-NEXT:    ^{{.*}}(%[[TOTAL:.*]]: f32, %[[BEFORE:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[TOTAL]]
// CHECK-NEXT:      linalg.yield %[[AFTER]], %[[BEFORE]]
// CHECK-LABEL: func.func private @sums(
// CHECK:         "memref.copy"(%{{.*}}, %[[STATE:.*]]) : (memref<256xf32>, memref<256xf32>) -> ()
// CHECK:         outs(%[[STATE]], %o : memref<256xf32>, memref<1048576xf32>)

// -----

// Enough rows keep all multiprocessors busy.
func.func @main(%x: memref<128x4096xf32>, %o: memref<128x4096xf32>) {
  func.call @rows(%x, %o) : (memref<128x4096xf32>, memref<128x4096xf32>) -> ()
  func.return
}
func.func private @rows(%x: memref<128x4096xf32>, %o: memref<128x4096xf32>) attributes {kernel} {
  %sum = memref.alloc() : memref<128xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%sum : memref<128xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<128x4096xf32>) outs(%sum, %o : memref<128xf32>, memref<128x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.addf %b, %a : f32
    linalg.yield %d, %d : f32, f32
  }
  func.return
}
// CHECK-NOT:   _parts
// CHECK-LABEL: func.func private @rows
