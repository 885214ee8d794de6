"""Files that a module compiles to, for a target named on the command line; nothing is run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tenon.runtime.arguments.interface import Interface
from tenon.runtime.executable_cuda import Built, build_for_cuda
from tenon.runtime.lower import lower_with, options

if TYPE_CHECKING:
    from tenon.passes.machine import Gpu


def build(module: ModuleOp, target: str) -> dict[str, bytes]:
    """The products of `module` (at any stage) by file name; those of different targets have different names.

    `target` is `cpu` (LLVM IR, object code) or `cuda:ARCH` (CUDA source, cubin, and a table of what is known of its
    kernels). Object code with parallel loops calls what is in `threads.o`: one thread does all until
    `void tenon_reset_threads(void)`, once, and then `void tenon_set_threads(int)` are called. Code that sorts calls
    what is in `tenon_sort_BITS.o`. Raises `ValueError` for another target.
    """
    device, _, architecture = target.partition(":")
    if device == "cpu" and not architecture:
        return _for_cpu(module)
    if device == "cuda" and architecture:
        return _for_cuda(module, architecture)
    raise ValueError(f"target {target!r} is neither cpu nor cuda:ARCH, such as cuda:sm_90")


def _for_cpu(module: ModuleOp) -> dict[str, bytes]:
    from tenon.lowering.llvm.emit_llvm import emit_llvm
    from tenon.runtime.cpu.compile import compile_native, compile_object, host_target
    from tenon.runtime.cpu.sorting.loaded import sorter_sources
    from tenon.runtime.cpu.thread_pool import PARALLEL_FOR, pool_source

    known = options("cpu", module=module)
    # The system lets a process use tiles that asked for it, and what links this code need not have.
    machine = replace(known.machine, tiles=())
    lower_with(module, "cpu", replace(known, machine=machine), "main")
    target = host_target()
    source = emit_llvm(module, native_f16=target.native_f16, dots=machine.dots)
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
    from tenon.lowering.pipeline import lower_to_buffers

    told = options("cuda", architecture)
    assert told.gpu is not None
    buffered = module.clone()
    rest = lower_to_buffers(Context(), buffered, told)
    before = buffered if rest[0].name == "buffered" else None
    built = build_for_cuda(module, "main", told, architecture)
    return {
        "main.grid.mlir": f"{built.mapped!s}\n".encode(),
        f"main.{architecture}.cu": built.source.encode(),
        f"main.{architecture}.cubin": built.compiled.cubin,
        f"main.{architecture}.txt": _report(before, built, told.gpu).encode(),
        f"main.{architecture}.schedules.txt": (
            explain(before, told.gpu, built.serialised) if before is not None else ""
        ).encode(),
        f"main.{architecture}.json": Interface.of(built.mapped).to_json().encode(),
    }


def _report(before: ModuleOp | None, built: Built, gpu: Gpu) -> str:
    """The table of the kernels of a module. What they move and compute is counted where kernels are not loops yet, in
    the module `before`."""
    from tenon.lowering.kernels.bytes_moved import bytes_moved
    from tenon.lowering.kernels.operations import operations_of
    from tenon.runtime.cuda.disassembly import disassembler, executed_counts, instruction_counts
    from tenon.runtime.cuda.report import as_table, report

    moved = bytes_moved(before.clone()) if before is not None else ()
    operations = operations_of(before) if before is not None else {}
    compiled, program = built.compiled, disassembler() if built.compiled.cubin else None
    instructions = instruction_counts(compiled.cubin, program) if program is not None else None
    executed = executed_counts(compiled.cubin, program) if program is not None else {}
    found = report(built.mapped, compiled.kernels, moved, operations, instructions, executed, built.serialised, gpu)
    return as_table(found, gpu)
