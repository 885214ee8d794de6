"""Functions with derivatives of their own, as JAX has them: `custom_vjp`, `custom_jvp`, `custom_gradient`.

Inside a trace each call adds the function's values and its rule; where a gradient goes through it, the rule takes the
place of what would follow from the values. Called on arrays outside of one, it compiles and runs at once.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from xdsl.ir import Attribute

from tenon.control_flow import end_region, region_of
from tenon.dialects.definition.promotion import exact, is_weak, weakened
from tenon.dialects.definition.value import Value, emit, insertion_point, ops
from tenon.dialects.ops.control.with_gradient import WithGradientOp
from tenon.dialects.support.user_traceback import call_user, shows_user_frames
from tenon.dialects.types.types import element_of, is_float
from tenon.passes.transform.differentiate import gradients
from tenon.runtime.arguments.arguments import face_of, is_array
from tenon.runtime.arguments.tree import Structure, describe, flatten, paths, unflatten
from tenon.transform import at_once, check_functions, name_of, trees

ORDERS = 3
"""How often a rule may be part of itself: gradients of gradients go through it as often. Each part is traced."""


class _Tracing(threading.local):
    """The functions whose rules are traced in this thread."""

    def __init__(self) -> None:
        self.rules: list[CustomRule] = []


_TRACING = _Tracing()
Pull = Callable[[tuple[Any, ...], Any], Any]
"""The gradients of arguments, of these and of the cotangents of the results."""


class CustomRule:
    """A function with a derivative of its own; what `custom_vjp`, `custom_jvp` and `custom_gradient` give."""

    WHAT = ""

    def __init__(
        self, function: Callable[..., Any], nondiff_argnums: Sequence[int], nondiff_argnames: Sequence[str]
    ) -> None:
        check_functions(self.WHAT, function)
        functools.update_wrapper(self, function)
        self.function, self.name = function, name_of(function)
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):  # built-in functions may not tell
            self._signature = None
        self._static = self._positions(nondiff_argnums, nondiff_argnames)

    def _positions(self, numbers: Any, names: Any) -> frozenset[int]:
        """The positions of the arguments that take no part in differentiation."""
        known = [] if self._signature is None else [*self._signature.parameters]
        positions = {numbers} if isinstance(numbers, int) else {*numbers}
        for name in (names,) if isinstance(names, str) else names:
            if name not in known:
                raise ValueError(f"{self.WHAT}: {self.name} has no argument {name!r} (arguments: {', '.join(known)})")
            positions.add(known.index(name))
        if any(position < 0 for position in positions):
            raise ValueError(f"{self.WHAT}: nondiff_argnums is {numbers!r}, and positions are 0 or more")
        return frozenset(positions)

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position."""
        if self._signature is None:
            if kwargs:
                raise TypeError(f"{self.name}: arguments are given by position, and not as {', '.join(kwargs)}")
            return args
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.name}: {', '.join(bound.kwargs)} can only be given by name, which {self.WHAT} lacks"
            )
        return bound.args

    @shows_user_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._in_order(args, kwargs)
        places = [i for i in range(len(given)) if i not in self._static]
        moving = tuple([given[i] for i in places])

        def merged(values: Sequence[Any]) -> list[Any]:
            every = [*given]
            for place, value in zip(places, values, strict=True):
                every[place] = value
            return every

        def plain(*values: Any) -> Any:
            return self.value_of(call_user(self.function, *merged(values)))

        def transformed(*values: Any) -> Any:
            return self._with_rule(
                values, plain, self.rule([v for i, v in enumerate(given) if i in self._static], merged)
            )

        if insertion_point() is None and face_of(flatten(moving)[0]) is None:
            return at_once(plain)(*moving)  # of arrays there is no gradient
        return at_once(transformed)(*moving)

    def rule(self, static: Sequence[Any], merged: Callable[[Sequence[Any]], list[Any]]) -> Pull:
        """What finds gradients, for the arguments that take no part, and what puts them together with the others."""
        raise NotImplementedError

    def value_of(self, result: Any) -> Any:
        """The value of the function, of what it returns."""
        return result

    def _with_rule(self, args: tuple[Any, ...], plain: Callable[..., Any], pull: Pull) -> Any:
        given, structure = trees(args, self.name)
        inputs = [exact(value) for value in given]
        types: list[Attribute] = [value.type for value in inputs]

        def arguments(values: Sequence[Value]) -> tuple[Any, ...]:
            """The arguments, of block arguments: floats of Python's are weak there as well."""
            own = [weakened(v) if is_weak(g) else v for v, g in zip(values, given, strict=True)]
            return unflatten(structure, own)

        body, outputs, tree = region_of(plain, types, arguments)
        outputs = [exact(value) for value in outputs]
        end_region(body, outputs)
        floats = [is_float(value.element_type) for value in outputs]
        seeds: list[Attribute] = [v.type for v, is_one in zip(outputs, floats, strict=True) if is_one]

        def pulled(*values: Value) -> tuple[Any, ...]:
            own, rest = values[: len(inputs)], iter(values[len(inputs) :])
            cotangents = unflatten(tree, [next(rest) if is_one else None for is_one in floats])
            args = arguments(own)
            return tuple(self._checked(pull(args, cotangents), args, own))

        gradient = failure = None
        if _TRACING.rules.count(self) < ORDERS:
            _TRACING.rules.append(self)
            try:
                gradient, found, _ = region_of(pulled, [*types, *seeds], lambda values: values)
                end_region(gradient, found)
            except Exception as error:  # which is one where a gradient is asked for
                failure = error
            finally:
                _TRACING.rules.pop()
        op = emit(WithGradientOp.of([v.ssa for v in inputs], body, gradient, [v.type for v in outputs]))
        if failure is not None:
            op.refuse(self.name, failure)
        return unflatten(tree, [Value(result) for result in op.results])

    def _checked(self, found: Any, args: tuple[Any, ...], own: Sequence[Value]) -> list[Value]:
        """The gradients of the floats among the arguments, zeros where there is `None`."""
        if not isinstance(found, tuple | list) or len(found) != len(args):  # pyright: ignore[reportUnknownArgumentType]
            shown = f"{len(found)} gradients" if isinstance(found, tuple | list) else f"a {type(found).__name__}"  # pyright: ignore[reportUnknownArgumentType]
            raise TypeError(
                f"{self.name}: the rule gives {shown} where a tuple of {len(args)}, one an argument, is needed"
            )
        made: list[Value] = []
        rest = iter(own)
        given: list[Any] = list(found)  # pyright: ignore[reportUnknownArgumentType]
        for number, (argument, gradient) in enumerate(zip(args, given, strict=True)):
            leaves, structure = flatten(argument)
            known = [next(rest) for _ in leaves]
            slopes = self._like(gradient, structure, f"gradient of argument {number}", "the argument")
            for name, value, slope in zip(paths(structure, f"argument {number}"), known, slopes, strict=True):
                if is_float(value.element_type):
                    made.append(self._fitting(name, value, slope))
        return made

    def _like(self, given: Any, structure: Structure, what: str, of: str) -> list[Any]:
        """The leaves of `given`, which has the structure of something else, `None` for all below a `None`."""
        leaves, own = flatten(given)
        rest = iter(leaves)

        def below(structure: Structure, own: Structure) -> list[Any]:
            if own.kind is type(None):
                return [None] * structure.size
            if own.kind is None and structure.kind is None:
                return [next(rest)]
            if (own.kind, own.names) != (structure.kind, structure.names):
                raise TypeError(f"{self.name}: the {what} is a {describe(given)}, which has not the structure of {of}")
            return [leaf for pair in zip(structure.children, own.children, strict=True) for leaf in below(*pair)]

        return below(structure, own)

    def _fitting(self, name: str, value: Value, slope: Any) -> Value:
        """A gradient of `value`, in its dtype."""
        if slope is None:
            return ops.zeros_like(value)
        if not is_array(slope):
            raise TypeError(f"{self.name}: the gradient of {name} is a {type(slope).__name__} where an array is needed")
        traced = trees(slope, self.name)[0][0]
        if not is_float(traced.element_type):
            raise TypeError(
                f"{self.name}: the gradient of {name} has dtype {traced.element_type} where a float is needed"
            )
        if traced.shape != value.shape:
            raise ValueError(
                f"{self.name}: the gradient of {name} has shape {traced.shape}, and the argument {value.shape}"
            )
        return ops.cast(traced, dtype=value.element_type) if traced.element_type != value.element_type else traced

    def _lacking(self, what: str) -> NoReturn:
        raise AttributeError(f"{self.WHAT}: {self.name} has no rule; give one by {what}")


class CustomVjp(CustomRule):
    """What `custom_vjp` gives."""

    WHAT = "custom_vjp"
    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Have `fwd(*args)` give the value and what `bwd` needs, and `bwd(what it needs, cotangent)` a tuple of the
        gradients of the arguments, `None` for zeros. `bwd` is given the arguments of `nondiff_argnums` first.

        Both are traced whenever the function is; what they raise is an error where a gradient is asked for. A cotangent
        is `None` where the value is no float.
        """
        if symbolic_zeros:
            raise ValueError("defvjp: cotangents that are zero are arrays of zeros; leave symbolic_zeros out")
        check_functions("defvjp", fwd, bwd)
        self._rules = fwd, bwd

    def rule(self, static: Sequence[Any], merged: Callable[[Sequence[Any]], list[Any]]) -> Pull:
        if self._rules is None:
            self._lacking("defvjp")
        forward, backward = self._rules

        def pull(args: tuple[Any, ...], cotangents: Any) -> Any:
            made = call_user(forward, *merged(args))
            if not isinstance(made, tuple) or len(made) != 2:  # pyright: ignore[reportUnknownArgumentType]
                raise TypeError(f"{self.name}: fwd must return (value, what bwd needs)")
            return call_user(backward, *static, made[1], cotangents)

        return pull


class CustomJvp(CustomRule):
    """What `custom_jvp` gives."""

    WHAT = "custom_jvp"
    _rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Have `jvp(primals, tangents)` give the value and its derivative in the direction of the tangents, in which it
        is linear. It is given the arguments of `nondiff_argnums` first.

        It is traced, and gradients follow by transposition. A tangent is `None` where the argument is no float.
        """
        if symbolic_zeros:
            raise ValueError("defjvp: tangents that are zero are arrays of zeros; leave symbolic_zeros out")
        check_functions("defjvp", jvp)
        self._rule = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Have for each argument a function of its tangent, the value and all arguments give its part of the
        derivative; `None` for an argument that has none."""
        check_functions("defjvps", *[jvp for jvp in jvps if jvp is not None])

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            value = self(*primals)
            if len(jvps) != len(primals):
                raise TypeError(f"{self.name}: defjvps was given {len(jvps)} functions for {len(primals)} arguments")
            parts = [
                trees(jvp(t, value, *primals), self.name)
                for jvp, t in zip(jvps, tangents, strict=True)
                if jvp is not None and t is not None
            ]
            leaves, structure = trees(value, self.name)
            totals = [ops.zeros_like(leaf) for leaf in leaves]
            for found, _ in parts:
                totals = [ops.add(total, part) for total, part in zip(totals, found, strict=True)]
            return value, unflatten(structure, totals)

        if self._static:
            raise TypeError("defjvps: arguments of nondiff_argnums have no tangents; write defjvp")
        self._rule = rule

    def rule(self, static: Sequence[Any], merged: Callable[[Sequence[Any]], list[Any]]) -> Pull:
        rule = self._rule
        if rule is None:
            self._lacking("defjvp")

        def pull(args: tuple[Any, ...], cotangents: Any) -> Any:
            leaves, structure = trees(args, self.name)
            # Any tangents would do, as the derivative is linear in them.
            probes = [ops.identity(ops.ones_like(leaf)) if is_float(element_of(leaf.type)) else None for leaf in leaves]
            made = call_user(rule, *static, args, unflatten(structure, probes))
            if not isinstance(made, tuple) or len(made) != 2:  # pyright: ignore[reportUnknownArgumentType]
                raise TypeError(f"{self.name}: the rule must return (value, tangent)")
            tangents, seeds = self._of_tangents(made, cotangents)  # pyright: ignore[reportUnknownArgumentType]
            sources = [probe for probe in probes if probe is not None]
            found = iter(gradients(tangents, seeds, sources))
            return unflatten(structure, [None if probe is None else next(found) for probe in probes])

        return pull

    def _of_tangents(self, made: tuple[Any, Any], cotangents: Any) -> tuple[list[Value], list[Value]]:
        """The tangents of the values that are floats, and the cotangents of these."""
        value, tangent = made
        structure = flatten(value)[1]
        tangents = self._like(tangent, structure, "tangent", "the value")
        pairs = zip(tangents, self._like(cotangents, structure, "value of the rule", "the function's"), strict=True)
        known = [(self._fitting("the tangent", seed, leaf), seed) for leaf, seed in pairs if seed is not None]
        return [leaf for leaf, _ in known], [seed for _, seed in known]


class CustomGradient(CustomRule):
    """What `custom_gradient` gives."""

    WHAT = "custom_gradient"

    def _parts(self, result: Any) -> tuple[Any, Callable[[Any], Any]]:
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):  # pyright: ignore[reportUnknownArgumentType]
            raise TypeError(
                f"{self.name}: custom_gradient is for functions that return (value, function of the cotangent)"
            )
        return result  # pyright: ignore[reportUnknownVariableType, reportReturnType]

    def value_of(self, result: Any) -> Any:
        return self._parts(result)[0]

    def rule(self, static: Sequence[Any], merged: Callable[[Sequence[Any]], list[Any]]) -> Pull:
        def pull(args: tuple[Any, ...], cotangents: Any) -> Any:
            found = call_user(self._parts(call_user(self.function, *merged(args)))[1], cotangents)
            return found if isinstance(found, tuple) or len(args) != 1 else (found,)

        return pull


def custom_vjp(
    fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
) -> CustomVjp:
    """The function `fun` with a gradient of its own, which `defvjp(fwd, bwd)` of the result gives, as in JAX.

        @tenon.custom_vjp
        def clipped(x):
            return x

        def fwd(x):
            return x, None

        def bwd(residuals, g):
            return (tenon.clip(g, -1.0, 1.0),)

        clipped.defvjp(fwd, bwd)

    Gradients of gradients follow from `fwd` and `bwd`, up to the third order where these call the function itself.

    Arguments and results are trees of arrays; arguments of `nondiff_argnums` (or `nondiff_argnames`) may be anything,
    as they are. The value is that of `fun`, which `fwd` gives as well. `fun` must be given what gradients are wanted
    with respect to: if it reads such a value from around it, `GradientError` is raised.
    """
    return CustomVjp(fun, nondiff_argnums, nondiff_argnames)


def custom_jvp(
    fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
) -> CustomJvp:
    """The function `fun` with a derivative of its own, which `defjvp(jvp)` of the result gives, or `defjvps`, as in
    JAX: for gradients as well. See `custom_vjp` for arguments.

        @tenon.custom_jvp
        def log1pexp(x):
            return tenon.log(1.0 + tenon.exp(x))

        @log1pexp.defjvp
        def rule(primals, tangents):
            (x,), (dx,) = primals, tangents
            return log1pexp(x), (1 - 1 / (1 + tenon.exp(x))) * dx
    """
    return CustomJvp(fun, nondiff_argnums, nondiff_argnames)


def custom_gradient(fun: Callable[..., Any]) -> CustomGradient:
    """A function whose value and gradient `fun` gives: it returns `(value, pull_back)`, and `pull_back(cotangent)` the
    gradient of each argument, as in JAX."""
    return CustomGradient(fun, (), ())


__all__ = ["CustomGradient", "CustomJvp", "CustomVjp", "custom_gradient", "custom_jvp", "custom_vjp"]
