"""Optimizers that look at parameters as matrices: what a step makes of rows and columns of a gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenon
from tenon.optim.base import Arrays, Optimizer, check_number, check_settings, each, zeros
from tenon.optim.moments import like, moved, of_dtype, time_of
from tenon.runtime.arguments.tree import static_field
from tenon.runtime.cuda.arrays import placed


@dataclass(frozen=True)
class Muon(Optimizer):
    """Steps along the nearest matrices of orthonormal rows or columns to running means of gradients, which `ns_steps`
    of Newton and Schulz's iteration with the coefficients `ns_coefficients`, in bf16, come close to: Jordan et al.,
    "Muon: an optimizer for hidden layers in neural networks", 2024. Parameters are matrices; the others, embeddings and
    the last layer are better left to AdamW.

    The rate is multiplied by √max(1, rows / columns), or, with `adjust_lr_fn="match_rms_adamw"`, by 0.2·√max(rows,
    columns), so that rates of AdamW do (Liu et al., "Muon is scalable for LLM training", arXiv:2502.16982).

    Source: PyTorch's documentation of `torch.optim.Muon`.
    """

    lr: float = static_field(1e-3)
    weight_decay: float = static_field(0.1)
    momentum: float = static_field(0.95)
    nesterov: bool = static_field(True)
    ns_coefficients: tuple[float, float, float] = static_field((3.4445, -4.775, 2.0315))
    eps: float = static_field(1e-7)
    ns_steps: int = static_field(5)
    adjust_lr_fn: str | None = static_field(None)
    CHANGING = ("momentum",)

    def __post_init__(self) -> None:
        check_settings(self, "weight_decay", "momentum", "eps", "ns_steps")
        if not isinstance(self.ns_coefficients, Sequence) or len(self.ns_coefficients) != 3:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise TypeError(f"Muon: ns_coefficients is {self.ns_coefficients!r} where three numbers are needed")
        object.__setattr__(self, "ns_coefficients", tuple(self.ns_coefficients))
        if self.adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Muon: adjust_lr_fn is {self.adjust_lr_fn!r}, neither 'original' nor 'match_rms_adamw'")

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for path, shape in shapes.items():
            if len(shape) != 2:
                raise ValueError(
                    f"Muon: parameter {path} has shape {shape} where a matrix is needed; leave it to AdamW"
                )

    def start(self, params: Any) -> dict[str, Any]:
        return {"mean": zeros(params)}

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        def followed(m: Any, g: Any) -> Any:
            return m + (g - m) * like(1 - self.momentum, m)

        mean = each(followed, state["mean"], slopes)

        def stepped(p: Any, g: Any, m: Any) -> Any:
            ahead = g + (m - g) * like(self.momentum, m) if self.nesterov else m
            p = p - p * (like(lr, p) * self.weight_decay)
            return moved(p, of_dtype(self._orthonormal(ahead), p), like(lr, p) * self._adjusted(p.shape))

        return each(stepped, values, slopes, mean), {"mean": mean}

    def _orthonormal(self, x: Any) -> Any:
        """A matrix whose singular values are about 1, with the singular vectors of `x`. What PyTorch stores as bf16 is
        rounded to that, as the iteration enlarges differences."""
        first, second, third = self.ns_coefficients
        is_tall = x.shape[0] > x.shape[1]
        x = _rounded(x.T if is_tall else x)
        x = _rounded(x / tenon.maximum(_rounded(tenon.sqrt(tenon.sum(x * x))), self.eps))
        for _ in range(self.ns_steps):
            gram = _rounded(x @ x.T)
            x = _rounded(x * first + _rounded(gram * second + (gram @ gram) * third) @ x)
        return x.T if is_tall else x

    def _adjusted(self, shape: Sequence[int]) -> float:
        if self.adjust_lr_fn == "match_rms_adamw":
            return 0.2 * math.sqrt(max(shape))
        return math.sqrt(max(1.0, shape[0] / shape[1]))


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Steps over the root of the mean square of each element's gradients, of which, of a parameter of two or more axes,
    only the means of rows and of columns are kept: Shazeer and Stern, "Adafactor: adaptive learning rates with
    sublinear memory cost", ICML 2018. After t steps, the share of a new square is t to the power of `beta2_decay`, and
    the rate at most 1/√t. Steps are in proportion to the root mean square of a parameter, at least to the second of
    `eps`, and shortened where their own is more than `d`.

    The first of `eps` is the distance from 1 to the next number of a parameter's dtype unless it is given.

    Source: PyTorch's documentation of `torch.optim.Adafactor`.
    """

    lr: float = static_field(1e-2)
    beta2_decay: float = static_field(-0.8)
    eps: tuple[float | None, float] = static_field((None, 1e-3))
    d: float = static_field(1.0)
    weight_decay: float = static_field(0.0)
    maximize: bool = static_field(False)

    def __post_init__(self) -> None:
        check_settings(self, "weight_decay")
        if not isinstance(self.eps, Sequence) or len(self.eps) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise TypeError(
                f"Adafactor: eps is {self.eps!r} where two numbers, of which the first may be None, are needed"
            )
        object.__setattr__(self, "eps", tuple(self.eps))
        for position, number in enumerate(self.eps):
            if number is not None:
                check_number(f"Adafactor: eps[{position}]", number)
        if not self.beta2_decay <= 0:
            raise ValueError(f"Adafactor: beta2_decay is {self.beta2_decay} where 0 or less is needed")
        if not self.d >= 1:
            raise ValueError(f"Adafactor: d is {self.d} where 1 or more is needed")

    def start(self, params: Any) -> dict[str, Any]:
        every = zeros(params)
        several = {name: value for name, value in every.items() if len(value.shape) > 1}

        def summed(axis: int) -> Arrays:
            shapes = {name: [*value.shape] for name, value in several.items()}
            for shape in shapes.values():
                shape[axis] = 1
            return {n: placed(np.zeros(shapes[n], v.dtype), None, v) for n, v in several.items()}

        return {
            "step": np.zeros((), np.int32),
            "rows": summed(-1),
            "columns": summed(-2),
            "square": {name: value for name, value in every.items() if name not in several},
        }

    def step(self, values: Arrays, slopes: Arrays, state: dict[str, Any], lr: Any) -> tuple[Arrays, dict[str, Any]]:
        count = state["step"] + 1
        time = time_of(count, values)
        share = time**self.beta2_decay
        rate = tenon.minimum(like(lr, time), tenon.rsqrt(time))
        found: dict[str, Any] = {"step": count, "rows": {}, "columns": {}, "square": {}}
        changed: Arrays = {}
        for name, p in values.items():
            g = slopes[name]
            least = float(tenon.finfo(p.dtype).eps) if self.eps[0] is None else self.eps[0]

            def followed(kept: str, square: Any, name: str = name) -> Any:
                known = state[kept][name]
                found[kept][name] = known + (square - known) * like(share, known)
                return found[kept][name]

            if len(p.shape) > 1:
                rows = followed("rows", tenon.mean(g * g, axis=-1, keepdims=True))
                columns = followed("columns", tenon.mean(g * g, axis=-2, keepdims=True))
                square = rows * columns / tenon.maximum(tenon.mean(rows, axis=-2, keepdims=True), least)
            else:
                square = followed("square", g * g)
            direction = g * tenon.rsqrt(tenon.maximum(square, least * least))
            most = tenon.maximum(_root_mean_square(direction) / self.d, 1.0)
            length = tenon.maximum(_root_mean_square(p), self.eps[1]) * like(rate, p)
            p = p - p * (like(lr, p) * self.weight_decay) if self.weight_decay else p
            changed[name] = moved(p, direction, length / most)
        return changed, found


def _rounded(x: Any) -> Any:
    """Numbers in f32, rounded to bf16."""
    return tenon.cast(tenon.cast(x, dtype="bf16"), dtype="f32")


def _root_mean_square(x: Any) -> Any:
    return tenon.sqrt(tenon.mean(x * x))
