"""Windows of padded images, which are read where they are, against PyTorch in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenon
from tenon.runtime.knobs import knobs

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional

CONVOLUTIONS: dict[int, tuple[Any, Any]] = {
    1: (tenon.conv1d, functional.conv1d),
    2: (tenon.conv2d, functional.conv2d),
    3: (tenon.conv3d, functional.conv3d),
}
# images, channels, image, window, stride, padding, dilation: some of a whole vector more or less, windows larger than
# images, edges wider than tiles, and steps that load vectors with what lies in between.
GEOMETRIES: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int, int | tuple[int, ...], int]] = [
    (2, 3, (40,), (5,), 1, 2, 1),
    (1, 2, (35,), (3,), 3, 1, 2),
    (2, 3, (20, 33), (3, 3), 1, 1, 1),
    (1, 2, (19, 49), (3, 3), 2, 1, 1),
    (1, 2, (5, 5), (7, 7), 1, 3, 1),
    (1, 3, (21, 17), (5, 3), 1, (4, 1), 2),
    (2, 32, (9, 7), (7, 7), 1, 3, 1),
    (1, 2, (40, 1), (3, 3), 1, 1, 1),
    (1, 2, (6, 9, 18), (3, 3, 3), 1, 1, 1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_channels_by_themselves(geometry: Any, dtype: Any) -> None:
    """With what follows for each element; nothing is read outside of the image, and no padded one is in memory."""
    n, channels, image, window, stride, padding, dilation = geometry
    own, peer = CONVOLUTIONS[len(image)]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, channels, *image)).astype(dtype)
    weight = rng.normal(size=(channels, 1, *window)).astype(dtype)
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": channels}
    expected = peer(torch.tensor(x).double(), torch.tensor(weight).double(), **settings).relu().numpy()
    function = tenon.jit(lambda x, weight: tenon.relu(own(x, weight, **settings)))
    with knobs.override(check_memory=True):
        tolerance = 200 * np.finfo(dtype).eps
        np.testing.assert_allclose(function(x, weight), expected, rtol=tolerance, atol=tolerance)
    if channels < 16 and 1 not in image:
        assert function.compile(x, weight).memory().peak == 0


@pytest.mark.parametrize(("low", "high"), [((1, 1), (1, 1)), ((0, 2), (3, 0)), ((2, 0), (0, 5))])
def test_any_constant_on_any_side(low: tuple[int, int], high: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(1, 4, 1, 18, 37)), rng.normal(size=(4, 1, 1, 3, 3))

    def function(x: Any, weight: Any) -> Any:
        padded = tenon.pad(x, low=(0, 0, 0, *low), high=(0, 0, 0, *high), value=1.5)
        return tenon.convolution(padded, weight)

    with knobs.override(check_memory=True):
        result = tenon.jit(function)(x, weight)
    sides = [side for pair in zip(low[::-1], high[::-1], strict=True) for side in pair]
    padded = functional.pad(torch.tensor(x[:, :, 0]), sides, value=1.5)
    expected = functional.conv2d(padded, torch.tensor(weight[:, :, 0]), groups=4)
    np.testing.assert_allclose(result[:, :, 0], expected.numpy(), rtol=1e-12, atol=1e-12)


def test_padded_rows_that_become_columns() -> None:
    """What is read with padding is so where schedules are decided as well."""
    shapes = [(250, 1, 14), (1, 1, 5), (64, 1, 1), (64, 1), (20, 64, 3)]
    arrays = [np.random.default_rng(n).standard_normal(shape, np.float32) for n, shape in enumerate(shapes)]

    def network(of: Any, x: Any, first: Any, second: Any, shift: Any, third: Any) -> Any:
        return of.conv1d(of.conv1d(of.conv1d(x, first, dilation=2), second) + shift, third, padding=1)

    x, *weights = arrays
    found = tenon.jit(lambda x: network(tenon, x, *weights))(x)
    expected = network(torch.nn.functional, *[torch.from_numpy(array).double() for array in arrays])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
