"""What type checkers and editors see: stubs made from the definitions of ops.

    python -m tenon.tools.stubs                       writes those of the package
    python -m tenon.tools.stubs --ops mine.py FOLDER  writes those of a program with ops of its own to FOLDER

`tenon/__init__.pyi` has the functions and everything else under the name `tenon`, and `methods.pyi` the methods of
traced values and of tensors. Operands are of any type; settings have theirs, and what is not one of their choices is
an error of the type checker.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import tenon
from tenon.dialects.definition.registry import find_function, function_names
from tenon.dialects.definition.settings import REQUIRED, SettingConstraint
from tenon.dialects.definition.tensor_op import TensorOp

METHODS = "dialects/definition/methods.pyi"
_ROOT = Path(tenon.__file__).parent
_MADE = '"""Made from the definitions of ops by `python -m tenon.tools.stubs`."""\n'
# Names of types in annotations: `tenon` has functions and dtypes under the names of some of Python's own.
_IMPORTS = """
import builtins as _b
from collections.abc import Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal
"""
_INTEGERS = "_b.int | _Sequence[_b.int]"
_KINDS = {
    "int": "_b.int",
    "float": "_b.float",
    "bool": "_b.bool",
    "str": "_b.str",
    "tuple[int, ...]": _INTEGERS,
    "tuple[int, ...] | str": f"{_INTEGERS} | _b.str",
}
_BUILTIN = re.compile(r"\b(int|float|bool|str|tuple|list|dict|object)\b")
_BASES = ("tenon.dialects.families", "tenon.dialects.definition.tensor_op")
_CHECKED = {"Kernel", "tensor_op"}
_SIMPLE = re.compile(r"(?:int|float|bool|str|None|tuple\[int, \.\.\.\]|object|[| ])+")
_UNTOLD = ("input", "x")
"""Names of first operands: what is called so is given by position."""


def package_stubs() -> dict[str, str]:
    """The stubs of the package by path in it."""
    return {"__init__.pyi": _front(), METHODS: _methods()}


def _front() -> str:
    lines = [_MADE, _IMPORTS]
    where = {**vars(tenon)["_WHERE"], "knobs": "tenon.runtime.knobs"}
    bases = {name for name, module in where.items() if module.startswith(_BASES)} - _CHECKED
    lines += [f"from {module} import {name} as {name}" for name, module in sorted(where.items()) if name not in bases]
    lines += [f"from {module} import {own} as _{own}" for module, own in vars(tenon)["_RENAMED"].values()]
    # in a folder of its own, the stub itself would be meant by `from tenon`
    lines += [f"import tenon.{name} as _{name}\n{name} = _{name}" for name in vars(tenon)["_MODULES"]]
    lines += ["", "__version__: _b.str", *[f"{name} = _{own}" for name, (_, own) in vars(tenon)["_RENAMED"].items()]]
    # hooks of ops name their operands, which overrides of checked base classes may not
    lines += [f"class {name}(_Any): ..." for name in sorted(bases)]
    lines.append("")
    for name in _functions(lambda name: name not in where):
        lines += _function(name)
    return "\n".join(lines) + "\n"


def _methods() -> str:
    value = {*vars(import_module("tenon.dialects.definition.value").Value)}
    tensor_classes = import_module("tenon.eager.tensor").Tensor.__mro__
    tensor = {name for cls in tensor_classes for name in vars(cls) if not hasattr(vars(cls)[name], "op")}
    lines = [_MADE, "from typing import Self as _Self", _IMPORTS]
    lines += ["class Methods:", '    """What traced values and tensors have."""', ""]
    for name in _functions(lambda name: _is_method(name) and name not in value | tensor):
        lines += _method(name)
    lines += ["class ValueMethods(Methods):", '    """What traced values have."""', ""]
    for name in _functions(lambda name: _is_method(name) and name in tensor - value):
        lines += _method(name)
    lines += [
        "class TensorMethods(Methods):",
        '    """What tensors have: names as in PyTorch, and methods in place."""',
        "",
    ]
    for name in _functions(lambda name: _is_method(name) and name not in tensor):
        if name in value:
            lines += _method(name)
        if f"{name}_" not in tensor and _has_one_result(name):
            lines += _method(name, "_")
    return "\n".join(lines) + "\n"


def _functions(wanted: Callable[[str], bool]) -> list[str]:
    return sorted(name for name in function_names() if name.isidentifier() and wanted(name))


def _is_method(name: str) -> bool:
    """Whether the first argument of the function is a tensor."""
    op = _op(name)
    if op is not None:
        return bool(op.SIGNATURE.operands) and op.SIGNATURE.operands[0].arity == "one"
    first = next(iter(inspect.signature(_found(name)).parameters.values()), None)
    return first is not None and first.name in ("x", "array")


def _found(name: str) -> Any:
    function = find_function(name)
    assert function is not None
    return function


def _op(name: str) -> type[TensorOp] | None:
    return getattr(_found(name), "op", None)


def _has_one_result(name: str) -> bool:
    op = _op(name)
    return op is not None and len(op.SIGNATURE.results) == 1 and not op.SIGNATURE.variadic_results


def _function(name: str) -> Iterator[str]:
    parameters = list(_parameters(name, ["out"] if _op(name) is not None else []))
    yield from _definition(name, name, parameters, "_Any", "")


def _method(name: str, suffix: str = "") -> Iterator[str]:
    parameters = ["self", *list(_parameters(name))[1:]]
    yield from _definition(name, name + suffix, parameters, "_Self" if _has_one_result(name) else "_Any", "    ")


def _definition(name: str, called: str, parameters: Sequence[str], result: str, indent: str) -> Iterator[str]:
    head = f"{indent}def {called}({', '.join(parameters)}) -> {result}:"
    if called != name:
        yield f"{head} ..."
        return
    text = inspect.cleandoc(_found(name).__doc__ or "").split("\n\n")[0]
    shown = text.replace("\\", "\\\\").replace('"""', "'''").replace("\n", f"\n{indent}    ")
    yield head
    yield f'{indent}    """{shown}"""'


def _parameters(name: str, also: Sequence[str] = ()) -> Iterator[str]:
    """The parameters of the function as text, with those that are called otherwise, and `also` some."""
    function, op = _found(name), _op(name)
    given = list((op.PARAMETERS if op is not None else inspect.signature(function)).parameters.values())
    settings = op.SIGNATURE.settings if op is not None else {}
    other: Mapping[str, Any] = op.OTHER_NAMES if op is not None else getattr(function, "other_names", {})
    keywords = {theirs: own for theirs, own in other.items() if theirs not in _UNTOLD}
    # an argument that may be called otherwise need not be given under its own name
    renamed = {own for own in keywords.values() if isinstance(own, str)}
    is_open = is_optional = False
    for parameter in given:
        if parameter.kind is parameter.VAR_KEYWORD:
            yield f"**{parameter.name}: _Any"
            return
        if parameter.kind is parameter.VAR_POSITIONAL:
            is_open = True
            yield f"*{parameter.name}: _Any"
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_open:
            is_open = True
            yield "*"
        has_default = parameter.default not in (parameter.empty, REQUIRED) or parameter.name in renamed
        is_optional = not is_open and (is_optional or has_default)
        default = " = ..." if has_default or is_optional else ""
        yield f"{parameter.name}: {_type(parameter, settings.get(parameter.name))}{default}"
    others = [other for other in (*keywords, *also) if other not in {parameter.name for parameter in given}]
    if others and not is_open:
        yield "*"
    yield from [f"{other}: _Any = ..." for other in others]


def _type(parameter: inspect.Parameter, constraint: SettingConstraint | None) -> str:
    if constraint is None:
        text = str(parameter.annotation)
        return _BUILTIN.sub(r"_b.\1", text) if _SIMPLE.fullmatch(text) else "_Any"
    choices = constraint.choices
    if choices is not None and all(isinstance(choice, str | int) for choice in choices):
        found = f"_Literal[{', '.join(map(repr, choices))}]"
    else:
        found = _KINDS.get(constraint.kind.name, "_Any")
    return f"{found} | None" if constraint.default is None and found != "_Any" else found


@click.command(help=__doc__)
@click.option("--ops", multiple=True, help="A file or module whose ops are to be known.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def main(ops: tuple[str, ...], folder: Path | None) -> None:
    from tenon.runtime.user_ops import import_ops

    for source in ops:
        import_ops(source)
    if (ops and folder is None) or (folder is not None and folder.resolve() == _ROOT):
        raise click.UsageError("stubs with ops of yours need a folder of their own, such as typings")
    for name, text in package_stubs().items():
        path = _ROOT / name if folder is None else folder / "tenon" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
