"""One trace: stand-ins are put where the function finds tensors, arrays and numbers, and what it changed is collected.

Whatever happens, all that stood somewhere before stands there again when the trace has ended.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.support.plain_arrays import is_stored
from tenon.draws import COUNTED, where_it_is
from tenon.eager.changes import is_private, sharing
from tenon.eager.differentiation import UsedGradient
from tenon.eager.modes import TRACING
from tenon.eager.parameters import adopt
from tenon.eager.recording import Stored
from tenon.eager.tape import Call, Leaf, Source
from tenon.eager.views import Link, View
from tenon.runtime.arguments.arguments import WideFloat
from tenon.runtime.cuda.arrays import place_among
from tenon.runtime.cuda.names import checked_device, kind_of
from tenon.runtime.reads.places import Place
from tenon.runtime.tracing.watch import watch
from tenon.seeds import COUNTED_STREAM
from tenon.traces.changes import Standing
from tenon.traces.reads import TensorReads
from tenon.traces.stand_ins import DrawError, TraceError, WrittenAgain
from tenon.traces.symbols import DETACHED, TracedTensor, traced_kind, value_of

# The fields of tensors, whatever the classes of these make of them.
_SLOTS: dict[str, Any] = {
    name: vars(Stored)[name] for name in ("_array", "_grad", "_keeps_grad", "_memory", "_source", "_view")
}


@dataclass(eq=False)
class Input:
    """Something whose elements are given at each call: an argument, a tensor from around the function, or what is in a
    place."""

    name: str
    leaf: Any
    """An array like that of calls, or a float."""
    argument: int | None = None
    tensor: Any = None
    """A tensor from around the function; in a place, the one that was there."""
    place: Place | None = None
    replaced: Any = None
    """A tensor in a place that gets another one, as it was when the function was traced: it has a stand-in."""
    is_value: bool = False
    """Whether the array is one for functions of values, not for those of tensors."""
    symbol: Any = None
    """What stands for it in the trace: a tensor, or the value of a number."""
    value: Any = None
    """The value of its elements when the call begins."""

    def let_go(self) -> None:
        """Forget what was traced, and what the first call was given."""
        self.leaf = self.symbol = self.value = self.replaced = None
        if self.argument is not None:
            self.tensor = None

    @property
    def is_changed(self) -> bool:
        """Whether the function changes the elements."""
        now: Any = self.symbol._array if isinstance(self.symbol, Stored) else self.value
        return now.ssa is not self.value.ssa


@dataclass
class _Before:
    """A tensor from around the function as it was."""

    tensor: Any
    kind: type
    attributes: dict[str, Any]
    shared: list[Any] | None
    version: int


@dataclass(eq=False)
class Session:
    """What stands for what while the function runs."""

    name: str
    reads: TensorReads
    inputs: Sequence[Input]
    read_gradients: dict[int, Any] = field(default_factory=dict[int, Any])
    """Tensors whose `grad` was asked for before it was set."""
    gradients: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    """Tensors whose `grad` was set, and what to."""
    stepped: set[int] = field(default_factory=set[int])
    """Tensors that an optimizer has changed."""
    starts: list[Leaf] = field(default_factory=list[Leaf])
    """What stands for the sources of tensors that were recorded before."""
    standing: Standing = field(init=False)
    """What stands in places."""
    _entered: dict[int, _Before] = field(default_factory=dict[int, _Before])
    _hooks: list[tuple[Leaf, dict[int, Any]]] = field(default_factory=list[tuple[Leaf, dict[int, Any]]])
    """Sources of tensors from around the function, and the hooks that these had."""
    _recorded: dict[int, Any] = field(default_factory=dict[int, Any])
    """Where what stands for a tensor came from, by its identity."""
    _laid: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    _detached: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    _draws: bool = False
    """Whether a number was drawn whose state is no input yet."""

    def __post_init__(self) -> None:
        self.standing = Standing(self.name, self.reads)

    @property
    def device(self) -> str:
        """Where the program runs: on the GPU that an input is on, or the CPU."""
        return place_among(given.leaf for given in self.inputs) or "cpu"

    def runs_on(self, device: str) -> bool:
        """Whether a device is the one that the program runs on."""
        return checked_device(device) in (self.device, kind_of(self.device))

    def check_device(self, device: str) -> None:
        """Raise `ValueError` for a device other than the one that the program runs on."""
        if not self.runs_on(device):
            raise ValueError(
                f"{self.name} runs on {self.device}, where its tensors are; bring what it is given to {device} before"
            )

    def begin(self, values: Sequence[Value]) -> None:
        """Put stand-ins into their places."""
        TRACING.session = COUNTED.program = self
        watching = watch()
        for module in self.reads.modules:
            if watching is not None:
                watching.own(module)
        self._generators = self._drawn()
        for given, value in zip(self.inputs, values, strict=True):
            given.value = value
            if given.tensor is not None:
                self._enter(given.tensor)
                given.tensor._array = value
                given.symbol = given.tensor
            elif given.replaced is not None:
                given.symbol = self._stand_in(given.replaced, given.leaf, value)
            elif is_stored(given.leaf) and not given.is_value:
                given.symbol = TracedTensor._new(value)
                self.lay(given.symbol, given.leaf)
            else:
                given.symbol = value
            if given.place is not None and given.tensor is None:
                given.place.set(given.symbol)
        self.standing.begin([i.place for i in self.inputs if i.place is not None and i.tensor is None])
        self._enter_views()
        TRACING.threads.add(threading.get_ident())

    def _stand_in(self, tensor: Any, array: Any, value: Value) -> Any:
        """A traced tensor in the place of one that is replaced, which an argument may be."""
        made: Any = TracedTensor._new(value)
        before = self._entered.get(id(tensor))
        made.__class__ = traced_kind(type(tensor) if before is None else before.kind)
        self.lay(made, array)
        if tensor._source is not None:
            made._source = self._start(tensor._source, made)
            self._recorded[id(made)] = tensor._source
        return made

    def _enter(self, tensor: Any) -> None:
        memory = adopt(tensor)._memory
        self._entered[id(tensor)] = _Before(
            tensor,
            type(tensor),
            {name: slot.__get__(tensor) for name, slot in _SLOTS.items()},
            None if memory is None or memory.tensors is None else [*memory.tensors],
            0 if memory is None else memory.version,
        )
        array, source = tensor._array, tensor._source
        if type(source) is Leaf:
            self._hooks.append((source, dict(source.hooks) if source.has_hooks else {}))
        tensor.__class__ = traced_kind(type(tensor))
        self.lay(tensor, array)
        if source is not None and source.node is not None:
            tensor._source = self._start(source, tensor)

    def _start(self, source: Source, tensor: Any) -> Leaf:
        """A source for what stands for a tensor: what was recorded before is not gone through from inside."""
        made = Leaf(source.type, ref(tensor))
        self.starts.append(made)
        return made

    def _enter_views(self) -> None:
        """Give the tensors that show parts of others what these show."""
        for tensor, _ in self.reads.tensors.values():
            if id(tensor) not in self._entered:
                base, links = root(tensor)
                self._enter(tensor)
                tensor._array = _shown(base, links)

    # --- what happens in the trace ------------------------------------------------------------------

    def made(self, tensor: Any) -> Any:
        """A tensor that the function makes, as one that is traced."""
        array = tensor._array
        tensor.__class__ = traced_kind(type(tensor))
        tensor._array = to_value(array)
        if isinstance(array, np.ndarray):
            self.lay(tensor, array)
        return tensor

    def detached(self, made: Any, tensor: Any) -> None:
        """Note that `made` shows all of a tensor, and no gradient."""
        self._detached[id(made)] = ref(made), tensor

    def detached_from(self, tensor: Any) -> Any:
        """What a tensor was detached from; `None` for others."""
        held, origin = self._detached.get(id(tensor), (None, None))
        return origin if held is not None and held() is tensor else None

    def lay(self, tensor: Any, array: Any) -> None:
        """Note that a tensor lies in memory as `array` does."""
        self._laid[id(tensor)] = ref(tensor), array

    def laid(self, tensor: Any) -> Any:
        """An array that lies in memory as a tensor would."""
        held, array = self._laid.get(id(tensor), (None, None))
        if held is None or held() is not tensor:
            array = np.empty(tensor.shape, tensor.dtype)
            self.lay(tensor, array)
        return array

    def put(self, tensor: Any, array: Any) -> None:
        """Give a tensor other elements, and all that share its memory."""
        base, links = root(tensor)
        for changed in (tensor, base):
            if not changed._is_traced:
                raise TraceError(
                    f"{self.name} changes a tensor of shape {changed.shape} that it was not seen to read; pass it as "
                    "an argument"
                )
        value = to_value(array)
        value = value if value.dtype == tensor.dtype else value.astype(tensor.dtype)
        if not is_private(tensor):
            tensor._own_memory().change()
        if links:
            value = View(base, links).update_call().apply((base._array, value))[0]
        base._array = value
        for held in sharing(tensor):
            if held is base or not held._is_traced:
                continue
            found, links = root(held)
            if found is not base:
                raise TraceError(
                    f"{self.name} changes a tensor of shape {tensor.shape} whose memory another one shows that was "
                    "detached from a view; clone() it before, or run it with tenon.trace(f, symbolic=False)"
                )
            held._array = _shown(base, links)

    def write(self, tensor: Any, call: Call, operands: Sequence[Any]) -> None:
        """Have `call` change a tensor, its first operand."""
        self.put(tensor, call.apply([to_value(value_of(given)) for given in operands])[0])

    def gradient(self, tensor: Any) -> Any:
        """The `grad` of a tensor."""
        if id(tensor) in self.gradients:
            return self.gradients[id(tensor)][1]
        before = self._entered.get(id(tensor))
        if before is None:
            return None
        if type(before.attributes["_grad"]) is UsedGradient:
            before.attributes["_grad"].refuse()
        self.read_gradients[id(tensor)] = tensor
        return before.attributes["_grad"]

    def is_used_up(self, tensor: Any) -> bool:
        """Whether a gradient is found anew at each call, and an optimizer uses it there."""
        return id(tensor) in self.stepped and id(tensor) not in self.read_gradients

    def set_gradient(self, tensor: Any, gradient: Any) -> None:
        """Set the `grad` of a tensor."""
        before = self._entered.get(id(tensor))
        source = self._recorded.get(id(tensor)) if before is None else before.attributes["_source"]
        if source is not None and source.node is not None and gradient is not None:
            raise TraceError(
                f"{self.name} finds gradients of what was recorded before it was called (a tensor of shape "
                f"{tensor.shape}); call backward outside of it, or detach() what it is given"
            )
        self.gradients[id(tensor)] = (tensor, gradient)

    def next_key(self) -> Value:
        """A key for one draw, which the program counts."""
        state = COUNTED_STREAM.state
        if not self.reads.written.draws:
            self._draws = True  # the trace has to be made again, with the state as an input
            return to_value(np.zeros(2, np.int32))
        with where_it_is(state["calls"]):
            key = ops.fold_in(state["key"], state["calls"])
            state["calls"] = state["calls"] + 1
        return key

    # --- the end ------------------------------------------------------------------------------------

    def end(self) -> None:
        """Put everything back, also where Ctrl-C comes meanwhile."""
        try:
            self._put_back()
        except BaseException:
            self._put_back()
            raise

    def _put_back(self) -> None:
        TRACING.session = COUNTED.program = None
        TRACING.threads.discard(threading.get_ident())
        for before in self._entered.values():
            tensor = before.tensor
            memory = before.attributes["_memory"]
            if memory is not None:
                memory.tensors, memory.version = before.shared, before.version
            tensor.__class__ = before.kind
            for name, value in before.attributes.items():
                setattr(tensor, name, value)
        for given in self.inputs:
            if given.place is not None and given.tensor is None:
                given.place.set(given.leaf if type(given.leaf) is not WideFloat else float(given.leaf))
        self.standing.restore()
        for source, hooks in self._hooks:
            if source.has_hooks or hooks:
                source.hooks.clear()
                source.hooks.update(hooks)

    def changes(self) -> list[tuple[Place, Any]]:
        """The places that have other traced values now, and these. Raises `TraceError` for other changes, and
        `WrittenAgain` where more is to be an input."""
        if self._draws:
            self.reads.written.draws = True
            raise WrittenAgain
        if self._drawn() != self._generators:
            raise DrawError(
                f"{self.name} draws numbers of NumPy's or Python's, which a program would do once; use "
                "tenon.random_uniform and its like, or draw them outside and pass them"
            )
        for source, hooks in self._hooks:
            if source.has_hooks and source.hooks.keys() != hooks.keys():
                raise TraceError(
                    f"{self.name} registers a hook on a tensor of shape {source.shape} from around it, which a program "
                    "cannot do at each call; register it outside, or remove() it in the function"
                )
        return self.standing.changes()

    def hooked(self) -> str | None:
        """A hook that the function registers on a value that was recorded before, which outlives the call."""
        found = next((source for source in self.starts if source.has_hooks), None)
        return None if found is None else f"a hook on a tensor of shape {found.shape} that it is given"

    def _drawn(self) -> Any:
        """What tells whether numbers were drawn from the generators that may be met."""
        legacy: Any = np.random.get_state(legacy=False)
        states = [generator.bit_generator.state for generator in self.reads.generators]
        return repr(states), str(legacy["state"]["pos"]), legacy["state"]["key"].tobytes(), random.getstate()


def root(tensor: Any) -> tuple[Any, tuple[Link, ...]]:
    """The tensor whose memory `tensor` shows, and how it looks at it."""
    view = tensor._view
    if view is not None:
        base, links = root(view.base)
        return base, (*links, *view.links)
    origin = None if TRACING.session is None else TRACING.session.detached_from(tensor)
    if origin is not None:
        base, links = root(origin)
        return base, (*links, DETACHED)
    for held in sharing(tensor):
        if held is tensor:
            break
        if held._laid is tensor._laid:  # it was detached from that one
            base, links = root(held)
            return base, (*links, DETACHED)
    return tensor, ()


def _shown(base: Any, links: Sequence[Link]) -> Any:
    value = base._array
    for make, given in links:
        value = make(*given).of(value)
    return value


__all__ = ["Input", "Session", "root"]
