"""What is passed to an executable: inputs, outputs, sizes, scratch memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
)

from tenon.dialects.definition import signedness
from tenon.dialects.support.frozen_arguments import prepare_function, taken_positions
from tenon.dialects.types.assumptions import positive_sizes
from tenon.dialects.types.size import Size, names_of, replaced
from tenon.dialects.types.size_values import size_arguments
from tenon.dialects.types.types import element_of, shape_of


def main_function(module: ModuleOp) -> func.FuncOp:
    """The function `@main`; raises `ValueError` when there is none, or none with a body of one block."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main":
            if len(op.body.blocks) != 1:
                raise ValueError(f"@main has {len(op.body.blocks) or 'no'} blocks where one is needed")
            return op
    raise ValueError("the module has no function @main")


def check_main(module: ModuleOp) -> None:
    """Raise `ValueError` where there is no `@main`, or one that takes or gives what is no array, or says so wrongly."""
    main = main_function(module)
    takes_buffers(module)
    names = [argument.name_hint or str(number) for number, argument in enumerate(main.body.block.args)]
    for name, type_ in zip(names, main.function_type.inputs, strict=True):
        if not isinstance(type_, TensorType | MemRefType | UnrankedTensorType | IndexType):
            raise ValueError(f"argument {name} of @main is {type_}, expected a tensor, or a memref behind bufferize")
    for number, type_ in enumerate(main.function_type.outputs):
        if not isinstance(type_, TensorType | UnrankedTensorType):
            raise ValueError(f"result {number} of @main is {type_}, expected a tensor")


def takes_buffers(module: ModuleOp) -> bool:
    """Whether `@main` takes its outputs and scratch memory as arguments, as it does once tensors are buffers."""
    main = main_function(module)
    for name in ("num_inputs", "num_outputs"):
        if (count := main.attributes.get(name)) is not None and not isinstance(count, IntegerAttr):
            raise ValueError(f"@main: {name} is {count}, expected an integer")
    return "num_inputs" in main.attributes


@dataclass(frozen=True)
class Preparation:
    """What a program computes once from frozen inputs: their positions, the shapes and dtypes of the results, which it
    takes at each launch behind its inputs, and the size of scratch memory.
    """

    inputs: tuple[int, ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    arena_bytes: int = 0


@dataclass(frozen=True)
class Interface:
    """Shapes and dtypes of inputs and outputs, the size of scratch memory, and the inputs that outputs take over.

    Where shapes are known at launch only, `sizes` are the names in them, in the order in which the program takes their
    numbers, `positive` are sizes that must not be 0, and `names` are those of the inputs, for errors. `work` is the
    number of operations that a launch runs, where it is known.
    """

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    arena_bytes: int
    donations: tuple[int, ...]
    sizes: tuple[str, ...] = ()
    positive: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    work: int | None = None
    preparation: Preparation | None = None

    @classmethod
    def of(cls, module: ModuleOp) -> Interface:
        """The interface of a module whose tensors are buffers."""
        from tenon.lowering.loop_passes.estimate_work import work_of

        main = main_function(module)
        types = [t for t in main.function_type.inputs if not isinstance(t, IndexType)]
        count: Any = main.attributes.get("num_inputs")
        if count is None or not all(isinstance(t, MemRefType) for t in types):
            raise ValueError("@main does not take buffers, or lacks the attribute num_inputs")
        split = count.value.data
        prepare = prepare_function(main)
        preparation = None if prepare is None else _preparation_of_buffers(prepare)
        own = split if preparation is None else split - len(preparation.outputs)
        described = _with_external_dtypes(main, [_describe(t) for t in types])
        sizes = tuple(size_arguments(main))
        donations: Any = main.attributes.get("donations")
        outputs = described[split:-1]
        return cls(
            tuple(described[:own]),
            tuple(outputs),
            described[-1][0][0],
            tuple(donations.get_values()) if donations is not None else (-1,) * len(outputs),
            sizes,
            tuple(positive_sizes(main)),
            input_names(main, own) if sizes else (),
            work_of(module),
            preparation,
        )

    @classmethod
    def of_tensors(cls, module: ModuleOp) -> Interface:
        """The interface of a module whose `@main` takes and returns tensors."""
        main = main_function(module)
        taken, given = main.function_type.inputs, main.function_type.outputs
        types = [t for t in (*taken, *given) if not isinstance(t, IndexType)]
        described = _with_external_dtypes(main, [(shape_of(t) or (), str(element_of(t))) for t in types])
        split = len(types) - len(given)
        prepare = prepare_function(main)
        count = 0 if prepare is None else len(prepare.function_type.outputs)
        inputs, outputs = tuple(described[: split - count]), tuple(described[split:])
        found = names_of(size for shape, _ in inputs for size in shape)
        sizes = tuple(size_arguments(main) or dict.fromkeys(found))
        names = input_names(main, len(inputs)) if sizes else ()
        preparation = None
        if prepare is not None:
            preparation = Preparation(taken_positions(prepare), tuple(described[split - count : split]))
        donations = (-1,) * len(outputs)
        return cls(inputs, outputs, 0, donations, sizes, tuple(positive_sizes(main)), names, None, preparation)

    @classmethod
    def from_json(cls, text: str) -> Interface:
        """The interface that `to_json` wrote."""
        data = json.loads(text)
        pairs = [tuple((_parsed(shape), dtype) for shape, dtype in data[key]) for key in ("inputs", "outputs")]
        (arena,) = _parsed([data["arena_bytes"]])
        donations, sizes, names = [tuple(data.get(key, ())) for key in ("donations", "sizes", "names")]
        positive = _parsed(data.get("positive", ()))
        preparation = None
        if (given := data.get("preparation")) is not None:
            outputs = tuple([(tuple(shape), dtype) for shape, dtype in given["outputs"]])
            preparation = Preparation(tuple(given["inputs"]), outputs, given["arena_bytes"])
        return cls(pairs[0], pairs[1], arena, donations, sizes, positive, names, data.get("work"), preparation)

    def to_json(self) -> str:
        """The interface as a JSON object with a member for each field; those of sizes only where there are sizes."""
        members = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.sizes:
            members = {name: members[name] for name in ("inputs", "outputs", "arena_bytes", "donations", "work")}
        members["preparation"] = None if self.preparation is None else vars(self.preparation)
        return json.dumps(members, default=str)

    def bind(self, shapes: Sequence[tuple[int, ...]], names: Sequence[str] = ()) -> dict[str, int]:
        """The numbers that sizes stand for in a call with inputs of `shapes`, which errors call `names`.

        Raises `SizeMismatchError` naming two inputs that say different things, `EmptySizeError` for a size that the
        program cannot do without.
        """
        names = names or self.names or [f"argument {position}" for position in range(len(shapes))]
        values: dict[str, int] = {}
        origin: dict[str, str] = {}
        for (shape, _), given, name in zip(self.inputs, shapes, names, strict=True):
            for axis, (size, number) in enumerate(zip(shape, given, strict=True)):
                if isinstance(size, Size) and (known := size.name) is not None:
                    where = f"dimension {axis} of {name}"
                    if values.setdefault(known, number) != number:
                        raise SizeMismatchError(
                            f"{known} is {values[known]} in {origin[known]} and {number} in {where}; "
                            "equal names mean equal sizes"
                        )
                    origin.setdefault(known, where)
        for (shape, _), given, name in zip(self.inputs, shapes, names, strict=True):
            for axis, (size, number) in enumerate(zip(shape, given, strict=True)):
                needed = replaced(size, values)
                if isinstance(needed, Size):
                    raise SizeMismatchError(f"dimension {axis} of {name} is {size}, and no dimension tells {needed}")
                if needed != number:
                    wanted = f"{size} = {needed}{_told(size, values, origin)}" if isinstance(size, Size) else needed
                    raise SizeMismatchError(f"dimension {axis} of {name} is {number} where {wanted} is needed")
        for size in self.positive:
            if (number := replaced(size, values)) <= 0:
                raise EmptySizeError(f"{size} is {number} where 1 or more is needed{_told(size, values, origin)}")
        return values


def _told(size: Size, values: Mapping[str, int], origin: Mapping[str, str]) -> str:
    """Which inputs tell what `size` is, in parentheses."""
    told = [
        f"{origin[name]} is {values[name]}" if name != size.name else origin[name]
        for name in dict.fromkeys(size.names())
        if name in origin
    ]
    return f" ({', '.join(told)})" if told else ""


class SizeMismatchError(ValueError):
    """Arguments of which two say different things about one size."""


class EmptySizeError(ValueError):
    """A size is 0, for which the program was not compiled."""


def _preparation_of_buffers(prepare: func.FuncOp) -> Preparation:
    taken = taken_positions(prepare)
    described = [_describe(t) for t in prepare.function_type.inputs]
    return Preparation(taken, tuple(described[len(taken) : -1]), described[-1][0][0])


def input_names(main: func.FuncOp, count: int) -> tuple[str, ...]:
    """What errors call the first `count` arguments of `main`."""
    return tuple([a.name_hint or f"argument {i}" for i, a in enumerate(main.body.block.args[:count])])


def _parsed(sizes: Sequence[int | str]) -> tuple[Any, ...]:
    return tuple([Size.parse(size) if isinstance(size, str) else size for size in sizes])


def _with_external_dtypes(
    main: func.FuncOp, described: list[tuple[tuple[int, ...], str]]
) -> list[tuple[tuple[int, ...], str]]:
    """Inputs, outputs and what may follow them, with the dtypes that callers of `main` see."""
    external = signedness.external_elements(main)
    elements = () if external is None else [e for e in (*external[0], *external[1]) if not isinstance(e, IndexType)]
    named = [(shape, str(element)) for (shape, _), element in zip(described, elements, strict=False)]
    return [*named, *described[len(named) :]]


def _describe(type_: Any) -> tuple[tuple[int, ...], str]:
    return tuple(type_.get_shape()), str(type_.element_type)
