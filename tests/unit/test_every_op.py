"""Every op in every dtype that it declares, on arrays of every layout, on empty and rank-0 ones, and of unknown shape.

Nothing here is written for one op: the rows of `samples.py` are converted, cut and laid out anew. Ops are interpreted,
where the compiler is not what a test is about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from sample import FLOATS, INF, NAN, TOLERANCE, Array, Sample, widened
from samples import SAMPLES
from samples_indexing import write_elements
from samples_random import threefry
from test_ops_structured import blurred, traced

import tenon
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families import ElementwiseOp
from tenon.dialects.types.shapes import compatible
from tenon.dialects.types.types import FLOATS as FLOAT_ELEMENTS
from tenon.dialects.types.types import (
    INTEGERS,
    ElementType,
    element_of,
    element_type,
    f8E8M0FNU,
    is_bool,
    is_float,
    is_unsigned,
    numpy_dtype,
    shape_of,
    significant_bits,
    tensor_type,
)
from tenon.runtime.knobs import knobs

pytestmark = pytest.mark.filterwarnings("ignore")

OPS = sorted(name for name in registry() if name.startswith("tenon."))
MODERATE = 200
"""Samples with at most so many elements are taken where there are any."""


OF_NOTHING = {
    "tenon.logsumexp": -INF,
    "tenon.max_pool3d": -INF,
    "tenon.convolution": 0.0,
    "tenon.transposed_convolution": 0.0,
    # Labels outside of the classes, which all are where there are none.
    "tenon.nll_loss": 0.0,
    "tenon.cross_entropy": NAN,
    "tenon.softmax_cross_entropy": NAN,
}
"""Every element of a result that is made of no elements, where the oracle of the sample cannot say."""


def shifted(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    unsigned = x.astype(f"u{x.dtype.itemsize}")
    return np.where(y < 8 * x.dtype.itemsize, unsigned >> y.astype(unsigned.dtype), 0).astype(x.dtype)


def words(*given: Array) -> tuple[Array, ...]:
    operands = np.broadcast_arrays(*[np.asarray(operand).view(np.uint32) for operand in given])
    results = np.zeros((2, *operands[0].shape), np.uint32)
    for index in np.ndindex(*operands[0].shape):
        low, high, *key = [operand[index] for operand in operands]
        results[(slice(None), *index)] = threefry(np.array(key), (low, high))
    return np.asarray(results[0].view(np.int32)), np.asarray(results[1].view(np.int32))


def put(x: Array, indices: Array, updates: Array, axis: int = -1, reduction: str = "none") -> Array:
    places = list(x.shape)
    places[axis] = indices.shape[axis]
    indices, updates = np.broadcast_to(indices, places), np.broadcast_to(updates, places)
    return write_elements(widened(x), indices, widened(updates), axis, reduction)


def added(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
    result = np.moveaxis(np.array(widened(x)), axis, 0)
    axis %= x.ndim
    places = tuple(range(axis, axis + indices.ndim))
    inside = (indices >= -len(result)) & (indices < len(result))
    np.add.at(result, indices[inside], np.moveaxis(widened(updates), places, range(indices.ndim))[inside])
    return np.moveaxis(result, 0, axis)


def repeated(x: Array, shape: Sequence[int]) -> Array:
    own = (1,) * (len(shape) - x.ndim) + x.shape
    return np.broadcast_to(x, [size if size >= 0 else n for size, n in zip(shape, own, strict=True)])


def cosine_losses(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: str = "mean") -> Any:
    """As PyTorch defines it, where vectors without elements have a length, too."""
    x, y = widened(x), widened(y)
    cosine = (x * y).sum(-1) / np.sqrt(((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12))
    losses = np.where(target == 1, 1 - cosine, np.where(target == -1, np.maximum(cosine - margin, 0), 0))
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


ORACLES: dict[str, Callable[..., Any]] = {
    # The oracle of the row is for its dtype.
    "tenon.bitcast": lambda x, dtype: np.asarray(x).view(numpy_dtype(element_type(dtype))),
    "tenon.nextafter": np.nextafter,
    "tenon.shift_right_logical": shifted,
    # For its shape.
    "tenon.broadcast_to": repeated,
    "tenon.cosine_embedding_loss": cosine_losses,
    "tenon.one_hot": lambda x, num_classes, **_: (np.asarray(x)[..., None] == np.arange(num_classes)).astype(float),
    "tenon.put_along_axis": put,
    # For its values.
    "tenon.scatter_add": added,
    "tenon.threefry": words,
}
"""What takes the place of an oracle that is right for its own row alone; it gets the operands as they are."""

SETTINGS: dict[str, Callable[[np.dtype[Any]], dict[str, Any]]] = {
    "tenon.bitcast": lambda dtype: {"dtype": f"i{significant_bits(element_type(dtype))}"},
}
"""Settings that depend on the dtype of the operands."""


def evaluated(sample: Sample, arrays: Sequence[Any], interpret: bool = True) -> tuple[Any, ...]:
    with knobs.override(interpret=interpret):
        return tuple(tenon.jit(lambda *given: sample.apply(given))(*arrays))


def with_arrays(sample: Sample, arrays: Sequence[Any]) -> Sample:
    """The same call with `arrays` in the places of its own."""
    rest = iter(arrays)
    args = tuple(
        tuple([next(rest) for _ in a]) if isinstance(a, tuple) else None if a is None else next(rest)
        for a in sample.args
    )
    return dataclasses.replace(sample, args=args)


@cache
def samples_of(name: str) -> tuple[Sample, ...]:
    """The samples of an op that have operands and elements, those without NaN and infinities and small ones first."""

    def badness(sample: Sample) -> tuple[bool, bool]:
        finite = all(np.isfinite(widened(array)).all() for array in sample.arrays)
        return not finite, sum(array.size for array in sample.arrays) > MODERATE

    found = [s for s in SAMPLES if s.op_name == name and s.arrays and all(a.size for a in s.arrays)]
    return tuple(sorted(found, key=badness))


SAMPLED = [name for name in OPS if samples_of(name)]

# --- dtypes -----------------------------------------------------------------------------------------------------------


def groups_of(op: type[TensorOp]) -> list[list[str]]:
    """The operands that have one dtype: the promoted ones together, each of the others alone."""
    names = [operand.name for operand in op.SIGNATURE.operands]
    promoted = [name for name in names if op.PROMOTED is None or name in op.PROMOTED]
    return [group for group in (promoted, *[[name] for name in names if name not in promoted]) if group]


def declared(op: type[TensorOp], group: Sequence[str]) -> list[ElementType]:
    """The dtypes that all operands of the group allow."""
    allowed = [operand.constraint.elements for operand in op.SIGNATURE.operands if operand.name in group]
    return [element for element in allowed[0] if all(element in others for others in allowed)]


def kind_of(dtype: Any) -> str:
    return "f" if dtype in FLOATS else np.dtype(dtype).kind


def converted(array: Any, element: ElementType) -> Array:
    """`array` in a dtype, its values moved to where the dtype has them."""
    array, dtype = np.asarray(array), numpy_dtype(element)
    if array.dtype == dtype:
        return array
    wide = widened(array)
    if is_float(element):
        return np.clip(wide.astype(np.float64), -1e4, 1e4).astype(dtype)
    if wide.dtype.kind == "f":
        wide = np.rint(np.clip(np.nan_to_num(wide), -9, 9) * 4).astype(np.int64)
    if is_bool(element):
        return wide > np.median(wide)
    low = 0 if is_unsigned(element) else -100
    return np.clip(wide, low, 100).astype(dtype)


def in_dtype(sample: Sample, group: Sequence[str], element: ElementType) -> Sample:
    """The sample with the operands of `group` in one dtype."""

    def convert(name: str, arg: Any) -> Any:
        if arg is None or name not in group:
            return arg
        return tuple([converted(a, element) for a in arg]) if isinstance(arg, tuple) else converted(arg, element)

    names = [operand.name for operand in registry()[sample.op_name].SIGNATURE.operands]
    args = tuple(convert(name, arg) for name, arg in zip(names, sample.args, strict=False))
    settings = SETTINGS[sample.op_name](numpy_dtype(element)) if sample.op_name in SETTINGS else sample.settings
    return dataclasses.replace(sample, args=args, settings=settings)


# NumPy's zeros are bytes of 0, which is 2^-127 in f8E8M0FNU: that has no zero, and what is cast from one is NaN.
PUTS_ZEROS = {"tenon.diag", "tenon.dilate", "tenon.tril", "tenon.triu"}

NARROW_KEYS = {"tenon.argsort_groups"}
"""Ops that refuse elements of more than 32 bits, which fill a key that has room for a place as well."""


def dtype_cases() -> Iterator[Any]:
    for name in SAMPLED:
        op = registry()[name]
        for group in groups_of(op):
            for element in declared(op, group):
                if element == f8E8M0FNU and name in PUTS_ZEROS:
                    continue
                if numpy_dtype(element).itemsize > 4 and name in NARROW_KEYS:
                    continue
                yield pytest.param(name, group, element, id=f"{name[6:]}-{'_'.join(group)}-{element}")


def nearest(name: str, group: Sequence[str], element: ElementType) -> Sample:
    """The sample whose oracle fits best: floats for floats, and for integers one of their width, if there is any."""
    names = [operand.name for operand in registry()[name].SIGNATURE.operands]
    wanted = numpy_dtype(element)

    def distance(sample: Sample) -> tuple[int, bool]:
        given = [a for n, a in zip(names, sample.args, strict=False) if n in group and a is not None]
        flat = [b for a in given for b in (a if isinstance(a, tuple) else (a,))]
        if not flat:
            return 9, True
        kind = kind_of(flat[0].dtype)
        if kind == kind_of(wanted):
            return 0, (flat[0].dtype == wanted) == (kind == "f")
        return (1 if {kind, kind_of(wanted)} == {"i", "u"} else 2), True

    return min(samples_of(name), key=distance)


def exact(sample: Sample) -> tuple[Array, ...] | None:
    """The right results, floats in float64; `None` where the oracle cannot say."""
    try:
        if sample.op_name not in ORACLES:
            return sample.expected()
        found = ORACLES[sample.op_name](*sample.args, **sample.settings)
    except (ValueError, TypeError, IndexError):
        return None
    return tuple(map(widened, found)) if isinstance(found, tuple) else (widened(found),)


def in_dtype_of(result: Any, exact: Array) -> Array:
    """`exact` with the kind of dtype that the result has: NumPy's reductions widen integers, which wrap here."""
    dtype = np.asarray(result).dtype
    if dtype in FLOATS:
        return exact.astype(np.float64)
    return exact.astype(dtype) if {exact.dtype.kind, dtype.kind} <= {"i", "u"} else exact


def assert_right(sample: Sample, results: Sequence[Any]) -> None:
    """`Sample.check` with the tolerance of the dtypes at hand; results that are made of nothing are in a table."""
    found = exact(sample)
    if np.ndim(sample.arrays[0]) == 0 and sample.op_name not in OF_NOTHING:
        # Along axis 0 a scalar is a row of one, in which every place is the first.
        first, *others = [np.reshape(a, (1,)) if np.ndim(a) == 0 else a for a in sample.arrays]
        places = [a * 0 if a.dtype.kind in "iu" else a for a in others]
        found = found or exact(with_arrays(sample, [first, *others])) or exact(with_arrays(sample, [first, *places]))
        found = found and tuple(
            [np.reshape(e, np.shape(r)) if np.size(e) == np.size(r) else e for e, r in zip(found, results, strict=True)]
        )
    if found is None:
        found = tuple([np.full(np.shape(r), OF_NOTHING[sample.op_name] if np.size(r) else 0) for r in results])
    expected = tuple([in_dtype_of(r, e) for r, e in zip(results, found, strict=True)])
    dtypes = {np.asarray(array).dtype for array in (*results, *sample.arrays)}
    loosest = max([TOLERANCE[dtype] for dtype in dtypes if dtype in FLOATS], default=0.0)
    rtol, atol = [None if given is None else max(given, loosest) for given in (sample.rtol, sample.atol)]
    dataclasses.replace(sample, oracle=lambda *_: expected, rtol=rtol, atol=atol).check(results)


@pytest.mark.parametrize(("name", "group", "element"), list(dtype_cases()))
def test_every_declared_dtype_is_computed(name: str, group: list[str], element: ElementType) -> None:
    sample = in_dtype(nearest(name, group, element), group, element)
    assert_right(sample, evaluated(sample, sample.arrays))


def same(results: Sequence[Any], others: Sequence[Any]) -> None:
    assert len(results) == len(others)
    for result, other in zip(results, others, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_array_equal(result, other)


def test_only_ops_without_operands_are_left_out() -> None:
    without = {name for name in OPS if not registry()[name].SIGNATURE.operands}
    assert without == set(OPS) - set(SAMPLED)


@pytest.mark.parametrize("element", [*FLOAT_ELEMENTS, *INTEGERS], ids=str)
def test_ops_without_operands_have_every_dtype(element: ElementType) -> None:
    numbers = np.arange(5).astype(numpy_dtype(element))
    with knobs.override(interpret=True):
        counted, known = tenon.jit(lambda: (tenon.iota(numbers.shape, dtype=element), tenon.constant(numbers)))()
    same([counted, known], [numbers, numbers])


# --- layouts ----------------------------------------------------------------------------------------------------------


def spread_out(array: Array) -> Array:
    """Every other element of a larger array, along each axis."""
    larger = np.zeros(tuple([2 * n for n in array.shape]), array.dtype)
    view = larger[(..., *(slice(None, None, 2),) * array.ndim)]
    view[...] = array
    return view


def reversed_(array: Array) -> Array:
    """In memory the last element comes first, and axes are in the other order."""
    return np.flip(np.asfortranarray(np.flip(array)))


def unaligned(array: Array) -> Array:
    """At an odd address."""
    data = np.zeros(array.nbytes + 1, np.uint8)
    view = data[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def swapped(array: Array) -> Array:
    """In the other byte order, where NumPy knows of one."""
    return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "fiu" else array


def read_only(array: Array) -> Array:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


LAYOUTS: tuple[Callable[[Array], Array], ...] = (spread_out, reversed_, unaligned, swapped, read_only)


@pytest.mark.parametrize("name", SAMPLED)
def test_layout_of_operands_makes_no_difference(name: str) -> None:
    sample = samples_of(name)[0]
    arrays = [np.ascontiguousarray(array).reshape(array.shape) for array in map(np.asarray, sample.arrays)]
    before = [array.copy() for array in arrays]
    compiled = tenon.jit(lambda *given: sample.apply(given))
    results = [np.array(result) for result in compiled(*arrays)]
    assert_right(sample, results)
    same(arrays, before)
    for layout in LAYOUTS:
        moved = [layout(array) for array in arrays]
        same(compiled(*moved), results)
        same([np.asarray(m).astype(a.dtype) for m, a in zip(moved, arrays, strict=True)], before)


# --- empty and rank-0 operands ----------------------------------------------------------------------------------------


def computed_or_refused(sample: Sample) -> None:
    """The sample is computed, and right, or an error names the op, or the function that calls it."""
    try:
        results = evaluated(sample, sample.arrays)
    except (ValueError, TypeError) as error:
        if f"{registry()[sample.op_name].called()}: " not in str(error):
            raise
    else:
        assert_right(sample, results)


def cut(sample: Sample, size: int) -> Sample:
    """All dimensions of one size made empty."""

    def empty(array: Array) -> Array:
        return array[tuple([slice(0) if n == size else slice(None) for n in array.shape])]

    return with_arrays(sample, [empty(np.asarray(array)) for array in sample.arrays])


@pytest.mark.parametrize("name", SAMPLED)
def test_empty_operands_are_computed_or_refused(name: str) -> None:
    sample = samples_of(name)[0]
    for size in sorted({n for array in sample.arrays for n in np.shape(array)}):
        computed_or_refused(cut(sample, size))


@pytest.mark.parametrize("name", SAMPLED)
def test_one_empty_dimension_is_computed_or_refused(name: str) -> None:
    sample = samples_of(name)[0]
    for position, array in enumerate(map(np.asarray, sample.arrays)):
        for axis in range(array.ndim):
            arrays = list(sample.arrays)
            arrays[position] = array[(slice(None),) * axis + (slice(0),)]
            computed_or_refused(with_arrays(sample, arrays))


@pytest.mark.parametrize("name", SAMPLED)
def test_scalars_are_computed_or_refused(name: str) -> None:
    sample = samples_of(name)[0]
    arrays = [np.asarray(array) for array in sample.arrays]
    scalars = [array.reshape(-1)[0].reshape(()) for array in arrays]
    computed_or_refused(with_arrays(sample, scalars))
    for position in range(len(arrays)):
        computed_or_refused(with_arrays(sample, [*arrays[:position], scalars[position], *arrays[position + 1 :]]))


PAIRS = [((3, 1), (1, 4)), ((), (2, 3)), ((2, 3), (3,)), ((0, 3), (1, 3)), ((2, 1, 3), (4, 1)), ((1,), ())]
SEVERAL = [
    name
    for name in SAMPLED
    if issubclass(registry()[name], ElementwiseOp) and len(registry()[name].SIGNATURE.operands) > 1
]


@pytest.mark.parametrize("name", SEVERAL)
def test_elementwise_operands_broadcast(name: str) -> None:
    sample = samples_of(name)[0]
    for pair in PAIRS:
        for first, second in (pair, pair[::-1]):
            shapes = [first, second, first, second]
            arrays = [np.resize(a, shape) for a, shape in zip(sample.arrays, shapes, strict=False)]
            moved = with_arrays(sample, arrays)
            results = evaluated(moved, arrays)
            assert_right(moved, results)
            assert np.shape(results[0]) == np.broadcast_shapes(*[a.shape for a in arrays])


# --- unknown shapes ---------------------------------------------------------------------------------------------------


def with_unknown(type_: Any, axis: int) -> Any:
    """A tensor type of which one dimension is unknown."""
    shape = list(shape_of(type_) or ())
    shape[axis] = -1
    return tensor_type(tuple(shape), element_of(type_))


def partly_known(types: Sequence[Any]) -> Iterator[list[Any]]:
    """Operand types with one of them unknown, of known rank or not, and with one dimension unknown."""
    for position, type_ in enumerate(types):
        one = [blurred(type_, False), blurred(type_, True)]
        one += [with_unknown(type_, axis) for axis in range(len(shape_of(type_) or ()))]
        for changed in one:
            yield [*types[:position], changed, *types[position + 1 :]]


@pytest.mark.parametrize("name", SAMPLED)
def test_inference_copes_with_partly_known_shapes(name: str) -> None:
    for sample in samples_of(name)[:4]:
        (op,) = (op for op in traced(sample).walk() if op.name == name)
        assert isinstance(op, TensorOp)
        for types in partly_known([o.type for o in op.operands]):
            inferred = op.inferred_types(op.group(types, op.properties), op.settings)
            assert all(compatible(r.type, t) for r, t in zip(op.results, inferred, strict=True)), types
