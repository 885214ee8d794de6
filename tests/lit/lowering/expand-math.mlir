// RUN: tenon-opt %s -p expand-math | filecheck %s
// RUN: tenon-opt %s -p expand-math{scaling=true} | filecheck %s --check-prefix SCALING
// RUN: tenon-opt %s -p expand-math{multiply-add=false} | filecheck %s --check-prefix SEPARATE

// exp(x) = 2^n exp(r) for the whole number n next to x / log 2: a polynomial for exp(r), scaled by 2^n.
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  func.return %y : f32
}
// CHECK-LABEL: @exp
// CHECK-NOT:     math.exp
// CHECK:         %[[PER_LOG2:.*]] = arith.constant 1.44269502 : f32
// CHECK:         %[[SHIFTED:.*]] = math.fma %{{.*}}, %[[PER_LOG2]], %[[MAGIC:.*]] : f32
// CHECK-NEXT:    %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : f32
// CHECK:         math.fma %[[N]]
// CHECK:         %y = arith.mulf
// Where the result is 0, 0 is scaled.
// SCALING:       [[ZERO:%.*]] = arith.cmpf olt
// SCALING:       [[P:%.*]] = arith.select [[ZERO]], %{{.*}}, %{{.*}} : f32
// SCALING-NEXT:  [[LANES:%.*]] = vector.insert [[P]], %{{.*}} [0] : f32 into vector<4xf32>
// SCALING:       [[SCALED:%.*]] = llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ss"([[LANES]], {{.*}}, [[LANES]], %{{.*}}, %{{.*}})
// SCALING-NEXT:  %y = vector.extract [[SCALED]][0]
// CHECK-NOT:     func.call
// CHECK:         func.return %y

// Vectors go through the same formula as scalars, so that they get the same bits.
func.func @exp_of_a_vector(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.exp %x : vector<8xf32>
  func.return %y : vector<8xf32>
}
// CHECK-LABEL: @exp_of_a_vector
// CHECK-NOT:     math.exp
// CHECK:         %[[PER_LOG2:.*]] = arith.constant 1.44269502 : f32
// CHECK-NEXT:    %[[PER_LOG2_LANES:.*]] = vector.broadcast %[[PER_LOG2]] : f32 to vector<8xf32>
// CHECK:         math.fma %{{.*}}, %[[PER_LOG2_LANES]], %{{.*}} : vector<8xf32>
// CHECK:         %y = arith.mulf %{{.*}} : vector<8xf32>
// SCALING:       %y = llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.256"({{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>, i8) -> vector<8xf32>

// What may be approximated (`vanish-weights`) is 0 from where it could not be multiplied by much and be a normal number, 2^-103.
func.func @exp_of_a_weight(%x: f32) -> f32 {
  %y = math.exp %x fastmath<afn> : f32
  func.return %y : f32
}
// CHECK-LABEL: @exp_of_a_weight
// CHECK:         %[[LEAST:.*]] = arith.constant -71.3941574 : f32
// CHECK:         arith.cmpf olt, %{{.*}}, %[[LEAST]] : f32

// Every other function with a formula of its own.
func.func @functions(%x: f32) -> (f32, f32, f32, f32, f32, f32, f32, f32) {
  %a = math.exp2 %x : f32
  %b = math.expm1 %x : f32
  %c = math.log %x : f32
  %d = math.log2 %x : f32
  %e = math.log10 %x : f32
  %f = math.log1p %x : f32
  %g = math.tanh %x : f32
  %h = math.erf %x : f32
  func.return %a, %b, %c, %d, %e, %f, %g, %h : f32, f32, f32, f32, f32, f32, f32, f32
}
// CHECK-LABEL: @functions
// CHECK-NOT:     math.{{exp|log|tanh|erf}}
// CHECK-NOT:     func.call
// CHECK:         func.return %a, %b, %c, %d, %e, %f, %g, %h

// The whole part of a power of two is an exponent as it is.
func.func @exp2(%x: f32) -> f32 {
  %y = math.exp2 %x : f32
  func.return %y : f32
}
// CHECK-LABEL: @exp2
// CHECK:         %[[SHIFTED:.*]] = arith.addf %{{.*}}, %[[MAGIC:.*]] : f32
// CHECK-NEXT:    %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : f32
// CHECK:         %[[REST:.*]] = arith.subf %{{.*}}, %[[N]] : f32
// CHECK-NEXT:    math.fma %{{.*}}, %[[REST]], %{{.*}} : f32
// CHECK:         %y = arith.mulf

// log(x) = n log 2 + log(1 + r), where n is in the bits of the exponent; what is no normal number is looked at apart.
func.func @log(%x: f32) -> f32 {
  %y = math.log %x : f32
  func.return %y : f32
}
// CHECK-LABEL: @log
// CHECK:         %[[BITS:.*]] = arith.bitcast %x : f32 to i32
// CHECK-NEXT:    %[[ABOVE:.*]] = arith.subi %[[BITS]], %{{.*}} : i32
// CHECK-NEXT:    %[[EXPONENT:.*]] = arith.shrsi %[[ABOVE]], %{{.*}} : i32
// CHECK:         %[[N:.*]] = arith.sitofp %[[EXPONENT]] : i32 to f32
// CHECK-NEXT:    %[[REST:.*]] = arith.subf
// CHECK-NEXT:    arith.mulf %[[REST]], %[[REST]] : f32
// CHECK:         %[[NORMAL:.*]] = math.fma %[[N]]
// CHECK:         %y = scf.if
// CHECK:           scf.yield %[[NORMAL]] : f32

// tanh(x) = (e - 1) / (e + 1) for e = exp(2x): of the magnitude, to which the sign is put back.
func.func @tanh(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  func.return %y : f32
}
// CHECK-LABEL: @tanh
// CHECK:         math.absf %x : f32
// CHECK:         %[[QUOTIENT:.*]] = arith.divf %{{.*}} : f32
// CHECK-NEXT:    %y = math.copysign %[[QUOTIENT]], %x : f32

// What is made of others, and the roots and angles, in both types.
func.func @made_of_others(%x: f64) -> (f64, f64, f64, f64, f64, f64, f64, f64) {
  %a = math.sinh %x : f64
  %b = math.cosh %x : f64
  %c = math.asinh %x : f64
  %d = math.acosh %x : f64
  %e = math.atanh %x : f64
  %f = math.asin %x : f64
  %g = math.acos %x : f64
  %h = math.cbrt %x : f64
  func.return %a, %b, %c, %d, %e, %f, %g, %h : f64, f64, f64, f64, f64, f64, f64, f64
}
// CHECK-LABEL: @made_of_others
// CHECK-NOT:     math.{{sinh|cosh|asin|acos|atan|cbrt}}
// CHECK-NOT:     func.call
// CHECK:         func.return %a, %b, %c, %d, %e, %f, %g, %h

// Cosines and tangents are reduced as sines are.
func.func @other_angles(%x: f32) -> (f32, f32) {
  %y = math.cos %x : f32
  %z = math.tan %x : f32
  func.return %y, %z : f32, f32
}
// CHECK-LABEL: @other_angles
// CHECK:         %y = scf.if
// CHECK:             func.call @cosf(%x)
// CHECK:         %z = scf.if
// CHECK:             func.call @tanf(%x)

// The angle of a point, from the quotient of the smaller coordinate by the larger one.
func.func @angle_of_a_point(%y: f32, %x: f32) -> f32 {
  %a = math.atan2 %y, %x : f32
  func.return %a : f32
}
// CHECK-LABEL: @angle_of_a_point
// CHECK-NOT:     math.atan2
// CHECK:         arith.divf
// CHECK:         func.return %a

// Large angles take more digits of pi, where there are any; beyond 2^30 the C library computes the sine.
func.func @large_angles(%x: f32) -> f32 {
  %y = math.sin %x : f32
  func.return %y : f32
}
// CHECK-LABEL: @large_angles
// CHECK-NOT:     math.sin
// CHECK-DAG:     %[[BEYOND_F64:.*]] = arith.constant 1.07374182e+09 : f32
// CHECK-DAG:     %[[BEYOND_F32:.*]] = arith.constant 6.553600e+04 : f32
// CHECK:         %[[SIZE:.*]] = math.absf %x : f32
// CHECK-NEXT:    %[[LARGE:.*]] = arith.cmpf oge, %[[SIZE]], %[[BEYOND_F32]] : f32
// CHECK:         %y = scf.if %[[LARGE]] -> (f32) {
// CHECK:           arith.extf %x : f32 to f64
// CHECK:           scf.if {{.*}} -> (f32) {
// CHECK-NEXT:        func.call @sinf(%x)

// f16 is extended and rounded once.
func.func @f16(%x: f16) -> f16 {
  %y = math.sqrt %x : f16
  func.return %y : f16
}
// CHECK-LABEL: @f16
// CHECK-NEXT:    %[[X:.*]] = arith.extf %x : f16 to f32
// CHECK-NEXT:    %[[ROOT:.*]] = math.sqrt %[[X]] : f32
// CHECK-NEXT:    %y = arith.truncf %[[ROOT]] : f32 to f16

// A power that is a small whole number takes a few products.
func.func @small_constant_powers_are_products(%x: f32, %d: f64) -> (f32, f32, f64) {
  %three = arith.constant 3.0 : f32
  %minus_two = arith.constant -2.0 : f32
  %two = arith.constant 2 : i32
  %a = math.powf %x, %three : f32
  %b = math.powf %x, %minus_two : f32
  %c = math.fpowi %d, %two : f64, i32
  func.return %a, %b, %c : f32, f32, f64
}
// CHECK-LABEL: @small_constant_powers_are_products
// CHECK:         %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         %[[SQUARE:.*]] = arith.mulf %x, %x : f32
// CHECK-NEXT:    %a = arith.mulf %[[SQUARE]], %x : f32
// CHECK-NEXT:    %[[SQUARE:.*]] = arith.mulf %x, %x : f32
// CHECK-NEXT:    %b = arith.divf %[[ONE]], %[[SQUARE]] : f32
// CHECK-NEXT:    %c = arith.mulf %d, %d : f64

// So it is in each lane.
func.func @small_constant_powers_of_lanes(%x: vector<8xf32>) -> vector<8xf32> {
  %three = arith.constant 3.0 : f32
  %threes = vector.broadcast %three : f32 to vector<8xf32>
  %a = math.powf %x, %threes : vector<8xf32>
  func.return %a : vector<8xf32>
}
// CHECK-LABEL: @small_constant_powers_of_lanes
// CHECK:         %[[SQUARE:.*]] = arith.mulf %x, %x : vector<8xf32>
// CHECK-NEXT:    %a = arith.mulf %[[SQUARE]], %x : vector<8xf32>

// In f64 as well: exp(x) = 2^n exp(r), with log 2 in two parts, since n times the first one is exact in the sum.
func.func @exp_f64(%x: vector<4xf64>) -> vector<4xf64> {
  %y = math.exp %x : vector<4xf64>
  func.return %y : vector<4xf64>
}
// SEPARATE-LABEL: @exp_f64
// SEPARATE-NEXT:    %y = math.exp %x : vector<4xf64>
// CHECK-LABEL: @exp_f64
// CHECK-NOT:     math.exp
// CHECK:         %[[SHIFTED:.*]] = math.fma %{{.*}}, %{{.*}}, %[[MAGIC:.*]] : vector<4xf64>
// CHECK-NEXT:    %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : vector<4xf64>
// CHECK-NEXT:    %[[REST:.*]] = math.fma %[[N]], %{{.*}}, %{{.*}} : vector<4xf64>
// CHECK-NEXT:    math.fma %[[N]], %{{.*}}, %[[REST]] : vector<4xf64>
// CHECK:         %y = arith.mulf %{{.*}} : vector<4xf64>

// The exact remainder by one multiply-add; long division where a quotient does not fit into a significand.
func.func @remainder(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %r = arith.remf %x, %y : vector<8xf32>
  func.return %r : vector<8xf32>
}
// CHECK-LABEL: @remainder
// CHECK-NOT:     arith.remf
// CHECK:         %[[QUOTIENT:.*]] = arith.divf
// CHECK:         %[[WHOLE:.*]] = math.trunc %[[QUOTIENT]]
// CHECK-NEXT:    %[[NEGATED:.*]] = arith.negf %[[WHOLE]]
// CHECK-NEXT:    math.fma %[[NEGATED]]
// CHECK:         %[[LARGE:.*]] = arith.cmpf uge, %[[QUOTIENT]]
// CHECK:         %[[ANY:.*]] = vector.reduction <or>, %[[LARGE]]
// CHECK-NEXT:    scf.if %[[ANY]]
// CHECK:           scf.for
// CHECK:         %r = math.copysign %{{.*}}, %x

// One formula for the types: a quotient of at most 1 and a polynomial in its square.
func.func @angles(%x: f32, %d: f64) -> (f32, f64) {
  %a = math.atan %x : f32
  %b = math.atan %d : f64
  func.return %a, %b : f32, f64
}
// CHECK-LABEL: @angles
// CHECK-NOT:     math.atan
// CHECK:         %[[U:.*]] = arith.divf %{{.*}} : f32
// CHECK:         arith.mulf %[[U]], %[[U]] : f32
// CHECK:         %[[U:.*]] = arith.divf %{{.*}} : f64
// CHECK:         arith.mulf %[[U]], %[[U]] : f64
// CHECK:         func.return %a, %b

// Lanes whose result may not be a normal number are the C library's, where there are any.
func.func @power_f64(%x: vector<4xf64>, %y: vector<4xf64>) -> vector<4xf64> {
  %z = math.powf %x, %y : vector<4xf64>
  func.return %z : vector<4xf64>
}
// CHECK-LABEL: @power_f64
// CHECK-NOT:     math.powf
// CHECK:         %z = scf.if {{.*}} -> (vector<4xf64>) {
// CHECK:           scf.for
// CHECK:             %[[X:.*]] = vector.extract %x[
// CHECK-NEXT:        %[[Y:.*]] = vector.extract %y[
// CHECK-NEXT:        func.call @pow(%[[X]], %[[Y]]) : (f64, f64) -> f64

// Vectors of integers are multiplied by one over a constant that divides them, and corrected, by 255 twice: one over it is not as near.
func.func @bytes(%x: vector<16xi8>, %y: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
  %c = arith.constant dense<255.0> : vector<16xf32>
  %four = arith.constant dense<4.0> : vector<16xf32>
  %five = arith.constant dense<5.0> : vector<16xf32>
  %f = arith.uitofp %x : vector<16xi8> to vector<16xf32>
  %a = arith.divf %f, %c : vector<16xf32>
  %b = arith.divf %f, %four : vector<16xf32>
  %d = arith.divf %y, %c : vector<16xf32>
  %e = arith.divf %f, %five : vector<16xf32>
  func.return %a, %b, %d, %e : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
}
// CHECK-LABEL: @bytes
// CHECK:         arith.mulf %f
// CHECK-COUNT-4: math.fma
// CHECK-NEXT:    %b = arith.divf %f
// CHECK-NEXT:    %d = arith.divf %y
// CHECK-NEXT:    %[[Q:.*]] = arith.mulf %f
// CHECK-NEXT:    %[[R:.*]] = math.fma %[[Q]], %{{.*}}, %f
// CHECK-NEXT:    %e = math.fma %[[R]], %{{.*}}, %[[Q]]

// What hardware has is left to it.
func.func @what_stays(%x: f64, %y: f32) -> (f64, f32) {
  %a = math.sqrt %x : f64
  %b = math.rsqrt %y : f32
  func.return %a, %b : f64, f32
}
// CHECK-LABEL: @what_stays
// CHECK-NEXT:    %a = math.sqrt %x : f64
// CHECK-NEXT:    %b = math.rsqrt %y : f32

// CHECK: func.func private @sinf(f32) -> f32
// CHECK: func.func private @pow(f64, f64) -> f64
