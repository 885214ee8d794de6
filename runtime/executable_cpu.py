"""A module as machine code for the CPU: it is lowered, emitted and compiled, then loaded, then run.

What the processor is, and what the passes are told of it, is asked before and passed on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import tenon.runtime.cpu.llvm_lock  # noqa: F401  # pyright: ignore[reportUnusedImport]  before others import what compiles
from tenon.dialects.support.frozen_arguments import PREPARE
from tenon.dialects.types.assumptions import knowing, positive_sizes
from tenon.dialects.types.size import Size, replaced
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime import lower
from tenon.runtime.arguments.interface import Interface, main_function
from tenon.runtime.arguments.outputs import sharing
from tenon.runtime.call.donation import OverwrittenError
from tenon.runtime.call.launch import Launch
from tenon.runtime.cpu.addresses import USABLE, addresses
from tenon.runtime.cpu.launch_memory import PLAIN, LaunchMemory
from tenon.runtime.cpu.result_memory import empty
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collect_recent, in_background

if TYPE_CHECKING:
    from tenon.lowering.options import LoweringOptions
    from tenon.runtime.cpu.compile import Target
    from tenon.runtime.cpu.compile_parallel import Workers

# Operations from which on other threads should run meanwhile: about ten microseconds.
_LONG = 20_000

_OBJECT = "object."
"""What the names of object codes in an entry start with."""


@dataclass
class CpuExecutable:
    """Machine code for the CPU, with its interface; `ir` is the loop IR that it was made from."""

    interface: Interface
    lowered: Callable[[], ModuleOp]
    buffered: Callable[[], ModuleOp | None]
    code: Any
    address: int
    name: str = "main"
    copies: int = 0
    """How many inputs were copied so far, since they were not contiguous or not aligned, other than in native calls."""
    arenas: list[np.ndarray[Any, Any]] = field(default_factory=list)
    prepare_address: int = 0
    memory: LaunchMemory = PLAIN
    calls_host: bool = False
    """Whether it calls Python, which may raise, and must be able to from any thread."""

    @property
    def ir(self) -> str:
        """The loop IR. Few ask for it, and to print it takes long: it is made again when it is asked for."""
        return str(self.lowered())

    def __post_init__(self) -> None:
        from tenon.runtime.cpu.load import entry_point

        self._launch = entry_point(self.address)
        if self.calls_host:
            from tenon.runtime.cpu.program import raising

            self._launch = raising(self._launch)
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
        donated: list[int] = []
        if outputs is not None:
            outputs = list(outputs)
        elif self._takes_over:
            shared = sharing(arrays)
            outputs = [
                arrays[donor]
                if donor >= 0 and donor not in shared and arrays[donor].flags.writeable
                else self._empty(shape, dtype)
                for shape, dtype, donor in self._outputs
            ]
            donors = zip(outputs, self._outputs, strict=True)
            donated = [donor for output, (_, _, donor) in donors if donor >= 0 and output is arrays[donor]]
        else:
            outputs = [self._empty(shape, dtype) for shape, dtype, _ in self._outputs]
        arena = self._idle_arena()
        held = self.prepare(arrays) if prepared is None else prepared
        try:
            self.memory.call(self.name, self._launch, arrays, held, outputs, (), arena)
        except BaseException as error:  # of Python that the program calls
            if donated:
                raise OverwrittenError(str(error), donated) from error
            raise
        finally:
            self.arenas.append(arena)
        return outputs

    def _empty(self, shape: Sequence[int], dtype: np.dtype[Any], what: str = "a result") -> np.ndarray[Any, Any]:
        try:
            return empty(shape, dtype, what)
        except MemoryError as error:
            raise MemoryError(f"{self.name}: {error}") from None

    def launch(self, frozen: Mapping[int, Any], prepared: Sequence[Any]) -> Launch:
        """What native calls run: this code, with an arena of its own, one that is idle if there is any, and with the
        inputs that are `frozen`, by position, and what was prepared from them.
        """
        results = [(donor, dtype, shape) for shape, dtype, donor in self._outputs]
        work = self.interface.work
        is_long = work is None or work > _LONG or self.calls_host
        inputs = [frozen.get(position) for position in range(len(self.interface.inputs))]
        shapes = [shape for given, (shape, _) in zip(inputs, self.interface.inputs, strict=True) if given is None]
        sized = (self.interface.sizes, self.interface.positive)
        return Launch(self.address, (*inputs, *prepared), shapes, self._arena(), results, is_long, self, *sized)

    def _arena(self) -> np.ndarray[Any, Any] | int:
        """The scratch memory of native calls, or its size where each has memory of its own."""
        return self._idle_arena()

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
        copy = self._empty(array.shape, array.dtype, f"a copy of array {position}")
        np.copyto(copy, array)
        return copy


class SizedCpuExecutable(CpuExecutable):
    """Machine code for the CPU for any sizes of the dimensions that have names."""

    def _arena(self) -> np.ndarray[Any, Any] | int:
        size = self.interface.arena_bytes
        return size if isinstance(size, Size) or size > 0 else self._idle_arena()

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Launch for the sizes of `arrays`; raises `SizeMismatchError` or `EmptySizeError`. Nothing is taken over."""
        values = self.interface.bind([array.shape for array in arrays])
        arrays = [self._usable(array, position) for position, array in enumerate(arrays)]
        if outputs is None:
            shapes = [[replaced(size, values) for size in shape] for shape, _, _ in self._outputs]
            outputs = [self._empty(shape, dtype) for shape, (_, dtype, _) in zip(shapes, self._outputs, strict=True)]
        numbers = [np.array(values[name], np.int64) for name in self.interface.sizes]
        arena = self.memory.aligned(replaced(self.interface.arena_bytes, values), f"arena of {self.name}")
        held = self.prepare(arrays) if prepared is None else prepared
        self.memory.call(self.name, self._launch, arrays, held, outputs, numbers, arena)
        return list(outputs)


_LARGE = 100
"""Tensor ops of a program that takes so long to compile that threads are worth it."""


def _load_runtime(is_large: bool) -> None:
    """Load the native code that calls use, and what large programs do; a new installation compiles it first."""
    from tenon.runtime.call.loaded import native_call

    native_call()
    if is_large:
        from tenon.runtime.cpu.scratch_memory import scratch_functions
        from tenon.runtime.cpu.threads import pool_address

        pool_address()
        scratch_functions()
        addresses(())


def load_for_cpu(
    entry: Mapping[str, bytes],
    name: str,
    target: Target,
    lowered: Callable[[], ModuleOp],
    buffered: Callable[[], ModuleOp | None],
) -> CpuExecutable:
    """What `compile_for_cpu` gave, in this process; `lowered` makes its loop IR again, `buffered` that before it, if it
    had not passed that stage when it was compiled."""
    from tenon.runtime.cpu.load import ENTRY
    from tenon.runtime.cpu.program import CALL_HOST, load_program

    interface = Interface.from_json(entry["interface"].decode())
    exports = (ENTRY,) if interface.preparation is None else (ENTRY, PREPARE)
    objects = [data for part, data in entry.items() if part.startswith(_OBJECT)]
    memory = _launch_memory()
    code = load_program(objects, target, exports=exports, scratch=memory.scratch_functions())
    kind = SizedCpuExecutable if interface.sizes else CpuExecutable
    prepare = 0 if interface.preparation is None else code.entry(PREPARE)
    calls_host = any(CALL_HOST.encode() in data for data in objects)
    made = (interface, lowered, buffered, code, code.entry(), name)
    return kind(*made, prepare_address=prepare, memory=memory, calls_host=calls_host)


def _launch_memory() -> LaunchMemory:
    if not knobs.check_memory:
        return PLAIN
    from tenon.runtime.cpu.guarded_memory import guarded

    return guarded()


def compile_for_cpu(module: ModuleOp, name: str, target: Target, options: LoweringOptions) -> dict[str, bytes]:
    """The object codes of `module`, at any stage, and their interface, by name."""
    from tenon.runtime.cpu.compile_parallel import Workers
    from tenon.runtime.cpu.threads import get_num_threads

    threads = get_num_threads()
    is_large = sum(1 for _ in module.walk()) >= _LARGE
    runtime = in_background(partial(_load_runtime, is_large)) if threads > 1 else nullcontext()
    known = knowing(positive_sizes(main_function(module)))
    with known, runtime, Workers(threads) as workers:
        interface = _begin(module.clone(), name, target, options, workers)
        objects = workers.results(meanwhile=collect_recent)
    return {
        "interface": interface.to_json().encode(),
        **{f"{_OBJECT}{number}": code for number, code in enumerate(objects)},
    }


def _begin(module: ModuleOp, name: str, target: Target, options: LoweringOptions, workers: Workers) -> Interface:
    """Lower `module` in place, and let `workers` compile it. Nothing needs it when this returns."""
    from tenon.lowering.llvm.emit_llvm import ModuleEmitter
    from tenon.runtime.cpu.compile_parallel import ObjectCompiler, check_texts

    functions = lower.lower_by_function(module, "cpu", options, name)
    machine = options.machine
    emitter = ModuleEmitter(module, native_f16=target.native_f16, dots=machine.dots, tiles=machine.tiles)
    check_texts(module, emitter, target)
    compiler = ObjectCompiler(module, emitter, target, workers)
    for function in functions:
        compiler.add(function)
    if knobs.debug >= 3:
        print(compiler.text(), file=sys.stderr)
    if knobs.dump_ir is not None:
        lower.dump(name, "ll", compiler.text())
    compiler.finish()
    return Interface.of(module)
