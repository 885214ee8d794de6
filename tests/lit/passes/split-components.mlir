// RUN: tenon-opt %s --split-input-file -p split-components,canonicalize,cse | filecheck %s

// A loop carries the components of a state that each step slices and joins, and a step computes them apart.
func.func @carried(%s: tensor<9x2xf32>) -> tensor<9x2xf32> {
  %r = tenon.scan init(%s : tensor<9x2xf32>) length 4 -> (tensor<9x2xf32>) {
  ^bb0(%c: tensor<9x2xf32>):
    %x = tenon.slice %c {starts = [0, 0], limits = [9, 1]} : tensor<9x2xf32> -> tensor<9x1xf32>
    %v = tenon.slice %c {starts = [0, 1], limits = [9, 2]} : tensor<9x2xf32> -> tensor<9x1xf32>
    %f = tenon.negative %x : tensor<9x1xf32> -> tensor<9x1xf32>
    %d = tenon.concatenate [%v, %f] {axis = 1} : [tensor<9x1xf32>, tensor<9x1xf32>] -> tensor<9x2xf32>
    %n = tenon.add %c, %d : tensor<9x2xf32>, tensor<9x2xf32> -> tensor<9x2xf32>
    tenon.yield %n : tensor<9x2xf32>
  }
  func.return %r : tensor<9x2xf32>
}
// CHECK-LABEL: @carried
// CHECK:         [[R:%.*]], [[S:%.*]] = tenon.scan init({{.*}} : tensor<9xf32>, tensor<9xf32>) length 4
// CHECK-NEXT:    ^{{.*}}([[X:%.*]]: tensor<9xf32>, [[V:%.*]]: tensor<9xf32>):
// CHECK:           tenon.add [[X]], [[V]] : tensor<9xf32>, tensor<9xf32>
// CHECK-NOT:       tenon.concatenate
// CHECK:           tenon.yield {{.*}} : tensor<9xf32>, tensor<9xf32>
// CHECK:         tenon.concatenate {{.*}} -> tensor<9x2xf32>
// CHECK-NEXT:    func.return

// -----

// What is joined, added to and sliced again is added to in components; the extreme of all is that of two.
func.func @without_a_loop(%x: tensor<9x1xf32>, %v: tensor<9x1xf32>, %c: tensor<9x2xf32>) -> (tensor<9x1xf32>, tensor<9xf32>) {
  %d = tenon.concatenate [%v, %x] {axis = 1} : [tensor<9x1xf32>, tensor<9x1xf32>] -> tensor<9x2xf32>
  %n = tenon.add %c, %d : tensor<9x2xf32>, tensor<9x2xf32> -> tensor<9x2xf32>
  %y = tenon.slice %n {starts = [0, 1], limits = [9, 2]} : tensor<9x2xf32> -> tensor<9x1xf32>
  %m = tenon.max %n {axis = [1]} : tensor<9x2xf32> -> tensor<9xf32>
  func.return %y, %m : tensor<9x1xf32>, tensor<9xf32>
}
// CHECK-LABEL: @without_a_loop
// CHECK-NOT:     tenon.concatenate
// CHECK:         tenon.maximum {{.*}} -> tensor<9xf32>

// -----

// A state that a step also reads as a whole stays one.
func.func @used_as_a_whole(%s: tensor<9x2xf32>, %w: tensor<2x2xf32>) -> tensor<9x2xf32> {
  %r = tenon.scan init(%s : tensor<9x2xf32>) length 4 -> (tensor<9x2xf32>) {
  ^bb0(%c: tensor<9x2xf32>):
    %x = tenon.slice %c {starts = [0, 0], limits = [9, 1]} : tensor<9x2xf32> -> tensor<9x1xf32>
    %d = tenon.concatenate [%x, %x] {axis = 1} : [tensor<9x1xf32>, tensor<9x1xf32>] -> tensor<9x2xf32>
    %p = tenon.matmul %c, %w : tensor<9x2xf32>, tensor<2x2xf32> -> tensor<9x2xf32>
    %n = tenon.add %p, %d : tensor<9x2xf32>, tensor<9x2xf32> -> tensor<9x2xf32>
    tenon.yield %n : tensor<9x2xf32>
  }
  func.return %r : tensor<9x2xf32>
}
// CHECK-LABEL: @used_as_a_whole
// CHECK-NEXT:    tenon.scan init(%s : tensor<9x2xf32>) length 4
