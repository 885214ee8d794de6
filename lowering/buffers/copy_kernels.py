"""Kernels that copy a buffer: what is large is copied by threads, as any other kernel runs."""

from __future__ import annotations

from xdsl.dialects import func, linalg
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from tenon.dialects.families.linalg_builders import generic_op
from tenon.dialects.types.size import Size
from tenon.lowering.buffers.bufferize_function import count_attribute
from tenon.lowering.buffers.memref_facts import buffer_bytes

LEAST_BYTES = 1 << 20
"""Bytes from which on a copy is a kernel of its own: fewer are copied sooner than threads are woken."""


class CopyKernels:
    """The copy kernels of a module, one for each type of buffer; they are added as they are asked for."""

    def __init__(self, module: ModuleOp) -> None:
        self._block = module.body.block
        self._taken = {op.sym_name.data for op in self._block.ops if isinstance(op, func.FuncOp)}
        self._known: dict[MemRefType, str] = {}

    def call(self, source: SSAValue, target: SSAValue) -> Operation | None:
        """A call that copies `source` to `target`, if there is a kernel for it."""
        type_ = source.type
        assert isinstance(type_, MemRefType)
        if type_ != target.type or type_.layout.name != "none":
            return None
        size = buffer_bytes(type_)
        if isinstance(size, Size) or size < LEAST_BYTES:
            return None
        name = self._known.get(type_)
        if name is None:
            name = self._known[type_] = self._add(type_)
        return func.CallOp(name, [source, target], [])

    def _add(self, type_: MemRefType[Attribute]) -> str:
        number = len(self._known)
        while (name := f"copy_{number}") in self._taken:
            number += 1
        self._taken.add(name)
        body = Block(arg_types=[type_, type_])
        source, target = body.args
        source.name_hint, target.name_hint = "x", "out0"
        identity = AffineMap.identity(type_.get_num_dims())
        element = Block(arg_types=[type_.element_type] * 2)
        element.add_op(linalg.ops.YieldOp(element.args[0]))
        body.add_op(generic_op([(source, identity)], [(target, identity)], [False] * type_.get_num_dims(), element))
        body.add_op(func.ReturnOp())
        function = func.FuncOp(name, FunctionType.from_lists(body.arg_types, []), Region(body), StringAttr("private"))
        function.attributes |= {
            "kernel": UnitAttr(),
            "num_inputs": count_attribute(1),
            "num_outputs": count_attribute(1),
        }
        self._block.add_op(function)
        return name
