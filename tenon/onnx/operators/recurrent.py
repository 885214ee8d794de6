"""Recurrent layers: RNN, GRU and LSTM, as scans along the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenon.control_flow import scan
from tenon.dialects.definition.value import ops
from tenon.onnx.node import Node, OnnxError, Operand
from tenon.onnx.operators import operator
from tenon.onnx.operators.elementwise import in_single, of_dtype

Activation = Callable[[Any], Any]
Step = Callable[..., Sequence[Any]]

# The functions by ONNX's names, with the defaults of alpha and beta that the standard's text gives.
_ACTIVATIONS: dict[str, tuple[Callable[[Any, float, float], Any], float, float]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, b: ops.elu(x, alpha=a), 1.0, 0.0),
    "hardsigmoid": (lambda x, a, b: ops.hard_sigmoid(x, alpha=a, beta=b), 0.2, 0.5),
    "leakyrelu": (lambda x, a, b: ops.leaky_relu(x, negative_slope=a), 0.01, 0.0),
    "relu": (lambda x, a, b: ops.relu(x), 0.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * ops.tanh(b * x), 1.0, 1.0),
    "sigmoid": (lambda x, a, b: ops.sigmoid(x), 0.0, 0.0),
    "softplus": (lambda x, a, b: ops.softplus(x), 0.0, 0.0),
    "softsign": (lambda x, a, b: ops.softsign(x), 0.0, 0.0),
    "tanh": (lambda x, a, b: ops.tanh(x), 0.0, 0.0),
    "thresholdedrelu": (lambda x, a, b: ops.thresholded_relu(x, alpha=a), 1.0, 0.0),
}


def _activations(node: Node, directions: int, defaults: Sequence[str]) -> list[list[Activation]]:
    """The functions of each direction. `activation_alpha` and `activation_beta` are in the order of the names."""
    names = node.attribute("activations") or list(defaults) * directions
    if len(names) != len(defaults) * directions:
        raise OnnxError(f"{node.where}: {len(names)} activations where {len(defaults) * directions} are needed")
    alphas, betas = list(node.attribute("activation_alpha") or ()), list(node.attribute("activation_beta") or ())
    found: list[Activation] = []
    for position, name in enumerate(names):
        if name.lower() not in _ACTIVATIONS:
            raise OnnxError(f"{node.where}: activation {name!r} is not supported")
        function, alpha, beta = _ACTIVATIONS[name.lower()]
        found.append(
            _bound(
                function,
                alphas[position] if position < len(alphas) else alpha,
                betas[position] if position < len(betas) else beta,
            )
        )
    each = len(defaults)
    return [found[i * each : (i + 1) * each] for i in range(directions)]


def _bound(function: Callable[[Any, float, float], Any], alpha: float, beta: float) -> Activation:
    return lambda x: function(x, alpha, beta)


@dataclass(frozen=True)
class Layer:
    """What the three layers share: operands with the sequence first, in the dtype of the computation."""

    node: Node
    x: Any
    lengths: Any
    hidden: int
    directions: int
    batch_first: bool

    @classmethod
    def of(cls, node: Node, x: Any, recurrence: Any, lengths: Any) -> Layer:
        direction = node.attribute("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise OnnxError(f"{node.where}: direction {direction!r} is not supported")
        batch_first = bool(node.attribute("layout", 0))
        values = in_single(ops.transpose(x, permutation=(1, 0, 2)) if batch_first else x)
        return cls(node, values, lengths, recurrence.shape[-1], 2 if direction == "bidirectional" else 1, batch_first)

    def initial(self, state: Any) -> Any:
        """A first state (directions, batch, hidden); zeros where it is left out."""
        if state is None:
            return np.zeros((self.directions, self.x.shape[1], self.hidden), self.x.dtype)
        return in_single(ops.transpose(state, permutation=(1, 0, 2)) if self.batch_first else state)

    def clipped(self, x: Any) -> Any:
        """What goes into an activation, limited by the attribute `clip`."""
        limit = self.node.attribute("clip")
        return x if limit is None else ops.clip(x, low=-limit, high=limit)

    def run(self, step: Step, inputs: Any, states: Sequence[Any], backward: bool) -> Any:
        """All hidden states (sequence, batch, hidden) and the last states, where `step(x, *states)` gives the next.

        Behind the end of a shorter sequence, outputs are 0 and states stay as they are.
        """
        length = self.x.shape[0]
        places = np.arange(length, dtype=np.int64)

        def body(carry: Any, item: Any) -> Any:
            place, part = item
            following = tuple(step(part, *carry))
            if self.lengths is None:
                return following, following[0]
            alive = ops.expand_dims(ops.less(place, ops.cast(self.lengths, dtype="i64")), axis=1)
            kept = tuple([ops.select(alive, new, old) for new, old in zip(following, carry, strict=True)])
            return kept, ops.select(alive, following[0], 0.0)

        initial = tuple([ops.asarray(state) for state in states])
        return scan(body, initial, (ops.asarray(places), inputs), length, reverse=backward)

    def directed(self, compute: Callable[[int], tuple[Sequence[Any], Any]]) -> tuple[Any, ...]:
        """The outputs of the layer, from what `compute(direction)` gives: the last states, and all hidden ones."""
        last: list[Sequence[Any]] = []
        hidden: list[Any] = []
        for direction in range(self.directions):
            states, rows = compute(direction)
            last.append(states)
            hidden.append(rows)
        outputs = [ops.stack(tuple(hidden), axis=1)]
        outputs += [ops.stack(states, axis=0) for states in zip(*last, strict=True)]
        if self.batch_first:
            outputs = [ops.transpose(outputs[0], permutation=(2, 0, 1, 3))] + [
                ops.transpose(state, permutation=(1, 0, 2)) for state in outputs[1:]
            ]
        return tuple(outputs)

    def is_backward(self, direction: int) -> bool:
        return direction == 1 or self.node.attribute("direction", "forward") == "reverse"


def _gates(x: Any, hidden: int) -> list[Any]:
    """Parts of the last axis, `hidden` wide."""
    return [x[..., i : i + hidden] for i in range(0, x.shape[-1], hidden)]


@dataclass(frozen=True)
class Cell:
    """What a cell is made of in one direction; bias and peepholes are `None` where they are left out."""

    layer: Layer
    functions: list[Activation]
    recurrence: Any
    bias: Any
    peepholes: Any


def _rnn(cell: Cell) -> Step:
    """H = f(x W' + H R' + b)."""
    (function,) = cell.functions
    return lambda part, state: (function(cell.layer.clipped(part + ops.matmul(state, cell.recurrence))),)


def _gru(cell: Cell) -> Step:
    """Gates z, r, h: H = (1 - z) h + z H, where the reset gate r is applied before the recurrence, or after it."""
    layer, size, turned = cell.layer, cell.layer.hidden, cell.recurrence
    gate, candidate = cell.functions
    after = bool(layer.node.attribute("linear_before_reset", 0))
    offsets = None if cell.bias is None else cell.bias[3 * size :]

    def step(part: Any, state: Any) -> Any:
        from_x = _gates(part, size)
        moved = ops.matmul(state, turned[:, : 2 * size])
        if offsets is not None:
            moved = moved + offsets[: 2 * size]
        from_state = _gates(moved, size)
        update = gate(layer.clipped(from_x[0] + from_state[0]))
        reset = gate(layer.clipped(from_x[1] + from_state[1]))
        last = ops.matmul(state if after else reset * state, turned[:, 2 * size :])
        if offsets is not None:
            last = last + offsets[2 * size :]
        new = candidate(layer.clipped(from_x[2] + (reset * last if after else last)))
        return ((1.0 - update) * new + update * state,)

    return step


def _lstm(cell: Cell) -> Step:
    """Gates i, o, f, c: C = f C + i c and H = o h(C), with peepholes from C to i, f (before) and o (after)."""
    layer = cell.layer
    gate, candidate, exposed = cell.functions
    couples = bool(layer.node.attribute("input_forget", 0))
    looks = [0.0] * 3 if cell.peepholes is None else _gates(cell.peepholes, layer.hidden)

    def step(part: Any, state: Any, memory: Any) -> Any:
        input_, output, forget, new = _gates(part + ops.matmul(state, cell.recurrence), layer.hidden)
        enters = gate(layer.clipped(input_ + looks[0] * memory))
        stays = 1.0 - enters if couples else gate(layer.clipped(forget + looks[2] * memory))
        following = stays * memory + enters * candidate(layer.clipped(new))
        leaves = gate(layer.clipped(output + looks[1] * following))
        return leaves * exposed(following), following

    return step


def _recurrent(
    name: str, step_of: Callable[[Cell], Step], functions: Sequence[str], *, states: int = 1, biases_apart: bool = False
) -> None:
    """Register `name`, whose cell has these functions unless others are given, keeps so many states, and adds the bias
    of the recurrence apart from that of the inputs or with it."""

    @operator(name, since=7)
    def layer_of(
        node: Node,
        x: Operand,
        weights: Operand,
        recurrence: Operand,
        bias: Operand | None = None,
        lengths: Operand | None = None,
        initial: Operand | None = None,
        initial_memory: Operand | None = None,
        peepholes: Operand | None = None,
    ) -> Any:
        layer = Layer.of(node, x, recurrence, lengths)
        chosen = _activations(node, layer.directions, functions)
        starts = [layer.initial(state) for state in (initial, initial_memory)[:states]]

        def compute(direction: int) -> Any:
            weight, turned, both, looks = (
                None if parameter is None else in_single(parameter)[direction]
                for parameter in (weights, recurrence, bias, peepholes)
            )
            inputs = ops.matmul(layer.x, ops.transpose(weight))  # for the whole sequence at once
            if both is not None:
                half = both.shape[0] // 2
                inputs = inputs + (both[:half] if biases_apart else both[:half] + both[half:])
            step = step_of(Cell(layer, chosen[direction], ops.transpose(turned), both, looks))
            return layer.run(step, inputs, [start[direction] for start in starts], layer.is_backward(direction))

        return tuple([of_dtype(result, x.dtype) for result in layer.directed(compute)])


_recurrent("RNN", _rnn, ("Tanh",))
_recurrent("GRU", _gru, ("Sigmoid", "Tanh"), biases_apart=True)
_recurrent("LSTM", _lstm, ("Sigmoid", "Tanh", "Tanh"), states=2)
