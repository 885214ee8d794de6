"""Programs whose places are known only at run time: sums by segment, histograms, bags of embeddings, graphs."""

from __future__ import annotations

import numpy as np

from benchmarks.peers import Array
from benchmarks.program import program
from benchmarks.workload import generator

SECTION = "Indices"
SEGMENTS = 1000


def _segments(is_sorted: bool) -> tuple[Array, Array]:
    random = generator()
    rows, places = random.standard_normal((100_000, 32), np.float32), random.integers(0, SEGMENTS, 100_000)
    return rows, np.sort(places) if is_sorted else places


def _segment_sum(rows: Array, places: Array) -> Array:
    result = np.zeros((SEGMENTS, rows.shape[1]))
    np.add.at(result, places, rows)
    return result


def _embeddings() -> tuple[Array, Array]:
    random = generator()
    return random.standard_normal((50_000, 64), np.float32), random.integers(0, 50_000, (4096, 20))


def _taken() -> tuple[Array, Array]:
    random = generator()
    return random.standard_normal((4096, 512), np.float32), random.integers(0, 512, (4096, 64))


def _graph() -> tuple[Array, Array, Array]:
    random = generator()
    nodes = random.standard_normal((10_000, 64), np.float32)
    return nodes, random.integers(0, 10_000, 80_000), random.integers(0, 10_000, 80_000)


def _neighbours(nodes: Array, sources: Array, targets: Array) -> Array:
    result = np.zeros(nodes.shape)
    np.add.at(result, targets, nodes[sources])
    return result


WORKLOADS = (
    *[
        program(
            f"segment-sum-{'sorted' if is_sorted else 'random'}-100000x32",
            SECTION,
            lambda is_sorted=is_sorted: _segments(is_sorted),
            tenon=lambda tenon, x, i: tenon.zeros((SEGMENTS, 32)).at[i].add(x),
            torch=lambda torch, x, i: torch.zeros(SEGMENTS, 32).index_add_(0, i, x),
            jax=lambda jax, x, i: jax.ops.segment_sum(x, i, SEGMENTS),
            exact=_segment_sum,
        )
        for is_sorted in (True, False)
    ],
    program(
        "histogram-1e6",
        SECTION,
        lambda: (generator().integers(0, 256, 1_000_000),),
        tenon=lambda tenon, i: tenon.zeros((256,)).at[i].add(1.0),
        like_numpy=lambda np_, i: np_.bincount(i, minlength=256),
        torch=lambda torch, i: torch.bincount(i, minlength=256),
        jax=lambda jax, i: jax.numpy.zeros(256).at[i].add(1.0),
    ),
    program(
        "take-along-axis-4096x512",
        SECTION,
        _taken,
        tenon=lambda tenon, x, i: tenon.take_along_axis(x, i, axis=1),
        like_numpy=lambda np_, x, i: np_.take_along_axis(x, i, 1),
        torch=lambda torch, x, i: torch.gather(x, 1, i),
    ),
    program(
        "embedding-4096x20x64",
        SECTION,
        _embeddings,
        tenon=lambda tenon, table, i: tenon.take(table, i, axis=0),
        like_numpy=lambda np_, table, i: table[i],
        torch=lambda torch, table, i: torch.nn.functional.embedding(i, table),
    ),
    program(
        "embedding-bag-4096x20x64",
        SECTION,
        _embeddings,
        tenon=lambda tenon, table, i: tenon.take(table, i, axis=0).sum(axis=1),
        like_numpy=lambda np_, table, i: table[i].sum(1),
        torch=lambda torch, table, i: torch.nn.functional.embedding_bag(i, table, mode="sum"),
    ),
    program(
        "graph-convolution-80000",
        SECTION,
        _graph,
        tenon=lambda tenon, x, s, t: tenon.zeros(x.shape).at[t].add(tenon.take(x, s, axis=0)),
        torch=lambda torch, x, s, t: torch.zeros_like(x).index_add_(0, t, x[s]),
        jax=lambda jax, x, s, t: jax.ops.segment_sum(x[s], t, 10_000),
        exact=_neighbours,
    ),
)
