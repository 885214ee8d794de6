// RUN: tenon-opt %s -p canonicalize,cse --split-input-file | filecheck %s
// RUN: tenon-opt %s -p canonicalize,cse --split-input-file --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix AFTER
// RUN: tenon-opt %s -p canonicalize,cse --split-input-file --verify-each --timing -o %t 2>&1 | filecheck %s --check-prefix TIMING
// RUN: not tenon-opt %s -p fues 2>&1 | filecheck %s --check-prefix NAME
// RUN: not tenon-opt %s -p decompose{onyl=softmax} 2>&1 | filecheck %s --check-prefix OPTION

func.func @first(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = tenon.constant {value = dense<1.0> : tensor<f32>} : tensor<f32>
  %a = tenon.multiply %x, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = tenon.exp %a : tensor<4xf32> -> tensor<4xf32>
  %c = tenon.exp %x : tensor<4xf32> -> tensor<4xf32>
  func.return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two parts are two modules, so that names may be the same.
func.func @first() {
  func.return
}
// CHECK:       func.func @first(%x: tensor<4xf32>)
// CHECK-NEXT:    %b = tenon.exp %x
// CHECK-NEXT:    func.return %b, %b
// CHECK:       {{//}} -----
// CHECK:       func.func @first() {

// AFTER:       {{-----//}} IR after canonicalize //----- //
// AFTER:         %b = tenon.exp %x
// AFTER-NEXT:    %c = tenon.exp %x
// AFTER:       {{-----//}} IR after cse //----- //
// AFTER:         %b = tenon.exp %x
// AFTER-NEXT:    func.return %b, %b

// TIMING:      seconds   share  step
// TIMING-NEXT: {{[0-9.]+ +[0-9.]+%}}  parse
// TIMING-NEXT: verify
// TIMING-NEXT: canonicalize
// TIMING-NEXT: verify
// TIMING-NEXT: cse
// TIMING-NEXT: verify
// TIMING-NEXT: print
// TIMING:      100.0%  total

// NAME:   tenon-opt: error: there is no pass 'fues', did you mean 'fuse'
// OPTION: tenon-opt: error: pass 'decompose': Provided arguments ["onyl"] not found in expected arguments ["only", "serial_rows", "packs"]
