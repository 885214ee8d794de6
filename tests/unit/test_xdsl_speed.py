"""What `xdsl_speed` replaces does what it did, and the whole of it is installed."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Protocol

import pytest
from xdsl.dialects import arith, builtin, scf, test
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, irdl_op_definition

from tenon.dialects.upstream.xdsl_corrections import correct_xdsl

correct_xdsl()


def _number(value: int) -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr(value, i32))


@pytest.mark.parametrize(
    "shape", [[2, 3], (builtin.IntAttr(2), 3), builtin.ArrayAttr([builtin.IntAttr(2), builtin.IntAttr(3)])]
)
def test_memrefs_take_shapes_as_numbers_and_as_attributes(shape):
    made = builtin.MemRefType(i32, shape)
    assert made.shape == builtin.ArrayAttr([builtin.IntAttr(2), builtin.IntAttr(3)])
    assert made == builtin.MemRefType(i32, [2, 3], builtin.NoneAttr(), builtin.NoneAttr())
    assert str(made) == "memref<2x3xi32>"
    assert str(builtin.MemRefType(i32, shape, memory_space=IntegerAttr(3, i32))) == "memref<2x3xi32, 3 : i32>"


def test_named_operands_and_results_are_those_of_the_op():
    one, two = _number(1), _number(2)
    total = arith.AddiOp(one, two)
    assert total.lhs is one.result
    assert total.rhs is two.result
    assert total.operands[0] is one.result
    assert total.operands[-1] is two.result
    assert isinstance(total.operands[:1], SSAValues)
    assert tuple(total.operands[:1]) == (one.result,)
    assert isinstance(total.results[:], SSAValues)
    assert total.results[0] is total.result
    assert total.result.type == i32
    with pytest.raises(IndexError):
        total.operands[2]


def test_operands_that_change_keep_their_uses():
    one, two = _number(1), _number(2)
    total = arith.AddiOp(one, one)
    total.operands[1] = two.result
    assert total.rhs is two.result
    assert [(use.operation, use.index) for use in two.result.uses] == [(total, 1)]
    assert [(use.operation, use.index) for use in one.result.uses] == [(total, 0)]
    one.result.replace_all_uses_with(two.result)
    assert total.lhs is two.result
    assert one.result.first_use is None


def test_ops_and_values_are_told_apart_by_identity():
    one, same = _number(1), _number(1)
    for first, second in ((one, same), (one.result, same.result), (Block(), Block()), (Region(), Region())):
        assert first == first
        assert first != second
        assert len({first, second, first}) == 2
    for kind in (Operation, IRDLOperation, SSAValue, Block, Region):
        assert kind.__hash__ is object.__hash__
        assert kind.__eq__ is object.__eq__


def test_a_new_op_has_its_regions_successors_and_defaults():
    target, region = Block(), Region(Block())
    op = test.TestOp.create(result_types=[i32, i32], successors=[target], regions=[region])
    assert [result.index for result in op.results] == [0, 1]
    assert op.regions == (region,)
    assert region.parent is op
    assert list(op.successors) == [target]
    assert target.first_use is not None
    assert target.first_use.operation is op
    assert list(_number(1).successors) == []
    assert op.location == builtin.UNKNOWN_LOC
    total = arith.AddiOp.create(operands=[_number(1).result] * 2, result_types=[i32])
    assert total.overflow_flags == arith.IntegerOverflowAttr("none")
    given = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
    total = arith.AddiOp.create(operands=total.operands, result_types=[i32], properties={"overflowFlags": given})
    assert total.overflow_flags == given


def test_clones_have_operands_of_their_own():
    loop = _loop()
    copy, bound = loop.clone(), loop.lb
    assert copy.lb is bound
    assert copy.body.block is not loop.body.block
    loop.erase()
    assert {use.operation for use in bound.uses} == {copy}


def test_an_attribute_of_no_kind_is_refused():
    @dataclass(frozen=True)
    class Odd(Attribute):
        name = "test.odd"

    with pytest.raises(TypeError, match="should only be Data or ParametrizedAttribute"):
        Odd()


def _loop(*ops: Operation) -> scf.ForOp:
    bound = arith.ConstantOp(IntegerAttr(4, builtin.IndexType()))
    return scf.ForOp(bound, bound, bound, [], [Block([*ops, scf.YieldOp()], arg_types=[builtin.IndexType()])])


def _nested() -> scf.ForOp:
    return _loop(_number(2), _loop(_number(1)))


def test_ops_are_walked_in_the_order_in_which_they_are_written():
    loop = _nested()
    names = ["scf.for", "arith.constant", "scf.for", "arith.constant", "scf.yield", "scf.yield"]
    assert [op.name for op in loop.walk()] == names
    assert [op.name for op in loop.walk(reverse=True, region_first=True)] == names[::-1]
    assert [op.name for op in loop.body.walk()] == names[1:]
    assert [op.name for op in loop.body.block.ops] == ["arith.constant", "scf.for", "scf.yield"]
    assert len(loop.body.block.ops) == 3
    assert len(Block().ops) == 0


def test_what_was_given_may_be_erased_and_more_be_written_meanwhile():
    loop = _nested()
    seen: list[str] = []
    for op in loop.walk():
        seen.append(op.name)
        if isinstance(op, arith.ConstantOp):
            assert op.parent is not None
            op.parent.insert_op_before(_number(3), op)
            op.detach()
            op.erase()
    assert seen.count("arith.constant") == 2
    assert len(seen) == 6


def test_an_op_is_put_into_one_block_and_into_none_of_its_own():
    loop, number = _nested(), _number(1)
    Block([number])
    with pytest.raises(ValueError, match="already attached"):
        Block([number])
    with pytest.raises(ValueError, match="contained in the operation"):
        loop.body.block.add_op(loop)


def test_shapes_are_those_of_the_types():
    for kind in (builtin.TensorType, builtin.MemRefType, builtin.VectorType):
        type_ = kind(i32, [2, 3])
        assert type_.get_shape() == type_.get_shape() == (2, 3)
        assert type_ == kind(i32, [2, 3])
        assert hash(type_) == hash(kind(i32, [2, 3]))
        assert kind(i32, []).get_shape() == ()


def test_numbers_of_arrays_are_those_that_were_given():
    array = builtin.DenseArrayBase.from_list(builtin.i64, [3, -1, 5])
    assert array.get_values() == array.get_values() == (3, -1, 5)
    assert array == builtin.DenseArrayBase.from_list(builtin.i64, [3, -1, 5])
    assert array != builtin.DenseArrayBase.from_list(builtin.i64, [3, -1])
    assert builtin.DenseArrayBase.from_list(builtin.i64, []).get_values() == ()


def test_arrays_of_equal_numbers_are_one_if_these_have_the_same_bits():
    array = builtin.DenseArrayBase.from_list
    assert array(builtin.i64, [1, 0]) is array(builtin.i64, (1, 0))
    assert array(builtin.i32, [1, 0]) != array(builtin.i64, [1, 0])
    assert array(builtin.f32, [0.0]) != array(builtin.f32, [-0.0])
    assert array(builtin.i1, [True, False]).get_values() == array(builtin.i1, [1, 0]).get_values()
    with pytest.raises(ValueError, match="out of range"):
        array(builtin.i8, [256])


def test_types_keep_their_hash_in_this_process_alone():
    type_ = builtin.MemRefType(i32, [2, 3], memory_space=builtin.StringAttr("shared"))
    before, fields = hash(type_), set(vars(copy.copy(type_)))
    assert set(vars(pickle.loads(pickle.dumps(type_)))) == fields
    assert hash(copy.deepcopy(type_)) == hash(type_) == before
    assert {type_: 1}[pickle.loads(pickle.dumps(type_))] == 1
    assert hash(type_) not in (hash(builtin.MemRefType(i32, [3, 2])), hash(builtin.TensorType(i32, [2, 3])))


class _Named(Protocol):
    name: str


@pytest.mark.parametrize("root", [Operation, Attribute, SSAValue, AffineExpr])
def test_what_is_of_a_class_is_asked_of_type(root):
    meta = type(root)
    assert meta.__instancecheck__ is type.__instancecheck__
    pending = [root]
    while pending:
        kind = pending.pop()
        assert issubclass(type(kind), meta)
        pending += kind.__subclasses__()


def test_classes_that_derive_later_are_told_apart():
    @irdl_op_definition
    class FirstOp(IRDLOperation):
        name = "test.first"

    class SecondOp(arith.ConstantOp):
        pass

    first = FirstOp()
    assert isinstance(first, FirstOp)
    assert isinstance(first, Operation)
    assert not isinstance(first, SecondOp | arith.ConstantOp)
    assert isinstance(SecondOp(IntegerAttr(1, i32)), (FirstOp, arith.ConstantOp))
    assert issubclass(SecondOp, arith.ConstantOp)
    assert not issubclass(SecondOp, FirstOp)

    class Both(Attribute, _Named):
        """An attribute that follows a protocol, whose class is of another class."""

    assert issubclass(Both, Attribute)


def test_neighbours_are_those_of_the_block():
    ops = [_number(1), _number(2)]
    block = Block(ops, arg_types=[i32])
    region = Region([block, following := Block()])
    assert (ops[0].next_op, ops[1].next_op, ops[0].prev_op, ops[1].prev_op) == (ops[1], None, None, ops[0])
    assert (block.first_op, block.last_op, block.next_block, region.first_block) == (*ops, following, block)
    assert block.args[0].owner is block
    total = arith.AddiOp(block.args[0], ops[0])
    assert ops[0].result.owner is ops[0]
    (use,) = ops[0].result.uses
    assert (use.operation, use.index) == (total, 1)
