"""What `xdsl_making` replaces makes what xDSL makes."""

from __future__ import annotations

import copy
import pickle

import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, builtin, func, memref, scf, test
from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, i1, i32
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import ParseError

from tenon.dialects.upstream.xdsl_corrections import correct_xdsl
from tenon.dialects.upstream.xdsl_making import MAKING

correct_xdsl()


def _number(value: int) -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr(value, i32))


def test_all_of_it_is_installed():
    for kind, methods in MAKING:
        assert methods.items() <= vars(kind).items()


@irdl_op_definition
class _ListOp(IRDLOperation):
    name = "test.list"
    one = operand_def(i32)
    several = var_operand_def(i32)
    result = result_def(i32)


@irdl_op_definition
class _OptionalOp(IRDLOperation):
    name = "test.optional"
    perhaps = opt_operand_def(i32)


def test_operands_are_put_in_a_row():
    first, second = _number(1), _number(2)
    op = _ListOp(operands=[first, [second.result, first.result]], result_types=[i32], properties={"none": None})
    assert (op.one, tuple(op.several)) == (first.result, (second.result, first.result))
    assert op.properties == {}
    assert [(use.operation, use.index) for use in first.result.uses] == [(op, 2), (op, 0)]
    assert op.result.op is op
    assert tuple(_ListOp(operands=[[first.result], [second]], result_types=[i32]).operands) == (
        first.result,
        second.result,
    )
    assert len(_ListOp(operands=[first, []], result_types=[i32]).operands) == 1
    assert len(_OptionalOp(operands=[None]).operands) == 0
    assert tuple(_OptionalOp(operands=[first]).operands) == (first.result,)
    call = func.CallOp("f", [first.result, second.result], [i32])
    assert (len(call.arguments), len(call.results)) == (2, 1)
    alloc = memref.AllocOp([first.result], [], builtin.MemRefType(i32, [-1]))
    assert (len(alloc.dynamic_sizes), len(alloc.symbol_operands)) == (1, 0)
    branch = scf.IfOp(arith.ConstantOp(IntegerAttr(1, i1)), [], [scf.YieldOp()], Region(Block([scf.YieldOp()])))
    assert [len(region.blocks) for region in branch.regions] == [1, 1]


@pytest.mark.parametrize(
    "operands",
    [[], [_number(1)], [[_number(1).result] * 2, []], [None, []]],
    ids=["none", "too few", "several for one", "none for one"],
)
def test_wrong_operands_are_refused_as_in_xdsl(operands):
    with pytest.raises(ValueError, match=r"operand|non-variadic|non-optional"):
        _ListOp(operands=operands, result_types=[i32])


def test_uses_are_in_the_order_of_xdsl():
    value = _number(1).result
    users = [arith.AddiOp.create(operands=[value, value], result_types=[i32]) for _ in range(2)]
    assert [(use.operation, use.index) for use in value.uses] == [(op, n) for op in users[::-1] for n in (1, 0)]
    users[1].erase()
    assert [(use.operation, use.index) for use in value.uses] == [(users[0], 1), (users[0], 0)]
    assert not value.has_one_use()
    result = users[0].results[0]
    assert (result.first_use, result.name_hint, result.index) == (None, None, 0)


def test_integers_of_one_type_are_one():
    assert IntegerAttr(3, i32) is IntegerAttr(3, i32)
    assert IntegerAttr(3, i32) != IntegerAttr(3, IndexType())
    assert IntegerAttr(3, 32) == IntegerAttr(builtin.IntAttr(3), i32) == IntegerAttr(3, i32)
    assert str(IntegerAttr.from_bool(True)) == str(IntegerAttr(1, i1)) == "true"
    assert IntegerAttr(255, builtin.IntegerType(8)) == IntegerAttr(-1, builtin.IntegerType(8))
    assert IntegerAttr(256, builtin.IntegerType(8), truncate_bits=True).value.data == 0
    with pytest.raises(Exception, match="out of range"):
        IntegerAttr(256, builtin.IntegerType(8))
    number = IntegerAttr(7, i32)
    assert pickle.loads(pickle.dumps(number)) == copy.deepcopy(number) == copy.copy(number) == number
    assert number.value.data == 7


def test_names_are_checked():
    value = _number(1).result
    value.name_hint = "x_1"
    assert value.name_hint == "x"
    value.name_hint = None
    assert value.name_hint is None
    for _ in range(2):
        with pytest.raises(ValueError, match="Invalid"):
            value.name_hint = "1 x"


def test_an_op_is_made_by_its_class():
    op = test.TestOp.create(result_types=[i32], attributes={"a": StringAttr("b")})
    assert isinstance(op, test.TestOp)
    assert isinstance(op, Operation)
    assert op.attributes == {"a": StringAttr("b")}
    with pytest.raises(TypeError):
        test.TestOp.create(operand=[])  # pyright: ignore[reportCallIssue]


def test_ops_that_are_made_come_into_the_block_that_is_open():
    block = Block()
    with ImplicitBuilder(block):
        one = _number(1)
        total = arith.AddiOp.create(operands=[one.result] * 2, result_types=[i32])
    assert list(block.ops) == [one, total]


def test_the_format_of_an_op_is_read_when_it_is_needed():
    @irdl_op_definition
    class WrittenOp(IRDLOperation):
        name = "test.written"
        one = operand_def(i32)
        assembly_format = "$one attr-dict"

    @irdl_op_definition
    class WrongOp(IRDLOperation):
        name = "test.wrong"
        assembly_format = "$nothing"

    number = _number(1)
    assert str(Block([number, WrittenOp(operands=[number])]).last_op) == "test.written %0"
    with pytest.raises(ParseError, match="nothing"):
        str(WrongOp())
