"""What an operator's function is given: its operands, and the node with its attributes and what is known of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from tenon.dialects.definition.value import Value
from tenon.dialects.types.size import Size

Operand = Value | np.ndarray[Any, Any]
"""A tensor of the graph: traced, or an array that is known already."""


class Nothing(Enum):
    """What an optional without a value holds."""

    NOTHING = "nothing"


NOTHING = Nothing.NOTHING
Content = Operand | list[Operand] | Nothing
"""What a name of the graph stands for: a tensor, a sequence, or an optional, which holds one of these or nothing."""


def kind_of(content: Content | None) -> str:
    """What errors call it: a tensor, a sequence or an empty optional."""
    return "sequence" if isinstance(content, list) else "empty optional" if content is NOTHING else "tensor"


TOO_DEEP = "functions and graphs are nested too deeply"
LARGEST_TENSOR = 2**38
"""A tensor of more bytes than this is refused while importing: no machine could hold it."""
LARGEST_ARRAY = 2**32
"""The same for arrays that are computed while importing."""


class OnnxError(ValueError):
    """A model cannot be read, imported or run; the message names the file or the node."""


class NeedsSizes(OnnxError):
    """An operator needs to know sizes that hang on those of inputs, which are open."""


class NeedsStep(OnnxError):
    """An operator needs to know a value that hangs on the step of a loop, or on what that carries."""


class NeedsValue(Exception):
    """An operator needs to know a value that hangs on these graph inputs: trace again with their values known."""

    def __init__(self, names: frozenset[str], message: str) -> None:
        super().__init__(message)
        self.names = names


# The numbers of `onnx.TensorProto.DataType` that Tenon stores.
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
}
_OTHER_DTYPES = {
    0: "undefined",
    8: "string",
    14: "complex64",
    15: "complex128",
    27: "float6e2m3",
    28: "float6e3m2",
}


def stored_dtype(code: int, where: str) -> np.dtype[Any]:
    """The dtype that ONNX numbers `code` (`TensorProto.DataType`); `where` begins the error if Tenon has none."""
    found = _DTYPES.get(code)
    if found is None:
        raise OnnxError(f"{where}: dtype {_OTHER_DTYPES.get(code, code)} is not supported")
    return found


def check_size(shape: Sequence[int], dtype: np.dtype[Any], where: str, limit: int = LARGEST_TENSOR) -> None:
    """Raise `OnnxError` for a tensor of more than `limit` bytes; sizes that are unknown, named or 0 count as 1."""
    needed = prod([max(int(size), 1) for size in shape if not isinstance(size, Size)]) * dtype.itemsize
    if needed > limit:
        raise OnnxError(f"{where} is too large: {dtype}{list(shape)} needs {needed} bytes, more than {limit}")


class ValueFinder(Protocol):
    """Gives the array behind an operand, or raises `NeedsValue` or `OnnxError` saying what is missing."""

    def __call__(self, operand: Operand, where: str) -> np.ndarray[Any, Any]: ...


Subgraph = Callable[..., tuple[Any, ...]]
"""A graph attribute: called on its inputs where it is to be computed, it gives its outputs."""


@dataclass(frozen=True)
class Node:
    """One use of an operator. `opset` is the version of its domain that the model asks for."""

    name: str
    operator: str
    domain: str
    opset: int
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    find_value: ValueFinder = field(repr=False)

    @property
    def where(self) -> str:
        """How errors name the node: operator and name."""
        return f"{self.operator} node {self.name!r}"

    @property
    def output_count(self) -> int:
        """The number of outputs that are listed, unused ones (named '') included."""
        return len(self.outputs)

    def wants(self, position: int) -> bool:
        """Whether output `position` is listed and has a name."""
        return position < len(self.outputs) and self.outputs[position] != ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value: int, float, str, a list of those, an array, or a `Subgraph`."""
        return self.attributes.get(name, default)

    def required(self, name: str) -> Any:
        """An attribute that has no default; raises `OnnxError` when it is absent."""
        if name not in self.attributes:
            raise OnnxError(f"{self.where}: attribute {name!r} is missing")
        return self.attributes[name]

    def dtype(self, name: str = "dtype", default: object = None) -> np.dtype[Any] | None:
        """The dtype that attribute `name` numbers (as Cast's `to`); `default` (anything NumPy takes) without it."""
        code = self.attributes.get(name)
        if code is None:
            return None if default is None else np.dtype(default)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return stored_dtype(code, f"{self.where}: {name}")

    def known(self, operand: Content, what: str) -> np.ndarray[Any, Any]:
        """The value of an operand that decides what is computed, as a shape does; `what` names it in errors.

        A traced operand has one when it follows from constants and shapes, or from inputs that are given. Raises
        `NeedsValue` for the importer, which traces again with those inputs known, and `OnnxError` where that is no
        use.
        """
        if not isinstance(operand, Value | np.ndarray):
            raise OnnxError(f"{self.where}: {what} is {'an' if operand is NOTHING else 'a'} {kind_of(operand)}")
        return operand if isinstance(operand, np.ndarray) else self.find_value(operand, f"{self.where}: {what}")

    def integers(self, operand: Operand | None, what: str) -> list[int] | None:
        """The numbers of a known operand of rank 0 or 1, or of a list; `None` where there is none."""
        return None if operand is None else [int(n) for n in self.known(operand, what).reshape(-1)]

    def listed(self, operand: Operand | None, name: str, *, needed: bool = False) -> Any:
        """The numbers of an input or, in opsets before it is one, of the attribute `name`.

        Where neither is given, `None`, or an `OnnxError` if they are `needed`.
        """
        given = self.attribute(name) if operand is None else self.integers(operand, name)
        if needed and given is None:
            raise OnnxError(f"{self.where}: {name!r} is missing, as an input and as an attribute")
        return given

    def number(self, operand: Operand, what: str) -> Any:
        """The one number of a known operand, as a NumPy scalar; raises `OnnxError` where there are more, or none."""
        value = self.known(operand, what)
        if value.size != 1:
            raise OnnxError(f"{self.where}: {what} has shape {list(value.shape)} where one number is needed")
        return value.reshape(-1)[0]

    def shape(self, operand: Operand, rank: int | None = None) -> tuple[int, ...]:
        """The sizes of an operand; raises `OnnxError` where one is not known, or their number is not `rank`."""
        shape = tuple(operand.shape)
        if rank is not None and len(shape) != rank:
            raise OnnxError(f"{self.where}: an operand has rank {len(shape)} where {rank} is needed")
        if any(size < 0 for size in shape):
            shown = "x".join("?" if size < 0 else str(size) for size in shape)
            raise NeedsSizes(f"{self.where}: an operand has shape {shown}, whose sizes have to be known")
        return shape
