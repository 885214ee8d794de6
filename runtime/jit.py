"""`jit`: a Python function, compiled once for each signature it is called with."""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenon.dialects.definition.autocast import autocast_element, precision
from tenon.dialects.definition.registry import generation, watch_generation
from tenon.dialects.definition.value import insertion_point
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.plain_arrays import device_for, elements_of
from tenon.dialects.support.suggestion import hints_keywords
from tenon.dialects.support.user_traceback import shows_user_frames
from tenon.dialects.types.size import UndecidedSizeError
from tenon.runtime.arguments.arguments import Parameters, ShapeDtype, abstract, face_of, traced_face_of
from tenon.runtime.arguments.frozen import NONE, FrozenArguments
from tenon.runtime.arguments.holders import check_holds_no_arrays
from tenon.runtime.arguments.interface import EmptySizeError
from tenon.runtime.arguments.leaf_sizes import LeafSizes
from tenon.runtime.arguments.orders import LEAST, LEAST_PERMUTED, Orders, orders_of
from tenon.runtime.arguments.signature import Signature
from tenon.runtime.arguments.tree import Structure, flatten, tell_by_identity
from tenon.runtime.call.entry import NativeCalls
from tenon.runtime.call.steps import inside_of
from tenon.runtime.cuda.calls import OTHER, DeviceCalls
from tenon.runtime.cuda.names import checked_device, kind_of
from tenon.runtime.dynamic import DynamicAxes, DynamicDimensions, say_why_specialized
from tenon.runtime.epoch import EPOCH, expire
from tenon.runtime.kernel_schedules import checked_schedule, write_schedule
from tenon.runtime.knobs import knobs
from tenon.runtime.python_state import collection_paused
from tenon.runtime.reads.programs import Programs
from tenon.runtime.reads.reading import Reading
from tenon.runtime.stages import Compiled, Lowered, Traced
from tenon.runtime.tracing.trace import trace

watch_generation(expire)
_ROW_MAJOR: Orders = {}


class JitFunction(NativeCalls):
    """A function that is traced and compiled when it is called; made by `jit`. May be called from several threads."""

    def __deepcopy__(self, memo: dict[int, Any]) -> JitFunction:
        """The same one, as of every function, unless what it calls is an object that can be copied."""
        function = copy.deepcopy(self.function, memo)
        return self if function is self.function else _made_again(function, self._settings, self._frozen)

    def __reduce__(self) -> Any:
        """By name where the name leads here, as functions are pickled; otherwise by the function and all settings."""
        named = _named(self.__module__, self.__qualname__)
        if named is self:
            return self.__qualname__
        # the name of a decorated function leads to what the decorator made
        is_decorated = isinstance(named, JitFunction) and named.function is self.function
        return _made_again, (named if is_decorated else self.function, self._settings, self._frozen)

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str] | str,
        donated: Sequence[str] | str,
        device: str | None = None,
        dynamic: Mapping[str, DynamicAxes] | None = None,
        schedule: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"jit: a {type(function).__name__} cannot be called")
        self.device = "cpu" if device is None else checked_device(device, "jit: ")
        check_holds_no_arrays(function)
        self.__module__, self.__qualname__ = type(self).__module__, type(self).__qualname__
        # not what the function keeps for itself: that of an op has native calls of its own
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self._settings = (static, donated, device, dynamic, schedule)
        self._schedule = checked_schedule(schedule, self.device)
        self.parameters = Parameters(function, static, donated, _taken_on(self.device))
        self.name = self.parameters.name
        self._compiled = Programs[Compiled]()
        self._lock = new_lock()
        self._described: dict[str, str] = {}
        self._generation = 0
        self._dynamic = DynamicDimensions(self.name, dynamic) if dynamic else None
        self._frozen = NONE
        self._device_calls = DeviceCalls(self)
        self._follower: JitFunction | None = None
        self.recorded: Any = None
        """What the tape keeps of calls on tensors; it goes when the function does."""

    @property
    def is_plain(self) -> bool:
        """Whether its arguments are arrays of known sizes, and it leaves them as they are."""
        static, donated, _, dynamic, _ = self._settings
        return not (static or donated or dynamic) and self._frozen is NONE

    def for_data(self, leaves: Iterable[Any]) -> JitFunction:
        """The function for a call with such data: it itself, or, where no device was said and some are on a GPU, one
        that runs there."""
        static, donated, device, dynamic, schedule = self._settings
        if device is not None or device_for(leaves) == "cpu":
            return self
        if self._follower is None:
            self._follower = _made_again(self, (static, donated, "cuda", dynamic, schedule), self._frozen)
            self._follower._device_calls = self._device_calls  # so that calls like one before do not come here
        return self._follower

    def freeze(self, /, *args: Any, **kwargs: Any) -> JitFunction:
        """The function with its first arguments, and those named, given once and for all: `jit(f).freeze(params)(x)`.

        What depends on them alone is computed once for each kind of call, when the first one is compiled, and kept,
        once for all kinds that need the same: the weights of a convolution as its kernel wants them, the scale of a
        norm. Arrays must not be changed from then on, which would not be noticed in all places; of tensors, such as the
        parameters of a module that is learned, there are copies, which stay as they are. There are no gradients with
        respect to what is frozen; `grad` and `vmap` of the other arguments work. Raises `TypeError` for a traced value,
        for an argument that is donated, and for one that the function does not have.
        """
        args, kwargs = self._frozen.joined(self.name, args, kwargs)
        made = copy.copy(self)
        made._frozen = FrozenArguments.of(self.parameters, args, kwargs)
        made._compiled, made._lock, made._described, made.recorded = Programs(), new_lock(), {}, None
        made._device_calls, made._follower = DeviceCalls(made), None
        return made

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays, compiling first if this signature is new. Inside another trace, join that trace.

        Results are written to the arrays in the keyword argument `out`, a tree like the result, which is returned; a
        function with a parameter of this name gets the argument itself.
        """
        if (calls := self._device_calls) and (made := calls.run(args, kwargs)) is not OTHER:
            return made
        call = args, dict(kwargs)
        if self._frozen is not NONE:
            args, kwargs = self._frozen.joined(self.name, args, kwargs)
        if insertion_point() is not None:
            face = traced_face_of(args, kwargs)
            return self.function(*args, **kwargs) if face is None else face(self.function, args, kwargs)
        epoch = int(EPOCH[0])
        order = tuple(kwargs)
        face = face_of((*args, *kwargs.values()))  # most often, some argument is one itself
        given = [] if face is not None else flatten((args, kwargs))[0]
        if face is not None or (face := face_of(given)) is not None:
            return face(self, args, kwargs)
        out = kwargs.pop("out", None) if "out" in kwargs and self.parameters.take_out else None
        leaves, structure = self.parameters.take_apart(args, kwargs)
        if (other := self.for_data(leaves)) is not self:
            return other(*call[0], **call[1])
        ran = None if self._dynamic is None else self._run_for_all_sizes(self._dynamic, leaves, structure, out)
        if ran is None:
            orders = self._orders(leaves, structure)
            signature, arrays = self.parameters.signature(leaves, structure, orders=orders)
            key = (knobs.code_settings, autocast_element(), generation(), signature)
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = self._compile(key, leaves, structure, orders=orders)
            results = compiled.launch(arrays, out)
        else:
            key, compiled, results = ran
        kind = key, order, id(compiled.guards), inside_of((args, kwargs), structure)
        if self.device != "cpu":
            if out is None and ran is None and autocast_element() is None:
                kind = *kind, tuple(map(type, given))
                self._device_calls.learn(kind, lambda native: compiled.device_call(*call, native=native), epoch)
        elif self._dispatch.wants(kind, epoch):
            given = kwargs if out is None else {name: kwargs.get(name, out) for name in order}
            self._dispatch.add(self, kind, compiled.entry_for((args, given), structure, precision()), epoch)
        return results

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: bound to its object, which is the first argument."""
        return self if instance is None else types.MethodType(self, instance)

    def _run_for_all_sizes(
        self, dynamic: DynamicDimensions, leaves: Sequence[Any], structure: Structure, out: Any
    ) -> tuple[Any, Compiled, Any] | None:
        """A program for all sizes, its key first, and what it gave; `None` where one for this call is needed."""
        sizes = dynamic.sizes_of(leaves, structure, self.parameters)
        signature, arrays = self.parameters.signature(leaves, structure, sizes)
        key = (knobs.code_settings, autocast_element(), generation(), signature)
        if key in dynamic.refused:
            return None
        compiled = self._compiled.get(key)
        try:
            if compiled is None:
                compiled = self._compile(key, leaves, structure, sizes)
            return key, compiled, compiled.launch(arrays, out)
        except EmptySizeError as error:
            say_why_specialized(self.name, error)
            return None
        except Exception as error:
            if compiled is not None:
                raise
            # What is wrong whatever the sizes are is found again when these are compiled for.
            dynamic.refused.add(key)
            say_why_specialized(self.name, error)
            return None

    def _orders(self, leaves: Sequence[Any], structure: Structure) -> Orders:
        """Which arrays of a call are read as they lie in memory."""
        if self.device != "cpu":
            return _ROW_MAJOR
        donated = self.parameters.donations(structure) if self.parameters.donated else ()
        found = orders_of(leaves, donated, LEAST_PERMUTED)
        large = {position: place for position, place in found.items() if leaves[position].nbytes >= LEAST}
        if len(large) < len(found):
            signature, _ = self.parameters.signature(leaves, structure, orders=large)
            if self._compiled.get((knobs.code_settings, autocast_element(), generation(), signature)) is not None:
                return large  # what is small is copied for a program that is there
        return found

    def _compile(
        self,
        key: Any,
        leaves: Sequence[Any],
        structure: Structure,
        sizes: LeafSizes | None = None,
        orders: Orders = _ROW_MAJOR,
    ) -> Compiled:
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is None:
                is_again = self._compiled.say_why(self.name, key) is not None
                if knobs.log_compiles and not is_again:
                    settings = {f"knobs.{name}": repr(value) for name, value in knobs.code_settings}
                    settings |= {} if (low := autocast_element()) is None else {"autocast": str(low)}
                    self._say_why(self.parameters.described(leaves, structure, sizes, orders) | settings)
                with collection_paused():
                    compiled = self._compiled.add(
                        self.name, key, self._trace(leaves, structure, sizes, orders).compile()
                    )
            return compiled

    def _say_why(self, described: dict[str, str]) -> None:
        """Say on stderr what makes this signature new, compared with the one compiled last."""
        changes = [
            f"{name} is {text}" + (f" (was {self._described[name]})" if name in self._described else "")
            for name, text in described.items()
            if self._described.get(name) != text
        ]
        changes += [f"{name} is gone" for name in self._described if name not in described]
        if self._generation != generation():
            changes += ["an op was defined again"] if self._described else []
            self._generation = generation()
        what = "compiling again" if self._described else "compiling"
        print(f"tenon: {what} {self.name}: {', '.join(changes) or 'another structure'}", file=sys.stderr)
        self._described = described

    def _trace(
        self,
        leaves: Sequence[Any],
        structure: Structure,
        sizes: LeafSizes | None = None,
        orders: Orders = _ROW_MAJOR,
    ) -> Traced:
        names = self.parameters.leaf_names(structure)
        types_ = [abstract(leaf, f"{self.name}: argument {name}") for leaf, name in zip(leaves, names, strict=True)]
        if sizes is not None:
            if self.device != "cpu":
                raise UndecidedSizeError(f"programs for {self.device} are compiled for known sizes")
            types_ = [t if t is None else sizes.typed(position, t) for position, t in enumerate(types_)]
        donated = self.parameters.donations(structure) if self.parameters.donated else ()
        flags = self._frozen.flags(structure) if self._frozen is not NONE else ()
        others = [leaf for leaf, type_ in zip(leaves, types_, strict=True) if type_ is None]
        reading = Reading(self.function, others, structure, on_gpu=kind_of(self.device) != "cpu")
        traced = trace(
            *(self.parameters.call, structure, leaves, types_, names, donated, flags, reading.captures),
            orders=orders,
            is_for_later=True,
        )
        key, arrays = self.parameters.signature(leaves, structure, sizes, orders)
        data = tuple([name for name, type_ in zip(names, types_, strict=True) if type_ is not None])
        described = self.parameters.described(leaves, structure, sizes, orders)
        numbers = [position for position, type_ in enumerate(types_) if type_ is not None]
        of_data = {number: orders[position] for number, position in enumerate(numbers) if position in orders}
        frozen = self._frozen if flags else None
        signature = Signature(self.parameters, key, described, data, sizes, frozen, of_data)
        held = dict[int, Any]()
        if flags:
            kept = [flag for flag, type_ in zip(flags, types_, strict=True) if type_ is not None]
            held = {i: array for i, (flag, array) in enumerate(zip(kept, arrays, strict=True)) if flag}
        if self._schedule:
            write_schedule(traced.module, self._schedule)
        given = signature, held, reading.guards(), tuple(reading.captures.arrays)
        return Traced(traced.module, traced.result, self.device, self.name, *given)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The tensor IR for arguments like these (arrays or `ShapeDtype`); nothing is compiled."""
        call = args, kwargs
        args, kwargs = self._frozen.joined(self.name, args, kwargs)
        leaves, structure = self.parameters.take_apart(args, kwargs)
        if (other := self.for_data(map(elements_of, leaves))) is not self:
            return other.trace(*call[0], **call[1])
        given = {i: found for i, x in enumerate(leaves) if isinstance(x, ShapeDtype) and (found := x.sizes())}
        leaves = [x.placeholder() if isinstance(x, ShapeDtype) else elements_of(x) for x in leaves]
        sizes = LeafSizes(given) if given else None
        if self._dynamic is not None and not given:
            sizes = self._dynamic.sizes_of(leaves, structure, self.parameters)
        with collection_paused():
            return self._trace(leaves, structure, sizes)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The loop IR for arguments like these."""
        return self.trace(*args, **kwargs).lower()

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The machine code for arguments like these."""
        return self.trace(*args, **kwargs).compile()


tell_by_identity(JitFunction)


def _taken_on(device: str) -> Callable[[Any], Any] | None:
    """What makes of arrays on a GPU those that programs of the device take."""
    if kind_of(device) == "cpu":
        return None
    from tenon.runtime.cuda.arrays import taken

    return taken


def _named(module: str, name: str) -> Any:
    """What pickle finds by this name; `None` for nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _made_again(function: Any, settings: tuple[Any, ...], frozen: FrozenArguments) -> JitFunction:
    made = JitFunction(function.function if isinstance(function, JitFunction) else function, *settings)
    has_frozen = frozen.args or frozen.kwargs
    return made.freeze(*frozen.args, **(frozen.kwargs or {})) if has_frozen else made


_INSTEAD = {
    **dict.fromkeys(("static_argnums", "static_argnames"), 'name the arguments in static=, such as static=("n",)'),
    **dict.fromkeys(("donate_argnums", "donate_argnames"), 'name the arguments in donate=, such as donate=("state",)'),
}
"""What to write for keywords that JAX's `jit` has."""


@shows_user_frames
@hints_keywords(_INSTEAD)
def jit(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[str] | str = (),
    donate: Sequence[str] | str = (),
    device: str | None = None,
    dynamic: Mapping[str, DynamicAxes] | None = None,
    schedule: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """Compile `function` when it is called, once per signature (shapes, dtypes, and the values of what is no array).

    Arguments and results are trees of arrays. A call `f(x, out=y)` writes to the arrays in `y`, a tree like the result,
    and returns it; they must be contiguous and share no memory with anything else in the call.

    `static` names arguments that are taken as Python values; `donate` names arguments whose memory the results may take
    over: do not use them after the call, which is an error (`RuntimeError`) where Tenon is given their arrays.

    `device` is `"cpu"`; `"cuda"`, the GPU that arguments are on, or else CuPy's current one; or `"cuda:1"`, that GPU.
    Without one, calls run where their arguments are. A function on a GPU takes arrays there, of CuPy and of all that
    has `__cuda_array_interface__` or DLPack, and copies of arrays of the host; it works on CuPy's current stream and
    gives CuPy arrays (`docs/gpu-programs.md`).

    `dynamic` names dimensions that may have any size, so that one program serves all: `{"x": ("n", None)}`, with
    `None` for a dimension that is compiled for, or `{"x": {0: "n"}}`. Dimensions of one name must be equal in a call.
    A tree is named by its argument, which stands for all its leaves, or leaf by leaf (`params.weight`). What cannot be
    compiled for all sizes is compiled for those of each call; `TENON_LOG_COMPILES=1` says why.

    `schedule` gives kernels for `"cuda"` the steps by which they run, by name: `{"kernel_0": ["bind(i, grid)"]}`. Of
    the others Tenon decides; `tenon compile --target cuda:ARCH` writes the names and steps of all.

    Raises `TypeError` for a module, and for a bound method of a tree with arrays, which would be constants, or of an
    object that could change unnoticed. (A frozen dataclass of numbers cannot change, and is taken.)

    What `function` reads besides its arguments (arrays and numbers of closures and globals, attributes, functions that
    it calls) is constant in a program and guarded: where it is another at a call, `function` is traced again. What it
    changes itself while it is traced is not guarded. An object whose class does not define
    `__eq__` and `__hash__` is refused as an argument, since it could change unnoticed, unless `static` names it.

    Usable as `@tenon.jit` and as `@tenon.jit(donate=("params",))`, on functions, and on methods of trees (dataclasses,
    modules).
    """
    if function is None:
        return lambda f: JitFunction(f, static, donate, device, dynamic, schedule)
    return JitFunction(function, static, donate, device, dynamic, schedule)


__all__ = ["JitFunction", "ShapeDtype", "jit"]
