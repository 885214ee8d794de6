"""A call of an op by example: arguments, settings, and an oracle written independently in NumPy and SciPy."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenon.dialects.definition.registry import registry

Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FLOATS = (F16, BF16, F32, F64)
TOLERANCE = {F16: 2e-3, BF16: 1.6e-2, F32: 4e-6, F64: 1e-12}
INF, NAN = np.inf, np.nan


@dataclass(frozen=True)
class Sample:
    """One call of an op. `args` are arrays, tuples of arrays (variadic operands) or `None` (absent optional ones)."""

    op_name: str
    args: tuple[Any, ...]
    settings: dict[str, Any]
    oracle: Callable[..., Any]
    label: str
    rtol: float | None = None
    atol: float | None = None
    differentiable: bool = False
    """Whether the op is smooth around the float arguments, so that central differences tell its gradient."""
    is_named: bool = False
    """Whether the row has a label of its own: it is there for a reason."""

    def __str__(self) -> str:
        return f"{self.op_name.removeprefix('tenon.')}-{self.label}"

    @property
    def arrays(self) -> list[Array]:
        """The arguments without structure."""
        return [a for arg in self.args for a in (arg if isinstance(arg, tuple) else () if arg is None else (arg,))]

    def apply(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Call the op's function on `values`, one for each of `arrays`."""
        rest = iter(values)
        args = [
            tuple([next(rest) for _ in arg]) if isinstance(arg, tuple) else None if arg is None else next(rest)
            for arg in self.args
        ]
        result = registry()[self.op_name].apply(*args, **self.settings)
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    def in_float64(self) -> Sample:
        """The same call with all floats in double precision."""

        def widen(arg: Any) -> Any:
            return tuple(map(widen, arg)) if isinstance(arg, tuple) else None if arg is None else widened(arg)

        return Sample(
            self.op_name,
            tuple(map(widen, self.args)),
            self.settings,
            self.oracle,
            self.label,
            differentiable=self.differentiable,
        )

    def expected(self) -> tuple[Array, ...]:
        """The exact results: floats in float64, others in the dtype that is asked for."""
        wide = [
            tuple(map(widened, arg)) if isinstance(arg, tuple) else None if arg is None else widened(arg)
            for arg in self.args
        ]
        with np.errstate(all="ignore"):
            result = self.oracle(*wide)
        return tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)

    def check(self, results: Sequence[Any]) -> None:
        """Assert that `results` are right."""
        expected = self.expected()
        assert len(results) == len(expected)
        for result, exact in zip(results, expected, strict=True):
            found = np.asarray(result)
            assert found.shape == exact.shape
            if found.dtype not in FLOATS:
                assert found.dtype == exact.dtype
                np.testing.assert_array_equal(codes(found), codes(exact))
                continue
            assert exact.dtype.kind == "f"
            tolerance = TOLERANCE[found.dtype]
            with np.errstate(all="ignore"):
                stored = exact.astype(found.dtype)
            np.testing.assert_allclose(
                widened(found),
                widened(stored),
                rtol=tolerance if self.rtol is None else self.rtol,
                atol=tolerance if self.atol is None else self.atol,
            )


def codes(array: Array) -> Array:
    """Elements of 8 bits and less, which NumPy has no NaN of, as their codes; others as they are."""
    return array if array.dtype.isbuiltin == 1 else np.ascontiguousarray(array).view(np.uint8)


def widened(array: Any) -> Array:
    """Floats in float64, everything else as it is."""
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype in FLOATS else array


SAMPLES: list[Sample] = []
_labels: dict[str, set[str]] = {}


def add(name: str, args: Sequence[Any], oracle: Callable[..., Any], label: str = "", **options: Any) -> None:
    """Add a sample of the op `name`; what is no option of a sample is a setting."""
    own = {key: options.pop(key) for key in ("rtol", "atol", "differentiable") if key in options}
    arrays = [a for arg in args for a in (arg if isinstance(arg, tuple) else () if arg is None else (arg,))]
    settings = "-".join(f"{key}={_shown(value)}" for key, value in options.items())
    described = "_".join(f"{'x'.join(map(str, a.shape)) or 'scalar'}:{a.dtype}" for a in arrays)
    text = "-".join(part for part in (label, described, settings) if part)
    labels = _labels.setdefault(name, set())
    if text in labels:
        text += f"-{len(labels)}"
    labels.add(text)
    SAMPLES.append(Sample(f"tenon.{name}", tuple(args), options, oracle, text, is_named=bool(label), **own))


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array({'x'.join(map(str, value.shape))}:{value.dtype})"
    return str(value).replace(" ", "") if not isinstance(value, tuple) or len(str(value)) < 40 else "..."


def generator(seed: str) -> np.random.Generator:
    """Random numbers that depend on `seed` alone."""
    return np.random.default_rng(zlib.crc32(seed.encode()))


def numbers(seed: str, shape: tuple[int, ...], dtype: Any = F32, low: float = -2.0, high: float = 2.0) -> Array:
    """Uniform floats in [low, high)."""
    return np.asarray(generator(seed).uniform(low, high, shape)).astype(dtype)


def integers(seed: str, shape: tuple[int, ...], dtype: Any = np.int32, low: int = -9, high: int = 10) -> Array:
    """Uniform integers in [low, high)."""
    return np.asarray(generator(seed).integers(low, high, shape)).astype(dtype)


def truths(seed: str, shape: tuple[int, ...]) -> Array:
    """Random truth values."""
    return np.asarray(generator(seed).integers(0, 2, shape)).astype(np.bool_)


SPECIAL = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5], F32)
"""Floats at which functions misbehave."""


def distinct(seed: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Floats that are far enough apart for central differences of extremes."""
    size = int(np.prod(shape))
    return np.asarray((generator(seed).permutation(size) - size / 2) / 4).reshape(shape).astype(dtype)
