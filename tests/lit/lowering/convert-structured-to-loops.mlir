// RUN: tenon-opt %s --split-input-file -p convert-structured-to-loops | filecheck %s

// Without a schedule, a loop of each kind for each dimension.
func.func private @elementwise(%x: memref<4x9xf32>, %o: memref<4x9xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4x9xf32>) outs(%o : memref<4x9xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @elementwise
// CHECK:         "scf.parallel"
// CHECK-NEXT:    ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:      %[[X:.*]] = memref.load %x[%[[I]], %[[J]]]
// CHECK-NEXT:      %[[Y:.*]] = arith.negf %[[X]]
// CHECK-NEXT:      memref.store %[[Y]], %o[%[[I]], %[[J]]]

// -----

// A sum is carried by its loop, and stored once.
func.func private @reduction(%x: memref<4x9xf32>, %o: memref<4xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x9xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @reduction
// CHECK:         ^bb0(%[[I:.*]]: index):
// CHECK-NEXT:      %[[BEFORE:.*]] = memref.load %o[%[[I]]]
// CHECK-NEXT:      %[[SUM:.*]] = scf.for %[[J:.*]] = {{.*}} iter_args(%[[SO_FAR:.*]] = %[[BEFORE]]) -> (f32) {
// CHECK-NEXT:        %[[X:.*]] = memref.load %x[%[[I]], %[[J]]]
// CHECK-NEXT:        arith.addf %[[SO_FAR]], %[[X]]
// CHECK:           memref.store %[[SUM]], %o[%[[I]]]

// -----

// A register tile of two rows: what both read is loaded once.
func.func private @jammed_rows(%x: memref<4x8xf32>, %b: memref<8xf32>, %o: memref<4x8xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : memref<4x8xf32>, memref<8xf32>) outs(%o : memref<4x8xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64, jam = 0 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @jammed_rows
// CHECK:         vector.load %x[%[[I:.*]], %{{.*}}] : memref<4x8xf32>, vector<8xf32>
// CHECK-NEXT:      %[[B:.*]] = vector.load %b
// CHECK-NEXT:      arith.addf %{{.*}}, %[[B]]
// CHECK:           %[[NEXT:.*]] = arith.addi %[[I]]
// CHECK-NEXT:      vector.load %x[%[[NEXT]]
// CHECK-NEXT:      arith.addf %{{.*}}, %[[B]]

// -----

// Both statements share the rows; a value per row is no buffer any more, and the fill is the sum's initial value.
func.func private @shared_rows(%x: memref<4x9xf32>, %o: memref<4x9xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<4xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<4xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<4x9xf32>) outs(%s : memref<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : memref<4x9xf32>, memref<4xf32>) outs(%o : memref<4x9xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @shared_rows
// CHECK-NOT:   memref.alloc
// CHECK:       "scf.parallel"
// CHECK-NEXT:    ^{{.*}}(%[[ROW:.*]]: index):
// CHECK-NEXT:    %[[SUM:.*]] = scf.for %[[I:.*]] = {{.*}} iter_args(%[[SO_FAR:.*]] = %zero) -> (f32) {
// CHECK-NEXT:      %[[X:.*]] = memref.load %x[%[[ROW]], %[[I]]]
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addf %[[SO_FAR]], %[[X]] : f32
// CHECK-NEXT:      scf.yield %[[NEXT]] : f32
// CHECK:         "scf.parallel"
// CHECK:           arith.divf %{{.*}}, %[[SUM]] : f32

// -----

// 11 = 8 + 3: one vector of each tile, and a masked one.
func.func private @masked_rest(%x: memref<11xf32>, %o: memref<11xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : memref<11xf32>) outs(%o : memref<11xf32>) attrs = {schedule = {vector = 0 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @masked_rest
// CHECK:         vector.load %x{{.*}} vector<8xf32>
// CHECK:         vector.store
// CHECK:         %[[MASK:.*]] = vector.create_mask %{{.*}} : vector<4xi1>
// CHECK:         vector.maskedload %x{{.*}}, %[[MASK]]
// CHECK:         vector.maskedstore %o{{.*}}, %[[MASK]]

// -----

// Lanes of a reduction are combined behind the loop.
func.func private @combined_lanes(%x: memref<64xf32>, %o: memref<f32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : memref<64xf32>) outs(%o : memref<f32>) attrs = {schedule = {vector = 0 : i64, width = 8 : i64, unroll = 2 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @combined_lanes
// CHECK:         %[[FIRST:.*]], %[[SECOND:.*]] = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK:         %[[BOTH:.*]] = arith.addf %[[FIRST]], %[[SECOND]] fastmath<reassoc> : vector<8xf32>
// CHECK-NEXT:    vector.reduction <add>, %[[BOTH]] fastmath<reassoc> : vector<8xf32> into f32
// CHECK:         memref.store

// -----

// The gradient of a window: several iterations reach one element, so it is updated in memory.
func.func private @window_gradient(%g: memref<4xf32>, %w: memref<3xf32>, %o: memref<6xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0 + d1)>], iterator_types = ["reduction", "reduction"]} ins(%g, %w : memref<4xf32>, memref<3xf32>) outs(%o : memref<6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @window_gradient
// CHECK:         scf.for %[[I:.*]] = {{.*}} {
// CHECK:           scf.for %[[J:.*]] = {{.*}} {
// CHECK:             %[[AT:.*]] = arith.addi %[[I]], %[[J]] : index
// CHECK:             memref.load %o[%[[AT]]]
// CHECK:             memref.store %{{.*}}, %o[%[[AT]]]

// -----

// A strip of 4 x 8 elements of the product goes through a buffer of that size.
func.func private @strips(%x: memref<16x32xf32>, %w: memref<32x24xf32>, %o: memref<16x24xf32>) attributes {kernel, strips = array<i64: 4, 8>} {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<16x24xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<16x24xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<16x32xf32>, memref<32x24xf32>) outs(%p : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<16x24xf32>) outs(%o : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @strips
// CHECK:         "scf.parallel"
// CHECK:           %[[STRIP:.*]] = memref.alloca() : memref<4x8xf32>
// CHECK:           "scf.parallel"
// CHECK:             scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK:             vector.store %{{.*}}, %[[STRIP]]
// CHECK:           "scf.parallel"
// CHECK:             vector.load %[[STRIP]]
// CHECK:             vector.store %{{.*}}, %o

// -----

// What is done to the elements of a product in a few instructions takes them from the registers of a tile.
func.func private @epilogue(%x: memref<16x32xf32>, %w: memref<32x24xf32>, %o: memref<16x24xf32>) attributes {kernel, strips = array<i64: 4, 8>} {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<16x24xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<16x24xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<16x32xf32>, memref<32x24xf32>) outs(%p : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<16x24xf32>) outs(%o : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @epilogue
// CHECK-NOT:     memref.alloc
// CHECK:         %[[SUMS:[0-9]+]], %{{[0-9]+}} = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK:         %[[RESULT:[0-9]+]] = arith.negf %[[SUMS]]
// CHECK-NEXT:    vector.store %[[RESULT]], %o

// -----

// The negated sums may lie where the squares did, which other tiles of the product still read: they wait for all of it.
func.func private @epilogue_in_place_of_an_operand(%x: memref<16x8xf32>, %w: memref<8x24xf32>, %y: memref<16x24xf32>, %o: memref<16x24xf32>) attributes {kernel, strips = array<i64: 4, 8>} {
  %zero = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<16x24xf32>
  %p = memref.alloc() : memref<16x24xf32>
  %n = memref.alloc() : memref<16x24xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%y : memref<16x24xf32>) outs(%s : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.mulf %a, %a : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%p : memref<16x24xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w, %s : memref<16x8xf32>, memref<8x24xf32>, memref<16x24xf32>) outs(%p : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %c: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %d = arith.mulf %m, %c : f32
    %r = arith.addf %acc, %d : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p : memref<16x24xf32>) outs(%n : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%n : memref<16x24xf32>) outs(%o : memref<16x24xf32>) attrs = {schedule = {vector = 1 : i64, width = 8 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @epilogue_in_place_of_an_operand
// CHECK:         %[[SUMS:[0-9]+]], %{{[0-9]+}} = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK:         vector.store %[[SUMS]]

// -----

// The rows of %e are shared and added up: strip by strip, in order, behind the stores of what the sum starts from.
func.func private @adds_up(%x: memref<4x16x5xf32>, %y: memref<4x5x8xf32>, %g: memref<4x16x8xf32>, %o: memref<4x8x8xf32>) attributes {kernel, strips = array<i64: 1, 8, 4>} {
  %zero = arith.constant 0.0 : f32
  %e = memref.alloc() : memref<4x16x8xf32>
  linalg.fill ins(%zero : f32) outs(%e : memref<4x16x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : memref<4x16x5xf32>, memref<4x5x8xf32>) outs(%e : memref<4x16x8xf32>) attrs = {schedule = {vector = 2 : i64, width = 8 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<4x8x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%e, %g : memref<4x16x8xf32>, memref<4x16x8xf32>) outs(%o : memref<4x8x8xf32>) attrs = {schedule = {vector = 2 : i64, width = 8 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @adds_up
// CHECK:         "scf.parallel"
// CHECK-NEXT:    ^{{.*}}(%[[B:.*]]: index):
// CHECK:           vector.store %{{.*}}, %o[%[[B]],
// CHECK:           scf.for
// CHECK-NEXT:        %[[STRIP:.*]] = memref.alloca() : memref<4x8xf32>
// CHECK:             vector.load %y[%[[B]],
// CHECK:             vector.load %o[%[[B]],
// CHECK:             scf.for {{.*}} iter_args
// CHECK:             vector.store %{{.*}}, %o[%[[B]],

// -----

// Two rows of windows of three rows overlap in two: taps from row to row are written out, and four rows are loaded.
func.func private @taps(%x: memref<4x16xf32>, %w: memref<3xf32>, %o: memref<2x16xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0 + d2, d1)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : memref<4x16xf32>, memref<3xf32>) outs(%o : memref<2x16xf32>) attrs = {schedule = {vector = 1 : i64, width = 16 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 2 : i64, taps = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @taps
// CHECK-NOT:     scf.for
// CHECK:         %[[A0:.*]] = vector.load %o
// CHECK:         %[[A1:.*]] = vector.load %o
// CHECK:         %[[R0:.*]] = vector.load %x
// CHECK:         %[[B0:.*]] = vector.fma %[[R0]], {{.*}}, %[[A0]]
// CHECK:         %[[R1:.*]] = vector.load %x
// CHECK:         %[[B1:.*]] = vector.fma %[[R1]], {{.*}}, %[[A1]]
// CHECK-NOT:     vector.load
// CHECK:         %[[C0:.*]] = vector.fma %[[R1]], {{.*}}, %[[B0]]
// CHECK:         %[[R2:.*]] = vector.load %x
// CHECK:         %[[C1:.*]] = vector.fma %[[R2]], {{.*}}, %[[B1]]
// CHECK-NOT:     vector.load
// CHECK:         vector.fma %[[R2]], {{.*}}, %[[C0]]
// CHECK:         %[[R3:.*]] = vector.load %x
// CHECK:         vector.fma %[[R3]], {{.*}}, %[[C1]]

// -----

// Tiles of two rows, and the row that is left: neither needs the other, so the second loop may run beside the first, and
// what is no loop beside both.
func.func private @edges(%a: memref<5x6xf32>, %b: memref<6x11xf32>, %o: memref<5x11xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<5x6xf32>, memref<6x11xf32>) outs(%o : memref<5x11xf32>) attrs = {schedule = {vector = 1 : i64, width = 4 : i64, unroll = 1 : i64, jam = 0 : i64, jam_count = 2 : i64}} {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
// CHECK-LABEL: @edges
// CHECK:       "scf.parallel"
// CHECK:         vector.store
// CHECK:       }) : (index, index, index, index, index, index) -> ()
// CHECK:       "scf.parallel"
// CHECK:         vector.store
// CHECK:       }) {beside} : (index, index, index) -> ()
// CHECK:       "scf.parallel"
// CHECK:         vector.maskedstore
// CHECK:       }) {beside} : (index, index, index) -> ()
// CHECK:       scf.for
// CHECK:       vector.maskedstore {{.*}} {beside}
// CHECK-NEXT:  func.return

// -----

// Loops over updates of different elements are parallel.
func.func private @updates(%o: memref<9x40xf32>, %u: memref<5x16xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c5 step %c1 {
    scf.for %j = %c0 to %c16 step %c1 {
      %b = memref.load %u[%i, %j] : memref<5x16xf32>
      memref.store %b, %o[%i, %j] : memref<9x40xf32>
    } {distinct}
  } {distinct}
  func.return
}
// CHECK-LABEL: @updates
// CHECK:         "scf.parallel"(%c0, %c0, %c5, %c16, %c1, %c1)
// CHECK-NEXT:    ^bb0(%i: index, %j: index):
// CHECK-NEXT:      %b = memref.load %u[%i, %j]
// CHECK-NEXT:      memref.store %b, %o[%i, %j]
// CHECK:         {distinct}

// -----

// What is read in reverse is loaded from its last element on, and turned round in a register.
func.func private @reverse(%x: memref<6xf32>, %o: memref<6xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i * -1 + 5)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<6xf32>) outs(%o : memref<6xf32>) attrs = {schedule = {vector = 0 : i64, width = 4 : i64}} {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  }
  func.return
}
// CHECK-LABEL: @reverse
// CHECK:         %[[TWO:.*]] = arith.constant 2 : index
// CHECK:         %[[LAST:.*]] = vector.load %x[%[[TWO]]] : memref<6xf32>, vector<4xf32>
// CHECK-NEXT:    %[[TURNED:.*]] = vector.shuffle %[[LAST]], %[[LAST]] [3, 2, 1, 0]
// CHECK-NEXT:    vector.store %[[TURNED]]
// CHECK:         %[[FIRST:.*]] = vector.load %x[%{{.*}}] : memref<6xf32>, vector<2xf32>
// CHECK-NEXT:    vector.shuffle %[[FIRST]], %[[FIRST]] [1, 0]

// -----

// Without a reduction, what is fetched ahead are the pieces that the same vectors of a later row read.
func.func private @pieces_ahead(%x: memref<6x64xf32>, %y: memref<6x16xf32>, %o: memref<6x16xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, (j + 16))>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : memref<6x64xf32>, memref<6x16xf32>) outs(%o : memref<6x16xf32>) attrs = {schedule = {vector = 1 : i64, width = 16 : i64, ahead = 2 : i64}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @pieces_ahead
// CHECK:         ^bb0(%[[I:.*]]: index):
// CHECK:           %[[LATER:.*]] = arith.addi %[[I]], %{{.*}} : index
// CHECK:           memref.prefetch %x[%[[LATER]], %[[J:.*]]], read
// CHECK-NEXT:      vector.load %x[%[[I]], %[[J]]]
// CHECK-NEXT:      vector.load %y

// -----

// Sums that lie across the lanes: a square of the tile is transposed, then what is left of its rows, two at a time, and
// columns are stored in pieces. What they are stored to is fetched before the products.
func.func private @sums_across(%a: memref<6x9xf32>, %b: memref<9x4xf32>, %o: memref<4x6xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d1, d0)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<6x9xf32>, memref<9x4xf32>) outs(%o : memref<4x6xf32>) attrs = {schedule = {vector = 1, width = 4, unroll = 1, jam = 0, jam_count = 6}} {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// CHECK-LABEL: @sums_across
// CHECK-COUNT-4: memref.prefetch %o{{.*}}, write
// CHECK:         scf.for
// CHECK:         vector.load %b{{.*}} vector<4xf32>
// CHECK-COUNT-6: vector.fma
// CHECK-COUNT-8: vector.shuffle
// CHECK-COUNT-4: vector.store {{.*}}, %o{{.*}} vector<4xf32>
// CHECK:         vector.shuffle {{.*}} [0, 4, 1, 5]
// CHECK:         vector.shuffle {{.*}} [2, 6, 3, 7]
// CHECK:         vector.store {{.*}}, %o{{.*}} vector<2xf32>

// -----

// A copy with a constant around it is in no memory: what was copied is read, with a mask at the edges alone.
func.func private @padded_copy(%x: memref<16xf32>, %o: memref<32xf32>) attributes {kernel} {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<32xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<32xf32>)
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i + 4)>], iterator_types = ["parallel"]} ins(%x : memref<16xf32>) outs(%p : memref<32xf32>) { ^bb0(%a: f32, %acc: f32): linalg.yield %a : f32 }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%p : memref<32xf32>) outs(%o : memref<32xf32>) attrs = {schedule = {vector = 0 : i64, width = 8 : i64}} { ^bb0(%a: f32, %acc: f32): linalg.yield %a : f32 }
  func.return
}
// CHECK-LABEL: @padded_copy
// CHECK-NOT:     memref.alloc
// CHECK:         vector.maskedload %x[{{%.*}}], {{.*}} : memref<16xf32>
// CHECK:         %[[INNER:.*]] = vector.load %x[{{%.*}}] : memref<16xf32>, vector<8xf32>
// CHECK-NEXT:    vector.store %[[INNER]]

// -----

// Behind eight rows in the lanes of vectors one is left, and of what lies between the statements then one row is held, without a dimension of rows.
#rows = affine_map<(i, j) -> (i, j)>
#columns = affine_map<(i, j) -> (j, i)>
func.func private @one_row_is_left(%x: memref<2x9xf64>, %out: memref<9x2xf64>) attributes {kernel} {
  %s = memref.alloc() : memref<9x2xf64>
  linalg.generic {indexing_maps = [#columns, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<2x9xf64>) outs(%s : memref<9x2xf64>) attrs = {schedule = {vector = 0 : i64, width = 8 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f64, %o: f64):
    %b = arith.mulf %a, %a : f64
    linalg.yield %b : f64
  }
  linalg.generic {indexing_maps = [#rows, #columns, #rows], iterator_types = ["parallel", "parallel"]} ins(%s, %x : memref<9x2xf64>, memref<2x9xf64>) outs(%out : memref<9x2xf64>) attrs = {schedule = {vector = 0 : i64, width = 8 : i64, unroll = 1 : i64, jam = 1 : i64, jam_count = 2 : i64}} {
  ^bb0(%a: f64, %c: f64, %o: f64):
    %b = arith.addf %a, %c : f64
    linalg.yield %b : f64
  }
  func.return
}
// CHECK-LABEL: @one_row_is_left
// CHECK:       memref.alloca() : memref<8x2xf64>
// CHECK:       [[ROW:%.*]] = memref.alloca() : memref<2xf64>
// CHECK:       vector.maskedstore [[ROW]]
// CHECK-NEXT:  vector.maskedload [[ROW]]
