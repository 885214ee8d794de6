"""`vmap`: axes and trees, composition with the other transformations, control flow, errors.

`test_vmap_registry.py` has every op, `test_vmap_ops.py` ops of users.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_builder import Program
from random_programs import programs
from test_random_programs import assert_agrees, examples
from test_vmap_registry import varied

import tenon
from tenon.runtime.knobs import knobs


def doubles(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def each(function: Any, *batches: Any) -> Any:
    """`function` of one example after the other, results stacked."""
    results = [function(*examples) for examples in zip(*batches, strict=True)]
    if isinstance(results[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))
    return np.stack(results)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def op_names(function: Any, *arguments: Any) -> set[str]:
    """The ops of the trace of `function`."""
    return {op.name for op in tenon.jit(function).trace(*arguments).module.walk()}


# --- axes and trees -----------------------------------------------------------------------------------------------


def test_a_function_of_vectors_becomes_one_of_matrices() -> None:
    x, w = doubles(4, 3), doubles(3)
    found = tenon.vmap(lambda v: tenon.tanh(v @ w))(x)
    close(found, np.tanh(x @ w))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_examples_along_any_axis(axis: int) -> None:
    x = doubles(2, 3, 4)
    moved = np.moveaxis(x, axis, 0)
    expected = np.stack([np.cumsum(one, 0)[-1] for one in moved])
    close(tenon.vmap(lambda v: tenon.sum(v, axis=0), in_axes=axis)(x), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_results_with_examples_along_any_axis(axis: int) -> None:
    x = doubles(4, 2, 3)
    found = tenon.vmap(lambda v: v * 2.0, out_axes=axis)(x)
    close(found, np.moveaxis(x * 2, 0, axis))


def test_one_axis_per_argument() -> None:
    x, y, z = doubles(4, 3), doubles(3, 4, seed=1), doubles(3, seed=2)
    found = tenon.vmap(lambda a, b, c: a * b + c, in_axes=(0, 1, None))(x, y, z)
    close(found, x * y.T + z)
    close(tenon.vmap(lambda a, b, c: a * b + c, in_axes=[0, -1, None])(x, y, z), x * y.T + z)


def test_keyword_arguments_have_their_examples_in_front() -> None:
    x, y = doubles(4, 3), doubles(4, 3, seed=1)
    close(tenon.vmap(lambda a, *, b: a - b, in_axes=0)(x, b=y), x - y)


def test_trees_of_axes() -> None:
    params = {"w": doubles(3, 4), "b": doubles(3, seed=1)}
    x = [doubles(4, seed=2), (doubles(2, 5, seed=3), 2.0)]

    def function(p: Any, x: Any) -> Any:
        return {"sum": p["w"] @ x[0] + p["b"], "rest": (x[1][0] * x[1][1], x[1][1])}

    found = tenon.vmap(
        function, in_axes=({"w": None, "b": None}, [None, (0, None)]), out_axes={"sum": None, "rest": 0}
    )(params, x)
    close(found["sum"], params["w"] @ x[0] + params["b"])
    close(found["rest"][0], x[1][0] * 2.0)
    np.testing.assert_array_equal(found["rest"][1], np.full(2, 2.0))
    shared = tenon.vmap(lambda p, v: p["w"] @ v + p["b"], in_axes=(None, 0))(params, doubles(6, 4))
    close(shared, doubles(6, 4) @ params["w"].T + params["b"])


def test_structure_and_numbers_pass_through() -> None:
    x = doubles(4, 3)
    found = tenon.vmap(lambda v, name, f: f(v) if name == "twice" else v, in_axes=0)(x, "twice", lambda v: v + v)
    close(found, x + x)
    close(tenon.vmap(lambda v, n: v * n, in_axes=(0, None))(x, 3), x * 3)


def test_results_that_depend_on_no_example() -> None:
    x = doubles(4, 3)
    seven, both = tenon.vmap(lambda v: (7.0, v.shape[0] + tenon.zeros(2)), out_axes=(None, 1))(x)
    assert np.shape(seven) == ()
    assert float(seven) == 7.0
    np.testing.assert_array_equal(both, np.full((2, 4), 3.0, np.float32))


def test_axis_size() -> None:
    found = tenon.vmap(lambda v: v * 2.0, in_axes=None, axis_size=3)(doubles(2))
    close(found, np.stack([doubles(2) * 2] * 3))
    close(tenon.vmap(lambda v: v * 2.0, axis_size=2)(doubles(2, 5)), doubles(2, 5) * 2)


@pytest.mark.parametrize("size", [0, 1])
def test_few_examples(size: int) -> None:
    x = doubles(size, 3)
    close(tenon.vmap(lambda v: tenon.softmax(v) @ np.eye(3))(x), tenon.softmax(x))
    found = tenon.vmap(lambda v: tenon.while_loop(lambda c: c.sum() < 9.0, lambda c: c * c + 1.0, v))(x)
    assert found.shape == (size, 3)


# --- composition --------------------------------------------------------------------------------------------------


def layers(params: Any, x: Any) -> Any:
    for weight, bias in params[:-1]:
        x = tenon.relu(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def loss(params: Any, x: Any, label: Any) -> Any:
    return tenon.cross_entropy(layers(params, x), label)


SIZES = [(5, 7), (7, 6), (6, 3)]
PARAMS = [(doubles(*size, seed=i), doubles(size[1], seed=9 + i)) for i, size in enumerate(SIZES)]
X, LABELS = doubles(8, 5, seed=20), np.random.default_rng(3).integers(0, 3, 8)


def test_per_example_gradients_of_a_network() -> None:
    per_example = tenon.jit(tenon.vmap(tenon.grad(loss), in_axes=(None, 0, 0)))
    found = per_example(PARAMS, X, LABELS)
    single = tenon.jit(tenon.grad(loss))
    for i in range(len(X)):
        for (weight, bias), (one_weight, one_bias) in zip(found, single(PARAMS, X[i], LABELS[i]), strict=True):
            close(weight[i], one_weight)
            close(bias[i], one_bias)
    assert "tenon.scan" not in op_names(per_example, PARAMS, X, LABELS)
    # Their mean is the gradient of the mean.
    whole = tenon.grad(lambda p: tenon.mean(tenon.vmap(loss, in_axes=(None, 0, 0))(p, X, LABELS)))(PARAMS)
    for (weight, bias), (whole_weight, whole_bias) in zip(found, whole, strict=True):
        close(weight.mean(0), whole_weight)
        close(bias.mean(0), whole_bias)


def test_nested() -> None:
    x, y = doubles(4, 3), doubles(5, 3, seed=1)
    outer = tenon.vmap(
        tenon.vmap(lambda a, b: tenon.sum(tenon.exp(-((a - b) ** 2))), in_axes=(None, 0)), in_axes=(0, None)
    )
    close(outer(x, y), np.exp(-((x[:, None] - y) ** 2)).sum(-1))
    twice = tenon.vmap(tenon.vmap(lambda m: tenon.matmul(m, m.T)), in_axes=1)(doubles(2, 3, 4, 5))
    expected = np.einsum("abij,abkj->baik", doubles(2, 3, 4, 5), doubles(2, 3, 4, 5))
    close(twice, expected)


def test_with_jit_inside_and_outside() -> None:
    x = doubles(4, 3)
    inner = tenon.jit(lambda v: tenon.sin(v).sum())
    close(tenon.vmap(inner)(x), np.sin(x).sum(1))
    close(tenon.jit(tenon.vmap(inner))(x), np.sin(x).sum(1))


def test_jacobian_and_hessian() -> None:
    a = doubles(3, 4)

    def function(x: Any) -> Any:
        return tenon.tanh(a @ x)

    x = doubles(4, seed=5)
    slope = 1 - np.tanh(a @ x) ** 2
    jacobian = tenon.vmap(lambda row: tenon.vjp(function, x, cotangent=row)[1][0])(np.eye(3))
    close(jacobian, slope[:, None] * a)
    forward = tenon.vmap(lambda column: tenon.jvp(function, (x,), (column,))[1], out_axes=1)(np.eye(4))
    close(forward, slope[:, None] * a)

    def cubes(x: Any) -> Any:
        return tenon.sum(x * x * x) / 6.0

    hessian = tenon.vmap(lambda v: tenon.jvp(tenon.grad(cubes), (x,), (v,))[1])(np.eye(4))
    close(hessian, np.diag(x))


def test_gradient_of_what_is_batched() -> None:
    x, w = doubles(4, 3), doubles(3, 2, seed=1)
    gradient = tenon.grad(lambda w: tenon.sum(tenon.vmap(lambda v: tenon.softmax(v @ w) ** 2)(x)))(w)
    plain = tenon.grad(lambda w: tenon.sum(tenon.softmax(x @ w) ** 2))(w)
    close(gradient, plain)
    value, tangent = tenon.jvp(tenon.vmap(lambda v: tenon.sum(tenon.sin(v))), (x,), (x,))
    close(value, np.sin(x).sum(1))
    close(tangent, (np.cos(x) * x).sum(1))


def test_what_is_the_same_for_all_is_computed_once() -> None:
    x, w = doubles(4, 3), doubles(3, 3, seed=1)
    module = tenon.jit(tenon.vmap(lambda v, w: v @ tenon.exp(w), in_axes=(0, None))).trace(x, w).module
    (exp,) = [op for op in module.walk() if op.name == "tenon.exp"]
    assert str(exp.results[0].type) == "tensor<3x3xf64>"


def test_locations_are_those_of_the_function() -> None:
    def function(v: Any) -> Any:
        return tenon.tanh(v)

    module = tenon.jit(tenon.vmap(function)).trace(doubles(4, 3)).module
    (op,) = [op for op in module.walk() if op.name == "tenon.tanh"]
    assert f":{function.__code__.co_firstlineno + 1}:" in str(op.location)


def test_random_numbers_of_many_keys() -> None:
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, (5, 2)).astype(np.int32)

    def draw(key: Any) -> Any:
        return tenon.random_uniform(tenon.fold_in(key, 3), (2, 3))

    found = tenon.vmap(draw)(keys)
    np.testing.assert_array_equal(found, each(tenon.jit(draw), keys))
    assert len(np.unique(found)) == found.size


# --- control flow -------------------------------------------------------------------------------------------------


def branches(x: Any, w: Any) -> Any:
    def shrunk() -> Any:
        return tenon.sin(x) * w, tenon.sum(x)

    return tenon.cond(tenon.sum(x) > 0, lambda: (x * w, 1.0 * tenon.sum(w)), shrunk)


def test_cond_whose_predicate_differs() -> None:
    x, w = doubles(6, 3), doubles(3, seed=1)
    mapped = tenon.vmap(branches, in_axes=(0, None))
    for found, expected in zip(mapped(x, w), each(lambda v: branches(v, w), x), strict=True):
        close(found, expected)
    assert "tenon.cond" not in op_names(mapped, x, w)

    def total(v: Any, w: Any) -> Any:
        first, second = branches(v, w)
        return tenon.sum(first) + second

    gradient = tenon.grad(lambda x, w: tenon.sum(tenon.vmap(total, in_axes=(0, None))(x, w)), (0, 1))(x, w)
    singles = each(lambda v: tenon.grad(total, (0, 1))(v, w), x)
    close(gradient[0], singles[0])
    close(gradient[1], singles[1].sum(0))


@pytest.mark.parametrize("chosen", [True, False])
def test_cond_whose_predicate_is_shared_stays(chosen: bool) -> None:
    x, y = doubles(4, 3), doubles(3, seed=1)

    def function(p: Any, v: Any, y: Any) -> Any:
        # One result differs in one branch alone, one in none.
        return tenon.cond(p, lambda: (v * 2.0, y), lambda: (y + 1.0, y * 2.0))

    mapped = tenon.vmap(function, in_axes=(None, 0, None), out_axes=(0, None))
    first, second = mapped(chosen, x, y)
    close(first, x * 2 if chosen else np.stack([y + 1] * 4))
    close(second, y if chosen else y * 2)
    assert "tenon.cond" in op_names(mapped, chosen, x, y)
    gradient = tenon.grad(lambda v: tenon.sum(mapped(chosen, v, y)[0]))(x)
    close(gradient, np.full((4, 3), 2.0 if chosen else 0.0))


def newton(x: Any) -> Any:
    """The square root of `x`, and the number of steps to it."""
    start = {"root": tenon.maximum(x, 1.0), "steps": 0}
    return tenon.while_loop(
        lambda s: tenon.abs(s["root"] * s["root"] - x) > 1e-10,
        lambda s: {"root": 0.5 * (s["root"] + x / s["root"]), "steps": s["steps"] + 1},
        start,
    )


def test_while_loop_ends_for_each_example_by_itself() -> None:
    x = np.array([1.0, 2.0, 1e6, 0.25, 9.0])
    found = tenon.vmap(newton)(x)
    singles = [newton(v) for v in x]
    close(found["root"], [s["root"] for s in singles])
    np.testing.assert_array_equal(found["steps"], [s["steps"] for s in singles])
    assert len(set(found["steps"])) > 2


def test_while_loop_of_as_many_steps_for_all() -> None:
    def powers(v: Any, count: Any) -> Any:
        # What starts the same differs after the first step.
        return tenon.while_loop(
            lambda s: s[0] < count, lambda s: (s[0] + 1, s[1] * v, s[2] + s[1]), (0, tenon.ones(3, "f64"), 0.0 * v)
        )

    x = doubles(4, 3)
    mapped = tenon.vmap(powers, in_axes=(0, None), out_axes=(None, 0, 0))
    steps, product, total = mapped(x, 3)
    assert int(steps) == 3
    close(product, x**3)
    close(total, 1 + x + x**2)


def recurrent(w: Any, state: Any, sequence: Any) -> Any:
    return tenon.scan(lambda s, item: (tenon.tanh(w @ s + item), s * item), state, sequence)


@pytest.mark.parametrize("axes", [(None, 0, 0), (0, None, None), (None, None, 1), (None, 0, None), (0, 0, 0)])
def test_scan(axes: tuple[int | None, ...]) -> None:
    w, state, sequence = doubles(5, 3, 3), doubles(5, 3, seed=1), doubles(5, 4, 3, seed=2)
    arguments = [b if axis is not None else b[0] for b, axis in zip((w, state, sequence), axes, strict=True)]
    batches = [
        b if axis is not None else np.stack([b[0]] * 5) for b, axis in zip((w, state, sequence), axes, strict=True)
    ]
    if axes[2] == 1:
        arguments[2] = np.moveaxis(sequence, 0, 1)
    mapped = tenon.vmap(recurrent, in_axes=axes)
    for found, expected in zip(mapped(*arguments), each(recurrent, *batches), strict=True):
        close(found, expected)

    def total(*arguments: Any) -> Any:
        last, outputs = recurrent(*arguments)
        return tenon.sum(last) + tenon.sum(tenon.cos(outputs))

    gradients = tenon.grad(lambda *a: tenon.sum(tenon.vmap(total, in_axes=axes)(*a)), (0, 1, 2))(*arguments)
    singles = each(tenon.grad(total, (0, 1, 2)), *batches)
    for found, expected, axis in zip(gradients, singles, axes, strict=True):
        close(found, expected.sum(0) if axis is None else np.moveaxis(expected, 0, axis))
    per_example = tenon.vmap(tenon.grad(total, (0, 1, 2)), in_axes=axes)(*arguments)
    for found, expected in zip(per_example, singles, strict=True):
        close(found, expected)


def test_control_flow_within_control_flow() -> None:
    def function(x: Any) -> Any:
        def step(total: Any, item: Any) -> Any:
            halved = tenon.while_loop(lambda v: tenon.abs(v) > 0.5, lambda v: v * 0.5, item)
            return tenon.cond(total > 0, lambda: total - halved, lambda: total + tenon.exp(halved)), halved

        return tenon.scan(step, 0.0 * x[0], x, reverse=True)

    x = doubles(5, 6) * 3
    for found, expected in zip(tenon.vmap(function)(x), each(function, x), strict=True):
        close(found, expected)
    nested = tenon.vmap(tenon.vmap(function))(x.reshape(5, 2, 3))
    close(nested[1], np.stack([each(function, one)[1] for one in x.reshape(5, 2, 3)]))


# --- random programs ----------------------------------------------------------------------------------------------


@examples(60)
@given(programs(most=8), st.data())
def test_random_programs(program: Program, data: st.DataObject) -> None:
    """An example among others gives what it gives on its own, whichever arguments are batched."""
    flags = st.lists(st.booleans(), min_size=len(program.arrays), max_size=len(program.arrays))
    chosen = data.draw(flags.filter(any))
    batch = [np.stack((varied(x), x)) if pick else x for x, pick in zip(program.arrays, chosen, strict=True)]
    axes = [0 if pick else None for pick in chosen]
    mapped = tenon.jit(tenon.vmap(lambda arrays: program.run(tenon, arrays), in_axes=(axes,)))
    with knobs.override(interpret=True), np.errstate(all="ignore"):
        assert_agrees(program, [result[1] for result in mapped(batch)])


# --- errors -------------------------------------------------------------------------------------------------------


def test_numbers_of_examples_that_differ_are_named() -> None:
    x, y = doubles(4, 3), doubles(5, 3)
    with pytest.raises(ValueError, match=r"vmap: numbers of examples differ: x has 4, rest\.y has 5$"):
        tenon.vmap(lambda x, rest: x + rest["y"])(x, {"y": y})
    with pytest.raises(ValueError, match=r"numbers of examples differ: argument 0 has 4, argument 1 has 5"):
        tenon.vmap(lambda *a: a[0])(x, y)
    for size in (-1, 2.0):
        with pytest.raises(ValueError, match=f"vmap: axis_size is {size} where a number of examples is needed"):
            tenon.vmap(lambda: 1.0, axis_size=size)()  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"differ: x has 4, y has 5, axis_size has 6"):
        tenon.vmap(lambda x, y: x, axis_size=6)(x, y=y)


def test_axes_that_do_not_fit() -> None:
    x = doubles(4, 3)
    with pytest.raises(ValueError, match=r"vmap: in_axes has 1 entries, and 2 arguments are given"):
        tenon.vmap(lambda x, y: x, in_axes=(0,))(x, x)
    with pytest.raises(ValueError, match=r"vmap: x has shape \(4, 3\), which has no axis 2; give it the axis None"):
        tenon.vmap(lambda x: x, in_axes=2)(x)
    with pytest.raises(ValueError, match=r"vmap: x has shape \(\), which has no axis 0"):
        tenon.vmap(lambda x: x)(1.0)
    with pytest.raises(ValueError, match=r"vmap: no argument has examples"):
        tenon.vmap(lambda x: x, in_axes=None)(x)
    with pytest.raises(ValueError, match=r"vmap: in_axes has a dict of \(b\) where there is dict of \(a\)"):
        tenon.vmap(lambda x: x["a"], in_axes=({"b": 0},))({"a": x})
    with pytest.raises(ValueError, match=r"vmap: in_axes has a tuple of \(0, 1\) where there is an array"):
        tenon.vmap(lambda x: x, in_axes=((0, 1),))(x)
    with pytest.raises(TypeError, match=r"vmap: in_axes has a float where an axis or None is needed"):
        tenon.vmap(lambda x: x, in_axes=0.5)(x)


def test_results_that_do_not_fit_their_axes() -> None:
    x = doubles(4, 3)
    with pytest.raises(ValueError, match=r"vmap: out_axes is None for result 1, which depends on the example"):
        tenon.vmap(lambda x: (x, x), out_axes=(0, None))(x)
    with pytest.raises(
        ValueError, match=r"vmap: out_axes is 2 for result value, whose shape with the examples is \(4, 3\)"
    ):
        tenon.vmap(lambda x: x, out_axes=2)(x)
    with pytest.raises(ValueError, match=r"vmap: out_axes has a tuple of \(0, 1\) where there is an array"):
        tenon.vmap(lambda x: x, out_axes=(0, 1))(x)


def test_leaves_that_are_no_arrays() -> None:
    with pytest.raises(TypeError, match=r"vmap: y is a object where an array is needed; give it the axis None"):
        tenon.vmap(lambda x, y: x)(doubles(3), object())


def test_a_value_of_an_example_may_not_leave() -> None:
    kept: list[Any] = []

    def function(v: Any) -> Any:
        kept.append(v * 2.0)
        return v

    with pytest.raises(tenon.TracedValueError, match="was traced in another function, branch or step"):
        tenon.jit(lambda x: tenon.vmap(function)(x) + kept[0])(doubles(4))


def test_the_program_is_left_as_it_was() -> None:
    """What is batched is built anew: values around it have no uses left in the function of one example."""
    module = tenon.jit(lambda x, w: tenon.vmap(lambda v: v * tenon.exp(w))(x)).trace(doubles(4, 3), doubles(3)).module
    inside = set(module.walk())
    for op in module.walk():
        for block in (b for region in op.regions for b in region.blocks):
            assert all(use.operation in inside for a in block.args for use in a.uses)
        assert all(use.operation in inside for result in op.results for use in result.uses)


def test_no_examples_at_all() -> None:
    """Where the rule makes groups of them, one at least is needed."""
    images, filters = np.zeros((0, 1, 3, 8, 8), np.float32), np.zeros((0, 4, 3, 3, 3), np.float32)
    assert tenon.vmap(tenon.conv2d)(images, filters).shape == (0, 1, 4, 6, 6)
    of_both = tenon.vmap(tenon.grad(lambda image, weight: tenon.conv2d(image, weight).sum(), (0, 1)))
    assert [gradient.shape for gradient in of_both(images, filters)] == [images.shape, filters.shape]
