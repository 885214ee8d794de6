"""A module as a program for GPUs: it is lowered, emitted and compiled, then loaded on each device that it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.autocast import precision
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import is_on_gpu
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.runtime import lower
from tenon.runtime.arguments.interface import Interface
from tenon.runtime.arguments.outputs import Kind, meeting
from tenon.runtime.call.devices.arrays import takes_arrays
from tenon.runtime.call.devices.entry import DeviceLaunch, device_entry
from tenon.runtime.call.donation import OverwrittenError
from tenon.runtime.call.entry import Entry
from tenon.runtime.call.entry_words import Guard
from tenon.runtime.call.layout import Load, Test
from tenon.runtime.call.steps import IndescribableError
from tenon.runtime.cuda.calls import CallOnDevice, OtherwiseError
from tenon.runtime.knobs import knobs

if TYPE_CHECKING:
    from tenon.lowering.options import LoweringOptions
    from tenon.runtime.cuda.device import DeviceBuffer
    from tenon.runtime.cuda.nvrtc import Compiled
    from tenon.runtime.cuda.program import CudaProgram


@dataclass(frozen=True)
class CudaCode:
    """What a module compiles to for one architecture."""

    interface: Interface
    ir: str
    cubin: bytes


class CudaExecutable:
    """A program that takes arrays, those on the host as copies, and gives CuPy arrays. May be run from several threads.

    It runs on the device `ordinal`, or on the one that its arguments are on, or else on the current one.
    """

    def __init__(
        self,
        name: str,
        ordinal: int | None,
        architecture: str,
        code: Callable[[str], CudaCode],
        buffered: Callable[[], ModuleOp | None],
        lowered: Callable[[], ModuleOp],
        origins: Callable[[], Mapping[str, str]],
    ) -> None:
        self.name, self.ordinal = name, ordinal
        self.buffered, self.lowered, self.origins = buffered, lowered, origins
        first = code(architecture)
        self._code, self._codes = code, {architecture: first}
        self.interface, self.ir = first.interface, first.ir
        self._programs: dict[int, CudaProgram] = {}
        self._lock = new_lock()

    def prepare(self, frozen: Sequence[Any] | Mapping[int, Any]) -> Sequence[Any]:
        """What is the same at every call, for each device a copy that is made when it is called there first."""
        return [FrozenArrays(frozen)] if isinstance(frozen, Mapping) and frozen else ()

    def run(
        self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None, prepared: Sequence[Any] | None = None
    ) -> list[Any]:
        """Launch on the current stream of the device.

        A donated argument becomes the result that takes over its memory, unless it is no CuPy array that threads can
        work on as it is, or shares memory with another argument: then the result has memory of its own. Raises
        `ArgumentError`, `LaunchError`, `MemoryError`, and `OverwrittenError` in place of all that ends a launch.
        """
        from tenon.runtime.cuda.arrays import device_of
        from tenon.runtime.cuda.device_cuda import cupy_module

        frozen: FrozenArrays | None = prepared[0] if prepared else None
        others = [None if frozen is not None and i in frozen.arrays else a for i, a in enumerate(arrays)]
        cuda = cupy_module().cuda
        ordinal = device_of([*others, *(outputs or ())], self.ordinal)
        current = int(cuda.runtime.getDevice())
        if ordinal is None or ordinal == current:
            return self._run(current, others, outputs, frozen)
        with cuda.Device(ordinal):
            return self._run(ordinal, others, outputs, frozen)

    def ready(self, prepared: Sequence[Any]) -> tuple[int, CudaProgram, Mapping[int, DeviceBuffer]]:
        """The number of the device that calls without arrays of the host run on now, the program there, and those of
        its inputs that are the same at each call, by position: copies of `prepared` arrays, and what depends on them
        alone."""
        from tenon.runtime.cuda.arrays import received
        from tenon.runtime.cuda.device_cuda import cupy_module

        cuda = cupy_module().cuda
        current = int(cuda.runtime.getDevice())
        ordinal = current if self.ordinal is None else self.ordinal
        program = self._program(ordinal)
        if not prepared:
            return ordinal, program, {}
        frozen: FrozenArrays = prepared[0]
        with cuda.Device(ordinal):
            described = program.program.inputs
            held = {i: received(array, *described[i], i, self.name) for i, array in frozen.on(ordinal).items()}
            made = frozen.prepared(ordinal, program, held)
        return ordinal, program, held | dict(enumerate(made, len(self.interface.inputs)))

    def constants(self, ordinal: int, program: CudaProgram, arrays: Mapping[int, Any]) -> Mapping[int, DeviceBuffer]:
        """Copies of small arrays of the host on a device, as inputs of the program there, by position. Raises
        `OtherwiseError` where the current stream is captured, whose copies would be made at each launch."""
        from tenon.runtime.cuda.arrays import received
        from tenon.runtime.cuda.cupy_backend import is_capturing
        from tenon.runtime.cuda.device_cuda import cupy_module

        cuda = cupy_module().cuda
        with cuda.Device(ordinal):
            if is_capturing(cuda.get_current_stream()):
                raise OtherwiseError("the stream is captured")
            described = program.program.inputs
            made = {i: received(array, *described[i], i, self.name) for i, array in arrays.items()}
            _finish_for_all_streams()
        return made

    def standing(self, ordinal: int, program: CudaProgram, arrays: Mapping[int, Any]) -> Mapping[int, DeviceBuffer]:
        """Arrays on a device as inputs of the program there, by position, as they are at each call. Raises
        `OtherwiseError` for one that would be copied."""
        from tenon.runtime.cuda.arrays import received

        described = program.program.inputs
        made: dict[int, DeviceBuffer] = {}
        for position, array in arrays.items():
            is_there = int(array.device.id) == ordinal
            buffer = received(array, *described[position], position, self.name) if is_there else None
            if buffer is None or buffer.owner is not array:
                raise OtherwiseError("an array is not used where it is")
            made[position] = buffer
        return made

    def _run(
        self, ordinal: int, arrays: Sequence[Any], outputs: Sequence[Any] | None, frozen: FrozenArrays | None
    ) -> list[Any]:
        from tenon.runtime.cuda.arrays import delivered, received

        program = self._program(ordinal)
        held = {} if frozen is None else frozen.on(ordinal)
        described = program.program.inputs
        inputs = [received(held.get(i, array), *described[i], i, self.name) for i, array in enumerate(arrays)]
        if self.interface.preparation is not None:
            made = program.prepared(inputs) if frozen is None else frozen.prepared(ordinal, program, inputs)
            inputs += made
        if outputs is not None:
            described = program.program.outputs
            given = [received(array, *described[i], i, self.name) for i, array in enumerate(outputs)]
            self._launch(program, inputs, given, ())
            return list(outputs)
        donors = self._donors(arrays, inputs)
        given = [
            program.allocated(shape, dtype, f"result {i}") if donor < 0 else inputs[donor]
            for i, ((shape, dtype), donor) in enumerate(zip(program.program.outputs, donors, strict=True))
        ]
        self._launch(program, inputs, given, [donor for donor in donors if donor >= 0])
        return [delivered(buffer) if donor < 0 else arrays[donor] for buffer, donor in zip(given, donors, strict=True)]

    def _launch(
        self,
        program: CudaProgram,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        donated: Sequence[int],
    ) -> None:
        try:
            program.run(inputs, outputs)
        except Exception as error:  # of Python that the program calls, too
            if donated:
                raise OverwrittenError(str(error), donated) from error
            raise

    def _donors(self, arrays: Sequence[Any], inputs: Sequence[DeviceBuffer]) -> Sequence[int]:
        """For each result the argument whose memory it takes over, or -1."""
        donations = self.interface.donations
        if all(donor < 0 for donor in donations):
            return donations
        shared = meeting([(buffer.address, buffer.byte_count) for buffer in inputs])
        return [
            donor if donor >= 0 and donor not in shared and inputs[donor].owner is arrays[donor] else -1
            for donor in donations
        ]

    def _program(self, ordinal: int) -> CudaProgram:
        known = self._programs.get(ordinal)
        if known is not None:
            return known
        from xdsl.parser import Parser

        from tenon.runtime.cuda.arrays import check_dtypes
        from tenon.runtime.cuda.device_cuda import architecture
        from tenon.runtime.cuda.program import CudaProgram

        with self._lock:
            known = self._programs.get(ordinal)
            if known is None:
                kind = architecture(ordinal)
                code = self._codes.get(kind) or self._codes.setdefault(kind, self._code(kind))
                mapped = Parser(lower.new_context(), code.ir, "grid.mlir").parse_module()
                made = CudaProgram(mapped, code.cubin, self.name, self.origin)
                check_dtypes(self.name, made.program.inputs, made.program.outputs)
                known = self._programs[ordinal] = made
            return known

    def origin(self, kernel: str) -> str:
        """What a kernel computes, with the lines of the user; empty where that is not known."""
        return origin_of(kernel, self.origins())

    @property
    def memory_kind(self) -> Kind:
        """What results may be written to."""
        from tenon.runtime.cuda.arrays import check_output, span

        return Kind(check_output, span)


def origin_of(kernel: str, origins: Mapping[str, str]) -> str:
    """What a kernel computes, of what is known of some (`lower.kernel_origins`); empty where that is not known. One
    that was made of another, of which it does a part, has its name with more behind it."""
    return next((text for name, text in origins.items() if f"{kernel}_".startswith(f"{name}_")), "")


_COPIES: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
"""Frozen arrays of the host that are on a device, by their identity there and the number of the device. Who holds the
copy holds the array as well."""


class FrozenArrays:
    """Arguments that are the same at every call, by position: on every device that needs them a copy of each, and what
    a program computes from them alone."""

    def __init__(self, arrays: Mapping[int, Any]) -> None:
        self.arrays = dict(arrays)
        self._copies: dict[int, dict[int, Any]] = {}
        self._prepared: dict[int, Sequence[DeviceBuffer]] = {}
        self._lock = new_lock()

    def on(self, ordinal: int) -> Mapping[int, Any]:
        """The arrays on a device, which is the current one."""
        known = self._copies.get(ordinal)
        if known is not None:
            return known
        from tenon.runtime.cuda.arrays import contiguous, uploaded
        from tenon.runtime.cuda.cupy_backend import is_capturing
        from tenon.runtime.cuda.device_cuda import cupy_module

        cupy = cupy_module()
        stream = cupy.cuda.get_current_stream()
        if is_capturing(stream):
            raise RuntimeError(
                "frozen arguments are brought to a GPU by the first call there, which cannot be captured: call the "
                "function once before"
            )
        with self._lock:
            made: dict[int, Any] = {}
            for position, array in self.arrays.items():
                key = id(array), ordinal
                copy = _COPIES.get(key)
                if copy is None:
                    copy = _COPIES[key] = contiguous(cupy.asarray(array) if is_on_gpu(array) else uploaded(array))
                made[position] = copy
            _finish_for_all_streams()
            self._copies[ordinal] = made
            return made

    def prepared(
        self, ordinal: int, program: CudaProgram, inputs: Sequence[DeviceBuffer] | Mapping[int, DeviceBuffer]
    ) -> Sequence[DeviceBuffer]:
        """What the program on a device, which is the current one, takes behind its inputs; always the same program."""
        known = self._prepared.get(ordinal)
        if known is None:
            with self._lock:
                known = self._prepared.get(ordinal)
                if known is None:
                    known = program.prepared(inputs)
                    _finish_for_all_streams()
                    self._prepared[ordinal] = known
        return known


def _finish_for_all_streams() -> None:
    """Wait for the work of the current stream: others may use what it makes from now on."""
    from tenon.runtime.cuda.device_cuda import cupy_module

    cupy_module().cuda.get_current_stream().synchronize()


def device_entry_of(like: CallOnDevice) -> Entry | None:
    """The entry for calls like one, if native code can take such calls."""
    from tenon.runtime.cuda.device_cuda import cupy_module

    cupy = cupy_module()
    if not like.program.is_recorded or not takes_arrays(cupy):
        return None
    runtime, given, ordinal, guards = cupy.cuda.runtime, like.program.program, like.ordinal, like.guards
    if int(runtime.getDeviceCount()) > 1:
        guards = [*guards, Guard(Load.constant, Test.true, lambda: runtime.getDevice() == ordinal)]
    launch = DeviceLaunch(
        *(cupy, ordinal),
        [like.held[position].address if position in like.held else 0 for position in range(len(given.inputs))],
        [(donor, *described) for donor, described in zip(like.donations, given.outputs, strict=True)],
        shows_user_frames(like.program.launch),
        cupy.cuda.alloc,
        (like.held, like.kept),
    )
    call = like.args, like.kwargs, like.structure, like.result
    try:
        return device_entry(*call, launch, precision(), guards, like.donated)
    except IndescribableError:
        return None


@dataclass(frozen=True)
class Built:
    """What a module compiles to."""

    mapped: ModuleOp
    """The grid-mapped module."""
    source: str
    compiled: Compiled
    serialised: Mapping[str, str]
    """The kernels that do without the instructions that only the architecture has, since the assembler would serialise
    these, with what it says of them."""


def build_for_cuda(module: ModuleOp, name: str, options: LoweringOptions, architecture: str) -> Built:
    """Lower a copy of `module`, at any stage, and compile it: kernels that the assembler serialises once more, in a
    form without the instructions that it does not see through. Raises `SerialisedError` for one that stays as it is,
    by steps that are given or as a text of its own."""
    from tenon.runtime.cuda.device_cuda import compile_kernels
    from tenon.runtime.cuda.nvrtc import SerialisedError

    serialised: dict[str, str] = {}
    while True:
        told = replace(options, serialised=tuple(sorted(serialised)))
        mapped = lower.map_to_grid(lower.lower_with(module.clone(), "cuda", told, name))
        try:
            return Built(mapped, *compile_kernels(mapped, architecture), serialised)
        except SerialisedError as error:
            if not error.kernels.keys() - serialised.keys():
                raise
            serialised |= error.kernels


def compile_for_cuda(module: ModuleOp, name: str, options: LoweringOptions, architecture: str) -> dict[str, bytes]:
    """The machine code of `module`, at any stage, with its interface and its IR, by name."""
    built = build_for_cuda(module, name, options, architecture)
    if knobs.debug >= 1:
        for kernel, remark in built.serialised.items():
            print(f"tenon: {name}: {kernel}: without what the assembler serialises: {remark}", file=sys.stderr)
    if knobs.debug >= 3:
        print(built.source, file=sys.stderr)
    lower.dump(name, "cu", built.source)
    return {
        "cubin": built.compiled.cubin,
        "interface": Interface.of(built.mapped).to_json().encode(),
        "grid.mlir": str(built.mapped).encode(),
    }


def code_of(entry: Mapping[str, bytes]) -> CudaCode:
    """What `compile_for_cuda` gave."""
    return CudaCode(Interface.from_json(entry["interface"].decode()), entry["grid.mlir"].decode(), entry["cubin"])
