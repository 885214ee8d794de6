"""What a module compiles to, for a target named on the command line: files, and what decided; nothing is run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from tenon.lowering.explanation import Explained, Row, as_text
from tenon.lowering.pipeline import lower_to_buffers
from tenon.runtime.arguments.interface import Interface
from tenon.runtime.cuda.names import kind_of, ordinal_of
from tenon.runtime.executable_cuda import Built, build_for_cuda, origin_of
from tenon.runtime.lower import kernel_origins, lower_with, options, tuned_kind

if TYPE_CHECKING:
    from tenon.lowering.options import LoweringOptions
    from tenon.passes.machine import Gpu
    from tenon.runtime.cuda.report import KernelReport


def build(module: ModuleOp, target: str) -> dict[str, bytes]:
    """The products of `module` (at any stage) by file name; those of different targets have different names.

    `target` is `cpu` (LLVM IR, object code) or `cuda:ARCH` (CUDA source, cubin, and a table of what is known of its
    kernels). Object code with parallel loops calls what is in `threads.o`: one thread does all until
    `void tenon_reset_threads(void)`, once, and then `void tenon_set_threads(int)` are called. Code that sorts calls
    what is in `tenon_sort_BITS.o`. Raises `ValueError` for another target.
    """
    architecture = _architecture(target)
    return _for_cpu(module) if architecture is None else _for_cuda(module, architecture)


def explain(module: ModuleOp, target: str) -> Explanation:
    """What kernels `module`, at any stage before loops, has on a target of `build`, which options there are for each,
    which one is taken, and what it takes then. Where NVRTC is missing, no time is predicted for a GPU.
    """
    architecture = _architecture(target)
    known = options("cpu", module=module) if architecture is None else options("cuda", architecture)
    buffered = module.clone()
    origins = kernel_origins(module, known)
    (stage, *_) = lower_to_buffers(Context(), buffered, known)
    if stage.name != "buffered":
        raise ValueError("the program is at the stage of loops, where schedules are decided already")
    notes: tuple[str, ...] = ()
    if architecture is None:
        kernels, facts = _options_on_cpu(buffered, known), _counted(buffered)
    else:
        assert known.gpu is not None
        kernels, facts, notes = _options_on_gpu(module, buffered, known, known.gpu)
    told = [
        replace(k, facts=facts.get(k.kernel, {}), notes=_origin(k.kernel, origins) + k.notes)
        for k in (*kernels, *_opaque(buffered))
    ]
    return Explanation(target, told, notes)


@dataclass(frozen=True)
class Explanation:
    """What `explain` tells."""

    target: str
    kernels: Sequence[Explained]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return as_text(self.kernels) + "".join(f"{note}\n" for note in self.notes)

    def json(self) -> str:
        """For programs."""
        return json.dumps(asdict(self), indent=1) + "\n"


def target_of(device: str) -> str:
    """What is compiled for on a device: the processor, or a GPU that is there."""
    if kind_of(device) == "cpu":
        return device
    from tenon.runtime.cuda.device_cuda import architecture

    return f"cuda:{architecture(ordinal_of(device))}"


def _architecture(target: str) -> str | None:
    """The architecture of a GPU, or None for a CPU."""
    device, _, architecture = target.partition(":")
    if (device, architecture) == ("cpu", ""):
        return None
    if device == "cuda" and architecture:
        return architecture
    raise ValueError(f"target {target!r} is neither cpu nor cuda:ARCH, such as cuda:sm_90")


def _origin(kernel: str, origins: Mapping[str, str]) -> tuple[str, ...]:
    text = origin_of(kernel, origins)
    return (text,) if text else ()


def _opaque(buffered: ModuleOp) -> list[Explained]:
    """The kernels that bring code of their own, for which nothing is decided."""
    functions = [op for op in buffered.ops if isinstance(op, FuncOp) and "kernel" in op.attributes]
    return [
        Explained(
            function.sym_name.data, f"{name.data if isinstance(name, StringAttr) else 'code'}, as the op writes it"
        )
        for function in functions
        if not function.body.blocks
        for name in (function.attributes.get("reference"),)
    ]


def _counted(buffered: ModuleOp) -> dict[str, Row]:
    """How often the kernels of a module are called, and what they move and compute each time; nothing where only the
    launch tells sizes."""
    from tenon.lowering.kernels.bytes_moved import bytes_moved
    from tenon.lowering.kernels.operations import operations_of

    if Interface.of(buffered).sizes:
        return {}
    operations = operations_of(buffered.clone())
    return {
        moved.kernel: {
            "calls": moved.calls,
            "read": moved.read // max(moved.calls, 1),
            "written": moved.written // max(moved.calls, 1),
            "operations": operations.get(moved.kernel),
        }
        for moved in bytes_moved(buffered.clone())
    }


def _options_on_cpu(buffered: ModuleOp, known: LoweringOptions) -> list[Explained]:
    from tenon.lowering.schedules.explain import explain
    from tenon.runtime.tuning import decisions

    return explain(buffered, known.machine, decisions("cpu", tuned_kind("cpu", "")))


def _options_on_gpu(
    module: ModuleOp, buffered: ModuleOp, known: LoweringOptions, gpu: Gpu
) -> tuple[list[Explained], dict[str, Row], tuple[str, ...]]:
    """The same on a GPU; what its kernels take, if they can be compiled, and what is to be said of that."""
    from tenon.lowering.grid_schedules.decide_steps import explain
    from tenon.lowering.kernels.bytes_moved import bytes_moved
    from tenon.runtime.cuda.nvrtc import why_unavailable
    from tenon.runtime.cuda.report import total
    from tenon.runtime.tuning import decisions

    tuned = decisions("cuda", gpu.architecture)
    if (missing := why_unavailable()) is not None:
        return explain(buffered, gpu, {}, tuned), _counted(buffered), (f"times are not predicted: {missing}",)
    built = build_for_cuda(module, "main", known, gpu.architecture)
    reports = _reports(buffered, built, gpu)
    calls = {moved.kernel: moved.calls for moved in bytes_moved(buffered.clone())}
    facts: dict[str, Row] = {report.name: {"calls": calls.get(report.name), **report.facts()} for report in reports}
    return explain(buffered, gpu, built.serialised, tuned), _counted(buffered) | facts, (total(reports, gpu),)


def _for_cpu(module: ModuleOp) -> dict[str, bytes]:
    from tenon.lowering.llvm.emit_llvm import ModuleEmitter
    from tenon.runtime.cpu.compile import compile_native, compile_object, host_target
    from tenon.runtime.cpu.compile_parallel import check_texts
    from tenon.runtime.cpu.sorting.loaded import sorter_sources
    from tenon.runtime.cpu.thread_pool import PARALLEL_FOR, pool_source

    known = options("cpu", module=module)
    # The system lets a process use tiles that asked for it, and what links this code need not have.
    machine = replace(known.machine, tiles=())
    lower_with(module, "cpu", replace(known, machine=machine), "main")
    target = host_target()
    emitter = ModuleEmitter(module, native_f16=target.native_f16, dots=machine.dots)
    source = emitter.text()
    check_texts(module, emitter, target)
    products = {
        "main.loops.mlir": f"{module!s}\n".encode(),
        "main.ll": source.encode(),
        "main.o": compile_object(source, target),
        "main.cpu.json": Interface.of(module).to_json().encode(),
    }
    sorters = sorter_sources(source)
    products |= {f"{name}.o": compile_native(text(target.triple), target) for name, text in sorters.items()}
    if PARALLEL_FOR in source or sorters:
        products["threads.o"] = compile_native(pool_source(target.triple), target)
    return products


def _for_cuda(module: ModuleOp, architecture: str) -> dict[str, bytes]:
    from tenon.lowering.grid_schedules.decide_steps import explain
    from tenon.runtime.cuda.report import as_table
    from tenon.runtime.tuning import decisions

    known = options("cuda", architecture)
    assert known.gpu is not None
    told = replace(known, gpu=replace(known.gpu, libraries=()))  # a cubin has all that is to run
    assert told.gpu is not None
    buffered = module.clone()
    rest = lower_to_buffers(Context(), buffered, told)
    before = buffered if rest[0].name == "buffered" else None
    built = build_for_cuda(module, "main", told, architecture)
    tuned = decisions("cuda", architecture)
    explained = [] if before is None else explain(before, told.gpu, built.serialised, tuned)
    return {
        "main.grid.mlir": f"{built.mapped!s}\n".encode(),
        f"main.{architecture}.cu": built.source.encode(),
        f"main.{architecture}.cubin": built.compiled.cubin,
        f"main.{architecture}.txt": as_table(_reports(before, built, told.gpu), told.gpu).encode(),
        f"main.{architecture}.schedules.txt": as_text(explained).encode(),
        f"main.{architecture}.json": Interface.of(built.mapped).to_json().encode(),
    }


def _reports(before: ModuleOp | None, built: Built, gpu: Gpu) -> Sequence[KernelReport]:
    """What is known of the kernels of a module. What they move and compute is counted where kernels are not loops yet,
    in the module `before`."""
    from tenon.lowering.kernels.bytes_moved import bytes_moved
    from tenon.lowering.kernels.operations import operations_of
    from tenon.runtime.cuda.disassembly import disassembler, executed_counts, instruction_counts
    from tenon.runtime.cuda.report import report

    moved = bytes_moved(before.clone()) if before is not None else ()
    operations = operations_of(before.clone()) if before is not None else {}
    compiled, program = built.compiled, disassembler() if built.compiled.cubin else None
    instructions = instruction_counts(compiled.cubin, program) if program is not None else None
    executed = executed_counts(compiled.cubin, program) if program is not None else {}
    return report(built.mapped, compiled.kernels, moved, operations, instructions, executed, built.serialised, gpu)
