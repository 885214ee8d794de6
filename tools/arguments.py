"""Arguments of programs on the command line: read or generated, and fitted to what a program takes."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


def parse_argument(spec: str) -> list[np.ndarray[Any, Any]]:
    """The arrays that one `--args` entry stands for; see the help of `tenon run`."""
    kind, _, rest = spec.partition(":")
    if kind in ("zeros", "ones", "random", "iota") and rest:
        return [_generated(kind, rest)]
    path = Path(spec)
    if path.suffix in (".npy", ".npz"):
        return _loaded(path)
    try:
        number = float(spec)
    except ValueError:
        raise ValueError(
            f"argument {spec!r} is neither a .npy or .npz file, nor a number, nor like random:4x3xf32"
        ) from None
    return [np.asarray(int(spec) if spec.lstrip("+-").isdigit() else number)]


def _loaded(path: Path) -> list[np.ndarray[Any, Any]]:
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy":
                arrays = [np.load(file, allow_pickle=False)]
            else:
                with np.load(file, allow_pickle=False) as archive:
                    arrays = [archive[name] for name in archive.files]
    except (ValueError, EOFError, zipfile.BadZipFile):
        # NumPy advises to allow pickles, which would run whatever code is in the file.
        raise ValueError(f"{path} is not a {path.suffix} file of numbers") from None
    # A file may have been written on a machine of the other byte order.
    return [a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("=")) for a in arrays]


def _generated(kind: str, text: str) -> np.ndarray[Any, Any]:
    from tenon.dialects.types.types import element_type, numpy_dtype

    text, _, seed = text.partition(":")
    *sizes, dtype = text.split("x")
    try:
        if wrong := [size for size in sizes if not size.isdecimal()]:
            raise ValueError(f"{wrong[0]!r} is no size")
        shape, element = tuple(int(s) for s in sizes), numpy_dtype(element_type(dtype))
        if seed and not seed.isdecimal():
            raise ValueError(f"seed {seed!r} is no number")
        generator = np.random.default_rng(int(seed or "0"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{kind}:{text}: {error}; write shape and dtype like {kind}:4x3xf32") from None
    count = prod(shape)
    try:
        return _values(kind, count, element, generator).reshape(shape)
    except (MemoryError, ValueError, OverflowError):
        needed = f"{count} elements take {count * element.itemsize} bytes"
        raise ValueError(f"{kind}:{text}: {needed}, which cannot be allocated") from None


def _values(kind: str, count: int, element: np.dtype[Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    if kind == "random":
        if stand_in(element).kind in "iub":
            values = generator.integers(
                0, 2 if element.kind == "b" else min(10, ml_dtypes.iinfo(element).max + 1), count
            )
        else:
            values = generator.standard_normal(count)
    else:
        values = {"zeros": np.zeros, "ones": np.ones, "iota": np.arange}[kind](count)
    return values.astype(element)


def fit_inputs(model: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """`given` as inputs of an ONNX model: numbers take the dtype that is declared, and so does what stands for a dtype
    that no file holds."""
    declared = [info.dtype for info in model.inputs] + [None] * len(given)
    return [
        array if dtype is None else converted(array, dtype, f"argument {position} of the model")
        for position, (array, dtype) in enumerate(zip(given, declared, strict=False))
    ]


def converted(array: np.ndarray[Any, Any], dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    """`array` in `dtype`, if it is a number (of rank 0), or what stands for that dtype in files; any other array as it
    is.

    Raises `ValueError` for numbers that an integer dtype does not have.
    """
    if array.ndim and (dtype.isbuiltin == 1 or array.dtype != stand_in(dtype)):
        return array
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    if stand_in(dtype).kind in "iub" and not np.array_equal(result.astype(stand_in(dtype)), array):
        raise ValueError(f"{where} is {dtype}, got {array}")
    return result


def stand_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What stands for `dtype` in a .npy file: that itself, where NumPy has it; f32, i8 or u8 for those of ml_dtypes."""
    if dtype.isbuiltin == 1:
        return dtype
    try:
        return np.dtype(np.int8 if ml_dtypes.iinfo(dtype).min < 0 else np.uint8)
    except ValueError:
        return np.dtype(np.float32)


def fit_arguments(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """`given` checked against the parameters of `@main`, and numbers converted to their dtypes.

    Raises `ValueError` naming the parameter, what it takes and what was given.
    """
    from xdsl.dialects.builtin import IndexType, MemRefType

    from tenon.dialects.definition.signedness import external_elements
    from tenon.dialects.support.frozen_arguments import prepare_function
    from tenon.dialects.types.types import array_type, element_of, numpy_dtype
    from tenon.runtime.arguments.arguments import as_array
    from tenon.runtime.arguments.interface import Interface, main_function, takes_buffers

    main = main_function(module)
    names = [a.name_hint or str(i) for i, a in enumerate(main.body.block.args)]
    types: list[Any] = list(main.function_type.inputs)
    if "num_inputs" in main.attributes or prepare_function(main) is not None:
        types = types[: len((Interface.of if takes_buffers(module) else Interface.of_tensors)(module).inputs)]
    if any(isinstance(t, IndexType) for t in types):
        raise ValueError("@main takes sizes as arguments; run what it was made from: the file at the tensor stage")
    for name, type_ in zip(names, types, strict=False):
        if isinstance(type_, MemRefType) and not takes_buffers(module):
            raise ValueError(
                f"argument {name} of @main is {type_}, and which arguments are inputs and which outputs is said "
                "nowhere: the attributes num_inputs and num_outputs of @main do (docs/ir-stages.md)"
            )
    if len(given) != len(types):
        raise ValueError(f"@main takes {len(types)} arguments ({', '.join(map(str, types))}), got {len(given)}")
    external = external_elements(main)
    elements = [t.element_type for t in types] if external is None else external[0]
    fitted: list[np.ndarray[Any, Any]] = []
    for name, type_, element, array in zip(names, types, elements, given, strict=False):
        try:
            wanted = numpy_dtype(element)
        except TypeError as error:
            raise ValueError(f"argument {name} of @main: {error}") from None
        array = as_array(array, f"argument {name} of @main")
        array = converted(array, wanted, f"argument {name} of @main")
        have = array_type(array)
        if array.dtype != wanted or not _fits(type_, array):
            raise ValueError(f"argument {name} of @main is {type_}, got {element_of(have)}{list(array.shape)}")
        fitted.append(array)
    return fitted


def specialize_to(module: Any, given: Sequence[np.ndarray[Any, Any]]) -> None:
    """Let unknown dimensions of a module on tensors take the sizes of the arguments."""
    from tenon.dialects.types.types import array_type, is_static
    from tenon.passes.simplify.dce import erase_unreachable_functions
    from tenon.passes.transform.specialize import specialize
    from tenon.runtime.arguments.interface import main_function

    main = main_function(module)
    if "num_inputs" not in main.attributes and not all(is_static(t) for t in main.function_type.inputs):
        specialize(main, [array_type(array) for array in given])
        # Called functions were copied for these sizes.
        erase_unreachable_functions(module, "main")


def _fits(type_: Any, array: np.ndarray[Any, Any]) -> bool:
    from tenon.dialects.types.types import shape_of

    shape = tuple(type_.get_shape()) if hasattr(type_, "layout") else shape_of(type_)
    return shape is None or (
        len(shape) == array.ndim and all(s < 0 or s == n for s, n in zip(shape, array.shape, strict=True))
    )
