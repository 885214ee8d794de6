"""Use before definition: what `check_dominance` accepts and how it reports the rest."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, scf, test
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tenon.passes.dominance import check_dominance


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (arith.Arith, builtin.Builtin, cf.Cf, func.Func, scf.Scf, test.Test):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()  # what is wrong below is for check_dominance to see, and nothing else
    return module


ACCEPTED = {
    "straight_line": """
      func.func @f(%x: i32) -> i32 {
        %y = arith.addi %x, %x : i32
        func.return %y : i32
      }
    """,
    "enclosing_region": """
      func.func @f(%x: i32, %p: i1) -> i32 {
        %y = arith.addi %x, %x : i32
        %z = scf.if %p -> (i32) {
          %t = arith.addi %x, %y : i32
          scf.yield %t : i32
        } else {
          scf.yield %y : i32
        }
        func.return %z : i32
      }
    """,
    "loop_of_blocks": """
      func.func @f(%x: i32, %p: i1) -> i32 {
        cf.br ^head(%x : i32)
      ^head(%i: i32):
        %next = arith.addi %i, %x : i32
        cf.cond_br %p, ^head(%next : i32), ^exit
      ^exit:
        %y = arith.addi %i, %next : i32
        func.return %y : i32
      }
    """,
    "diamond_written_out_of_order": """
      func.func @f(%x: i32, %p: i1) -> i32 {
        %y = arith.addi %x, %x : i32
        cf.cond_br %p, ^left, ^right
      ^join:
        %z = arith.addi %x, %y : i32
        func.return %z : i32
      ^left:
        cf.br ^join
      ^right:
        cf.br ^join
      }
    """,
    "unreachable_predecessor": """
      func.func @f(%x: i32) -> i32 {
        %y = arith.addi %x, %x : i32
        cf.br ^exit
      ^unreachable:
        cf.br ^exit
      ^exit:
        func.return %y : i32
      }
    """,
    "use_in_unreachable_block": """
      func.func @f(%x: i32) -> i32 {
        func.return %x : i32
      ^unreachable:
        %y = arith.addi %z, %x : i32
        %z = arith.addi %x, %x : i32
        func.return %y : i32
      }
    """,
    "graph_region_of_module": """
      "test.op"(%x) : (i32) -> ()
      %x = "test.op"() : () -> i32
    """,
}

REFUSED = {
    "later_in_the_block": (
        """
          func.func @f(%x: i32) -> i32 {
            %y = arith.addi %z, %x : i32
            %z = arith.muli %x, %x : i32
            func.return %y : i32
          }
        """,
        "arith.addi: operand 0 (%z) is used before its definition by arith.muli",
    ),
    "later_than_the_enclosing_op": (
        """
          func.func @f(%x: i32, %p: i1) {
            scf.if %p {
              %y = arith.addi %x, %z : i32
            }
            %z = arith.muli %x, %x : i32
            func.return
          }
        """,
        "arith.addi: operand 1 (%z) is used before its definition by arith.muli",
    ),
    "defined_by_the_enclosing_op": (
        """
          func.func @f() {
            %z = "test.op"() ({
              "test.termop"(%z) : (i32) -> ()
            }) : () -> i32
            func.return
          }
        """,
        "test.termop: operand 0 (%z) is defined by test.op, which encloses this use",
    ),
    "defined_by_itself": (
        """
          func.func @f(%x: i32) {
            %z = arith.addi %z, %x : i32
            func.return
          }
        """,
        "arith.addi: operand 0 (%z) is defined by itself",
    ),
    "block_that_does_not_dominate": (
        """
          func.func @f(%x: i32, %p: i1) -> i32 {
            cf.cond_br %p, ^left, ^join
          ^left:
            %z = arith.muli %x, %x : i32
            cf.br ^join
          ^join:
            func.return %z : i32
          }
        """,
        "func.return: operand 0 (%z) is defined by arith.muli in a block that does not dominate this one",
    ),
    "either_side_of_a_diamond": (
        """
          func.func @f(%x: i32, %p: i1) -> i32 {
            cf.cond_br %p, ^left, ^right
          ^left:
            %y = arith.muli %x, %x : i32
            cf.br ^join
          ^right:
            %z = arith.subi %x, %x : i32
            cf.br ^join
          ^join:
            %w = arith.addi %y, %z : i32
            func.return %w : i32
          }
        """,
        "arith.addi: operand 0 (%y) is defined by arith.muli in a block that does not dominate this one (and 1 more)",
    ),
    "block_argument_that_does_not_dominate": (
        """
          func.func @f(%x: i32, %p: i1) -> i32 {
            cf.cond_br %p, ^left(%x : i32), ^join
          ^left(%z: i32):
            cf.br ^join
          ^join:
            func.return %z : i32
          }
        """,
        "func.return: operand 0 (%z) is defined by a block argument in a block that does not dominate this one",
    ),
    "location": (
        """
          func.func @f(%x: i32) {
            %y = arith.addi %z, %x : i32 loc("model.py":3:7)
            %z = arith.muli %x, %x : i32
            func.return
          }
        """,
        "model.py:3:7: arith.addi: operand 0 (%z) is used before its definition by arith.muli",
    ),
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_accepts(text: str) -> None:
    check_dominance(parse(text))


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(VerifyException) as error:
        check_dominance(parse(text))
    assert str(error.value) == message


def test_value_of_another_region() -> None:
    module = parse("func.func @f() { func.return }\nfunc.func @g() { func.return }")
    constant = arith.ConstantOp.from_int_and_width(1, i32)
    for function, inserted in zip(module.ops, (constant, arith.AddiOp(constant, constant)), strict=True):
        body = function.regions[0].block
        assert body.first_op is not None
        body.insert_ops_before([inserted], body.first_op)
    with pytest.raises(VerifyException) as error:
        check_dominance(module)
    assert str(error.value) == (
        "arith.addi: operand 0 is defined by arith.constant inside func.func, where it cannot be seen from (and 1 more)"
    )


def test_value_of_another_module() -> None:
    constant = arith.ConstantOp.from_int_and_width(1, i32)
    module = ModuleOp([ModuleOp([constant]), ModuleOp([arith.AddiOp(constant, constant)])])
    with pytest.raises(VerifyException, match=r"arith\.constant inside builtin\.module, where it cannot be seen from"):
        check_dominance(module)


def test_value_outside_of_the_module() -> None:
    constant = arith.ConstantOp.from_int_and_width(1, i32)
    module = ModuleOp(Region(Block([arith.AddiOp(constant, constant)])))
    with pytest.raises(
        VerifyException, match=r"operand 0 is defined by arith\.constant, which is not part of the module"
    ):
        check_dominance(module)


def test_every_violation_is_shown_in_the_ir() -> None:
    text = """
      func.func @f(%x: i32) {
        %y = arith.addi %z, %x : i32
        %w = arith.subi %x, %z : i32
        %z = arith.muli %x, %x : i32
        func.return
      }
    """
    with pytest.raises(VerifyException) as error:
        check_dominance(parse(text))
    assert str(error.value).endswith("(and 1 more)")
    (note,) = error.value.__notes__
    lines = [line.strip() for line in note.splitlines()]
    at = {
        name: next(index for index, line in enumerate(lines) if f'"arith.{name}"' in line) for name in ("addi", "subi")
    }
    assert "operand 0 (%z) is used before its definition by arith.muli" in "\n".join(lines[at["addi"] : at["subi"]])
    assert "operand 1 (%z) is used before its definition by arith.muli" in "\n".join(lines[at["subi"] :])


def test_values_of_one_branch_stay_hidden_in_the_next() -> None:
    branch = "scf.if %p { %t = arith.addi %x, %x : i32 }\n"
    module = parse(f"func.func @f(%x: i32, %p: i1) {{ {branch * 50} func.return }}")
    branches = [op for op in module.walk() if isinstance(op, scf.IfOp)]
    hidden = branches[0].true_region.block.first_op
    assert hidden is not None
    last = branches[-1].true_region.block.first_op
    assert last is not None
    check_dominance(module)
    last.operands[0] = hidden.results[0]
    with pytest.raises(VerifyException, match=r"inside scf\.if, where it cannot be seen from"):
        check_dominance(module)
