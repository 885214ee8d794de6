"""Parallel loops on threads: the same bits at any number of them, and a pool that nothing upsets."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from loop_programs import aligned_arena, call, check_with_upstream, load, parse
from xdsl.dialects import scf

import tenon
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.lowering import pipeline
from tenon.lowering.loop_passes.cut_copies import Copies
from tenon.lowering.loop_passes.parallelize import ParallelizePass
from tenon.runtime.cpu import threads
from tenon.runtime.cpu.compile import host_target
from tenon.runtime.cpu.native_code import load_native
from tenon.runtime.cpu.thread_pool import PARALLEL_FOR, pool_source
from tenon.runtime.knobs import knobs

Array = np.ndarray[Any, Any]

COUNTS = (1, 2, 3, 5)
LARGEST_CORE = 8191


@dataclass(frozen=True)
class FineGrained(ParallelizePass):
    """Cuts every parallel loop that can be cut, into chunks that rarely divide it."""

    grain: int = 1
    chunks: int = 7


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parallel loops are cut however small they are."""
    monkeypatch.setitem(pipeline.PASSES, "parallelize", lambda: FineGrained)
    with knobs.override(cache=False):
        yield


@pytest.fixture(autouse=True)
def restored_count() -> Iterator[None]:
    with threads.num_threads(2):
        yield


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


MASKS = """
func.func @main(%x: memref<9xf32>, %y: memref<9xf32>, %o: memref<2x9xf32>, %arena: memref<0xi8>)
    attributes {num_inputs = 2 : i64, num_outputs = 1 : i64} {
  func.call @kernel_0(%x, %y, %o) : (memref<9xf32>, memref<9xf32>, memref<2x9xf32>) -> ()
  func.return
}
func.func private @kernel_0(%x: memref<9xf32>, %y: memref<9xf32>, %o: memref<2x9xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a = vector.load %x[%c0] : memref<9xf32>, vector<9xf32>
  %b = vector.load %y[%c0] : memref<9xf32>, vector<9xf32>
  %p = arith.cmpf olt, %a, %b : vector<9xf32>
  %q = arith.cmpf ogt, %a, %b : vector<9xf32>
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %r = arith.ori %p, %q : vector<9xi1>
    %c = arith.select %p, %a, %b : vector<9xi1>, vector<9xf32>
    %d = arith.select %q, %a, %c : vector<9xi1>, vector<9xf32>
    %e = arith.select %r, %d, %b : vector<9xi1>, vector<9xf32>
    vector.store %e, %o[%i, %c0] : memref<2x9xf32>, vector<9xf32>
    scf.reduce
  }) {threads} : (index, index, index) -> ()
  func.return
}
"""


def test_captured_masks_of_odd_lengths_do_not_overlap() -> None:
    x = np.array([1, 5, 1, 5, 1, 5, 1, 5, 1], np.float32)
    y, out = np.full(9, 3, np.float32), np.zeros((2, 9), np.float32)
    call(load(parse(MASKS)), [x, y, out, aligned_arena(0)])
    assert np.array_equal(out, [x, x])


COPY = """
func.func private @kernel_0(%x: memref<8xf32>, %o: memref<2x9xf32>) attributes {kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %copy = memref.alloc() : memref<8xf32>
    "scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %v = memref.load READ : memref<8xf32>
      memref.store %v, %copy[%j] : memref<8xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    "scf.parallel"(%c0, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%j: index):
      %w = memref.load %copy[%c1] : memref<8xf32>
      memref.store %w, WRITTEN
      scf.reduce
    }) : (index, index, index) -> ()
    %last = memref.load %copy[%c0] {beside} : memref<8xf32>
    memref.store %last, %o[%i, %c8] {beside} : memref<2x9xf32>
    memref.dealloc %copy : memref<8xf32>
    scf.reduce
  }) : (index, index, index) -> ()
  func.return
}
"""


def test_copies_are_made_again_where_no_order_is_lost() -> None:
    apart = COPY.replace("READ", "%x[%j]").replace("WRITTEN", "%o[%i, %j] : memref<2x9xf32>")
    assert copies_of(apart) is not None
    assert copies_of(apart.replace(" {beside}", "", 1)) is None, "the rest may need all of the loop"
    assert copies_of(apart.replace("%o[%i, %j] : memref<2x9xf32>", "%x[%j] : memref<8xf32>")) is None, "copies read it"
    assert copies_of(apart.replace("%copy[%j]", "%x[%j]")) is None, "no memory of its own"
    store = "memref.store %w, %o[%i, %j] : memref<2x9xf32>"
    both = apart.replace(store, f"{store}\n memref.store %w, %copy[%j] : memref<8xf32>")
    assert copies_of(both) is None, "a thread could not keep what changes"


def copies_of(text: str) -> Copies | None:
    return Copies.of(next(op for op in parse(text).walk() if isinstance(op, scf.ParallelOp)))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "matmul with edges": (lambda a, b: tenon.relu(a @ b), (floats(37, 29), floats(29, 83))),
    "matmul of few panels": (lambda a, b: a @ b, (floats(405, 60), floats(60, 250))),
    "matmul of few panels and columns beside them": (lambda a, b: a @ b, (floats(131, 70), floats(70, 128))),
    "a row times a matrix": (lambda a, b: a @ b, (floats(1, 1201) / 32, floats(1201, 800))),
    "few rows times a matrix, and more": (lambda a, b: tenon.relu(a @ b), (floats(4, 1201) / 32, floats(1201, 800))),
    "rows": (lambda x: tenon.softmax(x, axis=-1), (floats(33, 50),)),
    "columns": (lambda x: tenon.sum(x, axis=0), (floats(31, 900),)),
    "pointwise": (lambda x, y: tenon.exp(x * y) + x, (floats(1009), floats(1009))),
    "a scalar from around": (lambda x: x * tenon.sum(x), (floats(513),)),
    "batched matmul": (lambda a, b: a @ b, (floats(3, 5, 7), floats(3, 7, 6))),
    "a sum of all": (lambda x: tenon.sum(x * x), (floats(70, 90),)),
    "the largest of all": (lambda x: tenon.max(x), (floats(1003),)),
    "the smallest of whole numbers": (lambda x: tenon.min(x), (np.arange(900, 100, -1),)),
    "few columns": (lambda x: tenon.sum(x, axis=0), (floats(905, 5),)),
    "a product of vectors": (lambda x, y: x @ y, (floats(779), floats(779))),
    "whether any is": (lambda x: tenon.any(x > 2.9), (floats(700),)),
    "sorted rows": (lambda x: tenon.sort(x), (floats(9, 83),)),
    "selected columns": (lambda x: tenon.top_k(x, 3, axis=0)[1], (floats(83, 9),)),
    "gradient": (tenon.grad(lambda w, x: tenon.sum(tenon.tanh(x @ w))), (floats(21, 33), floats(45, 21))),
}


@pytest.mark.parametrize("rows", [1, 4])
def test_threads_share_the_rows_of_a_matrix(rows: int) -> None:
    """Where all columns are one strip."""
    function = tenon.jit(lambda a, b, c: tenon.relu(a @ b + c))
    a, b, c = floats(rows, 4100) / 64, floats(4100, 768), floats(768)
    compiled = function.compile(a, b, c)
    assert "{threads}" in str(compiled)
    expected = np.maximum(a.astype(np.float64) @ b + c, 0)
    np.testing.assert_allclose(compiled(a, b, c), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("cuts")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same_bits_at_any_count(name: str) -> None:
    function, arguments = PROGRAMS[name]
    compiled = tenon.jit(function).compile(*arguments)
    # what sorts rows shares them out itself
    assert "{threads}" in str(compiled) or "tenon_sort_" in str(compiled)
    results: list[Array] = []
    for count in COUNTS:
        threads.set_num_threads(count)
        results.append(compiled(*arguments))
    assert all(np.array_equal(results[0], result) for result in results[1:])
    with knobs.override(interpret=True):
        expected = tenon.jit(function)(*arguments)
    np.testing.assert_allclose(results[0], expected, rtol=2e-5, atol=1e-5)


def test_columns_that_fill_no_tile_are_launched_with_the_others() -> None:
    text = str(tenon.jit(lambda a, b: a @ b).compile(floats(128, 128), floats(128, 128)))
    assert (text.count("{threads}"), text.count("scf.index_switch")) == (1, 2)


@pytest.mark.usefixtures("cuts")
def test_chunks_follow_sizes_known_at_launch() -> None:
    def function(x: Any, w: Any) -> Any:
        return tenon.softmax(x @ w, axis=-1)

    jitted = tenon.jit(function, dynamic={"x": ("n", None)})
    w = floats(6, 19)
    for rows in (0, 1, 2, 7, 64, 129):
        x = floats(rows, 6)
        results = [run_with(count, jitted, x, w) for count in COUNTS]
        assert all(np.array_equal(results[0], result) for result in results[1:])
        scores = np.exp(x @ w - (x @ w).max(axis=1, keepdims=True, initial=-100))
        np.testing.assert_allclose(results[0], scores / scores.sum(axis=1, keepdims=True), rtol=1e-5)


def run_with(count: int, function: Callable[..., Any], *arguments: Any) -> Any:
    with threads.num_threads(count):
        return function(*arguments)


@pytest.mark.usefixtures("cuts")
@pytest.mark.parametrize("name", [name for name in PROGRAMS if "matmul" in name or name in ("rows", "columns")])
def test_the_interpreter_takes_the_chunked_form(name: str) -> None:
    function, arguments = PROGRAMS[name]
    lowered = tenon.jit(function).lower(*arguments)
    check_with_upstream(lowered.module)
    result = lowered.compile().run(arguments)[0]
    with knobs.override(interpret=True):
        expected = lowered.compile().run(arguments)[0]
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)


# --- what a chunk takes along ---------------------------------------------------------------------

EVERY_KIND_OF_VALUE = """
module {
  func.func @main(%x: memref<40x16xf32>, %o: memref<40x16xf32>, %n: memref<1xi64>, %arena: memref<0xi8>) {
    func.call @kernel_0(%x, %o, %n) : (memref<40x16xf32>, memref<40x16xf32>, memref<1xi64>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<40x16xf32>, %o: memref<40x16xf32>, %n: memref<1xi64>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c40 = arith.constant 40 : index
    %scratch = memref.alloca() : memref<16xf32>
    %number = memref.load %n[%c0] : memref<1xi64>
    %end = arith.index_cast %number : i64 to index
    %mask = vector.create_mask %end : vector<16xi1>
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %first = vector.load %x[%c0, %c0] : memref<40x16xf32>, vector<16xf32>
    %scalar = memref.load %x[%c0, %c3] : memref<40x16xf32>
    %is_small = arith.cmpf olt, %scalar, %scalar : f32
    %scaled = arith.addf %first, %first : vector<16xf32>
    vector.store %scaled, %scratch[%c0] : memref<16xf32>, vector<16xf32>
    "scf.parallel"(%c1, %c0, %c40, %c16, %c4, %c8) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
    ^bb0(%i: index, %j: index):
      %own = memref.alloca() : memref<16xf32>
      %next = arith.addi %i, %c4 : index
      %last = arith.minsi %next, %c40 : index
      scf.for %row = %i to %last step %c1 {
        %v = vector.maskedload %x[%row, %c0], %mask, %zero
          : memref<40x16xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
        %s = vector.load %scratch[%c0] : memref<16xf32>, vector<16xf32>
        %t = arith.addf %v, %s : vector<16xf32>
        %b = vector.broadcast %scalar : f32 to vector<16xf32>
        %u = arith.select %is_small, %b, %t : vector<16xf32>
        %w = arith.mulf %u, %first : vector<16xf32>
        vector.store %w, %own[%c0] : memref<16xf32>, vector<16xf32>
        %upper = arith.addi %j, %c8 : index
        scf.for %column = %j to %upper step %c1 {
          %e = memref.load %own[%column] : memref<16xf32>
          memref.store %e, %o[%row, %column] : memref<40x16xf32>
        }
      }
      scf.reduce
    }) {threads} : (index, index, index, index, index, index) -> ()
    func.return
  }
}
"""


def test_a_chunk_takes_along_values_of_every_kind() -> None:
    module = parse(EVERY_KIND_OF_VALUE)
    x, limit = floats(40, 16), np.array([11], np.int64)
    expected = (np.where(np.arange(16) < 11, x, 0) + 2 * x[0]) * x[0]
    expected[0] = 0
    interpreted = np.zeros_like(x)
    Interpreter().run(module, "main", [x, interpreted, limit, np.zeros(0, np.int8)])
    np.testing.assert_array_equal(interpreted, expected)
    code = load(module)
    for count in COUNTS:
        result = np.zeros_like(x)
        with threads.num_threads(count):
            call(code, [x, result, limit, aligned_arena(0)])
        np.testing.assert_array_equal(result, expected)


KEPT = """
module {
  func.func @main(%filled: memref<3x4xi64>, %o: memref<3x4xi64>, %arena: memref<0xi8>) {
    func.call @kernel_0(%filled, %o) : (memref<3x4xi64>, memref<3x4xi64>) -> ()
    func.return
  }
  func.func private @kernel_0(%filled: memref<3x4xi64>, %o: memref<3x4xi64>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %one = arith.constant 1 : i64
    "scf.parallel"(%c0, %c0, %c3, %c4, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
    ^bb0(%i: index, %j: index):
      %copy = memref.alloc() {kept} : memref<SIZExi64>
      scf.index_switch %i {kept}
      default {
        %number = arith.index_cast %i : index to i64
        memref.store %number, %copy[%c1] : memref<SIZExi64>
        memref.store %one, %filled[%i, %j] : memref<3x4xi64>
        scf.yield
      }
      %held = memref.load %copy[%c1] : memref<SIZExi64>
      memref.store %held, %o[%i, %j] : memref<3x4xi64>
      memref.dealloc %copy : memref<SIZExi64>
      scf.reduce
    }) {threads} : (index, index, index, index, index, index) -> ()
    func.return
  }
}
"""


@pytest.mark.parametrize("size", [8, 20_000])
def test_a_thread_fills_what_it_keeps_once_for_chunks_in_a_row(size: int) -> None:
    code, arena = load(parse(KEPT.replace("SIZE", str(size)))), aligned_arena(0)
    expected = np.repeat(np.arange(3), 4).reshape(3, 4)
    for launch in range(2000):
        filled, o = np.zeros((2, 3, 4), np.int64)
        count = COUNTS[launch // 100 % 4]
        threads.set_num_threads(count)
        call(code, [filled, o, arena])
        np.testing.assert_array_equal(o, expected)
        assert filled.any(axis=1).all()
        if count == 1:
            np.testing.assert_array_equal(filled, [[1, 0, 0, 0]] * 3)


# --- the pool -------------------------------------------------------------------------------------


def increments(chunks: int) -> str:
    """A program whose every chunk adds one to an element of its own."""
    return f"""
module {{
  func.func @main(%x: memref<{chunks}xi64>, %arena: memref<0xi8>) {{
    func.call @kernel_0(%x) : (memref<{chunks}xi64>) -> ()
    func.return
  }}
  func.func private @kernel_0(%x: memref<{chunks}xi64>) attributes {{kernel}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %end = arith.constant {chunks} : index
    %one = arith.constant 1 : i64
    "scf.parallel"(%c0, %end, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
    ^bb0(%i: index):
      "scf.parallel"(%c0, %c1, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%j: index):
        %before = memref.load %x[%i] : memref<{chunks}xi64>
        %after = arith.addi %before, %one : i64
        memref.store %after, %x[%i] : memref<{chunks}xi64>
        scf.reduce
      }}) {{threads}} : (index, index, index) -> ()
      scf.reduce
    }}) {{threads}} : (index, index, index) -> ()
    func.return
  }}
}}
"""


@pytest.fixture(scope="module")
def counter() -> Any:
    return load(parse(increments(13)))


def test_ten_thousand_launches_run_each_chunk_once(counter: Any) -> None:
    x, arena = np.zeros(13, np.int64), aligned_arena(0)
    for launch in range(10_000):
        if launch % 1000 == 0:
            threads.set_num_threads(COUNTS[launch // 1000 % 4])
        call(counter, [x, arena])
    assert (x == 10_000).all()


def test_launches_from_several_threads_while_the_count_changes(counter: Any) -> None:
    arrays = [np.zeros(13, np.int64) for _ in range(4)]

    def launches(x: Array) -> None:
        for _ in range(500):
            call(counter, [x, aligned_arena(0)])

    callers = [threading.Thread(target=launches, args=(x,)) for x in arrays]
    for caller in callers:
        caller.start()
    changes = 0
    while any(caller.is_alive() for caller in callers):
        threads.set_num_threads(COUNTS[changes % 4])
        changes += 1
    assert all((x == 500).all() for x in arrays)


def test_each_thread_begins_with_the_same_part_and_goes_on_with_those_of_others() -> None:
    launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(threads.pool_address())
    firsts: dict[int, int] = {}
    has_begun, has_others = threading.Event(), threading.Event()
    run: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def task(context: object, chunk: int) -> None:
        me = threading.get_native_id()
        if me not in firsts:
            firsts[me] = chunk
            if me == caller:
                has_begun.wait(20)
            else:
                has_begun.set()
                has_others.wait(20)
        run.append(chunk)
        if len(run) == 7:
            has_others.set()

    caller = threading.get_native_id()
    start_without_workers()
    threads.set_num_threads(2)
    for _ in range(3):
        for state in (firsts, run, has_begun, has_others):
            state.clear()
        launch(task, None, 8)
        assert firsts.pop(caller) == 0
        assert list(firsts.values()) == [4]
        assert run == [0, 1, 2, 3, 5, 6, 7, 4]


def test_workers_with_the_last_parts_leave_when_there_are_too_many() -> None:
    launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(threads.pool_address())
    firsts: dict[int, int] = {}
    begun = threading.Semaphore(0)
    have_begun = threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def task(context: object, chunk: int) -> None:
        if firsts.setdefault(threading.get_native_id(), chunk) == chunk:
            begun.release()
            have_begun.wait(20)

    def first_chunks(count: int) -> list[int]:
        """Those that so many threads begin with, when each of them takes part."""
        firsts.clear()
        have_begun.clear()
        caller = threading.Thread(target=launch, args=(task, None, 12))
        caller.start()
        for _ in range(count):
            assert begun.acquire(timeout=20)
        have_begun.set()
        caller.join()
        return sorted(firsts.values())

    start_without_workers()
    for _ in range(8):
        threads.set_num_threads(3)
        assert first_chunks(3) == [0, 4, 8]
        threads.set_num_threads(2)
        wait_for_workers(1)
        assert first_chunks(2) == [0, 6]


def test_workers_start_with_the_first_launch_and_leave_when_there_are_too_many(counter: Any) -> None:
    start_without_workers()
    threads.set_num_threads(4)
    assert threads.worker_count() == 0
    call(counter, [np.zeros(13, np.int64), aligned_arena(0)])
    assert threads.worker_count() == 3
    threads.set_num_threads(2)
    wait_for_workers(1)


def test_workers_flush_subnormal_numbers_as_the_thread_that_calls_does() -> None:
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    launch = ctypes.CFUNCTYPE(None, task, ctypes.c_void_p, ctypes.c_int64)(threads.pool_address())
    tiny, rounded = np.full(4, 1e-30, np.float32), np.ones(1, np.float32)
    found: list[tuple[bool, list[Array]]] = []

    def launches() -> None:
        for flushes in (True, False, True):
            both, products = threading.Barrier(2, timeout=60), [rounded, rounded]

            def chunk(_: object, number: int, both: Any = both, products: list[Array] = products) -> None:
                both.wait()  # so each thread has one
                products[number] = tiny * np.float32(1e-10)

            assert tenon.set_flush_denormal(flushes)
            launch(task(chunk), None, 2)
            tenon.set_flush_denormal(False)
            found.append((flushes, products))

    caller = threading.Thread(target=launches)  # whose way to compute ends with it
    caller.start()
    caller.join()
    assert len(found) == 3
    for flushes, products in found:
        for product in products:
            assert (product.view(np.uint32) == 0).all() == flushes


def test_products_that_are_subnormal_are_flushed_where_it_is_asked_for() -> None:
    x = np.concatenate([np.full(1 << 18, 1e-30, np.float32), np.ones(1 << 18, np.float32)])
    function = tenon.jit(lambda x: x * 1e-10)
    kept = function(x)
    found: list[Any] = []
    caller = threading.Thread(target=lambda: found.extend([tenon.set_flush_denormal(True), function(x)]))
    caller.start()
    caller.join()
    assert found[0]
    assert np.count_nonzero(kept.view(np.uint32)) == 1 << 19
    np.testing.assert_array_equal(found[1][: 1 << 18].view(np.uint32), 0)
    np.testing.assert_array_equal(found[1][1 << 18 :], kept[1 << 18 :])
    np.testing.assert_array_equal(function(x).view(np.uint32), kept.view(np.uint32))


def start_without_workers() -> None:
    threads.set_num_threads(1)
    wait_for_workers(0)


def wait_for_workers(count: int) -> None:
    end = time.monotonic() + 20
    while threads.worker_count() != count and time.monotonic() < end:
        time.sleep(0.001)
    assert threads.worker_count() == count


IN_ANOTHER_PROCESS = """
import os, sys
import numpy as np
import tenon
from tenon.runtime.cpu import threads

x = np.arange(600 * 600, dtype=np.float32).reshape(600, 600)
function = tenon.jit(lambda x: tenon.exp(tenon.sin(x)) * x)
expected = function(x)
assert tenon.get_num_threads() == 3 and threads.worker_count() == 2
child = os.fork()
if child == 0:
    # after a fork there is one thread; the pool starts others
    before = threads.worker_count()
    same = np.array_equal(function(x), expected)
    os._exit(0 if same and before == 0 and threads.worker_count() == 2 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal(function(x), expected)
print("done")
"""


@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "PyOS_AfterFork_Child"), reason="there is no fork")
def test_a_forked_process_and_the_end_of_a_process() -> None:
    settings = {"TENON_NUM_THREADS": "3", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    import os

    command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    result = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


MOVED = """
define i32 @moved(i32 %of.caller) {
  %here = call i32 @current_core()
  %is.here = icmp eq i32 %of.caller, -1
  %core = select i1 %is.here, i32 %here, i32 %of.caller
  store i32 %core, ptr @core, align 4
  call void @leave_core_of_caller()
  %there = call i32 @current_core()
  %same = icmp eq i32 %here, %there
  %number = select i1 %same, i32 0, i32 1
  ret i32 %number
}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the core is left on Linux only")
def test_a_worker_leaves_the_core_of_its_caller_and_keeps_its_affinity() -> None:
    code = load_native("threads that are moved", lambda triple: pool_source(triple) + MOVED, ("moved", PARALLEL_FOR))
    moved = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(code.entry("moved"))
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        assert sum(moved(-1) for _ in range(20)) >= 15, "the scheduler may move the thread back at times"
    assert sum(moved(LARGEST_CORE) for _ in range(20)) <= 5
    assert os.sched_getaffinity(0) == allowed
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert not any(moved(-1) for _ in range(20))
        assert os.sched_getaffinity(0) == {min(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("cuts")
def test_object_code_comes_with_the_pool() -> None:
    from tenon.runtime.build import build

    products = build(tenon.jit(tenon.exp).trace(floats(300)).module, "cpu")
    assert PARALLEL_FOR.encode() in products["main.o"]
    assert b"tenon_set_threads" in products["threads.o"]


def test_object_code_comes_with_sorters() -> None:
    from tenon.runtime.build import build

    products = build(tenon.jit(tenon.sort).trace(floats(300)).module, "cpu")
    if "32" in host_target().packs:
        assert b"tenon_sort_32" in products["main.o"]
        assert {"tenon_sort_32.o", "threads.o"} < products.keys()
    else:
        assert not any("sort" in name for name in products)


# --- settings -------------------------------------------------------------------------------------


def test_the_count_is_set_for_a_block_and_for_the_process() -> None:
    with tenon.num_threads(3):
        assert tenon.get_num_threads() == 3
        tenon.set_num_threads(4)
        assert tenon.get_num_threads() == 4
    assert tenon.get_num_threads() == 2


def test_the_count_comes_from_the_environment_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_chosen", None)
    monkeypatch.setenv("TENON_NUM_THREADS", "7")
    assert tenon.get_num_threads() == 7
    monkeypatch.delenv("TENON_NUM_THREADS")
    assert tenon.get_num_threads() == threads.available_processors() >= 1


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_counts_out_of_range(count: int) -> None:
    with pytest.raises(ValueError, match=f"the number of threads is {count}, expected one from 1 to 1024"):
        tenon.set_num_threads(count)


@pytest.mark.parametrize("count", [2.0, "2", True, None])
def test_counts_that_are_no_integers(count: Any) -> None:
    with pytest.raises(TypeError, match="set_num_threads takes an integer, got"):
        tenon.set_num_threads(count)


@pytest.mark.parametrize(
    ("options", "values"), [({"grain": 0}, "0, chunks is 64"), ({"chunks": 1}, "10000, chunks is 1")]
)
def test_options_of_the_pass(options: dict[str, int], values: str) -> None:
    from xdsl.context import Context

    with pytest.raises(ValueError, match=f"parallelize: grain is {values}, expected at least 1 and 2"):
        ParallelizePass(**options).apply(Context(), parse("module {}"))
