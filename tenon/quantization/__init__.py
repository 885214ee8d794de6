"""Quantized numbers: i8 and ui8 as steps of a scale from a zero point, for a tensor or for each channel.

`functions` quantize, and multiply quantized matrices and images exactly; `observers` find scales; `modules` train with
what will be lost (`prepare`), and then compute in i8 (`convert`).

Source: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference",
CVPR 2018.
"""

from typing import TYPE_CHECKING

from tenon.dialects.support.suggestion import attribute_hints
from tenon.quantization.functions import (
    dequantize,
    fake_quantize,
    integer_conv,
    integer_matmul,
    parameters_for,
    quantize,
    requantize,
)
from tenon.quantization.modules import QATConv2d, QATLinear, QuantizedConv2d, QuantizedLinear, convert, prepare
from tenon.quantization.observers import FakeQuantize, MinMaxObserver, MovingAverageObserver

__all__ = [
    "FakeQuantize",
    "MinMaxObserver",
    "MovingAverageObserver",
    "QATConv2d",
    "QATLinear",
    "QuantizedConv2d",
    "QuantizedLinear",
    "convert",
    "dequantize",
    "fake_quantize",
    "integer_conv",
    "integer_matmul",
    "parameters_for",
    "prepare",
    "quantize",
    "requantize",
]

if not TYPE_CHECKING:
    __getattr__ = attribute_hints(__name__)
