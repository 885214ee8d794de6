"""What a kernel of the buffered stage does, as statements over loops.

`read_kernel` first rewrites each `linalg.fill` and `memref.copy` as a `linalg.generic`, except the fills that only
give a reduction its initial value: those become `Statement.initial`. What it returns describes the kernel; the IR
is the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue, TypedAttribute
from xdsl.ir.affine import AffineMap

from tenon.dialects.families.iteration_space import ACROSS, IterationSpace, Subscript
from tenon.dialects.families.linalg_builders import generic_op
from tenon.dialects.support.forking import cached_property
from tenon.dialects.types.size import Size
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.kernels.selection import Selection, selection_of
from tenon.passes.iteration import LARGEST_STEP

DIVISIONS = (
    arith.DivSIOp,
    arith.DivUIOp,
    arith.RemSIOp,
    arith.RemUIOp,
    arith.FloorDivSIOp,
    arith.CeilDivSIOp,
    arith.CeilDivUIOp,
)
"""Ops on integers that some operands make trap."""


class LoopKind(Enum):
    """How the iterations of a loop depend on each other."""

    PARALLEL = "parallel"  # each writes its own elements
    SEQUENTIAL = "sequential"  # part of an output's index, yet several iterations reach one element
    REDUCTION = "reduction"  # in no output's index


class Stride(Enum):
    """How an access moves in memory from one iteration of a loop to the next."""

    INVARIANT = 0
    UNIT = 1
    STEPPED = 2  # by 2 up to `LARGEST_STEP` elements, or back by as many or by 1
    OTHER = 3


@dataclass(frozen=True)
class Access:
    """A buffer, and which element of it an iteration reads or writes; or would, were it not there for the extents of
    loops alone (`is_used`). With `padding`, a constant, that is what is read outside of the buffer."""

    buffer: SSAValue
    subscripts: tuple[Subscript, ...]
    is_used: bool = True
    padding: TypedAttribute | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return buffer_shape(self.buffer)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in memory."""
        return element_bytes(element_type(self.buffer))

    def loops(self) -> set[int]:
        """The loops that the index depends on."""
        return {loop for subscript in self.subscripts for loop in subscript.factors}

    def stride(self, loop: int) -> Stride:
        """How this access moves along `loop`: only the last index may count for neighbours.

        One that is not used stays where it is, so that nothing of it is copied or fetched ahead.
        """
        return self._strides.get(loop, Stride.INVARIANT)

    @cached_property
    def _strides(self) -> dict[int, Stride]:
        return {loop: self._moving_stride(loop) for loop in self.loops()} if self.is_used else {}

    def _moving_stride(self, loop: int) -> Stride:
        dims = [dim for dim, subscript in enumerate(self.subscripts) if loop in subscript.factors]
        step = self.step(loop)
        if dims != [len(self.subscripts) - 1] or not 1 <= abs(step) <= LARGEST_STEP:
            return Stride.OTHER
        return Stride.UNIT if step == 1 else Stride.STEPPED

    def step(self, loop: int) -> int:
        """How many elements of the last dimension lie between one iteration of `loop` and the next."""
        return self.subscripts[-1].factors.get(loop, 0) if self.subscripts else 0

    def advances(self, loop: int, single: Collection[int] = ()) -> bool:
        """Whether some index depends on `loop` alone, so that each iteration is at an element of its own. Those of one
        iteration, `single`, do not count."""
        return any(
            subscript.factors.get(loop) and all(other == loop or other in single for other in subscript.factors)
            for subscript in self.subscripts
        )

    def tells_apart(self, loop: int, extents: Sequence[int]) -> bool:
        """Whether some index is another one for all iterations of the loops that it depends on, `loop` among them: what
        is nearer to it moves by less than one iteration of what is further."""
        return any(subscript.factors.get(loop) and subscript.is_mixed(extents) for subscript in self.subscripts)

    def plain_loops(self) -> tuple[int | None, ...]:
        """For each index the loop that it is, or None."""
        return self._plain_loops

    @cached_property
    def _plain_loops(self) -> tuple[int | None, ...]:
        return tuple([subscript.plain_loop() for subscript in self.subscripts])


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def once(
    function: Callable[Concatenate[Statement, _Given], _Found],
) -> Callable[Concatenate[Statement, _Given], _Found]:
    """`function`, computed once for a statement and the same other arguments, which are hashable: what decides asks
    again and again what nothing changes."""

    @wraps(function)
    def known(statement: Statement, *args: _Given.args, **options: _Given.kwargs) -> _Found:
        key = (function, args, *options.items())
        found = statement.known
        if key not in found:
            found[key] = function(statement, *args, **options)
        return found[key]

    return known


@dataclass
class Statement:
    """A `linalg.generic` on memrefs. `initial` holds the values of absorbed fills, one entry per output."""

    op: linalg.ops.GenericOp
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    space: IterationSpace
    kinds: tuple[LoopKind, ...]
    initial: list[SSAValue | None] = field(default_factory=list)
    known: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], init=False, compare=False, repr=False)
    """What was computed `once`."""

    @property
    def extents(self) -> tuple[int, ...]:
        return self.space.extents

    @cached_property
    def body(self) -> Block:
        return self.op.body.block

    @property
    def accumulators(self) -> tuple[BlockArgument, ...]:
        """The block arguments that stand for the outputs so far."""
        return self.body.args[len(self.inputs) :]

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return self.inputs + self.outputs

    def loops(self, kind: LoopKind) -> list[int]:
        """The loops of one kind, outermost first."""
        return [loop for loop, k in enumerate(self.kinds) if k is kind]

    def reads_output(self, position: int) -> bool:
        """Whether what an output holds before matters: the body asks for it, or a reduction loop may be empty."""
        return self.accumulators[position].first_use is not None or LoopKind.REDUCTION in self.kinds

    def body_loads(self) -> list[memref.LoadOp]:
        """The reads at computed indices."""
        return ops_of(self.op, memref.LoadOp)

    @once
    def selection(self, loop: int) -> Selection | None:
        """The selection of the best iteration of `loop`, if that is the only reduction and all that the body does."""
        reductions = [known for known in self.loops(LoopKind.REDUCTION) if known == loop or self.extents[known] != 1]
        if reductions != [loop] or isinstance(self.extents[loop], Size) or self.loops(LoopKind.SEQUENTIAL):
            return None
        return selection_of(self.body, self.accumulators)

    def divides_integers(self) -> bool:
        """Whether lanes that are masked off could trap."""
        return any(isinstance(op, DIVISIONS) for op in self.body.ops)


@dataclass(frozen=True)
class Kernel:
    """A kernel function: statements and other ops (scatter loops) in order, and the buffers that live inside it.

    Scalars and views of arguments are no items: they precede everything."""

    function: func.FuncOp
    items: list[Statement | Operation]
    intermediates: list[memref.AllocOp]

    @property
    def name(self) -> str:
        return self.function.sym_name.data

    @cached_property
    def statements(self) -> list[Statement]:
        return [item for item in self.items if isinstance(item, Statement)]

    def runs_together(self) -> bool:
        """Whether loops that the statements share are worth one nest: there are several statements, or intermediates,
        which it keeps small. Those that nothing is written to only say how long a loop is."""
        statements = self.statements
        written = {root_of(output.buffer) for statement in statements for output in statement.outputs}
        has_intermediates = any(alloc.memref in written for alloc in self.intermediates)
        return (len(statements) > 1 or has_intermediates) and len(statements) == len(self.items)


def kernels_of(module: Operation) -> list[func.FuncOp]:
    """The kernel functions of a module that have a body."""
    return [
        op
        for region in module.regions
        for op in region.block.ops
        if isinstance(op, func.FuncOp) and "kernel" in op.attributes and op.body.blocks
    ]


def buffer_shape(buffer: SSAValue) -> tuple[int, ...]:
    """The shape of a memref."""
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def element_type(buffer: SSAValue) -> Attribute:
    """The element type of a memref."""
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.element_type


def root_of(buffer: SSAValue) -> SSAValue:
    """The buffer that `buffer` is a view of."""
    while isinstance(owner := buffer.owner, memref.CollapseShapeOp):
        buffer = owner.src
    return buffer


def read_kernel(function: func.FuncOp) -> Kernel:
    """The statements of `function`, whose fills and copies become generics or initial values."""
    items: list[Statement | Operation] = []
    intermediates: list[memref.AllocOp] = []
    fills: dict[SSAValue, linalg.ops.FillOp] = {}
    preamble: set[SSAValue] = set(function.body.block.args)
    for op in list(function.body.block.ops):
        match op:
            case linalg.ops.FillOp():
                fills[root_of(op.outputs[0])] = op
                items.append(op)
            case memref.CopyOp():
                _touch(op, fills)
                items.append(read_statement(_copy_as_generic(op)))
            case linalg.ops.GenericOp():
                statement = read_statement(op)
                absorbed = _absorb_fills(statement, fills)
                items = [item for item in items if item not in absorbed]
                items.append(statement)
            case memref.AllocOp():
                intermediates.append(op)
            case func.ReturnOp() | memref.DeallocOp():
                pass
            case _ if _is_preamble(op, preamble):
                preamble.update(op.results)
            case _:
                _touch(op, fills)
                items.append(op)
    items = [read_statement(_fill_as_generic(i)) if isinstance(i, linalg.ops.FillOp) else i for i in items]
    return Kernel(function, items, intermediates)


def _is_preamble(op: Operation, preamble: set[SSAValue]) -> bool:
    """Whether `op` is a scalar or a view that depends on nothing but arguments and constants."""
    movable = op.name.startswith("arith.") or isinstance(op, memref.CollapseShapeOp)
    return movable and all(operand in preamble for operand in op.operands)


def touched_buffers(op: Operation) -> set[SSAValue]:
    """The buffers that `op` or an op inside it uses."""
    return {root_of(v) for inner in all_ops(op) for v in inner.operands if isinstance(v.type, MemRefType)}


def _touch(op: Operation, fills: dict[SSAValue, linalg.ops.FillOp]) -> None:
    for buffer in touched_buffers(op):
        fills.pop(buffer, None)


def _absorb_fills(statement: Statement, fills: dict[SSAValue, linalg.ops.FillOp]) -> list[linalg.ops.FillOp]:
    """Take the values of pending fills that `statement` overwrites as a whole; forget those of what it touches."""
    taken: list[linalg.ops.FillOp] = []
    read = {root_of(a.buffer) for a in statement.inputs} | {root_of(op.memref) for op in statement.body_loads()}
    for position, output in enumerate(statement.outputs):
        fill = fills.get(root_of(output.buffer))
        if fill is not None and root_of(output.buffer) not in read and _covers(statement, position):
            statement.initial[position] = fill.inputs[0]
            taken.append(fill)
    _touch(statement.op, fills)
    return taken


def _covers(statement: Statement, position: int) -> bool:
    axes = statement.space.axes(statement.space.results[position], statement.outputs[position].shape)
    return LoopKind.SEQUENTIAL not in statement.kinds and ACROSS not in axes


def read_statement(op: linalg.ops.GenericOp) -> Statement:
    """Describe a generic. Raises `ValueError` where a loop has no extent, or two, or an index is no sum of loops."""
    space = IterationSpace.of(op)
    count = len(space.operands)
    accesses = [
        Access(operand, tuple(map(Subscript.of, places.results)), argument.first_use is not None or n >= count)
        for n, (operand, places, argument) in enumerate(
            zip(op.operands, (*space.operands, *space.results), op.body.block.args, strict=True)
        )
    ]
    inputs, outputs = tuple(accesses[:count]), tuple(accesses[count:])
    kinds = tuple([_kind(loop, space, outputs) for loop in range(len(space.extents))])
    return Statement(op, inputs, outputs, space, kinds, [None] * len(outputs))


def _kind(loop: int, space: IterationSpace, outputs: Sequence[Access]) -> LoopKind:
    single = [other for other, extent in enumerate(space.extents) if extent == 1]
    if space.parallel[loop] and (
        loop in single
        or all(output.advances(loop, single) or output.tells_apart(loop, space.extents) for output in outputs)
    ):
        return LoopKind.PARALLEL
    if any(loop in output.loops() for output in outputs):
        return LoopKind.SEQUENTIAL
    return LoopKind.REDUCTION


def _as_generic(
    op: Operation, inputs: Sequence[SSAValue], output: SSAValue, stored: SSAValue | None
) -> linalg.ops.GenericOp:
    generic = _elementwise(inputs, output, stored)
    generic.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(generic, op)
    op.detach()
    op.erase()
    return generic


def _elementwise(inputs: Sequence[SSAValue], output: SSAValue, stored: SSAValue | None) -> linalg.ops.GenericOp:
    rank = len(buffer_shape(output))
    identity = AffineMap.identity(rank)
    body = Block(arg_types=[element_type(v) for v in (*inputs, output)])
    body.add_op(linalg.ops.YieldOp(body.args[0] if stored is None else stored))
    return generic_op([(value, identity) for value in inputs], [(output, identity)], [False] * rank, body)


def filling(output: SSAValue, stored: SSAValue) -> Statement:
    """A statement, in no block, that writes `stored` to each element of `output`."""
    return read_statement(_elementwise((), output, stored))


def adding(output: SSAValue, other: SSAValue) -> Statement:
    """A statement, in no block, that adds the elements of `other`, floats, to those of `output`."""
    op = _elementwise((other,), output, None)
    body = op.body.block
    yielded = body.last_op
    assert yielded is not None
    total = arith.AddfOp(body.args[1], body.args[0])
    body.insert_op_before(total, yielded)
    yielded.operands = [total.result]
    return read_statement(op)


def _fill_as_generic(op: linalg.ops.FillOp) -> linalg.ops.GenericOp:
    return _as_generic(op, (), op.outputs[0], op.inputs[0])


def _copy_as_generic(op: memref.CopyOp) -> linalg.ops.GenericOp:
    return _as_generic(op, (op.source,), op.destination, None)


def is_index_of(value: SSAValue | None, loop: int | None) -> bool:
    """Whether `value` is the `linalg.index` of `loop`; nothing is that of `None`."""
    return value is not None and isinstance(value.owner, linalg.ops.IndexOp) and value.owner.dim.value.data == loop
