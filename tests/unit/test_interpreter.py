"""The interpreter as others call it, and its control flow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from interpreting import parse, run
from random_numbers import generator
from xdsl.dialects import test
from xdsl.dialects.arith import NegfOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32, i1

from tenon.dialects.interpreter.interpreter import Interpreter, InterpreterError, constant_value, implements, register
from tenon.dialects.types.types import numpy_dtype

RANDOM = generator()


class TestFuncAndScf:
    def test_calls_by_symbol_with_values_of_their_own(self):
        text = """
        func.func @main(%n: i64) -> i64 {
          %r = func.call @factorial(%n) : (i64) -> i64
          func.return %r : i64
        }
        func.func private @factorial(%n: i64) -> i64 {
          %one = arith.constant 1 : i64
          %done = arith.cmpi sle, %n, %one : i64
          %r = scf.if %done -> (i64) {
            scf.yield %one : i64
          } else {
            %m = arith.subi %n, %one : i64
            %rest = func.call @factorial(%m) : (i64) -> i64
            %p = arith.muli %n, %rest : i64
            scf.yield %p : i64
          }
          func.return %r : i64
        }"""
        assert run(text, 10) == (math.factorial(10),)

    def test_for_carries_values(self):
        text = """func.func @main(%n: index) -> (index, index) {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %two = arith.constant 2 : index
          %a, %b = scf.for %i = %one to %n step %two iter_args(%x = %zero, %y = %one) -> (index, index) {
            %s = arith.addi %x, %i : index
            scf.yield %y, %s : index, index
          }
          func.return %a, %b : index, index
        }"""
        x, y = 0, 1
        for i in range(1, 10, 2):
            x, y = y, x + i
        assert run(text, 10) == (x, y)
        assert run(text, 0) == (0, 1)

    def test_while(self):
        text = """func.func @main(%n: i32) -> (i32, i32) {
          %one = arith.constant 1 : i32
          %r, %c = scf.while (%x = %one, %k = %one) : (i32, i32) -> (i32, i32) {
            %more = arith.cmpi slt, %x, %n : i32
            scf.condition(%more) %x, %k : i32, i32
          } do {
          ^bb0(%x: i32, %k: i32):
            %double = arith.addi %x, %x : i32
            %next = arith.addi %k, %one : i32
            scf.yield %double, %next : i32, i32
          }
          func.return %r, %c : i32, i32
        }"""
        assert run(text, 100) == (128, 8)

    def test_parallel_writes_and_reduces(self):
        text = """func.func @main(%x: memref<3x4xf32>, %y: memref<3x4xf32>) -> f32 {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %c4 = arith.constant 4 : index
          %zero = arith.constant 0.0 : f32
          "scf.parallel"(%c0, %c0, %c3, %c4, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
          ^bb0(%i: index, %j: index):
            %v = memref.load %x[%i, %j] : memref<3x4xf32>
            %w = arith.addf %v, %v : f32
            memref.store %w, %y[%i, %j] : memref<3x4xf32>
            scf.reduce
          }) : (index, index, index, index, index, index) -> ()
          %sum = "scf.parallel"(%c0, %c3, %c1, %zero) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}> ({
          ^bb0(%i: index):
            %v = memref.load %y[%i, %c1] : memref<3x4xf32>
            scf.reduce(%v : f32) {
            ^bb1(%a: f32, %b: f32):
              %s = arith.addf %a, %b : f32
              scf.reduce.return %s : f32
            }
          }) : (index, index, index, f32) -> f32
          func.return %sum : f32
        }"""
        x = RANDOM.integers(0, 9, (3, 4)).astype(np.float32)
        y = np.zeros_like(x)
        assert run(text, x, y) == (2 * x[:, 1].sum(),)
        np.testing.assert_array_equal(y, 2 * x)

    def test_if_without_else_and_index_switch(self):
        text = """func.func @main(%c: i1, %k: index, %x: memref<1xi32>) -> i32 {
          %zero = arith.constant 0 : index
          %seven = arith.constant 7 : i32
          scf.if %c {
            memref.store %seven, %x[%zero] : memref<1xi32>
          }
          %r = scf.index_switch %k -> i32
          case 2 {
            scf.yield %seven : i32
          }
          default {
            %one = arith.constant 1 : i32
            scf.yield %one : i32
          }
          func.return %r : i32
        }"""
        x = np.zeros(1, np.int32)
        assert run(text, False, 2, x) == (7,)
        assert x[0] == 0
        assert run(text, True, 3, x) == (1,)
        assert x[0] == 7


class TestInterface:
    def test_unknown_op(self):
        text = """builtin.module { func.func @main() { "test.op"() : () -> () func.return } }"""
        with pytest.raises(InterpreterError, match=r"^test.op: the interpreter has no implementation of this op$"):
            Interpreter().run(parse(text), "main", ())

    def test_registered_base_class_serves_its_subclasses(self):
        class DoublingOp(test.TestPureOp):
            name = "test.doubling"

        @implements(test.TestPureOp)
        def triple(interpreter, op, value):
            return (value * 3,)

        assert Interpreter().evaluate(DoublingOp.create(), (np.float32(2),)) == (6,)
        register(DoublingOp, lambda interpreter, op, value: (value * 2,))
        assert Interpreter().evaluate(DoublingOp.create(), (np.float32(2),)) == (4,)

    def test_errors_of_an_implementation_name_the_op(self):
        class FailingOp(test.TestOp):
            name = "test.failing"

        def fail(interpreter, op):
            raise ValueError("the reason")

        register(FailingOp, fail)
        interpreter = Interpreter()
        with pytest.raises(InterpreterError, match=r"^test.failing: the reason$"):
            interpreter.run_steps(interpreter.steps((FailingOp.create(),)))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "@main: expects 1 arguments and got 0"),
            ((np.zeros(2),), r"@main: argument 0 is float64 of shape \(2,\), expected tensor<2xf32>"),
            ((np.zeros(3, np.float32),), r"@main: argument 0 is float32 of shape \(3,\), expected tensor<2xf32>"),
        ],
    )
    def test_arguments_must_fit(self, arguments, message):
        with pytest.raises(InterpreterError, match=message):
            run("func.func @main(%x: tensor<2xf32>) { func.return }", *arguments)

    def test_missing_function(self):
        with pytest.raises(InterpreterError, match=r"there is no func.func @missing in the module"):
            Interpreter().run(parse("func.func @main() { func.call @missing() : () -> () func.return }"), "main", ())

    def test_function_without_a_body(self):
        with pytest.raises(InterpreterError, match=r"func\.call: function @external has no body"):
            run(
                "func.func @main() { func.call @external() : () -> () func.return } func.func private @external() -> ()"
            )

    def test_use_before_definition(self):
        module = parse("""func.func @main(%x: f32) -> f32 {
          %a = arith.negf %x : f32
          %b = arith.negf %a : f32
          func.return %b : f32
        }""")
        first, second = (op for op in module.walk() if isinstance(op, NegfOp))
        parent = first.parent
        assert parent is not None
        first.detach()
        parent.insert_ops_after((first,), second)
        with pytest.raises(InterpreterError, match=r"arith\.negf: an operand is used before it is defined"):
            Interpreter().run(module, "main", (1.0,))

    def test_a_rewritten_module_is_seen_by_the_next_run(self):
        module = parse("func.func @main(%x: f32) -> f32 { %r = arith.negf %x : f32 func.return %r : f32 }")
        interpreter = Interpreter()
        assert interpreter.run(module, "main", (2.0,)) == (-2,)
        (negation,) = (op for op in module.walk() if isinstance(op, NegfOp))
        negation.result.replace_all_uses_with(negation.operand)
        assert interpreter.run(module, "main", (2.0,)) == (2,)

    def test_constant_value(self):
        assert constant_value(DenseIntOrFPElementsAttr.from_list(TensorType(f32, [2]), [1.0, 2.0])).tolist() == [1, 2]
        booleans = constant_value(DenseIntOrFPElementsAttr.from_list(TensorType(i1, [2, 1]), [1, 0]))
        assert booleans.dtype == numpy_dtype(i1)
        assert booleans.tolist() == [[True], [False]]
