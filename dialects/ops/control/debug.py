"""Ops that look at values while programs run, for `tenon.debug`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, traits_def, var_operand_def
from xdsl.traits import MemoryWriteEffect

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.families.host import HostOp
from tenon.dialects.types.types import ANY_TENSOR, FLOAT_TENSOR

_CHECKS: list[Callable[[], str]] = []


def check_gradients_if(asked: Callable[[], str]) -> None:
    """Have programs check the gradients of each op, for what `asked` says: `"nan"`, `"finite"`, or nothing."""
    _CHECKS[:] = [asked]


def checks_gradients() -> str:
    """What gradients are checked for."""
    return _CHECKS[0]() if _CHECKS else ""


class _Looks(HostOp):
    """An op without results, for what Python does with the operands."""

    traits = traits_def(MemoryWriteEffect())
    HAS_FUNCTION: ClassVar[bool] = False

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return ()


@tensor_op
class PrintOp(_Looks):
    """Prints `template`, with the operands in the places of `{}`, and of the names after the first ones."""

    name = "debug.print"
    values = var_operand_def(ANY_TENSOR)
    template = setting(str)
    names = setting(str, default="")
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()

    @staticmethod
    def reference(*operands: Any, **settings: Any) -> Any:
        (values,), names = operands, settings["names"].split()
        count = len(values) - len(names)
        shown = [value if value.ndim else value[()] for value in values]
        print(settings["template"].format(*shown[:count], **dict(zip(names, shown[count:], strict=True))), flush=True)
        return ()


@tensor_op
class CheckFiniteOp(_Looks):
    """Raises `FloatingPointError` for a NaN in `x`, or an infinity unless `infinities` are right."""

    name = "debug.check_finite"
    x = operand_def(FLOAT_TENSOR)
    what = setting(str)
    where = setting(str, default="")
    infinities = setting(bool, default=False)

    @staticmethod
    def reference(*operands: Any, **settings: Any) -> Any:
        (x,) = operands
        wrong = np.isnan(x) if settings["infinities"] else ~np.isfinite(x)
        if not wrong.any():
            return ()
        first = np.unravel_index(int(wrong.argmax()), x.shape)
        index = f" at {[int(i) for i in first]}" if x.ndim else ""
        share = f"{int(wrong.sum())} of {x.size} elements" if x.ndim else "a number"
        raise FloatingPointError(f"{settings['what']} is {x[first]}{index}, {share} of {x.dtype}{settings['where']}")
