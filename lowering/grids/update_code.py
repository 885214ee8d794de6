"""Loops that update elements at computed places, as scatters are: which they are, and what codes of them share.

for u: for j: out[place(u), j] = f(out[place(u), j], u, j)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i1, i64
from xdsl.ir import Block, Operation, SSAValue

from tenon.dialects.families.linalg_builders import DISTINCT
from tenon.lowering.grids.index_bits import INDEX_BITS, narrow_indices
from tenon.lowering.kernels.selection import slice_of
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.builder import INDEX, LoopBuilder, is_pure
from tenon.lowering.loop_ir.nests import constant_int

UNEQUAL, LESS, NOT_LESS = 1, 2, 5
"""Predicates of `arith.cmpi`: ne, slt, sge."""
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


@dataclass(frozen=True)
class Updates:
    """Nested loops, outermost first, around `ops`, of which the last is the `store`; the index `dim` of that is
    computed from the loops `serial` and `outer` alone, and each of `outer` and of the others, `parallel`, is one of its
    indices."""

    loops: tuple[scf.ForOp, ...]
    ops: tuple[Operation, ...]
    store: memref.StoreOp
    dim: int
    serial: tuple[int, ...]
    parallel: tuple[int, ...]
    outer: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """How often each loop runs."""
        return tuple(constant_int(loop.ub) or 0 for loop in self.loops)


def match_updates(function: func.FuncOp) -> Updates | None:
    """The updates that are all that a kernel does, if they are of this form."""
    entry = list(function.body.block.ops)
    loops = [op for op in entry if isinstance(op, scf.ForOp)]
    others = [op for op in entry if not isinstance(op, scf.ForOp | func.ReturnOp | memref.CollapseShapeOp)]
    if len(loops) != 1 or any(not _computes(op) for op in others):
        return None
    if DISTINCT in loops[0].attributes:  # nobody has to own what only one thread updates
        return None
    nest: list[scf.ForOp] = []
    ops: list[Operation] = []
    loop: scf.ForOp | None = loops[0]
    while loop is not None:
        if (
            loop.iter_args
            or constant_int(loop.lb) != 0
            or constant_int(loop.step) != 1
            or constant_int(loop.ub) is None
        ):
            return None
        nest.append(loop)
        inner = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
        if len(inner) > 1 or (inner and inner[0].next_op is not loop.body.block.last_op):
            return None
        ops += [op for op in loop.body.block.ops if not isinstance(op, scf.ForOp | scf.YieldOp)]
        loop = inner[0] if inner else None
    return _matched(nest, ops)


def _computes(op: Operation) -> bool:
    """Whether an op computes its results and does nothing else; xDSL does not say so of extensions."""
    return not op.regions and (is_pure(op) or op.dialect_name() in ("arith", "math"))


def _matched(nest: Sequence[scf.ForOp], ops: Sequence[Operation]) -> Updates | None:
    stores = [op for op in ops if isinstance(op, memref.StoreOp)]
    if len(stores) != 1 or ops[-1] is not stores[0]:
        return None
    (store,) = stores
    if not all(op is store or isinstance(op, memref.LoadOp) or _computes(op) for op in ops):
        return None
    written = root_of(store.memref)
    for op in ops:
        if not isinstance(op, memref.LoadOp) or root_of(op.memref) is not written:
            continue
        if op.memref is not store.memref or tuple(op.indices) != tuple(store.indices):
            return None
    variables = [loop.body.block.args[0] for loop in nest]
    parallel = tuple(n for n, variable in enumerate(variables) if variable in store.indices)
    serial = tuple(n for n in range(len(nest)) if n not in parallel)
    computed = [dim for dim, index in enumerate(store.indices) if index not in variables]
    if not computed or not serial:
        return None
    sources = slice_of([store.indices[computed[0]]])
    if any(isinstance(op, memref.LoadOp) and root_of(op.memref) is written for op in sources):
        return None
    arguments = {operand for op in sources for operand in op.operands if operand in variables}
    outer = tuple(n for n in parallel if variables[n] in arguments)
    inner = tuple(n for n in parallel if n not in outer)
    return Updates(tuple(nest), tuple(ops), store, computed[0], serial, inner, outer)


class UpdateCode:
    """Writes the code of a thread to `entry`, a block that may have been begun."""

    def __init__(self, entry: Block, updates: Updates) -> None:
        self.updates = updates
        self.builder = LoopBuilder(entry)
        self.around: dict[SSAValue, SSAValue] = {}
        """What is known of variables of loops around."""

    def emit(self) -> tuple[int, int]:
        """Append the code; how many blocks of how many threads run it."""
        raise NotImplementedError

    def variables(self, number: SSAValue, loops: Sequence[int]) -> dict[SSAValue, SSAValue]:
        """The variables of `loops` at iteration `number` of all of them together."""
        variables = [self.updates.loops[n].body.block.args[0] for n in loops]
        values = self.indices(number, [self.updates.extents[n] for n in loops])
        return {**self.around, **dict(zip(variables, values, strict=True))}

    def indices(self, number: SSAValue, extents: Sequence[int]) -> list[SSAValue]:
        """Where `number` is in a box of `extents`, row-major."""
        found: list[SSAValue] = []
        inner = prod(extents)
        for position, extent in enumerate(extents):
            inner //= max(extent, 1)
            value = number
            if inner > 1:
                value = self.of(arith.DivUIOp, value, self.number(inner))
            if position > 0:
                value = self.of(arith.RemUIOp, value, self.number(extent))
            found.append(value)
        return found

    def clone(self, ops: Sequence[Operation], known: dict[SSAValue, SSAValue]) -> None:
        for op in ops:
            copy = op.clone(known)
            self.builder.add(copy)
            known.update(zip(op.results, copy.results, strict=True))

    def position(self, kind: type[gpu.BlockIdOp] | type[gpu.ThreadIdOp]) -> SSAValue:
        return self.builder.value(kind(_X))

    def number(self, number: int) -> SSAValue:
        return self.builder.index_constant(number)

    def of(self, op_type: type[Operation], first: SSAValue, second: SSAValue) -> SSAValue:
        return self.builder.value(op_type.create(operands=(first, second), result_types=(first.type,)))

    def both(self, first: SSAValue, second: SSAValue) -> SSAValue:
        return self.of(arith.AndIOp, first, second)

    def cast(self, value: SSAValue) -> SSAValue:
        return self.builder.value(arith.IndexCastOp(value, INDEX))

    def compare(self, predicate: int, first: SSAValue, second: SSAValue) -> SSAValue:
        properties = {"predicate": IntegerAttr(predicate, i64)}
        op = arith.CmpiOp.create(operands=(first, second), result_types=(i1,), properties=properties)
        return self.builder.value(op)


def write_code(function: func.FuncOp, code: UpdateCode) -> None:
    """Put the code of a thread in the place of the loops, and say which grid runs it."""
    returned = function.body.block.last_op
    assert returned is not None
    outer = code.updates.loops[0]
    outer.detach()
    returned.detach()
    blocks, threads = code.emit()
    function.body.block.add_op(returned)
    outer.erase()
    if narrow_indices(function, blocks, threads):
        function.attributes[INDEX_BITS] = IntegerAttr(32, i64)
    function.attributes["grid"] = DenseArrayBase.from_list(i64, (blocks, 1, 1))
    function.attributes["block"] = DenseArrayBase.from_list(i64, (threads, 1, 1))
