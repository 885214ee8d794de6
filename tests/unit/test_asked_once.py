"""What is kept of answers about ops and statements is kept for what it was asked of alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects import func, linalg

import tenon
from tenon.lowering.kernels.lane_bits import compute_bits
from tenon.lowering.kernels.obstacles import vector_obstacle
from tenon.lowering.kernels.statement import Statement, once, read_kernel
from tenon.passes.iteration import iteration_of
from tenon.runtime.lower import buffered_again, options


def _ops(function, *shapes):
    traced = tenon.jit(function).trace(*[tenon.ShapeDtype(shape, "f32") for shape in shapes])
    (main,) = [op for op in traced.module.ops if isinstance(op, func.FuncOp)]
    return [op for op in main.body.block.ops if not isinstance(op, func.ReturnOp)]


def test_iterations_are_those_of_settings_types_and_ops():
    ones = _ops(lambda x: tenon.transpose(x, (1, 0, 2)), (4, 4, 4))
    others = _ops(lambda x: tenon.transpose(x, (2, 1, 0)), (4, 4, 4))
    again = _ops(lambda x: tenon.transpose(x, (1, 0, 2)), (4, 4, 4))
    first, second, third = (iteration_of(op) for (op,) in (ones, others, again))
    assert first.space.operands != second.space.operands
    assert first == third
    rows, columns = (_ops(lambda x, axis=axis: tenon.sum(x, axis=axis), (4, 4)) for axis in (0, 1))
    assert iteration_of(rows[0]).space.parallel == (False, True)
    assert iteration_of(columns[0]).space.parallel == (True, False)
    (small,), (large,) = (_ops(tenon.exp, (size, 3)) for size in (2, 5))
    assert [iteration_of(op).space.extents for op in (small, large)] == [(2, 3), (5, 3)]


def _statements(function, *shapes) -> list[Statement]:
    traced = tenon.jit(function).trace(*[tenon.ShapeDtype(shape, "f32") for shape in shapes])
    module = buffered_again(traced.module, options("cpu"))
    (kernel,) = [op for op in module.ops if isinstance(op, func.FuncOp) and "kernel" in op.attributes]
    assert any(isinstance(op, linalg.ops.GenericOp) for op in kernel.body.block.ops)
    return read_kernel(kernel).statements


def test_a_statement_is_asked_once_for_each_loop():
    asked = []

    @once
    def answer(statement, loop, *, whole=False):
        asked.append((statement, loop, whole))
        return loop

    (statement,) = _statements(lambda x: x + 1, (4, 6))
    for _ in range(2):
        assert [answer(statement, 0), answer(statement, 1), answer(statement, 1, whole=True)] == [0, 1, 1]
    assert asked == [(statement, 0, False), (statement, 1, False), (statement, 1, True)]
    answer(replace(statement), 0)
    assert len(asked) == 4
    with pytest.raises(TypeError, match="unhashable"):
        answer(statement, [0])


def test_answers_of_several_questions_do_not_mix():
    (statement,) = _statements(lambda x: tenon.transpose(x, (1, 0)) + 1, (40, 60))
    found = {loop: (vector_obstacle(statement, loop), compute_bits(statement, loop)) for loop in (0, 1)}
    assert vector_obstacle(statement, 0) == found[0][0]
    # along one loop the input has unit stride, along the other the output has
    assert all(obstacle is not None for obstacle, _ in found.values())
    assert vector_obstacle(statement, 1, 0) is None
    assert [bits for _, bits in found.values()] == [32, 32]
