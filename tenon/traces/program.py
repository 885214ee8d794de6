"""A traced function for one signature: its IR, what it is run on, and what becomes of what it gives."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import SSAValue

from tenon.dialects.support.donation import is_donated, refuse_donated
from tenon.dialects.support.forking import cached_property
from tenon.dialects.support.plain_arrays import copied, elements_of, is_on_gpu, is_stored
from tenon.dialects.support.user_place import user_place
from tenon.dialects.types.types import array_type
from tenon.eager.differentiation import UsedGradient
from tenon.eager.modes import MODE
from tenon.eager.recording import Stored, as_operands, record
from tenon.eager.residuals import inlined
from tenon.eager.tape import Call
from tenon.runtime.arguments.arguments import WideFloat
from tenon.runtime.arguments.tree import flatten, paths
from tenon.runtime.cuda.arrays import as_data, brought, place_of
from tenon.runtime.cuda.names import kind_of
from tenon.runtime.executables import Executable, executable
from tenon.runtime.python_state import collection_paused
from tenon.runtime.reads.guards import Names
from tenon.runtime.reads.places import Place
from tenon.runtime.reads.seen import Seen
from tenon.runtime.stages import FlatCall
from tenon.runtime.tracing.trace import trace
from tenon.traces.changes import refill
from tenon.traces.guards import TensorGuards
from tenon.traces.outcomes import Made, Plan, change, new_tensor
from tenon.traces.reads import TensorReads, is_apart
from tenon.traces.session import Input, Session, root
from tenon.traces.stand_ins import TraceError

_SMALL = 1 << 10
"""Elements up to which arrays that the function makes are constants in the IR."""


class Program:
    """What `function` does with arguments like those given now."""

    def __init__(
        self, name: str, reads: TensorReads, leaves: Sequence[Any], call: Callable[..., Any], *, keep_grad: bool = False
    ) -> None:
        """`call(symbols)` calls the function with stand-ins in the places of those of the `leaves` that are data."""
        self.name = name
        self.held: list[Any] = []
        """What keeps the identities of arguments."""
        self.used = UsedGradient(name)
        _bring_states(reads, leaves)
        self.inputs = _inputs(reads, leaves)
        session = Session(name, reads, self.inputs)
        self.device = kind_of(session.device)
        self.plan = Plan(session, keep_grad)
        captures = Seen(_SMALL, on_gpu=self.device != "cpu")
        self.module = self._traced(session, call, leaves, captures)
        self._check_record()
        self.guards = _guards(reads, self.inputs, session, captures)
        self._prune(captures.arrays)
        self._gather = self._gatherer()
        self._cross: Call | None = None
        replaced = [(i.place, i.replaced) for i in self.arguments if i.replaced is not None]
        self._replaced = [(place, tensor._source is not None) for place, tensor in replaced if place is not None]
        self.plan.settle()
        for given in self.inputs:
            given.let_go()

    # --- tracing --------------------------------------------------------------------------------------

    def _traced(self, session: Session, call: Callable[..., Any], leaves: Sequence[Any], captures: Seen) -> ModuleOp:
        given = [i.leaf for i in self.inputs]
        _, structure = flatten((tuple(given), {}))
        types = [array_type(np.asarray(leaf, np.float64) if isinstance(leaf, float) else leaf) for leaf in given]
        names = [i.name for i in self.inputs]
        assert len(list(paths(structure))) == len(names)

        def run(args: Any, _: Any) -> Any:
            try:
                session.begin(args)
                symbols = {i.argument: i.symbol for i in self.inputs if i.argument is not None}
                result = call([symbols.get(position, leaf) for position, leaf in enumerate(leaves)])
                self.plan.collect(result)
            finally:
                session.end()
            return tuple(self.plan.values)

        with collection_paused():
            return trace(run, structure, given, types, names, captures=captures).module

    def _check_record(self) -> None:
        """Raise where gradients go through a call that changes what requires one."""
        if self.plan.is_recorded and self.plan.python is None:
            for given, _ in self.plan.contents:
                if given.tensor is not None and given.tensor.requires_grad:
                    raise TraceError(
                        f"{self.name} changes a tensor of shape {given.tensor.shape} that requires a gradient, and "
                        "gives results that gradients go through; detach() these, or change it in another function"
                    )

    def _prune(self, captured: Sequence[Any]) -> None:
        """Leave out inputs that the program does not read, and say which give their memory to results."""
        main = next(op for op in self.module.ops if isinstance(op, func.FuncOp))
        block = main.body.block
        numbers = dict[int, int]()
        kept: list[Input] = []
        arguments = [*block.args]
        for number, (given, argument) in enumerate(zip(self.inputs, arguments, strict=False)):
            if argument.first_use is None:
                block.erase_arg(argument)
            else:
                numbers[number] = len(kept)
                kept.append(given)
        self.arguments = kept
        self.captured = list(captured)
        main.update_function_type()
        types = [value.type for value in _returned(main)]
        if not self.plan.is_recorded:
            donors = [-1 if donor is None else numbers.get(donor, -1) for donor in self.plan.donors]
            fitting = [
                donor if donor >= 0 and block.args[donor].type == type_ else -1
                for donor, type_ in zip(donors, types, strict=True)
            ]
            if any(donor >= 0 for donor in fitting):
                main.attributes["donations"] = DenseArrayBase.from_list(i64, fitting)

    def _gatherer(self) -> Callable[[Sequence[Any]], list[Any]]:
        """Code that finds the arrays of a call."""
        names = Names()
        donated = {id(given) for given, _ in self.plan.contents}
        parts: list[str] = []
        for given in self.arguments:
            if given.argument is not None:
                parts.append(f"{names.of(_array_of)}(arguments[{given.argument}])")
            elif given.place is None:
                parts.append(f"{names.of(given.tensor)}._array")
            elif isinstance(given.leaf, float):
                parts.append(f"{names.of(_number)}({names.read(given.place)})")
            elif id(given) in donated or given.tensor is not None or given.replaced is not None:
                parts.append(f"{names.of(_array_of)}({names.read(given.place)})")
            else:
                parts.append(f"{names.of(_own)}({names.read(given.place)})")
        parts += [names.of(array) for array in self.captured]
        gather: Callable[[Sequence[Any]], list[Any]] = names.function(f"[{', '.join(parts)}]", "arguments")
        return gather

    @cached_property
    def executable(self) -> Executable:
        """What is run."""
        return executable(self.module, self.device, self.name)

    @cached_property
    def _launch(self) -> FlatCall:
        return FlatCall(self.executable, self.name)

    # --- calls ----------------------------------------------------------------------------------------

    def run(self, arguments: Sequence[Any]) -> Any:
        """What the function gives for arguments like those traced for. Raises `RuntimeError` for an array that was
        donated."""
        for number, leaf in enumerate(arguments):
            if isinstance(leaf, np.ndarray) and is_donated(leaf):
                refuse_donated(leaf, f"{self.name}: argument {number}")
        operands = self._operands(arguments) if self.plan.is_recorded else None
        plan = self.plan
        if self._replaced:
            self._check_apart(arguments)
        arrays = self._launch(*self._gather(arguments)) if plan.values else ()
        tensors = {number: new_tensor(arrays[number], is_leaf) for number, is_leaf, _ in plan.tensors}
        made = Made(arguments, arrays, tensors)
        if plan.contents:
            line = user_place()
            for given, number in plan.contents:
                change(_target(given, arguments), arrays[number], line)
        if operands is not None and MODE.records:
            positions = [number for number, _, has_source in plan.tensors if has_source]
            record(self._call(positions), operands, [tensors[number] for number in positions])
        for tensor, make in plan.gradients:
            tensor(made).grad = make(made)
        for tensor in plan.used:
            tensor(made)._grad = self.used
        result = plan.result(made)
        # of what is in places before these are set
        found = [(place, make(made)) for place, make in plan.places]
        grown = [(container, make(made)) for container, make in plan.grown]
        for container, key, number in plan.items:
            container[key] = arrays[number]
        for place, value in found:
            place.set(value)
        for container, items in grown:
            container.extend(items)
        for held, content in plan.refilled:
            refill(held, content)
        return result

    def _check_apart(self, arguments: Sequence[Any]) -> None:
        """Raise `TraceError` where an argument that is changed, or has a gradient, has the memory of a tensor that is
        replaced, which the program takes for another."""
        changed = [given.argument for given, _ in self.plan.contents if given.argument is not None]
        for place, has_source in self._replaced:
            for number in range(len(arguments)) if has_source else changed:
                leaf = arguments[number]
                if isinstance(leaf, Stored) and not is_apart(place.get(), {id(leaf)}):
                    raise TraceError(
                        f"{self.name} changes argument {number} in place, or finds its gradient, and {place.name} has "
                        "its memory; clone() one of them"
                    )

    def _operands(self, arguments: Sequence[Any]) -> Any:
        given = [_target(i, arguments) for i in self.arguments]
        return as_operands([np.asarray(v, np.float64) if isinstance(v, float) else v for v in [*given, *self.captured]])

    def _call(self, positions: Sequence[int]) -> Call:
        if self._cross is None:
            apply = inlined(self.module)

            def results(values: Sequence[Any]) -> tuple[Any, ...]:
                found = apply(values)
                return tuple([found[position] for position in positions])

            self._cross = Call(self.name, (self.name, object()), results)
        return self._cross


def _bring_states(reads: TensorReads, leaves: Sequence[Any]) -> None:
    """Bring arrays in the state of Tenon's own objects, such as the scale of a loss, to where tensors are: a program
    leaves them there, so that its first call is like all others."""
    tensors = [*leaves, *[tensor for tensor, _ in reads.tensors.values()], *[tensor for _, tensor in reads.replaced]]
    places = {place_of(tensor._array) for tensor in tensors if isinstance(tensor, Stored)}
    device = next(iter(sorted(places - {"cpu"} or places)), None)
    if device is None:
        return
    for number, (place, value, is_value) in enumerate(reads.data):
        holder = reads.states.get(id(place.container))
        if holder is not None and is_stored(value) and not place.path and place_of(value) != device:
            made = holder.before[place.key] = brought(value, device)
            place.set(made)
            reads.data[number] = place, made, is_value


def _inputs(reads: TensorReads, leaves: Sequence[Any]) -> list[Input]:
    """What a call is given: its arguments, tensors, data in places, and the gradients that tensors have."""
    found: list[Input] = []
    known: set[int] = set()
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Stored):
            if id(leaf) not in known:
                known.add(id(leaf))
                found.append(Input(f"argument.{position}", leaf._array, argument=position, tensor=leaf))
        elif is_stored(leaf):
            found.append(Input(f"argument.{position}", leaf, argument=position))
        elif type(leaf) is float:
            found.append(Input(f"argument.{position}", WideFloat(leaf), argument=position))
    for place, value, is_value in reads.data:
        if isinstance(value, Stored):
            if id(value) not in known:
                known.add(id(value))
                found.append(Input(place.name, value._array, tensor=value, place=place))
        else:
            leaf = WideFloat(value) if type(value) is float else as_data(value, place.name)
            found.append(Input(place.name, leaf, place=place, is_value=is_value))
    for place, tensor in reads.replaced:
        found.append(Input(place.name, tensor._array, place=place, replaced=tensor))
    for tensor, name in reads.tensors.values():
        if id(tensor) not in known and root(tensor)[0] is tensor:
            known.add(id(tensor))
            found.append(Input(name, tensor._array, tensor=tensor))
    for given in [*found]:
        gradient = None if given.tensor is None else given.tensor._grad
        if isinstance(gradient, Stored) and id(gradient) not in known:
            known.add(id(gradient))
            place = Place(given.tensor, "_grad", f"{given.name}.grad", is_attribute=True)
            found.append(Input(place.name, gradient._array, tensor=gradient, place=place))
    return found


def _guards(reads: TensorReads, inputs: Sequence[Input], session: Session, captures: Seen) -> TensorGuards:
    guards = TensorGuards()
    guards.add_reads(reads, session.standing.arrays)
    for array, kept in captures.foreign:
        guards.add_array(None, array, kept)
    guards.add_read_on_gpu(reads, captures.arrays)
    for tensor, name in reads.tensors.values():
        guards.add_tensor(tensor, name)
    for place, value, _ in reads.data:
        guards.add_data(place, value)
    captured_tensors = {id(tensor) for tensor, _ in reads.tensors.values()}
    for place, tensor in reads.replaced:
        guards.add_replaced(place, tensor, captured_tensors)
    for place, value in reads.counted:
        guards.add_kind(place, type(value))
    for place, tree in reads.trees:
        guards.add_tree(place, tree)
    guards.add_hooks([tensor for tensor, _ in reads.tensors.values() if tensor._source is not None])
    for tensor in session.read_gradients.values():
        if not any(i.tensor is tensor and i.argument is not None for i in inputs):
            guards.add_gradient(tensor, tensor._grad, "a gradient")
    guards.finish()
    return guards


def _returned(main: func.FuncOp) -> Sequence[SSAValue]:
    last = main.body.block.last_op
    assert last is not None
    return last.operands


def _target(given: Input, arguments: Sequence[Any]) -> Any:
    """The tensor, array or number that is an input of a call."""
    if given.argument is not None:
        return arguments[given.argument]
    return given.tensor if given.place is None else given.place.get()


def _array_of(value: Any) -> Any:
    if isinstance(value, Stored):
        return value._array
    if is_on_gpu(value):
        return value
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else _number(value)


def _number(value: Any) -> Any:
    return np.asarray(value, np.float64)


def _own(array: Any) -> Any:
    """An array whose memory a result may take over: a copy, where others have it as well."""
    if not is_stored(array):
        held = elements_of(array)
        return copied(held) if is_on_gpu(held) else np.asarray(array)
    return array if array.base is None and sys.getrefcount(array) <= _HELD else copied(array)


def _held() -> int:
    places = {"array": np.zeros(1)}
    function: Any = eval("lambda: [count(places['array'])]", {"count": _count, "places": places})
    return function()[0]


def _count(array: Any) -> int:
    return sys.getrefcount(array)


_HELD = _held()
