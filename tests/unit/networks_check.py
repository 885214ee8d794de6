"""Run a network with Tenon and with torch, and compare.

What torch computes in double precision is right. How far a result may be from it is measured, too: by torch in the
network's own dtype, by weights and inputs that differ in their last bit, and, at kinks, by derivatives from both sides.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from networks import (
    DTYPES,
    Array,
    Network,
    Oracle,
    Tree,
    Weight,
    leaves,
    mapped,
    result_of,
    run_tenon,
    run_torch,
    weights_of,
)

import tenon
from tenon import optim

STEPS = ("sgd", "adam", "adamw")
LR, DECAY, EPS = 0.0625, 0.125, 0.0625
"""Settings of the optimizers; a large `eps` keeps steps from being decided by the sign of a gradient of zero."""


class Undecided(Exception):
    """A network whose results cannot be told by rounding: numbers overflow, for example."""


@dataclass
class Data:
    """Weights, input, targets and a direction in the space of weights, in the network's dtype."""

    weights: Tree
    x: Array
    targets: Array
    direction: Tree


def data_of(network: Network) -> Data:
    random = np.random.default_rng(network.seed)
    dtype, _, _ = DTYPES[network.dtype]

    def normal(w: Weight) -> Array:
        numbers = np.ones(w.shape) if network.equal else random.standard_normal(w.shape)
        return np.asarray(numbers * w.spread + w.centre, dtype)

    weights = mapped(normal, weights_of(network.layers, network.shape))
    shape = (network.batch, *network.shape)
    if network.vocabulary:
        x = random.integers(0, network.vocabulary, shape)
    else:
        x = random.standard_normal(shape).astype(dtype)
    result = (network.batch, *result_of(network.layers, network.shape))
    match network.loss:
        case "cross_entropy" | "smoothed" | "ignoring":
            targets = random.integers(0, result[-1], result[:-1])
            targets[0] = np.maximum(targets[0], 1)  # one at least is not ignored
        case "bce":
            targets = random.integers(0, 2, result).astype(dtype)
        case "kl":
            targets = random.dirichlet(np.ones(result[-1]), result[:-1]).astype(dtype)
        case _:
            targets = random.standard_normal(result).astype(dtype)
    direction = mapped(lambda w: np.asarray(random.standard_normal(w.shape)).astype(dtype), weights)
    return Data(weights, x, targets, direction)


# --- with Tenon -------------------------------------------------------------------------------------------------------


def _loss(network: Network, y: Any, targets: Any) -> Any:
    match network.loss:
        case "mse":
            return tenon.mse_loss(y, targets)
        case "huber":
            return tenon.huber_loss(y, targets, delta=0.5)
        case "bce":
            return tenon.binary_cross_entropy_with_logits(y, targets)
        case "kl":
            return tenon.kl_div(tenon.log_softmax(y, axis=-1), targets)
        case "cross_entropy":
            return tenon.cross_entropy(y, targets)
        case "smoothed":
            return tenon.cross_entropy(y, targets, label_smoothing=0.125)
        case "ignoring":
            return tenon.cross_entropy(y, targets, ignore_index=0)
        case _:
            return tenon.sum(y * targets)


def _clipped(gradients: Tree, most: float) -> Tree:
    norm = tenon.sqrt(sum(tenon.sum(g * g) for g in leaves(gradients)))
    return mapped(lambda g: g * tenon.minimum(1.0, most / norm), gradients) if most else gradients


def function_of(network: Network) -> Callable[..., Any]:
    """The function of weights, input, targets and what else it takes, which Tenon compiles."""

    def forward(weights: Tree, x: Any, targets: Any) -> Any:
        return run_tenon(network.layers, weights, x)

    def loss(weights: Tree, x: Any, targets: Any) -> Any:
        return _loss(network, forward(weights, x, targets), targets)

    floats = (0,) if network.vocabulary else (0, 1)

    def gradient(weights: Tree, x: Any, targets: Any) -> Any:
        value, gradients = tenon.value_and_grad(loss, argnums=floats)(weights, x, targets)
        return value, _clipped(gradients, network.clip)

    def step(weights: Tree, state: Any, x: Any, targets: Any) -> Any:
        value, gradients = tenon.value_and_grad(loss)(weights, x, targets)
        return *optimizer_of(network).update(weights, _clipped(gradients, network.clip), state), value

    def product(weights: Tree, x: Any, targets: Any, direction: Tree) -> Any:
        return tenon.jvp(lambda weights: tenon.grad(loss)(weights, x, targets), (weights,), (direction,))[1]

    match network.mode:
        case "gradient":
            return gradient
        case "sgd" | "adam" | "adamw":
            return step
        case "hvp":
            return product
        case "vmap":
            return tenon.vmap(forward, in_axes=(None, 0, 0))
        case "example_gradients":
            return tenon.vmap(tenon.grad(loss), in_axes=(None, 0, 0))
        case _:
            return forward


def optimizer_of(network: Network) -> Any:
    if network.mode == "sgd":
        return optim.SGD(lr=LR, momentum=0.5, weight_decay=DECAY, nesterov=network.seed % 2 == 1)
    kind = optim.Adam if network.mode == "adam" else optim.AdamW
    return kind(lr=LR, betas=(0.5, 0.75), eps=EPS, weight_decay=DECAY)


def results_of(network: Network, data: Data, repeat: bool = True) -> list[Array]:
    """What Tenon gives, flat; calls are repeated, which has to give the same bits."""
    function, inputs = function_of(network), (data.x, data.targets)
    if network.mode in ("vmap", "example_gradients"):
        inputs = tuple([array[:, None] for array in inputs])
    if network.mode in STEPS:
        return _steps(network, function, data)
    if network.mode == "hvp":
        inputs = (*inputs, data.direction)
    match network.call:
        case "frozen":
            frozen = tenon.jit(function).freeze(data.weights)
            calls = [lambda: frozen(*inputs)] * 3
        case "constant":
            closed = tenon.jit(lambda *inputs: function(data.weights, *inputs))
            calls = [lambda: closed(*inputs)] * 3
        case "donated":
            donating = tenon.jit(function, donate=("x",)) if _takes_x(network) else tenon.jit(function)
            calls = [lambda: donating(data.weights, inputs[0].copy(), *inputs[1:])] * 3
        case "dynamic" if network.mode in ("forward", "gradient", "hvp"):
            named = {name: ("n", *[None] * (array.ndim - 1)) for name, array in zip(("x", "targets"), inputs)}  # noqa: B905
            jitted = tenon.jit(function, dynamic=named)
            calls = [lambda: jitted(data.weights, *inputs)] * 2
        case _:
            jitted = tenon.jit(function)
            calls = [lambda: jitted(data.weights, *inputs)] * 3
    results = [leaves(call()) for call in calls[: 3 if repeat else 1]]
    for again in results[1:]:
        for first, second in zip(results[0], again, strict=True):
            np.testing.assert_array_equal(second, first, "another call of the same gives other bits")
    return results[0]


def _takes_x(network: Network) -> bool:
    return network.mode in ("forward", "gradient", "hvp")


def _steps(network: Network, function: Callable[..., Any], data: Data) -> list[Array]:
    """Two steps of the optimizer."""
    donate = ("weights", "state") if network.call == "donated" else ()
    named = {name: ("n", *[None] * (array.ndim - 1)) for name, array in (("x", data.x), ("targets", data.targets))}
    step = tenon.jit(function, donate=donate, dynamic=named if network.call == "dynamic" else None)
    weights, values = mapped(np.copy, data.weights), []
    state = optimizer_of(network).init(weights)
    for _ in range(2):
        weights, state, value = step(weights, state, data.x, data.targets)
        values.append(value)
    return [*leaves(weights), *values]


# --- with torch -------------------------------------------------------------------------------------------------------


def _loss_in_torch(network: Network, oracle: Oracle, y: Any, targets: Any) -> Any:
    match network.loss:
        case "mse":
            return F.mse_loss(y, targets)
        case "huber":
            return F.huber_loss(y, targets, delta=0.5)
        case "bce":
            return F.binary_cross_entropy_with_logits(y, targets) + oracle.slipped(F.softplus(y).mean())
        case "kl":
            return F.kl_div(oracle.log_softmax(y, -1), targets, reduction="mean")
        case "cross_entropy" | "smoothed" | "ignoring":
            smoothing, ignored = 0.125 * (network.loss == "smoothed"), 0 if network.loss == "ignoring" else -1
            flat, places = y.reshape(-1, y.shape[-1]), targets.reshape(-1)
            value = F.cross_entropy(flat, places, label_smoothing=smoothing, ignore_index=ignored)
            return value + oracle.slipped(torch.logsumexp(flat, -1)[places != ignored].mean())
        case _:
            return (y * targets).sum()


def expected_of(network: Network, data: Data, dtype: torch.dtype, oracle: Oracle) -> list[Array]:
    """What torch gives in this dtype, flat and in double precision."""

    def tensor(array: Array, learned: bool = False) -> torch.Tensor:
        if array.dtype.kind in "iu":
            return torch.from_numpy(np.asarray(array))
        # A copy, which an optimizer changes in place.
        return torch.tensor(np.array(array, np.float64)).to(dtype).requires_grad_(learned)

    weights = mapped(lambda w: tensor(w, True), data.weights)
    x, targets = tensor(data.x, not network.vocabulary), tensor(data.targets)

    def forward(x: Any) -> Any:
        return run_torch(network.layers, oracle, weights, x)

    def loss(x: Any, targets: Any) -> Any:
        return _loss_in_torch(network, oracle, forward(x), targets)

    flat = leaves(weights)
    match network.mode:
        case "forward":
            found = [forward(x)]
        case "vmap":
            found = [torch.stack([forward(row[None]) for row in x])]
        case "gradient":
            value = loss(x, targets)
            inputs = flat if network.vocabulary else [*flat, x]
            found = [
                value,
                *_clipped_in_torch(torch.autograd.grad(value, inputs, materialize_grads=True), network.clip),
            ]
        case "hvp":
            slopes = torch.autograd.grad(loss(x, targets), flat, create_graph=True, materialize_grads=True)
            along = [tensor(d) for d in leaves(data.direction)]
            product: Any = sum((s * d).sum() for s, d in zip(slopes, along, strict=True))
            constant = not isinstance(product, torch.Tensor) or not product.requires_grad
            found = [torch.zeros_like(w) for w in flat] if constant else list(
                torch.autograd.grad(product, flat, materialize_grads=True)
            )  # fmt: skip
        case "example_gradients":
            each = [
                torch.autograd.grad(loss(row[None], target[None]), flat, materialize_grads=True)
                for row, target in zip(x, targets, strict=True)
            ]
            found = [torch.stack(same) for same in zip(*each, strict=True)]
        case _:
            found = _steps_in_torch(network, flat, lambda: loss(x, targets))
    return [y.detach().double().numpy() for y in found]


def _clipped_in_torch(gradients: Any, most: float) -> list[Any]:
    norm = float(sum((g * g).sum() for g in gradients)) ** 0.5
    return [g * (most / norm) if 0.0 < most < norm else g for g in gradients]


def _steps_in_torch(network: Network, weights: list[Any], loss: Callable[[], Any]) -> list[Any]:
    if network.mode == "sgd":
        nesterov = network.seed % 2 == 1
        optimizer = torch.optim.SGD(weights, lr=LR, momentum=0.5, weight_decay=DECAY, nesterov=nesterov)
    else:
        kind = torch.optim.Adam if network.mode == "adam" else torch.optim.AdamW
        optimizer = kind(weights, lr=LR, betas=(0.5, 0.75), eps=EPS, weight_decay=DECAY)
    values: list[Any] = []
    for _ in range(2):
        optimizer.zero_grad()
        values.append(loss())
        gradients = torch.autograd.grad(values[-1], weights, materialize_grads=True)
        for weight, gradient in zip(weights, _clipped_in_torch(gradients, network.clip), strict=True):
            weight.grad = gradient
        optimizer.step()
    return [*weights, *values]


# --- both -------------------------------------------------------------------------------------------------------------


@dataclass
class Expected:
    """Results, and how far each element may be from them."""

    exact: list[Array]
    allowed: list[Array]


def expected_with_tolerance(network: Network, data: Data) -> Expected:
    """What is right, and how far off a result may be; raises `Undecided`."""
    dtype, torch_dtype, eps = DTYPES[network.dtype]
    plain = Oracle()
    exact = expected_of(network, data, torch.float64, plain)
    largest = [float(np.abs(y).max(initial=0)) for y in exact]
    if not all(np.isfinite(largest)) or max(largest) > 2000:
        raise Undecided("numbers are too large to compare")
    jumps = [np.zeros_like(y) for y in exact]
    if plain.has_kinks:
        for side in (1, -1):
            moved = expected_of(
                network, data, torch.float64, Oracle(side * eps * (8 if np.dtype(dtype).itemsize == 2 else 128))
            )
            jumps = [j + abs(m - y) for j, m, y in zip(jumps, moved, exact, strict=True)]
    rounded = [
        expected_of(network, _disturbed(data, 2 * eps, network.seed + number), torch.float64, plain)
        for number in range(DISTURBED)
    ]
    if plain.takes_from_one:
        rounded.append(expected_of(network, data, torch.float64, Oracle(rounding=eps)))
    if network.dtype != "f64":
        try:
            rounded.append(expected_of(network, data, torch_dtype, plain))
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
    # Second derivatives are sums of products of first ones, which may all cancel.
    cancelled = 1.0 if network.mode == "hvp" else 0.0
    if network.equal and network.dtype in ("f32", "f64"):
        # So may what is equal everywhere: the mean of numbers that are all the same is that number in torch, and in
        # other orders of additions a rounding away, which a norm divides by the root of 1e-5.
        cancelled += 2048.0
    allowed: list[Array] = []
    for number, (y, jump) in enumerate(zip(exact, jumps, strict=True)):
        errors = [float((abs(r[number] - y) - 2 * jump).max(initial=0)) for r in rounded]
        if not all(np.isfinite(errors)):
            raise Undecided(f"numbers leave the range of {network.dtype}")
        floor = eps * (32 * largest[number] + 4 * max(largest) + cancelled) + 8 * 2.0**-24 * (network.dtype == "f16")
        allowed.append(16 * max(errors) + 2 * jump + floor)
    return Expected(exact, allowed)


def _disturbed(data: Data, size: float, seed: int) -> Data:
    """Weights and input in double precision, each number a little larger or smaller."""
    random = np.random.default_rng(seed)

    def moved(array: Array) -> Array:
        if array.dtype.kind in "iu":
            return array
        return array.astype(np.float64) * (1 + size * random.choice((-1, 1), array.shape))

    return Data(mapped(moved, data.weights), moved(data.x), moved(data.targets), data.direction)


DISTURBED = 3
"""How often weights and input are moved at random: one time may hit upon what cancels."""
INTERPRETED_WORK = 20_000
"""Networks of no more products are interpreted, too."""


def check(network: Network) -> None:
    """Raise `AssertionError`, or what the compiler raises, if Tenon is wrong; `Undecided` if that cannot be told."""
    network.check()
    data = data_of(network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about beta features
        expected = expected_with_tolerance(network, data)
    compare(results_of(network, data), expected, network, "compiled")
    if network.work() <= INTERPRETED_WORK and network.call == "jit":
        with tenon.knobs.override(interpret=True, verify=False):  # the same passes ran on it before
            compare(results_of(network, data, repeat=False), expected, network, "interpreted")


def compare(results: list[Array], expected: Expected, network: Network, how: str) -> None:
    dtype, _, _ = DTYPES[network.dtype]
    assert len(results) == len(expected.exact)
    for number, (got, exact, allowed) in enumerate(zip(results, expected.exact, expected.allowed, strict=True)):
        assert got.shape == exact.shape, f"{how}, result {number}: shape {got.shape} instead of {exact.shape}"
        assert got.dtype == dtype, f"{how}, result {number}: dtype {got.dtype} instead of {network.dtype}"
        wide = np.asarray(got).astype(np.float64)
        wrong = ~(abs(wide - exact) <= allowed)
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))
            raise AssertionError(
                f"{how}, result {number} of {len(results)}, {int(wrong.sum())} of {wrong.size} elements: at {place} "
                f"{wide[place]!r} instead of {exact[place]!r} within {allowed[place]:.3g}"
            )
