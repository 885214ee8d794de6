// RUN: tenon-opt %s --split-input-file -p skip-masked | filecheck %s
// RUN: tenon-opt %s --split-input-file -p skip-masked,convert-structured-to-loops | filecheck %s --check-prefix LOOPS

// The rows of a causal softmax end where the mask does, in all statements.
func.func private @causal(%s: memref<40x48xf32>, %o: memref<40xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<40xf32>
  %p = memref.alloc() : memref<40x48xf32>
  %low = arith.constant 0xff800000 : f32
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%low : f32) outs(%m : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : memref<40x48xf32>) outs(%m : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %v = arith.select %sees, %x, %hidden : f32
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s, %m : memref<40x48xf32>, memref<40xf32>) outs(%p : memref<40x48xf32>) {
  ^bb0(%x: f32, %r: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %v = arith.select %sees, %x, %hidden : f32
    %d = arith.subf %v, %r : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<40x48xf32>) outs(%o : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @causal
// CHECK-COUNT-3: visible = {loop = 1 : i64, upper = affine_map<(d0, d1) -> ((d0 + 1))>}
// LOOPS-LABEL: @causal
// LOOPS:         "scf.parallel"
// LOOPS-NEXT:    ^bb0(%[[ROW:.*]]: index):
// LOOPS-NEXT:      %[[END:.*]] = arith.addi %[[ROW]], {{.*}} : index
// LOOPS-NEXT:      %[[SOME:.*]] = arith.maxsi %[[END]], {{.*}} : index
// LOOPS:           scf.for {{.*}} to %[[LIMIT:.*]] step
// LOOPS:           "scf.parallel"(%{{[0-9]+}}, %[[LIMIT]], {{.*}})
// LOOPS:           scf.for {{.*}} to %[[LIMIT]] step

// -----

// A sliding window has both bounds.
func.func private @window(%s: memref<40x48xf32>, %o: memref<40xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<40xf32>
  %p = memref.alloc() : memref<40x48xf32>
  %low = arith.constant 0xff800000 : f32
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%low : f32) outs(%m : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : memref<40x48xf32>) outs(%m : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %eight = arith.constant -8 : i32
    %near = arith.cmpi sgt, %distance, %eight : i32
    %both = arith.andi %sees, %near : i1
    %v = arith.select %both, %x, %hidden : f32
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s, %m : memref<40x48xf32>, memref<40xf32>) outs(%p : memref<40x48xf32>) {
  ^bb0(%x: f32, %r: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %eight = arith.constant -8 : i32
    %near = arith.cmpi sgt, %distance, %eight : i32
    %both = arith.andi %sees, %near : i1
    %v = arith.select %both, %x, %hidden : f32
    %d = arith.subf %v, %r : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<40x48xf32>) outs(%o : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @window
// CHECK-COUNT-3: visible = {loop = 1 : i64, lower = affine_map<(d0, d1) -> ((d0 + -7))>, upper = affine_map<(d0, d1) -> ((d0 + 1))>}

// -----

// A mask that is added leaves a NaN, or an infinity, what it is: nothing is known of the sum.
func.func private @added(%s: memref<40x48xf32>, %o: memref<40xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<40xf32>
  %p = memref.alloc() : memref<40x48xf32>
  %low = arith.constant 0xff800000 : f32
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%low : f32) outs(%m : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : memref<40x48xf32>) outs(%m : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %bias = arith.select %sees, %zero, %hidden : f32
    %v = arith.addf %x, %bias : f32
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s, %m : memref<40x48xf32>, memref<40xf32>) outs(%p : memref<40x48xf32>) {
  ^bb0(%x: f32, %r: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %bias = arith.select %sees, %zero, %hidden : f32
    %v = arith.addf %x, %bias : f32
    %d = arith.subf %v, %r : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<40x48xf32>) outs(%o : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @added
// CHECK-NOT:     visible

// -----

// What is a result of the kernel is computed where it is hidden, too; only the maximum is not.
func.func private @kept(%s: memref<40x48xf32>, %o: memref<40xf32>, %p: memref<40x48xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<40xf32>
  %low = arith.constant 0xff800000 : f32
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%low : f32) outs(%m : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : memref<40x48xf32>) outs(%m : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %v = arith.select %sees, %x, %hidden : f32
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s, %m : memref<40x48xf32>, memref<40xf32>) outs(%p : memref<40x48xf32>) {
  ^bb0(%x: f32, %r: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %v = arith.select %sees, %x, %hidden : f32
    %d = arith.subf %v, %r : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<40x48xf32>) outs(%o : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @kept
// CHECK-COUNT-1: visible
// CHECK-NOT:     visible

// -----

// A large negative number is not what a maximum starts from: the rows that see nothing have it.
func.func private @finite(%s: memref<40x48xf32>, %o: memref<40xf32>) attributes {kernel} {
  %m = memref.alloc() : memref<40xf32>
  %p = memref.alloc() : memref<40x48xf32>
  %low = arith.constant 0xff800000 : f32
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%low : f32) outs(%m : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : memref<40x48xf32>) outs(%m : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %large = arith.constant -1.0e9 : f32
    %v = arith.select %sees, %x, %large : f32
    %y = arith.maximumf %acc, %v : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s, %m : memref<40x48xf32>, memref<40xf32>) outs(%p : memref<40x48xf32>) {
  ^bb0(%x: f32, %r: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i32
    %column = arith.index_cast %j : index to i32
    %distance = arith.subi %column, %row : i32
    %none = arith.constant 0 : i32
    %hidden = arith.constant 0xff800000 : f32
    %sees = arith.cmpi sle, %distance, %none : i32
    %large = arith.constant -1.0e9 : f32
    %v = arith.select %sees, %x, %large : f32
    %d = arith.subf %v, %r : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  }
  linalg.fill ins(%zero : f32) outs(%o : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<40x48xf32>) outs(%o : memref<40xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  }
  func.return
}
// CHECK-LABEL: @finite
// CHECK-NOT:     visible
