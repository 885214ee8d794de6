"""What is said when a pass leaves invalid IR, and that no change of an op that was valid before is missed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, SymbolRefAttr, f32, f64
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

import tenon
from tenon.dialects.types.types import tensor_type
from tenon.lowering import pipeline
from tenon.passes.verification import Verification
from tenon.runtime.knobs import knobs
from tenon.runtime.lower import new_context

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = tenon.constant {value = dense<2.0> : tensor<4xf32>} : tensor<4xf32>
  %y = tenon.add %x, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %z = tenon.sum %y {axis = [0], keepdims = true} : tensor<4xf32> -> tensor<1xf32>
  %w = tenon.add %y, %z : tensor<4xf32>, tensor<1xf32> -> tensor<4xf32>
  func.return %w : tensor<4xf32>
}
"""


def ops_of(module: ModuleOp) -> list[Operation]:
    """The constant, the first sum, the reduction, the second sum and the return."""
    (function,) = module.ops
    return list(function.regions[0].block.ops)


def use_before_definition(module: ModuleOp) -> None:
    constant, add, *_ = ops_of(module)
    constant.detach()
    add.parent_block().insert_op_after(constant, add)  # pyright: ignore[reportOptionalMemberAccess]


def other_operand(module: ModuleOp) -> None:
    """An operand of the same type takes the place of the one before."""
    _, add, _, last, _ = ops_of(module)
    add.operands[1] = last.results[0]


def other_type(module: ModuleOp) -> None:
    _, add, *_ = ops_of(module)
    Rewriter.replace_value_with_new_type(add.results[0], tensor_type((4,), f64))


def other_setting(module: ModuleOp) -> None:
    reduction = ops_of(module)[2]
    reduction.properties["keepdims"] = IntegerAttr.from_bool(False)


def erased_operand(module: ModuleOp) -> None:
    constant, *_ = ops_of(module)
    constant.detach()


def other_result(module: ModuleOp) -> None:
    """The op that is no longer valid is not the one that changed."""
    (function,) = module.ops
    function.properties["function_type"] = FunctionType.from_lists([tensor_type((4,), f32)], [tensor_type((4,), f64)])


def no_terminator(module: ModuleOp) -> None:
    ops_of(module)[-1].detach()


def op_after_terminator(module: ModuleOp) -> None:
    """The op that is no longer valid has not changed, but is no longer the last one."""
    terminator = ops_of(module)[-1]
    terminator.parent_block().add_op(terminator.clone())  # pyright: ignore[reportOptionalMemberAccess]


def unknown_name(module: ModuleOp) -> None:
    (function,) = module.ops
    function.attributes["prepare"] = SymbolRefAttr("nowhere")


FAULTS = {
    use_before_definition: r"tenon\.add: operand 1 \(%c\) is used before its definition by tenon\.constant",
    other_operand: r"tenon\.add: operand 1 \(%w\) is used before its definition by tenon\.add",
    other_type: r"tenon\.add: .*f64",
    other_setting: r"tenon\.sum: ",
    erased_operand: r"func\.func: Operation using value defined out of its IsolatedFromAbove parent: AddOp\(%y",
    other_result: r"func\.return: ",
    no_terminator: r"tenon\.add: .*not a terminator",
    op_after_terminator: r"func\.return: .*must be the last operation",
    unknown_name: r"func\.func: @nowhere is not defined",
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_pass_that_breaks_what_was_valid_is_named(fault: Callable[[ModuleOp], None], message: str) -> None:
    module = Parser(new_context(), MODULE).parse_module()
    verification = Verification()
    verification.check(module)
    verification.after("first", module)
    fault(module)
    with pytest.raises(VerifyException, match=rf"^pass 'second' left invalid IR: .*{message}") as caught:
        verification.after("second", module)
    assert "func.func" in caught.value.__notes__[0]


def test_valid_ops_that_are_added_and_moved_are_accepted() -> None:
    module = Parser(new_context(), MODULE).parse_module()
    verification = Verification()
    verification.check(module)
    constant, *_ = ops_of(module)
    block = constant.parent_block()
    assert block is not None
    block.insert_op_before(copy := constant.clone(), constant)
    verification.after("first", module)
    copy.detach()
    copy.erase()
    verification.after("second", module)


class BreakingPass(ModulePass):
    name = "cse"

    def apply(self, ctx: object, op: ModuleOp) -> None:
        use_before_definition(op)


def test_what_passes_leave_is_verified_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the pass, in what is compiled; when it is not asked for, the next pass has to cope."""
    monkeypatch.setitem(pipeline.TENSOR_PASSES, "cse", lambda: BreakingPass)
    monkeypatch.setattr(pipeline, "TENSOR_PIPELINE", ("decompose", "cse", "dce", "fuse"))

    def function(x: tenon.Value) -> tenon.Value:
        return tenon.add(np.arange(3.0, dtype=np.float32), x)

    with (
        knobs.override(verify=True),
        pytest.raises(VerifyException, match=r"^pass 'cse' left invalid IR: .*: tenon\.add"),
    ):
        tenon.jit(function)(np.ones(3, np.float32))


def test_what_is_given_is_verified() -> None:
    module = Parser(new_context(), MODULE).parse_module()
    use_before_definition(module)
    with pytest.raises(VerifyException, match=r"tenon\.add: operand 1 \(%c\) is used before"):
        pipeline.run_passes(new_context(), module, ["cse"])


def test_ops_that_depend_on_what_encloses_them_are_verified_anew() -> None:
    """A body is valid in one generic and not in the next one, which has fewer loops."""
    text = """
func.func @main(%x: tensor<{shape}xindex>) -> tensor<{shape}xindex> {{
  %y = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>], iterator_types = [{kinds}]}}
      outs(%x : tensor<{shape}xindex>) {{
  ^bb0(%a: index):
    %i = linalg.index 2 : index
    %j = arith.addi %i, %a : index
    linalg.yield %j : index
  }} -> tensor<{shape}xindex>
  func.return %y : tensor<{shape}xindex>
}}"""
    for _ in range(2):
        kinds = ['"parallel"'] * 3
        three = text.format(shape="2x3x4", loops="d0, d1, d2", kinds=", ".join(kinds))
        Verification().check(Parser(new_context(), three).parse_module())
        two = text.format(shape="2x3", loops="d0, d1", kinds=", ".join(kinds[:2]))
        with pytest.raises(VerifyException, match=r"linalg\.index: there is no loop 2 among the 2"):
            Verification().check(Parser(new_context(), two).parse_module())
