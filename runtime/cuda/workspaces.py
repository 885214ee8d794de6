"""Scratch memory of a program on a device, kept between calls, with the launches that use it.

A workspace serves one call at a time, and calls of one stream only: the device does their work in order, so the next
call may use the memory as soon as the host has given all of this one's work to the stream. Calls of other streams, and
of threads that call meanwhile, have workspaces of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tenon.dialects.support.forking import new_lock
from tenon.runtime.cuda.cublas import Scratch
from tenon.runtime.cuda.launches import Launches

_MOST_STREAMS = 8
"""Streams of which workspaces are kept, those used last."""

_MOST_REPLAYS = 64
"""Sets of addresses that a workspace remembers: a loop that has its results take turns needs a few, one over batches
that stay on the GPU some for each batch."""


@dataclass
class Replay:
    """How often a program ran on one set of addresses, and its graph for them."""

    runs: int = 0
    graph: Any = None


@dataclass
class Workspace:
    """The addresses of the arena and of what `main` allocates, and the `owner` of their memory."""

    addresses: tuple[int, ...]
    owner: object
    launches: Launches | None = None
    """Those of a program that was recorded, in this memory."""
    scratch: Scratch | None = None
    """Memory in which cuBLAS works."""
    stream: Any = None
    """Held, so that no other stream has its name while this is kept for it."""
    replays: OrderedDict[bytes, Replay] = field(default_factory=OrderedDict[bytes, Replay])

    def replay(self, addresses: bytes) -> Replay:
        """What is known of these addresses of arguments and results."""
        known = self.replays.get(addresses)
        if known is None:
            known = self.replays[addresses] = Replay()
            if len(self.replays) > _MOST_REPLAYS:
                self.replays.popitem(last=False)
        else:
            self.replays.move_to_end(addresses)
        return known


class Workspaces:
    """Those of one program that no call uses now, by stream."""

    def __init__(self, make: Callable[[], Workspace]) -> None:
        self._make = make
        self._idle: OrderedDict[Hashable, list[Workspace]] = OrderedDict()
        self._lock = new_lock()
        self._held: list[Workspace] = []

    def take(self, stream: Any, key: Hashable) -> Workspace:
        """One for a call on this stream, which others cannot have until it is given back."""
        with self._lock:
            idle = self._idle.get(key)
            if idle:
                return idle.pop()
        made = self._make()
        made.stream = stream
        return made

    def give(self, key: Hashable, workspace: Workspace) -> None:
        """Have calls of the same stream use it from now on."""
        with self._lock:
            self._idle.setdefault(key, []).append(workspace)
            self._idle.move_to_end(key)
            if len(self._idle) > _MOST_STREAMS:
                self._idle.popitem(last=False)

    def hold(self, workspace: Workspace) -> None:
        """Keep it from all calls: a graph of the caller's goes on to use it."""
        with self._lock:
            self._held.append(workspace)
