"""What a call may name beside the operands and settings of an op: other names of these, and what other libraries' calls
say of an operand.

`TensorOp.KEYWORDS` has them by name: the name of another argument, or a function of operands, settings and the value.
`TensorOp.OTHER_NAMES` has, besides, PyTorch's names of the arguments that the op has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tenon.dialects.definition.both_faces import is_device
from tenon.dialects.definition.registry import is_traced_device
from tenon.dialects.definition.signature import Signature
from tenon.dialects.definition.value import insertion_point, ops

Meaning = Callable[[list[Any], dict[str, Any], Any], None]
"""What changes the operands or the settings of a call as a keyword's value says."""


class MeantOtherwise(TypeError):
    """A call of an op that other libraries have for what is another function here, and that can mean nothing else.

    The function of the op makes that call; elsewhere it is an error that says what to write.
    """

    def __init__(self, message: str, call: Callable[[], Any]) -> None:
        super().__init__(message)
        self.call = call


def called_by_element(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> bool:
    """Is this a call with PyTorch's `input`, `dim` and `names`, the first of which is a name that PyTorch alone has?"""
    in_order = len(args) == len(names) + 2 and type(args[1]) is int and type(args[-1]) is not int
    by_name = names[0] in kwargs and (len(args) > 1 or "dim" in kwargs)
    return in_order or by_name


PYTORCH_NAMES: dict[str, str] = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "kernel_size": "window",
    "diagonal": "k",
    "index": "indices",
    "src": "updates",
    "other": "y",
    "shifts": "shift",
    "target": "labels",
    "pos_weight": "positive_weight",
}
"""What PyTorch calls arguments, with the name that ops have for them; and `input` is the first operand."""


def other_names(signature: Signature, keywords: Mapping[str, str | Meaning]) -> dict[str, str | Meaning]:
    """What a call of an op may name besides its own arguments: `keywords`, and PyTorch's names of what it has."""
    own = signature.argument_names
    found: dict[str, str | Meaning] = {
        name: meant for name, meant in PYTORCH_NAMES.items() if meant in own and name not in own
    }
    if signature.operands and "input" not in own:
        found["input"] = signature.operands[0].name
    return {**found, **keywords}


def cast_first(operands: list[Any], settings: dict[str, Any], value: Any) -> None:
    """`dtype`: the dtype that the first operand is converted to before the op; its own for `None`."""
    if value is not None:
        operands[0] = ops.cast(operands[0], dtype=value)


def times_second(operands: list[Any], settings: dict[str, Any], value: Any) -> None:
    """`alpha`: what the second operand is multiplied by before the op."""
    if value != 1:
        operands[1] = ops.multiply(operands[1], value)


def one_of(name: str, *values: Any) -> Meaning:
    """A keyword `name` that has an effect in other libraries alone, where each of `values` is what happens anyway."""

    def check(operands: list[Any], settings: dict[str, Any], value: Any) -> None:
        if not any(value is known or (isinstance(known, str) and value == known) for known in values):
            raise ValueError(f"{name} is {value!r} where {' or '.join(map(repr, values))} is needed")

    return check


always_new = one_of("copy", None, True)
"""`copy` of an op whose result is always a new array."""

on_cpu = one_of("device", None, "cpu")
"""`device`: arrays are in the processor's memory."""


def check_device(function: str, device: Any) -> None:
    """Raise `ValueError` for what is no device; in a trace, unless it is where a plain function's results are."""
    if device is None or device == "cpu":
        return
    if insertion_point() is not None:
        if is_traced_device(device):
            return
        raise ValueError(f"{function}: device is {device!r}; what a function computes is where it runs, as jit says")
    if not is_device(device):
        raise ValueError(f"{function}: device is {device!r} where 'cpu', 'cuda' or 'cuda:N' is needed")


def also_called(**names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let calls of a plain function name its arguments otherwise: other names with those that it has."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for other, own in names.items():
                if other in kwargs:
                    if own in kwargs:
                        raise TypeError(f"{function.__name__}: argument {own!r} is given twice, as {other!r} too")
                    kwargs[own] = kwargs.pop(other)
            return function(*args, **kwargs)

        called.other_names = names  # pyright: ignore[reportAttributeAccessIssue]  for `tools/stubs.py`
        return called

    return decorate
