"""All workloads, by name, in the order of the table."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from benchmarks.processes import ProcessWorkload
from benchmarks.workload import Workload
from benchmarks.workloads import (
    attention,
    calls,
    channels_last,
    convolution,
    decoding,
    eager,
    elementwise,
    index_sets,
    indexing,
    matmul,
    models,
    movement,
    normalization,
    ordering,
    programs,
    recurrent,
    reductions,
    sampling,
    short_rows,
    start,
    training,
)

MODULES = (
    matmul,
    elementwise,
    sampling,
    normalization,
    short_rows,
    reductions,
    movement,
    index_sets,
    indexing,
    ordering,
    convolution,
    channels_last,
    attention,
    decoding,
    recurrent,
    training,
    models,
    programs,
    calls,
    eager,
    start,
)


def all_workloads() -> dict[str, Workload | ProcessWorkload]:
    """Every workload by its name."""
    found: dict[str, Workload | ProcessWorkload] = {}
    for module in MODULES:
        for workload in module.WORKLOADS:
            if workload.name in found:
                raise ValueError(f"two workloads are named {workload.name!r}")
            found[workload.name] = workload
    return found


def select(names: Sequence[str]) -> list[Workload | ProcessWorkload]:
    """The workloads that `names` stand for (names, or patterns such as `matmul-*`), in the table's order; all for none.

    Raises `ValueError` for a name that stands for none.
    """
    known = all_workloads()
    if not names:
        return list(known.values())
    chosen: set[str] = set()
    for name in names:
        matching = [known_name for known_name in known if fnmatchcase(known_name, name)]
        if not matching:
            close = difflib.get_close_matches(name, known, 3)
            hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
            raise ValueError(f"no workload is named {name!r}; {hint}")
        chosen.update(matching)
    return [workload for name, workload in known.items() if name in chosen]
