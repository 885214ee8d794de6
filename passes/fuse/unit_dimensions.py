"""Let elementwise ops, reductions and slices run over the dimensions of size 1 that their neighbours have.

A slice `x[:, 0]` is one of n x 1, which a reshape makes n, and `stack` joins reshapes to n x 1. They move nothing, but
part what is computed on both sides of them, so that `fuse` would make several kernels of it:

    %s = tenon.slice %x            : nx1             %s = tenon.slice %x        : nx1
    %r = tenon.reshape %s          : n           ->  %e = tenon.exp %s          : nx1
    %e = tenon.exp %r              : n               %c = tenon.concatenate %e, %t
    %w = tenon.reshape %e          : nx1
    %c = tenon.concatenate %w, %t

All ops that hand each other values of one shape, or slices of them, change together, to have the dimensions of size 1
that most reshapes beside them have on their other side, if these are more than the neighbours that have the values as
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import KeepsMemory, KnownValue, states
from tenon.dialects.families import IndexMapOp, ReductionOp
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import is_known
from tenon.passes.fuse.dimensions import Reshapes, is_cut, known_shape
from tenon.passes.iteration import axes_of, iteration_of

Shape = tuple[int, ...]
Origins = tuple[int | None, ...]


def adopt_unit_dimensions(block: Block) -> bool:
    """Rewrite the ops of a block; whether something changed."""
    reshapes = Reshapes(block)
    if not sum([_Alike(operations).change(reshapes) for operations in _in_classes(block)]):
        return False
    for op in block.ops:
        if not states(op, KeepsMemory):
            op.operands = [
                reshapes.in_shape(x, known_shape(x)) if states(x.owner, KeepsMemory) and _is_fixed(x) else x
                for x in op.operands
            ]
    return True


def _is_fixed(value: SSAValue) -> bool:
    """Whether no dimension is one that only the launch tells."""
    return is_known(value.type) and not any(isinstance(size, Size) for size in known_shape(value))


def _in_classes(block: Block) -> list[list[TensorOp]]:
    """The ops that can change, those that hand each other values of one shape together."""
    parents: dict[SSAValue, SSAValue] = {}

    def find(value: SSAValue) -> SSAValue:
        while (parent := parents.setdefault(value, value)) is not value:
            parents[value] = value = parents.setdefault(parent, parent)
        return value

    operations = [
        op
        for op in block.ops
        if isinstance(op, TensorOp) and (is_cut(op) or _is_slice(op)) and all(map(_is_fixed, op.operands))
    ]
    members = set(operations)
    for op in operations:
        first, *others = _whole(op)
        if isinstance(op, IndexMapOp) and op.operands[0].owner in members:
            others.append(op.operands[0])
        for value in others:
            parents[find(value)] = find(first)
    classes: dict[SSAValue, list[TensorOp]] = {}
    for op in operations:
        classes.setdefault(find(_whole(op)[0]), []).append(op)
    return list(classes.values())


def _is_slice(op: TensorOp) -> bool:
    """Whether `op` moves elements along its dimensions, of which those of size 1 have it on both sides."""
    if not isinstance(op, IndexMapOp) or not is_known(op.operands[0].type) or not is_known(op.results[0].type):
        return False
    source, result = known_shape(op.operands[0]), known_shape(op.results[0])
    if (
        len(source) != len(result)
        or 0 in result
        or any((a == 1) != (b == 1) for a, b in zip(source, result, strict=True))
    ):
        return False
    return op.spread(range(len(source))) is not None


def _whole(op: Operation) -> list[SSAValue]:
    """The values that have all dimensions that `op` runs over, that of which these are said first."""
    first, *others = op.operands if isinstance(op, ReductionOp) else (*op.results, *op.operands)
    # Each op has its own copy of a constant.
    alike = [x for x in others if known_shape(x) == known_shape(first) and not states(x.owner, KnownValue)]
    return [first, *alike]


def _is_reshaped(value: SSAValue) -> bool:
    """Whether `value` is made or used by a reshape."""
    return states(value.owner, KeepsMemory) or any(states(use.operation, KeepsMemory) for use in value.uses)


def _long(shape: Sequence[int]) -> list[int]:
    """The sizes that are not 1."""
    return [size for size in shape if size != 1]


def _shares_loops(op: Operation | Block, block: Block | None) -> bool:
    """Whether `op` is one of a block whose loops others can share."""
    if not isinstance(op, TensorOp) or op.parent is not block or states(op, KeepsMemory):
        return False
    return all(is_known(value.type) for value in (*op.operands, *op.results)) and iteration_of(op) is not None


class _Alike:
    """Ops that hand each other values of one shape, or slices of them: of one rank, and the same dimensions of size 1.

    Their shapes with others are told by the dimension that each is now, or `None` for one of size 1.
    """

    def __init__(self, operations: Sequence[TensorOp]) -> None:
        self._operations = list(operations)
        self._members = set(operations)
        self._block = operations[0].parent
        self._shape = known_shape(_whole(operations[0])[0])
        moved = [op.operands[0] for op in operations if isinstance(op, IndexMapOp)]
        self._values = dict.fromkeys([*(value for op in operations for value in _whole(op)), *moved])

    def change(self, reshapes: Reshapes) -> bool:
        """Let the ops run over other dimensions of size 1, if that is better."""
        found: Counter[Origins] = Counter()
        if not any(map(_is_reshaped, self._values)):
            return False
        for value in self._values:
            found.update(self._before(value))
            found.update(self._behind(value))
        own = self._origins(self._shape)
        best, count = max(found.items(), key=lambda item: item[1], default=(own, 0))
        if best == own or count <= found[own] + self._parted(best) or not self._can_have(best):
            return False
        for op in self._operations:
            operands = [reshapes.in_shape(value, self._in(best, known_shape(value))) for value in op.operands]
            settings = op.settings
            if isinstance(op, ReductionOp):
                settings = {**settings, "axis": self._axes(best, op)}
            elif isinstance(op, IndexMapOp):
                settings = op.spread(best) or settings
            reshapes.rebuild(op, operands, settings)
        return True

    # --- what the neighbours have -------------------------------------------------------------------------------------

    def _before(self, value: SSAValue) -> Iterator[Origins]:
        """The dimensions with which an op in front of these has `value`."""
        source = value
        while isinstance(source.owner, Operation) and states(source.owner, KeepsMemory):
            (source,) = source.owner.operands
        is_own = source is value and value.owner in self._members and not isinstance(value.owner, ReductionOp)
        if not is_own and _shares_loops(source.owner, self._block) and is_known(source.type):
            yield from self._alike(known_shape(source), value)

    def _behind(self, value: SSAValue) -> Iterator[Origins]:
        """The dimensions with which ops behind these have `value`."""
        for shape in self._shapes_behind(value):
            yield from self._alike(shape, value)

    def _shapes_behind(self, value: SSAValue) -> Iterator[Shape]:
        for use in value.uses:
            user = use.operation
            if states(user, KeepsMemory):
                yield from self._shapes_behind(user.results[0])
            elif _shares_loops(user, self._block) and not (user in self._members and value in self._values):
                is_whole = not is_cut(user) or known_shape(value) == known_shape(_whole(user)[0])
                if is_whole or value in self._values:
                    yield known_shape(value)

    def _alike(self, shape: Shape, value: SSAValue) -> Iterator[Origins]:
        """The dimensions of `shape`, if it has the same elements as `value`."""
        if _long(shape) == _long(known_shape(value)):
            yield self._origins(shape)

    def _parted(self, origins: Origins) -> int:
        """How many operands that are repeated would be parted from what computes them."""
        return sum(
            self._in(origins, known_shape(value)) != known_shape(value) and _shares_loops(value.owner, self._block)
            for op in self._operations
            for value in op.operands
            if value not in self._values
        )

    # --- the same in another shape ------------------------------------------------------------------------------------

    def _origins(self, shape: Shape) -> Origins:
        """For each dimension of `shape` the one that it is now, or `None` where it is of size 1."""
        axes = iter([axis for axis, size in enumerate(self._shape) if size != 1])
        return tuple([None if size == 1 else next(axes) for size in shape])

    def _in(self, origins: Origins, operand: Shape) -> Shape:
        """The shape of an operand that has `operand` now."""
        missing = len(self._shape) - len(operand)
        found = [1 if axis is None or axis < missing else operand[axis - missing] for axis in origins]
        if missing:
            first = next((axis for axis, size in enumerate(found) if size != 1), len(found))
            found = found[first:]
        return tuple(found)

    def _axes(self, origins: Origins, op: ReductionOp) -> tuple[int, ...]:
        """The axes of a reduction, and, where it leaves out what it reduces, all that its result does not have."""
        axes, keeps = axes_of(op), op.settings["keepdims"]
        return tuple([n for n, axis in enumerate(origins) if axis in axes or (axis is None and not keeps)])

    def _can_have(self, origins: Origins) -> bool:
        """Whether no reduction is left without an axis."""
        return all(self._axes(origins, op) for op in self._operations if isinstance(op, ReductionOp))
