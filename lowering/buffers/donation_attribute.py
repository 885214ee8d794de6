"""Which inputs give their memory to the outputs of a function: the attribute `donations`, and what it must say."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.utils.exceptions import PassFailedException

from tenon.lowering.buffers.memref_facts import buffer_bytes


def donations(function: func.FuncOp, inputs: Sequence[MemRefType], outputs: Sequence[MemRefType]) -> list[int]:
    """For each output the number of the input whose memory it may be given, or -1.

    Raises `PassFailedException` unless these are distinct inputs, each of as many bytes as its output.
    """
    attribute = function.attributes.get("donations")
    if attribute is None:
        return [-1] * len(outputs)
    name = function.sym_name.data
    numbers = attribute.get_values() if isinstance(attribute, DenseArrayBase) else ()
    if len(numbers) != len(outputs):
        raise PassFailedException(f"bufferize: donations of @{name} are {attribute} for {len(outputs)} outputs")
    given = [index for index in numbers if index != -1]
    if len(set(given)) != len(given) or any(not 0 <= index < len(inputs) for index in given):
        raise PassFailedException(f"bufferize: donations {given} of @{name} do not name distinct inputs")
    for output, index in zip(outputs, numbers, strict=True):
        if index != -1 and buffer_bytes(inputs[index]) != buffer_bytes(output):
            raise PassFailedException(
                f"bufferize: @{name} cannot be given input {index} of type {inputs[index]} for an output {output}"
            )
    return [int(index) for index in numbers]
