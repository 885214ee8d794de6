"""Commands without their start-up: each is forked from one process that has imported what they are made of.

A command is a file of its name in a folder that goes in front of `PATH`. It hands its arguments, environment, working
directory and open files to the server; the server forks a process that runs the same function as the installed script,
and the file exits as that process does. So nothing that a command leaves behind reaches another one.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMANDS = ("filecheck", "lit", "tenon", "tenon-opt")

# Without `site` and the pure part of `socket` this starts in 15 ms.
CLIENT = """#!/bin/sh
'''exec' {python} -I -S "$0" "$@"
' '''
import _socket, array, json, os, sys
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([os.path.basename(sys.argv[0]), sys.argv, os.getcwd(), dict(os.environ)]).encode()
files = array.array("i", [0, 1, 2])
server.sendmsg([len(call).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(call)
status = server.recv(8)
if not status:
    sys.exit("the server of commands is gone")
code = int(status)
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class CommandServer:
    """A server, for the time of a `with` block, and the folder `commands` with the files that call it."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="tenon-commands-")
        folder = Path(self._directory.name)
        self.commands = folder / "bin"
        self.commands.mkdir()
        client = CLIENT.format(python=f'"{sys.executable}"', address=str(folder / "server"))
        for name in COMMANDS:
            (self.commands / name).write_text(client)
            (self.commands / name).chmod(0o755)
        # Python warns of forks beside other threads, such as those of a BLAS library.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(folder / "server")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the server of commands ended with exit status {self._process.wait()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The end of its input ends the server, as does the end of this process.
        self._process.communicate()
        self._directory.cleanup()


def _import_all() -> None:
    """Import what commands import when they need it."""
    # Ops are listed in the order of their definition, which is that of their first import.
    import_module("tenon.dialects.definition.registry").registry()
    for layer in ("dialects", "passes", "lowering", "runtime", "tools"):
        package = import_module(f"tenon.{layer}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def _serve(address: str) -> None:
    """Serve until the input ends."""
    commands = {name: entry_points(group="console_scripts")[name].load() for name in COMMANDS}
    _import_all()
    gc.freeze()
    # Whoever waits for a command interrupts it, and then ends the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, tuple[BaseProcess, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin.fileno() not in (ready := wait([sys.stdin.fileno(), listener, *running])):
            for sentinel in running.keys() & ready:
                process, connection = running.pop(sentinel)
                process.join()
                # Who asked may have been ended meanwhile.
                with connection, contextlib.suppress(OSError):
                    connection.sendall(str(process.exitcode).encode())
            if listener in ready:
                connection, _ = listener.accept()
                process = get_context("fork").Process(target=_answer, args=(connection, commands))
                process.start()
                running[process.sentinel] = process, connection


def _answer(connection: socket.socket, commands: Mapping[str, Callable[[], Any]]) -> None:
    """Take a call and run the command, as if this process had been started for it."""
    header, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    with connection, connection.makefile("rb") as stream:
        name, arguments, directory, environment = json.loads(stream.read(int.from_bytes(header, "big")))
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # How a stream of text behaves depends on the file that it is made for.
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1, errors="backslashreplace")
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(commands[name]())


if __name__ == "__main__":
    _serve(sys.argv[1])
