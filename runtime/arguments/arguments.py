"""The arguments of a call: which leaves are data, and the signature that decides what is compiled."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tenon.dialects.definition.value import TracedValueError, Value, insertion_point, origin
from tenon.dialects.support.donation import is_donated, is_given, refuse_donated
from tenon.dialects.support.forking import cached_property
from tenon.dialects.support.plain_arrays import is_like_array, is_on_gpu, plain_array
from tenon.dialects.support.user_traceback import call_user, user_stacklevel
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import (
    STORED_TENSOR,
    AnyTensor,
    array_type,
    element_of,
    element_type,
    numpy_dtype,
    shape_of,
    tensor_type,
)
from tenon.runtime.arguments.leaf_sizes import LeafSizes
from tenon.runtime.arguments.orders import Orders
from tenon.runtime.arguments.tree import Structure, UnnoticedChangeError, flatten, paths, static_key

Parameter = inspect.Parameter
_STORED = frozenset(map(numpy_dtype, STORED_TENSOR.elements))
# Whether instances of a class met so far are data.
_IS_ARRAY: dict[type, bool] = {}


def is_array(leaf: Any) -> bool:
    """Whether a leaf is a number, an array, of NumPy or of another library, or gives an array."""
    kind = type(leaf)
    known = _IS_ARRAY.get(kind)
    if known is None:
        known = _IS_ARRAY[kind] = isinstance(leaf, np.generic | bool | int | float | Value) or is_like_array(kind)
    return known


def face_of(leaves: Iterable[Any]) -> Any:
    """What calls a function for arguments of which one has a class of its own for that: `__tenon_call__(function, args,
    kwargs)`, which gets them as they are; `None` for arrays and numbers."""
    return next((face for leaf in leaves if (face := getattr(type(leaf), "__tenon_call__", None)) is not None), None)


def traced_face_of(args: Any, kwargs: Any) -> Any:
    """The same in a trace, where such a leaf stands for a traced value: `__tenon_traced_call__`."""
    faces = [getattr(type(leaf), "__tenon_traced_call__", None) for leaf in flatten((args, kwargs))[0]]
    return next((face for face in faces if face is not None), None)


class WideFloat(float):
    """A float of Python's in a call with f64 arrays: as it is where it meets f64, and rounded to f32 elsewhere."""

    __slots__ = ()


WIDE_FLOAT = object()
"""What signatures have in the place of the dtype of a `WideFloat`."""


def _with_wide_floats(leaves: list[Any]) -> list[Any]:
    """The leaves of a call, its floats in the class `WideFloat` where one of the others is f64."""
    if float in map(type, leaves) and any(str(getattr(leaf, "dtype", "")).endswith("float64") for leaf in leaves):
        return [WideFloat(leaf) if type(leaf) is float else leaf for leaf in leaves]
    return leaves


def as_array(leaf: Any, name: str = "argument") -> np.ndarray[Any, Any]:
    """A number or an array of any library as a NumPy array of native byte order; Python floats are f32, integers i64.

    A `WideFloat` is f64.

    Raises `TypeError` naming the argument for a dtype that Tenon does not store, for an array of another device, and
    for one that means more than its elements (a mask, units), `OverflowError` for an integer beyond i64.
    """
    if isinstance(leaf, Value):
        problem = (
            "is used after its trace ended; return it instead"
            if insertion_point() is None
            else "is no array; in a trace, call the function itself, not what was compiled of it"
        )
        raise TracedValueError(f"{name}: a traced value ({leaf.type}){origin(leaf)} {problem}")
    if type(leaf) is np.ndarray:
        refuse_donated(leaf, name)
        array = leaf
    elif isinstance(leaf, float) and not isinstance(leaf, np.generic):
        array = np.asarray(leaf, np.float64 if isinstance(leaf, WideFloat) else np.float32)
    elif isinstance(leaf, int) and not isinstance(leaf, bool | np.generic):
        if not -(2**63) <= leaf < 2**63:
            raise OverflowError(f"{name}: {leaf} does not fit into i64")
        array = np.asarray(leaf, np.int64)
    else:
        array = plain_array(leaf, name)
    if array.dtype not in _STORED:
        if not array.dtype.isnative:
            warnings.warn(
                f"{name} is of the other byte order ({array.dtype.str}) and converted at every call",
                stacklevel=user_stacklevel(),
            )
            array = array.astype(array.dtype.newbyteorder("="))
        stored_type(array, name)
    return array


def stored_type(array: Any, name: str) -> Any:
    """The element type of an array; raises `TypeError`, which begins with `name`, for one that is not stored."""
    try:
        return element_type(array.dtype)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


class Static:
    """An argument that is part of the signature instead of the data."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _names(function: str, setting: str, names: Any) -> frozenset[str]:
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{function}: {setting} is {names!r} where names of arguments are needed, like ('x',)")
    return frozenset(given)


class Parameters:
    """The parameters of a function: which of them are static, and the memory of which is given away."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str] | str = (),
        donated: Sequence[str] | str = (),
        taken: Callable[[Any], Any] | None = None,
    ) -> None:
        self.function = function
        self.taken = taken  # makes arrays on a GPU those that programs take, and leaves other leaves as they are
        self.name = getattr(function, "__name__", type(function).__name__)
        self.static = _names(self.name, "static", static)
        self.donated = _names(self.name, "donate", donated)
        if self.static or self.donated:
            self._check()
        self._static_positions = (
            [i for i, name in enumerate(self.positional) if name in self.static] if self.static else []
        )

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.function)
        except (TypeError, ValueError):  # built-in functions may not tell
            return None

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        return {} if self._signature is None else {n: p.kind for n, p in self._signature.parameters.items()}

    @cached_property
    def positional(self) -> list[str]:
        """The names of the parameters that are given by position."""
        return [n for n, k in self._kinds.items() if k in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]

    def _collecting(self, kind: Any) -> str | None:
        return next((name for name, k in self._kinds.items() if k is kind), None)

    def _check(self) -> None:
        if unknown := sorted((self.static | self.donated) - self._kinds.keys()):
            known = ", ".join(self._kinds) or "none"
            raise ValueError(f"{self.name}: no argument is named {', '.join(unknown)} (arguments: {known})")
        if both := sorted(self.static & self.donated):
            raise ValueError(f"{self.name}: {', '.join(both)} cannot be both static and donated")
        several = {self._collecting(Parameter.VAR_POSITIONAL), self._collecting(Parameter.VAR_KEYWORD)}
        if collected := sorted(self.static & several):  # pyright: ignore[reportArgumentType]
            raise ValueError(
                f"{self.name}: {', '.join(collected)} stands for several arguments, which cannot be static"
            )

    def check_given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise `TypeError` for arguments that no call of the function has, whatever is given beside them."""
        if self._signature is None:
            return
        try:
            self._signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            known = ", ".join(self._kinds) or "none"
            raise TypeError(f"{self.name}: {error} (arguments: {known})") from None

    @cached_property
    def take_out(self) -> bool:
        """Whether a keyword argument `out` is none of the function's own."""
        return "out" not in self._kinds and self._collecting(Parameter.VAR_KEYWORD) is None

    def take_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Structure]:
        """The leaves of `(args, kwargs)` and their structure; static arguments are leaves of class `Static`."""
        leaves, structure = flatten(self.marked(args, kwargs))
        if self.taken is not None:
            leaves = list(map(self.taken, leaves))
        return _with_wide_floats(leaves), structure

    def marked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with static ones in the class `Static`."""
        if self.static:
            positional = list(args)
            for position in self._static_positions:
                if position < len(positional):
                    positional[position] = Static(positional[position])
            args = tuple(positional)
            kwargs = {k: Static(v) if k in self.static else v for k, v in kwargs.items()}
        return args, kwargs

    def unmarked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with static ones taken out of their wrapping."""
        if self.static:
            args = tuple([a.value if isinstance(a, Static) else a for a in args])
            kwargs = {k: v.value if isinstance(v, Static) else v for k, v in kwargs.items()}
        return args, kwargs

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function's result, static arguments taken out of their wrapping."""
        args, kwargs = self.unmarked(args, kwargs)
        return call_user(self.function, *args, **kwargs)

    def _parameter(self, position: int) -> str | None:
        if position < len(self.positional):
            return self.positional[position]
        return self._collecting(Parameter.VAR_POSITIONAL)

    def donations(self, structure: Structure) -> list[bool]:
        """For each leaf whether its memory is given away."""
        positional, keywords = structure.children
        given: list[bool] = []
        for position, child in enumerate(positional.children):
            given += [self._parameter(position) in self.donated] * child.size
        rest = self._collecting(Parameter.VAR_KEYWORD)
        for name, child in zip(keywords.names, keywords.children, strict=True):
            given += [(name if name in self._kinds else rest) in self.donated] * child.size
        return given

    def leaf_names(self, structure: Structure) -> list[str]:
        """The leaves' names in errors and in IR, such as `x`, `params.weight` or, of collected arguments, `rest.0`."""
        positional, keywords = structure.children
        names: list[str] = []
        for position, child in enumerate(positional.children):
            name = self._parameter(position) or str(position)
            if position >= len(self.positional) and self._kinds:
                name = f"{name}.{position - len(self.positional)}"
            names += paths(child, name)
        for name, child in zip(keywords.names, keywords.children, strict=True):
            names += paths(child, name)
        return names

    def signature(
        self,
        leaves: Sequence[Any],
        structure: Structure,
        sizes: LeafSizes | None = None,
        orders: Orders = MappingProxyType({}),
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """What decides which executable a call takes (hashable), and the data: arrays of stored dtypes.

        Arrays on a GPU stay there, for functions that run there. Dimensions in `sizes` may have any size; leaves with
        an order are given as they lie in memory. Raises `TypeError` naming a leaf that is neither data nor hashable.
        """
        arrays: list[Any] = []
        key: list[Any] = [structure]
        for position, leaf in enumerate(leaves):
            if type(leaf) is np.ndarray and leaf.dtype in _STORED and not is_donated(leaf):
                array = leaf
            elif type(leaf) is not Static and is_array(leaf):
                array = self._as_array(leaf, structure, position)
            else:
                key.append(self._static_signature(leaf, structure, position))
                continue
            if position in orders:
                array = orders[position].whole(array)
                key.append(orders[position])
            arrays.append(array)
            key.append(WIDE_FLOAT if type(leaf) is WideFloat else array.dtype)
            key.append(array.shape if sizes is None else sizes.shape(position, array.shape))
        return tuple(key), arrays

    def _where(self, structure: Structure, position: int) -> str:
        return f"{self.name}: argument {self.leaf_names(structure)[position]}"

    def _as_array(self, leaf: Any, structure: Structure, position: int) -> Any:
        if self.taken is not None and is_on_gpu(leaf):
            if is_given(leaf):
                refuse_donated(leaf, self._where(structure, position))
            return leaf
        try:
            return as_array(leaf)
        except (TypeError, OverflowError, BufferError, RuntimeError):
            return as_array(leaf, self._where(structure, position))

    def _static_signature(self, leaf: Any, structure: Structure, position: int) -> Any:
        value = leaf.value if isinstance(leaf, Static) else leaf
        if isinstance(value, ShapeDtype):
            raise TypeError(
                f"{self._where(structure, position)} is a ShapeDtype, which has no elements; "
                "pass it to .trace, .lower or .compile"
            )
        try:
            return static_key(value, is_trusted=isinstance(leaf, Static))
        except UnnoticedChangeError as error:
            raise TypeError(
                f"{self._where(structure, position)} (a {type(value).__name__}) {error}; make it a dataclass or a "
                "tenon.nn.Module, whose arrays are data, or name it in static= if it never changes"
            ) from None
        except TypeError:
            kind = type(value).__name__
            what = "is static, but not hashable" if isinstance(leaf, Static) else "is neither an array nor hashable"
            raise TypeError(f"{self._where(structure, position)} (a {kind}) {what}") from None

    def described(
        self,
        leaves: Sequence[Any],
        structure: Structure,
        sizes: LeafSizes | None = None,
        orders: Orders = MappingProxyType({}),
    ) -> dict[str, str]:
        """What a signature is made of, in words: `{"x": "f32[4, 3]", "mode": "'fast'"}`."""
        parts: dict[str, str] = {}
        for position, (name, leaf) in enumerate(zip(self.leaf_names(structure), leaves, strict=True)):
            type_ = None if isinstance(leaf, Static) else abstract(leaf)
            if type_ is None:
                parts[name] = repr(leaf.value if isinstance(leaf, Static) else leaf)
                continue
            if type(leaf) is WideFloat:
                parts[name] = "float"
                continue
            shape = shape_of(type_) or ()
            shape = shape if sizes is None else sizes.shape(position, shape)
            place = orders.get(position)
            order = "" if place is None else f" in the order {place.order}"
            if place is not None and place.has_gaps(shape):
                order += f" of {list(place.shape)}, step {place.step}"
            parts[name] = f"{element_of(type_)}{list(shape)}{order}"
        return parts


def dim(name: str) -> Any:
    """A dimension that may have any size, for shapes: `tenon.ShapeDtype((tenon.dim("n"), 768))`.

    Dimensions of one name have one size, which is checked when the program is called. Sums, products and quotients of
    such dimensions are dimensions, too; each name must be that of some dimension by itself.
    """
    return Size.named(name)


class ShapeDtype:
    """Stands for an array of a shape and dtype where only these matter: `jit(f).lower(ShapeDtype((4, 3), "f32"))`.

    With dimensions made by `dim`, what is compiled takes arrays of all sizes there.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[int] | int, dtype: Any = "f32") -> None:
        sizes = (shape,) if isinstance(shape, int | Size) else shape
        self.shape = tuple([size if isinstance(size, Size) else int(size) for size in sizes])
        self.dtype = element_type(dtype)

    def placeholder(self) -> np.ndarray[Any, Any]:
        """An array of this shape and dtype that takes no memory; dimensions of any size have size 1."""
        shape = [1 if isinstance(size, Size) else size for size in self.shape]
        return np.broadcast_to(np.zeros((), numpy_dtype(self.dtype)), shape)

    def sizes(self) -> dict[int, Any]:
        """The dimensions of any size, by axis."""
        return {axis: size for axis, size in enumerate(self.shape) if isinstance(size, Size)}

    def __repr__(self) -> str:
        return f"ShapeDtype({self.shape}, {str(self.dtype)!r})"


def abstract(leaf: Any, name: str = "argument") -> AnyTensor | None:
    """The tensor type that a leaf is traced as, `None` for one that stays as it is."""
    if is_on_gpu(leaf):
        return tensor_type(tuple(leaf.shape), stored_type(leaf, name))
    return array_type(as_array(leaf, name)) if is_array(leaf) else None
