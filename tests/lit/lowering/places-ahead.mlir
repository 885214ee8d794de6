// RUN: tenon-opt %s --split-input-file -p 'places-ahead{vector-bits=256 strip=64}' | filecheck %s

// Places and what is added are computed for 64 updates at once, four to a vector; what lies outside adds nothing.
func.func private @histogram(%o: memref<9xf32>, %i: memref<1000x1xi64>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %n = arith.constant 1000 : index
  %one = arith.constant 1.0 : f32
  scf.for %r = %c0 to %n step %c1 {
    %p = memref.load %i[%r, %c0] : memref<1000x1xi64>
    %q = arith.index_cast %p : i64 to index
    %inside = arith.cmpi ult, %q, %c9 : index
    %limited = arith.minui %q, %c9 : index
    %a = memref.load %o[%limited] : memref<9xf32>
    %b = arith.addf %a, %one : f32
    %c = arith.select %inside, %b, %a : f32
    memref.store %c, %o[%limited] : memref<9xf32>
  }
  func.return
}
// CHECK-LABEL: @histogram
// CHECK-DAG:     %[[NOTHING:.*]] = arith.constant -0.000000e+00 : f32
// CHECK-DAG:     %[[ROWS:.*]] = memref.collapse_shape %i {{.*}} into memref<1000xi64>
// CHECK-DAG:     %[[PLACES:.*]] = memref.alloca() : memref<64xindex>
// CHECK-DAG:     %[[VALUES:.*]] = memref.alloca() : memref<64xf32>
// CHECK:         scf.for %[[START:.*]] = %c0 to %n
// CHECK:           scf.for %[[J:.*]] = %[[START]] to
// CHECK-NEXT:        %[[AT:.*]] = arith.subi %[[J]], %[[START]] : index
// CHECK-NEXT:        vector.load %[[ROWS]][%[[J]]] : memref<1000xi64>, vector<4xi64>
// CHECK:             arith.minui {{.*}} : vector<4xindex>
// CHECK:             arith.select {{.*}} : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:        vector.store %{{.*}}, %[[PLACES]][%[[AT]]] : memref<64xindex>, vector<4xindex>
// CHECK-NEXT:        vector.store %{{.*}}, %[[VALUES]][%[[AT]]] : memref<64xf32>, vector<4xf32>
// CHECK:           scf.for
// CHECK:             memref.load %[[ROWS]]
// CHECK:             memref.store %{{.*}}, %[[VALUES]]
// CHECK:           scf.for %r = %[[START]] to
// CHECK-NEXT:        %[[OF:.*]] = arith.subi %r, %[[START]] : index
// CHECK-NEXT:        %[[Q:.*]] = memref.load %[[PLACES]][%[[OF]]]
// CHECK-NEXT:        %[[V:.*]] = memref.load %[[VALUES]][%[[OF]]]
// CHECK-NEXT:        %[[A:.*]] = memref.load %o[%[[Q]]]
// CHECK-NEXT:        %[[B:.*]] = arith.addf %[[A]], %[[V]] : f32
// CHECK-NEXT:        memref.store %[[B]], %o[%[[Q]]]

// -----

// What was updated before may tell where the next update goes.
func.func private @chain(%o: memref<9xindex>, %n: index) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %r = %c0 to %n step %c1 {
    %p = memref.load %o[%r] : memref<9xindex>
    %q = arith.addi %p, %c1 : index
    %s = arith.minui %q, %n : index
    %t = arith.maxui %s, %c1 : index
    memref.store %r, %o[%t] : memref<9xindex>
  }
  func.return
}
// CHECK-LABEL: @chain
// CHECK-NOT:     vector

// -----

// A place that is loaded as it is saves nothing.
func.func private @set(%o: memref<9xi8>, %i: memref<1000xindex>, %u: memref<1000xi8>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000 : index
  scf.for %r = %c0 to %n step %c1 {
    %p = memref.load %i[%r] : memref<1000xindex>
    %a = memref.load %u[%r] : memref<1000xi8>
    memref.store %a, %o[%p] : memref<9xi8>
  }
  func.return
}
// CHECK-LABEL: @set
// CHECK-NOT:     vector
