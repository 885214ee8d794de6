"""Functions on tensors whose gradients are Python: `tenon.autograd.Function`."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tenon.dialects.definition.value import TracedValueError, Value
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import no_grad
from tenon.eager.recording import Stored, record, wants_gradient
from tenon.eager.tape import Call, Node, Operand, Saved, Source, type_of


class Context:
    """What `forward` leaves for `backward`: `ctx.save_for_backward(x)`, and attributes of any name."""

    needs_input_grad: tuple[bool, ...] = ()
    """For each argument of `forward`, whether its gradient is wanted."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, Saved, Source | None] | None] = []
        self._constant: set[int] = set()
        self._materializes = True
        self._node: Node | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep arguments or results, for `saved_tensors`; if one is changed in place meanwhile, that is an error."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Stored):
                raise TypeError(f"save_for_backward: a {type(tensor).__name__} is no tensor; make it an attribute")
        self._kept = [
            None if tensor is None else (tensor, Saved(tensor._array, tensor._own_memory()), tensor._source)
            for tensor in tensors
        ]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was kept, as it was. Raises `RuntimeError` if its memory was changed meanwhile."""
        found: list[Any] = []
        for kept in self._kept:
            if kept is not None:
                tensor, saved, source = kept
                saved.check(self._node)
                # The tensor may have other memory by now.
                kept = tensor._new(saved.array)
                kept._memory, kept._source = saved.memory, source
            found.append(kept)
        return tuple(found)

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Have no gradients go through these results."""
        self._constant.update(map(id, tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """Have `backward` given `None`, and not zeros, for results that nothing depends on, if `value` is false."""
        self._materializes = value

    def mark_dirty(self, *_: Any) -> NoReturn:
        """Raises `NotImplementedError`: `forward` has to leave its arguments as they are."""
        raise NotImplementedError("forward has to leave its arguments as they are; give a new tensor")


class Function:
    """A function on tensors with a gradient of your own, both in Python: `forward(ctx, *args)` gives a tensor or a
    tuple of them, and `backward(ctx, *gradients)`, of the gradients of these, that of each argument, or `None`.

    Call `apply`. In `forward` nothing is recorded; what `backward` does is, where gradients of gradients are asked for.
    As in PyTorch, `setup_context(ctx, inputs, output)` may be apart from a `forward` without `ctx`. Functions of `jit`
    and `grad` take none of these: an op of yours with a `vjp` goes everywhere (`tenon.tensor_op`).

        class Rounded(tenon.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.round()

            @staticmethod
            def backward(ctx, gradient):
                return gradient  # as if nothing were rounded
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """The results."""
        raise NotImplementedError("a Function needs a forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep for `backward` what it needs, where `forward` is not given `ctx`."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients of the arguments."""
        raise NotImplementedError("a Function needs a backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """What `forward` gives for these arguments."""
        if any(isinstance(given, Value) for given in args):
            raise TracedValueError(
                f"{cls.__name__}.apply: its gradient is Python, which is not traced; define an op with a vjp "
                "(tenon.tensor_op), or make a program of the whole by tenon.trace"
            )
        ctx = Context()
        wanted = [isinstance(given, Stored) and wants_gradient((given,)) for given in args]
        ctx.needs_input_grad = tuple(wanted)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        results: tuple[Any, ...] = tuple(result) if isinstance(result, tuple | list) else (result,)
        for position, made in enumerate(results):
            if not isinstance(made, Stored):
                raise TypeError(
                    f"{cls.__name__}.forward: result {position} is a {type(made).__name__} where a tensor is needed"
                )
        if any(wanted):
            results = cls._recorded(ctx, args, results)
        return results if isinstance(result, tuple | list) else results[0]

    @classmethod
    def _recorded(cls, ctx: Context, args: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        """The results, as tensors that are on the tape. What is an argument, or a view, is one of its own there."""
        taken = {id(given) for given in args}
        made: list[Any] = [r.detach() if id(r) in taken or r._view is not None else r for r in results]
        places = [i for i, given in enumerate(args) if isinstance(given, Stored)]
        operands: list[Operand] = [(args[i]._source, type_of(args[i]._array)) for i in places]

        def pull_back(gradients: Sequence[Any]) -> list[Any]:
            node = ctx._node
            if node is None or node.is_released:
                raise RuntimeError(
                    f"backward went through {cls.__name__} before, and what it needed was let go; call "
                    "backward(retain_graph=True) the first time"
                )
            given = [
                made[i]._new(made[i]._array * 0) if gradient is None and ctx._materializes else gradient
                for i, gradient in enumerate(gradients)
            ]
            found = cls.backward(ctx, *given)
            of_args: Sequence[Any] = tuple(found) if isinstance(found, tuple | list) else (found,)
            if len(of_args) < len(args) or any(extra is not None for extra in of_args[len(args) :]):
                raise ValueError(
                    f"{cls.__name__}.backward gives {len(of_args)} gradients, and forward takes {len(args)} arguments"
                )
            return [cls._checked(position, args[position], of_args[position]) for position in places]

        call = Call(cls.__name__, object(), _refuse, pull_back=pull_back)
        record(call, operands, made)
        source = next((r._source for r in made if r._source is not None), None)
        node = ctx._node = None if source is None else source.node
        for given, tensor in zip(results, made, strict=True):
            if id(given) in ctx._constant:
                tensor._source = None
            elif node is not None and is_differentiable(tensor._array.dtype):
                # A hook that changes nothing: native code leaves tapes with hooks to Python.
                tensor._source.hooks[_NOTHING] = _nothing
        # A result that was kept is the one on the tape, for gradients of gradients.
        own = {id(given): tensor._source for given, tensor in zip(results, made, strict=True) if id(given) not in taken}
        ctx._kept = [kept and (*kept[:2], own.get(id(kept[0]), kept[2])) for kept in ctx._kept]
        return tuple(made)

    @classmethod
    def _checked(cls, position: int, given: Any, gradient: Any) -> Any:
        """The gradient of an argument, in its dtype."""
        if gradient is None or given._source is None:
            return None
        if not isinstance(gradient, Stored):
            raise TypeError(
                f"{cls.__name__}.backward: gradient {position} is a {type(gradient).__name__} where a tensor is needed"
            )
        if gradient._array.shape != given._array.shape:
            raise ValueError(
                f"{cls.__name__}.backward: gradient {position} has shape {gradient._array.shape}, and the argument "
                f"{given._array.shape}"
            )
        return gradient.astype(given.dtype)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


_NOTHING = -1


def _nothing(_: Any) -> None:
    return None


def _refuse(values: Sequence[Any]) -> Any:
    raise AssertionError("what Python finds the gradients of is not part of a program")


def once_differentiable(backward: Any) -> Any:
    """A `backward` of which there is no gradient: what it computes is not recorded."""
    return no_grad()(backward)


__all__ = ["Context", "Function", "once_differentiable"]
