"""The pass `interleave-chains`: what it must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreting import parse
from xdsl.context import Context
from xdsl.dialects import vector

import tenon
from tenon.lowering.loop_passes.interleave_chains import InterleaveChainsPass

TWICE = """
func.func private @twice(%x: memref<64xf32>, %p: vector<16xf32>, %o: memref<64xf32>) attributes {{kernel}} {{
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c32 {{
    {first}
    %j = arith.addi %i, %c16 : index
    {second}
  }}
  func.return
}}
"""


def chain(name: str, index: str) -> str:
    """A chain that stores a value halfway and one at its end."""
    lines = [f"%{name}0 = vector.load %x[{index}] : memref<64xf32>, vector<16xf32>"]
    for number in range(1, 9):
        lines.append(f"%{name}{number} = math.fma %{name}{number - 1}, %{name}0, %p : vector<16xf32>")
        if number in (4, 8):
            lines.append(f"vector.store %{name}{number}, %o[{index}] : memref<64xf32>, vector<16xf32>")
    return "\n".join(lines)


def test_stores_to_a_buffer_keep_their_order() -> None:
    module = parse(TWICE.format(first=chain("a", "%i"), second=chain("b", "%j")))
    before = [op for op in module.walk() if isinstance(op, vector.StoreOp)]
    InterleaveChainsPass().apply(Context(), module)
    assert [op for op in module.walk() if isinstance(op, vector.StoreOp)] == before


def gelu_of_product(x: Any, y: Any) -> Any:
    return tenon.gelu(x * y), tenon.sigmoid(y)


@pytest.mark.parametrize("shape", [(1003,), (7, 45), (64, 1)], ids=str)
def test_the_bits_are_the_same(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    x, y = (random.standard_normal(shape, np.float32) for _ in range(2))
    interleaved = tenon.jit(gelu_of_product).trace(x, y).lower()
    monkeypatch.setattr(InterleaveChainsPass, "takes", lambda *_: False)
    plain = tenon.jit(gelu_of_product).trace(x, y).lower()
    assert (str(interleaved) != str(plain)) == (np.prod(shape) >= 64)
    for ours, expected in zip(interleaved.compile()(x, y), plain.compile()(x, y), strict=True):
        assert np.array_equal(ours, expected)


def test_registers_are_checked() -> None:
    with pytest.raises(ValueError, match="interleave-chains: registers is 0, expected at least 1"):
        InterleaveChainsPass(0).apply(Context(), parse("func.func private @empty()"))
