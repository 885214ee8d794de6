"""Programs that are compiled once for all sizes of some dimensions, against NumPy at many sizes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from random_numbers import generator
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import tenon
from tenon.lowering.kernels.statement import read_kernel
from tenon.lowering.options import LoweringOptions
from tenon.lowering.pipeline import run_passes, stages
from tenon.lowering.schedules.schedule_attribute import Schedule, check_schedule
from tenon.passes.named_shapes import bind_sizes
from tenon.passes.transform.name_sizes import name_sizes
from tenon.runtime.executable_interpreted import InterpretedExecutable
from tenon.runtime.executables import executable
from tenon.runtime.lower import new_context
from tenon.tools.cli import main

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 7, 16, 17, 100, 1023)
RANDOM = generator(20)
MLIR_OPT = shutil.which("mlir-opt-22")


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


BIAS, WEIGHT, TABLE = floats(64), floats(64, 32), floats(10, 16)
LAYERS = {"w1": floats(12, 32) / 4, "b1": floats(32) / 4, "w2": floats(32, 5) / 4, "b2": floats(5) / 4}


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(-1, keepdims=True)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def attention(q: Any, k: Any, v: Any) -> Any:
    return tenon.softmax(q @ k.transpose((0, 2, 1))) @ v


def loss(layers: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = tenon.tanh(x @ layers["w1"] + layers["b1"])
    return ((hidden @ layers["w2"] + layers["b2"] - y) ** 2).mean()


def loss_gradient(layers: dict[str, Any], x: Any, y: Any) -> Any:
    gradient = tenon.grad(loss)(layers, x, y)
    return tuple([gradient[name] for name in ("w1", "b1", "w2", "b2")])


def expected_gradient(layers: dict[str, Array], x: Array, y: Array) -> tuple[Array, ...]:
    hidden = np.tanh(x @ layers["w1"] + layers["b1"])
    error = 2 * (hidden @ layers["w2"] + layers["b2"] - y) / max(y.size, 1)
    inner = error @ layers["w2"].T * (1 - hidden * hidden)
    return x.T @ inner, inner.sum(0), hidden.T @ error, error.sum(0)


def cross_entropy(weight: Any, x: Any, targets: Any) -> Any:
    return -(tenon.log_softmax(x @ weight) * targets).sum(axis=1).mean()


def targets(count: int) -> Array:
    return np.eye(32, dtype=np.float32)[RANDOM.integers(0, 32, count)]


@dataclass(frozen=True)
class Program:
    """A function, its oracle, arguments for a size, and the dimensions that have any size."""

    name: str
    function: Callable[..., Any]
    oracle: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    dynamic: dict[str, Any]
    sizes: Sequence[int] = SIZES


ROWS = {"x": ("n", None)}
PROGRAMS = [
    Program(
        "chain",
        lambda x: tenon.tanh(x * 2 + 1) * x,
        lambda x: np.tanh(x * 2 + 1) * x,
        lambda n: (floats(n),),
        {"x": ["n"]},
    ),
    Program(
        "broadcast bias",
        lambda x, b: tenon.exp(-x) * b,
        lambda x, b: np.exp(-x) * b,
        lambda n: (floats(n, 64), BIAS),
        ROWS,
    ),
    Program("softmax of rows", lambda x: tenon.softmax(x), softmax, lambda n: (floats(n, 33),), ROWS),
    Program(
        "softmax along", lambda x: tenon.softmax(x), softmax, lambda n: (floats(5, n),), {"x": {1: "n"}}, SIZES[1:]
    ),
    Program(
        "layer norm",
        lambda x, w, b: tenon.layer_norm(x, w, b, axis=-1),
        layer_norm,
        lambda n: (floats(n, 64), BIAS, BIAS + 1),
        ROWS,
    ),
    Program("mean of all", lambda x: x.mean(), np.mean, lambda n: (floats(n, 8),), ROWS),
    Program("mean of columns", lambda x: x.mean(axis=0), lambda x: x.mean(0), lambda n: (floats(n, 8),), ROWS),
    Program(
        "mean of rows", lambda x: x.mean(axis=1), lambda x: x.mean(1), lambda n: (floats(8, n),), {"x": (None, "n")}
    ),
    Program("variance", lambda x: tenon.var(x, axis=0), lambda x: x.var(0), lambda n: (floats(n, 8),), ROWS),
    Program(
        "deviation",
        lambda x: tenon.std(x, axis=1, ddof=1),
        lambda x: x.std(1, ddof=1),
        lambda n: (floats(8, n),),
        {"x": {1: "n"}},
    ),
    Program("max", lambda x: x.max(axis=0), lambda x: x.max(0), lambda n: (floats(n, 6),), ROWS, SIZES[1:]),
    Program("argmax", lambda x: tenon.argmax(x, axis=1), lambda x: x.argmax(1), lambda n: (floats(n, 6),), ROWS),
    Program("matmul, m", lambda x, w: x @ w, np.matmul, lambda n: (floats(n, 64), WEIGHT), ROWS),
    Program(
        "matmul, k",
        lambda x, w: x @ w,
        np.matmul,
        lambda n: (floats(16, n), floats(n, 24)),
        {"x": {1: "n"}, "w": {0: "n"}},
    ),
    Program("matmul, n", lambda x, w: x @ w, np.matmul, lambda n: (floats(16, 8), floats(8, n)), {"w": (None, "n")}),
    Program(
        "matmul, all",
        lambda x, w: x @ w,
        np.matmul,
        lambda n: (floats(n + 3, n), floats(n, n // 2)),
        {"x": ("m", "k"), "w": ("k", "n")},
    ),
    Program(
        "two names",
        lambda x, y: tenon.exp(x[:, None] - y).sum(axis=1),
        lambda x, y: np.exp(x[:, None] - y).sum(1),
        lambda n: (floats(n), floats(n + 3)),
        {"x": ["n"], "y": ["m"]},
    ),
    Program("transpose", lambda x: x.T + 1, lambda x: x.T + 1, lambda n: (floats(n, n + 5),), {"x": ("n", "m")}),
    Program(
        "transposed sum",
        lambda x: (x.T * 2).sum(axis=0),
        lambda x: (x.T * 2).sum(0),
        lambda n: (floats(n, n + 5),),
        {"x": ("n", "m")},
    ),
    Program(
        "reshape",
        lambda x: x.reshape((-1, 8, 8)).transpose((1, 0, 2)),
        lambda x: x.reshape((len(x), 8, 8)).transpose((1, 0, 2)),
        lambda n: (floats(n, 64),),
        ROWS,
    ),
    Program(
        "flat", lambda x: tenon.exp(x.reshape((-1,))), lambda x: np.exp(x.reshape(-1)), lambda n: (floats(n, 6),), ROWS
    ),
    Program("slice", lambda x: x[:, 2:5] * x[:, :1], lambda x: x[:, 2:5] * x[:, :1], lambda n: (floats(n, 6),), ROWS),
    Program(
        "first rows",
        lambda x: x[0] + x[:2].sum(axis=0),
        lambda x: x[0] + x[:2].sum(0),
        lambda n: (floats(n, 6),),
        ROWS,
        SIZES[2:],
    ),
    Program(
        "concatenate",
        lambda x, y: tenon.concatenate((x, y), axis=1),
        lambda x, y: np.concatenate((x, y), 1),
        lambda n: (floats(n, 6), floats(n, 3)),
        {"x": ["n"], "y": ["n"]},
    ),
    Program(
        "concatenate along",
        lambda x, y: tenon.concatenate((x, y)),
        lambda x, y: np.concatenate((x, y)),
        lambda n: (floats(n, 6), floats(n + 1, 6)),
        {"x": ["n"], "y": ["m"]},
        SIZES[1:],
    ),
    Program(
        "pad of what is computed",
        lambda x: tenon.pad(tenon.exp(x), low=(1, 0), high=(2, 1)),
        lambda x: np.pad(np.exp(x), ((1, 2), (0, 1))),
        lambda n: (floats(n, 4),),
        ROWS,
        SIZES[1:],
    ),
    Program("flip", lambda x: tenon.flip(x) * 2, lambda x: x[::-1, ::-1] * 2, lambda n: (floats(n, 5),), ROWS),
    Program("last row", lambda x: x[-1] + 1, lambda x: x[-1] + 1, lambda n: (floats(n, 5),), ROWS, SIZES[1:]),
    Program("gather", lambda t, i: t[i], lambda t, i: t[i], lambda n: (TABLE, RANDOM.integers(0, 10, n)), {"i": ["n"]}),
    Program(
        "size as a number",
        lambda x: x.sum() / (x.shape[0] + 1),
        lambda x: x.sum() / np.float32(len(x) + 1),
        lambda n: (floats(n, 6),),
        ROWS,
    ),
    Program("constants", lambda x: tenon.ones_like(x) + x, lambda x: x + 1, lambda n: (floats(n, 6),), ROWS),
    Program(
        "integers",
        lambda x: (x * 3 // 2 + x % 5).sum(axis=0),
        lambda x: (x * 3 // 2 + x % 5).sum(0),
        lambda n: (RANDOM.integers(-9, 9, (n, 6)),),
        ROWS,
    ),
    Program("truths", lambda x: (x > 2).any(axis=0), lambda x: (x > 2).any(0), lambda n: (floats(n, 9),), ROWS),
    Program(
        "branches",
        lambda x: tenon.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1),
        lambda x: x * 2 if x.sum() > 0 else x - 1,
        lambda n: (floats(n, 10),),
        ROWS,
    ),
    Program(
        "gradient of a network",
        loss_gradient,
        expected_gradient,
        lambda n: (LAYERS, floats(n, 12), floats(n, 5)),
        {"x": ["n"], "y": ["n"]},
        SIZES[1:],
    ),
    Program(
        "gradient of cross entropy",
        tenon.grad(cross_entropy),
        lambda w, x, t: x.T @ (softmax(x @ w) - t) / max(len(x), 1),
        lambda n: (WEIGHT, floats(n, 64), targets(n)),
        {"x": ["n"], "targets": ["n"]},
        SIZES[1:],
    ),
    Program(
        "gradient of a gather",
        lambda t, i: tenon.grad(lambda t: (t[i] ** 2).sum())(t),
        lambda t, i: 2 * t * np.bincount(i, minlength=10)[:, None],
        lambda n: (TABLE, RANDOM.integers(0, 10, n)),
        {"i": ["n"]},
    ),
    Program(
        "panels of any size",
        lambda x, w: x @ w,
        lambda x, w: x.astype(np.float64) @ w,
        lambda n: (floats(n, 12 * n), floats(12 * n, n + 60)),
        {"x": ("n", "k"), "w": ("k", "m")},
        (0, 1, 17, 100),
    ),
    Program(
        "squares of any size",
        lambda x, w: x @ w.T,
        lambda x, w: x.astype(np.float64) @ w.T,
        lambda n: (floats(n, 12 * n), floats(n + 60, 12 * n)),
        {"x": ("n", "k"), "w": ("m", "k")},
        (0, 1, 17, 100),
    ),
    Program(
        "few rows and many",
        lambda x, w, b: tenon.relu(x @ w.T + b),
        lambda x, w, b: np.maximum(x.astype(np.float64) @ w.T + b, 0),
        lambda n: (floats(n, 300), floats(203, 300), floats(203)),
        {"x": ("n", None)},
        (0, 1, 4, 5, 15, 16, 100, 1023),
    ),
    Program(
        "attention",
        attention,
        lambda q, k, v: softmax(q @ k.transpose(0, 2, 1)) @ v,
        lambda n: (floats(2, n, 16), floats(2, n + 5, 16), floats(2, n + 5, 16)),
        {"q": ("b", "s", None), "k": ("b", "t", None), "v": ("b", "t", None)},
        (1, 2, 17, 100),
    ),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_executable_serves_all_sizes(program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    jitted = tenon.jit(program.function, dynamic=program.dynamic)
    with tenon.knobs.override(log_compiles=True):
        for n in program.sizes:
            arguments = program.arguments(n)
            expected = program.oracle(*arguments)
            results = jitted(*arguments)
            pairs = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
            for result, wanted in pairs:
                wanted = np.asarray(wanted)
                assert result.shape == wanted.shape, n
                scale = max(1.0, float(np.abs(wanted).max(initial=0))) if np.isfinite(wanted).all() else 1.0
                np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6 * scale * max(n, 16) ** 0.5)
    said = capfd.readouterr().err
    assert len(re.findall(r"tenon: compiling \S+:", said)) == 1, said
    assert "compiled for the sizes" not in said


def test_compile_takes_named_dimensions() -> None:
    n = tenon.dim("n")
    compiled = tenon.jit(lambda x, y: (x * y).sum(axis=1)).compile(tenon.ShapeDtype((n, 64)), tenon.ShapeDtype((n, 1)))
    assert [shape for shape, _ in compiled.interface.outputs] == [(n,)]
    for size in SIZES:
        x, y = floats(size, 64), floats(size, 1)
        np.testing.assert_allclose(compiled(x, y), (x * y).sum(1), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(compiled.run([x, y])[0], compiled(x, y))


def test_loops_for_all_sizes_compile() -> None:
    n, m = tenon.dim("n"), tenon.dim("m")
    function = tenon.jit(lambda x: x.sum(axis=1))
    x = floats(6, 4)
    for shape in ((n, m), (m, n), (n, 4)):
        lowered = function.lower(tenon.ShapeDtype(shape))
        assert "index" in str(lowered)
        np.testing.assert_allclose(lowered.compile()(x), x.sum(1), rtol=1e-5)


def test_dimensions_may_be_computed_from_others() -> None:
    n = tenon.dim("n")
    function = tenon.jit(lambda x, y: x.reshape((2, -1)).sum(axis=0) + y)
    compiled = function.compile(tenon.ShapeDtype(2 * n), tenon.ShapeDtype(n))
    x, y = floats(14), floats(7)
    np.testing.assert_allclose(compiled(x, y), x.reshape(2, 7).sum(0) + y, rtol=1e-6)
    with pytest.raises(ValueError, match=r"dimension 0 of x is 13 where 2\*n = 14 \(dimension 0 of y is 7\) is needed"):
        compiled(floats(13), y)


# --- what is asked for at launch -------------------------------------------------------------------


def test_equal_names_mean_equal_sizes() -> None:
    jitted = tenon.jit(lambda first, second: first + second, dynamic={"first": ["n"], "second": ["n"]})
    assert jitted(floats(3), floats(3)).shape == (3,)
    message = "n is 3 in dimension 0 of first and 4 in dimension 0 of second; equal names mean equal sizes"
    with pytest.raises(tenon.SizeMismatchError, match=message):
        jitted(floats(3), floats(4))


def test_errors_about_sizes_name_the_leaves_of_a_call_and_where_names_are_told() -> None:
    jitted = tenon.jit(lambda xs: xs[0] + xs[1]["w"], dynamic={"xs": ["n"]})
    with pytest.raises(
        tenon.SizeMismatchError, match=r"n is 3 in dimension 0 of xs\.0 and 4 in dimension 0 of xs\.1\.w"
    ):
        jitted([floats(3), {"w": floats(4)}])
    n = tenon.dim("n")
    joined = tenon.jit(lambda p, y: tenon.concatenate((p["x"], y))).compile(
        {"x": tenon.ShapeDtype(n)}, tenon.ShapeDtype(2 * n + 1)
    )
    assert joined({"x": floats(2)}, floats(5)).shape == (7,)
    message = re.escape("dimension 0 of y is 4 where 2*n + 1 = 5 (dimension 0 of p.x is 2) is needed")
    with pytest.raises(tenon.SizeMismatchError, match=message):
        joined({"x": floats(2)}, floats(4))
    with pytest.raises(ValueError, match=re.escape("n is 0 where 1 or more is needed (dimension 0 of p.x)")):
        joined({"x": floats(0)}, floats(1))
    with pytest.raises(ValueError, match=re.escape("no dimension of an argument is n, only 2*n")):
        tenon.jit(lambda x: x + 1).compile(tenon.ShapeDtype(2 * n))


def test_a_function_without_results_is_compiled_once() -> None:
    traced: list[Any] = []
    jitted = tenon.jit(lambda x: traced.append(x.shape), dynamic={"x": ["n"]})
    for number in (1, 2, 3):
        assert jitted(floats(number)) is None
    assert len(traced) == 1


def test_other_dimensions_are_part_of_the_signature() -> None:
    n = tenon.dim("n")
    compiled = tenon.jit(lambda x: x + 1).compile(tenon.ShapeDtype((n, 64)))
    with pytest.raises(TypeError, match=re.escape("x is f32[3, 65] where f32[n, 64] is needed")):
        compiled(floats(3, 65))
    with pytest.raises(TypeError, match=r"array 0 is float32\[3, 65\] where f32\[n, 64\] is needed"):
        compiled.run([floats(3, 65)])
    jitted = tenon.jit(lambda x: x + 1, dynamic=ROWS)
    for columns in (2, 3):
        assert jitted(floats(5, columns)).shape == (5, columns)


@pytest.mark.parametrize(
    ("dynamic", "error", "message"),
    [
        ({"y": ["n"]}, ValueError, r"dynamic: no argument is named y \(x\)"),
        ({"x": ("n", "m")}, ValueError, "dynamic: x has rank 1 and no axis 1"),
        ({"x": "n"}, TypeError, "dynamic: x is 'n' where a name for each axis is needed"),
        ({"x": [5]}, TypeError, "dynamic: axis 0 of x is 5, which is no name"),
        ({"x": ["n-1"]}, ValueError, "no identifier"),
        ({"x": ["lambda"]}, ValueError, "a size is named 'lambda', which is no identifier or means something else"),
        (["x"], TypeError, r"dynamic is \['x'\] where names of axes by argument are needed"),
        ({"x": {"0": "n"}}, TypeError, "dynamic: an axis of x is '0', which is no integer"),
        ({"x": {0: "n", -1: "m"}}, ValueError, "dynamic: an axis of x is named twice"),
    ],
)
def test_dynamic_names_what_is_wrong(dynamic: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tenon.jit(lambda x: x, dynamic=dynamic)(floats(3))


# --- what is compiled for each size ----------------------------------------------------------------


FALLBACKS: list[tuple[str, Callable[..., Any], Callable[..., Any], str]] = [
    ("squeeze", lambda x: tenon.squeeze(x), np.squeeze, "whether the size n is 1 is not known"),
    ("eighths", lambda x: x.reshape((8, -1)), lambda x: x.reshape(8, -1), "is 0 is not known before launch"),
    ("loop", lambda x: sum(x[i] for i in range(x.shape[0])), lambda x: x.sum(0), "a number is needed here"),
    (
        "scan",
        lambda x: tenon.scan(lambda c, v: (c + v, v), tenon.zeros((4,)), x)[0],
        lambda x: x.sum(0),
        "number of steps",
    ),
]


@pytest.mark.parametrize(
    ("function", "oracle", "reason"), [row[1:] for row in FALLBACKS], ids=[r[0] for r in FALLBACKS]
)
def test_what_depends_on_the_size_is_compiled_for_each(
    function: Callable[..., Any], oracle: Callable[..., Any], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    jitted = tenon.jit(lambda x: function(x), dynamic=ROWS)
    with tenon.knobs.override(log_compiles=True):
        for n in (2, 6):
            x = floats(n, 4)
            np.testing.assert_allclose(jitted(x), oracle(x), rtol=1e-5, atol=1e-6)
    said = capfd.readouterr().err
    assert said.count("is compiled for the sizes of its arguments") == 1
    assert reason in said
    with pytest.raises(tenon.UndecidedSizeError, match=re.escape(reason)):
        tenon.jit(lambda x: function(x)).compile(tenon.ShapeDtype((tenon.dim("n"), 4)))


def test_a_size_of_zero_may_take_a_program_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    jitted = tenon.jit(lambda x: tenon.exp(tenon.pad(x, low=(1,), high=(1,))), dynamic={"x": ["n"]})
    with tenon.knobs.override(log_compiles=True):
        np.testing.assert_array_equal(jitted(floats(0)), [1, 1])
    assert "n is 0 where 1 or more is needed" in capfd.readouterr().err
    x = floats(3)
    np.testing.assert_allclose(jitted(x), np.exp(np.pad(x, 1)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"tenon\.max: axis 0 of \(0,\) has no elements"):
        tenon.jit(lambda x: x.max(), dynamic={"x": ["n"]})(floats(0))


def test_errors_of_the_program_are_its_own() -> None:
    jitted = tenon.jit(lambda x: x @ floats(3, 2), dynamic=ROWS)
    with pytest.raises(tenon.InferenceError, match="dimension k is 4 in x and 3 in y"):
        jitted(floats(5, 4))


# --- files -----------------------------------------------------------------------------------------

NETWORK = """
func.func @main(%x: tensor<?x12xf32>, %w: tensor<12x5xf32>, %y: tensor<?x5xf32>) -> (tensor<?x5xf32>, tensor<5xf32>) {
  %0 = tenon.matmul %x, %w : tensor<?x12xf32>, tensor<12x5xf32> -> tensor<?x5xf32>
  %1 = tenon.softmax %0 : tensor<?x5xf32> -> tensor<?x5xf32>
  %2 = tenon.multiply %1, %y : tensor<?x5xf32>, tensor<?x5xf32> -> tensor<?x5xf32>
  %3 = tenon.mean %2 {axis = [0]} : tensor<?x5xf32> -> tensor<5xf32>
  func.return %2, %3 : tensor<?x5xf32>, tensor<5xf32>
}
"""


def network() -> ModuleOp:
    module = Parser(new_context(), NETWORK).parse_module()
    name_sizes(module)
    return module


def check_network(run: Callable[[Sequence[Array]], Sequence[Array]], n: int) -> None:
    x, w, y = floats(n, 12), floats(12, 5), floats(n, 5)
    expected = softmax(x @ w) * y
    result, mean = run([x, w, y])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    if n:
        np.testing.assert_allclose(mean, expected.mean(0), rtol=1e-4, atol=1e-5)


def network_stages() -> list[tuple[str, ModuleOp]]:
    module = network()
    found: list[tuple[str, ModuleOp]] = []
    for stage in stages(LoweringOptions()):
        found.append((stage.name, module.clone()))
        run_passes(new_context(), module, stage.passes)
    return [*found, ("expanded", module)]


def test_panels_of_sizes_that_only_the_launch_tells_are_cut() -> None:
    n, k = tenon.dim("n"), tenon.dim("k")
    module = tenon.jit(lambda x, y: x @ y).trace(tenon.ShapeDtype((n, k)), tenon.ShapeDtype((k, 64))).module.clone()
    run_passes(new_context(), module, [name for stage in stages(LoweringOptions())[:3] for name in stage.passes])
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes)
    (statement,) = read_kernel(kernel).statements
    tile = Schedule(vector=1, width=4, jam=0, jam_count=4)
    check_schedule(statement, replace(tile, pack=1, block=64, pack_jam=0, jam_block=8))
    with pytest.raises(ValueError, match="loop 2 has k iterations, and panels of groups"):
        check_schedule(statement, replace(tile, pack=1))
    with pytest.raises(ValueError, match="pack_jam needs jam_block, as loop 0 has n iterations"):
        check_schedule(statement, replace(tile, pack_jam=0, block=64))
    with pytest.raises(ValueError, match="loop 0 has n iterations, and panels of groups"):
        check_schedule(statement, replace(tile, pack=1, block=64, pack_jam=0, jam_block=8, rest=2))


@pytest.mark.parametrize(
    ("stage", "module"), network_stages(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_interpreter_runs_every_stage(stage: str, module: ModuleOp) -> None:
    module.verify()
    for n in (0, 1, 7, 33):
        check_network(InterpretedExecutable(module).run, n)


def test_upstream_takes_what_is_lowered() -> None:
    if MLIR_OPT is None:
        pytest.skip("mlir-opt-22 is not installed")
    texts = [str(module) for stage, module in network_stages() if stage not in ("tensor", "fused")]
    completed = subprocess.run(
        [MLIR_OPT, "--split-input-file", "-o", "/dev/null"],
        input="\n// -----\n".join(texts),
        text=True,
        capture_output=True,
    )
    assert completed.returncode == 0, completed.stderr[:4000]


def test_dimensions_of_a_file_that_must_be_equal_get_one_name() -> None:
    compiled = executable(network(), "cpu")
    assert len(compiled.interface.sizes) == 1
    for n in SIZES:
        check_network(compiled.run, n)


def test_names_in_a_file_are_kept() -> None:
    text = NETWORK.replace("%y: tensor<?x5xf32>", '%y: tensor<?x5xf32> {tenon.shape = ["batch", 5]}')
    module = Parser(new_context(), text).parse_module()
    name_sizes(module)
    printed = str(module)
    assert printed.count('tenon.shape = ["batch", ') == 2
    again = Parser(new_context(), printed).parse_module()
    name_sizes(again)
    assert str(again) == printed


def test_settings_with_sizes_read_back() -> None:
    n = tenon.dim("n")
    traced = tenon.jit(lambda x: tenon.grad(lambda x: (x.reshape((-1,)) ** 2).mean())(x)).trace(
        tenon.ShapeDtype((n, 4))
    )
    printed = str(traced)
    assert '"n"' in printed
    assert '"4*n"' in printed
    module = Parser(new_context(), printed).parse_module()
    name_sizes(module)
    module.verify()
    assert str(module) == printed
    x = floats(5, 4)
    np.testing.assert_allclose(executable(module, "cpu").run([x])[0], x / 10, rtol=1e-6)
    bound = bind_sizes(module, {"n": 5})
    assert '"n"' not in str(bound)
    np.testing.assert_allclose(executable(bound, "cpu").run([x])[0], x / 10, rtol=1e-6)


def run_file(*arguments: str) -> str:
    """What the command prints, on stdout and stderr."""
    result = CliRunner().invoke(main, ["run", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_file_is_compiled_once_for_all_sizes(tmp_path: Path) -> None:
    file = tmp_path / "network.mlir"
    file.write_text(NETWORK.replace("tenon.softmax", "tenon.log_softmax"))
    with tenon.knobs.override(log_compiles=True, cache_dir=tmp_path / "cache"):
        arguments = [f"iota:{n}x12xf32,ones:12x5xf32,ones:{n}x5xf32" for n in (3, 8)]
        said = "".join([run_file(str(file), "--args", given) for given in arguments])
    assert said.count("tenon: compiling network") == 1, said


def test_a_file_that_depends_on_sizes_is_compiled_for_each(tmp_path: Path) -> None:
    file = tmp_path / "columns.mlir"
    file.write_text("""
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = tenon.add %x, %y : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}
""")
    with tenon.knobs.override(log_compiles=True):
        said = run_file(str(file), "--args", "ones:3x4xf32,ones:1x4xf32")
    assert "float32[3, 4]" in said
    assert "is 3 in dimension 0 of x and 1 in dimension 0 of y" in said


@pytest.mark.parametrize("flags", [(), ("--interpret",)])
def test_names_that_a_file_declares_are_checked(tmp_path: Path, flags: tuple[str, ...]) -> None:
    file = tmp_path / "named.mlir"
    file.write_text("""
func.func @main(%x: tensor<?xf32> {tenon.shape = ["n"]}, %y: tensor<?xui8> {tenon.shape = ["n"]})
    -> (tensor<?xf32>, tensor<?xui8>) {
  func.return %x, %y : tensor<?xf32>, tensor<?xui8>
}
""")
    assert "uint8[3]" in run_file(str(file), *flags, "--args", "ones:3xf32,ones:3xui8")
    result = CliRunner().invoke(main, ["run", str(file), *flags, "--args", "ones:3xf32,ones:4xui8"])
    assert result.exit_code != 0
    assert "n is 3 in dimension 0 of x and 4 in dimension 0 of y" in result.output


def test_a_file_with_unknown_dimensions_compiles_to_files(tmp_path: Path) -> None:
    file = tmp_path / "network.mlir"
    file.write_text(NETWORK)
    result = CliRunner().invoke(main, ["compile", str(file), "-o", str(tmp_path / "out")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "index" in (tmp_path / "out" / "main.loops.mlir").read_text()
    assert '"sizes": ["x_d0"]' in (tmp_path / "out" / "main.cpu.json").read_text()
