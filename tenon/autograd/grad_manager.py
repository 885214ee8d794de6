"""MegEngine's form of gradients: a manager to which tensors are attached, and that records while it is asked to."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from tenon.eager.differentiation import differentiate
from tenon.eager.modes import set_grad_enabled
from tenon.eager.parameters import adopt
from tenon.eager.tape import Source
from tenon.eager.tensor import Tensor, give_gradients

Callback = Callable[[Tensor, Tensor], Tensor]


class GradManager:
    """Gradients with respect to attached tensors, of what is computed between `record()` and `backward()`.

        manager = tenon.GradManager().attach(model.parameters())
        with manager:
            loss = ...
            manager.backward(loss)

    Outside of that, attached tensors need no gradient unless they did before.
    """

    def __init__(self) -> None:
        self._attached: dict[int, tuple[Tensor, list[Callback]]] = {}
        self._mode: set_grad_enabled | None = None
        self._own: list[Tensor] = []

    def attach(self, tensors: Tensor | Iterable[Tensor], callbacks: Callback | Iterable[Callback] = ()) -> Self:
        """Have gradients with respect to `tensors` found; each of `callbacks` is called with a tensor and its gradient
        and gives the gradient that takes its place."""
        if self._mode is not None:
            raise RuntimeError("GradManager: tensors are attached before record(), or after release()")
        called = [callbacks] if callable(callbacks) else list(callbacks)
        for tensor in [tensors] if isinstance(tensors, Tensor) else list(tensors):
            if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"GradManager: a {type(tensor).__name__} is attached where a tensor is needed")
            if not tensor.is_leaf:
                raise RuntimeError(
                    "GradManager: a tensor that was computed is attached; attach what it was computed of"
                )
            self._attached.setdefault(id(tensor), (adopt(tensor), []))[1].extend(called)
        return self

    def attached_tensors(self) -> list[Tensor]:
        """The tensors that are attached."""
        return [tensor for tensor, _ in self._attached.values()]

    def record(self) -> None:
        """Record calls from here on."""
        if self._mode is not None:
            raise RuntimeError("GradManager: record() is called while it records")
        self._own = [tensor for tensor in self.attached_tensors() if not tensor.requires_grad]
        for tensor in self._own:
            tensor.requires_grad_()
        self._mode = set_grad_enabled(True)

    def backward(self, y: Tensor | Iterable[Tensor], dy: Any = None) -> None:
        """Add the gradients of `y` (numbers, unless `dy` has their gradients) to `grad` of what is attached, and stop
        recording."""
        if self._mode is None:
            raise RuntimeError("GradManager: backward() is called before record()")
        try:
            outputs = (y,) if isinstance(y, Tensor) else tuple(y)
            seeds = (dy,) if dy is not None and isinstance(y, Tensor) else dy
            sources: dict[Source, tuple[Tensor, list[Callback]]] = {}
            for tensor, callbacks in self._attached.values():
                if tensor._source is not None:
                    sources[tensor._source.first] = tensor, callbacks
            found = differentiate(outputs, seeds, frozenset(sources))
            made: list[tuple[Tensor, Any]] = []
            for source, gradient in found.items():
                tensor, callbacks = sources[source]
                for callback in callbacks:
                    gradient = callback(tensor, gradient)
                tensor._check_gradient(gradient)
                made.append((tensor, gradient if tensor.grad is None else tensor.grad + gradient))
            give_gradients(made)
        finally:
            self.release()

    def release(self) -> None:
        """Stop recording."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None
        for tensor in self._own:
            tensor.requires_grad_(False)
        self._own = []

    def __enter__(self) -> Self:
        self.record()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
