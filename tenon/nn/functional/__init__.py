"""`torch.nn.functional` by its names: functions of ops, and modules without parameters as functions.

Nothing is defined again here: a function is that of an op where its arguments are PyTorch's, and otherwise `forward` of
the module of the same meaning, whose settings are the arguments that follow the inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenon
from tenon.dialects.support.suggestion import attribute_hints
from tenon.nn import activation as nn_activation
from tenon.nn import images, loss, normalization, pooling
from tenon.nn.functional.activations import activation, cosine_similarity, normalize, softmin
from tenon.nn.functional.adapted import (
    affine_grid,
    batch_norm,
    bilinear,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    embedding,
    embedding_bag,
    grid_sample,
    group_norm,
    gumbel_softmax,
    instance_norm,
    layer_norm,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    one_hot,
    pad,
    prelu,
    rms_norm,
)
from tenon.nn.functional.of_modules import of_module

relu, relu6, selu = activation("relu"), activation("relu6"), activation("selu")
silu, mish, hardswish = activation("silu"), activation("mish"), activation("hardswish")
elu, celu = activation("elu", "alpha"), activation("celu", "alpha")
leaky_relu, hardtanh = activation("leaky_relu", "negative_slope"), activation("hardtanh", "min_val", "max_val")
threshold = activation("threshold", "threshold", "value")
gelu, glu, hardshrink, softshrink, softsign = tenon.gelu, tenon.glu, tenon.hardshrink, tenon.softshrink, tenon.softsign
sigmoid, logsigmoid, tanh, tanhshrink = tenon.sigmoid, tenon.logsigmoid, tenon.tanh, tenon.tanhshrink
softmax, log_softmax = tenon.softmax, tenon.log_softmax
conv1d, conv2d, conv3d, linear = tenon.conv1d, tenon.conv2d, tenon.conv3d, tenon.linear
scaled_dot_product_attention, pdist = tenon.scaled_dot_product_attention, tenon.pdist

hardsigmoid = of_module("hardsigmoid", nn_activation.Hardsigmoid, order=("inplace",))
softplus = of_module("softplus", nn_activation.Softplus)

_WINDOWS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
max_pool1d = of_module("max_pool1d", pooling.MaxPool1d, order=_WINDOWS)
max_pool2d = of_module("max_pool2d", pooling.MaxPool2d, order=_WINDOWS)
max_pool3d = of_module("max_pool3d", pooling.MaxPool3d, order=_WINDOWS)
avg_pool1d = of_module("avg_pool1d", pooling.AvgPool1d)
avg_pool2d = of_module("avg_pool2d", pooling.AvgPool2d)
avg_pool3d = of_module("avg_pool3d", pooling.AvgPool3d)
lp_pool1d = of_module("lp_pool1d", pooling.LPPool1d)
lp_pool2d = of_module("lp_pool2d", pooling.LPPool2d)
lp_pool3d = of_module("lp_pool3d", pooling.LPPool3d)
adaptive_avg_pool1d = of_module("adaptive_avg_pool1d", pooling.AdaptiveAvgPool1d)
adaptive_avg_pool2d = of_module("adaptive_avg_pool2d", pooling.AdaptiveAvgPool2d)
adaptive_avg_pool3d = of_module("adaptive_avg_pool3d", pooling.AdaptiveAvgPool3d)
adaptive_max_pool1d = of_module("adaptive_max_pool1d", pooling.AdaptiveMaxPool1d)
adaptive_max_pool2d = of_module("adaptive_max_pool2d", pooling.AdaptiveMaxPool2d)
adaptive_max_pool3d = of_module("adaptive_max_pool3d", pooling.AdaptiveMaxPool3d)

local_response_norm = of_module("local_response_norm", normalization.LocalResponseNorm)

interpolate = of_module("interpolate", images.Upsample)
upsample = of_module("upsample", images.Upsample, order=("size", "scale_factor", "mode", "align_corners"))
pixel_shuffle = of_module("pixel_shuffle", images.PixelShuffle)
pixel_unshuffle = of_module("pixel_unshuffle", images.PixelUnshuffle)
channel_shuffle = of_module("channel_shuffle", images.ChannelShuffle)
fold = of_module("fold", images.Fold)
unfold = of_module("unfold", images.Unfold)

_FORMER = ("size_average", "reduce", "reduction")
_PAIR = ("input", "target")
l1_loss = of_module("l1_loss", loss.L1Loss, _PAIR, _FORMER)
mse_loss = of_module("mse_loss", loss.MSELoss, _PAIR, _FORMER)
smooth_l1_loss = of_module("smooth_l1_loss", loss.SmoothL1Loss, _PAIR, (*_FORMER, "beta"))
huber_loss = of_module("huber_loss", loss.HuberLoss, _PAIR, ("reduction", "delta"))
cross_entropy = of_module(
    "cross_entropy",
    loss.CrossEntropyLoss,
    _PAIR,
    ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
)
nll_loss = of_module("nll_loss", loss.NLLLoss, _PAIR, ("weight", "size_average", "ignore_index", "reduce", "reduction"))
binary_cross_entropy = of_module("binary_cross_entropy", loss.BCELoss, _PAIR, ("weight", *_FORMER))
binary_cross_entropy_with_logits = of_module(
    "binary_cross_entropy_with_logits", loss.BCEWithLogitsLoss, _PAIR, ("weight", *_FORMER, "pos_weight")
)
kl_div = of_module("kl_div", loss.KLDivLoss, _PAIR, (*_FORMER, "log_target"))
poisson_nll_loss = of_module(
    "poisson_nll_loss", loss.PoissonNLLLoss, _PAIR, ("log_input", "full", "size_average", "eps", "reduce", "reduction")
)
gaussian_nll_loss = of_module("gaussian_nll_loss", loss.GaussianNLLLoss, (*_PAIR, "var"), ("full", "eps", "reduction"))
hinge_embedding_loss = of_module("hinge_embedding_loss", loss.HingeEmbeddingLoss, _PAIR, ("margin", *_FORMER))
soft_margin_loss = of_module("soft_margin_loss", loss.SoftMarginLoss, _PAIR, _FORMER)
multi_margin_loss = of_module("multi_margin_loss", loss.MultiMarginLoss, _PAIR, ("p", "margin", "weight", *_FORMER))
multilabel_margin_loss = of_module("multilabel_margin_loss", loss.MultiLabelMarginLoss, _PAIR, _FORMER)
multilabel_soft_margin_loss = of_module(
    "multilabel_soft_margin_loss", loss.MultiLabelSoftMarginLoss, _PAIR, ("weight", *_FORMER)
)
_TWO = ("input1", "input2", "target")
cosine_embedding_loss = of_module("cosine_embedding_loss", loss.CosineEmbeddingLoss, _TWO, ("margin", *_FORMER))
margin_ranking_loss = of_module("margin_ranking_loss", loss.MarginRankingLoss, _TWO, ("margin", *_FORMER))
triplet_margin_loss = of_module(
    "triplet_margin_loss",
    loss.TripletMarginLoss,
    ("anchor", "positive", "negative"),
    ("margin", "p", "eps", "swap", *_FORMER),
)
triplet_margin_with_distance_loss = of_module(
    "triplet_margin_with_distance_loss", loss.TripletMarginWithDistanceLoss, ("anchor", "positive", "negative")
)
ctc_loss = of_module("ctc_loss", loss.CTCLoss, ("log_probs", "targets", "input_lengths", "target_lengths"))
pairwise_distance = of_module("pairwise_distance", loss.PairwiseDistance, ("x1", "x2"))

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(
        __name__,
        {
            "multi_head_attention_forward": "write nn.MultiheadAttention",
            "alpha_dropout": "write nn.AlphaDropout",
            "feature_alpha_dropout": "write nn.FeatureAlphaDropout",
            "rrelu": "write nn.RReLU",
        },
    )

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
]
