// RUN: tenon-opt %s -p name-sizes,fuse --split-input-file | filecheck %s

// A product on its own copies columns that lie across memory to panels, if it knows how large they are.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<80x64xf32>) -> tensor<80x80xf32> {
  %p = tenon.contract [%x, %x] {maps = [#a, #b, #c], extents = [80, 80, 64], shape = [80, 80]} : [tensor<80x64xf32>, tensor<80x64xf32>] -> tensor<80x80xf32>
  func.return %p : tensor<80x80xf32>
}
// CHECK-LABEL: @main
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}(%x)
// CHECK-NEXT:    func.return

// -----

// Others are transposed in a kernel before.
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<?x64xf32> {tenon.shape = ["n", 64]}) -> tensor<?x?xf32> {
  %p = tenon.contract [%x, %x] {maps = [#a, #b, #c], extents = ["n", "n", 64], shape = ["n", "n"]} : [tensor<?x64xf32>, tensor<?x64xf32>] -> tensor<?x?xf32>
  func.return %p : tensor<?x?xf32>
}
// CHECK-LABEL: @main
// CHECK-NEXT:    [[T:%.*]] = func.call @kernel_{{[0-9]+}}(%x) : (tensor<?x64xf32>) -> tensor<64x?xf32>
// CHECK-NEXT:    func.call @kernel_{{[0-9]+}}(%x, [[T]])
