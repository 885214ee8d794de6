"""Sequences and optionals in ONNX models, against the reference evaluator of the onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import info, node

import tenon
from tenon.onnx import OnnxError, load

F32, I64, BOOL = np.float32, np.int64, np.bool_
X = np.arange(24, dtype=F32).reshape(4, 6)
PARTS = [X[:1], X[1:3], X[3:]]


def constant(value: Any, output: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [output], value=onnx.numpy_helper.from_array(np.asarray(value)))


def sequence_info(name: str, *, optional: bool = False, code: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(code, None))
    return helper.make_value_info(name, helper.make_optional_type_proto(kind) if optional else kind)


def optional_info(name: str) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])))


def program(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: str | Sequence[onnx.ValueInfoProto],
    opset: int = 21,
) -> onnx.ModelProto:
    given = [info(name, None) for name in outputs.split()] if isinstance(outputs, str) else outputs
    graph = helper.make_graph(nodes, "small", inputs, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def assert_same(actual: Any, expected: Any) -> None:
    """The same trees of arrays, exactly."""
    if isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple)
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert_same(a, b)
    elif expected is None:
        assert actual is None
    else:
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected, strict=True)


def check(source: onnx.ModelProto, *inputs: Any) -> Any:
    names = [entry.name for entry in source.graph.input]
    expected = ReferenceEvaluator(source).run(None, dict(zip(names, inputs, strict=True)))
    actual = load(source)(*inputs)
    assert_same(actual, expected)
    return actual


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "attributes"),
    [
        (None, {}),
        (None, {"axis": -1, "keepdims": 0}),
        (np.asarray(4), {"axis": 1}),
        (np.asarray([1, 3]), {}),
        (np.asarray([0, 4, 0]), {}),
    ],
    ids=["ones", "squeezed", "last part smaller", "sizes", "empty parts"],
)
def test_a_tensor_is_split_into_a_sequence(split: Any, attributes: dict[str, Any]) -> None:
    given = [] if split is None else [constant(split, "s")]
    splitting = node("SplitToSequence", "x" if split is None else "x s", "y", **attributes)
    check(program([*given, splitting], [info("x", shape=(4, 6))], "y"), X)


@pytest.mark.parametrize("position", [-3, -1, 0, 2, 3, None])
def test_tensors_are_inserted_erased_and_taken(position: int | None) -> None:
    given = [constant(np.asarray(position or 0), "p")]
    place = "" if position is None else " p"
    taken = constant(np.asarray(-1 if position in (None, 3) else position), "q")
    nodes = [*given, taken, node("SequenceInsert", "s x" + place, "t"), node("SequenceLength", "t", "n")]
    nodes += [node("SequenceErase", "t" + place, "e"), node("SequenceAt", "s q", "one")]
    source = program(nodes, [sequence_info("s"), info("x", shape=(4, 6))], "t n e one")
    # The reference evaluator takes a position at the end for one at the begin.
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    assert_same(load(source)(PARTS, X), session.run(None, {"s": PARTS, "x": X}))


@pytest.mark.parametrize(("axis", "new"), [(0, 0), (-1, 0), (1, 1), (-1, 1)])
def test_a_sequence_is_joined(axis: int, new: int) -> None:
    nodes = [node("SequenceConstruct", "x x y", "s"), node("ConcatFromSequence", "s", "z", axis=axis, new_axis=new)]
    check(program(nodes, [info("x", shape=(4, 6)), info("y", shape=(4, 6))], "z s"), X, -X)


def test_a_sequence_is_mapped() -> None:
    body = helper.make_graph(
        [node("Add", "a b", "c"), node("Shape", "c", "d")],
        "body",
        [info("a", F32, None), info("b", F32, None)],
        [info("c", F32, None), info("d", I64, (2,))],
    )
    mapping = node("SequenceMap", "s k", "sums shapes", body=body)
    source = program([mapping], [sequence_info("s"), info("k", shape=(6,))], "sums shapes")
    offset = np.ones(6, F32)
    sums, shapes = load(source)(PARTS * 4, offset)
    assert_same(sums, [part + 1 for part in PARTS] * 4)
    assert_same(shapes, [np.asarray(part.shape) for part in PARTS] * 4)
    assert load(source)([], offset) == ([], [])


# --- inputs and outputs of a model ------------------------------------------------------------------------------------


def test_a_model_is_compiled_for_each_length() -> None:
    source = program([node("ConcatFromSequence", "s", "y", axis=0)], [sequence_info("s")], "y")
    loaded = load(source)
    assert str(loaded.inputs[0]) == "s: sequence of float32[*]"
    for parts in (PARTS, PARTS[:2], PARTS):
        assert_same(loaded(parts), (np.concatenate(parts),))
    assert len(loaded._executables) == 2  # pyright: ignore[reportPrivateUsage]
    assert_same(loaded.freeze()(PARTS), (X,))
    traced = loaded.trace([(2, 6), tenon.ShapeDtype((3, 6), "f32")])
    assert "(%0: tensor<2x6xf32>, %1: tensor<3x6xf32>) -> tensor<5x6xf32>" in str(traced.module)


def test_tensors_of_a_sequence_have_sizes_of_their_own() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["N", 6, "N"])
    loaded = load(program([node("SequenceLength", "s", "n")], [info("x", shape=("N",)), sequence], "n"))
    given = [np.zeros((n, 6, n), F32) for n in (1, 3)]
    assert_same(loaded(np.zeros(2, F32), given), (np.asarray(2),))
    for shape in ((1, 6, 2), (1, 5, 1), (6,)):
        with pytest.raises(ValueError, match=r"s: sequence of float32\[N, 6, N\].* is given as float32\["):
            loaded(np.zeros(2, F32), [*given, np.zeros(shape, F32)])


def test_gradients_pass_through_sequences() -> None:
    nodes = [node("ConcatFromSequence", "s", "t", axis=0), node("Mul", "t t", "u"), node("SplitToSequence", "u", "y")]
    loaded = load(program(nodes, [sequence_info("s")], "y"))

    def total(parts: list[Any]) -> Any:
        return sum(row.sum() for row in loaded(parts)[0])

    assert_same(tenon.grad(total)(PARTS), [2 * part for part in PARTS])


def test_optionals_are_values_or_none() -> None:
    nodes = [node("OptionalHasElement", "o", "has"), node("Identity", "o", "same"), node("Optional", "", "none")]
    loaded = load(program(nodes, [optional_info("o")], "has same none"))
    one = np.ones(2, F32)
    assert_same(loaded(one), (np.asarray(True), one, None))
    assert_same(loaded(None), (np.asarray(False), None, None))
    assert_same(tenon.jit(loaded)(None), (np.asarray(False), None, None))
    assert "optional float32[2]" in str(loaded.inputs[0])


@pytest.mark.parametrize("given", [None, [], PARTS])
def test_a_branch_gets_what_an_optional_holds(given: Any) -> None:
    then_branch = helper.make_graph([node("OptionalGetElement", "o", "a")], "then", [], [sequence_info("a")])
    else_branch = helper.make_graph([node("SequenceConstruct", "x", "b")], "else", [], [sequence_info("b")])
    chosen = node("If", "has", "y", then_branch=then_branch, else_branch=else_branch)
    nodes = [node("OptionalHasElement", "o", "has"), chosen]
    source = program(nodes, [sequence_info("o", optional=True), info("x", shape=(4, 6))], "y")
    assert_same(load(source)(given, X), ([X] if given is None else given,))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (X, "input s: sequence of float32[*] is given as ndarray where a list is needed"),
        (None, "input s: sequence of float32[*] is given as NoneType where a list is needed"),
        ([X, X.astype(I64)], "input s: sequence of float32[*] is given as int64[4, 6]"),
    ],
)
def test_what_is_no_sequence_is_refused(given: Any, expected: str) -> None:
    loaded = load(program([node("SequenceLength", "s", "n")], [sequence_info("s")], "n"))
    with pytest.raises(TypeError) as caught:
        loaded(given)
    assert expected in str(caught.value)
    with pytest.raises(OnnxError, match="has no declared length"):
        loaded.trace()


def test_a_tensor_of_a_sequence_and_an_input_of_the_same_name_are_told_apart() -> None:
    loaded = load(program([node("ConcatFromSequence", "s", "y", axis=0)], [sequence_info("s"), info("s[1]")], "y"))
    with pytest.raises(OnnxError, match=r"'s\[1\]' is an input or a weight"):
        loaded(PARTS, X)


# --- control flow -----------------------------------------------------------------------------------------------------


def growing() -> onnx.GraphProto:
    """t = s with the sum of x and the step behind."""
    nodes = [node("Identity", "going", "more"), node("Cast", "i", "f", to=1), node("Add", "x f", "y")]
    nodes += [node("SequenceInsert", "s y", "t")]
    inputs = [info("i", I64, ()), info("going", BOOL, ()), sequence_info("s")]
    return helper.make_graph(nodes, "growing", inputs, [info("more", BOOL, ()), sequence_info("t")])


@pytest.mark.parametrize("steps", [0, 3, 20])
def test_a_sequence_grows_in_a_loop_of_known_length(steps: int) -> None:
    nodes = [node("SequenceEmpty", "", "s0"), node("Loop", "n - s0", "y", body=growing())]
    source = program(nodes, [info("n", I64, ()), info("x", shape=(2,))], "y")
    start = np.asarray([0.5, -1], F32)
    assert_same(load(source)(np.asarray(steps), start), ([start + F32(step) for step in range(steps)],))
    with pytest.raises(OnnxError, match=r"Loop node 'y': the trip count: has to be known.*no value of 'n' is given"):
        load(source).trace()


def test_a_loop_that_would_be_written_out_too_often_is_refused() -> None:
    nodes = [node("SequenceEmpty", "", "s0"), node("Loop", "n - s0", "y", body=growing())]
    source = program(nodes, [info("n", I64, ()), info("x", shape=(2,))], "y")
    with pytest.raises(OnnxError, match="Loop node 'y': takes more than 1000 steps that differ in shapes"):
        load(source)(np.asarray(5000), np.zeros(2, F32))


@pytest.mark.parametrize("steps", [3, 20])
def test_a_loop_takes_a_tensor_of_a_sequence_in_each_step(steps: int) -> None:
    nodes = [node("Identity", "going", "more"), node("SequenceAt", "s i", "x"), node("Add", "v x", "w")]
    inputs = [info("i", I64, ()), info("going", BOOL, ()), info("v", F32, (2,))]
    body = helper.make_graph(nodes, "adding", inputs, [info("more", BOOL, ()), info("w", F32, (2,))])
    nodes = [node("SequenceLength", "s", "n"), constant(np.asarray(True), "c"), node("Loop", "n c v0", "y", body=body)]
    given = [np.full(2, step, F32) for step in range(steps)]
    source = program(nodes, [sequence_info("s"), info("v0", shape=(2,))], "y")
    check(source, given, np.ones(2, F32))
    with pytest.raises(OnnxError, match="position: hangs on a value of the loop"):
        load(source).trace([given[0]] * 1001)


def test_a_long_loop_carries_a_sequence() -> None:
    nodes = [node("Identity", "going", "more"), constant(np.asarray(0), "zero"), node("SequenceAt", "s zero", "x")]
    nodes += [node("Add", "x x", "y"), node("SequenceErase", "s zero", "r"), node("SequenceInsert", "r y", "t")]
    inputs = [info("i", I64, ()), info("going", BOOL, ()), sequence_info("s")]
    body = helper.make_graph(nodes, "turning", inputs, [info("more", BOOL, ()), sequence_info("t")])
    nodes = [constant(np.asarray(21), "n"), constant(np.asarray(True), "c"), node("Loop", "n c s", "y", body=body)]
    source = program(nodes, [sequence_info("s")], "y")
    given = [np.asarray([value], F32) for value in (1, 3)]
    check(source, given)
    assert "tenon.scan" in str(load(source).trace(given).module)


def branching(count: int) -> onnx.ModelProto:
    """A sequence of two, or of `count` tensors."""
    then_branch = helper.make_graph([node("SequenceConstruct", "x x", "a")], "then", [], [sequence_info("a")])
    nodes = [node("Neg", "x", "z"), node("SequenceConstruct", " ".join(["z"] * count), "b")]
    else_branch = helper.make_graph(nodes, "else", [], [sequence_info("b")])
    chosen = node("If", "c", "y", then_branch=then_branch, else_branch=else_branch)
    return program([chosen], [info("c", BOOL, ()), info("x", shape=(4, 6))], "y")


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("count", [2, 3])
def test_branches_give_sequences(condition: bool, count: int) -> None:
    check(branching(count), np.asarray(condition), X)


def test_branches_that_give_sequences_of_one_length_are_both_compiled() -> None:
    declared = tenon.ShapeDtype((), "i1"), X
    assert "tenon.cond" in str(load(branching(2)).trace(*declared).module)
    with pytest.raises(OnnxError, match=r"If node 'y': the condition: has to be known.*no value of 'c' is given"):
        load(branching(3)).trace(*declared)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("Neg", "s", "y")], "Neg node 'y': input 0 ('X') is of kind 'sequence' where tensor is needed"),
        ([node("SequenceLength", "x", "y")], "input 0 ('input_sequence') is of kind 'tensor' where sequence is needed"),
        ([node("Optional", "", "o"), node("Neg", "o", "y")], "is of kind 'empty optional' where tensor is needed"),
        ([node("Optional", "", "o"), node("OptionalGetElement", "o", "y")], "the optional is empty"),
        ([node("SequenceAt", "s k", "y")], "SequenceAt node 'y': position 7 is outside of a sequence of 3"),
        ([node("SequenceEmpty", "", "e"), node("SequenceErase", "e", "y")], "the sequence is empty"),
        ([node("SequenceEmpty", "", "e"), node("ConcatFromSequence", "e", "y", axis=0)], "the sequence is empty"),
        ([node("SequenceInsert", "s k", "y")], "tensors of a sequence are of one dtype, and these are float32, int64"),
        ([node("SplitToSequence", "x k", "y")], None),
        ([node("SplitToSequence", "x zero", "y")], "parts of size 0"),
        ([node("SplitToSequence", "x ks", "y")], "parts of sizes [7] do not make up dimension 0, which is 4"),
        ([node("Expand", "x many", "z"), node("SplitToSequence", "z", "y")], "sequence of 10001 tensors, more than"),
    ],
)
def test_errors_name_the_node_and_what_is_wrong(nodes: list[onnx.NodeProto], expected: str | None) -> None:
    constants = {"k": 7, "ks": [7], "zero": 0, "many": [20_000, 4, 6]}
    given = [constant(np.asarray(value), name) for name, value in constants.items()]
    loaded = load(program([*given, *nodes], [sequence_info("s"), info("x", shape=(4, 6))], "y"))
    if expected is None:
        assert_same(loaded(PARTS, X), ([X],))
        return
    with pytest.raises(OnnxError) as caught:
        loaded(PARTS, X)
    assert expected in str(caught.value)


def test_a_position_that_steps_compute_is_refused() -> None:
    nodes = [node("ArgMax", "x", "p", keepdims=0), node("SequenceAt", "s p", "y")]
    loaded = load(program(nodes, [sequence_info("s"), info("x", F32, (3,))], "y"))
    with pytest.raises(OnnxError, match=r"position: has to be known, and hangs on the value of 'x'"):
        loaded.trace(PARTS, (3,))
    assert_same(loaded(PARTS, np.asarray([0, 2, 1], F32)), (PARTS[1],))
