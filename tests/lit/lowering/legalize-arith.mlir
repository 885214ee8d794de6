// RUN: tenon-opt %s --split-input-file -p legalize-arith | filecheck %s

// x / 0 is 0, and the least integer divided by -1 is itself: both are divided by 1 instead.
func.func @quotient(%x: i32, %y: i32) -> i32 {
  %q = arith.divsi %x, %y : i32
  func.return %q : i32
}
// CHECK-LABEL: @quotient
// CHECK:         %[[BY_ZERO:.*]] = arith.cmpi eq, %y, %{{.*}} : i32
// CHECK:         %[[UNSAFE:.*]] = arith.ori %[[BY_ZERO]], %{{.*}} : i1
// CHECK-NEXT:    %[[SAFE:.*]] = arith.select %[[UNSAFE]], %{{.*}}, %y : i32
// CHECK-NEXT:    %[[QUOTIENT:.*]] = arith.divsi %x, %[[SAFE]] : i32
// CHECK-NEXT:    %q = arith.select %[[BY_ZERO]], %{{.*}}, %[[QUOTIENT]] : i32

// -----

// A constant that is neither 0 nor -1 divides as it is.
func.func @quotient_by_constants(%x: vector<2xi32>) -> vector<2xi32> {
  %by = arith.constant dense<[7, -3]> : vector<2xi32>
  %q = arith.divsi %x, %by : vector<2xi32>
  func.return %q : vector<2xi32>
}
// CHECK-LABEL: @quotient_by_constants
// CHECK:         %by = arith.constant
// CHECK-NEXT:    %q = arith.divsi %x, %by : vector<2xi32>

// -----

// What is left of dividing by 1 is 0.
func.func @remainder(%x: i32, %y: i32) -> i32 {
  %r = arith.remui %x, %y : i32
  func.return %r : i32
}
// CHECK-LABEL: @remainder
// CHECK:         %[[BY_ZERO:.*]] = arith.cmpi eq, %y, %{{.*}} : i32
// CHECK-NEXT:    %[[SAFE:.*]] = arith.select %[[BY_ZERO]], %{{.*}}, %y : i32
// CHECK-NEXT:    %r = arith.remui %x, %[[SAFE]] : i32

// -----

// Vectors are divided in floats that hold the operands: f64 has 53 bits.
func.func @remainder_of_vectors(%x: vector<4xi32>, %y: vector<4xi32>) -> vector<4xi32> {
  %r = arith.remui %x, %y : vector<4xi32>
  func.return %r : vector<4xi32>
}
// CHECK-LABEL: @remainder_of_vectors
// CHECK:         %[[SAFE:.*]] = arith.select
// CHECK-NEXT:    %[[X:.*]] = arith.uitofp %x : vector<4xi32> to vector<4xf64>
// CHECK-NEXT:    %[[Y:.*]] = arith.uitofp %[[SAFE]] : vector<4xi32> to vector<4xf64>
// CHECK-NEXT:    %[[RATIO:.*]] = arith.divf %[[X]], %[[Y]] : vector<4xf64>
// CHECK-NEXT:    %[[WHOLE:.*]] = math.trunc %[[RATIO]] : vector<4xf64>
// CHECK-NEXT:    %[[PRODUCT:.*]] = arith.mulf %[[WHOLE]], %[[Y]] : vector<4xf64>
// CHECK-NEXT:    %[[LEFT:.*]] = arith.subf %[[X]], %[[PRODUCT]] : vector<4xf64>
// CHECK-NEXT:    %r = arith.fptoui %[[LEFT]] : vector<4xf64> to vector<4xi32>

// -----

// Integers of 64 bits are, where all are small: of magnitudes below 2^51.
func.func @quotient_of_long_vectors(%x: vector<4xi64>, %y: vector<4xi64>) -> vector<4xi64> {
  %q = arith.divui %x, %y : vector<4xi64>
  func.return %q : vector<4xi64>
}
// CHECK-LABEL: @quotient_of_long_vectors
// CHECK:         %[[LIMIT:.*]] = arith.constant dense<2251799813685248> : vector<4xi64>
// CHECK:         %[[EITHER:.*]] = arith.ori %x, %[[SAFE:.*]] : vector<4xi64>
// CHECK-NEXT:    %[[LARGE:.*]] = arith.cmpi uge, %[[EITHER]], %[[LIMIT]] : vector<4xi64>
// CHECK:         arith.divf {{.*}} : vector<4xf64>
// CHECK:         %[[IS_ANY:.*]] = vector.reduction <or>, %[[LARGE]]
// CHECK-NEXT:    scf.if %[[IS_ANY]] -> (vector<4xi64>) {
// CHECK-NEXT:      arith.divui %x, %[[SAFE]] : vector<4xi64>

// -----

// The quotient less 1 where there is a remainder and the signs differ.
func.func @floor(%x: i32, %y: i32) -> i32 {
  %q = arith.floordivsi %x, %y : i32
  func.return %q : i32
}
// CHECK-LABEL: @floor
// CHECK:         %[[SIGNS:.*]] = arith.xori %x, %{{.*}} : i32
// CHECK-NEXT:    %[[DIFFER:.*]] = arith.cmpi slt, %[[SIGNS]], %{{.*}} : i32
// CHECK-NEXT:    %[[ADJUSTED:.*]] = arith.andi %{{.*}}, %[[DIFFER]] : i1
// CHECK:         %q = arith.addi

// -----

// All bits are shifted out by the width or more.
func.func @shift_left(%x: i8, %n: i8) -> i8 {
  %y = arith.shli %x, %n : i8
  func.return %y : i8
}
// CHECK-LABEL: @shift_left
// CHECK:         %[[IN_RANGE:.*]] = arith.cmpi ult, %n, %{{.*}} : i8
// CHECK-NEXT:    %[[PLACES:.*]] = arith.select %[[IN_RANGE]], %n, %{{.*}} : i8
// CHECK-NEXT:    %[[SHIFTED:.*]] = arith.shli %x, %[[PLACES]] : i8
// CHECK-NEXT:    %y = arith.select %[[IN_RANGE]], %[[SHIFTED]], %{{.*}} : i8

// -----

// All but the sign.
func.func @shift_right(%x: i8, %n: i8) -> i8 {
  %y = arith.shrsi %x, %n : i8
  func.return %y : i8
}
// CHECK-LABEL: @shift_right
// CHECK:         %[[PLACES:.*]] = arith.select %{{.*}}, %n, %{{.*}} : i8
// CHECK-NEXT:    %y = arith.shrsi %x, %[[PLACES]] : i8

// -----

// A sum that wrapped around is less than what was added.
func.func @carry(%x: i32, %y: i32) -> (i32, i1) {
  %s, %c = arith.addui_extended %x, %y : i32, i1
  func.return %s, %c : i32, i1
}
// CHECK-LABEL: @carry
// CHECK-NEXT:    %s = arith.addi %x, %y : i32
// CHECK-NEXT:    %c = arith.cmpi ult, %s, %x : i32

// -----

// x^5 = x (x^2)^2.
func.func @fifth_power(%x: i32) -> i32 {
  %five = arith.constant 5 : i32
  %y = math.ipowi %x, %five : i32
  func.return %y : i32
}
// CHECK-LABEL: @fifth_power
// CHECK:         %[[SQUARE:.*]] = arith.muli %x, %x : i32
// CHECK-NEXT:    %[[FOURTH:.*]] = arith.muli %[[SQUARE]], %[[SQUARE]] : i32
// CHECK-NEXT:    %y = arith.muli %x, %[[FOURTH]] : i32

// -----

// For an exponent that is not known there is a loop over its bits.
func.func @powers(%x: vector<4xi32>, %n: vector<4xi32>) -> vector<4xi32> {
  %y = math.ipowi %x, %n : vector<4xi32>
  func.return %y : vector<4xi32>
}
// CHECK-LABEL: @powers
// CHECK:         %[[LARGEST:.*]] = vector.reduction <or>, %n : vector<4xi32> into i32
// CHECK-NEXT:    math.ctlz %[[LARGEST]] : i32
// CHECK:         scf.for {{.*}} -> (vector<4xi32>, vector<4xi32>, vector<4xi32>)
// CHECK:         %y = arith.select

// -----

// NaN if one is; the second of equal zeros.
func.func @maximum(%x: vector<4xf32>, %y: vector<4xf32>) -> vector<4xf32> {
  %m = arith.maximumf %x, %y : vector<4xf32>
  func.return %m : vector<4xf32>
}
// CHECK-LABEL: @maximum
// CHECK-NEXT:    %[[GREATER:.*]] = arith.cmpf ogt, %x, %y : vector<4xf32>
// CHECK-NEXT:    %[[CHOSEN:.*]] = arith.select %[[GREATER]], %x, %y : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:    %[[IS_NAN:.*]] = arith.cmpf uno, %x, %x : vector<4xf32>
// CHECK-NEXT:    %m = arith.select %[[IS_NAN]], %x, %[[CHOSEN]] : vector<4xi1>, vector<4xf32>

// -----

// The number if one is NaN.
func.func @minimum_number(%x: f32, %y: f32) -> f32 {
  %m = arith.minnumf %x, %y : f32
  func.return %m : f32
}
// CHECK-LABEL: @minimum_number
// CHECK:         %[[IS_NAN:.*]] = arith.cmpf uno, %y, %y : f32
// CHECK-NEXT:    %m = arith.select %[[IS_NAN]], %x, %{{.*}} : f32

// -----

// Where there is no NaN, none is looked for.
func.func @maximum_of_numbers(%x: f32, %y: f32) -> f32 {
  %m = arith.maximumf %x, %y fastmath<nnan> : f32
  func.return %m : f32
}
// CHECK-LABEL: @maximum_of_numbers
// CHECK-NEXT:    %[[GREATER:.*]] = arith.cmpf ogt, %x, %y fastmath<nnan> : f32
// CHECK-NEXT:    %m = arith.select %[[GREATER]], %x, %y : f32

// -----

// What is beyond the range becomes its end, and NaN 0.
func.func @to_integer(%x: f32) -> i8 {
  %i = arith.fptosi %x : f32 to i8
  func.return %i : i8
}
// CHECK-LABEL: @to_integer
// CHECK:         %[[ABOVE:.*]] = arith.cmpf oge, %x, %{{.*}} : f32
// CHECK:         %[[WHOLE:.*]] = arith.fptosi %{{.*}} : f32 to i8
// CHECK-NEXT:    %[[LIMITED:.*]] = arith.select %[[ABOVE]], %{{.*}}, %[[WHOLE]] : i8
// CHECK-NEXT:    %[[IS_NAN:.*]] = arith.cmpf uno, %x, %x : f32
// CHECK-NEXT:    %i = arith.select %[[IS_NAN]], %{{.*}}, %[[LIMITED]] : i8

// -----

// Floats of 16 bits are computed with in f32.
func.func @sum_of_halves(%x: vector<4xf16>, %y: vector<4xf16>) -> vector<4xf16> {
  %s = arith.addf %x, %y : vector<4xf16>
  func.return %s : vector<4xf16>
}
// CHECK-LABEL: @sum_of_halves
// CHECK:         %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK-NEXT:    %s = arith.truncf %[[SUM]] : vector<4xf32> to vector<4xf16>

// -----

// The sign is a bit.
func.func @negated(%x: bf16) -> bf16 {
  %n = arith.negf %x : bf16
  func.return %n : bf16
}
// CHECK-LABEL: @negated
// CHECK:         %[[BITS:.*]] = arith.bitcast %x : bf16 to i16
// CHECK-NEXT:    arith.xori %[[BITS]], %{{.*}} : i16

// -----

// Rounded to odd by f32, f64 is rounded to nearest once.
func.func @rounded_once(%x: f64) -> f16 {
  %h = arith.truncf %x : f64 to f16
  func.return %h : f16
}
// CHECK-LABEL: @rounded_once
// CHECK:         %[[NEAR:.*]] = arith.truncf %x : f64 to f32
// CHECK:         %[[ODD:.*]] = arith.ori %{{.*}}, %{{.*}} : i32
// CHECK:         %h = arith.truncf %{{.*}} : f32 to f16

// -----

// f32 holds an integer of 8 bits.
func.func @integer_to_half(%x: i8) -> f16 {
  %h = arith.sitofp %x : i8 to f16
  func.return %h : f16
}
// CHECK-LABEL: @integer_to_half
// CHECK-NEXT:    %[[WIDE:.*]] = arith.sitofp %x : i8 to f32
// CHECK-NEXT:    %h = arith.truncf %[[WIDE]] : f32 to f16

// -----

// Of one of 64 bits f64 holds the first ones, and whether there were others.
func.func @long_to_half(%x: i64) -> f16 {
  %h = arith.uitofp %x : i64 to f16
  func.return %h : f16
}
// CHECK-LABEL: @long_to_half
// CHECK:         %[[SMALL:.*]] = arith.cmpi ult, %x, %{{.*}} : i64
// CHECK-NEXT:    %[[FITTING:.*]] = arith.select %[[SMALL]], %x, %{{.*}} : i64
// CHECK-NEXT:    arith.uitofp %[[FITTING]] : i64 to f64

// -----

// Bits are added without a carry, and true is -1 to the signed order.
func.func @bits(%x: i1, %y: i1) -> (i1, i1, i1) {
  %s = arith.addi %x, %y : i1
  %m = arith.maxsi %x, %y : i1
  %l = arith.cmpi slt, %x, %y : i1
  func.return %s, %m, %l : i1, i1, i1
}
// CHECK-LABEL: @bits
// CHECK-NEXT:    %s = arith.xori %x, %y : i1
// CHECK-NEXT:    %m = arith.andi %x, %y : i1
// CHECK-NEXT:    %l = arith.cmpi ugt, %x, %y : i1

// -----

// Unsigned, no other divisor than 0 is unsafe.
func.func @unsigned_quotient(%x: i32, %y: i32) -> i32 {
  %q = arith.divui %x, %y : i32
  func.return %q : i32
}
// CHECK-LABEL: @unsigned_quotient
// CHECK:         %[[BY_ZERO:.*]] = arith.cmpi eq, %y, %{{.*}} : i32
// CHECK-NEXT:    %[[SAFE:.*]] = arith.select %[[BY_ZERO]], %{{.*}}, %y : i32
// CHECK-NEXT:    %[[QUOTIENT:.*]] = arith.divui %x, %[[SAFE]] : i32
// CHECK-NEXT:    %q = arith.select %[[BY_ZERO]], %{{.*}}, %[[QUOTIENT]] : i32

// -----

// Signed, the least integer divided by -1 is unsafe as well.
func.func @signed_remainder(%x: i32, %y: i32) -> i32 {
  %r = arith.remsi %x, %y : i32
  func.return %r : i32
}
// CHECK-LABEL: @signed_remainder
// CHECK:         %[[LEAST:.*]] = arith.cmpi eq, %x, %{{.*}} : i32
// CHECK-NEXT:    %[[BY_MINUS_ONE:.*]] = arith.cmpi eq, %y, %{{.*}} : i32
// CHECK-NEXT:    %[[WRAPS:.*]] = arith.andi %[[LEAST]], %[[BY_MINUS_ONE]] : i1
// CHECK-NEXT:    %[[UNSAFE:.*]] = arith.ori %{{.*}}, %[[WRAPS]] : i1
// CHECK-NEXT:    %[[SAFE:.*]] = arith.select %[[UNSAFE]], %{{.*}}, %y : i32
// CHECK-NEXT:    %r = arith.remsi %x, %[[SAFE]] : i32

// -----

// The quotient and 1 more where there is a remainder and the signs are the same.
func.func @ceiling(%x: i32, %y: i32) -> i32 {
  %q = arith.ceildivsi %x, %y : i32
  func.return %q : i32
}
// CHECK-LABEL: @ceiling
// CHECK:         %[[SIGNS:.*]] = arith.xori %x, %{{.*}} : i32
// CHECK-NEXT:    %[[SAME:.*]] = arith.cmpi sge, %[[SIGNS]], %{{.*}} : i32
// CHECK-NEXT:    arith.andi %{{.*}}, %[[SAME]] : i1
// CHECK:         %q = arith.addi

// -----

// Unsigned, where there is a remainder.
func.func @unsigned_ceiling(%x: i32, %y: i32) -> i32 {
  %q = arith.ceildivui %x, %y : i32
  func.return %q : i32
}
// CHECK-LABEL: @unsigned_ceiling
// CHECK:         %[[QUOTIENT:.*]] = arith.divui %x
// CHECK:         %[[RESTS:.*]] = arith.cmpi ne
// CHECK-NEXT:    %[[MORE:.*]] = arith.select %[[RESTS]]
// CHECK:         %q = arith.addi %{{.*}}, %[[MORE]]

// -----

// All bits are shifted out, the sign as well.
func.func @unsigned_shift_right(%x: i8, %n: i8) -> i8 {
  %y = arith.shrui %x, %n : i8
  func.return %y : i8
}
// CHECK-LABEL: @unsigned_shift_right
// CHECK:         %[[SHIFTED:.*]] = arith.shrui %x, %{{.*}} : i8
// CHECK-NEXT:    %y = arith.select %{{.*}}, %[[SHIFTED]], %{{.*}} : i8

// -----

// NaN if one is.
func.func @minimum(%x: f32, %y: f32) -> f32 {
  %m = arith.minimumf %x, %y : f32
  func.return %m : f32
}
// CHECK-LABEL: @minimum
// CHECK-NEXT:    %[[LESS:.*]] = arith.cmpf olt, %x, %y : f32
// CHECK-NEXT:    %[[LEAST:.*]] = arith.select %[[LESS]], %x, %y : f32
// CHECK-NEXT:    %[[NAN:.*]] = arith.cmpf uno, %x, %x : f32
// CHECK-NEXT:    %m = arith.select %[[NAN]], %x, %[[LEAST]] : f32

// -----

// The number if one is NaN.
func.func @maximum_number(%x: f32, %y: f32) -> f32 {
  %m = arith.maxnumf %x, %y : f32
  func.return %m : f32
}
// CHECK-LABEL: @maximum_number
// CHECK:         %[[MOST:.*]] = arith.select %{{.*}}, %x, %y : f32
// CHECK-NEXT:    %[[NAN:.*]] = arith.cmpf uno, %y, %y : f32
// CHECK-NEXT:    %m = arith.select %[[NAN]], %x, %[[MOST]] : f32

// -----

// What is beyond the range becomes its end, and what is not above 0, NaN too, becomes 0.
func.func @to_unsigned_integer(%x: f32) -> i8 {
  %i = arith.fptoui %x : f32 to i8
  func.return %i : i8
}
// CHECK-LABEL: @to_unsigned_integer
// CHECK-NEXT:    %[[MOST:.*]] = arith.constant -1 : i8
// CHECK:         %[[BEYOND:.*]] = arith.cmpf oge, %x, %{{.*}} : f32
// CHECK-NEXT:    %[[ABOVE:.*]] = arith.cmpf ogt, %x, %[[ZERO:.*]] : f32
// CHECK-NEXT:    %[[POSITIVE:.*]] = arith.select %[[ABOVE]], %x, %[[ZERO]] : f32
// CHECK-NEXT:    %[[INSIDE:.*]] = arith.select %[[BEYOND]], %[[ZERO]], %[[POSITIVE]] : f32
// CHECK-NEXT:    %[[INTEGER:.*]] = arith.fptoui %[[INSIDE]] : f32 to i8
// CHECK-NEXT:    %i = arith.select %[[BEYOND]], %[[MOST]], %[[INTEGER]] : i8

// -----

// All bits but the sign.
func.func @magnitude(%x: bf16) -> bf16 {
  %n = math.absf %x : bf16
  func.return %n : bf16
}
// CHECK-LABEL: @magnitude
// CHECK-NEXT:    %[[MASK:.*]] = arith.constant 32767 : i16
// CHECK-NEXT:    %[[BITS:.*]] = arith.bitcast %x : bf16 to i16
// CHECK-NEXT:    %[[REST:.*]] = arith.andi %[[BITS]], %[[MASK]] : i16
// CHECK-NEXT:    %n = arith.bitcast %[[REST]] : i16 to bf16

// -----

// Floats of 16 bits are converted to f32 and no other type.
func.func @bf16_to_f64(%x: bf16) -> f64 {
  %y = arith.extf %x : bf16 to f64
  func.return %y : f64
}
// CHECK-LABEL: @bf16_to_f64
// CHECK-NEXT:    %[[X:.*]] = arith.extf %x : bf16 to f32
// CHECK-NEXT:    %y = arith.extf %[[X]] : f32 to f64

// -----

// Products and quotients of single bits are both, and what is shifted is left where nothing shifts it.
func.func @products_of_bits(%x: i1, %y: i1) -> (i1, i1, i1) {
  %p = arith.muli %x, %y : i1
  %q = arith.divsi %x, %y : i1
  %s = arith.shli %x, %y : i1
  func.return %p, %q, %s : i1, i1, i1
}
// CHECK-LABEL: @products_of_bits
// CHECK:         %p = arith.andi %x, %y : i1
// CHECK-NEXT:    %q = arith.andi %x, %y : i1
// CHECK-NEXT:    %[[NOT:.*]] = arith.xori %y, %{{.*}} : i1
// CHECK-NEXT:    %s = arith.andi %x, %[[NOT]] : i1

// -----

// A sum of single bits is one or the other, the carry both.
func.func @carry_of_bits(%x: i1, %y: i1) -> (i1, i1) {
  %s, %c = arith.addui_extended %x, %y : i1, i1
  func.return %s, %c : i1, i1
}
// CHECK-LABEL: @carry_of_bits
// CHECK-NEXT:    %s = arith.xori %x, %y : i1
// CHECK-NEXT:    %c = arith.andi %x, %y : i1
