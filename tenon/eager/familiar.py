"""What programs for PyTorch ask of tensors that traced values have not: their memory, hooks on their gradients, and
numbers drawn into them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self
from weakref import ref

import numpy as np

from tenon.dialects.definition.value import ops
from tenon.draws import next_key
from tenon.eager.modes import no_grad
from tenon.eager.parts import Parts
from tenon.eager.recording import Handle
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
    def is_leaf(self) -> bool:
        """Whether the tensor was not computed by a call that is recorded."""
        return self._source is None or self._source.node is None

    @property
    def grad_fn(self) -> Any:
        """The recorded call that the tensor was computed by; `None` for one that was not, or is not recorded."""
        source = self._source
        return None if source is None else source.first.node

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

    # --- hooks ------------------------------------------------------------------------------------

    def register_hook(self, hook: Callable[[Any], Any]) -> Handle:
        """Have `hook` called with the gradient whenever one is found; what it returns, if anything, takes its place.

        `remove()` of the result ends that.
        """
        if self._source is None:
            raise RuntimeError("a hook is registered on a tensor that requires no gradient")
        return Handle(self._source.first, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Handle:
        """Have `hook` called with this tensor, a leaf, whenever `backward` has added a gradient to `grad`."""
        if self._source is None or not self.is_leaf:
            what = "a tensor that requires no gradient" if self._source is None else "one that was computed"
            raise RuntimeError(f"a hook after the accumulation of a gradient is registered on {what}")
        return Handle.after(self._source.first, hook)

    def retain_grad(self) -> None:
        """Have `backward` keep the gradient of this tensor in `grad` even though it was computed."""
        if self._source is None:
            raise RuntimeError("retain_grad is called on a tensor that requires no gradient")
        if not self.is_leaf and self._keeps_grad is None:
            kept = ref(self)

            def keep(gradient: Any) -> None:
                tensor = kept()
                if tensor is not None:
                    tensor._grad = gradient if tensor._grad is None else tensor._grad + gradient

            self._keeps_grad = Handle.keeping(self._source.first, keep)

    # --- in place ---------------------------------------------------------------------------------

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where `mask`, which is broadcast, is true."""
        self[...] = self.masked_fill(mask, value)
        return self

    def fill_diagonal_(self, fill_value: float) -> Self:
        """Set the elements whose indices along all axes are equal."""
        if self.ndim < 2:
            raise ValueError(f"fill_diagonal_: the tensor has shape {self.shape} where two axes or more are needed")
        self[(np.arange(min(self.shape)),) * self.ndim] = fill_value
        return self

    @property
    def _digits(self) -> str:
        return "f64" if self.dtype == np.float64 else "f32"

    def _drawn(
        self, of_generator: Callable[[np.random.Generator], Any], of_key: Callable[[Any], Any], generator: Seed
    ) -> Self:
        if not self._is_traced:
            self[...] = self._beside(np.asarray(of_generator(generator_of(generator))).astype(self._array.dtype))
        elif generator is not None:
            raise TypeError(
                "a generator would give the same numbers in all calls of a function that is traced; leave it out, and "
                "tenon.manual_seed says which are drawn"
            )
        else:
            self[...] = of_key(next_key("a tensor", "tenon.random_uniform(key, shape) or its like")).astype(self.dtype)
        return self

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, uniform in [low, high)."""
        return self._drawn(
            lambda draws: draws.uniform(low, high, self.shape),
            lambda key: ops.random_uniform(key, self.shape, low, high, dtype=self._digits),
            generator,
        )

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, of a normal distribution."""
        return self._drawn(
            lambda draws: draws.normal(mean, std, self.shape),
            lambda key: ops.random_normal(key, self.shape, mean, std, dtype=self._digits),
            generator,
        )

    def bernoulli_(self, p: float = 0.5, *, generator: Seed = None) -> Self:
        """Draw all elements anew: 1 with probability `p`, otherwise 0."""
        return self._drawn(
            lambda draws: draws.random(self.shape) < p,
            lambda key: ops.random_bernoulli(key, p, self.shape),
            generator,
        )

    def exponential_(self, lambd: float = 1.0, *, generator: Seed = None) -> Self:
        """Draw all elements anew, of an exponential distribution of rate `lambd`."""
        return self._drawn(
            lambda draws: draws.exponential(1 / lambd, self.shape),
            lambda key: ops.random_exponential(key, self.shape, lambd, dtype=self._digits),
            generator,
        )

    def random_(self, low: int = 0, high: int | None = None, *, generator: Seed = None) -> Self:
        """Draw all elements anew: integers of [low, high), or of [0, low) with one argument."""
        first, last = (0, low) if high is None else (low, high)
        if last <= first:
            raise ValueError(f"random_: there is no integer from {first} to before {last}")
        return self._drawn(
            lambda draws: draws.integers(first, last, self.shape),
            lambda key: ops.random_integers(key, self.shape, first, last, dtype="i64"),
            generator,
        )
