// RUN: tenon-opt %s -p decompose --split-input-file | filecheck %s
// RUN: tenon-opt %s -p decompose,fuse,convert-tensor-to-structured,bufferize,schedule,convert-structured-to-loops,vectorize-updates,separate-rows --split-input-file | filecheck %s --check-prefix LOOPS

// Many short rows are sorted in groups of as many as fill a vector. They are turned into columns of keys in registers; a
// thread sorts a group, eight vectors of keys at a time, and from one loop over pairs of runs for all lengths of runs.
func.func @many_rows(%x: tensor<48x100xf32>) -> tensor<48x100xf32> {
  %y = tenon.sort %x : tensor<48x100xf32> -> tensor<48x100xf32>
  func.return %y : tensor<48x100xf32>
}
// CHECK-LABEL: @many_rows
// CHECK-NOT:     tenon.pad
// CHECK:         tenon.sort_groups %{{.*}} : tensor<3x16x100xf32>

// LOOPS-LABEL: func.func private @kernel_0
// LOOPS:         %[[KEYS:.*]] = memref.alloca() : memref<3x101x16xi32>
// LOOPS:         vector.shuffle
// LOOPS:         vector.store %{{.*}}, %[[KEYS]]
// LOOPS:         "scf.parallel"
// LOOPS-NEXT:    ^{{.*}}(%[[GROUP:.*]]: index):
// LOOPS:           scf.if
// LOOPS-COUNT-8:     vector.load %[[KEYS]][%[[GROUP]], %{{.*}}] : memref<3x101x16xi32>, vector<16xi32>
// LOOPS-NOT:         memref.load
// LOOPS-COUNT-24:    arith.minui %{{.*}} : vector<16xi32>
// LOOPS:             vector.store %{{.*}}, %[[KEYS]][%[[GROUP]], %{{.*}}] : memref<3x101x16xi32>, vector<16xi32>
// LOOPS:           scf.for
// LOOPS:             scf.if
// LOOPS-COUNT-8:       vector.load %[[KEYS]]
// LOOPS-COUNT-12:      arith.minui %{{.*}} : vector<16xi32>
// LOOPS:             scf.for
// LOOPS-COUNT-8:       vector.load %[[KEYS]]
// LOOPS-COUNT-12:      arith.minui %{{.*}} : vector<16xi32>
// LOOPS-NOT:     minui
// LOOPS:         func.return

// -----

// A last group that rows do not fill is padded.
func.func @padded(%x: tensor<24x9xf16>) -> tensor<24x9xi64> {
  %y = tenon.argsort %x {descending = true} : tensor<24x9xf16> -> tensor<24x9xi64>
  func.return %y : tensor<24x9xi64>
}
// CHECK-LABEL: @padded
// CHECK:         tenon.pad %{{.*}} {{.*}} : tensor<24x9xf16> -> tensor<32x9xf16>
// CHECK:         tenon.argsort_groups %{{.*}} {descending = true} : tensor<1x32x9xf16> -> tensor<1x32x9xi64>

// -----

// Rows that fill less than half a group are sorted one by one, and so are long ones.
func.func @few_rows(%x: tensor<7x100xf32>, %y: tensor<16x1025xf32>) -> (tensor<7x100xf32>, tensor<16x1025xf32>) {
  %0 = tenon.sort %x : tensor<7x100xf32> -> tensor<7x100xf32>
  %1 = tenon.sort %y : tensor<16x1025xf32> -> tensor<16x1025xf32>
  func.return %0, %1 : tensor<7x100xf32>, tensor<16x1025xf32>
}
// CHECK-LABEL: @few_rows
// CHECK:         tenon.sort_rows
// CHECK:         tenon.sort_rows

// -----

// A key for an index has room for 32 bits of the element.
func.func @wide(%x: tensor<32x100xi64>) -> tensor<32x100xi64> {
  %0 = tenon.argsort %x : tensor<32x100xi64> -> tensor<32x100xi64>
  func.return %0 : tensor<32x100xi64>
}
// CHECK-LABEL: @wide
// CHECK:         tenon.argsort_rows
