"""Activation functions that are linear in pieces, or nearly so: relu and its relatives. Integers are taken as f32."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import operand_def, result_def

from tenon.dialects.definition.settings import setting
from tenon.dialects.definition.tensor_op import tensor_op
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families import ElementwiseOp, UnaryOp
from tenon.dialects.types.types import FLOAT_TENSOR


@tensor_op
class ReluOp(UnaryOp):
    """The positive entries of `x`, zero for the others; NaN stays. The gradient at 0 is 0.

    >>> tenon.relu(np.array([-2.0, 0.0, 3.0, np.nan]))
    """

    name = "tenon.relu"
    scalar = staticmethod(lambda x: ops.maximum(x, 0.0))

    vjp = staticmethod(lambda g, out, x: ops.select(x > 0.0, g, 0.0))


@tensor_op
class LeakyReluOp(UnaryOp):
    """The positive entries of `x`, the others times `negative_slope`. The gradient at 0 is `negative_slope`.

    Maas, Hannun and Ng, "Rectifier nonlinearities improve neural network acoustic models" (2013).

    >>> tenon.leaky_relu(np.array([-2.0, 0.0, 3.0]), negative_slope=0.1)
    """

    name = "tenon.leaky_relu"
    negative_slope = setting(float, default=0.01)
    scalar = staticmethod(lambda x, *, negative_slope: ops.select(x > 0.0, x, negative_slope * x))


@tensor_op
class HardtanhOp(UnaryOp):
    """`x` limited to [`min_val`, `max_val`]; NaN stays. The gradient on the bounds is 0.

    >>> tenon.hardtanh(np.array([-2.0, 0.0, 3.0]))
    >>> tenon.hardtanh(np.array([-2.0, 0.0, 3.0]), min_val=-5.0, max_val=2.0)
    """

    name = "tenon.hardtanh"
    min_val = setting(float, default=-1.0)
    max_val = setting(float, default=1.0)
    scalar = staticmethod(lambda x, *, min_val, max_val: ops.minimum(ops.maximum(x, min_val), max_val))

    vjp = staticmethod(lambda g, out, x, *, min_val, max_val: ops.select((x > min_val) & (x < max_val), g, 0.0))


@tensor_op
class Relu6Op(UnaryOp):
    """`x` limited to [0, 6]; NaN stays. The gradient on the bounds is 0.

    >>> tenon.relu6(np.array([-2.0, 3.0, 8.0]))
    """

    name = "tenon.relu6"
    scalar = staticmethod(lambda x: ops.hardtanh(x, min_val=0.0, max_val=6.0))


@tensor_op
class PreluOp(ElementwiseOp):
    """The positive entries of `x`, the others times `slope`, which broadcasts against `x`.

    A slope per channel of images (n, c, h, w) has the shape (c, 1, 1) (He et al., arXiv:1502.01852). The gradient at 0
    is `slope`.

    >>> tenon.prelu(np.array([[-1.0, -1.0], [2.0, 2.0]]), np.array([0.1, 0.5]))
    """

    name = "tenon.prelu"
    x = operand_def(FLOAT_TENSOR)
    slope = operand_def(FLOAT_TENSOR)
    result = result_def(FLOAT_TENSOR)
    scalar = staticmethod(lambda x, slope: ops.select(x > 0.0, x, slope * x))

    @staticmethod
    def vjp(g: Value, out: Value, x: Value, slope: Value) -> tuple[Any, ...]:
        is_positive = x > 0.0
        return ops.select(is_positive, g, slope * g), g * ops.select(is_positive, 0.0, x)


@tensor_op
class ThresholdedReluOp(UnaryOp):
    """The entries of `x` above `alpha`, `value` for the others; NaN stays. The gradient at `alpha` is 0.

    Konda, Memisevic and Krueger, arXiv:1402.3337.

    >>> tenon.thresholded_relu(np.array([0.5, 1.0, 1.5]))
    >>> tenon.thresholded_relu(np.array([0.5, 1.0, 1.5]), value=-9.0)
    """

    name = "tenon.thresholded_relu"
    alpha = setting(float, default=1.0)
    value = setting(float, default=0.0)
    scalar = staticmethod(lambda x, *, alpha, value: ops.select(x <= alpha, value, x))


@tensor_op
class ShrinkOp(UnaryOp):
    """`x` + `bias` below -`lambd`, `x` - `bias` above `lambd`, 0 between them, where the gradient is 0; NaN stays.

    With `bias` 0 it is also called hardshrink.

    >>> tenon.shrink(np.array([-2.0, 0.25, 2.0]), bias=0.5)
    """

    name = "tenon.shrink"
    lambd = setting(float, default=0.5)
    bias = setting(float, default=0.0)

    @staticmethod
    def scalar(x: Value, *, lambd: float, bias: float) -> Value:
        moved = ops.select(x < 0.0, x + bias, x - bias)
        return ops.select((x >= -lambd) & (x <= lambd), 0.0, moved)


class ThresholdOp(UnaryOp):
    """Entries near 0 made 0, as `shrink` does."""

    lambd = setting(float, default=0.5)


@tensor_op
class HardshrinkOp(ThresholdOp):
    """The entries of `x` outside of [-`lambd`, `lambd`], 0 for the others, where the gradient is 0; NaN stays.

    >>> tenon.hardshrink(np.array([-2.0, 0.25, 0.5, 2.0]))
    """

    name = "tenon.hardshrink"
    scalar = staticmethod(lambda x, *, lambd: ops.shrink(x, lambd=lambd))


@tensor_op
class SoftshrinkOp(ThresholdOp):
    """`x` moved towards 0 by `lambd`, 0 inside of [-`lambd`, `lambd`], where the gradient is 0; NaN stays.

    >>> tenon.softshrink(np.array([-2.0, 0.25, 0.5, 2.0]))
    """

    name = "tenon.softshrink"
    scalar = staticmethod(lambda x, *, lambd: ops.shrink(x, lambd=lambd, bias=lambd))


@tensor_op
class HardSigmoidOp(UnaryOp):
    """`alpha` `x` + `beta`, limited to [0, 1]; NaN stays. The gradient at the kinks is 0.

    The default slope is that of ONNX; PyTorch's is 1/6.

    >>> tenon.hard_sigmoid(np.array([-3.0, 0.0, 1.0, 3.0]))
    """

    name = "tenon.hard_sigmoid"
    alpha = setting(float, default=0.2)
    beta = setting(float, default=0.5)
    ALIASES: ClassVar[tuple[str, ...]] = ("hardsigmoid",)
    scalar = staticmethod(lambda x, *, alpha, beta: ops.hardtanh(alpha * x + beta, min_val=0.0, max_val=1.0))


@tensor_op
class HardSwishOp(UnaryOp):
    """`x` times its hard sigmoid of slope 1/6: 0 up to -3, `x` from 3 on (Howard et al., arXiv:1905.02244).

    The gradient is 0 at -3 and 1 at 3. NaN for -inf, as in PyTorch.

    >>> tenon.hard_swish(np.array([-4.0, -1.0, 1.0, 4.0]))
    """

    name = "tenon.hard_swish"
    ALIASES: ClassVar[tuple[str, ...]] = ("hardswish",)
    scalar = staticmethod(lambda x: x * (ops.hardtanh(x + 3.0, min_val=0.0, max_val=6.0) / 6.0))

    vjp = staticmethod(lambda g, out, x: g * ops.select(x <= -3.0, 0.0, ops.select(x < 3.0, x / 3.0 + 0.5, 1.0)))
