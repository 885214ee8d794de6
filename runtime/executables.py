"""Executables: machine code, device programs and interpreted modules, each with its interface and its IR.

`executable` gives the one for a module: from this process, from the disk cache, or made now. From the disk cache
nothing is lowered, and nothing of `lowering` is imported for the CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from xdsl.dialects.builtin import ModuleOp

from tenon.dialects.definition.registry import generation, is_of_user
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import lower
from tenon.runtime.arguments.interface import Interface
from tenon.runtime.cuda.names import checked_device, kind_of, ordinal_of
from tenon.runtime.executable_cpu import CpuExecutable, compile_for_cpu, load_for_cpu
from tenon.runtime.executable_cuda import CudaCode, CudaExecutable, code_of, compile_for_cuda
from tenon.runtime.executable_interpreted import InterpretedExecutable
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused
from tenon.runtime.store import cache
from tenon.runtime.store.module_digest import digest

if TYPE_CHECKING:
    from tenon.lowering.options import LoweringOptions

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


# For modules that are compiled again. Executables in use live as long as they are used.
_executables: BoundedCache[Executable] = BoundedCache(256)


def executable(module: ModuleOp, device: str, name: str = "main", said: str | None = None) -> Executable:
    """The executable of a module at any stage: from this process, from the disk cache, or made now. `said` is the
    module's digest, where that is known."""
    kind_of_device = kind_of(checked_device(device))
    with collection_paused():
        if knobs.interpret:
            return InterpretedExecutable(module)
        target = _architecture(device)
        options = lower.options(kind_of_device, target, module)
        key = _key(module, kind_of_device, options, target, said)
        # With a folder for the IR, every pass has to run once more so that its result can be written there.
        kind = key, device, knobs.check_memory, knobs.cuda_graphs, knobs.cuda_sync
        known = _executables.get(kind) if knobs.dump_ir is None else None
        if known is None:
            started = time.perf_counter()
            if target is None:
                known = _cpu_executable(module, key, name, options)
            else:
                known = _cuda_executable(module, key, name, options, ordinal_of(device), target)
            _executables[kind] = known
            if knobs.debug >= 1:
                print(f"tenon: {name}: ready in {1e3 * (time.perf_counter() - started):.0f} ms", file=sys.stderr)
        return known


def _architecture(device: str) -> str | None:
    """That of a GPU."""
    if kind_of(device) == "cpu":
        return None
    from tenon.runtime.cuda.device_cuda import architecture

    return architecture(ordinal_of(device))


def _key(
    module: ModuleOp, device: str, options: LoweringOptions, architecture: str | None, said: str | None = None
) -> str:
    said = said or digest(module)
    return cache.key(said, _meaning(module, said, device, options), device, _target_key(device, options, architecture))


# What modules with ops of users mean, by what they say and what the ops are.
_meanings: BoundedCache[str] = BoundedCache(256)


def _meaning(module: ModuleOp, said: str, device: str, options: LoweringOptions) -> str:
    """What a module, whose digest is `said`, does not say itself: what the hooks of ops that are not Tenon's own make
    of it while compiling.
    """
    kinds = frozenset([type(op) for op in module.walk()])
    if not any(map(is_of_user, kinds)):
        return ""
    key = (said, kinds, device, options, generation())
    known = _meanings.get(key)
    if known is None:
        known = _meanings[key] = digest(lower.without_tensor_ops(module, options))
    return known


def _target_key(device: str, options: LoweringOptions, architecture: str | None = None) -> str:
    # what a tuning record says counts, not where it lies
    told = f"{replace(options, tuning='')}{_tuning_key(device, architecture or '')}"
    if device == "cuda":
        from tenon.runtime.cuda import nvrtc

        return f"{architecture} nvrtc {'.'.join(map(str, nvrtc.version()))} {told}"
    from tenon.runtime.cpu.compile import host_target

    target = host_target()
    return f"{target.triple} {target.cpu} {target.features} {told}"


def _tuning_key(device: str, architecture: str) -> str:
    if knobs.tuning is None:
        return ""
    from tenon.runtime.tuning import digest

    return f" {digest(device, lower.tuned_kind(device, architecture))}"


def _made(key: str, make: Callable[[], Mapping[str, bytes]], use: Callable[[Mapping[str, bytes]], _Made]) -> _Made:
    """What `use` gives for the files of an executable: those in the disk cache, unless the IR after every pass is asked
    for, or new ones."""
    return cache.made(key, make, use, reuse=knobs.dump_ir is None)


def _say_compiling(name: str, target: str) -> None:
    if knobs.log_compiles:
        print(f"tenon: compiling {name} for {target}", file=sys.stderr)


def _cpu_executable(module: ModuleOp, key: str, name: str, options: LoweringOptions) -> CpuExecutable:
    from tenon.runtime.cpu.compile import host_target

    target = host_target()
    lowered = partial(lower.lowered_again, module, options)
    buffered = partial(lower.buffered_again, module, options)

    def compiled() -> Mapping[str, bytes]:
        _say_compiling(name, target.cpu)
        return compile_for_cpu(module, name, target, options)

    return _made(key, compiled, lambda entry: load_for_cpu(entry, name, target, lowered, buffered))


def _cuda_executable(
    module: ModuleOp, key: str, name: str, options: LoweringOptions, ordinal: int | None, target: str
) -> CudaExecutable:
    def code(architecture: str) -> CudaCode:
        """For the architecture of one more device; the first is the one that the key is for."""
        is_first = architecture == target
        told = options if is_first else lower.options("cuda", architecture)
        used = key if is_first else _key(module, "cuda", told, architecture)

        def compiled() -> Mapping[str, bytes]:
            _say_compiling(name, architecture)
            return compile_for_cuda(module, name, told, architecture)

        return _made(used, compiled, code_of)

    again = partial(lower.buffered_again, module, options), partial(lower.lowered_again, module, options)
    return CudaExecutable(name, ordinal, target, code, *again, partial(lower.kernel_origins, module, options))
