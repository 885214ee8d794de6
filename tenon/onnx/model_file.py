"""Reading ONNX files, which may be damaged or hostile: everything is checked before it is used.

External data lies in the folder of the model and nowhere else, and is mapped instead of read.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tenon.onnx.graph import (
    DEFAULT_DOMAIN,
    Function,
    FunctionKey,
    Graph,
    GraphNode,
    function_key,
    opset_versions,
    read_function,
    read_graph,
    text,
)
from tenon.onnx.narrow import packed_bits, unpacked
from tenon.onnx.node import TOO_DEEP, OnnxError, stored_dtype

IR_VERSIONS = range(3, 15)
OPSETS = range(7, 29)
# A tensor of more elements than this is no constant: its data cannot be in a file.
_LARGEST_COUNT = 2**48
# A pipe must not block before it is seen to be one.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class ModelFile:
    """A model as its file states it. `where` is how errors name the file."""

    where: str
    graph: Graph
    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, Function]
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def read_file(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> ModelFile:
    """The model in a file, in bytes, or in a `ModelProto`.

    Raises `OnnxError`, naming the file, for what is damaged, inconsistent or not supported, and `OSError` where there
    is no file to read.
    """
    if isinstance(source, onnx.ModelProto | bytes):
        proto = _parsed(source, "model") if isinstance(source, bytes) else source
        where, folder = text(proto.graph.name, "model") or "model", None
    else:
        path = Path(source)
        proto, where, folder = _parsed(path.read_bytes(), path.name), path.name, path.parent
    try:
        return _checked(proto, where, folder)
    except RecursionError:
        raise OnnxError(f"{where}: {TOO_DEEP}") from None


def _parsed(data: bytes, where: str) -> onnx.ModelProto:
    if not data:
        raise OnnxError(f"{where}: is empty")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise OnnxError(f"{where}: is not an ONNX model, or is truncated") from None
    if not proto.ir_version or not proto.HasField("graph"):
        raise OnnxError(f"{where}: is not an ONNX model: it has no {'graph' if proto.ir_version else 'IR version'}")
    return proto


def _checked(proto: onnx.ModelProto, where: str, folder: Path | None) -> ModelFile:
    if proto.ir_version not in IR_VERSIONS:
        raise OnnxError(
            f"{where}: IR version {proto.ir_version} is not one of {IR_VERSIONS.start} to {IR_VERSIONS.stop - 1}"
        )
    read = partial(read_tensor, folder=folder)
    opsets = opset_versions(proto.opset_import, where)
    graph = read_graph(proto.graph, read, where)
    functions: dict[FunctionKey, Function] = {}
    for entry in proto.functions:
        function = read_function(entry, read, where)
        if functions.setdefault(function_key(entry, where), function) is not function:
            raise OnnxError(f"{where}: function {entry.name!r} is defined twice")
    metadata = {text(entry.key, where): text(entry.value, where) for entry in proto.metadata_props}
    functions = {
        key: replace(
            function, opsets=_supported(function.opsets, function.nodes, f"{where}: function {function.name!r}")
        )
        for key, function in functions.items()
    }
    return ModelFile(where, graph, _supported(opsets, graph.nodes, where), functions, metadata)


def _supported(opsets: Mapping[str, int], nodes: Sequence[GraphNode], where: str) -> dict[str, int]:
    """`opsets` of these nodes, the default domain's within the range that is supported.

    An opset below it is read like the first supported one if every operator in use means the same in both.
    """
    version = opsets.get(DEFAULT_DOMAIN)
    if version is None:
        if any(node.domain == DEFAULT_DOMAIN for node in nodes):
            raise OnnxError(f"{where}: states no opset of the default domain")
        return dict(opsets)
    if version in OPSETS:
        return dict(opsets)
    if 1 <= version < OPSETS.start and all(_means_the_same(node, version) for node in nodes):
        return {**opsets, DEFAULT_DOMAIN: OPSETS.start}
    raise OnnxError(f"{where}: opset {version} is not one of {OPSETS.start} to {OPSETS.stop - 1}")


def _means_the_same(node: GraphNode, version: int) -> bool:
    if node.domain != DEFAULT_DOMAIN:
        return True
    if node.subgraphs:
        return False
    try:
        old, supported = (onnx.defs.get_schema(node.operator, opset) for opset in (version, OPSETS.start))
    except onnx.defs.SchemaError:
        return False
    return old.since_version == supported.since_version


# --- tensors --------------------------------------------------------------------------------------


def read_tensor(proto: onnx.TensorProto, where: str, folder: Path | None = None) -> np.ndarray[Any, Any]:
    """The array that a `TensorProto` describes, read-only; `folder` is where its external data may lie.

    Raises `OnnxError` unless the data has exactly the size that dtype and dimensions ask for.
    """
    dtype = stored_dtype(proto.data_type, where)
    shape = tuple(int(size) for size in proto.dims)
    if any(size < 0 for size in shape):
        raise OnnxError(f"{where}: has a negative size: {list(shape)}")
    count = math.prod(shape)
    if len(shape) > 64 or count > _LARGEST_COUNT or (count == 0 and any(size > _LARGEST_COUNT for size in shape)):
        raise OnnxError(f"{where}: is impossibly large: {list(shape)}")
    if proto.HasField("segment"):
        raise OnnxError(f"{where}: is stored in segments, which are not supported")
    bits = packed_bits(dtype)
    size = -(-count * bits // 8)
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        data: Any = _external_data(proto, size, where, folder)
    elif proto.HasField("raw_data"):
        data = np.frombuffer(proto.raw_data, np.uint8)
    else:
        return _typed_data(proto, dtype, shape, count, where)
    if data.nbytes != size:
        raise OnnxError(f"{where}: has {data.nbytes} bytes of data where {dtype}{list(shape)} needs {size}")
    if bits < 8:
        array = unpacked(data, dtype, count)
    else:
        array = data.view(dtype.newbyteorder("<") if dtype.kind in "iuf" and dtype.isbuiltin == 1 else dtype)
    if dtype == np.bool_ and np.any(data > 1):
        raise OnnxError(f"{where}: has elements that are neither true (1) nor false (0)")
    if not array.dtype.isnative:
        array = array.astype(dtype)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _typed_data(
    proto: onnx.TensorProto, dtype: np.dtype[Any], shape: tuple[int, ...], count: int, where: str
) -> np.ndarray[Any, Any]:
    """Data in one of the fields that have a type: floats of 16 bits and less are stored there by their bits, and a
    number holds a byte of what is packed."""
    field_name = onnx.helper.tensor_dtype_to_field(proto.data_type)
    values: Any = getattr(proto, field_name)
    bits = packed_bits(dtype)
    needed = -(-count * bits // 8) if bits < 8 else count
    if len(values) != needed:
        raise OnnxError(f"{where}: has {len(values)} elements of data where {dtype}{list(shape)} needs {needed}")
    wide = np.array(
        values,
        {"float_data": np.float32, "double_data": np.float64, "uint64_data": np.uint64}.get(field_name, np.int64),
    )
    is_code = dtype.isbuiltin != 1 or dtype == np.float16
    stored = np.dtype(f"u{dtype.itemsize}") if is_code else dtype
    array = wide.astype(stored)
    if stored.kind in "iu" and not np.array_equal(array.astype(wide.dtype), wide):
        raise OnnxError(f"{where}: has elements that do not fit into {dtype}")
    array = (unpacked(array, dtype, count) if bits < 8 else array.view(dtype)).reshape(shape)
    array.flags.writeable = False
    return array


def _external_data(
    proto: onnx.TensorProto, size: int, where: str, folder: Path | None
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    entries = {text(entry.key, where): text(entry.value, where) for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise OnnxError(f"{where}: has external data {location!r}, and the model is not in a file")
    path = _inside(folder, location, where)
    offset, length = (_count(entries, key, where) for key in ("offset", "length"))
    offset = offset or 0
    try:
        with open(os.open(path, _OPEN_FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OnnxError(f"{where}: external data {location!r} is not a regular file")
            if status.st_nlink > 1:
                raise OnnxError(f"{where}: external data {location!r} has several hard links, which may lead elsewhere")
            available = status.st_size - offset
            if available < 0 or (length is not None and length > available):
                raise OnnxError(
                    f"{where}: external data {location!r} has {status.st_size} bytes, "
                    f"and {'' if length is None else f'{length} bytes '}from byte {offset} on are asked for"
                )
            length = available if length is None else length
            if length != size:
                raise OnnxError(f"{where}: has {length} bytes of external data where {size} are needed")
            if size == 0:
                return np.empty(0, np.uint8)
            return np.memmap(file, np.uint8, "r", offset, (size,)).view(np.ndarray)
    except OSError as error:
        raise OnnxError(f"{where}: external data {location!r}: {(error.strerror or str(error)).lower()}") from None


def _inside(folder: Path, location: str, where: str) -> Path:
    """The file at `location`, which may not leave `folder`, by its text or through links."""
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    is_absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor != ""
    if not location or "\0" in location or ".." in parts or is_absolute:
        raise OnnxError(f"{where}: external data {location!r} is not a path within the model's folder")
    try:
        base = folder.resolve(strict=True)
        path = (base / location).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise OnnxError(f"{where}: external data {location!r} is not there") from None
    if not path.is_relative_to(base):
        raise OnnxError(f"{where}: external data {location!r} leads out of the model's folder")
    return path


def _count(entries: Mapping[str, str], key: str, where: str) -> int | None:
    given = entries.get(key)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise OnnxError(f"{where}: {key} {given!r} of external data is not a number of bytes")
    return int(given)
