"""Hooks `canonicalize` of users' ops that do what they must not: an error names the op, its line and the hook."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import tenon
from tenon.lowering.pipeline import run_passes

HERE = Path(__file__).name


def again(op: Any) -> Any:
    return type(op).build_from([op.x], {})


def fails(op: Any, rewriter: Any) -> None:
    rewriter.insert(again(op))
    raise OverflowError("too large")


def is_endless(op: Any, rewriter: Any) -> None:
    is_endless(op, rewriter)


def moves_behind(op: Any, rewriter: Any) -> None:
    new = again(op)
    block = op.parent
    rewriter.replace(op, (), (new.results[0],))
    block.insert_op_before(new, block.last_op)


def builds_another_type(op: Any, rewriter: Any) -> None:
    rewriter.replace(
        op, type(op).create(operands=[op.x], result_types=[tenon.tensor_type((3,), tenon.element_type("f64"))])
    )


WRONG: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "fails": (fails, r"too large\nin canonicalize of hooks.lessen \(.*{HERE}:\d+\)"),
    "is endless": (is_endless, r"recursion depth exceeded.*\nin canonicalize of hooks.lessen"),
    "erases": (lambda op, rewriter: rewriter.erase(op), "takes away hooks.lessen, whose result tenon.add reads"),
    "erases at any rate": (
        lambda op, rewriter: rewriter.erase(op, safe_erase=False),
        "takes away hooks.lessen, whose result tenon.add reads",
    ),
    "detaches": (
        lambda op, rewriter: op.detach(),
        "lets tenon.add read the result of hooks.lessen, which stands nowhere",
    ),
    "puts None": (lambda op, rewriter: rewriter.replace(op, (), (None,)), "puts None into the place of tensor<3xf32>"),
    "does not insert": (
        lambda op, rewriter: rewriter.replace(op, (), (again(op).results[0],)),
        "lets tenon.add read the result of hooks.lessen, which stands nowhere",
    ),
    "does not insert, and says nothing": (
        lambda op, rewriter: op.results[0].replace_all_uses_with(again(op).results[0]),
        "operand 0 is defined by hooks.lessen, which is not part of the module, after canonicalize of hooks.lessen",
    ),
    "moves behind": (moves_behind, "used before its definition by hooks.lessen, after canonicalize of hooks.lessen"),
    "builds another type": (builds_another_type, "puts tensor<3xf64> into the place of tensor<3xf32>"),
}


@pytest.fixture
def defined() -> Callable[[Callable[[Any, Any], Any]], Any]:
    def define(hook: Callable[[Any, Any], Any]) -> Any:
        @tenon.tensor_op
        class LessenOp(tenon.UnaryOp):
            """Half of `x`."""

            name = "hooks.lessen"
            scalar = staticmethod(lambda x: x * 0.5)
            canonicalize = staticmethod(hook)

        return tenon.jit(lambda x: tenon.lessen(x) + 1).trace(np.ones(3, "f4")).module

    return define


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(what: str, defined: Any) -> None:
    hook, message = WRONG[what]
    with pytest.raises(Exception, match="(?s)" + message.replace("{HERE}", HERE)) as raised:
        run_passes(Context(), defined(hook), ["canonicalize"], verify=False)
    error = raised.value
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert "hooks.lessen" in said


def test_what_is_built_in_vain_is_dropped(defined: Any) -> None:
    def tries(op: Any, rewriter: Any) -> None:
        type(op).build_from([again(op).results[0]], {})

    module = defined(tries)
    run_passes(Context(), module, ["canonicalize"], verify=False)
    assert module.ops.first.body.block.args[0].has_one_use()
