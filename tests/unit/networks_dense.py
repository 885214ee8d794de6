"""Layers on the last dimension, norms, and constructions of other layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from networks import (
    Layer,
    Layers,
    Oracle,
    Shape,
    Tree,
    Weight,
    matrix,
    need,
    result_of,
    run_tenon,
    run_torch,
    weights_of,
    work_of,
)

import tenon


@dataclass(frozen=True, repr=False)
class Linear(Layer):
    size: int
    bias: bool = True

    def result(self, shape: Shape) -> Shape:
        need(len(shape) > 0, "no features")
        return (*shape[:-1], self.size)

    def weights(self, shape: Shape) -> Tree:
        w: dict[str, Weight] = {"w": matrix(shape[-1], self.size)}
        return w | {"b": Weight((self.size,), 0.5)} if self.bias else w

    def work(self, shape: Shape) -> int:
        return prod(shape) * self.size

    def tenon(self, w: Tree, x: Any) -> Any:
        return x @ w["w"] + w["b"] if self.bias else x @ w["w"]

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return F.linear(x, w["w"].T, w.get("b"))


# name: (tenon, torch, whether its slope jumps)
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "tanh": (lambda x: tenon.tanh(x), torch.tanh, False),
    "relu": (lambda x: tenon.relu(x), torch.relu, True),
    "gelu": (lambda x: tenon.gelu(x), F.gelu, False),
    "gelu_tanh": (lambda x: tenon.gelu(x, approximate="tanh"), partial(F.gelu, approximate="tanh"), False),
    "silu": (lambda x: tenon.silu(x), F.silu, False),
    "sigmoid": (lambda x: tenon.sigmoid(x), torch.sigmoid, False),
    "softplus": (lambda x: tenon.softplus(x), F.softplus, False),
    "mish": (lambda x: tenon.mish(x), F.mish, False),
    "elu": (lambda x: tenon.elu(x), F.elu, True),
    "selu": (lambda x: tenon.selu(x), F.selu, True),
    "celu": (lambda x: tenon.celu(x, alpha=0.5), partial(F.celu, alpha=0.5), True),
    "leaky_relu": (lambda x: tenon.leaky_relu(x, negative_slope=0.2), partial(F.leaky_relu, negative_slope=0.2), True),
    "relu6": (lambda x: tenon.relu6(x), F.relu6, True),
    "hardtanh": (lambda x: tenon.hardtanh(x), F.hardtanh, True),
    "hard_swish": (lambda x: tenon.hard_swish(x), F.hardswish, True),
    # torch has no second derivative of its own `hardsigmoid`
    "hard_sigmoid": (lambda x: tenon.hard_sigmoid(x, alpha=1 / 6), lambda x: torch.clamp(x / 6 + 0.5, 0, 1), True),
    "softsign": (lambda x: tenon.softsign(x), F.softsign, True),
    "tanhshrink": (lambda x: tenon.tanhshrink(x), F.tanhshrink, False),
    "log_sigmoid": (lambda x: tenon.log_sigmoid(x), F.logsigmoid, False),
    "squared_relu": (lambda x: tenon.square(tenon.relu(x)), lambda x: torch.relu(x) ** 2, True),
    "sine": (lambda x: tenon.sin(x), torch.sin, False),
    "exp": (lambda x: tenon.exp(tenon.clip(x, -3.0, 1.0)), lambda x: torch.exp(torch.clamp(x, -3.0, 1.0)), True),
    "softmax": (lambda x: tenon.softmax(x, axis=-1), partial(F.softmax, dim=-1), False),
    "log_softmax": (lambda x: tenon.log_softmax(x, axis=1), partial(F.log_softmax, dim=1), False),
}


@dataclass(frozen=True, repr=False)
class Activation(Layer):
    kind: str = "tanh"

    def result(self, shape: Shape) -> Shape:
        need(len(shape) > 0, "no features")
        return shape

    def tenon(self, w: Tree, x: Any) -> Any:
        return ACTIVATIONS[self.kind][0](x)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        _, function, has_kinks = ACTIVATIONS[self.kind]
        match self.kind:
            case "softmax":
                return oracle.softmax(x, -1)
            case "log_softmax":
                return oracle.log_softmax(x, 1)
            case _:
                return oracle.near(function, x) if has_kinks else function(x)


@dataclass(frozen=True, repr=False)
class Gated(Layer):
    """A gated layer (Shazeer, arXiv:2002.05202), written with two products or with one that is cut in two."""

    size: int
    kind: str = "tanh"
    joined: bool = False

    def result(self, shape: Shape) -> Shape:
        need(len(shape) > 0 and self.kind != "log_softmax", "no features")
        return shape

    def weights(self, shape: Shape) -> Tree:
        return {"up": matrix(shape[-1], 2 * self.size), "down": matrix(self.size, shape[-1])}

    def work(self, shape: Shape) -> int:
        return 3 * prod(shape) * self.size

    def tenon(self, w: Tree, x: Any) -> Any:
        if self.joined:
            both = x @ w["up"]
            gate, value = both[..., : self.size], both[..., self.size :]
        else:
            gate, value = x @ w["up"][:, : self.size], x @ w["up"][:, self.size :]
        return (ACTIVATIONS[self.kind][0](gate) * value) @ w["down"]

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        gate, value = (x @ w["up"]).chunk(2, -1)
        return (Activation(self.kind).torch(oracle, {}, gate) * value) @ w["down"]


@dataclass(frozen=True, repr=False)
class Norm(Layer):
    """`batch` by the statistics of the batch, `running` by given ones, `unit` to length 1."""

    kind: str = "layer"
    groups: int = 1

    def result(self, shape: Shape) -> Shape:
        need(len(shape) >= (2 if self.kind in ("group", "instance") else 1), "too few dimensions")
        need(self.kind != "group" or shape[0] % self.groups == 0, "groups do not divide")
        count = prod(shape[1:]) * (shape[0] // self.groups if self.kind == "group" else 1)
        count = shape[-1] if self.kind in ("layer", "rms", "unit") else count
        need(self.kind in ("batch", "running") or count > 1, "a norm of one element")
        return shape

    def weights(self, shape: Shape) -> Tree:
        size = shape[-1] if self.kind in ("layer", "rms", "unit") else shape[0]
        w: dict[str, Weight] = {"scale": Weight((size,), 0.2, 1.0), "bias": Weight((size,), 0.2)}
        return w | (
            {"mean": Weight((size,), 0.1), "deviation": Weight((size,), 0.1, 1.0)} if self.kind == "running" else {}
        )

    def tenon(self, w: Tree, x: Any) -> Any:
        scale, bias = w["scale"], w["bias"]
        match self.kind:
            case "layer":
                return tenon.layer_norm(x, scale, bias, eps=0.01)
            case "rms":
                return tenon.rms_norm(x, scale, eps=0.01) + bias
            case "unit":
                return x * tenon.rsqrt(tenon.sum(x * x, axis=-1, keepdims=True) + 0.1) * scale + bias
            case "batch":
                return tenon.batch_norm_training(x, scale, bias, eps=0.1)[0]
            case "running":
                return tenon.batch_norm(x, w["mean"], tenon.square(w["deviation"]), scale, bias, eps=0.1)
            case "group":
                return tenon.group_norm(x, scale, bias, groups=self.groups, eps=0.01)
            case _:
                return tenon.instance_norm(x, scale, bias, eps=0.01)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        scale, bias = w["scale"], w["bias"]
        match self.kind:
            case "layer":
                return F.layer_norm(x, x.shape[-1:], scale, bias, eps=0.01)
            case "rms":
                return F.rms_norm(x, x.shape[-1:], scale, eps=0.01) + bias
            case "unit":
                return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 0.1) * scale + bias
            case "batch":
                axes = [a for a in range(x.dim()) if a != 1]
                middle = x - x.mean(axes, keepdim=True)
                column = (-1, *[1] * (x.dim() - 2))
                normed = middle / torch.sqrt((middle * middle).mean(axes, keepdim=True) + 0.1)
                return normed * scale.reshape(column) + bias.reshape(column)
            case "running":
                column = (-1, *[1] * (x.dim() - 2))
                mean, deviation, scale, bias = (y.reshape(column) for y in (w["mean"], w["deviation"], scale, bias))
                return (x - mean) / torch.sqrt(deviation**2 + 0.1) * scale + bias
            case "group":
                return F.group_norm(x, self.groups, scale, bias, eps=0.01)
            case _:
                return F.group_norm(x, x.shape[1], scale, bias, eps=0.01)


@dataclass(frozen=True, repr=False)
class Dropout(Layer):
    """Elements set to zero by a key; torch takes the mask that the op gives for ones."""

    rate: float = 0.5
    key: int = 0

    def result(self, shape: Shape) -> Shape:
        return shape

    def tenon(self, w: Tree, x: Any) -> Any:
        return tenon.dropout(x, np.asarray([self.key, 7], np.int32), rate=self.rate)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        ones = np.ones(tuple(x.shape), np.float32)
        mask = tenon.dropout(ones, np.asarray([self.key, 7], np.int32), rate=self.rate) != 0
        return x * torch.from_numpy(np.asarray(mask)) / (1 - self.rate)


@dataclass(frozen=True, repr=False)
class Scaled(Layer):
    """The input times one number, which is learned, of this rank."""

    rank: int = 0

    LEAST: ClassVar[dict[str, int]] = {"rank": 0}

    def result(self, shape: Shape) -> Shape:
        return shape

    def weights(self, shape: Shape) -> Tree:
        return {"scale": Weight((1,) * self.rank, 0.5, 1.0)}

    def tenon(self, w: Tree, x: Any) -> Any:
        return w["scale"] * x

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return x * w["scale"]


@dataclass(frozen=True, repr=False)
class Flatten(Layer):
    def result(self, shape: Shape) -> Shape:
        return (prod(shape),)

    def tenon(self, w: Tree, x: Any) -> Any:
        return tenon.reshape(x, shape=(x.shape[0], prod(x.shape[1:])))

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return x.flatten(1)


@dataclass(frozen=True, repr=False)
class Residual(Layer):
    """The layers' result added to what they are given, which goes through a product if its size changes."""

    layers: Layers

    def result(self, shape: Shape) -> Shape:
        need(result_of(self.layers, shape) == shape, "a residual of another shape")
        return shape

    def weights(self, shape: Shape) -> Tree:
        return weights_of(self.layers, shape)

    def work(self, shape: Shape) -> int:
        return work_of(self.layers, shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        return x + run_tenon(self.layers, w, x)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return run_torch(self.layers, oracle, w, x) + x


@dataclass(frozen=True, repr=False)
class Checkpoint(Residual):
    """Layers that the backward pass computes again."""

    def result(self, shape: Shape) -> Shape:
        return result_of(self.layers, shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        return tenon.checkpoint(lambda w, x: run_tenon(self.layers, w, x))(w, x)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        return run_torch(self.layers, oracle, w, x)


@dataclass(frozen=True, repr=False)
class Branches(Layer):
    """What two chains make of the same input, side by side along the first dimension of an example, or added."""

    left: Layers
    right: Layers
    added: bool = False

    def result(self, shape: Shape) -> Shape:
        left, right = result_of(self.left, shape), result_of(self.right, shape)
        need(left[1:] == right[1:] and len(left) == len(right) > 0, "branches of different shapes")
        need(not self.added or left == right, "branches of different shapes")
        return left if self.added else (left[0] + right[0], *left[1:])

    def weights(self, shape: Shape) -> Tree:
        return {"left": weights_of(self.left, shape), "right": weights_of(self.right, shape)}

    def work(self, shape: Shape) -> int:
        return work_of(self.left, shape) + work_of(self.right, shape)

    def tenon(self, w: Tree, x: Any) -> Any:
        left, right = run_tenon(self.left, w["left"], x), run_tenon(self.right, w["right"], x)
        return left + right if self.added else tenon.concatenate((left, right), axis=1)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        left, right = run_torch(self.left, oracle, w["left"], x), run_torch(self.right, oracle, w["right"], x)
        return left + right if self.added else torch.cat((left, right), 1)


@dataclass(frozen=True, repr=False)
class Experts(Layer):
    """A mixture of experts: each token goes to the `k` best by a router, whose scores weigh what they give.

    `gather` takes the weights of the experts of each token, `scatter` puts the scores in their places among zeros, and
    `one_hot` makes them by comparison.
    """

    count: int
    k: int = 1
    hidden: int = 1
    kind: str = "scatter"

    LEAST: ClassVar[dict[str, int]] = {"count": 2}

    def result(self, shape: Shape) -> Shape:
        need(len(shape) > 0 and self.k < self.count, "more experts than there are")
        need(self.kind != "gather" or prod(shape) * self.k * self.hidden <= 2**16, "too much to gather")
        return shape

    def weights(self, shape: Shape) -> Tree:
        size, up = shape[-1], matrix(shape[-1], self.hidden)
        return {
            "router": matrix(size, self.count),
            "up": Weight((self.count, *up.shape), up.spread),
            "down": Weight((self.count, self.hidden, size), self.hidden**-0.5),
        }

    def work(self, shape: Shape) -> int:
        return 2 * prod(shape) * self.hidden * self.count

    def tenon(self, w: Tree, x: Any) -> Any:
        tokens = tenon.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
        best, places = tenon.top_k(tokens @ w["router"], self.k)
        scores = tenon.softmax(best, axis=-1)
        if self.kind == "gather":
            up, down = tenon.gather(w["up"], places), tenon.gather(w["down"], places)
            hidden = tenon.silu(tenon.einsum("td,tkdh->tkh", tokens, up))
            return tenon.reshape(tenon.einsum("tkh,tkhd,tk->td", hidden, down, scores), shape=x.shape)
        if self.kind == "scatter":
            zeros = tenon.multiply(tokens @ w["router"], 0)
            shares = tenon.scatter_elements(zeros, places, scores, axis=-1)
        else:
            hot = tenon.one_hot(places, self.count, dtype=x.dtype)
            shares = tenon.sum(hot * scores[:, :, None], axis=1)
        given = tenon.silu(tokens @ w["up"]) @ w["down"]
        mixed = tenon.sum(given * tenon.transpose(shares, permutation=(1, 0))[:, :, None], axis=0)
        return tenon.reshape(mixed, shape=x.shape)

    def torch(self, oracle: Oracle, w: Tree, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        logits = tokens @ w["router"]
        chosen = oracle.jump(logits, torch.arange(self.count, dtype=x.dtype)).topk(self.k, -1).indices
        scores = oracle.softmax(logits.gather(-1, chosen), -1)
        rows = []
        for expert in range(self.count):
            share = (scores * (chosen == expert)).sum(-1, keepdim=True)
            rows.append(share * (F.silu(tokens @ w["up"][expert]) @ w["down"][expert]))
        return torch.stack(rows).sum(0).reshape(x.shape)
