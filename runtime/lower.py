"""From a module at any stage to loop IR for a device, followed by `TENON_DUMP_IR` and `TENON_DEBUG`.

What compiles calls this; what runs from the disk cache does not, so the passes are imported where they are run.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, ContainerType, IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import DeviceOnly
from tenon.dialects.support.location import at_line
from tenon.lowering.options import LoweringOptions
from tenon.passes.machine import CUBLAS, GENERIC, GPU, Gpu, Machine, gpu_of
from tenon.runtime.cuda.names import kind_of, ordinal_of
from tenon.runtime.knobs import knobs
from tenon.runtime.processor_facts import known_sizes, may_use_tiles
from tenon.runtime.store.files import write_file

if TYPE_CHECKING:
    from tenon.runtime.cpu.compile import Target


def new_context() -> Context:
    """A context that knows the dialects of every stage."""
    from xdsl.dialects import func, linalg, math, scf, tensor

    from tenon.dialects.universe import UPSTREAM, registered_dialects
    from tenon.runtime.store.resources import builtin_dialect

    ctx = Context()
    plain = (builtin_dialect(), func.Func, math.Math, linalg.Linalg, tensor.Tensor, scf.Scf)
    for dialect in (*plain, *registered_dialects()):
        ctx.load_dialect(dialect)
    for name, load in UPSTREAM.items():
        ctx.register_dialect(name, load)
    return ctx


def machine(*, tiles: bool = True) -> Machine:
    """The processor that code is compiled for: this one, as far as the knobs leave it so. Of its caches, those that the
    system tells; the others are as in `GENERIC`. Without `tiles` it has none, and the system isn't asked for them."""
    from tenon.runtime.cpu.compile import host_target

    target = host_target()
    known = replace(
        GENERIC,
        vector_bits=target.vector_bits,
        registers=target.registers,
        scaling=target.native_scaling,
        multiply_add=target.multiply_add,
        halves=target.halves,
        packs=target.packs,
        dots=tuple([name for name in target.dots if name != "bf16" or knobs.bf16_dots]),
        tiles=_tiles(target) if tiles else (),
        **known_sizes(),
    )
    return known if knobs.vector_bits is None else known.with_vectors(knobs.vector_bits)


def _tiles(target: Target) -> tuple[str, ...]:
    """The elements that are multiplied in tiles: none if the system does not let this process use them."""
    named = [name for name in target.tiles if name != "bf16" or knobs.bf16_dots]
    return tuple(named) if named and may_use_tiles() else ()


def gpu(ordinal: int | None = None) -> Gpu:
    """The GPU that code is compiled for: by default the current one, or where there is none what all have in common."""
    from tenon.runtime.cuda import device_cuda

    return GPU if device_cuda.why_unavailable() is not None else gpu_of(device_cuda.architecture(ordinal))


def _multiplies_tiles(module: ModuleOp) -> bool:
    """Whether `module` may have products of what tiles are made of: there are elements that have the size of theirs."""
    types = (value.type for op in module.walk() for value in (*op.operands, *op.results))
    elements = {type_.get_element_type() if isinstance(type_, ContainerType) else type_ for type_ in types}
    return any(
        isinstance(element, BFloat16Type) or (isinstance(element, IntegerType) and element.width.data == 8)
        for element in elements
    )


def options(device: str, architecture: str | None = None, module: ModuleOp | None = None) -> LoweringOptions:
    """What the device and the knobs tell the passes; of a GPU, if it has this `architecture`. For a `module` without
    what tiles are made of the system isn't asked for them: they cost the process something (see `may_use_tiles`)."""
    on_gpu = kind_of(device) == "cuda"
    told = gpu_of(architecture) if architecture is not None else gpu(ordinal_of(device)) if on_gpu else GPU
    return LoweringOptions(
        machine=GENERIC if on_gpu else machine(tiles=module is None or _multiplies_tiles(module)),
        gpu=_as_allowed(told) if on_gpu else None,
        tuning=tuning_options(device, told.architecture),
        exact_math=knobs.exact_math,
        filtering=knobs.minimal_filtering and not on_gpu,
        skipping=knobs.skip_masked,
    )


def _as_allowed(gpu: Gpu) -> Gpu:
    """A GPU with what the knobs allow and what is installed."""
    from tenon.runtime.cuda.cublas import path

    libraries = (CUBLAS,) if knobs.cublas and path() is not None else ()
    return replace(gpu, tf32=knobs.tf32, deterministic=knobs.deterministic, libraries=libraries)


def tuning_options(device: str, architecture: str) -> str:
    """The options of the pass that decides for the tuning record that is in use; empty without one. Of a GPU the
    `architecture` is told."""
    if knobs.tuning is None:
        return ""
    from tenon.runtime.tuning import options

    return options(device, tuned_kind(device, architecture))


def tuned_kind(device: str, architecture: str) -> str | int:
    """What a tuning record tells processors of one kind apart by."""
    return architecture if kind_of(device) == "cuda" else machine(tiles=False).vector_bits


def check_device(module: ModuleOp, device: str) -> None:
    """Raise `ValueError` naming the ops of `module` that run on other devices only."""
    for op in module.walk():
        for trait in op.traits.traits if op.traits else ():
            if isinstance(trait, DeviceOnly) and trait.device != kind_of(device):
                raise ValueError(f"{op.name}: runs on {trait.device} only, but the target is {device}")


def lower_module(module: ModuleOp, device: str, name: str = "main") -> ModuleOp:
    """Take `module` from whatever stage it is at to loop IR for `device`, in place."""
    return lower_with(module, device, options(device, module=module), name)


def lower_with(module: ModuleOp, device: str, options: LoweringOptions, name: str) -> ModuleOp:
    """`lower_module` with `options` that were asked for before."""
    from tenon.lowering.pipeline import lower

    check_device(module, device)
    observer = _Observer(name)
    observer("input", module)
    with _named(name):
        # Passes take a context because those of xDSL do; only parsers ask it for dialects, which take long to load.
        lower(Context(), module, options, observer, verify=knobs.verify)
    observer.finish(module)
    return module


def lower_by_function(module: ModuleOp, device: str, options: LoweringOptions, name: str = "main") -> Iterator[FuncOp]:
    """Take `module` to loop IR for `device`, in place, and give its functions, each as soon as it is there.

    When this returns, all kernels and calls of them are there. Where passes are watched, each runs on all functions.
    """
    from tenon.lowering.pipeline import functions_in_order, lower_by_function

    if _Observer.is_watching():
        return iter(functions_in_order(lower_with(module, device, options, name)))
    check_device(module, device)
    with _named(name):
        functions = lower_by_function(Context(), module, options, verify=knobs.verify)
    return _naming(name, functions)


def _naming(name: str, functions: Iterator[FuncOp]) -> Iterator[FuncOp]:
    with _named(name):
        yield from functions


@contextmanager
def _named(name: str) -> Generator[None]:
    """Errors say what was compiled."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"while compiling {name}; with TENON_DUMP_IR=DIR the IR after each pass before this one is kept in DIR"
        )
        raise


def lowered_again(module: ModuleOp, options: LoweringOptions) -> ModuleOp:
    """A copy of `module`, which was lowered with `options` before, as loop IR."""
    from tenon.lowering.pipeline import lower

    return lower(Context(), module.clone(), options, verify=knobs.verify)


def buffered_again(module: ModuleOp, options: LoweringOptions) -> ModuleOp | None:
    """As `lowered_again`, no further than to buffers; `None` if the kernels of `module` are loops already."""
    from tenon.lowering.pipeline import lower_to_buffers

    result = module.clone()
    rest = lower_to_buffers(Context(), result, options, verify=knobs.verify)
    return result if rest[0].name == "buffered" else None


def kernel_origins(module: ModuleOp, options: LoweringOptions) -> dict[str, str]:
    """What each kernel that `module` is lowered to with `options` computes: ops, and the lines of the user that they
    come from. Nothing where `module` has no tensor ops."""
    from tenon.lowering.pipeline import run_passes, stage_of, stages

    result, stage = module.clone(), stage_of(module)
    if stage == "tensor":
        run_passes(Context(), result, stages(options)[0].passes, verify=knobs.verify)
    elif stage != "fused":
        return {}
    functions = [op for op in result.ops if isinstance(op, FuncOp) and "kernel" in op.attributes]
    return {function.sym_name.data: _origin(function) for function in functions}


def _origin(kernel: FuncOp) -> str:
    """The ops of a kernel, those of one line together."""
    lines: dict[str, dict[str, None]] = {}
    for op in kernel.body.walk():
        if isinstance(op, TensorOp) and op.operands:
            lines.setdefault(at_line(op), {})[op.name] = None
    return "; ".join([f"{', '.join(names)}{line}" for line, names in lines.items()])


def map_to_grid(module: ModuleOp) -> ModuleOp:
    """Make loop IR for CUDA kernels with a grid, in place."""
    from tenon.lowering.pipeline import run_passes

    run_passes(Context(), module, ["map-to-grid", "approximate-rounded", "legalize-arith"], verify=knobs.verify)
    return module


def structured(module: ModuleOp) -> ModuleOp:
    """A copy of `module` without tensor ops: what they mean as structured ops on tensors."""
    from tenon.lowering.pipeline import run_passes

    result = module.clone()
    run_passes(Context(), result, ["infer-shapes", "decompose", "convert-tensor-to-structured"], verify=knobs.verify)
    return result


def without_tensor_ops(module: ModuleOp, options: LoweringOptions) -> ModuleOp:
    """A copy of `module` by the passes that compile it with `options`, as far as these ask what tensor ops mean."""
    from tenon.lowering.pipeline import run_passes, stage_of, stages

    result = module.clone()
    order = stages(options)
    names = [stage.name for stage in order]
    for stage in order[names.index(stage_of(module)) : names.index("structured")]:
        run_passes(Context(), result, stage.passes, verify=knobs.verify)
    return result


def dump(name: str, suffix: str, text: str) -> None:
    """Write `name.suffix` into the folder of `TENON_DUMP_IR`, if that is set."""
    if knobs.dump_ir is not None:
        try:
            knobs.dump_ir.mkdir(parents=True, exist_ok=True)
            write_file(knobs.dump_ir / f"{_file_name(name)}.{suffix}", text)
        except OSError as error:
            raise OSError(f"TENON_DUMP_IR: cannot write to {knobs.dump_ir}: {error.strerror or error}") from None


def _file_name(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _remove_former_dump(folder: Path, name: str) -> None:
    """Remove what an earlier run left under this name: its pipeline may have been a longer one."""
    for pattern in ("[0-9][0-9]*.*.mlir", "ll"):
        for path in folder.glob(f"{_file_name(name)}.{pattern}"):
            path.unlink(missing_ok=True)


class _Observer:
    """Follows the passes for `TENON_DUMP_IR` (a file per pass) and `TENON_DEBUG` (times at 2, IR at 4)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.started = time.perf_counter()
        if knobs.dump_ir is not None:
            _remove_former_dump(knobs.dump_ir, name)

    @staticmethod
    def is_watching() -> bool:
        """Whether anything is done with what passes leave."""
        return knobs.dump_ir is not None or knobs.debug >= 2

    def __call__(self, step: str, module: ModuleOp) -> None:
        elapsed = time.perf_counter() - self.started
        if knobs.dump_ir is not None:
            dump(self.name, f"{self.count:02d}.{step}.mlir", f"{module!s}\n")
        if knobs.debug >= 2:
            print(f"tenon: {self.name}: {step}: {1e3 * elapsed:.1f} ms", file=sys.stderr)
        if knobs.debug >= 4:
            print(module, file=sys.stderr)
        self.count += 1
        self.started = time.perf_counter()

    def finish(self, module: ModuleOp) -> None:
        if knobs.debug >= 3:
            print(module, file=sys.stderr)
