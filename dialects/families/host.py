"""Host ops: Python functions that programs call, each in its place among the other ops.

In IR such an op becomes a call of a kernel without a body, as an opaque one. Its attribute `host` has the element types
of the arrays that the function takes and gives; `reference` and `settings` say which function that is. What runs the
program calls it: native code on the CPU, the host program of a GPU, the interpreter. Where the attributes `native` and
`native_sizes` are, too, native code asks that function of the runtime first, and Python only if that says it could not.

An op that does something besides computing its results states `MemoryWriteEffect` in the place of `Pure`: it is
neither removed, merged with an equal one, nor moved past another one with effects.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

from tenon.dialects.families.opaque import OpaqueOp, evaluate_reference
from tenon.dialects.families.structured_op import require_hooks
from tenon.dialects.support.forking import new_lock
from tenon.dialects.types.size import UndecidedSizeError
from tenon.dialects.types.types import element_of, element_type, numpy_dtype, shape_of

HOST = "host"
NATIVE = "tenon_native_"
"""What the names of native functions begin with: `i1 (ptr arrays, i64 sizes...)`, false if Python has to do it."""


class HostOp(OpaqueOp):
    """An op that Python computes, by `reference(*arrays, **settings)`; the arrays are read-only, and not to be kept.

    Results that differ in number or shape from what `infer` says are an error, and so are floats for integers. What
    `reference` raises leaves the call of the program once that is through; no host op runs in between.
    """

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "infer", "reference")

    def kernel_attributes(self, symbol: str, types: Sequence[Any], results: Sequence[Any]) -> dict[str, Attribute]:
        if not all(map(_is_known, (*types, *results))):
            raise UndecidedSizeError(f"{self.name}: Python is called with arrays of known sizes")
        # the types of later stages have no signs
        elements = [StringAttr(str(element_of(type_))) for type_ in (*types, *results)]
        settings = {name: value for name, value in self.properties.items() if name in self.SIGNATURE.settings}
        native: dict[str, Attribute] = {}
        if known := self.native(types):
            native = {"native": StringAttr(NATIVE + known[0]), "native_sizes": DenseArrayBase.from_list(i64, known[1])}
        return {
            **native,
            "kernel": UnitAttr(),
            HOST: ArrayAttr(elements),
            "reference": StringAttr(self.name),
            "settings": DictionaryAttr(settings),
        }

    def native(self, types: Sequence[Any]) -> tuple[str, Sequence[int]] | None:
        """The function of the runtime that computes the same for operands of these types, without Python, and the
        sizes that it is given; its name goes on after `NATIVE`."""
        return None


def _is_known(type_: Attribute) -> bool:
    shape = shape_of(type_)
    return shape is not None and all(type(size) is int and size >= 0 for size in shape)


class _Raised(threading.local):
    error: BaseException | None = None


_RAISED = _Raised()
PENDING = np.zeros(1, np.int64)
"""In how many threads something was raised that `raise_pending` has not raised yet; native code reads it."""
_PENDING_LOCK = new_lock()


def is_host_call(function: func.FuncOp) -> bool:
    """Whether `function` stands for Python."""
    return HOST in function.attributes


def host_dtypes(declaration: func.FuncOp) -> list[np.dtype[Any]]:
    """The dtypes of the arrays that the function takes, and then of those that it gives."""
    elements: Any = declaration.attributes[HOST]
    return [numpy_dtype(element_type(element.data)) for element in elements]


def call_host(declaration: func.FuncOp, arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
    """The results of the function for which `declaration` stands; of a buffered one they are written to the last
    arrays. What it raises is kept for `raise_pending`, and nothing more is called until then."""
    # zeros where the function did not run
    empty: tuple[Any, ...] = ()
    dtypes = host_dtypes(declaration)
    given_dtypes, result_dtypes = dtypes[: len(arrays)], dtypes[len(arrays) :]
    if "num_inputs" not in declaration.attributes:
        results = declaration.function_type.outputs.data
        empty = tuple([np.zeros(t.get_shape(), d) for t, d in zip(results, result_dtypes, strict=True)])  # pyright: ignore
    if _RAISED.error is not None:
        return empty
    try:
        given = [array.view(dtype) for array, dtype in zip(arrays, given_dtypes, strict=True)]
        return evaluate_reference(declaration, given, result_dtypes)
    except BaseException as error:
        _RAISED.error = error
        with _PENDING_LOCK:
            PENDING[0] += 1
        return empty


def raise_pending() -> None:
    """Raise what a host op raised in this thread since the last time, if any did."""
    error, _RAISED.error = _RAISED.error, None
    if error is not None:
        with _PENDING_LOCK:
            PENDING[0] -= 1
        raise error
