"""Linear maps and convolutions that are trained with what quantization loses, and then computed in i8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

import tenon
from tenon.dialects.support.plain_arrays import host_array
from tenon.nn import Conv2d, Linear
from tenon.nn.hooks import take_over_hooks
from tenon.nn.module import Array, Module
from tenon.quantization.functions import (
    fake_quantize,
    integer_conv,
    integer_matmul,
    parameters_for,
    quantize,
)
from tenon.quantization.observers import FakeQuantize, MovingAverageObserver, range_of
from tenon.runtime.cuda.arrays import placed

_SETTINGS = ("stride", "padding", "dilation", "groups")


class _QAT(Module):
    """A layer whose inputs (ui8, by a moving average of their range) and weights (i8, for each channel of the results,
    around 0) are rounded as they will be. Parameters have the names that they have in the layer that it stands for."""

    weight: Array
    bias: Array
    input: FakeQuantize
    settings: tuple[Any, ...] = ()

    @classmethod
    def of(cls, layer: Any) -> Self:
        """For a layer, whose parameters it takes over."""
        made = cls()
        made.weight, made.bias = layer.weight, layer.bias
        made.input = FakeQuantize(MovingAverageObserver(dtype="ui8"))
        made.training = layer.training
        take_over_hooks(layer, made)
        made.take_settings(layer)
        return made

    def take_settings(self, layer: Any) -> None:
        """Take over what else the layer has."""

    def rounded(self, x: Array) -> tuple[Array, Array]:
        """Inputs and weight, rounded."""
        scale, zero_point = weight_parameters(tenon.stop_gradient(self.weight))
        return self.input(x), fake_quantize(self.weight, scale, zero_point, axis=0)


def weight_parameters(weight: Array) -> tuple[Array, Array]:
    """Scale and zero point of each channel of the results."""
    return parameters_for(*range_of(weight, 0), symmetric=True)


class QATLinear(_QAT):
    """`nn.Linear` with inputs and weights rounded as `QuantizedLinear` will round them."""

    def forward(self, x: Array) -> Array:
        x, weight = self.rounded(x)
        product = tenon.matmul(x, tenon.transpose(weight))
        return product if self.bias is None else tenon.add(product, self.bias)


class QATConv2d(_QAT):
    """`nn.Conv2d` with inputs and weights rounded as `QuantizedConv2d` will round them."""

    def take_settings(self, layer: Any) -> None:
        if layer.padding_mode != "zeros":
            raise ValueError(
                f"prepare: a Conv2d has padding_mode {layer.padding_mode!r}, and is quantized with zeros alone; pad "
                "before it with tenon.pad"
            )
        self.settings = tuple([getattr(layer, name) for name in _SETTINGS])

    def forward(self, x: Array) -> Array:
        x, weight = self.rounded(x)
        settings = dict(zip(_SETTINGS, self.settings, strict=True))
        return on_images(lambda x: tenon.conv(x, weight, self.bias, **settings), x)


def on_images(function: Callable[[Array], Array], x: Array) -> Array:
    """`function` of images (n, c, h, w), of which `x` may be one."""
    if len(x.shape) == 4:
        return function(x)
    if len(x.shape) != 3:
        raise ValueError(f"x has shape {tuple(x.shape)} where (n, c, h, w), or (c, h, w) of one image, is needed")
    return tenon.squeeze(function(tenon.expand_dims(x, axis=0)), axis=0)


class _Quantized(Module):
    """A layer with a weight of i8, which takes and gives floats and computes with integers."""

    weight: Array
    weight_scale: Array
    bias: Array
    input_scale: Array
    input_zero_point: Array
    settings: tuple[Any, ...] = ()

    @classmethod
    def of(cls, layer: Any) -> Self:
        """For a layer that was trained, with ranges observed. Raises `ValueError` if there are none."""
        made = cls()
        scale, zero_point = layer.input.observer.parameters_found()
        weight = host_array(layer.weight)
        weight_scale, _ = weight_parameters(weight)
        for name, value in {
            "weight": quantize(weight, weight_scale, 0, axis=0),
            "weight_scale": weight_scale,
            "bias": None if layer.bias is None else host_array(layer.bias).copy(),
            "input_scale": scale,
            "input_zero_point": zero_point,
        }.items():
            held = None if value is None else placed(np.asarray(host_array(value)), None, layer.weight)
            made.register_buffer(name, held)
        made.settings = layer.settings
        take_over_hooks(layer, made)
        return made.train(layer.training)

    def quantized(self, x: Array) -> Array:
        """The inputs in ui8."""
        return quantize(x, self.input_scale, self.input_zero_point, dtype="ui8")

    def scaled(self, total: Array, trailing: int) -> Array:
        """Sums as floats, with the bias; channels are before `trailing` axes."""
        shape = (-1, *(1,) * trailing)
        factor = tenon.reshape(tenon.multiply(self.weight_scale, self.input_scale), shape=shape)
        result = tenon.multiply(tenon.cast(total, dtype="f32"), factor)
        return result if self.bias is None else tenon.add(result, tenon.reshape(self.bias, shape=shape))


class QuantizedLinear(_Quantized):
    """`nn.Linear` of inputs in ui8 and a weight in i8, with sums in i32."""

    def forward(self, x: Array) -> Array:
        total = integer_matmul(self.quantized(x), tenon.transpose(self.weight), self.input_zero_point)
        return self.scaled(total, 0)


class QuantizedConv2d(_Quantized):
    """`nn.Conv2d` of inputs in ui8 and a weight in i8, with sums in i32."""

    def forward(self, x: Array) -> Array:
        settings = dict(zip(_SETTINGS, self.settings, strict=True))

        def convolved(x: Array) -> Array:
            return self.scaled(integer_conv(self.quantized(x), self.weight, self.input_zero_point, **settings), 2)

        return on_images(convolved, x)


def prepare(module: Any) -> Any:
    """Put a layer that rounds into the place of each `Linear` and `Conv2d` of `module`, with its parameters.

    What is trained then (or only called in training mode, to observe ranges) is made to compute in i8 by `convert`.
    Raises `ValueError` for a `Conv2d` that is padded with anything but zeros, and for a module without such layers;
    then it is as it was.
    """
    return _replaced("prepare", module, {Linear: QATLinear.of, Conv2d: QATConv2d.of})


def convert(module: Any) -> Any:
    """Put layers of i8 into the places of those that `prepare` has put there.

    Raises `ValueError` for a module without such layers.
    """
    return _replaced("convert", module, {QATLinear: QuantizedLinear.of, QATConv2d: QuantizedConv2d.of})


def _replaced(name: str, module: Any, rules: Mapping[type, Callable[[Any], Any]]) -> Any:
    """`module` with others in the places of layers of these types, all of which are made before one is put there."""
    made: dict[int, Any] = {}

    def replacement(value: Any) -> Any:
        if id(value) not in made:
            made[id(value)] = rules[type(value)](value)
        return made[id(value)]

    _visit(module, replacement, rules, put=False)
    if not made:
        raise ValueError(f"{name}: {type(module).__name__} has no {' or '.join(kind.__name__ for kind in rules)}")
    return _visit(module, lambda value: made[id(value)], rules, put=True)


def _visit(value: Any, replace: Callable[[Any], Any], rules: Mapping[type, Any], *, put: bool) -> Any:
    """What `replace` gives for layers of the types in `rules`, and all else with it in their places if `put`."""
    if type(value) in rules:
        return replace(value)
    if isinstance(value, Module | dict):
        held = vars(value) if isinstance(value, Module) else value
        for name, item in [*held.items()]:
            made = _visit(item, replace, rules, put=put)
            if put and made is not item and isinstance(value, Module):
                setattr(value, name, made)
            elif put:
                held[name] = made
        return value
    if type(value) in (list, tuple):
        items = [_visit(item, replace, rules, put=put) for item in value]
        return type(value)(items) if put and any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


__all__ = ["QATConv2d", "QATLinear", "QuantizedConv2d", "QuantizedLinear", "convert", "prepare", "weight_parameters"]
