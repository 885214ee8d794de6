"""What traced values and tensors have alike besides the functions of ops, written with what both have."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from tenon.dialects.definition.registry import find_function
from tenon.dialects.support.device import Device, device_named
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import element_type, is_float, numpy_dtype

CASTS = {
    "bfloat16": "bf16",
    "bool": "i1",
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "int": "i32",
    "long": "i64",
    "short": "i16",
}
"""Methods that convert to a dtype, by PyTorch's names."""


ABSENT: dict[str, str] = {
    **dict.fromkeys(
        (
            *("backward", "grad", "grad_fn", "is_leaf", "requires_grad", "requires_grad_"),
            *("register_hook", "register_post_accumulate_grad_hook", "retain_grad"),
        ),
        "tenon.grad and tenon.value_and_grad differentiate functions, and tenon.trace makes programs of tensors",
    ),
    **dict.fromkeys(
        ("is_contiguous", "stride", "strides"), "how it lies in memory is decided when the program is compiled"
    ),
    **dict.fromkeys(
        ("unique", "unique_consecutive"), "how many elements it has depends on values; call the function outside of jit"
    ),
    **dict.fromkeys(("data",), "write x.detach()"),
    **dict.fromkeys(
        ("bernoulli_", "exponential_", "normal_", "random_", "uniform_"),
        "draw by tenon.random_uniform(key, shape) or its like, with the key as an argument",
    ),
    **dict.fromkeys(("convert_",), "write x = x.astype(dtype)"),
    **dict.fromkeys(("item", "numpy", "tolist"), "the elements are not known while tracing"),
    **dict.fromkeys(("copy_", "fill_", "fill_diagonal_", "zero_"), "a traced value does not change; write a new one"),
}
"""What tensors have and traced values have not, with what there is instead."""


def absent(name: str, find: Callable[[str], Any]) -> str | None:
    """Why a traced value lacks what a tensor has; `None` where no tensor has it. `find` finds functions by name."""
    if name.endswith("_") and find(name[:-1]) is not None and name not in ABSENT:
        return f"a traced value does not change; write x = x.{name[:-1]}(...)"
    return ABSENT.get(name)


class ElementCount(int):
    """The number of elements, as NumPy has it; called, the shape or one size, as in PyTorch."""

    _shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]

    def __reduce__(self) -> Any:
        return int, (int(self),)


def element_count(shape: tuple[int, ...]) -> Any:
    """The number of elements of `shape`; an unknown one as it is."""
    count = prod(shape)
    if type(count) is not int:
        return count
    made = ElementCount(count)
    made._shape = shape  # pyright: ignore[reportPrivateUsage]
    return made


def is_device(given: Any) -> bool:
    """Whether what `to` is given names a device."""
    return isinstance(given, str) and given.partition(":")[0] in ("cpu", "cuda")


def check_cpu(given: Any) -> None:
    """Raise unless a device is the CPU."""
    name = str(given).partition(":")[0]
    if name == "cuda":
        raise NotImplementedError(
            "what a function of values computes is where the function runs: write tenon.jit(f, device='cuda')"
        )
    if name != "cpu":
        raise ValueError(f"device is {given!r} where 'cpu' is needed")


def sizes_of(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes that are given one by one, or as one sequence."""
    return tuple(given[0]) if len(given) == 1 and not hasattr(given[0], "__index__") else given


def _by_element(args: tuple[Any, ...], settings: dict[str, Any], names: tuple[str, ...]) -> list[Any] | None:
    """The axis and the tensors of a call with PyTorch's arguments: first an integer, or `dim`. `None` for others."""
    if args and type(args[0]) is not int:
        return None
    given = [*args, *[settings[name] for name in ("dim", *names)[len(args) :] if name in settings]]
    return given if len(given) == len(names) + 1 and hasattr(given[1], "shape") else None


def _lengths(given: Any, size: Any, axis: int) -> list[int]:
    """The lengths of the parts of an axis of `size` elements, of what `split` is given."""
    try:
        whole = int(size)
    except (TypeError, ValueError):
        raise ValueError(
            f"split: axis {axis} has the size {size}, which is known at launch only; take slices"
        ) from None
    is_one = hasattr(given, "__index__") and not getattr(given, "shape", ())
    try:
        lengths = [index(length) for length in ([given] if is_one else given)]
    except TypeError:
        raise TypeError(f"split: {given!r:.60} is neither the size of parts nor a sequence of sizes") from None
    if is_one:
        (length,) = lengths
        if length < 1:
            raise ValueError(f"split: the size of parts is {length} where 1 or more is needed")
        return [min(length, whole - start) for start in range(0, max(whole, 1), length)]
    if min(lengths, default=0) < 0 or sum(lengths) != whole:
        raise ValueError(f"split: parts of the sizes {lengths} do not make up axis {axis}, of {whole} elements")
    return lengths


class Selected(NamedTuple):
    """Elements, and where they are."""

    values: Any
    indices: Any


class BothFaces:
    """What traced values and tensors have alike."""

    __slots__ = ()

    shape: Any
    dtype: Any
    ndim: Any
    astype: Callable[[Any], Any]
    swapaxes: Callable[[Any, Any], Any]
    T: Any
    _op: Callable[[str], Any] = staticmethod(find_function)
    """The function of an op by its name."""

    # --- facts ------------------------------------------------------------------------------------

    @property
    def size(self) -> Any:
        """The number of elements; `x.size()` and `x.size(0)` are the shape and one of its sizes."""
        return element_count(tuple(self.shape))

    def numel(self) -> Any:
        """The number of elements."""
        return prod(self.shape)

    nelement = numel

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    ndimension = dim

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def device(self) -> Device:
        """`"cpu"`, which is where functions that make tensors make them; a function runs where `jit` puts it."""
        return device_named("cpu")

    @property
    def is_cuda(self) -> bool:
        """False: a traced value is where `jit` puts the function."""
        return False

    def is_floating_point(self) -> Any:
        """Whether the elements are floats."""
        return is_float(element_type(self.dtype))

    # --- other forms ------------------------------------------------------------------------------

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError(f"what has rank {self.ndim} has no matrices to transpose")
        return self.swapaxes(-1, -2)

    @property
    def H(self) -> Any:
        """The matrix transposed."""
        if self.ndim not in (0, 2):
            raise ValueError(f"what has rank {self.ndim} is no matrix; mT transposes several")
        return self.T

    def split(self, *args: Any, **settings: Any) -> tuple[Any, ...]:
        """`x.split(size, dim=0)`, as in PyTorch: parts of `size` elements along an axis, of which the last may be
        smaller, or parts of the sizes in a sequence; of a `Tensor`, views.

        `x.split(sections=n)` and `x.split(sizes=...)` are the function `tenon.split`, which takes a number of parts as
        its first argument, as NumPy's does.
        """
        given = dict(zip(("split_size", "dim"), args, strict=False)) | settings
        size = given.pop("split_size_or_sections", given.pop("split_size", None))
        if size is None:
            return self._op("split")(self, **settings)
        axis = normalize_axis(given.pop("dim", given.pop("axis", 0)), self.ndim, "split: dim")
        if given or len(args) > 2:
            raise TypeError(f"split: takes the size or sizes of parts and dim, got {(*args, *settings)} as well")
        parts: list[Any] = []
        end = 0
        for length in _lengths(size, self.shape[axis], axis):
            start, end = end, end + length
            parts.append(self[(*[slice(None)] * axis, slice(start, end))])  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
        return tuple(parts)

    def repeat(self, *args: Any, **settings: Any) -> Any:
        """`x.repeat(2, 1, 1)`, as in PyTorch, is `tenon.tile(x, (2, 1, 1))`; `x.repeat(repeats, axis)`, as in NumPy, is
        `tenon.repeat`. Raises `TypeError` for a call that says two things: `x.repeat(2)` of a vector, `x.repeat(2, 1)`
        of a matrix."""
        if settings or not args or hasattr(args[0], "dtype"):
            return self._op("repeat")(self, *args, **settings)
        counts = sizes_of(args)
        is_of_whole = len(counts) >= self.ndim and all(hasattr(n, "__index__") and n > 0 for n in counts)
        is_of_each = len(counts) == prod(self.shape) if counts is not args else len(args) == 1
        if len(args) == 2 and hasattr(args[1], "__index__"):
            is_of_each = -self.ndim <= args[1] < self.ndim
        if is_of_whole and is_of_each and any(count != 1 for count in counts):
            raise TypeError(
                f"repeat: {', '.join(map(str, args))} for a shape of {tuple(self.shape)} is {tuple(counts)} times the "
                "whole in PyTorch, and in NumPy each element that often: write x.tile(...) or x.repeat_interleave(...)"
            )
        return self._op("tile")(self, counts) if is_of_whole else self._op("repeat")(self, *args)

    # --- at indices -------------------------------------------------------------------------------

    def select(self: Any, *args: Any, **settings: Any) -> Any:
        """`x.select(dim, index)`, as in PyTorch, is the part of `x` at one place along an axis;
        `condition.select(x, y)` is `tenon.select`."""
        if [*map(type, args)] != [int, int] or self.dtype == np.bool_:
            return self._op("select")(self, *args, **settings)
        axis = normalize_axis(args[0], self.ndim, "select: dim")
        return self[(*[slice(None)] * axis, args[1])]

    def gather(self, *args: Any, **settings: Any) -> Any:
        """`x.gather(dim, index)`, as in PyTorch, is `tenon.gather_elements(x, index, axis=dim)`; `x.gather(indices,
        axis)` is `tenon.gather`."""
        places = _by_element(args, settings, ("index",))
        if places is None:
            return self._op("gather")(self, *args, **settings)
        return self._op("gather_elements")(self, places[1], axis=places[0])

    def scatter_add(self, *args: Any, **settings: Any) -> Any:
        """`x.scatter_add(dim, index, src)`, as in PyTorch, is `tenon.scatter_elements(x, index, src, axis=dim,
        reduction="add")`; `x.scatter_add(indices, updates, axis)` is `tenon.scatter_add`."""
        places = _by_element(args, settings, ("index", "src"))
        if places is None:
            return self._op("scatter_add")(self, *args, **settings)
        return self._op("scatter")(self, *places, reduce="add")

    def unfold(self, dimension: int, size: int, step: int) -> Any:
        """The parts of `size` elements along an axis, each `step` behind the one before: along this axis, and their
        elements along a new last one."""
        axis = normalize_axis(dimension, self.ndim, "unfold: dimension")
        if not 0 <= size <= self.shape[axis] or step < 1:
            raise ValueError(
                f"unfold: size is {size} and step {step} along an axis of {self.shape[axis]} elements; parts lie "
                "within it, and steps are at least 1"
            )
        starts = np.arange(0, self.shape[axis] - size + 1, step)
        found = self._op("gather")(self, starts[:, None] + np.arange(size), axis=axis)
        others = [i for i in range(self.ndim + 1) if i != axis + 1]
        return self._op("transpose")(found, (*others, axis + 1))

    def topk(self, *args: Any, **settings: Any) -> Selected:
        """`tenon.topk`, whose `values` and `indices` have names."""
        return Selected(*self._op("topk")(self, *args, **settings))

    # --- conversions ------------------------------------------------------------------------------

    def __round__(self: Any, digits: int = 0) -> Any:
        scale = 10.0**digits
        return self._op("round")(self * scale) / scale if digits else self._op("round")(self)

    def type_as(self, other: Any) -> Any:
        """The elements converted to the dtype of another tensor."""
        return self.astype(other.dtype)

    def _on(self, device: str) -> Any:
        """The tensor on a device, where one is chosen."""
        check_cpu(device)
        return self

    def cpu(self) -> Any:
        """The tensor in the memory of the CPU: itself where it is there."""
        return self._on("cpu")

    def cuda(self, device: Any = None, non_blocking: Any = False) -> Any:
        """The tensor on a GPU: the current one, or that of a number or a name."""
        return self._on("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

    def pin_memory(self, device: Any = None) -> Any:
        """The tensor itself: memory of the host is copied to a GPU as it is."""
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """False: no memory is pinned."""
        return False

    def to(
        self, *target: Any, device: Any = None, dtype: Any = None, non_blocking: Any = False, copy: Any = False
    ) -> Any:
        """The elements converted to a dtype, or on a device (`"cpu"`, `"cuda"`, `"cuda:1"`), or as those of another
        tensor.

        Device and dtype are given by position or by name. What is there already is the tensor itself, unless a `copy`
        is asked for.
        """
        for given in target:
            if is_device(given):
                device = given
            elif isinstance(given, BothFaces):
                device, dtype = given.device, given.dtype
            elif given is not None:
                dtype = given.dtype if hasattr(given, "dtype") and not isinstance(given, type) else given
        found = self if device is None else self._on(device)
        found = found if dtype is None else found.astype(dtype)
        return found.clone() if copy and found is self else found  # pyright: ignore[reportAttributeAccessIssue]

    # --- new ones ---------------------------------------------------------------------------------

    def _made_like(self, array: Any, device: Any, requires_grad: Any) -> Any:
        """What `array` is on this face."""
        face = getattr(type(self), "__tenon_new__", None)
        if face is None and device is not None:
            check_cpu(device)
        made = array if face is None else face(array)._on(self.device if device is None else device)
        return made.requires_grad_() if requires_grad else made

    def _dtype_or(self, given: Any) -> np.dtype[Any]:
        return self.dtype if given is None else numpy_dtype(element_type(given))

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Any:
        """Zeros of this tensor's dtype, of a shape given by sizes or one tuple of them."""
        return self.new_full(sizes_of(size), 0, dtype, device, requires_grad)

    new_empty = new_zeros

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Any:
        """Ones of this tensor's dtype, of a shape given by sizes or one tuple of them."""
        return self.new_full(sizes_of(size), 1, dtype, device, requires_grad)

    def new_full(
        self, size: Any, fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Any:
        """One number everywhere, of this tensor's dtype."""
        return self._made_like(np.full(tuple(size), fill_value, self._dtype_or(dtype)), device, requires_grad)

    def new_tensor(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Any:
        """A copy of `data`, of this tensor's dtype."""
        return self._made_like(np.array(data, self._dtype_or(dtype)), device, requires_grad)


def _cast(name: str) -> Callable[[Any], Any]:
    def cast(self: Any) -> Any:
        return self.astype(CASTS[name])

    cast.__name__, cast.__doc__ = name, f"The elements converted to {CASTS[name]}."
    return cast


for _name in CASTS:
    setattr(BothFaces, _name, _cast(_name))
