"""What programs for PyTorch ask of tensors that traced values have not: their memory, and numbers drawn into them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from tenon.eager.modes import no_grad
from tenon.eager.parts import Parts
from tenon.seeds import Seed, generator_of


class Familiar(Parts):
    """A tensor as PyTorch's programs know it."""

    __slots__ = ()

    # --- facts ------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """The tensor without its gradient, with the same memory; what is assigned becomes the elements."""
        return self.detach()

    @data.setter
    def data(self, elements: Any) -> None:
        with no_grad():
            self[...] = elements.detach() if isinstance(elements, Familiar) else elements

    def detach(self) -> Any:
        raise NotImplementedError

    @property
    def grad_fn(self) -> Any:
        """The recorded call that the tensor was computed by; `None` for one that was not, or is not recorded."""
        source = self._source
        return None if source is None else source.node

    def type(self, dtype: Any) -> Any:
        """The elements converted to `dtype`."""
        return self.astype(dtype)

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie between neighbours along each axis, or along one."""
        steps = tuple([step // self.dtype.itemsize for step in self._laid.strides])
        return steps if dim is None else steps[dim]

    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order."""
        return bool(self._laid.flags.c_contiguous)

    # --- in place ---------------------------------------------------------------------------------

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where `mask`, which is broadcast, is true."""
        self[...] = self.masked_fill(mask, value)
        return self

    def _drawn(self, draw: Callable[[np.random.Generator], Any], generator: Seed) -> Self:
        if self._is_traced:
            raise TypeError(
                "numbers drawn into a tensor while a function is traced would be the same in all its calls; "
                "use tenon.random_uniform(key, shape) or its like, with the key as an argument"
            )
        self[...] = self._beside(np.asarray(draw(generator_of(generator))).astype(self._array.dtype))
        return self

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, uniform in [low, high)."""
        return self._drawn(lambda draws: draws.uniform(low, high, self.shape), generator)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, of a normal distribution."""
        return self._drawn(lambda draws: draws.normal(mean, std, self.shape), generator)

    def bernoulli_(self, p: float = 0.5, *, generator: Seed = None) -> Self:
        """Draw all elements anew: 1 with probability `p`, otherwise 0."""
        return self._drawn(lambda draws: draws.random(self.shape) < p, generator)

    def exponential_(self, lambd: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, of an exponential distribution of rate `lambd`."""
        return self._drawn(lambda draws: draws.exponential(1 / lambd, self.shape), generator)

    def random_(self, low: int = 0, high: int | None = None, *, generator: Seed = None) -> Self:
        """Draw all elements anew: integers of [low, high), or of [0, low) with one argument."""
        first, last = (0, low) if high is None else (low, high)
        if last <= first:
            raise ValueError(f"random_: there is no integer from {first} to before {last}")
        return self._drawn(lambda draws: draws.integers(first, last, self.shape), generator)
