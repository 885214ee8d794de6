// RUN: tenon-opt %s -p approximate-rounded | filecheck %s

// A logistic function that is rounded to bf16: its divisor lies between 1 and 2.
// CHECK: math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<arcp,afn> : f32
func.func private @rounded(%x: f32, %y: memref<bf16>) attributes {kernel} {
  %one = arith.constant 1.0 : f32
  %size = math.absf %x : f32
  %negative = arith.negf %size : f32
  %power = math.exp %negative : f32
  %divisor = arith.addf %one, %power : f32
  %quotient = arith.divf %one, %divisor : f32
  %rounded = arith.truncf %quotient : f32 to bf16
  memref.store %rounded, %y[] : memref<bf16>
  func.return
}

// Through an array of the thread, as the sum of a row is; of any divisor the quotient is approximated alone.
// CHECK: math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
func.func private @row(%x: f32, %y: memref<f16>) attributes {kernel} {
  %sum = memref.alloca() : memref<f32, 5>
  %power = math.exp %x : f32
  memref.store %power, %sum[] : memref<f32, 5>
  %before = memref.load %sum[] : memref<f32, 5>
  %all = arith.addf %before, %power : f32
  %quotient = arith.divf %power, %all : f32
  %rounded = arith.truncf %quotient : f32 to f16
  memref.store %rounded, %y[] : memref<f16>
  func.return
}

// A difference may have lost all digits that the exponential is right to, and one may be stored as it is.
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.tanh %{{.*}} : f32
func.func private @cancels(%x: f32, %y: memref<bf16>, %z: memref<f32>) attributes {kernel} {
  %power = math.exp %x : f32
  %difference = arith.subf %power, %x : f32
  %tangent = math.tanh %difference : f32
  memref.store %tangent, %z[] : memref<f32>
  %rounded = arith.truncf %tangent : f32 to bf16
  memref.store %rounded, %y[] : memref<bf16>
  func.return
}

// What may be approximated already stays so; the smaller of a number and 15 is no large divisor.
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<arcp,afn> : f32
func.func private @allowed(%x: f32, %y: memref<bf16>) attributes {kernel} {
  %most = arith.constant 15.0 : f32
  %same = arith.constant 15.0 : f32
  %size = math.absf %x : f32
  %is_large = arith.cmpf ogt, %size, %most : f32
  %limited = arith.select %is_large, %same, %size : f32
  %divisor = arith.addf %limited, %most : f32
  %quotient = arith.divf %limited, %divisor fastmath<afn> : f32
  %rounded = arith.truncf %quotient : f32 to bf16
  memref.store %rounded, %y[] : memref<bf16>
  func.return
}

// A bf16 may be negative, so that a sum with it cancels; one that rounds an exponential is not.
// CHECK-LABEL: @extended
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.exp2 %{{.*}} fastmath<afn> : f32
func.func private @extended(%x: bf16, %y: f32, %z: memref<bf16>) attributes {kernel} {
  %wide = arith.extf %x : bf16 to f32
  %power = math.exp %y : f32
  %sum = arith.addf %wide, %power : f32
  %rounded = arith.truncf %sum : f32 to bf16
  memref.store %rounded, %z[] : memref<bf16>
  %size = math.absf %y : f32
  %narrow = arith.truncf %size : f32 to bf16
  %positive = arith.extf %narrow : bf16 to f32
  %other = math.exp %wide : f32
  %total = arith.addf %positive, %other : f32
  %half = arith.truncf %total : f32 to bf16
  memref.store %half, %z[] : memref<bf16>
  func.return
}

// Where the smaller one may be NaN, the other one is chosen, however large it is.
// CHECK-LABEL: @unlimited
// CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<afn> : f32
func.func private @unlimited(%x: f32, %y: f32, %z: memref<bf16>) attributes {kernel} {
  %one = arith.constant 1.0 : f32
  %size = math.absf %y : f32
  %negative = arith.negf %size : f32
  %power = math.exp %negative : f32
  %most = arith.addf %one, %power : f32
  %other = math.absf %x : f32
  %positive = arith.addf %one, %other : f32
  %is_large = arith.cmpf ogt, %positive, %most : f32
  %limited = arith.select %is_large, %most, %positive : f32
  %quotient = arith.divf %one, %limited : f32
  %rounded = arith.truncf %quotient : f32 to bf16
  memref.store %rounded, %z[] : memref<bf16>
  func.return
}

// Products of a row have the errors of all factors, in an array as well as carried by a loop.
// CHECK-LABEL: @product
// CHECK: math.exp %{{.*}} : f32
// CHECK: math.exp %{{.*}} : f32
func.func private @product(%x: memref<64xf32>, %z: memref<f16>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %one = arith.constant 1.0 : f32
  %array = memref.alloca() : memref<f32, 5>
  memref.store %one, %array[] : memref<f32, 5>
  %carried = scf.for %i = %c0 to %c64 step %c1 iter_args(%before = %one) -> (f32) {
    %element = memref.load %x[%i] : memref<64xf32>
    %power = math.exp %element : f32
    %kept = memref.load %array[] : memref<f32, 5>
    %more = arith.mulf %kept, %power : f32
    memref.store %more, %array[] : memref<f32, 5>
    %half = arith.constant 0.5 : f32
    %next = arith.mulf %element, %half : f32
    %other = math.exp %next : f32
    %all = arith.mulf %before, %other : f32
    scf.yield %all : f32
  }
  %total = memref.load %array[] : memref<f32, 5>
  %both = arith.mulf %total, %carried : f32
  %rounded = arith.truncf %both : f32 to f16
  memref.store %rounded, %z[] : memref<f16>
  func.return
}

// A loop that carries a number twice: what becomes of either counts.
// CHECK-LABEL: @twice
// CHECK: math.exp %{{.*}} : f32
func.func private @twice(%x: f32, %y: memref<f32>, %z: memref<f16>, %n: index) attributes {kernel} {
  %power = math.exp %x : f32
  %first, %second = scf.for %i = %n to %n step %n iter_args(%a = %power, %b = %power) -> (f32, f32) {
    scf.yield %a, %b : f32, f32
  }
  memref.store %second, %y[] : memref<f32>
  %rounded = arith.truncf %first : f32 to f16
  memref.store %rounded, %z[] : memref<f16>
  func.return
}
