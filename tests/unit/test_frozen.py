"""Frozen arguments: what depends on them alone is computed once, and nothing else changes."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenon
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import executables
from tenon.runtime.executable_cpu import CpuExecutable


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass
class Layer:
    weight: Any
    bias: Any

    def __call__(self, x: Any, scale: Any = 1.0) -> Any:
        return tenon.tanh(x @ (self.weight * tenon.exp(self.bias)) + self.bias) * scale


def run(layer: Layer, x: Any, scale: Any = 1.0) -> Any:
    return layer(x, scale)


def oracle(layer: Layer, x: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return np.tanh(x.astype(np.float64) @ (layer.weight * np.exp(layer.bias)) + layer.bias) * scale


LAYER = Layer(floats(13, 7, seed=1), floats(7, seed=2) / 4)


def close(given: Any, expected: Any) -> None:
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)


def test_calls_give_what_calls_with_all_arguments_give() -> None:
    """Also once they go by native code, with results written to arrays, and for other shapes."""
    fast, plain = tenon.jit(run).freeze(LAYER), tenon.jit(run)
    for rows in (3, 3, 3, 1, 0, 3):
        x = floats(rows, 13, seed=rows)
        result = fast(x)
        close(result, oracle(LAYER, x))
        np.testing.assert_array_equal(result, plain(LAYER, x))
        out = np.empty_like(result)
        assert fast(x, out=out) is out
        np.testing.assert_array_equal(out, result)


def test_what_depends_on_frozen_arguments_alone_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []
    prepare = CpuExecutable.prepare

    def counted(self: Any, frozen: Any) -> Any:
        prepared.append(prepare(self, frozen))
        return prepared[-1]

    monkeypatch.setattr(CpuExecutable, "prepare", counted)
    fast, x = tenon.jit(run).freeze(LAYER), floats(3, 13)
    for _ in range(4):
        fast(x)
    assert [value.shape for value in prepared[0]] == [(13, 7)]
    assert len(prepared) == 1
    assert fast.compile(x).memory().prepared == 13 * 7 * 4
    assert "prepared" in str(fast.compile(x).memory())


def test_two_freezes_share_code_and_not_weights() -> None:
    x, other = floats(3, 13), Layer(floats(13, 7, seed=5), floats(7, seed=6) / 4)
    jitted = tenon.jit(run)
    first, second = jitted.freeze(LAYER), jitted.freeze(other)
    for _ in range(3):
        close(first(x), oracle(LAYER, x))
        close(second(x), oracle(other, x))
    assert first.compile(x).executable is second.compile(x).executable


def test_kinds_of_calls_share_what_is_computed_from_the_same_arrays() -> None:
    """As long as one of them is in use."""
    fast, other = tenon.jit(run).freeze(LAYER), tenon.jit(run).freeze(Layer(LAYER.weight + 1, LAYER.bias))
    held = [fast.compile(floats(rows, 13)).prepared for rows in (2, 5)]
    assert held[0] is not None
    assert held[1] is not None
    assert [first is second for first, second in zip(*held, strict=True)] == [True]
    changed: Any = other.compile(floats(2, 13)).prepared
    np.testing.assert_allclose(changed[0], (LAYER.weight + 1) * np.exp(LAYER.bias), rtol=1e-6)
    array = weakref.ref(held[0][0])
    del fast, held
    assert array() is None


def test_keyword_arguments_are_frozen_as_well() -> None:
    x = floats(2, 13)
    fast = tenon.jit(run).freeze(scale=np.float32(2)).freeze(LAYER)
    for _ in range(3):
        close(fast(x), oracle(LAYER, x, 2))
    with pytest.raises(TypeError, match="run: argument scale is frozen and cannot be given again"):
        fast(x, scale=3)
    compiled = fast.compile(x)
    close(compiled(x), oracle(LAYER, x, 2))
    with pytest.raises(TypeError, match=r"x is f32\[1, 13\] where f32\[2, 13\] is needed"):
        compiled(x[:1])


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"params": LAYER}, "got an unexpected keyword argument 'params'"),
        ((LAYER, 1, 2, 3), {}, "too many positional arguments"),
        ((LAYER,), {"layer": LAYER}, "multiple values for argument 'layer'"),
    ],
)
def test_only_arguments_are_frozen(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^run: {message} \(arguments: layer, x, scale\)$"):
        tenon.jit(run).freeze(*args, **kwargs)
    tenon.jit(lambda *layers, **others: run(layers[0], others["x"])).freeze(LAYER, y=1)(x=floats(2, 13))


def test_static_arguments_may_be_frozen() -> None:
    scaled = tenon.jit(lambda mode, w, x: x * w if mode == "times" else x + w, static="mode")
    fast, x = scaled.freeze("times", floats(3)), floats(3, seed=1)
    for _ in range(3):
        np.testing.assert_array_equal(fast(x), x * floats(3))


def test_frozen_arrays_of_any_strides_are_copied_once() -> None:
    turned = Layer(np.asfortranarray(LAYER.weight), LAYER.bias[::-1])
    fast, x = tenon.jit(run).freeze(turned), floats(2, 13)
    for _ in range(3):
        close(fast(x), oracle(turned, x))
    executable: Any = fast.compile(x).executable
    assert executable.copies == 0


def test_donated_arguments_lend_their_memory_beside_frozen_ones() -> None:
    """The position of a donor is counted without what the function holds."""
    step = tenon.jit(lambda w, state, x: (state + x * tenon.exp(w), tenon.exp(w) @ x), donate="state")
    fast, w, x = step.freeze(floats(5)), floats(5), floats(5, seed=1)
    for _ in range(4):
        state = floats(5, seed=2)
        address, expected = state.ctypes.data, state + x * np.exp(w)
        changed, product = fast(state, x)
        assert changed.ctypes.data == address
        close(changed, expected)
        close(product, np.exp(w) @ x)


def test_what_results_are_written_to_cannot_be_frozen() -> None:
    step = tenon.jit(lambda w, x: w + x, donate="w")
    with pytest.raises(TypeError, match="argument w is donated and cannot be frozen"):
        step.freeze(floats(5))
    with pytest.raises(TypeError, match="out cannot be frozen"):
        tenon.jit(lambda w, x: w + x).freeze(floats(5), out=floats(5))


def test_nothing_is_written_to_frozen_arrays() -> None:
    """Also by native calls: neither as results that are given, nor as the memory of a donated argument."""
    w, x = floats(5), floats(5, seed=1)
    step = tenon.jit(lambda w, state: state + tenon.exp(w), donate="state").freeze(w)
    plain = tenon.jit(lambda w, x: tenon.exp(w) * x).freeze(w)
    for _ in range(4):
        step(x.copy())
        plain(x, out=np.empty_like(x))
    close(step(w), w + np.exp(w))
    with pytest.raises(ValueError, match="out shares memory with input 0"):
        plain(x, out=w)
    np.testing.assert_array_equal(w, floats(5))


def test_a_list_of_all_arrays_may_have_others_than_the_frozen_ones() -> None:
    x, other = floats(3, 13), Layer(floats(13, 7, seed=5), floats(7, seed=6) / 4)
    compiled = tenon.jit(run).freeze(LAYER).compile(x)
    close(compiled.run([other.weight, other.bias, x])[0], oracle(other, x))


def test_other_arguments_have_gradients_and_examples() -> None:
    x = floats(3, 13)
    fast = tenon.jit(run).freeze(LAYER)
    expected = tenon.grad(lambda x: run(LAYER, x).sum())(x)
    close(tenon.grad(lambda x: fast(x).sum())(x), expected)
    close(tenon.vmap(fast)(np.stack([x, x + 1])), [oracle(LAYER, x), oracle(LAYER, x + 1)])


def test_there_are_no_gradients_with_respect_to_frozen_arguments() -> None:
    x = floats(3, 13)
    with pytest.raises(TypeError, match=r"argument layer.weight is a traced value .* no gradients with respect to"):
        tenon.grad(lambda layer: tenon.jit(run).freeze(layer)(x).sum())(LAYER)


def test_interpreter_gives_the_same() -> None:
    x = floats(3, 13)
    with tenon.knobs.override(interpret=True):
        close(tenon.jit(run).freeze(LAYER)(x), oracle(LAYER, x))


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors(bits: int) -> None:
    x = floats(3, 13)
    with tenon.knobs.override(vector_bits=bits):
        fast = tenon.jit(run).freeze(LAYER)
        for _ in range(3):
            close(fast(x), oracle(LAYER, x))


def test_disk_cache_has_both_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    x = floats(4, 13)
    tenon.jit(run).freeze(LAYER)(x)
    monkeypatch.setattr(executables, "_executables", BoundedCache[Any](1))
    close(tenon.jit(run).freeze(LAYER)(x), oracle(LAYER, x))


def test_sizes_known_at_launch() -> None:
    fast = tenon.jit(run, dynamic={"x": ("n", None)}).freeze(LAYER)
    for rows in (3, 1, 5):
        x = floats(rows, 13, seed=rows)
        close(fast(x), oracle(LAYER, x))


@pytest.mark.parametrize("size", [1, 7])
def test_filters_are_transformed_once(size: int) -> None:
    """A convolution by minimal filtering and a norm, against numbers of the same program with all arguments."""
    weight, scale, x = floats(16, 16, 3, 3), floats(16, seed=1), floats(2, 16, size + 8, 12, seed=2)

    def network(weight: Any, scale: Any, x: Any) -> Any:
        return tenon.relu(tenon.conv2d(x, weight, padding=1) * tenon.reshape(tenon.exp(scale), shape=(16, 1, 1)))

    fast = tenon.jit(network).freeze(weight, scale)
    np.testing.assert_allclose(fast(x), tenon.jit(network)(weight, scale, x), rtol=1e-4, atol=1e-4)
    assert fast.compile(x).memory().prepared > 0


def test_fewer_windows_make_up_for_filters_that_are_transformed_once() -> None:
    """25 windows; the weight as an argument is multiplied as it is."""
    weight, x = floats(20, 20, 3, 3), floats(1, 20, 5, 5, seed=1)
    plain = tenon.jit(lambda weight, x: tenon.conv2d(x, weight, padding=1))
    fast = plain.freeze(weight)
    np.testing.assert_allclose(fast(x), plain(weight, x), rtol=1e-4, atol=1e-3)
    # Two groups of 3 rows have 5 points each, in the place of 3 rows of a window.
    assert fast.compile(x).memory().prepared == weight.nbytes // 3 * 5


def test_an_onnx_model_is_frozen() -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    import tenon.onnx

    weight = floats(4, 3)
    graph = helper.make_graph(
        [helper.make_node("Exp", ["w"], ["e"]), helper.make_node("MatMul", ["x", "e"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 3))],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    fast = tenon.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)).freeze()
    x = floats(2, 4)
    for _ in range(3):
        (result,) = fast(x)
        close(result, x @ np.exp(weight))
