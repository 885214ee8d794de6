"""What the `batch` hooks of ops are written with: values that hold several examples, along a new first dimension.

An operand that is batched has the shape (size, *shape) where each example has `shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.types.shapes import normalize_axes, normalize_axis


def example_shape(x: Value, is_batched: bool) -> tuple[int, ...]:
    """The shape that `x` has for each example."""
    return x.shape[1:] if is_batched else x.shape


def stacked(x: Value, size: int) -> Value:
    """`x`, which is the same for every example, repeated for `size` of them."""
    return ops.broadcast_to(x, shape=(size, *x.shape))


def all_batched(size: int, batched: Sequence[bool], operands: Sequence[Value]) -> list[Value]:
    """The operands with those that are not batched repeated."""
    return [x if known else stacked(x, size) for x, known in zip(operands, batched, strict=True)]


def aligned(x: Value, is_batched: bool, rank: int) -> Value:
    """`x` with dimensions of size 1 behind the examples, so that it broadcasts as an example of `rank` would."""
    missing = rank + 1 - x.ndim
    return ops.expand_dims(x, axis=tuple(range(1, 1 + missing))) if is_batched and missing > 0 else x


def aligned_operands(batched: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Operands, in groups, that broadcast as their examples do; an absent one stays `None`."""
    groups = [(o, b) for o, b in zip(operands, batched, strict=True) if o is not None]
    given = list(zip(flat(o for o, _ in groups), flat(b for _, b in groups), strict=True))
    rank = max(len(example_shape(x, known)) for x, known in given)
    values = iter([aligned(x, known, rank) for x, known in given])
    return map_grouped(lambda _: next(values), operands)


def shifted_axes(axis: Any, rank: int) -> Any:
    """The setting `axis` (one, several, or `None` for all) of examples of `rank` as one of batched operands."""
    if isinstance(axis, int):
        return normalize_axis(axis, rank) + 1
    return tuple([a + 1 for a in normalize_axes(axis, rank)])


def moved_axis(x: Value, source: int, target: int) -> Value:
    """`x` with its axis `source` moved to `target`, the others in their order."""
    if source == target:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(target, source)
    return ops.transpose(x, permutation=tuple(order))


def along_shifted_axis(op: Any, x: Value, settings: dict[str, Any]) -> Any:
    """The op of class `op` on the batched operand `x`, where it works along the setting `axis` of each example."""
    return op.apply(x, **{**settings, "axis": shifted_axes(settings["axis"], x.ndim - 1)})


def along_first_axis(op: Callable[..., Any], size: int, operands: Sequence[Value]) -> Any:
    """The results of `op` on batched operands, whose first axis has what it treats alike: examples join those."""
    results = op(*[ops.reshape(x, shape=(size * x.shape[1], *x.shape[2:])) for x in operands])
    several = results if isinstance(results, tuple) else (results,)
    return tuple([ops.reshape(v, shape=(size, operands[0].shape[1], *v.shape[1:])) for v in several])
