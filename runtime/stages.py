"""What `jit` makes of a function, stage by stage: `Traced`, `Lowered`, `Compiled`. Each prints as the IR it holds."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp

from tenon.dialects.traits import DeviceOnly
from tenon.dialects.types import element_of, element_type, numpy_dtype, shape_of
from tenon.runtime.addresses import USABLE, addresses
from tenon.runtime.arguments import Signature
from tenon.runtime.knobs import knobs
from tenon.runtime.tree import Structure, unflatten

DEVICES = ("cpu", "cuda")


def new_context() -> Context:
    """A context that knows the dialects of every stage."""
    from xdsl.dialects import gpu, linalg, math, memref, scf, tensor, vector
    from xdsl.dialects.builtin import Builtin

    from tenon.dialects.universe import registered_dialects
    from tenon.lowering.vector_arith import VectorArith

    ctx = Context()
    upstream = (Builtin, func.Func, VectorArith, math.Math, linalg.Linalg, tensor.Tensor, memref.MemRef, scf.Scf)
    for dialect in (*upstream, vector.Vector, gpu.GPU, *registered_dialects()):
        ctx.load_dialect(dialect)
    return ctx


def main_function(module: ModuleOp) -> func.FuncOp:
    """The function `@main`; raises `ValueError` when there is none."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main":
            return op
    raise ValueError("the module has no function @main")


@dataclass(frozen=True)
class Interface:
    """What is passed to an executable: inputs, outputs, scratch memory."""

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    arena_bytes: int
    donations: tuple[int, ...]

    @classmethod
    def of(cls, module: ModuleOp) -> Interface:
        """The interface of a module whose tensors are buffers."""
        main = main_function(module)
        types = list(main.function_type.inputs)
        count: Any = main.attributes.get("num_inputs")
        if count is None or not all(isinstance(t, MemRefType) for t in types):
            raise ValueError("@main does not take buffers, or lacks the attribute num_inputs")
        split = count.value.data
        described = [_describe(t) for t in types]
        donations: Any = main.attributes.get("donations")
        outputs = described[split:-1]
        return cls(
            tuple(described[:split]),
            tuple(outputs),
            described[-1][0][0],
            tuple(donations.get_values()) if donations is not None else (-1,) * len(outputs),
        )

    @classmethod
    def from_json(cls, text: str) -> Interface:
        data = json.loads(text)
        pairs = [tuple((tuple(shape), dtype) for shape, dtype in data[key]) for key in ("inputs", "outputs")]
        return cls(pairs[0], pairs[1], data["arena_bytes"], tuple(data["donations"]))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def _describe(type_: Any) -> tuple[tuple[int, ...], str]:
    return tuple(type_.get_shape()), str(type_.element_type)


@dataclass
class Traced:
    """A function as tensor IR. `signature` is what it was traced for, where that was a call."""

    module: ModuleOp
    result: Structure
    device: str = "cpu"
    name: str = "main"
    signature: Signature | None = None

    def __str__(self) -> str:
        return str(self.module)

    def lower(self) -> Lowered:
        """Lower to loop IR."""
        module = self.module.clone()
        lower_module(module, self.device, self.name)
        return Lowered(module, self.result, self.device, self.name, self.signature)

    def compile(self) -> Compiled:
        """Compile, or take the machine code from the disk cache."""
        made = executable(self.module, self.device, self.name)
        return Compiled(self.result, self.device, self.name, made, self.signature)


@dataclass
class Lowered:
    """A function as loop IR."""

    module: ModuleOp
    result: Structure
    device: str = "cpu"
    name: str = "main"
    signature: Signature | None = None

    def __str__(self) -> str:
        return str(self.module)

    def compile(self) -> Compiled:
        """Compile to machine code."""
        made = executable(self.module, self.device, self.name)
        return Compiled(self.result, self.device, self.name, made, self.signature)


@dataclass
class Compiled:
    """A function as machine code for one signature. May be called from several threads."""

    result: Structure
    device: str
    name: str
    executable: Any
    signature: Signature | None = None

    def __str__(self) -> str:
        return self.executable.ir

    @property
    def interface(self) -> Interface:
        """The shapes and dtypes that are taken and given."""
        return self.executable.interface

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments like those compiled for; raises `TypeError` naming what differs."""
        assert self.signature is not None, f"{self.name} was compiled without a signature; use run"
        return unflatten(self.result, self.run(self.signature.arrays(args, kwargs)))

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Launch on a flat list of arrays of the interface's shapes and dtypes, which are not checked."""
        return self.executable.run(arrays)


def vector_bits(device: str) -> int:
    """The width of the vector registers that loops are written for; 0 where each thread computes one element."""
    if device == "cuda":
        return 0
    if knobs.vector_bits is not None:
        return knobs.vector_bits
    from tenon.runtime.device_cpu import host_target

    return host_target().vector_bits


def lower_module(module: ModuleOp, device: str, name: str = "main") -> ModuleOp:
    """Take `module` from whatever stage it is at to loop IR for `device`, in place."""
    from tenon.lowering.pipeline import lower

    check_device(module, device)
    observer = _Observer(name)
    observer("input", module)
    try:
        lower(new_context(), module, vector_bits(device), observe=observer)
    except Exception as error:
        error.add_note(
            f"while compiling {name}; with TENON_DUMP_IR=DIR the IR after each pass before this one is kept in DIR"
        )
        raise
    observer.finish(module)
    return module


def check_device(module: ModuleOp, device: str) -> None:
    """Raise `ValueError` naming the ops of `module` that run on other devices only."""
    for op in module.walk():
        for trait in op.traits.traits if op.traits else ():
            if isinstance(trait, DeviceOnly) and trait.device != device:
                raise ValueError(f"{op.name}: runs on {trait.device} only, but the target is {device}")


def _file_name(name: str) -> str:
    return re.sub(r"\W", "_", name)


class _Observer:
    """Follows the passes for `TENON_DUMP_IR` (a file per pass) and `TENON_DEBUG` (times at 2, IR at 4)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.started = time.perf_counter()
        self.folder: Path | None = knobs.dump_ir

    def __call__(self, step: str, module: ModuleOp) -> None:
        elapsed = time.perf_counter() - self.started
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{_file_name(self.name)}.{self.count:02d}.{step}.mlir").write_text(f"{module!s}\n")
        if knobs.debug >= 2:
            print(f"tenon: {self.name}: {step}: {1e3 * elapsed:.1f} ms", file=sys.stderr)
        if knobs.debug >= 4:
            print(module, file=sys.stderr)
        self.count += 1
        self.started = time.perf_counter()

    def finish(self, module: ModuleOp) -> None:
        if knobs.debug >= 3:
            print(module, file=sys.stderr)


_EXECUTABLES: dict[str, Any] = {}


def executable(module: ModuleOp, device: str, name: str = "main") -> Any:
    """The executable of a module at any stage: from this process, from the disk cache, or made now."""
    if device not in DEVICES:
        raise ValueError(f"device {device!r} is not one of {', '.join(DEVICES)}")
    if knobs.interpret:
        return InterpretedExecutable(module.clone())
    from tenon.runtime import cache

    text = str(module)
    key = cache.key(text, _meaning(module), device, _target_key(device))
    # With a folder for the IR, every pass has to run once more so that its result can be written there.
    known = _EXECUTABLES.get(key) if knobs.dump_ir is None else None
    if known is None:
        started = time.perf_counter()
        maker = _cpu_executable if device == "cpu" else _cuda_executable
        known = _EXECUTABLES[key] = maker(module, text, key, name)
        if knobs.debug >= 1:
            print(f"tenon: {name}: ready in {1e3 * (time.perf_counter() - started):.0f} ms", file=sys.stderr)
    return known


def _meaning(module: ModuleOp) -> str:
    """What a module's text does not say: the meaning of ops that are not Tenon's own, as structured IR."""
    if all(type(op).__module__.startswith(("tenon.", "xdsl.")) for op in module.walk()):
        return ""
    from tenon.lowering.pipeline import run_passes

    structured = module.clone()
    run_passes(new_context(), structured, ["decompose", "convert-tensor-to-structured"])
    return str(structured)


def _target_key(device: str) -> str:
    if device == "cuda":
        from tenon.runtime.device_cuda import architecture

        return architecture()
    from tenon.runtime.device_cpu import host_target

    target = host_target()
    return f"{target.triple} {target.cpu} {target.features} {vector_bits(device)}"


@dataclass
class CpuExecutable:
    """Machine code for the CPU, with its interface and the loop IR that it was made from."""

    interface: Interface
    ir: str
    code: Any
    address: int
    arenas: list[np.ndarray[Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        given = zip(self.interface.outputs, self.interface.donations, strict=True)
        self._outputs = [(shape, numpy_dtype(element_type(dtype)), donor) for (shape, dtype), donor in given]
        self._takes_over = any(donor >= 0 for donor in self.interface.donations)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Launch. Inputs that are not contiguous are copied.

        A donated input becomes the result that takes over its memory, unless it is read-only or shares memory with
        another input: then the result has memory of its own, and the input stays as it was.
        """
        pointers, flags = addresses(arrays)
        if flags & USABLE != USABLE:
            arrays = [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in arrays]
            pointers, _ = addresses(arrays)
        if self._takes_over:
            shared = _shared(arrays, list(pointers))
            outputs = [
                arrays[donor]
                if donor >= 0 and donor not in shared and arrays[donor].flags.writeable
                else np.empty(shape, dtype)
                for shape, dtype, donor in self._outputs
            ]
        else:
            outputs = [np.empty(shape, dtype) for shape, dtype, _ in self._outputs]
        # Scratch memory serves one launch at a time: launches of several threads each take their own.
        try:
            arena = self.arenas.pop()
        except IndexError:
            arena = _aligned(self.interface.arena_bytes)
        pointers, _ = addresses((*arrays, *outputs, arena))
        self._launch(pointers)
        self.arenas.append(arena)
        return outputs

    @cached_property
    def _launch(self) -> Any:
        from tenon.runtime.device_cpu import entry_point

        return entry_point(self.address)


def _shared(arrays: Sequence[Any], starts: Sequence[int | None]) -> set[int]:
    """The positions of arrays that share memory with another one."""
    ranges = sorted(
        [(start or 0, a.nbytes, i) for i, (start, a) in enumerate(zip(starts, arrays, strict=True)) if a.nbytes]
    )
    shared: set[int] = set()
    end, last = 0, -1
    for start, size, i in ranges:
        if start < end:
            shared.update((i, last))
        if start + size > end:
            end, last = start + size, i
    return shared


def _aligned(size: int, alignment: int = 64) -> np.ndarray[Any, Any]:
    memory = np.empty(size + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size]


def _cpu_executable(module: ModuleOp, text: str, key: str, name: str) -> CpuExecutable:
    from tenon.runtime import cache
    from tenon.runtime.device_cpu import host_target, load_object

    target = host_target()
    entry = cache.load(key) if knobs.dump_ir is None else None
    if entry is None:
        if knobs.log_compiles:
            print(f"tenon: compiling {name} for {target.cpu}", file=sys.stderr)
        entry = _compile_for_cpu(module.clone(), text, name)
        cache.store(key, entry)
    code = load_object(entry["object"], target)
    interface = Interface.from_json(entry["interface"].decode())
    return CpuExecutable(interface, entry["loops.mlir"].decode(), code, code.entry("main"))


def _compile_for_cpu(module: ModuleOp, text: str, name: str) -> dict[str, bytes]:
    import gc

    from tenon.lowering.emit_llvm import emit_llvm
    from tenon.runtime.device_cpu import compile_object, host_target

    was_enabled = gc.isenabled()
    gc.disable()  # IR is one large web of cycles that stays alive until the end anyway
    try:
        lower_module(module, "cpu", name)
        source = emit_llvm(module, native_f16=host_target().native_f16)
        if knobs.debug >= 3:
            print(source, file=sys.stderr)
        code = compile_object(source, host_target())
    finally:
        if was_enabled:
            gc.enable()
    if knobs.dump_ir is not None:
        (knobs.dump_ir / f"{_file_name(name)}.ll").write_text(source)
    return {
        "object": code,
        "interface": Interface.of(module).to_json().encode(),
        "loops.mlir": str(module).encode(),
        "input.mlir": text.encode(),
    }


def _cuda_executable(module: ModuleOp, text: str, key: str, name: str) -> DeviceExecutable:
    from tenon.lowering.pipeline import run_passes
    from tenon.runtime.device_cuda import CudaExecutable

    if knobs.log_compiles:
        print(f"tenon: compiling {name} for {_target_key('cuda')}", file=sys.stderr)
    mapped = lower_module(module.clone(), "cuda", name)
    run_passes(new_context(), mapped, ["map-to-grid"])
    return DeviceExecutable(Interface.of(mapped), str(mapped), CudaExecutable(mapped))


@dataclass
class DeviceExecutable:
    """A program on a device that takes and gives arrays of its own."""

    interface: Interface
    ir: str
    program: Any

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Launch; results stay on the device."""
        return list(self.program(*arrays))


class InterpretedExecutable:
    """A module at any stage, run by the NumPy interpreter."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.ir = str(module)

    @cached_property
    def interface(self) -> Interface:
        """The shapes and dtypes that are taken and given."""
        main = main_function(self.module)
        if "num_inputs" in main.attributes:
            return Interface.of(self.module)
        kinds = [
            tuple((shape_of(t) or (), str(element_of(t))) for t in types)
            for types in (main.function_type.inputs, main.function_type.outputs)
        ]
        return Interface(kinds[0], kinds[1], 0, (-1,) * len(kinds[1]))

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Interpret the module on `arrays`."""
        from tenon.dialects.interpreter import Interpreter
        from tenon.lowering.pipeline import run_passes, stage_of

        if stage_of(self.module) in ("tensor", "fused"):
            run_passes(new_context(), self.module, ["decompose", "convert-tensor-to-structured"])
        arguments = [np.array(a, order="C") for a in arrays]
        if "num_inputs" not in main_function(self.module).attributes:
            return [np.asarray(r) for r in Interpreter().run(self.module, "main", arguments)]
        interface = self.interface
        outputs = [np.zeros(shape, numpy_dtype(element_type(dtype))) for shape, dtype in interface.outputs]
        Interpreter().run(self.module, "main", [*arguments, *outputs, np.zeros(interface.arena_bytes, np.int8)])
        return outputs
