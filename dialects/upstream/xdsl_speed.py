"""What xDSL 0.74 does most often while a program is compiled, in fewer steps of Python; what it does is the same.

- Ops and values are told apart by identity: `object` hashes and compares them without a call of Python.
- `op.lhs` reads the operand; in xDSL it makes a view of all operands first, and asks for the kind of what is named.
- `op.operands[0]` and `op.results[0]` ask whether they are given a number only where they are not.
- What an op, a block or a value has beside it is read by a getter of C, where xDSL has one of Python.
- Whether an op, a value, an attribute or an affine expression is of a class is asked of `type`, not of `abc`, which
  looks for classes that were registered as another's: nobody registers any of these.
- Ops and attributes are made as `xdsl_making` says.
- The ops of a block are given by a generator and counted in one loop; those inside an op without an iterator, a
  generator and two calls for each. The next op is asked for before one is given, as in xDSL.
- Whether an op contains the block that it is put into is asked of those with regions.
- An argument is put behind the others of a block without those being counted.
- The shape of a type of tensors, memrefs or vectors is a tuple that is made once, and so are its hash and the numbers
  of an array: ops with several lists of operands ask one for their lengths whenever one of these is named.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Generator, Iterator
from operator import attrgetter
from typing import Any, Protocol, cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    DenseArrayBase,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    Region,
    SSAValue,
    Use,
)
from xdsl.ir.affine import AffineExpr
from xdsl.ir.core import BlockOps, OpOperands, SSAValues
from xdsl.irdl import IRDLOperation
from xdsl.irdl.operations import BeforeVariadicSingleAccessor, VarIRConstruct, get_op_constructs

from tenon.dialects.upstream.xdsl_making import MAKING

_IRNode = Operation.__bases__[0]
_attach_in_xdsl = Block._attach_op  # pyright: ignore[reportPrivateUsage]
_insert_argument_in_xdsl = Block.insert_arg
_walk_otherwise = Operation.walk
_item_of_tuple = tuple.__getitem__
_new_view = OpOperands.__new__
_OPERAND = VarIRConstruct.OPERAND
_SHAPE = "_shape_as_tuple"
"""Where a type, which does not change, keeps its shape; what is no parameter is neither compared nor printed."""
_VALUES = "_values_as_tuple"
"""The same of the numbers of an array."""
_values_in_xdsl: Any = vars(DenseArrayBase)["get_values"]
_SHAPED = (TensorType, MemRefType, VectorType)
_HASH = "_hash_in_process"
"""Where one keeps its hash. That of a text is another one in each process."""


class _Nominal(type(Protocol)):
    """The class of classes whose instances are those of classes that derive from them. It derives from that of
    protocols, so that a class may follow one of these as well."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _make_nominal(kind: type) -> None:
    """Let `kind` and all that derive from it, now or later, be such classes."""
    if type(kind) is ABCMeta:
        kind.__class__ = _Nominal  # pyright: ignore[reportAttributeAccessIssue]
    for derived in type.__subclasses__(kind):
        _make_nominal(derived)


def _value_at(values: tuple[SSAValue, ...], index: Any) -> Any:
    found = _item_of_tuple(values, index)
    return found if type(index) is int or not isinstance(index, slice) else SSAValues(cast(Any, found))


def _operand_at(view: Any, index: Any) -> Any:
    found = _item_of_tuple(view._op._operands, index)
    return found if type(index) is int or not isinstance(index, slice) else SSAValues(cast(Any, found))


def _operands(op: Operation) -> OpOperands:
    view: Any = _new_view(OpOperands)
    view._op = op
    return view


def _named(accessor: Any, op: Any, kind: type[Operation] | None = None) -> Any:
    construct = accessor.construct
    values = op._operands if construct is _OPERAND else get_op_constructs(op, construct)
    return values[accessor.idx]


def _following(op: Any) -> Generator[Operation]:
    while op is not None:
        following = op._next_op
        yield op
        op = following


def _iterate(ops: BlockOps) -> Generator[Operation]:
    return _following(ops.block.first_op)


def _count(ops: BlockOps) -> int:
    count, op = 0, ops.block.first_op
    while op is not None:
        count += 1
        op = op.next_op
    return count


def _walk(root: Operation, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
    if reverse or region_first:
        return _walk_otherwise(root, reverse=reverse, region_first=region_first)
    return _walk_forward(root)


def _walk_forward(root: Operation) -> Generator[Operation]:
    yield root
    for region in root.regions:
        block = region.first_block
        while block is not None:
            next_block, op = block.next_block, block.first_op
            while op is not None:
                following = op.next_op
                if op.regions:
                    yield from op.walk()
                else:
                    yield op
                op = following
            block = next_block


def _attach(block: Block, op: Operation) -> None:
    if op.regions or op.parent is not None:
        _attach_in_xdsl(block, op)
    else:
        op.parent = block


def _insert_argument(block: Any, arg_type: Attribute, index: int, location: Any = None) -> BlockArgument:
    arguments = block._args
    if index != len(arguments):
        return _insert_argument_in_xdsl(block, arg_type, index, location)
    added = BlockArgument(arg_type, block, index, UNKNOWN_LOC if location is None else location)
    block._args = (*arguments, added)
    return added


def _shape(type_: Any) -> tuple[int, ...]:
    known = vars(type_)
    shape = known.get(_SHAPE)
    if shape is None:
        shape = known[_SHAPE] = tuple([size.data for size in type_.shape.data])
    return shape


def _values(array: Any) -> tuple[Any, ...]:
    known = vars(array)
    values = known.get(_VALUES)
    if values is None:
        values = known[_VALUES] = _values_in_xdsl(array)
    return values


def _hash_once(kind: Any) -> Any:
    """What gives the hash of a type of class `kind`."""
    hash_in_xdsl = vars(kind)["__hash__"]

    def hash_of(type_: Any) -> int:
        known = vars(type_)
        found = known.get(_HASH)
        if found is None:
            found = known[_HASH] = hash_in_xdsl(type_)
        return found

    return hash_of


def _without_hash(type_: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(type_).items() if name != _HASH}


def _getters(*names: str) -> dict[str, Any]:
    """Properties that read the attributes of these names with `_` before them."""
    return {name: property(attrgetter(f"_{name}")) for name in names}


_HASHES = {kind: _hash_once(kind) for kind in _SHAPED}


def speed_up_xdsl() -> None:
    """Install these; doing so again changes nothing."""
    identity = {"__hash__": object.__hash__, "__eq__": object.__eq__}
    replaced: tuple[tuple[type, dict[str, Any]], ...] = (
        *MAKING,
        *((kind, identity) for kind in (_IRNode, IRDLOperation, SSAValue, Use)),
        (SSAValues, {"__getitem__": _value_at}),
        (SSAValue, {"type": property(attrgetter("_type"))}),
        (OpOperands, {"__getitem__": _operand_at}),
        (Operation, {"operands": Operation.operands.getter(_operands)}),
        (DenseArrayBase, {"get_values": _values}),
        (BeforeVariadicSingleAccessor, {"__get__": _named}),
        (Operation, {"walk": _walk}),
        (Operation, _getters("next_op", "prev_op")),
        (Block, _getters("args", "first_op", "last_op", "next_block")),
        (Region, _getters("first_block")),
        (Use, _getters("operation", "index")),
        (OpResult, {"owner": property(attrgetter("op"))}),
        (BlockArgument, {"owner": property(attrgetter("block"))}),
        (BlockOps, {"__iter__": _iterate, "__len__": _count}),
        (Block, {"_attach_op": _attach, "insert_arg": _insert_argument}),
        *((kind, {"get_shape": _shape, "__getstate__": _without_hash, "__hash__": _HASHES[kind]}) for kind in _SHAPED),
    )
    for kind, methods in replaced:
        for name, method in methods.items():
            setattr(kind, name, method)
    for kind in (_IRNode, Attribute, SSAValue, AffineExpr):
        _make_nominal(kind)
