"""Training steps in a new process: compiled, started from the disk cache, and what memory they take."""

from __future__ import annotations

from benchmarks.networks import NETWORKS, vision
from benchmarks.processes import ProcessWorkload
from benchmarks.workload import Target

COMPILE, START, MEMORY = "Compiling", "Starting from the disk cache", "Memory"
COMPILERS = ("tenon", "torch.compile", "jax")

WORKLOADS = (
    *[
        ProcessWorkload(
            f"compile-{network}",
            COMPILE,
            "compile",
            network,
            COMPILERS if network in NETWORKS else ("tenon", "jax"),
            Target(peers={"jax": 1.0, "torch.compile": 10.0}),
        )
        for network in (*NETWORKS, *vision.NETWORKS)
    ],
    *[
        ProcessWorkload(f"start-{network}", START, "start", network, COMPILERS, Target(peers={"jax": 3.0}))
        for network in NETWORKS
    ],
    *[
        ProcessWorkload(f"start-{network}-imports", START, "start", network, COMPILERS, figure="process")
        for network in NETWORKS
    ],
    ProcessWorkload(
        "memory-transformer",
        MEMORY,
        "memory",
        "transformer",
        ("tenon", "torch", "torch.compile", "jax"),
        Target(peers={"torch": 1.0}),
    ),
    ProcessWorkload(
        "arena-transformer", MEMORY, "plan", "transformer", ("tenon", "jax"), Target(limit=round(1 / 1.1, 3))
    ),
)
