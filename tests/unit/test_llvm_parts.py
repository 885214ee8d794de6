"""Kernels that are final are compiled without LLVM's passes, beside others that are not."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from loop_programs import parse

import tenon
from tenon.lowering.llvm.emit_llvm import ModuleEmitter, emit_llvm
from tenon.runtime.cpu import compile_parallel as parallel_code
from tenon.runtime.cpu.compile import host_target, native_assembly
from tenon.runtime.cpu.compile_parallel import ObjectCompiler, Workers
from tenon.runtime.cpu.llvm_parts import Passes, split
from tenon.runtime.cpu.load import entry_point
from tenon.runtime.cpu.program import load_program
from tenon.runtime.lower import lower_by_function, options


def _mixed(x, y):
    return tenon.cumsum(x @ y, axis=1)


def _text() -> str:
    # a contraction is final, a running product, which goes step by step, is not
    shape = tenon.ShapeDtype((24, 24), "f32")
    return emit_llvm(tenon.jit(lambda x, y: tenon.cumprod(x @ y, axis=1)).lower(shape, shape).module)


def test_each_function_is_defined_in_one_part_and_declared_where_it_is_called():
    parts = split(_text())
    changeable, final = parts.pop(Passes.ALL), parts.pop(Passes.NONE)
    assert not parts
    defined = [[line for line in part.splitlines() if line.startswith("define")] for part in (changeable, final)]
    assert [len(lines) for lines in defined] == [1, 2]
    assert all(line.endswith(" #0 {") for line in defined[0])
    assert all(line.endswith(" #1 {") for line in defined[1])
    assert "declare hidden void @kernel_1(" in final
    assert "@kernel_0" not in changeable


def test_one_kind_is_one_part():
    text = _text()
    for passes in Passes:
        alike = text.replace(" #1 {", " #0 {").replace(" #0 {", f" {passes.value} {{")
        assert split(alike) == {passes: alike}


def test_functions_stay_with_the_variables_that_they_read():
    text = """@table = internal constant [4 x i8] zeroinitializer
define internal void @reads(ptr %p) #1 {
  %v = load i8, ptr @table
  store i8 %v, ptr %p
  ret void
}
define internal void @apart(ptr %p) #1 {
  ret void
}
define void @main(ptr %p) #0 {
  call void @reads(ptr %p)
  call void @apart(ptr %p)
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { nounwind }
"""
    parts = split(text)
    changeable, final = parts[Passes.ALL], parts[Passes.NONE]
    assert "define hidden void @reads" in changeable
    assert "@table" not in final
    assert "@reads" not in final
    assembly = native_assembly(text, host_target())
    assert all(f"{name}:" in assembly for name in ("reads", "apart", "main"))


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_numbers_of_both_parts(bits):
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((24, 24), np.float32) for _ in range(2))
    with tenon.knobs.override(vector_bits=bits, cache=False):
        found = tenon.jit(_mixed)(x, y)
    np.testing.assert_allclose(found, np.cumsum(x @ y, axis=1), rtol=1e-4, atol=1e-4)


MANY = (24, 40)


def _several(x, y):
    """Kernels of both kinds, more than one of each."""
    for _ in range(3):
        x = tenon.cumsum(x @ y, axis=1) * 0.25
    return x


def _compiled(module, threads, lines=4):
    """The object codes of a module at the buffered stage, in parts of `lines` lines."""
    module = module.clone()
    target = host_target()
    functions = lower_by_function(module, "cpu", options("cpu"))
    emitter = ModuleEmitter(module, native_f16=target.native_f16, dots=options("cpu").machine.dots)
    with Workers(threads) as workers:
        compiler = ObjectCompiler(module, emitter, target, workers, lines)
        for function in functions:
            compiler.add(function)
        compiler.finish()
        return workers.results()


@pytest.fixture(scope="module")
def traced():
    shapes = tenon.ShapeDtype((MANY[0], MANY[1]), "f32"), tenon.ShapeDtype((MANY[1], MANY[1]), "f32")
    return tenon.jit(_several).trace(*shapes).module


@pytest.fixture(scope="module")
def objects(traced):
    return _compiled(traced, 1)


def test_parts_that_are_compiled_apart_run_as_one(objects):
    assert len(objects) == 4
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((rows, MANY[1]), np.float32) for rows in MANY)
    found, arena = np.zeros_like(x), np.zeros(1 << 20, np.uint8)
    arena = arena[-arena.ctypes.data % 64 :]
    code = load_program(objects, host_target())
    entry_point(code.entry())((ctypes.c_void_p * 4)(*[array.ctypes.data for array in (x, y, found, arena)]))
    expected = x.astype(np.float64)
    for _ in range(3):
        expected = np.cumsum(expected @ y, axis=1) * 0.25
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("threads", [2, 3])
def test_code_is_the_same_at_any_number_of_threads(traced, objects, threads):
    assert _compiled(traced, threads) == objects


@pytest.mark.parametrize("verify", [False, True])
def test_code_is_the_same_whether_or_not_it_is_verified(traced, objects, verify):
    """Verified, kernels are rewritten together; not verified, one by one, when what calls them is known."""
    with tenon.knobs.override(verify=verify):
        assert _compiled(traced, 2) == objects


def test_code_is_the_same_where_passes_are_watched(traced, objects, capsys):
    with tenon.knobs.override(debug=2):
        assert _compiled(traced, 2) == objects
    assert "mark-final: " in capsys.readouterr().err


def test_a_short_module_is_compiled_as_a_whole(traced):
    assert len(_compiled(traced, 2, lines=10**6)) == 1


VARIABLES = """
builtin.module {
  "memref.global"() <{sym_name = "table", sym_visibility = "private", type = memref<4xf32>, constant,
    initial_value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>}> : () -> ()
  func.func private @kernel_0(%x: memref<4xf32>, %y: memref<4xf32>) attributes {kernel} {
    %zero = arith.constant 0 : index
    %table = memref.get_global @table : memref<4xf32>
    %a = vector.load %table[%zero] : memref<4xf32>, vector<4xf32>
    %b = vector.load %x[%zero] : memref<4xf32>, vector<4xf32>
    %c = arith.addf %a, %b : vector<4xf32>
    vector.store %c, %y[%zero] : memref<4xf32>, vector<4xf32>
    func.return
  }
  func.func private @kernel_1(%x: memref<4xf32>) attributes {kernel} {
    %zero = arith.constant 0 : index
    %a = vector.load %x[%zero] : memref<4xf32>, vector<4xf32>
    %b = arith.addf %a, %a : vector<4xf32>
    vector.store %b, %x[%zero] : memref<4xf32>, vector<4xf32>
    func.return
  }
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) {
    func.call @kernel_0(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
    func.call @kernel_1(%y) : (memref<4xf32>) -> ()
    func.return
  }
}
"""


def test_functions_that_read_variables_are_compiled_where_these_are_defined():
    codes = _compiled(parse(VARIABLES), 2)
    assert len(codes) == 3
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    code = load_program(codes, host_target())
    entry_point(code.entry())((ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data))
    np.testing.assert_array_equal(y, [2, 6, 10, 14])


@pytest.mark.parametrize("threads", [1, 2])
def test_what_llvm_says_of_any_part_is_raised(traced, monkeypatch, threads):
    monkeypatch.setattr(parallel_code, "hidden", lambda text: text.replace("ret void", "ret i32"))
    with pytest.raises(ValueError, match="LLVM refused the IR"):
        _compiled(traced, threads)


def test_what_cannot_be_started_is_done_by_the_caller(traced, objects, monkeypatch):
    """As in a thread that goes on after the main thread, or in an exit handler."""

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert _compiled(traced, 3) == objects


def test_no_thread_is_left_by_an_interrupt_while_one_starts(monkeypatch):
    started = []

    def start(thread, known=threading.Thread.start):
        known(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        workers.begin(bytes)
    started[0].join(10)
    assert not started[0].is_alive()


def test_an_interrupt_of_the_end_leaves_the_switch_interval(monkeypatch):
    def interrupt(thread, timeout=None):
        raise KeyboardInterrupt

    usual = sys.getswitchinterval()
    monkeypatch.setattr(threading.Thread, "join", interrupt)
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        workers.begin(bytes)
    assert sys.getswitchinterval() == usual


def test_programs_are_compiled_when_the_main_thread_has_ended():
    program = """
import threading
import numpy as np
import tenon
from tenon.runtime.cpu import compile_parallel as parallel_code
parallel_code.ObjectCompiler.__init__.__defaults__ = (4,)
def late():
    threading.main_thread().join()
    with tenon.knobs.override(cache=False):
        print(tenon.jit(lambda x: tenon.cumsum(x @ x, axis=1))(np.ones((2, 2), np.float32)).sum())
threading.Thread(target=late).start()
"""
    environment = os.environ | {"TENON_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert (result.stdout, result.stderr) == ("12.0\n", "")


def test_after_an_interrupt_no_more_is_compiled(traced, monkeypatch):
    begun = []

    def interrupted(text, target, passes):
        begun.append(text)
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_code, "_compiled_part", interrupted)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    monkeypatch.setattr(threading.Thread, "join", lambda thread: None)
    interval = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt):
        _compiled(traced, 2)
    assert len(begun) == 1
    assert sys.getswitchinterval() == interval


def test_after_an_error_no_thread_is_left(traced):
    module = traced.clone()
    functions = lower_by_function(module, "cpu", options("cpu"))
    emitter = ModuleEmitter(module)

    def fail():
        with Workers(2) as workers:
            ObjectCompiler(module, emitter, host_target(), workers, lines=4).add(next(functions))
            assert any(thread.name == "tenon-compile" for thread in threading.enumerate())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(thread.name == "tenon-compile" for thread in threading.enumerate())
