"""Updates of rows combined in the order of their numbers where these are sorted by place, on a GPU (see `run_code`).

What a scatter of floats does whose sums are to be the same bits in each call, by many threads: `combined_in_runs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tenon.dialects.definition.scalar import as_index
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ScatterOp
from tenon.dialects.families.linalg_builders import Reader
from tenon.dialects.families.opaque import Kernel, OpaqueOp
from tenon.dialects.ops.order.run_code import ACCUMULATORS, COMBINATIONS, Runs, far_code, near_code, run_code
from tenon.dialects.ops.order.tile_sorting import sorted_pairs
from tenon.dialects.types.shapes import InferenceError, show
from tenon.dialects.types.types import (
    FLOAT_TENSOR,
    INTEGER_TENSOR,
    STORED_TENSOR,
    compute_type,
    element_of,
    i32,
    shape_of,
    tensor_type,
)

Array = np.ndarray[Any, Any]

_SHORTEST = 32
"""Updates of a block, at least: fewer make more totals than they save."""


def _is_computed(types: Sequence[Any], settings: dict[str, Any]) -> bool:
    return all(element_of(type_) in (i32, *ACCUMULATORS) for type_ in types)


def _kernel(source: Callable[[str, Runs, Sequence[Any]], str], runs: Callable[..., Runs], rows: str) -> Any:
    """The kernel with this text, of which a thread has some elements of one of the `rows` that runs have."""

    def text(symbol: str, types: Sequence[Any], results: Sequence[Any], settings: dict[str, Any]) -> str:
        return source(symbol, runs(types, settings), types)

    def launch(types: Sequence[Any], settings: dict[str, Any]) -> tuple[int, int]:
        found = runs(types, settings)
        return found.launch(getattr(found, rows))

    return (Kernel("runs", "cuda", text, _is_computed, "rows of f16, bf16, f32 or f64, and i32", launch),)


class _RunsOp(OpaqueOp):
    """An op of rows of `updates` (number, n)."""

    HAS_FUNCTION: ClassVar[bool] = False
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    traits = traits_def(Pure(), NoGradient())
    length = setting(int)
    combine = setting(str, choices=tuple(COMBINATIONS))

    @staticmethod
    def totals(updates: Any, count: int) -> Any:
        """The type of `count` totals, of one at least, of `updates`."""
        shape = shape_of(updates)
        if shape is not None and len(shape) != 2:
            raise InferenceError(f"updates have shape {show(shape)} where (number, n) is needed")
        columns = -1 if shape is None else shape[1]
        return tensor_type((max(count, 1), columns), compute_type(element_of(updates)))


def _combined(parts: Array, combine: str) -> Array:
    """Rows of `parts` combined one after the other, by what NumPy calls as these ops are called."""
    return reduce(getattr(np, combine), parts)


def _numbers(type_: Any) -> int:
    """How many numbers an operand (number,) or rows an operand (number, n) has."""
    return int((shape_of(type_) or (0,))[0])


def _columns(type_: Any) -> int:
    return int((shape_of(type_) or (0, 0))[1])


def _runs(rows: int, numbers: Any, parts: Any, settings: dict[str, Any]) -> Runs:
    """Of as many updates as `numbers`, combined from rows of `parts`."""
    return Runs(rows, _columns(parts), _numbers(numbers), settings["length"], element_of(parts), settings["combine"])


def _totals(places: Array, parts: Array, span: int, *, rows: int, length: int, combine: str) -> Array:
    """The next `length` rows of `parts` combined for each `span` places that are all one below `rows`; else zeros."""
    count = len(places) // span
    totals = np.zeros((max(1, count), parts.shape[1]), parts.dtype)
    for block in range(count):
        own = places[block * span : (block + 1) * span]
        if own[0] == own[-1] < rows:
            totals[block] = _combined(parts[block * length : (block + 1) * length], combine)
    return totals


# -------------------------------------------------------------------------------------------- blocks of one run


def _near_runs(types: Sequence[Any], settings: dict[str, Any]) -> Runs:
    return _runs(settings["rows"], types[0], types[2], settings)


@tensor_op
class NearTotalsOp(_RunsOp):
    """For each block of `length` numbers in `order` (number,; i32) all of which have one place below `rows` the rows of
    `updates` (number, n) combined: (number // length, n), in the type that f16 and bf16 are computed in. `places`
    (number,; i32), which are sorted, are those of the numbers. Other blocks have no total."""

    name = "runs.near_totals"
    places = operand_def(INTEGER_TENSOR)
    order = operand_def(INTEGER_TENSOR)
    updates = operand_def(FLOAT_TENSOR)
    rows = setting(int)
    result = result_def(FLOAT_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(lambda s, runs, _: near_code(s, runs), _near_runs, "near")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return cls.totals(operands[2], _numbers(operands[2]) // settings["length"])

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        places, order, updates = operands
        wide = updates.astype(np.result_type(updates.dtype, np.float32))
        return _totals(places, wide[order], settings["length"], **settings)


def _far_runs(types: Sequence[Any], settings: dict[str, Any]) -> Runs:
    return _runs(settings["rows"], types[0], types[1], settings)


@tensor_op
class FarTotalsOp(_RunsOp):
    """The same for blocks of `length` of the blocks that `near` has the totals of."""

    name = "runs.far_totals"
    places = operand_def(INTEGER_TENSOR)
    near = operand_def(FLOAT_TENSOR)
    rows = setting(int)
    result = result_def(FLOAT_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(lambda s, runs, _: far_code(s, runs), _far_runs, "far")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return cls.totals(operands[1], _numbers(operands[0]) // settings["length"] ** 2)

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        places, near = operands
        return _totals(places, near, settings["length"] ** 2, **settings)


# -------------------------------------------------------------------------------------------------- whole runs


def _whole_runs(types: Sequence[Any], settings: dict[str, Any]) -> Runs:
    return _runs(_numbers(types[1]) - 1, types[2], types[3], settings)


def _whole_code(symbol: str, runs: Runs, types: Sequence[Any]) -> str:
    return run_code(symbol, runs, is_one=shape_of(types[0]) == (1, 1))


@tensor_op
class CombineRunsOp(_RunsOp):
    """Each row of `x` (rows, n), or of one number (1, 1) everywhere, combined with those of `updates` (number, n) that
    `order` (number,; i32) has from `starts[row]` to `starts[row + 1]` (rows + 1,; i32), one after the other, but for
    blocks of `length` in it, and `length` of these: of them `near` and `far` have the totals."""

    name = "runs.combine"
    x = operand_def(FLOAT_TENSOR)
    starts = operand_def(INTEGER_TENSOR)
    order = operand_def(INTEGER_TENSOR)
    updates = operand_def(FLOAT_TENSOR)
    near = operand_def(FLOAT_TENSOR)
    far = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    KERNELS: ClassVar[tuple[Kernel, ...]] = _kernel(_whole_code, _whole_runs, "rows")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x, starts, _, updates, *_ = operands
        return tensor_type((_numbers(starts) - 1, _columns(updates)), element_of(x))

    @staticmethod
    def reference(*operands: Array, **settings: Any) -> Any:
        x, starts, order, updates, near, far = operands
        length, combine = settings["length"], settings["combine"]
        wide = np.result_type(x.dtype, np.float32)
        result = np.empty((len(starts) - 1, updates.shape[1]), x.dtype)
        sources = (updates[order].astype(wide), near, far)
        for row in range(len(result)):
            first = np.broadcast_to(x, result.shape)[row].astype(wide)
            parts = _parts(sources, int(starts[row]), int(starts[row + 1]), length)
            result[row] = _combined(np.stack([first, *parts]), combine).astype(x.dtype)
        return result


def _parts(sources: Sequence[Array], first: int, last: int, length: int) -> list[Array]:
    """The rows of the first source from `first` to `last`, whole blocks of `length` as one row of those behind."""
    own, *others = sources
    near_first, near_last = -(-first // length), last // length
    if not others or near_first >= near_last:
        return list(own[first:last])
    between = _parts(others, near_first, near_last, length)
    return [*own[first : near_first * length], *between, *own[near_last * length : last]]


@tensor_op
class WriteRowsOp(ScatterOp):
    """`x` (rows, n) with `updates` (number, n) as the rows at `places` (number,; i32), which are different. Updates of
    places that are no row are left out."""

    name = "runs.write"
    HAS_FUNCTION: ClassVar[bool] = False
    HAS_DISTINCT_TARGETS: ClassVar[bool] = True
    PROMOTED: ClassVar[tuple[str, ...] | None] = ()
    traits = traits_def(Pure(), NoGradient())
    x = operand_def(STORED_TENSOR)
    places = operand_def(INTEGER_TENSOR)
    updates = operand_def(STORED_TENSOR)
    result = result_def(STORED_TENSOR)

    @staticmethod
    def target(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> tuple[Value, ...]:
        return as_index(operands[1].read_inside(index[0])), index[1]

    @staticmethod
    def combine(old: Any, new: Any, **settings: Any) -> Any:
        return new

    @classmethod
    def replaces(cls, **settings: Any) -> bool:
        return True


def combined_in_runs(x: Value, rows: int, places: Value, updates: Value, combine: str) -> Value:
    """`x` (rows, n), or one number (1, 1) for all elements of that, with each row of `updates` (number, n) combined at
    its one of `places` (number,; i32), which are less than `rows`, or equal to it where an update is left out."""
    order = _Sorted.of(rows, places)
    starts = _first_from(order.places, rows)
    return order.combined(x, starts, updates, combine)


def combined_in_place(x: Value, places: Value, updates: Value, combine: str) -> Value:
    """The same, where rows of `x` without updates are not touched: those with some are computed apart."""
    rows, number = x.shape[0], places.shape[0]
    order = _Sorted.of(rows, places)
    before = ops.concatenate([ops.full((1,), -1, i32), order.places[:-1]], axis=0)
    starts = _first_from(ops.cumsum(ops.cast(order.places != before, dtype=i32)) - 1, number)
    found = ops.gather(order.places, starts[:-1], axis=0)
    # There are as many places as runs at most; what is beyond has no update.
    own = ops.select(starts[:-1] < number, found, rows)
    combined = order.combined(ops.gather(x, own, axis=0), starts, updates, combine)
    return WriteRowsOp.apply(x, own, combined)


@dataclass(frozen=True)
class _Sorted:
    """The numbers of updates, sorted by place, in blocks of `length`."""

    rows: int
    places: Value
    order: Value

    @staticmethod
    def of(rows: int, places: Value) -> _Sorted:
        (number,) = places.shape
        pair = sorted_pairs(ops.reshape(places, shape=(1, number)), rows)
        return _Sorted(rows, *[ops.reshape(value, shape=(number,)) for value in pair])

    def combined(self, x: Value, starts: Value, updates: Value, combine: str) -> Value:
        """Rows of `x` with the updates of runs that begin at `starts`."""
        # A thread goes through a block of each kind at both ends of a run, and through as many of the largest.
        length = max(_SHORTEST, 1 << (updates.shape[0].bit_length() + 1) // 3)
        settings: Any = {"length": length, "combine": combine}
        near = NearTotalsOp.apply(self.places, self.order, updates, rows=self.rows, **settings)
        far = FarTotalsOp.apply(self.places, near, rows=self.rows, **settings)
        return CombineRunsOp.apply(x, starts, self.order, updates, near, far, **settings)


def _first_from(numbers: Value, count: int) -> Value:
    """Where in sorted `numbers` those from 0, ..., `count` on begin (count + 1,; i32)."""
    return ops.cast(ops.searchsorted(numbers, ops.iota(shape=(count + 1,), dtype=i32)), dtype=i32)


__all__ = ["CombineRunsOp", "FarTotalsOp", "NearTotalsOp", "WriteRowsOp", "combined_in_place", "combined_in_runs"]
