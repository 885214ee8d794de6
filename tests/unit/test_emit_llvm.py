"""Loop-stage modules compiled for the CPU: loops, control flow, memory, errors, object code."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import numpy as np
import pytest
from loop_programs import (
    aligned_arena,
    call,
    check_with_upstream,
    elementwise_module,
    load,
    parse,
    run,
)
from random_numbers import generator
from xdsl.dialects.builtin import VectorType, f32
from xdsl.utils.exceptions import VerifyException

from tenon.lowering.llvm.emit_llvm import emit_llvm
from tenon.lowering.llvm.types import llvm_type
from tenon.runtime.cpu.compile import compile_object, host_target, native_assembly
from tenon.runtime.cpu.load import load_objects

RANDOM = generator()


# -- loops ------------------------------------------------------------------------------------------------------------

VECTOR_LOOP = """
module {
  func.func @main(%x: memref<37xf32>, %y: memref<37xf32>, %out: memref<37xf32>, %arena: memref<256xi8>) {
    %offset = arith.constant 64 : index
    %t = memref.view %arena[%offset][] : memref<256xi8> to memref<37xf32>
    func.call @kernel_0(%x, %y, %t) : (memref<37xf32>, memref<37xf32>, memref<37xf32>) -> ()
    func.call @kernel_0(%t, %y, %out) : (memref<37xf32>, memref<37xf32>, memref<37xf32>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<37xf32>, %y: memref<37xf32>, %out: memref<37xf32>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c37 = arith.constant 37 : index
    %half = arith.constant 0.5 : f32
    %halves = vector.broadcast %half : f32 to vector<16xf32>
    scf.for %i = %c0 to %c32 step %c16 {
      %a = vector.load %x[%i] : memref<37xf32>, vector<16xf32>
      %b = vector.load %y[%i] : memref<37xf32>, vector<16xf32>
      %s = arith.addf %a, %b : vector<16xf32>
      %h = arith.mulf %s, %halves : vector<16xf32>
      vector.store %h, %out[%i] : memref<37xf32>, vector<16xf32>
    }
    "scf.parallel"(%c32, %c37, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^body(%i: index):
      %a = memref.load %x[%i] : memref<37xf32>
      %b = memref.load %y[%i] : memref<37xf32>
      %s = arith.addf %a, %b : f32
      %h = arith.mulf %s, %half : f32
      memref.store %h, %out[%i] : memref<37xf32>
      scf.reduce
    }) : (index, index, index) -> ()
    func.return
  }
}
"""


@pytest.mark.parametrize("optimization", [0, 1, 2, 3])
def test_vector_loop_with_remainder_through_the_arena(optimization):
    x, y, out = RANDOM.random(37, np.float32), RANDOM.random(37, np.float32), np.zeros(37, np.float32)
    run(VECTOR_LOOP, x, y, out, aligned_arena(256), optimization=optimization)
    np.testing.assert_array_equal(out, ((x + y) * np.float32(0.5) + y) * np.float32(0.5))


MATMUL = """
module {
  func.func @main(%a: memref<5x7xf64>, %b: memref<7x9xf64>, %out: memref<5x9xf64>, %arena: memref<0xi8>) {
    func.call @kernel_0(%a, %b, %out) : (memref<5x7xf64>, memref<7x9xf64>, memref<5x9xf64>) -> ()
    func.return
  }
  func.func private @kernel_0(%a: memref<5x7xf64>, %b: memref<7x9xf64>, %out: memref<5x9xf64>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = arith.constant 5 : index
    %k = arith.constant 7 : index
    %n = arith.constant 9 : index
    %zero = arith.constant 0.0 : f64
    "scf.parallel"(%c0, %c0, %m, %n, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
    ^body(%i: index, %j: index):
      %dot = scf.for %l = %c0 to %k step %c1 iter_args(%sum = %zero) -> (f64) {
        %x = memref.load %a[%i, %l] : memref<5x7xf64>
        %y = memref.load %b[%l, %j] : memref<7x9xf64>
        %next = math.fma %x, %y, %sum : f64
        scf.yield %next : f64
      }
      memref.store %dot, %out[%i, %j] : memref<5x9xf64>
      scf.reduce
    }) : (index, index, index, index, index, index) -> ()
    func.return
  }
}
"""


def test_matmul():
    a, b, out = RANDOM.random((5, 7)), RANDOM.random((7, 9)), np.zeros((5, 9))
    run(MATMUL, a, b, out, aligned_arena(0))
    np.testing.assert_allclose(out, a @ b, rtol=1e-14)


DYNAMIC_BOUNDS = """
module {
  func.func @main(%n: memref<1xi64>, %out: memref<4xi64>, %arena: memref<0xi8>) {
    func.call @kernel_0(%n, %out) : (memref<1xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @kernel_0(%n: memref<1xi64>, %out: memref<4xi64>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %limit = memref.load %n[%c0] : memref<1xi64>
    %end = arith.index_cast %limit : i64 to index
    %sum, %count = scf.for %i = %c0 to %end step %c3 iter_args(%s = %zero, %c = %zero) -> (i64, i64) {
      %j = arith.index_cast %i : index to i64
      %inner = scf.for %k = %i to %end step %c1 iter_args(%t = %zero) -> (i64) {
        %u = arith.addi %t, %one : i64
        scf.yield %u : i64
      }
      %s2 = arith.addi %s, %j : i64
      %c2_ = arith.addi %c, %inner : i64
      scf.yield %s2, %c2_ : i64, i64
    }
    memref.store %sum, %out[%c0] : memref<4xi64>
    memref.store %count, %out[%c1] : memref<4xi64>
    %product = "scf.parallel"(%c1, %end, %c1, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}> ({
    ^body(%i: index):
      %j = arith.index_cast %i : index to i64
      "scf.reduce"(%j) ({
      ^combine(%lhs: i64, %rhs: i64):
        %p = arith.muli %lhs, %rhs : i64
        "scf.reduce.return"(%p) : (i64) -> ()
      }) : (i64) -> ()
    }) : (index, index, index, i64) -> i64
    memref.store %product, %out[%c2] : memref<4xi64>
    %once = scf.for %i = %c2 to %c3 step %c1 iter_args(%t = %zero) -> (i64) {
      %j = arith.index_cast %i : index to i64
      scf.yield %j : i64
    }
    %never = scf.for %i = %c3 to %c2 step %c1 iter_args(%t = %once) -> (i64) {
      scf.yield %zero : i64
    }
    memref.store %never, %out[%c3] : memref<4xi64>
    func.return
  }
}
"""


@pytest.mark.parametrize("n", [0, 1, 7, 10])
def test_loops_with_bounds_known_at_run_time(n):
    out = np.full(4, -1)
    run(DYNAMIC_BOUNDS, np.array([n]), out, aligned_arena(0))
    steps = range(0, n, 3)
    assert out.tolist() == [sum(steps), sum(n - i for i in steps), np.prod(range(1, n), dtype=int), 2]


KNOWN_TRIPS = """
func.func @main(%n: memref<1xi64>, %out: memref<5xi64>, %arena: memref<0xi8>) {{
  %c0 = arith.constant 0 : index
  %distance = arith.constant {distance} : index
  %step = arith.constant {step} : index
  %zero = arith.constant 0 : i64
  %given = memref.load %n[%c0] : memref<1xi64>
  %start = arith.index_cast %given : i64 to index
  %end = arith.addi {sum} : index
  %sum = scf.for %i = %start to %end step %step iter_args(%s = %zero) -> (i64) {{
    %j = arith.index_cast %i : index to i64
    %t = arith.addi %s, %j : i64
    scf.yield %t : i64
  }}
  memref.store %sum, %out[%c0] : memref<5xi64>
  "scf.parallel"(%start, %end, %step) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
  ^body(%i: index):
    %j = arith.index_cast %i : index to i64
    memref.store %j, %out[%i] : memref<5xi64>
    "scf.reduce"() : () -> ()
  }}) : (index, index, index) -> ()
  func.return
}}
"""


@pytest.mark.parametrize("sum_", ["%start, %distance", "%distance, %start"])
@pytest.mark.parametrize(("distance", "step", "branches"), [(3, 1, 2), (3, 2, 2), (3, 3, 0), (3, 4, 0), (0, 1, 0)])
def test_loops_that_go_on_for_a_number_from_anywhere(distance, step, branches, sum_):
    text = KNOWN_TRIPS.format(distance=distance, step=step, sum=sum_)
    out = np.full(5, -1)
    run(text, np.array([2]), out, aligned_arena(0))
    places = range(2, 2 + distance, step)
    assert out.tolist() == [sum(places), *[i if i in places else -1 for i in range(1, 5)]]
    # neither a guard in front of a loop nor a loop that runs once
    assert emit_llvm(parse(text)).count("br i1") == branches


CONTROL_FLOW_IN_MAIN = """
module {
  func.func @main(%n: memref<i64>, %x: memref<4xf32>, %out: memref<4xf32>, %steps: memref<i64>, %arena: memref<0xi8>) {
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %limit = memref.load %n[] : memref<i64>
    "memref.copy"(%x, %out) : (memref<4xf32>, memref<4xf32>) -> ()
    %count = scf.while (%i = %zero) : (i64) -> i64 {
      %more = arith.cmpi slt, %i, %limit : i64
      scf.condition(%more) %i : i64
    } do {
    ^body(%i: i64):
      func.call @kernel_0(%out) : (memref<4xf32>) -> ()
      %next = arith.addi %i, %one : i64
      scf.yield %next : i64
    }
    %odd = arith.andi %count, %one : i64
    %is_odd = arith.cmpi eq, %odd, %one : i64
    %chosen = scf.if %is_odd -> (i64) {
      func.call @kernel_0(%out) : (memref<4xf32>) -> ()
      %more = arith.addi %count, %one : i64
      scf.yield %more : i64
    } else {
      scf.yield %count : i64
    }
    %which = arith.index_cast %chosen : i64 to index
    %label = "scf.index_switch"(%which) <{cases = array<i64: 2, 4>}> ({
      scf.yield %chosen : i64
    }, {
      %two = arith.constant 200 : i64
      scf.yield %two : i64
    }, {
      %four = arith.constant 400 : i64
      scf.yield %four : i64
    }) : (index) -> i64
    memref.store %label, %steps[] : memref<i64>
    scf.if %is_odd {
      func.call @kernel_0(%out) : (memref<4xf32>) -> ()
    }
    func.return
  }
  func.func private @kernel_0(%x: memref<4xf32>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c0 to %c4 step %c1 {
      %v = memref.load %x[%i] : memref<4xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %x[%i] : memref<4xf32>
    }
    func.return
  }
}
"""


@pytest.mark.parametrize(("n", "doublings", "label"), [(0, 0, 0), (1, 3, 200), (3, 5, 400), (6, 6, 6)])
def test_while_if_and_switch_in_main(n, doublings, label):
    x, out, steps = RANDOM.random(4, np.float32), np.zeros(4, np.float32), np.array(-1)
    run(CONTROL_FLOW_IN_MAIN, np.array(n), x, out, steps, aligned_arena(0))
    np.testing.assert_array_equal(out, x * np.float32(2**doublings))
    assert steps == label


# -- memory -----------------------------------------------------------------------------------------------------------

MEMORY = """
module {
  "memref.global"() <{sym_name = "constant_0", sym_visibility = "private", type = memref<2x3xf32>, constant,
    initial_value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>}> : () -> ()
  "memref.global"() <{sym_name = "constant_1", sym_visibility = "private", type = memref<3xi1>, constant,
    initial_value = dense<[true, false, true]> : tensor<3xi1>}> : () -> ()
  "memref.global"() <{sym_name = "constant_2", sym_visibility = "private", type = memref<6xf32>, constant,
    initial_value = dense<0.5> : tensor<6xf32>}> : () -> ()
  func.func @main(%x: memref<2x3xf32>, %row: memref<1xi64>, %flat: memref<6xf32>, %t: memref<3x2xf32>,
                  %mask: memref<3xi1>, %out_row: memref<3xf32>, %arena: memref<0xi8>) {
    %c0 = arith.constant 0 : index
    %g = memref.get_global @constant_0 : memref<2x3xf32>
    %m = memref.get_global @constant_1 : memref<3xi1>
    %halves = memref.get_global @constant_2 : memref<6xf32>
    %xf = memref.reinterpret_cast %x to offset: [0], sizes: [6], strides: [1] : memref<2x3xf32> to memref<6xf32>
    %gf = memref.collapse_shape %g [[0, 1]] : memref<2x3xf32> into memref<6xf32>
    func.call @kernel_0(%xf, %gf, %halves, %flat) : (memref<6xf32>, memref<6xf32>, memref<6xf32>, memref<6xf32>) -> ()
    "memref.copy"(%m, %mask) : (memref<3xi1>, memref<3xi1>) -> ()
    %turned = memref.reinterpret_cast %x to offset: [0], sizes: [3, 2], strides: [1, 3]
      : memref<2x3xf32> to memref<3x2xf32, strided<[1, 3]>>
    "memref.copy"(%turned, %t) : (memref<3x2xf32, strided<[1, 3]>>, memref<3x2xf32>) -> ()
    %r = memref.load %row[%c0] : memref<1xi64>
    %ri = arith.index_cast %r : i64 to index
    %slice = memref.subview %x[%ri, 0] [1, 3] [1, 1] : memref<2x3xf32> to memref<1x3xf32, strided<[3, 1], offset: ?>>
    %dst = memref.reinterpret_cast %out_row to offset: [0], sizes: [1, 3], strides: [3, 1]
      : memref<3xf32> to memref<1x3xf32>
    "memref.copy"(%slice, %dst) : (memref<1x3xf32, strided<[3, 1], offset: ?>>, memref<1x3xf32>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<6xf32>, %y: memref<6xf32>, %z: memref<6xf32>, %out: memref<6xf32>)
      attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %stack = memref.alloca() : memref<6xf32>
    %heap = memref.alloc() : memref<40000xf32>
    scf.for %i = %c0 to %c6 step %c1 {
      %a = memref.load %x[%i] : memref<6xf32>
      %b = memref.load %y[%i] : memref<6xf32>
      %c = arith.mulf %a, %b : f32
      memref.store %c, %stack[%i] : memref<6xf32>
      memref.store %b, %heap[%i] : memref<40000xf32>
    }
    scf.for %i = %c0 to %c6 step %c1 {
      %a = memref.load %stack[%i] : memref<6xf32>
      %b = memref.load %heap[%i] : memref<40000xf32>
      %z_i = memref.load %z[%i] : memref<6xf32>
      %c = arith.addf %a, %b : f32
      %d = arith.addf %c, %z_i : f32
      memref.store %d, %out[%i] : memref<6xf32>
    }
    memref.dealloc %heap : memref<40000xf32>
    func.return
  }
}
"""


@pytest.mark.parametrize("row", [0, 1])
def test_globals_views_copies_stack_and_heap(row):
    x = RANDOM.random((2, 3), np.float32)
    flat, turned = np.zeros(6, np.float32), np.zeros((3, 2), np.float32)
    mask, out_row = np.zeros(3, bool), np.zeros(3, np.float32)
    run(MEMORY, x, np.array([row]), flat, turned, mask, out_row, aligned_arena(0))
    constant = np.arange(1, 7, dtype=np.float32)
    np.testing.assert_array_equal(flat, x.ravel() * constant + constant + np.float32(0.5))
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(mask, [True, False, True])
    np.testing.assert_array_equal(out_row, x[row])


ADDRESSES = """
module {
  func.func @main(%n: memref<1xi64>, %x: memref<4x5xf32>, %out: memref<4x5xf32>, %arena: memref<0xi8>) {
    func.call @kernel_0(%n, %x, %out) : (memref<1xi64>, memref<4x5xf32>, memref<4x5xf32>) -> ()
    func.return
  }
  func.func private @kernel_0(%n: memref<1xi64>, %x: memref<4x5xf32>, %out: memref<4x5xf32>) attributes {kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %two = arith.constant 2 : i64
    %limit = memref.load %n[%c0] : memref<1xi64>
    %i = arith.index_cast %limit : i64 to index
    %small = arith.cmpi slt, %limit, %two : i64
    scf.if %small {
      %v = memref.load %x[%i, %c1] : memref<4x5xf32>
      memref.store %v, %out[%i, %c1] : memref<4x5xf32>
    }
    scf.for %j = %c0 to %i step %c1 {
      %v = memref.load %x[%i, %c2] : memref<4x5xf32>
      memref.store %v, %out[%i, %c2] : memref<4x5xf32>
    }
    %v = memref.load %x[%i, %c1] : memref<4x5xf32>
    %w = memref.load %x[%i, %c2] : memref<4x5xf32>
    %sum = arith.addf %v, %w : f32
    memref.store %sum, %out[%i, %c0] : memref<4x5xf32>
    func.return
  }
}
"""


@pytest.mark.parametrize("row", [0, 1, 3])
def test_addresses_computed_in_a_branch_are_computed_again_after_it(row):
    x, out = RANDOM.random((4, 5), np.float32), np.zeros((4, 5), np.float32)
    run(ADDRESSES, np.array([row]), x, out, aligned_arena(0))
    expected = np.zeros((4, 5), np.float32)
    expected[row, :3] = [x[row, 1] + x[row, 2], x[row, 1] * (row < 2), x[row, 2] * (row > 0)]
    np.testing.assert_array_equal(out, expected)


def test_pointer_facts_follow_the_calls():
    """An argument keeps `noalias` unless a call passes overlapping memory; alignment is that of the weakest call."""
    text = emit_llvm(parse(VECTOR_LOOP))
    assert "@kernel_0(ptr noalias align 4 dereferenceable(148) %a0" in text
    in_place = VECTOR_LOOP.replace("@kernel_0(%t, %y, %out)", "@kernel_0(%out, %y, %out)")
    header = next(line for line in emit_llvm(parse(in_place)).splitlines() if line.startswith("define internal"))
    assert [part.split()[1] for part in header.split("(", 1)[1].split(",")] == ["align", "noalias", "align"]
    overlapping = VECTOR_LOOP.replace(
        "%t = memref",
        "%o = arith.constant 128 : index\n%u = memref.view %arena[%o][] : memref<256xi8> to memref<16xf32>\n"
        "%t = memref",
    )
    assert "ptr noalias align 4" in emit_llvm(parse(overlapping))


def test_inputs_that_are_one_and_the_same_are_only_read():
    text = """
module {
  func.func @main(%x: memref<4xf32>, %out: memref<4xf32>, %arena: memref<64xi8>)
      attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
    func.call @kernel_0(%x, %x, %out) : (memref<4xf32>, memref<4xf32>, memref<4xf32>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<4xf32>, %y: memref<4xf32>, %out: memref<4xf32>)
      attributes {kernel, num_inputs = INPUTS : i64} {
    func.return
  }
}
"""
    assert emit_llvm(parse(text.replace("INPUTS", "2"))).count("ptr noalias align") == 3
    assert emit_llvm(parse(text.replace("INPUTS", "0"))).count("ptr noalias align") == 1


IN_PLACE = """
module {
  func.func @main(%x: memref<8x8xf32>, %o: memref<8x8xf32>, %arena: memref<512xi8>)
      attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %y = memref.view %arena[%c0][] : memref<512xi8> to memref<8x8xf32>
    %p = memref.view %arena[%START][] : memref<512xi8> to memref<8x8xf32>
    func.call @kernel_0(%x, %y, %o, %p) : (memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<8x8xf32>, %y: memref<8x8xf32>, %o: memref<8x8xf32>, %p: memref<8x8xf32>)
      attributes {kernel, num_inputs = 2 : i64} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %xs = memref.collapse_shape %x [[0 : i64, 1 : i64]] : memref<8x8xf32> into memref<64xf32>
    %ys = memref.collapse_shape %y [[0 : i64, 1 : i64]] : memref<8x8xf32> into memref<64xf32>
    %os = memref.collapse_shape %o [[0 : i64, 1 : i64]] : memref<8x8xf32> into memref<64xf32>
    %ps = memref.collapse_shape %p [[0 : i64, 1 : i64]] : memref<8x8xf32> into memref<64xf32>
    "scf.parallel"(%c0, %c64, %c8) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      %u = memref.load %xs[%i] : memref<64xf32>
      %v = memref.load %ys[%i] : memref<64xf32>
      memref.store %u, %os[%i] : memref<64xf32>
      memref.store %v, %ps[%i] : memref<64xf32>
      scf.reduce
    }) {threads} : (index, index, index) -> ()
    func.return
  }
}
"""


@pytest.mark.parametrize(
    ("start", "known"), [("c0", ["noalias"] * 3), ("c64", ["noalias", "align", "noalias", "align"])], ids=["one", "two"]
)
def test_a_chunk_knows_what_its_kernel_knows_of_pointers(start, known):
    """One argument is computed in place, and is one pointer then, or over a part of another one: the others stay apart
    from these, and from each other."""
    text = emit_llvm(parse(IN_PLACE.replace("START", start)))
    header = next(line for line in text.splitlines() if "_chunk" in line and "define" in line)
    assert [part.split()[1] for part in header.split("(", 1)[1].split(",") if " ptr " in f" {part}"] == known


STACKED = """
module {
  func.func @main(%x: memref<4xf32>, %o: memref<4xf32>, %arena: memref<128xi8>)
      attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c5 = arith.constant STEPS : index
    %c16 = arith.constant 16 : index
    %c96 = arith.constant 96 : index
    %y = memref.view %arena[%c96][] : memref<128xi8> to memref<4xf32>
    scf.for %i = %c0 to %c5 step %c2 {
      %j = arith.addi %i, %c1 : index
      %k = arith.muli %j, %c16 : index
      %p = memref.view %arena[%k][] : memref<128xi8> to memref<4xf32>
      func.call @kernel_0(%x, %y, %p) : (memref<4xf32>, memref<4xf32>, memref<4xf32>) -> ()
    }
    func.return
  }
  func.func private @kernel_0(%x: memref<4xf32>, %y: memref<4xf32>, %p: memref<4xf32>)
      attributes {kernel, num_inputs = 2 : i64} {
    func.return
  }
}
"""


@pytest.mark.parametrize(("steps", "alone"), [(6, 3), (7, 1)])
def test_what_is_stacked_is_apart_from_the_rest_of_the_arena(steps, alone):
    """Steps write bytes 16 to 96, and one more 112 to 128; what else there is has 96 to 112."""
    assert emit_llvm(parse(STACKED.replace("STEPS", str(steps)))).count("ptr noalias align") == alone


def test_the_last_argument_of_a_kernel_is_no_arena():
    """A result of integers that its chunks see in another shape begins where the caller's memory does."""
    text = """
module {
  func.func @main(%x: memref<8x8xi32>, %o: memref<8x8xi32>, %arena: memref<0xi8>)
      attributes {num_inputs = 1 : i64, num_outputs = 1 : i64} {
    func.call @kernel_0(%x, %o) : (memref<8x8xi32>, memref<8x8xi32>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<8x8xi32>, %o: memref<8x8xi32>) attributes {kernel, num_inputs = 1 : i64} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c64 = arith.constant 64 : index
    %flat = memref.collapse_shape %o [[0 : i64, 1 : i64]] : memref<8x8xi32> into memref<64xi32>
    "scf.parallel"(%c0, %c64, %c8) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      %v = memref.load %x[%c0, %c0] : memref<8x8xi32>
      memref.store %v, %flat[%i] : memref<64xi32>
      scf.reduce
    }) {threads} : (index, index, index) -> ()
    func.return
  }
}
"""
    header = next(line for line in emit_llvm(parse(text)).splitlines() if "_chunk" in line and "define" in line)
    assert header.count("ptr noalias align 4 ") == 2


def test_donated_buffers_may_overlap():
    text = """
module {
  func.func @main(%x: memref<4xf32>, %out: memref<4xf32>, %arena: memref<64xi8>)
      attributes {num_inputs = 1 : i64, num_outputs = 1 : i64, donations = array<i64: DONOR>} {
    func.call @kernel_0(%x, %out, %arena) : (memref<4xf32>, memref<4xf32>, memref<64xi8>) -> ()
    func.return
  }
  func.func private @kernel_0(%x: memref<4xf32>, %out: memref<4xf32>, %arena: memref<64xi8>) attributes {kernel} {
    func.return
  }
}
"""
    apart, donated = (emit_llvm(parse(text.replace("DONOR", donor))) for donor in ("-1", "0"))
    assert apart.count("ptr noalias align") == 3
    assert donated.count("ptr noalias align") == 1
    assert "noalias align 64 dereferenceable(64) %a2" in donated


# -- text, errors, costs ----------------------------------------------------------------------------------------------


def test_flags_go_over():
    x = np.zeros(16, np.float32)
    body = (
        "%a = arith.addf %x0, %x0 fastmath<reassoc,contract> : T(f32)\n%y = arith.mulf %a, %a fastmath<fast> : T(f32)"
    )
    text = emit_llvm(parse(elementwise_module(body, [x], x, 16)))
    assert "fadd reassoc contract <16 x float>" in text
    assert "fmul fast <16 x float>" in text
    i = np.zeros(16, np.int32)
    text = emit_llvm(parse(elementwise_module("%y = arith.addi %x0, %x0 overflow<nsw> : T(i32)", [i], i, None)))
    assert "add nsw i32" in text


NESTS = """
func.func @main(%x: memref<64x8xf32>, %y: memref<64x1024xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  scf.for %i = %c0 to %c64 step %c1 {
    scf.for %j = %c0 to %c8 step %c1 {
      %v = memref.load %x[%i, %j] : memref<64x8xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %x[%i, %j] : memref<64x8xf32>
    }
  }
  scf.for %i = %c0 to %c64 step %c1 {
    scf.for %j = %c0 to %c1024 step %c1 {
      %v = memref.load %y[%i, %j] : memref<64x1024xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %y[%i, %j] : memref<64x1024xf32>
    }
  }
  func.return
}
"""


def test_llvm_writes_out_no_loops_that_hold_others():
    text = emit_llvm(parse(NESTS))
    ends = [line for line in text.splitlines() if line.lstrip().startswith("br i1")]
    # the loop around one that is written out whole is like an innermost one itself
    assert [", !llvm.loop !1" in line for line in ends] == [False, False, False, True]
    assert "!1 = distinct !{!1, !2}" in text


def test_non_temporal_store_is_one_instruction():
    text = VECTOR_LOOP.replace(
        "%out[%i] : memref<37xf32>, vector<16xf32>",
        "%out[%i] {alignment = 64 : i64, nontemporal = true} : memref<37xf32>, vector<16xf32>",
    )
    llvm_ir = emit_llvm(parse(text))
    assert "align 64, !nontemporal !0" in llvm_ir
    if host_target().vector_bits == 512:
        assert "vmovntps" in native_assembly(llvm_ir)


def test_prefetch_is_one_instruction_and_may_point_behind_the_memory():
    x, o = np.arange(2, dtype=np.float32), np.zeros(2, np.float32)
    text = """
func.func @main(%x: memref<2xf32>, %o: memref<2xf32>) {
  %one = arith.constant 1 : index
  %far = arith.constant 123456789 : index
  memref.prefetch %x[%far], read, locality<2>, data : memref<2xf32>
  memref.prefetch %o[%one], write, locality<3>, data : memref<2xf32>
  %a = memref.load %x[%one] : memref<2xf32>
  memref.store %a, %o[%one] : memref<2xf32>
  func.return
}"""
    llvm_ir = emit_llvm(parse(text))
    assert re.search(r"getelementptr float, ptr %\w+, i64 123456789", llvm_ir)
    assert "i32 0, i32 2, i32 1)" in llvm_ir
    assert "i32 1, i32 3, i32 1)" in llvm_ir
    if host_target().vector_bits == 512:
        assert "prefetcht1" in native_assembly(llvm_ir)
    run(text, x, o)
    assert o.tolist() == [0, 1]


def test_prefetch_is_verified():
    text = "func.func @main(%x: memref<2xf32>) { memref.prefetch %x[INDICES], read, locality<4>, data : memref<2xf32>"
    with pytest.raises(VerifyException, match="0 indices for a memref of 1 dimensions"):
        parse(text.replace("INDICES", "") + "\nfunc.return }")
    one = text.replace("{", "{ %one = arith.constant 1 : index").replace("INDICES", "%one")
    with pytest.raises(VerifyException, match="locality is 4, expected 0 to 3"):
        parse(one + "\nfunc.return }")


ERRORS = [
    ("", "the module has no func.func @main with a body"),
    (
        'func.func @main(%x: memref<2xf32>) { %c = arith.constant 0 : index\n"test.op"() : () -> ()\nfunc.return }',
        "test.op in main has no lowering to LLVM",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %y = memref.alloca() : memref<1024x1024xf32>\nfunc.return }",
        "main needs 4194304 bytes of stack, at most 1048576 are allowed",
    ),
    (
        "func.func @main(%x: f32) { func.return }",
        "argument 0 of main is f32, expected a memref",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %c = arith.constant dense<0.0> : vector<2x2x2xf32>\nfunc.return }",
        "arith.constant in main: vector<2x2x2xf32> has no LLVM type, expected a scalar of a bit or more, a vector of "
        "one or two dimensions, or a memref",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %c = arith.constant 0 : i0\nfunc.return }",
        "arith.constant in main: i0 has no LLVM type, expected a scalar of a bit or more, a vector of one or two "
        "dimensions, or a memref",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %c = arith.constant dense<0.0> : vector<50x100xf32>\nfunc.return }",
        "arith.constant in main: vector<50x100xf32> has 5000 elements, and vectors at most 4096",
    ),
    (
        "func.func @main(%x: memref<?xf32>) { %c = arith.constant 0 : index\n"
        "%y = memref.load %x[%c] : memref<?xf32>\nfunc.return }",
        "memref.load in main: memref<?xf32> has a size that is not known at compile time",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %c = arith.constant 0.0 : f16\n"
        "%y = arith.addf %c, %c : f16\nfunc.return }",
        "arith.addf in main: f16 has no arithmetic in LLVM before the pass legalize-arith",
    ),
    (
        "func.func @main(%x: memref<2xf32>) { %c = arith.constant dense<0.0> : vector<4xbf16>\n"
        "%y = arith.cmpf olt, %c, %c : vector<4xbf16>\nfunc.return }",
        "arith.cmpf in main: bf16 has no arithmetic in LLVM before the pass legalize-arith",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[message[:30] for _, message in ERRORS])
def test_what_is_not_supported_is_named(text, message):
    from xdsl.context import Context
    from xdsl.dialects import builtin, func, memref
    from xdsl.dialects.test import Test
    from xdsl.parser import Parser

    from tenon.dialects.upstream.vector_arith import VectorArith

    context = Context()
    for dialect in (builtin.Builtin, func.Func, memref.MemRef, VectorArith, Test):
        context.load_dialect(dialect)
    module = Parser(context, f"module {{ {text} }}").parse_module()
    with pytest.raises(ValueError, match=f"^emit_llvm: {re.escape(message)}$"):
        emit_llvm(module)


def test_llvm_refusal_is_a_value_error():
    with pytest.raises(ValueError, match="tenon: LLVM refused the IR"):
        compile_object("define nonsense")


@pytest.mark.parametrize("text", [VECTOR_LOOP, MATMUL, DYNAMIC_BOUNDS])
def test_upstream_accepts_the_programs(text):
    check_with_upstream(parse(text))


def test_object_code_loads_in_another_process(tmp_path):
    body = "%y = math.erf %x0 : T(f32)"
    x = np.linspace(-1, 1, 16, dtype=np.float32)
    text = emit_llvm(parse(elementwise_module(body, [x], x, None)))
    (tmp_path / "code.o").write_bytes(compile_object(text))
    program = """
import ctypes, sys, numpy as np
from tenon.runtime.cpu.load import entry_point, load_objects
code = load_objects([open(sys.argv[1], "rb").read()])
x = np.linspace(-1, 1, 16, dtype=np.float32); y = np.zeros_like(x)
entry_point(code.entry())((ctypes.c_void_p * 3)(x.ctypes.data, y.ctypes.data, y.ctypes.data))
from math import erf
assert np.allclose(y, [erf(v) for v in x], atol=1e-6), y
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "code.o")], check=True)


def test_missing_symbol_is_an_error(capfd):
    code = compile_object(
        "declare void @no_such_function()\ndefine void @main(ptr %a) {\n call void @no_such_function()\n ret void\n}"
    )
    with pytest.raises(RuntimeError, match="tenon: object code cannot be linked"):
        load_objects([code])
    assert "no_such_function" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="tenon: object code cannot be linked"):
        load_objects([code[:300]])


def test_emission_is_fast(record_property):
    """No limit is asserted: the time goes into the report."""
    body = "\n".join(f"%v{n + 1} = arith.mulf %v{n}, %x0 : f32" for n in range(100))
    x = np.zeros(16, np.float32)
    program = elementwise_module(
        f"%v0 = arith.addf %x0, %x0 : f32\n{body}\n%y = arith.addf %v100, %x0 : f32", [x], x, None
    )
    module = parse(program)
    started = time.perf_counter()
    text = emit_llvm(module)
    milliseconds = 1e3 * (time.perf_counter() - started)
    record_property("milliseconds for 100 operations", milliseconds)
    print(f"emit_llvm: {milliseconds:.2f} ms for a kernel of 102 operations")
    assert text.count("fmul float") == 100
    out = np.zeros(16, np.float32)
    call(load(module), [x + 1, out, aligned_arena(0)])
    assert (out == 3).all()


def test_types_that_are_gone_do_not_answer_for_new_ones():
    # They are told by identity, and what is made after one that is gone may have its identity.
    for number in range(3000):
        lanes = number % 5 + 1
        assert llvm_type(VectorType(f32, [lanes])).text == f"<{lanes} x float>"


@pytest.mark.parametrize(
    ("attribute", "stored", "products", "sums"),
    [("final", "last", 1, 2), ("final", "i", 1, 0), ("few_passes", "last", 3, 2)],
)
def test_addresses_beside_each_other_are_one_and_a_displacement(
    attribute: str, stored: str, products: int, sums: int
) -> None:
    """Where no pass of LLVM's sees that. Indices are written where more than addresses asks for them."""
    x, o, places = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8), np.float32), np.zeros(8, np.int64)
    text = f"""
func.func @main(%x: memref<8x8xf32>, %o: memref<8x8xf32>, %p: memref<8xindex>) attributes {{"{attribute}"}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %six = arith.constant 6 : index
  scf.for %i = %zero to %six step %one {{
    %below = arith.addi %i, %one : index
    %last = arith.addi %below, %one : index
    %a = memref.load %x[%last, %i] : memref<8x8xf32>
    %b = memref.load %x[%i, %below] : memref<8x8xf32>
    %c = arith.subf %a, %b : f32
    memref.store %c, %o[%below, %i] : memref<8x8xf32>
    %is_late = arith.cmpi sge, %i, %two : index
    scf.if %is_late {{
      memref.store %{stored}, %p[%below] : memref<8xindex>
      %d = memref.load %x[%last, %last] : memref<8x8xf32>
      memref.store %d, %o[%i, %i] : memref<8x8xf32>
    }}
  }}
  func.return
}}"""
    run(text, x, o, places)
    i = np.arange(6)
    expected, counted = np.zeros_like(o), np.zeros_like(places)
    for n in i:
        expected[n + 1, n] = x[n + 2, n] - x[n, n + 1]
        if n >= 2:
            expected[n, n], counted[n + 1] = x[n + 2, n + 2], n + 2 * (stored == "last")
    np.testing.assert_array_equal(o, expected)
    np.testing.assert_array_equal(places, counted)
    kernel = emit_llvm(parse(text))
    assert (kernel.count(" = mul "), kernel.count(" = add i64 ")) == (products, sums)
    assert bool(re.search(r"getelementptr float, ptr %\w+, i64 -15", kernel)) is (attribute == "final")
