"""Functions on tensors whose gradients are Python: `tenon.autograd.Function`."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from tenon.dialects.definition.value import TracedValueError, Value
from tenon.dialects.support.user_place import user_place
from tenon.eager.backward import is_differentiable
from tenon.eager.modes import MODE, no_grad
from tenon.eager.recording import Stored
from tenon.eager.tape import NUMBERS, Array, Call, Node, Result, Saved, Source, not_replayed
from tenon.runtime.call.layout import PER_OPERAND, PER_RESULT
from tenon.runtime.cuda.arrays import brought, place_of

_SEVERAL = (tuple, list)


class PythonNode(Node):
    """A call whose gradient Python finds (`Call.pull_back`). To native code, which walks tapes and knows classes, what
    it gave is an end."""

    __slots__ = ("held",)
    held: Any

    def __init__(self, call: Call, operands: Sequence[Any], results: Sequence[Any], held: Any) -> None:
        """`operands` and `results` have the words of each, one after the other, with types in place of elements; what
        the gradient needs is `held`."""
        self.call = call
        self.operands = tuple(operands)
        self.results = tuple(results)
        self.is_released = self.hooks_of = None
        self.number = next(NUMBERS)
        self.code, self.instruction = user_place() or (None, None)
        self.held = held

    def release(self) -> None:
        self.is_released, self.held = True, None

    def source(self, index: int) -> Source:
        return self if index == 0 else PythonResult(self, index)


class PythonResult(Result):
    """The source of another result of such a call than its first."""

    __slots__ = ()


class _Kept(Saved):
    """A tensor as it was when it was kept; it may have other memory by now."""

    __slots__ = ("given", "new", "result", "source")

    def __init__(self, given: Any) -> None:
        self.array, self.memory = given._array, given._own_memory()
        self.version = self.memory.version
        self.given = given
        """The tensor itself, until `forward` has ended."""
        self.new: Callable[[Array], Any] = given._new
        self.source: Source | None = given._source
        self.result: int | None = None
        """Which result of the call it is, whose source the call itself must not hold."""

    def end(self, results: Mapping[int, int]) -> None:
        """Note that `forward` has ended, whose `results` are known by identity."""
        self.result = results.get(id(self.given))
        self.given = None
        if self.result is not None:
            self.source = None

    def tensor(self, node: Node | None) -> Any:
        """The tensor, in the `backward` of the call, which is `node`."""
        made = self.new(self.array)
        made._memory, made._source = self.memory, self.source
        if node is not None and self.result is not None:
            made._source = node.source(self.result)
        return made


class Context:
    """What `forward` leaves for `backward`: `ctx.save_for_backward(x)`, and attributes of any name."""

    needs_input_grad: tuple[bool, ...] = ()
    """For each argument of `forward`, whether its gradient is wanted."""
    _node: Node | None = None
    _kept: Sequence[_Kept | None] = ()
    _constant: tuple[Any, ...] = ()
    _materializes = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep arguments or results, for `saved_tensors`; if one is changed in place meanwhile, that is an error."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Stored):
                raise TypeError(f"save_for_backward: a {type(tensor).__name__} is no tensor; make it an attribute")
        self._kept = [None if tensor is None else _Kept(tensor) for tensor in tensors]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was kept, as it was. Raises `RuntimeError` if its memory was changed meanwhile."""
        found: list[Any] = []
        for kept in self._kept:
            if kept is not None:
                kept.check(self._node)
            found.append(kept and kept.tensor(self._node))
        return tuple(found)

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Have no gradients go through these results."""
        self._constant += tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Have `backward` given `None`, and not zeros, for results that nothing depends on, if `value` is false."""
        self._materializes = value

    def mark_dirty(self, *_: Any) -> NoReturn:
        """Raises `NotImplementedError`: `forward` has to leave its arguments as they are."""
        raise NotImplementedError("forward has to leave its arguments as they are; give a new tensor")


class _OfCall(Context):
    """What `backward` is given: the same context, with its call, which must not hold itself."""

    __slots__ = ("_node",)

    def __init__(self, ctx: Context, node: Node) -> None:
        self.__dict__ = vars(ctx)
        self._node = node


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

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls._call = Call(cls.__name__, object(), not_replayed, pull_back=cls._pull_back)

    _call: ClassVar[Call]

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """What `forward` gives for these arguments."""
        records = MODE.records
        wanted: list[bool] = []
        for given in args:
            if isinstance(given, Value):
                raise TracedValueError(
                    f"{cls.__name__}.apply: its gradient is Python, which is not traced; define an op with a vjp "
                    "(tenon.tensor_op), or make a program of the whole by tenon.trace"
                )
            wanted.append(records and isinstance(given, Stored) and given._source is not None)
        ctx = Context()
        ctx.needs_input_grad = tuple(wanted)
        MODE.records = False
        try:
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        finally:
            MODE.records = records
        results: Sequence[Any] = result if isinstance(result, _SEVERAL) else (result,)
        for position, made in enumerate(results):
            if not isinstance(made, Stored):
                raise TypeError(
                    f"{cls.__name__}.forward: result {position} is a {type(made).__name__} where a tensor is needed"
                )
        if True in wanted:
            results = cls._recorded(ctx, args, results)
        return results[0] if results and not isinstance(result, _SEVERAL) else tuple(results)

    @classmethod
    def _recorded(cls, ctx: Context, args: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        """The results, as tensors that are on the tape. What is an argument, or a view, is one of its own there."""
        places: list[int] = []
        operands: list[Any] = []
        for place, given in enumerate(args):
            if isinstance(given, Stored):
                array = given._array
                places.append(place)
                operands += given._source, (array.dtype, array.shape), None, None
        taken = {*map(id, args)}
        made: list[Any] = []
        types: list[Any] = []
        blanks: list[Any] = []
        for given in results:
            tensor = given.detach() if id(given) in taken or given._view is not None else given
            array = tensor._array
            made.append(tensor)
            types += (array.dtype, array.shape), None, None
            blanks.append((tensor._new, place_of(array)))
        node = PythonNode(cls._call, operands, types, (ctx, len(args), places, blanks))
        constant = {*map(id, ctx._constant)} if ctx._constant else ()
        for index, tensor in enumerate(made):
            is_one = is_differentiable(tensor._array.dtype) and id(results[index]) not in constant
            tensor._source = node.source(index) if is_one else None
        if ctx._kept:
            # A result that was kept is the one on the tape, for gradients of gradients.
            own = {
                id(given): i
                for i, given in enumerate(results)
                if made[i]._source is not None and id(given) not in taken
            }
            for kept in ctx._kept:
                if kept is not None:
                    kept.end(own)
        ctx._constant = ()
        return tuple(made)

    @classmethod
    def _pull_back(cls, node: Node, gradients: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments of a call that are tensors."""
        if node.is_released:
            raise RuntimeError(
                f"backward went through {cls.__name__} before, and what it needed was let go; call "
                "backward(retain_graph=True) the first time"
            )
        assert isinstance(node, PythonNode)
        ctx, count, places, blanks = node.held
        if ctx._materializes and any(gradient is None for gradient in gradients):
            types = node.results[::PER_RESULT]
            gradients = [
                new(brought(np.zeros(shape, dtype), device)) if gradient is None else gradient
                for gradient, (new, device), (dtype, shape) in zip(gradients, blanks, types, strict=True)
            ]
        found = cls.backward(_OfCall(ctx, node), *gradients)
        of_args: Sequence[Any] = found if isinstance(found, _SEVERAL) else (found,)
        if len(of_args) < count or any(extra is not None for extra in of_args[count:]):
            raise ValueError(
                f"{cls.__name__}.backward gives {len(of_args)} gradients, and forward takes {count} arguments"
            )
        words = node.operands
        return [
            None if words[i] is None else cls._checked(position, words[i + 1], of_args[position])
            for position, i in zip(places, range(0, len(words), PER_OPERAND), strict=True)
        ]

    @classmethod
    def _checked(cls, position: int, of: Any, gradient: Any) -> Any:
        """The gradient of an argument of a dtype and shape, in that dtype."""
        if gradient is None:
            return None
        dtype, shape = of
        if not isinstance(gradient, Stored):
            raise TypeError(
                f"{cls.__name__}.backward: gradient {position} is a {type(gradient).__name__} where a tensor is needed"
            )
        if gradient._array.shape != shape:
            raise ValueError(
                f"{cls.__name__}.backward: gradient {position} has shape {gradient._array.shape}, and the argument "
                f"{shape}"
            )
        return gradient if gradient._array.dtype == dtype else gradient.astype(dtype)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def once_differentiable(backward: Any) -> Any:
    """A `backward` of which there is no gradient: what it computes is not recorded."""
    return no_grad()(backward)


__all__ = ["Context", "Function", "once_differentiable"]
