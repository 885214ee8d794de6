"""Traced functions as files: what is loaded does the same, also where the definitions of its ops are not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenon
from tenon import CompositeOp, UnaryOp, nn, optim, tensor_op
from tenon.saving import read_arrays, save, write_arrays
from tenon.traces.upgrades import VERSION, Content, upgraded

KEPT = Path(__file__).with_name("functions")
POINTS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
TARGET = POINTS.sum(1, keepdims=True)


@tensor_op
class SmoothedOp(UnaryOp):
    """A smooth `relu`."""

    name = "saved.smoothed"

    @staticmethod
    def scalar(x: Any) -> Any:
        return (x + tenon.sqrt(x * x + 4)) / 2


@tensor_op
class StraightOp(UnaryOp):
    """Rounded, with three times the gradient of the identity, which nothing can tell from its meaning."""

    name = "saved.straight"

    @staticmethod
    def scalar(x: Any) -> Any:
        return tenon.round(x)

    vjp = staticmethod(lambda g, out, x: g * 3.0)  # pyright: ignore[reportAssignmentType]


@tensor_op
class BothOp(CompositeOp):
    """Both of them."""

    name = "saved.both"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def decompose(x: Any) -> Any:
        return StraightOp.apply(SmoothedOp.apply(x))


@tensor_op
class CorrelatedOp(tenon.ContractionOp):
    """Sums over windows of `x`, weighted by `w`."""

    name = "saved.correlated"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    w = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @staticmethod
    def indexing(i: Any, k: Any) -> Any:
        return (i + k,), (k,), (i,)


@tensor_op
class FlippedOp(tenon.IndexMapOp):
    """The rows of `x` from the last to the first."""

    name = "saved.flipped"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def source(index: Any, shape: Any, /, **settings: Any) -> Any:
        return (index[0] * -1 + (shape[0] - 1), *index[1:])


@tensor_op
class LargestOp(tenon.ReductionOp):
    """The largest element."""

    name = "saved.largest"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    axis = tenon.setting(tuple, default=None)
    keepdims = tenon.setting(bool, default=False)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    COMBINE = "maximum"
    HAS_IDENTITY = False


@tensor_op
class TotalOp(tenon.ReductionOp):
    """The sum, combined in a way of its own."""

    name = "saved.total"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    axis = tenon.setting(tuple, default=None)
    keepdims = tenon.setting(bool, default=False)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    initial = staticmethod(lambda element: 0.0)
    scalar = staticmethod(lambda accumulator, x: accumulator + x * 1.0)


@tensor_op
class SharpOp(tenon.WindowOp):
    """The sum of squares of three neighbours, halved at each step."""

    name = "saved.sharp"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    initial = staticmethod(lambda element: 1.0)
    scalar = staticmethod(lambda accumulator, x: accumulator / 2 + x * x)

    @staticmethod
    def indexing(i: Any, k: Any) -> Any:
        return (i + k,), (i,)

    @staticmethod
    def extents(**settings: Any) -> dict[str, int]:
        return {"k": 3}


@tensor_op
class FadedOp(tenon.CumulativeOp):
    """Running sums that fade."""

    name = "saved.faded"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    axis = tenon.setting(int)
    reverse = tenon.setting(bool, default=False)
    exclusive = tenon.setting(bool, default=False)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    initial = staticmethod(lambda element: 0.5)
    scalar = staticmethod(lambda accumulator, x: accumulator * 0.5 + x)


@tensor_op
class MirroredOp(tenon.IndexingOp):
    """Rows with their columns mirrored, twice as large on the diagonal, and beyond the last row that again."""

    name = "saved.mirrored"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def element(index: Any, *operands: Any, **settings: Any) -> Any:
        (x,), (i, j) = operands, index
        found = x.read(i + 1, x.shape[1] - 1 - j)
        return tenon.select(i == j, found * 2, found)


@tensor_op
class MergedOp(tenon.ScatterOp):
    """`x` with each update at the place that `places` has, averaged with what is there; others are dropped."""

    name = "saved.merged"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    places = tenon.operand_def(tenon.ANY_TENSOR)
    updates = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)
    PROMOTED = ("x", "updates")

    @staticmethod
    def target(index: Any, *operands: Any, **settings: Any) -> Any:
        return (operands[1].read(*index),)

    @staticmethod
    def combine(old: Any, new: Any, **settings: Any) -> Any:
        return (old + new) / 2


@tensor_op
class CalledOp(tenon.HostOp):
    """What Python makes of `x`."""

    name = "saved.called"
    x = tenon.operand_def(tenon.FLOAT_TENSOR)
    result = tenon.result_def(tenon.FLOAT_TENSOR)

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        return operands[0]

    @staticmethod
    def reference(x: Any) -> Any:
        return x + 1


def _sharp(x: Any) -> Any:
    return np.array([((0.5 + x[i] ** 2) / 2 + x[i + 1] ** 2) / 2 + x[i + 2] ** 2 for i in range(len(x) - 2)])


def _faded(x: Any) -> Any:
    found, current = [], np.full(2, 0.5)
    for row in x.reshape(3, 2):
        current = current * 0.5 + row
        found.append(current)
    return np.array(found)


def _mirrored(x: Any) -> Any:
    rows = x.reshape(3, 2)[[1, 2, 2], ::-1].copy()
    rows[[0, 1], [0, 1]] *= 2
    return rows


def _merged(x: Any) -> Any:
    made = np.array(x, np.float64)
    for place, update in zip([1, 7, 1, -1, 4], x[:5] * 2.0, strict=True):
        if 0 <= place < len(x):
            made[place] = (made[place] + update) / 2
    return made


FAMILIES: dict[str, tuple[Any, Any]] = {
    "contraction": (
        lambda x: CorrelatedOp.apply(x, np.array([1.0, 2.0, 3.0], np.float32)),
        lambda x: np.correlate(x, [1.0, 2.0, 3.0]),
    ),
    "index map": (lambda x: FlippedOp.apply(x.reshape((3, 2))), lambda x: x.reshape(3, 2)[::-1]),
    "window": (lambda x: SharpOp.apply(x), _sharp),
    "cumulative": (lambda x: FadedOp.apply(x.reshape((3, 2)), axis=0), _faded),
    "cumulative, reversed": (
        lambda x: FadedOp.apply(x.reshape((3, 2)), axis=-1, reverse=True, exclusive=True),
        lambda x: np.stack([x[1::2] + 0.25, np.full(3, 0.5)], 1),
    ),
    "indexing": (lambda x: MirroredOp.apply(x.reshape((3, 2))), _mirrored),
    "scatter": (
        lambda x: MergedOp.apply(x, np.array([1, 7, 1, -1, 4]), x[:5] * 2.0),
        _merged,
    ),
    "reduction, scalar": (lambda x: TotalOp.apply(x.reshape((3, 2)), axis=(1,)), lambda x: x.reshape(3, 2).sum(1)),
    "reduction": (lambda x: LargestOp.apply(x.reshape((3, 2)), axis=(0,)), lambda x: x.reshape(3, 2).max(0)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_of_all_families_are_written_out(family: str, tmp_path: Path) -> None:
    function, oracle = FAMILIES[family]
    x = np.array([1.0, -2.0, 3.5, 0.5, 4.0, -1.0], np.float32)
    tenon.trace(tenon.jit(function)).save(tmp_path / "function", x)
    loaded = tenon.load(tmp_path / "function")
    assert "saved." not in loaded.ir
    np.testing.assert_allclose(loaded(x), oracle(x), rtol=1e-6)
    seed = np.arange(1.0, 1 + np.size(oracle(x))).reshape(np.shape(oracle(x)))
    slope = tenon.grad(lambda x: tenon.sum(loaded(x) * seed.astype(np.float32)))(x)
    steps = np.eye(6) * 1e-3
    expected = [((oracle(x + d) - oracle(x - d)) * seed).sum() / 2e-3 for d in steps]
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: CalledOp.apply(x), r"saved\.called: calls Python, which is in no file"),
    ],
    ids=["host"],
)
def test_ops_that_cannot_be_written_out(function: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=words):
        tenon.trace(tenon.jit(function)).save(tmp_path / "function", np.ones(3, np.float32))
    assert not (tmp_path / "function").exists()


def test_loops_over_dimensions_with_names_cannot_be_written_out(tmp_path: Path) -> None:
    traced = tenon.trace(tenon.jit(lambda x: FadedOp.apply(x, axis=0)))
    shape = tenon.ShapeDtype((tenon.dim("n"), 3), "f32")
    with pytest.raises(TypeError, match=r"saved\.faded: is written to a file for known sizes alone"):
        traced.save(tmp_path / "function", shape)


def make_step() -> tuple[Any, Any]:
    nn.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).requires_grad_()
    steps = optim.Adam(lr=0.05).over(model)

    @tenon.trace
    def step(points: Any, target: Any, scale: float = 1.0) -> Any:
        steps.zero_grad()
        loss = ((model(points) - target) ** 2).mean() * scale
        loss.backward()
        steps.step()
        return {"loss": loss, "lost": None}

    return step, model


def test_a_training_step_goes_on_as_it_did(tmp_path: Path) -> None:
    step, model = make_step()
    step(POINTS, TARGET)
    step.save(tmp_path / "step", POINTS, TARGET, 2.0)
    before = model[0].weight.tolist()
    loaded = tenon.load(tmp_path / "step")
    assert loaded.state["model.0.weight"].tolist() == before, "to write runs nothing"
    assert repr(loaded) == str(loaded) == f"<LoadedFunction step(f32[8, 3], f32[8, 1], f64[]), version {VERSION}>"
    assert "func.func @main(" in loaded.ir
    losses = [loaded(POINTS, TARGET, scale)["loss"].item() for scale in (2.0, 1.0, 1.0)]
    assert losses == [step(POINTS, TARGET, scale)["loss"].item() for scale in (2.0, 1.0, 1.0)]
    np.testing.assert_array_equal(loaded.state["model.0.weight"].numpy(), model[0].weight.detach().numpy())
    loaded.state["steps.param_groups.0.lr"] *= 0.0
    stays = loaded.state["model.0.weight"].tolist()
    loaded(POINTS, TARGET, 1.0)
    assert loaded.state["model.0.weight"].tolist() == stays
    with pytest.raises(TypeError, match=r"step: input \d+ is float32\[4, 3\] where float32\[8, 3\] was saved"):
        loaded(POINTS[:4], TARGET, 1.0)
    with pytest.raises(TypeError, match=r"(?s)arguments\.0 is .* where a tuple of 3 was saved"):
        loaded(POINTS, TARGET)


ELSEWHERE = """
import json, sys
import numpy as np
import tenon
from tenon.dialects.definition.registry import registry
assert not [name for name in registry() if name.startswith("saved.")]
f = tenon.load(sys.argv[1])
x, v = tenon.tensor([0.5, 1.0, 1.5], requires_grad=True), np.array([0.5, 1.0, 1.5], np.float32)
y = f(x)
y.backward()
print(json.dumps({
    "value": y.item(),
    "backward": x.grad.tolist(),
    "grad": tenon.grad(lambda u: f(u))(v).tolist(),
    "jit": tenon.jit(lambda u: f(u) * 2)(v).item(),
    "vmap": tenon.vmap(tenon.grad(lambda u: f(u)))(np.stack([v, v])).tolist(),
    "trace": tenon.trace(lambda u: f(u) + 1)(x).item(),
    "second": tenon.grad(lambda u: tenon.sum(tenon.grad(lambda w: f(w))(u)))(v).tolist(),
}))
"""


def test_ops_of_users_come_along(tmp_path: Path) -> None:
    weight = tenon.tensor([1.0, 2.0, 3.0])

    def function(x: Any) -> Any:
        return (BothOp.apply(x) * weight).sum()

    tenon.trace(function).save(tmp_path / "function", tenon.tensor([0.5, 1.0, 1.5]))
    told = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "function")], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(told.stdout)
    x = np.array([0.5, 1.0, 1.5])
    root = np.sqrt(x * x + 4)
    value = float(np.round((x + root) / 2) @ [1, 2, 3])
    slope = 3.0 * np.array([1, 2, 3]) * (1 + x / root) / 2
    assert (found["value"], found["jit"], found["trace"]) == (value, 2 * value, value + 1)
    for name in ("backward", "grad"):
        np.testing.assert_allclose(found[name], slope, rtol=1e-5)
    np.testing.assert_allclose(found["vmap"], [slope, slope], rtol=1e-5)
    np.testing.assert_allclose(found["second"], 3.0 * np.array([1, 2, 3]) * 2 / root**3, rtol=1e-5)


def test_functions_of_jit_keep_the_names_of_dimensions(tmp_path: Path) -> None:
    function = tenon.jit(lambda rows, matrix: {"product": SmoothedOp.apply(rows) @ matrix, "count": [rows.sum()]})
    shapes = (tenon.ShapeDtype((tenon.dim("n"), 3), "f32"), tenon.ShapeDtype((3, 2), "f32"))
    tenon.trace(function).save(tmp_path / "function", *shapes)
    loaded = tenon.load(tmp_path / "function")
    assert repr(loaded) == f"<LoadedFunction <lambda>(f32[n, 3], f32[3, 2]), version {VERSION}>"
    matrix = POINTS[:3, :2].copy()
    for rows in (POINTS, POINTS[:5]):
        expected = function(rows, matrix)
        found = loaded(rows, matrix)
        np.testing.assert_allclose(found["product"], expected["product"], rtol=1e-5)
        np.testing.assert_allclose(found["count"], expected["count"], rtol=1e-5)
    assert isinstance(loaded(tenon.tensor(POINTS), matrix)["product"], tenon.Tensor)
    with pytest.raises(TypeError, match=r"input 1 is float32\[2, 3\]"):
        loaded(POINTS, np.ones((2, 3), np.float32))


def test_what_does_not_go_into_a_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("before")
    x = tenon.tensor([1.0])
    weight = tenon.tensor([1.0], requires_grad=True)
    for function, error in (
        (lambda x: ({1, 2}, x), "only arrays, numbers and texts"),
        (lambda x: (x * weight).sum().backward(), "leaves gradients in grad"),
        (lambda x: weight[0:1], "views of tensors"),
    ):
        with pytest.raises(TypeError, match=f"save: .*{error}"):
            tenon.trace(function).save(kept, x)
    with pytest.raises(TypeError, match="only tuples, lists and dicts"):
        tenon.trace(tenon.jit(lambda m, x: m(x))).save(kept, nn.Linear(1, 1), np.ones((1, 1), np.float32))
    assert kept.read_text() == "before"


def test_damaged_and_newer_files(tmp_path: Path) -> None:
    path = tmp_path / "function"
    weight = tenon.tensor([1.0, 2.0, 3.0])
    tenon.trace(lambda x: x * weight).save(path, tenon.tensor([1.0, 2.0, 3.0]))
    whole = path.read_bytes()
    for length in (4, 100, len(whole) - 2):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a whole safetensors file"):
            tenon.load(path)
    path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(ValueError, match="is damaged: its content is not what was written"):
        tenon.load(path)
    path.write_bytes(whole)
    arrays, texts = read_arrays(path)
    write_arrays(path, arrays, {**texts, "tenon.version": str(VERSION + 6)})
    with pytest.raises(ValueError, match=rf"is of version {VERSION + 6} .*reads versions up to {VERSION}; update"):
        tenon.load(path)
    save(path, {"a": np.ones(3)})
    with pytest.raises(ValueError, match=r"is no file of a function; tenon\.saving\.load reads trees"):
        tenon.load(path)
    assert tenon.trace(lambda x: x * weight)(weight).tolist() == [1.0, 4.0, 9.0]


def test_upgrades_are_made_one_after_the_other() -> None:
    def renamed(content: Content) -> Content:
        return Content(content.program.replace("tenon.old_name", "tenon.exp"), content.function)

    def described(content: Content) -> Content:
        return Content(content.program, {**content.function, "tensors": True})

    old = Content("%0 = tenon.old_name %x", {"name": "f"})
    new = upgraded(old, 1, "file", {1: renamed, 2: described}, 3)
    assert new == Content("%0 = tenon.exp %x", {"name": "f", "tensors": True})
    assert upgraded(old, 3, "file", {1: renamed, 2: described}, 3) == old


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.tenon")), ids=lambda path: path.stem)
def test_files_of_former_versions(path: Path) -> None:
    """Made by `python tests/unit/test_saved_functions.py`, and never again: a new version has files of its own."""
    loaded = tenon.load(path)
    losses = [loaded(POINTS, TARGET)["loss"].item() for _ in range(2)]
    np.testing.assert_allclose(losses, json.loads(path.with_suffix(".json").read_text()), rtol=1e-5)


def test_there_is_a_file_of_this_version() -> None:
    assert VERSION in {int(read_arrays(path)[1]["tenon.version"]) for path in KEPT.glob("*.tenon")}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", [StraightOp.apply, lambda x: x * 3], ids=["own gradient", "plain"])
def test_gradients_beside_numbers(tmp_path: Path, op: Any, dtype: str) -> None:
    """Python's floats are inputs of a program as wide as it takes them, by themselves and in lists."""
    x = tenon.tensor([1.25, 2.75, -0.5]).astype(dtype)
    x.requires_grad = True
    tenon.trace(lambda x, n, m: op(x) * n + m[0]).save(tmp_path / "f", x, 2.1, [0.5, 2])
    loaded = tenon.load(tmp_path / "f")
    loaded(x, 2.1, [0.5, 2]).sum().backward()
    exact = 3 * np.float64(2.1)
    accuracy = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}[dtype]
    np.testing.assert_allclose(x.grad.astype("float64").numpy(), [exact] * 3, rtol=accuracy)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_in_a_trace(tmp_path: Path, dtype: str) -> None:
    """Floats of Python's have the dtype that a program takes, known ones and those that are arguments of a trace."""
    x = tenon.tensor([1.25, -0.5]).astype(dtype).requires_grad_()
    tenon.trace(lambda x, n, w: x * n + w).save(tmp_path / "f", x, 2.1, np.ones((), np.float32))
    loaded = tenon.load(tmp_path / "f")
    expected = loaded(x, 0.7, 0.3)
    assert tenon.trace(lambda x, n, w: loaded(x, n, w))(x, 0.7, 0.3).tolist() == expected.tolist()
    assert tenon.trace(lambda x: loaded(x, 0.7, 0.3))(x).tolist() == expected.tolist()
    assert tenon.jit(lambda x: loaded(x, 0.7, 0.3))(x.detach().numpy()).tolist() == expected.tolist()
    slope = tenon.trace(lambda x, n: tenon.autograd.grad(loaded(x, n, 0.3).sum(), x)[0])(x, 0.7)
    np.testing.assert_array_equal(slope.numpy(), np.full(2, 0.7, dtype))
    with pytest.raises(TypeError, match=r"input 2 is float64\[\] where float32\[\] was saved"):
        loaded(x, 0.7, np.ones(()))


def test_a_float_of_numpy_is_a_constant(tmp_path: Path) -> None:
    """As where a function is traced for it."""
    x = tenon.tensor([1.0, 2.0])
    tenon.trace(lambda x, n: x * n).save(tmp_path / "f", x, np.float64(0.7))
    loaded = tenon.load(tmp_path / "f")
    assert repr(loaded) == f"<LoadedFunction <lambda>(f32[2], np.float64(0.7)), version {VERSION}>"
    assert loaded(x, np.float64(0.7)).tolist() == (x * np.float64(0.7)).tolist()
    for other in (np.float64(0.3), 0.7, np.float32(0.7)):
        with pytest.raises(TypeError, match=r"arguments\.0\.1 is .* where np\.float64\(0\.7\) was saved"):
            loaded(x, other)


if __name__ == "__main__":
    file = KEPT / f"step-{VERSION}.tenon"
    step, _ = make_step()
    step(POINTS, TARGET)
    step.save(file, POINTS, TARGET)
    file.with_suffix(".json").write_text(json.dumps([step(POINTS, TARGET)["loss"].item() for _ in range(2)]))
