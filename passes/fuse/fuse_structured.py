"""Fuse the elementwise generics inside kernels into the generics that use them.

Before: structured IR on tensors. After: the same values, from fewer `linalg.generic`s; only kernels have changed, and
in them only generics and the fills and empty tensors that nothing uses any more. What is done, per kernel:

Inline. A producer is a `linalg.fill`, or an all-parallel generic that writes each element of its result once (its
output map is a permutation of the loops) and does not read its init. It is inlined into a generic that reads its
result as an operand, by composing indexing maps, if no work is repeated:

- a body of any cost, if this is the only use of the producer, or all of them together are as many iterations as it
  has, and the consumer reads no element twice;
- a cheap body (at most 4 `arith` ops, casts not counted, no division, no region; or one element from where loops say),
  into each of its consumers, unless the producer must be kept anyway because it is also returned or read otherwise;
- where the consumer reads elements more than once, only a cheap body if the consumer is parallel, and only casts and
  plain copies if it reduces (a contraction), unless the body computes from indices alone and the consumer reads another
  operand but once.

A producer whose body asks for a loop index is inlined into a reduction only where that index is a loop or a constant.

Merge. Two elementwise generics over the same loops become one with the results of both, at the place of the later one,
if the later one reads a result of the earlier one, or both read the same tensor in the same way, and all other uses of
the earlier one come later still.

Read. An element that a loop takes from a fill is the number that it is filled with. With `loops`, one that it takes
from an elementwise generic is computed there, if only loops read this, each element once or a cheap one.

Tidy. Equal operands of a generic are passed once; operands and results that nothing uses are dropped, as long as the
others still tell the extents of all loops; inside the bodies that changed, equal ops are merged and dead ones erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, scf, tensor
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.type import get_element_type_or_self

from tenon.passes.fuse.cost import counted, is_cheap, is_light
from tenon.passes.fuse.generic_uses import GenericUses
from tenon.passes.fuse.generics import (
    Generic,
    element_at,
    erase,
    indices_are_known,
    map_indices,
    only_moves,
    read_generic,
    tidy_body,
    write_generic,
)

_MOVES = (arith.ConstantOp, linalg.ops.YieldOp)
_DESTINATIONS = (arith.ConstantOp, linalg.ops.FillOp, tensor.EmptyOp)


@dataclass(frozen=True)
class FuseStructuredPass(ModulePass):
    """Fuse elementwise generics into their consumers, inside kernels."""

    name = "fuse-structured"

    loops: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse inside every kernel of the module."""
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and "kernel" in function.attributes and function.body.blocks:
                fuse_generics(function.body.block)
                if self.loops:
                    compute_in_loops(function.body.block)


def fuse_generics(block: Block) -> None:
    """Fuse inside the kernel of this body."""
    _KernelFusion(block).run()


def compute_in_loops(block: Block) -> None:
    """Compute elements of elementwise generics where loops of this kernel read them."""
    for op in reversed(tuple(block.ops)):
        if isinstance(op, linalg.ops.GenericOp) and op.results and (reads := _reads_in_loops(op)):
            generic = read_generic(op, 0)
            if _is_computable(generic, reads):
                for read in reads:
                    value = element_at(generic, read.tensor, read.indices, read)
                    Rewriter.replace_op(read, [], [value])
                erase(op)
    _erase_unused_destinations(block)


class _KernelFusion:
    """Fuses the generics of one kernel, from the last to the first."""

    def __init__(self, block: Block):
        self._block = block
        _read_fills(block)
        self._uses = GenericUses(block)
        self._gathers = any(map(_gathers, self._uses.generics))

    def run(self) -> None:
        """Visit every generic once."""
        for generic in reversed(self._uses.generics):
            if self._uses.use_count(generic) == 0:
                self._uses.forget(generic)
        for generic in reversed(self._uses.generics):
            if not generic.is_gone:
                self._uses.collapse_inputs(generic)
                self._take_producers(generic)
                if self._merge_siblings(generic):
                    self._take_producers(generic)
        # Users first: the operands that they note are still those of the ops before.
        for generic in reversed(self._uses.generics):
            if generic.has_changed and not generic.is_gone:
                tidy_body(generic.block)
                self._uses.drop_unused(generic)
                write_generic(generic)
        for generic in reversed(self._uses.generics):
            if generic.is_gone:
                erase(generic.op)
        _erase_unused_destinations(self._block)

    # Inlining

    def _take_producers(self, consumer: Generic) -> None:
        """Inline or merge the producers of all operands, the latest first: then each is taken at most once."""
        refused: set[tuple[SSAValue, AffineMap]] = set()
        while True:
            position, index = max(
                ((self._position(operand[0]), i) for i, operand in enumerate(consumer.reads) if operand not in refused),
                default=(-1, -1),
            )
            if position < 0:
                return
            operand = consumer.reads[index]
            if not self._take_producer(consumer, index):
                refused.add(operand)

    def _position(self, value: SSAValue) -> int:
        """Where the producer of `value` is; -1 if there is none that could be taken."""
        producer = self._uses.producers.get(value)
        if isinstance(producer, Generic):
            return producer.position if producer.is_elementwise() else -1
        return 0 if producer is not None else -1

    def _take_producer(self, consumer: Generic, index: int) -> bool:
        value, map_ = consumer.reads[index]
        producer = self._uses.producers[value]
        if isinstance(producer, linalg.ops.FillOp):
            return self._inline_fill(producer, consumer, index)
        loops = producer.space.loops_at(producer.results.index(value), map_)
        return self._inline(producer, consumer, index, loops) or self._merge(producer, consumer, loops)

    def _inline_fill(self, fill: linalg.ops.FillOp, consumer: Generic, index: int) -> bool:
        if not self._extents_stay_told(consumer, index, (), fill.outputs[0]):
            return False
        scalar = fill.operands[0]
        if isinstance(scalar.owner, arith.ConstantOp):
            constant = scalar.owner.clone()
            _insert_first(consumer.block, [constant])
            scalar = constant.result
        self._uses.replace_input(consumer, index, scalar)
        return True

    def _inline(self, producer: Generic, consumer: Generic, index: int, loops: Sequence[AffineExpr]) -> bool:
        value = consumer.inputs[index]
        is_only_use = self._uses.use_count(producer) == 1
        if not self._repeats_no_work(producer, consumer, index, is_only_use):
            return False
        if not consumer.is_parallel and not indices_are_known(producer.block, loops):
            return False
        maps = self._partial_apart(producer, consumer, loops)
        destination = producer.outputs[producer.results.index(value)]
        if not self._extents_stay_told(consumer, index, maps, destination):
            return False
        taken = self._take_body(producer, consumer, loops, maps, move=is_only_use)
        result = producer.yielded(value)
        self._uses.replace_input(consumer, index, taken.get(result, result))
        if self._uses.use_count(producer) == 0:
            self._uses.forget(producer)
        return True

    def _partial_apart(
        self, producer: Generic, consumer: Generic, loops: Sequence[AffineExpr]
    ) -> tuple[AffineMap, ...]:
        """Where `producer` reads its inputs in terms of the loops of `consumer`.

        A loop that is an index by itself runs over the whole dimension; so a loop of one iteration is added to one that
        has become the index of a part of it, as where two reversals meet.
        """
        maps = producer.space.inside(loops, consumer.space).operands
        shapes = [value.type.get_shape() if isinstance(value.type, TensorType) else () for value in producer.inputs]
        extents = consumer.space.extents

        def is_part(place: AffineExpr, size: int) -> bool:
            return isinstance(place, AffineDimExpr) and extents[place.position] != size

        places = [
            [(place, is_part(place, size)) for place, size in zip(map_.results, sizes, strict=True)]
            for map_, sizes in zip(maps, shapes, strict=True)
        ]
        if not any(part for of_input in places for _, part in of_input):
            return maps
        single = self._uses.add_single_loop(consumer)
        indices = [tuple([place + single if part else place for place, part in of_input]) for of_input in places]
        return tuple([AffineMap(len(extents) + 1, 0, of_input) for of_input in indices])

    def _extents_stay_told(
        self, consumer: Generic, index: int, added: Sequence[AffineMap], destination: SSAValue
    ) -> bool:
        """Whether operands still tell all extents with `added` in the place of an input, of which `destination` has the
        shape: where it has no elements either, it stays to tell them."""
        rest = consumer.space.without(index)
        if replace(rest, operands=(*rest.operands, *added)).tells_extents():
            return True
        if not isinstance(destination.owner, tensor.EmptyOp):
            return False
        self._uses.add_input(consumer, destination, consumer.space.operands[index])
        return True

    def _repeats_no_work(self, producer: Generic, consumer: Generic, index: int, is_only_use: bool) -> bool:
        cheap = is_cheap(producer.block.ops) or only_moves(producer)
        is_kept_anyway = any(self._uses.other_uses.get(result) for result in producer.results)
        is_repeated = not is_only_use and not self._uses.read_once(producer)
        if is_repeated and (not cheap or is_kept_anyway):
            return False
        if not consumer.rereads(index):
            return True
        if self._gathers and consumer.is_parallel and _varies_innermost(consumer, index):
            # It is computed in vectors, in front of the loops that read it again, and stays near.
            return all(isinstance(op, _MOVES) for op in producer.block.ops)
        if consumer.is_parallel or not producer.inputs:
            # What follows from the indices alone is had as fast as an element of the other operands is read.
            return cheap and (consumer.is_parallel or not all(map(consumer.rereads, range(len(consumer.inputs)))))
        return not counted(producer.block.ops)

    def _take_body(
        self,
        producer: Generic,
        consumer: Generic,
        loops: Sequence[AffineExpr],
        maps: Sequence[AffineMap],
        *,
        move: bool,
    ) -> dict[SSAValue, SSAValue]:
        """Put the ops of `producer` in front of those of `consumer`; what its values are called there."""
        taken: dict[SSAValue, SSAValue] = {}
        for argument, value, map_ in zip(producer.block.args, producer.inputs, maps, strict=False):
            taken[argument] = self._uses.add_input(consumer, value, map_)
        ops: list[Operation] = []
        for op in tuple(producer.block.ops)[:-1]:
            if move:
                op.detach()
                ops.append(op)
            else:
                ops.append(op.clone(taken))
            for inner in ops[-1].walk():
                if isinstance(inner, tensor.ExtractOp):
                    self._uses.use_at(inner.tensor, consumer.position)
                    if move:
                        self._uses.other_uses[inner.tensor].remove(producer.position)
        if move:
            for old, new in taken.items():
                old.replace_all_uses_with(new)
        _insert_first(consumer.block, ops)
        for op in ops:
            map_indices(op, loops)
        consumer.has_changed = True
        return taken

    # Merging

    def _merge_siblings(self, later: Generic) -> bool:
        """Merge with earlier generics that read an operand in the same way. Returns whether there were any."""
        if not later.is_elementwise():
            return False
        result_count = len(later.results)
        identity = AffineMap.identity(len(later.space.extents)).results
        index = 0
        while index < len(later.inputs):
            value, map_ = later.reads[index]
            for earlier in tuple(self._uses.readers[value]):
                if (
                    not earlier.is_gone
                    and earlier.position < later.position
                    and earlier.space.extents == later.space.extents
                    and (value, map_) in earlier.reads
                    and self._uses.use_count(earlier) > 0
                    and earlier.is_elementwise()
                ):
                    self._merge(earlier, later, identity)
            index += 1
        return len(later.results) > result_count

    def _merge(self, earlier: Generic, later: Generic, loops: Sequence[AffineExpr]) -> bool:
        """Let `later` compute the results of `earlier` as well, if their loops are the same."""
        dims = [loop.position for loop in loops if isinstance(loop, AffineDimExpr)]
        if sorted(dims) != list(range(len(later.space.extents))) or not later.is_elementwise():
            return False
        is_same_loops = tuple(later.space.extents[dim] for dim in dims) == earlier.space.extents
        if not is_same_loops or not self._uses.are_used_later(earlier, later):
            return False
        space = earlier.space.inside(loops, later.space)
        own = dict(zip(earlier.results, space.results, strict=True))
        if any(value in own and map_ != own[value] for value, map_ in later.reads):
            return False
        self._take_body(earlier, later, loops, space.operands, move=True)
        yielded = [earlier.yielded(result) for result in earlier.results]
        for index in reversed(range(len(later.inputs))):
            if (value := later.inputs[index]) in own:
                self._uses.replace_input(later, index, yielded[earlier.results.index(value)])
        terminator = later.block.last_op
        assert terminator is not None
        terminator.operands = [*terminator.operands, *yielded]
        later.space = replace(later.space, results=(*later.space.results, *space.results))
        for value, result in zip(earlier.outputs, earlier.results, strict=True):
            later.block.insert_arg(get_element_type_or_self(result.type), len(later.block.args))
            later.outputs.append(value)
            later.results.append(result)
            self._uses.producers[result] = later
            self._uses.use_at(value, later.position)
        self._uses.forget(earlier)
        return True


def _gathers(generic: Generic) -> bool:
    """Whether the body reads elements at places that are data."""
    data: set[SSAValue] = set(generic.block.args)
    for op in generic.block.ops:
        if any(operand in data for operand in op.operands):
            if isinstance(op, tensor.ExtractOp):
                return True
            data.update(op.results)
    return False


def _varies_innermost(generic: Generic, index: int) -> bool:
    """Whether an input is another one for neighbours along the innermost loop."""
    places = generic.space.operands[index].results
    return AffineDimExpr(len(generic.space.extents) - 1) in places


def _read_fills(block: Block) -> None:
    """Elements of a tensor that is filled with one number are that number, as where loops add ones to a histogram."""
    for fill in block.ops:
        if isinstance(fill, linalg.ops.FillOp) and fill.results:
            for use in tuple(fill.results[0].uses):
                read = use.operation
                if isinstance(read, tensor.ExtractOp) and use.index == 0 and read.result.type == fill.inputs[0].type:
                    Rewriter.replace_op(read, [], [fill.inputs[0]])


def _reads_in_loops(op: Operation) -> list[tensor.ExtractOp]:
    """The reads of the results of `op`, if they are in loops behind it and all that uses these."""
    uses = [use for result in op.results for use in result.uses]
    reads = [use.operation for use in uses if isinstance(use.operation, tensor.ExtractOp) and use.index == 0]
    around = [read.parent_op() for read in reads]
    return reads if len(reads) == len(uses) and all(isinstance(loop, scf.ForOp) for loop in around) else []


def _is_computable(generic: Generic, reads: Sequence[tensor.ExtractOp]) -> bool:
    """Whether elements of a generic can be computed where they are read, and no work is repeated by that."""
    plain = (AffineDimExpr, AffineConstantExpr)
    if not generic.is_elementwise() or any(op.regions for op in generic.block.ops):
        return False
    if not all(isinstance(place, plain) for map_ in generic.space.operands for place in map_.results):
        return False
    count = sum(_times(read) for read in reads)
    return is_light(generic.block.ops) or count <= prod(generic.space.extents)


def _times(op: Operation) -> float:
    """How often an op in loops is executed; often, where that is not known."""
    times, loop = 1.0, op.parent_op()
    while isinstance(loop, scf.ForOp):
        bounds = [bound.owner for bound in (loop.lb, loop.ub, loop.step)]
        known = [
            b.value.value.data for b in bounds if isinstance(b, arith.ConstantOp) and isinstance(b.value, IntegerAttr)
        ]
        times *= len(range(*known)) if len(known) == len(bounds) else inf
        loop = loop.parent_op()
    return times


def _erase_unused_destinations(block: Block) -> None:
    for op in reversed(tuple(block.ops)):
        if isinstance(op, _DESTINATIONS) and op.results and op.results[0].first_use is None:
            erase(op)


def _insert_first(block: Block, ops: Sequence[Operation]) -> None:
    assert block.first_op is not None
    block.insert_ops_before(ops, block.first_op)
