"""Kernels that are final are compiled without LLVM's passes, beside others that are not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest

import tenon
from tenon.lowering.emit_llvm import emit_llvm
from tenon.runtime import parallel_code
from tenon.runtime.device_cpu import entry_point, host_target, load_objects, native_assembly
from tenon.runtime.llvm_parts import divide, split
from tenon.runtime.parallel_code import compile_objects


def _mixed(x, y):
    # a contraction is final, a running sum is not
    return tenon.cumsum(x @ y, axis=1)


def _text() -> str:
    shape = tenon.ShapeDtype((24, 24), "f32")
    return emit_llvm(tenon.jit(_mixed).lower(shape, shape).module)


def test_each_function_is_defined_in_one_part_and_declared_where_it_is_called():
    changeable, final = split(_text())
    defined = [[line for line in part.splitlines() if line.startswith("define")] for part in (changeable, final)]
    assert [len(lines) for lines in defined] == [1, 2]
    assert all(line.endswith(" #0 {") for line in defined[0])
    assert all(line.endswith(" #1 {") for line in defined[1])
    assert "declare hidden void @kernel_1(" in final
    assert "@kernel_0" not in changeable


def test_one_kind_is_one_part():
    text = _text()
    assert split(text.replace(" #1 {", " #0 {"))[1] == ""
    assert split(text.replace(" #0 {", " #1 {"))[0] == ""


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
    changeable, final = split(text)
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


FINAL_KERNELS = """declare float @sqrtf(float)
define internal void @long(ptr %p, ptr %q) #1 {
  %v = load float, ptr %p
  %w = fadd float %v, 1.0
  %r = call float @sqrtf(float %w)
  store float %r, ptr %q
  ret void
}
define internal void @short(ptr %p) #1 {
  store float 3.0, ptr %p
  ret void
}
define void @main(ptr %args) #1 {
  %p = load ptr, ptr %args
  %s = getelementptr i8, ptr %args, i64 8
  %q = load ptr, ptr %s
  call void @short(ptr %p)
  call void @long(ptr %p, ptr %q)
  ret void
}
attributes #0 = { nounwind }
attributes #1 = { nounwind }
"""


def test_final_functions_are_divided_into_modules_of_equal_length():
    parts = divide(FINAL_KERNELS, 8)
    defined = [[line.split("@")[1].split("(")[0] for line in part.splitlines() if "define" in line] for part in parts]
    assert defined == [["main"], ["long", "short"]]
    assert "declare hidden void @short(ptr %p)" in parts[0]
    assert divide(FINAL_KERNELS, 1000) == [FINAL_KERNELS]


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_that_are_compiled_apart_run_as_one(threads):
    target = host_target()
    objects = compile_objects(FINAL_KERNELS, target, threads, lines=4)
    assert len(objects) == 3
    assert objects == compile_objects(FINAL_KERNELS, target, 2, lines=4)
    code = load_objects(objects, target)
    given, found = np.zeros(1, np.float32), np.zeros(1, np.float32)
    entry_point(code.entry())((ctypes.c_void_p * 2)(given.ctypes.data, found.ctypes.data))
    assert (given[0], found[0]) == (3, 2)


def test_what_llvm_says_of_any_part_is_raised():
    text = FINAL_KERNELS.replace("store float 3.0", "store float 3")
    for threads in (1, 2):
        with pytest.raises(ValueError, match=r"(?s)LLVM refused the IR.*integer constant"):
            compile_objects(text, host_target(), threads, lines=4)


def test_the_rest_is_compiled_beside_the_parts():
    text = FINAL_KERNELS.replace("@long(ptr %p, ptr %q) #1 {", "@long(ptr %p, ptr %q) #0 {")
    assert len(compile_objects(text, host_target(), 2, lines=4)) == 3


def test_what_cannot_be_started_is_done_by_the_caller(monkeypatch):
    """As in a thread that goes on after the main thread, or in an exit handler."""
    expected = compile_objects(FINAL_KERNELS, host_target(), 1, lines=4)

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert compile_objects(FINAL_KERNELS, host_target(), 3, lines=4) == expected


def test_programs_are_compiled_when_the_main_thread_has_ended():
    program = f"""
import threading
from tenon.runtime.device_cpu import host_target
from tenon.runtime.parallel_code import compile_objects
def late():
    threading.main_thread().join()
    print(len(compile_objects({FINAL_KERNELS!r}, host_target(), 2, lines=4)))
threading.Thread(target=late).start()
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("3\n", "")


def test_after_an_interrupt_no_more_is_compiled(monkeypatch):
    begun = []

    def interrupted(text, target):
        begun.append(text)
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_code, "_compiled", interrupted)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    monkeypatch.setattr(threading.Thread, "join", lambda thread: None)
    with pytest.raises(KeyboardInterrupt):
        compile_objects(FINAL_KERNELS, host_target(), 2, lines=4)
    assert len(begun) == 1
