"""The block form of a kernel: one block of threads executes the body in lockstep.

Values outside distributed loops are the same in all threads of the block, so control flow there is the same too and a
barrier may stand anywhere in it. Inner parallel loops and associative reductions are divided among the threads,
stores are made by the first thread, and a barrier separates accesses of different threads to the same buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, i8
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.families.monoid import Monoid
from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.cuda.shared_memory import SHARED_MEMORY
from tenon.lowering.loop_ir.nests import (
    INDEX,
    Reduction,
    index_constant,
    inline_body,
    parallel_domain,
    serialize,
    serialize_all,
)
from tenon.passes.machine import GPU

X = gpu.DimensionAttr(gpu.DimensionEnum.X)
WARP_SIZE = GPU.warp
ALIGNMENT = GPU.access  # of scratch
SHARED_BYTES = GPU.shared * 5 // 6  # the rest is for the slots of `gpu.all_reduce`

ScratchOp = memref.AllocaOp | memref.AllocOp
ViewOp = memref.CollapseShapeOp | memref.ExpandShapeOp | memref.CastOp | memref.ViewOp


def shared_work(block: Block) -> int:
    """The largest number of iterations in `block` that can be divided among threads."""
    return max((shared_iterations(op) for op in block.ops), default=0)


def shared_iterations(op: Operation) -> int:
    nested = max((shared_work(block) for region in op.regions for block in region.blocks), default=0)
    if isinstance(op, scf.ParallelOp):
        domain = parallel_domain(op)
        return max(nested, domain.size if domain is not None else WARP_SIZE)
    if isinstance(op, scf.ForOp) and (reduction := Reduction.match(op)) is not None:
        return reduction.domain.size
    return nested


def runs_in_lockstep(loop: scf.ParallelOp) -> bool:
    """Whether the block goes through `loop` as one: it has few iterations, and more work inside each of them."""
    domain = parallel_domain(loop)
    return domain is not None and domain.size < min(WARP_SIZE, shared_work(loop.body.block))


def scratch_of(block: Block) -> list[ScratchOp]:
    """The allocations that belong to the block of threads, not to one iteration of a distributed loop."""
    found: list[ScratchOp] = []
    for op in block.ops:
        if isinstance(op, ScratchOp):
            found.append(op)
        elif not isinstance(op, scf.ParallelOp) or runs_in_lockstep(op):
            for region in op.regions:
                for inner in region.blocks:
                    found.extend(scratch_of(inner))
    return found


def whole_buffer(buffer: SSAValue) -> SSAValue:
    """The buffer that `buffer` is a view of."""
    while isinstance(buffer.owner, ViewOp):
        buffer = buffer.owner.operands[0]
    return buffer


@dataclass(frozen=True)
class Accesses:
    """The buffers that the threads of a block share and read or write."""

    reads: frozenset[SSAValue] = frozenset()
    writes: frozenset[SSAValue] = frozenset()

    @staticmethod
    def of(op: Operation) -> Accesses:
        reads: set[SSAValue] = set()
        writes: set[SSAValue] = set()
        private: set[SSAValue] = set()
        for inner in op.walk():
            if isinstance(inner, memref.LoadOp):
                reads.add(whole_buffer(inner.memref))
            elif isinstance(inner, memref.StoreOp):
                writes.add(whole_buffer(inner.memref))
            elif isinstance(inner, memref.CopyOp):
                reads.add(whole_buffer(inner.source))
                writes.add(whole_buffer(inner.destination))
            elif isinstance(inner, memref.AllocaOp) and inner.memref.type.memory_space != SHARED_MEMORY:
                private.add(inner.memref)
        return Accesses(frozenset(reads - private), frozenset(writes - private))

    def conflict_with(self, later: Accesses) -> bool:
        return bool(self.reads & later.writes or self.writes & (later.reads | later.writes))

    def __or__(self, other: Accesses) -> Accesses:
        return Accesses(self.reads | other.reads, self.writes | other.writes)


@dataclass
class BlockForm:
    """Divides the body of one block among its `threads`; `pending` holds the accesses since the last barrier."""

    module: ModuleOp
    function: func.FuncOp
    blocks: int
    threads: int
    block_id: SSAValue | None
    shortest_reduction: int = WARP_SIZE
    thread_id: SSAValue | None = None
    first_thread: SSAValue | None = None
    shared_bytes: int = 0
    pending: Accesses = field(default_factory=Accesses)

    def rewrite(self, block: Block) -> None:
        """Give the scratch of the kernel's body its place, and divide the body among the threads."""
        for allocation in scratch_of(block):
            self.place(allocation)
        self.distribute(block)

    # ------------------------------------------------------------------------------------------------ scratch

    def place(self, allocation: ScratchOp) -> None:
        """Put scratch into shared memory or, where it does not fit, into a workspace with a slice per block."""
        buffer = allocation.memref.type
        assert isinstance(buffer, MemRefType)
        for use in tuple(allocation.memref.uses):
            if isinstance(use.operation, memref.DeallocOp):
                Rewriter.erase_op(use.operation)
        needed = self.shared_bytes + -(-buffer_bytes(buffer) // ALIGNMENT) * ALIGNMENT
        if needed <= SHARED_BYTES:
            self.shared_bytes = needed
            scratch = memref.AllocaOp.build(operands=[[], []], result_types=[buffer])
            Rewriter.replace_op(allocation, scratch)
            move_to_shared(scratch.memref)
        else:
            self.place_in_workspace(allocation, buffer)

    def place_in_workspace(self, allocation: ScratchOp, buffer: MemRefType) -> None:
        byte_count = -(-buffer_bytes(buffer) // ALIGNMENT) * ALIGNMENT
        workspace = MemRefType(i8, (self.blocks * byte_count,))
        body = self.function.body.block
        argument = body.insert_arg(workspace, len(body.args))
        self.function.properties["function_type"] = FunctionType.from_lists(body.arg_types, [])
        builder = Builder(InsertPoint.before(allocation))
        offset = index_constant(builder, byte_count if self.block_id is not None else 0)
        if self.block_id is not None:
            offset = builder.insert(arith.MuliOp(self.block_id, offset)).result
        Rewriter.replace_op(allocation, memref.ViewOp(argument, offset, [], buffer))
        for call in self.module.walk():
            if isinstance(call, func.CallOp) and call.callee.string_value() == self.function.sym_name.data:
                fresh = Builder(InsertPoint.before(call)).insert(memref.AllocOp([], [], workspace))
                call.operands = (*call.operands, fresh.memref)

    # --------------------------------------------------------------------------------------------- statements

    def distribute(self, block: Block) -> None:
        """Rewrite the statements of `block`, all of which the whole block of threads reaches."""
        for op in list(block.ops):
            if isinstance(op, scf.ParallelOp):
                self.distribute_parallel(op)
            elif isinstance(op, scf.ForOp):
                self.distribute_for(op)
            elif op.regions:
                self.distribute_structured(op)
            else:
                self.execute_once(op)

    def distribute_parallel(self, loop: scf.ParallelOp) -> None:
        """Divide the iterations among the threads, or let all of them go through the loop together."""
        if self.threads == 1 or runs_in_lockstep(loop):
            self.distribute_for(serialize(loop))
            return
        domain = parallel_domain(loop)
        if domain is None:
            raise PassFailedException(
                f"map-to-grid: @{self.function.sym_name.data}: scf.parallel with bounds that are not constant"
            )
        self.separate(loop)
        serialize_all(loop.body.block)
        builder = Builder(InsertPoint.before(loop))
        terminator = scf.YieldOp()
        strided = builder.insert(self.strided_loop(builder, domain.size, [], Block([terminator], arg_types=[INDEX])))
        target = InsertPoint.before(terminator)
        inline_body(loop.body.block, domain.variables(Builder(target), strided.body.block.args[0]), target)
        loop.detach()
        loop.erase()

    def distribute_for(self, loop: scf.ForOp) -> None:
        """A reduction is divided among the threads, and so is what a sequential loop holds; the rest runs once."""
        reduction = Reduction.match(loop) if self.threads > 1 else None
        if reduction is not None and reduction.domain.size >= self.shortest_reduction:
            self.separate(loop)
            self.reduce(reduction)
        else:
            self.distribute_structured(loop)

    def distribute_structured(self, op: Operation) -> None:
        """Enter an op with regions if there is work to divide in it; otherwise execute it as a whole."""
        accesses = Accesses.of(op)
        has_work = any(shared_work(block) for region in op.regions for block in region.blocks)
        if self.threads == 1 or not (has_work or (op.results and accesses.writes)):
            self.execute_once(op)
            return
        self.separate(op)
        # One iteration follows another, so whatever the op accesses may be pending where its body begins.
        before = after = self.pending
        for region in op.regions:
            for block in region.blocks:
                self.pending = before
                self.distribute(block)
                after |= self.pending
        self.pending = after

    def execute_once(self, op: Operation) -> None:
        """Keep an op for all threads if it only computes, for the first thread if it writes."""
        accesses = self.separate(op)
        for region in op.regions:
            for block in region.blocks:
                serialize_all(block)
        if not accesses.writes or self.threads == 1:
            return
        terminator = scf.YieldOp()
        Builder(InsertPoint.before(op)).insert(scf.IfOp(self.is_first_thread(), [], Region(Block([terminator]))))
        op.detach()
        Builder(InsertPoint.before(terminator)).insert(op)

    def thread(self) -> SSAValue:
        """The number of this thread in its block."""
        if self.thread_id is None:
            builder = Builder(InsertPoint.at_start(self.function.body.block))
            self.thread_id = builder.insert(gpu.ThreadIdOp(X)).result
        return self.thread_id

    def is_first_thread(self) -> SSAValue:
        """Whether this is the first thread of the block."""
        if self.first_thread is None:
            thread = self.thread()
            assert isinstance(thread.owner, Operation)
            builder = Builder(InsertPoint.after(thread.owner))
            self.first_thread = builder.insert(arith.CmpiOp(thread, index_constant(builder, 0), "eq")).result
        return self.first_thread

    def separate(self, op: Operation) -> Accesses:
        """Put a barrier before `op` if it conflicts with what went before; returns what it accesses."""
        accesses = Accesses.of(op)
        if self.pending.conflict_with(accesses) and self.threads > 1:
            Builder(InsertPoint.before(op)).insert(gpu.BarrierOp())
            self.pending = Accesses()
        self.pending |= accesses
        return accesses

    # --------------------------------------------------------------------------------------------- reductions

    def strided_loop(self, builder: Builder, size: int, initial: Sequence[SSAValue], body: Block) -> scf.ForOp:
        """A loop in which a thread takes every iteration whose number is its own modulo the number of threads."""
        size_value, stride = index_constant(builder, size), index_constant(builder, self.threads)
        return scf.ForOp(self.thread(), size_value, stride, initial, body)

    def reduce(self, reduction: Reduction) -> None:
        """acc = combine(acc, all_reduce(partial)), with one partial value per thread."""
        outermost = reduction.loops[0]
        builder = Builder(InsertPoint.before(outermost))
        types = outermost.result_types
        neutral = [
            builder.insert(arith.ConstantOp(monoid.identity(element))).result
            for monoid, element in zip(reduction.combiners, types, strict=True)
        ]
        yielded = reduction.loops[-1].body.block.last_op
        assert yielded is not None
        terminator = scf.YieldOp(*yielded.operands)
        body = Block(arg_types=[INDEX, *types])
        partial = builder.insert(self.strided_loop(builder, reduction.domain.size, neutral, body))
        variables = reduction.domain.variables(Builder(InsertPoint.at_end(body)), body.args[0])
        for loop in reduction.loops[1:]:
            loop.detach()
        for loop, variable in zip(reduction.loops, variables, strict=True):
            inline_body(loop.body.block, [variable, *body.args[1:]], InsertPoint.at_end(body))
        body.add_op(terminator)
        for monoid, initial, value, result in zip(
            reduction.combiners, outermost.iter_args, partial.results, outermost.results, strict=True
        ):
            total = builder.insert(all_reduce(monoid, value)).result
            result.replace_all_uses_with(builder.insert(monoid.combine(initial, total)).results[0])
        outermost.detach()
        for loop in reduction.loops:
            loop.erase()


def move_to_shared(buffer: SSAValue) -> None:
    """Give a buffer and all views of it the type of shared memory."""
    before = buffer.type
    assert isinstance(before, MemRefType)
    shared = MemRefType(before.element_type, before.shape, before.layout, SHARED_MEMORY)
    for use in list(Rewriter.replace_value_with_new_type(buffer, shared).uses):
        if isinstance(use.operation, ViewOp):
            move_to_shared(use.operation.results[0])


def all_reduce(monoid: Monoid, value: SSAValue) -> gpu.AllReduceOp:
    """The combination of the values of all threads, in all threads."""
    body = Block(arg_types=[value.type, value.type])
    combined = monoid.combine(*body.args)
    body.add_ops([combined, gpu.YieldOp([combined.results[0]])])
    return gpu.AllReduceOp.from_body(Region(body), value)
