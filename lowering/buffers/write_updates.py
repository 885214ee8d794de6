"""`write-updates`: what is computed for a part of a tensor is written where it belongs.

Before: structured IR on tensors; functions that are no kernels call kernels. After: the same values. Where one kernel
computes a tensor, element by element, and all that another does with it is to put it in the place of a part of `x` that
is known, one kernel writes into that part of `x`, and the tensor between them is in no memory:

    %u = call @compute(%a, %x)                 %y = call @compute_into(%a, %x)
    %y = call @replace(%x, %u)

Of `x` itself, what is computed may read the very elements that it replaces (`x.at[1:].add(...)`), and no others: these
may have been written. Nothing lives longer than it did: what one of the calls needs is not changed between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, scf, tensor
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tenon.dialects.definition.value import InsertionPoint, inserting
from tenon.dialects.families.iteration_space import IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import empty, generic_op
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import i8
from tenon.lowering.buffers.memref_facts import without_reshapes
from tenon.lowering.loop_ir.nests import constant_int
from tenon.passes.fuse.generics import read_generic


@dataclass(frozen=True)
class WriteUpdatesPass(ModulePass):
    """Let kernels write what they compute into the tensor that it is a part of."""

    name = "write-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Join the calls of all functions that are no kernels."""
        functions = [function for function in op.body.block.ops if isinstance(function, func.FuncOp)]
        kernels = {function.sym_name.data: function for function in functions if "kernel" in function.attributes}
        replacing = {name: found for name, kernel in kernels.items() if (found := _Replacement.of(kernel)) is not None}
        made = _Made(kernels, {function.sym_name.data for function in functions}, {})
        joined = False
        for function in functions:
            if function.sym_name.data not in kernels and replacing:
                for call in [inner for inner in function.walk() if isinstance(inner, func.CallOp)]:
                    replacement = replacing.get(call.callee.string_value())
                    joined |= replacement is not None and _join(call, replacement, made)
        if joined:
            called = {inner.callee.string_value() for inner in op.walk() if isinstance(inner, func.CallOp)}
            for name, kernel in kernels.items():
                if name not in called:
                    Rewriter.erase_op(kernel)


@dataclass(frozen=True)
class _Replacement:
    """What a kernel does that puts one operand in the place of a part of another: the numbers of both, and where the
    part starts."""

    whole: int
    part: int
    starts: tuple[int, ...]

    @staticmethod
    def of(kernel: func.FuncOp) -> _Replacement | None:
        """What this kernel does, if it is that and no more."""
        if not kernel.body.blocks or (returned := kernel.body.block.last_op) is None or len(returned.operands) != 1:
            return None
        loops: list[scf.ForOp] = []
        value = returned.operands[0]
        while isinstance(value, OpResult) and isinstance(loop := value.op, scf.ForOp):
            if len(loop.iter_args) != 1 or constant_int(loop.lb) != 0 or constant_int(loop.step) != 1:
                return None
            if loops and loop.iter_args[0] is not loops[-1].body.block.args[1]:
                return None
            loops.append(loop)
            assert loop.body.block.last_op is not None
            value = loop.body.block.last_op.operands[0]
        if not loops or not isinstance(insert := value.owner, tensor.InsertOp):
            return None
        read = insert.scalar.owner
        whole, indices = loops[0].iter_args[0], [loop.body.block.args[0] for loop in loops]
        if not isinstance(read, tensor.ExtractOp) or insert.dest is not loops[-1].body.block.args[1]:
            return None
        part = read.tensor
        if not isinstance(whole, BlockArgument) or not isinstance(part, BlockArgument) or whole is part:
            return None
        if whole.block is not part.block or list(read.indices) != indices or _shape(whole) == _shape(part):
            return None
        if len(insert.indices) != len(indices):
            return None  # the part has fewer dimensions
        starts = [_start(place, index) for place, index in zip(insert.indices, indices, strict=True)]
        if [constant_int(loop.ub) for loop in loops] != list(_shape(part)) or None in starts:
            return None
        return _Replacement(whole.index, part.index, tuple([start or 0 for start in starts]))


@dataclass(frozen=True)
class _Made:
    """The kernels that there are, the names of all functions, and the kernels that were made of two."""

    kernels: dict[str, func.FuncOp]
    names: set[str]
    joined: dict[tuple[str, str, tuple[int, ...]], str]

    def into(
        self, kernel: func.FuncOp, replacing: str, starts: Sequence[int], own: tuple[int, ...], whole: SSAValue
    ) -> str | None:
        """The name of the kernel that does what `kernel` and then that named `replacing` do; `None` if none can. See
        `_kernel_into`."""
        key = kernel.sym_name.data, replacing, own
        if key not in self.joined:
            assert isinstance(whole.type, TensorType)
            assert kernel.parent is not None
            new = _kernel_into(kernel, starts, own, whole.type)
            if new is None:
                return None
            said = "_".join([kernel.sym_name.data, "into", replacing, *map(str, own)])
            name = next(name for n in count() if (name := said if n == 0 else f"{said}_{n}") not in self.names)
            new.sym_name = StringAttr(name)
            kernel.parent.insert_op_after(new, kernel)
            self.kernels[name] = new
            self.names.add(name)
            self.joined[key] = name
        return self.joined[key]


def _join(call: func.CallOp, replacement: _Replacement, made: _Made) -> bool:
    """Let one call compute the part that `call` replaces and write it; false where that cannot be."""
    whole, part = call.operands[replacement.whole], call.operands[replacement.part]
    computed = part.owner
    if not isinstance(computed, func.CallOp) or computed.parent is not call.parent or len(computed.results) != 1:
        return False
    kernel = made.kernels.get(computed.callee.string_value())
    if kernel is None or not part.has_one_use() or (place := _place(computed, call, whole)) is None:
        return False
    own = tuple([number for number, operand in enumerate(computed.operands) if operand is whole])
    if any(
        operand is not whole and without_reshapes(operand) is without_reshapes(whole) for operand in computed.operands
    ):
        return False  # it is read in another order
    name = made.into(kernel, call.callee.string_value(), replacement.starts, own, whole)
    if name is None:
        return False
    operands = [operand for operand in computed.operands if operand is not whole]
    joined = func.CallOp(name, [*operands, whole], call.result_types)
    joined.location = computed.location
    assert place.parent is not None
    place.parent.insert_op_before(joined, place)
    joined.results[0].name_hint = call.results[0].name_hint
    call.results[0].replace_all_uses_with(joined.results[0])
    Rewriter.erase_op(call)
    Rewriter.erase_op(computed)
    return True


def _place(computed: func.CallOp, call: func.CallOp, whole: SSAValue) -> Operation | None:
    """Where both calls can be one, so that no value is needed later, or changed earlier, than it was."""
    between = list(_between(computed, call))
    users = [user for op in between for user in op.walk()]
    defined = {result for op in between for result in op.results}
    if whole not in defined and all(whole not in user.operands for user in users):
        return computed
    needed = set(computed.operands) - {whole}
    if all(needed.isdisjoint(user.operands) for user in users):
        return call
    return None


def _between(first: Operation, last: Operation) -> Iterator[Operation]:
    op = first.next_op
    while op is not None and op is not last:
        yield op
        op = op.next_op


def _kernel_into(
    kernel: func.FuncOp, starts: Sequence[int], own: Sequence[int], whole: TensorType[Attribute]
) -> func.FuncOp | None:
    """`kernel` with its result as the part of another operand, its last, that starts at `starts`; those numbered `own`
    are that operand, too. `None` where that cannot be."""
    new = kernel.clone()
    block = new.body.block
    op = block.last_op.operands[0].owner if block.last_op is not None else None
    if not isinstance(op, linalg.ops.GenericOp) or not _writes_each_once(op):
        return None
    space, sizes = IterationSpace.of(op), _shape(op.results[0])
    if any(isinstance(size, Size) for size in (*space.extents, *whole.get_shape())):
        return None
    loops = len(space.extents)
    spare = [loop for loop, extent in enumerate(space.extents) if extent == 1 and loop not in _loops(space.results[0])]
    single = spare[0] if spare else loops
    places = [
        _shifted(place, start, single, is_whole=size == around)
        for place, start, size, around in zip(space.results[0].results, starts, sizes, whole.get_shape(), strict=True)
    ]
    argument = block.insert_arg(whole, len(block.args))
    reads = [list(map_.results) for map_ in space.operands]
    inputs = list(op.inputs)
    for old in [block.args[number] for number in own]:
        for use in old.uses:
            if use.operation is not op or not _are_equal(reads[use.index], places, (*spare, single)):
                return None
            inputs[use.index], reads[use.index] = argument, places
    told = {place.position for part in (*reads, places) for place in part if isinstance(place, AffineDimExpr)}
    extents = [*space.extents, 1] if any(_uses(place, loops) for place in places) else list(space.extents)
    body = op.body.block
    with inserting(InsertionPoint(block, op)):
        for loop in [loop for loop in range(len(extents)) if loop not in told]:
            inputs.insert(0, empty([extents[loop]], i8))
            reads.insert(0, [AffineExpr.dimension(loop)])
            body.insert_arg(i8, 0)
    maps = [AffineMap(len(extents), 0, tuple(part)) for part in (*reads, places)]
    body = op.body.detach_block(body)
    written = generic_op(
        list(zip(inputs, maps, strict=False)), [(argument, maps[-1])], [False] * len(extents), body, [whole]
    )
    written.location = op.location
    old = op.outputs[0].owner
    Rewriter.replace_op(op, written)
    if isinstance(old, tensor.EmptyOp) and old.tensor.first_use is None:
        Rewriter.erase_op(old)
    for number in sorted(own, reverse=True):
        block.erase_arg(block.args[number])
    new.function_type = FunctionType.from_lists(block.arg_types, [whole])
    return new


def _writes_each_once(op: linalg.ops.GenericOp) -> bool:
    """Whether each iteration of `op` computes one element of its one result, which is nowhere yet."""
    if len(op.results) != 1 or not op.results[0].has_one_use() or not isinstance(op.outputs[0].owner, tensor.EmptyOp):
        return False
    generic = read_generic(op, 0)
    written = generic.space.results[0]
    others = set(range(len(generic.space.extents))) - set(_loops(written))
    return (
        generic.is_parallel
        and written.is_projected_permutation()
        and all(generic.space.extents[loop] == 1 for loop in others)
        and generic.block.args[-1].first_use is None
    )


def _loops(places: AffineMap) -> list[int]:
    return [place.position for place in places.results if isinstance(place, AffineDimExpr)]


def _shifted(place: AffineExpr, start: int, single: int, *, is_whole: bool) -> AffineExpr:
    """`place`, a loop, as the index of a part that begins at `start`. A loop that is an index by itself runs over the
    whole dimension: `single`, a loop of one iteration, is added to one that does not."""
    if start:
        return place + start
    return place if is_whole else place + AffineExpr.dimension(single)


def _are_equal(one: Sequence[AffineExpr], other: Sequence[AffineExpr], singles: Sequence[int]) -> bool:
    """Whether two lists of indices are equal, whatever multiples of the loops `singles`, which are at 0, they have."""

    def term(place: AffineExpr) -> tuple[object, ...]:
        subscript = Subscript.of(place)
        return subscript.constant, {loop: f for loop, f in subscript.factors.items() if loop not in singles}

    return [term(place) for place in one] == [term(place) for place in other]


def _uses(place: AffineExpr, loop: int) -> bool:
    return loop in Subscript.of(place).factors


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def _start(place: SSAValue, index: SSAValue) -> int | None:
    """By how much `place` is more than `index`, if that is known."""
    if place is index:
        return 0
    if isinstance(add := place.owner, arith.AddiOp) and index in (operands := list(add.operands)):
        operands.remove(index)
        return constant_int(operands[0])
    return None
