// RUN: tenon-opt %s --split-input-file --verify-diagnostics | filecheck %s

// `tenon-opt` refuses a use before the definition, which xDSL's own verification lets pass.
func.func @use_before_definition(%x: i32) -> i32 {
  %y = arith.addi %z, %x : i32
  %z = arith.muli %x, %x : i32
  func.return %y : i32
}
// CHECK:      arith.addi: operand 0 (%z) is used before its definition by arith.muli
// CHECK:      "arith.addi"(%z, %x)
// CHECK-NEXT: ^^^

// -----

func.func @definition_in_one_branch(%x: i32, %p: i1) -> i32 {
  cf.cond_br %p, ^left, ^join
^left:
  %z = arith.muli %x, %x : i32
  cf.br ^join
^join:
  func.return %z : i32
}
// CHECK: func.return: operand 0 (%z) is defined by arith.muli in a block that does not dominate this one
