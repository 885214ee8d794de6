"""Files of arrays and of what belongs to them: `save`, `load`, and `Checkpoints`, which survive a kill at any moment.

A file is in the format of safetensors, which others read as well; how its arrays make up a tree is in its metadata, as
JSON. Nothing in a file is run when it is read.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import os
import re
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import ml_dtypes
import numpy as np

from tenon.dialects.support.plain_arrays import host_array
from tenon.dialects.support.suggestion import attribute_hints

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "BOOL": np.bool_,
        "I8": np.int8,
        "I16": np.int16,
        "I32": np.int32,
        "I64": np.int64,
        "U8": np.uint8,
        "U16": np.uint16,
        "U32": np.uint32,
        "U64": np.uint64,
        "F16": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "F32": np.float32,
        "F64": np.float64,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
    }.items()
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_TREE = "tenon.tree"
_MOST_HEADER = 100_000_000


def write_arrays(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays and texts by name to a safetensors file, which takes the place of what was at `path` at once or not
    at all, whenever the process or the machine stops.

    Raises `TypeError` for an array of a dtype that the format does not have, and `ValueError` for one called
    `__metadata__`, which is the format's name for texts.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            _write(file, {name: _storable(name, value) for name, value in arrays.items()}, metadata or {})
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _storable(name: str, value: Any) -> Array:
    if name == "__metadata__":
        raise ValueError("save: an array is called __metadata__, which is what a safetensors file calls its texts")
    array = host_array(value)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    if array.dtype not in _NAMES:
        raise TypeError(f"{name} has dtype {array.dtype}, which a safetensors file does not have")
    return array


def _write(file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    # By decreasing alignment, as the format's own library has it, so that each array begins at a multiple of its own.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in order:
        array, start = arrays[name], end
        end += array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in order:
        file.write(arrays[name].reshape(-1).view(np.uint8).data)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_arrays(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the texts of a safetensors file. Raises `ValueError` for a file that is none, or not whole."""
    with Path(path).open("rb") as file:
        content = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(content)
    try:
        return _read(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None


def _read(content: bytearray) -> tuple[dict[str, Array], dict[str, str]]:
    if len(content) < 8:
        raise ValueError(f"it has {len(content)} bytes")
    (length,) = struct.unpack_from("<Q", content)
    if length > min(_MOST_HEADER, len(content) - 8):
        raise ValueError(f"its header is said to have {length} bytes, and it has {len(content)}")
    header: Any = json.loads(content[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    metadata = header.pop("__metadata__", {})
    data = memoryview(content)[8 + length :]
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name} has dtype {entry['dtype']}")
        start, end = entry["data_offsets"]
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"{name} is said to end at {end} of {len(data)} bytes")
        dtype = _DTYPES[entry["dtype"]]
        arrays[name] = np.frombuffer(data[start:end], dtype.newbyteorder("<")).reshape(entry["shape"])
    return arrays, metadata


# --- trees ------------------------------------------------------------------------------------------


def save(path: str | Path, tree: Any) -> None:
    """Write a tree of dicts, lists, tuples, numbers, texts, `None` and arrays (of any library, on a GPU as well, and
    tensors) to a file, at once or not at all. Raises `TypeError` naming the leaf for anything else.
    """
    arrays: dict[str, Any] = {}
    described = _described(tree, "", arrays)
    write_arrays(path, arrays, {_TREE: json.dumps(described)})


def load(path: str | Path) -> Any:
    """What `save` was given, with NumPy's arrays; of a safetensors file of others, its arrays by name."""
    arrays, metadata = read_arrays(path)
    if _TREE not in metadata:
        return arrays
    try:
        return _rebuilt(json.loads(metadata[_TREE]), arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{path} is not a whole file of tenon.saving: {error!r}") from None


def _described(value: Any, path: str, arrays: dict[str, Any]) -> list[Any]:
    """A node of the tree for JSON: its kind, and what it holds; arrays are named by their paths."""

    def inner(name: object, item: Any) -> list[Any]:
        return _described(item, f"{path}.{name}" if path else str(name), arrays)

    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, np.generic)):
        return ["value", value]
    if isinstance(value, dict):
        if not all(type(key) in (str, int) for key in value):
            raise TypeError(f"save: {path or 'the tree'} has keys that are neither texts nor integers")
        return ["dict", [[key, inner(key, item)] for key, item in value.items()]]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [inner(number, item) for number, item in enumerate(value)]]
    name = path or "array"
    if name in arrays:
        raise ValueError(f"save: two leaves are called {name}; give the keys names that differ")
    if not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        raise TypeError(f"save: {name} is a {type(value).__name__}; save its state as numbers, texts and arrays")
    arrays[name] = value
    return ["array", name]


def _rebuilt(node: Any, arrays: Mapping[str, Array]) -> Any:
    kind, content = node
    if kind == "value":
        return content
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: _rebuilt(item, arrays) for key, item in content}
    if kind not in ("list", "tuple"):
        raise ValueError(f"an unknown kind of node, {kind!r}")
    items = [_rebuilt(item, arrays) for item in content]
    return items if kind == "list" else tuple(items)


class Checkpoints:
    """The last `keep` states of a training run in a folder, one file each (`step-000000100.safetensors`).

    Where a run goes back to an earlier state, those of later steps stay until it has come as far as they are.
    A process or machine that stops at any moment leaves the states that were there: a file gets its name when all of
    it is on the disk. One process writes to a folder at a time.
    """

    def __init__(self, folder: str | Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"Checkpoints: keep is {keep} where 1 or more is needed")
        self.folder, self.keep = Path(folder), keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, step: int) -> Path:
        """The file for the state after `step` steps."""
        return self.folder / f"step-{step:09d}.safetensors"

    def steps(self) -> Sequence[int]:
        """The steps of which there are states, in order."""
        found = [re.fullmatch(r"step-(\d+)\.safetensors", path.name) for path in self.folder.iterdir()]
        return sorted([int(match[1]) for match in found if match])

    def save(self, step: int, state: Any) -> None:
        """Save `state`, a tree as `save` takes it, as that after `step` steps, and then remove the oldest before it."""
        save(self.path(step), state)
        for left in self._left_over():
            left.unlink(missing_ok=True)
        for old in [known for known in self.steps() if known <= step][: -self.keep]:
            self.path(old).unlink(missing_ok=True)

    def _left_over(self) -> Iterator[Path]:
        """What processes that were killed while they wrote have left."""
        return self.folder.glob(".*.partial")

    def restore(self, step: int | None = None) -> tuple[int, Any] | None:
        """The step and the state of the last checkpoint, or of that of `step`; `None` where there is none.

        A last one that cannot be read, as after a fault of the disk, is passed over with a warning.
        """
        if step is not None:
            return step, load(self.path(step))
        for found in reversed(self.steps()):
            try:
                return found, load(self.path(found))
            except ValueError as error:
                warnings.warn(f"{error}; an older checkpoint is taken", stacklevel=2)
        return None


__all__ = ["Checkpoints", "load", "read_arrays", "save", "write_arrays"]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
