"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`.

Inside a trace each of them adds to it. Called on arrays outside of one, they compile and run at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenon.dialects.definition.operands import shaped, to_value
from tenon.dialects.definition.promotion import exact, is_weak, weak_float, weakened
from tenon.dialects.definition.value import Value, insertion_point, ops
from tenon.dialects.support.user_traceback import call_user, shows_user_frames
from tenon.dialects.types.types import element_type, is_float
from tenon.passes.transform.differentiate import gradients
from tenon.runtime.arguments.arguments import Parameters, face_of, is_array, traced_face_of
from tenon.runtime.arguments.tree import Structure, describe, flatten, paths, unflatten
from tenon.runtime.cuda.arrays import as_data
from tenon.runtime.retrace import TracedFunction, traced_call
from tenon.runtime.tracing.trace import traced
from tenon.runtime.tracing.watch import watch
from tenon.seeds import Draws


def _values(leaves: Sequence[Any], names: Sequence[str], what: str) -> list[Value]:
    values: list[Value] = []
    for leaf, name in zip(leaves, names, strict=True):
        if not is_array(leaf):
            raise TypeError(f"{what}: {name} is a {type(leaf).__name__} where an array or a number is needed")
        values.append(traced(leaf, name))
    return values


def trees(tree: Any, what: str) -> tuple[list[Value], Structure]:
    """The leaves of `tree` as traced values, and its structure. Raises `TypeError` for a leaf that is no array."""
    leaves, structure = flatten(tree)
    return _values(leaves, list(paths(structure)), what), structure


def _linearized(
    function: Callable[..., Any], args: Sequence[Any], wanted: Sequence[int], what: str
) -> tuple[Any, list[tuple[list[Value], list[bool], Structure]]]:
    """`function` applied to `args`, those at `wanted` as values of their own; and these values, which are float, and
    how they make up the arguments. Leaves that are no arrays, or not floating point, take no part in differentiation.
    """
    arguments = list(args)
    groups: list[tuple[list[Value], list[bool], Structure]] = []
    tracing = watch()
    for position in wanted:
        leaves, structure = flatten(args[position])
        values: list[Any] = []
        floats: list[bool] = []
        for leaf in leaves:
            value = leaf
            if is_array(leaf):
                value = _own(traced(leaf))
                if tracing is not None:
                    tracing.is_at(value, tracing.places(leaf))
            values.append(value)
            floats.append(isinstance(value, Value) and is_float(value.element_type))
        if not any(floats):
            kinds = ", ".join(str(v.type) for v in values if isinstance(v, Value)) or describe(args[position])
            if what == "grad":
                if (check := getattr(args[position], "_check_made", None)) is not None:
                    check()  # of a module whose parameters are not there yet, this is said
                raise TypeError(
                    f"grad: argument {position} has nothing floating-point to differentiate with respect to ({kinds})"
                )
        arguments[position] = unflatten(structure, values)
        groups.append((values, floats, structure))
    return call_user(function, *arguments), groups


def _own(value: Value) -> Value:
    """`value`, apart from all other uses of it."""
    wide = exact(value)
    return ops.identity(value) if wide is value else weak_float(ops.identity(wide))


def _gradient_trees(
    outputs: Sequence[Value],
    cotangents: Sequence[Value | None],
    groups: Sequence[tuple[list[Value], list[bool], Structure]],
) -> list[Any]:
    given = [v for values, floats, _ in groups for v, is_wanted in zip(values, floats, strict=True) if is_wanted]
    sources = list(map(exact, given))
    totals = [
        ops.zeros_like(source) if g is None else g
        for g, source in zip(gradients(outputs, cotangents, sources), sources, strict=True)
    ]
    found = iter([weakened(g) if is_weak(v) else g for g, v in zip(totals, given, strict=True)])
    return [
        unflatten(structure, [next(found) if is_wanted else None for is_wanted in floats])
        for _, floats, structure in groups
    ]


def _positions(argnums: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    positions: tuple[Any, ...] = (argnums,) if isinstance(argnums, int | str) else tuple(argnums)
    if not all(hasattr(position, "__index__") for position in positions):
        raise TypeError(f"{what}: argnums is {argnums!r} where the position of an argument, or several, is needed")
    for position in positions:
        if not -count <= position < count:
            raise ValueError(f"{what}: argument {position} is asked for, but {count} are given")
    return tuple(p % count for p in positions)


def at_once(transformed: Callable[..., Any]) -> Callable[..., Any]:
    """Trace, compile and run `transformed` at each call outside of a trace, unless nothing that it reads is another
    than at a call like it (see `runtime/retrace.py`).
    """
    traced_function = TracedFunction(transformed)

    @functools.wraps(transformed)
    @shows_user_frames
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if insertion_point() is not None:
            face = traced_face_of(args, kwargs)
            return transformed(*args, **kwargs) if face is None else face(transformed, args, kwargs)
        if (face := face_of(flatten((args, kwargs))[0])) is not None:
            return face(traced_function, args, kwargs)
        return traced_function.trace(args, kwargs).run()

    return wrapper


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns `(value, gradient)` of the scalar-valued `function`.

    The gradient is with respect to argument `argnums` (a tuple for several) and has its tree, with `None` at leaves
    that are not floating point. With `has_aux`, `function` returns `(value, aux)` and the result is `((value, aux),
    gradient)`.
    """
    check_functions("grad", function)

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        wanted = _positions(argnums, len(args), "grad")
        result, groups = _linearized(lambda *a: call_user(function, *a, **kwargs), args, wanted, "grad")
        if has_aux and not (isinstance(result, tuple | list) and len(result) == 2):
            raise TypeError(
                f"grad: {name_of(function)} must return (value, aux), as has_aux says, but returns {describe(result)}"
            )
        value, aux = result if has_aux else (result, None)
        if not isinstance(value, Value):
            value = to_value(value) if is_array(value) else value
        if not isinstance(value, Value) or value.shape != () or not is_float(value.element_type):
            shown = f"of type {value.type}" if isinstance(value, Value) else f"a {type(value).__name__}"
            raise TypeError(
                f"grad: {name_of(function)} must return one floating-point number, but its result is {shown}"
            )
        found = _gradient_trees([value], [ops.ones_like(value)], groups)
        gradient = found[0] if isinstance(argnums, int) else tuple(found)
        return ((value, aux) if has_aux else value), gradient

    return at_once(transformed)


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar-valued `function`; see `value_and_grad`.

    With `has_aux` the result is `(gradient, aux)`.
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return at_once(transformed)


def vjp(function: Callable[..., Any], *primals: Any, cotangent: Any = None) -> Any:
    """The value of `function` at `primals`, and its vector-Jacobian product.

    Without `cotangent`: `(value, pull_back)`, where `pull_back(cotangent)` gives a tuple of one gradient per primal,
    at the primals and whatever else `function` reads as they are now. With it: `(value, gradients)`. A cotangent has
    the tree, shapes and dtypes of the value; Python's floats have any. Raises `ValueError` for other trees and shapes,
    `TypeError` for other floats, and, without a `cotangent`, for tensors that require a gradient: pulling back is not
    recorded then.
    """
    check_functions("vjp", function)

    def linearized(*arguments: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        result, groups = _linearized(function, arguments, range(len(arguments)), "vjp")
        outputs, structure = trees(result, "vjp")

        def pull_back(cotangent: Any) -> tuple[Any, ...]:
            _check_floats(cotangent, result, "vjp: cotangent")
            seeds = _matching(cotangent, outputs, structure, "vjp: cotangent")
            return tuple(_gradient_trees(outputs, seeds, groups))

        return result, pull_back

    def both(cotangent: Any, *arguments: Any) -> Any:
        value, pull_back = linearized(*arguments)
        return value, pull_back(cotangent)

    if cotangent is not None:
        return at_once(both)(cotangent, *primals)
    if insertion_point() is not None:
        return linearized(*primals)
    draws = Draws()
    with draws.noted():
        value = at_once(lambda *arguments: function(*arguments))(*primals)
    leaves, structure = flatten(value)
    if any(getattr(leaf, "requires_grad", False) for leaf in leaves):
        raise TypeError(
            "vjp: the value is a tensor that requires a gradient, and what pull_back gives would have none; call "
            "vjp(f, *primals, cotangent=...), which is recorded, or detach() what f is given and reads"
        )
    with draws.again():
        backward = traced_call(Parameters(lambda *given: both(*given)[1]), (value, *primals), {}, holds=True)

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        _check_floats(cotangent, value, "vjp: cotangent")
        return backward.run(_seeds(cotangent, leaves, structure, "vjp: cotangent"))

    return value, pull_back


def _matching(tree: Any, like: Sequence[Value], structure: Structure, what: str) -> list[Value | None]:
    """The leaves of `tree`, which must have the structure, shapes and dtypes of `like`; `None` where `like` is no
    float.
    """
    return [
        None if seed is None else ops.cast(seed, dtype=v.element_type) if seed.element_type != v.element_type else seed
        for v, seed in zip(like, _fitting(tree, like, structure, what, lambda leaf: traced(leaf, what)), strict=True)
    ]


def _check_floats(tree: Any, like: Any, what: str) -> None:
    """Raise `TypeError` for floats of `tree` that are of another dtype than those in `like`; Python's are of any."""
    (leaves, structure), (values, own) = flatten(tree), flatten(like)
    for value, leaf, name in zip(values, leaves, paths(structure), strict=True) if structure == own else ():
        if not (hasattr(value, "dtype") and hasattr(leaf, "dtype")) or is_weak(leaf) or is_weak(value):
            continue
        given, wanted = element_type(leaf.dtype), element_type(value.dtype)
        if given != wanted and is_float(given) and is_float(wanted):
            raise TypeError(f"{what}: {name} has dtype {given} where {wanted}, that of the value, is needed")


def _seeds(tree: Any, like: Sequence[Any], structure: Structure, what: str) -> list[Any]:
    """As `_matching`, outside of a trace: arrays, and where `like` is no float what is there."""
    found = _fitting(tree, like, structure, what, lambda leaf: as_data(leaf, what))
    return [v if seed is None else seed.astype(v.dtype) for v, seed in zip(like, found, strict=True)]


def _fitting(
    tree: Any, like: Sequence[Any], structure: Structure, what: str, converted: Callable[[Any], Any]
) -> list[Any]:
    """The leaves of `tree` that belong to floats in `like`, `None` for others; raises unless structure and shapes
    agree."""
    leaves, given = flatten(tree)
    if given != structure:
        raise ValueError(f"{what} is a {describe(tree)}, which has not the structure of the value")
    found: list[Any] = []
    for value, leaf, name in zip(like, leaves, paths(structure), strict=True):
        if not is_float(element_type(value.dtype)):
            found.append(None)
            continue
        seed = leaf if isinstance(leaf, Value) else converted(leaf)
        if seed.shape != value.shape:
            raise ValueError(f"{what}: {name} has shape {seed.shape} where {value.shape} is needed")
        found.append(seed)
    return found


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`(value, tangent)`: the value of `function` at `primals`, and its derivative in the direction `tangents`.

    The reverse rules give it: a pull-back is linear in its cotangent, so pulling back the pull-back pushes forward.
    Raises `ValueError` for tangents of other structure or shapes than the primals, and `TypeError` for floats of
    another dtype; Python's have any.
    """
    check_functions("jvp", function)
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise TypeError(f"jvp: {name} is a {type(given).__name__} where a tuple of an array per argument is needed")

    is_one = len(primals) == 1

    def named(number: int) -> str:
        return "jvp: tangent" if is_one else f"jvp: tangent {number}"

    def transformed(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        result, groups = _linearized(function, primals, range(len(primals)), "jvp")
        outputs, structure = trees(result, "jvp")
        sources: list[Value] = []
        directions: list[Value | None] = []
        for number, ((values, floats, tree), tangent) in enumerate(zip(groups, tangents, strict=True)):
            moved = list(map(exact, values))
            given = _matching(tangent, moved, tree, named(number))
            sources += [v for v, wanted in zip(moved, floats, strict=True) if wanted]
            directions += [d for d, wanted in zip(given, floats, strict=True) if wanted]
        moving = [v for v in outputs if is_float(v.element_type)]
        # Any cotangent would do; of 0 some rules are linear only in value, as those that take its logarithm.
        probes = [ops.identity(ops.ones_like(v)) for v in moving]
        back = gradients(moving, probes, sources)
        reached = [(g, d) for g, d in zip(back, directions, strict=True) if g is not None]
        pushed = gradients([g for g, _ in reached], [d for _, d in reached], probes)
        found = iter([ops.zeros_like(v) if t is None else t for t, v in zip(pushed, moving, strict=True)])
        return result, unflatten(structure, [next(found) if is_float(v.element_type) else None for v in outputs])

    if len(primals) != len(tangents):
        raise ValueError(f"jvp: {len(primals)} primals and {len(tangents)} tangents are given")
    for number, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        _check_floats(tangent, primal, named(number))
    return at_once(transformed)(tuple(primals), tuple(tangents))


def name_of(function: Callable[..., Any]) -> str:
    """What errors call `function`."""
    return getattr(function, "__name__", repr(function))


def check_functions(where: str, *functions: object) -> None:
    """Raise `TypeError` for what cannot be called."""
    for function in functions:
        if not callable(function):
            raise TypeError(f"{where}: a {type(function).__name__} is given where a function is needed")


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`(value, push_forward)`: the value of `function` at `primals`, and the function that gives its derivative in the
    direction of `tangents`, one like each of the primals, as `jvp` does.

    Each push-forward of arrays computes what it needs of the value again; in a function of `jit` all share that.
    """
    check_functions("linearize", function)

    def push_forward(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise TypeError(f"linearize: there are {len(tangents)} tangents where there are {len(primals)} primals")
        return jvp(function, primals, tangents)[1]

    return at_once(function)(*primals), push_forward


def linear_transpose(function: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a `function` that is linear in all of its arguments, which are like `primals`, whose elements do
    not matter: it takes what is like the value, and gives a tuple of one array for each argument.
    """
    check_functions("linear_transpose", function)
    leaves, structure = flatten(primals)
    zeros = unflatten(structure, [np.zeros(tuple(x.shape), x.dtype) for x in map(shaped, leaves)])
    return lambda cotangent: vjp(function, *zeros, cotangent=cotangent)[1]
