"""`map-to-grid`: give every kernel its grid of CUDA threads.

Before: a loop-stage module without vectors. A kernel is a `func.func` with the attribute `kernel`: one outermost
`scf.parallel` (or none) around loop nests in order, with constant bounds where loops are parallel. Its arguments do not
share memory, except where `shared_arguments` says so: there each element is read before it is written, by one thread.

After: each kernel has `grid` and `block` (`array<i64: x, y, z>`) and holds no `scf.parallel`. Its body is what one
thread executes, written with `gpu.thread_id`, `gpu.block_id`, `gpu.barrier` and `gpu.all_reduce`. Scratch that the
threads of a block share is a `memref.alloca` in memory space 3 or, where it does not fit there, one more argument,
a workspace that the caller allocates (`memref.alloc`). A grid with a zero in it needs no launch.

There are two forms, and `takes_block_form` is the rule between them:

- thread form: one thread per iteration of the outer loop, and everything inside it in sequence;
- block form: one block per iteration of the outer loop (one in all where there is none), see `block_form`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from tenon.lowering.buffers.memref_facts import buffer_bytes
from tenon.lowering.cuda.block_form import WARP_SIZE, BlockForm, X, scratch_of, shared_work
from tenon.lowering.cuda.shared_memory import SHARED_MEMORY
from tenon.lowering.loop_ir.nests import (
    Domain,
    index_constant,
    inline_body,
    parallel_domain,
    serialize_all,
)
from tenon.lowering.steps.library import is_library_call
from tenon.passes.machine import GPU

THREADS = GPU.largest_block // 4  # of a block, so that several of them share a multiprocessor
FEW_BLOCKS = GPU.multiprocessors  # fewer leave some idle, so each block gets more threads
LOCAL_BYTES = GPU.local // 2

SMALL_SCRATCH, LARGE_SCRATCH = 256, 1024  # bytes that make a block a choice, and the only one


@dataclass(frozen=True)
class MapToGridPass(ModulePass):
    """Give every kernel its grid of CUDA threads.

    A row (what one iteration of the outer loop does) of at least `long_row` iterations that threads can share is given
    to a block rather than to a thread, unless there are more than `many_rows` of them.
    """

    name = "map-to-grid"

    long_row: int = 64
    many_rows: int = 16384

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and "kernel" in function.attributes:
                self.map_kernel(op, function)

    def map_kernel(self, module: ModuleOp, function: func.FuncOp) -> None:
        """Rewrite `function` to what one thread of its grid executes, unless that was done before, or
        a library computes it."""
        if "grid" in function.attributes or is_library_call(function):
            return
        if not function.body.blocks:
            map_declaration(function)
            return
        check_supported(function)
        outer = outer_parallel(function.body.block)
        rows = parallel_domain(outer) if outer is not None else Domain()
        if rows is None:
            kernel = f"@{function.sym_name.data}"
            raise PassFailedException(f"map-to-grid: {kernel}: outer scf.parallel with bounds not constant")
        if outer is not None and not self.takes_block_form(rows, outer.body.block):
            blocks, threads = map_to_threads(outer, rows)
        else:
            shortest_reduction = min(WARP_SIZE, self.long_row)
            blocks, threads = map_to_blocks(module, function, outer, rows, shortest_reduction)
        check_scratch(function)
        function.attributes["grid"] = DenseArrayBase.from_list(i64, (blocks, 1, 1))
        function.attributes["block"] = DenseArrayBase.from_list(i64, (threads, 1, 1))

    def takes_block_form(self, rows: Domain, body: Block) -> bool:
        """Whether a block rather than a thread executes one row.

        It does if the row is long and either there are too few rows to fill the device with one thread each, or the row
        is also written in parallel (so that neighbouring threads touch neighbouring elements), or it needs more than
        256 bytes of scratch. Above 1024 bytes of scratch it does in any case.
        """
        scratch = sum(buffer_bytes(op.memref.type) for op in scratch_of(body))
        if scratch > LARGE_SCRATCH:
            return True
        if shared_work(body) < self.long_row:
            return False
        is_written_in_parallel = any(isinstance(op, scf.ParallelOp) for op in body.walk())
        return rows.size <= self.many_rows or is_written_in_parallel or scratch > SMALL_SCRATCH


def map_declaration(function: func.FuncOp) -> None:
    """A kernel that brings its own CUDA text says how many blocks of how many threads run it; by itself one does."""
    given = function.attributes.get("cuda_launch")
    blocks, threads = given.get_values() if isinstance(given, DenseArrayBase) else (1, THREADS)
    function.attributes["grid"] = DenseArrayBase.from_list(i64, (int(blocks), 1, 1))
    function.attributes["block"] = DenseArrayBase.from_list(i64, (int(threads), 1, 1))


def check_supported(function: func.FuncOp) -> None:
    """Raise on what has no place in a kernel for the GPU."""
    kernel = f"map-to-grid: @{function.sym_name.data}"
    for op in function.body.walk():
        if op.dialect_name() == "vector":
            raise PassFailedException(f"{kernel}: {op.name} is for the CPU; leave vectorization out of the pipeline")
        if isinstance(op, scf.ParallelOp) and op.results:
            raise PassFailedException(
                f"{kernel}: scf.parallel has {len(op.results)} results; a reduction is an scf.for"
            )
        if isinstance(op, func.CallOp):
            raise PassFailedException(f"{kernel}: func.call of @{op.callee.string_value()}; a kernel calls nothing")


def outer_parallel(entry: Block) -> scf.ParallelOp | None:
    """The loop that does all the work of a kernel, if one does."""
    outer: scf.ParallelOp | None = None
    for op in entry.ops:
        if outer is not None and not isinstance(op, func.ReturnOp):
            return None
        if isinstance(op, scf.ParallelOp):
            outer = op
        elif op.regions or isinstance(op, memref.StoreOp | memref.CopyOp | memref.AllocaOp | memref.AllocOp):
            return None
    return outer


def map_to_threads(outer: scf.ParallelOp, rows: Domain) -> tuple[int, int]:
    """One thread per iteration of `outer`; returns the number of blocks and of threads in each."""
    threads = min(THREADS, -(-max(rows.size, 1) // WARP_SIZE) * WARP_SIZE)
    blocks = -(-rows.size // threads)
    serialize_all(outer.body.block)
    builder = Builder(InsertPoint.before(outer))
    number = builder.insert(gpu.ThreadIdOp(X)).result
    if blocks > 1:
        block_id = builder.insert(gpu.BlockIdOp(X)).result
        first = builder.insert(arith.MuliOp(block_id, index_constant(builder, threads))).result
        number = builder.insert(arith.AddiOp(first, number)).result
    if rows.size % threads:
        is_inside = builder.insert(arith.CmpiOp(number, index_constant(builder, rows.size), "ult")).result
        terminator = scf.YieldOp()
        builder.insert(scf.IfOp(is_inside, [], Region(Block([terminator]))))
        builder = Builder(InsertPoint.before(terminator))
    inline_body(outer.body.block, rows.variables(builder, number), builder.insertion_point)
    outer.detach()
    outer.erase()
    return blocks, threads


def map_to_blocks(
    module: ModuleOp, function: func.FuncOp, outer: scf.ParallelOp | None, rows: Domain, shortest_reduction: int
) -> tuple[int, int]:
    """One block per iteration of `outer`; returns the number of blocks and of threads in each."""
    entry = function.body.block
    work = shared_work(outer.body.block if outer is not None else entry)
    largest = GPU.largest_block if rows.size < FEW_BLOCKS else THREADS
    threads = min(largest, max(WARP_SIZE, 1 << (work - 1).bit_length())) if work else 1
    block_id = None
    if outer is not None:
        builder = Builder(InsertPoint.before(outer))
        block_id = builder.insert(gpu.BlockIdOp(X)).result
        inline_body(outer.body.block, rows.variables(builder, block_id), builder.insertion_point)
        outer.detach()
        outer.erase()
    BlockForm(module, function, rows.size, threads, block_id, shortest_reduction).rewrite(entry)
    return rows.size, threads


def check_scratch(function: func.FuncOp) -> None:
    """Raise if one thread needs more memory of its own than it can have."""
    total = 0
    for op in function.body.walk():
        if isinstance(op, memref.AllocOp):
            raise PassFailedException(f"map-to-grid: @{function.sym_name.data}: memref.alloc inside a parallel loop")
        if isinstance(op, memref.AllocaOp) and op.memref.type.memory_space != SHARED_MEMORY:
            total += buffer_bytes(op.memref.type)
    if total > LOCAL_BYTES:
        raise PassFailedException(
            f"map-to-grid: @{function.sym_name.data}: one thread needs {total} bytes of scratch of {LOCAL_BYTES}"
        )
