"""What the pass `schedule` decides and refuses; the numbers of what it decides are in the tests of loops."""

from __future__ import annotations

import pytest
from loop_kernels import parse
from xdsl.context import Context
from xdsl.dialects import linalg

from tenon.lowering.schedules.schedule import SchedulePass


def scheduled(text: str, vector_bits: int) -> linalg.ops.GenericOp:
    """The only generic of `text`, with what the pass wrote at it."""
    module = parse(text)
    SchedulePass(vector_bits).apply(Context(), module)
    (op,) = [op for op in module.walk() if isinstance(op, linalg.ops.GenericOp)]
    return op


def product(operands: tuple[str, str], sizes: dict[str, int]) -> str:
    """The kernel of a matrix product, whose operands have these indices."""
    maps = [f"affine_map<(m, n, k) -> ({', '.join(indices)})>" for indices in (*operands, "mn")]
    x, y, o = (f"memref<{''.join(f'{sizes[loop]}x' for loop in indices)}f32>" for indices in (*operands, "mn"))
    return f"""
func.func private @k(%x: {x}, %y: {y}, %o: {o}) attributes {{kernel}} {{
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : {o})
  linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %y : {x}, {y}) outs(%o : {o}) {{
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %acc, %p : f32
    linalg.yield %r : f32
  }}
  func.return
}}"""


BIASED = """
func.func private @k(%x: memref<2x3x5x7xf32>, %b: memref<3x1x1xf32>, %o: memref<2x3x5x7xf32>) attributes {kernel} {
  linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c, 0, 0)>,
                                   affine_map<(n, c, h, w) -> (n, c, h, w)>],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %b : memref<2x3x5x7xf32>, memref<3x1x1xf32>) outs(%o : memref<2x3x5x7xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %r = arith.addf %a, %c : f32
    linalg.yield %r : f32
  }
  func.return
}"""


@pytest.mark.parametrize(
    ("operands", "sizes", "keys"),
    [
        (("mk", "kn"), (120, 256, 256), set[str]()),
        (("mk", "kn"), (256, 256, 256), {"pack"}),
        (("mk", "kn"), (64, 4096, 4096), set[str]()),
        (("mk", "kn"), (1024, 1024, 1024), {"pack"}),
        (("mk", "kn"), (1024, 1024, 4096), {"pack", "block"}),
        (("mk", "kn"), (1024, 1024, 16), {"jam_block"}),
        (("mk", "nk"), (64, 64, 64), {"pack"}),
        (("mk", "nk"), (4, 1024, 1024), set[str]()),
        (("km", "kn"), (1024, 256, 1024), {"pack", "pack_jam", "jam_block"}),
        (("km", "kn"), (1024, 1024, 1024), {"pack", "pack_jam", "jam_block"}),
        (("km", "kn"), (1024, 1024, 4096), {"pack", "pack_jam", "jam_block", "block"}),
    ],
)
def test_copies(operands: tuple[str, str], sizes: tuple[int, int, int], keys: set[str]) -> None:
    op = scheduled(product(operands, dict(zip("mnk", sizes, strict=True))), 512)
    chosen = op.attributes["schedule"].data.keys()  # pyright: ignore
    assert chosen & {"pack", "pack_jam", "jam_block", "block"} == keys


def test_contiguous_loops_collapse() -> None:
    op = scheduled(BIASED, 512)
    assert [operand.type.get_shape() for operand in op.operands] == [(2, 3, 35), (3,), (2, 3, 35)]  # pyright: ignore


def test_vector_bits() -> None:
    with pytest.raises(ValueError, match="schedule: vector-bits is 500, neither 0 nor a power of two"):
        scheduled(BIASED, 500)
