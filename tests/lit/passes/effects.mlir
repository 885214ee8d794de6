// RUN: tenon-opt %s -p canonicalize,hoist-invariants,cse,distribute-scans,dce,fuse | filecheck %s

// Ops with effects are neither removed, merged, nor moved out of a loop or past each other.
func.func @effects(%x: tensor<f32>, %v: tensor<3xf32>) -> tensor<f32> {
  debug.print [%x] {template = "{}"} : [tensor<f32>] -> ()
  debug.print [%x] {template = "{}"} : [tensor<f32>] -> ()
  %y = tenon.scan init(%x : tensor<f32>) slices(%v : tensor<3xf32>) length 3 -> (tensor<f32>) {
  ^bb0(%c: tensor<f32>, %s: tensor<f32>):
    debug.print [%x] {template = "within {}"} : [tensor<f32>] -> ()
    tenon.yield %x : tensor<f32>
  }
  debug.print [%y] {template = "last {}"} : [tensor<f32>] -> ()
  func.return %x : tensor<f32>
}
// CHECK-LABEL: @effects
// CHECK-NEXT:    debug.print [%x] {template = "{}"
// CHECK-NEXT:    debug.print [%x] {template = "{}"
// CHECK-NEXT:    tenon.scan
// CHECK:           debug.print [%x] {template = "within {}"
// CHECK:         debug.print [%y] {template = "last {}"
// CHECK-NEXT:    func.return
