"""Tensors while a function is traced: traced values are in the places of their arrays.

They do what tensors do: views, changes in place, the tape. Of a tensor from around the function the class is changed as
long as it is traced.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from xdsl.ir import Operation

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.promotion import exact
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import TracedValueError, Value, emit, insertion_point, ops
from tenon.eager.backward import is_differentiable
from tenon.eager.changes import share, write
from tenon.eager.modes import MODE, TRACING
from tenon.eager.operators import Operators
from tenon.eager.recording import Stored, as_operands, call_of, op_call, record, wants_gradient
from tenon.eager.tape import NUMBERS, Array, Call, Operand, Source
from tenon.eager.tensor import VIEWS, Tensor
from tenon.eager.views import Link, Step, View
from tenon.runtime.arguments.arguments import is_array
from tenon.runtime.arguments.tree import flatten, unflatten


def detach_step() -> Step:
    """A view through which no gradients go."""
    return Step("detach", lambda x: ops.stop_gradient(x), lambda _, values: values)


DETACHED: Link = (detach_step, ())


if TYPE_CHECKING:
    _Base = Tensor
else:
    _Base = object  # in memory an instance lies as one of the class that it is of otherwise


class Symbol(_Base):
    """What makes a traced tensor of a class of tensors: the elements are known when the program runs."""

    __slots__ = ()
    _is_traced = True
    _array: Any

    @staticmethod
    def _new(array: Any) -> TracedTensor:
        made = object.__new__(TracedTensor)
        made._array = to_value(array)
        made._keeps_grad = made._memory = made._source = made._view = None
        return made

    @property
    def _laid(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return TRACING.session.laid(self)

    @property
    def _grad(self) -> Any:
        return TRACING.session.gradient(self)

    @_grad.setter
    def _grad(self, gradient: Any) -> None:
        TRACING.session.set_gradient(self, gradient)

    @property
    def is_leaf(self) -> bool:
        return super().is_leaf and not any(self._source is start for start in TRACING.session.starts)

    # --- parts and views ----------------------------------------------------------------------------

    def _seen(self, array: Array, make: Callable[..., Step], *given: Any) -> Any:
        made = self._new(make(*given).of(self._array))
        TRACING.session.lay(made, array)
        link, view = (make, given), self._view
        base = self if view is None else view.base
        made._view = View(base, (link,) if view is None else (*view.links, link))
        share(made, base)
        if wants_gradient((self,)):
            record(View(self, (link,)).call(), as_operands((self,)), (made,))
        return made

    def _computed(self, operands: Sequence[Any], array: Any, call: Call) -> Any:
        if isinstance(array, np.ndarray):  # which lies like it
            (array,) = call.apply([to_value(value_of(given)) for given in operands])
        made = self._new(array)
        if wants_gradient(operands):
            record(call, as_operands(as_tensors(operands)), (made,))
        return made

    def __getitem__(self, key: Any) -> Any:
        _refuse_mask(key)
        return super().__getitem__(_unwrapped(key))

    def __setitem__(self, key: Any, values: Any) -> None:
        if isinstance(values, Value):
            values = self._new(exact(values))
        mask: Any = key
        is_mask = isinstance(key, Stored) and mask.dtype == bool and mask.shape == self.shape[: mask.ndim]
        if is_mask and np.ndim(values) <= self.ndim - mask.ndim:
            rest = self.ndim - mask.ndim
            given = values if isinstance(values, Stored) else self._new(np.asarray(values, self.dtype))

            def update(v: Sequence[Any]) -> tuple[Any, ...]:
                rows = v[1].reshape(*v[1].shape, *[1] * rest)
                row = ops.broadcast_to(v[2].astype(v[0].dtype), shape=v[0].shape[v[1].ndim :])
                return (ops.select(rows, row, v[0]),)

            call = call_of("set", ("set where", rest), update)
            write(self, lambda: None, lambda: call, (self, key, given), "x[mask] = value")
            return
        _refuse_mask(key)
        super().__setitem__(_unwrapped(key), values)

    def clone(self) -> Any:
        made = self._new(ops.identity(self._array))
        if wants_gradient((self,)):
            record(call_of("clone", "clone", lambda v: (ops.identity(v[0]),)), as_operands((self,)), (made,))
        return made

    def detach(self) -> Any:
        made = self._new(detach_step().of(self._array))
        TRACING.session.lay(made, self._laid)
        TRACING.session.detached(made, self)
        share(made, self)
        return made

    # --- what needs elements ------------------------------------------------------------------------

    def _refuse(self, asked: str, instead: str) -> NoReturn:
        raise TracedValueError(
            f"{asked} of a tensor of shape {self.shape} is not known while {TRACING.session.name} is traced; {instead}"
        )

    def __bool__(self) -> bool:
        self._refuse(
            "the truth",
            "write tenon.cond(x > 0, then, otherwise, x), tenon.select, tenon.while_loop(condition, step, x) or "
            "tenon.scan(step, start, xs), or run it in pieces with tenon.trace(f, symbolic=False)",
        )

    def _number(self, *_: Any, **__: Any) -> Any:
        self._refuse(
            "a number",
            "return the tensor and ask what comes back, compute with tenon's functions (tenon.cond, tenon.scan), or "
            "run it in pieces with tenon.trace(f, symbolic=False)",
        )

    item = tolist = __float__ = __int__ = __complex__ = __index__ = __contains__ = _number

    def numpy(self) -> Any:
        self._number()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._number()

    def __dlpack__(self, **settings: Any) -> Any:
        self._number()

    def __dlpack_device__(self) -> Any:
        self._number()

    def nonzero(self, *, as_tuple: bool = True) -> Any:
        self._refuse("the number of nonzero elements", "run it in pieces with tenon.trace(f, symbolic=False)")

    def unique(self, *args: Any, **settings: Any) -> Any:
        self._refuse("the number of distinct elements", "run it in pieces with tenon.trace(f, symbolic=False)")

    def __repr__(self) -> str:
        return f"<traced tensor {self._array.type}>"

    def __reduce__(self) -> Any:
        self._number()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.clone()

    @property
    def strides(self) -> tuple[int, ...]:
        return self._laid.strides

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    # --- protocols ----------------------------------------------------------------------------------

    def __tenon_value__(self) -> Value:
        """What stands for the tensor where a value is needed: in functions of control flow, for instance."""
        if wants_gradient((self,)):
            around = _AROUND.call
            if around is None:
                raise TracedValueError(
                    f"a tensor of shape {self.shape} that requires a gradient is read inside of a function of values, "
                    "where that would be lost; give it as an argument, or detach() it"
                )
            around.reads(self)
        return self._array

    @classmethod
    def __tenon_traced_op__(cls, op: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The result of an op of which some operands are traced tensors."""
        looks = VIEWS.get(op.name.removeprefix("tenon."))
        if looks is not None and isinstance(operands[0], Symbol):
            return looks(operands[0], **settings)
        given = flat(operands)
        result = op.apply(*map_grouped(value_of, operands), **settings)
        results = result if isinstance(result, tuple) else (result,)
        made = _made(results, given, lambda: op_call(op, operands, dict(settings)))
        return made if isinstance(result, tuple) else made[0]

    @classmethod
    def __tenon_traced_call__(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function of values, of whose arguments some are traced tensors."""
        leaves, structure = flatten((args, kwargs))

        args, kwargs = unflatten(structure, [value_of(leaf) for leaf in leaves])
        with _ValuesCall() as call:
            found, shape = flatten(function(*args, **kwargs))
            traced = [position for position, leaf in enumerate(found) if is_array(leaf)]
            results = [to_value(found[position]) for position in traced]
        given = [leaf for leaf in leaves if isinstance(leaf, Stored)]
        made = _made(results, given, lambda: call.on_tape(function, given, results), call.around)
        for position, tensor in zip(traced, made, strict=True):
            found[position] = tensor
        return unflatten(shape, found)


class _ValuesCall:
    """A call of a function of values: the ops that it adds to the program, and the tensors that it reads from around
    it."""

    def __enter__(self) -> Self:
        self._begin, self._outer = next(NUMBERS), _AROUND.call
        self._known: dict[Source, Operand] = {}
        point = insertion_point()
        assert point is not None
        self._block, self._before = point.block, point.block.last_op
        _AROUND.call = self
        return self

    def __exit__(self, *_: object) -> None:
        _AROUND.call = self._outer
        first = self._block.first_op if self._before is None else self._before.next_op
        self._ops = list(_from(first))

    @property
    def around(self) -> list[Operand]:
        return list(self._known.values())

    def reads(self, tensor: Stored) -> None:
        """Note what a tensor that the function reads depends on and was there before."""
        pending = as_operands((tensor,))
        while pending:
            source, saved = pending.pop()
            if source is None or source in self._known:
                continue
            if source.node is None or source.node.number < self._begin:
                self._known[source] = source, saved
            else:
                pending += source.node.given

    def on_tape(self, function: Callable[..., Any], given: Sequence[Stored], results: Sequence[Value]) -> Call:
        """The call, which is made again as its ops on other operands: what was given, and what was read."""
        around: list[Any] = [saved for _, saved in self.around]
        operands: list[Any] = [tensor._array for tensor in given] + [saved.array for saved in around]

        def again(values: Sequence[Any]) -> tuple[Any, ...]:
            known = {old.ssa: to_value(new).ssa for old, new in zip(operands, values, strict=True)}
            for op in self._ops:
                emit(op.clone(known))
            return tuple([Value(known.get(result.ssa, result.ssa)) for result in results])

        return Call(getattr(function, "__name__", "function"), object(), again)


class _Around(threading.local):
    call: _ValuesCall | None = None


_AROUND = _Around()
"""The call of a function of values that is in progress."""


def _from(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        yield op
        op = op.next_op


class TracedTensor(Symbol, Tensor):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A tensor that is made in a trace."""

    __slots__ = ()


def _made(
    results: Sequence[Any], given: Sequence[Any], call: Callable[[], Call], around: Sequence[Operand] = ()
) -> tuple[Any, ...]:
    """Tensors of results; the call is recorded where a gradient is wanted, and cut off where it is not. What is from
    `around` it are operands behind those that were given."""
    has_source = bool(around) or any(isinstance(v, Stored) and v._source is not None for v in given)
    if has_source and not MODE.records:
        results = [ops.stop_gradient(v) if is_differentiable(v.dtype) else v for v in results]
    made = tuple([TracedTensor._new(v) for v in results])
    if has_source and MODE.records:
        record(call(), [*as_operands(as_tensors(given)), *around], made)
    return made


def value_of(given: Any) -> Any:
    """What an op gets for an operand: the traced value of a tensor, or what was given."""
    return given._array if isinstance(given, Stored) else given


def as_tensors(operands: Sequence[Any]) -> list[Any]:
    """Operands, with tensors in the places of traced values."""
    return [TracedTensor._new(v) if isinstance(v, Value) else v for v in operands]


def _unwrapped(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple([TracedTensor._new(part) if isinstance(part, Value) else part for part in key])
    return TracedTensor._new(key) if isinstance(key, Value) else key


def _refuse_mask(key: Any) -> None:
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, Symbol) and part.dtype == bool:
            part._refuse(
                "the number of true elements",
                "write tenon.select(mask, x, 0.0), or run it in pieces with tenon.trace(f, symbolic=False)",
            )


@cache
def traced_kind(kind: type[Tensor]) -> type[Symbol]:
    """The class of traced tensors for those of class `kind`."""
    if kind is Tensor:
        return TracedTensor
    return type(f"Traced{kind.__name__}", (Symbol, kind), {"__slots__": ()})


_OPERATORS = [
    name
    for name, value in vars(Operators).items()
    if name.startswith("__") and callable(value) and name not in vars(object) and name != "__getattr__"
]


def _own(name: str) -> Callable[..., Any]:
    inherited = getattr(Operators, name)

    def operator(self: Any, *others: Any) -> Any:
        return inherited(self, *others)

    operator.__name__ = name
    return operator


# Python asks the operand of a derived class first only if that class has an operator of its own.
for _name in [*_OPERATORS, "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]:
    setattr(Symbol, _name, _own(_name))
Symbol.__hash__ = object.__hash__
