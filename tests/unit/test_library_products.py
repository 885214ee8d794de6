"""Products of matrices by cuBLAS: what it is asked for gives what NumPy says, on any stream, in any call.

On stand-ins for CuPy, the driver and cuBLAS; where there is a device, `pytest -m gpu` runs the same there.
"""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from weakref import WeakValueDictionary

import cupy_stand_in
import ml_dtypes
import numpy as np
import pytest
from driver_stand_in import Cublas
from random_numbers import generator

import tenon
from tenon.dialects.support.bounded_cache import BoundedCache
from tenon.lowering.explanation import Option
from tenon.lowering.tuning_record import Decision, TuningRecord
from tenon.runtime import executables
from tenon.runtime.build import build, explain
from tenon.runtime.cuda import cublas, launches
from tenon.runtime.cuda.device import LaunchError
from tenon.runtime.knobs import knobs
from tenon.tools import tune

BF16 = ml_dtypes.bfloat16
STEPS = {"kernel_0": ["library(cublas)"]}
RANDOM = generator(23)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def einsum(text: str) -> Callable[..., Any]:
    return lambda a, b: tenon.einsum(text, a, b)


def product(a: Any, b: Any) -> Any:
    return a @ b


CASES: Mapping[str, tuple[Callable[..., Any], str, tuple[int, ...], tuple[int, ...], Any]] = {
    "f32": (product, "mk,kn->mn", (5, 7), (7, 3), np.float32),
    "f64": (product, "mk,kn->mn", (5, 7), (7, 3), np.float64),
    "f16": (product, "mk,kn->mn", (5, 7), (7, 3), np.float16),
    "bf16": (product, "mk,kn->mn", (5, 7), (7, 3), BF16),
    "bf16 to f32": (
        lambda a, b: tenon.matmul(a.astype(np.float32), b.astype(np.float32)),
        *("mk,kn->mn", (5, 7), (7, 3), BF16),
    ),
    "left transposed": (einsum("km,kn->mn"), "km,kn->mn", (7, 5), (7, 3), np.float32),
    "right transposed": (einsum("mk,nk->mn"), "mk,nk->mn", (5, 7), (3, 7), BF16),
    "both transposed": (einsum("km,nk->mn"), "km,nk->mn", (7, 5), (3, 7), np.float64),
    "result transposed": (einsum("mk,kn->nm"), "mk,kn->nm", (5, 7), (7, 3), np.float32),
    "result of transposed ones": (einsum("km,nk->nm"), "km,nk->nm", (7, 5), (3, 7), np.float16),
    "many": (product, "bmk,bkn->bmn", (4, 5, 7), (4, 7, 3), np.float32),
    "many of many": (product, "abmk,abkn->abmn", (2, 3, 5, 7), (2, 3, 7, 4), BF16),
    "many of one right": (product, "bmk,kn->bmn", (4, 5, 7), (7, 3), np.float32),
    "many of one left": (einsum("mk,bkn->bmn"), "mk,bkn->bmn", (5, 7), (4, 7, 3), np.float32),
    "many in the middle": (einsum("mbk,nbk->bmn"), "mbk,nbk->bmn", (5, 4, 7), (3, 4, 7), np.float32),
    "a row": (product, "mk,kn->mn", (1, 7), (7, 9), BF16),
    "a column": (product, "mk,kn->mn", (9, 7), (7, 1), np.float32),
    "a vector": (product, "mk,k->m", (9, 7), (7,), np.float32),
    "an element": (product, "mk,kn->mn", (1, 7), (7, 1), np.float64),
}


@pytest.fixture
def library(machine: cupy_stand_in.Machine, monkeypatch: pytest.MonkeyPatch) -> Cublas:
    made = Cublas(launches.driver())
    monkeypatch.setattr(cublas, "path", lambda: "libcublas.so")
    monkeypatch.setattr(cublas, "library", lambda: made)
    monkeypatch.setattr(cublas, "_IDLE", defaultdict(list))
    monkeypatch.setattr(cublas, "_SCRATCH", WeakValueDictionary())
    return made


def check(name: str, function: Any) -> None:
    _, subscripts, first, second, dtype = CASES[name]
    a, b = numbers(*first, dtype=dtype), numbers(*second, dtype=dtype)
    expected = np.einsum(subscripts, a.astype(np.float64), b.astype(np.float64))
    result = function(a, b)
    tolerance = {np.float32: 1e-5, np.float64: 1e-13, np.float16: 2e-3, BF16: 1e-2}[result.dtype.type]
    np.testing.assert_allclose(result.get().astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_products(name: str, library: Cublas) -> None:
    check(name, tenon.jit(CASES[name][0], device="cuda", schedule=STEPS))
    assert len(library.products) == 1


def options(function: Callable[..., Any], *arrays: Any) -> dict[str, Option]:
    """What there is for the only kernel of a function on an H100, by name."""
    (kernel,) = explain(tenon.jit(function).trace(*arrays).module, "cuda:sm_90a").kernels
    return {option.name: option for option in kernel.options}


def squares(size: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    return np.zeros((size, size), dtype), np.zeros((size, size), dtype)


FIRST, LAST = "library, where it is faster", "library"


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (squares(4096), None),
        (squares(1024), r"cuBLAS takes \d+ cycles by prediction, and the best of our tiles \d+"),
        ((np.zeros((4096, 16), np.float32), np.zeros((16, 4096), np.float32)), "cuBLAS takes .*"),
        (squares(4096, BF16), "cuBLAS is not known to be faster for bf16 on sm_90a"),
        (squares(4096, np.float64), "cuBLAS is not known to be faster for f64 on sm_90a"),
    ],
)
def test_it_is_chosen_where_it_is_known_to_be_faster(arrays: Any, why: str | None, library: Cublas) -> None:
    found = options(product, *arrays)
    assert (found[FIRST].obstacle is None) == found[FIRST].chosen == (why is None)
    if why is not None:
        assert re.fullmatch(why, found[FIRST].obstacle or "")
    assert found[LAST] == Option(LAST, None, False, (), ("library(cublas)",))
    with knobs.override(cublas=False):
        without = options(product, *arrays)
    assert re.search("not wanted", without[FIRST].obstacle or "")
    assert re.search("not installed", without[LAST].obstacle or "")
    assert [name for name, option in without.items() if option.chosen] != [FIRST]


def test_a_record_that_has_it_counts_where_it_is_there(library: Cublas, tmp_path: Path) -> None:
    a, b = numbers(64, 64, dtype=BF16), numbers(64, 64, dtype=BF16)
    (key,) = tune.plans_of(tenon.jit(product).trace(a, b).module, "cuda")
    decision = Decision("a product", gain=1.5, steps=("library(cublas)",))
    path = tmp_path / "record.json"
    path.write_text(TuningRecord({"sm_90a Stand-in 90": {key: decision}}).text())
    with knobs.override(tuning=path):
        (first, *_) = options(product, a, b).values()
        assert (first.chosen, first.steps) == (True, decision.steps)
        with knobs.override(cublas=False):
            assert not any(option.steps == decision.steps for option in options(product, a, b).values())


@pytest.mark.parametrize(
    ("function", "shape", "why"),
    [
        (lambda a, b: tenon.tanh(a @ b), (20, 20), "more is done to the sums than to round them"),
        (lambda a, b: a + b, (20, 20), "0 statements reduce and 1 do not, expected a product and what rounds it"),
        (lambda a, b: a.astype(np.int8) @ b.astype(np.int8), (20, 20), "no instruction adds products of i8 to i8"),
        (einsum("bmhd,bnhd->bhmn"), (2, 4, 3, 5), "rows, columns or products are not a constant distance apart"),
        (einsum("mk,nk->n"), (20, 20), "an axis is neither of rows, columns, products nor what is summed up"),
    ],
)
def test_what_is_no_product_alone(function: Any, shape: tuple[int, ...], why: str, library: Cublas) -> None:
    a, b = numbers(*shape), numbers(*shape)
    kernels = explain(tenon.jit(function).trace(a, b).module, "cuda:sm_90a").kernels
    assert why in [option.obstacle for kernel in kernels for option in kernel.options if option.name == LAST]


def test_other_steps_are_against_it(library: Cublas) -> None:
    for steps in (["library(cublas)", "bind(i, grid)"], ["bind(i, grid)", "library(cublas)"]):
        with pytest.raises(
            ValueError, match=r"a library runs no loops of a kernel, and other steps say how threads do"
        ):
            tenon.jit(product, device="cuda", schedule={"kernel_0": steps})(numbers(4, 4), numbers(4, 4))
    with pytest.raises(ValueError, match=r"there is no library mkl, only cublas"):
        tenon.jit(product, device="cuda", schedule={"kernel_0": ["library(mkl)"]})(numbers(4, 4), numbers(4, 4))


def test_nothing_is_compiled_that_needs_it(library: Cublas) -> None:
    files = build(tenon.jit(product).trace(*squares(4096)).module, "cuda:sm_90a")
    assert b"kernel_0" in files["main.sm_90a.cu"]


def there(*arrays: Any) -> list[Any]:
    """On the device; CuPy takes bf16 as views of integers."""
    as_array = import_module("cupy").asarray
    return [as_array(a.view(np.int16)).view(BF16) if a.dtype == BF16 else as_array(a) for a in arrays]


def check_repeated(first: tuple[int, ...], second: tuple[int, ...], dtype: Any, tolerance: float) -> None:
    """Compare (a b) b with NumPy: calls at the same addresses, of which later ones are a graph, and at others."""
    function = tenon.jit(lambda a, b: (a @ b) @ b, device="cuda", schedule=STEPS)
    out = there(np.zeros(first, dtype))[0]
    for _ in range(2):
        a, b = numbers(*first, dtype=dtype), numbers(*second, dtype=dtype) / np.asarray(second[-1] ** 0.5, dtype)
        expected = a.astype(np.float64) @ b.astype(np.float64) @ b.astype(np.float64)
        on_device = there(a, b)
        results = [function(*on_device) for _ in range(6)] + [function(*on_device, out=out) for _ in range(5)]
        found = [result.get() for result in results]
        np.testing.assert_allclose(found[0].astype(np.float64), expected, rtol=tolerance, atol=tolerance)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


def test_graphs_have_products(library: Cublas, machine: cupy_stand_in.Machine) -> None:
    check_repeated((6, 5), (5, 5), np.float32, 1e-4)
    assert machine.graph_launches >= 4
    assert {captured for _, captured, _ in library.memory} == {True, False}


@pytest.mark.gpu
def test_device_multiplies() -> None:
    assert cublas.path() is not None
    for name, (function, *_) in CASES.items():
        check(name, tenon.jit(function, device="cuda", schedule=STEPS))
    for dtype, tolerance in ((np.float32, 2e-4), (np.float64, 1e-12), (np.float16, 2e-2), (BF16, 1e-1)):
        check_repeated((300, 200), (200, 200), dtype, tolerance)
        check_repeated((3, 130, 72), (3, 72, 72), dtype, tolerance)


@pytest.mark.gpu
def test_device_multiplies_in_streams_threads_and_captures() -> None:
    cupy = import_module("cupy")
    a, b = there(numbers(2048, 512), numbers(512, 1024))
    function = tenon.jit(product, device="cuda", schedule=STEPS)
    expected = function(a, b).get()
    np.testing.assert_allclose(expected, a.get().astype(np.float64) @ b.get(), rtol=1e-4, atol=1e-3)
    results: list[Any] = []

    def calls() -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            captured = function(a, b)
            graph = stream.end_capture()
            for _ in range(20):
                results.append(function(a, b))
                graph.launch()
                results.append(captured)
            stream.synchronize()

    threads = [Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120
    for result in results:
        np.testing.assert_array_equal(result.get(), expected)


def test_streams_and_captures_have_memory_of_their_own(library: Cublas, machine: cupy_stand_in.Machine) -> None:
    """Programs of one stream share it, and so do the graphs that are made for that stream."""
    cupy = import_module("cupy")
    first, second = (tenon.jit(f, device="cuda", schedule=STEPS) for f in (product, lambda a, b: b @ a))
    a, b = there(numbers(5, 5), numbers(5, 5))
    streams = cupy.cuda.get_current_stream(), cupy.cuda.Stream(non_blocking=True)
    found: list[int] = []
    for stream in streams:
        with stream:
            machine.default[0].synchronize()
            for function in (first, second):
                function(a, b)
            last, before = library.memory[-1], library.memory[-2]
            assert last == before
            found.append(last[2])
    with streams[1] as stream:
        stream.begin_capture()
        result = first(a, b)
        graph = stream.end_capture()
        found.append(library.memory[-1][2])
        for _ in range(2):
            graph.launch()
            stream.synchronize()
            np.testing.assert_allclose(result.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)
        first(a, b)
        assert library.memory[-1][2] == found[1]
    assert len(set(found)) == 3


@pytest.mark.usefixtures("few_objects")
def test_products_of_one_capture_share_memory(library: Cublas, machine: cupy_stand_in.Machine) -> None:
    """Captures do not share any: their graphs may run at the same time. It goes with the programs."""
    first, second = (tenon.jit(f, device="cuda", schedule=STEPS) for f in (product, lambda a, b: b @ a))
    a, b = there(numbers(5, 5), numbers(5, 5))
    for function in (first, second):
        function(a, b)
        assert function.compile(a, b).memory().library == cublas.WORKSPACE
    assert "33554432 bytes, which programs of one stream share" in str(first.compile(a, b).memory())
    assert tenon.jit(product, device="cuda").compile(a, b).memory().library == 0
    found: list[set[int]] = []
    graph, results = None, list[Any]()
    for _ in range(2):
        with import_module("cupy").cuda.Stream(non_blocking=True) as stream:
            machine.default[0].synchronize()
            stream.begin_capture()
            results = [function(a, b) for function in (first, second, first)]
            graph = stream.end_capture()
            found.append({memory for _, is_captured, memory in library.memory[-3:] if is_captured})
            graph.launch()
            stream.synchronize()
            for result, (x, y) in zip(results, ((a, b), (b, a), (a, b)), strict=True):
                np.testing.assert_allclose(result.get(), x.get() @ y.get(), rtol=1e-4, atol=1e-4)
    assert [len(memory) for memory in found] == [1, 1]
    assert found[0] != found[1]
    held = len(cublas._SCRATCH)
    del first, second, function, graph, results
    executables._executables = BoundedCache(8)  # that of the fixture
    gc.collect()
    assert (held, len(cublas._SCRATCH)) == (3, 0)


def test_threads_have_handles_of_their_own(library: Cublas) -> None:
    a, b = numbers(5, 5), numbers(5, 5)
    function, barrier = tenon.jit(product, device="cuda", schedule=STEPS), Barrier(3)
    function(a, b)
    results: list[Any] = []

    def calls() -> None:
        barrier.wait()
        for _ in range(20):
            results.append(function(a, b))

    threads = [Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 60
    for result in results:
        np.testing.assert_allclose(result.get(), a @ b, rtol=1e-4, atol=1e-4)
    assert len(library.handles) <= 3


def test_programs_that_run_step_by_step(library: Cublas) -> None:
    def powers(a: Any, b: Any) -> Any:
        return tenon.while_loop(lambda c: tenon.max(c) < 100, lambda c: c @ b, a)

    a, b = np.eye(4, dtype=np.float32), numbers(4, 4) + 2
    expected = a
    while expected.max() < 100:
        expected = expected @ b
    module = tenon.jit(powers).trace(a, b).module
    (name,) = [one.kernel for one in explain(module, "cuda:sm_90a").kernels if one.options[-1].obstacle is None]
    function = tenon.jit(powers, device="cuda", schedule={name: STEPS["kernel_0"]})
    np.testing.assert_allclose(function(a, b).get(), expected, rtol=1e-4)
    assert len(library.products) > 1


@pytest.mark.parametrize("waits", [False, True])
def test_what_it_refuses_is_told(waits: bool, library: Cublas) -> None:
    with knobs.override(cuda_sync=waits):
        function = tenon.jit(product, device="cuda", schedule=STEPS)
        library.fails = 13
        with pytest.raises(
            LaunchError, match=r"product: kernel @kernel_0 \(by cuBLAS\): CUBLAS_STATUS_EXECUTION_FAILED; it computes"
        ):
            function(numbers(3, 4), numbers(4, 5))
        library.fails = 0
        check("f32", function)
