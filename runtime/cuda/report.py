"""What is known of compiled kernels without a GPU: what they take of a multiprocessor, what they move and compute, and
from that a predicted time.

A prediction says which limit of the chip a kernel comes closest to, by the rates of its data sheet; it is a bound from
below, no measurement. Of a kernel with few threads the limit is latency: each has in flight what it loads without a
loop in between, or one access of the widest kind, and waits for each result before it goes on, unless it has several
in turn. Where threads do not wait for copies, a block may have as much in flight as its shared memory holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import AnyFloat, Float64Type, MemRefType, ModuleOp, UnitAttr, VectorType
from xdsl.ir import Operation

from tenon.dialects.upstream.bulk_copies import TmaAsyncLoadOp
from tenon.dialects.upstream.nvgpu import DeviceAsyncCopyOp, MmaSyncOp
from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.dialects.upstream.warpgroup import WarpgroupMmaOp
from tenon.lowering.buffers.memref_facts import element_bytes
from tenon.lowering.cuda.emit_cuda import kernels, launch_shape
from tenon.lowering.cuda.shared_memory import shared_memory
from tenon.lowering.explanation import Row, table_of
from tenon.lowering.grids.thread_code import REGISTERS
from tenon.lowering.kernels.bytes_moved import Moved
from tenon.lowering.kernels.statement import root_of
from tenon.lowering.loop_ir.nests import constant_int
from tenon.passes.machine import Gpu, has_data_sheet
from tenon.runtime.cuda.disassembly import INSTALL
from tenon.runtime.cuda.nvrtc import KernelResources

TELLING = (
    "LDG",
    "STG",
    "LDS",
    "STS",
    "LDL",
    "STL",
    "LDGSTS",
    "LDSM",
    "STSM",
    "UTMALDG",
    "UTMASTG",
    "HMMA",
    "HGMMA",
    "DMMA",
)
"""Instructions that show which way a kernel goes; all others are in the total."""

INTEGER = (
    *("IADD3", "VIADD", "LEA", "LOP3", "PLOP3", "SHF", "PRMT", "IMNMX", "VIMNMX", "IABS", "SGXT", "BMSK"),
    *("FSETP", "ISETP", "FSEL", "SEL", "FMNMX", "F2FP", "DSETP"),
)
"""Instructions of the pipe for integers, which has half of the lanes of that for sums and products."""
SPECIAL = ("MUFU", "F2F", "FCHK", "I2F", "F2I", "POPC", "FLO")
"""Instructions of the units for special functions."""

FORMS = {MmaSyncOp: "mma.sync", WarpgroupMmaOp: "wgmma", type(None): "no matrix instructions"}
"""How products of matrices are done, by the op that does them."""


@dataclass(frozen=True)
class KernelReport:
    """A kernel of a program, with what one launch of it does."""

    name: str
    blocks: int
    threads: int
    resources: KernelResources
    occupancy: float
    """The share of the threads of a multiprocessor that can be there at a time."""
    moved: tuple[int, int] | None
    """Bytes read and written, each element once; None where that is not known."""
    operations: int | None
    instructions: Counter[str] | None
    """In the machine code; None without a disassembler."""
    seconds: float | None
    """Predicted."""
    bound: str
    """What the prediction is limited by."""
    form: str
    """By which instructions it multiplies matrices, if it does."""
    remark: str | None
    """What the assembler says of the form by those that only its architecture has, if that was not taken for it."""

    def facts(self) -> Row:
        """What is told of it, by name; what is not known is None."""
        uses, (read, written) = self.resources, self.moved or (None, None)
        return {
            "predicted_us": None if self.seconds is None else round(self.seconds * 1e6, 2),
            "bound": self.bound,
            "blocks": self.blocks,
            "threads": self.threads,
            "registers": uses.registers,
            "shared": uses.shared,
            "spilled": uses.spilled,
            "occupancy": round(self.occupancy, 2),
            "read": read,
            "written": written,
            "operations": self.operations,
        }


def predict(
    gpu: Gpu,
    blocks: int,
    threads: int,
    resident: int,
    moved: int,
    operations: int,
    rate: int | None = None,
    copied: int = 0,
    lanes: int | None = None,
    executed: Counter[str] | None = None,
    independent: int = 1,
) -> tuple[float, str]:
    """Seconds that a launch takes at least, and by which limit: `resident` blocks of `threads` on a multiprocessor,
    which begins `rate` multiply-adds in a cycle by instructions that do not wait for one another; without a rate,
    `lanes` (those of f32, if none are given), and each thread waits for its own, of which `independent` ones are under
    way. A block has an access of each thread under way, or `copied` bytes. What each thread has `executed`, if it is
    known, is begun at the rates of a multiprocessor's schedulers and of its units for special functions."""
    at_once = min(blocks, resident * gpu.multiprocessors)
    active = at_once * threads
    if not active:
        return 0.0, "nothing to do"
    busy = min(blocks, gpu.multiprocessors)
    limits = {
        "memory": moved / gpu.bandwidth,
        "memory latency": moved / (at_once * max(threads * gpu.access, copied)) * gpu.latency,
        "arithmetic": operations / (2 * (rate or lanes or gpu.lanes) * busy * gpu.clock),
    }
    if rate is None:
        limits["arithmetic latency"] = operations / active * gpu.dependent / gpu.clock / independent
    if executed is not None:
        seconds = blocks * threads / (busy * gpu.clock)  # for an instruction of each thread, one thread in a cycle
        limits["instructions"] = seconds * executed.total() / (gpu.schedulers * gpu.warp)
        limits["integers and comparisons"] = seconds * _counted(executed, INTEGER) / gpu.integer_lanes
        limits["special functions"] = seconds * _counted(executed, SPECIAL) / gpu.special
    bound = max(limits, key=lambda name: limits[name])
    return limits[bound], bound


def _counted(executed: Counter[str], names: Sequence[str]) -> int:
    """How many of the executed instructions are of these, with any modifiers."""
    return sum(count for name, count in executed.items() if name.partition(".")[0] in names)


def product_of(function: func.FuncOp) -> MmaSyncOp | WarpgroupMmaOp | None:
    """A matrix instruction of a kernel, if it has some."""
    return next(iter((*ops_of(function, MmaSyncOp), *ops_of(function, WarpgroupMmaOp))), None)


def rate_of(function: func.FuncOp, gpu: Gpu) -> int | None:
    """Multiply-adds that a multiprocessor begins in a cycle by the matrix instructions of a kernel, if it has some."""
    product = product_of(function)
    if product is None:
        return None
    assert isinstance(product.a.type, VectorType | MemRefType)
    by_warps = isinstance(product, MmaSyncOp)
    return gpu.products_of(element_bytes(product.a.type.element_type), by_warps=by_warps)


def lanes_of(function: func.FuncOp, gpu: Gpu) -> int:
    """Multiply-adds that a multiprocessor begins in a cycle for a kernel without these: of f64 if all of its floats
    are."""
    computed = (op for op in all_ops(function) if op.name.startswith(("arith.", "math.")))
    floats = {result.type for op in computed for result in op.results if isinstance(result.type, AnyFloat)}
    return gpu.double_lanes if floats == {Float64Type()} else gpu.lanes


def loaded_together(function: func.FuncOp) -> int:
    """Bytes that a thread loads of arguments without a loop in between that is one in the machine code."""
    entry = function.body.blocks.first
    found: Counter[Operation | None] = Counter()
    for op in (*ops_of(function, memref.LoadOp), *ops_of(function, vector.LoadOp)):
        if entry is None or root_of(op.operands[0]) not in entry.args:
            continue
        type_ = op.results[0].type
        is_vector = isinstance(type_, VectorType)
        bytes_ = element_bytes(type_.element_type) * prod(type_.get_shape()) if is_vector else element_bytes(type_)
        around = op.parent_op()
        while around is not None and not isinstance(around, func.FuncOp):
            if isinstance(around, scf.ForOp):
                extent = constant_int(around.ub)
                if not isinstance(around.attributes.get("unroll"), UnitAttr) or extent is None:
                    break
                bytes_ *= extent
            around = around.parent_op()
        found[around] += bytes_
    return max(found.values(), default=0)


def in_turn(function: func.FuncOp) -> int:
    """Sums of a thread that do not wait for one another: at most as many as it keeps together."""
    types = (op.memref.type for op in ops_of(function, memref.AllocaOp))
    return max((prod(type_.get_shape()) for type_ in types if type_.memory_space == REGISTERS), default=1)


def report(
    module: ModuleOp,
    resources: Mapping[str, KernelResources],
    moved: Sequence[Moved],
    operations: Mapping[str, int],
    instructions: Mapping[str, Counter[str]] | None,
    executed: Mapping[str, Counter[str]],
    serialised: Mapping[str, str],
    gpu: Gpu,
) -> tuple[KernelReport, ...]:
    """A report for each kernel of a grid-mapped `module`, from what compiling it and counting before it found;
    `executed` has what threads execute, of kernels of which that is known, and `serialised` the remarks on kernels in
    another form."""
    by_kernel = {kernel.kernel: (kernel.read // kernel.calls, kernel.written // kernel.calls) for kernel in moved}
    result: list[KernelReport] = []
    for function in kernels(module):
        name = function.sym_name.data
        if name not in resources:
            continue
        (x, y, z), (a, b, c) = launch_shape(function, "grid"), launch_shape(function, "block")
        blocks, threads, uses = x * y * z, a * b * c, resources[name]
        uses = replace(uses, shared=uses.shared + shared_memory(function).byte_count)
        resident = gpu.resident(threads, uses.registers, uses.shared)
        bytes_, count = by_kernel.get(name), operations.get(name)
        seconds, bound = None, "not known"
        if bytes_ is not None and count is not None:
            rate = rate_of(function, gpu)
            copied = uses.shared if ops_of(function, DeviceAsyncCopyOp, TmaAsyncLoadOp) else 0
            copied = max(copied, threads * loaded_together(function))
            lanes = lanes_of(function, gpu)
            known = executed.get(name)
            turns = in_turn(function)
            seconds, bound = predict(
                gpu, blocks, threads, resident, sum(bytes_), count, rate, copied, lanes, known, turns
            )
        result.append(
            KernelReport(
                name=name,
                blocks=blocks,
                threads=threads,
                resources=uses,
                occupancy=resident * threads / gpu.threads,
                moved=bytes_,
                operations=count,
                instructions=instructions.get(name) if instructions is not None else None,
                seconds=seconds,
                bound=bound,
                form=FORMS[type(product_of(function))],
                remark=serialised.get(name),
            )
        )
    return tuple(result)


def total(kernels: Sequence[KernelReport], gpu: Gpu) -> str:
    """What all kernels take together, and by what that is predicted."""
    name = gpu.architecture
    by = (
        f"the data sheet of {name}"
        if has_data_sheet(name)
        else f"what all GPUs have, since no facts of {name} are known"
    )
    seconds = sum(kernel.seconds or 0 for kernel in kernels)
    return f"predicted for one launch of each, by {by}: {seconds * 1e6:.2f} us"


COLUMNS = ("blocks", "threads", "registers", "shared", "spilled", "occupancy", "read", "written", "operations")


def as_table(kernels: Sequence[KernelReport], gpu: Gpu) -> str:
    """The reports as text: a line for each kernel, then its instructions."""
    columns = (*COLUMNS, "predicted_us", "bound")
    rows = [{"kernel": kernel.name} | {name: kernel.facts()[name] for name in columns} for kernel in kernels]
    lines = [*(table_of(rows) if rows else ["  ".join(("kernel", *columns))]), total(kernels, gpu)]
    lines += [
        f"{kernel.name}: takes {kernel.form}, since the assembler serialises it by instructions of "
        f"{gpu.architecture}: {kernel.remark}"
        for kernel in kernels
        if kernel.remark is not None
    ]
    counted = [kernel for kernel in kernels if kernel.instructions is not None]
    lines += [f"{kernel.name}: {_telling(kernel.instructions or Counter())}" for kernel in counted]
    if kernels and not counted:
        lines.append(f"instructions are not counted: nvdisasm is not installed ({INSTALL})")
    return "\n".join(lines) + "\n"


def _telling(counts: Counter[str]) -> str:
    shown = [f"{name} {count}" for name, count in sorted(counts.items()) if name.partition(".")[0] in TELLING]
    return ", ".join([f"{sum(counts.values())} instructions", *shown])
