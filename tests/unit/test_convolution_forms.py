"""Convolutions of any geometry, and their gradients, against sums in double precision, whatever form they run in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineExpr, AffineMap

import tenon
from tenon.dialects.families import ContractionOp
from tenon.dialects.ops.contract.contraction import ContractOp
from tenon.dialects.ops.contract.convolution import ConvolutionOp
from tenon.dialects.ops.move.shape import TransposeOp
from tenon.dialects.types.size import replaced
from tenon.dialects.types.types import shape_of
from tenon.lowering.kernels.intermediates import read_without_padding
from tenon.lowering.kernels.statement import kernels_of, read_kernel
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stages
from tenon.passes.layout.minimal_filtering import filtering_matrices
from tenon.passes.pipeline import TENSOR_PIPELINE
from tenon.runtime.executables import executable
from tenon.runtime.lower import new_context

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Geometry:
    """A convolution of images (n, groups * depth, *image) with a weight (groups * filters, depth, *window)."""

    n: int
    groups: int
    depth: int
    filters: int
    image: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    def arrays(self) -> list[Array]:
        """Images, a weight and a cotangent of the result, in f32."""
        rng = np.random.default_rng(abs(hash(self)) % 2**32)
        x = (self.n, self.groups * self.depth, *self.image)
        weight = (self.groups * self.filters, self.depth, *self.window)
        g = (self.n, self.groups * self.filters, *self.counts())
        return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in (x, weight, g)]

    def counts(self) -> tuple[int, ...]:
        sizes = zip(self.image, self.window, self.stride, self.dilation, self.padding, strict=True)
        return tuple((size + 2 * pad - gap * (taps - 1) - 1) // step + 1 for size, taps, step, gap, pad in sizes)

    def settings(self) -> dict[str, Any]:
        names = ("stride", "dilation", "padding", "groups")
        return {name: getattr(self, name) for name in names}

    def expected(self, x: Array, weight: Array, g: Array) -> tuple[Array, Array, Array]:
        """The result and the gradients of x and weight, tap by tap in double precision."""
        counts, sides = self.counts(), [(0, 0), (0, 0), *[(pad, pad) for pad in self.padding]]
        padded = np.pad(x.astype(np.float64), sides)
        padded = padded.reshape(self.n, self.groups, self.depth, *padded.shape[2:])
        by_group = weight.astype(np.float64).reshape(self.groups, self.filters, *weight.shape[1:])
        cotangent = g.astype(np.float64).reshape(self.n, self.groups, self.filters, *counts)
        result, to_x, to_weight = np.zeros_like(cotangent), np.zeros_like(padded), np.zeros_like(by_group)
        for tap in product(*map(range, self.window)):
            places = zip(tap, counts, self.stride, self.dilation, strict=True)
            part = (..., *[slice(t * gap, t * gap + (size - 1) * step + 1, step) for t, size, step, gap in places])
            at = (..., *tap)
            result += np.einsum("ngc...,gfc->ngf...", padded[part], by_group[at])
            to_x[part] += np.einsum("ngf...,gfc->ngc...", cotangent, by_group[at])
            summed = [0, *range(2, 2 + len(tap))]
            for group in range(self.groups):
                by_tap = np.tensordot(cotangent[:, group], padded[part][:, group], (summed, summed))
                to_weight[(group, ..., *tap)] += by_tap
        inside = tuple(slice(pad, pad + size) for pad, size in zip(self.padding, self.image, strict=True))
        to_x = to_x.reshape(x.shape[:2] + to_x.shape[3:])[(..., *inside)]
        return result.reshape(g.shape), to_x, to_weight.reshape(weight.shape)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    rank = draw(st.integers(1, 2))

    def each(*sizes: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(sizes)) for _ in range(rank))

    window, dilation = each(1, 2, 3, 3, 5), each(1, 1, 1, 2)
    least = [(taps - 1) * gap + 1 for taps, gap in zip(window, dilation, strict=True)]
    image = tuple(map(max, each(1, 7, 13, 16, 29, 40), least))
    channels = st.sampled_from([1, 2, 3, 5, 16])
    return Geometry(
        n=draw(st.sampled_from([0, 1, 2, 3])),
        groups=draw(st.sampled_from([1, 1, 2, 8])),
        depth=draw(channels),
        filters=draw(channels),
        image=image,
        window=window,
        stride=each(1, 1, 2, 3, 5),
        dilation=dilation,
        padding=tuple(draw(st.integers(0, taps // 2)) for taps in window),
    )


def in_form(geometry: Geometry, options: str = "") -> ModuleOp:
    """A convolution behind the pass `convolution-forms` with these options."""
    x, weight, _ = geometry.arrays()
    module = tenon.jit(lambda x, weight: tenon.conv(x, weight, **geometry.settings())).trace(x, weight).module.clone()
    run_passes(new_context(), module, ["decompose", f"convolution-forms{options}"])
    return module


def shapes_of(geometry: Geometry, n: Any) -> list[tenon.ShapeDtype]:
    """What `Geometry.arrays` gives, for `n` images."""
    x, weight, g = [array.shape for array in geometry.arrays()]
    return [tenon.ShapeDtype(shape, "f32") for shape in ((n, *x[1:]), weight, (n, *g[1:]))]


def check(geometry: Geometry, *, named: bool = False) -> None:
    """Compare with sums in double precision; `named`, by a program for any number of images."""
    x, weight, g = geometry.arrays()

    def convolved(x: Any, weight: Any) -> Any:
        return tenon.conv(x, weight, **geometry.settings())

    def all_of(x: Any, weight: Any, g: Any) -> Any:
        result, gradients = tenon.vjp(convolved, x, weight)
        return result, *gradients(g)

    # A tap adds as many products as it has channels; a gradient those of all windows.
    taps, windows = int(np.prod(geometry.window)), geometry.n * int(np.prod(geometry.counts()))
    terms = max(taps * max(geometry.depth, geometry.filters), windows)
    jitted = tenon.jit(all_of)
    results = (jitted.compile(*shapes_of(geometry, tenon.dim("n"))) if named and geometry.n else jitted)(x, weight, g)
    for ours, expected in zip(results, geometry.expected(x, weight, g), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=4e-7 * terms**0.5 + 1e-6)


@settings(max_examples=24, deadline=None)
@given(geometries(), st.booleans())
def test_any_convolution_and_its_gradients(geometry: Geometry, named: bool) -> None:
    check(geometry, named=named)


FILTERED = [
    Geometry(2, 1, 16, 16, (16, 28), (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(1, 2, 16, 17, (29, 26), (3, 2), (1, 1), (1, 2), (0, 0)),
    Geometry(1, 1, 19, 16, (24, 30), (3, 1), (1, 1), (1, 1), (0, 0)),
    Geometry(1, 1, 16, 16, (5, 14, 26), (2, 3, 3), (2, 1, 1), (2, 1, 1), (0, 1, 0)),
    Geometry(3, 1, 17, 16, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("geometry", FILTERED)
def test_filtering_along_rows(geometry: Geometry) -> None:
    """Groups of 4 rows; the last one of 29, 5 and 14 rows is not full, and images are narrow, too."""
    assert sum(isinstance(op, ContractOp) for op in in_form(geometry).walk()) == 4
    check(geometry)


def test_without_filtering_windows_keep_infinities_apart() -> None:
    x = np.zeros((1, 16, 16, 32), np.float32)
    x[0, 3, 8, 9] = np.inf
    weight = np.ones((16, 16, 3, 3), np.float32)
    step = tenon.jit(lambda x, w: tenon.conv(x, w, padding=1))
    near = np.zeros((16, 32), bool)
    near[7:10, 8:11] = True
    assert (np.isfinite(step(x, weight)) != ~near).any(), "filtering is expected by default"
    with tenon.knobs.override(minimal_filtering=False):
        for result in (step(x, weight), tenon.conv(x, weight, padding=1)):
            np.testing.assert_array_equal(result, np.broadcast_to(np.where(near, np.inf, 0), (1, 16, 16, 32)))
        (to_x,) = tenon.vjp(lambda x: step(x, weight), np.zeros_like(x))[1](x)
        np.testing.assert_array_equal(to_x, np.broadcast_to(np.where(near, np.inf, 0), (1, 16, 16, 32)))


@pytest.mark.parametrize("geometry", FILTERED[:-1])  # a narrow image takes a contraction along its rows
def test_passes_without_filtering(geometry: Geometry) -> None:
    x, weight, g = geometry.arrays()
    module = tenon.jit(lambda x, weight: tenon.conv(x, weight, **geometry.settings())).trace(x, weight).module.clone()
    run_passes(new_context(), module, stages(LoweringOptions(filtering=False))[0].passes[:-2])
    assert not any(isinstance(op, ContractOp) for op in module.walk())
    with tenon.knobs.override(minimal_filtering=False):
        result = tenon.conv(x, weight, **geometry.settings())
    np.testing.assert_allclose(result, geometry.expected(x, weight, g)[0], rtol=1e-4, atol=1e-4)


NARROW = [
    Geometry(1, 1, 16, 16, (14, 14), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(2, 2, 9, 8, (17, 19), (5, 3), (2, 3), (1, 1), (2, 1)),
    Geometry(1, 1, 23, 13, (13, 15), (3, 3), (1, 1), (2, 1), (1, 1)),
    Geometry(1, 1, 16, 8, (5, 29, 27), (2, 1, 3), (2, 4, 2), (2, 1, 1), (0, 0, 1)),
]


@pytest.mark.parametrize("geometry", NARROW)
def test_rows_one_behind_the_other(geometry: Geometry) -> None:
    """An image for each place between two windows that some window reaches: 4, 6, 1 and 2 of them."""
    steps = zip(geometry.stride[-2:], geometry.window[-2:], strict=True)
    phases = int(np.prod([min(step, taps) for step, taps in steps]))
    assert sum(isinstance(op, ContractOp) for op in in_form(geometry).walk()) == phases
    check(geometry)


BLOCKS = [
    Geometry(2, 1, 3, 20, (33, 34), (4, 4), (4, 4), (1, 1), (0, 0)),
    Geometry(1, 2, 8, 9, (40, 57), (4, 2), (2, 2), (1, 1), (1, 1)),
    Geometry(2, 1, 3, 20, (64, 64), (7, 7), (2, 2), (1, 1), (3, 3)),
    Geometry(2, 1, 16, 20, (999,), (11,), (4,), (1,), (2,)),
    Geometry(1, 1, 4, 8, (9, 28, 98), (3, 2, 6), (3, 2, 3), (1, 1, 1), (0, 1, 0)),
]


@pytest.mark.parametrize("geometry", BLOCKS)
def test_places_in_blocks_are_channels(geometry: Geometry) -> None:
    blocks = [op for op in in_form(geometry).walk() if op.name == "tenon.transpose"]
    assert [len(shape_of(op.results[0].type) or ()) for op in blocks] == [3 + 2 * len(geometry.image)] * 2
    check(geometry)


ALONG_FILTERS = [
    Geometry(2, 2, 3, 32, (17, 19), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(1, 2, 3, 24, (25, 41), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(4, 1, 16, 64, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(1, 1, 5, 32, (1024,), (7,), (3,), (2,), (2,)),
    Geometry(1, 1, 3, 32, (3, 21, 23), (2, 3, 1), (1, 1, 2), (1, 2, 1), (0, 1, 0)),
]


@pytest.mark.parametrize("geometry", ALONG_FILTERS)
def test_vectors_along_filters(geometry: Geometry) -> None:
    """Windows that step, and few windows; with groups and dilation, in one to three dimensions. Two vectors of filters,
    or all of them where they fill most of two."""
    module = in_form(geometry)
    (product,) = [op for op in module.walk() if isinstance(op, ContractOp)]
    assert [*(shape_of(product.results[0].type) or ())][-1] == min(geometry.filters, 32)
    run_passes(new_context(), module, ["layout"])
    # The weight's, and none of the result.
    assert len([op for op in module.walk() if isinstance(op, TransposeOp)]) == 1
    check(geometry)


ALONG_CHANNELS = [
    Geometry(2, 64, 1, 1, (14, 6), (5, 5), (1, 1), (1, 1), (2, 2)),
    Geometry(8, 96, 1, 1, (9, 3), (3, 3), (2, 1), (2, 2), (2, 2)),
    Geometry(64, 128, 1, 1, (8,), (7,), (1,), (1,), (0,)),
]


@pytest.mark.parametrize("geometry", ALONG_CHANNELS)
def test_vectors_along_channels(geometry: Geometry) -> None:
    """Channels by themselves, in rows shorter than a vector; padding is put around the transposed image."""
    (total,) = [op for op in in_form(geometry).walk() if isinstance(op, ContractOp)]
    assert [*(shape_of(total.results[0].type) or ())][-1] == 16
    check(geometry)


def test_elements_wider_than_vectors() -> None:
    x, weight = np.zeros((1, 3, 34, 34)), np.zeros((64, 3, 7, 7))
    module = tenon.jit(lambda x, weight: tenon.conv2d(x, weight, stride=2)).trace(x, weight).module.clone()
    run_passes(new_context(), module, ["decompose", 'convolution-forms{machine="vector-bits=32"}'])
    assert not any(op.name == "tenon.contract" for op in module.walk())


STEPPED = [
    (Geometry(1, 1, 32, 16, (30, 21), (3, 4), (2, 3), (1, 1), (1, 0)), 6),
    (Geometry(1, 1, 8, 32, (30, 31), (3, 3), (2, 2), (2, 2), (2, 1)), 1),
    (Geometry(1, 1, 16, 16, (33, 34), (5, 1), (4, 2), (2, 1), (3, 0)), 2),
    (Geometry(1, 2, 16, 16, (301,), (7,), (3,), (2,), (2,)), 3),
    (Geometry(1, 1, 8, 32, (7, 9, 12), (3, 2, 3), (2, 1, 2), (1, 1, 1), (1, 0, 1)), 4),
]


@pytest.mark.parametrize(("geometry", "phases"), STEPPED)
def test_gradients_of_windows_that_step(geometry: Geometry, phases: int) -> None:
    """A convolution for each place between two windows that some tap reaches, of one image and of one weight."""
    x, weight, g = geometry.arrays()
    convolved = partial(tenon.conv, **geometry.settings())
    module = tenon.jit(lambda w, g: tenon.vjp(lambda x: convolved(x, w), x)[1](g)).trace(weight, g).module.clone()
    run_passes(new_context(), module, ["decompose", "dce"])
    assert sum(isinstance(op, ConvolutionOp) for op in module.walk()) == phases
    check(geometry)


ONE_WINDOW = [
    Geometry(8, 1, 16, 32, (7, 7), (4, 4), (4, 4), (1, 1), (0, 0)),
    Geometry(8, 2, 8, 16, (15, 5), (3, 3), (1, 5), (2, 1), (1, 1)),
    Geometry(16, 1, 16, 16, (7, 2, 6), (1, 2, 3), (1, 5, 4), (1, 1, 1), (0, 2, 0)),
]


@pytest.mark.parametrize("geometry", ONE_WINDOW)
def test_gradients_where_an_image_ends_behind_its_only_window(geometry: Geometry) -> None:
    check(geometry)


@pytest.mark.parametrize("low", [42, 0])
def test_places_that_no_window_of_their_phase_reaches(low: int) -> None:
    """What is left of the image for such a phase is nothing, on whichever side."""
    x, weight = np.ones((64, 1, 32, 10), np.float32), np.ones((1, 32, 32, 4), np.float32)
    result = tenon.transposed_convolution(x, weight, size=(1,), stride=(4,), dilation=(3,), low=(low,))
    whole = np.zeros(low + 46, np.float32)
    for tap in range(4):
        whole[3 * tap : 3 * tap + 37 : 4] += 32
    np.testing.assert_array_equal(result, np.broadcast_to(whole[low], result.shape))


@pytest.mark.parametrize("depth", [3, 32])
def test_slices_of_a_padded_image_share_it(depth: int) -> None:
    """Whether vectors run along columns or along filters."""
    geometry = Geometry(1, 1, depth, 16, (96, 96), (3, 3), (2, 2), (1, 1), (1, 1))
    x, weight, g = geometry.arrays()
    convolved = partial(tenon.conv, **geometry.settings())
    step = tenon.jit(lambda w, g: tenon.vjp(lambda x: convolved(x, w), x)[1](g)[0])
    module = step.trace(weight, g).module.clone()
    run_passes(new_context(), module, TENSOR_PIPELINE[:-1])
    names = [op.name for op in module.walk()]
    assert (names.count("tenon.pad"), names.count("tenon.contract"), names.count("tenon.convolution")) == (1, 4, 0)
    np.testing.assert_allclose(step(weight, g), geometry.expected(x, weight, g)[1], rtol=1e-4, atol=1e-4)


def test_results_that_are_joined_are_written_where_they_go() -> None:
    geometry = Geometry(4, 1, 32, 32, (16, 16), (4, 4), (2, 2), (1, 1), (1, 1))
    x, weight, g = geometry.arrays()
    step = tenon.jit(lambda w, g: tenon.vjp(lambda x: tenon.conv(x, w, stride=2, padding=1), x)[1](g)[0])
    assert "memref.copy" not in str(step.compile(weight, g).memory())
    np.testing.assert_allclose(step(weight, g), geometry.expected(x, weight, g)[1], rtol=1e-4, atol=1e-4)


def test_loop_that_no_operand_is_along_shares_nothing() -> None:
    """It has a buffer that says how long it is, which is no reason to run what is around it in pieces."""
    g, x = np.zeros((32, 4, 8), np.float32), np.zeros((16, 40), np.float32)
    f, c, tap, part, i, j = [AffineExpr.dimension(n) for n in range(6)]
    maps = [AffineMap(6, 0, index) for index in ((f, part, j), (c, part * 8 + i * 8 + j + tap), (f, c, tap))]
    step = tenon.jit(lambda g, x: tenon.contract((g, x), maps=maps, extents=(32, 16, 2, 4, 1, 8), shape=(32, 16, 2)))
    module = step.trace(g, x).module.clone()
    for stage in stages(LoweringOptions())[:3]:
        run_passes(new_context(), module, stage.passes)
    (kernel,) = [read_kernel(function) for function in kernels_of(module)]
    assert kernel.intermediates
    assert not kernel.runs_together()


AS_COLUMNS = [
    Geometry(2, 1, 5, 128, (14, 13), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(1, 2, 3, 128, (11, 6), (3, 2), (1, 1), (2, 1), (1, 0)),
    Geometry(1, 1, 3, 130, (61,), (5,), (3,), (1,), (0,)),
    Geometry(2, 2, 40, 32, (7, 7), (1, 1), (1, 1), (1, 1), (0, 0)),
]


@pytest.mark.parametrize("geometry", AS_COLUMNS)
def test_windows_as_columns(geometry: Geometry) -> None:
    """Few windows and many filters: a product of matrices, whatever windows step, and elements are apart."""
    (product,) = [op for op in in_form(geometry).walk() if isinstance(op, ContractionOp)]
    assert [*(shape_of(product.results[0].type) or ())][-1] == int(np.prod(geometry.counts()))
    check(geometry)


BY_CHANNEL = [
    Geometry(1, 67, 1, 1, (29, 31), (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(2, 64, 1, 1, (17, 40), (5, 2), (2, 1), (1, 2), (2, 1)),
    Geometry(3, 70, 1, 1, (23,), (7,), (1,), (1,), (3,)),
    Geometry(1, 64, 1, 1, (1, 16), (1, 3), (1, 1), (1, 1), (0, 1)),
    Geometry(1, 65, 1, 1, (9, 14), (3, 3), (1, 1), (3, 1), (3, 2)),
    Geometry(1, 64, 1, 1, (41, 33), (4, 3), (3, 2), (1, 1), (1, 1)),
    Geometry(2, 66, 2, 3, (13, 19), (3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize("geometry", BY_CHANNEL, ids=str)
def test_each_channel_by_itself(geometry: Geometry) -> None:
    check(geometry)


def test_padding_and_windows_are_one_kernel_where_windows_are_read_once() -> None:
    def kernels(groups: int) -> int:
        x, weight = np.zeros((1, 64, 30, 30), np.float32), np.zeros((64, 64 // groups, 3, 3), np.float32)
        module = tenon.jit(lambda x, w: tenon.conv2d(x, w, padding=1, groups=groups)).trace(x, weight).module.clone()
        run_passes(new_context(), module, stages(LoweringOptions(filtering=False))[0].passes)
        return sum("kernel" in op.attributes for op in module.ops)

    assert kernels(64) == 1
    assert kernels(1) == 2, "64 filters share a padded image"


def for_images(n: Any, geometry: Geometry, count: int, *, gradients: bool = True) -> ModuleOp:
    """A convolution of `n` images and what follows, and its gradients, behind `count` stages."""

    def all_of(x: Any, weight: Any, g: Any) -> Any:
        result, back = tenon.vjp(lambda x, w: tenon.relu(tenon.conv(x, w, **geometry.settings())), x, weight)
        return (result, *back(g)) if gradients else result

    module = tenon.jit(all_of).trace(*shapes_of(geometry, n)).module.clone()
    run_passes(new_context(), module, [name for stage in stages(LoweringOptions())[:count] for name in stage.passes])
    return module


ANY_BATCH = [
    Geometry(16, 1, 16, 16, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1)),
    Geometry(16, 1, 16, 32, (29, 29), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(16, 32, 1, 1, (7, 7), (5, 5), (1, 1), (1, 1), (2, 2)),
]


@pytest.mark.parametrize("geometry", ANY_BATCH, ids=str)
def test_named_batches_have_the_forms_of_known_ones(geometry: Geometry) -> None:
    """Minimal filtering, vectors along filters and along channels, phases, and gradients by channels."""

    def loops(n: Any) -> list[list[int]]:
        found = [op for op in for_images(n, geometry, 1).walk() if isinstance(op, ContractionOp)]
        extents = [op.loops([shape_of(v.type) for v in op.operands], op.settings).extents for op in found]
        return [[replaced(extent, {"n": geometry.n}) for extent in each] for each in extents]

    assert loops(tenon.dim("n")) == loops(geometry.n)


@pytest.mark.parametrize("groups", [1, 32])
def test_kernels_for_named_batches_have_the_statements_of_known_ones(groups: int) -> None:
    """Padding is written around an image in vectors, or read where it is none; what follows is in the same kernel."""
    geometry = Geometry(16, groups, 32 // groups, 32 // groups, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1))

    def statements(n: Any) -> list[list[int]]:
        kernels = map(read_without_padding, kernels_of(for_images(n, geometry, 3, gradients=False)))
        return [[len(statement.extents) for statement in kernel.statements] for kernel in kernels]

    assert statements(tenon.dim("n")) == statements(geometry.n)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (7, 1), (1, 9), (14, 14)])
def test_what_follows_a_matrix_product_is_in_its_kernel(size: tuple[int, int]) -> None:
    """Bias, residual and activation behind a convolution with windows of one element."""
    rng = np.random.default_rng(0)
    x, bias, residual = (rng.standard_normal(shape, np.float32) for shape in ((2, 5, *size), (7,), (2, 7, *size)))
    weight = rng.standard_normal((7, 5, 1, 1), np.float32)

    def layer(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        return tenon.relu(tenon.conv2d(x, weight, bias) + residual)

    module = tenon.jit(layer).trace(x, weight, bias, residual).module.clone()
    run_passes(new_context(), module, stages(LoweringOptions())[0].passes)
    assert sum("kernel" in op.attributes for op in module.ops) == 1
    sums = np.einsum("ncij,fc->nfij", x.astype(np.float64), weight[..., 0, 0].astype(np.float64))
    expected = np.maximum(sums + bias[:, None, None] + residual, 0)
    np.testing.assert_allclose(tenon.jit(layer)(x, weight, bias, residual), expected, rtol=1e-5, atol=1e-5)


BY_CHANNELS = [
    Geometry(1, 1, 3, 64, (71, 70), (3, 3), (2, 2), (1, 1), (1, 1)),
    Geometry(2, 1, 2, 128, (12, 9), (3, 2), (1, 1), (2, 1), (1, 0)),
    Geometry(3, 2, 16, 5, (40,), (5,), (1,), (1,), (2,)),
    Geometry(4, 1, 16, 16, (9, 9), (3, 3), (1, 1), (1, 1), (0, 0)),
    Geometry(2, 1, 16, 32, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(("geometry", "transposed"), [*zip(BY_CHANNELS, [0, 0, 1, 0, 1], strict=True)])
def test_weight_gradient_along_channels(geometry: Geometry, transposed: int) -> None:
    """A sum for a few rows, for each image in blocks of filters, and for two images; the operand that has the vectors
    is transposed where they are along the channels of the image, and where it is small beside the weight."""
    x, weight, g = geometry.arrays()
    convolved = partial(tenon.conv, **geometry.settings())
    module = tenon.jit(lambda g: tenon.vjp(lambda w: convolved(x, w), weight)[1](g)).trace(g).module.clone()
    run_passes(new_context(), module, TENSOR_PIPELINE[:-1])
    assert sum(isinstance(op, TransposeOp) for op in module.walk()) == 1 + transposed
    check(geometry)


ALONG_PLACES = [
    (Geometry(3, 2, 2, 4, (16, 16), (3, 3), (1, 1), (1, 1), (1, 1)), (3, 2)),
    (Geometry(32, 1, 3, 5, (12, 9), (3, 2), (2, 1), (1, 2), (1, 0)), (16, 1)),
    (Geometry(16, 3, 1, 2, (520,), (5,), (1,), (2,), (0,)), (16, 2)),
    (Geometry(2, 1, 2, 8, (9, 8, 16), (1, 3, 1), (1, 1, 1), (1, 1, 1), (0, 1, 0)), (2, 9)),
]


@pytest.mark.parametrize("shared", [None, True, False])
@pytest.mark.parametrize(("geometry", "parts"), ALONG_PLACES, ids=str)
def test_weight_gradient_of_few_channels_in_parts(
    geometry: Geometry, parts: tuple[int, int], shared: bool | None
) -> None:
    """A sum for each part of images and rows that the nearest cache holds; of one example, or of several."""
    x, weight, g = geometry.arrays()
    convolved = partial(tenon.conv, **geometry.settings())

    def gradient(x: Any, g: Any) -> Any:
        return tenon.vjp(lambda w: convolved(x, w), weight)[1](g)[0]

    xs, gs = (x, g) if shared is None else (x if shared else np.stack([x, 1 - x]), np.stack([g, g + 1]))
    function = gradient if shared is None else tenon.vmap(gradient, in_axes=(None if shared else 0, 0))
    module = tenon.jit(function).trace(xs, gs).module.clone()
    run_passes(new_context(), module, ["decompose", 'convolution-forms{machine="l1=4096"}'])
    batch = () if shared is None else (2,)
    loops = (*batch, *[part for part in parts if part > 1])
    last = [op for op in module.walk() if isinstance(op, ContractOp)][-1]
    assert last.settings["extents"][: len(loops)] == loops
    (result,) = executable(module, "cpu").run([xs, gs])
    for i in range(2 if batch else 1):
        own, cotangent = (xs, gs) if shared is None else (xs if shared else xs[i], gs[i])
        _, _, expected = geometry.expected(own, weight, cotangent)
        np.testing.assert_allclose(result[i] if batch else result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("geometry", BY_CHANNELS[1:3], ids=str)
def test_weight_gradients_of_examples(geometry: Geometry, shared: bool) -> None:
    """One for each example, whose image is its own or that of all; where a cache is small, in blocks of rows."""
    x, weight, g = geometry.arrays()
    xs = x if shared else np.stack([x, 2 * x, x - 1])
    gs = np.stack([g, g + 1, -g])
    convolved = partial(tenon.conv, **geometry.settings())

    def gradient(x: Any, g: Any) -> Any:
        return tenon.vjp(lambda w: convolved(x, w), weight)[1](g)[0]

    function = tenon.jit(tenon.vmap(gradient, in_axes=(None if shared else 0, 0)))
    module = function.trace(xs, gs).module.clone()
    run_passes(new_context(), module, ["decompose"])
    transposes = sum(isinstance(op, TransposeOp) for op in module.walk())
    run_passes(new_context(), module, ['convolution-forms{matrices=true machine="l2=16384"}'])
    assert sum(isinstance(op, TransposeOp) for op in module.walk()) == transposes + 2
    (result,) = executable(module, "cpu").run([xs, gs])
    for i in range(3):
        _, _, expected = geometry.expected(x if shared else xs[i], weight, gs[i])
        np.testing.assert_allclose(result[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("window", "before", "behind"),
    [((1, 3), (0, 2), (0, 0)), ((3, 3), (2, 0), (0, 2)), ((2, 3, 3), (1, 1, 1), (0, 1, 1))],
)
def test_weight_gradients_by_places_of_images_padded_on_one_side(
    window: tuple[int, ...], before: tuple[int, ...], behind: tuple[int, ...]
) -> None:
    """The cotangent has its zeros on the other side."""
    ones = (1,) * len(window)
    image = tuple(size + taps - 1 for size, taps in zip((4, 7, 13)[-len(window) :], window, strict=True))
    geometry = Geometry(1, 1, 16, 16, image, window, ones, ones, (0,) * len(window))
    x, weight, g = [array.astype(np.float16) for array in geometry.arrays()]
    inside = tuple(slice(low, size - high) for low, high, size in zip(before, behind, image, strict=True))
    x = np.ascontiguousarray(x[(..., *inside)])
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, behind, strict=True)])
    sides = tuple(side for pair in zip(before, behind, strict=True) for side in pair)

    def gradient(x: Any, g: Any) -> Any:
        return tenon.vjp(lambda w: tenon.conv(x, w, padding=sides), weight)[1](g)[0]

    module = tenon.jit(gradient).trace(x, g).module.clone()
    run_passes(new_context(), module, ["decompose", "convolution-forms{matrices=true}"])
    products = [[*(shape_of(op.results[0].type) or ())] for op in module.walk() if isinstance(op, ContractOp)]
    assert any(shape[-2:] == [16, 16] for shape in products)
    (result,) = executable(module, "cpu").run([x, g])
    expected = geometry.expected(padded, weight, g)[2]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("outputs", "taps"), [(2, 3), (3, 3), (4, 3), (2, 5)])
def test_filtering_matrices(outputs: int, taps: int) -> None:
    to_image, to_weight, to_result = filtering_matrices(outputs, taps)
    x, weight = np.random.default_rng(0).uniform(-1, 1, (2, outputs + taps - 1))
    weight = weight[:taps]
    expected = [weight @ x[i : i + taps] for i in range(outputs)]
    np.testing.assert_allclose(to_result @ ((to_weight @ weight) * (to_image @ x)), expected, rtol=1e-12, atol=1e-14)


def test_filtering_rounds_as_sums_do() -> None:
    geometry = Geometry(1, 1, 64, 16, (32, 32), (3, 3), (1, 1), (1, 1), (1, 1))
    x, weight, g = geometry.arrays()
    expected, *_ = geometry.expected(x, weight, g)
    error = np.abs(tenon.conv(x, weight, padding=1) - expected).max() / np.abs(expected).max()
    assert error < 2e-6


@pytest.mark.parametrize("value", [0.0, 0.5])
@pytest.mark.parametrize(
    "geometry",
    [
        Geometry(1, 1, 64, 64, (8, 8), (3, 3), (1, 1), (1, 1), (0, 0)),
        Geometry(1, 1, 32, 48, (12, 12), (5, 5), (1, 1), (1, 1), (2, 2)),
        Geometry(1, 1, 128, 128, (14, 14), (3, 3), (2, 2), (1, 1), (0, 0)),
    ],
    ids=str,
)
def test_filter_of_one_number(geometry: Geometry, value: float) -> None:
    """A constant of the program: it is in no buffer, which could be copied or fetched ahead."""
    x, weight, g = geometry.arrays()
    weight = np.full_like(weight, value)
    expected, *_ = geometry.expected(x, weight, g)
    actual = tenon.jit(lambda x: tenon.conv(x, weight, **geometry.settings()))(x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
