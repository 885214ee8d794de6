"""Models that are changed at random are refused with one error, or run: see `onnx_mutations`."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx_models import info
from onnx_mutations import attempt, broken
from seeds import run_seed

from tenon.onnx import OnnxError, load

FIXED, FRESH = 150, 200
RUN_ONE_IN = 10


@pytest.mark.parametrize("first", [0, None], ids=["fixed", "fresh"])
def test_models_that_are_changed(first: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    begin = run_seed() if first is None else first
    if first is None:
        with capsys.disabled():
            print(f"[models from {begin} on]", end=" ")
    outcomes: Counter[str] = Counter()
    for number in range(begin, begin + (FRESH if first is None else FIXED)):
        try:
            outcomes[attempt(broken(number), run=number % RUN_ONE_IN == 0)] += 1
        except BaseException as error:
            error.add_note(f"python tests/unit/onnx_mutations.py --first {number} --count 1")
            raise
    # Changes are neither so small that nothing is wrong, nor so large that nothing is read.
    assert outcomes["refused"] > sum(outcomes.values()) / 4
    assert outcomes["traced"] + outcomes["run"] > sum(outcomes.values()) / 20


def required_inputs() -> list[tuple[str, int, int]]:
    """Operators of the newest standard, a count of inputs, and the place of one that is left out."""
    found: list[tuple[str, int, int]] = []
    for schema in onnx.defs.get_all_schemas():
        if not schema.domain and not schema.deprecated:
            single = [i for i, formal in enumerate(schema.inputs) if formal.option == formal.option.Single]
            found += [(schema.name, len(single), place) for place in single if len(single) <= 4 and place < len(single)]
    return found


def test_a_required_input_that_is_left_out_is_named() -> None:
    named = 0
    for operator, count, place in required_inputs():
        names = ["" if i == place else "x" for i in range(count)]
        schema = onnx.defs.get_schema(operator, 21) if onnx.defs.has(operator, 21, "") else None
        if schema is None:
            continue
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(operator, names, ["y"], "node")],
            "small",
            [info("x", shape=(2, 3))],
            [info("y", None)],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
        with pytest.raises(OnnxError) as caught:
            load(model).trace()
        named += f"input {place} ({schema.inputs[place].name!r}) is missing" in str(caught.value)
        assert "has no attribute" not in str(caught.value)
    assert named > 100
