"""Hypothesis strategies for programs: sequences of ops on arrays, with control flow that holds such sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from program_builder import (
    BOOL,
    DTYPES,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    INTEGERS,
    LARGEST_SIZE,
    SIZES,
    Block,
    Builder,
    Choose,
    Known,
    Program,
    Rejected,
    is_float,
)

Maker = Callable[[Builder], Any]


def _smooth_unary(b: Builder) -> None:
    x = b.float()
    op = b.choose(("sin", "relu", "tanh", "sigmoid", "erf", "cos", "softplus", "exp", "sqrt"))
    if op == "sqrt":
        (x,) = b.emit("add", *b.emit("square", x), b.input((), b.known[x].dtype, 1, 1) if not b.smooth else x)
        if (b.known[x].wide < 0.05).any():
            raise Rejected
    b.emit(op, x, exact=False)


def _divide(b: Builder) -> None:
    y = b.float(lambda k: bool((np.abs(k.wide) > 0.1).all()))
    b.emit("divide", b.partner(y), y, exact=False)


def _unary(b: Builder) -> None:
    b.emit(b.choose(("negative", "square") if b.smooth else ("negative", "abs", "square", "sign")), b.pick(_is_number))


def _is_number(k: Known) -> bool:
    return k.dtype != BOOL


def _binary(b: Builder) -> None:
    x = b.pick(_is_number)
    op = b.choose(
        ("add", "multiply", "subtract") if b.smooth else ("add", "multiply", "subtract", "maximum", "minimum")
    )
    operands = [x, b.partner(x)]
    b.emit(op, *(operands if b.choose((True, False)) else operands[::-1]))


def _integer_binary(b: Builder) -> None:
    x = b.pick(lambda k: k.dtype in INTEGERS)
    b.emit(b.choose(("floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor")), x, b.partner(x))


def _truth_binary(b: Builder) -> None:
    x = b.pick(lambda k: k.dtype == BOOL)
    if b.choose((False, False, True)):
        b.emit("logical_not", x)
    else:
        b.emit(b.choose(("logical_and", "logical_or", "logical_xor", "bitwise_xor", "equal")), x, b.partner(x))


def _compare(b: Builder) -> None:
    x = b.pick(lambda k: k.exact and _is_number(k))
    y = b.partner(x)
    if not b.known[y].exact:
        raise Rejected
    b.emit(b.choose(("less", "less_equal", "equal", "not_equal")), x, y)


def _select(b: Builder) -> None:
    x = b.pick()
    y = b.partner(x)
    shape = np.broadcast_shapes(b.known[x].shape, b.known[y].shape)
    fits = [n for n, k in b.known.items() if k.dtype == BOOL and k.shape in (shape, shape[1:], ())]
    test = b.choose(fits) if fits else b.input(b.choose((shape, shape[1:])), BOOL, 0, 1)
    b.emit("select", test, x, y)


def _reduce(b: Builder) -> None:
    x = b.pick()
    known = b.known[x]
    axis = b.axes(len(known.shape))
    if known.dtype == BOOL:
        ops = ("any", "all")
    else:
        ops = ("sum", "mean") if b.smooth else ("sum", "max", "min", "mean", "prod")
    op = b.choose(ops)
    if op == "mean" and not known.is_float:
        op = "sum"
    if op in ("max", "min", "mean") and prod([known.shape[a] for a in axis]) == 0:
        raise Rejected
    exact = not (op in ("sum", "prod") and known.wide.size and float(np.abs(known.wide).sum()) > 100) and op != "mean"
    b.emit(op, x, exact=exact or not known.is_float, axis=axis, keepdims=b.choose((False, True)))


def _position(b: Builder) -> None:
    x = b.pick(lambda k: k.exact and _is_number(k) and len(k.shape) > 0 and 0 not in k.shape)
    b.emit(b.choose(("argmax", "argmin")), x, axis=b.choose(range(-len(b.known[x].shape), len(b.known[x].shape))))


def _normalize(b: Builder) -> None:
    x = b.float(lambda k: len(k.shape) > 0 and 0 not in k.shape)
    rank = len(b.known[x].shape)
    op = b.choose(("softmax", "layer_norm", "log_softmax", "logsumexp", "var"))
    if op in ("softmax", "log_softmax"):
        b.emit(op, x, exact=False, axis=b.choose(range(-rank, rank)))
    elif op == "layer_norm":
        weight, bias = (b.input(b.known[x].shape[-1:], b.known[x].dtype) for _ in range(2))
        b.emit(op, x, weight, bias, exact=False, axis=b.axes(rank, 1), eps=0.25)
    else:
        b.emit(op, x, exact=False, axis=b.axes(rank, 1), keepdims=b.choose((False, True)))


def _matmul(b: Builder) -> None:
    x = b.pick(lambda k: len(k.shape) >= 2 and _is_number(k) and k.dtype != I8)
    *batch, m, k = b.known[x].shape
    if b.choose((False, False, True)) and m * m * k <= LARGEST_SIZE:
        rank = len(batch) + 2
        (y,) = b.emit("transpose", x, permutation=(*range(rank - 2), rank - 1, rank - 2))
    else:
        y = b.input((*(batch if b.choose((False, True)) else ()), k, b.choose(SIZES)), b.known[x].dtype)
    b.emit("matmul", *b.choose(((x, y), (x, y))))


def _image(b: Builder) -> tuple[int, tuple[int, ...]]:
    options = [
        n for n, k in b.known.items() if k.is_float and len(k.shape) == 4 and 0 not in k.shape and prod(k.shape) < 4000
    ]
    if options and b.choose((True, False)):
        x = b.choose(options)
    else:
        x = b.input(
            (b.choose((1, 2)), b.choose((1, 2, 3)), b.choose((5, 8, 17)), b.choose((5, 7, 16, 33))),
            b.choose([d for d in b.dtypes if is_float(d)]),
        )
    return x, b.known[x].shape


def _convolve(b: Builder) -> None:
    x, (_, channels, height, width) = _image(b)
    kernel = tuple(min(b.choose((1, 2, 3)), n) for n in (height, width))
    dilation = tuple(b.choose((1, 2)) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, (height, width), strict=True))
    weight = b.input((b.choose((1, 2, 5, 16)), channels, *kernel), b.known[x].dtype, -1, 1)
    stride, padding = ((b.choose((1, 2)), b.choose((1, 3))), (b.choose((0, 1)), b.choose((0, 2))))
    b.emit("conv2d", x, weight, stride=stride, padding=padding, dilation=dilation)


def _pool(b: Builder) -> None:
    x, (_, _, height, width) = _image(b)
    window = tuple(min(b.choose((1, 2, 3)), n) for n in (height, width))
    op = "avg_pool2d" if b.smooth else b.choose(("max_pool2d", "avg_pool2d"))
    padding = tuple(b.choose((0, k // 2)) for k in window)
    b.emit(
        op, x, exact=op == "max_pool2d", window=window, stride=(b.choose((1, 2)), b.choose((1, 2, 3))), padding=padding
    )


def _move(b: Builder) -> None:
    b.choose((_transpose, _reshape, _slice, _flip, _pad, _broadcast))(b, b.pick())


def _transpose(b: Builder, x: int) -> None:
    axes = list(range(len(b.known[x].shape)))
    b.emit("transpose", x, permutation=tuple([axes.pop(b.choose(range(len(axes)))) for _ in range(len(axes))]))


def _reshape(b: Builder, x: int) -> None:
    size, shape = prod(b.known[x].shape), list[int]()
    while size > 1 and len(shape) < 4 and b.choose((True, True, False)):
        shape.append(b.choose([n for n in (1, 2, 3, 4, 5, 7, 8, 11, 13) if size % n == 0]))
        size //= shape[-1]
    b.emit("reshape", x, shape=(*shape, size) if size != 1 or b.choose((False, True)) else tuple(shape))


def _slice(b: Builder, x: int) -> None:
    starts = tuple(b.choose(range(min(n, 4) + 1)) for n in b.known[x].shape)
    limits = tuple(b.choose((n, *range(s, min(s + 3, n)))) for s, n in zip(starts, b.known[x].shape, strict=True))
    b.emit("slice", x, starts=starts, limits=limits, strides=tuple(b.choose((1, 1, 2, 3)) for _ in starts))


def _flip(b: Builder, x: int) -> None:
    b.emit("flip", x, axis=b.axes(len(b.known[x].shape)))


def _pad(b: Builder, x: int) -> None:
    low, high = (tuple(b.choose((0, 1, 5)) for _ in b.known[x].shape) for _ in range(2))
    b.emit("pad", x, low=low, high=high, value=b.choose((0.0, 1.0)))


def _broadcast(b: Builder, x: int) -> None:
    shape = tuple(b.choose((2, 17)) if n == 1 else n for n in b.known[x].shape)
    b.emit("broadcast_to", x, shape=(b.choose((3, 1)), *shape) if b.choose((False, True)) and len(shape) < 4 else shape)


def _join(b: Builder) -> None:
    x = b.pick()
    shape = b.known[x].shape
    if b.choose((False, True)) or not shape:
        b.emit(
            "stack",
            x,
            *[b.partner(x, same=True) for _ in range(b.choose((1, 0, 2)))],
            axis=b.choose(range(-len(shape) - 1, len(shape) + 1)),
        )
        return
    axis = b.choose(range(len(shape)))

    def fits(k: Known) -> bool:
        return (
            k.dtype == b.known[x].dtype
            and len(k.shape) == len(shape)
            and _without(k.shape, axis) == _without(shape, axis)
        )

    b.emit(
        "concatenate", *[b.pick(fits) for _ in range(b.choose((1, 0, 2)))], x, axis=b.choose((axis, axis - len(shape)))
    )


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _gather(b: Builder) -> None:
    x = b.pick(lambda k: len(k.shape) > 0 and 0 not in k.shape)
    shape = b.known[x].shape
    axis = b.choose(range(len(shape)))
    indices = b.input(b.shape((1, 0, 2), (1, 3, 5, 17)), b.choose((I64, I32)), -shape[axis], shape[axis] - 1)
    b.emit("gather", x, indices, axis=axis)


def _scatter(b: Builder) -> None:
    x = b.pick(lambda k: len(k.shape) > 0 and 0 not in k.shape and _is_number(k))
    shape = b.known[x].shape
    axis = b.choose(range(len(shape)))
    indices = b.input(b.shape((1, 0, 2), (1, 3, 5)), b.choose((I64, I32)), -shape[axis], shape[axis] - 1)
    updates = b.input((*shape[:axis], *b.known[indices].shape, *shape[axis + 1 :]), b.known[x].dtype)
    b.emit("scatter_add", x, indices, updates, axis=axis)


def _cast(b: Builder) -> None:
    x = b.pick(lambda k: k.exact)
    known = b.known[x]
    target = b.choose((*FLOATS, *INTEGERS, BOOL))
    largest = float(np.abs(known.wide.astype(F64)).max(initial=0))
    if largest > (100 if target == I8 else 250 if is_float(target) else 2**20):
        raise Rejected
    b.emit("cast", x, dtype=target)


def _round_trip(b: Builder) -> None:
    b.emit("cast", b.float(lambda k: not k.exact), dtype=b.choose(FLOATS), exact=False)


def _inner(b: Builder, arguments: Sequence[Known], like: Sequence[Known]) -> Block:
    """A block that draws a few steps from `arguments` and what is outside; its results have the types of `like`."""
    inner = Builder(b.choose, b.smooth, b.dtypes, b)
    inner.block.arguments = tuple([inner.define(known) for known in arguments])
    grow(inner, b.choose((2, 1, 3)), control=False)
    first = set(b.known)
    results: list[int] = []
    for known in like:
        options = [n for n, k in inner.known.items() if (k.shape, k.dtype) == (known.shape, known.dtype)]
        results.append(b.choose([n for n in reversed(options) if n not in first] or options))
    inner.block.results = tuple(results)
    return inner.block


def _cond(b: Builder) -> None:
    tests = [n for n, k in b.known.items() if k.dtype == BOOL and k.shape == ()]
    test = b.choose(tests) if tests and b.choose((True, False)) else b.input((), BOOL, 0, 1)
    like = [b.known[b.pick()] for _ in range(b.choose((1, 2)))]
    blocks = (_inner(b, [], like), _inner(b, [], like))
    b.emit("cond", test, blocks=blocks, exact=False)


def _scan(b: Builder) -> None:
    carry = b.pick(lambda k: prod(k.shape) < 500)
    sequence = b.pick(lambda k: len(k.shape) > 0 and 0 < k.shape[0] < 9)
    known, whole = b.known[carry], b.known[sequence]
    arguments = [Known(known.native, known.wide, False or not known.is_float)]
    arguments.append(Known(whole.native[0], whole.wide[0], whole.exact and not whole.is_float))
    block = _inner(b, arguments, [known])
    inside = [n for step in block.steps for n in step.results]
    block.results = (*block.results, b.choose([*reversed(inside), *block.arguments]))
    b.emit("scan", carry, sequence, blocks=(block,), exact=False, reverse=b.choose((False, True)))


def _while(b: Builder) -> None:
    carried = [b.pick(lambda k: prod(k.shape) < 500) for _ in range(b.choose((1, 2)))]
    known = [b.known[n] for n in carried]
    block = _inner(b, [Known(k.native, k.wide, not k.is_float) for k in known], known)
    counter = b.input((), I32, 0, 0)
    b.emit("while_loop", *carried, counter, blocks=(block,), exact=False, trips=b.choose((3, 1, 0)))


SMOOTH: tuple[Maker, ...] = (
    _binary, _unary, _smooth_unary, _divide, _reduce, _normalize, _matmul, _convolve, _pool, _move, _move, _join,
    _gather, _scatter, _select,
)  # fmt: skip
EXACT: tuple[Maker, ...] = (
    *SMOOTH, _binary, _reduce, _integer_binary, _truth_binary, _compare, _position, _cast, _cast, _round_trip,
)  # fmt: skip
CONTROL: tuple[Maker, ...] = (_cond, _scan, _while)


def grow(b: Builder, steps: int, control: bool = True) -> None:
    """Draw steps; what has to be rejected is left out."""
    makers = (*(SMOOTH if b.smooth else EXACT), *((_cond, _scan) if b.smooth else CONTROL) * control)
    for _ in range(steps):
        before, known, count = len(b.block.steps), dict(b.known), dict(b.root.inputs)
        try:
            b.choose(makers)(b)
        except Rejected:
            del b.block.steps[before:]
            b.known = known
            b.root.inputs = count
            outer = b.outer
            while outer is not None:
                outer.known = {n: k for n, k in outer.known.items() if n in known}
                outer = outer.outer


def program(choose: Choose, *, smooth: bool, dtypes: Sequence[Any], steps: int) -> Program:
    """A program with several results, of up to `steps` steps (and those that they need)."""
    b = Builder(choose, smooth, dtypes)
    for _ in range(choose((2, 1, 3))):
        dtype = choose(dtypes)
        b.input(
            b.shape(sizes=SIZES[:-1] if smooth else SIZES), dtype, 0 if dtype == BOOL else -3, 1 if dtype == BOOL else 3
        )
    grow(b, steps)
    made = [n for step in b.block.steps for n in step.results]
    options = made if made else list(b.known)
    chosen = [options[-1], *(n for n in options[:-1] if choose((False, False, True)))]
    if choose((False, False, False, False, True)):
        chosen += [chosen[0], next(iter(b.inputs))]  # one value twice, and an argument as it is
    b.block.arguments, b.block.results = tuple(b.inputs), tuple(chosen)
    arrays = [k.native for k in b.inputs.values()]
    return Program(b.block, arrays, [b.known[n].native for n in chosen], [b.known[n].wide for n in chosen])


@st.composite
def programs(draw: Any, smooth: bool = False, dtypes: Sequence[Any] = DTYPES, most: int = 12) -> Program:
    """Programs as hypothesis draws them. `smooth`: differentiable everywhere near the inputs, floats only."""
    return program(
        lambda options: draw(st.sampled_from(options)), smooth=smooth, dtypes=dtypes, steps=draw(st.integers(1, most))
    )
