// RUN: tenon-opt %s -p name-sizes,fuse,convert-tensor-to-structured,fuse-structured{loops=true},split-index-sets | filecheck %s

// Where only the launch tells how many rows there are, they are cut along columns, and none asks for its place.
func.func @main(%x: tensor<?x320xf32>) -> tensor<?x322xf32> {
  %0 = tenon.exp %x : tensor<?x320xf32> -> tensor<?x320xf32>
  %1 = tenon.pad %0 {low = [0, 1], high = [0, 1]} : tensor<?x320xf32> -> tensor<?x322xf32>
  func.return %1 : tensor<?x322xf32>
}
// CHECK:     func.func private @kernel_0
// CHECK-NOT: linalg.index
// CHECK:     linalg.generic {indexing_maps = [{{.*}}affine_map<(d0, d1) -> (d0, (d1 + 1))>]{{.*}} ins(%x : tensor<?x320xf32>)
// CHECK:     math.exp
// CHECK-NOT: linalg.index
