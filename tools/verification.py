"""Check a whole module: each op by its own verifier, and that every value is defined before it is used.

Before: any module. After: nothing has changed, and the module is valid; otherwise a `VerifyException` has been raised
that says where the op at fault is, and shows the IR around it.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.support.location import at_line, position_of
from tenon.passes.verification import Verification

_LINES_AROUND = 20
_LONGEST_LINE = 400


def verify_module(module: ModuleOp, verification: Verification | None = None) -> None:
    """Raise `VerifyException` unless `module` is valid; `verification` knows what of it is, if it was checked before.

    What a verifier of xDSL's trips over, where it should report it, is the fault of the op as well.
    """
    try:
        (verification or Verification()).check(module)
    except RecursionError:
        raise VerifyException("regions are nested too deeply") from None
    except Exception as error:
        raise _located(module, error) from error


def _located(module: ModuleOp, error: Exception) -> VerifyException:
    message = str(error)
    if not isinstance(error, VerifyException):
        message = f"does not verify ({type(error).__name__}: {message})"
    op = _at_fault(module)
    if op is not None:
        message = message.removesuffix(at_line(op))
        about = "" if op.name in message.partition("\n")[0] else f"{op.name}: "
        message = f"{position_of(op)}{about}{message}"
    located = VerifyException(message)
    for note in getattr(error, "__notes__", ()):
        located.add_note(_excerpt(note))
    return located


def _at_fault(module: ModuleOp) -> Operation | None:
    """The first op, inner ones before outer ones, that does not verify."""
    for op in _inner_first(module):
        try:
            op.verify()
        except Exception:
            return op
    return None


def _inner_first(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _inner_first(inner)
    yield op


def _excerpt(text: str) -> str:
    """The lines around the first one that is marked, each up to a length that can be read."""
    lines = text.splitlines()
    marked = next((i for i, line in enumerate(lines) if line.strip().startswith("^")), 0)
    first, last = max(0, marked - _LINES_AROUND), marked + _LINES_AROUND
    shown = [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..." for line in lines[first:last]]
    return "\n".join([*(["..."] if first else []), *shown, *(["..."] if last < len(lines) else [])])
