"""`hold-rows`: a row that updates meet again and again stays in registers.

Before: the loop stage, rows updated in vectors (`vectorize-updates`). After: the same, where a loop over updates of
rows of at most so many `vectors` carries the row that it updated last, and stores it when another one is due. An
update that meets the row of the one before (segments in order, ties) would otherwise load what was stored a moment
before, which takes several times as long as to add to it; where rows change each time, as much is loaded and stored as
without.

    scf.for %i = %c0 to %n step %c1 {              %r = scf.for %i = %c0 to %n step %c1 iter_args(%q = %c0, %s = %f) {
      %p = memref.load %rows[%i]                     %p = memref.load %rows[%i]
      scf.for %j = %c0 to %c16 step %c16 {           %same = arith.cmpi eq, %p, %q
        %a = vector.load %o[%p, %j]                  %a = scf.if %same {
        %b = vector.load %u[%i, %j]                    scf.yield %s
        %c = arith.addf %a, %b                       } else {
        vector.store %c, %o[%p, %j]                    vector.store %s, %o[%q, %c0]
                                                       %t = vector.load %o[%p, %c0]
                                                       scf.yield %t
                                                     }
                                                     %b = vector.load %u[%i, %c0]
                                                     %c = arith.addf %a, %b
                                                     scf.yield %p, %c
                                                   }
                                                   vector.store %r, %o[%q, %c0]

The order of additions to an element is the same, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, ModuleOp, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.upstream.prefetch import PrefetchOp
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.nests import Domain, index_constant
from tenon.passes.machine import GENERIC

_LOADS = (memref.LoadOp, vector.LoadOp)
_Places = Mapping[SSAValue, SSAValue]


@dataclass(frozen=True)
class HoldRowsPass(FunctionPass):
    """Keep the row that a loop updated last, of at most so many `vectors`, in registers until another one is due."""

    name = "hold-rows"

    vectors: int = GENERIC.registers // 4

    def change(self, module: ModuleOp) -> Change:
        if self.vectors < 0:
            raise ValueError(f"hold-rows: vectors is {self.vectors}, expected at least 0")
        return self._hold

    def _hold(self, function: func.FuncOp) -> None:
        for loop in ops_of(function, scf.ForOp):
            update = _RowUpdate.of(loop, self.vectors)
            if update is not None:
                update.hold()


@dataclass(frozen=True)
class _RowUpdate:
    """A `loop` that finds a row and updates it in the loop `along`, which loads what it stores."""

    loop: scf.ForOp
    along: scf.ForOp
    load: vector.LoadOp
    store: vector.StoreOp
    starts: tuple[int, ...]
    """Where the vectors of a row start."""

    @staticmethod
    def of(loop: scf.ForOp, most: int) -> _RowUpdate | None:
        """The update that `loop` is, of `most` vectors at most; None if it does more, or less."""
        finds, along = _body(loop), _last(loop)
        if loop.iter_args or not isinstance(along, scf.ForOp) or along.iter_args:
            return None
        domain = Domain.of([along.lb], [along.ub], [along.step])
        store, updates = _last(along), _body(along)
        if domain is None or not 0 < domain.size <= most or not isinstance(store, vector.StoreOp):
            return None
        shape = SSAValue.get(store.vector, type=VectorType).type.get_shape()
        if len(shape) != 1 or domain.step[0] < shape[0]:
            return None  # no part of a row, or what one vector stores, the next one loads
        if not all(map(_only_reads, (*finds, *updates))):
            return None
        buffer = root_of(store.base)
        own = [op for op in (*finds, *updates) if isinstance(op, _LOADS) and root_of(op.operands[0]) is buffer]
        if len(own) != 1 or not isinstance(load := own[0], vector.LoadOp) or load.parent_op() is not along:
            return None
        if load.base is not store.base or tuple(load.indices) != tuple(store.indices):
            return None
        *row, column = store.indices
        if column is not along.body.block.args[0] or any(_is_in(place, along) for place in row):
            return None
        if loop.body.block.args[0] in row:
            return None  # each row is met once
        if not any(place.owner in finds for place in row) or not _is_alone(loop, row):
            return None
        if not any(isinstance(op, memref.LoadOp) for op in finds):
            return None  # rows follow each other
        (first,), (step,) = domain.lower, domain.step
        return _RowUpdate(loop, along, load, store, tuple([first + step * n for n in range(domain.size)]))

    def hold(self) -> None:
        """Replace the loop by one that carries a row's number and its vectors: at first some row that it may update."""
        finds = _body(self.loop)
        places = [place for place in self.store.indices[:-1] if place.owner in finds]
        builder = Builder(InsertPoint.before(self.loop))
        first = [index_constant(builder, 0) for _ in places]
        start = [*first, *self._loaded(builder, dict(zip(places, first, strict=True)))]
        block = Block(arg_types=[IndexType(), *[value.type for value in start]])
        index, *carried = block.args
        last, held = dict(zip(places, carried, strict=False)), carried[len(places) :]
        self.loop.body.block.args[0].replace_all_uses_with(index)
        for op in finds:
            op.detach()
            block.add_op(op)
        inside = Builder(InsertPoint.at_end(block))
        held = self._due(inside, last, held)
        updated = [self._updated(inside, at, value) for at, value in zip(self.starts, held, strict=True)]
        inside.insert(scf.YieldOp(*places, *updated))
        made = builder.insert(scf.ForOp(self.loop.lb, self.loop.ub, self.loop.step, start, Region(block)))
        self._stored(builder, dict(zip(places, made.results, strict=False)), made.results[len(places) :])
        self.loop.detach()
        self.loop.erase()

    def _due(self, builder: Builder, last: _Places, held: Sequence[SSAValue]) -> list[SSAValue]:
        """The vectors of the row that is due: those `held` of the `last` one, if it is that."""
        is_same: SSAValue | None = None
        for place, before in last.items():
            equal = builder.insert(arith.CmpiOp(place, before, "eq")).result
            is_same = equal if is_same is None else builder.insert(arith.AndIOp(is_same, equal)).result
        assert is_same is not None
        kept, changed = Block([scf.YieldOp(*held)]), Block()
        inside = Builder(InsertPoint.at_end(changed))
        self._stored(inside, last, held)
        inside.insert(scf.YieldOp(*self._loaded(inside, {})))
        return list(builder.insert(scf.IfOp(is_same, [v.type for v in held], Region(kept), Region(changed))).results)

    def _place(self, builder: Builder, places: _Places, start: int) -> list[SSAValue]:
        """The index of the vector that starts at `start`, in the row that is due, with other `places`."""
        return [*[places.get(place, place) for place in self.store.indices[:-1]], index_constant(builder, start)]

    def _loaded(self, builder: Builder, places: _Places) -> list[SSAValue]:
        found: list[SSAValue] = []
        for start in self.starts:
            operands = [self.load.base, *self._place(builder, places, start)]
            load = vector.LoadOp.create(operands=operands, result_types=[self.load.result.type])
            found.append(builder.insert(load).result)
        return found

    def _stored(self, builder: Builder, places: _Places, vectors: Sequence[SSAValue]) -> None:
        for start, value in zip(self.starts, vectors, strict=True):
            operands = [value, self.store.base, *self._place(builder, places, start)]
            builder.insert(vector.StoreOp.create(operands=operands))

    def _updated(self, builder: Builder, start: int, held: SSAValue) -> SSAValue:
        """What the loop along the row makes of the vector `held` that starts at `start`."""
        index = index_constant(builder, start)
        values: dict[SSAValue, SSAValue] = {self.along.body.block.args[0]: index, self.load.result: held}
        for op in _body(self.along):
            if op is not self.load:
                builder.insert(op.clone(values))
        return values.get(self.store.vector, self.store.vector)


def _body(loop: scf.ForOp) -> list[Operation]:
    """The ops of a loop without the last one and the terminator."""
    return list(loop.body.block.ops)[:-2]


def _last(loop: scf.ForOp) -> Operation | None:
    """The last op of a loop in front of the terminator."""
    return loop.body.block.last_op and loop.body.block.last_op.prev_op


def _only_reads(op: Operation) -> bool:
    is_arithmetic = op.name.startswith("arith.") or isinstance(op, vector.BroadcastOp)
    return isinstance(op, (*_LOADS, PrefetchOp)) or is_arithmetic


def _is_in(value: SSAValue, loop: scf.ForOp) -> bool:
    return value.owner is loop.body.block or (isinstance(value.owner, Operation) and value.owner.parent_op() is loop)


def _is_alone(loop: scf.ForOp, row: Sequence[SSAValue]) -> bool:
    """Whether the iterations of parallel loops around keep to rows of their own, the first of which one may load and
    store."""
    around = loop.parent_op()
    while around is not None and not isinstance(around, func.FuncOp):
        if isinstance(around, scf.ParallelOp) and not all(index in row for index in around.body.block.args):
            return False
        around = around.parent_op()
    return True
