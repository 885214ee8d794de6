"""The text of a kernel that brings LLVM IR of its own (`llvm_source`), as part of a module.

It defines the kernel as it is called: `void`, with a pointer for each operand and result. Anything else would be read
as that all the same, so it is an error. What else it defines gets names that begin with the kernel's, since other
kernels may have the same; what it declares is declared once in the module.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp

from tenon.dialects.families.opaque import kernel_of, split_parameters, wrong_parameters
from tenon.lowering.llvm.function import ModuleParts

DECLARATION = re.compile(r"\s*declare\b.*?@([\w.$-]+|\"[^\"]*\")\s*\(")
_DEFINITION = re.compile(
    r"(?<![\w.$@%-])define\b(?P<before>[^@]*)@(?P<name>\"[^\"]*\"|[\w.$-]+)\s*"
    r"\((?P<parameters>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"  # attributes of parameters have parentheses, too
    r"(?:\"[^\"]*\"|[^{\"])*\{"
)
_VARIABLE = re.compile(r"^\s*@(\"[^\"]*\"|[\w.$-]+)\s*=", re.MULTILINE)
_NAME = re.compile(r"(?<!@)\"[^\"]*\"|@(\"[^\"]*\"|[\w.$-]+)")
_COMMENT, _BRACE = re.compile(r"(\"[^\"]*\")|;[^\n]*"), re.compile(r"\"[^\"]*\"|[{}]")


def given_text(function: FuncOp, parts: ModuleParts) -> str:
    """The text; raises `ValueError` naming op and kernel where it does not define this, or not as it is called."""
    source = function.attributes.get("llvm_source")
    if not isinstance(source, StringAttr):
        refused = function.attributes["llvm_refused"]
        assert isinstance(refused, StringAttr)
        raise ValueError(refused.data)
    text = _COMMENT.sub(r"\1", source.data)
    _check(function, text)
    kept: list[str] = []
    for line in _by_lines(_with_own_names(text, function.sym_name.data)):
        declared = DECLARATION.match(line)
        if declared is None:
            kept.append(line)
        else:
            parts.given_declarations.setdefault(declared[1], line)
    return "\n".join(kept)


def _check(function: FuncOp, text: str) -> None:
    """Raise unless the text defines the kernel, once, as `void` with a pointer for each argument."""
    symbol, where = function.sym_name.data, kernel_of(function, "llvm")
    found = [(definition["name"].strip('"'), definition) for definition in _DEFINITION.finditer(text)]
    defined = dict(found)
    if symbol not in defined:
        raise ValueError(f"{where} does not define @{symbol}")
    if twice := [name for name, definition in found if defined[name] is not definition]:
        raise ValueError(f"{where} defines @{twice[0]} more than once")
    before, parameters = defined[symbol]["before"].split(), split_parameters(defined[symbol]["parameters"])
    count = len(function.function_type.inputs)
    convention = [word for word in before if word == "cc" or re.fullmatch(r"\w+cc(\d+)?|cc\d+", word)]
    are_pointers = all(re.match(r"ptr\b(?!\s*addrspace)", parameter) for parameter in parameters)
    if before[-1:] == ["void"] and len(parameters) == count and are_pointers and not convention:
        return
    raise wrong_parameters(function, "llvm", " ".join(before), parameters)


def _with_own_names(text: str, symbol: str) -> str:
    """The text with names of its own for all that it defines besides the kernel."""
    own = {found["name"] for found in _DEFINITION.finditer(text)} | {*_VARIABLE.findall(text)}
    renamed = {name: f'"{symbol}.{name[1:]}' if name[0] == '"' else f"{symbol}.{name}" for name in own}
    renamed.pop(symbol, None)
    renamed.pop(f'"{symbol}"', None)
    if not renamed:
        return text
    return _NAME.sub(lambda found: f"@{renamed[found[1]]}" if found[1] in renamed else found[0], text)


def _by_lines(text: str) -> list[str]:
    """The lines of a text without comments, in which the header of each definition, and the brace that ends it, get
    lines of their own: by these `llvm_parts` tells functions apart."""
    lines, rest = list[str](), text
    while (begun := _DEFINITION.search(rest)) is not None:
        end = _closing_brace(rest, begun.end())
        lines += [*rest[: begun.start()].splitlines(), " ".join(begun[0].splitlines())]
        lines += [*rest[begun.end() : end].splitlines(), *rest[end : end + 1]]
        rest = rest[end + 1 :]
    return [*lines, *rest.splitlines()]


def _closing_brace(text: str, start: int) -> int:
    """Where the brace is that closes one opened before `start`; the end where there is none."""
    depth = 1
    for token in _BRACE.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if not depth:
            return token.start()
    return len(text)
