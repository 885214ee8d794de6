"""Padding: what surrounds a tensor is a number, or continues it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.keywords import Meaning
from tenon.dialects.definition.operands import shaped
from tenon.dialects.definition.promotion import cast_literal
from tenon.dialects.definition.scalar import emit_scalar, index_constant
from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import IndexingOp, LoopOp
from tenon.dialects.families.linalg_builders import Reader, clamp, filled, generic, inside, static_shape
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import STORED_TENSOR, element_of, shape_of, tensor_type

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import PatternRewriter

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _by_pairs(operands: list[Any], settings: dict[str, Any], width: Any) -> None:
    """`pad_width`: NumPy's pairs (before, behind), one for each axis or for all, or one number for all."""
    if twice := settings.keys() & {"low", "high"}:
        raise TypeError(f"tenon.pad: pad_width is given beside {' and '.join(sorted(twice))}")
    rank = shaped(operands[0]).ndim
    try:
        pairs = np.broadcast_to(np.asarray(width), (rank, 2))
    except ValueError:
        pairs = np.zeros(0)
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"tenon.pad: pad_width is {width!r} where a pair of integers for each of {rank} axes is needed")
    settings.update(low=tuple(pairs[:, 0].tolist()), high=tuple(pairs[:, 1].tolist()))


@tensor_op
class PadOp(IndexingOp):
    """`x` with `low[i]` elements before it and `high[i]` behind it along each axis i; negative numbers cut off first.

    By `mode` they are `value` (constant), the nearest element (edge), `x` mirrored at its first and last element
    (reflect) or behind them (symmetric), or `x` repeated (wrap), as in NumPy. In integers `value` is limited to their
    range, so that -inf stands for the least one. `pad_width` in their place, or the second of two arguments by
    position, is what NumPy takes: pairs for each axis, a pair for all, or a number.

    >>> x, modes = np.array([1, 2, 3]), ("edge", "reflect", "symmetric", "wrap")
    >>> tenon.pad(x, (2,), (-1,), value=9)
    >>> np.stack([tenon.pad(x, (2,), (2,), mode=mode) for mode in modes])
    """

    name = "tenon.pad"
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {"pad_width": _by_pairs, "constant_values": "value"}
    x = operand_def(STORED_TENSOR)
    low = setting(tuple, default=None)
    high = setting(tuple, default=None)
    value = setting(float, default=0.0)
    mode = setting(str, default="constant", choices=MODES)
    result = result_def(STORED_TENSOR)

    @classmethod
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(args) == 2 and "high" not in kwargs:
            args, kwargs = args[:1], {**kwargs, "pad_width": args[1]}
        return super().bind(args, kwargs)

    @staticmethod
    def check(**settings: Any) -> None:
        low, high = settings["low"], settings["high"]
        if low is None or high is None:
            raise InferenceError(f"{'low' if low is None else 'high'} is missing")
        if len(low) != len(high):
            raise InferenceError(f"low {low} and high {high} must have one number for each axis")

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        (x,) = operands
        low, high, shape = settings["low"], settings["high"], shape_of(x)
        if shape is None:
            return tensor_type((-1,) * len(low), element_of(x))
        if len(shape) != len(low):
            raise InferenceError(f"x has rank {len(shape)}, and low {low} has {len(low)} entries")
        for axis, (size, before, behind) in enumerate(zip(shape, low, high, strict=True)):
            if 0 <= size < -(before + behind) or 0 <= size < max(-before, -behind):
                raise InferenceError(f"axis {axis} of size {size} is too short for low {before} and high {behind}")
            if size + min(before, 0) + min(behind, 0) == 0 < max(before, behind) and settings["mode"] != "constant":
                raise InferenceError(f"axis {axis} has no elements that mode {settings['mode']!r} could continue")
        sizes = [-1 if size < 0 else size + a + b for size, a, b in zip(shape, low, high, strict=True)]
        return tensor_type(tuple(sizes), element_of(x))

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any]:
        settings = self.settings
        return settings | {name: tuple([settings[name][axis] for axis in order]) for name in ("low", "high")}

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        """Where windows read the result, `value` everywhere and then `x` in its place: neither asks for each element
        whether it is inside."""
        (x,) = operands
        settings, shape = self.settings, static_shape(x)
        low, high = settings["low"], settings["high"]
        users = [use.operation for use in self.results[0].uses]
        is_kept = bool(users) and all(isinstance(user, LoopOp) for user in users)
        is_around = all(before > 0 <= behind or before == behind == 0 for before, behind in zip(low, high, strict=True))
        if not is_kept or settings["mode"] != "constant" or not is_around or 0 in shape:
            # An index that is a loop runs over the whole dimension, so that what only stands behind needs other means.
            return super().structured(operands)
        element, rank = element_of(x.type), len(shape)
        around = filled(static_shape(self.results[0]), element, cast_literal(settings["value"], element))
        place = [
            AffineExpr.dimension(i) + before if before else AffineExpr.dimension(i) for i, before in enumerate(low)
        ]
        inputs = [(x, AffineMap.identity(rank))]
        outputs = [(around, AffineMap(rank, 0, tuple(place)))]
        return generic(inputs, outputs, [False] * rank, lambda values, _: values)

    def surrounds(self) -> bool:
        settings = self.settings
        return settings["mode"] == "constant" and min((*settings["low"], *settings["high"]), default=0) >= 0

    def moves_ranges(self) -> bool:
        return self.settings["mode"] == "constant"

    @staticmethod
    def element(index: tuple[Value, ...], *operands: Reader, **settings: Any) -> Any:
        (x,) = operands
        low, high, mode = settings["low"], settings["high"], settings["mode"]
        if mode != "constant":
            sides = zip(index, x.shape, low, high, strict=True)
            return x.read(*[_continued(i, size, before, behind, mode) for i, size, before, behind in sides])
        # As a float, the value would take integers to f32.
        value = cast_literal(settings["value"], x.element_type)
        if 0 in x.shape:
            return value
        place = [i - before if before else i for i, before in zip(index, low, strict=True)]
        result = x.read(*place)
        for i, size, before, behind in zip(place, x.shape, low, high, strict=True):
            if before > 0 or behind > 0:
                result = ops.select(inside(i, size), result, value)
        return result

    @staticmethod
    def vjp(
        g: Value, out: Value, x: Value, *, low: tuple[int, ...], high: tuple[int, ...], value: float, mode: str
    ) -> tuple[Any, ...]:
        if mode == "constant":
            if any(size < 0 for size in (*low, *high)):
                return (ops.pad(g, low=tuple([-size for size in low]), high=tuple([-size for size in high])),)
            limits = tuple([before + size for before, size in zip(low, x.shape, strict=True)])
            return (ops.slice(g, starts=low, limits=limits),)
        for axis, (size, before, behind) in enumerate(zip(x.shape, low, high, strict=True)):
            if before or behind:
                target = ops.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.element_type)
                g = ops.scatter_add(target, _sources(size, before, behind, mode), g, axis=axis)
        return (g,)

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        ends = {name: (0, *settings[name]) for name in ("low", "high")}
        return cls.apply(*operands, **{**settings, **ends})

    @staticmethod
    def canonicalize(op: Any, rewriter: PatternRewriter) -> None:
        """pad(x) -> x, where nothing is added or cut off"""
        if not any((*op.settings["low"], *op.settings["high"])) and op.x.type == op.result.type:
            rewriter.replace(op, (), (op.x,))


def _continued(index: Value, size: int, before: int, behind: int, mode: str) -> Value:
    """The place in `size` elements that is read for `index` of the result. What is cut off is cut off first."""
    cut = max(-before, 0)
    kept = size - cut - max(-behind, 0)
    place = index - before if before > 0 else index
    if before <= 0 and behind <= 0:
        inner = place
    elif mode == "edge":
        inner = clamp(place, kept)
    else:
        period = {"wrap": kept, "symmetric": 2 * kept, "reflect": max(2 * kept - 2, 1)}[mode]
        periods = -(-max(before, 0) // period)
        phase = emit_scalar(arith.RemUIOp, place + periods * period, index_constant(period))
        last = period if mode == "reflect" else period - 1
        inner = phase if mode == "wrap" else ops.minimum(phase, last - phase)
    return inner + cut if cut else inner


def _sources(size: int, before: int, behind: int, mode: Any) -> np.ndarray[Any, Any]:
    """For each place along a padded axis the place that it was read from."""
    kept = np.arange(max(-before, 0), size - max(-behind, 0))
    return np.pad(kept, (max(before, 0), max(behind, 0)), mode)
