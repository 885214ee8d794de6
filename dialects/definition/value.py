"""Traced values: what hooks and users compute with.

A `Value` wraps an SSA value, a tensor or, inside a body, a scalar. Arithmetic on values builds ops at the current
insertion point; the same hook therefore yields scalar ops when run on scalars and tensor ops when run on tensors. Calls
without any traced operand run at once through the evaluator that the runtime installs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tenon.dialects.definition.both_faces import BothFaces, absent
from tenon.dialects.definition.methods import ValueMethods
from tenon.dialects.definition.registry import find_function, find_function_of_arrays, find_method, function_names
from tenon.dialects.support.forking import new_lock
from tenon.dialects.support.location import at_line
from tenon.dialects.support.suggestion import did_you_mean, instead_or_meant
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.size import UNKNOWN_DIMENSION
from tenon.dialects.types.types import element_type, is_float, numpy_dtype, shape_of


class InsertionPoint:
    """Where traced ops go: the end of `block`, or just before `anchor`.

    `scalar` says that it lies in a body, and `folds_literals` that ops on literals alone are computed at once and give
    literals: in bodies, and where the function of a body is run on tensors.
    """

    __slots__ = ("anchor", "block", "folds_literals", "scalar")

    is_users: ClassVar[bool] = False
    """Whether a function of the user's is traced, and not what stands for ops of it."""

    def __init__(
        self, block: Block, anchor: Operation | None = None, *, scalar: bool = False, folds_literals: bool | None = None
    ) -> None:
        self.block = block
        self.anchor = anchor
        self.scalar = scalar
        self.folds_literals = scalar if folds_literals is None else folds_literals

    def insert(self, op: Operation) -> None:
        if self.anchor is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.anchor)

    def captured(self, array: np.ndarray[Any, Any]) -> Value | None:
        """The value of an input that stands for an array from outside of the trace; `None` where it is a constant."""
        return None


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[InsertionPoint] = []


_STATE = _State()

TRACES_IN_PROGRESS = np.zeros(1, np.int64)
"""The number of threads that trace: where it is 0, no thread needs to be asked."""
_TRACES_LOCK = new_lock()


def insertion_point() -> InsertionPoint | None:
    """The innermost active insertion point, `None` outside of any trace."""
    return _STATE.stack[-1] if _STATE.stack else None


def tracing_of(value: Value) -> InsertionPoint | None:
    """The insertion point of the function, branch or step that `value` was traced in, if it is still active."""
    owner = value.ssa.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return next((point for point in _STATE.stack if point.block is block), None)


def folding_literals() -> InsertionPoint:
    """The innermost active insertion point, with ops on literals alone computed at once."""
    point = _STATE.stack[-1]
    return InsertionPoint(point.block, point.anchor, scalar=point.scalar, folds_literals=True)


@contextmanager
def inserting(point: InsertionPoint) -> Generator[InsertionPoint, None, None]:
    """Build ops at `point` for the duration of the block."""
    stack = _STATE.stack
    if not stack:
        _count_traces(1)
    stack.append(point)
    try:
        yield point
    finally:
        stack.pop()
        if not stack:
            _count_traces(-1)


def _count_traces(change: int) -> None:
    with _TRACES_LOCK:
        TRACES_IN_PROGRESS[0] += change


def _count_own_trace() -> None:
    TRACES_IN_PROGRESS[0] = bool(_STATE.stack)


os.register_at_fork(after_in_child=_count_own_trace)


OperationT = TypeVar("OperationT", bound=Operation)


def emit(op: OperationT) -> OperationT:
    """Insert `op` at the current insertion point."""
    _STATE.stack[-1].insert(op)
    return op


class TracedValueError(TypeError):
    """A traced value was used where Python needs a number; its message says what to write instead."""


_TENSORS = (TensorType, UnrankedTensorType)

Literal = bool | int | float | np.generic | np.ndarray[Any, Any]


UFUNC_OPS = {"absolute": "abs", "arctan": "atan", "invert": "bitwise_not", "rint": "round", "mod": "remainder"}
"""What ops are called that have another name in NumPy."""


def _unary(name: str) -> Callable[[Value], Value]:
    """What an operator of values does: the op called `name`."""

    def operator(self: Value) -> Value:
        return getattr(ops, name)(self)

    return operator


def _binary(name: str) -> Callable[[Value, Any], Value]:
    def operator(self: Value, other: Any) -> Value:
        return getattr(ops, name)(self, other)

    return operator


def _reflected(name: str) -> Callable[[Value, Any], Value]:
    def operator(self: Value, other: Any) -> Value:
        return getattr(ops, name)(other, self)

    return operator


class Value(BothFaces, ValueMethods):
    """A tensor (or, inside a body, a scalar) whose elements are known when the program runs.

    Every op is a function of values and, when its first operand is a tensor, a method of them: `x.exp()`,
    `x.sum(axis=0)`.
    """

    __slots__ = ("ssa",)
    __array_priority__ = 1000

    def __init__(self, ssa: SSAValue) -> None:
        self.ssa = ssa

    @property
    def type(self) -> Attribute:
        """The IR type."""
        return self.ssa.type

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.ssa.type, _TENSORS)

    @property
    def element_type(self) -> Attribute:
        """The IR type of an element."""
        type_ = self.ssa.type
        return type_.element_type if isinstance(type_, _TENSORS) else type_

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an element."""
        return numpy_dtype(self.element_type)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; for an unknown dimension a -1 that arithmetic refuses. Raises when the rank is unknown."""
        if not self.is_tensor:
            return ()
        shape = shape_of(self.ssa.type)
        if shape is None:
            raise TracedValueError(f"the rank of {self.ssa.type} is not known while tracing")
        return tuple([UNKNOWN_DIMENSION if type(size) is int and size < 0 else size for size in shape])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def T(self) -> Value:
        """The axes in reverse order."""
        return ops.transpose(self)

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)` and relatives: `x` with the part `x[key]` replaced, or combined with `values`."""
        return find_method("at")(self)

    def astype(self, dtype: object) -> Value:
        """The elements converted to `dtype`."""
        target = element_type(dtype)
        return self if target == self.element_type else ops.cast(self, dtype=target)

    def clone(self) -> Value:
        """The value itself, which does not change."""
        return self

    contiguous = clone

    def __repr__(self) -> str:
        return f"<traced {self.ssa.type}>"

    def __copy__(self) -> Value:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Value:
        return self  # a traced value does not change

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TracedValueError(
            f"the truth of a traced value ({self.ssa.type}) is not known while tracing; "
            "use tenon.cond, tenon.select or tenon.while_loop, or name an argument that decides it in static= of jit"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        function = ops.find(UFUNC_OPS.get(ufunc.__name__, ufunc.__name__))
        if method != "__call__" or options or function is None:
            self._refuse(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
        return function(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # NumPy's functions of the shape, and those that call a method of the same meaning, work; others would convert.
        try:
            return function.__wrapped__(*args, **kwargs)
        except InferenceError:
            raise
        except TypeError:
            self._refuse(function.__name__, function.__module__)

    def _refuse(self, name: str, module: str = "numpy") -> NoReturn:
        own = ops.find(UFUNC_OPS.get(name, name))
        instead = "the functions of tenon" if own is None else f"tenon.{own.__name__}"
        raise TracedValueError(f"{module}.{name} cannot be traced (argument {self.ssa.type}); use {instead}") from None

    def _no_number(self, *_: object, **__: object) -> Any:
        raise TracedValueError(
            f"the elements of a traced value ({self.ssa.type}) are not known while tracing; "
            "compute on it with tenon functions, or return it and convert the result"
        )

    __float__ = __int__ = __complex__ = __reduce__ = _no_number

    def __array__(self, *_: object, **__: object) -> Any:
        if not is_float(self.element_type):  # most often the index of an array from around the function
            raise TracedValueError(
                f"the elements of a traced value ({self.ssa.type}) are not known while tracing, and NumPy asks for "
                "them; where they index a NumPy array, index tenon.asarray(array) instead"
            )
        return self._no_number()

    def __index__(self) -> int:
        raise TracedValueError(
            f"the elements of a traced value ({self.ssa.type}) are not known while tracing, and Python needs an "
            "integer; name an argument that decides shapes or counts loops in static= of jit, and use "
            "tenon.dynamic_slice for a slice that begins at it"
        )

    def __format__(self, specification: str) -> str:
        return self._no_number() if specification else repr(self)

    if not TYPE_CHECKING:  # type checkers read `methods.pyi`

        def __getattr__(self, name: str) -> Callable[..., Any]:
            if name.startswith("_"):
                raise AttributeError(name)
            function = ops.find(name)
            if function is None:
                if name in ("item", "numpy", "tolist"):
                    self._no_number()
                if (reason := absent(name, ops.find)) is not None:
                    raise AttributeError(f"a traced value has no {name!r}: {reason}")
                meant = instead_or_meant(name, [*function_names(), *dir(self)])
                raise AttributeError(f"a traced value has no attribute or op {name!r}{meant}")
            return lambda *args, **settings: function(self, *args, **settings)

    def __getitem__(self, key: Any) -> Value:
        return find_method("subscript")(self, key)

    def __setitem__(self, key: Any, values: Any) -> None:
        raise TracedValueError(
            f"a traced value ({self.ssa.type}) cannot be changed; x.at[key].set(values) is one with a part replaced"
        )

    __add__ = _binary("add")
    __radd__ = _reflected("add")
    __sub__ = _binary("subtract")
    __rsub__ = _reflected("subtract")
    __mul__ = _binary("multiply")
    __rmul__ = _reflected("multiply")
    __truediv__ = _binary("divide")
    __rtruediv__ = _reflected("divide")
    __floordiv__ = _binary("floor_divide")
    __rfloordiv__ = _reflected("floor_divide")
    __mod__ = _binary("remainder")
    __rmod__ = _reflected("remainder")
    __pow__ = _binary("power")
    __rpow__ = _reflected("power")
    __matmul__ = _binary("matmul")
    __rmatmul__ = _reflected("matmul")
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_not")
    __and__ = _binary("bitwise_and")
    __rand__ = _reflected("bitwise_and")
    __or__ = _binary("bitwise_or")
    __ror__ = _reflected("bitwise_or")
    __xor__ = _binary("bitwise_xor")
    __rxor__ = _reflected("bitwise_xor")
    __lshift__ = _binary("shift_left")
    __rlshift__ = _reflected("shift_left")
    __rshift__ = _binary("shift_right")
    __rrshift__ = _reflected("shift_right")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")

    def __eq__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ops.equal(self, other)

    def __ne__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ops.not_equal(self, other)

    def __pos__(self) -> Value:
        return self

    __hash__ = object.__hash__


def origin(value: Value) -> str:
    """`, which sin gave (file:line),` or another clause that says where a value comes from."""
    op = value.ssa.owner
    if isinstance(op, Operation):
        return f", which {op.name} gave{at_line(op)},"
    return f", argument {value.ssa.name_hint}," if value.ssa.name_hint else ""


class FunctionNamespace:
    """The functions of all registered ops by name: `ops.exp(x)`. Ops registered later are found as well."""

    def find(self, name: str) -> Callable[..., Any] | None:
        return find_function(name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        find = find_function_of_arrays if insertion_point() is None else self.find
        function = None if name.startswith("__") else find(name)
        if function is None:
            raise AttributeError(f"there is no op named {name!r}{did_you_mean(name, function_names())}")
        return function


ops: Any = FunctionNamespace()
