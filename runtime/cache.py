"""The disk cache: named files per key, kept between processes.

An entry is one file named after its key, a checksum followed by a zip archive. A damaged entry is removed, reported by
a warning and treated as absent. Other processes see all of an entry or nothing. When the entries together exceed the
limit, those used longest ago go first, until a sixteenth of it is free; each process that stores at the same time may
exceed it by as much. A directory that cannot be written means working without a cache, said once.

`key` covers Tenon's own sources and the LLVM release, so a change of either never meets old entries.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tenon.runtime.files import write_file
from tenon.runtime.knobs import knobs

_SUFFIX = ".tenon"
_MAGIC = b"tenon-cache-1\n"
_DIGEST_SIZE = hashlib.sha256().digest_size
_SOURCE_FOLDERS = ("dialects", "passes", "lowering", "runtime")
_MEGABYTE = 1 << 20

# A process looks through a directory again after it has stored this part of the limit there.
_UNSEEN = 1 / 16

_reported: set[tuple[str, str]] = set()


@dataclass(slots=True)
class _Filled:
    """Bytes in a directory when it was last looked through, and bytes that this process has stored since."""

    seen: int
    stored: int = 0


_filled: dict[Path, _Filled] = {}


class CacheWarning(UserWarning):
    """The disk cache did not work as it should; results are not affected."""


def key(*parts: bytes | str) -> str:
    """A name for what depends on exactly these parts, Tenon's sources and LLVM: a sha256 in hexadecimal.

    Parts are delimited, so ("ab", "c") and ("a", "bc") differ; so do text and bytes.
    """
    digest = hashlib.sha256(environment_fingerprint().encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{'text' if isinstance(part, str) else 'bytes'} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


@cache
def environment_fingerprint() -> str:
    """What entries depend on besides their own parts: Tenon's sources, xDSL and llvmlite.

    Sources are told apart by their text, not by their times, so that copies of one checkout share entries.
    """
    import llvmlite
    import xdsl

    digest = hashlib.sha256()
    # What installers know takes 5 ms to find out.
    for package in (xdsl, llvmlite):
        digest.update(f"{package.__name__} {package.__version__}\n".encode())
    for folder in _source_folders():
        # Every start reads all of them: pathlib and buffers take longer than that.
        for name in sorted([name for name in os.listdir(folder) if name.endswith(".py")]):
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                data = file.readall()
            digest.update(f"{folder.name}/{name} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


def _source_folders() -> list[Path]:
    """Where the packages that decide what is compiled lie; they need not be siblings of this one."""
    from importlib.util import find_spec

    folders = []
    for name in _SOURCE_FOLDERS:
        spec = find_spec(f"tenon.{name}")
        assert spec is not None
        assert spec.origin is not None
        folders.append(Path(spec.origin).parent)
    return folders


def load(key: str, *, directory: Path | None = None) -> dict[str, bytes] | None:
    """The files stored under a key, None when there are none or the cache is off.

    A damaged entry is removed with a `CacheWarning`.
    """
    if not knobs.cache:
        return None
    path = _path(key, directory)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    files = _unpack(data)
    if files is None:
        warnings.warn(f"tenon: cache entry {path} is damaged, it is removed and made again", CacheWarning, stacklevel=2)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    # a read-only cache is still of use, only its entries do not stay young by use
    with suppress(OSError):
        os.utime(path)
    return files


def store(key: str, files: Mapping[str, bytes], *, directory: Path | None = None, limit_mb: int | None = None) -> None:
    """Keep files under a key, replacing what was there; older entries make room.

    Does nothing when the cache is off; when the directory cannot be written, a `CacheWarning` says so once.
    """
    if not knobs.cache:
        return
    path = _path(key, directory)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = _pack(files)
        write_file(path, data)
        _make_room(path, len(data), knobs.cache_limit_mb if limit_mb is None else limit_mb)
    except OSError as error:
        _report_once(path.parent, f"tenon: cannot write to the cache {path.parent} ({error.strerror}), working without")


def clear(*, directory: Path | None = None) -> int:
    """Remove all entries and return how many were removed; a `CacheWarning` says so where that is not allowed."""
    removed, directory = 0, _directory(directory)
    try:
        for entry in _entries(directory):
            Path(entry.path).unlink(missing_ok=True)
            removed += 1
    except OSError as error:
        message = f"tenon: cannot clear the cache {directory} ({error.strerror})"
        warnings.warn(message, CacheWarning, stacklevel=2)
    return removed


def _make_room(path: Path, size: int, limit_mb: int) -> None:
    """Evict after an entry of `size` bytes was stored, unless there is room: to look at every entry takes long."""
    limit = limit_mb * _MEGABYTE
    filled = _filled.get(path.parent)
    if filled is not None:
        filled.stored += size
        if filled.stored <= limit * _UNSEEN and filled.seen + filled.stored <= limit:
            return
    _filled[path.parent] = _Filled(_evict(path.parent, limit, keep=path))


def _evict(directory: Path, limit: int, keep: Path) -> int:
    """Remove the entries used longest ago if all exceed the limit in bytes, so many that those stored next find room;
    `keep` stays whatever its size.

    Returns the bytes that are left.
    """
    found: list[tuple[float, int, str]] = []
    for entry in _entries(directory):
        try:
            status = entry.stat()
        except FileNotFoundError:
            # another process was faster
            continue
        found.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return total
    for _, size, path in sorted(found):
        if total <= limit * (1 - _UNSEEN):
            break
        if path != str(keep):
            Path(path).unlink(missing_ok=True)
            total -= size
    return total


def _directory(directory: Path | None) -> Path:
    return knobs.cache_dir if directory is None else directory


def _path(key: str, directory: Path | None) -> Path:
    return _directory(directory) / f"{key}{_SUFFIX}"


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return [entry for entry in found if entry.name.endswith(_SUFFIX) and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _pack(files: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    data = archive.getvalue()
    # the zip comes last: readers of zip files allow for something in front
    return _MAGIC + hashlib.sha256(data).digest() + data


def _unpack(data: bytes) -> dict[str, bytes] | None:
    """The files of a packed entry, None when it is not what was written."""
    start = len(_MAGIC) + _DIGEST_SIZE
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(data[start:]).digest() != data[len(_MAGIC) : start]:
        return None
    with zipfile.ZipFile(io.BytesIO(data[start:])) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _report_once(directory: Path, message: str) -> None:
    mark = ("unwritable", str(directory))
    if mark not in _reported:
        _reported.add(mark)
        warnings.warn(message, CacheWarning, stacklevel=3)
