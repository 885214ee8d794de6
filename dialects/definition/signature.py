"""What an op class declares, read off its xDSL definition: operands, settings, results."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Literal

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute
from xdsl.irdl import AttrSizedOperandSegments, AttrSizedResultSegments, IRDLOperation
from xdsl.irdl.constraints import AttrConstraint, RangeLengthConstraint
from xdsl.irdl.operations import OptOperandDef, OptResultDef, VarOperandDef, VarResultDef

from tenon.dialects.definition.settings import REQUIRED, SettingConstraint
from tenon.dialects.support.forking import cached_property
from tenon.dialects.support.suggestion import did_you_mean
from tenon.dialects.types.types import TensorConstraint

UPSTREAM_DIALECTS = frozenset(
    [
        "amx",
        "arith",
        "builtin",
        "func",
        "gpu",
        "linalg",
        "llvm",
        "math",
        "memref",
        "nvgpu",
        "nvvm",
        "scf",
        "tensor",
        "vector",
        "warpgroup",
    ]
)
"""Dialects that programs have ops of besides Tenon's and users'."""
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
Arity = Literal["one", "optional", "variadic"]


@dataclass(frozen=True)
class Operand:
    """One declared operand."""

    name: str
    constraint: TensorConstraint
    arity: Arity


@dataclass(frozen=True)
class Result:
    """One declared result; `constraint` is `None` where it is none on dtypes."""

    name: str
    constraint: TensorConstraint | None
    arity: Arity


@dataclass(frozen=True)
class Signature:
    """What an op class declares: operands, settings by name, results."""

    operands: tuple[Operand, ...]
    settings: dict[str, SettingConstraint]
    declared_results: tuple[Result, ...]

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        return tuple([result.name for result in self.declared_results])

    @cached_property
    def variadic_results(self) -> bool:
        """Whether one result stands for several."""
        return any(result.arity == "variadic" for result in self.declared_results)

    def parameters(self) -> inspect.Signature:
        """The Python signature of the op's function."""
        kind = inspect.Parameter
        # What may be left out has a default where nothing behind it is needed.
        needed = max([i for i, o in enumerate(self.operands, 1) if o.arity != "optional"], default=0)
        parameters = [
            kind(o.name, kind.POSITIONAL_OR_KEYWORD, default=kind.empty if i < needed else None)
            for i, o in enumerate(self.operands)
        ]
        required = [n for n, s in self.settings.items() if s.default is REQUIRED]
        optional = [n for n in self.settings if n not in required]
        seen_default = any(p.default is not kind.empty for p in parameters)
        for name in required:
            where = kind.KEYWORD_ONLY if seen_default else kind.POSITIONAL_OR_KEYWORD
            parameters.append(kind(name, where))
        keyword_only = seen_default and bool(required)
        for name in optional:
            where = kind.KEYWORD_ONLY if keyword_only else kind.POSITIONAL_OR_KEYWORD
            parameters.append(kind(name, where, default=self.settings[name].default))
        return inspect.Signature(parameters)

    def unknown_setting(self, op: str, name: str) -> str:
        """What is wrong where `op`, which declares this, is given the setting `name`."""
        known = ", ".join(self.settings) or "none"
        return f"{op}: unknown setting {name!r} (settings: {known}){did_you_mean(name, self.settings)}"

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the function's arguments, in order."""
        settings = sorted(self.settings, key=lambda name: self.settings[name].default is not REQUIRED)
        return (*[operand.name for operand in self.operands], *settings)

    @cached_property
    def is_plain(self) -> bool:
        """Whether every operand is one tensor."""
        return all(o.arity == "one" for o in self.operands)

    @cached_property
    def has_segments(self) -> bool:
        """Whether the op carries the sizes of its operand groups, because they cannot be told from their total."""
        return sum(o.arity != "one" for o in self.operands) > 1

    def group(self, flat: Sequence[Any], properties: dict[str, Attribute]) -> list[Any]:
        """A flat operand list grouped by declaration: tuples for variadic operands, `None` for absent ones."""
        declared = self.operands
        if self.has_segments:
            segments = properties["operandSegmentSizes"]
            assert isinstance(segments, DenseArrayBase)
            sizes = [int(v) for v in segments.get_values()]
        else:
            extra = len(flat) - sum(o.arity == "one" for o in declared)
            sizes = [1 if o.arity == "one" else extra for o in declared]
        grouped: list[Any] = []
        start = 0
        for operand, size in zip(declared, sizes, strict=True):
            part = tuple(flat[start : start + size])
            start += size
            grouped.append(part if operand.arity == "variadic" else part[0] if part else None)
        return grouped


def flat(grouped: Iterable[Any]) -> list[Any]:
    """The values of grouped operands in order: of a variadic one all, of an absent one none."""
    return [v for o in grouped for v in (o if isinstance(o, tuple) else () if o is None else (o,))]


def named(operands: Iterable[Operand], grouped: Iterable[Any]) -> list[tuple[Operand, str, Any]]:
    """For each value of grouped operands in order: what declares it, how errors call it, and the value."""
    return [
        (operand, f"{operand.name}[{i}]" if operand.arity == "variadic" else operand.name, value)
        for operand, given in zip(operands, grouped, strict=True)
        for i, value in enumerate(flat((given,)))
    ]


def map_grouped(function: Callable[[Any], Any], grouped: Iterable[Any]) -> list[Any]:
    """`function` of each value of grouped operands, in the same groups; an absent operand stays `None`."""
    return [
        tuple([function(v) for v in o]) if isinstance(o, tuple) else None if o is None else function(o) for o in grouped
    ]


def check_hook(
    cls: type[IRDLOperation],
    declared: Signature,
    hook: str,
    leading: Sequence[str] = (),
    *,
    takes_operands: bool = True,
) -> None:
    """Raise `TypeError` unless the class's `hook` can be called as it will be: with `leading` arguments, the operands
    (if it takes them), and the settings by name.
    """
    positional = [*leading, *([o.name for o in declared.operands] if takes_operands else [])]
    check_call(cls, hook, positional, declared.settings)


def check_call(cls: type[IRDLOperation], hook: str, positional: Sequence[str], named: Iterable[str]) -> None:
    """Raise `TypeError` unless the class's `hook`, which knows no instance, takes arguments of these names."""
    if isinstance(next(vars(c)[hook] for c in cls.__mro__ if hook in vars(c)), FunctionType):
        raise TypeError(f"{cls.__name__} ({cls.name}): {hook} must be a @staticmethod")
    function = getattr(cls, hook)
    if _has_exactly(function, len(positional), named):
        return
    try:
        parameters = inspect.signature(function)
    except ValueError:  # NumPy's functions, for example, do not say what they take
        return
    try:
        parameters.bind(*positional, **dict.fromkeys(named))
    except TypeError as error:
        given = ", ".join([*positional, *[f"{name}=" for name in named]])
        raise TypeError(f"{cls.__name__} ({cls.name}): {hook}{parameters} is given ({given}): {error}") from None


def check_names(cls: type[IRDLOperation], base: type[IRDLOperation]) -> None:
    """Raise `TypeError` where the name of a class cannot be read back from text, or where it declares an operand, a
    setting or a result by a name that every op, as `base` has it, uses for something else."""
    where = f"{cls.__name__} ({cls.name})"
    if not _NAME.fullmatch(cls.name):
        raise TypeError(f"{where}: its name may have letters, digits and underscores, and dots between them")
    if (dialect := cls.name.partition(".")[0]) in UPSTREAM_DIALECTS:
        raise TypeError(f"{where}: the dialect {dialect!r} is one of MLIR's; choose another name")
    for name, value in vars(cls).items():
        if type(value).__module__ == "xdsl.irdl.operations" and (what := _taken(name, base)):
            raise TypeError(f"{where}: {name!r} cannot be declared, as it is {what}; choose another name")


def _taken(name: str, base: type) -> str:
    """What a name means already that an operand, a setting or a result cannot have; nothing if it can."""
    if keyword.iskeyword(name):
        return "a keyword of Python's"
    if name in ("cls", "self"):
        return "what hooks call their class or op"
    if name == "out":
        return "the argument of calls that results are written to"
    of_every_op = hasattr(base, name) or any(name in vars(parent).get("__annotations__", ()) for parent in base.__mro__)
    return "something that ops have" if of_every_op else ""


def _has_exactly(function: Any, count: int, named: Iterable[str]) -> bool:
    """Whether a function has `count` parameters by position and `named` by name: the usual case, told in no time."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return code.co_argcount - isinstance(function, MethodType) == count and set(keywords) == set(named)


def _element_constraint(constraint: Any) -> Any:
    """The constraint on one operand, which xDSL wraps into constraints on the operand range."""
    while not isinstance(constraint, AttrConstraint):
        constraint = constraint.constraint if isinstance(constraint, RangeLengthConstraint) else constraint.constr
    return constraint


def read_signature(cls: type[IRDLOperation]) -> Signature:
    definition = cls.get_irdl_definition()
    operands: list[Operand] = []
    for name, declared in definition.operands:
        constraint = _element_constraint(declared.constr)
        if not isinstance(constraint, TensorConstraint):
            raise TypeError(f"{cls.name}: operand {name!r} needs a TensorConstraint such as FLOAT_TENSOR")
        arity: Arity = "one"
        if isinstance(declared, OptOperandDef):
            arity = "optional"
        elif isinstance(declared, VarOperandDef):
            arity = "variadic"
        operands.append(Operand(name, constraint, arity))
    settings: dict[str, SettingConstraint] = {}
    for name, declared in definition.properties.items():
        if isinstance(declared.constr, SettingConstraint):
            settings[name] = declared.constr
        elif name not in ("operandSegmentSizes", "resultSegmentSizes"):
            raise TypeError(f"{cls.name}: property {name!r} needs to be declared with setting(...)")
    results = tuple([_result(name, declared) for name, declared in definition.results])
    return Signature(tuple(operands), settings, results)


def _result(name: str, declared: Any) -> Result:
    constraint = _element_constraint(declared.constr)
    arity: Arity = "one"
    if isinstance(declared, OptResultDef):
        arity = "optional"
    elif isinstance(declared, VarResultDef):
        arity = "variadic"
    return Result(name, constraint if isinstance(constraint, TensorConstraint) else None, arity)


def request_segments(cls: type[IRDLOperation]) -> None:
    """Ask xDSL for segment sizes where several operands or results may be absent or repeated."""
    parents = [parent for parent in cls.mro() if issubclass(parent, IRDLOperation) and parent is not IRDLOperation]
    kinds = [getattr(value, "cls", None) for parent in parents for value in vars(parent).values()]
    several = sum(kind is VarOperandDef or kind is OptOperandDef for kind in kinds)
    results = sum(kind is VarResultDef for kind in kinds)
    options: list[Any] = []
    if several > 1:
        options.append(AttrSizedOperandSegments(as_property=True))
    if results > 1:
        options.append(AttrSizedResultSegments(as_property=True))
    if options:
        cls.irdl_options = tuple(options)  # pyright: ignore[reportAttributeAccessIssue]
