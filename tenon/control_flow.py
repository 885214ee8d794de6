"""Functions as regions of ops: `cond`, `while_loop`, `fori_loop`, `scan` and its relatives, and `checkpoint`.

Inside a trace each of them adds to it. Called on arrays outside of one, they compile and run at once.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.ir import Block

from tenon.dialects.definition.operands import to_value
from tenon.dialects.definition.value import Value, emit, inserting, ops
from tenon.dialects.families.control_flow import YieldOp
from tenon.dialects.ops.control.checkpoint import CheckpointOp
from tenon.dialects.ops.control.control_flow import CondOp, WhileLoopOp
from tenon.dialects.ops.control.scan import ScanOp
from tenon.dialects.support.user_traceback import call_user, shows_user_frames
from tenon.dialects.types.size import Size, UndecidedSizeError
from tenon.dialects.types.types import element_of, i1, is_integer, promote, shape_of, tensor_type
from tenon.runtime.arguments.arguments import as_array
from tenon.runtime.arguments.tree import Structure, flatten, paths, unflatten
from tenon.runtime.tracing.trace import tracing_inside
from tenon.transform import at_once, check_functions, name_of, trees


class _Loops(threading.local):
    """How many bodies of loops are being traced, one inside another: what they count by numbers is counted once, and
    not at each step."""

    depth = 0

    @contextmanager
    def body(self) -> Generator[None]:
        """What is traced inside is run at each step."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


LOOPS = _Loops()


def region_of(
    function: Callable[..., Any],
    types: Sequence[Any],
    build: Callable[[list[Value]], Sequence[Any]],
    keywords: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Block, list[Value], Structure]:
    """A block that computes `function(*build(arguments), **keywords)`; what it gives, before it is ended."""
    block = Block(arg_types=types)
    try:
        with inserting(tracing_inside(block)):
            outputs, structure = trees(
                call_user(function, *build([Value(a) for a in block.args]), **keywords), name_of(function)
            )
    except BaseException:
        block.drop_all_references()  # what is around it is not read by what is no part of anything
        raise
    return block, outputs, structure


def end_region(block: Block, values: Sequence[Value]) -> None:
    with inserting(tracing_inside(block)):
        emit(YieldOp(*[v.ssa for v in values]))


def _same_types(what: str, structure: Structure, left: Sequence[Value], right: Sequence[Value]) -> None:
    """Raise unless the leaves agree in type; `what` has places for a leaf's name and the two types."""
    for name, a, b in zip(paths(structure), left, right, strict=True):
        if a.type != b.type:
            raise TypeError(what.format(name, a.type, b.type))


def checkpoint(
    function: Callable[..., Any],
    *arguments: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **keywords: Any,
) -> Any:
    """A function with the value and the gradient of `function`, whose backward pass computes the values inside again;
    with arguments, what that function gives for these, as in PyTorch.

    Of a call, differentiation keeps the arguments and what `function` takes from around it. This needs less memory, at
    the price of computing `function` twice. What is drawn inside (`Dropout`, `rand`) is the same both times.
    `use_reentrant` and `preserve_rng_state` are PyTorch's, and change nothing. Arguments and results are trees;
    checkpoints may be nested. Raises `TypeError` if `function` cannot be called, or returns leaves that are no arrays.
    """
    check_functions("checkpoint", function)

    @functools.wraps(function)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        block, given, structure = region_of(function, [], lambda _: args, kwargs)
        end_region(block, given)
        op = emit(CheckpointOp.of([], block, [v.type for v in given]))
        return unflatten(structure, [Value(r) for r in op.results])

    made = at_once(transformed)
    return made(*arguments, **keywords) if arguments or keywords else made


@shows_user_frames
def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """`then(*operands)` if the scalar `predicate` is true, else `otherwise(*operands)`; only that branch is computed.

    Both must return the same tree of shapes and dtypes.
    """
    check_functions("cond", then, otherwise)

    def transformed(predicate: Any, *operands: Any) -> Any:
        test = to_value(predicate if isinstance(predicate, Value) else as_array(predicate, "cond: predicate"), i1)
        if test.shape != ():
            raise TypeError(f"cond: predicate has shape {test.shape} where a scalar is needed")
        first, given, structure = region_of(then, [], lambda _: operands)
        second, other, other_structure = region_of(otherwise, [], lambda _: operands)
        if structure != other_structure:
            raise TypeError(
                f"cond: the branches return different trees: ({', '.join(paths(structure))}) and "
                f"({', '.join(paths(other_structure))})"
            )
        _same_types("cond: result {} is {} in one branch and {} in the other", structure, given, other)
        end_region(first, given)
        end_region(second, other)
        types: Any = [v.type for v in given]
        return unflatten(structure, [Value(r) for r in emit(CondOp.of(test.ssa, first, second, types)).results])

    return at_once(transformed)(predicate, *operands)


@shows_user_frames
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """What the branch at the integer `index` gives for `operands`, of which only that one is computed: the first one
    where `index` is negative, and the last one where there are fewer.

    All must return the same tree of shapes and dtypes.
    """
    check_functions("switch", *branches)
    if not branches:
        raise ValueError("switch: there are no branches")

    def among(first: int, last: int) -> Callable[..., Any]:
        if last - first == 1:
            return lambda _, *given: branches[first](*given)
        middle = (first + last) // 2
        low, high = among(first, middle), among(middle, last)
        return lambda place, *given: cond(place < middle, low, high, place, *given)

    return among(0, len(branches))(index, *operands)


@shows_user_frames
def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], initial: Any) -> Any:
    """`initial`, replaced by `body(value)` for as long as `condition(value)` is true."""
    check_functions("while_loop", condition, body)

    def transformed(initial: Any) -> Any:
        start, structure = trees(initial, "while_loop")
        types = [v.type for v in start]
        with LOOPS.body():
            test, tested, _ = region_of(condition, types, lambda values: [unflatten(structure, values)])
        if len(tested) != 1 or tested[0].type != tensor_type((), i1):
            shown = ", ".join(str(v.type) for v in tested)
            raise TypeError(f"while_loop: condition returns ({shown}) where tensor<i1> is needed")
        end_region(test, tested)
        with LOOPS.body():
            step, given, given_structure = region_of(body, types, lambda values: [unflatten(structure, values)])
        if given_structure != structure:
            raise TypeError(
                f"while_loop: body returns the tree ({', '.join(paths(given_structure))}) "
                f"where ({', '.join(paths(structure))}) is carried"
            )
        _same_types("while_loop: {} is {} before the body and {} after it", structure, start, given)
        end_region(step, given)
        loop = emit(WhileLoopOp.of([v.ssa for v in start], test, step))
        return unflatten(structure, [Value(r) for r in loop.results])

    return at_once(transformed)(initial)


@shows_user_frames
def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], initial: Any) -> Any:
    """`initial`, replaced by `body(i, value)` for each integer `i` from `lower` to before `upper`.

    Where both bounds are Python's integers it is a `scan`, which has a gradient, and otherwise a `while_loop`. The type
    of `i` is that of the bounds; Python's are i64.
    """
    check_functions("fori_loop", body)
    if isinstance(lower, int) and isinstance(upper, int):
        numbers = np.arange(lower, max(lower, upper))
        return scan(lambda value, i: (call_user(body, i, value), None), initial, numbers)[0]

    def transformed(lower: Any, upper: Any, initial: Any) -> Any:
        first, last = (
            to_value(as_array(b, "fori_loop: bound") if not isinstance(b, Value) else b) for b in (lower, upper)
        )
        kind = promote([first.element_type, last.element_type])
        if not is_integer(kind) or first.shape or last.shape:
            raise TypeError(f"fori_loop: the bounds are {first.type} and {last.type} where integers are needed")
        start = (ops.cast(first, dtype=kind), initial)
        return while_loop(lambda state: state[0] < last, lambda state: (state[0] + 1, body(*state)), start)[1]

    return at_once(transformed)(lower, upper, initial)


@shows_user_frames
def scan(
    body: Callable[[Any, Any], Any],
    initial: Any,
    sequences: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`(carry, outputs)`: `body(carry, slice) -> (carry, output)` along the first axis of `sequences`, outputs stacked.

    `length` is needed when there are no sequences. With `reverse`, the last slices come first (outputs keep their
    places).
    """
    check_functions("scan", body)

    def transformed(initial: Any, sequences: Any) -> tuple[Any, Any]:
        start, carried = trees(initial, "scan")
        sliced, slices = trees(sequences, "scan")
        steps = _steps(sliced, list(paths(slices)), length)
        types = [v.type for v in start]
        types += [tensor_type((shape_of(v.type) or ())[1:], element_of(v.type)) for v in sliced]

        def build(values: list[Value]) -> Sequence[Any]:
            return unflatten(carried, values[: len(start)]), unflatten(slices, values[len(start) :])

        def checked(carry: Any, item: Any) -> Any:
            result = call_user(body, carry, item)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError("scan: body must return (carry, output)")
            return result

        with LOOPS.body():
            block, given, structure = region_of(checked, types, build)
        if structure.children[0] != carried:
            raise TypeError(
                f"scan: body returns the carry ({', '.join(paths(structure.children[0]))}) "
                f"where ({', '.join(paths(carried))}) is carried"
            )
        _same_types("scan: carry {} is {} before the body and {} after it", carried, start, given[: len(start)])
        end_region(block, given)
        op = emit(ScanOp.of([v.ssa for v in start], [v.ssa for v in sliced], block, steps, reverse))
        return unflatten(structure, [Value(r) for r in op.results])

    return at_once(transformed)(initial, sequences)


def _steps(sequences: Sequence[Value], names: Sequence[str], length: int | None) -> int:
    lengths = {name: v.shape[0] for v, name in zip(sequences, names, strict=True) if v.shape}
    if len(lengths) != len(sequences):
        raise TypeError("scan: a sequence has rank 0, so it has no slices")
    if length is None and not lengths:
        raise TypeError("scan: length is needed when there are no sequences")
    if length is not None:
        if length < 0:
            raise ValueError(f"scan: length is {length}, which is negative")
        lengths["length"] = length
    for name, size in lengths.items():
        if isinstance(size, Size):
            raise UndecidedSizeError(f"scan: the number of steps, {size} in {name}, must be known")
    if len(set(lengths.values())) > 1:
        raise ValueError("scan: lengths differ: " + ", ".join(f"{n} has {v}" for n, v in lengths.items()))
    return next(iter(lengths.values()))


@shows_user_frames
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """What the associative `fn(a, b)` makes of the first slice of the arrays `elems` along `axis`, the first two, the
    first three and so on: a tree like `elems`. With `reverse`, of the last one, the last two and so on.

    `fn` gets slices with that axis, along which it works element by element, as in JAX, and gives their shapes and
    dtypes. They are combined one after the other, in that order.
    """
    check_functions("associative_scan", fn)

    def transformed(elems: Any) -> Any:
        given, structure = trees(elems, "associative_scan")
        if not given:
            raise TypeError("associative_scan: there are no arrays")
        for value, name in zip(given, paths(structure, "elems"), strict=True):
            if not -value.ndim <= axis < value.ndim:
                raise ValueError(f"associative_scan: axis is {axis}, and {name} has shape {value.shape}")
        sizes = {v.shape[axis] for v in given}
        if len(sizes) > 1:
            shapes = ", ".join(str(v.shape) for v in given)
            raise ValueError(f"associative_scan: elems have shapes {shapes}, which differ along axis {axis}")
        if sizes == {0}:
            return elems
        places = [axis % v.ndim for v in given]
        turned = [ops.movedim(v, place, 0) for v, place in zip(given, places, strict=True)]

        def whole(slices: Sequence[Value]) -> Any:
            pairs = zip(slices, places, strict=True)
            return unflatten(structure, [ops.expand_dims(v, axis=place) for v, place in pairs])

        def combined(carry: list[Value], item: list[Value]) -> tuple[list[Value], list[Value]]:
            found, made = trees(call_user(fn, whole(carry), whole(item)), name_of(fn))
            if made != structure:
                raise TypeError(
                    f"associative_scan: fn gives the tree ({', '.join(paths(made))}) where "
                    f"({', '.join(paths(structure))}) is combined"
                )
            wanted = [flatten(whole(carry))[0], found]
            _same_types("associative_scan: {} is {} before fn and {} after it", structure, *wanted)
            own = [ops.squeeze(v, axis=place) for v, place in zip(found, places, strict=True)]
            return own, own

        first = -1 if reverse else 0
        rest = [v[:-1] if reverse else v[1:] for v in turned]
        _, behind = scan(combined, [v[first] for v in turned], rest, reverse=reverse)
        parts = [
            ops.concatenate([after, v[-1:]] if reverse else [v[:1], after], axis=0)
            for v, after in zip(turned, behind, strict=True)
        ]
        return unflatten(structure, [ops.movedim(v, 0, place) for v, place in zip(parts, places, strict=True)])

    return at_once(transformed)(elems)
