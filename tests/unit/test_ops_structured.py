"""Every sample as IR: it verifies, reads back as printed and means what the oracle says.

`test_upstream.py` reads later stages back, and has upstream read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from io import StringIO
from typing import Any

import pytest
from samples import SAMPLES, Sample, samples_of
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, math, scf, tensor
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from tenon.dialects.definition import signedness
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting
from tenon.dialects.families.opaque import OpaqueOp
from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.types.shapes import compatible
from tenon.dialects.types.types import array_type, element_of, shape_of, tensor_type
from tenon.dialects.universe import registered_dialects
from tenon.lowering.buffers.convert_tensor_to_structured import convert_block
from tenon.passes.simplify.decompose import decompose


def traced(sample: Sample, name: str = "main") -> func.FuncOp:
    """A function whose arguments are those of the sample and whose body is the op."""
    function = func.FuncOp(name, ([array_type(a) for a in sample.arrays], []))
    with inserting(InsertionPoint(function.body.block)):
        results = sample.apply([Value(a) for a in function.body.block.args])
        emit(func.ReturnOp(*[v.ssa for v in results]))
    function.update_function_type()
    return function


def structured(sample: Sample) -> ModuleOp:
    """A module of the same function in structured form."""
    function = traced(sample)
    module = ModuleOp([function])  # functions of other languages are declared there
    decompose(function)
    convert_block(function.body.block)
    return module


@cache
def context() -> Context:
    """A context that knows the tensor and the structured dialects."""
    known = Context()
    for dialect in (Builtin, func.Func, arith.Arith, math.Math, linalg.Linalg, tensor.Tensor, scf.Scf):
        known.load_dialect(dialect)
    for dialect in registered_dialects():
        known.load_dialect(dialect)
    return known


def printed(module: ModuleOp, generic: bool = False) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


FEW = [sample for name in registry() if name.startswith("tenon.") for sample in samples_of(name, 4)]


@pytest.mark.parametrize(("generic", "samples"), [(False, SAMPLES), (True, FEW)], ids=["custom", "generic"])
def test_tensor_ir_reads_back_as_it_was_printed(generic: bool, samples: Sequence[Sample]) -> None:
    module = ModuleOp([traced(sample, f"f{i}") for i, sample in enumerate(samples)])
    module.verify()
    text = printed(module, generic)
    again = Parser(context(), text).parse_module()
    again.verify()
    assert printed(again, generic) == text
    # In the generic form xDSL writes splats out in memory, which is no difference in meaning.
    assert generic or again.is_structurally_equivalent(module)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_structured_ir_means_what_the_oracle_says(sample: Sample) -> None:
    if issubclass(registry()[sample.op_name], OpaqueOp):
        pytest.skip("an opaque op is called, and has no structured form")
    module = structured(sample)
    signedness.erase(module)
    sample.check(Interpreter().run(module, "main", sample.arrays))


def blurred(type_: Attribute, rank_is_known: bool) -> Attribute:
    """A tensor type of which only the dtype, and perhaps the rank, is known."""
    shape = shape_of(type_)
    assert shape is not None
    return tensor_type((-1,) * len(shape) if rank_is_known else None, element_of(type_))


@pytest.mark.parametrize("rank_is_known", [False, True])
def test_inference_copes_with_unknown_shapes(rank_is_known: bool) -> None:
    for sample in SAMPLES:
        (op,) = (op for op in traced(sample).walk() if op.name == sample.op_name)
        assert isinstance(op, TensorOp)
        types: list[Any] = op.group([blurred(o.type, rank_is_known) for o in op.operands], op.properties)
        inferred = op.inferred_types(types, op.settings)
        assert len(inferred) == len(op.results), sample
        for result, type_ in zip(op.results, inferred, strict=True):
            assert compatible(result.type, type_), sample


def test_every_op_has_a_sample() -> None:
    sampled = {sample.op_name for sample in SAMPLES}
    missing = [name for name in registry() if name.startswith("tenon.") and name not in sampled]
    assert not missing


def test_sample_names_are_unique() -> None:
    names = [str(sample) for sample in SAMPLES]
    assert len(set(names)) == len(names)
