"""The op families: what an author writes, and what each family derives from it.

| family          | hooks                           | meaning                                                       |
|-----------------|---------------------------------|---------------------------------------------------------------|
| `ElementwiseOp` | `scalar`                        | the same scalar function of every (broadcast) element         |
| `UnaryOp`, `BinaryOp` | `scalar` | elementwise, of floats `x`, or `x` and `y`                     |
| `CompositeOp`   | `decompose`                     | other ops                                                     |
| `ReductionOp`   | `initial`, `scalar`             | elements along axes combined                                  |
| `ContractionOp` | `indexing`                      | sums of products over loops                                   |
| `WindowOp`      | `indexing`, `initial`, `scalar` | combination over windows                                      |
| `CumulativeOp`  | `initial`, `scalar`             | every step of a combination along an axis                     |
| `IndexMapOp`    | `infer`, `source`               | each result element is one operand element, at an affine index|
| `IndexingOp`    | `infer`, `element`              | each result element is computed from elements at any index    |
| `ScatterOp`     | `target`, `combine`             | each update element goes to one place of the result           |
| `OpaqueOp`      | `infer`, `KERNELS`, `reference` | code that Tenon does not look into                            |
| `HostOp`        | `infer`, `reference`            | what Python computes in the midst of a program                |
| `ControlFlowOp` | `pull_back`, `structured`       | regions of ops, run under conditions or repeatedly            |

An op's class has `initial` and `scalar` from `COMBINE` where they are a monoid's (`monoid`).

Each family has one method `structured`, which builds its meaning in `linalg`, `tensor` and `scf` at the insertion
point, from operands of static shape. Lowering, the interpreter and constant folding all use that method and no other.
"""

from __future__ import annotations

from tenon.dialects.families.composite import CompositeOp, SerialRowsOp
from tenon.dialects.families.contraction_and_window import ContractionOp, LoopOp, WindowOp
from tenon.dialects.families.cumulative import ArgCumulativeOp, CumulativeOp
from tenon.dialects.families.elementwise import (
    BinaryOp,
    ElementwiseOp,
    NumericBinaryOp,
    NumericUnaryOp,
    OfTruthValues,
    PrimitiveOp,
    UnaryOp,
)
from tenon.dialects.families.index_map_gather_scatter import IndexingOp, IndexMapOp, ScatterOp
from tenon.dialects.families.monoid import CombiningOp
from tenon.dialects.families.reduction import ArgReductionOp, ReductionOp
from tenon.dialects.families.structured_op import StructuredOp, as_tuple, require_hooks

__all__ = [
    "ArgCumulativeOp",
    "ArgReductionOp",
    "BinaryOp",
    "CombiningOp",
    "CompositeOp",
    "ContractionOp",
    "CumulativeOp",
    "ElementwiseOp",
    "IndexMapOp",
    "IndexingOp",
    "LoopOp",
    "NumericBinaryOp",
    "NumericUnaryOp",
    "OfTruthValues",
    "PrimitiveOp",
    "ReductionOp",
    "ScatterOp",
    "SerialRowsOp",
    "StructuredOp",
    "UnaryOp",
    "WindowOp",
    "as_tuple",
    "require_hooks",
]
