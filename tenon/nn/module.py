"""The base of all modules: a tree whose arrays are parameters and buffers."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tenon.dialects.definition.both_faces import BothFaces, is_device
from tenon.dialects.support.device import default_gpu, device_named
from tenon.dialects.support.plain_arrays import copied as copied_array
from tenon.dialects.support.plain_arrays import is_stored
from tenon.dialects.support.suggestion import UnknownAttributeError, check_keywords
from tenon.dialects.support.user_traceback import hide_own_frames
from tenon.dialects.types.types import element_type, is_float, numpy_dtype
from tenon.eager.modes import MODE, TRACING, is_traced, no_grad
from tenon.eager.parameters import CALLS, LEARNED, Offered, as_arrays, fitting, has_tensor
from tenon.eager.recording import is_learned
from tenon.eager.tensor import Tensor
from tenon.nn.hooks import Hook, ModuleHandle, call_with_hooks
from tenon.nn.traced import watch_buffers, watch_if_foreign
from tenon.nn.tree import (
    Array,
    ModuleTree,
    check_is_learned,
    is_dynamic,
    is_held,
    may_be_learned,
    note_array,
    note_made,
)
from tenon.runtime.arguments.tree import register_node
from tenon.runtime.cuda.arrays import brought
from tenon.runtime.tracing.watch import watch


class Loaded(NamedTuple):
    """What `load_state_dict` did not find in the state, and what it did not find in the module."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(ModuleTree):
    """Base of all modules. Arrays that are assigned to attributes are parameters, unless `register_buffer` says
    otherwise; they may be in lists, tuples and dicts.
    """

    training: bool
    hooks: tuple[Hook, ...] = ()

    def __new__(cls, *_: Any, **named: Any) -> Self:
        # Not in `__init__`, which subclasses forget to call.
        if named:
            check_keywords(cls, named)
        module = object.__new__(cls)
        tracing = watch()
        if tracing is not None:
            tracing.own(module)
        LEARNED.changes += 1
        note_made(module)
        module.training = True
        return module

    def __setattr__(self, name: str, value: Any) -> None:
        watch_if_foreign(self)
        if name in self.buffer_names:
            if isinstance(value, Tensor) and value.requires_grad:
                value = value.detach()  # statistics are not learned
            if CALLS.journal is not None:
                CALLS.journal.append((self, name, vars(self).get(name)))
        else:
            known = vars(self).get(name)
            if isinstance(known, Tensor) and known.requires_grad and type(known) is not Offered:
                check_is_learned(self, name, value)
            if (
                type(known) is Offered
                and isinstance(value, Tensor)
                and not (value.is_leaf or is_learned(value._source))
            ):
                value = value._exported()  # other elements for the module of arrays that this is so far
            if may_be_learned(value):
                LEARNED.changes += 1
            is_open = name in self.held_names or not is_dynamic(known)
            if is_open and is_dynamic(value) and is_held(value, self) != (name in self.held_names):
                self.held_names = tuple(sorted({*self.held_names} ^ {name}))
        if type(value) is np.ndarray:
            if (device := default_gpu()) is not None:
                value = brought(value, device)
            note_array(type(self), name)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name.startswith("_"):
                raise AttributeError(f"{kind} has no attribute {name!r}")
            message = f"{kind} has no attribute {name!r}"
            raise UnknownAttributeError(message, name, lambda: [*vars(self), *dir(type(self))])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result; to be defined by each module."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `forward` gives, between the hooks; if there is an error, buffers have what they had before."""
        watch_if_foreign(self)
        is_outermost = CALLS.journal is None
        if is_outermost:
            CALLS.journal = []
        try:
            if not LEARNED.is_known(self) and MODE.records and has_tensor((args, kwargs)) and not is_traced():
                LEARNED.learn(self)
            return call_with_hooks(self, args, kwargs) if self.hooks else self.forward(*args, **kwargs)
        except BaseException as error:
            if is_outermost:
                _take_back(CALLS.journal or ())
            # The frames of Tenon's own modules are not shown.
            if type(self).__module__.startswith("tenon."):
                error.add_note(f"in {type(self).__name__}({self.extra_repr()})")
            if isinstance(error, Exception):
                hide_own_frames(error)
            raise
        finally:
            if is_outermost:
                CALLS.journal = None

    def __tenon_numbers__(self) -> tuple[str, ...]:
        """The numbers that `tenon.trace` takes as inputs, as it takes all arrays: none."""
        return ()

    # --- changes of all of it -------------------------------------------------------------------------

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` with each module below this one, and then with this one; parameters are tensors by then, as
        `parameters` gives them."""
        self.offer()
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make tensors of all parameters, if they are none yet, which are learned by `backward()` and `step()`; or,
        with `False`, have no gradients found for them. Arrays that are no floats stay as they are."""
        self._check_made()
        self.make_learned()
        for slot in self.slots():
            if not slot.is_buffer and isinstance(slot.value, Tensor):
                slot.value.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients of all parameters that are tensors away."""
        for slot in self.slots():
            if not slot.is_buffer and isinstance(slot.value, Tensor):
                slot.value.grad = None

    def to(self, *target: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False) -> Self:
        """Convert floats, of parameters and buffers, to a dtype, or have all on a device. Both may be given, by
        position or by name, or as a tensor that has them.

        On `"cuda"` or `"cuda:1"` arrays are CuPy's. Tensors stay the objects that they are, so that optimizers go on to
        change them.
        """
        for given in target:
            if isinstance(given, BothFaces):
                device, dtype = given.device, given.dtype
            else:
                device, dtype = (given, dtype) if is_device(given) else (device, given)
        if device is not None:
            self._bring(device)
        return self if dtype is None else self._converted(dtype)

    def cpu(self) -> Self:
        """Have all arrays in the memory of the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Self:
        """Have all arrays on the current GPU, or on the one of that number; see `to`."""
        return self.to("cuda" if device is None else f"cuda:{device}")

    def _bring(self, device: str) -> None:
        made: dict[int, Any] = {}
        for slot in [slot for slot in self.slots() if isinstance(slot.value, Tensor) or is_stored(slot.value)]:
            value = slot.value
            if isinstance(value, Tensor):
                if value.is_leaf:  # what was computed stays where it was
                    value.convert_(device=device)
                continue
            if id(value) not in made:
                made[id(value)] = brought(value, device)
            if made[id(value)] is not value:
                with device_named(device):
                    slot.assign(made[id(value)])

    def type(self, dtype: Any) -> Self:
        """Convert floats to `dtype`."""
        return self.to(dtype=dtype)

    def _converted(self, target: Any) -> Self:
        self._check_made()
        dtype = numpy_dtype(element_type(target))
        if not is_float(element_type(dtype)):
            raise TypeError(f"{type(self).__name__}.to: parameters are floats, and cannot be {dtype}")
        made: dict[int, Any] = {}
        for slot in self.slots():
            value = slot.value
            if not is_float(element_type(value.dtype)):
                continue
            if isinstance(value, Tensor):
                if value.is_leaf:
                    value.convert_(dtype)
            else:
                slot.assign(made.setdefault(id(value), copied_array(value, dtype)))
        return self

    def half(self) -> Self:
        """Convert floats to f16."""
        return self.to("f16")

    def bfloat16(self) -> Self:
        """Convert floats to bf16."""
        return self.to("bf16")

    def float(self) -> Self:
        """Convert floats to f32."""
        return self.to("f32")

    def double(self) -> Self:
        """Convert floats to f64."""
        return self.to("f64")

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training behaviour (or, with `False`, to evaluation)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation behaviour."""
        return self.train(False)

    # --- state ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Parameters and buffers by path, without the buffers that are not persistent, as NumPy arrays; where a
        function is traced, as what stands for them.

        The arrays have the module's own memory: copy them to keep them, as a step changes what is in it, and before a
        call that is given the module's memory (`donate`).
        """
        self._check_made()
        return {slot.path: _as_array(slot.value) for slot in self.slots() if slot.is_saved}

    def load_state_dict(self, state: Mapping[str, Array], strict: bool = True) -> Loaded:
        """Set parameters and buffers to copies of `state`, of arrays of any library, such as a checkpoint of PyTorch;
        gives the names that are missing and those that are unknown.

        Raises `ValueError`, changing nothing, when shapes or kinds of numbers differ, and, if `strict`, when names do.
        """
        with self._made_of(state):
            slots = {slot.path: slot for slot in self.slots() if slot.is_saved}
            missing = sorted([path for path, slot in slots.items() if path not in state and not slot.is_optional])
            unknown = sorted(state.keys() - slots.keys())
            if strict and (missing or unknown):
                raise ValueError(
                    f"state does not fit the module: missing {', '.join(missing) or 'none'}, "
                    f"unknown {', '.join(unknown) or 'none'}"
                )
            slots = {path: slot for path, slot in slots.items() if path in state}
            loaded = {path: fitting(path, slot.value, state[path]) for path, slot in slots.items()}
            with no_grad():
                for path, slot in slots.items():
                    if isinstance(slot.value, Tensor):
                        slot.value[...] = loaded[path]
                # An array at several places stays one; the list holds it, so that its identity is not another's.
                arrays = [(path, slot) for path, slot in slots.items() if not isinstance(slot.value, Tensor)]
                made = {id(slot.value): loaded[path] for path, slot in arrays if is_stored(slot.value)}
                for slot in [*self.slots()]:
                    if (copy := made.get(id(slot.value))) is not None:
                        slot.assign(copy)
                for path, slot in arrays:
                    if id(slot.value) not in made:
                        slot.assign(loaded[path])
            return Loaded(missing, unknown)

    def set_parameters(self, values: Mapping[str, Array]) -> None:
        """Replace parameters by path; values are taken as they are. Raises `ValueError`, changing nothing, for a path
        that is not that of a parameter.
        """
        slots = {slot.path: slot for slot in self.slots() if not slot.is_buffer}
        if unknown := [path for path in values if path not in slots]:
            raise ValueError(f"{type(self).__name__} has no parameter {', '.join(unknown)}")
        for path, value in values.items():
            slots[path].assign(value)
        LEARNED.changes += 1

    # --- hooks ------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> ModuleHandle:
        """Have `hook(module, args)` called before `forward`, or `hook(module, args, kwargs)` if `with_kwargs`; what it
        returns, if anything, are the arguments in their place. `remove()` of the result ends that.
        """
        return ModuleHandle(self, "forward_pre", hook, with_kwargs, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> ModuleHandle:
        """Have `hook(module, args, result)` called after `forward` (with `kwargs` before the result, if `with_kwargs`);
        what it returns, if anything, is the result in its place.
        """
        return ModuleHandle(self, "forward", hook, with_kwargs, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> ModuleHandle:
        """Have `hook(module, grad_output)` called by `backward()` with the gradients of the results; what it returns,
        if anything, are those that go on.
        """
        return ModuleHandle(self, "backward_pre", hook, False, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> ModuleHandle:
        """Have `hook(module, grad_input, grad_output)` called by `backward()` when the gradients of the arguments are
        found, which are `None` for those that have none; what it returns, if anything, are those that go on.

        Of several results, those that nothing depends on have a gradient of zeros.
        """
        return ModuleHandle(self, "backward", hook, False, prepend)

    # --- text -------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the text of the module says besides the modules below it: settings, and shapes of parameters."""
        return ", ".join(
            [
                f"{name}={value!r}" if isinstance(value, int | float | str) else f"{name}: {tuple(value.shape)}"
                for name, value in vars(self).items()
                if name not in ("training", *self.buffer_names, *self.held_names)
                and (isinstance(value, int | float | str) or (hasattr(value, "shape") and hasattr(value, "dtype")))
            ]
        )

    def __repr__(self) -> str:
        below = [f"({name}): {child!r}" for name, child in self.named_children()]
        return text_of(type(self).__name__, self.extra_repr(), below)


def text_of(kind: str, said: str, below: Sequence[str]) -> str:
    """The text of a module of class `kind`, with what it says of itself and the texts of what is in it."""
    if not below:
        return f"{kind}({said})"
    lines = [line.replace("\n", "\n  ") for line in ([said, *below] if said else below)]
    return "\n  ".join([f"{kind}(", *lines]) + "\n)"


def _take_back(journal: Iterable[tuple[Module, str, Any]]) -> None:
    for module, name, value in reversed([*journal]):
        vars(module)[name] = value


def _as_array(value: Array) -> Array:
    """The array of a tensor: NumPy's, or CuPy's where it is on a GPU."""
    if not isinstance(value, Tensor):
        return value
    detached = value.detach()
    return detached if TRACING.session is not None else detached._array if detached.is_cuda else detached.numpy()


def _take_apart(module: Module) -> tuple[tuple[str, ...], Sequence[Any], Any]:
    names: list[str] = []
    values: list[Any] = []
    static: dict[str, Any] = {}
    buffers = module.buffer_names
    for name, value in vars(module).items():
        # A buffer is data even after arithmetic has made a number of it, as NumPy does with arrays of rank 0.
        if is_dynamic(value) or name in buffers:
            names.append(name)
            values.append(as_arrays(value))
        else:
            static[name] = value
    return tuple(names), values, static


def _put_together(kind: type, names: tuple[str, ...], values: Sequence[Any], static: dict[str, Any]) -> Module:
    module = object.__new__(kind)
    attributes = vars(module)
    attributes.update(static)
    attributes.update(zip(names, values, strict=True))
    tracing = watch()
    if tracing is not None:
        watch_buffers(tracing, tracing.own(module))
    return module


register_node(Module, _take_apart, _put_together, has_attributes=True)
