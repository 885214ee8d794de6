// RUN: tenon-opt %s -p approximate-rounded | filecheck %s

// A logistic function that is rounded to bf16: its divisor lies between 1 and 2.
// CHECK-LABEL: @rounded
// CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: math.exp2 %[[SCALED]] fastmath<afn> : f32
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<arcp,afn> : f32
func.func private @rounded(%x: memref<4xf32>, %y: memref<4xbf16>) attributes {kernel} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %value = memref.load %x[%zero] : memref<4xf32>
  %size = math.absf %value : f32
  %negative = arith.negf %size : f32
  %power = math.exp %negative : f32
  %divisor = arith.addf %one, %power : f32
  %quotient = arith.divf %one, %divisor : f32
  %rounded = arith.truncf %quotient : f32 to bf16
  memref.store %rounded, %y[%zero] : memref<4xbf16>
  func.return
}

// Through an array that others add to, as the sum of a row is: of any divisor the quotient is approximated alone.
// CHECK-LABEL: @row
// CHECK: math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
func.func private @row(%x: memref<4xf32>, %y: memref<4xf16>) attributes {kernel} {
  %zero = arith.constant 0 : index
  %none = arith.constant -0.0 : f32
  %sum = memref.alloca() : memref<1xf32, 5>
  memref.store %none, %sum[%zero] : memref<1xf32, 5>
  %value = memref.load %x[%zero] : memref<4xf32>
  %power = math.exp %value : f32
  %before = memref.load %sum[%zero] : memref<1xf32, 5>
  %after = arith.addf %before, %power : f32
  memref.store %after, %sum[%zero] : memref<1xf32, 5>
  %all = memref.load %sum[%zero] : memref<1xf32, 5>
  %quotient = arith.divf %power, %all : f32
  %rounded = arith.truncf %quotient : f32 to f16
  memref.store %rounded, %y[%zero] : memref<4xf16>
  func.return
}

// A difference may have lost all digits that the exponential is right to, and one may be stored as it is.
// CHECK-LABEL: @cancels
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.tanh %{{.*}} : f32
func.func private @cancels(%x: memref<4xf32>, %y: memref<4xbf16>) attributes {kernel} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %value = memref.load %x[%zero] : memref<4xf32>
  %power = math.exp %value : f32
  %difference = arith.subf %power, %one : f32
  %tangent = math.tanh %difference : f32
  memref.store %tangent, %x[%zero] : memref<4xf32>
  %rounded = arith.truncf %tangent : f32 to bf16
  memref.store %rounded, %y[%zero] : memref<4xbf16>
  func.return
}

// What may be approximated already stays so; the smaller of a number and 15 is no large divisor.
// CHECK-LABEL: @allowed
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<arcp,afn> : f32
func.func private @allowed(%x: memref<4xf32>, %y: memref<4xbf16>) attributes {kernel} {
  %zero = arith.constant 0 : index
  %most = arith.constant 15.0 : f32
  %same = arith.constant 15.0 : f32
  %pole = arith.constant 3.25 : f32
  %value = memref.load %x[%zero] : memref<4xf32>
  %size = math.absf %value : f32
  %is_large = arith.cmpf ogt, %size, %most : f32
  %limited = arith.select %is_large, %same, %size : f32
  %divisor = arith.addf %limited, %pole : f32
  %quotient = arith.divf %limited, %divisor fastmath<afn> : f32
  %difference = arith.subf %quotient, %pole : f32
  %rounded = arith.truncf %difference : f32 to bf16
  memref.store %rounded, %y[%zero] : memref<4xbf16>
  func.return
}
