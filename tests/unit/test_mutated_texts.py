"""Texts with something wrong in them are taken or refused with a reason; and those that once were neither."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mutated_texts import Case, case, fault, faults
from seeds import run_seed
from xdsl.context import Context
from xdsl.dialects.cf import Cf
from xdsl.utils.exceptions import DiagnosticException, ParseError

import tenon
from tenon.dialects.ops.elementwise.piecewise import LeakyReluOp
from tenon.dialects.upstream.module_parser import ModuleParser
from tenon.runtime.lower import new_context
from tenon.tools.verification import verify_module

COUNT = 300


def test_mutated_texts_are_taken_or_refused_with_a_reason() -> None:
    seed = run_seed()
    found = [
        f"{what}\n  python tests/unit/mutated_texts.py --here --count 1 --seed {seed} --first {number}"
        for number, what in faults(seed, range(COUNT))
    ]
    assert not found, "\n".join(found)


def test_cases_follow_from_their_seed() -> None:
    assert [case(7, number) for number in range(5)] == [case(7, number) for number in range(5)]
    assert case(7, 0) != case(8, 0)


def test_faults_are_told_from_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n"
    assert fault(Case(text, ("lower",), is_run=True)) is None
    assert fault(Case(text.replace("%x :", "%z :"), (), is_run=False)) is None
    monkeypatch.setattr("tenon.passes.verification.check_dominance", lambda module: {}["lost"])
    found = fault(Case(text, (), is_run=False))
    assert found is not None
    assert found.startswith("verify: KeyError: 'lost'")


def test_gradients_that_are_known_better_than_arguments() -> None:
    text = (
        "func.func @main(%x: tensor<3x7xf32>, %i: tensor<?x3xi64>, %z: tensor<3x?xf32>) -> tensor<3x7xf32> {\n"
        "  %y = tenon.put_along_axis %x, %i, %z : tensor<3x7xf32>, tensor<?x3xi64>, tensor<3x?xf32> "
        "-> tensor<3x7xf32>\n"
        "  func.return %y : tensor<3x7xf32>\n}\n"
    )
    assert fault(Case(text, ("differentiate",), is_run=False)) is None


@given(st.floats(allow_nan=False))
@example(1e-05)
@example(1e23)
def test_floats_are_read_back(number: float) -> None:
    traced = tenon.jit(lambda x: tenon.leaky_relu(x, negative_slope=number)).trace(np.zeros(4, np.float32))
    again = ModuleParser(new_context(), str(traced.module)).parse_module()
    (slope,) = [op.settings["negative_slope"] for op in again.walk() if isinstance(op, LeakyReluOp)]
    assert slope == number


TAKEN_OR_REFUSED = {
    "a truth value that scalars decide": (
        "func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {\n"
        "  %c = tensor.extract %p[] : tensor<i1>\n"
        "  %y = scf.if %c -> (tensor<4xf32>) {\n    scf.yield %x : tensor<4xf32>\n  } else {\n"
        "    scf.yield %x : tensor<4xf32>\n  }\n  func.return %y : tensor<4xf32>\n}\n",
        "differentiate",
    ),
    "a formula of vectors of two dimensions": (
        "func.func @f(%x: vector<4x4xf64>) -> vector<4x4xf64> attributes {kernel} {\n"
        "  %y = math.powf %x, %x : vector<4x4xf64>\n  func.return %y : vector<4x4xf64>\n}\n",
        "expand-math",
    ),
    "a transpose of an unknown rank": (
        "func.func @main(%x: tensor<*xf32>, %w: tensor<5x6xf32>) -> tensor<4x6xf32> {\n"
        "  %t = tenon.transpose %x {permutation = [1, 0]} : tensor<*xf32> -> tensor<4x5xf32>\n"
        "  %y = tenon.matmul %t, %w : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32>\n"
        "  func.return %y : tensor<4x6xf32>\n}\n",
        "layout",
    ),
    "numbers of no bits": (
        "func.func @main(%x: i0, %y: i0) -> i0 {\n  %q = arith.divsi %x, %y : i0\n  func.return %q : i0\n}\n",
        "legalize-arith",
    ),
    "a fill of memory": (
        "func.func private @f(%m: memref<4xf32>) attributes {kernel} {\n  %c = arith.constant 0.0 : f32\n"
        "  linalg.fill ins(%c : f32) outs(%m : memref<4xf32>)\n  func.return\n}\n",
        "fuse-structured",
    ),
}


@pytest.mark.parametrize(("text", "spec"), TAKEN_OR_REFUSED.values(), ids=TAKEN_OR_REFUSED)
def test_what_was_once_neither(text: str, spec: str) -> None:
    assert fault(Case(text, (spec,), is_run=False)) is None


def context() -> Context:
    made = new_context()
    made.load_dialect(Cf)
    return made


def message(text: str) -> str:
    """What is wrong with a text."""
    with pytest.raises((ParseError, DiagnosticException)) as caught:
        verify_module(ModuleParser(context(), text, "text.mlir").parse_module())
    return str(caught.value)


REFUSED = {
    "deep": ("module {\n" * 2000, "nested too deeply"),
    "deep attribute": ('"builtin.module"() ({}) {a = ' + "[" * 3000, "nested too deeply"),
    "endless string": ('module { func.func @f() { %x " ' + "a " * 60, "End of file reached before closing string"),
    "undefined here, not there": (
        "func.func @f(%x: i1) {\n  cf.br ^a\n^b:\n  cf.br ^c(%y : i1)\n^a:\n  %y = arith.constant true\n  cf.br ^b\n"
        "^c(%z: i1):\n  func.return\n}\nfunc.func @g() -> i1 {\n  func.return %y : i1\n}\n",
        "text.mlir:12:15",
    ),
    "undefined outside of functions": ('"builtin.unrealized_conversion_cast"(%y) : (i1) -> i1\n\n\n', "text.mlir:1:38"),
    "no region": (
        'func.func @main(%x: tensor<2x2xf32>) {\n  %r = "linalg.matmul"(%x, %x, %x) '
        "<{operandSegmentSizes = array<i32: 1, 1>}> ({}) : "
        "(tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>\n  func.return\n}\n",
        "text.mlir:2:3: linalg.matmul: ",
    ),
    "index of no loop": (
        "func.func @f(%x: memref<4xf32>) {\n  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], "
        'iterator_types = ["parallel"]} outs(%x : memref<4xf32>) {\n  ^bb0(%e: f32):\n    %i = linalg.index 1 : index\n'
        "    linalg.yield %e : f32\n  }\n  func.return\n}\n",
        "text.mlir:4:5: linalg.index: there is no loop 1 among the 1 of linalg.generic",
    ),
    "step of zero": (
        "func.func @f() {\n  %z = arith.constant 0 : index\n  scf.for %i = %z to %z step %z {\n  }\n  func.return\n}\n",
        "text.mlir:3:3: scf.for: step is 0 where a positive number is needed",
    ),
    "slice of other sizes": (
        "func.func @f(%x: tensor<8x8xf32>) -> tensor<8xf32> {\n"
        "  %y = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<8x8xf32> to tensor<8xf32>\n"
        "  func.return %y : tensor<8xf32>\n}\n",
        "text.mlir:2:3: tensor.extract_slice: tensor<8xf32> is not a part of tensor<8x8xf32> of sizes [1, 4]",
    ),
    "slice of too few sizes": (
        "func.func @f(%x: tensor<8x8xf32>, %y: tensor<8xf32>) -> tensor<8x8xf32> {\n"
        "  %z = tensor.insert_slice %y into %x[0, 0] [8] [1, 1] : tensor<8xf32> into tensor<8x8xf32>\n"
        "  func.return %z : tensor<8x8xf32>\n}\n",
        "text.mlir:2:3: tensor.insert_slice: there are 1 sizes, and tensor<8x8xf32> has 2 axes",
    ),
    "view of another place": (
        "func.func @f(%x: memref<8x8xf32>) {\n"
        "  %y = memref.subview %x[1, 0] [1, 8] [1, 1] : memref<8x8xf32> to memref<8xf32, strided<[1], offset: 16>>\n"
        "  func.return\n}\n",
        "text.mlir:2:3: memref.subview: memref<8xf32, strided<[1], offset: 16>> is at another place",
    ),
    "open size that is not given": (
        "func.func @f() {\n  %y = tensor.empty() : tensor<?xf32>\n  func.return\n}\n",
        "text.mlir:2:3: tensor.empty: tensor<?xf32> leaves 1 sizes open, and there are 0 operands",
    ),
    "large index": (
        "func.func @f() {\n  %c = arith.constant 99999999999999999999 : index\n  func.return\n}\n",
        "text.mlir:2:3: arith.constant: 99999999999999999999 has more than the 64 bits of an index",
    ),
    "branch without a value": (
        "func.func @f(%p: i1, %x: f32) -> f32 {\n  %y = scf.if %p -> (f32) {\n    scf.yield %x : f32\n  } else {\n  }\n"
        "  func.return %y : f32\n}\n",
        "text.mlir:2:3: scf.if: the else region yields () where the results are (f32)",
    ),
    "no other branch": (
        "func.func @f(%p: i1, %x: f32) -> f32 {\n  %y = scf.if %p -> (f32) {\n    scf.yield %x : f32\n  }\n"
        "  func.return %y : f32\n}\n",
        "text.mlir:2:3: scf.if: there is no else region",
    ),
    "condition without a value": (
        "func.func @f(%p: i1, %x: f32) -> f32 {\n  %y = scf.while (%a = %x) : (f32) -> f32 {\n"
        "    scf.condition(%p)\n  } do {\n  ^bb0(%b: f32):\n    scf.yield %b : f32\n  }\n"
        "  func.return %y : f32\n}\n",
        "text.mlir:2:3: scf.while: the condition passes on () where the second region takes (f32)",
    ),
    "loop that yields another type": (
        "func.func @f(%p: i1, %x: f32, %i: i32) -> f32 {\n  %y = scf.while (%a = %x) : (f32) -> f32 {\n"
        "    scf.condition(%p) %a : f32\n  } do {\n  ^bb0(%b: f32):\n    scf.yield %i : i32\n  }\n"
        "  func.return %y : f32\n}\n",
        "text.mlir:2:3: scf.while: the second region yields (i32) where the first region takes (f32)",
    ),
    "many elements": (
        'func.func @f(%x: tensor<f32>) {\n  %y = "tenon.broadcast_to"(%x) '
        "<{shape = array<i64: 4611686018427387904>}> : (tensor<f32>) -> tensor<4611686018427387904xf32>\n"
        "  func.return\n}\n",
        "text.mlir:2:3: tenon.broadcast_to: the result tensor<4611686018427387904xf32> has",
    ),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_reasons(text: str, reason: str) -> None:
    assert reason in message(text)
