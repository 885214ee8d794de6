"""All op modules of the tensor dialect: importing this module registers every op, in this order."""

from tenon.dialects import constant  # isort: split

from tenon.dialects import arithmetic, comparison, elementary, pairwise, special  # isort: split

from tenon.dialects import activation, band, indexing, joining, piecewise, reduction, shape  # isort: split

from tenon.dialects import (  # isort: split
    class_loss,
    contraction,
    convolution,
    global_pooling,
    loss,
    normalization,
    norms,
    pooling,
    sliding,
    transposed_convolution,
)

from tenon.dialects import (
    checkpoint,
    control_flow,
    creation,
    cumulative,
    dynamic_slicing,
    einsum,
    identity,
    padding,
    radix_sorting,
    random,
    rearranging,
    row_selection,
    sampling,
    scatter,
    searching,
    sorting,
    subscript,
)

__all__ = [
    "activation",
    "arithmetic",
    "band",
    "checkpoint",
    "class_loss",
    "comparison",
    "constant",
    "contraction",
    "control_flow",
    "convolution",
    "creation",
    "cumulative",
    "dynamic_slicing",
    "einsum",
    "elementary",
    "global_pooling",
    "identity",
    "indexing",
    "joining",
    "loss",
    "normalization",
    "norms",
    "padding",
    "pairwise",
    "piecewise",
    "pooling",
    "radix_sorting",
    "random",
    "rearranging",
    "reduction",
    "row_selection",
    "sampling",
    "scatter",
    "searching",
    "shape",
    "sliding",
    "sorting",
    "special",
    "subscript",
    "transposed_convolution",
]
