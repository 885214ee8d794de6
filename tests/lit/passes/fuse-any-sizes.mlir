// RUN: tenon-opt %s -p name-sizes,fuse --split-input-file | filecheck %s

// A product on its own copies columns that lie across memory to panels, cut along its outermost reduction.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<?x?xf32> {tenon.shape = ["n", "k"]}) -> tensor<?x?xf32> {
  %p = tenon.contract [%x, %x] {maps = [#a, #b, #c], extents = ["n", "n", "k"], shape = ["n", "n"]} : [tensor<?x?xf32>, tensor<?x?xf32>] -> tensor<?x?xf32>
  func.return %p : tensor<?x?xf32>
}
// CHECK-LABEL: @main
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}(%x)
// CHECK-NEXT:    func.return

// -----

// Those whose inner reductions are not known are transposed in a kernel before.
#a = affine_map<(i, j, k, l) -> (i, k, l)>
#b = affine_map<(i, j, k, l) -> (j, k, l)>
#c = affine_map<(i, j, k, l) -> (i, j)>
func.func @main(%x: tensor<80x4x?xf32> {tenon.shape = [80, 4, "n"]}) -> tensor<80x80xf32> {
  %p = tenon.contract [%x, %x] {maps = [#a, #b, #c], extents = [80, 80, 4, "n"], shape = [80, 80]} : [tensor<80x4x?xf32>, tensor<80x4x?xf32>] -> tensor<80x80xf32>
  func.return %p : tensor<80x80xf32>
}
// CHECK-LABEL: @main
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_{{[0-9]+}}(%x) : (tensor<80x4x?xf32>) -> tensor<4x?x80xf32>
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}(%x, [[T]])
