"""NumPy implementations of the `func` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import func

from tenon.dialects.interpreter.interpreter import Interpreter, implements


@implements(func.CallOp)
def _call(interpreter: Interpreter, op: func.CallOp, *arguments: Any) -> Sequence[Any]:
    function = interpreter.symbol(op, op.callee.string_value(), func.FuncOp)
    if not function.body.blocks and "reference" in function.attributes:
        from tenon.dialects.families.host import call_host, is_host_call
        from tenon.dialects.families.opaque import evaluate_reference

        return (call_host if is_host_call(function) else evaluate_reference)(function, arguments)
    return interpreter.call(function, arguments)


@implements(func.ReturnOp)
def _return(interpreter: Interpreter, op: func.ReturnOp, *values: Any) -> Sequence[Any]:
    return values
