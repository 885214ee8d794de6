"""The disk cache: keys, damage, eviction, other processes, directories that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import xdsl

from tenon.runtime.knobs import knobs
from tenon.runtime.store import cache
from tenon.runtime.store.files import replacing, write_file

FILES = {"object": b"\x7fELF" + bytes(range(256)) * 10, "main.ll": b"define void @main()", "empty": b""}


@pytest.fixture(autouse=True)
def directory(tmp_path):
    with knobs.override(cache_dir=tmp_path / "cache", cache=True):
        yield tmp_path / "cache"


def entry_of(directory):
    (path,) = directory.iterdir()
    return path


def test_what_is_stored_is_loaded(directory):
    key = cache.key("module", "cpu")
    assert cache.load(key) is None
    cache.store(key, FILES)
    assert cache.load(key) == FILES
    cache.store(key, {"object": b"new"})
    assert cache.load(key) == {"object": b"new"}
    assert cache.load(cache.key("another")) is None
    assert [path.name for path in directory.iterdir()] == [f"{key}.tenon"]
    assert cache.clear() == 1
    assert cache.load(key) is None


def test_keys_depend_on_every_part_and_on_the_sources(monkeypatch):
    keys = [
        cache.key("ab", "c"),
        cache.key("a", "bc"),
        cache.key("abc"),
        cache.key(b"abc"),
        cache.key("abc", ""),
        cache.key(),
    ]
    assert len(set(keys)) == len(keys)
    assert cache.key("abc") == cache.key("abc")
    monkeypatch.setattr(cache, "environment_fingerprint", lambda: "other sources")
    assert cache.key("abc") not in keys


def test_fingerprint_follows_the_text_of_the_sources(tmp_path, monkeypatch):
    folder = tmp_path / "lowering"
    folder.mkdir()
    source = folder / "emit.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(cache, "_source_folders", lambda: [folder])
    fingerprint = cache.environment_fingerprint.__wrapped__
    first = fingerprint()
    os.utime(source, (0, 0))
    assert fingerprint() == first
    source.write_text("a = 2\n")
    assert fingerprint() != first


@pytest.mark.parametrize("damage", ["truncate", "flip", "replace", "empty"])
def test_a_damaged_entry_is_dropped_and_said_so(directory, damage):
    key = cache.key("module")
    cache.store(key, FILES)
    path = entry_of(directory)
    data = bytearray(path.read_bytes())
    match damage:
        case "truncate":
            data = data[:-7]
        case "flip":
            data[len(data) // 2] ^= 1
        case "replace":
            data = bytearray(b"something else entirely")
        case _:
            data = bytearray()
    path.write_bytes(data)
    with pytest.warns(cache.CacheWarning, match="is damaged, it is removed and made again"):
        assert cache.load(key) is None
    assert not path.exists()
    assert cache.load(key) is None
    cache.store(key, FILES)
    assert cache.load(key) == FILES


def test_the_limit_removes_what_was_used_longest_ago(directory):
    random = os.urandom(400_000)
    keys = [cache.key(str(number)) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.store(key, {"data": random}, limit_mb=100)
        os.utime(directory / f"{key}.tenon", (1000 + age, 1000 + age))
    assert cache.load(keys[0]) is not None
    cache.store(keys[3], {"data": random}, limit_mb=1)
    assert [cache.load(key) is not None for key in keys] == [True, False, False, True]


def test_the_limit_holds_over_many_entries_and_those_of_others(directory):
    """The directory is looked through now and then only, so each process may exceed the limit by a sixteenth."""
    other = directory / f"{cache.key('other')}.tenon"
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(40):
        cache.store(cache.key(str(number)), {"data": os.urandom(60_000)}, limit_mb=1)
        if number == 20:
            other.write_bytes(bytes(900_000))
            os.utime(other, (1000, 1000))
        taken = sum(path.stat().st_size for path in directory.iterdir() if path != other)
        assert taken <= 2**20 * (1 + 1 / 16)
    assert not other.exists()
    assert cache.load(cache.key("39")) is not None


def test_to_store_looks_at_other_entries_seldom(directory, monkeypatch):
    looked = []
    monkeypatch.setattr(cache, "_evict", lambda *_, **__: looked.append(1) or 0)
    for number in range(100):
        cache.store(cache.key(str(number)), FILES, limit_mb=100)
    assert len(looked) == 1


def test_to_store_looks_at_other_entries_seldom_when_all_are_full(directory, monkeypatch):
    looked, evict = [], cache._evict
    monkeypatch.setattr(cache, "_evict", lambda *args, **kwargs: looked.append(1) or evict(*args, **kwargs))
    for number in range(300):
        if number == 150:
            looked.clear()
        cache.store(cache.key(str(number)), {"data": os.urandom(8_000)}, limit_mb=1)
    assert len(looked) < 40


def test_the_newest_entry_stays_whatever_its_size():
    key = cache.key("large")
    with knobs.override(cache_limit_mb=0):
        cache.store(key, FILES)
    assert cache.load(key) == FILES


def test_the_cache_can_be_turned_off(directory):
    key = cache.key("module")
    with knobs.override(cache=False):
        cache.store(key, FILES)
    assert not directory.exists()
    cache.store(key, FILES)
    with knobs.override(cache=False):
        assert cache.load(key) is None


def test_an_unwritable_directory_is_said_once(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with knobs.override(cache_dir=tmp_path / "file" / "cache"):
        with pytest.warns(cache.CacheWarning, match="cannot write to the cache .*, working without"):
            cache.store(cache.key("a"), FILES)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.store(cache.key("b"), FILES)
            assert cache.load(cache.key("a")) is None


@pytest.mark.parametrize("refused", ["os.scandir", "pathlib.Path.unlink"])
def test_a_directory_that_cannot_be_cleared_is_said(directory, monkeypatch, refused):
    """Nor does it matter that a damaged entry cannot be removed."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    key = cache.key("module")
    cache.store(key, FILES)
    entry_of(directory).write_bytes(b"damaged")
    monkeypatch.setattr(refused, refuse)
    with pytest.warns(cache.CacheWarning, match=rf"cannot clear the cache {directory} \(Permission denied\)"):
        assert cache.clear() == 0
    with pytest.warns(cache.CacheWarning, match="is damaged"):
        assert cache.load(key) is None


def test_a_failed_write_leaves_nothing_behind(directory, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(cache.CacheWarning, match="no space left on device"):
        cache.store(cache.key("a"), FILES)
    assert list(directory.iterdir()) == []


WRITER = """
import sys
from tenon.runtime.store import cache
from tenon.runtime.store.files import replacing, write_file
key = sys.argv[1]
for number in range(60):
    files = {"data": bytes([number]) * 50_000}
    cache.store(key, files)
    seen = cache.load(key)
    assert seen is not None and len(set(seen["data"])) == 1 and len(seen["data"]) == 50_000
"""


def test_processes_share_the_cache(directory):
    environment = {**os.environ, "TENON_CACHE_DIR": str(directory), "PYTHONWARNINGS": "error"}
    key = cache.key("shared")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, key], env=environment) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert [path.name for path in directory.iterdir()] == [f"{key}.tenon"]
    loaded = cache.load(key)
    assert loaded is not None
    assert set(loaded["data"]) == {59}


def _write_half_and_fail(path):
    path.write_text("half")
    raise FileNotFoundError


def test_files_are_replaced_at_once_and_keep_their_permissions(tmp_path):
    target = tmp_path / "target.txt"
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_file(link, "first")
    target.chmod(0o640)
    with pytest.raises(FileNotFoundError), replacing(link) as temporary:
        _write_half_and_fail(temporary)
    assert target.read_text() == "first"
    write_file(link, b"second")
    assert link.is_symlink()
    assert target.read_text() == "second"
    assert target.stat().st_mode & 0o777 == 0o640
    write_file(Path(os.devnull), "lost")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "target.txt"]


def test_versions_of_packages_are_told_by_what_installers_left_beside_them(tmp_path, monkeypatch):
    package = ModuleType("odd")
    monkeypatch.setattr(package, "__file__", str(tmp_path / "odd" / "__init__.py"), raising=False)
    monkeypatch.setattr(package, "__version__", "of its own", raising=False)
    assert cache._installed_version(package) == "of its own"
    (tmp_path / "odd-1.2.3.dist-info").mkdir()
    (tmp_path / "oddity-5.dist-info").mkdir()
    assert cache._installed_version(package) == "1.2.3"
    (tmp_path / "odd-1.2.4.dist-info").mkdir()
    assert cache._installed_version(package) == "of its own"


def test_the_version_of_xdsl_is_the_one_that_it_says():
    assert cache._installed_version(xdsl) == str(xdsl.__version__)
