"""Programs on a GPU: what `jit(device="cuda")` takes and gives, on a stand-in for CuPy with kernels under the shim."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import cupy_stand_in
import ml_dtypes
import numpy as np
import pytest
from cuda_shim import COMPILER

import tenon
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.runtime import executable_cuda, executables, lower
from tenon.runtime.call.devices.arrays import takes_arrays
from tenon.runtime.cuda import calls, launches, nvrtc
from tenon.runtime.cuda.cupy_backend import PER_THREAD
from tenon.runtime.cuda.device import ArgumentError, LaunchError
from tenon.runtime.executable_cuda import CudaExecutable
from tenon.runtime.knobs import knobs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
Array = np.ndarray[Any, Any]


def compile_to(architectures: list[str]) -> Callable[[str, str], nvrtc.Compiled]:
    """A stand-in for the compiler, whose machine code is the source, and which notes what it is called for."""

    def compile_kernels(source: str, architecture: str) -> nvrtc.Compiled:
        architectures.append(architecture)
        return nvrtc.Compiled(source.encode(), {})

    return compile_kernels


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def on_gpu(array: Array) -> Any:
    return sys.modules["cupy"].asarray(array)


def step(params: dict[str, Any], x: Any) -> tuple[dict[str, Any], Any]:
    """Several kernels, of which two may work in place."""
    h = tenon.tanh(x @ params["w"] + params["b"])
    loss = tenon.sum(h)
    return {name: value - 0.1 * loss for name, value in params.items()}, tenon.sum(h, axis=0)


def step_or_not(params: dict[str, Any], x: Any) -> tuple[dict[str, Any], Any]:
    """The same, launched one by one, as the host asks whether to."""
    return tenon.cond(tenon.sum(x * x) > 0.0, step, lambda params, x: (params, x[0, :1] + params["b"]), params, x)


def expected_step(params: dict[str, Array], x: Array) -> tuple[dict[str, Array], Array]:
    h = np.tanh(x.astype(np.float64) @ params["w"] + params["b"])
    return {name: value - 0.1 * h.sum() for name, value in params.items()}, h.sum(0)


def parameters() -> dict[str, Array]:
    return {"w": floats(8, 16, seed=1), "b": floats(16, seed=2)}


def assert_like(actual: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert_like(actual[name], value)
    elif isinstance(expected, tuple):
        for one, other in zip(actual, expected, strict=True):
            assert_like(one, other)
    else:
        np.testing.assert_allclose(actual.get(), expected, rtol=2e-5, atol=2e-5)


def test_trees_of_host_and_device_arrays(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(step, device="cuda")
    params, x = parameters(), floats(4, 8)
    results = function(params, x)
    assert isinstance(results[1], sys.modules["cupy"].ndarray)
    assert_like(results, expected_step(params, x))
    assert_like(function({n: on_gpu(a) for n, a in params.items()}, on_gpu(x)), expected_step(params, x))


class OfAnotherLibrary:
    """An array on a GPU that speaks one of the two protocols."""

    def __init__(self, array: Any, device: int) -> None:
        self.array, self._device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("the stand-in takes the array itself")


class WithInterface:
    """One of another library, whose dtype is no NumPy dtype."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, "its own"

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("on a GPU")


def test_arrays_of_other_libraries_are_not_copied(machine: cupy_stand_in.Machine) -> None:
    x = floats(5, 3)
    function = tenon.jit(lambda x, y: x * 2 + y, device="cuda")
    given = on_gpu(x)
    uploads = len(machine.uploads)
    result = function(OfAnotherLibrary(given, 0), WithInterface(given))
    assert len(machine.uploads) == uploads
    np.testing.assert_allclose(result.get(), 3 * x)


def test_floats_that_an_interface_calls_bytes_are_those_of_their_library(machine: cupy_stand_in.Machine) -> None:
    x = floats(5, 3).astype(ml_dtypes.bfloat16)
    given = WithInterface(on_gpu(x.view(np.dtype("V2"))))
    function = tenon.jit(lambda x: x * 2, device="cuda")
    with pytest.raises(TypeError, match=r"argument x: dtype \|V2 is not one of"):
        function(given)
    given.dtype = "torch.bfloat16"
    result = function(given)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.get().astype(np.float32), x.astype(np.float32) * 2)


def test_a_module_is_trained_where_it_is(machine: cupy_stand_in.Machine, tmp_path: Path) -> None:
    cupy = sys.modules["cupy"]
    model, x = tenon.nn.Linear(3, 2, seed=0), floats(5, 3)
    optimizer = tenon.optim.SGD(lr=0.1, momentum=0.9)

    def train(model: Any, state: Any, x: Any) -> Any:
        slopes = tenon.grad(lambda model: tenon.sum(model(x) ** 2))(model)
        return optimizer.update(model, slopes, state)

    expected, _ = train(model, optimizer.init(model), x)
    with pytest.raises(ValueError, match="device cuda:7 is not there"):
        model.to("cuda:7")
    moved = model.to("cuda:1")
    assert moved is model
    assert isinstance(vars(model)["weight"], cupy.ndarray)
    assert model.weight.device == "cuda:1"
    moved, _ = tenon.jit(train, device="cuda", donate=("model", "state"))(model, optimizer.init(model), x)
    assert moved.weight.device.id == 1
    tenon.saving.save(tmp_path / "state", moved.state_dict())
    loaded = tenon.nn.Linear(3, 2)
    loaded.load_state_dict(tenon.saving.load(tmp_path / "state"))
    loaded.cuda().load_state_dict(moved.state_dict())
    assert loaded.weight.device == "cuda:0"
    for name, value in expected.state_dict().items():
        assert_like(loaded.state_dict()[name], value)
        np.testing.assert_allclose(moved.cpu().state_dict()[name], value, rtol=1e-5)


def test_strided_and_misaligned_arrays_are_copied(
    machine: cupy_stand_in.Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    function = tenon.jit(lambda x: x * 2, device="cuda")
    x = floats(6, 8)
    with knobs.override(debug=2):
        np.testing.assert_allclose(function(on_gpu(x).T).get(), 2 * x.T)
        assert "array 0, float32[8, 6], has strides (4, 32) and is copied" in capsys.readouterr().err
        flat = on_gpu(floats(9))
        np.testing.assert_allclose(function(flat[1:]).get(), 2 * flat.get()[1:])
        assert "array 0, float32[8], is not aligned and is copied" in capsys.readouterr().err
    np.testing.assert_allclose(function(x[::2, ::-1]).get(), 2 * x[::2, ::-1])


def test_a_function_runs_where_its_arguments_are(machine: cupy_stand_in.Machine) -> None:
    cuda = sys.modules["cupy"].cuda
    function = tenon.jit(step, device="cuda")
    params, x = parameters(), floats(4, 8)
    with cuda.Device(1):
        there = on_gpu(x)
    result = function(params, there)
    assert (result[1].device.id, machine.device) == (1, 0)
    assert_like(result, expected_step(params, x))
    assert function(params, x)[1].device.id == 0
    fixed = tenon.jit(step, device="cuda:1")
    assert fixed(params, x)[1].device.id == 1
    assert_like(fixed(params, there), expected_step(params, x))
    with pytest.raises(ArgumentError, match=r"^step: argument x is on cuda:0, and this function runs on cuda:1; copy"):
        fixed(params, on_gpu(x))
    with pytest.raises(ArgumentError, match=r"^step: argument x is on cuda:1, and another argument is on cuda:0; copy"):
        function({"w": on_gpu(params["w"]), "b": params["b"]}, there)
    with pytest.raises(ValueError, match=r"^device cuda:2 is not there: this machine has cuda:0 to cuda:1$"):
        tenon.jit(step, device="cuda:2")(params, x)


def test_devices_of_two_architectures_have_code_of_their_own(
    machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.architectures = ("80", "90")
    compiled: list[str] = []
    monkeypatch.setattr(nvrtc, "compile_kernels", compile_to(compiled))
    function = tenon.jit(lambda x: x * 2, device="cuda")
    x = floats(8)
    for number in (0, 1, 0, 1):
        with sys.modules["cupy"].cuda.Device(number):
            np.testing.assert_allclose(function(on_gpu(x)).get(), 2 * x)
    assert compiled == ["sm_80", "sm_90a"]


def test_sizes_that_the_same_steps_are_for_have_one_machine_code(
    machine: cupy_stand_in.Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(nvrtc, "compile_kernels", compile_to(compiled))
    elementwise = tenon.jit(lambda x, y: tenon.tanh(x * 2 + y), device="cuda", dynamic={"x": ("n",), "y": ("n",)})
    with knobs.override(cache=True, cache_dir=tmp_path):
        for n in (1000, 1004, 3996, 1000):
            x, y = floats(n), floats(n, seed=1)
            np.testing.assert_allclose(elementwise(x, y).get(), np.tanh(x * 2 + y), rtol=1e-5)
    assert len(compiled) == 1


def test_a_product_is_added_to_a_donated_array_by_threads_that_share_its_sums(machine: cupy_stand_in.Machine) -> None:
    """All of them read what one overwrites; the shim finds a race where it may do so before."""
    function = tenon.jit(lambda x, h, w: x + h @ w, device="cuda", donate="x")
    x, h, w = floats(128, 16), floats(128, 64), floats(64, 16)
    np.testing.assert_allclose(function(on_gpu(x), on_gpu(h), on_gpu(w)).get(), x + h @ w, rtol=1e-4, atol=1e-4)


def test_programs_start_from_the_disk_cache(
    machine: cupy_stand_in.Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(nvrtc, "compile_kernels", compile_to(compiled))
    constants = np.array([np.inf, 0.1, -0.0, 1e-40], np.float32)
    x = floats(30, 4)

    def function(x: Any) -> Any:
        return tenon.sum(tenon.maximum(x, 0.1) * 3.3, axis=0), x + constants

    def results(device: str = "cuda") -> list[Array]:
        monkeypatch.setattr(executables, "_executables", BoundedCache(8))
        return [result.get() for result in tenon.jit(function, device=device)(x)]

    with knobs.override(cache_dir=tmp_path, cache=True):
        first = results()
        np.testing.assert_allclose(first[0], (np.maximum(x, 0.1) * 3.3).sum(0), rtol=1e-4)
        np.testing.assert_array_equal(first[1], x + constants)
        with monkeypatch.context() as patch:
            patch.setattr(lower, "lower_with", None)
            for again in (results(), results("cuda:1")):
                for one, other in zip(first, again, strict=True):
                    np.testing.assert_array_equal(one, other)
        assert compiled == ["sm_90a"]
        monkeypatch.setattr(nvrtc, "version", lambda: (12, 8))
        results()
        machine.architectures = ("80", "80")
        results()
        assert compiled == ["sm_90a", "sm_90a", "sm_80"]


def test_static_arguments_and_named_dimensions(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(
        lambda x, mode: x * (2 if mode == "double" else 3), device="cuda", static="mode", dynamic={"x": ("n",)}
    )
    for size in (4, 7):
        x = floats(size)
        np.testing.assert_allclose(function(on_gpu(x), "double").get(), 2 * x)
        np.testing.assert_allclose(function(x, mode="triple").get(), 3 * x)


def test_compiled_for_arguments(machine: cupy_stand_in.Machine) -> None:
    params, x = parameters(), floats(4, 8)
    compiled = tenon.jit(step, device="cuda").compile(params, on_gpu(x))
    assert_like(compiled(params, on_gpu(x)), expected_step(params, x))
    with pytest.raises(TypeError, match=r"x is f32\[3, 8\] where f32\[4, 8\] is needed"):
        compiled(params, on_gpu(x[:3]))
    memory = compiled.memory()
    assert memory.peak == compiled.interface.arena_bytes
    assert memory.moved is not None


def test_gradients_and_batches(machine: cupy_stand_in.Machine) -> None:
    x = floats(5, 3)
    slopes = tenon.jit(tenon.vmap(tenon.grad(lambda x: tenon.sum(tenon.sin(x)))), device="cuda")(on_gpu(x))
    np.testing.assert_allclose(slopes.get(), np.cos(x), rtol=1e-5, atol=1e-6)
    value, slope = tenon.jit(tenon.value_and_grad(lambda x: tenon.sum(x * x)), device="cuda")(on_gpu(x))
    np.testing.assert_allclose(value.get(), (x * x).sum(), rtol=1e-5)
    np.testing.assert_allclose(slope.get(), 2 * x, rtol=1e-6)


# ------------------------------------------------------------------------------------ out, donation, frozen arguments


def test_results_are_written_to_given_arrays(machine: cupy_stand_in.Machine) -> None:
    cupy = sys.modules["cupy"]
    function = tenon.jit(lambda x, y: (x + y, x * y), device="cuda")
    x, y = floats(4, 8), floats(4, 8, seed=1)
    out = cupy.ndarray((4, 8), np.float32), cupy.ndarray((4, 8), np.float32)
    assert function(on_gpu(x), y, out=out) is out
    assert_like(out, (x + y, x * y))
    given = on_gpu(x)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ((np.zeros((4, 8), np.float32), out[1]), TypeError, "out.0 is of type ndarray where a CuPy array is needed"),
        ((cupy.ndarray((4, 8), np.float64), out[1]), TypeError, "out.0 is of dtype float64 where the result is"),
        ((cupy.ndarray((8, 4), np.float32), out[1]), ValueError, r"out.0 has shape \[8, 4\] where the result has"),
        ((cupy.ndarray((8, 4), np.float32).T, out[1]), ValueError, r"out.0 has strides \(4, 16\), but must be contig"),
        ((given, out[1]), ValueError, "out.0 shares memory with input 0"),
        ((out[0], out[0].view()), ValueError, "out.0 shares memory with out.1"),
        (out[0], TypeError, "out is ndarray where the result is tuple"),
    ]
    for arrays, kind, message in wrong:
        with pytest.raises(kind, match=message):
            function(given, y, out=arrays)
    with cupy.cuda.Device(1):
        elsewhere = cupy.ndarray((4, 8), np.float32)
    with pytest.raises(ArgumentError, match=r"argument out\.0 is on cuda:1, and another argument is on cuda:0"):
        function(given, y, out=(elsewhere, out[1]))


def test_donated_arrays_become_results(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(step, device="cuda", donate="params")
    params, x = parameters(), on_gpu(floats(4, 8))
    given = {name: on_gpu(array) for name, array in params.items()}
    places = {name: array.data.ptr for name, array in given.items()}
    expected: Any = params
    before = given
    for _ in range(4):
        before = given
        given, _ = function(given, x)
        expected, _ = expected_step(expected, x.get())
        assert {name: array.data.ptr for name, array in given.items()} == places
    assert_like(given, expected)
    message = (
        rf"step: argument params.w: the array was donated as params.w of step \({__file__}:\d+\), and a result has"
    )
    with pytest.raises(RuntimeError, match=message):
        function(before, x)
    with pytest.raises(RuntimeError, match=r"argument x: the array was donated as params\.w of step"):
        tenon.jit(lambda x: x + 1, device="cuda")(before["w"])
    tenon.jit(lambda x: x + 1, device="cuda")(given["w"])


def test_what_cannot_be_taken_over_is_kept(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(lambda x, y: x + y, device="cuda", donate="x")
    x = floats(8)
    assert_like(function(x, x), x + x)  # of the host
    given = on_gpu(x)
    assert_like(function(given, given.view()), x + x)  # shared
    assert_like(function(given, x), x + x)
    wide = on_gpu(floats(4, 8))
    assert_like(tenon.jit(lambda x: x + 1, device="cuda", donate="x")(wide.T), wide.get().T + 1)  # copied
    assert_like(wide, floats(4, 8))


def test_donated_memory_that_is_rearranged(machine: cupy_stand_in.Machine) -> None:
    x = floats(40, 40)
    function = tenon.jit(lambda x: tenon.exp(x).T @ x, device="cuda", donate="x")
    np.testing.assert_allclose(function(on_gpu(x)).get(), np.exp(x).T @ x, rtol=1e-4, atol=1e-3)
    updated = tenon.jit(lambda x, i, u: tenon.scatter_add(x, i, u), device="cuda", donate="x")
    i, u = np.array([3, 3, 0]), floats(3, 40, seed=3)
    expected = x.copy()
    np.add.at(expected, i, u)
    np.testing.assert_allclose(updated(on_gpu(x), i, u).get(), expected, rtol=1e-5, atol=1e-6)


def test_frozen_arguments_are_uploaded_once(machine: cupy_stand_in.Machine) -> None:
    params, x = parameters(), floats(4, 8)
    function = tenon.jit(lambda params, x: tenon.tanh(x @ params["w"] + params["b"]), device="cuda").freeze(params)
    weights = sum(array.nbytes for array in params.values())
    for size, uploaded in ((4, weights), (4, 0), (3, 0), (4, 0)):
        before = sum(machine.uploads)
        result = function(x[:size])
        assert sum(machine.uploads) - before == uploaded + x[:size].nbytes
        assert_like(result, np.tanh(x[:size] @ params["w"] + params["b"]))
    with sys.modules["cupy"].cuda.Device(1):
        assert_like(function(on_gpu(x)), np.tanh(x @ params["w"] + params["b"]))
    again = tenon.jit(lambda params, x: x @ params["w"], device="cuda").freeze({"w": params["w"] + 1})
    streams = [sys.modules["cupy"].cuda.Stream(non_blocking=True) for _ in range(2)]
    results: list[Any] = []
    for stream in streams:
        with stream:
            results.append(again(x))
    with streams[1]:
        assert_like(results[1], x @ (params["w"] + 1))
    there = {name: on_gpu(array) for name, array in params.items()}
    assert_like(tenon.jit(lambda params, x: x @ params["w"], device="cuda").freeze(there)(x), x @ params["w"])


def test_what_depends_on_frozen_arguments_alone_is_computed_once_on_each_device(
    machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = sys.modules["cupy"]
    w, scale, x = floats(16, 16), np.arange(16, dtype=np.uint8), floats(4, 16, seed=1)

    def network(w: Any, scale: Any, x: Any) -> Any:
        prepared = tenon.softmax(w @ w, axis=-1) * tenon.cast(scale + scale, "f32")
        return tenon.tanh(x @ prepared), prepared

    def prepared(w: Array) -> Array:
        rows = np.exp(w @ w - (w @ w).max(-1, keepdims=True))
        return rows / rows.sum(-1, keepdims=True) * (scale + scale).astype(np.float32)

    kept = prepared(w)
    function = tenon.jit(network, device="cuda").freeze(w, scale)
    counts: list[int] = []
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for device, stream in ((0, streams[0]), (0, streams[1]), (1, None), (1, None)):
        before = len(machine.launches)
        with cupy.cuda.Device(device):
            if stream is None:
                result = function(x)
            else:
                with stream:
                    result = function(on_gpu(x))
                stream.synchronize()
            assert_like(result, (np.tanh(x @ kept), kept))
        counts.append(len(machine.launches) - before)
    assert counts[0] == counts[2] > counts[1] == counts[3]
    given = on_gpu(x)
    for _ in range(2):
        function(given)
    with monkeypatch.context() as patch:
        patch.setattr(CudaExecutable, "run", lambda *_: pytest.fail("the general way"))
        before = len(machine.launches)
        assert_like(function(given), (np.tanh(x @ kept), kept))
        assert len(machine.launches) - before == counts[1]
    compiled = function.compile(x)
    assert compiled.memory().prepared == kept.nbytes
    assert_like(compiled.run([w.T, scale, x])[1], prepared(w.T))


def test_frozen_arguments_cannot_be_brought_in_a_capture(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(lambda w, x: tenon.exp(w) + x, device="cuda").freeze(floats(8))
    stream = sys.modules["cupy"].cuda.Stream(non_blocking=True)
    with stream:
        x = on_gpu(floats(8))
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="cannot be captured: call the function once before"):
            function(x)
        stream.end_capture()
        assert_like(function(x), np.exp(floats(8)) + floats(8))


# -------------------------------------------------------------------------------------------- scratch memory, launches


def test_scratch_memory_is_kept_for_each_stream(machine: cupy_stand_in.Machine) -> None:
    cuda = sys.modules["cupy"].cuda
    params = {name: on_gpu(array) for name, array in parameters().items()}
    function = tenon.jit(step, device="cuda")
    streams = [cuda.Stream(non_blocking=True) for _ in range(2)]
    inputs = [on_gpu(floats(4, 8, seed=seed)) for seed in range(6)]
    cuda.get_current_stream().synchronize()
    before = len(machine.allocations)
    results: list[Any] = []
    for number, x in enumerate(inputs):  # nothing is done yet when the next call is made
        with streams[number % 2]:
            results.append(function(params, x))
    machine.interleaves = True
    assert len(machine.allocations) - before == 3 * len(inputs) + 2  # results, and scratch memory
    for stream in reversed(streams):
        stream.synchronize()
    for x, result in zip(inputs, results, strict=True):
        assert_like(result, expected_step(parameters(), x.get()))


@pytest.mark.parametrize("runs", [step, step_or_not])
def test_threads_have_scratch_memory_and_launches_of_their_own(
    runs: Callable[..., Any], machine: cupy_stand_in.Machine
) -> None:
    function = tenon.jit(runs, device="cuda")
    params, inputs = parameters(), [floats(4, 8, seed=seed) for seed in range(4)]
    function(params, inputs[0])
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        for _ in range(3):
            results[number] = function(params, inputs[number])

    threads = [Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in enumerate(inputs):
        assert_like(results[number], expected_step(params, x))


def test_calls_on_the_same_memory_are_one_graph(machine: cupy_stand_in.Machine) -> None:
    cupy = sys.modules["cupy"]
    function = tenon.jit(step, device="cuda")
    params = {name: on_gpu(array) for name, array in parameters().items()}
    x = on_gpu(floats(4, 8))
    out = {n: cupy.ndarray(a.shape, a.dtype) for n, a in params.items()}, cupy.ndarray((16,), np.float32)
    counts: list[tuple[int, int]] = []
    for number in range(4):
        np.copyto(x.on_host(), floats(4, 8, seed=number))
        function(params, x, out=out)
        assert_like(out, expected_step(parameters(), floats(4, 8, seed=number)))
        counts.append((len(machine.launches), machine.graph_launches))
    (first, _), _, (third, graphs), last = counts
    assert graphs == 1
    assert third == 3 * first  # the last of which are captured
    assert last == (third, 2)
    other = on_gpu(floats(4, 8, seed=9))
    function(params, other, out=out)
    assert (len(machine.launches), machine.graph_launches) == (4 * first, 2)
    assert_like(out, expected_step(parameters(), other.get()))


def test_copies_of_boxes_are_from_where_arguments_are(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(tenon.matmul, device="cuda")
    for seed in range(3):
        x, y = (floats(64, 64, seed=seed + n).astype(ml_dtypes.bfloat16) for n in (0, 7))
        result = function(on_gpu(x), on_gpu(y)).get().astype(np.float64)
        np.testing.assert_allclose(result, x.astype(np.float64) @ y.astype(np.float64), rtol=0.02, atol=0.1)
    assert launches.driver().maps


@pytest.mark.parametrize("setting", ["cuda_graphs", "cuda_sync"])
def test_graphs_can_be_switched_off(machine: cupy_stand_in.Machine, setting: str) -> None:
    function = tenon.jit(step, device="cuda", donate="params")
    given, x = {name: on_gpu(array) for name, array in parameters().items()}, on_gpu(floats(4, 8))
    with knobs.override(**{setting: setting == "cuda_sync"}):
        for _ in range(4):
            given, _ = function(given, x)
    assert machine.graph_launches == 0


def test_what_cannot_be_captured_is_launched_plainly(
    machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise cupy_stand_in.CUDARuntimeError("cudaErrorStreamCaptureUnsupported: not today")

    monkeypatch.setattr(cupy_stand_in.Stream, "begin_capture", refuse)
    function = tenon.jit(step, device="cuda", donate="params")
    given, x, expected = {n: on_gpu(a) for n, a in parameters().items()}, floats(4, 8), parameters()
    on_device = on_gpu(x)
    for _ in range(3):
        given, _ = function(given, on_device)
        expected, _ = expected_step(expected, x)
    assert_like(given, expected)
    assert machine.graph_launches == 0


def test_a_call_in_a_capture_of_the_caller(machine: cupy_stand_in.Machine) -> None:
    cupy = sys.modules["cupy"]
    function = tenon.jit(step, device="cuda")
    params = {name: on_gpu(array) for name, array in parameters().items()}
    x = on_gpu(floats(4, 8))
    function(params, x)
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        captured = function(params, x)
        graph = stream.end_capture()
        others = [on_gpu(floats(4, 8, seed=seed)) for seed in (5, 6)]
        stream.synchronize()
        machine.interleaves = True
        results = [function(params, other) for other in others]  # in scratch memory of its own
        with cupy.cuda.Stream(non_blocking=True) as elsewhere:
            graph.launch()
            elsewhere.synchronize()
        for result, other in zip(results, others, strict=True):
            assert_like(result, expected_step(parameters(), other.get()))
    with elsewhere:
        assert_like(captured, expected_step(parameters(), floats(4, 8)))


def test_loops_and_conditions(machine: cupy_stand_in.Machine) -> None:
    def counted(x: Any) -> Any:
        return tenon.scan(lambda carry, row: (tenon.tanh(carry + row), carry), x[0], x)

    def until(x: Any) -> Any:
        return tenon.while_loop(lambda x: tenon.sum(x) < 100.0, lambda x: x * 2, x)

    x = np.abs(floats(5, 3)) + 0.1
    carry, rows = x[0], []
    for row in x:
        rows.append(carry)
        carry = np.tanh(carry + row)
    function = tenon.jit(counted, device="cuda")
    doubled = x[0]
    while doubled.sum() < 100:
        doubled = doubled * 2
    given = on_gpu(x)
    for _ in range(3):
        assert_like(function(given), (carry, np.stack(rows)))
        assert_like(tenon.jit(until, device="cuda")(x[0]), doubled)


# ---------------------------------------------------------------------------------------------------------- what fails


def test_a_launch_that_fails_is_named(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(step, device="cuda", donate="params")
    given = {name: on_gpu(array) for name, array in parameters().items()}
    x = floats(4, 8)
    given, _ = function(given, x)
    machine.fails = "kernel_3"
    with pytest.raises(
        LaunchError, match=r"^step: kernel @kernel_3 \(grid .*, block .*\): CUDA_ERROR_LAUNCH_"
    ) as raised:
        function(given, x)
    line = step.__code__.co_firstlineno + 4
    assert "; it computes tenon." in str(raised.value)
    assert f" ({__file__}:{line}); the error may be" in str(raised.value)
    machine.fails = None
    with pytest.raises(RuntimeError, match=r"donated as params\.\w of step .*, and that call failed, so that its elem"):
        function(given, x)
    fresh = {name: on_gpu(array) for name, array in parameters().items()}
    assert_like(function(fresh, x), expected_step(parameters(), x))


def test_python_inside_of_a_program(machine: cupy_stand_in.Machine, capsys: pytest.CaptureFixture[str]) -> None:
    def checked(x: Any) -> Any:
        y = x * 2
        tenon.debug.print("{}", tenon.sum(y))
        return y + 1

    function = tenon.jit(checked, device="cuda", donate="x")
    x = np.arange(4, dtype=np.float32)
    for _ in range(2):
        assert_like(function(on_gpu(x)), 2 * x + 1)
    assert capsys.readouterr().out.split() == ["12.0", "12.0"]
    assert machine.graph_launches == 0


def test_a_launch_that_fails_leaves_what_is_not_donated(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(step, device="cuda")
    machine.fails = "kernel_0"
    with pytest.raises(LaunchError, match="TENON_CUDA_SYNC=1 waits for each and names it"):
        function(parameters(), floats(4, 8))
    machine.fails = None
    assert_like(function(parameters(), floats(4, 8)), expected_step(parameters(), floats(4, 8)))


def test_too_little_memory_is_named(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(lambda x, y: x + y, device="cuda")
    x = on_gpu(floats(8, 1))
    machine.limit = 100
    with pytest.raises(MemoryError, match=r"^<lambda>: result 0, float32\[8, 9\]: Out of memory allocating 288 bytes"):
        function(x, floats(1, 9))


def test_dtypes_that_are_not_stored_are_named(machine: cupy_stand_in.Machine) -> None:
    with pytest.raises(TypeError, match=r"<lambda>: argument x: .*complex64"):
        tenon.jit(lambda x: x, device="cuda")(on_gpu(floats(3).astype(np.complex64)))


# --------------------------------------------------------------------------------------------------------- the stand-in


@pytest.mark.skipif(find_spec("cupy") is None, reason="cupy is not installed")
def test_cupy_has_what_the_stand_in_has() -> None:
    """Needs no device."""
    cupy: Any = import_module("cupy")

    def names(value: Any) -> set[str]:
        return {name for name in vars(value) if not name.startswith("_")}

    made = cupy_stand_in.stand_in(cupy_stand_in.Machine())
    pairs = [(made, cupy), (made.cuda, cupy.cuda), (made.cuda.runtime, cupy.cuda.runtime)]
    pairs += [(made.cuda.driver, cupy.cuda.driver), (cupy_stand_in.Graph, cupy.cuda.Graph)]
    pairs += [(cupy_stand_in.RawKernel, cupy.RawKernel), (cupy_stand_in.ndarray, cupy.ndarray)]
    own = {"on_host", "machine", "submit", "drain", "perform"}
    for one, other in pairs:
        assert not {name for name in names(one) - own if not hasattr(other, name)}
    assert not {name for name in names(cupy_stand_in.Stream) - own if not hasattr(cupy.cuda.Stream, name)}
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    assert takes_arrays(cupy)
    assert hasattr(cupy.cuda.function.Function, "ptr")
    assert (cupy.cuda.Stream.null.ptr, cupy.cuda.Stream.ptds.ptr) == (0, PER_THREAD)


def stacked_halves(x: Any) -> Any:
    """Steps of a loop write slices of 686 bytes, so that all but the first begin between places for vectors."""
    return tenon.scan(lambda state, row: (state, tenon.cast(row, dtype="f16")), x[0, 0], x)[1]


def added_in_f32(x: Any, places: Any, rows: Any) -> Any:
    """Sums of bf16 are kept in f32 meanwhile, in memory that a kernel takes and gives back."""
    return x.at[places].add(rows)


def test_slices_that_begin_between_vectors(machine: cupy_stand_in.Machine) -> None:
    x = floats(7, 7, 7, 7)
    halves = tenon.jit(stacked_halves, device="cuda")(x)
    np.testing.assert_array_equal(halves.get(), x.astype(np.float16))


def test_sums_that_are_wider_than_their_array(machine: cupy_stand_in.Machine) -> None:
    x, rows, places = floats(1139, 17).astype("bfloat16"), floats(2, 17).astype("bfloat16"), np.array([5, 5])
    result = tenon.jit(added_in_f32, device="cuda")(x, places, rows)
    expected = x.astype(np.float32)
    np.add.at(expected, places, rows.astype(np.float32))
    np.testing.assert_array_equal(result.get(), expected.astype(x.dtype))


def test_dtypes_that_cupy_lacks_are_refused(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(lambda x: tenon.cast(x, dtype="f8E4M3FN"), device="cuda")
    with pytest.raises(TypeError, match="result 0 is of dtype float8_e4m3fn, of which CuPy has no arrays"):
        function(floats(3))


def batch_norm_of_one_sample(left: Any, right: Any, weight: Any, bias: Any) -> Any:
    """Statistics of a batch of one: some statements of a kernel have a loop over the samples, others do not."""
    x = tenon.concatenate([left, right], axis=1)
    mean = tenon.mean(x, axis=(0, 2, 3), keepdims=True)
    scale = 1 / tenon.sqrt(tenon.mean((x - mean) ** 2, axis=(0, 2, 3), keepdims=True) + 1e-2)
    y = (x - mean) * scale * tenon.reshape(weight, (1, -1, 1, 1)) + tenon.reshape(bias, (1, -1, 1, 1))
    return tenon.sum(tenon.relu(y) * y)


def test_loops_of_one_iteration_that_some_statements_lack(machine: cupy_stand_in.Machine) -> None:
    arguments = floats(1, 5, 2, 2, seed=1), floats(1, 3, 2, 2, seed=2), floats(8, seed=3), floats(8, seed=4)
    gradients = tenon.grad(batch_norm_of_one_sample, argnums=(0, 1, 2, 3))
    results = tenon.jit(gradients, device="cuda")(*arguments)
    assert_like(results, tenon.jit(gradients)(*[array.astype(np.float64) for array in arguments]))


class Pair(NamedTuple):
    left: Any
    right: Any


def nested(tree: dict[str, Any], pair: Pair, mode: str, *, extra: Any = None) -> dict[str, Any]:
    total = tree["a"][0] + pair.left * (2 if mode == "double" else 1)
    return {"sum": total, "rest": [Pair(pair.right, (total,)), None] if extra is None else [extra + total]}


@pytest.fixture(params=["native", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How calls like one before go: where arrays of CuPy lie otherwise, by code of Python."""
    if request.param == "python":
        monkeypatch.setattr(executable_cuda, "takes_arrays", lambda _: False)
    return request.param


@pytest.fixture
def go_native(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have calls fail from now on that are not native."""

    def fail(*_: Any) -> Any:
        pytest.fail("a call goes through Python")

    def begin() -> None:
        monkeypatch.setattr(CudaExecutable, "run", fail)
        monkeypatch.setattr(calls.DeviceCalls, "run", fail)

    return begin


def test_calls_like_one_before_go_by_code_of_their_own(
    machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    x, y, z = [floats(4, 5, seed=seed) for seed in range(3)]
    function = tenon.jit(nested, static=("mode",), device="cuda")

    def call(mode: str = "double", dtype: Any = np.float32, turned: bool = False, **extra: Any) -> dict[str, Any]:
        first = on_gpu(x.astype(dtype).T.copy()).T if turned else on_gpu(x.astype(dtype))
        return function({"a": (first,)}, Pair(on_gpu(y), on_gpu(z)), mode, **extra)

    def check(result: dict[str, Any], factor: int = 2) -> None:
        np.testing.assert_allclose(result["sum"].get(), x + factor * y, rtol=1e-6)
        np.testing.assert_allclose(result["rest"][0].right[0].get(), x + factor * y, rtol=1e-6)
        np.testing.assert_array_equal(result["rest"][0].left.get(), z)
        assert result["rest"][1] is None

    for _ in range(2):
        check(call())
    with monkeypatch.context() as patch:
        patch.setattr(CudaExecutable, "run", lambda *_: pytest.fail("the general way"))
        if way == "native":
            patch.setattr(calls.DeviceCalls, "run", lambda *_: pytest.fail("code of Python"))
        for _ in range(3):
            check(call())
    for _ in range(3):  # each is of another kind
        check(call(turned=True))
        check(call(mode="single"), 1)
        assert call(dtype=np.float64)["sum"].dtype == np.float64
        np.testing.assert_allclose(call(extra=on_gpu(z))["rest"][0].get(), x + 2 * y + z, rtol=1e-6)
        with pytest.raises(TypeError, match="nested"):
            call(other=on_gpu(z))
    with knobs.override(debug=1):
        check(call())


def test_calls_by_code_see_what_the_function_reads(machine: cupy_stand_in.Machine) -> None:
    settings = {"factor": 2.0}
    function = tenon.jit(lambda x: x * settings["factor"], device="cuda")
    x = floats(3)
    for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0):
        settings["factor"] = factor
        np.testing.assert_allclose(function(on_gpu(x)).get(), factor * x)
    donor = tenon.jit(lambda x: x + 1, device="cuda", donate="x")
    given = on_gpu(x)
    donor(given)
    with pytest.raises(RuntimeError, match="donated as x"):
        function(given)


def test_steps_of_a_module_that_is_donated_go_by_code(
    machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    optimizer, x = tenon.optim.SGD(lr=0.1, momentum=0.9), floats(5, 3)

    def train(model: Any, state: Any, x: Any) -> Any:
        slopes = tenon.grad(lambda model: tenon.sum(model(x) ** 2))(model)
        return optimizer.update(model, slopes, state)

    model = tenon.nn.Sequential(tenon.nn.Linear(3, 2, seed=0), tenon.nn.LayerNorm(2))
    state, step = optimizer.init(model), tenon.jit(train, device="cuda", donate=("model", "state"))
    expected, expected_state, before, allocated = model, state, model, 0
    given = on_gpu(x)
    for number in range(5):
        if number == 3:
            monkeypatch.setattr(CudaExecutable, "run", lambda *_: pytest.fail("the general way"))
            if way == "native":
                monkeypatch.setattr(calls.DeviceCalls, "run", lambda *_: pytest.fail("code of Python"))
        before, allocated = model, len(machine.allocations)
        model, state = step(model, state, given)
        expected, expected_state = train(expected, expected_state, x)
    assert len(machine.allocations) == allocated
    assert machine.graph_launches > 0
    for name, value in expected.state_dict().items():
        assert_like(model.state_dict()[name], value)
    with pytest.raises(
        RuntimeError, match=rf"model\.0\.weight: the array was donated as model\.0\.weight of train \({__file__}:\d+\)"
    ):
        step(before, state, given)


def test_donated_arrays_that_share_memory_go_the_general_way(machine: cupy_stand_in.Machine, way: str) -> None:
    function = tenon.jit(lambda x, y: (x + 1, y.sum()), device="cuda", donate="x")
    x = floats(8)
    for number in range(5):
        whole = on_gpu(x)
        given = whole if number < 3 else whole.view()
        result, total = function(given, on_gpu(x) if number < 3 else whole)
        assert_like((result, total), (x + 1, x.sum()))
        assert (result.data.ptr == whole.data.ptr) is (number < 3)
    machine.fails = "kernel_0"
    given = on_gpu(x)
    for message in ("too many resources", "donated as x of .*, and that call failed, so that its elements are lost"):
        with pytest.raises(RuntimeError, match=message):
            function(given, on_gpu(x))
        machine.fails = None


def test_calls_by_code_are_not_those_of_autocast(machine: cupy_stand_in.Machine) -> None:
    function = tenon.jit(tenon.matmul, device="cuda")
    x, y = on_gpu(floats(4, 8)), on_gpu(floats(8, 4, seed=1))
    for _ in range(3):
        with tenon.autocast():
            assert str(function(x, y).dtype) == "bfloat16"
    for _ in range(3):
        assert function(x, y).dtype == np.float32


def test_frozen_numbers_keep_their_rank(machine: cupy_stand_in.Machine) -> None:
    frozen = tenon.jit(lambda count, x: x * count, device="cuda").freeze(np.array(3, np.float32))
    x = floats(4)
    for _ in range(3):
        np.testing.assert_allclose(frozen(on_gpu(x)).get(), 3 * x)


def test_native_calls_are_those_of_arrays_like_before(
    machine: cupy_stand_in.Machine, go_native: Callable[[], None]
) -> None:
    """Others are told apart, whatever was done to an array or where it is, and served the general way."""
    cuda = sys.modules["cupy"].cuda
    function = tenon.jit(lambda x: tenon.sum(x * 2, axis=0), device="cuda")
    x = floats(4, 6)
    given = on_gpu(x)

    def check(array: Any, values: Array) -> Any:
        result = function(array)
        np.testing.assert_allclose(result.get(), 2 * values.sum(0), rtol=1e-6)
        assert result.dtype == values.dtype
        return result

    for _ in range(3):
        check(given, x)
    given.shape = (6, 4)  # in place, the same memory
    check(given, x.reshape(6, 4))
    given.shape = (4, 6)
    check(on_gpu(floats(8, 6))[::2], floats(8, 6)[::2])
    check(on_gpu(x.astype(np.float64)), x.astype(np.float64))
    with cuda.Device(1):
        there = on_gpu(x + 2)
    assert check(there, x + 2).device.id == 1
    with cuda.Stream(non_blocking=True) as stream:
        stream.submit(lambda: None)
        ordered = on_gpu(x + 3)
        check(ordered, x + 3)
    machine.limit = 16
    with pytest.raises(MemoryError, match=r"result 0, float32\[6\]: Out of memory allocating 24 bytes"):
        function(given)
    machine.limit = None
    go_native()
    check(given, x)


def test_native_calls_in_threads(machine: cupy_stand_in.Machine, go_native: Callable[[], None]) -> None:
    """Each on a state of its own, which is donated at each step."""
    step = tenon.jit(lambda state, x: {name: value + x for name, value in state.items()}, device="cuda", donate="state")
    count, steps = 3, 50
    for _ in range(3):
        step({"a": on_gpu(floats(8)), "b": on_gpu(floats(8))}, on_gpu(floats(8)))
    go_native()
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        with sys.modules["cupy"].cuda.Stream(non_blocking=True):
            state, x = {"a": on_gpu(floats(8)), "b": on_gpu(floats(8) + 1)}, on_gpu(np.full(8, number, np.float32))
            for _ in range(steps):
                state = step(state, x)
            results[number] = {name: value.get() for name, value in state.items()}

    threads = [Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(count):
        np.testing.assert_allclose(results[number]["a"], floats(8) + steps * number, rtol=1e-4)
        np.testing.assert_allclose(results[number]["b"], floats(8) + 1 + steps * number, rtol=1e-4)


def test_arrays_that_were_given_away_become_results_again(
    machine: cupy_stand_in.Machine, go_native: Callable[[], None]
) -> None:
    """Of native calls, once nobody has them; until then they are refused, and hold no memory."""
    step = tenon.jit(lambda state, x: {name: value + x for name, value in state.items()}, device="cuda", donate="state")
    x, state = on_gpu(np.ones(3, np.float32)), {"a": on_gpu(floats(2, 3)), "b": on_gpu(floats(2, 3) + 1)}
    kept: list[Any] = []
    again: set[int] = set()
    for number in range(8):
        before: Any = state
        state = step(before, x)
        if number == 2:
            go_native()
        if number == 3:
            again = {id(array) for array in before.values()}
        if number == 4:
            assert {id(array) for array in state.values()} == again
            kept = [before["a"], before["b"].view(), weakref.ref(before["b"])]
        if number == 5:
            assert not any(array is other for array in state.values() for other in (kept[0], kept[2]()))
            before["a"].shape = (3, 2)
        assert state["a"].shape == (2, 3)
        assert state["b"].base is None or number < 3
        del before
    assert_like(state, {"a": floats(2, 3) + 8, "b": floats(2, 3) + 9})
    for array in kept[:2]:
        assert array.shape == (2, 3)
        with pytest.raises(RuntimeError, match=rf"donated as state\.\w of <lambda> \({__file__}:\d+\)"):
            tenon.jit(lambda x: x + 1, device="cuda")(array)
    addresses = {array.data.ptr for array in state.values()}
    del state
    assert addresses <= {memory.address for free in machine.free.values() for memory in free}
    assert kept[0].data.ptr in addresses


def test_arrays_that_lie_otherwise_are_not_taken(machine: cupy_stand_in.Machine) -> None:
    cupy: Any = types.SimpleNamespace(**vars(sys.modules["cupy"]))
    assert takes_arrays(cupy)
    kind = cupy.ndarray
    cupy.ndarray = type("ndarray", (kind,), {"machine": machine, "__slots__": ("more",)})
    assert not takes_arrays(types.SimpleNamespace(**vars(cupy)))
    lacking = types.SimpleNamespace(**{**vars(cupy.cuda), "UnownedMemory": None})
    assert not takes_arrays(types.SimpleNamespace(ndarray=kind, cuda=lacking))
    flags = types.SimpleNamespace(c_contiguous=False, f_contiguous=False)
    cupy.ndarray = type("ndarray", (kind,), {"machine": machine, "__slots__": (), "flags": flags})
    assert not takes_arrays(types.SimpleNamespace(**vars(cupy)))
