"""Files that are replaced as a whole, so that whoever reads one never sees half of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def new_file(path: Path, mode: int = 0o666) -> tuple[Path, int]:
    """A new, empty file beside `path`, and its descriptor: nobody can have prepared what is found there."""
    temporary = path.with_name(f".{path.stem[:16]}.{secrets.token_hex(8)}{path.suffix}")
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A new file beside `path` that takes its place when the block ends well, and vanishes otherwise.

    Its name starts with a dot and ends like that of `path`. A file that is replaced keeps its permissions, and a link
    goes on to lead to it. Devices and pipes cannot be replaced: there the path itself is given.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    temporary, descriptor = new_file(path)
    os.close(descriptor)
    try:
        yield temporary
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except OSError as error:
        # What could not be written is `path`, for all that anybody knows.
        if error.filename == str(temporary):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Give `path` this content, at once."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
