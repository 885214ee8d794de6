"""`stream-stores`: large results are written past the caches.

Before: the loop stage. After: the same, where vector stores into results that outgrow the last level of the caches have
`nontemporal = true` and the `alignment` that this takes:

    vector.store %v, %o[%i, %j] : memref<4096x4096xf32>, vector<16xf32>
    vector.store %v, %o[%i, %j] {alignment = 64 : i64, nontemporal = true} : memref<4096x4096xf32>, vector<16xf32>

An ordinary store first reads the line that it writes to, and takes a place in the caches from what will be read again;
one past the caches does neither, but whoever reads the line next has to get it from memory. So it pays where the line
would have left the caches anyway: `cache` is the size of the last level, and as other threads use that as well, half of
it counts. Results that `@main` does not read again are streamed once all that the kernel touches is as large as that;
others once they are as large as that by themselves. What is less than a `LEAST_SHARE`th of it stays in the caches,
where the caller may find it.

Only buffers that a kernel does nothing but store to are streamed, and only stores of which those of one iteration, or
of consecutive ones, fill whole lines. Results of the caller may begin anywhere, so a loop becomes two:

    %p = memref.extract_aligned_pointer_as_index %o
    %b = arith.remui %p, 64
    %a = arith.cmpi eq, %b, 0
    scf.if %a { loop with streaming stores } else { loop as it was }
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, MemRefType, ModuleOp, VectorType, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tenon.dialects.types.size import Size
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.lowering.buffers.memref_facts import buffer_bytes, element_bytes, is_contiguous, strides_of
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.nests import constant_int, index_constant
from tenon.passes.machine import GENERIC

LEAST_SHARE = 4

_STORES = (vector.StoreOp, vector.MaskedStoreOp, memref.StoreOp)


@dataclass(frozen=True)
class StreamStoresPass(FunctionPass):
    """Write results past the caches, of which the last level has `cache` bytes; 0: none are."""

    name = "stream-stores"

    cache: int = GENERIC.l3
    line: int = GENERIC.line

    def change(self, module: ModuleOp) -> Change:
        if self.cache < 0:
            raise ValueError(f"stream-stores: cache is {self.cache}, expected at least 0")
        if self.line < 1 or self.line & (self.line - 1):
            raise ValueError(f"stream-stores: line is {self.line}, no power of two")
        calls = _calls(module) if self.cache else {}

        def stream(function: func.FuncOp) -> None:
            if self.cache == 0:
                return
            large = _large_results(function, self.cache // 2, calls.get(function.sym_name.data, ()))
            if large and not any(map(_is_streaming, all_ops(function))):
                for loop in list(function.body.block.ops):
                    _stream(loop, large, self.line)

        return stream


def _calls(module: ModuleOp) -> dict[str, list[func.CallOp]]:
    calls: dict[str, list[func.CallOp]] = {}
    for op in ops_of(module, func.CallOp):
        calls.setdefault(op.callee.string_value(), []).append(op)
    return calls


def _large_results(function: func.FuncOp, least: int, calls: Collection[func.CallOp]) -> set[SSAValue]:
    """The results of a kernel of which stores had better go past the caches if `least` bytes stay in there."""
    arguments = function.body.block.args
    first = function.attributes.get("num_inputs")
    if not isinstance(first, IntegerAttr):
        return set()
    sizes = [_bytes(argument) for argument in arguments]
    found: set[SSAValue] = set()
    for number in range(first.value.data, len(arguments)):
        passed = [call.operands[number] for call in calls]
        is_last = all(isinstance(value, BlockArgument) and value.has_one_use() for value in passed)
        is_in_place = any(list(call.operands).count(call.operands[number]) > 1 for call in calls)
        touched = sum(sizes) if is_last else sizes[number]
        is_large = touched >= least and sizes[number] >= least // LEAST_SHARE
        if is_large and not is_in_place and _is_only_stored(arguments[number]):
            found.add(arguments[number])
    return found


def _bytes(value: SSAValue) -> int:
    if not isinstance(value.type, MemRefType):
        return 0
    size = buffer_bytes(value.type)
    return 0 if isinstance(size, Size) else size


def _is_only_stored(buffer: SSAValue) -> bool:
    for use in buffer.uses:
        user = use.operation
        if isinstance(user, memref.CollapseShapeOp):
            if not _is_only_stored(user.result):
                return False
        elif not isinstance(user, _STORES):
            return False
    return True


def _is_streaming(op: Operation) -> bool:
    hint = op.properties.get("nontemporal")
    return isinstance(hint, IntegerAttr) and hint.value.data != 0


def _stream(loop: Operation, results: set[SSAValue], line: int) -> None:
    """Give `loop`, which stands in a kernel's block, a version that streams what can be, for results that begin at a
    line."""
    stores = _streamed(loop, results, line)
    if not stores or loop.results:
        return
    aligned = Builder(InsertPoint.before(loop))
    condition = _begin_at_lines(aligned, dict.fromkeys(root_of(store.base) for store in stores), line)
    plain = loop.clone()
    branch = scf.IfOp(condition, [], Region(Block()), Region(Block()))
    aligned.insert(branch)
    loop.detach()
    branch.true_region.block.add_ops([loop, scf.YieldOp()])
    branch.false_region.block.add_ops([plain, scf.YieldOp()])
    for store in stores:
        store.properties["nontemporal"] = BoolAttr.from_bool(True)
        store.attributes["alignment"] = IntegerAttr(_vector_bytes(store), i64)


def _begin_at_lines(builder: Builder, buffers: Iterable[SSAValue], size: int) -> SSAValue:
    """Whether all of `buffers`, of which there is one at least, begin at a line of `size`."""
    condition: SSAValue | None = None
    line, zero = index_constant(builder, size), index_constant(builder, 0)
    for buffer in buffers:
        place = builder.insert(memref.ExtractAlignedPointerAsIndexOp.get(buffer)).aligned_pointer
        beyond = builder.insert(arith.RemUIOp(place, line)).result
        begins = builder.insert(arith.CmpiOp(beyond, zero, "eq")).result
        condition = begins if condition is None else builder.insert(arith.AndIOp(condition, begins)).result
    assert condition is not None
    return condition


def _streamed(loop: Operation, results: set[SSAValue], line: int) -> list[vector.StoreOp]:
    """The stores in `loop` that may stream."""
    groups: dict[object, list[vector.StoreOp]] = {}
    divisors = _Divisors(line)
    for op in all_ops(loop):
        if isinstance(op, vector.StoreOp) and root_of(op.base) in results and _is_aligned(op, divisors):
            groups.setdefault((op.parent, op.base, *op.indices[:-1]), []).append(op)
    return [store for group in groups.values() if _fill_lines(group, line) for store in group]


def _vector_bytes(store: vector.StoreOp) -> int:
    assert isinstance(store.vector.type, VectorType)
    (lanes,) = store.vector.type.get_shape()
    return lanes * element_bytes(store.vector.type.element_type)


def _is_aligned(store: vector.StoreOp, divisors: _Divisors) -> bool:
    """Whether `store` is to a multiple of its size behind the start of the buffer."""
    kind = store.base.type
    assert isinstance(kind, MemRefType)
    size = _vector_bytes(store)
    if size & (size - 1) or not is_contiguous(kind) or isinstance(buffer_bytes(kind), Size):
        return False
    element = element_bytes(kind.element_type)
    strides = strides_of(kind)
    return size <= divisors.most and all(
        divisors.of(index) * stride * element % size == 0 for index, stride in zip(store.indices, strides, strict=True)
    )


class _Divisors:
    """Powers of two, `most` at most, that divide indices."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[SSAValue, int] = {}

    def of(self, value: SSAValue) -> int:
        """One that divides `value`."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> int:
        number = constant_int(value)
        if number is not None:
            return min(number & -number, self.most) if number else self.most
        owner = value.owner
        if isinstance(owner, Block):
            return min(map(self.of, _counted_by(owner, value)), default=1)
        parts = [self.of(operand) for operand in owner.operands if operand.type == value.type]
        match owner:
            case arith.AddiOp() | arith.SubiOp() | arith.MaxSIOp() | arith.MinSIOp() | arith.SelectOp():
                return min(parts)
            case arith.MuliOp():
                return min(parts[0] * parts[1], self.most)
            case _:
                return 1


def _counted_by(block: Block, index: SSAValue) -> Sequence[SSAValue]:
    """The start and the step of the loop that `index` counts, if it counts one."""
    loop = block.parent_op()
    if isinstance(loop, scf.ForOp) and index is block.args[0]:
        return loop.lb, loop.step
    if isinstance(loop, scf.ParallelOp) and isinstance(index, BlockArgument):
        return loop.lowerBound[index.index], loop.step[index.index]
    return ()


def _fill_lines(stores: Sequence[vector.StoreOp], line: int) -> bool:
    """Whether neighbouring stores of a block fill lines, alone or with those of the next iteration."""
    size = sum(map(_vector_bytes, stores))
    if size % line == 0:
        return True
    last = stores[0].indices[-1] if stores[0].indices else None
    if last is None or not isinstance(last.owner, Block) or last.owner is not stores[0].parent:
        return False
    *_, step = [*_counted_by(last.owner, last), last]
    number = constant_int(step)
    return number is not None and number * _vector_bytes(stores[0]) == size * _lanes(stores[0])


def _lanes(store: vector.StoreOp) -> int:
    assert isinstance(store.vector.type, VectorType)
    return store.vector.type.get_shape()[0]
