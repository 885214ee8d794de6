"""Workloads that are written once for each framework, as functions of the framework and of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Array, Function, Preparation
from benchmarks.workload import Target, Workload, in_f64

ONE_OF_THE_BEST = Target(best=1.0)


def program(
    name: str,
    section: str,
    inputs: Callable[[], Sequence[Array]],
    *,
    tenon: Function,
    like_numpy: Function | None = None,
    numpy: Function | None = None,
    torch: Function | None = None,
    jax: Function | None = None,
    exact: Callable[..., Any] | str | None = None,
    is_gradient: bool = False,
    target: Target = ONE_OF_THE_BEST,
    **options: Any,
) -> Workload:
    """A workload of functions `(framework, *inputs)`.

    `like_numpy` is given `numpy` and `jax.numpy`, and is what is exact, in f64; `numpy` and `jax` are for where they
    differ. For a gradient the functions compute a value, the last input is its cotangent, and what is compared are the
    value and the cotangents of the inputs.
    """
    numpy = like_numpy if numpy is None else numpy
    jax_name, in_jax = ("jax", jax) if jax is not None else ("jax.numpy", like_numpy)
    ours, theirs, traced = [
        function and _with(package, function)
        for package, function in (("tenon", tenon), ("torch", torch), (jax_name, in_jax))
    ]
    assert ours is not None
    contestants: dict[str, Preparation] = {"tenon": peers.tenon(_our_gradient(ours) if is_gradient else ours)}
    if numpy is not None and not is_gradient:
        contestants["numpy"] = peers.numpy(partial(numpy, np))
    if theirs is not None:
        run = peers.with_torch_gradients(theirs) if is_gradient else theirs
        contestants["torch"] = peers.torch(run, differentiates=is_gradient)
    if traced is not None:
        contestants["jax"] = peers.jax(_jax_gradient(traced) if is_gradient else traced)
    if exact is None:
        exact = "torch" if numpy is None or is_gradient else in_f64(partial(numpy, np))
    return Workload(name, section, inputs, contestants, exact, has_limit=False, target=target, **options)


def _with(package: str, function: Function) -> Function:
    def call(*arrays: Any) -> Any:
        return function(import_module(package), *arrays)

    return call


def _our_gradient(function: Function) -> Function:
    def gradient(*arrays: Any) -> Any:
        import tenon

        *given, cotangent = arrays
        result, gradients = tenon.vjp(function, *given, cotangent=cotangent)
        return (result, *gradients)

    return gradient


def _jax_gradient(function: Function) -> Function:
    def gradient(*arrays: Any) -> Any:
        import jax

        *given, cotangent = arrays
        result, pullback = jax.vjp(function, *given)
        return (result, *pullback(cotangent))

    return gradient
