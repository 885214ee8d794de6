"""Samples: an op or a function with operands, and others that follow from one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.support.forking import cached_property
from tenon.dialects.types.types import element_type, f64, is_float, numpy_dtype
from tenon.runtime.arguments.tree import flatten
from tenon.runtime.jit import JitFunction, jit

Array = np.ndarray[Any, Any]


class Sample:
    """A call, and how messages name it; `operands` are arrays, and tuples of them where several are one operand."""

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        operands: Sequence[Any],
        settings: dict[str, Any],
        op: type[TensorOp] | None = None,
        label: str = "as given",
    ) -> None:
        self.name = name
        self.call = call
        self.operands = operands
        self.settings = settings
        self.op = op
        self.label = label

    @property
    def arrays(self) -> list[Array]:
        """The arrays of all operands one by one."""
        return flat(self.operands)

    def function(self, *arrays: Any) -> tuple[Any, ...]:
        """The results for such arrays."""
        remaining = iter(arrays)
        operands = map_grouped(lambda _: next(remaining), self.operands)
        return tuple(flatten(self.call(*operands, **self.settings))[0])

    @cached_property
    def compiled(self) -> JitFunction:
        return jit(lambda *arrays: self.function(*arrays))

    def with_arrays(self, change: Callable[[Array], Array], label: str) -> Sample:
        """The call with other arrays in the place of each."""
        return Sample(self.name, self.call, map_grouped(change, self.operands), self.settings, self.op, label)

    def described(self) -> str:
        """Which sample this is: how it was made, and the arrays."""
        shown = ", ".join(f"{array.dtype}{list(array.shape)}" for array in self.arrays)
        settings = "".join([f", {name}={value!r}" for name, value in self.settings.items()])
        return f"{self.label}: {shown}{settings}"

    def takes(self, dtype: np.dtype[Any], of: Callable[[Any], bool]) -> bool:
        """Whether the op declares `dtype` for those operands whose arrays are `of` a kind."""
        if self.op is None:
            return dtype.name in ("float32", "float64")
        pairs = zip(self.op.SIGNATURE.operands, self.operands, strict=True)
        element = element_type(dtype)
        return all(element in operand.constraint.elements for operand, given in pairs if any(map(of, flat((given,)))))

    def wide(self) -> Sample:
        """The sample with floats as f64, if the op takes them."""
        are_wide = all(array.dtype == np.float64 for array in self.arrays if has_floats(array))
        if are_wide or not self.takes(numpy_dtype(f64), has_floats):
            return self
        return self.with_arrays(lambda x: x.astype(np.float64) if has_floats(x) else x, f"{self.label}, in f64")


def has_floats(array: Any) -> bool:
    return is_float(element_type(array.dtype))


def has_integers(array: Any) -> bool:
    return array.dtype.kind in "iu"


def epsilon(array: Any) -> float:
    """The distance of 1 to the next number of the dtype of `array`; 0 for integers."""
    return float(ml_dtypes.finfo(array.dtype).eps) if has_floats(array) else 0.0


def in_other_dtypes(sample: Sample) -> Iterator[Sample]:
    """The sample with all floats, or of an elementwise op all integers, in each other dtype that is declared."""
    floats = [np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
    integers = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    is_elementwise = sample.op is not None and issubclass(sample.op, ElementwiseOp)
    for kinds, of in ((floats, has_floats), (integers if is_elementwise else [], has_integers)):
        found = {array.dtype for array in sample.arrays if of(array)}
        for dtype in kinds:
            if found and found != {dtype} and sample.takes(dtype, of):
                with np.errstate(all="ignore"):
                    yield sample.with_arrays(lambda x, d=dtype, of=of: x.astype(d) if of(x) else x, f"in {dtype}")


def in_other_layouts(sample: Sample) -> Iterator[Sample]:
    """The sample with the same elements in other places of memory."""

    def apart(x: Array) -> Array:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]

    def backwards(x: Array) -> Array:
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]

    def unaligned(x: Array) -> Array:
        memory = np.zeros(x.nbytes + 1, np.uint8)
        made = memory[1:].view(x.dtype).reshape(x.shape)
        made[...] = x
        return made

    ways: dict[str, Callable[[Array], Array]] = {
        "the last axis in steps of two": apart,
        "the last axis backwards in memory": backwards,
        "axes in reverse order in memory": np.asfortranarray,
        "not aligned": unaligned,
    }
    for label, change in ways.items():
        yield sample.with_arrays(lambda x, change=change: change(x) if x.ndim else x, label)


def without_elements(sample: Sample) -> Iterator[Sample]:
    """For each size of a dimension, the sample with all dimensions of that size empty."""
    for size in sorted({size for array in sample.arrays for size in array.shape if size > 1}):

        def emptied(x: Array, size: int = size) -> Array:
            return x[tuple([slice(0) if own == size else slice(None) for own in x.shape])]

        yield sample.with_arrays(emptied, f"dimensions of size {size} empty")


def broadcasting(sample: Sample) -> Iterator[tuple[Sample, Sample]]:
    """Samples of an elementwise op of which one operand is repeated, beside those with the repeated elements."""
    arrays = sample.arrays
    if sample.op is None or not issubclass(sample.op, ElementwiseOp) or len(arrays) < 2:
        return
    for position, array in enumerate(arrays):
        for axis in range(array.ndim):
            few = np.take(array, [0], axis=axis)
            given = [few if i == position else other for i, other in enumerate(arrays)]
            if _repeated_shape(given) != _repeated_shape(arrays):
                continue  # no other operand says how often
            many = [np.broadcast_to(few, array.shape).copy() if i == position else a for i, a in enumerate(arrays)]
            label = f"operand {position} repeated along axis {axis}"
            yield _with(sample, given, label), _with(sample, many, label)


def _repeated_shape(arrays: Sequence[Array]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[array.shape for array in arrays])


def at_extremes(sample: Sample) -> Iterator[Sample]:
    """The sample with a number in it that is special in its dtype; of elementwise ops also the largest ones."""
    is_elementwise = sample.op is not None and issubclass(sample.op, ElementwiseOp)
    for position, array in enumerate(sample.arrays):
        if not array.size:
            continue
        numbers: dict[str, Any] = {}
        if has_floats(array):
            info = ml_dtypes.finfo(array.dtype)
            numbers = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "-0": -0.0}
            numbers["the smallest number"] = info.smallest_subnormal
            if is_elementwise:
                numbers |= {"the largest number": info.max, "the smallest normal number": info.smallest_normal}
        elif has_integers(array) and is_elementwise:
            limits = np.iinfo(array.dtype)
            numbers = {"the largest integer": limits.max, "the smallest integer": limits.min}
        for label, number in numbers.items():
            changed = array.copy()
            changed.reshape(-1)[array.size // 2] = number
            arrays = [changed if i == position else other for i, other in enumerate(sample.arrays)]
            yield _with(sample, arrays, f"{label} in operand {position}")


def at_kinks(sample: Sample) -> Iterator[Sample]:
    """The sample with zeros, and with equal numbers in all operands: where functions by cases change the case."""
    floats = [array for array in sample.arrays if has_floats(array)]
    if not floats:
        return
    yield sample.with_arrays(lambda x: np.zeros_like(x) if has_floats(x) else x, "zeros")
    yield sample.with_arrays(lambda x: np.ones_like(x) if has_floats(x) else x, "ones")


def _with(sample: Sample, arrays: Sequence[Array], label: str) -> Sample:
    remaining = iter(arrays)
    return sample.with_arrays(lambda _: next(remaining), label)
