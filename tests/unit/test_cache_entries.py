"""Entries of the disk cache that are not what was written: never a wrong result, an error or a wait.

`python tests/unit/test_cache_entries.py 5000` tries so many damages, in an order of its own.
"""

from __future__ import annotations

import os
import random
import socket
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tenon
from tenon.runtime import executables
from tenon.runtime.knobs import knobs
from tenon.runtime.store import cache

pytestmark = pytest.mark.filterwarnings("ignore::tenon.runtime.store.cache.CacheWarning")

X = np.arange(6, dtype=np.float32)
PROGRAMS: dict[str, tuple[Callable[..., object], np.ndarray]] = {
    "doubled": (lambda x: x * 2.0, X * 2),
    "five times": (lambda x: x * 5.0, X * 5),
    "a matrix": (lambda x: tenon.reshape(x, (2, 3)) + 1.0, X.reshape(2, 3) + 1),
}


def run(name: str) -> np.ndarray:
    """The result of a program that this process has not met before."""
    executables._executables = type(executables._executables)(256)
    result = tenon.jit(PROGRAMS[name][0])(X)
    assert isinstance(result, np.ndarray)
    return result


def check(name: str) -> None:
    result, expected = run(name), PROGRAMS[name][1]
    np.testing.assert_array_equal(result, expected)
    assert result.shape == expected.shape


class Entries:
    """The entries of the programs, each as it was written, by what it is for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: dict[str, Path] = {}
        for name in PROGRAMS:
            before = set(directory.iterdir()) if directory.exists() else set[Path]()
            check(name)
            (self.paths[name],) = [p for p in set(directory.iterdir()) - before if b"interface" in p.read_bytes()]
        self.data = {name: path.read_bytes() for name, path in self.paths.items()}

    def key(self, name: str) -> str:
        return self.paths[name].stem

    def clear(self, name: str) -> Path:
        """The path of an entry, with nothing there."""
        path = self.paths[name]
        if path.is_dir() and not path.is_symlink():
            for inner in path.iterdir():
                inner.unlink()
            path.rmdir()
        path.unlink(missing_ok=True)
        return path

    def put(self, name: str, data: bytes) -> None:
        """Let an entry be `data`, in a file that nobody else may write to."""
        path = self.clear(name)
        path.write_bytes(data)
        path.chmod(0o644)


@contextmanager
def entries_in(directory: Path) -> Generator[Entries]:
    executables._executables = type(executables._executables)(256)
    with knobs.override(cache=True, cache_dir=directory):
        yield Entries(directory)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entries]:
    with entries_in(tmp_path_factory.mktemp("entries")) as entries:
        yield entries


@pytest.fixture
def entries(shared: Entries) -> Entries:
    """The entries as they were written."""
    for name, data in shared.data.items():
        shared.put(name, data)
    cache._reported.clear()
    return shared


# --- random damage ----------------------------------------------------------------------------------------------------


def damaged(entries: Entries, name: str, choose: random.Random) -> bytes:
    """Some bytes in the place of an entry: changed, cut, put together from others, or the right header over others."""
    data, other = bytearray(entries.data[name]), entries.data[choose.choice(list(PROGRAMS))]
    start, end = sorted(choose.choices(range(len(data) + 1), k=2))
    match choose.randrange(8):
        case 0:
            for _ in range(choose.choice((1, 2, 30))):
                data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        case 1:
            del data[start:]
        case 2:
            del data[start:end]
        case 3:
            data[start:start] = choose.randbytes(choose.randrange(1, 200))
        case 4:
            data[start:end] = other[start:end]
        case 5:
            return other
        case 6:
            return choose.randbytes(choose.randrange(300))
        case _:
            return rewritten(entries, name, choose)
    return bytes(data)


def rewritten(entries: Entries, name: str, choose: random.Random) -> bytes:
    """An entry with the right key and checksum and other content."""
    key = entries.key(name)
    files = cache._unpack(key, entries.data[name])
    assert files is not None
    member = choose.choice(list(files))
    match choose.randrange(6):
        case 0:
            del files[member]
        case 1:
            files[member + "x"] = files.pop(member)
        case 2:
            files[member] = files[member][: choose.randrange(len(files[member]))]
        case 3:
            files[member] = choose.randbytes(choose.randrange(300))
        case 4:
            files = {}
        case _:
            archive = choose.randbytes(choose.randrange(300))
            return cache._header(key, archive) + archive
    return cache._pack(key, files)


def try_damage(entries: Entries, seed: int) -> None:
    choose = random.Random(seed)
    name = choose.choice(list(PROGRAMS))
    entries.put(name, damaged(entries, name, choose))
    check(name)
    # what was made again is there
    assert cache.load(entries.key(name)) is not None


@pytest.fixture
def compiled_before(entries: Entries, monkeypatch: pytest.MonkeyPatch) -> Entries:
    """The entries, where compiling takes no time."""
    _compile_from(entries, monkeypatch.setattr)
    return entries


def _compile_from(entries: Entries, patch: Callable[..., None]) -> None:
    made = {name: cache._unpack(entries.key(name), data) for name, data in entries.data.items()}
    by_constant = {"2.0": "doubled", "5.0": "five times", "1.0": "a matrix"}

    def compile_for_cpu(module: object, *_: object) -> dict[str, bytes]:
        (found,) = {known for text, known in by_constant.items() if f"dense<{text}" in str(module)}
        files = made[found]
        assert files is not None
        return files

    patch(executables, "compile_for_cpu", compile_for_cpu)


def test_damage_of_any_kind_is_made_good(compiled_before: Entries) -> None:
    for seed in range(200):
        try_damage(compiled_before, seed)


# --- what else may be there -------------------------------------------------------------------------------------------


def test_an_entry_of_another_program_is_not_run(entries: Entries) -> None:
    entries.put("doubled", entries.data["five times"])
    with pytest.warns(cache.CacheWarning, match="is damaged, it is removed and made again"):
        check("doubled")
    check("doubled")


@pytest.mark.parametrize("content", ["no interface", "no code", "no archive", "odd code", "odd interface"])
def test_an_entry_with_other_content_is_made_again(entries: Entries, content: str) -> None:
    key = entries.key("doubled")
    files = cache._unpack(key, entries.data["doubled"])
    assert files is not None
    match content:
        case "no interface":
            del files["interface"]
        case "no code":
            files = {"interface": files["interface"]}
        case "odd code":
            files["object.0"] = b"\x7fELF and nothing more"
        case _:
            files["interface"] = b'{"inputs": 3}'
    odd = cache._header(key, b"text") + b"text" if content == "no archive" else cache._pack(key, files)
    entries.put("doubled", odd)
    with pytest.warns(cache.CacheWarning, match=r"(cannot be used \(.*\)|is damaged), it is removed and made again"):
        check("doubled")
    assert entries.paths["doubled"].read_bytes() != odd
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check("doubled")


@pytest.mark.parametrize("kind", ["pipe", "directory", "full directory", "socket", "link", "link to nothing", "device"])
def test_what_is_no_file_is_not_waited_for(entries: Entries, kind: str, tmp_path: Path) -> None:
    path = entries.clear("doubled")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                folder = os.open(path.parent, os.O_RDONLY)
                made.bind(f"/proc/self/fd/{folder}/{path.name}" if len(str(path)) > 100 else str(path))
                os.close(folder)
        case "link":
            (tmp_path / "other").write_bytes(entries.data["doubled"])
            path.symlink_to(tmp_path / "other")
        case "link to nothing":
            path.symlink_to(tmp_path / "nothing")
        case "device":
            try:
                os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))
            except OSError:
                pytest.skip("this user makes no devices")
        case _:
            path.mkdir()
    if kind == "full directory":
        (path / "file").write_text("")
        with pytest.warns(cache.CacheWarning, match="is no file, and cannot be removed"):
            check("doubled")
        return
    with pytest.warns(cache.CacheWarning, match="is no file, it is removed and made again"):
        check("doubled")
    assert stat.S_ISREG(path.lstat().st_mode)


# --- whose it is ------------------------------------------------------------------------------------------------------


def _as_user(monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_code_that_others_may_have_written_is_not_run(entries: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    path, count = entries.paths["doubled"], []
    load = executables.cache.load
    monkeypatch.setattr(cache, "load", lambda *args, **settings: count.append(load(*args, **settings)) or count[-1])
    for mode in (0o664, 0o646):
        entries.put("doubled", entries.data["doubled"])
        path.chmod(mode)
        cache._reported.clear()
        with pytest.warns(cache.CacheWarning, match=rf"can be written by others \(mode {mode:o}\), such are not used"):
            check("doubled")
        assert count[-1] is None
    # it was made again, and is this user's now
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    check("doubled")
    assert count[-1] is not None


def test_entries_of_another_user_are_not_run(entries: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all may write but nobody may remove what is others', as in /tmp, which root owns."""
    if os.geteuid():
        pytest.skip("only root gives files to others")
    entries.directory.chmod(0o1777)
    os.chown(entries.paths["doubled"], 12345, 12345)
    os.chown(entries.paths["five times"], 12346, 12346)
    with monkeypatch.context() as patch:
        _as_user(patch, 12346)
        with pytest.warns(cache.CacheWarning, match="belongs to user 12345, such are not used"):
            assert cache.load(entries.key("doubled")) is None
        assert cache.load(entries.key("five times")) is not None
        assert cache.load(entries.key("a matrix")) is not None, "root may write what it wants anyway"
    entries.directory.chmod(0o755)


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777])
def test_a_directory_of_another_user_is_not_used(
    entries: Entries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    tmp_path.chmod(mode)
    if mode != 0o777:
        if os.geteuid():
            pytest.skip("only root gives directories to others")
        os.chown(tmp_path, 12345, 12345)
    why = "can be written by others" if mode == 0o777 else "belongs to user 12345"
    with knobs.override(cache_dir=tmp_path), pytest.warns(cache.CacheWarning, match=f"{why}.*, working without"):
        check("doubled")
    with knobs.override(cache_dir=tmp_path), warnings.catch_warnings():
        warnings.simplefilter("error")
        check("five times")
    assert list(tmp_path.iterdir()) == []


def test_unfinished_entries_are_nobody_elses_and_go(entries: Entries) -> None:
    """What a process that was ended left goes in time; nothing is written to names that can be told before."""
    old, new = [entries.directory / f".{name}.tenon" for name in ("old", "new")]
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    with knobs.override(cache_limit_mb=0):
        cache.store(cache.key("large"), {"data": bytes(100)})
    assert not old.exists()
    assert new.exists()
    new.unlink()
    opened: list[tuple[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        usual = os.open
        patch.setattr(
            os, "open", lambda path, flags, *mode: opened.append((str(path), flags)) or usual(path, flags, *mode)
        )
        for _ in range(2):
            cache.store(cache.key("small"), {})
    written = [path for path, flags in opened if flags & os.O_CREAT]
    assert len(set(written)) == 2
    assert all(flags & os.O_EXCL for _, flags in opened if flags & os.O_CREAT)


# --- no home ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directory", ["~nobody.of.this.name/x", None])
def test_without_a_home_there_is_no_cache(
    entries: Entries, monkeypatch: pytest.MonkeyPatch, directory: str | None
) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    if directory is None:
        monkeypatch.setattr(Path, "expanduser", unknown)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with knobs.override(cache_dir=directory):
        assert knobs.cache_dir is None
        with pytest.warns(cache.CacheWarning, match="no home directory is known for the cache, working without"):
            check("doubled")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check("five times")
        assert cache.clear() == 0


if __name__ == "__main__":
    import tempfile

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, entries_in(Path(folder)) as found:
        _compile_from(found, setattr)
        first = random.SystemRandom().randrange(1 << 40)
        for seed in range(first, first + int(sys.argv[1])):
            sys.stdout.write(f"\rseed {seed}")
            sys.stdout.flush()
            try_damage(found, seed)
