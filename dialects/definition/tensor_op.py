"""`TensorOp`, the class that every op derives from, and the decorator that derives the rest.

An op class declares operands, settings and results and gives its family's hooks; `@tensor_op` makes it an xDSL
operation with a readable text form, a verifier and a function, and puts it into the registry. Nothing else is edited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tenon.dialects.definition.assembly import parse_op, print_op
from tenon.dialects.definition.autocast import as_autocast, autocast_element
from tenon.dialects.definition.keywords import Meaning, MeantOtherwise, other_names
from tenon.dialects.definition.memo import KnownResults
from tenon.dialects.definition.operands import lifted, operand_elements, shaped
from tenon.dialects.definition.operation import DeclaredOp
from tenon.dialects.definition.promotion import exact, is_literal, is_weak, weakened
from tenon.dialects.definition.registry import evaluate, register
from tenon.dialects.definition.scalar import as_index
from tenon.dialects.definition.signature import (
    check_call,
    check_hook,
    check_names,
    flat,
    map_grouped,
    read_signature,
    request_segments,
)
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.definition.type_inference import InfersTypes
from tenon.dialects.definition.value import Value, emit, insertion_point, ops, origin
from tenon.dialects.support.user_traceback import hide_own_frames, shows_user_frames
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import i64

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import PatternRewriter

_PLAIN: frozenset[type[Any]] = frozenset((Value, np.ndarray, float, int, bool))
"""Operands that are taken as they are."""

TensorOpT = TypeVar("TensorOpT", bound="type[TensorOp]")


class TensorOp(DeclaredOp):
    """An operation on tensors. Hooks are pure functions of operands (absent optional ones are `None`, variadic ones
    tuples) and, as keywords, of settings.

    An op is `Pure` unless its class states traits of its own; one that states them without `Pure` has effects: it is
    neither removed when its results are unused, nor merged with an equal one.
    """

    ALIASES: ClassVar[tuple[str, ...]] = ()
    # Whether users find the op as a function; one without is built by `apply` where something else is the front.
    HAS_FUNCTION: ClassVar[bool] = True
    # What a call may name besides: another name of an argument, or what changes operands and settings; see `keywords`.
    KEYWORDS: ClassVar[dict[str, str | Meaning]] = {}
    # These, and PyTorch's names of arguments; made by `tensor_op`.
    OTHER_NAMES: ClassVar[Mapping[str, str | Meaning]] = {}
    # Whether a result is weak where all operands are (`weak_float`).
    KEEPS_WEAK: ClassVar[bool] = False
    # The orders of dimensions that the op asks to have in memory, by names of operands and results; see `laid_out`.
    LAYOUTS: ClassVar[dict[str, tuple[int, ...]]] = {}
    PARAMETERS: ClassVar[inspect.Signature]

    # --- hooks ------------------------------------------------------------------------------------

    @staticmethod
    def laid_out(*operands: Any, **settings: Any) -> Any:
        """The op on operands that are transposed into the orders of `LAYOUTS`, giving results in theirs.

        The pass `layout` puts this into the place of the op, with the transposes that it takes around it.
        """
        raise NotImplementedError("an op that states LAYOUTS defines laid_out")

    def reordered(self, order: tuple[int, ...]) -> dict[str, Any] | None:
        """The settings of the op that gives the one result with its axes in `order` (axis i is axis `order[i]` of now)
        from operands with theirs in the same order, their axes counted from the last one of the result as in
        broadcasting. With `None`, which is given here, the axes stay as they are.
        """
        return None

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

    # --- the op in text ---------------------------------------------------------------------------

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
        operands, settings = cls.bind(args, kwargs)
        if cls.AUTOCAST is not None and (low := autocast_element()) is not None:
            operands = as_autocast(cls, operands, low)
        given = flat(operands)
        point = insertion_point()
        if point is not None and (face := _face_in_trace(given)) is not None:
            return face(cls, operands, settings)
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
                raise TypeError(f"{cls.name}: a traced value{origin(values[0])} is used after its trace ended")
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

    @staticmethod
    def in_parts(*operands: Any, **settings: Any) -> Any:
        """The same, outside of traces, by calls of few operands each; `None` where one call is meant."""

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
    def bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The operands of a call, in groups, and its settings; raises `TypeError` for arguments that do not fit."""
        try:
            declared = cls.SIGNATURE.operands
        except AttributeError:
            raise TypeError(f"{cls.__name__} is no op yet: write @tensor_op above its class") from None
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
        kwargs, meanings = cls._own_names(kwargs)
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
                value = (
                    cls._arrays(value, operand.name) if operand.arity == "variadic" else cls._array(value, operand.name)
                )
            operands.append(value)
        for meaning, value in meanings:
            meaning(operands, given, value)
        return operands, given

    @classmethod
    def _own_names(cls, kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[Meaning, Any]]]:
        """Keywords of a call by the names of the op's own arguments, and what else is to be done with which value."""
        if not kwargs or cls.OTHER_NAMES.keys().isdisjoint(kwargs):
            return kwargs, []
        own: dict[str, Any] = {}
        meanings: list[tuple[Meaning, Any]] = []
        for name, value in kwargs.items():
            meaning = cls.OTHER_NAMES.get(name, name)
            if callable(meaning):
                meanings.append((meaning, value))
            elif meaning in own or (meaning != name and meaning in kwargs):
                raise TypeError(f"{cls.name}: argument {meaning!r} is given twice")
            else:
                own[meaning] = value
        return own, meanings

    @classmethod
    def _array(cls, value: Any, name: str) -> Any:
        """The array of an operand that is given as a nested sequence of numbers, some of which may be traced."""
        try:
            return shaped(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{cls.name}: {name}: {error}") from None

    @classmethod
    def _arrays(cls, values: Sequence[Any], name: str) -> tuple[Any, ...]:
        """The same for each of several operands."""
        return tuple(
            [cls._array(v, f"{name}[{i}]") if isinstance(v, list | tuple) else v for i, v in enumerate(values)]
        )

    @classmethod
    def operand_elements(cls, operands: Sequence[Any]) -> list[tuple[str, Attribute]]:
        """For each value of the operands, how errors name it and the dtype that it is converted to."""
        return cls.KNOWN.elements(operands, lambda: operand_elements(cls, operands))

    @classmethod
    def lift(cls, operands: Sequence[Any]) -> list[Any]:
        """Operands as tensor values of the dtypes that `operand_elements` gives."""
        targets = iter(cls.operand_elements(operands))

        def lift_one(value: Any) -> Value:
            where, element = next(targets)
            return lifted(value, element, where)

        return map_grouped(lift_one, operands)


def _face_in_trace(operands: Sequence[Any]) -> Any:
    """What computes an op in a trace for operands of which one stands for a traced value in a class of its own."""
    if _PLAIN.issuperset(map(type, operands)):
        return None
    return next((face for v in operands if (face := getattr(type(v), "__tenon_traced_op__", None)) is not None), None)


def _as_numbers(results: Any) -> Any:
    """Results of one element and one dimension as numbers."""
    if isinstance(results, tuple):
        return tuple(map(_as_numbers, results))
    return ops.reshape(results, shape=()) if results.shape == (1,) else results


@dataclass(frozen=True)
class _InfersByHook(InfersTypes):
    """What the hook `infer` of a tensor op says."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        assert isinstance(op, TensorOp)
        return op.infer_return_types()


# The hooks of all families, and what they are given before the operands.
_CALLED_WITH: dict[str, tuple[str, ...]] = {
    "infer": (),
    "vjp": ("g", "out"),
    "batch": ("size", "batched"),
    "laid_out": (),
    "check": (),
}


@shows_user_frames
def tensor_op(cls: TensorOpT) -> TensorOpT:
    """Make a class an op: an xDSL operation, an entry of the registry, and a function under the op's name.

    Raises `TypeError` when the class lacks what its family needs, `ValueError` when another module has taken the name.
    """
    if not (isinstance(cls, type) and issubclass(cls, TensorOp)):  # pyright: ignore[reportUnnecessaryIsInstance]
        shown = getattr(cls, "__name__", repr(cls))
        raise TypeError(f"tensor_op: {shown} is no class of a family of ops, such as ElementwiseOp or CompositeOp")
    if not isinstance(getattr(cls, "name", None), str):
        raise TypeError(f"{cls.__name__}: has no name; write name = 'mine.{cls.__name__.lower()}', for example")
    if "." not in cls.name:
        raise TypeError(f"{cls.__name__}: name {cls.name!r} lacks a dialect; write 'mine.{cls.name}', for example")
    check_names(cls, TensorOp)
    if cls.verify_ is not TensorOp.verify_:
        raise TypeError(
            f"{cls.__name__} ({cls.name}): verify_ looks at the results that infer gives; what else must hold is said "
            "by InferenceError in check, of settings, or in infer, of the types of operands"
        )
    for name, kind in (("ALIASES", tuple), ("KEYWORDS", dict), ("LAYOUTS", dict)):
        if not isinstance(given := getattr(cls, name), kind):
            raise TypeError(f"{cls.__name__} ({cls.name}): {name} is {given!r} where a {kind.__name__} is needed")
    request_segments(cls)
    if not any("traits" in vars(parent) for parent in cls.__mro__ if issubclass(parent, TensorOp)):
        cls.traits = traits_def(Pure())
    defined = irdl_op_definition(cls)
    defined.traits.add_trait(_InfersByHook())
    defined.SIGNATURE = read_signature(defined)
    defined.PARAMETERS = defined.SIGNATURE.parameters()
    defined.OTHER_NAMES = other_names(defined.SIGNATURE, defined.KEYWORDS)
    defined.KNOWN = KnownResults()
    _check_promoted(defined)
    defined.check_family()
    if isinstance(vars(defined).get("canonicalize"), staticmethod):
        check_call(defined, "canonicalize", ("op", "rewriter"), ())
    for hook in vars(defined).keys() & _CALLED_WITH.keys():
        check_hook(defined, defined.SIGNATURE, hook, _CALLED_WITH[hook], takes_operands=hook != "check")
    if defined.has_trait(NoGradient) and "vjp" in vars(defined):
        raise TypeError(f"{defined.__name__} ({defined.name}) has the trait NoGradient and defines vjp")
    if defined.AUTOCAST not in ("low", "full", None):
        raise TypeError(
            f"{defined.__name__} ({defined.name}): AUTOCAST is {defined.AUTOCAST!r} where 'low', 'full' or None is "
            "needed"
        )
    if unknown := defined.LAYOUTS.keys() - {*[o.name for o in defined.SIGNATURE.operands], *defined.SIGNATURE.results}:
        names = ", ".join(sorted(unknown))
        raise TypeError(f"{defined.__name__} ({defined.name}): LAYOUTS names {names}, which it does not declare")
    if defined.LAYOUTS and defined.laid_out is TensorOp.laid_out:
        raise TypeError(f"{defined.__name__} ({defined.name}) states LAYOUTS and must define `laid_out`")
    register(defined, _function(defined))
    return defined


def _check_promoted(cls: type[TensorOp]) -> None:
    """Raise `TypeError` where PROMOTED is not names of operands."""
    operands = [operand.name for operand in cls.SIGNATURE.operands]
    promoted: Any = operands if cls.PROMOTED is None else cls.PROMOTED
    if not isinstance(promoted, tuple | list) or not {*promoted} <= {*operands}:
        raise TypeError(
            f"{cls.__name__} ({cls.name}): PROMOTED is {promoted!r} where a tuple of names of operands is needed "
            f"(operands: {', '.join(operands)})"
        )


def _function(cls: type[TensorOp]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return cls.apply(*args, **kwargs)
        except Exception as error:
            if not isinstance(error, MeantOtherwise):
                hide_own_frames(error)
                raise
            meant = error.call
        return meant()

    function.__name__ = function.__qualname__ = cls.name.rpartition(".")[2]
    function.__module__ = "tenon"  # where it is found, by pickle too
    function.__doc__ = cls.__doc__
    function.__signature__ = cls.PARAMETERS  # pyright: ignore[reportFunctionMemberAccess]
    function.op = cls  # pyright: ignore[reportFunctionMemberAccess]
    return function
