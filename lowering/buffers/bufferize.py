"""Structured IR on tensors to structured IR on memrefs in one arena.

Before: structured IR on tensors of known shapes, numbers or sizes; a function either has the attribute `kernel` or is
an entry, and entries call kernels only. After: no tensor is left.

- An entry takes its inputs, then its outputs in order, then the arena `memref<Nxi8>`, and returns nothing;
  `num_inputs` and `num_outputs` say how many. Its temporaries are views of the arena, placed by `memory_plan`.
- A kernel takes its operands, then its results, has the same two attributes, and keeps intermediates in
  `memref.alloc`. A call may pass one buffer as an operand and as a result, but only to a kernel that is a single
  elementwise generic: it must read each element of its operands before it writes that element of its results.
- Kernels only ever see row-major buffers. A slice of the arena is passed to them as a view, one of an argument as a
  `memref.reinterpret_cast` with an offset (`passed_slices`). Slices that are not one run of memory are copied to or
  from a temporary.
- What `storage_assignment` could not keep in one place is copied: by `memref.copy`, or, where it is large, by a kernel.
- A kernel that replaces elements of an operand (`updated`: the numbers of such results) has the operand where its
  result is, and does not take it: the caller copies it there, unless both are one place.

`donations` of an entry says for each output which input's memory it may be given, or -1. Such an output holds nothing
while its input is still read, except that an elementwise kernel may read the input for the last time and write the
output, element by element. A result that cannot be kept there is computed in the arena and copied when the function
returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, memref, tensor
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    i8,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from tenon.dialects.support.location import position_of
from tenon.dialects.types.size import Size
from tenon.dialects.types.types import dimensions
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.buffers.bufferize_function import (
    INDEX,
    FunctionBufferizer,
    copy_memref,
    count_attribute,
    insert_before,
)
from tenon.lowering.buffers.copy_kernels import CopyKernels
from tenon.lowering.buffers.memory_plan import (
    MemoryPlan,
    Storage,
    plan_memory,
)
from tenon.lowering.buffers.memref_facts import (
    SliceOp,
    element_bytes,
    memref_type,
    offset_terms,
    row_major_strides,
    without_reshapes,
)
from tenon.lowering.buffers.module_constants import ModuleConstants
from tenon.lowering.buffers.passed_slices import cast_to_parameters, slice_type
from tenon.lowering.buffers.value_lifetimes import Copy
from tenon.lowering.function_pass import Change, FunctionPass


def bufferize(module: ModuleOp, alignment: int = 1) -> dict[str, MemoryPlan]:
    """Rewrite `module` from tensors to buffers; the memory plan of each entry function, by name.

    Kernels may take it that a buffer whose type is not that of a slice begins at a multiple of `alignment` bytes.

    Raises `PassFailedException` where the module is not structured IR: unknown shapes, calls of functions that are not
    kernels, ops on tensors of other kinds.
    """
    plans, change = _bufferize_entries(module, alignment)
    for function in [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]:
        change(function)
    return plans


def _bufferize_entries(module: ModuleOp, alignment: int) -> tuple[dict[str, MemoryPlan], Change]:
    """Rewrite what is no kernel, and the kernels with constants, which become variables of the module; the plans, and
    what does the same for each of the other kernels."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    kernels = {name: function for name, function in functions.items() if "kernel" in function.attributes}
    constants, copies = ModuleConstants(module), CopyKernels(module)
    plans: dict[str, MemoryPlan] = {}
    for name, function in functions.items():
        if name not in kernels:
            _check_calls_kernels(function)
            entry = _EntryBufferizer(function, kernels, constants, copies, alignment)
            entry.run()
            plans[name] = entry.plan
    slices = cast_to_parameters(function for name, function in functions.items() if name not in kernels)
    left = {function for function in kernels.values() if function.body.blocks}

    def change(function: func.FuncOp) -> None:
        if function in left:  # and not a kernel that copies, which was made of buffers
            left.remove(function)
            _KernelBufferizer(function, {}, constants, slices.get(function.sym_name.data, {})).run()

    for function in kernels.values():
        if function not in left:
            _bufferize_declaration(function)
            continue
        # What calls promise of a kernel's memory is asked for before all kernels are rewritten.
        function.attributes["num_inputs"] = count_attribute(len(function.function_type.inputs))
        if _has_constants(function):
            change(function)
    return plans, change


def _check_calls_kernels(function: func.FuncOp) -> None:
    """Raise where a function that is no kernel computes tensors itself, which nothing would lower."""
    for op in function.body.walk():
        if isinstance(op, linalg.ops.LinalgStructuredOperation) and op.results:
            raise PassFailedException(
                f"{position_of(op)}{op.name} in @{function.sym_name.data}: what computes tensors is compiled in "
                "kernels, private functions with the attribute `kernel`; the interpreter runs it as it is"
            )


def _has_constants(function: func.FuncOp) -> bool:
    return any(isinstance(op.result.type, TensorType) for op in ops_of(function, arith.ConstantOp))


def _bufferize_declaration(function: func.FuncOp) -> None:
    """A kernel without a body, whose code is the target's: it takes its operands' memory, then its results'."""
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    types = [memref_type(type_) for type_ in (*inputs, *outputs) if isinstance(type_, TensorType)]
    function.function_type = FunctionType.from_lists(types, [])
    function.attributes["num_inputs"] = count_attribute(len(inputs))
    function.attributes["num_outputs"] = count_attribute(len(outputs))


@dataclass(frozen=True)
class BufferizePass(FunctionPass):
    """Turn tensors into memrefs: outputs are arguments, temporaries lie in one arena planned by liveness."""

    name = "bufferize"
    changes_entries = True

    alignment: int = 1
    """In bytes, of what kernels access at once: slices of the arena that begin elsewhere have the type of a slice."""

    def change(self, module: ModuleOp) -> Change:
        return _bufferize_entries(module, self.alignment)[1]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Bufferize every function of the module."""
        bufferize(op, self.alignment)


class _KernelBufferizer(FunctionBufferizer):
    """With the types of those parameters that are `slices` of what the caller of the program passed."""

    def __init__(
        self,
        function: func.FuncOp,
        kernels: dict[str, func.FuncOp],
        constants: ModuleConstants,
        slices: Mapping[int, MemRefType[Attribute]],
    ) -> None:
        super().__init__(function, kernels, constants)
        self._slices = slices

    def _parameter_type(self, number: int, type_: MemRefType[Attribute]) -> MemRefType[Attribute]:
        return self._slices.get(number, type_)

    def run(self) -> None:
        self._split_shared_fills()
        super().run()

    def _split_shared_fills(self) -> None:
        """Give each op that accumulates into a fill one of its own: a fill is cheaper than a copy of one."""
        for fill in tuple(self._body.ops):
            if not isinstance(fill, linalg.ops.FillOp) or not fill.results or fill.results[0].has_one_use():
                continue
            for use in tuple(fill.results[0].uses)[1:]:
                op = use.operation
                if isinstance(op, linalg.ops.GenericOp) and use.index >= len(op.inputs):
                    op.operands[use.index] = insert_before(fill.clone(), op)


class _EntryBufferizer(FunctionBufferizer):
    has_arena = True
    plan: MemoryPlan

    def __init__(
        self,
        function: func.FuncOp,
        kernels: dict[str, func.FuncOp],
        constants: ModuleConstants,
        copy_kernels: CopyKernels,
        alignment: int,
    ) -> None:
        super().__init__(function, kernels, constants)
        self._copy_kernels = copy_kernels
        self._alignment = alignment

    def _allocate_all(self) -> None:
        storages = self._assignment.temporaries()
        self.plan = plan_memory([storage.lifetime() for storage in storages])
        self._arena = self._append_argument(MemRefType(i8, dimensions([self.plan.peak_bytes])))
        self._arena.name_hint = "arena"
        # A constant for each buffer, though numbers recur: it tells apart buffers that take turns at one place.
        self._starts: dict[Storage, SSAValue] = {}
        for storage, buffer in zip(storages, self.plan.buffers, strict=True):
            if isinstance(buffer.offset, Size):
                self._starts[storage] = self._sizes.value(buffer.offset)
                continue
            offset = IntegerAttr(buffer.offset, INDEX)
            start = self._at_top(arith.ConstantOp.create(result_types=[INDEX], properties={"value": offset}))
            self._starts[storage] = start

    def _allocate(self, storage: Storage, type_: MemRefType[Attribute]) -> SSAValue:
        view = self._at_top(self._view(self._arena, self._starts[storage], type_))
        view.name_hint = storage.name
        return view

    def _emit_copy(self, copy: Copy, before: Operation) -> None:
        source, target = self._memref(copy.source, copy.type), self._memref(copy.target, copy.type)
        # What may be in its place already when the program is launched is left to a copy that looks.
        is_given = copy.target.root.donor is copy.source.root
        call = None if is_given else self._copy_kernels.call(source, target)
        if call is None:
            copy_memref(source, target, before)
        else:
            assert before.parent is not None
            before.parent.insert_op_before(call, before)

    def _view_of_slice(self, storage: Storage, type_: MemRefType[Attribute]) -> SSAValue:
        op = storage.slice_op
        assert isinstance(op, SliceOp)
        whole = op.source if isinstance(op, tensor.ExtractSliceOp) else op.dest
        assert isinstance(whole.type, TensorType)
        before = op if isinstance(op, tensor.ExtractSliceOp) else without_reshapes(op.source).owner
        assert isinstance(before, Operation)
        base = storage.base
        static, dynamic = offset_terms(op, whole.type.get_shape())
        size = element_bytes(whole.type.element_type)
        offset = self._slice_offsets.get(storage)
        if offset is None:
            start = None if base.home is not None else self._starts[base]
            scale = 1 if base.home is not None else size
            offset = self._slice_offsets[storage] = self._sum(start, static, dynamic, scale, before)
        shape = type_.get_shape()
        part = slice_type(type_.element_type, shape)
        if base.home is None:
            view = insert_before(self._view(self._arena, offset, type_), before)
            steps = (static, *[stride for _, stride in dynamic])
            if self._alignment == 1 or all(step * size % self._alignment == 0 for step in steps):
                return view
            return insert_before(memref.CastOp.create(operands=[view], result_types=[part]), before)
        cast = self._reinterpret_cast(self._memref(base, whole.type), offset, part, row_major_strides(shape))
        return insert_before(cast, before)
