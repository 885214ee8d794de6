"""The disk cache: named files per key, kept between processes.

An entry is one file named after its key: the key, a checksum of all, and a zip archive. One that is damaged, of another
key, or cannot be used is removed, reported by a warning and made again. Other processes see all of an entry or nothing.
When the entries together exceed the limit, those used longest ago go first, until a sixteenth of it is free; each
process that stores at the same time may exceed it by as much. A directory that cannot be written, or that is not known,
means working without a cache, said once.

Entries are machine code that is run, so they are read only if they are regular files of this user or of root that
nobody else may write to; and not at all from a directory of another user, or one that all may write to (unless it is
sticky). Members of its group may remove what is in a directory, but give nobody else's name to a file.

`key` covers Tenon's own sources and the LLVM release, so a change of either never meets old entries.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from tenon.dialects.support.user_traceback import user_stacklevel
from tenon.runtime.knobs import knobs
from tenon.runtime.store.files import new_file

_Used = TypeVar("_Used")

_SUFFIX = ".tenon"
_MAGIC = b"tenon-cache-2\n"
_DIGEST_SIZE = hashlib.sha256().digest_size
_SOURCE_FOLDERS = ("dialects", "passes", "lowering", "runtime")
_MEGABYTE = 1 << 20

# A process looks through a directory again after it has stored this part of the limit there.
_UNSEEN = 1 / 16

# Seconds after which what is half written has been left behind by a process that ended.
_ABANDONED = 3600

_reported: set[tuple[Path | None, str]] = set()
"""What warnings were given about, each once: directories, and what is wrong there."""


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
    digest.update(f"xdsl {_installed_version(xdsl)}\nllvmlite {llvmlite.__version__}\n".encode())
    for folder in _source_folders():
        # Every start reads all of them: pathlib and buffers take longer than that.
        for path in sorted(_source_files(str(folder))):
            with open(path, "rb", buffering=0) as file:
                data = file.readall()
            digest.update(f"{folder.name}{path.removeprefix(str(folder))} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


def _installed_version(package: ModuleType) -> str:
    """The version of a package, by the name of the folder that an installer left beside it.

    To ask `importlib.metadata`, as xDSL does for its `__version__`, takes 15 ms, most of them for imports.
    """
    assert package.__file__ is not None
    found = [*Path(package.__file__).parents[1].glob(f"{package.__name__}-*.dist-info")]
    named = [folder.stem.removeprefix(f"{package.__name__}-") for folder in found]
    return named[0] if len(named) == 1 else str(package.__version__)


def _source_files(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _source_files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path


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


def made(
    key: str,
    make: Callable[[], Mapping[str, bytes]],
    use: Callable[[Mapping[str, bytes]], _Used],
    *,
    reuse: bool = True,
) -> _Used:
    """What `use` gives for the files under a key. Where there are none (or with `reuse` false, in any case) `make`
    makes them, and they are kept.

    An entry for which `use` raises an exception is removed with a `CacheWarning` and made again.
    """
    folder = _usable_directory(None)
    files = load(key, directory=folder) if reuse and folder is not None else None
    if files is not None and folder is not None:
        try:
            return use(files)
        except Exception as error:
            _remove(_path(key, folder), f"cannot be used ({error})")
    files = make()
    used = use(files)
    store(key, files)
    return used


def load(key: str, *, directory: Path | None = None) -> dict[str, bytes] | None:
    """The files stored under a key, None when there are none, the cache is off, or somebody else may have written them.

    A damaged entry is removed with a `CacheWarning`.
    """
    folder = _usable_directory(directory)
    if folder is None:
        return None
    path = _path(key, folder)
    data = _read(path)
    if data is None:
        return None
    files = _unpack(key, data)
    if files is None:
        _remove(path, "is damaged")
        return None
    # a read-only cache is still of use, only its entries do not stay young by use
    with suppress(OSError):
        os.utime(path)
    return files


def store(key: str, files: Mapping[str, bytes], *, directory: Path | None = None, limit_mb: int | None = None) -> None:
    """Keep files under a key, replacing what was there; older entries make room.

    Does nothing when the cache is off; when the directory cannot be written, a `CacheWarning` says so once.
    """
    folder = _usable_directory(directory)
    if folder is None:
        return
    path = _path(key, folder)
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        data = _pack(key, files)
        _write(path, data)
        _make_room(path, len(data), knobs.cache_limit_mb if limit_mb is None else limit_mb)
    except OSError as error:
        message = f"tenon: cannot write to the cache {folder} ({error.strerror}), working without"
        _report_once(folder, "unwritable", message)


def _read(path: Path) -> bytes | None:
    """What is in a file that this user or root wrote; a pipe is not waited for, and a link not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        # a link, a socket or a device; all else is as good as nothing there
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            _remove(path, "is no file")
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            _remove(path, "is no file")
        elif (why := _why_foreign(status, 0o022)) is not None:
            _report_once(path.parent, "foreign", f"tenon: cache entry {path} {why}, such are not used")
        else:
            with open(descriptor, "rb", buffering=0, closefd=False) as file, suppress(OSError):
                return file.readall()
    finally:
        os.close(descriptor)
    return None


def _write(path: Path, data: bytes) -> None:
    # Not by what `replacing` does: that gives links and pipes what it is given.
    temporary, descriptor = new_file(path, 0o644)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _why_foreign(status: os.stat_result, writable: int) -> str | None:
    """Why code from there may be anybody's; `writable` are the permissions that nothing of one's own has."""
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {status.st_uid}"
    if status.st_mode & writable:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _remove(path: Path, why: str) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        message = f"tenon: cache entry {path} {why}, and cannot be removed ({error.strerror})"
        _report_once(path.parent, "in the way", message)
    else:
        warnings.warn(
            f"tenon: cache entry {path} {why}, it is removed and made again", CacheWarning, stacklevel=user_stacklevel()
        )


def clear(*, directory: Path | None = None) -> int:
    """Remove all entries and return how many were removed; a `CacheWarning` says so where that is not allowed."""
    removed, directory = 0, _directory(directory)
    if directory is None:
        return 0
    try:
        for entry in _entries(directory):
            Path(entry.path).unlink(missing_ok=True)
            removed += 1
    except OSError as error:
        message = f"tenon: cannot clear the cache {directory} ({error.strerror})"
        warnings.warn(message, CacheWarning, stacklevel=user_stacklevel())
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
    for entry in _entries(directory, with_unfinished=True):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            # another process was faster
            continue
        if not entry.name.startswith("."):
            found.append((status.st_mtime, status.st_size, entry.path))
        elif status.st_mtime < time.time() - _ABANDONED:
            with suppress(OSError):
                Path(entry.path).unlink(missing_ok=True)
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return total
    for _, size, path in sorted(found):
        if total <= limit * (1 - _UNSEEN):
            break
        # what belongs to others may have to stay
        with suppress(OSError):
            if path != str(keep):
                Path(path).unlink(missing_ok=True)
                total -= size
    return total


def _directory(directory: Path | None) -> Path | None:
    return knobs.cache_dir if directory is None else directory


def _usable_directory(directory: Path | None) -> Path | None:
    """The directory of the cache, which need not be there; `None` if the cache is off, or is not to be trusted."""
    if not knobs.cache:
        return None
    folder = _directory(directory)
    if folder is None:
        _report_once(
            folder, "unknown", "tenon: no home directory is known for the cache, working without; set TENON_CACHE_DIR"
        )
        return None
    try:
        status = folder.stat()
    except OSError:
        return folder
    # In a sticky directory, what is there can be replaced only by who wrote it.
    why = _why_foreign(status, 0 if status.st_mode & stat.S_ISVTX else 0o002)
    if why is None:
        return folder
    _report_once(folder, "foreign directory", f"tenon: the cache {folder} {why}, working without")
    return None


def _path(key: str, directory: Path) -> Path:
    return directory / f"{key}{_SUFFIX}"


def _entries(directory: Path, *, with_unfinished: bool = False) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return [e for e in found if e.name.endswith(_SUFFIX) and (with_unfinished or not e.name.startswith("."))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _pack(key: str, files: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    data = archive.getvalue()
    # the zip comes last: readers of zip files allow for something in front
    return _header(key, data) + data


def _header(key: str, data: bytes) -> bytes:
    named = _MAGIC + key.encode() + b"\n"
    return named + hashlib.sha256(named + data).digest()


def _unpack(key: str, data: bytes) -> dict[str, bytes] | None:
    """The files of a packed entry, None when it is not what was written under this key."""
    start = len(_MAGIC) + len(key) + 1 + _DIGEST_SIZE
    if data[:start] != _header(key, data[start:]):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data[start:])) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    except Exception:
        # for what is no archive, or an odd one, zipfile raises whatever its parts do
        return None


def _report_once(directory: Path | None, about: str, message: str) -> None:
    if (directory, about) not in _reported:
        _reported.add((directory, about))
        warnings.warn(message, CacheWarning, stacklevel=user_stacklevel())
