"""Recurrent layers: the products of all inputs at once, then one compiled scan for each direction of each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import tenon
from tenon.dialects.definition.value import ops
from tenon.nn.derived import check_sizes
from tenon.nn.init import Seed, generator_of, uniform
from tenon.nn.module import Array, Module
from tenon.nn.regularization import Dropout
from tenon.nn.utils.rnn import PackedSequence, packed_as, pad_packed_sequence

State = tuple[Array, ...]


def _rnn(of_x: Array, of_h: Array, state: State) -> State:
    return (tenon.tanh(of_x + of_h),)


def _relu_rnn(of_x: Array, of_h: Array, state: State) -> State:
    return (tenon.relu(of_x + of_h),)


def _lstm(of_x: Array, of_h: Array, state: State) -> State:
    """Hochreiter and Schmidhuber, "Long short-term memory", 1997, with a forget gate; gates i, f, g, o."""
    i, f, g, o = tenon.split(of_x + of_h, 4, axis=-1)
    c = tenon.sigmoid(f) * state[1] + tenon.sigmoid(i) * tenon.tanh(g)
    return tenon.sigmoid(o) * tenon.tanh(c), c


def _gru(of_x: Array, of_h: Array, state: State) -> State:
    """Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014, as PyTorch has it: r, z, n."""
    of_x, of_h = tenon.split(of_x, 3, axis=-1), tenon.split(of_h, 3, axis=-1)
    r, z = tenon.sigmoid(of_x[0] + of_h[0]), tenon.sigmoid(of_x[1] + of_h[1])
    return ((1 - z) * tenon.tanh(of_x[2] + r * of_h[2]) + z * state[0],)


_CELLS: dict[str, Callable[[Array, Array, State], State]] = {
    "tanh": _rnn,
    "relu": _relu_rnn,
    "lstm": _lstm,
    "gru": _gru,
}


def _affine(x: Array, weight: Array, bias: Any) -> Array:
    product = x @ tenon.transpose(weight)
    # In the dtype of the product, which autocast may have made smaller.
    return product if bias is None else product + tenon.cast(bias, dtype=product.dtype)


def _next(cell: str, of_x: Array, state: State, weights: dict[str, Array]) -> State:
    """The state after `state`, in its dtypes whatever autocast makes of products, for what the input gives to the
    gates."""
    made = _CELLS[cell](of_x, _affine(state[0], weights["weight_hh"], weights.get("bias_hh")), state)
    if "weight_hr" in weights:
        made = (made[0] @ tenon.transpose(weights["weight_hr"]), *made[1:])
    return tuple([tenon.cast(new, dtype=old.dtype) for new, old in zip(made, state, strict=True)])


@tenon.jit
def _layer(
    cell: str, direction: str, x: Array, state: State, weights: dict[str, Array], lengths: Array | None = None
) -> tuple[Array, State]:
    """The results (T, N, H) of all steps of `x` (T, N, I), and the last state. With `lengths` (N,), a sequence keeps
    the state that it has beyond its end, from which the other direction comes."""
    of_inputs = _affine(x, weights["weight_ih"], weights.get("bias_ih"))

    def step(state: State, of_x: Array) -> tuple[State, Array]:
        made = _next(cell, of_x, state, weights)
        return made, made[0]

    def step_within(state: State, given: tuple[Array, Array]) -> tuple[State, Array]:
        of_x, is_there = given
        made = tuple(
            [tenon.select(is_there, n, o) for n, o in zip(_next(cell, of_x, state, weights), state, strict=True)]
        )
        return made, made[0]

    if lengths is None:
        last, results = tenon.scan(step, state, of_inputs, reverse=direction == "reverse")
    else:
        is_there = tenon.expand_dims(tenon.expand_dims(tenon.iota(shape=(x.shape[0],)), axis=1) < lengths, axis=2)
        last, results = tenon.scan(step_within, state, (of_inputs, is_there), reverse=direction == "reverse")
    return results, last


def _stacked(states: Sequence[Array]) -> Array:
    """The states of all layers and directions as one array; of a single one, that needs no copy."""
    return tenon.stack(states) if len(states) > 1 else tenon.expand_dims(states[0], axis=0)


class _Gates(Module):
    """Weights and biases of the gates of a cell."""

    GATES: ClassVar[int]
    STATES: ClassVar[int] = 1
    CELL: ClassVar[str]

    def _make_weights(
        self, generator: np.random.Generator, input_size: int, suffix: str, dtype: Any, proj_size: int = 0
    ) -> None:
        """Weights called after `suffix`, uniform in ±1/√hidden_size."""
        size, rows = self.hidden_size, self.GATES * self.hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, proj_size or size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if proj_size:
            shapes["weight_hr"] = (proj_size, size)
        for name, shape in shapes.items():
            setattr(self, f"{name}{suffix}", uniform(generator, shape, size, dtype))

    def _set_sizes(self, input_size: int, hidden_size: int, bias: bool) -> None:
        check_sizes(self, 1, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.cell = self.CELL

    def _check_input(self, x: Array) -> None:
        if x.shape[-1] != self.input_size:
            raise ValueError(
                f"{type(self).__name__}: x has shape {tuple(x.shape)}, and input_size is {self.input_size}"
            )

    def _weights(self, suffix: str) -> dict[str, Array]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return {name: getattr(self, name + suffix) for name in names if hasattr(self, name + suffix)}

    def _states(self, state: Any, shapes: list[tuple[int, ...]]) -> State:
        """`state` as a tuple of arrays of `shapes`."""
        given = tuple(state) if isinstance(state, list | tuple) else (state,)
        if len(given) != self.STATES:
            raise ValueError(f"{type(self).__name__}: there are {len(given)} states where {self.STATES} are needed")
        for array, shape in zip(given, shapes, strict=True):
            if tuple(array.shape) != shape:
                raise ValueError(
                    f"{type(self).__name__}: a state has shape {tuple(array.shape)} where {shape} is needed"
                )
        return given


def _nonlinearity(kind: str, nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{kind}: nonlinearity is {nonlinearity!r}, neither 'tanh' nor 'relu'")
    return nonlinearity


class _Recurrent(_Gates):
    """Layers of a cell, in one direction or both, each with parameters of PyTorch's names."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        proj_size: int = 0,
        dtype: Any = np.float32,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        self._set_sizes(input_size, hidden_size, bias)
        check_sizes(self, 1, num_layers=num_layers)
        if proj_size and (self.STATES == 1 or not 0 < proj_size < hidden_size):
            raise ValueError(
                f"{type(self).__name__}: proj_size is {proj_size}; only an LSTM has one, less than hidden_size"
            )
        self.num_layers, self.batch_first, self.bidirectional = num_layers, batch_first, bidirectional
        self.dropout, self.proj_size = dropout, proj_size
        generator = generator_of(seed)
        for layer, suffix in self._places():
            size = input_size if layer == 0 else (proj_size or hidden_size) * (1 + bidirectional)
            self._make_weights(generator, size, suffix, dtype, proj_size)
        self.between = Dropout(dropout, seed=generator) if dropout and num_layers > 1 else None

    def _places(self) -> Iterator[tuple[int, str]]:
        for layer in range(self.num_layers):
            for direction in ("", "_reverse")[: 1 + self.bidirectional]:
                yield layer, f"_l{layer}{direction}"

    def forward(self, x: Array, state: Any = None) -> tuple[Array, Any]:
        """(T, N, I) to (T, N, H·directions), with T and N exchanged if `batch_first`, or without N; and the last state,
        (layers·directions, N, H), of which there may be one to begin with: one array, or two of an LSTM. Sequences that
        are packed (`nn.utils.rnn.PackedSequence`) give such, and the state that each has at its end."""
        if isinstance(x, PackedSequence):
            return self._packed(x, state)
        if len(x.shape) not in (2, 3):
            raise ValueError(f"{type(self).__name__}: x has shape {tuple(x.shape)} where 2 or 3 dimensions are needed")
        self._check_input(x)
        is_single = len(x.shape) == 2
        if is_single:
            x = tenon.expand_dims(x, axis=1)
        elif self.batch_first:
            x = tenon.transpose(x, permutation=(1, 0, 2))
        results, ended = self._run(x, self._starts(x, state, is_single))
        if is_single:
            results = tenon.squeeze(results, axis=1)
            ended = tuple([tenon.squeeze(s, axis=1) for s in ended])
        elif self.batch_first:
            results = tenon.transpose(results, permutation=(1, 0, 2))
        return results, ended if self.STATES > 1 else ended[0]

    def _starts(self, x: Array, state: Any, is_single: bool) -> list[State]:
        """The state that each layer and direction begins with."""
        count, batch = len(list(self._places())), x.shape[1]
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.STATES]
        if state is None:
            zeros = tuple([ops.zeros(shape=(batch, size), dtype=x.dtype) for size in sizes])
            return [zeros] * count
        shapes: list[tuple[int, ...]] = [(count, *(() if is_single else (batch,)), size) for size in sizes]
        states: list[Any] = [*self._states(state, shapes)]
        if is_single:
            states = [tenon.expand_dims(s, axis=1) for s in states]
        return [tuple([s[place] for s in states]) for place in range(count)]

    def _packed(self, x: PackedSequence, state: Any) -> tuple[PackedSequence, Any]:
        """The results of packed sequences, packed as they are, and the last state of each at its end."""
        padded, lengths = pad_packed_sequence(x)
        self._check_input(padded)
        results, ended = self._run(padded, self._starts(padded, state, False), np.asarray(lengths, np.int64))
        return packed_as(x, tenon.swapaxes(results, 0, 1)), ended if self.STATES > 1 else ended[0]

    def _run(self, x: Array, starts: list[State], lengths: Array | None = None) -> tuple[Array, tuple[Array, ...]]:
        """The results, and the last states of all layers and directions."""
        last: list[State] = []
        results: list[Array] = []
        for layer, suffix in self._places():
            direction = "reverse" if suffix.endswith("reverse") else "forward"
            made, ended = _layer(self.cell, direction, x, starts[len(last)], self._weights(suffix), lengths)
            results.append(made)
            last.append(ended)
            if len(results) == 1 + self.bidirectional:
                x = results[0] if len(results) == 1 else tenon.concatenate(results, axis=-1)
                results = []
                if self.between is not None and layer < self.num_layers - 1:
                    x = self.between(x)
        return x, tuple(map(_stacked, zip(*last, strict=True)))

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        changed = {name: getattr(self, name) for name, default in defaults.items() if getattr(self, name) != default}
        return said + "".join([f", {name}={value}" for name, value in changed.items()])


class RNN(_Recurrent):
    """h ← tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh), or relu with `nonlinearity="relu"`; arguments as PyTorch's."""

    GATES, CELL = 1, "tanh"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", **settings: Any
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, **settings)
        self.cell = self.nonlinearity = _nonlinearity("RNN", nonlinearity)


class LSTM(_Recurrent):
    """Long short-term memory; arguments and the order of gates (i, f, g, o) as PyTorch's. With `proj_size`, h is the
    product of that many rows of `weight_hr` (Sak et al., arXiv:1402.1128).
    """

    GATES, STATES, CELL = 4, 2, "lstm"


class GRU(_Recurrent):
    """Gated recurrent units; arguments and the order of gates (r, z, n) as PyTorch's."""

    GATES, CELL = 3, "gru"


class _Cell(_Gates):
    """One step of a recurrent layer."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: Any = np.float32, seed: Seed = None
    ) -> None:
        super().__init__()
        self._set_sizes(input_size, hidden_size, bias)
        self._make_weights(generator_of(seed), input_size, "", dtype)

    def forward(self, x: Array, state: Any = None) -> Any:
        """(N, I), or (I,), and a state (N, H), or (H,), to the next state; two of an LSTM."""
        self._check_input(x)
        shape = (*x.shape[:-1], self.hidden_size)
        if state is None:
            given = (ops.zeros(shape=shape, dtype=x.dtype),) * self.STATES
        else:
            given = self._states(state, [shape] * self.STATES)
        weights = self._weights("")
        made = _next(self.cell, _affine(x, weights["weight_ih"], weights.get("bias_ih")), given, weights)
        return made if self.STATES > 1 else made[0]

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        said += "" if self.bias else f", bias={self.bias}"
        return said if self.cell in ("tanh", "gru", "lstm") else f"{said}, nonlinearity={self.cell}"


class RNNCell(_Cell):
    """One step of `RNN`."""

    GATES, CELL = 1, "tanh"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **settings: Any
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **settings)
        self.cell = self.nonlinearity = _nonlinearity("RNNCell", nonlinearity)


class LSTMCell(_Cell):
    """One step of `LSTM`."""

    GATES, STATES, CELL = 4, 2, "lstm"


class GRUCell(_Cell):
    """One step of `GRU`."""

    GATES, CELL = 3, "gru"


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]
