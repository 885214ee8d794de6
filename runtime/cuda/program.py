"""A compiled module on one device: its kernels, its constants, its scratch memory, and how `main` is launched.

Where `main` does the same at each call (`recording.py`), native code gives the list of its launches to the stream, for
the addresses of the call (`launches.py`). From the third call on the same addresses on the list is a CUDA graph, unless
that is not wanted (`TENON_CUDA_GRAPHS=0`), cannot be made, or has a single launch. Other programs are run step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.support.frozen_arguments import PREPARE, prepare_function, taken_positions
from tenon.lowering.cuda.bulk_copies import tensor_maps
from tenon.lowering.cuda.shared_memory import shared_memory
from tenon.lowering.steps.library import is_library_call
from tenon.runtime.arguments.interface import main_function
from tenon.runtime.cuda import cublas
from tenon.runtime.cuda.cupy_backend import CupyBackend, is_capturing
from tenon.runtime.cuda.device import DeviceBuffer, LaunchError
from tenon.runtime.cuda.host_calls import is_call
from tenon.runtime.cuda.host_program import HostProgram
from tenon.runtime.cuda.launches import Launches, packed
from tenon.runtime.cuda.recording import Recording, record
from tenon.runtime.cuda.workspaces import Replay, Workspace, Workspaces
from tenon.runtime.knobs import knobs

_ALIGNMENT = 256
"""Of what shares one allocation."""

_RUNS_BEFORE_CAPTURE = 3
"""To make a graph takes the host longer than many launches, so addresses have to have come back."""

_LATE = "; the error may be that of a kernel that was launched before: TENON_CUDA_SYNC=1 waits for each and names it"


class CudaProgram:
    """A grid-mapped module on the device that is current while it is made, with the cubin of its kernels.

    May be run from several threads, with that device current. Errors say what a kernel computes as `origin` tells it.
    """

    def __init__(self, module: ModuleOp, cubin: bytes, name: str, origin: Callable[[str], str]) -> None:
        self.name, self._origin = name, origin
        self.backend = CupyBackend(cubin)
        self.program = HostProgram(module, self.backend)
        for kernel, function in self.program.launches.items():
            if not is_call(function):
                self.backend.prepare(kernel, shared_memory(function).byte_count, tensor_maps(function))
        if any(map(is_library_call, self.program.launches.values())):
            cublas.reserve(self.backend.context)
        prepare = prepare_function(main_function(module))
        self._preparation = None if prepare is None else HostProgram(module, self.backend, PREPARE)
        self._taken = () if prepare is None else taken_positions(prepare)
        self.recording = record(self.program)
        self._multiplies = isinstance(self.recording, Recording) and self.recording.multiplies
        self.graphs = knobs.cuda_graphs and isinstance(self.recording, Recording) and self.recording.launches > 1
        self.workspaces = Workspaces(self._workspace)

    @property
    def is_recorded(self) -> bool:
        """Whether all calls do the same but for addresses."""
        return isinstance(self.recording, Recording)

    def allocated(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> DeviceBuffer:
        """New memory on the current device; raises `MemoryError`, which says for what."""
        try:
            return self.program.allocate(shape, dtype)
        except MemoryError as error:
            raise MemoryError(f"{self.name}: {what}, {dtype}{list(shape)}: {error}") from None

    def run(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> None:
        """Give all work to the current stream. Raises `LaunchError` and `MemoryError`."""
        if self.is_recorded:
            self.launch(packed([buffer.address for buffer in (*inputs, *outputs)]))
        else:
            self._in_workspace(self._step_by_step, inputs, outputs)

    def launch(self, addresses: bytes) -> None:
        """As `run`, of a program that was recorded, on inputs and outputs at these addresses (`packed`)."""
        self._in_workspace(self._replay, addresses)

    def _in_workspace(self, work: Callable[..., None], *given: Any) -> None:
        """Do work in scratch memory, on a stream; the third argument says whether that only records what it gets."""
        stream, key = self.backend.stream()
        workspace = self.workspaces.take(stream, key)
        is_captured = is_capturing(stream)
        try:
            if self._multiplies and (is_captured or workspace.scratch is None):
                workspace.scratch = self.backend.scratch(stream, key, is_captured=is_captured)
            work(workspace, stream, is_captured, *given)
        except Exception as error:
            self._fail(error)
        if is_captured:
            self.workspaces.hold(workspace)
        else:
            self.workspaces.give(key, workspace)

    def prepared(self, inputs: Sequence[DeviceBuffer] | Mapping[int, DeviceBuffer]) -> list[DeviceBuffer]:
        """What `main` takes behind its `inputs`: what depends on frozen ones alone, in memory of its own. The work is
        given to the current stream."""
        if self._preparation is None:
            return []
        outputs = [self.allocated(*described, "a prepared value") for described in self._preparation.outputs]
        arena = self.allocated(*self._preparation.arena, "scratch memory")
        try:
            return self._preparation([inputs[position] for position in self._taken], outputs, arena)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        """Raise an error of a launch; those of the device say what was run."""
        if isinstance(error, LaunchError):
            told = f"; it computes {origin}" if (origin := self._origin(error.kernel)) else ""
            late = "" if self.backend.waits else _LATE
            raise LaunchError(f"{self.name}: {error}{told}{late}", error.kernel) from error.__cause__
        if isinstance(error, cublas.CublasError):
            raise cublas.CublasError(f"{self.name}: {error}") from error
        if isinstance(error, self.backend.failures):
            raise LaunchError(f"{self.name}: {error}{_LATE}") from error
        raise error

    def _workspace(self) -> Workspace:
        program, recording = self.program, self.recording
        arena = int(np.prod(program.arena[0])) * program.arena[1].itemsize
        behind = -(-arena // _ALIGNMENT) * _ALIGNMENT
        places, scratch = (recording.places, recording.scratch) if isinstance(recording, Recording) else ([], 0)
        memory = self.allocated((behind + scratch,), np.dtype(np.int8), "scratch memory")
        addresses = (memory.address, *[memory.address + behind + place for place in places])
        launches = None
        if isinstance(recording, Recording):
            events, given = recording.events, len(program.inputs) + len(program.outputs)
            launches = Launches(self.backend, events, recording.bases, recording.offsets, given, addresses)
        return Workspace(addresses, memory.owner, launches)

    def _step_by_step(
        self,
        workspace: Workspace,
        _stream: Any,
        _is_captured: bool,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
    ) -> None:
        self.program(inputs, outputs, DeviceBuffer(workspace.addresses[0], *self.program.arena, workspace.owner))

    def _replay(self, workspace: Workspace, stream: Any, is_captured: bool, addresses: bytes) -> None:
        launches = workspace.launches
        assert launches is not None
        if self.graphs and not is_captured and not self.backend.waits:
            replay = workspace.replay(addresses)
            replay.runs += 1
            if replay.graph is None and replay.runs >= _RUNS_BEFORE_CAPTURE:
                self._capture(replay, launches, addresses, workspace.scratch)
            if replay.graph is not None:
                replay.graph.launch()
                return
        launches.run(addresses, stream, workspace.scratch)

    def _capture(self, replay: Replay, launches: Launches, addresses: bytes, scratch: cublas.Scratch | None) -> None:
        """Make a graph of launches that have all run before."""
        try:
            replay.graph = self.backend.capture(lambda stream: launches.run(addresses, stream, scratch))
        except (LaunchError, MemoryError, cublas.CublasError, *self.backend.failures):
            self.graphs = False  # the plain way does without
