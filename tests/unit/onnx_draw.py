"""Random ONNX graphs.

A graph is drawn node by node: makers guess operands and attributes, and the shape inference of the onnx package says
whether the node can be, and which shape it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx_graphs import Floats, Graph, Node, Shape, Whole

LARGEST = 20_000
"""Elements of a value."""


class Maker:
    """Grows a graph."""

    def __init__(self, random: Random) -> None:
        self.random, self.choose = random, random.choice
        self.graph = Graph((), (), opset=random.choice((17, 18, 21)), seed=random.randrange(2**16))
        self.values: dict[int, tuple[str, Shape]] = {}

    def pick(self, accept: Callable[[str, Shape], bool]) -> tuple[int, Shape]:
        """One of the values for which `accept` holds, later ones likelier; `IndexError` without any."""
        fits = [n for n, (dtype, shape) in self.values.items() if accept(dtype, shape)]
        number = self.choose(fits[-4:] if self.random.random() < 0.7 else fits)
        return number, self.values[number][1]

    def float(self, *ranks: int) -> tuple[int, Shape]:
        return self.pick(lambda dtype, shape: dtype == "float32" and (not ranks or len(shape) in ranks))

    def axes(self, rank: int) -> list[int]:
        chosen = [a for a in range(rank) if self.random.random() < 0.4] or [self.random.randrange(rank)]
        return [a - rank if self.random.random() < 0.3 else a for a in chosen]

    def add(self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> bool:
        """Add a node if it can be."""
        nodes = (*self.graph.nodes, Node(operator, inputs, attributes, outputs))
        graph = replace(self.graph, nodes=nodes)
        first = len(self.values)
        try:
            values = graph.values()
        except Exception:  # whatever the inference says against it
            return False
        new = range(first, first + outputs)
        if not all(n in values and all(d > 0 for d in values[n][1]) and prod(values[n][1]) <= LARGEST for n in new):
            return False
        self.graph, self.values = graph, {**self.values, **{n: values[n] for n in new}}
        return True


UNARY = (
    "Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "Softplus", "Elu", "Selu", "HardSigmoid", "HardSwish", "Softsign",
    "Floor", "Ceil", "Round", "Sign", "Cos", "Sin", "Atan", "LeakyRelu", "Identity", "Celu", "Mish", "ThresholdedRelu",
)  # fmt: skip


def unary(m: Maker) -> None:
    x, _ = m.float()
    m.add(m.choose(UNARY), x)


def bounded(m: Maker) -> None:
    """Functions that need what they are given to be in range."""
    x, _ = m.float()
    inside = len(m.values)
    if m.add("Clip", x, Floats((), 0.25, 0.5), Floats((), 1.0, 3.0)):
        m.add(m.choose(("Exp", "Log", "Sqrt", "Reciprocal")), inside)


def binary(m: Maker) -> None:
    x, shape = m.float()
    op = m.choose(("Add", "Sub", "Mul", "Max", "Min", "Div", "Pow", "PRelu", "Mean", "Sum"))
    if op in ("Div", "Pow", "PRelu") or m.random.random() < 0.4:
        part = tuple(m.choose((n, n, 1)) for n in shape)[m.random.randrange(len(shape) + 1) :]
        if op == "Pow":
            m.add(op, x, Floats((), *m.choose(((2, 2), (3, 3), (1, 1)))))
            return
        y: Any = Floats(part, 0.5, 2.0)
    else:
        y, _ = m.float()
    m.add(op, *((x, y) if op in ("Div", "PRelu") or m.random.random() < 0.5 else (y, x)))


def chosen(m: Maker) -> None:
    x, _ = m.float()
    test = len(m.values)
    if m.add(m.choose(("Less", "GreaterOrEqual", "Greater")), x, Floats(())):
        kind = m.random.random()
        if kind < 0.3:
            m.add("Cast", test, to=m.choose((onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32)))
        elif kind < 0.5:
            m.add("Not", test)
        else:
            y, _ = m.float()
            m.add("Where", test, *m.choose(((x, y), (y, x), (Floats(()), x))))


def reduced(m: Maker) -> None:
    x, shape = m.float(1, 2, 3, 4)
    name = m.choose(("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare", "Prod"))
    axes = m.axes(len(shape))
    keep = m.choose((0, 1))
    if name == "Sum" or m.graph.opset >= 18:
        m.add(f"Reduce{name}", x, *([Whole(axes)] if m.random.random() < 0.8 else []), keepdims=keep)
    else:
        m.add(f"Reduce{name}", x, axes=axes, keepdims=keep)


def along(m: Maker) -> None:
    """Operators along an axis."""
    x, shape = m.float(1, 2, 3, 4)
    axis = m.random.randrange(-len(shape), len(shape))
    match m.choose(("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "CumSum", "TopK", "LpNormalization")):
        case "CumSum":
            m.add("CumSum", x, Whole(axis), exclusive=m.choose((0, 1)), reverse=m.choose((0, 1)))
        case "TopK":
            m.add("TopK", x, Whole([m.random.randint(1, shape[axis])]), axis=axis, outputs=2, largest=m.choose((0, 1)))
        case "LpNormalization":
            m.add("LpNormalization", x, axis=axis, p=m.choose((1, 2)))
        case "Softmax" | "LogSoftmax" as name:
            m.add(name, x, axis=axis)
        case name:
            m.add(name, x, axis=axis, keepdims=m.choose((0, 1)))


def product(m: Maker) -> None:
    x, shape = m.float(2, 3, 4)
    size = m.choose((1, 2, 5, 8, 16))
    match m.choose(("MatMul", "MatMul", "Gemm", "both", "Einsum")):
        case "Gemm":
            a, b = m.choose((0, 1)), m.choose((0, 1))
            k = shape[0] if a else shape[-1]
            bias = (Floats(m.choose(((size,), (1, size), (1,)))),) if m.random.random() < 0.7 else ()
            weight = Floats((size, k) if b else (k, size))
            m.add("Gemm", x, weight, *bias, transA=a, transB=b, alpha=m.choose((1.0, 0.5)), beta=m.choose((1.0, 2.0)))
        case "both":
            other = len(m.values)
            if m.add("Transpose", x, perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]):
                m.add("MatMul", x, other)
        case "Einsum":
            m.add("Einsum", x, Floats((shape[-1], size)), equation=m.choose(("...i,io->...o", "...i,io->o...")))
        case _:
            m.add("MatMul", *m.choose(((x, Floats((shape[-1], size))), (Floats((size, shape[-2])), x))))


def window(m: Maker) -> None:
    x, shape = m.float(3, 4)
    rank = len(shape) - 2
    # onnxruntime gives a window that is larger than the image where the standard gives none.
    kernel = [m.choose([k for k in (1, 2, 3) if k <= max(size, 1)]) for size in shape[2:]]
    settings: dict[str, Any] = {"kernel_shape": kernel, "strides": [m.choose((1, 1, 2)) for _ in range(rank)]}
    if m.random.random() < 0.2:
        settings["auto_pad"] = m.choose(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        settings["pads"] = [m.choose((0, k // 2)) for k in kernel * 2]
    channels = m.choose((1, 2, 4, 8))
    groups = m.choose([g for g in (1, 1, 2, shape[1]) if shape[1] % g == channels % g == 0])
    bias = (Floats((channels,)),) if m.random.random() < 0.6 else ()
    match m.choose(("Conv", "Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")):
        case "Conv":
            if "auto_pad" not in settings:
                spans = zip(kernel, shape[2:], strict=True)
                settings["dilations"] = [m.choose((1, 1, 2)) if 2 * k - 1 <= size else 1 for k, size in spans]
            m.add("Conv", x, Floats((channels, shape[1] // groups, *kernel)), *bias, group=groups, **settings)
        case "ConvTranspose":
            if settings.get("auto_pad", "VALID") != "VALID":
                # Where windows leave gaps, onnxruntime gives less than the sizes times strides of the standard.
                settings["strides"] = [min(pair) for pair in zip(kernel, settings["strides"], strict=True)]
            weight = Floats((shape[1], channels // groups, *kernel))
            m.add("ConvTranspose", x, weight, *bias, group=groups, **settings)
        case "MaxPool":
            m.add("MaxPool", x, ceil_mode=m.choose((0, 1)), **settings)
        case "AveragePool":
            m.add("AveragePool", x, count_include_pad=m.choose((0, 1)), **settings)
        case _:
            m.add("LpPool", x, p=m.choose((1, 2)), **settings)


def image(m: Maker) -> None:
    """What images are given to, besides windows."""
    x, shape = m.float(4)
    per_channel = [Floats((shape[1],), 0.5, 1.5), Floats((shape[1],))]
    match m.choose(("batch", "instance", "LRN", "pool", "Resize", "depth", "space")):
        case "batch":
            m.add("BatchNormalization", x, *per_channel, Floats((shape[1],)), Floats((shape[1],), 0.5, 1.5))
        case "instance":
            m.add("InstanceNormalization", x, *per_channel, epsilon=0.0625)
        case "LRN":
            m.add("LRN", x, size=m.choose((1, 3)))
        case "pool":
            m.add(m.choose(("GlobalAveragePool", "GlobalMaxPool")), x)
        case "Resize":
            sizes = [*shape[:2], *[m.choose((n, n * 2, max(1, n // 2))) for n in shape[2:]]]
            mode = m.choose(("nearest", "linear"))
            how = m.choose(("asymmetric", "half_pixel", "align_corners"))
            m.add("Resize", x, None, None, Whole(sizes), mode=mode, coordinate_transformation_mode=how,
                  nearest_mode="floor" if how == "asymmetric" else "round_prefer_floor")  # fmt: skip
        case "depth":
            m.add("DepthToSpace", x, blocksize=2, mode=m.choose(("DCR", "CRD")))
        case _:
            m.add("SpaceToDepth", x, blocksize=2)


def moved(m: Maker) -> None:
    x, shape = m.float(1, 2, 3, 4)
    rank = len(shape)
    axis = m.random.randrange(-rank, rank)
    match m.choose(("Transpose", "Reshape", "Flatten", "Unsqueeze", "Slice", "Pad", "Expand", "Tile", "Split", "Concat",
                    "Trilu", "Squeeze")):  # fmt: skip
        case "Transpose":
            m.add("Transpose", x, perm=m.random.sample(range(rank), rank))
        case "Reshape":
            target = [m.choose((0, n)) for n in shape]
            target[m.random.randrange(rank)] = -1
            joined = [-1] if m.random.random() < 0.5 else [shape[0], -1]
            m.add("Reshape", x, Whole(m.choose((joined, target))))
        case "Flatten":
            m.add("Flatten", x, axis=axis)
        case "Unsqueeze" if rank < 4:
            m.add("Unsqueeze", x, Whole([m.random.randrange(-rank - 1, rank + 1)]))
        case "Squeeze":
            m.add("Squeeze", x, *([Whole([a for a in range(rank) if shape[a] == 1])] if 1 in shape else []))
        case "Slice":
            step = m.choose((1, 1, 2, -1, -2))
            ends = (m.choose((0, 1, -2)), m.choose((shape[axis], 999, -1)))
            start, end = ends if step > 0 else ends[::-1]
            end = -999 if step < 0 and m.random.random() < 0.5 else end
            m.add("Slice", x, Whole([start]), Whole([end]), Whole([axis]), Whole([step]))
        case "Pad":
            mode = m.choose(("constant", "reflect", "edge"))
            pads = [min(m.choose((0, 1, 2)), n - 1 if mode == "reflect" else 2) for n in (*shape, *shape)]
            m.add("Pad", x, Whole(pads), *([Floats(())] if mode == "constant" else []), mode=mode)
        case "Expand":
            m.add("Expand", x, Whole([m.choose((1, n if n > 1 else 3)) for n in shape]))
        case "Tile":
            m.add("Tile", x, Whole([m.choose((1, 2)) for _ in shape]))
        case "Split":
            first = m.random.randint(1, max(1, shape[axis] - 1))
            m.add("Split", x, Whole([first, shape[axis] - first]), axis=axis, outputs=2)
        case "Trilu":
            m.add("Trilu", x, Whole(m.choose((-1, 0, 1))), upper=m.choose((0, 1)))
        case _:
            m.add("Concat", x, m.choose((x, Floats(shape))), axis=axis)


def indexed(m: Maker) -> None:
    x, shape = m.float(1, 2, 3)
    rank = len(shape)
    axis = m.random.randrange(-rank, rank)
    places = [m.random.randrange(-shape[axis], shape[axis]) for _ in range(m.choose((1, 2, 3)))]
    match m.choose(("Gather", "GatherElements", "ScatterElements", "ScatterND", "GatherND", "OneHot")):
        case "Gather":
            m.add("Gather", x, Whole(m.choose((places, places[0], [places]))), axis=axis)
        case "GatherElements" | "ScatterElements" as name:
            few = tuple(1 for _ in shape) if rank > 1 else (1,)
            indices = np.full(few, places[0]).tolist()
            more = (Floats(few),) if name == "ScatterElements" else ()
            m.add(name, x, Whole(indices), *more, axis=axis)
        case "ScatterND":
            m.add("ScatterND", x, Whole([[m.random.randrange(shape[0])]]), Floats((1, *shape[1:])))
        case "GatherND":
            m.add("GatherND", x, Whole([[m.random.randrange(n) for n in shape[: m.random.randint(1, rank)]]]))
        case _:
            number, _ = m.pick(lambda dtype, shape: dtype == "int64" and len(shape) < 3)
            m.add("OneHot", number, Whole([m.choose((3, 7))]), Whole([0, 1], "float32"), axis=-1)


def shaped(m: Maker) -> None:
    """A reshape to a shape that is computed, as exporters write it."""
    x, _ = m.float(2, 3, 4)
    first = len(m.values)
    if m.add("Shape", x) and m.add("Gather", first, Whole([0])) and m.add("Concat", first + 1, Whole([-1]), axis=0):
        m.add("Reshape", x, first + 2)


def recurrent(m: Maker) -> None:
    x, (_, _, size) = m.float(3)
    name, gates = m.choose((("RNN", 1), ("GRU", 3), ("LSTM", 4)))
    direction = m.choose(("forward", "reverse", "bidirectional"))
    count, hidden = 1 + (direction == "bidirectional"), m.choose((1, 3, 4))
    parts = [Floats((count, gates * hidden, n)) for n in (size, hidden)]
    bias = [Floats((count, 2 * gates * hidden))] if m.random.random() < 0.7 else []
    m.add(name, x, *parts, *bias, outputs=2, hidden_size=hidden, direction=direction)


def normed(m: Maker) -> None:
    x, shape = m.float(2, 3, 4)
    m.add("LayerNormalization", x, Floats(shape[-1:], 0.5, 1.5), Floats(shape[-1:]), epsilon=0.0625)


MAKERS = (unary, unary, bounded, binary, binary, binary, chosen, reduced, along, product, product, window, window,
          window, image, moved, moved, moved, indexed, shaped, recurrent, normed)  # fmt: skip
SHAPES: Sequence[Shape] = (
    (3,), (8,), (4, 5), (2, 16), (1, 7), (2, 3, 4), (5, 1, 8), (2, 4, 8), (1, 3, 8, 8), (2, 4, 6, 6), (1, 8, 5, 7),
)  # fmt: skip


def draw(random: Random) -> Graph:
    """A graph of a few nodes, all of whose values are taken or come out."""
    maker = Maker(random)
    shapes = [random.choice(SHAPES) for _ in range(random.choice((1, 1, 2)))]
    maker.graph = replace(maker.graph, inputs=tuple(("float32", shape) for shape in shapes))
    maker.values = dict(enumerate(maker.graph.inputs))
    size = random.randint(2, 9)
    for _ in range(200):
        if len(maker.graph.nodes) >= size:
            break
        try:
            random.choice(MAKERS)(maker)
        except IndexError:  # nothing fits
            continue
    return maker.graph
