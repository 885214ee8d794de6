"""All op modules of the tensor dialect: importing this module registers every op, in this order."""

from tenon.dialects.ops.elementwise import constant  # isort: split

from tenon.dialects.ops.elementwise import arithmetic, comparison, elementary, gamma, pairwise, rounding, special  # isort: split

from tenon.dialects.ops.elementwise import activation, bessel, combined, piecewise  # isort: split

from tenon.dialects.ops.move import band, indexing, joining, shape, slicing  # isort: split

from tenon.dialects.ops.reduce import reduction, statistics  # isort: split

from tenon.dialects.ops.contract import (
    contraction,
    convolution,
    einsum,
    fourier,
    global_pooling,
    pooling,
    products,
    sliding,
    transposed_convolution,
)
from tenon.dialects.ops.control import checkpoint, control_flow, debug, identity, scan
from tenon.dialects.ops.factor import cholesky, determinant, least_squares, lu, orthogonal, singular, solving, spectral
from tenon.dialects.ops.move import (
    creation,
    diagonals,
    dynamic_slicing,
    functional_update,
    grid_sampling,
    padding,
    pieces,
    places,
    rearranging,
    scatter,
    subscript,
)
from tenon.dialects.ops.order import (
    network_sorting,
    partition_sorting,
    quantiles,
    radix_sorting,
    rank_sorting,
    row_selection,
    run_totals,
    searching,
    sorting,
    tile_sorting,
)
from tenon.dialects.ops.random import random, sampling
from tenon.dialects.ops.reduce import (
    batch_normalization,
    class_loss,
    cumulative,
    loss,
    measures,
    normalization,
    norms,
)

__all__ = [
    "activation",
    "arithmetic",
    "band",
    "batch_normalization",
    "bessel",
    "checkpoint",
    "cholesky",
    "class_loss",
    "combined",
    "comparison",
    "constant",
    "contraction",
    "control_flow",
    "convolution",
    "creation",
    "cumulative",
    "debug",
    "determinant",
    "diagonals",
    "dynamic_slicing",
    "einsum",
    "elementary",
    "fourier",
    "functional_update",
    "gamma",
    "global_pooling",
    "grid_sampling",
    "identity",
    "indexing",
    "joining",
    "least_squares",
    "loss",
    "lu",
    "measures",
    "network_sorting",
    "normalization",
    "norms",
    "orthogonal",
    "padding",
    "pairwise",
    "partition_sorting",
    "pieces",
    "piecewise",
    "places",
    "pooling",
    "products",
    "quantiles",
    "radix_sorting",
    "random",
    "rank_sorting",
    "rearranging",
    "reduction",
    "rounding",
    "row_selection",
    "run_totals",
    "sampling",
    "scan",
    "scatter",
    "searching",
    "shape",
    "singular",
    "slicing",
    "sliding",
    "solving",
    "sorting",
    "special",
    "spectral",
    "statistics",
    "subscript",
    "tile_sorting",
    "transposed_convolution",
]
