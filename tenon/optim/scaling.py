"""Scales of losses, so that gradients in f16 are not rounded to zero; a step whose gradients overflow is left out."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import tenon
from tenon.dialects.definition.both_faces import is_device
from tenon.dialects.support.plain_arrays import elements_of, on_host
from tenon.dialects.support.states import check_state
from tenon.eager.changes import replace
from tenon.eager.modes import TRACING, no_grad
from tenon.eager.tensor import Tensor
from tenon.optim.base import Optimizer, trainable, with_values
from tenon.optim.stepping import Steps, chosen_of
from tenon.runtime.cuda.arrays import beside


def unscaled(gradients: Any, scale: Any) -> tuple[Any, Any]:
    """A tree of gradients over `scale`, and whether all of them are finite."""
    values = trainable(gradients)
    inverse = 1.0 / scale
    made = {path: tenon.multiply(value, inverse).astype(value.dtype) for path, value in values.items()}
    finite = reduce(tenon.logical_and, [tenon.all(tenon.isfinite(value)) for value in values.values()])
    return with_values(gradients, made), finite


def followed(finite: Any, state: dict[str, Any], settings: tuple[float, float, int]) -> dict[str, Any]:
    """The state of a scaler after a step whose gradients were finite, or not; `settings` are what the scale grows by,
    what it shrinks by, and after how many finite steps it grows."""
    growth_factor, backoff_factor, growth_interval = settings
    count = tenon.select(finite, state["count"] + 1, 0)
    grows = count >= growth_interval
    scale = state["scale"]
    grown = scale * growth_factor
    larger = tenon.select(tenon.logical_and(grows, tenon.isfinite(grown)), grown, scale)
    return {
        "scale": tenon.select(finite, larger, scale * backoff_factor),
        "count": tenon.select(grows, 0, count).astype(np.int32),
    }


class GradScaler:
    """A scale of the loss that grows by `growth_factor` after `growth_interval` steps with finite gradients, and
    shrinks by `backoff_factor` where one is not finite; such a step is left out.

    With tensors: `scaler.scale(loss).backward()`, `scaler.step(steps)`, `scaler.update()`, and `unscale_(steps)` before
    gradients are clipped. As functions: `state = scaler.init()`, `scaler.scaled(loss, state)` is differentiated, and
    `params, optimizer_state, state = scaler.updated(optimizer, params, gradients, optimizer_state, state)`.

    Source: Micikevicius et al., "Mixed precision training", ICLR 2018; PyTorch's documentation of `GradScaler`.
    """

    def __init__(
        self,
        *target: Any,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        device: Any = None,
    ) -> None:
        """`target` is the first of these by position, behind a device where there is one, as PyTorch has it: what runs
        where is not asked."""
        given = [*target[1:]] if target and is_device(target[0]) else [*target]
        told: dict[str, Any] = {
            "init_scale": init_scale,
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "growth_interval": growth_interval,
        }
        if len(given) > len(told):
            raise TypeError(f"GradScaler: {len(given)} numbers are given by position, and there are {len(told)}")
        defaults = GradScaler.__init__.__kwdefaults__ or {}
        for (name, by_name), number in zip(told.items(), given, strict=False):
            if by_name != defaults[name]:
                raise TypeError(f"GradScaler: {name} is given by position, {number}, and by name, {by_name}")
            told[name] = number
        for name, number in told.items():
            if not isinstance(number, int | float | np.integer | np.floating):
                raise TypeError(f"GradScaler: {name} is {number!r} where a number is needed")
        init_scale, growth_factor, backoff_factor, growth_interval = told.values()
        if not init_scale > 0:
            raise ValueError(f"GradScaler: init_scale is {init_scale} where a positive number is needed")
        if not growth_factor > 1:
            raise ValueError(f"GradScaler: growth_factor is {growth_factor} where a number above 1 is needed")
        if not 0 < backoff_factor < 1:
            raise ValueError(f"GradScaler: backoff_factor is {backoff_factor}, outside of (0, 1)")
        if growth_interval < 1:
            raise ValueError(f"GradScaler: growth_interval is {growth_interval} where 1 or more is needed")
        self.init_scale, self.growth_factor = init_scale, growth_factor
        self.backoff_factor, self.growth_interval = backoff_factor, growth_interval
        self.enabled = enabled
        self._state = self.init()
        self._found: dict[int, Any] = {}
        """Whether the gradients of the steps that were unscaled since the last update are finite."""
        self._stepped: dict[int, bool] = {}
        """The steps that were made, or left out, since then."""

    def __tenon_numbers__(self) -> tuple[str, ...]:
        """What `tenon.trace` takes as inputs."""
        return "scale", "count"

    # --- as functions -----------------------------------------------------------------------------

    def init(self) -> dict[str, Any]:
        """The state before the first step: the scale (f32), and how many finite steps it has stood for (i32)."""
        return {"scale": np.array(self.init_scale, np.float32), "count": np.zeros((), np.int32)}

    def scaled(self, loss: Any, state: dict[str, Any]) -> Any:
        """The loss times the scale, in f32."""
        return loss * state["scale"] if self.enabled else loss

    def updated(
        self,
        optimizer: Optimizer,
        params: Any,
        gradients: Any,
        optimizer_state: Any,
        state: dict[str, Any],
        lr: Any = None,
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Parameters and states after a step of `optimizer` along gradients of the scaled loss; where these are not
        finite, parameters and the optimizer's state are as they were."""
        if not self.enabled:
            return *optimizer.update(params, gradients, optimizer_state, lr), state
        gradients, finite = unscaled(gradients, state["scale"])
        stepped = optimizer.update(params, gradients, optimizer_state, lr)
        params, optimizer_state = chosen_of(finite, stepped, (params, optimizer_state))
        return params, optimizer_state, followed(finite, state, self._settings)

    @property
    def _settings(self) -> tuple[float, float, int]:
        return self.growth_factor, self.backoff_factor, self.growth_interval

    # --- with tensors -----------------------------------------------------------------------------

    @property
    def value(self) -> float:
        """The scale."""
        return float(on_host(self._state["scale"])) if self.enabled else 1.0

    def get_scale(self) -> float:
        """The scale, by PyTorch's name."""
        return self.value

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self.enabled

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self.growth_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self.backoff_factor

    def get_growth_interval(self) -> int:
        """After how many finite steps the scale grows."""
        return self.growth_interval

    def _beside(self, given: Any) -> dict[str, Any]:
        """The state, on the device of a loss or a gradient; in a trace it was brought there before."""
        if TRACING.session is None:
            held = elements_of(given)
            self._state.update({name: beside(value, held) for name, value in self._state.items()})
        return self._state

    def scale(self, loss: Any) -> Any:
        """The loss times the scale, in f32."""
        return self.scaled(loss, self._beside(loss))

    def unscale_(self, steps: Steps) -> None:
        """Divide the gradients of the parameters of `steps` by the scale; `RuntimeError` if they were already."""
        if not self.enabled:
            return
        if id(steps) in self._found:
            raise RuntimeError("unscale_ was called for these parameters since the last update()")
        tensors = [tensor for group in steps.param_groups for tensor in group["params"] if tensor.grad is not None]
        if not tensors:
            raise ValueError("unscale_: no parameter has a gradient; call backward() first")
        with no_grad():
            slopes = {str(number): tensor.grad for number, tensor in enumerate(tensors)}
            made, finite = _UNSCALED(slopes, self._beside(tensors[0].grad)["scale"])
            for tensor, gradient in zip(tensors, made.values(), strict=True):
                replace(tensor.grad, gradient, "unscale_")
        self._found[id(steps)] = bool(finite) if TRACING.session is None else finite

    def step(self, steps: Steps) -> Any:
        """`steps.step()`, unless gradients are not finite; whether it was made. Raises `RuntimeError` for a second step
        before `update()`, whose gradients would be taken as they are, with their scale.

        In a function of `tenon.trace` the program decides, and whether the step was made is a tensor.
        """
        if self.enabled and id(steps) in self._stepped:
            raise RuntimeError("GradScaler: step() was called for these parameters since the last update()")
        if self.enabled and id(steps) not in self._found:
            self.unscale_(steps)
        self._stepped[id(steps)] = True
        is_made = self._found.get(id(steps), True)
        if isinstance(is_made, Tensor):
            steps.step_if(is_made)
        elif is_made:
            steps.step()
        return is_made

    def update(self) -> None:
        """Let the scale follow what was found since the last time. Raises `RuntimeError` if that is nothing."""
        if not self.enabled:
            return
        if not self._found:
            raise RuntimeError("GradScaler: update() is called before step()")
        found = [*self._found.values()]
        if TRACING.session is None:
            after = _FOLLOWED(all(found), self._state, self._settings)
        else:
            after = followed(reduce(tenon.logical_and, found), self._state, self._settings)
        self._state.update({name: elements_of(value) for name, value in after.items()})
        self._found.clear()
        self._stepped.clear()

    def state_dict(self) -> dict[str, Any]:
        """The scale, and how many finite steps it has stood for."""
        return {name: np.array(on_host(value)) for name, value in self._state.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was asked for."""
        check_state("GradScaler", state, ["scale", "count"])
        self._state.update(
            scale=np.asarray(state["scale"], np.float32).copy(), count=np.asarray(state["count"], np.int32).copy()
        )


_UNSCALED = tenon.jit(unscaled)
_FOLLOWED = tenon.jit(followed, static=("finite", "settings"))

__all__ = ["GradScaler", "unscaled"]
