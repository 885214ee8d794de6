// RUN: tenon-opt %s --print-debuginfo | filecheck %s

// Locations may be named behind their uses, as upstream prints them; of a range, the beginning is kept.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tenon.exp %x : tensor<4xf32> -> tensor<4xf32> loc(#loc2)
  %b = tenon.exp %a : tensor<4xf32> -> tensor<4xf32> loc("g.py":5:6 to :9)
  %c = tenon.exp %b : tensor<4xf32> -> tensor<4xf32> loc("name"("g.py":7:8 to 9:1))
  %d = tenon.exp %c : tensor<4xf32> -> tensor<4xf32> loc(fused<"why">["g.py":1:2, #loc1])
  func.return %d : tensor<4xf32>
}
#loc1 = loc("f.py":3:4)
#loc2 = loc(callsite("g" at #loc1))
// CHECK: %a = {{.*}} loc(callsite("g" at "f.py":3:4))
// CHECK: %b = {{.*}} loc("g.py":5:6)
// CHECK: %c = {{.*}} loc("name"("g.py":7:8))
// CHECK: %d = {{.*}} loc(fused["g.py":1:2, "f.py":3:4])
