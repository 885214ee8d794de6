"""PyTorch's own samples of modules (`module_db`), run by Tenon's modules of the same names.

`python tests/unit/module_samples.py [name...]` runs all of them, in both faces, and prints which differ.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal.common_modules import module_db

import tenon
from tenon import nn

LEFT_OUT = {
    "nn.LinearCrossEntropyLoss": "is Linear and CrossEntropyLoss, which are compiled together",
    **dict.fromkeys((f"nn.FractionalMaxPool{rank}d" for rank in (2, 3)), "draws its windows"),
}
"""PyTorch's modules that are not there, with the reason."""

LAZY = frozenset(f"nn.LazyConv{kind}{rank}d" for kind in ("", "Transpose") for rank in (1, 2, 3))
"""Those with no parameters to copy before their first call, which `test_lazy_modules.py` compares."""

MODULES = {info.name: info for info in module_db if info.name not in {*LEFT_OUT, *LAZY}}


@dataclass(frozen=True)
class Sample:
    """One call of a module."""

    name: str
    number: int
    training: bool
    made: Any
    called: Any

    def __str__(self) -> str:
        return f"{self.name}-{self.number}-{'train' if self.training else 'eval'}"


def samples(name: str) -> Iterator[Sample]:
    """PyTorch's samples for a module, of those that Tenon can be called on."""
    info = MODULES[name]
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for number, sample in enumerate(given):
            if not any(isinstance(value, PackedSequence) for value in sample.forward_input.args):
                yield Sample(name, number, training, sample.constructor_input, sample.forward_input)


def arrays(value: Any) -> Any:
    """Tensors of torch's as arrays, wherever they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, list | tuple):
        return type(value)([arrays(item) for item in value])
    if isinstance(value, dict):
        return {key: arrays(item) for key, item in value.items()}
    functions: dict[Any, Any] = {torch.nn.functional.relu: tenon.relu, torch.nn.functional.gelu: tenon.gelu}
    return functions.get(value, value) if callable(value) else value


def leaves(value: Any, kind: type) -> list[Any]:
    """What is of a class at and below a value, in order."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item, kind)] if isinstance(value, list | tuple) else []


def inputs_of(called: Any) -> list[torch.Tensor]:
    """The tensors of a call that want gradients, each once."""
    given = leaves([*called.args, called.kwargs], torch.Tensor)
    return list({id(value): value for value in given if value.requires_grad}.values())


def floats(values: list[Any]) -> list[Any]:
    return [value for value in values if value.is_floating_point()]


@dataclass
class Outcome:
    """What a call gave, and what the gradients are of the sum of its results times fixed numbers."""

    results: list[Any]
    of_parameters: dict[str, Any]
    of_inputs: list[Any]
    text: str


def cotangents(results: list[Any]) -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    return [draw.uniform(0.5, 1.5, tuple(r.shape)).astype(np.float32) for r in results]


def in_torch(sample: Sample, state: dict[str, Any]) -> Outcome:
    """What torch gives, whose parameters and buffers before the call are left in `state`."""
    torch.manual_seed(0)
    module = MODULES[sample.name].module_cls(*sample.made.args, **sample.made.kwargs).train(sample.training)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=draw)
    state.update(arrays(module.state_dict()))
    inputs = inputs_of(sample.called)
    found = module(*sample.called.args, **sample.called.kwargs)
    results = floats(leaves(found, torch.Tensor))
    total: Any = sum((r * torch.from_numpy(c)).sum() for r, c in zip(results, cotangents(results), strict=True))
    names = [name for name, _ in module.named_parameters()]
    gradients: Any = [None] * (len(inputs) + len(names))
    if total.requires_grad:
        gradients = torch.autograd.grad(total, [*inputs, *module.parameters()], allow_unused=True)
    values = [None if g is None else g.numpy() for g in gradients]
    return Outcome(
        arrays(results), dict(zip(names, values[len(inputs) :], strict=True)), values[: len(inputs)], f"{module}"
    )


def positional(module: Any, called: Any, convert: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call; what torch calls `input` comes first, whatever it is called."""
    named = dict(called.kwargs)
    first = [named.pop("input")] if "input" in named else []
    return [convert(v) for v in (*first, *called.args)], {name: convert(v) for name, v in named.items()}


def in_tenon(sample: Sample, state: dict[str, Any], *, at_once: bool) -> Outcome:
    """What Tenon gives, step by step with tensors (`at_once`), or as one function."""
    kind = getattr(nn, sample.name.removeprefix("nn."))
    module = kind(*map(translated, sample.made.args), **{n: translated(v) for n, v in sample.made.kwargs.items()})
    module.train(sample.training)
    module.load_state_dict(state)
    text = f"{module}"
    return _with_tensors(module, sample, text) if at_once else _as_a_function(module, sample, text)


def translated(value: Any) -> Any:
    """An argument of a constructor."""
    if isinstance(value, torch.nn.Module):
        kind = type(value).__name__
        if kind.startswith("Transformer"):
            layer: Any = value
            attention, norm = layer.self_attn, layer.norm1
            return getattr(nn, kind)(
                attention.embed_dim, attention.num_heads, layer.linear1.out_features, layer.dropout.p,
                arrays(layer.activation), norm.eps, attention.batch_first, layer.norm_first,
                layer.linear1.bias is not None,
            )  # fmt: skip
        return getattr(nn, kind)(value.normalized_shape, value.eps)
    return arrays(value)


def _is_float(value: Any) -> bool:
    return np.dtype(value.dtype).kind == "f"


def _with_tensors(module: Any, sample: Sample, text: str) -> Outcome:
    module.requires_grad_()
    inputs = {id(v): tenon.tensor(arrays(v), requires_grad=True) for v in inputs_of(sample.called)}

    def tensor(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([tensor(item) for item in value])
        if not isinstance(value, torch.Tensor):
            return arrays(value)
        return inputs[id(value)] if id(value) in inputs else tenon.tensor(arrays(value))

    args, named = positional(module, sample.called, tensor)
    results = [r for r in leaves(module(*args, **named), tenon.Tensor) if _is_float(r)]
    total: Any = 0.0
    for result, weight in zip(results, cotangents(results), strict=True):
        total = total + (result * weight).sum()
    if isinstance(total, tenon.Tensor) and total.requires_grad:
        total.backward()
    parameters = {name: None if p.grad is None else p.grad.numpy() for name, p in module.named_parameters()}
    found = [r.detach().numpy() for r in results]
    return Outcome(found, parameters, [None if v.grad is None else v.grad.numpy() for v in inputs.values()], text)


def _as_a_function(module: Any, sample: Sample, text: str) -> Outcome:
    chosen = inputs_of(sample.called)

    def loss(inputs: list[Any], module: Any) -> Any:
        known = {id(tensor): value for tensor, value in zip(chosen, inputs, strict=True)}

        def put(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)([put(item) for item in value])
            return known[id(value)] if id(value) in known else arrays(value)

        args, named = positional(module, sample.called, put)
        found = module(*args, **named)
        results = [r for r in leaves(found, tenon.Value) if _is_float(r)]
        total: Any = 0.0
        for result, weight in zip(results, cotangents(results), strict=True):
            total = total + tenon.sum(result * weight)
        return total, (results, module)

    places = (*([0] if chosen else []), *([1] if list(module.parameters()) else []))
    gradients, (results, _) = tenon.jit(tenon.grad(loss, places, has_aux=True))(arrays(chosen), module)
    by_place = dict(zip(places, gradients, strict=True))
    of_module = dict(by_place[1].named_parameters()) if 1 in by_place else {}
    return Outcome(results, of_module, by_place.get(0, []), text)


def differences(expected: Outcome, found: Outcome, tolerance: float = 2e-4) -> list[str]:
    """What is not the same; a gradient that torch has none of may be zero."""
    said: list[str] = []

    def compare(name: str, want: Any, have: Any) -> None:
        if want is None or have is None:
            known = have if want is None else want
            if known is not None and np.any(known):
                said.append(f"{name}: {'torch' if want is None else 'tenon'} has none")
            return
        want, have = np.asarray(want), np.asarray(have)
        if want.shape != have.shape:
            said.append(f"{name}: shape {have.shape} where {want.shape} is expected")
            return
        scale = max(1.0, float(np.abs(np.where(np.isfinite(want), want, 0)).max(initial=0)))
        if not np.allclose(have, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            said.append(f"{name}: off by {np.abs(have - want).max():.2g}")

    if len(expected.results) != len(found.results):
        return [f"{len(found.results)} results where {len(expected.results)} are expected"]
    for i, (want, have) in enumerate(zip(expected.results, found.results, strict=True)):
        compare(f"result {i}", want, have)
    for i, (want, have) in enumerate(zip(expected.of_inputs, found.of_inputs, strict=True)):
        compare(f"gradient of input {i}", want, have)
    for name, want in expected.of_parameters.items():
        compare(f"gradient of {name}", want, found.of_parameters.get(name))
    return said


def check(sample: Sample, *, at_once: bool) -> list[str]:
    """What differs between the two."""
    state: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = in_torch(sample, state)
    return differences(expected, in_tenon(sample, state, at_once=at_once))


def main(names: list[str]) -> None:
    """Run all samples, and print what differs."""
    counts: Counter[bool] = Counter()
    for name in names or MODULES:
        for sample in samples(name):
            for at_once in (True, False):
                try:
                    said = check(sample, at_once=at_once)
                except Exception as error:
                    said = [f"{type(error).__name__}: {str(error)[:200]}"]
                counts[not said] += 1
                if said:
                    print(sample, "tensors" if at_once else "function", "; ".join(said)[:300], flush=True)
    total = counts.total()
    print(f"{counts[True]} of {total} agree ({100 * counts[True] / max(total, 1):.2f} %)")


if __name__ == "__main__":
    with tenon.knobs.override(interpret=True):
        main([f"nn.{name}" for name in sys.argv[1:]])
