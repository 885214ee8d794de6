"""Mixed precision: the dtype that calls compute in where `autocast` holds, by what their ops state in `AUTOCAST`.

Only what a user calls is meant, step by step or while a function is traced: ops that gradients and passes build have
operands of the dtypes that the calls before them gave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
from xdsl.ir import Attribute

from tenon.dialects.definition.both_faces import is_device
from tenon.dialects.definition.operation import DeclaredOp
from tenon.dialects.definition.promotion import AdoptingFloat, is_literal, own_element
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.value import insertion_point, ops
from tenon.dialects.support.thread_numbers import ThreadNumbers
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import bf16, element_type, f16, f32, numpy_dtype

P = ParamSpec("P")
R = TypeVar("R")


class _State(threading.local):
    def __init__(self) -> None:
        self.element: Attribute | None = None
        self.before: list[Attribute | None] = []
        """What held outside of each block, of this thread: a decorator enters the same block in several."""


_STATE = _State()
_NUMBERS: dict[Attribute | None, int] = {None: 0, bf16: 1, f16: 2}
PRECISIONS = ThreadNumbers()
"""The dtype of low precision of each thread, as a number: what native calls were prepared for."""


class autocast:
    """`with tenon.autocast(dtype="bf16"):` matrix products and convolutions of f32 are computed in bf16 (or f16), and
    sums, exponentials, norms and losses of these in f32; all other ops take operands as they are, and where dtypes
    differ the wider one.

    Each op states in its definition what holds for it (`AUTOCAST`). Parameters stay as they are, and their gradients
    have their dtype. Also a decorator; holds for the thread, in what is traced as well, and with `enabled=False` ends
    inside of its block. Compute losses inside, and gradients and steps outside or inside: they follow the forward pass.

    Source: Micikevicius et al., "Mixed precision training", ICLR 2018; PyTorch's documentation of `torch.autocast`.
    """

    def __init__(self, *target: Any, dtype: Any = None, device_type: str | None = None, enabled: bool = True) -> None:
        """`target` is the dtype, bf16 unless given, or a device, as PyTorch has it, or both: what runs where is not
        asked. Raises `ValueError` for a dtype that is neither f16 nor bf16.
        """
        for given in target:
            if not is_device(given):
                dtype = given
        try:
            element = bf16 if dtype is None else element_type(dtype)
        except (TypeError, ValueError):
            element = dtype
        if element not in (f16, bf16):
            raise ValueError(f"autocast: dtype is {element}, neither f16 nor bf16")
        self._element = element if enabled else None

    def __enter__(self) -> Self:
        _STATE.before.append(_STATE.element)
        _put(self._element)
        return self

    def __exit__(self, *_: object) -> None:
        _put(_STATE.before.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return wrapper


def autocast_element() -> Attribute | None:
    """The dtype of low precision for a call that is made here, `None` where operands are taken as they are."""
    if _STATE.element is None:
        return None
    point = insertion_point()
    return _STATE.element if point is None or point.is_users else None


def precision() -> int:
    """The number in `PRECISIONS` of a call that is made here, outside of traces."""
    return _NUMBERS[_STATE.element]


def _put(element: Attribute | None) -> None:
    if element is not _STATE.element:
        _STATE.element = element
        PRECISIONS.set(_NUMBERS[element])


def lowered(cls: type[DeclaredOp], operands: Sequence[Any]) -> Attribute | None:
    """The dtype of low precision for a call of `cls` that is made here, if some operand is converted for it."""
    if cls.AUTOCAST is None or (low := autocast_element()) is None:
        return None
    return low if any(_target(cls, value, low) is not None for value in flat(operands)) else None


def as_autocast(cls: type[DeclaredOp], operands: Sequence[Any], low: Attribute) -> list[Any]:
    """The operands of a call of `cls` in the dtypes that it computes in, where the low precision is `low`."""

    def converted(value: Any) -> Any:
        target = _target(cls, value, low)
        return value if target is None else ops.cast(value, dtype=target)

    return list(map_grouped(converted, operands))


def like_autocast(cls: type[DeclaredOp], operands: Sequence[Any], low: Attribute) -> list[Any]:
    """The same for what is asked for dtypes alone: what would be converted is an array of that dtype."""

    def stand_in(value: Any) -> Any:
        target = _target(cls, value, low)
        return value if target is None else np.empty((), numpy_dtype(target))

    return list(map_grouped(stand_in, operands))


def beside_product(value: Any, product: Any) -> Any:
    """What is added to a product: in its dtype, where that is the low precision of `autocast`."""
    low = autocast_element()
    if low is None or value is None or is_literal(value) or isinstance(value, Size):
        return value
    is_wider = own_element(value, "add") == f32 and own_element(product, "add") == low
    return ops.cast(value, dtype=low) if is_wider else value


def _target(cls: type[DeclaredOp], value: Any, low: Attribute) -> Attribute | None:
    """The dtype that an operand is converted to; `None` where it stays as it is."""
    if value is None or is_literal(value) or isinstance(value, Size | AdoptingFloat):
        return None
    source, target = ((f32,), low) if cls.AUTOCAST == "low" else ((f16, bf16), f32)
    return target if own_element(value, cls.name) in source else None


__all__ = ["as_autocast", "autocast", "autocast_element", "beside_product", "like_autocast", "lowered", "precision"]
