"""`torch.func` by its names: transformations of functions, and modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tenon
from tenon import batching, transform
from tenon.dialects.support.suggestion import attribute_hints, did_you_mean
from tenon.eager.modes import MODE, is_traced
from tenon.eager.parameters import LEARNED, as_arrays, has_tensor
from tenon.jacobians import hessian, jacfwd, jacrev
from tenon.nn.module import Module
from tenon.nn.regularization import RandomModule
from tenon.runtime.arguments.mapped import mapped
from tenon.transform import grad, jvp, vjp


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`tenon.vmap` with PyTorch's names of its arguments: a function that computes `func` for many examples at once,
    which are along `in_dims` of the arguments and `out_dims` of the results.

    What is drawn without a key of its own (`Dropout`, `rand`) is, by `randomness`, the `"same"` for all examples,
    `"different"`, or an `"error"`. `chunk_size`, which has PyTorch compute so many at once, changes nothing here.
    """
    return batching.vmap(func, in_dims, out_dims, randomness=randomness)


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func` and its value, in this order; see `tenon.value_and_grad`."""
    both = transform.value_and_grad(func, argnums, has_aux=has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return transformed


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """What `module` gives for `args`, a tuple or the only argument, and `kwargs`, with other parameters and buffers, by
    path, in one dict or several.

    The module keeps its own, and what a call changes, such as running statistics, is not kept, but for the count of
    what its layers have drawn (`Dropout`): as many calls of the module itself would have drawn. An array at several
    places is replaced at all of them. Raises `ValueError` for a path that the module has not.
    """
    dicts = [parameters_and_buffers] if isinstance(parameters_and_buffers, Mapping) else parameters_and_buffers
    given = {path: value for part in dicts for path, value in part.items()}
    slots = [*module.slots()]
    own = {slot.path: slot.value for slot in slots}
    if unknown := [path for path in given if path not in own]:
        raise ValueError(
            f"functional_call: a {type(module).__name__} has no {', '.join(unknown)}{did_you_mean(unknown[0], own)}"
        )
    is_whole = all(slot.is_buffer or slot.path in given for slot in slots)
    if not is_whole and MODE.records and not is_traced() and has_tensor((args, kwargs)):
        LEARNED.learn(module)  # whose own parameters take part
        own = {slot.path: slot.value for slot in module.slots()}
    new = {id(as_arrays(own[path])): value for path, value in given.items()}
    called = mapped(module, lambda leaf: new.get(id(leaf), leaf))
    LEARNED.note(called)  # of which nothing is to be made a parameter
    result = called(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    if not any(path == "calls" or path.endswith(".calls") for path in own):
        return result
    for path, layer in called.named_modules():
        if isinstance(layer, RandomModule) and (f"{path}.calls" if path else "calls") not in given:
            own = module.get_submodule(path)
            if vars(layer)["calls"] is not vars(own)["calls"]:
                own.calls = vars(layer)["calls"]
    return result


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules that are alike, by path, each along a new first axis: tensors, of which
    those of parameters require gradients."""
    if not models:
        raise ValueError("stack_module_state: there are no models")
    if len({type(model) for model in models}) > 1:
        kinds = ", ".join(sorted({type(model).__name__ for model in models}))
        raise ValueError(f"stack_module_state: models are of several classes ({kinds})")
    states = [[*model.named_parameters()] for model in models], [[*model.named_buffers()] for model in models]
    parameters, buffers = (
        {
            path: tenon.tensor(tenon.stack([tensor.detach() for _, tensor in parts]))
            for (path, _), parts in zip(kept[0], zip(*kept, strict=True), strict=True)
        }
        for kept in states
    )
    return {path: value.requires_grad_() for path, value in parameters.items()}, buffers


__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
