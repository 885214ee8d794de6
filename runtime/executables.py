"""Executables: machine code, device programs and interpreted modules, each with its interface and its IR.

`executable` gives the one for a module: from this process, from the disk cache, or made now. From the disk cache
nothing is lowered, and nothing of `lowering` is imported for the CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import tenon.runtime.cpu.llvm_lock  # noqa: F401  # pyright: ignore[reportUnusedImport]  before others import what compiles
from tenon.dialects.definition.registry import generation
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.dialects.support.frozen_arguments import PREPARE
from tenon.dialects.types.size import replaced
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime import lower
from tenon.runtime.arguments.interface import Interface, takes_buffers
from tenon.runtime.arguments.outputs import sharing
from tenon.runtime.call.launch import Launch
from tenon.runtime.cpu.addresses import USABLE, addresses
from tenon.runtime.cpu.launch_memory import PLAIN, LaunchMemory
from tenon.runtime.cpu.result_memory import empty
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collect_recent, collection_paused, in_background
from tenon.runtime.store import cache
from tenon.runtime.store.digest import digest

if TYPE_CHECKING:
    from tenon.runtime.cpu.compile_parallel import Workers

DEVICES = ("cpu", "cuda")

_Made = TypeVar("_Made")


class Executable(Protocol):
    """A program that is ready to run. May be run from several threads."""

    @property
    def ir(self) -> str:
        """The IR that it was made from."""
        ...

    @property
    def interface(self) -> Interface:
        """The shapes and dtypes that are taken and given."""
        ...

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> Sequence[Any]:
        """What depends on frozen inputs alone; `frozen` has these by position."""
        ...

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[Any]:
        """Launch on arrays of the interface's shapes and dtypes, which are not checked.

        The results are written to `outputs`, if given (see `given_outputs`). `prepared` is what `prepare` gave for
        these inputs; without it, that is computed for this launch.
        """
        ...


# Operations from which on other threads should run meanwhile: about ten microseconds.
_LONG = 20_000
# For modules that are compiled again. Executables in use live as long as they are used.
_executables: BoundedCache[Executable] = BoundedCache(256)


def executable(module: ModuleOp, device: str, name: str = "main") -> Executable:
    """The executable of a module at any stage: from this process, from the disk cache, or made now."""
    if device not in DEVICES:
        raise ValueError(f"device {device!r} is not one of {', '.join(DEVICES)}")
    with collection_paused():
        if knobs.interpret:
            return InterpretedExecutable(module)
        said = digest(module)
        key = cache.key(said, _meaning(module, said, device), device, _target_key(device))
        # With a folder for the IR, every pass has to run once more so that its result can be written there.
        kind = key, knobs.check_memory
        known = _executables.get(kind) if knobs.dump_ir is None else None
        if known is None:
            started = time.perf_counter()
            maker = _cpu_executable if device == "cpu" else _cuda_executable
            known = _executables[kind] = maker(module, key, name)
            if knobs.debug >= 1:
                print(f"tenon: {name}: ready in {1e3 * (time.perf_counter() - started):.0f} ms", file=sys.stderr)
        return known


# What modules with ops of users mean, by what they say and what the ops are.
_meanings: BoundedCache[str] = BoundedCache(256)


def _meaning(module: ModuleOp, said: str, device: str) -> str:
    """What a module, whose digest is `said`, does not say itself: what the hooks of ops that are not Tenon's own make
    of it while compiling.
    """
    kinds = frozenset([type(op) for op in module.walk()])
    if all(kind.__module__.startswith(("tenon.", "xdsl.")) for kind in kinds):
        return ""
    key = (said, kinds, device, lower.options(device), generation())
    known = _meanings.get(key)
    if known is None:
        known = _meanings[key] = digest(lower.without_tensor_ops(module, device))
    return known


def _target_key(device: str) -> str:
    # what a tuning record says counts, not where it lies
    options = f"{replace(lower.options(device), tuning='')}{_tuning_key(device)}"
    if device == "cuda":
        from tenon.runtime.cuda import nvrtc
        from tenon.runtime.cuda.device_cuda import architecture

        return f"{architecture()} nvrtc {'.'.join(map(str, nvrtc.version()))} {options}"
    from tenon.runtime.cpu.compile import host_target

    target = host_target()
    return f"{target.triple} {target.cpu} {target.features} {options}"


def _tuning_key(device: str) -> str:
    if knobs.tuning is None:
        return ""
    from tenon.runtime.tuning import digest

    return f" {digest(device, lower.machine().vector_bits)}"


def _made(key: str, make: Callable[[], Mapping[str, bytes]], use: Callable[[Mapping[str, bytes]], _Made]) -> _Made:
    """What `use` gives for the files of an executable: those in the disk cache, unless the IR after every pass is asked
    for, or new ones."""
    return cache.made(key, make, use, reuse=knobs.dump_ir is None)


def _say_compiling(name: str, target: str) -> None:
    if knobs.log_compiles:
        print(f"tenon: compiling {name} for {target}", file=sys.stderr)


# --- the CPU --------------------------------------------------------------------------------------

_OBJECT = "object."
"""What the names of object codes in an entry start with."""


@dataclass
class CpuExecutable:
    """Machine code for the CPU, with its interface; `ir` is the loop IR that it was made from."""

    interface: Interface
    lowered: Callable[[], ModuleOp]
    code: Any
    address: int
    name: str = "main"
    copies: int = 0
    """How many inputs were copied so far, since they were not contiguous or not aligned."""
    arenas: list[np.ndarray[Any, Any]] = field(default_factory=list)
    prepare_address: int = 0
    memory: LaunchMemory = PLAIN

    @property
    def ir(self) -> str:
        """The loop IR. Few ask for it, and to print it takes long: it is made again when it is asked for."""
        return str(self.lowered())

    def __post_init__(self) -> None:
        from tenon.runtime.cpu.load import entry_point

        self._launch = entry_point(self.address)
        given = zip(self.interface.outputs, self.interface.donations, strict=True)
        self._outputs = [(shape, numpy_dtype(element_type(dtype)), donor) for (shape, dtype), donor in given]
        self._takes_over = any(donor >= 0 for donor in self.interface.donations)

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> list[np.ndarray[Any, Any]]:
        """What depends on frozen inputs alone, in memory of its own."""
        preparation = self.interface.preparation
        if preparation is None:
            return []
        from tenon.runtime.cpu.load import entry_point

        taken = [self._usable(frozen[position], position) for position in preparation.inputs]
        prepared = [self._aligned_array(shape, dtype) for shape, dtype in preparation.outputs]
        arena = self.memory.aligned(preparation.arena_bytes, f"arena of the preparation of {self.name}")
        self.memory.call(self.name, entry_point(self.prepare_address), taken, (), prepared, (), arena)
        return prepared

    def _aligned_array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        kind = numpy_dtype(element_type(dtype))
        memory = self.memory.aligned(prod(shape) * kind.itemsize, f"prepared value of {self.name}")
        return memory.view(kind).reshape(shape)

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Launch. Inputs that are not contiguous or not aligned are copied, which `TENON_DEBUG=2` tells.

        A donated input becomes the result that takes over its memory, unless it is read-only or shares memory with
        another input: then the result has memory of its own, and the input stays as it was.
        """
        _, flags = addresses(arrays)
        if flags & USABLE != USABLE:
            arrays = [self._usable(a, position) for position, a in enumerate(arrays)]
        if outputs is not None:
            outputs = list(outputs)
        elif self._takes_over:
            shared = sharing(arrays)
            outputs = [
                arrays[donor]
                if donor >= 0 and donor not in shared and arrays[donor].flags.writeable
                else empty(shape, dtype)
                for shape, dtype, donor in self._outputs
            ]
        else:
            outputs = [empty(shape, dtype) for shape, dtype, _ in self._outputs]
        arena = self._idle_arena()
        held = self.prepare(arrays) if prepared is None else prepared
        self.memory.call(self.name, self._launch, arrays, held, outputs, (), arena)
        self.arenas.append(arena)
        return outputs

    def launch(self, frozen: Mapping[int, Any], prepared: Sequence[Any]) -> Launch:
        """What native calls run: this code, with an arena of its own, one that is idle if there is any, and with the
        inputs that are `frozen`, by position, and what was prepared from them.
        """
        results = [(donor, dtype, shape) for shape, dtype, donor in self._outputs]
        work = self.interface.work
        is_long = work is None or work > _LONG
        inputs = [frozen.get(position) for position in range(len(self.interface.inputs))]
        return Launch(self.address, (*inputs, *prepared), self._idle_arena(), results, is_long, self)

    def _idle_arena(self) -> np.ndarray[Any, Any]:
        """Scratch memory, which serves one launch at a time: launches of several threads each take their own."""
        try:
            return self.arenas.pop()
        except IndexError:
            return self.memory.aligned(self.interface.arena_bytes, f"arena of {self.name}")

    def _usable(self, array: np.ndarray[Any, Any], position: int) -> np.ndarray[Any, Any]:
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        self.copies += 1
        if knobs.debug >= 2:
            why = "is not aligned" if array.flags.c_contiguous else f"has strides {array.strides}"
            print(
                f"tenon: {self.name}: array {position}, {array.dtype}{list(array.shape)}, {why} and is copied "
                f"({self.copies} so far)",
                file=sys.stderr,
            )
        return np.array(array, order="C")


class SizedCpuExecutable(CpuExecutable):
    """Machine code for the CPU for any sizes of the dimensions that have names."""

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Launch for the sizes of `arrays`; raises `SizeMismatchError` or `EmptySizeError`. Nothing is taken over."""
        values = self.interface.bind([array.shape for array in arrays])
        arrays = [self._usable(array, position) for position, array in enumerate(arrays)]
        if outputs is None:
            outputs = [empty([replaced(size, values) for size in shape], dtype) for shape, dtype, _ in self._outputs]
        numbers = [np.array(values[name], np.int64) for name in self.interface.sizes]
        arena = self.memory.aligned(replaced(self.interface.arena_bytes, values), f"arena of {self.name}")
        held = self.prepare(arrays) if prepared is None else prepared
        self.memory.call(self.name, self._launch, arrays, held, outputs, numbers, arena)
        return list(outputs)


_LARGE = 100
"""Tensor ops of a program that takes so long to compile that threads are worth it."""


def _load_runtime() -> None:
    """Load the native code that large programs use; a new installation compiles it first."""
    from tenon.runtime.cpu.threads import pool_address

    pool_address()
    addresses(())


def _cpu_executable(module: ModuleOp, key: str, name: str) -> CpuExecutable:
    from tenon.runtime.cpu.compile import host_target
    from tenon.runtime.cpu.load import ENTRY
    from tenon.runtime.cpu.program import load_program

    target = host_target()

    def compiled() -> Mapping[str, bytes]:
        _say_compiling(name, target.cpu)
        return _compile_for_cpu(module, name)

    def loaded(entry: Mapping[str, bytes]) -> CpuExecutable:
        interface = Interface.from_json(entry["interface"].decode())
        exports = (ENTRY,) if interface.preparation is None else (ENTRY, PREPARE)
        objects = [data for name, data in entry.items() if name.startswith(_OBJECT)]
        memory = _launch_memory()
        code = load_program(objects, target, exports=exports, scratch=memory.scratch_functions())
        kind = SizedCpuExecutable if interface.sizes else CpuExecutable
        lowered = partial(lower.lowered_again, module, lower.options("cpu"))
        prepare = 0 if interface.preparation is None else code.entry(PREPARE)
        return kind(interface, lowered, code, code.entry(), name, prepare_address=prepare, memory=memory)

    return _made(key, compiled, loaded)


def _launch_memory() -> LaunchMemory:
    if not knobs.check_memory:
        return PLAIN
    from tenon.runtime.cpu.guarded_memory import guarded

    return guarded()


def _compile_for_cpu(module: ModuleOp, name: str) -> dict[str, bytes]:
    from tenon.runtime.cpu.compile_parallel import Workers
    from tenon.runtime.cpu.threads import get_num_threads

    threads = get_num_threads()
    is_large = sum(1 for _ in module.walk()) >= _LARGE
    runtime = in_background(_load_runtime) if threads > 1 and is_large else nullcontext()
    with runtime, Workers(threads) as workers:
        interface = _begin_for_cpu(module.clone(), name, workers)
        if workers.are_busy:
            collect_recent()
        objects = workers.results()
    return {
        "interface": interface.to_json().encode(),
        **{f"{_OBJECT}{number}": code for number, code in enumerate(objects)},
    }


def _begin_for_cpu(module: ModuleOp, name: str, workers: Workers) -> Interface:
    """Lower `module` in place, and let `workers` compile it. Nothing needs it when this returns."""
    from tenon.lowering.llvm.emit_llvm import ModuleEmitter
    from tenon.runtime.cpu.compile import host_target
    from tenon.runtime.cpu.compile_parallel import ObjectCompiler

    target = host_target()
    functions = lower.lower_by_function(module, "cpu", name)
    emitter = ModuleEmitter(module, native_f16=target.native_f16, dots=lower.machine().dots)
    compiler = ObjectCompiler(module, emitter, target, workers)
    for function in functions:
        compiler.add(function)
    if knobs.debug >= 3:
        print(compiler.text(), file=sys.stderr)
    if knobs.dump_ir is not None:
        lower.dump(name, "ll", compiler.text())
    compiler.finish()
    return Interface.of(module)


# --- CUDA -----------------------------------------------------------------------------------------


@dataclass
class DeviceExecutable:
    """A program on a device that takes and gives arrays of its own."""

    interface: Interface
    ir: str
    program: Any

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> Sequence[Any]:
        """Nothing: programs for devices compute all at each launch."""
        return ()

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[Any]:
        """Launch; results stay on the device, so that there are no `outputs` to give."""
        if outputs is not None:
            raise TypeError("out: programs for cuda do not write to arrays that are given")
        return list(self.program(*arrays))


def _cuda_executable(module: ModuleOp, key: str, name: str) -> DeviceExecutable:
    from xdsl.parser import Parser

    from tenon.runtime.cuda.device_cuda import CudaProgram, architecture

    def compiled() -> Mapping[str, bytes]:
        _say_compiling(name, architecture())
        return _compile_for_cuda(lower.map_to_grid(lower.lower_module(module.clone(), "cuda", name)), name)

    def loaded(entry: Mapping[str, bytes]) -> DeviceExecutable:
        text = entry["grid.mlir"].decode()
        mapped = Parser(lower.new_context(), text, "grid.mlir").parse_module()
        interface = Interface.from_json(entry["interface"].decode())
        return DeviceExecutable(interface, text, CudaProgram(mapped, entry["cubin"]))

    return _made(key, compiled, loaded)


def _compile_for_cuda(mapped: ModuleOp, name: str) -> dict[str, bytes]:
    from tenon.runtime.cuda.device_cuda import architecture, compile_kernels

    source, cubin = compile_kernels(mapped, architecture())
    if knobs.debug >= 3:
        print(source, file=sys.stderr)
    lower.dump(name, "cu", source)
    return {
        "cubin": cubin,
        "interface": Interface.of(mapped).to_json().encode(),
        "grid.mlir": str(mapped).encode(),
    }


# --- the interpreter ------------------------------------------------------------------------------


class InterpretedExecutable:
    """A module at any stage, run by the NumPy interpreter. The module is copied and not changed."""

    def __init__(self, module: ModuleOp) -> None:
        from tenon.lowering.pipeline import stage_of

        self.ir = str(module)
        self._takes_buffers = takes_buffers(module)
        self.interface = Interface.of(module) if self._takes_buffers else Interface.of_tensors(module)
        has_tensor_ops = stage_of(module) in ("tensor", "fused")
        self._sized = module.clone() if has_tensor_ops and self.interface.sizes else None
        self._module = lower.structured(module) if has_tensor_ops and self._sized is None else module.clone()

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> list[np.ndarray[Any, Any]]:
        """What `@prepare` computes from frozen inputs, where the module is split already."""
        preparation = self.interface.preparation
        if preparation is None:
            return []
        taken = [np.array(frozen[position], order="C") for position in preparation.inputs]
        if not self._takes_buffers:
            return self._results(self._module, PREPARE, taken)
        outputs = [np.zeros(shape, numpy_dtype(element_type(dtype))) for shape, dtype in preparation.outputs]
        self._results(self._module, PREPARE, [*taken, *outputs, np.zeros(preparation.arena_bytes, np.int8)])
        return outputs

    @staticmethod
    def _results(module: ModuleOp, function: str, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        from tenon.dialects.interpreter.interpreter import Interpreter

        return [np.asarray(result) for result in Interpreter().run(module, function, arguments)]

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Interpret the module on `arrays`."""
        results = self._interpreted(arrays)
        for given, result in zip(outputs or (), results, strict=outputs is not None):
            np.copyto(given, result)
        return results if outputs is None else list(outputs)

    def _interpreted(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        arguments = [np.array(a, order="C") for a in (*arrays, *self.prepare(arrays))]
        interface = self.interface
        values = interface.bind([a.shape for a in arrays]) if interface.sizes else {}
        numbers = [np.int64(values[name]) for name in interface.sizes]
        if not self._takes_buffers:
            module = self._module if self._sized is None else self._bound(values)
            given = [*arguments, *numbers] if self._sized is None else arguments
            return self._results(module, "main", given)
        outputs = [
            np.zeros([replaced(size, values) for size in shape], numpy_dtype(element_type(dtype)))
            for shape, dtype in interface.outputs
        ]
        arena = np.zeros(replaced(interface.arena_bytes, values), np.int8)
        self._results(self._module, "main", [*arguments, *outputs, *numbers, arena])
        return outputs

    def _bound(self, values: Mapping[str, int]) -> ModuleOp:
        """Tensor ops with numbers in the place of sizes, as structured ops."""
        from tenon.passes.named_shapes import bind_sizes

        assert self._sized is not None
        return lower.structured(bind_sizes(self._sized, values))
