"""PyTorch's chapter on modules: `DemoNet`, `Conv2d` with every padding mode, parameters, state and forward hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenon
from tenon import nn, optim

# How NumPy calls the ways to fill a border; "zeros" is the op's own.
PADDING_MODES: dict[str, Any] = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class DemoNet(nn.Module):
    """The square of `x` times a parameter."""

    def __init__(self, w: Any) -> None:
        super().__init__()
        self.w = w

    def forward(self, x: Any) -> Any:
        y = self.w * x
        return y * y


class Conv2d(nn.Module):
    """Cross-correlation of images (n, `in_channels`, h, w) with learned windows, as PyTorch's module of that name."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"Conv2d: padding_mode {padding_mode!r} is not one of {', '.join(PADDING_MODES)}")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.padding_mode = padding_mode
        generator = np.random.default_rng(seed)
        shape = (out_channels, in_channels // groups, *kernel_size)
        bound = 1 / np.sqrt(np.prod(shape[1:]))
        self.weight = generator.uniform(-bound, bound, shape).astype(np.float32)
        self.bias = generator.uniform(-bound, bound, out_channels).astype(np.float32) if bias else None

    def forward(self, x: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = padded(x, padding, self.padding_mode), (0, 0)
        return tenon.conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
        )


def padded(images: Any, padding: tuple[int, int], mode: str) -> Any:
    """`images` with `padding` more rows and columns at each border, which repeat those inside as `mode` says."""
    for axis, size in zip((2, 3), padding, strict=True):
        places = np.pad(np.arange(images.shape[axis]), size, mode=PADDING_MODES[mode])
        images = tenon.take(images, places, axis=axis)
    return images


class Hooked(nn.Module):
    """A module whose input goes through `before` and whose result goes through `after`: PyTorch's forward hooks."""

    def __init__(
        self, module: nn.Module, before: Callable[[Any], Any] | None = None, after: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__()
        self.module, self.before, self.after = module, before, after

    def forward(self, x: Any) -> Any:
        result = self.module(x if self.before is None else self.before(x))
        return result if self.after is None else self.after(result)


@tenon.jit
def loss_and_gradient(model: nn.Module, images: Any) -> Any:
    """The mean square of the model's result, and its gradient: a module that holds gradients in place of the arrays."""
    return tenon.value_and_grad(lambda m: tenon.mean(tenon.square(m(images))))(model)


def main() -> None:
    """What the chapter shows, in its order."""
    x = np.array([[1, 2], [3, 4]], np.float32)
    print("DemoNet:", DemoNet(x)(x).tolist())
    conv = Conv2d(1, 2, (3, 3), padding=(1, 1), padding_mode="reflect")
    print("parameters:", {name: value.shape for name, value in conv.named_parameters()})
    image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    print("forward:", conv(image).shape)
    loss, gradient = loss_and_gradient(conv, image)
    print(f"loss: {loss:.4f}, gradient of the bias: {gradient.bias}")
    other = Conv2d(1, 2, (3, 3), padding=(1, 1), padding_mode="reflect", seed=1)
    other.load_state_dict(conv.state_dict())
    print("same result after load_state_dict:", np.array_equal(conv(image), other(image)))
    hooked = Hooked(conv, before=lambda x: x / 24, after=tenon.relu)
    print("with hooks:", hooked(image).max())
    step_by_step(x, image, conv.state_dict())


def step_by_step(x: Any, image: Any, state: dict[str, Any]) -> None:
    """The same with tensors, which record what is computed, as PyTorch's do."""
    model = DemoNet(tenon.tensor(x, requires_grad=True))
    y = model(tenon.tensor(x))
    y.register_hook(lambda gradient: print("the hook sees:", gradient.tolist()))
    y.sum().backward()
    print("gradient of w:", model.w.grad.tolist())
    conv = Conv2d(1, 2, (3, 3), padding=(1, 1), padding_mode="reflect").requires_grad_()
    conv.load_state_dict(state)
    steps = optim.SGD(lr=1e-4).over(conv)
    for _ in range(3):
        steps.zero_grad()
        loss = tenon.mean(tenon.square(conv(tenon.tensor(image))))
        loss.backward()
        steps.step()
        bias: Any = conv.bias
        print(f"loss: {loss.item():.4f}, gradient of the bias: {bias.grad.numpy()}")


if __name__ == "__main__":
    main()
