"""What an op is in IR: its declared operands, settings and results, its inferred types and its verifier.

`TensorOp` adds the text form and the op as a function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from xdsl.dialects.builtin import DenseArrayBase, TensorType, UnrankedTensorType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.definition.memo import KnownResults, KnownSettings
from tenon.dialects.definition.settings import REQUIRED
from tenon.dialects.definition.signature import Signature
from tenon.dialects.definition.value import Value
from tenon.dialects.support.location import at_line
from tenon.dialects.types.shapes import InferenceError, check_addressable, compatible
from tenon.dialects.types.types import AnyTensor, element_of


class DeclaredOp(IRDLOperation, ABC):
    """An op as its class declares it: what builds it, infers its types and checks them."""

    SIGNATURE: ClassVar[Signature]
    KNOWN: ClassVar[KnownResults]
    # The operands that must have one dtype and are promoted to it; `None` is all of them.
    PROMOTED: ClassVar[tuple[str, ...] | None] = None
    # The function that users call where the op itself has none; errors at calls name it.
    FRONT: ClassVar[str] = ""
    # Where `autocast` holds: "low" to compute f32 in its dtype, "full" to compute f16 and bf16 in f32, or as it comes.
    AUTOCAST: ClassVar[Literal["low", "full"] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # xDSL takes an attribute without annotation for a field of the op.
        constants = {name: ClassVar[Any] for name in vars(cls) if name.isupper()}
        cls.__annotations__ = constants | vars(cls).get("__annotations__", {})
        super().__init_subclass__(**kwargs)

    @classmethod
    @abstractmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        """The result type (a tuple for several) from operand types and settings; raises `InferenceError`."""

    @staticmethod
    def check(**settings: Any) -> None:
        """Raise `InferenceError` for settings that are wrong whatever the operands."""

    @classmethod
    def called(cls) -> str:
        """What errors at calls name."""
        return f"tenon.{cls.FRONT}" if cls.FRONT else cls.name

    @classmethod
    def build_from(cls, operands: Sequence[Any], settings: dict[str, Any]) -> Self:
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
            except (TypeError, ValueError, OverflowError) as error:
                hint = "; name what decides it in static= of jit" if _holds_traced(value) else ""
                raise type(error)(f"{cls.name}: setting {name!r}: {error}{hint}") from None
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
            message, name = str(error), cls.called()
            where = "" if message.startswith(f"{name}:") else f"{name}: "
            raise InferenceError(where + message, error.sizes) from None
        except Exception as error:
            if (note := f"in {cls.called()}, whose result types are inferred") not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise
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


def _holds_traced(value: object) -> bool:
    """Whether a setting is a traced value, or has one among its entries."""
    return any(isinstance(entry, Value) for entry in (value if isinstance(value, list | tuple) else (value,)))
