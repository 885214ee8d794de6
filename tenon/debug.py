"""Looking at values where they are computed: in functions that run at once, and in compiled programs on any device.

What is asked for here happens when the program runs, in the order of the calls, and changes no value and no gradient.
Python does it, which costs the microseconds of a call of Python, and on a GPU the copy of the arrays and the wait
for them.
"""

from __future__ import annotations

import string
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tenon.dialects.definition.value import insertion_point
from tenon.dialects.ops.control.debug import CheckFiniteOp, PrintOp
from tenon.dialects.support.location import shown_location
from tenon.dialects.support.suggestion import attribute_hints
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.eager.tensor import Tensor
from tenon.runtime.arguments.arguments import as_array, is_array
from tenon.runtime.knobs import knobs
from tenon.runtime.tracing.trace import traced, user_location

T = TypeVar("T")


@shows_user_frames
def print(template: str, /, *values: Any, **named: Any) -> None:
    """Print `template.format(*values, **named)` when the program comes here, the values as NumPy's arrays.

    `values` are tensors, arrays or numbers, in a compiled function traced values as well. Within `vmap` each example is
    printed, one after the other; a gradient prints nothing again. In a program that runs on several threads the order
    of the prints is that of the calls.

    Raises `TypeError` for a value that is no array or number (write what is known beforehand into the template), and
    `ValueError` or `IndexError` for a template that the values do not fit.

    >>> tenon.debug.print("x is {}, of sum {total:.2f}", np.array([1.0, 2.5]), total=3.5)
    x is [1.  2.5], of sum 3.50
    """
    arrays = {**{f"value {i}": value for i, value in enumerate(values)}, **named}
    for name, value in arrays.items():
        if not is_array(value):
            raise TypeError(
                f"debug.print: {name} is a {type(value).__name__}, which is no array or number; "
                "write what is known before the program runs into the template"
            )
    _check_fields(template, len(values), named)
    settings = {"template": template, "names": " ".join(named)}
    if insertion_point() is None:
        PrintOp.reference(tuple([_read(value, name) for name, value in arrays.items()]), **settings)
    else:
        PrintOp.apply([_traced(value, name) for name, value in arrays.items()], **settings)


def _check_fields(template: str, count: int, named: dict[str, Any]) -> None:
    """Raise where the fields of `template` name what is not given: while the user's line is known."""
    if not isinstance(template, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"debug.print: the template is a {type(template).__name__} where a string is needed")
    automatic = 0
    for _, field, _, _ in string.Formatter().parse(template):
        if field is None:
            continue
        name = field.partition(".")[0].partition("[")[0]
        if not name:
            name, automatic = str(automatic), automatic + 1
        if (int(name) >= count) if name.isdigit() else (name not in named):
            given = ", ".join([f"{count} values", *named])
            raise IndexError(f"debug.print: the template asks for {name!r} where there are {given}")


@shows_user_frames
def check_finite(x: T, name: str = "x", /, *, infinities: bool = False) -> T:
    """`x` itself; where it has a NaN, or an infinity unless `infinities` are right, the program raises.

    The `FloatingPointError` says `name`, the number, its index, how many there are, and the line of this call. A
    compiled program is run to its end before that; what follows the check calls no Python (and prints nothing).
    Integers are finite.

    >>> tenon.debug.check_finite(np.array([1.0, np.inf]), "speed")
    Traceback (most recent call last):
    FloatingPointError: speed is inf at [1], 1 of 2 elements of float64 (...)
    """
    settings: dict[str, Any] = {"what": name, "where": shown_location(user_location()), "infinities": infinities}
    is_traced = insertion_point() is not None
    array: Any = _traced(x, name) if is_traced else _read(x, name)
    if array.dtype.kind not in "iub":
        (CheckFiniteOp.apply if is_traced else CheckFiniteOp.reference)(array, **settings)
    return x


def _traced(value: Any, name: str) -> Any:
    """A tensor, array or number in a trace, apart from gradients."""
    return traced(value.detach() if isinstance(value, Tensor) else value, name)


def _read(value: Any, name: str) -> Any:
    """The elements of a tensor, array or number."""
    return value.detach().numpy() if isinstance(value, Tensor) else as_array(value, name)


@contextmanager
def check_results(*, infinities: bool = False) -> Generator[None]:
    """Within the block, what every op computes is checked as by `check_finite`, in compiled programs, too.

    The error names the op and the line that calls it. The same as `TENON_CHECK_RESULTS=finite`, or `nan` where
    `infinities` are right.
    """
    with knobs.override(check_results="nan" if infinities else "finite"):
        yield


@contextmanager
def detect_anomaly(*, infinities: bool = False) -> Generator[None]:
    """Within the block, every gradient is checked as by `check_finite`: those of `backward` and of `grad`.

    The error names the op whose gradient it is and the line that called the op, in the forward pass. The same as
    `TENON_CHECK_GRADIENTS=finite`, or `nan` where `infinities` are right.

    >>> with tenon.debug.detect_anomaly():
    ...     tenon.grad(lambda x: tenon.sqrt(x).sum())(np.array([4.0, 0.0]))
    Traceback (most recent call last):
    FloatingPointError: the gradient of tenon.sqrt with respect to operand 0 is inf at [1], 1 of 2 elements ...
    """
    with knobs.override(check_gradients="nan" if infinities else "finite"):
        yield


__all__ = ["check_finite", "check_results", "detect_anomaly", "print"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
