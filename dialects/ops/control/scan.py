"""Control flow on tensors: `scan`, a loop of a known number of steps.

Its region may use values of the enclosing block, and `tenon.yield` ends it. The reverse-mode gradient computes the
steps again in the backward pass, from the carried values that `scan` then saves; the pass `keep-products` saves more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tenon.dialects.definition.type_inference import InfersTypes
from tenon.dialects.definition.value import InsertionPoint, Value, emit, inserting, ops
from tenon.dialects.families.control_flow import (
    Contributions,
    ControlFlowOp,
    Gradients,
    YieldOp,
    check_arguments,
    check_yield,
    clone_into,
    float_values,
    or_zeros,
    yielded,
)
from tenon.dialects.families.control_flow_assembly import (
    parse_regions,
    parse_types,
    parse_values,
    print_regions,
    print_types,
    print_values,
)
from tenon.dialects.families.control_flow_types import stacked_type
from tenon.dialects.families.regions import captured_values
from tenon.dialects.types.shapes import show
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import element_of, is_float, shape_of, tensor_type

_INDEX = IndexType()


def _constant(number: int) -> SSAValue:
    return emit(arith.ConstantOp(IntegerAttr(number, _INDEX))).result


def _window(shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Static offsets, sizes and strides of one slice along the first dimension; the first offset is dynamic."""
    if open_sizes := [size for size in shape if isinstance(size, Size)]:
        raise UndecidedSizeError(f"scan: the size {open_sizes[0]} of a slice must be known")
    return [DYNAMIC_INDEX, *[0] * (len(shape) - 1)], [1, *shape[1:]], [1] * len(shape)


def _slice(sequence: SSAValue, position: SSAValue) -> SSAValue:
    shape = shape_of(sequence.type)
    assert shape is not None
    offsets, sizes, strides = _window(shape)
    type_: Any = tensor_type(shape[1:], element_of(sequence.type))
    op = tensor.ExtractSliceOp.build(
        operands=[sequence, [position], [], []],
        result_types=[type_],
        properties=_static(offsets, sizes, strides),
    )
    return emit(op).results[0]


def _inserted(value: SSAValue, target: SSAValue, position: SSAValue) -> SSAValue:
    shape = shape_of(target.type)
    assert shape is not None
    op = tensor.InsertSliceOp.build(
        operands=[value, target, [position], [], []],
        result_types=[target.type],
        properties=_static(*_window(shape)),
    )
    return emit(op).results[0]


def _static(offsets: list[int], sizes: list[int], strides: list[int]) -> dict[str, Any]:
    return {
        "static_offsets": DenseArrayBase.from_list(i64, offsets),
        "static_sizes": DenseArrayBase.from_list(i64, sizes),
        "static_strides": DenseArrayBase.from_list(i64, strides),
    }


@dataclass(frozen=True)
class _ScanTypes(InfersTypes):
    """Carried values have the types of their initial values; what else the body yields is stacked."""

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        assert isinstance(op, ScanOp)
        carried = [value.type for value in op.initial]
        return [*carried, *[stacked_type(value.type, op.steps) for value in yielded(op.body)[len(carried) :]]]

    def infer_argument_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        assert isinstance(op, ScanOp)
        slices = [tensor_type((shape_of(v.type) or ())[1:], element_of(v.type)) for v in op.sequences]
        return ([*[value.type for value in op.initial], *slices],)

    def infer_yielded_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        assert isinstance(op, ScanOp)
        return ([value.type for value in op.initial],)


@irdl_op_definition
class ScanOp(ControlFlowOp):
    """`body` applied `length` times: to the carried values and to the step's slice of each sequence.

    Sequences are sliced along their first dimension. The body yields the carried values and then one slice of each
    stacked output. Results are the last carried values and the stacked outputs. With `reverse`, the last slices come
    first.

    >>> tenon.scan(lambda total, x: (total + x, total * x), np.array(0.0), np.array([1.0, 2.0, 3.0]))
    """

    name = "tenon.scan"
    initial = var_operand_def(TensorType[Attribute])
    sequences = var_operand_def(TensorType[Attribute])
    length = prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    outputs = var_result_def(TensorType[Attribute])
    body = region_def("single_block")
    traits = traits_def(Pure(), _ScanTypes())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def of(
        cls, initial: Sequence[SSAValue], sequences: Sequence[SSAValue], body: Block, length: int, reverse: bool
    ) -> ScanOp:
        terminator = body.last_op
        assert isinstance(terminator, YieldOp)
        slices = list(terminator.operands)[len(initial) :]
        stacked = [stacked_type(v.type, length) for v in slices]
        return cls.create(
            operands=[*initial, *sequences],
            result_types=[*[v.type for v in initial], *stacked],
            properties=cls._properties(len(initial), len(sequences), length, reverse),
            regions=[Region(body)],
        )

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.length.value.data

    @property
    def runs(self) -> tuple[int, int | None]:
        return self.steps, self.steps

    def print(self, printer: Printer) -> None:
        print_values(printer, "init", self.initial)
        print_values(printer, "slices", self.sequences)
        printer.print_string(f" length {self.steps}" + (" reverse" if self.reverse is not None else ""))
        print_types(printer, [r.type for r in self.results])
        print_regions(printer, self, [self.body])

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        initial, sequences = parse_values(parser, "init"), parse_values(parser, "slices")
        parser.parse_keyword("length")
        properties = cls._properties(
            len(initial), len(sequences), parser.parse_integer(), parser.parse_optional_keyword("reverse") is not None
        )
        types = parse_types(parser)
        attributes, regions = parse_regions(parser, [])
        return cls.create(
            operands=[*initial, *sequences],
            result_types=types,
            properties=properties,
            attributes=attributes,
            regions=regions,
        )

    @staticmethod
    def _properties(initial: int, sequences: int, length: int, reverse: bool) -> dict[str, Attribute]:
        properties: dict[str, Attribute] = {
            "length": IntegerAttr(length, i64),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [initial, sequences]),
        }
        if reverse:
            properties["reverse"] = UnitAttr()
        return properties

    def verify_(self) -> None:
        if self.steps < 0:
            raise VerifyException(f"tenon.scan: length is {self.steps}, which is negative")
        slices: list[Attribute] = []
        for position, sequence in enumerate(self.sequences):
            shape = shape_of(sequence.type)
            if not shape or shape[0] != self.steps:
                raise VerifyException(
                    f"tenon.scan: sequence {position} has shape {show(shape)} where {self.steps} slices are needed"
                )
            slices.append(tensor_type(shape[1:], element_of(sequence.type)))
        carried = [v.type for v in self.initial]
        check_arguments(self, self.body, [*carried, *slices], "body")
        results = [r.type for r in self.results]
        stacked = results[len(carried) :]
        for position, type_ in enumerate(stacked):
            shape = shape_of(type_)
            if not shape or shape[0] != self.steps:
                raise VerifyException(
                    f"tenon.scan: output {position} is {type_} where a first dimension of {self.steps} is needed"
                )
        given = [tensor_type((shape_of(t) or ())[1:], element_of(t)) for t in stacked]
        check_yield(self, self.body, [*carried, *given], "body")
        if results[: len(carried)] != carried:
            raise VerifyException("tenon.scan: results and carried values differ in type")

    def save_carried(self) -> list[SSAValue]:
        """Make the op stack what its body is given as carried values, too; returns those results."""
        count = len(self.initial)
        terminator = self.body.block.last_op
        assert isinstance(terminator, YieldOp)
        given = list(terminator.operands)
        saved: list[SSAValue] = []
        for argument in self.body.block.args[:count]:
            if argument in given[count:]:
                saved.append(self.results[given.index(argument, count)])
                continue
            given.append(argument)
            result = OpResult(stacked_type(argument.type, self.steps), self, len(self.results))
            self.results = SSAValues([*self.results, result])
            saved.append(result)
        terminator.operands = given
        return saved

    def pull_back(self, cotangents: list[Value | None], gradients: Gradients) -> Contributions:
        known = len(self.results)
        saved = self.save_carried()
        cotangents = [*cotangents, *[None] * (len(self.results) - known)]
        carried, count = list(self.initial), len(self.initial)
        floats = [i for i, v in enumerate(carried) if is_float(element_of(v.type))]
        outer = float_values(captured_values(self.body))
        stacked = [(i, c) for i, c in enumerate(cotangents) if i >= count and c is not None]
        float_sequences = [i for i, v in enumerate(self.sequences) if is_float(element_of(v.type))]

        start = or_zeros([cotangents[i] for i in floats], [Value(carried[i]) for i in floats])
        start += [ops.zeros_like(Value(v)) for v in outer]
        sequences = [*saved, *self.sequences, *[c.ssa for _, c in stacked]]
        slices = [tensor_type((shape_of(v.type) or ())[1:], element_of(v.type)) for v in sequences]
        block = Block(arg_types=[*[v.type for v in start], *slices])
        arguments = list(block.args)
        running, given = arguments[: len(start)], arguments[len(start) :]
        body_arguments, output_cotangents = given[: count + len(self.sequences)], given[count + len(self.sequences) :]
        with inserting(InsertionPoint(block)):
            again = clone_into(self.body, block, body_arguments)
            seeds: list[Value | None] = [None] * len(again)
            for position, i in enumerate(floats):
                seeds[i] = Value(running[position])
            for (i, _), cotangent in zip(stacked, output_cotangents, strict=True):
                seeds[i] = Value(cotangent)
            sources = [Value(body_arguments[i]) for i in floats]
            sources += [Value(body_arguments[count + i]) for i in float_sequences] + [Value(v) for v in outer]
            found = gradients(again, seeds, sources)
            n_carried, n_sequences = len(floats), len(float_sequences)
            to_carried = or_zeros(found[:n_carried], sources[:n_carried])
            to_slices = or_zeros(
                found[n_carried : n_carried + n_sequences], sources[n_carried : n_carried + n_sequences]
            )
            sums = [Value(v) for v in running[n_carried:]]
            to_outer = [
                s if g is None else ops.add(s, g) for s, g in zip(sums, found[n_carried + n_sequences :], strict=True)
            ]
            emit(YieldOp(*[v.ssa for v in (*to_carried, *to_outer, *to_slices)]))
        backward = ScanOp.of([v.ssa for v in start], sequences, block, self.steps, self.reverse is None)
        results = [Value(r) for r in emit(backward).results]
        targets = [*[carried[i] for i in floats], *outer, *[self.sequences[i] for i in float_sequences]]
        return list(zip(targets, results, strict=True))

    def structured(self) -> Sequence[SSAValue]:
        count, length = len(self.initial), self.steps
        stacked_types = [r.type for r in self.results][count:]
        zero, one, upper = _constant(0), _constant(1), _constant(length)
        starts = [emit(tensor.EmptyOp((), t)).results[0] for t in stacked_types]
        carried_types = [v.type for v in (*self.initial, *starts)]
        body = self.body.block
        block = Block(arg_types=[_INDEX, *carried_types])
        step, *running = block.args
        with inserting(InsertionPoint(block)):
            position: SSAValue = step
            if self.reverse is not None:
                position = emit(arith.SubiOp(_constant(length - 1), step)).results[0]
            slices = [_slice(sequence, position) for sequence in self.sequences]
        for argument, value in zip(body.args, [*running[:count], *slices], strict=True):
            argument.replace_all_uses_with(value)
        terminator = body.last_op
        assert isinstance(terminator, YieldOp)
        given = list(terminator.operands)
        terminator.detach()
        terminator.erase()
        for inner in list(body.ops):
            inner.detach()
            block.add_op(inner)
        with inserting(InsertionPoint(block)):
            stacked = [
                _inserted(value, target, position) for value, target in zip(given[count:], running[count:], strict=True)
            ]
            emit(scf.YieldOp(*given[:count], *stacked))
        return emit(scf.ForOp(zero, upper, one, [*self.initial, *starts], Region(block))).results
