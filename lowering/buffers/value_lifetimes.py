"""When the content of each tensor value of a structured function is needed, and where it is handed on.

One walk over a function numbers the positions of its ops. Each value starts in a storage of its own, and each place
where control flow, a destination or `func.return` hands a value on is a copy. The IR is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, linalg, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.support.location import position_of
from tenon.dialects.types.size import estimate
from tenon.dialects.types.types import is_known
from tenon.lowering.buffers.kernel_operands import elementwise_operands, read_in_place, updated_operands
from tenon.lowering.buffers.memory_plan import Definition, Scope, Storage
from tenon.lowering.buffers.memref_facts import SliceOp, buffer_bytes
from tenon.lowering.loop_ir.nests import constant_int

# A copy in a loop is taken to run this many times, when copies compete for being elided.
_ASSUMED_TRIPS = 8


@dataclass(eq=False, slots=True)
class Copy:
    """The content of `source` is handed on to `target`, just before the op that holds this copy."""

    source: Storage
    target: Storage
    type: TensorType[Attribute]
    position: int
    weight: int


class ValueLifetimes:
    """The values of a function on tensors, in storages of their own, and the copies between these."""

    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp]):
        self._function = function
        self._kernels = kernels
        self._soft_operands: dict[str, frozenset[int]] = {}
        self.updated: dict[str, dict[int, int]] = {}
        self._clock = 0
        self.definitions: dict[SSAValue, Definition] = {}
        self.all: list[Definition] = []
        self.extra: list[Storage] = []
        self.slices: list[tensor.ExtractSliceOp] = []
        self.inserts: list[tuple[tensor.InsertSliceOp, Scope]] = []
        self.elementwise_calls: list[tuple[func.CallOp, frozenset[int]]] = []
        self.positions: dict[Operation, int] = {}
        self.outputs: list[Storage] = []
        self.copies: dict[Operation, list[Copy]] = {}
        self.element_reads: dict[Operation, list[tensor.ExtractOp]] = {}
        self._visitors: dict[type[Operation], Callable[..., None]] = {
            arith.ConstantOp: self._visit_constant,
            func.CallOp: self._visit_call,
            func.ReturnOp: self._visit_return,
            linalg.ops.FillOp: self._visit_fill,
            linalg.ops.GenericOp: self._visit_generic,
            scf.ConditionOp: self._visit_region_end,
            scf.ForOp: self._visit_for,
            scf.IfOp: self._visit_if,
            scf.WhileOp: self._visit_while,
            scf.YieldOp: self._visit_region_end,
            tensor.CollapseShapeOp: self._visit_reshape,
            tensor.EmptyOp: self._visit_empty,
            tensor.ExpandShapeOp: self._visit_reshape,
            tensor.ExtractOp: self._visit_extract,
            tensor.ExtractSliceOp: self._visit_extract_slice,
            tensor.FromElementsOp: self._visit_sizes,
            tensor.InsertOp: self._visit_insert,
            tensor.InsertSliceOp: self._visit_insert_slice,
            tensor.ReshapeOp: self._visit_reshape,
        }

    def run(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        donations: Sequence[int],
        updated: Mapping[int, int],
    ) -> None:
        """Walk over the function; `inputs` and `outputs` are the memrefs that the caller passes, and `updated` the
        arguments that are in the memory of an output, by number."""
        body, scope = self._function.body.block, Scope()
        for home in outputs:
            assert isinstance(home.type, MemRefType)
            self.outputs.append(Storage(buffer_bytes(home.type), home.type.element_type, home=home))
        self.extra += self.outputs
        inputs_left, donors = iter(inputs), list[Storage]()
        tensors = [argument for argument in body.args if isinstance(argument.type, TensorType)]
        for number, argument in enumerate(tensors):
            if number in updated:
                self._define(argument, scope, 0, self.outputs[updated[number]])
                continue
            storage = self._define(argument, scope, 0).storage
            storage.home, storage.read_only = next(inputs_left), True
            donors.append(storage)
        for storage, donation in zip(self.outputs, donations, strict=True):
            storage.donor = donors[donation] if donation >= 0 else None
        self._walk(body, scope)

    def _define(self, value: SSAValue, scope: Scope, start: int, storage: Storage | None = None) -> Definition:
        if storage is None:
            assert isinstance(value.type, TensorType)
            if not is_known(value.type):
                raise PassFailedException(f"bufferize: {value.type} in @{self._name} has an unknown shape")
            name = value.name_hint or f"buffer_{len(self.all)}"
            storage = Storage(buffer_bytes(value.type), value.type.element_type, name)
        definition = self.definitions[value] = Definition(storage, scope, start)
        self.all.append(definition)
        storage.writes.append(start)
        return definition

    @property
    def _name(self) -> str:
        return self._function.sym_name.data

    def _use(self, value: SSAValue, scope: Scope, position: int) -> None:
        if isinstance(value.type, TensorType):
            self.definitions[value].use(scope, position)

    def _copy(self, op: Operation, value: SSAValue, target: Storage, scope: Scope, position: int) -> None:
        """`op` at `position` hands `value` on to `target`."""
        definition = self.definitions[value]
        if definition.is_undefined:
            return
        definition.use(scope, position)
        assert isinstance(value.type, TensorType)
        weight = estimate(target.bytes) * _ASSUMED_TRIPS**scope.depth
        copy = Copy(definition.storage, target, value.type, position, weight)
        self.copies.setdefault(op, []).append(copy)

    def _walk(self, block: Block, scope: Scope) -> None:
        for op in block.ops:
            self._clock += 2
            self.positions[op] = self._clock
            visit = self._visitors.get(type(op))
            if visit is not None:
                visit(op, scope, self._clock)
            elif any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results)):
                raise PassFailedException(
                    f"{position_of(op)}bufferize: {op.name} on tensors in @{self._name} is not structured IR, in which "
                    "linalg.generic computes, in kernels; the interpreter runs it as it is"
                )

    def _visit_region_end(self, op: Operation, scope: Scope, position: int) -> None:
        """Handled by the op around it."""

    def _visit_constant(self, op: arith.ConstantOp, scope: Scope, position: int) -> None:
        if isinstance(op.result.type, TensorType):
            storage = self._define(op.result, scope, position).storage
            storage.constant, storage.read_only = op.value, True

    def _visit_empty(self, op: tensor.EmptyOp, scope: Scope, position: int) -> None:
        definition = self._define(op.tensor, scope, position)
        definition.is_undefined = True
        definition.storage.writes.clear()

    def _visit_sizes(self, op: tensor.FromElementsOp, scope: Scope, position: int) -> None:
        """A shape to reshape to, which takes no memory."""

    def _visit_reshape(self, op: Operation, scope: Scope, position: int) -> None:
        self.definitions[op.results[0]] = self.definitions[op.operands[0]]

    def _visit_call(self, op: func.CallOp, scope: Scope, position: int) -> None:
        name = op.callee.string_value()
        if name not in self._kernels:
            raise PassFailedException(f"bufferize: @{self._name} calls @{name}, which is not a kernel of this module")
        if name not in self._soft_operands:
            self._soft_operands[name] = elementwise_operands(self._kernels[name])
            self.updated[name] = updated_operands(self._kernels[name])
        soft, updated = self._soft_operands[name], self.updated[name]
        for index, value in enumerate(op.operands):
            if index not in updated:
                self._use(value, scope, position if index in soft else position + 1)
        storages = [self._define(result, scope, position + 1).storage for result in op.results]
        for index, number in updated.items():
            self._copy(op, op.operands[index], storages[number], scope, position)
        if soft:
            self.elementwise_calls.append((op, soft))

    def _visit_return(self, op: func.ReturnOp, scope: Scope, position: int) -> None:
        for value, output in zip(op.operands, self.outputs, strict=True):
            self._copy(op, value, output, scope, position)
            output.write_at(position + 1)

    def _visit_fill(self, op: linalg.ops.FillOp, scope: Scope, position: int) -> None:
        self._define(op.results[0], scope, position + 1)

    def _visit_generic(self, op: linalg.ops.GenericOp, scope: Scope, position: int) -> None:
        input_count = len(op.inputs)
        in_place = read_in_place(op)
        for index, value in enumerate(op.operands[:input_count]):
            self._use(value, scope, position if index in in_place else position + 1)
        reads = [inner for inner in op.body.walk() if isinstance(inner, tensor.ExtractOp)]
        if reads:
            self.element_reads[op] = reads
            for read in reads:
                self._use(read.tensor, scope, position + 1)
        initial, maps = op.operands[input_count:], op.indexing_maps.data[input_count:]
        if len(initial) != len(op.results):
            raise PassFailedException(
                f"{position_of(op)}bufferize: {op.name} has {len(op.results)} results, expected {len(initial)}, one "
                "for each tensor in outs"
            )
        arguments = op.body.block.args[input_count:]
        for value, map_, argument, result in zip(initial, maps, arguments, op.results, strict=True):
            storage = self._define(result, scope, position + 1).storage
            # What a shifted index does not reach stays as it was.
            if argument.first_use is not None or not map_.data.is_projected_permutation():
                self._copy(op, value, storage, scope, position)

    def _visit_extract(self, op: tensor.ExtractOp, scope: Scope, position: int) -> None:
        _check_indices(op)
        self._use(op.tensor, scope, position + 1)

    def _visit_insert(self, op: tensor.InsertOp, scope: Scope, position: int) -> None:
        _check_indices(op)
        storage = self._define(op.result, scope, position + 1).storage
        self._copy(op, op.dest, storage, scope, position)

    def _visit_extract_slice(self, op: tensor.ExtractSliceOp, scope: Scope, position: int) -> None:
        _check_slice(op)
        self._use(op.source, scope, position + 1)
        self._define(op.result, scope, position + 1)
        self.slices.append(op)

    def _visit_insert_slice(self, op: tensor.InsertSliceOp, scope: Scope, position: int) -> None:
        _check_slice(op)
        self._use(op.source, scope, position + 1)
        storage = self._define(op.result, scope, position + 1).storage
        self._copy(op, op.dest, storage, scope, position)
        self.inserts.append((op, scope))

    def _enter(self, scope: Scope, position: int, *, is_loop: bool) -> Scope:
        self._clock += 2
        return Scope(scope, position, self._clock, is_loop, scope.depth + is_loop)

    def _leave(self, *scopes: Scope) -> int:
        self._clock += 2
        for scope in scopes:
            scope.op_end = self._clock
        return self._clock

    def _visit_if(self, op: scf.IfOp, scope: Scope, position: int) -> None:
        yields: list[tuple[Operation, Scope, int]] = []
        for region in op.regions:
            if (block := region.first_block) is not None:
                branch = self._enter(scope, position, is_loop=False)
                self._walk(block, branch)
                assert block.last_op is not None
                yields.append((block.last_op, branch, self._clock))
        end = self._leave(*(branch for _, branch, _ in yields))
        for index, result in enumerate(op.results):
            if isinstance(result.type, TensorType):
                storage = self._define(result, scope, end).storage
                for terminator, branch, at in yields:
                    self._copy(terminator, terminator.operands[index], storage, branch, at)
                    storage.write_at(at + 1)

    def _visit_for(self, op: scf.ForOp, scope: Scope, position: int) -> None:
        body = op.body.block
        inner = self._enter(scope, position, is_loop=True)
        carried = self._carry_in(op, op.operands[3:], body.args[1:], scope, inner, position)
        self._walk(body, inner)
        at = self._clock
        self._carry_back(body, carried, inner, at)
        self._leave(inner)
        for result, storage in zip(op.results, carried, strict=True):
            if storage is not None:
                self._define(result, scope, at + 1, storage)

    def _visit_while(self, op: scf.WhileOp, scope: Scope, position: int) -> None:
        before, after = op.before_region.block, op.after_region.block
        before_scope = self._enter(scope, position, is_loop=True)
        carried = self._carry_in(op, op.operands, before.args, scope, before_scope, position)
        self._walk(before, before_scope)
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp)
        at = self._clock
        after_scope = self._enter(scope, position, is_loop=True)
        passed = self._carry_in(condition, condition.operands[1:], after.args, before_scope, after_scope, at)
        self._walk(after, after_scope)
        self._carry_back(after, carried, after_scope, self._clock)
        end = self._leave(before_scope, after_scope)
        for result, storage in zip(op.results, passed, strict=True):
            if storage is not None:
                self._define(result, scope, end, storage)

    def _carry_in(
        self,
        op: Operation,
        values: Sequence[SSAValue],
        arguments: Sequence[BlockArgument],
        outer: Scope,
        inner: Scope,
        position: int,
    ) -> list[Storage | None]:
        """`op` hands `values` on to block arguments; the storages of those that are tensors."""
        storages: list[Storage | None] = []
        for value, argument in zip(values, arguments, strict=True):
            storage = None
            if isinstance(argument.type, TensorType):
                storage = self._define(argument, inner, position + 1).storage
                self._copy(op, value, storage, outer, position)
            storages.append(storage)
        return storages

    def _carry_back(self, body: Block, carried: Sequence[Storage | None], scope: Scope, position: int) -> None:
        """The terminator of `body` hands its operands on to the next iteration."""
        terminator = body.last_op
        assert terminator is not None
        for value, storage in zip(terminator.operands, carried, strict=True):
            if storage is not None:
                self._copy(terminator, value, storage, scope, position)
                storage.write_at(position + 1)


def _check_slice(op: SliceOp) -> None:
    sizes, strides = op.static_sizes.get_values(), op.static_strides.get_values()
    if DYNAMIC_INDEX in sizes or any(stride != 1 for stride in strides):
        raise PassFailedException(f"{op.name}: sizes {sizes} must be static and strides {strides} must be 1")
    whole = (op.source if isinstance(op, tensor.ExtractSliceOp) else op.dest).type
    for axis, (start, size) in enumerate(zip(op.static_offsets.get_values(), sizes, strict=True)):
        if start != DYNAMIC_INDEX:
            _check_inside(op, whole, axis, int(start), int(start) + int(size))


def _check_indices(op: tensor.ExtractOp | tensor.InsertOp) -> None:
    """Raise for an element that is known to lie outside: memory is read and written as it is told."""
    whole = (op.tensor if isinstance(op, tensor.ExtractOp) else op.dest).type
    for axis, index in enumerate(op.indices):
        if (known := constant_int(index)) is not None:
            _check_inside(op, whole, axis, known, known + 1)


def _check_inside(op: Operation, whole: Attribute, axis: int, start: int, end: int) -> None:
    assert isinstance(whole, TensorType)
    if not isinstance(op.parent_op(), func.FuncOp):
        return  # it may never be reached
    limit = whole.get_shape()[axis]
    if limit >= 0 and not 0 <= start <= end <= limit:
        where = f"{start}" if end == start + 1 else f"{start} to {end - 1}"
        raise PassFailedException(f"{position_of(op)}{op.name}: {where} along axis {axis} is outside of {whole}")
