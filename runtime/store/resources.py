"""Arrays that a module names and its text keeps apart, in the section of resources behind it.

An argument of `@main` with the attribute `tenon.resource = dense_resource<name>` is an array of the module's own, such
as a weight: whoever runs the module does not pass it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import IO, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import ArrayAttr, Builtin, DenseResourceAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Dialect

from tenon.dialects.types.types import RESOURCE, element_of, numpy_dtype, shape_of
from tenon.runtime.arguments.interface import main_function

# A blob begins with its alignment, four bytes little-endian.
_HEADER_BYTES = 4
_CHUNK = 1 << 20


def builtin_dialect() -> Dialect:
    """The builtin dialect with a store of resources of its own, for one context: one that is shared would hold the data
    of every module that was ever read, and mistake what they give one name.
    """
    return Dialect(Builtin.name, [*Builtin.operations], [*Builtin.attributes], [OpAsmDialectInterface()])


def attach_resources(module: ModuleOp, names: Mapping[int, str]) -> dict[str, int]:
    """Mark the arguments of `@main` at these positions as resources; the resources' names and their positions."""
    main = main_function(module)
    arguments = main.body.block.args
    marks: list[dict[str, Any]] = [{} for _ in arguments]
    positions: dict[str, int] = {}
    for position, name in names.items():
        resource = _unique(re.sub(r"\W", "_", name, flags=re.ASCII), positions)
        positions[resource] = position
        type_: Any = arguments[position].type
        marks[position][RESOURCE] = DenseResourceAttr.from_params(resource, type_)
    main.arg_attrs = ArrayAttr([DictionaryAttr(mark) for mark in marks])
    return positions


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    name = name if name and not name[0].isdigit() else f"r{name}"
    number, result = 0, name
    while result in taken:
        number += 1
        result = f"{name}_{number}"
    return result


def write_module(file: IO[str], module: ModuleOp, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write the text of a module, and behind it the arrays that its resources name."""
    file.write(f"{module!s}\n")
    if not arrays:
        return
    file.write("\n{-#\n  dialect_resources: {\n    builtin: {\n")
    separator = ""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        if data.dtype.isbuiltin == 1:
            data = data.astype(data.dtype.newbyteorder("<"), copy=False)
        file.write(f'{separator}      {name}: "0x')
        separator = ",\n"
        file.write(data.dtype.itemsize.to_bytes(_HEADER_BYTES, "little").hex())
        flat = data.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, _CHUNK):
            file.write(flat[start : start + _CHUNK].tobytes().hex())
        file.write('"')
    file.write("\n    }\n  }\n#-}\n")


def take_resources(module: ModuleOp, context: Context) -> dict[int, np.ndarray[Any, Any]]:
    """The arrays of the arguments of `@main` that are resources, by position; their marks are removed.

    `context` is what the module was parsed in. Raises `ValueError` naming a resource whose data is missing or has
    another size than its type.
    """
    main = main_function(module)
    if main.arg_attrs is None:
        return {}
    store = context.get_dialect(Builtin.name).get_interface(OpAsmDialectInterface)
    found: dict[int, np.ndarray[Any, Any]] = {}
    remaining: list[DictionaryAttr] = []
    for position, attributes in enumerate(main.arg_attrs.data):
        resource = attributes.data.get(RESOURCE)
        if isinstance(resource, DenseResourceAttr):
            found[position] = _array(resource, main.body.block.args[position].type, store)
        remaining.append(DictionaryAttr({k: v for k, v in attributes.data.items() if k != RESOURCE}))
    main.arg_attrs = ArrayAttr(remaining) if any(marks.data for marks in remaining) else None
    return found


def _array(resource: DenseResourceAttr, type_: Any, store: OpAsmDialectInterface | None) -> np.ndarray[Any, Any]:
    name = resource.resource_handle.data
    text = None if store is None else store.lookup(name)
    if not text:
        raise ValueError(f"resource {name} has no data; it belongs into the section of resources behind the module")
    shape, dtype = shape_of(type_), numpy_dtype(element_of(type_))
    try:
        data = np.frombuffer(bytes.fromhex(text.removeprefix("0x")), np.uint8)[_HEADER_BYTES:]
    except ValueError:
        raise ValueError(f"resource {name} is not a hexadecimal string") from None
    if shape is None or any(size < 0 for size in shape) or data.size != prod(shape) * dtype.itemsize:
        raise ValueError(f"resource {name} has {data.size} bytes of data, which is not the size of {type_}")
    stored = dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype
    return data.copy().view(stored).astype(dtype, copy=False).reshape(shape)
