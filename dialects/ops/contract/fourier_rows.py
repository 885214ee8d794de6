"""The transform of rows of numbers on a CPU, by native code of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.host import HostOp
from tenon.dialects.ops.contract.fourier_plan import (
    COMPLEX,
    HALF,
    INVERSE,
    INVERSE_HALF,
    REAL,
    ColumnPlan,
    Plan,
    column_plan_of,
    rows_plan_of,
    side_by_side,
)
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import FLOAT_TENSOR, element_of, numpy_dtype, shape_of, tensor_type

_SIZES = {
    COMPLEX: (1, 2, 1, 2),
    INVERSE: (1, 2, 1, 2),
    REAL: (1, 1, 1, 2),
    HALF: (2, 1, 1, 2),
    INVERSE_HALF: (1, 2, 2, 1),
}
"""Of what is given and of the result, for n numbers: how many times n they are, and of how many parts."""


def transformed_rows(x: Value, kind: int, n: int) -> Value | None:
    """The transform of n numbers from each row of `x` (rows, numbers, parts), or (rows, numbers, columns, parts);
    `None` where there is no code for it."""
    if any(type(size) is not int or size < 0 for size in (n, *x.shape)):
        return None
    plan = _plan(n, x.type)
    if plan is None:
        return None
    roots = plan.roots(kind).astype(x.dtype)
    return TransformRowsOp.apply(x, roots, kind=kind, length=n)


@tensor_op
class TransformRowsOp(HostOp):
    """The Fourier transforms of rows of `x` (rows, numbers, parts), or of columns of (rows, numbers, columns, parts),
    with `length` numbers, or with twice as many real ones; `kind` says which, and `roots` has what they multiply by
    (`fourier_plan`).

    Front: `dft`.
    """

    name = "tenon.transform_rows"
    HAS_FUNCTION: ClassVar[bool] = False
    FRONT: ClassVar[str] = "dft"
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(FLOAT_TENSOR)
    roots = operand_def(FLOAT_TENSOR)
    kind = setting(int)
    length = setting(int)
    result = result_def(FLOAT_TENSOR)

    @staticmethod
    def check(**settings: Any) -> None:
        if settings["kind"] not in _SIZES:
            raise InferenceError(f"kind is {settings['kind']} where one of {', '.join(map(str, _SIZES))} is needed")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        shape, (n, kind) = shape_of(operands[0]), (settings["length"], settings["kind"])
        times, parts, result_times, result_parts = _SIZES[kind]
        plan, given = _plan(n, operands[0]), shape_of(operands[1])
        if plan is not None and given is not None and given not in ((-1,), (plan.count(kind),)):
            raise InferenceError(f"roots has shape {show(given)} where ({plan.count(kind)},) is needed")
        needed = times * n + (kind == INVERSE_HALF), parts
        if shape is None:
            return tensor_type(None, element_of(operands[0]))
        if len(shape) not in (3, 4) or shape[1] not in (-1, needed[0]) or shape[-1] not in (-1, needed[1]):
            raise InferenceError(f"x has shape {show(shape)} where (rows, {needed[0]}, ..., {needed[1]}) is needed")
        found = (shape[0], result_times * n + (kind == HALF), *shape[2:-1], result_parts)
        return tensor_type(found, element_of(operands[0]))

    def native(self, types: Sequence[Any]) -> tuple[str, Sequence[int]] | None:
        n, kind = self.settings["length"], self.settings["kind"]
        plan, bits = _plan(n, types[0]), 8 * numpy_dtype(element_of(types[0])).itemsize
        if plan is None:
            return None
        rows, _, *columns, _ = shape_of(types[0]) or (0, 0, 0)
        if isinstance(plan, Plan):
            return f"fourier_dft_f{bits}", (rows, *plan.sizes, kind)
        return f"fourier_dft_columns_f{bits}", (rows, n, *(columns or (0,)), *plan.sizes, kind)

    @classmethod
    def reference(cls, *operands: Any, **settings: Any) -> Any:
        x, _ = operands
        kind, dtype = settings["kind"], x.dtype
        values = x.astype(np.float64)
        numbers: Any = values[..., 0] + 1j * values[..., 1] if values.shape[-1] == 2 else values[..., 0]
        if kind == INVERSE_HALF:
            return np.fft.irfft(numbers, 2 * settings["length"], axis=1)[..., None].astype(dtype)
        function: Any = {INVERSE: np.fft.ifft, HALF: np.fft.rfft}.get(kind, np.fft.fft)
        found = function(numbers, axis=1)
        return np.stack([found.real, found.imag], axis=-1).astype(dtype)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        x, roots = operands
        if batched[1]:
            return ops.stack([cls.apply(x[i] if batched[0] else x, roots[i], **settings) for i in range(size)])
        rows = ops.reshape(x, shape=(size * x.shape[1], *x.shape[2:]))
        # More rows may be transformed in another way, with other roots.
        result = transformed_rows(rows, settings["kind"], settings["length"])
        result = cls.apply(rows, roots, **settings) if result is None else result
        return ops.reshape(result, shape=(size, x.shape[1], *result.shape[1:]))


def _plan(n: int, x: Any) -> Plan | ColumnPlan | None:
    """How native code transforms n numbers of a tensor of type `x`, if it does."""
    dtype, shape = numpy_dtype(element_of(x)), shape_of(x) or ()
    count = side_by_side(dtype.itemsize)
    if dtype.name not in ("float32", "float64"):
        return None
    if len(shape) != 4:
        return rows_plan_of(shape[0] if shape else 0, n, count)
    return column_plan_of(n) if shape[2] >= count else None
