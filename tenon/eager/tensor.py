"""`Tensor`: an array that computes at once, can be changed, and notes what it was computed of."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self
from weakref import ref

import numpy as np

from tenon.dialects.definition import one_program
from tenon.dialects.definition.autocast import autocast_element
from tenon.dialects.definition.signature import flat, map_grouped
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import Value, insertion_point
from tenon.dialects.support.device import default_gpu
from tenon.dialects.support.plain_arrays import as_stored, copied, is_on_gpu, on_host
from tenon.dialects.types.types import element_type, numpy_dtype
from tenon.eager.backward import is_differentiable
from tenon.eager.calls import call_function
from tenon.eager.changes import replace, share
from tenon.eager.differentiation import UsedGradient, differentiate
from tenon.eager.familiar import Familiar
from tenon.eager.known_tapes import backward_of_known
from tenon.eager.modes import TRACING, WAITING
from tenon.eager.operators import run
from tenon.eager.recording import (
    Handle,
    Stored,
    as_operands,
    called_after,
    check_together,
    op_call,
    record,
    wants_gradient,
)
from tenon.eager.tape import LARGE, NUMBERS, Array, Leaf, Memory, Node, Result, Source, forget
from tenon.eager.views import View
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.call.tensors import TensorClasses, install_tensors
from tenon.runtime.cuda.arrays import as_data, brought
from tenon.runtime.evaluate import evaluate, find_function


class Tensor(Familiar):
    """An array in the memory of the CPU or of a GPU, whose operators and methods are the functions of the ops.

    Indexing by integers, slices, `None` and `...`, `reshape`, `transpose` and their like give views; what changes one
    in place (`x += y`, `x[i] = v`, `x.relu_()`) changes the other. Where `requires_grad` is set, what is computed of a
    tensor is recorded, and `backward()` adds the gradients of a result to `grad` of the tensors that it depends on.

    Made by `tenon.tensor` (which copies) and by `tenon.as_tensor` (which shares memory).
    """

    __slots__ = ()

    def __init__(self, *data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> None:
        """A copy of `data`: a number, an array of any library, or nested lists; floats are f32 unless `dtype` says
        otherwise. It is where `data` is, unless `device` says otherwise; what is on none is on the default device.
        Integers are sizes, as in PyTorch: `Tensor(2, 3)` and `Tensor(2)` are zeros of these shapes."""
        is_sizes = all(type(size) is int for size in data)
        if not is_sizes and len(data) > 1:
            raise TypeError(f"Tensor: {data!r:.60} are several arguments, and no sizes; write them in a list")
        given: Any = np.zeros(data, np.float32) if is_sizes else next(iter(data))
        array = _copied(given, dtype)
        device = device or (None if isinstance(given, Stored) or is_on_gpu(array) else default_gpu())
        if device is not None and TRACING.session is not None:
            TRACING.session.check_device(device)
        elif device is not None:
            array = brought(array, device)
        self._hold(array)
        if requires_grad:
            self.requires_grad = True
        if TRACING.session is not None:
            TRACING.session.made(self)

    @staticmethod
    def _new(array: Any) -> Tensor:
        made = object.__new__(Tensor)
        made._hold(array)
        return TRACING.session.made(made) if isinstance(array, Value) else made

    @classmethod
    def __tenon_new__(cls, array: Any) -> Tensor:
        """A tensor of an array that functions make to be like one."""
        return Tensor._new(array)

    # --- gradients --------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether what is computed of the tensor is recorded; may be set for those that were not computed."""
        return self._source is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients with respect to the tensor are wanted."""
        wanted = requires_grad
        if wanted == (self._source is not None):
            return self
        if not wanted and not self.is_leaf:
            raise RuntimeError("a tensor that was computed cannot be cut off its graph in place; use detach()")
        if wanted and not is_differentiable(self._array.dtype):
            raise RuntimeError(f"only tensors of floats can require gradients, and this one is {self._array.dtype}")
        self._source = Leaf((self.dtype, self.shape), ref(self)) if wanted else None
        return self

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients that `backward` has found for the tensor."""
        if type(self._grad) is UsedGradient:
            self._grad.refuse()
        return self._grad

    @grad.setter
    def grad(self, gradient: Any) -> None:
        if gradient is not None:
            self._check_gradient(gradient)
        self._grad = gradient

    def _check_gradient(self, gradient: Any) -> None:
        if not isinstance(gradient, Tensor):
            raise TypeError(f"grad is set to a {type(gradient).__name__} where a tensor or None is needed")
        if (gradient.shape, gradient.dtype) != (self.shape, self.dtype):
            raise ValueError(f"grad of {self.dtype}{list(self.shape)} is set to {gradient.dtype}{list(gradient.shape)}")
        if gradient.device != self.device:
            raise ValueError(f"grad of a tensor on {self.device} is set to one on {gradient.device}")

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the gradients of this tensor (a number, unless its own `gradient` is given) to `grad` of the leaves, or
        of `inputs`, a tensor or several, alone.

        What was recorded is let go unless `retain_graph`; with `create_graph`, the gradients can be differentiated.
        Raises `RuntimeError` if a value that is needed was changed in place, naming both lines.
        """
        root, gradients = self._source, None
        is_plain = gradient is None and inputs is None and not (create_graph or self._is_traced)
        if is_plain and root is not None and self._array.size == 1:
            gradients = backward_of_known(root, None, Tensor._new, None, retain=bool(retain_graph))
        if gradients is None:
            backward_of((self,), (gradient,), retain_graph, create_graph, inputs)
        else:
            _accumulate(gradients)

    def detach(self) -> Tensor:
        """A tensor with the same memory that gradients do not go through."""
        made = Tensor._new(self._array)
        share(made, self)
        made._view = None
        return made

    # --- conversion ---------------------------------------------------------------------------------

    def astype(self, dtype: Any) -> Tensor:
        """The elements converted to `dtype`."""
        if dtype is self._array.dtype:
            return self
        target = numpy_dtype(element_type(dtype))
        return self if target == self.dtype else self.cast(dtype=target)

    def convert_(self, dtype: Any = None, device: Any = None) -> Self:
        """Convert the elements to `dtype`, or have them on `device`, in place, and the gradient found so far; what was
        recorded of the tensor does not go on to it. Raises `RuntimeError` for a tensor that was computed.
        """
        if not self.is_leaf:
            raise RuntimeError("a tensor that was computed cannot be converted in place; use astype")
        array = self._array if device is None else brought(self._array, device)
        target = array.dtype if dtype is None else numpy_dtype(element_type(dtype))
        array = array if target == array.dtype else copied(array, target)
        if array is not self._array:
            self._array, self._memory = array, None
            if isinstance(self._source, Leaf):
                self._source = self._source.renewed((self.dtype, self.shape))
            if isinstance(self._grad, Tensor):
                self._grad = self._grad._on(self.device).astype(target)
        return self

    # --- protocols --------------------------------------------------------------------------------

    @classmethod
    def __tenon_op__(cls, op: type[TensorOp], operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The result of an op, of whose operands some are tensors."""
        if WAITING.piece is not None and insertion_point() is None:
            made = WAITING.piece.add(op, operands, settings)
            if made is not NotImplemented:
                return made
        arrays = map_grouped(lambda v: v._array if isinstance(v, Stored) else v, operands)
        function = find_function(op.name.rpartition(".")[2])
        check_together(op.name, operands)
        is_its = getattr(function, "op", None) is op  # calls of which on arrays are native
        result = function(*arrays, **settings) if is_its else evaluate(op, arrays, settings)
        made = tuple([Tensor._new(array) for array in (result if isinstance(result, tuple) else (result,))])
        given = flat(operands)
        if wants_gradient(given):
            record(op_call(op, operands, dict(settings)), as_operands(given), made)
        return made if isinstance(result, tuple) else made[0]

    @classmethod
    def __tenon_function__(cls, function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The same for its function, called on tensors by position."""
        looks = VIEWS.get(function.__name__) if isinstance(args[0], Tensor) else None
        if looks is not None:
            if len(args) == 1 and not settings and function.__name__ == "transpose":
                return args[0].T
            (seen,), known = function.op.bind(args, settings)
            return looks(seen, **known)
        if WAITING.piece is not None:
            if function.op.AUTOCAST is not None and autocast_element() is not None:
                return function.op.apply(*args, **settings)  # what is converted waits as well
            made = WAITING.piece.call(function, args, settings)
            if made is not NotImplemented:
                return made
        return run(cls._new, function, args, settings)

    def __tenon_out__(self, function: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Self:
        """This tensor, with the result of a function as its elements."""
        result = function(*args, **settings)
        where = f"{function.op.name}: out"
        if isinstance(result, tuple):
            raise TypeError(f"{where} is one tensor where there are {len(result)} results")
        made = result if isinstance(result, Stored) else Tensor._new(as_stored(result))
        array = made._array
        if (array.dtype, array.shape) != (self.dtype, self.shape):
            raise ValueError(
                f"{where} is {self.dtype}{list(self.shape)} where the result is {array.dtype}{list(array.shape)}"
            )
        replace(self, made, where)
        return self

    @classmethod
    def __tenon_call__(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a compiled or transformed function, of whose arguments some are tensors."""
        return call_function(cls, function, args, kwargs)

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise RuntimeError("a tensor that was computed cannot be copied or pickled with its graph; use detach()")
        return _rebuilt, (type(self), on_host(self._array), self.requires_grad, self._grad, self.device)

    def __copy__(self) -> Tensor:
        return self.detach().requires_grad_(self.requires_grad) if self.is_leaf else self[...]


VIEWS: dict[str, Callable[..., Any]] = {
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, permutation=(): x.transpose(permutation),
    "broadcast_to": lambda x, shape: x.broadcast_to(shape),
}
"""Functions that only look at a tensor in another way, which methods do without a copy."""


def backward_of(
    outputs: Sequence[Tensor], gradients: Sequence[Any], retain: bool | None, recorded: bool, inputs: Any
) -> None:
    """`Tensor.backward` of several, with the gradients of these that are given."""
    if inputs is None:
        _accumulate(differentiate(outputs, gradients, None, retain=retain, recorded=recorded).items())
        return
    wanted: list[Tensor] = [inputs] if isinstance(inputs, Tensor) else [*inputs]
    for position, tensor in enumerate(wanted):
        if not isinstance(tensor, Tensor) or tensor._source is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RuntimeError(f"backward: inputs[{position}] is no tensor that requires a gradient")
    firsts = [tensor._source.first for tensor in wanted if tensor._source is not None]
    found = differentiate(outputs, gradients, {*firsts}, retain=retain, recorded=recorded)
    # where `retain_grad` was called, its hook has kept the gradient
    pairs = zip(wanted, firsts, strict=True)
    made = [(tensor, found[first]) for tensor, first in pairs if tensor._keeps_grad is None and first in found]
    give_gradients([(t, new if t.grad is None else t.grad + new) for t, new in made])


def _accumulate(gradients: Iterable[tuple[Source, Any]]) -> None:
    """Add gradients to `grad` of the leaves that they are of."""
    made: dict[int, tuple[Tensor, Any]] = {}
    for leaf, found in gradients:
        tensor = None if not isinstance(leaf, Leaf) or leaf.tensor is None else leaf.tensor()
        if tensor is not None:
            # One that was changed between two calls has a leaf for each of its values.
            known = made[id(tensor)][1] if id(tensor) in made else tensor.grad
            made[id(tensor)] = tensor, found if known is None else known + found
    give_gradients([*made.values()])


def give_gradients(made: Sequence[tuple[Tensor, Any]]) -> None:
    """Set the gradients of tensors: of all, or, if that is interrupted, of none."""
    before = [(tensor, tensor._grad) for tensor, _ in made]
    try:
        for tensor, gradient in made:
            tensor._grad = gradient
    except BaseException:
        for tensor, gradient in before:
            tensor._grad = gradient
        raise
    for tensor, _ in made:
        if tensor._source is not None:
            called_after(tensor._source, tensor)


class Parameter(Tensor):
    """A tensor that a module learns: it requires a gradient unless that is said otherwise."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, *, dtype: Any = None) -> None:
        super().__init__(_numbers(data), dtype=dtype, requires_grad=requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def _numbers(data: Any) -> Any:
    """`data`, of which an integer is a number and no size."""
    return np.asarray(data) if type(data) is int else data


def _copied(data: Any, dtype: Any) -> Array:
    if isinstance(data, Stored):
        array = data._array
    elif isinstance(data, list | tuple):
        array = np.asarray([on_host(item._array) if isinstance(item, Stored) else item for item in data])
        array = array.astype(np.float32) if array.dtype == np.float64 and dtype is None else array
    else:
        array = as_data(data, "tensor")
    target = array.dtype if dtype is None else numpy_dtype(element_type(dtype))
    if is_on_gpu(array):
        return copied(array, target)
    return as_array(np.array(array, target, order="C"), "tensor")


def _rebuilt(kind: type[Tensor], array: Array, requires_grad: bool, grad: Tensor | None, device: str = "cpu") -> Tensor:
    made = object.__new__(kind)
    made._hold(brought(array, device))
    if requires_grad:
        Tensor.requires_grad_(made)
    made._grad = grad
    return made


def tensor(data: Any, dtype: Any = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: a number, an array of any library, or nested lists of numbers.

    Without `dtype`, arrays keep theirs, Python's floats are f32 and its integers i64. It is on `device` (`"cpu"`,
    `"cuda"`, `"cuda:1"`), by default where `data` is. Raises `TypeError` for what is none of these and for a dtype that
    is not stored.
    """
    return Tensor(_numbers(data), dtype=dtype, device=device, requires_grad=requires_grad)


def as_tensor(array: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor that shares the memory of an array of any library, where its dtype is `dtype` and it is on `device`."""
    device = device or (None if isinstance(array, Stored) or is_on_gpu(array) else default_gpu())
    made = _sharing(array, dtype)
    return made if device is None else made._on(device)


def _sharing(array: Any, dtype: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array if dtype is None else array.astype(dtype)
    if TRACING.session is not None:
        raise TypeError("as_tensor shares the memory of an array, which a traced function cannot; use tenon.tensor")
    plain = as_data(array, "as_tensor")
    target = plain.dtype if dtype is None else numpy_dtype(element_type(dtype))
    made = Tensor._new(plain if plain.dtype == target else copied(plain, target))
    made._own_memory().is_exported = True
    return made


def _elements(value: Any) -> Any:
    """The elements of a tensor on the CPU that a program takes as it is now, and `None` of all else."""
    if type(value) not in (Tensor, Parameter) or TRACING.session is not None or WAITING.piece is not None:
        return None
    return value._array if type(value._array) is np.ndarray else None


for _name in VIEWS:
    find_function(_name).is_view = True
one_program.install_tensors(_elements)
install_tensors(
    TensorClasses(
        tensor=Tensor,
        parameter=Parameter,
        memory=Memory,
        node=Node,
        result=Result,
        view=View,
        forget=forget,
        call_of=op_call,
        numbers=NUMBERS,
        least=LARGE,
    )
)

__all__ = ["Handle", "Parameter", "Tensor", "as_tensor", "tensor"]
