"""`convolution-forms`: gives convolutions the forms that run faster, the same sums over loops that vectors fill.

Before: tensor ops, decomposed. After: the same, where each `tenon.convolution`, and each contraction that is the
gradient of a convolution's weight, has the form that is fastest on the machine: a product over channels along all of an
image where windows have one element, vectors along channels (`channel_lanes` for channels by themselves,
`weight_gradient`), windows as columns of a matrix (`window_columns`), vectors along filters (`filter_lanes`), minimal
filtering (`minimal_filtering`), blocks as channels where windows are whole blocks, a convolution for each place between
two windows, all rows of an image one behind the other, or, with `matrices`, products of matrices along channels that
come last (`channels_last`, `weight_gradient_products`). Vectors run along the last spatial dimension otherwise, where
neighbours must be neighbours in memory, and many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, Value, inserting, ops
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.contract.convolution import ConvolutionOp
from tenon.dialects.ops.contract.transposed_phases import LITTLE_WORK, MOST_PHASES
from tenon.dialects.ops.contract.windows import Sizes, Windows, moved, places, scaled, stepped
from tenon.dialects.types.size import Size, estimate
from tenon.dialects.types.types import is_known
from tenon.passes.layout.channel_lanes import channel_lanes
from tenon.passes.layout.channels_last import channels_last, products_of_channels
from tenon.passes.layout.filter_lanes import filter_lanes
from tenon.passes.layout.forms import contracted, image_around, within
from tenon.passes.layout.minimal_filtering import minimal_filtering
from tenon.passes.layout.weight_gradient import WeightGradient, weight_gradient_by_channels
from tenon.passes.layout.weight_gradient_products import weight_gradient_of_few_channels, weight_gradient_products
from tenon.passes.layout.window_columns import window_columns
from tenon.passes.machine import Machine

FEWEST_FILTERS = 8
"""Filters that read what is split by phases often enough for that to pay."""
MOST_PADDING = 4
"""Windows are filled up to whole blocks by at most one of so many taps."""


@dataclass(frozen=True)
class ConvolutionFormsPass(ModulePass):
    """Give convolutions the forms that are faster on the `machine` (text, see `Machine`). With `filtering`, they may
    become ones by minimal filtering, where an infinity or a NaN reaches a few rows more. With `matrices`, those of f16
    and bf16 become products of matrices with channels last, and no vectors run along filters: threads of a GPU do not
    load them together."""

    name = "convolution-forms"
    filtering: bool = True
    machine: str = ""
    matrices: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target(Machine.of_option(self.name, self.machine), self.filtering, self.matrices)
        pending = [inner for inner in op.walk() if type(inner) in _FORMS]
        while pending:
            pending += _give_form(pending.pop(), target)


@dataclass(frozen=True)
class Target:
    """What the forms are for: a machine, whether there may be minimal filtering, and whether halves are multiplied as
    matrices."""

    machine: Machine
    filtering: bool = True
    matrices: bool = False

    @property
    def narrow(self) -> int:
        """Windows along the last dimension below which vectors are filled badly: one and a half vectors."""
        return self.machine.lanes * 3 // 2


def _give_form(op: Operation, target: Target) -> list[Operation]:
    """Replace `op` by the form that is faster, if there is one; the ops in it that may have faster ones themselves."""
    block, before = op.parent, op.prev_op
    assert block is not None
    if not all(is_known(value.type) for value in op.operands):
        return []
    with inserting(InsertionPoint(block, op)):
        form = _FORMS[type(op)](op, target)
    if form is None:
        return []
    added: list[Operation] = []
    current = block.first_op if before is None else before.next_op
    while current is not None and current is not op:
        current.location = op.location
        added.append(current)
        current = current.next_op
    form.ssa.name_hint = form.ssa.name_hint or op.results[0].name_hint
    op.results[0].replace_all_uses_with(form.ssa)
    Rewriter.erase_op(op)
    return [new for new in added if type(new) in _FORMS]


def _form_of_convolution(op: Any, target: Target) -> Value | None:
    x, weight = map(Value, op.operands)
    settings = op.settings
    if any(isinstance(size, Size) for size in (*x.shape[1:], *weight.shape)):
        return None
    return faster_form(x, weight, Windows.of(weight.shape[3:], settings["stride"], (0,), settings["dilation"]), target)


def _form_of_weight_gradient(op: Any, target: Target) -> Value | None:
    gradient = WeightGradient.of(tuple(map(Value, op.operands)), op.settings["maps"], op.settings["extents"])
    if gradient is None or gradient.work < LITTLE_WORK:
        return None
    for form in (weight_gradient_of_few_channels, weight_gradient_products) if target.matrices else ():
        if (found := form(gradient)) is not None:
            return found
    return weight_gradient_by_channels(gradient, target.machine, panels=not target.matrices)


# The subject of these rewrites are convolutions: a contraction is one where its maps are those of the gradient of a
# weight.
_FORMS: dict[type[Operation], Callable[[Any, Target], Value | None]] = {
    ConvolutionOp: _form_of_convolution,
    ContractOp: _form_of_weight_gradient,
}


def faster_form(x: Value, weight: Value, windows: Windows, target: Target) -> Value | None:
    """The convolution of `x` (n, groups, c, ...image) in another form where that is faster, else `None`."""
    counts = windows.counts(x.shape[3:])
    if not counts or prod((estimate(x.shape[0]), *weight.shape, *counts)) < LITTLE_WORK:
        return None
    are_single = prod(windows.size) == prod(windows.stride) == 1
    if target.matrices:
        by_points = products_of_channels(x, weight, counts) if are_single else None
        product_form = by_points if by_points is not None else channels_last(x, weight, windows, counts)
        if product_form is not None:
            return product_form
    if are_single:
        return _of_single_elements(x, weight, counts)
    if weight.shape[1:3] == (1, 1) and not target.matrices:
        # Each element of an image serves one filter: another order of them costs more than lanes left empty.
        return channel_lanes(x, weight, windows, counts, target.machine)
    for form in () if target.matrices else (window_columns, filter_lanes):
        if (found := form(x, weight, windows, counts, target.machine)) is not None:
            return found
    if target.filtering and (filtered := minimal_filtering(x, weight, windows, counts)) is not None:
        return filtered
    blocks = _blocks(windows)
    is_rest_plain = blocks == tuple(windows.stride) or counts[-1] >= target.narrow
    if weight.shape[1] >= FEWEST_FILTERS and prod(blocks) > 1 and is_rest_plain:
        return _by_blocks(x, weight, windows, counts, blocks)
    steps = 1 < windows.stride[-1] <= MOST_PHASES and windows.dilation[-1] == 1
    pays = steps and weight.shape[1] >= FEWEST_FILTERS
    columns = counts[-1]
    if not target.matrices:
        found = filter_lanes(x, weight, windows, counts, target.machine, otherwise=False)
        if found is not None:
            return found
    if len(counts) > 1 and columns < target.narrow and counts[-2] > 1 and _fit_in_one_row(windows, pays):
        return _along_rows(x, weight, windows, counts)
    if pays:
        return _by_phases(x, weight, windows, columns)
    return None if target.matrices else _of_slice(x, weight, windows, counts)


def _of_slice(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value | None:
    """The convolution of a slice of an image as one of the image, which its slices share; `None` where x is none, or
    columns would be no neighbours."""
    image, starts, steps = image_around(x)
    if image.ssa is x.ssa or steps[-1] * windows.stride[-1] != 1:
        return None
    extents = (x.shape[0], *weight.shape[:2], *counts, *weight.shape[2:])
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    (n, group, f), out, channel, tap = d[:3], d[3 : 3 + len(counts)], d[3 + len(counts)], d[4 + len(counts) :]
    place = within((n, group, channel, *places(out, tap, windows.stride, windows.dilation)), starts, steps)
    return contracted(extents, [(image, place), (weight, (group, f, channel, *tap))], (n, group, f, *out))


def _of_single_elements(x: Value, weight: Value, counts: Sizes) -> Value:
    """A product over channels, along all of an image at once."""
    n, groups, c, *image = x.shape
    extents = (n, groups, weight.shape[1], prod(image), c)
    d = [AffineExpr.dimension(i) for i in range(len(extents))]
    tap = [AffineExpr.constant(0)] * len(image)
    row = ops.reshape(x, shape=(n, groups, c, prod(image)))
    total = contracted(extents, [(row, (d[0], d[1], d[4], d[3])), (weight, (d[1], d[2], d[4], *tap))], d[:4])
    return ops.reshape(total, shape=(*extents[:3], *counts))


def _fit_in_one_row(windows: Windows, splitting_pays: bool) -> bool:
    """Whether the rows of an image, or of its phases, can be one behind the other."""
    if windows.stride[-2:] == (1, 1):
        return True
    return splitting_pays and windows.stride[-2] <= MOST_PHASES and windows.dilation[-2:] == (1, 1)


def _blocks(windows: Windows) -> Sizes:
    """How many places along each dimension make a block: as many as windows step, if windows are whole blocks (along
    the last dimension, nearly so), else 1."""
    last = len(windows.size) - 1
    return tuple(
        [
            step if gap == 1 and (size % step == 0 or (i == last and MOST_PADDING * (-size % step) <= size)) else 1
            for i, (size, step, gap) in enumerate(zip(windows.size, windows.stride, windows.dilation, strict=True))
        ]
    )


def _by_blocks(x: Value, weight: Value, windows: Windows, counts: Sizes, steps: Sizes) -> Value:
    """A convolution whose channels are the places in a block of each channel, and whose windows step from block to
    block: those that do not overlap become a product of matrices."""
    taps = [-(-size // step) for size, step in zip(windows.size, steps, strict=True)]
    blocks = [
        size if step == 1 else count + n - 1
        for size, step, count, n in zip(x.shape[3:], steps, counts, taps, strict=True)
    ]
    return ops.convolution(
        _blocks_as_channels(x, blocks, steps),
        _blocks_as_channels(weight, taps, steps),
        stride=tuple([whole // step for whole, step in zip(windows.stride, steps, strict=True)]),
        dilation=windows.dilation,
    )


def _blocks_as_channels(value: Value, blocks: Sequence[int], steps: Sequence[int]) -> Value:
    """(a, b, channels, ...sizes), cut or filled up, as (a, b, channels * places in a block, ...blocks)."""
    *outer, channels = value.shape[:3]
    rest = tuple([many * step - size for many, step, size in zip(blocks, steps, value.shape[3:], strict=True)])
    value = moved(value, (0,) * len(rest), rest)
    split = [size for pair in zip(blocks, steps, strict=True) for size in pair]
    along, within = range(3, 3 + len(split), 2), range(4, 3 + len(split), 2)
    value = ops.transpose(ops.reshape(value, shape=(*outer, channels, *split)), permutation=(0, 1, 2, *within, *along))
    return ops.reshape(value, shape=(*outer, channels * prod(steps), *blocks))


def _by_phases(x: Value, weight: Value, windows: Windows, count: int) -> Value:
    """One convolution for each place between two windows: there, windows of every so many columns start one apart."""
    step, taps = windows.stride[-1], windows.size[-1]
    total: Value | None = None
    for phase in range(min(step, taps)):
        part = stepped(weight, weight.ndim - 1, phase, step, -(-(taps - phase) // step))
        image = stepped(x, x.ndim - 1, phase, step, count + part.shape[-1] - 1)
        term = ops.convolution(image, part, stride=(*windows.stride[:-1], 1), dilation=windows.dilation)
        total = term if total is None else total + term
    assert total is not None
    return total


def _along_rows(x: Value, weight: Value, windows: Windows, counts: Sizes) -> Value:
    """All rows of an image as one: what windows across the end of a row give is computed, too, and left out. Where
    windows step, there is such an image for each place between two of them."""
    images, width = _one_row_each(x, windows, counts)
    steps = zip(windows.stride[-2:], windows.size[-2:], strict=True)
    total: Value | None = None
    for phase in product(*[range(min(step, taps)) for step, taps in steps]):
        term = _phase_along_rows(images, weight, windows, counts, width, phase)
        total = term if total is None else total + term
    assert total is not None
    return ops.sliding_windows(total, window=(counts[-1],), stride=(width,))


def _one_row_each(x: Value, windows: Windows, counts: Sizes) -> tuple[Value, int]:
    """`x` (n, groups, ..., height, width) as (n, groups, places between two windows, ..., rows one behind the other),
    and the length of one of these rows."""
    n, groups, *outer, height, width = x.shape
    if windows.stride[-2:] == (1, 1):
        return ops.reshape(x, shape=(n, groups, 1, *outer, height * width)), width
    down, along = windows.stride[-2:]
    rows = counts[-2] + (windows.size[-2] - 1) // down
    columns = counts[-1] + (windows.size[-1] - 1) // along
    split = moved(x, (0, 0), (rows * down - height, columns * along - width))
    split = ops.reshape(split, shape=(n, groups, *outer, rows, down, columns, along))
    behind = 2 + len(outer)
    kept = range(2, behind)
    split = ops.transpose(split, permutation=(0, 1, behind + 1, behind + 3, *kept, behind, behind + 2))
    return ops.reshape(split, shape=(n, groups, down * along, *outer, rows * columns)), columns


def _phase_along_rows(
    images: Value, weight: Value, windows: Windows, counts: Sizes, width: int, phase: tuple[int, ...]
) -> Value:
    """What the elements of windows at one place between two of them add, for `images` of rows of `width`."""
    rank, steps, gaps = len(counts), windows.stride[-2:], windows.dilation[-2:]
    places_along = (counts[-2] - 1) * width + counts[-1]
    inside = [-(-(size - at) // step) for size, at, step in zip(windows.size[-2:], phase, steps, strict=True)]
    extents = (*images.shape[:2], weight.shape[1], *counts[:-2], places_along, *weight.shape[2:-2], *inside)
    n, groups, f, *rest = [AffineExpr.dimension(i) for i in range(len(extents))]
    out, c, taps, (row, column) = rest[: rank - 1], rest[rank - 1], rest[rank:-2], rest[-2:]
    outer = places(out[:-1], taps, windows.stride[:-2], windows.dilation[:-2]) if rank > 2 else ()
    place = out[-1] + row * (gaps[0] * width) + scaled(column, gaps[1])
    at = AffineExpr.constant(phase[0] * steps[1] + phase[1])
    tap = [
        scaled(i, step) + start if start else scaled(i, step)
        for i, step, start in zip((row, column), steps, phase, strict=True)
    ]
    factors = [(images, (n, groups, at, c, *outer, place)), (weight, (groups, f, c, *taps, *tap))]
    return contracted(extents, factors, (n, groups, f, *out))
