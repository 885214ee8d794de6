"""Files that a module compiles to, for a target named on the command line; nothing is run."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tenon.runtime.arguments.interface import Interface
from tenon.runtime.lower import lower_module, machine, map_to_grid


def build(module: ModuleOp, target: str) -> dict[str, bytes]:
    """The products of `module` (at any stage) by file name; those of different targets have different names.

    `target` is `cpu` (LLVM IR, object code) or `cuda:ARCH` (CUDA source, cubin). Object code with parallel loops calls
    what is in `threads.o`: one thread does all until `void tenon_reset_threads(void)`, once, and then
    `void tenon_set_threads(int)` are called. Raises `ValueError` for another target.
    """
    device, _, architecture = target.partition(":")
    if device == "cpu" and not architecture:
        return _for_cpu(module)
    if device == "cuda" and architecture:
        return _for_cuda(module, architecture)
    raise ValueError(f"target {target!r} is neither cpu nor cuda:ARCH, such as cuda:sm_90")


def _for_cpu(module: ModuleOp) -> dict[str, bytes]:
    from tenon.lowering.llvm.emit_llvm import emit_llvm
    from tenon.runtime.cpu.compile import compile_object, host_target
    from tenon.runtime.cpu.thread_pool import PARALLEL_FOR, pool_source

    lower_module(module, "cpu")
    target = host_target()
    source = emit_llvm(module, native_f16=target.native_f16, dots=machine().dots)
    products = {
        "main.loops.mlir": f"{module!s}\n".encode(),
        "main.ll": source.encode(),
        "main.o": compile_object(source, target),
        "main.cpu.json": Interface.of(module).to_json().encode(),
    }
    if PARALLEL_FOR in source:
        products["threads.o"] = compile_object(pool_source(target.triple), target)
    return products


def _for_cuda(module: ModuleOp, architecture: str) -> dict[str, bytes]:
    from tenon.runtime.cuda.device_cuda import compile_kernels

    lower_module(module, "cuda", architecture=architecture)
    map_to_grid(module)
    source, cubin = compile_kernels(module, architecture)
    return {
        "main.grid.mlir": f"{module!s}\n".encode(),
        f"main.{architecture}.cu": source.encode(),
        f"main.{architecture}.cubin": cubin,
        f"main.{architecture}.json": Interface.of(module).to_json().encode(),
    }
