"""Every op forwards: what `jvp` pushes forward is what the gradient pulls back, by their inner products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample import Sample
from samples import SAMPLES
from test_vmap_registry import distinct

import tenon
from tenon.runtime.knobs import knobs

SMOOTH = [sample for sample in SAMPLES if sample.differentiable and sample.arrays]


@pytest.mark.parametrize("sample", distinct(SMOOTH, by_op=True), ids=str)
def test_jvp_is_the_transpose_of_vjp(sample: Sample) -> None:
    """One sample of an op: what is done with its reverse rule is the same for all."""
    wide = sample.in_float64()
    positions = [i for i, array in enumerate(wide.arrays) if array.dtype.kind == "f"]
    generator = np.random.default_rng(11)

    def function(*moving: Any) -> Any:
        given: list[Any] = list(wide.arrays)
        for position, value in zip(positions, moving, strict=True):
            given[position] = value
        return tuple([r for r in wide.apply(given) if r.dtype.kind == "f"])

    def pushed(primals: Any, tangents: Any) -> Any:
        return tenon.jvp(function, primals, tangents)

    primals = tuple([wide.arrays[i] for i in positions])
    tangents = tuple([np.asarray(generator.standard_normal(x.shape)) for x in primals])
    with knobs.override(interpret=True), np.errstate(all="ignore"):
        values, forwards = tenon.jit(pushed)(primals, tangents)
        weights = tuple([np.asarray(generator.standard_normal(np.shape(v))) for v in values])
        _, back = tenon.jit(lambda c, p: tenon.vjp(function, *p, cotangent=c))(weights, primals)
    sample_of = zip(values, forwards, strict=True)
    assert all(np.shape(value) == np.shape(tangent) for value, tangent in sample_of)
    terms = [np.sum(w * t) for w, t in zip(weights, forwards, strict=True)]
    other = [np.sum(b * t) for b, t in zip(back, tangents, strict=True)]
    scale = sum(np.abs(w * t).sum() for w, t in zip(weights, forwards, strict=True))
    np.testing.assert_allclose(sum(terms), sum(other), rtol=1e-10, atol=1e-12 * max(1.0, float(scale)))
