"""Samples of every op with their sizes left open: one program must agree with the interpreter at other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sample import TOLERANCE
from samples import Sample, samples_of
from seeds import drawn

import tenon
import tenon.runtime.evaluate  # pyright: ignore[reportUnusedImport]  runs ops on arrays
from tenon.dialects.definition.registry import registry
from tenon.dialects.types.shapes import InferenceError
from tenon.runtime.arguments.interface import EmptySizeError
from tenon.runtime.stages import Compiled

# What the names stand for, in turn. No tensor gets so large that products depend on the order of their factors.
NUMBERS: tuple[tuple[int, ...], ...] = ((0,), (1,), (2, 3), (17, 2, 1), (3, 5, 18))
OPS = [name for name in registry() if name.startswith("tenon.")]
MOST = 8
"""How many samples of an op are tried, if not fewer are drawn."""

# Ops whose samples have settings, blocks, windows or orders that no other sizes fit, and those that Python computes.
FOR_EACH_SIZE = frozenset(
    f"tenon.{name}"
    for name in (
        "adaptive_avg_pool",
        "adaptive_max_pool",
        "argsort",
        "avg_pool",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "cholesky",
        "contract",
        "conv",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "cofactors",
        "deform_conv",
        "depth_to_space",
        "dft",
        "dilate",
        "dropout",
        "dropout_with_mask",
        "dynamic_slice",
        "eigh",
        "eigvalsh",
        "factor_determinant",
        "factor_lu",
        "fold",
        "glu",
        "inv",
        "leading_places",
        "least_squares",
        "local_response_norm",
        "lp_pool",
        "max_pool",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "max_pool_with_indices",
        "partition_sort",
        "pinv",
        "qr",
        "roi_align",
        "slice_scatter",
        "slogdet",
        "sliding_windows",
        "solve_matrices",
        "solve_triangles",
        "sort",
        "space_to_depth",
        "svd",
        "svdvals",
        "top_k",
        "trace",
        "transform_rows",
        "transposed_convolution",
        "window_argmax",
        "window_max",
        "window_sum",
    )
)


def left_open(sample: Sample) -> list[Any]:
    """The sample's arguments, in which sizes above 1 are open: equal ones have one name."""
    return [
        tenon.ShapeDtype([tenon.dim(f"s{size}") if size > 1 else size for size in array.shape], array.dtype)
        for array in sample.arrays
    ]


def compiled(sample: Sample) -> Compiled | None:
    """The program for all sizes, `None` where the sample depends on its own or needs a buffer of them on the stack."""
    try:
        return tenon.jit(lambda *arrays: sample.apply(arrays)).compile(*left_open(sample))
    except ValueError:
        return None


def resized(sample: Sample, names: Sequence[str], numbers: Sequence[int]) -> list[Any]:
    """The sample's arrays, repeated or cut to other sizes."""
    values = {name: numbers[i % len(numbers)] for i, name in enumerate(names)}
    return [np.resize(a, [values[f"s{size}"] if size > 1 else size for size in a.shape]) for a in sample.arrays]


def check(sample: Sample, program: Compiled, arrays: Sequence[Any]) -> bool:
    """Compare with the interpreter; whether both take `arrays`."""
    try:
        # `test_registry` verifies what is interpreted.
        with tenon.knobs.override(interpret=True, verify=False), np.errstate(all="ignore"):
            expected = sample.apply(arrays)
        results = program(*arrays)
    except (InferenceError, EmptySizeError):
        return False
    for result, wanted in zip(results, map(np.asarray, expected), strict=True):
        tolerance = max(8 * TOLERANCE.get(result.dtype, 0.0), sample.rtol or 0.0)
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=8 * tolerance)
    return True


@pytest.mark.parametrize("name", OPS)
def test_one_program_agrees_with_the_interpreter_at_other_sizes(name: str) -> None:
    served = 0
    chosen, others = drawn(samples_of(name, MOST), name)
    for number, sample in enumerate([*chosen, *others]):
        if number >= len(chosen) and (served or name in FOR_EACH_SIZE):
            break
        program = compiled(sample)
        if program is None or not program.interface.sizes:
            continue
        names = program.interface.sizes
        served += sum(check(sample, program, resized(sample, names, numbers)) for numbers in NUMBERS)
        served += check(sample, program, sample.arrays)
    takes_sizes = any(size > 1 for s in samples_of(name, MOST) for a in s.arrays for size in a.shape)
    assert (served > 0) == (takes_sizes and name not in FOR_EACH_SIZE)
