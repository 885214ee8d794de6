"""Calls of Python from LLVM IR: a function of the process gets what is to be called, as text, and where arrays are. A
native function that computes the same is asked first."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, StringAttr
from xdsl.dialects.func import FuncOp

from tenon.lowering.llvm.function import ModuleParts, braces

CALL_HOST = "tenon_call_host"


def host_call(function: FuncOp, parts: ModuleParts) -> str:
    """A function of the memory of arrays that passes its addresses on, with the text of its declaration."""
    name, count = function.sym_name.data, len(function.function_type.inputs)
    text = str(function).encode() + b"\0"
    # all bytes as numbers: names in it are none of this module
    literal = "".join([f"\\{byte:02X}" for byte in text])
    parts.declarations[f"declare void @{CALL_HOST}(ptr, ptr)"] = None
    parts.functions.append(f'@{name}.text = private unnamed_addr constant [{len(text)} x i8] c"{literal}"')
    lines = [f"%arrays = alloca ptr, i64 {count + 1}, align 8"]
    for number in range(count):
        lines.append(f"%at{number} = getelementptr ptr, ptr %arrays, i64 {number}")
        lines.append(f"store ptr %a{number}, ptr %at{number}, align 8")
    lines += [*_asked_first(function, parts), f"call void @{CALL_HOST}(ptr @{name}.text, ptr %arrays)", "ret void"]
    parameters = ", ".join([f"ptr %a{number}" for number in range(count)])
    return braces(f"define internal void @{name}({parameters}) {{", lines)


def _asked_first(function: FuncOp, parts: ModuleParts) -> list[str]:
    """The call of the native function that may do it in the place of Python, and what leaves if it has."""
    symbol, sizes = function.attributes.get("native"), function.attributes.get("native_sizes")
    if not isinstance(symbol, StringAttr) or not isinstance(sizes, DenseArrayBase):
        return []
    numbers = sizes.get_values()
    parts.declarations[f"declare i1 @{symbol.data}({', '.join(['ptr', *['i64'] * len(numbers)])})"] = None
    given = ", ".join(["ptr %arrays", *[f"i64 {number}" for number in numbers]])
    return [
        f"%is_done = call i1 @{symbol.data}({given})",
        "br i1 %is_done, label %done, label %python",
        "done:",
        "ret void",
        "python:",
    ]
