"""The ops of one function on tensors as ops on memrefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects import arith, func, linalg, memref, scf, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.types.size import Size
from tenon.dialects.types.size_values import SizeValues, size_arguments
from tenon.dialects.types.types import is_known
from tenon.dialects.upstream.block_arguments import erase_arguments
from tenon.lowering.buffers.donation_attribute import donations
from tenon.lowering.buffers.kernel_operands import updated_operands
from tenon.lowering.buffers.memory_plan import Storage
from tenon.lowering.buffers.memref_facts import (
    SliceOp,
    is_one_run,
    kept_strides,
    memref_type,
    offset_terms,
    row_major_strides,
)
from tenon.lowering.buffers.module_constants import ModuleConstants
from tenon.lowering.buffers.storage_assignment import StorageAssignment
from tenon.lowering.buffers.value_lifetimes import Copy

INDEX = IndexType()
UPDATED = "updated"
"""The attribute of a kernel that lists those of its outputs that it reads, too: what it does not replace is kept."""


class FunctionBufferizer:
    """Rewrites one function in place, by one walk that dispatches on the type of the op."""

    has_arena = False

    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp], constants: ModuleConstants):
        self._function = function
        self._kernels = kernels
        self._constants = constants
        if len(function.body.blocks) != 1:
            what = f"{len(function.body.blocks)} blocks" if function.body.blocks else "no body, and is no kernel"
            raise PassFailedException(f"bufferize: @{function.sym_name.data} has {what}, where one block is needed")
        self._body = function.body.block
        self._last_at_top: Operation | None = None
        self._memrefs: dict[tuple[Storage, MemRefType[Attribute]], SSAValue] = {}
        self._index_constants: dict[int, SSAValue] = {}
        self._slice_offsets: dict[Storage, SSAValue] = {}
        self._dead: list[Operation] = []
        self._dead_arguments = [arg for arg in self._body.args if isinstance(arg.type, TensorType)]
        self._assignment = StorageAssignment(function, kernels, has_arena=self.has_arena)
        self._updated = updated_operands(function) if "kernel" in function.attributes else {}
        self._rewrites: dict[type[Operation], Callable[..., None]] = {
            arith.ConstantOp: self._drop_tensor,
            func.CallOp: self._rewrite_call,
            func.ReturnOp: self._rewrite_terminator,
            linalg.ops.FillOp: self._rewrite_structured,
            linalg.ops.GenericOp: self._rewrite_structured,
            scf.ConditionOp: self._rewrite_terminator,
            scf.ForOp: self._rewrite_control_flow,
            scf.IfOp: self._rewrite_control_flow,
            scf.WhileOp: self._rewrite_control_flow,
            scf.YieldOp: self._rewrite_terminator,
            tensor.CollapseShapeOp: self._drop_tensor,
            tensor.EmptyOp: self._drop_tensor,
            tensor.ExpandShapeOp: self._drop_tensor,
            tensor.ExtractOp: self._rewrite_extract,
            tensor.ExtractSliceOp: self._rewrite_extract_slice,
            tensor.FromElementsOp: self._drop_tensor,
            tensor.InsertOp: self._rewrite_insert,
            tensor.InsertSliceOp: self._rewrite_insert_slice,
            tensor.ReshapeOp: self._drop_tensor,
        }

    def run(self) -> None:
        """Replace the function's tensors."""
        signature = self._function.function_type
        input_types = [self._argument_type(type_) for type_ in signature.inputs if not isinstance(type_, IndexType)]
        output_types = [self._argument_type(type_) for type_ in signature.outputs]
        passed = [number for number in range(len(input_types)) if number not in self._updated]
        input_types = [input_types[number] for number in passed]
        types = [self._parameter_type(number, type_) for number, type_ in enumerate((*input_types, *output_types))]
        arguments = [self._append_argument(type_) for type_ in types]
        inputs, outputs = arguments[: len(passed)], arguments[len(passed) :]
        for number, new in zip(passed, inputs, strict=True):
            new.name_hint = self._dead_arguments[number].name_hint
        for number, output in enumerate(outputs):
            output.name_hint = f"out{number}"
        self._sizes = SizeValues(self._move_sizes(), self._at_top)
        given = donations(self._function, input_types, output_types)
        self._assignment.run(inputs, outputs, given, self._updated)
        self._allocate_all()
        self._rewrite_block(self._body)
        for op in reversed(self._dead):
            op.detach()
            op.erase()
        erase_arguments(self._dead_arguments)
        self._finish_signature(len(inputs), len(outputs))
        _erase_unused(self._body)

    # The signature

    def _argument_type(self, type_: Attribute) -> MemRefType[Attribute]:
        if not isinstance(type_, TensorType) or not is_known(type_):
            raise PassFailedException(
                f"bufferize: @{self._function.sym_name.data} has {type_} in its signature, which is not a static tensor"
            )
        return memref_type(type_)

    def _parameter_type(self, number: int, type_: MemRefType[Attribute]) -> MemRefType[Attribute]:
        """The type of this argument, which is an input or output of `type_`."""
        return type_

    def _move_sizes(self) -> dict[str, SSAValue]:
        """Let the arguments that are sizes come behind the outputs."""
        moved: dict[str, SSAValue] = {}
        for name, old in size_arguments(self._function).items():
            new = moved[name] = self._body.insert_arg(old.type, len(self._body.args))
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
            assert isinstance(old, BlockArgument)
            self._dead_arguments.append(old)
        return moved

    def _append_argument(self, type_: MemRefType[Attribute]) -> BlockArgument:
        return self._body.insert_arg(type_, len(self._body.args))

    def _finish_signature(self, input_count: int, output_count: int) -> None:
        function, types = self._function, self._body.arg_types
        function.function_type = FunctionType.from_lists(types, [])
        if function.arg_attrs is not None:
            added = [DictionaryAttr({})] * (len(types) - input_count)
            function.arg_attrs = ArrayAttr([*function.arg_attrs, *added])
        function.properties.pop("res_attrs", None)
        function.attributes["num_inputs"] = count_attribute(input_count)
        function.attributes["num_outputs"] = count_attribute(output_count)
        if self._updated:
            function.attributes[UPDATED] = DenseArrayBase.from_list(i64, sorted(self._updated.values()))

    # Memory, which entries and kernels get in different ways

    def _allocate_all(self) -> None:
        """Called once all storages are known."""

    def _allocate(self, storage: Storage, type_: MemRefType[Attribute]) -> SSAValue:
        """Memory of its own for `storage`: in a kernel, an allocation."""
        result = self._at_top(memref.AllocOp(self._sizes_of(type_), (), type_))
        result.name_hint = storage.name
        return result

    def _memref(self, storage: Storage, tensor_type: Attribute) -> SSAValue:
        """The memory of `storage` as a memref of this shape."""
        assert isinstance(tensor_type, TensorType)
        storage, type_ = storage.root, memref_type(tensor_type)
        found = self._memrefs.get((storage, type_))
        if found is None:
            found = self._memrefs[storage, type_] = self._new_memref(storage, type_)
        return found

    def _new_memref(self, storage: Storage, type_: MemRefType[Attribute]) -> SSAValue:
        if isinstance(storage.slice_op, SliceOp):
            return self._view_of_slice(storage, type_)
        if storage.constant is not None and storage.home is None:
            assert isinstance(storage.constant, Attribute)
            shaped = storage.constant.get_type()  # pyright: ignore[reportAttributeAccessIssue]
            home_type = memref_type(shaped)
            name = self._constants.add(storage.constant, home_type)
            storage.home = self._at_top(memref.GetGlobalOp(name, home_type))
        if storage.home is None:
            return self._allocate(storage, type_)
        assert isinstance(storage.home.type, MemRefType)
        if storage.home.type.get_shape() == type_.get_shape():
            return storage.home
        return self._at_top(self._reinterpret_cast(storage.home, 0, type_, row_major_strides(type_.get_shape())))

    def _sizes_of(self, type_: MemRefType[Attribute]) -> list[SSAValue]:
        """The values of the sizes in `type_` that are no numbers."""
        return [self._sizes.value(size) for size in type_.get_shape() if isinstance(size, Size)]

    def _view(self, arena: SSAValue, offset: SSAValue, type_: MemRefType[Attribute]) -> Operation:
        return memref.ViewOp.create(operands=[arena, offset, *self._sizes_of(type_)], result_types=[type_])

    def _reinterpret_cast(
        self, source: SSAValue, offset: SSAValue | int, type_: MemRefType[Attribute], strides: Sequence[int]
    ) -> Operation:
        sizes, steps = [
            [self._sizes.value(number) if isinstance(number, Size) else number for number in given]
            for given in (type_.get_shape(), strides)
        ]
        return memref.ReinterpretCastOp.from_dynamic(source, [offset], sizes, steps, type_)

    def _value(self, value: SSAValue) -> SSAValue:
        """The memref of a tensor value; any other value as it is."""
        if not isinstance(value.type, TensorType):
            return value
        return self._memref(self._assignment.storage(value), value.type)

    def _at_top(self, op: Operation) -> SSAValue:
        if self._last_at_top is not None:
            self._body.insert_op_after(op, self._last_at_top)
        elif (first := self._body.first_op) is not None:
            self._body.insert_op_before(op, first)
        self._last_at_top = op
        return op.results[0]

    def _index(self, number: int) -> SSAValue:
        if isinstance(number, Size):
            return self._sizes.value(number)
        found = self._index_constants.get(number)
        if found is None:
            op = arith.ConstantOp.create(result_types=[INDEX], properties={"value": IntegerAttr(number, INDEX)})
            found = self._index_constants[number] = self._at_top(op)
        return found

    # The walk

    def _rewrite_block(self, block: Block) -> None:
        for op in tuple(block.ops):
            rewrite = self._rewrites.get(type(op))
            if rewrite is not None:
                rewrite(op)

    def _emit_copies(self, op: Operation) -> None:
        for copy in self._assignment.copies.get(op, ()):
            self._emit_copy(copy, op)

    def _emit_copy(self, copy: Copy, before: Operation) -> None:
        copy_memref(self._memref(copy.source, copy.type), self._memref(copy.target, copy.type), before)

    def _drop_tensor(self, op: Operation) -> None:
        if isinstance(op.results[0].type, TensorType):
            self._dead.append(op)

    def _rewrite_terminator(self, op: Operation) -> None:
        self._emit_copies(op)
        op.operands = [value for value in op.operands if not isinstance(value.type, TensorType)]

    def _rewrite_call(self, op: func.CallOp) -> None:
        sizes = [value for value in op.operands if isinstance(value.type, IndexType)]
        updated = self._assignment.updated(op)
        tensors = [
            value
            for index, value in enumerate(op.operands)
            if not isinstance(value.type, IndexType) and index not in updated
        ]
        self._emit_copies(op)
        arguments = [*[self._value(value) for value in (*tensors, *op.results)], *sizes]
        new = func.CallOp.create(
            operands=arguments, properties=op.properties, attributes=op.attributes, location=op.location
        )
        self._replace(op, new)

    def _rewrite_structured(self, op: linalg.ops.FillOp | linalg.ops.GenericOp) -> None:
        for read in self._assignment.element_reads.get(op, ()):
            self._rewrite_extract(read)
        self._emit_copies(op)
        input_count = len(op.inputs)
        operands = [*op.operands[:input_count], *op.results]
        new = type(op).create(
            operands=[self._value(value) for value in operands],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
            regions=[op.detach_region(op.body)],
        )
        self._replace(op, new)

    def _rewrite_extract(self, op: tensor.ExtractOp) -> None:
        new = memref.LoadOp.create(
            operands=[self._value(op.tensor), *op.indices], result_types=[op.result.type], location=op.location
        )
        self._replace(op, new)

    def _rewrite_insert(self, op: tensor.InsertOp) -> None:
        self._emit_copies(op)
        new = memref.StoreOp.create(operands=[op.scalar, self._value(op.result), *op.indices], location=op.location)
        self._replace(op, new)

    def _rewrite_extract_slice(self, op: tensor.ExtractSliceOp) -> None:
        if self._assignment.storage(op.result).slice_op is not op:
            part = self._slice(op, self._assignment.storage(op.source), op.result.type, op)
            copy_memref(part, self._value(op.result), op)
        self._dead.append(op)

    def _rewrite_insert_slice(self, op: tensor.InsertSliceOp) -> None:
        self._emit_copies(op)
        if self._assignment.storage(op.source).slice_op is not op:
            part = self._slice(op, self._assignment.storage(op.result), op.source.type, op)
            copy_memref(self._value(op.source), part, op)
        self._dead.append(op)

    def _rewrite_control_flow(self, op: scf.ForOp | scf.IfOp | scf.WhileOp) -> None:
        """The same op without its tensors, around the same regions."""
        self._emit_copies(op)
        for region in op.regions:
            for block in region.blocks:
                self._rewrite_block(block)
                self._dead_arguments += [arg for arg in block.args if isinstance(arg.type, TensorType)]
        kept = [result for result in op.results if not isinstance(result.type, TensorType)]
        new = type(op).create(
            operands=[value for value in op.operands if not isinstance(value.type, TensorType)],
            result_types=[result.type for result in kept],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
            regions=[op.detach_region(region) for region in tuple(op.regions)],
        )
        self._replace(op, new, kept)

    def _replace(self, op: Operation, new: Operation, kept: Sequence[SSAValue] | None = None) -> None:
        """Put `new` before `op`, which is erased at the end: until then its tensors name their storages."""
        assert op.parent is not None
        op.parent.insert_op_before(new, op)
        for old, result in zip(op.results if kept is None else kept, new.results, strict=kept is not None):
            result.name_hint = old.name_hint
            old.replace_all_uses_with(result)
        self._dead.append(op)

    # Slices

    def _view_of_slice(self, storage: Storage, type_: MemRefType[Attribute]) -> SSAValue:
        """The part of the arena that is `storage`, as its slice op says."""
        raise AssertionError("only an arena has views")

    def _slice(self, op: SliceOp, base: Storage, part_type: Attribute, before: Operation) -> SSAValue:
        """The slice of `base` that `op` takes or inserts, for a copy: a memref that starts at an offset."""
        assert isinstance(part_type, TensorType)
        whole = op.source if isinstance(op, tensor.ExtractSliceOp) else op.dest
        assert isinstance(whole.type, TensorType)
        static, dynamic = offset_terms(op, whole.type.get_shape())
        offset = self._sum(None, static, dynamic, 1, before) if dynamic else static
        shape = part_type.get_shape()
        strides = row_major_strides(shape) if is_one_run(op) else kept_strides(op, whole.type.get_shape(), shape)
        layout = StridedLayoutAttr(strides, None if dynamic else static)
        type_ = MemRefType(part_type.element_type, shape, layout)
        cast = self._reinterpret_cast(self._memref(base, whole.type), offset, type_, strides)
        return insert_before(cast, before)

    def _sum(
        self,
        start: SSAValue | None,
        static: int,
        dynamic: Sequence[tuple[SSAValue, int]],
        scale: int,
        before: Operation,
    ) -> SSAValue:
        """start + scale * (static + sum of index * stride), as index arithmetic."""
        total = start
        terms = [(self._index(static * scale), 1)] if static or not dynamic else []
        for value, factor in [*terms, *((index, stride * scale) for index, stride in dynamic)]:
            if factor != 1:
                value = insert_before(arith.MuliOp(value, self._index(factor)), before)
            total = value if total is None else insert_before(arith.AddiOp(total, value), before)
        assert total is not None
        return total


@cache
def count_attribute(number: int) -> IntegerAttr[Any]:
    """A number as an attribute of a function."""
    return IntegerAttr(number, i64)


def _erase_unused(block: Block) -> None:
    """Erase the index arithmetic that nothing uses any more."""
    for op in reversed(tuple(block.ops)):
        computes_index = op.name.startswith("arith.") and isinstance(op.results[0].type, IndexType)
        if computes_index and not isinstance(op, arith.ConstantOp) and op.results[0].first_use is None:
            op.detach()
            op.erase()


def insert_before(op: Operation, before: Operation) -> SSAValue:
    """Put `op`, of one result, in front of `before`."""
    assert before.parent is not None
    before.parent.insert_op_before(op, before)
    return op.results[0]


def copy_memref(source: SSAValue, target: SSAValue, before: Operation) -> None:
    """Put a copy in front of `before`."""
    assert before.parent is not None
    before.parent.insert_op_before(memref.CopyOp.create(operands=[source, target]), before)
