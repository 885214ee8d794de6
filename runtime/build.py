"""Files that a module compiles to, for a target named on the command line; nothing is run."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tenon.runtime.stages import Interface, lower_module


def build(module: ModuleOp, target: str) -> dict[str, bytes]:
    """The products of `module` (at any stage) by file name.

    `target` is `cpu` (LLVM IR, object code) or `cuda:ARCH` (CUDA source, cubin). Raises `ValueError` for another
    target.
    """
    device, _, architecture = target.partition(":")
    if device == "cpu" and not architecture:
        return _for_cpu(module)
    if device == "cuda" and architecture:
        return _for_cuda(module, architecture)
    raise ValueError(f"target {target!r} is neither cpu nor cuda:ARCH, such as cuda:sm_90")


def _for_cpu(module: ModuleOp) -> dict[str, bytes]:
    from tenon.lowering.emit_llvm import emit_llvm
    from tenon.runtime.device_cpu import compile_object, host_target

    lower_module(module, "cpu")
    source = emit_llvm(module, native_f16=host_target().native_f16)
    return {
        "main.loops.mlir": f"{module!s}\n".encode(),
        "main.ll": source.encode(),
        "main.o": compile_object(source, host_target()),
        "main.json": Interface.of(module).to_json().encode(),
    }


def _for_cuda(module: ModuleOp, architecture: str) -> dict[str, bytes]:
    from tenon.lowering.emit_cuda import emit_cuda
    from tenon.lowering.pipeline import run_passes
    from tenon.runtime.nvrtc import compile_cubin
    from tenon.runtime.stages import new_context

    lower_module(module, "cuda")
    run_passes(new_context(), module, ["map-to-grid"])
    source = emit_cuda(module, architecture)
    return {
        "main.grid.mlir": f"{module!s}\n".encode(),
        "main.cu": source.encode(),
        "main.cubin": compile_cubin(source, architecture),
        "main.json": Interface.of(module).to_json().encode(),
    }
