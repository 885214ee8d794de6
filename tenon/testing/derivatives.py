"""Derivatives and central differences of a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.traits import GradientError, NoGradient
from tenon.dialects.definition.value import ops
from tenon.runtime.jit import jit
from tenon.testing.sample import Array, Sample, epsilon, has_floats
from tenon.transform import grad, jvp

Arrays = Sequence[Array]


class Differences:
    """Slopes of a function in each element of the array at `position`."""

    def __init__(self, function: Callable[[Arrays], float], arrays: Arrays, position: int, step: float) -> None:
        self._function = function
        self._arrays = arrays
        self._position = position
        self._step = step

    def sides(self) -> Array:
        """The slopes to both sides."""
        return np.stack([self._slopes((0, 1)), self._slopes((-1, 0))])

    def beside(self) -> Array:
        """The slopes at two points near by, where the elements rise, or fall, in their order: what tells equal elements
        apart by their places (a sort) has its gradient there."""
        array = self._arrays[self._position]
        ramp = (4 * self._step * np.arange(1, array.size + 1)).reshape(array.shape).astype(array.dtype)
        points = [
            [array + sign * ramp if i == self._position else other for i, other in enumerate(self._arrays)]
            for sign in (1, -1)
        ]
        return np.stack(
            [Differences(self._function, point, self._position, self._step)._slopes((-1, 1)) for point in points]
        )

    def where_smooth(self, found: Array) -> Array:
        """Central differences, and what was `found` where the slopes to both sides differ: there is no one slope."""
        central = self._slopes((-1, 1))
        if np.allclose(central, found, rtol=self._step, atol=self._step):
            return central
        with np.errstate(all="ignore"):
            below, above = self.sides()
            nearer = self._slopes((-0.5, 0.5))  # where the function jumps, it is steeper
            allowed = 100 * self._step * np.maximum(1, np.abs(central))
            one_slope = (np.abs(above - below) <= allowed) & (np.abs(nearer - central) <= allowed)
        return np.where(one_slope, central, found)

    def _slopes(self, sides: tuple[float, float]) -> Array:
        """The differences between `sides` steps from each element."""
        found = np.zeros(self._arrays[self._position].shape)
        for index in np.ndindex(*found.shape):
            ends: list[tuple[float, float]] = []
            for side in sides:
                moved = [np.array(array) for array in self._arrays]
                moved[self._position][index] += side * self._step
                ends.append((float(moved[self._position][index]), self._function(moved)))
            found[index] = (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0])
        return found


class Derivatives:
    """Of the sum of all results, weighed by numbers drawn for each element, with respect to the operands of floats."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.wanted = [i for i, array in enumerate(sample.arrays) if has_floats(array)]
        generator = np.random.default_rng(0)
        results = sample.compiled(*sample.arrays)
        self.weights = [generator.uniform(0.5, 1.5, r.shape) if has_floats(r) else None for r in results]
        self.tangents = [generator.uniform(-1, 1, sample.arrays[i].shape) for i in self.wanted]
        self.epsilon = max((epsilon(sample.arrays[i]) for i in self.wanted), default=0.0)

    @property
    def step(self) -> float:
        """The step of differences that loses as much to rounding as to curvature."""
        return self.epsilon ** (1 / 3)

    @property
    def tolerance(self) -> float:
        return 1e3 * self.epsilon ** (2 / 3)

    def gradients(self) -> list[Array] | None:
        """By the rules; `None` where there are none. Raises what the op's own rule raises."""
        op = self.sample.op
        if not self.wanted or all(w is None for w in self.weights) or (op is not None and op.has_trait(NoGradient)):
            return None
        try:
            return [np.asarray(g) for g in grad(self._total, tuple(self.wanted))(*self.sample.arrays)]
        except GradientError:
            if getattr(op, "vjp", None) is not None:
                raise
            return None

    def _total(self, *arrays: Any) -> Any:
        pairs = zip(self.sample.function(*arrays), self.weights, strict=True)
        return sum([ops.sum(ops.multiply(r, w.astype(r.dtype))) for r, w in pairs if w is not None])

    def _value(self, arrays: Arrays) -> float:
        results = self.sample.compiled(*arrays)
        return sum(
            [
                float((r.astype(np.float64) * w).sum())
                for r, w in zip(results, self.weights, strict=True)
                if w is not None
            ]
        )

    def differences(self, position: int) -> Differences:
        """Those of the sum in the elements of an operand."""
        return Differences(self._value, self.sample.arrays, position, self.step)

    def along(self) -> tuple[float, float, float]:
        """The derivative along a direction by `jvp`, and the slopes to both sides."""
        arrays, moved = self.sample.arrays, dict(zip(self.wanted, self.tangents, strict=True))

        def total(*given: Any) -> Any:
            values = dict(zip(self.wanted, given, strict=True))
            return self._total(*[values.get(i, array) for i, array in enumerate(arrays)])

        def value(step: float) -> float:
            steps = {i: (step * tangent).astype(arrays[i].dtype) for i, tangent in moved.items()}
            return self._value([array + steps[i] if i in steps else array for i, array in enumerate(arrays)])

        primals = tuple([arrays[i] for i in self.wanted])
        tangents = tuple([t.astype(p.dtype) for t, p in zip(self.tangents, primals, strict=True)])
        _, found = jvp(total, primals, tangents)
        here = value(0)
        return float(found), (here - value(-self.step)) / self.step, (value(self.step) - here) / self.step

    def second(self, position: int) -> tuple[Array, Differences]:
        """The gradient of a sum of the gradient's elements in an operand, by the rules and by differences."""
        index = self.wanted.index(position)
        first = grad(self._total, position)

        def along(*arrays: Any) -> Any:
            return ops.sum(ops.multiply(first(*arrays), self.tangents[index].astype(arrays[position].dtype)))

        compiled = jit(along)
        found = np.asarray(grad(along, position)(*self.sample.arrays))
        return found, Differences(lambda arrays: float(compiled(*arrays)), self.sample.arrays, position, self.step)
