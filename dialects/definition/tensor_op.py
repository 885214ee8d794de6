"""`TensorOp`, the class that every op derives from, and the decorator that derives the rest.

An op class declares operands, settings and results and gives its family's hooks; `@tensor_op` makes it an xDSL
operation with a readable text form, a verifier and a function, and puts it into the registry. Nothing else needs to be
edited.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IndexType, TensorType, UnrankedTensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.definition.assembly import parse_op, print_op
from tenon.dialects.definition.location import at_line
from tenon.dialects.definition.memo import KnownResults, KnownSettings
from tenon.dialects.definition.promotion import (
    adopted,
    allowed_element,
    common_element,
    exact,
    is_literal,
    is_weak,
    own_element,
    weakened,
)
from tenon.dialects.definition.registry import evaluate, register
from tenon.dialects.definition.scalar import as_index, convert, scalar_constant
from tenon.dialects.definition.settings import REQUIRED, array_attribute
from tenon.dialects.definition.signature import Signature, flat, map_grouped, read_signature, request_segments
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.type_inference import InfersTypes
from tenon.dialects.definition.value import Value, emit, insertion_point, ops
from tenon.dialects.support.plain_arrays import plain_array
from tenon.dialects.support.user_traceback import hide_own_frames
from tenon.dialects.types.shapes import InferenceError, check_addressable, compatible
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import AnyTensor, element_of, i64, numpy_dtype

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import PatternRewriter

_PLAIN: frozenset[type[Any]] = frozenset((Value, np.ndarray, float, int, bool))
"""Operands that are taken as they are."""

TensorOpT = TypeVar("TensorOpT", bound="type[TensorOp]")


class TensorOp(IRDLOperation, ABC):
    """An operation on tensors. Hooks are pure functions of operands (absent optional ones are `None`, variadic ones
    tuples) and, as keywords, of settings.

    An op is `Pure` unless its class states traits of its own; one that states them without `Pure` has effects: it is
    neither removed when its results are unused, nor merged with an equal one.
    """

    SIGNATURE: ClassVar[Signature]
    KNOWN: ClassVar[KnownResults]
    ALIASES: ClassVar[tuple[str, ...]] = ()
    # The operands that must have one dtype and are promoted to it; `None` is all of them.
    PROMOTED: ClassVar[tuple[str, ...] | None] = None
    # Whether a result is weak where all operands are (`weak_float`).
    KEEPS_WEAK: ClassVar[bool] = False
    # The orders of dimensions that the op asks to have in memory, by names of operands and results; see `laid_out`.
    LAYOUTS: ClassVar[dict[str, tuple[int, ...]]] = {}

    # --- hooks ------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        """The result type (a tuple for several) from operand types and settings; raises `InferenceError`."""

    @staticmethod
    def check(**settings: Any) -> None:
        """Raise `InferenceError` for settings that are wrong whatever the operands."""

    @staticmethod
    def laid_out(*operands: Any, **settings: Any) -> Any:
        """The op on operands that are transposed into the orders of `LAYOUTS`, giving results in theirs.

        The pass `layout` puts this into the place of the op, with the transposes that it takes around it.
        """
        raise NotImplementedError("an op that states LAYOUTS defines laid_out")

    @classmethod
    def batch(cls, size: int, batched: Sequence[Any], /, *operands: Any, **settings: Any) -> Any:
        """The results (a tuple for several) for `size` examples at once, along a new first dimension.

        `batched` says for each operand, in groups as the operands are, whether it has the examples along a new first
        dimension, as at least one has; the others are the same for every example. With `NotImplemented`, which is given
        here, composite ops are batched as what they decompose into, and all others run example by example.
        """
        return NotImplemented

    @staticmethod
    def canonicalize(op: Any, rewriter: PatternRewriter) -> None:
        """Simplify `op`, one of the class, where an equation of the op's own allows it; a pattern of `canonicalize`."""

    @classmethod
    def check_family(cls) -> None:
        """Raise `TypeError` when the class lacks a hook that its family needs; called once, by `@tensor_op`."""

    # --- the op in IR -----------------------------------------------------------------------------

    @classmethod
    def build_from(cls, operands: Sequence[Any], settings: dict[str, Any]) -> TensorOp:
        """Create the op from grouped SSA operands and Python settings, with inferred result types."""
        known = cls.known_settings(settings)
        flat: list[SSAValue] = []
        sizes: list[int] = []
        types: list[Any] = []
        for operand, given in zip(cls.SIGNATURE.operands, operands, strict=True):
            if operand.arity == "variadic":
                given = given or ()
                flat.extend(given)
                sizes.append(len(given))
                types.append(tuple([v.type for v in given]))
            else:
                flat.extend(() if given is None else (given,))
                sizes.append(given is not None)
                types.append(None if given is None else given.type)
        results = known.results(types, lambda: cls.inferred_types(types, known.settings))
        properties = known.properties
        if cls.SIGNATURE.has_segments:
            properties = {**properties, "operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)}
        return cls.create(operands=flat, result_types=results, properties=properties)

    @classmethod
    def known_settings(cls, settings: dict[str, Any]) -> KnownSettings:
        """What `setting_attributes` makes of Python settings, which is looked up where it was made before."""

        def read() -> tuple[dict[str, Attribute], dict[str, Any]]:
            properties = cls.setting_attributes(settings)
            return properties, cls.python_settings(properties)

        return cls.KNOWN.with_settings(settings, read)

    @classmethod
    def setting_attributes(cls, settings: dict[str, Any]) -> dict[str, Attribute]:
        """The properties of Python settings, defaults filled in; raises for unknown, missing and ill-typed ones."""
        declared = cls.SIGNATURE.settings
        for name in settings:
            if name not in declared:
                raise TypeError(cls.SIGNATURE.unknown_setting(cls.name, name))
        properties: dict[str, Attribute] = {}
        for name, constraint in declared.items():
            value = settings.get(name, constraint.default)
            if value is REQUIRED:
                raise TypeError(f"{cls.name}: setting {name!r} is missing")
            if value is None:
                if constraint.default is not None:
                    raise TypeError(f"{cls.name}: setting {name!r} may not be None")
                continue
            try:
                properties[name] = constraint.attribute(value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{cls.name}: setting {name!r}: {error}") from None
        return properties

    @classmethod
    def python_settings(cls, properties: dict[str, Attribute]) -> dict[str, Any]:
        """The settings as hooks see them."""
        settings: dict[str, Any] = {}
        for name, constraint in cls.SIGNATURE.settings.items():
            attribute = properties.get(name)
            if attribute is None:
                settings[name] = None if constraint.default is REQUIRED else constraint.default
            else:
                settings[name] = constraint.kind.to_python(attribute)
        return settings

    @classmethod
    def inferred_types(cls, operand_types: Sequence[Any], settings: dict[str, Any]) -> tuple[AnyTensor, ...]:
        """The result types; errors carry the op's name."""
        try:
            cls.check(**settings)
            cls.check_dtypes(operand_types)
            inferred = cls.infer(*operand_types, **settings)
            types = inferred if isinstance(inferred, tuple) else (inferred,)
            cls.check_results(types)
            for type_ in types:
                check_addressable(type_)
        except InferenceError as error:
            message = str(error)
            where = "" if message.startswith(f"{cls.name}:") else f"{cls.name}: "
            raise InferenceError(where + message, error.sizes) from None
        return types

    @classmethod
    def check_results(cls, types: Sequence[AnyTensor]) -> None:
        """Raise unless there are as many result types as results are declared, each of a dtype that is."""
        for type_ in types:
            if not isinstance(type_, TensorType | UnrankedTensorType):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"{cls.name}: infer returns a {type(type_).__name__} where a tensor type is needed")
        declared = cls.SIGNATURE.declared_results
        needed = sum(result.arity == "one" for result in declared)
        if len(types) < needed or (len(types) > len(declared) and not cls.SIGNATURE.variadic_results):
            shown = ", ".join(map(str, types))
            raise InferenceError(f"{len(types)} results ({shown}) are inferred where {len(declared)} are declared")
        if len(declared) > 1 and cls.SIGNATURE.variadic_results:
            return  # which of them the types belong to, their number alone does not tell
        for position, type_ in enumerate(types):
            result = declared[min(position, len(declared) - 1)]
            if result.constraint is not None and element_of(type_) not in result.constraint.elements:
                raise InferenceError(
                    f"{result.name} is {type_}, whose dtype is declared as one of {result.constraint.names()}"
                )

    @classmethod
    def check_dtypes(cls, operand_types: Sequence[Any]) -> None:
        """Raise unless each operand's dtype is allowed and the promoted operands agree."""
        agreed: tuple[str, Attribute] | None = None
        for operand, given in zip(cls.SIGNATURE.operands, operand_types, strict=True):
            for type_ in given if operand.arity == "variadic" else () if given is None else (given,):
                element = element_of(type_)
                if element not in operand.constraint.elements:
                    raise InferenceError(
                        f"dtype of {operand.name} is {element} where {operand.constraint.needed(element)}"
                    )
                if cls.PROMOTED is not None and operand.name not in cls.PROMOTED:
                    continue
                if agreed is not None and agreed[1] != element:
                    raise InferenceError(f"dtype is {agreed[1]} in {agreed[0]} and {element} in {operand.name}")
                agreed = (operand.name, element)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as Python values."""
        return self.python_settings(self.properties)

    @classmethod
    def group(cls, flat: Sequence[Any], properties: dict[str, Attribute]) -> list[Any]:
        """A flat operand list grouped by declaration: tuples for variadic operands, `None` for absent ones."""
        return cls.SIGNATURE.group(flat, properties)

    def grouped_operands(self) -> list[Any]:
        """The SSA operands as hooks take them."""
        return self.group(self.operands, self.properties)

    def infer_return_types(self) -> tuple[AnyTensor, ...]:
        """The types of the results, as operands and settings say; raises `InferenceError`."""
        return self.inferred_types(self.group([o.type for o in self.operands], self.properties), self.settings)

    def verify_(self) -> None:
        try:
            inferred = self.infer_return_types()
        except InferenceError as error:
            raise VerifyException(f"{error}{at_line(self)}") from None
        if len(inferred) != len(self.results):
            raise VerifyException(
                f"{self.name}: has {len(self.results)} results where {len(inferred)} are inferred{at_line(self)}"
            )
        for result, type_ in zip(self.results, inferred, strict=True):
            if not compatible(result.type, type_):
                raise VerifyException(
                    f"{self.name}: result type is {result.type} but {type_} is inferred from operands and settings"
                    f"{at_line(self)}"
                )

    def print(self, printer: Printer) -> None:
        print_op(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> TensorOp:
        return parse_op(cls, parser)

    # --- the op as a function ---------------------------------------------------------------------

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Compute the op: on arrays at once, on traced values by adding to the trace.

        Takes the operands and then the settings, by position or by name; returns one value, or a tuple of them.
        """
        operands, settings = cls._bind(args, kwargs)
        given = flat(operands)
        point = insertion_point()
        if Size in map(type, given):
            on_scalars = (point is not None and point.scalar) or any(
                isinstance(v, Value) and not v.is_tensor for v in given
            )
            valued = as_index if on_scalars else lambda size: ops.size(value=size)
            operands = list(map_grouped(lambda v: valued(v) if isinstance(v, Size) else v, operands))
            given = flat(operands)
        values = [v for v in given if isinstance(v, Value)]
        if point is None:
            if values:
                raise TypeError(f"{cls.name}: a traced value is used after its trace ended")
            return evaluate(cls, tuple(operands), settings)
        if point.folds_literals and given and all(map(is_literal, given)):
            return cls._apply_to_literals(operands, settings)
        if point.scalar and not values:
            return evaluate(cls, tuple(operands), settings)
        if point.scalar or (values and not any(v.is_tensor for v in values)):
            return cls.apply_to_scalars(operands, settings)
        if cls.KEEPS_WEAK and values and all(is_weak(v) or is_literal(v) for v in given):
            return weakened(cls.apply(*map_grouped(exact, operands), **settings))
        try:
            op = emit(cls.build_from(map_grouped(lambda v: v.ssa, cls.lift(operands)), settings))
        except InferenceError:
            if not cls._has_axis_of_number(operands, settings):
                raise
            return _as_numbers(cls.apply(ops.reshape(operands[0], shape=(1,)), *operands[1:], **settings))
        results = tuple([Value(r) for r in op.results])
        return results[0] if len(results) == 1 and not cls.SIGNATURE.variadic_results else results

    @classmethod
    def _has_axis_of_number(cls, operands: Sequence[Any], settings: dict[str, Any]) -> bool:
        """Whether the axes are those of an array of one element, where the first operand is a number, of rank 0."""
        declared = cls.SIGNATURE.settings.get("axis")
        if declared is None or not operands or not isinstance(operands[0], Value) or operands[0].shape != ():
            return False
        axis = settings.get("axis", declared.default)
        return axis in (0, -1, (0,), (-1,), [0], [-1])

    @classmethod
    def apply_to_scalars(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Compute the op inside a body, on scalars; only element-by-element ops have a meaning there."""
        raise TypeError(f"{cls.name}: does not work element by element, so it cannot be used inside a scalar body")

    @classmethod
    def _apply_to_literals(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Compute the op at once, in double precision; the result is a literal, too, which adopts its peers' dtype."""
        wide = [
            float(given) if type(given) is int and i64 not in operand.constraint.elements else given
            for operand, given in zip(cls.SIGNATURE.operands, operands, strict=True)
        ]
        result = evaluate(cls, tuple(map_grouped(np.asarray, wide)), settings)
        return result.item() if isinstance(result, np.ndarray) and result.ndim == 0 else result

    @classmethod
    def _bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        declared = cls.SIGNATURE.operands
        if not kwargs and len(args) == len(declared) and cls.SIGNATURE.is_plain and _PLAIN.issuperset(map(type, args)):
            return [*args], {}
        names = cls.SIGNATURE.argument_names
        if len(args) > len(names) and names[-1] in cls.SIGNATURE.settings:
            # x.reshape(2, 3): a trailing tuple of integers may be written as arguments.
            last = len(names) - 1
            if cls.SIGNATURE.settings[names[-1]].kind.attribute is DenseArrayBase:
                args = (*args[:last], args[last:])
        if len(args) > len(names):
            raise TypeError(f"{cls.name}: takes at most {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name in given:
                raise TypeError(f"{cls.name}: argument {name!r} is given twice")
        given.update(kwargs)
        operands: list[Any] = []
        for operand in declared:
            if operand.name not in given:
                if operand.arity != "optional":
                    raise TypeError(f"{cls.name}: operand {operand.name!r} is missing")
                operands.append(None)
                continue
            value = given.pop(operand.name)
            if value is None and operand.arity != "optional":
                raise TypeError(f"{cls.name}: operand {operand.name!r} may not be None")
            if operand.arity == "variadic" and not isinstance(value, list | tuple):
                raise TypeError(f"{cls.name}: operand {operand.name!r} must be a tuple of tensors")
            if isinstance(value, list | tuple):
                value = tuple(value) if operand.arity == "variadic" else cls._array(value, operand.name)
            operands.append(value)
        return operands, given

    @classmethod
    def _array(cls, value: Any, name: str) -> np.ndarray[Any, Any]:
        """The array of an operand that is given as a nested sequence of numbers."""
        try:
            return plain_array(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{cls.name}: {name}: {error}") from None

    @classmethod
    def operand_elements(cls, operands: Sequence[Any]) -> list[tuple[str, Attribute]]:
        """For each value of the operands, how errors name it and the dtype that it is converted to: literals adopt
        their peers', promoted operands meet, and what a constraint does not allow becomes what it allows for it."""
        return cls.KNOWN.elements(operands, lambda: cls._operand_elements(operands))

    @classmethod
    def _operand_elements(cls, operands: Sequence[Any]) -> list[tuple[str, Attribute]]:
        members = [
            (
                operand,
                f"{cls.name}: {operand.name}[{i}]" if operand.arity == "variadic" else f"{cls.name}: {operand.name}",
                value,
            )
            for operand, given in zip(cls.SIGNATURE.operands, operands, strict=True)
            for i, value in enumerate(flat((given,)))
        ]
        own = [None if is_literal(value) else own_element(value, where) for _, where, value in members]
        promoted = [cls.PROMOTED is None or operand.name in cls.PROMOTED for operand, _, _ in members]
        group = [
            (element, value)
            for element, in_group, (_, _, value) in zip(own, promoted, members, strict=True)
            if in_group
        ]
        try:
            common = common_element([e for e, _ in group if e is not None], [v for e, v in group if e is None])
        except TypeError as error:
            raise TypeError(f"{cls.name}: {error}") from None
        result: list[tuple[str, Attribute]] = []
        for (operand, where, value), element, in_group in zip(members, own, promoted, strict=True):
            target = common if in_group else common_element([], [value]) if element is None else element
            assert target is not None
            result.append((where, allowed_element(target, operand.constraint)))
        return result

    @classmethod
    def lift(cls, operands: Sequence[Any]) -> list[Any]:
        """Operands as tensor values of the dtypes that `operand_elements` gives."""
        targets = iter(cls.operand_elements(operands))

        def lifted(value: Any) -> Value:
            where, element = next(targets)
            if isinstance(value, Value):
                return value if value.element_type is element else to_value(value, element)
            if is_literal(value):
                number = adopted(value, element, where)
                return ops.constant(value=_number_attribute(type(number), repr(number), element))
            return to_value(value, element)

        return map_grouped(lifted, operands)

    PARAMETERS: ClassVar[inspect.Signature]


def _as_numbers(results: Any) -> Any:
    """Results of one element and one dimension as numbers."""
    if isinstance(results, tuple):
        return tuple(map(_as_numbers, results))
    return ops.reshape(results, shape=()) if results.shape == (1,) else results


def to_value(value: Any, element: Attribute | None = None) -> Value:
    """`value` (traced, array or number) as a traced tensor of dtype `element` at the current insertion point."""
    if not isinstance(value, Value):
        array = plain_array(value)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if element is not None and array.ndim == 0:
            array = array.astype(numpy_dtype(element))
        point = insertion_point()
        captured = None if point is None else point.captured(array)
        value = ops.constant(value=array) if captured is None else captured
    if element is not None and value.element_type != element:
        wide = exact(value)
        value = wide if wide.element_type == element else ops.cast(value, dtype=element)
    return value


@lru_cache(maxsize=1024)
def _number_attribute(kind: type[Any], text: str, element: Attribute) -> Attribute:
    """The array of dtype `element` and rank 0 that holds the number of type `kind` that prints as `text`."""
    number = text == "True" if kind is bool else kind(text)
    return array_attribute(np.asarray(number).astype(numpy_dtype(element)))


def to_scalar(value: Any, element: Attribute, where: str) -> Value:
    """`value` (a scalar value or a number) as a scalar of type `element` at the current insertion point."""
    if isinstance(value, Value):
        return convert(value, element)
    if not isinstance(value, bool | int | float | np.generic | np.ndarray):
        raise TypeError(f"{where} is a {type(value).__name__} where a value or a number is needed")
    number: Any = value  # one of NumPy's converts like one of Python's
    return scalar_constant(adopted(number, element, where), element)


def scalar_operands(cls: type[TensorOp], operands: Sequence[Any]) -> list[Value]:
    """Operands inside a body as scalars that agree as the op's promotion rule asks."""
    names = [f"{cls.name}: {operand.name}" for operand in cls.SIGNATURE.operands]
    given = [v if isinstance(v, Value) else _number(v, name) for v, name in zip(operands, names, strict=True)]
    promoted = [cls.PROMOTED is None or o.name in cls.PROMOTED for o in cls.SIGNATURE.operands]
    strong = [v.element_type for v, p in zip(given, promoted, strict=True) if p and isinstance(v, Value)]
    weak = [v for v, p in zip(given, promoted, strict=True) if p and not isinstance(v, Value)]
    common = common_element(strong, weak)
    result: list[Value] = []
    for operand, value, name, in_group in zip(cls.SIGNATURE.operands, given, names, promoted, strict=True):
        own = value.element_type if isinstance(value, Value) else common_element([], [value])
        target = common if in_group else own
        assert target is not None
        if not isinstance(target, IndexType):
            target = allowed_element(target, operand.constraint)
        result.append(to_scalar(value, target, name))
    return result


def _number(value: Any, where: str) -> bool | int | float:
    """What is known of a body's operand as a literal."""
    if is_literal(value):
        return value
    own_element(value, where)
    array = plain_array(value, where)
    if array.ndim:
        raise TypeError(f"{where} has shape {array.shape}, which a scalar body has no use for; index it there")
    return array.item()


@dataclass(frozen=True)
class _InfersByHook(InfersTypes):
    """What the hook `infer` of a tensor op says."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        assert isinstance(op, TensorOp)
        return op.infer_return_types()


def tensor_op(cls: TensorOpT) -> TensorOpT:
    """Make a class an op: an xDSL operation, an entry of the registry, and a function under the op's name.

    Raises `TypeError` when the class lacks what its family needs, `ValueError` when another module has taken the name.
    """
    if not (isinstance(cls, type) and issubclass(cls, TensorOp)):  # pyright: ignore[reportUnnecessaryIsInstance]
        shown = getattr(cls, "__name__", repr(cls))
        raise TypeError(f"tensor_op: {shown} is no class of a family of ops, such as ElementwiseOp or CompositeOp")
    if "." not in cls.name:
        raise TypeError(f"{cls.__name__}: name {cls.name!r} lacks a dialect; write 'mine.{cls.name}', for example")
    request_segments(cls)
    if not any("traits" in vars(parent) for parent in cls.__mro__ if issubclass(parent, TensorOp)):
        cls.traits = traits_def(Pure())
    # xDSL reads class annotations; a class without any has none of its own.
    if "__annotations__" not in vars(cls):
        cls.__annotations__ = {}
    defined = irdl_op_definition(cls)
    defined.traits.add_trait(_InfersByHook())
    defined.SIGNATURE = read_signature(defined)
    defined.PARAMETERS = defined.SIGNATURE.parameters()
    defined.KNOWN = KnownResults()
    defined.check_family()
    if defined.has_trait(NoGradient) and "vjp" in vars(defined):
        raise TypeError(f"{defined.__name__} ({defined.name}) has the trait NoGradient and defines vjp")
    if unknown := defined.LAYOUTS.keys() - {*[o.name for o in defined.SIGNATURE.operands], *defined.SIGNATURE.results}:
        names = ", ".join(sorted(unknown))
        raise TypeError(f"{defined.__name__} ({defined.name}): LAYOUTS names {names}, which it does not declare")
    if defined.LAYOUTS and defined.laid_out is TensorOp.laid_out:
        raise TypeError(f"{defined.__name__} ({defined.name}) states LAYOUTS and must define `laid_out`")
    register(defined, _function(defined))
    return defined


def _function(cls: type[TensorOp]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return cls.apply(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    function.__name__ = function.__qualname__ = cls.name.rpartition(".")[2]
    # where it is found, by pickle too
    function.__module__ = "tenon"
    function.__doc__ = cls.__doc__
    function.__signature__ = cls.PARAMETERS  # pyright: ignore[reportFunctionMemberAccess]
    function.op = cls  # pyright: ignore[reportFunctionMemberAccess]
    return function
