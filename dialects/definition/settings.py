"""Typed settings of an op: a Python value in signatures and hooks, a property in IR, a readable entry in the text form.

`axis = setting(int, default=-1)` in an op class declares all of it. A setting whose default is `None` may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import AttrConstraint, VerificationContext, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import SizesAttr, parsed_sizes, shown_size
from tenon.dialects.types.types import element_type, i2, i4, numpy_dtype
from tenon.dialects.upstream.xdsl_corrections import correct_xdsl

correct_xdsl()

_I4, _I2 = numpy_dtype(i4), numpy_dtype(i2)


@dataclass(frozen=True)
class SettingKind:
    """How values of one kind become attributes, and how they read in text."""

    name: str
    attribute: type[Attribute] | tuple[type[Attribute], ...]
    to_attribute: Callable[[Any], Attribute]
    to_python: Callable[[Any], Any]
    print: Callable[[Printer, Any], None]
    parse: Callable[[Parser], Attribute]


def _integer(value: object) -> Attribute:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{value!r} is not an integer")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is no integer of 64 bits")
    return IntegerAttr(int(value), i64)


def _text(parser: Parser) -> str:
    text = _optional_text(parser)
    return parser.parse_str_literal() if text is None else text


def _optional_text(parser: Parser) -> str | None:
    """A text in quotes, if there is one; what is no ASCII is printed as bytes."""
    given = parser.parse_optional_bytes_literal()
    return parser.parse_optional_str_literal() if given is None else given.decode()


def _float(value: object) -> Attribute:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{value!r} is not a number")
    return FloatAttr(float(value), f64)


def _bool(value: object) -> Attribute:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{value!r} is not True or False")
    return BoolAttr.from_bool(bool(value))


def _string(value: object) -> Attribute:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return StringAttr(value)


def setting_sizes(value: object) -> Attribute:
    """The attribute of a tuple of integers, of which some may be sizes."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        value = (int(value),)
    if isinstance(value, Size):
        value = (value,)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not all(
        isinstance(v, int | np.integer | Size) and not isinstance(v, bool) for v in value
    ):
        raise TypeError(f"{value!r} is not a tuple of integers")
    if any(isinstance(v, Size) for v in value):
        return SizesAttr(tuple([v if isinstance(v, Size) else int(v) for v in value]))
    return DenseArrayBase.from_list(i64, [int(v) for v in value])


def _sizes_or_name(value: object) -> Attribute:
    if isinstance(value, str):
        return StringAttr(value)
    try:
        return setting_sizes(value)
    except TypeError:
        raise TypeError(f"{value!r} is neither a tuple of integers nor a string") from None


def _dtype(value: object) -> Attribute:
    return element_type(value)


def _maps(value: tuple[AffineMap, ...]) -> Attribute:
    return ArrayAttr([AffineMapAttr(m) for m in value])


def array_attribute(value: object) -> Attribute:
    """The dense attribute of an array."""
    array = plain_array(value)
    kind = TensorType(element_type(array.dtype), array.shape)
    if array.size > 1 and not any(array.strides):  # one number, broadcast: not worth spelling out
        array = array.reshape(-1)[:1]
    data = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    return dense_elements(kind, data)


def dense_elements(kind: TensorType[Any], data: np.ndarray[Any, Any]) -> DenseIntOrFPElementsAttr[Any]:
    """The dense attribute of `data`; arrays of one value are kept as that single value (a splat)."""
    # A true i1 is stored as all ones, and a number of less than 8 bits as one of 8, as xDSL's parser does.
    if data.dtype == np.bool_:
        data = -data.view(np.int8)
    elif data.dtype in (_I4, _I2):
        data = data.astype(np.int8)
    flat = data.reshape(-1)
    raw = flat.view(f"u{flat.dtype.itemsize}")  # bytes, so that -0.0 and NaN payloads keep their difference
    if flat.size > 1 and bool((raw == raw[0]).all()):
        flat = flat[:1]
    return DenseIntOrFPElementsAttr(kind, BytesAttr(flat.tobytes()))  # pyright: ignore[reportArgumentType]


def array_of(attribute: DenseIntOrFPElementsAttr[Any]) -> np.ndarray[Any, Any]:
    """The NumPy array of a dense attribute (a splat is broadcast, without memory of its own)."""
    return elements_of(attribute.data.data, numpy_dtype(attribute.type.element_type), attribute.type.get_shape())


def elements_of(data: bytes, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """The array that the bytes of a dense attribute stand for."""
    stored = np.frombuffer(data, np.int8 if dtype in (np.bool_, _I4, _I2) else dtype)
    elements = stored if stored.dtype == dtype else stored.astype(dtype)
    return np.broadcast_to(elements.reshape(()), shape) if elements.size == 1 else elements.reshape(shape)


def _print_float(printer: Printer, attr: FloatAttr[Any]) -> None:
    # A float literal has a point: `1e-05` would be read as a 1 with something behind it.
    mantissa, exponent, power = repr(attr.value.data).partition("e")
    printer.print_string(f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(attr.value.data))


def _parse_float(parser: Parser) -> Attribute:
    sign = -1.0 if parser.parse_optional_punctuation("-") is not None else 1.0
    word = parser.parse_optional_identifier()
    if word in ("inf", "nan"):
        return FloatAttr(sign * float(word), f64)
    return FloatAttr(sign * float(parser.parse_number(allow_boolean=False)), f64)


def _print_integers(printer: Printer, attr: Any) -> None:
    printer.print_string(f"[{', '.join(shown_size(size) for size in attr.get_values())}]")


def _parse_integers(parser: Parser) -> Attribute:
    return setting_sizes(parsed_sizes(parser))


def _print_sizes_or_name(printer: Printer, attr: Any) -> None:
    if isinstance(attr, StringAttr):
        printer.print_attribute(attr)
    else:
        printer.print_string(str(list(attr.get_values())))


def _parse_sizes_or_name(parser: Parser) -> Attribute:
    name = _optional_text(parser)
    return _parse_integers(parser) if name is None else StringAttr(name)


def _print_attribute(printer: Printer, attr: Attribute) -> None:
    printer.print_attribute(attr)


def _parse_array(parser: Parser) -> Attribute:
    start = parser.pos
    attr = parser.parse_attribute()
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return attr
    kind: Any = attr.type
    try:
        array = array_of(attr)
    except TypeError as error:
        parser.raise_error(str(error), start, parser.pos)
    return dense_elements(kind, array)  # a splat may arrive spelled out


_NAMED: dict[object, SettingKind] = {
    int: SettingKind(
        "int",
        IntegerAttr,
        _integer,
        lambda attr: attr.value.data,
        lambda printer, attr: printer.print_string(str(attr.value.data)),
        lambda parser: IntegerAttr(parser.parse_integer(), i64),
    ),
    float: SettingKind("float", FloatAttr, _float, lambda attr: attr.value.data, _print_float, _parse_float),
    bool: SettingKind(
        "bool",
        IntegerAttr,
        _bool,
        lambda attr: bool(attr.value.data),
        lambda printer, attr: printer.print_string("true" if attr.value.data else "false"),
        lambda parser: IntegerAttr(int(parser.parse_boolean()), i1),
    ),
    str: SettingKind(
        "str",
        StringAttr,
        _string,
        lambda attr: attr.data,
        _print_attribute,
        lambda parser: StringAttr(_text(parser)),
    ),
    tuple: SettingKind(
        "tuple[int, ...]",
        DenseArrayBase,
        setting_sizes,
        lambda attr: tuple(attr.get_values()),
        _print_integers,
        _parse_integers,
    ),
    "padding": SettingKind(
        "tuple[int, ...] | str",
        (DenseArrayBase, StringAttr),
        _sizes_or_name,
        lambda attr: attr.data if isinstance(attr, StringAttr) else tuple(attr.get_values()),
        _print_sizes_or_name,
        _parse_sizes_or_name,
    ),
    "dtype": SettingKind(
        "dtype", TypeAttribute, _dtype, lambda attr: attr, _print_attribute, lambda parser: parser.parse_type()
    ),
    "maps": SettingKind(
        "tuple[AffineMap, ...]",
        ArrayAttr,
        _maps,
        lambda attr: tuple(m.data for m in attr.data),
        _print_attribute,
        lambda parser: parser.parse_attribute(),
    ),
    "array": SettingKind(
        "array",
        DenseIntOrFPElementsAttr,
        array_attribute,
        array_of,
        _print_attribute,
        _parse_array,
    ),
}

REQUIRED: Any = object()
_PLAIN = (bool, int, float, str, tuple, list, np.ndarray)
"""What settings are given as, other than attributes."""


@dataclass(frozen=True)
class SettingConstraint(AttrConstraint):
    """The constraint that a setting puts on its property; it carries the kind, the default and the choices."""

    kind: SettingKind
    default: Any
    choices: tuple[Any, ...] | None

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not self._is_attribute(attr):
            raise VerifyException(f"{attr} is not of kind {self.kind.name}")
        if self.choices is not None and self.kind.to_python(attr) not in self.choices:
            raise VerifyException(f"{attr} is not one of {', '.join(map(repr, self.choices))}")

    def _is_attribute(self, value: object) -> bool:
        has_sizes = isinstance(value, SizesAttr) and self.kind.attribute is DenseArrayBase
        return has_sizes or isinstance(value, self.kind.attribute)

    def mapping_type_vars(self, type_var_mapping: Any) -> SettingConstraint:
        return self

    def attribute(self, value: Any) -> Attribute:
        """The attribute of a Python value; raises `TypeError` for the wrong kind, `ValueError` for no known choice."""
        # asked last: for a type that it has not seen, an abstract class looks through all that derive from it
        if not isinstance(value, _PLAIN) and self.kind.name != "dtype" and self._is_attribute(value):
            return value
        attr = self.kind.to_attribute(value)
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, self.choices))}")
        return attr


def setting(kind: object, *, default: Any = REQUIRED, choices: tuple[Any, ...] | None = None) -> Any:
    """Declare a setting of an op class.

    `kind` is `int`, `float`, `bool`, `str`, `tuple` (of integers), `"padding"` (a tuple of integers or a string),
    `"dtype"`, `"maps"` (affine maps) or `"array"` (a constant array). Without `default` the setting must be given; with
    `default=None` it may be absent, and hooks see `None`.
    """
    if kind not in _NAMED:
        known = ", ".join(k.__name__ if isinstance(k, type) else repr(k) for k in _NAMED)
        raise TypeError(f"setting: {kind!r} is no kind of setting (kinds: {known})")
    constraint = SettingConstraint(_NAMED[kind], default, choices)
    if default is REQUIRED:
        return prop_def(constraint)
    if default is None:
        return opt_prop_def(constraint)
    try:
        attribute = constraint.attribute(default)
    except (TypeError, ValueError) as error:
        raise type(error)(f"setting: the default {error}") from None
    return prop_def(constraint, default_value=attribute)
