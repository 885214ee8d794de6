"""`apply-steps`: kernels that have a list of steps become what one thread of their grid executes.

Before: the buffered stage; kernels may have the attribute `schedule`, a list of steps (see `lowering.steps`).

After: these have `grid` and `block` (`array<i64: x, y, z>`) and hold loops, registers (memory space 5), shared memory
(3) and vectors; `index_bits` is 32 where no index needs more; or, where a library computes them (`library(cublas)`),
they are declarations that say what it is asked for. Kernels without the attribute stay as they are. With
`after_step`, the nest is printed after each step, as comments."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, linalg, memref
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, MemRefType, ModuleOp, i64
from xdsl.ir import Operation

from tenon.dialects.upstream.walking import all_ops
from tenon.lowering.function_pass import Change, FunctionPass
from tenon.lowering.grids.atomic_updates import AtomicCode, atomic_monoid
from tenon.lowering.grids.index_bits import INDEX_BITS
from tenon.lowering.grids.owner_updates import OwnerCode
from tenon.lowering.grids.pieces_code import OnlineCode, PiecesCode
from tenon.lowering.grids.statement_code import StatementCode
from tenon.lowering.grids.thread_code import ThreadCode
from tenon.lowering.grids.update_code import match_updates, write_code
from tenon.lowering.kernels.statement import read_kernel
from tenon.lowering.steps.library import Multiplication, multiplication
from tenon.lowering.steps.nest import THREADS, Nest, NestError
from tenon.lowering.steps.table import apply_steps, read_steps
from tenon.lowering.steps.validity import nest_obstacle
from tenon.passes.machine import Gpu


@dataclass(frozen=True)
class ApplyStepsPass(FunctionPass):
    """Write the code of threads for kernels with a schedule, for a GPU (text, see `Gpu`)."""

    name = "apply-steps"

    machine: str = ""
    after_step: bool = False

    def change(self, module: ModuleOp) -> Change:
        machine = Gpu.of_option(self.name, self.machine)

        def write(function: func.FuncOp) -> None:
            try:
                write_threads(function, machine, trace=self.after_step)
            except NestError as error:
                raise ValueError(f"{self.name}: kernel @{function.sym_name.data}: {error}") from error

        return write


def write_threads(function: func.FuncOp, machine: Gpu, *, trace: bool = False) -> None:
    """Do the steps of a kernel that has some, and write its code. Raises `NestError` for an obstacle."""
    steps = read_steps(function)
    if "grid" in function.attributes:
        return
    if steps is None:
        updates = match_updates(function)
        if updates is not None:
            monoid, entry = atomic_monoid(updates, machine), function.body.block
            if monoid is None:
                write_code(function, OwnerCode(entry, updates, machine))
            else:
                write_code(function, AtomicCode(entry, updates, monoid, machine))
        return
    nest = Nest.of(read_kernel(function), machine)
    apply_steps(nest, steps, _print_nest if trace else None)
    obstacle = nest_obstacle(nest)
    if obstacle is not None:
        raise NestError(obstacle)
    if nest.library:
        write_declaration(function, nest)
    else:
        write_nest(function, nest)


def _print_nest(step: str, nest: Nest) -> None:
    for line in (f"after {step}", *str(nest).splitlines()):
        print(f"// {line}")


def write_declaration(function: func.FuncOp, nest: Nest) -> None:
    """Put what a library is asked for in the place of a kernel."""
    found = multiplication(nest)
    assert isinstance(found, Multiplication)
    function.attributes |= found.attributes()
    function.body.detach_block(function.body.block).erase()


def write_nest(function: func.FuncOp, nest: Nest) -> None:
    """Put the code of a thread in the place of a kernel's statements."""
    wide = _needs_wide_indices(function, nest)
    entry = function.body.block
    returned = entry.last_op
    assert isinstance(returned, func.ReturnOp)
    replaced: list[Operation] = []
    for op in list(entry.ops):
        if isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp | memref.AllocOp | memref.DeallocOp):
            op.detach()
            replaced.append(op)
    returned.detach()
    _writer(nest)(nest, ThreadCode(nest, entry)).emit_all()
    entry.add_op(returned)
    for op in reversed(replaced):
        op.erase()
    for name, count in (("grid", nest.blocks), ("block", nest.count(*THREADS) + nest.copiers)):
        function.attributes[name] = DenseArrayBase.from_list(i64, (count, 1, 1))
    if nest.resident:
        function.attributes["resident"] = IntegerAttr(nest.resident, i64)
    if not wide:
        function.attributes[INDEX_BITS] = IntegerAttr(32, i64)


def _writer(nest: Nest) -> type[StatementCode]:
    if nest.pieces is None:
        return StatementCode
    return PiecesCode if nest.pieces.maximum is None else OnlineCode


def _needs_wide_indices(function: func.FuncOp, nest: Nest) -> bool:
    """Whether 32 bits are too few for the indices of a kernel: it has buffers of 2^31 elements or more, or computes
    with indices itself."""
    if any(nest.covered(axis) >= 1 << 31 for axis in nest.extents):
        return True
    for statement in nest.kernel.statements:
        for access in statement.accesses:
            if prod(access.shape) >= 1 << 31:
                return True
    for op in all_ops(function):
        if isinstance(op, memref.LoadOp):
            buffer = op.memref.type
            if isinstance(buffer, MemRefType) and prod(buffer.get_shape()) >= 1 << 31:
                return True
        elif op.name.startswith("arith.") and any(isinstance(result.type, IndexType) for result in op.results):
            is_small = isinstance(op, arith.IndexCastOp) and op.input.type == IntegerType(32)
            if not is_small and not isinstance(op, arith.ConstantOp):
                return True
    return False
