"""What `jit` makes of a function, stage by stage: `Traced`, `Lowered`, `Compiled`. Each prints as the IR it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tenon.dialects.support.user_place import user_place
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.runtime.arguments.arguments import WIDE_FLOAT
from tenon.runtime.arguments.frozen import held_once
from tenon.runtime.arguments.interface import EmptySizeError, Interface, SizeMismatchError
from tenon.runtime.arguments.orders import Orders
from tenon.runtime.arguments.outputs import given_outputs
from tenon.runtime.arguments.signature import Signature
from tenon.runtime.arguments.tree import Structure, flatten, paths, unflatten
from tenon.runtime.call.donation import Donated, OverwrittenError
from tenon.runtime.call.entry import Entry, NativeCalls, entry
from tenon.runtime.call.entry_words import NOT_TRACED
from tenon.runtime.call.entry_words import Traced as TracedEntry
from tenon.runtime.call.layout import ANY_PRECISION
from tenon.runtime.call.steps import NUMBERS, WIDE_NUMBERS, IndescribableError, Numbers
from tenon.runtime.cuda.calls import CallOnDevice, DeviceCall, OtherwiseError, device_call
from tenon.runtime.cuda.device import ArgumentError
from tenon.runtime.epoch import EPOCH
from tenon.runtime.executable_cpu import CpuExecutable
from tenon.runtime.executable_cuda import CudaExecutable, device_entry_of
from tenon.runtime.executables import Executable, executable
from tenon.runtime.lower import lower_module, new_context
from tenon.runtime.memory import Memory
from tenon.runtime.python_state import collection_paused
from tenon.runtime.reads.guards import Guards
from tenon.runtime.reads.hooks import HOOKS

if TYPE_CHECKING:
    from tenon.runtime.build import Explanation


@dataclass
class _Uncompiled:
    """A function as IR. `signature` is what it was traced for, where that was a call."""

    module: ModuleOp
    result: Structure
    device: str = "cpu"
    name: str = "main"
    signature: Signature | None = None
    frozen: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """The arrays that are the same at every call, by their positions among the data."""
    guards: Guards | None = None
    """What must be as it was when the function was traced."""
    captured: Sequence[Any] = ()
    """Arrays on a GPU that the function reads from around it: inputs behind the arguments."""

    def __str__(self) -> str:
        return str(self.module)

    def compile(self) -> Compiled:
        """Compile, or take the machine code from the disk cache."""
        made = executable(self.module, self.device, self.name)
        prepared = held_once(made.prepare(self.frozen)) if self.frozen else None
        given = self.signature, self.frozen, prepared, self.guards, self.captured
        return Compiled(self.result, self.device, self.name, made, *given)


class Traced(_Uncompiled):
    """A function as tensor IR."""

    def lower(self) -> Lowered:
        """Lower to loop IR."""
        with collection_paused():
            module = lower_module(self.module.clone(), self.device, self.name)
        given = self.signature, self.frozen, self.guards, self.captured
        return Lowered(module, self.result, self.device, self.name, *given)

    def explain(self, target: str | None = None) -> Explanation:
        """How its kernels are to run, and why: on `cpu` or a GPU such as `cuda:sm_90a`, by default on its device.
        Prints as a text; no GPU is needed."""
        from tenon.runtime.build import explain, target_of

        return explain(self.module, target_of(self.device) if target is None else target)


class Lowered(_Uncompiled):
    """A function as loop IR."""


@dataclass
class Compiled(NativeCalls):
    """A function as machine code for one signature. May be called from several threads."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self.name}: machine code cannot be pickled; pickle what `jit` gave, and compile that where it is loaded"
        )

    result: Structure
    device: str
    name: str
    executable: Executable
    signature: Signature | None = None
    frozen: Mapping[int, Any] = field(default_factory=dict[int, Any])
    prepared: Sequence[Any] | None = None
    """What was computed once from the frozen arrays."""
    guards: Guards | None = None
    """What must be as it was when the function was traced."""
    captured: Sequence[Any] = ()
    """Arrays on a GPU that are inputs behind the arguments, as they are at each call."""

    def __str__(self) -> str:
        return self.executable.ir

    @property
    def interface(self) -> Interface:
        """The shapes and dtypes that are taken and given."""
        return self.executable.interface

    @property
    def _donated(self) -> Donated | None:
        """What is said of arguments that are donated, if there are any."""
        signature = self.signature
        if signature is None or not signature.parameters.donated:
            return None
        return Donated(self.name, signature.names)

    def memory(self) -> Memory:
        """The memory that it needs, buffer by buffer, and what it moves, kernel by kernel; prints as a table.

        The IR is lowered again for that. Raises `TypeError` for a program that is interpreted.
        """
        made = self.executable
        if not isinstance(made, CpuExecutable | CudaExecutable):
            raise TypeError(f"{self.name}: the memory of programs that are interpreted is not planned")
        buffered = made.buffered()
        if buffered is None:
            return Memory.of(self.interface, made.lowered())
        library = _library_bytes(made.ir) if isinstance(made, CudaExecutable) else 0
        return Memory.of(self.interface, buffered, has_kernels=True, library=library)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments like those compiled for; raises `TypeError` naming what differs, in them or in what the
        function reads besides them.

        Results are written to the arrays in the keyword argument `out`, as in calls of the function.
        """
        signature = self.signature
        assert signature is not None, f"{self.name} was compiled without a signature; use run"
        epoch = int(EPOCH[0])
        order = tuple(kwargs)
        if self.guards is not None and not self.guards.hold() and (changed := self.guards.broken()) is not None:
            raise TypeError(f"{self.name}: {changed} is another than when this was traced; compile it again")
        out = kwargs.pop("out") if "out" in kwargs and signature.parameters.take_out else None
        given = tuple(kwargs)
        args, kwargs = signature.joined(args, kwargs)
        arrays = signature.arrays(args, kwargs)
        results = self.launch(arrays, out)
        # Native code takes the leaves in the order of the call.
        is_in_order = given == tuple(name for name in kwargs if name in given)
        if is_in_order and self._dispatch.wants(order, epoch):
            named = kwargs if out is None else {**kwargs, "out": out}
            call = (args, {name: named[name] for name in order if name in named})
            self._dispatch.add(self, order, self.entry_for(call, signature.key[0]), epoch)
        return results

    def entry_for(
        self,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        structure: Structure,
        precision: int = ANY_PRECISION,
    ) -> Entry | None:
        """What native code must know to make calls like this one; `None` if it could not tell them from others.

        `call` has all arguments, frozen ones as well, and `structure` is theirs, without `out`.
        """
        if self.signature is None:
            return None
        parameters, frozen = self.signature.parameters, self.signature.frozen
        args, kwargs = parameters.marked(*call)
        if frozen is not None:
            args, kwargs = frozen.removed(args, kwargs)
            _, structure = flatten((args, {name: value for name, value in kwargs.items() if name != "out"}))
        out = "out" if parameters.take_out and "out" in kwargs else None
        numbers = WIDE_NUMBERS if WIDE_FLOAT in self.signature.key else NUMBERS
        return self.entry_of((args, kwargs), structure, self.signature.orders, out, numbers, precision=precision)

    def entry_of(
        self,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        structure: Structure,
        orders: Orders,
        out: str | None,
        numbers: Numbers,
        on_tensors: Any = None,
        most: int = -1,
        traced: TracedEntry = NOT_TRACED,
        precision: int = ANY_PRECISION,
        has_ops_of_users: bool = True,
    ) -> Entry | None:
        """`entry_for` arguments that are not frozen, static ones in the class `Static`; see `entry`. Ops of users may
        have gone into it, if it is not said that none has."""
        made = self.executable
        if not isinstance(made, CpuExecutable) or made.memory.is_checked:
            return None
        launch = made.launch(self.frozen, self.prepared or ())
        try:
            return entry(
                *(*call, structure, self.result, launch, orders, out),
                numbers=numbers,
                call=on_tensors,
                most=most,
                precision=precision,
                guards=[
                    *(() if self.guards is None else self.guards.native),
                    *(HOOKS.native if has_ops_of_users else ()),
                ],
                donated=self._donated,
                traced=traced,
            )
        except IndescribableError:
            return None

    def device_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, native: bool) -> DeviceCall | Entry:
        """What serves calls like this one on a GPU, without frozen arguments, an entry only if it may be `native`;
        raises `OtherwiseError`."""
        if self.signature is None:
            raise OtherwiseError("it was compiled without a signature")
        return self.device_call_of(*self.signature.parameters.marked(args, kwargs), native=native)

    def device_call_of(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        numbers: Mapping[int, Any] | None = None,
        *,
        native: bool,
    ) -> DeviceCall | Entry:
        """`device_call` for arguments of which those that are static are in the class `Static`; `numbers` has, by
        position, the arrays for those inputs of the program that are numbers among these."""
        made = self.executable
        if not isinstance(made, CudaExecutable):
            raise OtherwiseError("it does not run on a GPU")
        holds = None if self.guards is None else self.guards.hold
        if HOOKS.native:
            holds = HOOKS.hold if holds is None else _both(holds, HOOKS.hold)
        ordinal, program, held = made.ready(self.prepared or ())
        if numbers:
            held = {**held, **made.constants(ordinal, program, numbers)}
        if self.captured:
            first = len(made.interface.inputs) - len(self.captured)
            held = {**held, **made.standing(ordinal, program, dict(enumerate(self.captured, first)))}
        like = CallOnDevice(
            *(args, kwargs, flatten((args, kwargs))[1], self.result, ordinal, program, held),
            [*(() if self.guards is None else self.guards.native), *HOOKS.native],
            *(made.interface.donations, self._donated, self.prepared),
        )
        entry = device_entry_of(like) if native else None
        return entry or device_call(like, holds)

    def launch(self, arrays: Sequence[Any], out: Any = None) -> Any:
        """The result for the data of a call that fits the signature; errors about sizes name its arguments."""
        given = [*arrays, *self.captured]
        try:
            if out is None:
                results = self.executable.run(given, None, self.prepared)
                if (donated := self._donated) is not None:
                    results = donated.given_away(results, arrays, user_place())
                return unflatten(self.result, results)
            kind = self.executable.memory_kind if isinstance(self.executable, CudaExecutable) else None
            outputs = given_outputs(self.name, out, self.result, self.interface, given, kind)
            self.executable.run(given, outputs, self.prepared)
            return out
        except ArgumentError as error:
            if self.signature is None:
                raise
            names = [f"argument {name}" for name in self.signature.names]
            names += ["an array that it reads from around it"] * len(self.captured)
            names += [f"argument {name}" for name in paths(self.result, "out")]
            raise ArgumentError(error.position, error.problem, f"{self.name}: {names[error.position]}") from None
        except OverwrittenError as error:
            if (donated := self._donated) is not None:
                donated.lost(arrays, error.positions, user_place())
            raise error.__cause__ or error from None
        except (SizeMismatchError, EmptySizeError) as error:
            if self.signature is None:
                raise
            reason = error
            try:
                self.interface.bind([array.shape for array in arrays], self.signature.names)
            except (SizeMismatchError, EmptySizeError) as named:
                reason = named
            raise type(reason)(f"{self.name}: {reason}") from None

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Launch on a flat list of arrays; raises `TypeError` when they do not fit the interface."""
        expected = self.interface.inputs
        if len(arrays) != (count := len(expected) - len(self.captured)):
            raise TypeError(f"{self.name}: {len(arrays)} arrays are given where {count} are needed")
        arrays = [*arrays, *self.captured]
        for position, (array, (shape, dtype)) in enumerate(zip(arrays, expected, strict=True)):
            if not _fits(tuple(array.shape), shape) or array.dtype != numpy_dtype(element_type(dtype)):
                given = f"{array.dtype}{list(array.shape)}"
                raise TypeError(f"{self.name}: array {position} is {given} where {dtype}{list(shape)} is needed")
        # What is prepared is that of the frozen arrays, which these need not be.
        return run_flat(self.executable, arrays)


def _library_bytes(ir: str) -> int:
    """Bytes in which cuBLAS works for a grid-mapped module, if it computes something."""
    from xdsl.parser import Parser

    from tenon.lowering.steps.library import is_library_call
    from tenon.runtime.cuda.cublas import WORKSPACE

    functions = [op for op in Parser(new_context(), ir, "grid.mlir").parse_module().ops if isinstance(op, FuncOp)]
    return WORKSPACE * any(map(is_library_call, functions))


def _both(first: Callable[[], bool], second: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: first() and second()


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array may have the shape `given`; which sizes must be equal is checked by what runs."""
    if given == shape:
        return True
    return len(given) == len(shape) and all(isinstance(s, Size) or s == g for g, s in zip(given, shape, strict=True))


def run_flat(made: Executable, arrays: Sequence[Any]) -> list[Any]:
    """Run a program on arrays of which no more need be said where it fails."""
    try:
        return made.run(arrays)
    except OverwrittenError as error:
        raise error.__cause__ or error from None


class FlatCall(NativeCalls):
    """A program of arrays by position, called natively; gives a tuple of arrays."""

    def __init__(self, made: Executable, name: str) -> None:
        self._executable = made
        self._name = name

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        epoch = int(EPOCH[0])
        expected = len(self._executable.interface.inputs)
        if len(arrays) != expected:  # machine code would take what is behind the last one for an array
            raise TypeError(f"{self._name}: {len(arrays)} arrays where the program takes {expected}")
        results = tuple(run_flat(self._executable, arrays))
        if self._dispatch.wants(len(arrays), epoch):
            _, structure = flatten((arrays, {}))
            compiled = Compiled(flatten(results)[1], "cpu", self._name, self._executable)
            entry = None
            with suppress(IndescribableError):
                entry = compiled.entry_of((arrays, {}), structure, {}, None, NUMBERS)
            self._dispatch.add(self, len(arrays), entry, epoch)
        return results
