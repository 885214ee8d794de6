"""Networks for images, written once for all frameworks: `network(f, p, x)` takes the functions `f` of a framework (see
`functions`), `p(name, shape)` for parameters, and images (n, c, h, w), and gives logits (n, classes, ...).

- `resnet18`: He et al. 2015, "Deep Residual Learning for Image Recognition", with 18 layers.
- `mobilenetv2`: Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks".
- `unet`: Ronneberger et al. 2015, "U-Net", of 32 to 256 channels, padded, normalized, with nearest upsampling.
- `vit`: Dosovitskiy et al. 2020, "An Image is Worth 16x16 Words", of 12 layers of width 192 with 3 heads.

They are trained by plain gradient descent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.peers import thread_count

Array = np.ndarray[Any, Any]
Parameter = Callable[[str, tuple[int, ...]], Any]
Loss = Callable[..., Any]
Start = tuple[list[Array], Array, Array]
"""Parameters in the order in which the network asks for them, images and labels."""

CLASSES = 10


def _convolved(
    f: Any, p: Parameter, name: str, x: Any, filters: int, size: int = 3, stride: int = 1, groups: int = 1
) -> Any:
    """A convolution without bias that keeps the size of the image, divided by `stride`, and a batch norm."""
    weight = p(f"{name}.weight", (filters, x.shape[1] // groups, size, size))
    x = f.conv(x, weight, stride, (size - 1) // 2, groups)
    return f.batch_norm(x, p(f"{name}.scale", (filters,)), p(f"{name}.shift", (filters,)))


def _linear(p: Parameter, name: str, x: Any, outputs: int) -> Any:
    return x @ p(f"{name}.weight", (x.shape[-1], outputs)) + p(f"{name}.bias", (outputs,))


def resnet18(f: Any, p: Parameter, x: Any) -> Any:
    x = f.max_pool(f.relu(_convolved(f, p, "stem", x, 64, 7, 2)), 3, 2, 1)
    for block, (filters, stride) in enumerate(
        [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
    ):
        changed = f.relu(_convolved(f, p, f"{block}.first", x, filters, 3, stride))
        changed = _convolved(f, p, f"{block}.second", changed, filters)
        if x.shape[1] != filters:
            x = _convolved(f, p, f"{block}.shortcut", x, filters, 1, stride)
        x = f.relu(changed + x)
    return _linear(p, "head", f.mean(x, (2, 3)), CLASSES)


def mobilenetv2(f: Any, p: Parameter, x: Any) -> Any:
    x = f.relu6(_convolved(f, p, "stem", x, 32, 3, 2))
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    blocks = [(t, c, s if not i else 1) for t, c, n, s in stages for i in range(n)]
    for block, (expansion, filters, stride) in enumerate(blocks):
        given, wide = x, expansion * x.shape[1]
        if expansion > 1:
            x = f.relu6(_convolved(f, p, f"{block}.expanded", x, wide, 1))
        x = f.relu6(_convolved(f, p, f"{block}.by_channel", x, wide, 3, stride, wide))
        x = _convolved(f, p, f"{block}.projected", x, filters, 1)
        if stride == 1 and given.shape[1] == filters:
            x = x + given
    x = f.relu6(_convolved(f, p, "last", x, 1280, 1))
    return _linear(p, "head", f.mean(x, (2, 3)), CLASSES)


def unet(f: Any, p: Parameter, x: Any) -> Any:
    def both(name: str, x: Any, filters: int) -> Any:
        x = f.relu(_convolved(f, p, f"{name}.first", x, filters))
        return f.relu(_convolved(f, p, f"{name}.second", x, filters))

    skipped = []
    for level, filters in enumerate((32, 64, 128)):
        x = both(f"down.{level}", x, filters)
        skipped.append(x)
        x = f.max_pool(x, 2, 2, 0)
    x = both("middle", x, 256)
    for level, filters in enumerate((128, 64, 32)):
        x = f.concatenate([skipped.pop(), f.upsample(x)], 1)
        x = both(f"up.{level}", x, filters)
    return f.conv(x, p("head.weight", (CLASSES, 32, 1, 1)), 1, 0, 1)


def vit(f: Any, p: Parameter, x: Any) -> Any:
    width, heads, patch = 192, 3, 16

    def norm(name: str, x: Any) -> Any:
        return f.layer_norm(x, p(f"{name}.scale", (width,)), p(f"{name}.shift", (width,)))

    x = f.conv(x, p("patches.weight", (width, 3, patch, patch)), patch, 0, 1)
    n, _, rows, columns = x.shape
    tokens = rows * columns
    x = f.permute(x.reshape((n, width, tokens)), (0, 2, 1)) + p("positions", (tokens, width))
    for block in range(12):
        parts = _linear(p, f"{block}.qkv", norm(f"{block}.norm1", x), 3 * width)
        parts = f.permute(parts.reshape((n, tokens, 3, heads, width // heads)), (2, 0, 3, 1, 4))
        mixed = f.attention(parts[0], parts[1], parts[2])
        mixed = f.permute(mixed, (0, 2, 1, 3)).reshape((n, tokens, width))
        x = x + _linear(p, f"{block}.projection", mixed, width)
        hidden = f.gelu(_linear(p, f"{block}.up", norm(f"{block}.norm2", x), 4 * width))
        x = x + _linear(p, f"{block}.down", hidden, width)
    return _linear(p, "head", f.mean(norm("norm", x), (1,)), CLASSES)


@dataclass(frozen=True)
class Network:
    """A network, the shapes of its images and labels, and the rate at which it learns.

    Rates are small: behind norms of few elements what rounding leaves grows from step to step.
    """

    forward: Callable[..., Any]
    images: tuple[int, ...]
    labels: tuple[int, ...]
    rate: float


NETWORKS = {
    "resnet18": Network(resnet18, (4, 3, 112, 112), (4,), 1e-4),
    "mobilenetv2": Network(mobilenetv2, (4, 3, 96, 96), (4,), 1e-5),
    "unet": Network(unet, (2, 3, 96, 96), (2, 96, 96), 1e-2),
    "vit": Network(vit, (2, 3, 224, 224), (2,), 1e-4),
}


@cache
def functions(framework: str) -> Any:
    """What networks call, in `tenon`, `torch` or `jax`: `conv(x, weight, stride, padding, groups)`, `batch_norm` by the
    statistics of the batch, `max_pool(x, size, stride, padding)`, nearest `upsample` to twice the size, `attention` of
    (n, heads, tokens, width) scaled by width^-1/2, mean cross entropy `loss(logits, labels)`, and others.
    """
    return SimpleNamespace(**{"tenon": _in_tenon, "torch": _in_torch, "jax": _in_jax}[framework]())


def _in_tenon() -> dict[str, Any]:
    import tenon

    def attention(q: Any, k: Any, v: Any) -> Any:
        return tenon.softmax(q @ tenon.transpose(k, (0, 1, 3, 2)) * q.shape[-1] ** -0.5) @ v

    def upsample(x: Any) -> Any:
        n, c, h, w = x.shape
        wide = tenon.broadcast_to(tenon.reshape(x, (n, c, h, 1, w, 1)), shape=(n, c, h, 2, w, 2))
        return tenon.reshape(wide, (n, c, 2 * h, 2 * w))

    return {
        "conv": lambda x, w, stride, padding, groups: tenon.conv2d(x, w, stride=stride, padding=padding, groups=groups),
        "batch_norm": lambda x, scale, shift: tenon.batch_norm_training(x, scale, shift)[0],
        "layer_norm": tenon.layer_norm,
        "relu": tenon.relu,
        "relu6": tenon.relu6,
        "gelu": tenon.gelu,
        "max_pool": lambda x, size, stride, padding: tenon.max_pool2d(x, size, stride=stride, padding=padding),
        "mean": lambda x, axes: tenon.mean(x, axis=axes),
        "upsample": upsample,
        "concatenate": tenon.concatenate,
        "permute": tenon.transpose,
        "attention": attention,
        "loss": lambda logits, labels: tenon.cross_entropy(logits, labels, axis=1),
    }


def _in_torch() -> dict[str, Any]:
    import torch
    from torch.nn import functional as F

    return {
        "conv": lambda x, w, stride, padding, groups: F.conv2d(x, w, None, stride, padding, 1, groups),
        "batch_norm": lambda x, scale, shift: F.batch_norm(x, None, None, scale, shift, True),
        "layer_norm": lambda x, scale, shift: F.layer_norm(x, x.shape[-1:], scale, shift),
        "relu": F.relu,
        "relu6": F.relu6,
        "gelu": F.gelu,
        "max_pool": F.max_pool2d,
        "mean": lambda x, axes: x.mean(axes),
        "upsample": partial(F.interpolate, scale_factor=2),
        "concatenate": torch.cat,
        "permute": torch.permute,
        "attention": F.scaled_dot_product_attention,
        "loss": lambda logits, labels: F.cross_entropy(logits, labels.long()),
    }


def _in_jax() -> dict[str, Any]:
    import jax
    from jax import numpy as jnp

    def normalized(x: Any, axes: tuple[int, ...]) -> Any:
        mean, square = x.mean(axes, keepdims=True), (x * x).mean(axes, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-5)

    def max_pool(x: Any, size: int, stride: int, padding: int) -> Any:
        edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, size, size), (1, 1, stride, stride), edges)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(2, 3) * q.shape[-1] ** -0.5) @ v

    def loss(logits: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, 1), labels[:, None], 1).mean()

    return {
        "conv": lambda x, w, stride, padding, groups: jax.lax.conv_general_dilated(
            x, w, (stride, stride), ((padding, padding),) * 2, feature_group_count=groups
        ),
        "batch_norm": lambda x, scale, shift: normalized(x, (0, 2, 3)) * scale[:, None, None] + shift[:, None, None],
        "layer_norm": lambda x, scale, shift: normalized(x, (-1,)) * scale + shift,
        "relu": jax.nn.relu,
        "relu6": jax.nn.relu6,
        "gelu": partial(jax.nn.gelu, approximate=False),
        "max_pool": max_pool,
        "mean": lambda x, axes: x.mean(axes),
        "upsample": lambda x: x.repeat(2, 2).repeat(2, 3),
        "concatenate": jnp.concatenate,
        "permute": jnp.transpose,
        "attention": attention,
        "loss": loss,
    }


def start(network: str) -> Start:
    """Drawn from seed 0."""
    import tenon

    chosen = NETWORKS[network]
    random = np.random.default_rng(0)
    parameters: list[Array] = []

    def drawn(name: str, shape: tuple[int, ...]) -> Array:
        if name.endswith((".scale", ".shift")):
            parameters.append(np.full(shape, float(name.endswith(".scale")), np.float32))
        else:
            fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
            parameters.append(random.standard_normal(shape, np.float32) * np.float32(fan_in**-0.5))
        return parameters[-1]

    images = random.standard_normal(chosen.images, np.float32)
    # Traced only: what it asks for is drawn.
    tenon.jit(partial(chosen.forward, functions("tenon"), drawn)).trace(images)
    return parameters, images, random.integers(0, CLASSES, chosen.labels).astype(np.int32)


def _loss(framework: str, network: str) -> Loss:
    """The loss as a function of the list of parameters, of images and of labels."""
    f = functions(framework)

    def loss(values: Sequence[Any], images: Any, labels: Any) -> Any:
        given = iter(values)
        return f.loss(NETWORKS[network].forward(f, lambda name, shape: next(given), images), labels)

    return loss


def stepper(framework: str, network: str, drawn: Start) -> Callable[[], Any]:
    """A function that does a step and gives the loss before it, from what `start` has `drawn`."""
    values, *batch = drawn
    make = {"tenon": _tenon_stepper, "torch": _torch_stepper, "jax": _jax_stepper}[framework]
    return make(_loss(framework, network), values, batch, NETWORKS[network].rate)


def _tenon_stepper(loss: Loss, values: list[Array], batch: Sequence[Array], rate: float) -> Callable[[], Any]:
    import tenon

    @tenon.jit(donate="values")
    def train_step(values: Any, *batch: Any) -> Any:
        value, slopes = tenon.value_and_grad(loss)(values, *batch)
        return [x - rate * slope for x, slope in zip(values, slopes, strict=True)], value

    def step() -> Any:
        nonlocal values
        values, value = train_step(values, *batch)
        return value

    return step


def _torch_stepper(loss: Loss, values: list[Array], batch: Sequence[Array], rate: float) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(thread_count())
    leaves = [torch.tensor(x, requires_grad=True) for x in values]
    given = [torch.tensor(x) for x in batch]

    def step() -> Any:
        value = loss(leaves, *given)
        slopes = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            for x, slope in zip(leaves, slopes, strict=True):
                x -= rate * slope
        return value.detach()

    return step


def _jax_stepper(loss: Loss, values: list[Array], batch: Sequence[Array], rate: float) -> Callable[[], Any]:
    import jax

    @partial(jax.jit, donate_argnums=0)
    def train_step(values: Any, *batch: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(values, *batch)
        return [x - rate * slope for x, slope in zip(values, slopes, strict=True)], value

    kept, given = [jax.numpy.array(x) for x in values], [jax.numpy.array(x) for x in batch]

    def step() -> Any:
        nonlocal kept
        kept, value = train_step(kept, *given)
        jax.block_until_ready((kept, value))
        return value

    return step
