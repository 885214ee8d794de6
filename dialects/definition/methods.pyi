"""Made from the definitions of ops by `python -m tenon.tools.stubs`."""

from typing import Self as _Self

import builtins as _b
from collections.abc import Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal

class Methods:
    """What traced values and tensors have."""

    def abs(self) -> _Self:
        """The magnitude of `x`. The least integer stays as it is. The gradient at 0 is 0."""
    def absolute(self) -> _Self:
        """The magnitude of `x`. The least integer stays as it is. The gradient at 0 is 0."""
    def acos(self) -> _Self:
        """The angle in [0, pi] whose cosine is `x`; NaN outside of [-1, 1]."""
    def acosh(self) -> _Self:
        """The number >= 0 whose hyperbolic cosine is `x`; NaN below 1."""
    def adaptive_avg_pool(self, output_size: _b.int | _Sequence[_b.int]) -> _Self:
        """The mean of each of `output_size` windows that cover the last dimensions of `x` (..., *image). Integers are taken
        as f32. The windows are those of `adaptive_max_pool`."""
    def adaptive_max_pool(self, output_size: _b.int | _Sequence[_b.int]) -> _Self:
        """The largest element of each of `output_size` windows that cover the last dimensions of `x` (..., *image)."""
    def add(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self:
        """The sum of `x` and `y`. Integers wrap."""
    def addbmm(self, batch1: _Any, batch2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
        """`beta` times `x`, which is broadcast, and `alpha` times the sum of the products (b, m, n) of matrices."""
    def addcdiv(self, tensor1: _Any, tensor2: _Any, *, value: _b.float = ...) -> _Any:
        """x + value * tensor1 / tensor2."""
    def addcmul(self, tensor1: _Any, tensor2: _Any, *, value: _b.float = ...) -> _Any:
        """x + value * tensor1 * tensor2."""
    def addmm(self, mat1: _Any, mat2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
        """`beta` times `x`, which is broadcast, and `alpha` times the product (m, n) of two matrices."""
    def addmv(self, mat: _Any, vec: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
        """`beta` times `x`, which is broadcast, and `alpha` times the product of a matrix and a vector."""
    def addr(self, vec1: _Any, vec2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
        """`beta` times `x`, which is broadcast, and `alpha` times the outer product of two vectors."""
    def all(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """Whether all elements of `x` along `axis` are true (not zero); NaN is. True of no elements."""
    def allclose(self, y: _Any = ..., rtol: _b.float = ..., atol: _b.float = ..., equal_nan: _b.bool = ..., *, other: _Any = ...) -> _Any:
        """Whether all elements are close, as `isclose` says: a truth value, and a traced one in a trace."""
    def amax(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The largest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
        (without a `start`) it is one, too."""
    def amin(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The smallest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
        (without a `start`) it is one, too."""
    def aminmax(self, *, axis: _Any = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The smallest and the largest element along `axis`, or of all."""
    def any(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """Whether any element of `x` along `axis` is true (not zero); NaN is. False of no elements."""
    def arccos(self) -> _Self:
        """The angle in [0, pi] whose cosine is `x`; NaN outside of [-1, 1]."""
    def arccosh(self) -> _Self:
        """The number >= 0 whose hyperbolic cosine is `x`; NaN below 1."""
    def arcsin(self) -> _Self:
        """The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside of [-1, 1]."""
    def arcsinh(self) -> _Self:
        """The number whose hyperbolic sine is `x`."""
    def arctan(self) -> _Self:
        """The angle in [-pi/2, pi/2] whose tangent is `x`."""
    def arctan2(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The angle in [-pi, pi] of the point with ordinate `y` and abscissa `x`. The gradient at (0, 0) is 0."""
    def arctanh(self) -> _Self:
        """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
    def argmax(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The index (i64) of the first largest element of `x` along `axis`, or of the first NaN."""
    def argmin(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The index (i64) of the first smallest element of `x` along `axis`, or of the first NaN."""
    def argpartition(self, kth: _Any = ..., axis: _b.int | None = ..., *, a: _Any = ..., dim: _Any = ...) -> _Any:
        """The indices (i64) along `axis` of the elements as `partition` rearranges them."""
    def argsort(self, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """The indices (i64) that sort `x` along `axis`, smallest element first, or largest first if `descending`."""
    def argsort_groups(self, descending: _b.bool = ...) -> _Self:
        """The indices (i64) that sort each row of `x` (groups, rows, n). Equal elements keep their order. Elements have at
        most 32 bits."""
    def argsort_rows(self, descending: _b.bool = ...) -> _Self:
        """The indices (i64) that sort each row of `x` (rows, n), as in `sort_rows`. Equal elements keep their order."""
    def argsort_short_rows(self, descending: _b.bool = ...) -> _Self:
        """The indices (i32) that sort each row of `x` (rows, n), as in `argsort`. Equal elements keep their order."""
    def argwhere(self, size: _b.int, fill_value: _b.int | _Sequence[_b.int] = ...) -> _Self:
        """The indices (`size`, rank of `x`; i64) of the elements of `x` that are not zero, in row-major order."""
    def array_split(self, indices_or_sections: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """`x` cut along `axis` before each of the places of a sequence, or into a number of parts, of which the first ones
        are larger by one where they cannot be equal."""
    def asarray(self, dtype: _b.object = ..., *, device: _b.str | None = ..., copy: _b.bool | None = ...) -> _Any:
        """`x` (traced, an array or nested numbers) as a tensor of `dtype`: by default its own, f32 for Python's floats."""
    def asin(self) -> _Self:
        """The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside of [-1, 1]."""
    def asinh(self) -> _Self:
        """The number whose hyperbolic sine is `x`."""
    def atan(self) -> _Self:
        """The angle in [-pi/2, pi/2] whose tangent is `x`."""
    def atan2(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The angle in [-pi, pi] of the point with ordinate `y` and abscissa `x`. The gradient at (0, 0) is 0."""
    def atanh(self) -> _Self:
        """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
    def atleast_1d(self) -> _Any:
        """`x`, and a number as a vector of one element."""
    def atleast_2d(self) -> _Any:
        """`x`, with axes of size 1 in front up to two."""
    def average(self, axis: _Any = ..., weights: _Any = ..., returned: _b.bool = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The mean along `axis`, or of all elements, in which each counts by its one of `weights`, which have the shape of
        `x` or are a vector along the one axis; with `returned`, and the sums of the weights. Integers are taken as floats."""
    def avg_pool(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The mean of each window of `x` (..., *image). Integers are taken as f32."""
    def avg_pool1d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The mean of each window of `x` (..., length). Integers are taken as f32. The settings are those of `avg_pool`."""
    def avg_pool2d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The mean of each window of `x` (..., height, width). Integers are taken as f32."""
    def avg_pool3d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The mean of each window of `x` (..., depth, height, width). Integers are taken as f32. The settings are those of
        `avg_pool`."""
    def baddbmm(self, batch1: _Any, batch2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
        """`beta` times `x`, which is broadcast, and `alpha` times the products (b, m, n) of matrices."""
    def batch_norm(self, mean: _Any, variance: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` normalized per channel by known statistics: (x - `mean`) / sqrt(`variance` + eps) * `weight` + `bias`."""
    def batch_norm_training(self, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """`x` normalized per channel by its own statistics; returns the result, the mean and the variance of each channel."""
    def batch_norm_update(self, running_mean: _Any, running_variance: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., momentum: _b.float = ..., ddof: _b.int = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """`batch_norm_training` with running statistics, which follow those of the batch; returns the result and both."""
    def binary_cross_entropy(self, target: _Any, weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """-(`target` log `x` + (1 - `target`) log(1 - `x`)) times `weight`, for a probability `x`: by default, its mean."""
    def binary_cross_entropy_with_logits(self, target: _Any, weight: _Any = ..., positive_weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, pos_weight: _Any = ...) -> _Self:
        """The mean of -(`target` log sigmoid(`logits`) + (1 - `target`) log sigmoid(-`logits`)), without overflow."""
    def bincount(self, weights: _Any = ..., minlength: _b.int = ...) -> _Any:
        """How often each integer from 0 on is in the vector `x`, or the sums of the `weights` of each."""
    def bitcast(self, dtype: _Any) -> _Self:
        """The bits of `x` taken as an element of `dtype`, which has the same width. Truth values have none."""
    def bitwise_and(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits set in both `x` and `y`; on truth values, whether both are true."""
    def bitwise_count(self) -> _Self:
        """How many bits of the magnitude of `x` are set, in the dtype of `x` (NumPy gives uint8)."""
    def bitwise_invert(self) -> _Self:
        """`x` with every bit flipped; the opposite of a truth value."""
    def bitwise_left_shift(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
    def bitwise_not(self) -> _Self:
        """`x` with every bit flipped; the opposite of a truth value."""
    def bitwise_or(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits set in `x` or `y`; on truth values, whether one is true."""
    def bitwise_right_shift(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
    def bitwise_xor(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits in which `x` and `y` differ; on truth values, whether they differ."""
    def bmm(self, y: _Any = ..., *, mat2: _Any = ...) -> _Any:
        """The products (b, m, n) of the matrices of `x` (b, m, k) and `y` (b, k, n), one each."""
    def bucketize(self, boundaries: _Any, *, right: _b.bool = ...) -> _Any:
        """Between which `boundaries`, in ascending order, each element lies: the number of those below it, or, with
        `right`, not above it."""
    def cast(self, dtype: _Any, *, copy: _Any = ..., device: _Any = ...) -> _Self:
        """`x` converted to `dtype`."""
    def cbrt(self) -> _Self:
        """The cube root of `x`, of negative numbers, too. The gradient at 0 is infinite."""
    def cdist(self, y: _Any = ..., p: _b.float = ..., compute_mode: _b.str | None = ..., *, x1: _Any = ..., x2: _Any = ...) -> _Any:
        """The distances (..., m, n) in the norm `p` of the rows of `x` (..., m, k) to those of `y` (..., n, k). Where one
        is 0 its gradient is 0. Differences are never taken from products, whatever `compute_mode` of PyTorch's says."""
    def ceil(self) -> _Self:
        """The smallest whole number not below `x`. Integers stay as they are. The gradient is 0."""
    def celu(self, alpha: _b.float = ...) -> _Self:
        """The positive entries of `x`, `alpha` times (exp(x / alpha) - 1) for the others (Barron, arXiv:1704.07483)."""
    def cholesky(self, upper: _b.bool = ...) -> _Self:
        """The lower triangular matrices l with l l^T = `x`, of symmetric positive definite matrices (..., n, n); with
        `upper` the upper ones u with u^T u = x. Of others the symmetric part counts. Raises `LinAlgError` where
        there are none."""
    def choose(self, choices: _Any = ..., *, a: _Any = ...) -> _Any:
        """Of `choices`, which broadcast with `x`, at each place that whose number the integer there is. Those that are not
        there are moved to the nearest one."""
    def chunk(self, chunks: _b.int, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """`x` cut along `axis` into at most `chunks` parts of one size, of which the last may be smaller."""
    def clamp(self, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ...) -> _Self:
        """`x` limited to [`low`, `high`], either of which may be left out; `high` where `low` is above it. NaN stays."""
    def clamp_max(self, max: _Any) -> _Any:
        """`x`, and `max` where it is greater."""
    def clamp_min(self, min: _Any) -> _Any:
        """`x`, and `min` where it is less."""
    def clip(self, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ...) -> _Self:
        """`x` limited to [`low`, `high`], either of which may be left out; `high` where `low` is above it. NaN stays."""
    def combinations(self, r: _b.int = ..., with_replacement: _b.bool = ...) -> _Any:
        """All choices (n, `r`) of `r` elements of the vector `x`, each in their order there; with `with_replacement`, of
        which each may be chosen again."""
    def conv(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self:
        """The convolution of images `x` (n, c, ...image) with `weight` (f, c / groups, ...window), plus `bias` (f,)."""
    def conv1d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self:
        """The convolution of signals `x` (n, c, length) with `weight` (f, c / groups, k), plus `bias` (f,): see `conv`."""
    def conv2d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self:
        """The convolution of images `x` (n, c, height, width) with `weight` (f, c / groups, kh, kw), plus `bias` (f,)."""
    def conv3d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self:
        """The convolution of volumes `x` (n, c, depth, height, width) with `weight` (f, c / groups, kd, kh, kw), plus
        `bias` (f,): see `conv`."""
    def conv_transpose(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """The transposed convolution of images `x` (n, c, ...image) with `weight` (c, f / groups, ...window), plus `bias`
        (f,): each element of `x` adds the weight, times itself, to a window of the result."""
    def conv_transpose1d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """The transposed convolution of signals `x` (n, c, length) with `weight` (c, f / groups, k), plus `bias` (f,): see
        `conv_transpose`."""
    def conv_transpose2d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """The transposed convolution of images `x` (n, c, height, width) with `weight` (c, f / groups, kh, kw), plus `bias`
        (f,): see `conv_transpose`."""
    def conv_transpose3d(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """The transposed convolution of volumes `x` (n, c, depth, height, width) with `weight` (c, f / groups, kd, kh, kw),
        plus `bias` (f,): see `conv_transpose`."""
    def convolution(self, weight: _Any, stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ...) -> _Self:
        """Windows of `x` (n, groups, c, ...image) times `weight` (groups, f, c, ...window), added up within each window."""
    def convolve(self, weight: _Any = ..., mode: _b.str = ..., *, a: _Any = ..., v: _Any = ...) -> _Any:
        """The convolution of two vectors of n and m elements: n + m - 1 sums of products of elements whose indices have one
        sum; of them the max(n, m) in the middle ("same"), or those in which all of one vector takes part ("valid")."""
    def copy(self) -> _Self:
        """`x` itself, as a value of its own: differentiating with respect to it leaves other uses of `x` alone."""
    def copysign(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The magnitude of `x` with the sign of `y`, of zeros, too. The gradient at 0 is 0, and none goes to `y`."""
    def corrcoef(self) -> _Any:
        """The correlations (m, m) of the rows of `x` (m, n): their covariances over the roots of both variances."""
    def correlate(self, weight: _Any = ..., mode: _b.str = ..., *, a: _Any = ..., v: _Any = ...) -> _Any:
        """The sums of products of `weight` with the elements of `x` below it as it slides along: the convolution with
        `weight` in reverse order."""
    def cos(self) -> _Self:
        """The cosine of `x` (in radians)."""
    def cosh(self) -> _Self:
        """The hyperbolic cosine of `x`."""
    def cosine_embedding_loss(self, y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ...) -> _Self:
        """1 - cos(`x`, `y`) where `target` is 1, max(0, cos(`x`, `y`) - `margin`) where it is -1."""
    def cosine_similarity(self, y: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., other: _Any = ..., x1: _Any = ..., x2: _Any = ...) -> _Self:
        """The cosine of the angle between `x` and `y`, which broadcast, along `axis`: x y / (|x| |y|)."""
    def count_nonzero(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """How many elements (i64) of `x` along `axis` are not zero."""
    def cov(self, correction: _b.float = ...) -> _Any:
        """The covariances (m, m) of the rows of `x` (m, n), each of which is a variable: the sums of the products of their
        differences from the means, over n - `correction`."""
    def cross(self, y: _Any = ..., *, axis: _b.int = ..., x1: _Any = ..., x2: _Any = ..., other: _Any = ..., dim: _Any = ...) -> _Any:
        """The vectors at right angles to those of `x` and `y`, of three elements along `axis`; other axes broadcast."""
    def cross_entropy(self, labels: _Any = ..., weight: _Any = ..., label_smoothing: _b.float = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ...) -> _Self:
        """The mean over all samples of -log softmax(`logits`) at the class in `labels`, times its weight."""
    def cummax(self, axis: _b.int = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """The largest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
        in PyTorch. NaN counts as larger than everything."""
    def cummin(self, axis: _b.int = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """The smallest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
        in PyTorch. NaN counts as smaller than everything."""
    def cumprod(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self:
        """The products of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap. NumPy
        flattens by default; here `axis` is 0."""
    def cumsum(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self:
        """The sums of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap; truth values
        are counted as i64. NumPy flattens by default; here `axis` is 0."""
    def deform_conv(self, weight: _Any, offset: _Any, mask: _Any = ..., bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., offset_groups: _b.int = ...) -> _Self:
        """The convolution of images `x` (n, c, *image), each element of a window moved by `offset`, with `weight`."""
    def deg2rad(self) -> _Self:
        """The angle of `x` degrees in radians."""
    def degrees(self) -> _Self:
        """The angle of `x` radians in degrees."""
    def depth_to_space(self, block: _b.int, mode: _Literal['DCR', 'CRD'] = ...) -> _Self:
        """`x` (..., c, h, w) with `block` times `block` channels made squares of pixels: (..., c / block², h block,
        w block)."""
    def det(self) -> _Self:
        """The determinants (...,) of the square matrices `x` (..., n, n), by elimination with partial pivoting."""
    def dft(self, axis: _b.int = ..., length: _b.int | None = ..., inverse: _b.bool = ..., onesided: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """The discrete Fourier transform of `x` (..., 2), pairs of real and imaginary part, or (..., 1), real numbers."""
    def diag(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self:
        """The matrix with `x` (n,) on its diagonal `k` and zeros elsewhere, or diagonal `k` of a matrix `x`."""
    def diag_embed(self, offset: _b.int = ..., dim1: _b.int = ..., dim2: _b.int = ...) -> _Any:
        """Matrices of zeros along two new axes, `dim1` and `dim2` of the result, with the last axis of `x` on a diagonal,
        `offset` above the main one."""
    def diagflat(self, offset: _b.int = ..., *, k: _Any = ...) -> _Any:
        """The matrix with all elements of `x`, in row-major order, on its diagonal `offset`, and zeros elsewhere."""
    def diagonal(self, offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dim1: _Any = ..., dim2: _Any = ...) -> _Self:
        """The elements of `x` whose index along `axis2` is `offset` more than that along `axis1`, along a new last axis."""
    def diagonal_scatter(self, source: _Any = ..., offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dim1: _Any = ..., dim2: _Any = ..., src: _Any = ...) -> _Any:
        """`x` with `source` in the place of what `diagonal` gives of it."""
    def diff(self, n: _b.int = ..., axis: _b.int = ..., *, prepend: _Any = ..., append: _Any = ..., dim: _Any = ...) -> _Any:
        """The differences of neighbours along `axis`, `n` times; `prepend` and `append` are put before and behind `x`."""
    def digamma(self) -> _Self:
        """The derivative of log Gamma at `x`; -inf at 0.0, inf at -0.0, NaN at negative whole numbers and -inf."""
    def digitize(self, bins: _Any, right: _b.bool = ...) -> _Any:
        """Between which of `bins`, which rise, or fall if they are known, each element lies: the number of those not above
        it, or, with `right`, below it; of bins that fall, of those above it."""
    def dilate(self, steps: _b.int | _Sequence[_b.int]) -> _Self:
        """`x` with `steps[i]` - 1 zeros between neighbours along each axis i, so that those are `steps[i]` apart."""
    def dist(self, y: _Any = ..., p: _b.float = ..., *, other: _Any = ...) -> _Any:
        """The norm `p` of all elements of `x` - `y`, as of one vector; where it is 0 its gradient is 0."""
    def div(self, y: _Any = ..., *, rounding_mode: _b.str | None = ..., other: _Any = ...) -> _Any:
        """x / y, or that rounded down (`rounding_mode="floor"`) or toward zero (`"trunc"`), in the dtype of both then."""
    def divide(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The quotient of `x` and `y`. Integers are taken as f32 (NumPy takes them as f64)."""
    def dot(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The sum of products of the vectors `x` and `y` (k). As in PyTorch, matrices are refused: that is `matmul`."""
    def dropout(self, key: _Any, rate: _b.float = ...) -> _Self:
        """`x` with each element set to 0 with probability `rate`, and the others scaled by 1 / (1 - `rate`)."""
    def dropout_with_mask(self, key: _Any, rate: _b.float = ...) -> _Any:
        """`dropout`, and which elements of `x` it keeps (i1); returns both."""
    def dsplit(self, indices_or_sections: _Any) -> _Any:
        """`x`, of rank 3 at least, cut along its third axis: before each of the places of a sequence, or into a number of
        equal parts."""
    def dynamic_slice(self, starts: _Any, sizes: _b.int | _Sequence[_b.int]) -> _Self:
        """The slice of `x`, of the given `sizes`, that begins at `starts` (rank,)."""
    def dynamic_update_slice(self, update: _Any, starts: _Any) -> _Self:
        """`x` with `update` in the place of the slice that begins at `starts` (rank,) and has its shape."""
    def ediff1d(self, to_end: _Any = ..., to_begin: _Any = ...) -> _Any:
        """The differences of neighbours among all elements of `x` in a row, behind `to_begin` and before `to_end`."""
    def eigh(self) -> _Any:
        """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order, and as columns (..., n,
        n) eigenvectors of length 1. Of other matrices the symmetric part counts."""
    def eigvalsh(self) -> _Self:
        """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order. Of others the symmetric
        part counts."""
    def elu(self, alpha: _b.float = ...) -> _Self:
        """The positive entries of `x`, `alpha` times (exp(x) - 1) for the others. The gradient at 0 is `alpha`."""
    def embedding(self, indices: _Any = ..., *, index: _Any = ...) -> _Self:
        """The rows of `weight` (rows, ...) at `indices` (integers, of any shape)."""
    def entr(self) -> _Self:
        """-`x` log(`x`), which is 0 at 0; -inf below."""
    def eq(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` and `y` are equal. NaN equals nothing."""
    def equal(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` and `y` are equal. NaN equals nothing."""
    def erf(self) -> _Self:
        """The error function of `x`: 2/sqrt(pi) times the integral of exp(-t^2) for t from 0 to `x`."""
    def erfc(self) -> _Self:
        """The complementary error function of `x`: 1 - erf(x), exact where that is small, too."""
    def erfcinv(self) -> _Self:
        """The number whose complementary error function is `x`: infinite at 0 and 2, NaN outside of [0, 2]."""
    def erfcx(self) -> _Self:
        """exp(`x`^2) times the complementary error function of `x`, which does not vanish for large `x`."""
    def erfinv(self) -> _Self:
        """The number whose error function is `x`: infinite at -1 and 1, NaN outside of [-1, 1]."""
    def exp(self) -> _Self:
        """e to the power `x`."""
    def exp2(self) -> _Self:
        """2 to the power `x`."""
    def expand(self, shape: _b.int | _Sequence[_b.int] = ..., *, size: _Any = ...) -> _Self:
        """`x` repeated along its axes of size 1, and along new leading axes, up to `shape`; -1 keeps the size of `x`."""
    def expand_as(self, other: _Any) -> _Any:
        """`x` broadcast to the shape of `other`."""
    def expit(self) -> _Self:
        """The logistic function of `x`: 1 / (1 + exp(-x)), without overflow."""
    def expm1(self) -> _Self:
        """e to the power `x`, less one; accurate near 0."""
    def fill_diagonal(self, val: _Any = ..., *, a: _Any = ...) -> _Any:
        """`x` with a number, or elements one after the other, where the indices along all axes are equal."""
    def fix(self) -> _Self:
        """`x` rounded toward zero. Integers stay as they are. The gradient is 0."""
    def flatnonzero(self, size: _b.int | None = ..., fill_value: _b.int = ..., *, a: _Any = ...) -> _Any:
        """The numbers, in row-major order, of the elements of `x` that are not zero. Of arrays `size` may be left out, and
        is then how many these are; a traced function has to state it."""
    def flip(self, axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` in reverse order along `axis`; without it, along all axes."""
    def fliplr(self) -> _Any:
        """`x` with its columns in reverse order."""
    def flipud(self) -> _Any:
        """`x` with its rows in reverse order."""
    def float_power(self, y: _Any = ..., *, exponent: _Any = ...) -> _Any:
        """`x` to the power of `y`, both as f64."""
    def floor(self) -> _Self:
        """The largest whole number not above `x`. Integers stay as they are. The gradient is 0."""
    def floor_divide(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The quotient of `x` and `y` rounded down, as Python's `//`."""
    def fmax(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The greater of two elements; the other where one is NaN."""
    def fmin(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The lesser of two elements; the other where one is NaN."""
    def fmod(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """What remains of `x` after division by `y`, with the sign of `x`, as C's `fmod` and `%`. Integers modulo 0 give 0."""
    def fold(self, size: _b.int | _Sequence[_b.int], window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self:
        """The sum of windows `x` (n, c * elements, windows), each put back to where it lies in an image: (n, c, *size)."""
    def frac(self) -> _Any:
        """What `x` has behind the point, with its sign."""
    def frexp(self) -> _Any:
        """Numbers m with magnitudes from 1/2 to before 1, and integers n (i32), such that `x` = m 2^n; m is `x` and n 0 for
        what is 0 or not finite."""
    def full_like(self, value: _b.float = ..., *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., fill_value: _Any = ...) -> _Any:
        """A tensor of `x`'s shape and dtype, or of another `dtype`, whose elements are all `value`."""
    def gammainc(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The lower incomplete gamma function of `a` and `x`, regularized: the integral of t^(a - 1) exp(-t) from 0 to `x`,
        over that to infinity, which is Gamma(`a`). It is 1 where `a` is 0; NaN if an operand is negative, or both are 0 or
        infinite."""
    def gammaincc(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The upper incomplete gamma function of `a` and `x`, regularized: 1 - gammainc(`a`, `x`), exact where that is
        small, too."""
    def gammaln(self) -> _Self:
        """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers."""
    def gather_elements(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self:
        """The elements of `x` at `indices` along `axis`, everything else being equal: result[i, j] = x[indices[i, j], j]."""
    def gather_nd(self, indices: _Any = ..., batch_dims: _b.int = ..., *, index: _Any = ...) -> _Self:
        """The parts of `x` at `indices`, whose last axis holds indices for the first axes of `x`: x[indices[i]] for each i."""
    def ge(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is `y` or above; false for NaN."""
    def gelu(self, approximate: _Literal['none', 'tanh'] = ...) -> _Self:
        """`x` times the probability that a standard normal variable is below `x` (Hendrycks and Gimpel, arXiv:1606.08415)."""
    def global_avg_pool(self) -> _Self:
        """The mean of each channel of `x` (n, c, ...image), as (n, c, 1, ...). Integers are taken as f32."""
    def global_lp_pool(self, p: _b.float = ...) -> _Self:
        """The p-norm of each channel of `x` (n, c, ...image), as (n, c, 1, ...): (sum of |x|**p)**(1 / p). Integers are
        taken as f32. The gradient at a channel of zeros is 0."""
    def global_max_pool(self) -> _Self:
        """The largest element of each channel of `x` (n, c, ...image), as (n, c, 1, ...); NaN if there is any."""
    def glu(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """The first half of `x` along `axis` times the logistic function of the second."""
    def gradient(self, *distances: _Any, axis: _Any = ..., edge_order: _b.int = ..., spacing: _Any = ..., dim: _Any = ...) -> _Any:
        """The slopes of `x` along each axis, or those of `axis`, by differences of neighbours, exact for parabolas; at the
        ends of order `edge_order`, 1 or 2. Neighbours are 1 apart, or as `distances` say (in PyTorch `spacing`): one
        number for all axes, or for each axis a number, or a vector of where the elements are."""
    def greater(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is above `y`; false for NaN, and True is above False."""
    def greater_equal(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is `y` or above; false for NaN."""
    def grid_sample(self, grid: _Any, mode: _Literal['linear', 'nearest', 'cubic'] = ..., padding_mode: _Literal['zeros', 'border', 'reflection'] = ..., align_corners: _b.bool = ...) -> _Self:
        """Images `x` (n, c, *image) interpolated at the places that `grid` (n, *out, rank) states: (n, c, *out)."""
    def group_norm(self, weight: _Any = ..., bias: _Any = ..., *, groups: _b.int, eps: _b.float = ...) -> _Self:
        """`x` (n, channels, ...) brought to mean 0 and variance 1 in each of `groups` groups of channels of each sample."""
    def gt(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is above `y`; false for NaN, and True is above False."""
    def hard_sigmoid(self, alpha: _b.float = ..., beta: _b.float = ...) -> _Self:
        """`alpha` `x` + `beta`, limited to [0, 1]; NaN stays. The gradient at the kinks is 0."""
    def hard_swish(self) -> _Self:
        """`x` times its hard sigmoid of slope 1/6: 0 up to -3, `x` from 3 on (Howard et al., arXiv:1905.02244)."""
    def hardmax(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """1 at the first largest element of `x` along `axis`, or at the first NaN, and 0 elsewhere."""
    def hardshrink(self, lambd: _b.float = ...) -> _Self:
        """The entries of `x` outside of [-`lambd`, `lambd`], 0 for the others, where the gradient is 0; NaN stays."""
    def hardsigmoid(self, alpha: _b.float = ..., beta: _b.float = ...) -> _Self:
        """`alpha` `x` + `beta`, limited to [0, 1]; NaN stays. The gradient at the kinks is 0."""
    def hardswish(self) -> _Self:
        """`x` times its hard sigmoid of slope 1/6: 0 up to -3, `x` from 3 on (Howard et al., arXiv:1905.02244)."""
    def hardtanh(self, min_val: _b.float = ..., max_val: _b.float = ...) -> _Self:
        """`x` limited to [`min_val`, `max_val`]; NaN stays. The gradient on the bounds is 0."""
    def heaviside(self, values: _Any) -> _Self:
        """0 where `x` is negative, 1 where it is positive, `values` where it is 0; NaN for NaN."""
    def hinge_embedding_loss(self, target: _Any, margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """`x` where `target` is 1, max(0, `margin` - `x`) where it is -1: by default, the mean."""
    def hinge_loss(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """max(0, 1 - `target` `x`) for a `target` of 1 or -1: by default, its mean."""
    def histc(self, bins: _b.int = ..., min: _b.float = ..., max: _b.float = ...) -> _Any:
        """How many elements of `x` lie in each of `bins` equal parts of [min, max], in the dtype of `x`, or i64 if that is
        an integer; others do not count. Where both are the same, the least and the greatest element are meant."""
    def histogram(self, bins: _Any = ..., range: _Any = ..., weights: _Any = ..., density: _b.bool = ..., *, a: _Any = ..., weight: _Any = ...) -> _Any:
        """How many elements of `x` lie between neighbouring edges (i64), or the sums of their `weights`, and the edges: a
        vector `bins`, or those of so many equal parts of `range`, of all elements without it. The last part has both of its
        edges. With `density`, over the widths and the sum of all: an integral of 1."""
    def hsplit(self, indices_or_sections: _Any) -> _Any:
        """`x` cut along its second axis, vectors along their only one: before each of the places of a sequence, or into a
        number of equal parts."""
    def huber_loss(self, target: _Any, delta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """`d`^2 / 2 for a difference `d` of `x` and `target` up to `delta`, `delta` (|d| - `delta` / 2) above."""
    def hypot(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The distance of the point (`x`, `y`) from the origin, without overflow; inf if either is infinite."""
    def i0(self) -> _Self:
        """The modified Bessel function of the first kind of order 0 of `x`."""
    def i0e(self) -> _Self:
        """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 0 of `x`."""
    def i1(self) -> _Self:
        """The modified Bessel function of the first kind of order 1 of `x`."""
    def i1e(self) -> _Self:
        """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 1 of `x`."""
    def identity(self) -> _Self:
        """`x` itself, as a value of its own: differentiating with respect to it leaves other uses of `x` alone."""
    def igamma(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The lower incomplete gamma function of `a` and `x`, regularized: the integral of t^(a - 1) exp(-t) from 0 to `x`,
        over that to infinity, which is Gamma(`a`). It is 1 where `a` is 0; NaN if an operand is negative, or both are 0 or
        infinite."""
    def igammac(self, x: _Any = ..., *, other: _Any = ...) -> _Self:
        """The upper incomplete gamma function of `a` and `x`, regularized: 1 - gammainc(`a`, `x`), exact where that is
        small, too."""
    def index_add(self, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, dim: _Any = ...) -> _Any:
        """`x` with the parts of `source` added at the places `index`, a vector of integers, along `axis`."""
    def index_copy(self, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, dim: _Any = ...) -> _Any:
        """`x` with the parts of `source` at the places `index`, a vector of integers, along `axis`."""
    def index_fill(self, axis: _b.int = ..., index: _Any = ..., value: _b.float = ..., *, dim: _Any = ...) -> _Any:
        """`x` with a number at the places `index`, a vector of integers, along `axis`."""
    def index_put(self, indices: _Any, values: _Any, accumulate: _b.bool = ...) -> _Any:
        """`x` after x[indices] = values, which broadcast, or with `accumulate` after these are added there. The indices are
        arrays of integers, which broadcast against each other, or of truth values, for the first axes of `x`."""
    def index_select(self, axis: _b.int = ..., index: _Any = ..., *, dim: _Any = ...) -> _Any:
        """The elements of `x` at the places `index`, a vector of integers, along `axis`."""
    def inner(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The sums of products along the last axes of `x` (m..., k) and `y` (n..., k), as (m..., n...)."""
    def instance_norm(self, weight: _Any = ..., bias: _Any = ..., eps: _b.float = ...) -> _Self:
        """`x` (n, channels, ...) brought to mean 0 and variance 1 in each channel of each sample."""
    def interp(self, xp: _Any, fp: _Any, left: _Any = ..., right: _Any = ...) -> _Any:
        """The values at `x` of the function that is `fp` (n,) at `xp` (n,), which rises, and straight in between."""
    def inv(self) -> _Self:
        """The inverses of the square matrices `x` (..., n, n). Raises `LinAlgError` for one that is singular. To multiply
        by an inverse, `solve` is faster and more exact."""
    def inverse(self) -> _Self:
        """The inverses of the square matrices `x` (..., n, n). Raises `LinAlgError` for one that is singular. To multiply
        by an inverse, `solve` is faster and more exact."""
    def invert(self) -> _Self:
        """`x` with every bit flipped; the opposite of a truth value."""
    def invert_permutation(self) -> _Self:
        """The permutation that undoes `x` (n,), which holds each of 0, ..., n - 1 once: result[x[i]] = i."""
    def isclose(self, y: _Any = ..., rtol: _b.float = ..., atol: _b.float = ..., equal_nan: _b.bool = ..., *, other: _Any = ...) -> _Any:
        """Whether |x - y| ≤ atol + rtol * |y|, or both are the same infinity; with `equal_nan`, or both are NaN."""
    def isfinite(self) -> _Self:
        """Whether `x` is neither infinite nor NaN."""
    def isinf(self, detect_negative: _b.bool = ..., detect_positive: _b.bool = ...) -> _Self:
        """Whether `x` is infinite: negative (unless not `detect_negative`) or positive (unless not `detect_positive`)."""
    def isnan(self) -> _Self:
        """Whether `x` is NaN."""
    def kl_div(self, target: _Any, log_target: _b.bool = ..., reduction: _Literal['mean', 'sum', 'none', 'batchmean'] = ...) -> _Self:
        """The divergence of Kullback and Leibler: `target` (log(`target`) - `x`) for logarithms `x` of probabilities."""
    def kron(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The products of each element of `x` (m, n) with all of `y` (p, q), as blocks of (m * p, n * q). Tensors may have
        any rank: the smaller one has axes of size 1 in front."""
    def kthvalue(self, k: _b.int, axis: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The `k`th smallest element along `axis`, counted from 1, and its place."""
    def l1_loss(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """The magnitude of the difference of `x` and `target`: by default, its mean. The gradient at 0 is 0."""
    def layer_norm(self, weight: _Any = ..., bias: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` shifted and scaled to mean 0 and variance 1 along `axis`, times `weight`, plus `bias`, which broadcast
        against `x`."""
    def layer_norm_statistics(self, weight: _Any = ..., bias: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., stash_dtype: _Any = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """`layer_norm`, and its mean and reciprocal standard deviation 1 / sqrt(variance + `eps`) along `axis`."""
    def ldexp(self, exponent: _Any = ..., *, other: _Any = ...) -> _Any:
        """`x` times 2 to the power of `exponent`, integers, rounded once."""
    def le(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is `y` or below; false for NaN."""
    def leading_places(self, k: _b.int = ..., descending: _b.bool = ..., *, diagonal: _Any = ...) -> _Self:
        """The indices (i64) of the first `k` elements of each row of `x` (rows, n) in sorted order, smallest element first,
        or largest first if `descending`. Equal elements keep their order, and NaN is larger than every number."""
    def leaky_relu(self, negative_slope: _b.float = ...) -> _Self:
        """The positive entries of `x`, the others times `negative_slope`. The gradient at 0 is `negative_slope`."""
    def left_shift(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
    def lerp(self, end: _Any, weight: _Any) -> _Self:
        """`start` + `weight` (`end` - `start`): `start` for weight 0 and `end` for weight 1, both exactly."""
    def less(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is below `y`; false for NaN, and False is below True."""
    def less_equal(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is `y` or below; false for NaN."""
    def lgamma(self) -> _Self:
        """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers."""
    def linear(self, weight: _Any, bias: _Any = ...) -> _Any:
        """`x` (..., k) by the transposed `weight` (n, k), plus `bias` (n): what `nn.Linear` computes."""
    def local_response_norm(self, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ...) -> _Self:
        """`x` (n, c, ...image) over (`bias` + `alpha` / `size` * s)**`beta`, where s is the sum of the squares of the
        `size` channels around each: (size - 1) // 2 before it and size // 2 behind it, as far as there are any."""
    def log(self) -> _Self:
        """The natural logarithm of `x`: -inf at 0, NaN for negative numbers."""
    def log10(self) -> _Self:
        """The logarithm of `x` to base 10: -inf at 0, NaN for negative numbers."""
    def log1p(self) -> _Self:
        """The natural logarithm of one plus `x`, accurate near 0: -inf at -1, NaN below."""
    def log2(self) -> _Self:
        """The logarithm of `x` to base 2: -inf at 0, NaN for negative numbers."""
    def log_ndtr(self) -> _Self:
        """The logarithm of the probability that a standard normal variable is below `x`, exact where that is 0 or 1 as a
        float, too."""
    def log_sigmoid(self) -> _Self:
        """The logarithm of the logistic function of `x`, without overflow."""
    def log_softmax(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self:
        """The logarithm of `softmax(x)`, without underflow."""
    def log_sum(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The logarithm of the sum of `x` along `axis`; -inf of no elements."""
    def logaddexp(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """log(exp(`x`) + exp(`y`)), without overflow."""
    def logaddexp2(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """log2(2^`x` + 2^`y`), without overflow."""
    def logcumsumexp(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """The logarithms of the sums of exp(`x`) up to each place along `axis`, without overflow."""
    def logdet(self, *, A: _Any = ...) -> _Any:
        """The logarithms (...,) of the determinants of the square matrices `x` (..., n, n): NaN where one is negative, -inf
        where it is 0."""
    def logical_and(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether both `x` and `y` are true (not zero)."""
    def logical_not(self) -> _Self:
        """Whether `x` is false (zero)."""
    def logical_or(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` or `y` is true (not zero)."""
    def logical_xor(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether one of `x` and `y` is true (not zero) and the other is not."""
    def logit(self, eps: _b.float | None = ...) -> _Self:
        """The inverse of the logistic function: log(`x` / (1 - `x`)); NaN outside of [0, 1]."""
    def logsigmoid(self) -> _Self:
        """The logarithm of the logistic function of `x`, without overflow."""
    def logsumexp(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The logarithm of the sum of exp(`x`) along `axis`, without overflow."""
    def lp_normalize(self, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` over its `p`-norm along `axis`, or over `eps` where the norm is below that."""
    def lp_pool(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., p: _b.float = ..., *, kernel_size: _Any = ...) -> _Self:
        """The p-norm of each window of `x` (..., *image): (sum of |x|**p)**(1 / p). Integers are taken as f32."""
    def lrn(self, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ...) -> _Self:
        """`x` (n, c, ...image) over (`bias` + `alpha` / `size` * s)**`beta`, where s is the sum of the squares of the
        `size` channels around each: (size - 1) // 2 before it and size // 2 behind it, as far as there are any."""
    def lt(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` is below `y`; false for NaN, and False is below True."""
    def margin_ranking_loss(self, y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ...) -> _Self:
        """max(0, `margin` - `target` (`x` - `y`)): `x` is to be above `y` where `target` is 1, below it where it is -1."""
    def masked_scatter(self, mask: _Any, source: _Any) -> _Any:
        """`x` with the first elements of `source`, one after the other, where `mask`, which is broadcast, is true. Raises
        `ValueError` where they are too few, unless the mask is not known."""
    def masked_select(self, mask: _Any) -> _Any:
        """The elements of `x` where `mask` is true, both broadcast, as a vector. Raises where it is traced: how many they
        are depends on values."""
    def matmul(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The matrix product of `x` (..., m, k) and `y` (..., k, n); leading dimensions broadcast."""
    def matrix_rank(self, *, rtol: _b.float | None = ...) -> _Any:
        """How many singular values of the matrices `x` (..., m, n) are larger than `rtol` times the largest, as i64 (...,);
        `rtol` is the larger of m and n times the machine epsilon by default, which is that of f32 for integers and for
        floats of 16 bits: these are computed in f32."""
    def max(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The largest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
        (without a `start`) it is one, too."""
    def max_pool(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The largest element of each window of `x` (..., *image); NaN if there is any."""
    def max_pool1d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The largest element of each window of `x` (..., length); NaN if there is any. The settings are those of
        `max_pool`."""
    def max_pool2d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The largest element of each window of `x` (..., height, width); NaN if there is any."""
    def max_pool3d(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self:
        """The largest element of each window of `x` (..., depth, height, width); NaN if there is any. The settings are
        those of `max_pool`."""
    def max_pool_with_indices(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., storage_order: _Literal[0, 1] = ..., within: _Literal['image', 'tensor'] = ..., *, kernel_size: _Any = ...) -> _Any:
        """The largest element of each window of `x` (..., *image), and where in the image it is (i64); of equal ones the
        first, or the first NaN."""
    def max_unpool(self, indices: _Any = ..., output_size: _b.int | _Sequence[_b.int] = ..., *, index: _Any = ...) -> _Self:
        """Images (..., *`output_size`) of zeros with the elements of `x` (..., *counts) at `indices`, which count the
        elements of each image in row-major order: what undoes `max_pool_with_indices`."""
    def maximum(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The larger of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient."""
    def mean(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The arithmetic mean of `x` along `axis`; NaN of no elements. Integers are taken as f32."""
    def mean_variance_normalization(self, axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` less its mean along `axis`, over its standard deviation plus `eps`."""
    def median(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The element in the middle of those along `axis`, or of all, when they are sorted: of an even number the lower
        of the two, as in PyTorch (`quantile(x, 0.5)` is between them, as NumPy's median); NaN if there is any. Without
        places: PyTorch's `median(x, dim)` gives these, too."""
    def min(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The smallest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
        (without a `start`) it is one, too."""
    def minimum(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The smaller of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient."""
    def mish(self) -> _Self:
        """`x` times the hyperbolic tangent of its softplus (Misra, arXiv:1908.08681). NaN for -inf, as in PyTorch."""
    def mm(self, y: _Any = ..., *, mat2: _Any = ...) -> _Any:
        """The product (m, n) of the matrices `x` (m, k) and `y` (k, n); others than matrices are refused."""
    def mod(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """What remains of `x` after division by `y`, with the sign of `y`, as Python's `%`. Integers modulo 0 give 0."""
    def mode(self, axis: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The element that is there most often along `axis`, the smallest of several, and the last place (i64) where it is:
        `(values, indices)`. NaN equals nothing, itself included. Raises `InferenceError` where there are no elements."""
    def movedim(self, source: _Any, destination: _Any, *, dim: _Any = ...) -> _Any:
        """`x` with the axes `source` at the places `destination`, and all others in their order."""
    def mse_loss(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """The squared difference of `x` and `target`: by default, its mean."""
    def mul(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The product of `x` and `y`. Integers wrap."""
    def multiply(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The product of `x` and `y`. Integers wrap."""
    def mv(self, y: _Any = ..., *, vec: _Any = ...) -> _Any:
        """The product (m) of the matrix `x` (m, k) and the vector `y` (k)."""
    def mvlgamma(self, p: _b.int) -> _Any:
        """The logarithm of the multivariate gamma function of dimension `p`: the sum of lgamma(`x` - j / 2) for j before
        `p`, and p (p - 1) / 4 log(pi)."""
    def nan_to_num(self, nan: _b.float = ..., posinf: _b.float | None = ..., neginf: _b.float | None = ...) -> _Self:
        """`x` with `nan` for NaN and `posinf` and `neginf` for the infinities: by default the largest and least number."""
    def nanmax(self, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The largest element along `axis`, or of all, that is not NaN; NaN where there is none."""
    def nanmean(self, axis: _Any = ..., *, keepdims: _b.bool = ..., dtype: _Any = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The mean along `axis`, or of all elements, of those that are not NaN; NaN where there are none."""
    def nanmedian(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """What `median` is of the elements that are not NaN: of an even number the lower of the two in the middle, as in
        PyTorch (`nanquantile(x, 0.5)` is between them, as NumPy's); NaN where there is none. Without places."""
    def nanmin(self, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The smallest element along `axis`, or of all, that is not NaN; NaN where there is none."""
    def nanquantile(self, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """What `quantile` is of the elements that are not NaN; NaN where there is none."""
    def nanstd(self, axis: _Any = ..., *, ddof: _b.float = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The root of the variance that `nanvar` gives."""
    def nansum(self, axis: _Any = ..., *, keepdims: _b.bool = ..., dtype: _Any = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The sum of `x` along `axis`, or of all elements, in which NaN counts as 0."""
    def nanvar(self, axis: _Any = ..., *, ddof: _b.float = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The variance along `axis`, or of all elements, of those that are not NaN: over their number less `ddof`, and NaN
        where that is not positive."""
    def narrow(self, axis: _b.int = ..., start: _b.int = ..., length: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """The `length` elements of `x` along `axis` from `start` on, which counts from the end where it is negative."""
    def ndtr(self) -> _Self:
        """The probability that a standard normal variable is below `x`, exact in the lower tail."""
    def ndtri(self) -> _Self:
        """The number that a standard normal variable is below with probability `x`: infinite at 0 and 1, NaN outside of
        [0, 1]."""
    def ne(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` and `y` differ. NaN differs from everything."""
    def neg(self) -> _Self:
        """`x` with its sign changed. Integers wrap: the least one stays as it is, unsigned ones become 2^width - `x`."""
    def negative(self) -> _Self:
        """`x` with its sign changed. Integers wrap: the least one stays as it is, unsigned ones become 2^width - `x`."""
    def nextafter(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The float (f32 or f64) after `x` in the direction of `y`; `y` where they are equal."""
    def nll_loss(self, labels: _Any = ..., weight: _Any = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ...) -> _Self:
        """-`log_probabilities` at the class in `labels`, times its weight: by default, the mean over all samples."""
    def norm(self, p: _b.float = ..., axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The `p`-norm of `x` along `axis`: (sum |x|^p)^(1/p); the largest or smallest magnitude for `p` inf or -inf."""
    def normalize(self, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` over its `p`-norm along `axis`, or over `eps` where the norm is below that."""
    def not_equal(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """Whether `x` and `y` differ. NaN differs from everything."""
    def one_hot(self, num_classes: _b.int = ..., axis: _b.int = ..., dtype: _Any = ..., on_value: _b.float = ..., off_value: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self:
        """`on_value` at each of the `indices`, `off_value` elsewhere, along a new axis of size `num_classes` at position
        `axis` of the result."""
    def ones_like(self, *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
        """Ones of `x`'s shape and dtype, or of another `dtype`."""
    def outer(self, y: _Any = ..., *, x1: _Any = ..., x2: _Any = ..., vec2: _Any = ...) -> _Any:
        """The products (m, n) of each element of the vector `x` with each of the vector `y`."""
    def packbits(self, axis: _b.int | None = ..., bitorder: _b.str = ..., *, a: _Any = ...) -> _Any:
        """Bytes (ui8), each of eight elements of `x` along `axis`, or of all in row-major order: a bit is set where the
        element is not 0, from the highest bit on, or the lowest ("little"). What lacks at the end is 0."""
    def pad(self, low: _b.int | _Sequence[_b.int] | None = ..., high: _b.int | _Sequence[_b.int] | None = ..., value: _b.float = ..., mode: _Literal['constant', 'edge', 'reflect', 'symmetric', 'wrap'] = ..., *, pad_width: _Any = ..., constant_values: _Any = ...) -> _Self:
        """`x` with `low[i]` elements before it and `high[i]` behind it along each axis i; negative numbers cut off first."""
    def partition(self, kth: _Any = ..., axis: _b.int | None = ..., *, a: _Any = ..., dim: _Any = ...) -> _Any:
        """`x` along `axis`, or all of its elements, rearranged so that at the place `kth`, or at several, there is what is
        there in order; before it is nothing that is larger, and behind it nothing that is smaller. All of it is in order."""
    def partition_sort(self, descending: _b.bool = ...) -> _Self:
        """The rows of `x` (rows, n) each sorted, on a CPU that packs lanes; elements have 16, 32 or 64 bits there. On a GPU
        it is `sort`."""
    def pdist(self, p: _b.float = ...) -> _Any:
        """The distances (n (n - 1) / 2,) in the norm `p` of the rows of `x` (n, k) to each other: of the first to all that
        follow, then of the second, and so on. Where one is 0 its gradient is 0."""
    def percentile(self, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ...) -> _Any:
        """`quantile` of `q` hundredths."""
    def permute_dims(self, permutation: _b.int | _Sequence[_b.int] | None = ..., *, axes: _Any = ...) -> _Self:
        """`x` with its axes reordered: axis i of the result is axis `permutation[i]` of `x`, or reversed without it."""
    def pinv(self, rtol: _b.float = ...) -> _Self:
        """The pseudoinverses (..., n, m) of the matrices `x` (..., m, n). Singular values of at most `rtol` times the
        largest count as 0; `rtol` is the larger of m and n times the machine epsilon where it is negative, as it is by
        default."""
    def poisson_nll_loss(self, target: _Any, log_input: _b.bool = ..., full: _b.bool = ..., eps: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """exp(`x`) - `target` `x`, the negative log likelihood of a Poisson variable whose rate has the logarithm `x`."""
    def polygamma(self, order: _b.int = ..., *, n: _Any = ...) -> _Self:
        """The derivative of order `order` (1 to 20) of digamma at `x`."""
    def population_count(self) -> _Self:
        """How many bits of `x` are set, in the dtype of `x`. A negative number has those of its two's complement."""
    def pow(self, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ...) -> _Self:
        """`x` to the power `y`. A negative float to a fractional power is NaN. Integers wrap; negative powers of them round
        toward zero, and those of 0 are 0."""
    def power(self, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ...) -> _Self:
        """`x` to the power `y`. A negative float to a fractional power is NaN. Integers wrap; negative powers of them round
        toward zero, and those of 0 are 0."""
    def prelu(self, slope: _Any) -> _Self:
        """The positive entries of `x`, the others times `slope`, which broadcasts against `x`."""
    def prod(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ...) -> _Self:
        """The product of `x` along `axis`; 1 of no elements. Integers keep their dtype and wrap (NumPy widens them)."""
    def psi(self) -> _Self:
        """The derivative of log Gamma at `x`; -inf at 0.0, inf at -0.0, NaN at negative whole numbers and -inf."""
    def ptp(self, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The largest less the smallest element along `axis`, or of all."""
    def put_along_axis(self, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ...) -> _Self:
        """`x` with `updates` at `indices` along `axis`, where `updates` and the other axes of `indices` broadcast, as in
        NumPy; `reduction` as in `scatter_elements`."""
    def qr(self, mode: _b.str = ...) -> _Any:
        """Matrices q (..., m, k) with orthonormal columns and upper triangular ones r (..., k, n) with q r = `x` (..., m,
        n); k is the smaller of m and n in the mode "reduced", and m in the mode "complete"."""
    def quantile(self, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """What the share `q` of the elements along `axis`, or of all, is at most: between two of them, on the line through
        both (method 7 of Hyndman and Fan, 1996); NaN if there is any. Several shares, in a list, are the first dimension."""
    def rad2deg(self) -> _Self:
        """The angle of `x` radians in degrees."""
    def radians(self) -> _Self:
        """The angle of `x` degrees in radians."""
    def reciprocal(self) -> _Self:
        """One divided by `x`. Integers are taken as f32 (NumPy divides them as integers)."""
    def relu(self) -> _Self:
        """The positive entries of `x`, zero for the others; NaN stays. The gradient at 0 is 0."""
    def relu6(self) -> _Self:
        """`x` limited to [0, 6]; NaN stays. The gradient on the bounds is 0."""
    def remainder(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """What remains of `x` after division by `y`, with the sign of `y`, as Python's `%`. Integers modulo 0 give 0."""
    def renorm(self, p: _b.float, axis: _b.int = ..., maxnorm: _b.float = ..., *, dim: _Any = ...) -> _Any:
        """`x`, of which each part along `axis` whose norm of order `p` is larger than `maxnorm` is made as small as that."""
    def repeat_interleave(self, repeats: _b.int, axis: _b.int | None = ..., *, dim: _Any = ..., dims: _Any = ..., output_size: _Any = ...) -> _Self:
        """`x` with each element repeated `repeats` times along `axis`; without `axis`, of all elements in row-major order."""
    def reshape_as(self, other: _Any) -> _Any:
        """`x` in the shape of `other`."""
    def right_shift(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
    def rint(self) -> _Any:
        """The whole number nearest to `x`, halves to the even one, as a float. Integers of 8 and 16 bits become f32, wider
        ones f64. The gradient is 0."""
    def rms_norm(self, weight: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` over its root mean square along `axis`, sqrt(mean(x^2) + `eps`), times `weight`."""
    def roi_align(self, rois: _Any, batch_indices: _Any, output_size: _b.int | _Sequence[_b.int], sampling_ratio: _b.int | _Sequence[_b.int] = ..., spatial_scale: _b.float = ..., aligned: _b.bool = ..., mode: _Literal['avg', 'max'] = ...) -> _Self:
        """The parts `rois` (k, 4) of images `x` (n, c, height, width), each brought to `output_size`: (k, c, *output_size)."""
    def roll(self, shift: _b.int | _Sequence[_b.int] = ..., axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., shifts: _Any = ...) -> _Self:
        """`x` moved by `shift` places along `axis`, what leaves at one end coming in at the other."""
    def rot90(self, k: _b.int = ..., dims: _Any = ...) -> _Any:
        """`x` turned `k` times by a right angle, from the first of the axes `dims` to the second."""
    def round(self, decimals: _b.int = ...) -> _Self:
        """The whole number nearest to `x`, halves to the even one; or, by `decimals`, the nearest number with so many
        places behind the point, or with as many zeros before it if that is negative. Integers stay as they are. The
        gradient is 0."""
    def rsqrt(self) -> _Self:
        """One divided by the square root of `x`; NaN for negative numbers."""
    def rsub(self, y: _Any = ..., alpha: _b.float = ..., *, other: _Any = ...) -> _Any:
        """y - alpha * x."""
    def scatter(self, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, value: _Any = ..., reduce: _b.str | None = ..., dim: _Any = ..., src: _Any = ...) -> _Any:
        """`x` with the elements of `source`, or a number, at the places `index` along `axis`, everything else equal:
        result[index[i, j], j] = source[i, j]; with `reduce` ("add", "multiply") they are added or multiplied."""
    def scatter_elements(self, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ...) -> _Self:
        """`x` with `updates` at `indices` along `axis`, everything else equal: result[indices[i, j], j] = updates[i, j]."""
    def scatter_nd(self, indices: _Any = ..., updates: _Any = ..., batch_dims: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, index: _Any = ..., src: _Any = ...) -> _Self:
        """`x` with `updates` at `indices`, whose last axis holds indices for the first axes of `x`: result[indices[i]] =
        updates[i]."""
    def scatter_reduce(self, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., reduce: _b.str = ..., *, include_self: _b.bool = ..., dim: _Any = ..., src: _Any = ...) -> _Any:
        """`x` reduced with the elements of `source` at the places `index` along `axis`, everything else equal, by `reduce`
        ("sum", "prod", "mean", "amax", "amin"); without `include_self`, what `x` has at these places does not count."""
    def searchsorted(self, values: _Any = ..., side: _Literal['left', 'right'] = ..., *, sorter: _Any = ..., sorted_sequence: _Any = ..., right: _Any = ...) -> _Self:
        """The index (i64) in `x`, which is sorted along its last axis, where each of `values` keeps it sorted."""
    def select_scatter(self, source: _Any = ..., axis: _b.int = ..., index: _b.int = ..., *, dim: _Any = ..., src: _Any = ...) -> _Any:
        """`x` with `source` in the place of its part x[..., index, ...] at an axis."""
    def selu(self, alpha: _b.float = ..., gamma: _b.float = ...) -> _Self:
        """`gamma` times the positive entries of `x`, `gamma` `alpha` times (exp(x) - 1) for the others."""
    def sgn(self) -> _Self:
        """-1, 0 or 1, as `x` is negative, zero or positive; NaN for NaN. The gradient is 0."""
    def shift_left(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
    def shift_right(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
    def shift_right_logical(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The bits of `x` moved to the right by `y`; zeros come in, whatever the sign."""
    def shrink(self, lambd: _b.float = ..., bias: _b.float = ...) -> _Self:
        """`x` + `bias` below -`lambd`, `x` - `bias` above `lambd`, 0 between them, where the gradient is 0; NaN stays."""
    def sigmoid(self) -> _Self:
        """The logistic function of `x`: 1 / (1 + exp(-x)), without overflow."""
    def sign(self) -> _Self:
        """-1, 0 or 1, as `x` is negative, zero or positive; NaN for NaN. The gradient is 0."""
    def silu(self, alpha: _b.float = ...) -> _Self:
        """`x` times the logistic function of `alpha` `x`, also called swish. NaN for -inf, as in PyTorch."""
    def sin(self) -> _Self:
        """The sine of `x` (in radians)."""
    def sinc(self) -> _Self:
        """sin(pi x) / (pi x), and 1 at 0. Exactly 0 at all other whole numbers, where NumPy gives about 1e-17."""
    def sinh(self) -> _Self:
        """The hyperbolic sine of `x`."""
    def slice(self, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """The elements of `x` from `starts` to before `limits` in steps of `strides` (1 unless given), an entry per axis."""
    def slice_scatter(self, update: _Any, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ...) -> _Self:
        """`x` with `update` in the place of the elements that `slice` reads with the same settings."""
    def sliding_windows(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self:
        """The windows of `x` (..., *image): (..., *counts, *window)."""
    def slogdet(self) -> _Any:
        """The signs (...,) of the determinants of the square matrices `x` (..., n, n), and the logarithms (...,) of their
        magnitudes, which do not overflow; 0 and -inf for a singular one."""
    def smooth_l1_loss(self, target: _Any, beta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """`d`^2 / (2 `beta`) for a difference `d` of `x` and `target` below `beta`, |d| - `beta` / 2 from there."""
    def soft_margin_loss(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self:
        """log(1 + exp(-`target` `x`)) for a `target` of 1 or -1, without overflow: by default, its mean."""
    def softmax(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self:
        """`x` scaled along `axis` to positive entries that add up to one: exp(x) over its sum."""
    def softmax_cross_entropy(self, labels: _Any = ..., weight: _Any = ..., label_smoothing: _b.float = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ...) -> _Any:
        """`cross_entropy`, and log softmax(`logits`), from which it is computed; returns both."""
    def softplus(self, beta: _b.float = ...) -> _Self:
        """log(1 + exp(`beta` x)) / `beta`, without overflow and at full precision for all `x`."""
    def softshrink(self, lambd: _b.float = ...) -> _Self:
        """`x` moved towards 0 by `lambd`, 0 inside of [-`lambd`, `lambd`], where the gradient is 0; NaN stays."""
    def softsign(self) -> _Self:
        """`x` / (1 + |`x`|); NaN for an infinity, as in PyTorch."""
    def sort(self, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` sorted along `axis`, smallest element first, or largest first if `descending`."""
    def sort_groups(self, descending: _b.bool = ...) -> _Self:
        """The rows of `x` (groups, rows, n) each sorted, in the order of `sort_rows`."""
    def sort_rows(self, descending: _b.bool = ...) -> _Self:
        """The rows of `x` (rows, n) each sorted, smallest element first, or largest first if `descending`. NaN, which loses
        its sign, is larger than every number; zero is larger than negative zero, but on a GPU, where it is `sort`."""
    def space_to_depth(self, block: _b.int, mode: _Literal['DCR', 'CRD'] = ...) -> _Self:
        """`x` (..., c, h, w) with squares of `block` times `block` pixels made channels: (..., c block², h / block, w /
        block). It undoes `depth_to_space` of the same `mode`."""
    def spacing(self) -> _Any:
        """How far the next float (f32 or f64) in the direction away from 0 is from `x`, with the sign of `x`; NaN for what
        is not finite."""
    def sqrt(self) -> _Self:
        """The square root of `x`; NaN for negative numbers."""
    def square(self) -> _Self:
        """`x` times itself."""
    def std(self, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ...) -> _Self:
        """The standard deviation of `x` along `axis`: the square root of its variance. Integers are taken as f32."""
    def std_mean(self, axis: _Any = ..., *, correction: _b.float = ..., keepdims: _b.bool = ..., unbiased: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The roots of the variances, and the means, that `var_mean` gives."""
    def stop_gradient(self) -> _Self:
        """`x`, taken as a constant by differentiation."""
    def sub(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self:
        """`x` less `y`. Integers wrap."""
    def subtract(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self:
        """`x` less `y`. Integers wrap."""
    def sum(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ...) -> _Self:
        """The sum of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap (NumPy widens them); truth
        values are counted as i64."""
    def sum_square(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self:
        """The sum of the squares of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap."""
    def svd(self, full_matrices: _b.bool = ...) -> _Any:
        """Matrices u (..., m, m) and vh (..., n, n) with orthonormal columns and rows, and singular values s (..., k) in
        descending order, k the smaller of m and n, with u diag(s) vh = `x` (..., m, n). Without `full_matrices` u has k
        columns and vh k rows."""
    def svdvals(self) -> _Self:
        """The singular values (..., k) of the matrices `x` (..., m, n), in descending order, k the smaller of m and n."""
    def swapdims(self, axis1: _b.int = ..., axis2: _b.int = ..., *, dim0: _Any = ..., dim1: _Any = ...) -> _Any:
        """`x` with its axes `axis1` and `axis2` exchanged."""
    def swish(self, alpha: _b.float = ...) -> _Self:
        """`x` times the logistic function of `alpha` `x`, also called swish. NaN for -inf, as in PyTorch."""
    def t(self) -> _Any:
        """The matrix `x` transposed; vectors and numbers as they are."""
    def take(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self:
        """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...]."""
    def take_along_axis(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self:
        """The elements of `x` at `indices` along `axis`, where the other axes of both broadcast, as in NumPy."""
    def take_along_dim(self, index: _Any = ..., axis: _b.int | None = ..., *, dim: _Any = ..., indices: _Any = ...) -> _Any:
        """The elements of `x` at the places `index` along `axis`, where all other axes broadcast; without `axis`, of all
        elements in a row."""
    def tan(self) -> _Self:
        """The tangent of `x` (in radians)."""
    def tanh(self) -> _Self:
        """The hyperbolic tangent of `x`."""
    def tanhshrink(self) -> _Self:
        """`x` less its hyperbolic tangent, accurate near 0. An infinity stays."""
    def tensor_split(self, indices_or_sections: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """`x` cut along `axis` before each of the places of a sequence, or into a number of parts, of which the first ones
        are larger by one where they cannot be equal."""
    def threefry(self, counter_high: _Any, key_low: _Any, key_high: _Any) -> _Any:
        """Two words of random bits per counter (`counter_low`, `counter_high`), under the key (`key_low`, `key_high`)."""
    def threshold(self, threshold: _b.float, value: _b.float) -> _Any:
        """`x` where it is greater than `threshold`, `value` elsewhere."""
    def thresholded_relu(self, alpha: _b.float = ..., value: _b.float = ...) -> _Self:
        """The entries of `x` above `alpha`, `value` for the others; NaN stays. The gradient at `alpha` is 0."""
    def tile(self, repeats: _b.int | _Sequence[_b.int] = ..., *, dims: _Any = ...) -> _Self:
        """`x` repeated `repeats[i]` times along axis i, all of it after all of it. What is shorter, the shape of `x` or
        `repeats`, is continued by ones at the front."""
    def top_k(self, k: _b.int = ..., axis: _b.int = ..., largest: _b.bool = ..., sorted: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., diagonal: _Any = ...) -> _Any:
        """The `k` largest elements of `x` along `axis`, or the smallest ones unless `largest`, and their indices (i64)."""
    def trace(self, offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dtype: _Any = ...) -> _Self:
        """The sum of the elements of `x` whose index along `axis2` is `offset` more than that along `axis1`."""
    def transposed_convolution(self, weight: _Any, size: _b.int | _Sequence[_b.int], stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., low: _b.int | _Sequence[_b.int] = ...) -> _Self:
        """Each element of `x` (n, groups, f, ...counts) times `weight` (groups, f, c, ...window), added up where its window
        lies."""
    def tril(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self:
        """The elements of `x` (..., rows, columns) on diagonal `k` and below, zeros above."""
    def triu(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self:
        """The elements of `x` (..., rows, columns) on diagonal `k` and above, zeros below."""
    def true_divide(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The quotient of `x` and `y`. Integers are taken as f32 (NumPy takes them as f64)."""
    def trunc(self) -> _Self:
        """`x` rounded toward zero. Integers stay as they are. The gradient is 0."""
    def truncate_divide(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """The quotient of `x` and `y` rounded toward zero, as C's `/` on integers."""
    def unbind(self, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """The parts of `x` at each index of `axis`, without that axis; of a `Tensor`, views."""
    def unflatten(self, axis: _b.int = ..., sizes: _Any = ..., *, dim: _Any = ...) -> _Any:
        """`x` with one axis made several, of these sizes, of which one may be -1."""
    def unpackbits(self, axis: _b.int | None = ..., count: _b.int | None = ..., bitorder: _b.str = ..., *, a: _Any = ...) -> _Any:
        """The bits (ui8, 0 or 1) of the bytes `x` along `axis`, or of all in row-major order, from the highest on, or the
        lowest ("little"); `count` of them, with zeros behind the last, or all but the last -`count` if that is negative."""
    def unstack(self, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
        """The parts of `x` at each index of `axis`, without that axis; of a `Tensor`, views."""
    def unwrap(self, discont: _b.float | None = ..., axis: _b.int = ..., *, period: _b.float = ..., p: _Any = ...) -> _Any:
        """`x` along `axis` with multiples of `period` added where neighbours differ by more than half of it, or by
        `discont` at least if that is more, so that they do not."""
    def vander(self, n: _b.int | None = ..., increasing: _b.bool = ..., *, N: _Any = ...) -> _Any:
        """The powers (m, `n`) of each element of the vector `x` (m,), from that of `n` - 1 down to that of 0, or up with
        `increasing`; `n` is m unless it is given."""
    def var(self, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ...) -> _Self:
        """The variance of `x` along `axis`: the mean square distance from the mean, with divisor count - `ddof`."""
    def var_mean(self, axis: _Any = ..., *, correction: _b.float = ..., keepdims: _b.bool = ..., unbiased: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
        """The variances along `axis`, or of all elements, and the means. The former divide by the number of elements less
        `correction`, which is 1 here, as in PyTorch, or 0 if not `unbiased`; `tenon.var` divides by the number."""
    def vdot(self, y: _Any = ..., *, other: _Any = ...) -> _Any:
        """The sum of the products of the elements of two tensors, in row-major order."""
    def view_as(self, other: _Any) -> _Any:
        """`x` in the shape of `other`."""
    def vsplit(self, indices_or_sections: _Any) -> _Any:
        """`x`, of rank 2 at least, cut along its first axis: before each of the places of a sequence, or into a number of
        equal parts."""
    def where(self, x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """`x` where `condition` is true, else `y`. The branch that is not taken gets no gradient, whatever it is."""
    def window_argmax(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self:
        """Which element of each window of `x` (..., *image) is the largest, or the first NaN, counted in row-major order
        within the window (i64)."""
    def window_max(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self:
        """The largest element of each window of `x` (..., *image); the gradient goes to the first such element."""
    def window_sum(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self:
        """The sum of each window of `x` (..., *image). The settings are those of `sliding_windows`."""
    def xlog1py(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """`x` log(1 + `y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where `y` is -1 or below."""
    def xlogy(self, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """`x` log(`y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where log(`y`) is not finite."""
    def zeros_like(self, *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
        """Zeros of `x`'s shape and dtype, or of another `dtype`."""
    def zeta(self, y: _Any = ..., *, other: _Any = ..., q: _Any = ...) -> _Self:
        """The zeta function of Hurwitz: the sum over all k from 0 on of (`y` + k) to the power of -`x`; with a `y` of 1,
        that of Riemann. inf at 1 and for whole `y` up to 0, NaN for `x` below 1 and for other negative `y`."""
class ValueMethods(Methods):
    """What traced values have."""

    def broadcast_to(self, shape: _b.int | _Sequence[_b.int] = ..., *, size: _Any = ...) -> _Self:
        """`x` repeated along its axes of size 1, and along new leading axes, up to `shape`; -1 keeps the size of `x`."""
    def detach(self) -> _Self:
        """`x`, taken as a constant by differentiation."""
    def expand_dims(self, axis: _b.int | _Sequence[_b.int] = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` with a new axis of size 1 at each position `axis` of the result."""
    def flatten(self, start_dim: _b.int = ..., end_dim: _b.int = ...) -> _Any:
        """`x` with its axes from `start_dim` to `end_dim`, both included, made one."""
    def gather(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self:
        """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...]."""
    def masked_fill(self, mask: _Any, value: _Any) -> _Any:
        """`x` with `value` where `mask`, which is broadcast, is true; the dtype stays."""
    def nonzero(self, size: _b.int | None = ..., fill_value: _b.int | _b.tuple[_b.int, ...] = ..., *, as_tuple: _b.bool = ...) -> _Any:
        """For each axis of `x` the indices (`size`,) of the elements that are not zero: the columns of `argwhere`, and
        without `as_tuple` that itself, a row (rank of `x`,) for each, which is what PyTorch gives unless it is asked."""
    def permute(self, *axes: _Any, dims: _Any = ...) -> _Any:
        """`x` with its axes in the order `axes`, integers or one tuple of them, which may be named `dims`."""
    def ravel(self) -> _Any:
        """`x` with all axes made one."""
    def repeat(self, repeats: _b.int, axis: _b.int | None = ..., *, dim: _Any = ..., dims: _Any = ..., output_size: _Any = ...) -> _Self:
        """`x` with each element repeated `repeats` times along `axis`; without `axis`, of all elements in row-major order."""
    def reshape(self, shape: _b.int | _Sequence[_b.int], *, copy: _Any = ...) -> _Self:
        """The elements of `x` in row-major order in a new `shape`, of which one size may be -1 and is then computed."""
    def scatter_add(self, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ...) -> _Self:
        """`x` with `updates` added at `indices` along `axis`: result[..., indices[i], ...] += updates[..., i, ...]."""
    def select(self, x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Self:
        """`x` where `condition` is true, else `y`. The branch that is not taken gets no gradient, whatever it is."""
    def split(self, sections: _b.int | None = ..., axis: _b.int = ..., sizes: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Any:
        """`x` cut along `axis` into `sections` parts of equal size, or into parts of the given `sizes`."""
    def squeeze(self, axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` without its axes `axis`, which must have size 1; without `axis`, without all axes of size 1."""
    def swapaxes(self, axis1: _b.int = ..., axis2: _b.int = ..., *, dim0: _Any = ..., dim1: _Any = ...) -> _Any:
        """`x` with its axes `axis1` and `axis2` exchanged."""
    def topk(self, k: _b.int = ..., axis: _b.int = ..., largest: _b.bool = ..., sorted: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., diagonal: _Any = ...) -> _Any:
        """The `k` largest elements of `x` along `axis`, or the smallest ones unless `largest`, and their indices (i64)."""
    def transpose(self, permutation: _b.int | _Sequence[_b.int] | None = ..., *, axes: _Any = ...) -> _Self:
        """`x` with its axes reordered: axis i of the result is axis `permutation[i]` of `x`, or reversed without it."""
    def unsqueeze(self, axis: _b.int | _Sequence[_b.int] = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self:
        """`x` with a new axis of size 1 at each position `axis` of the result."""
    def view(self, *shape: _Any) -> _Any:
        """`x` in another shape, of which one size may be -1; the same as `reshape`."""
class TensorMethods(Methods):
    """What tensors have: names as in PyTorch, and methods in place."""

    def abs_(self) -> _Self: ...
    def absolute_(self) -> _Self: ...
    def acos_(self) -> _Self: ...
    def acosh_(self) -> _Self: ...
    def adaptive_avg_pool_(self, output_size: _b.int | _Sequence[_b.int]) -> _Self: ...
    def adaptive_max_pool_(self, output_size: _b.int | _Sequence[_b.int]) -> _Self: ...
    def add_(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self: ...
    def all_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def amax_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def amin_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def any_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def arccos_(self) -> _Self: ...
    def arccosh_(self) -> _Self: ...
    def arcsin_(self) -> _Self: ...
    def arcsinh_(self) -> _Self: ...
    def arctan_(self) -> _Self: ...
    def arctan2_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def arctanh_(self) -> _Self: ...
    def argmax_(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def argmin_(self, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def argsort_(self, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def argsort_groups_(self, descending: _b.bool = ...) -> _Self: ...
    def argsort_rows_(self, descending: _b.bool = ...) -> _Self: ...
    def argsort_short_rows_(self, descending: _b.bool = ...) -> _Self: ...
    def argwhere_(self, size: _b.int, fill_value: _b.int | _Sequence[_b.int] = ...) -> _Self: ...
    def asin_(self) -> _Self: ...
    def asinh_(self) -> _Self: ...
    def atan_(self) -> _Self: ...
    def atan2_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def atanh_(self) -> _Self: ...
    def avg_pool_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def avg_pool1d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def avg_pool2d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def avg_pool3d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def batch_norm_(self, mean: _Any, variance: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def binary_cross_entropy_(self, target: _Any, weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def binary_cross_entropy_with_logits_(self, target: _Any, weight: _Any = ..., positive_weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, pos_weight: _Any = ...) -> _Self: ...
    def bitcast_(self, dtype: _Any) -> _Self: ...
    def bitwise_and_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def bitwise_count_(self) -> _Self: ...
    def bitwise_invert_(self) -> _Self: ...
    def bitwise_left_shift_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def bitwise_not_(self) -> _Self: ...
    def bitwise_or_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def bitwise_right_shift_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def bitwise_xor_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def cast_(self, dtype: _Any, *, copy: _Any = ..., device: _Any = ...) -> _Self: ...
    def cbrt_(self) -> _Self: ...
    def ceil_(self) -> _Self: ...
    def celu_(self, alpha: _b.float = ...) -> _Self: ...
    def cholesky_(self, upper: _b.bool = ...) -> _Self: ...
    def clamp_(self, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ...) -> _Self: ...
    def clip_(self, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ...) -> _Self: ...
    def conv_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self: ...
    def conv1d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self: ...
    def conv2d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self: ...
    def conv3d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ...) -> _Self: ...
    def conv_transpose_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def conv_transpose1d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def conv_transpose2d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def conv_transpose3d_(self, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def convolution_(self, weight: _Any, stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ...) -> _Self: ...
    def copysign_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def cos_(self) -> _Self: ...
    def cosh_(self) -> _Self: ...
    def cosine_embedding_loss_(self, y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ...) -> _Self: ...
    def cosine_similarity_(self, y: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., other: _Any = ..., x1: _Any = ..., x2: _Any = ...) -> _Self: ...
    def count_nonzero_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def cross_entropy_(self, labels: _Any = ..., weight: _Any = ..., label_smoothing: _b.float = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ...) -> _Self: ...
    def cumprod_(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def cumsum_(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def deform_conv_(self, weight: _Any, offset: _Any, mask: _Any = ..., bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., offset_groups: _b.int = ...) -> _Self: ...
    def deg2rad_(self) -> _Self: ...
    def degrees_(self) -> _Self: ...
    def depth_to_space_(self, block: _b.int, mode: _Literal['DCR', 'CRD'] = ...) -> _Self: ...
    def det_(self) -> _Self: ...
    def dft_(self, axis: _b.int = ..., length: _b.int | None = ..., inverse: _b.bool = ..., onesided: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def diag_(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self: ...
    def diagonal_(self, offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dim1: _Any = ..., dim2: _Any = ...) -> _Self: ...
    def digamma_(self) -> _Self: ...
    def dilate_(self, steps: _b.int | _Sequence[_b.int]) -> _Self: ...
    def divide_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def dropout_(self, key: _Any, rate: _b.float = ...) -> _Self: ...
    def dynamic_slice_(self, starts: _Any, sizes: _b.int | _Sequence[_b.int]) -> _Self: ...
    def dynamic_update_slice_(self, update: _Any, starts: _Any) -> _Self: ...
    def eigvalsh_(self) -> _Self: ...
    def elu_(self, alpha: _b.float = ...) -> _Self: ...
    def embedding_(self, indices: _Any = ..., *, index: _Any = ...) -> _Self: ...
    def entr_(self) -> _Self: ...
    def eq_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def equal_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def erf_(self) -> _Self: ...
    def erfc_(self) -> _Self: ...
    def erfcinv_(self) -> _Self: ...
    def erfcx_(self) -> _Self: ...
    def erfinv_(self) -> _Self: ...
    def exp_(self) -> _Self: ...
    def exp2_(self) -> _Self: ...
    def expand_(self, shape: _b.int | _Sequence[_b.int] = ..., *, size: _Any = ...) -> _Self: ...
    def expit_(self) -> _Self: ...
    def expm1_(self) -> _Self: ...
    def fix_(self) -> _Self: ...
    def flip_(self, axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def floor_(self) -> _Self: ...
    def floor_divide_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def fmod_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def fold_(self, size: _b.int | _Sequence[_b.int], window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def gammainc_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def gammaincc_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def gammaln_(self) -> _Self: ...
    def gather_elements_(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self: ...
    def gather_nd_(self, indices: _Any = ..., batch_dims: _b.int = ..., *, index: _Any = ...) -> _Self: ...
    def ge_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def gelu_(self, approximate: _Literal['none', 'tanh'] = ...) -> _Self: ...
    def global_avg_pool_(self) -> _Self: ...
    def global_lp_pool_(self, p: _b.float = ...) -> _Self: ...
    def global_max_pool_(self) -> _Self: ...
    def glu_(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def greater_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def greater_equal_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def grid_sample_(self, grid: _Any, mode: _Literal['linear', 'nearest', 'cubic'] = ..., padding_mode: _Literal['zeros', 'border', 'reflection'] = ..., align_corners: _b.bool = ...) -> _Self: ...
    def group_norm_(self, weight: _Any = ..., bias: _Any = ..., *, groups: _b.int, eps: _b.float = ...) -> _Self: ...
    def gt_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def hard_sigmoid_(self, alpha: _b.float = ..., beta: _b.float = ...) -> _Self: ...
    def hard_swish_(self) -> _Self: ...
    def hardmax_(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def hardshrink_(self, lambd: _b.float = ...) -> _Self: ...
    def hardsigmoid_(self, alpha: _b.float = ..., beta: _b.float = ...) -> _Self: ...
    def hardswish_(self) -> _Self: ...
    def hardtanh_(self, min_val: _b.float = ..., max_val: _b.float = ...) -> _Self: ...
    def heaviside_(self, values: _Any) -> _Self: ...
    def hinge_embedding_loss_(self, target: _Any, margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def hinge_loss_(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def huber_loss_(self, target: _Any, delta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def hypot_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def i0_(self) -> _Self: ...
    def i0e_(self) -> _Self: ...
    def i1_(self) -> _Self: ...
    def i1e_(self) -> _Self: ...
    def identity_(self) -> _Self: ...
    def igamma_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def igammac_(self, x: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def instance_norm_(self, weight: _Any = ..., bias: _Any = ..., eps: _b.float = ...) -> _Self: ...
    def inv_(self) -> _Self: ...
    def inverse_(self) -> _Self: ...
    def invert_(self) -> _Self: ...
    def invert_permutation_(self) -> _Self: ...
    def isfinite_(self) -> _Self: ...
    def isinf_(self, detect_negative: _b.bool = ..., detect_positive: _b.bool = ...) -> _Self: ...
    def isnan_(self) -> _Self: ...
    def kl_div_(self, target: _Any, log_target: _b.bool = ..., reduction: _Literal['mean', 'sum', 'none', 'batchmean'] = ...) -> _Self: ...
    def l1_loss_(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def layer_norm_(self, weight: _Any = ..., bias: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def le_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def leading_places_(self, k: _b.int = ..., descending: _b.bool = ..., *, diagonal: _Any = ...) -> _Self: ...
    def leaky_relu_(self, negative_slope: _b.float = ...) -> _Self: ...
    def left_shift_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def lerp_(self, end: _Any, weight: _Any) -> _Self: ...
    def less_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def less_equal_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def lgamma_(self) -> _Self: ...
    def local_response_norm_(self, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ...) -> _Self: ...
    def log_(self) -> _Self: ...
    def log10_(self) -> _Self: ...
    def log1p_(self) -> _Self: ...
    def log2_(self) -> _Self: ...
    def log_ndtr_(self) -> _Self: ...
    def log_sigmoid_(self) -> _Self: ...
    def log_softmax_(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def log_sum_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def logaddexp_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def logaddexp2_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def logcumsumexp_(self, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def logical_and_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def logical_not_(self) -> _Self: ...
    def logical_or_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def logical_xor_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def logit_(self, eps: _b.float | None = ...) -> _Self: ...
    def logsigmoid_(self) -> _Self: ...
    def logsumexp_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def lp_normalize_(self, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def lp_pool_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., p: _b.float = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def lrn_(self, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ...) -> _Self: ...
    def lt_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def margin_ranking_loss_(self, y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ...) -> _Self: ...
    def matmul_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def max_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def max_pool_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def max_pool1d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def max_pool2d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def max_pool3d_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def max_unpool_(self, indices: _Any = ..., output_size: _b.int | _Sequence[_b.int] = ..., *, index: _Any = ...) -> _Self: ...
    def maximum_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def mean_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def mean_variance_normalization_(self, axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def min_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def minimum_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def mish_(self) -> _Self: ...
    def mod_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def mse_loss_(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def mul_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def multiply_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def nan_to_num_(self, nan: _b.float = ..., posinf: _b.float | None = ..., neginf: _b.float | None = ...) -> _Self: ...
    def ndtr_(self) -> _Self: ...
    def ndtri_(self) -> _Self: ...
    def ne_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def neg_(self) -> _Self: ...
    def negative_(self) -> _Self: ...
    def nextafter_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def nll_loss_(self, labels: _Any = ..., weight: _Any = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ...) -> _Self: ...
    def norm_(self, p: _b.float = ..., axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def normalize_(self, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def not_equal_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def one_hot_(self, num_classes: _b.int = ..., axis: _b.int = ..., dtype: _Any = ..., on_value: _b.float = ..., off_value: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self: ...
    def pad_(self, low: _b.int | _Sequence[_b.int] | None = ..., high: _b.int | _Sequence[_b.int] | None = ..., value: _b.float = ..., mode: _Literal['constant', 'edge', 'reflect', 'symmetric', 'wrap'] = ..., *, pad_width: _Any = ..., constant_values: _Any = ...) -> _Self: ...
    def partition_sort_(self, descending: _b.bool = ...) -> _Self: ...
    def permute_dims_(self, permutation: _b.int | _Sequence[_b.int] | None = ..., *, axes: _Any = ...) -> _Self: ...
    def pinv_(self, rtol: _b.float = ...) -> _Self: ...
    def poisson_nll_loss_(self, target: _Any, log_input: _b.bool = ..., full: _b.bool = ..., eps: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def polygamma_(self, order: _b.int = ..., *, n: _Any = ...) -> _Self: ...
    def population_count_(self) -> _Self: ...
    def pow_(self, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ...) -> _Self: ...
    def power_(self, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ...) -> _Self: ...
    def prelu_(self, slope: _Any) -> _Self: ...
    def prod_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def psi_(self) -> _Self: ...
    def put_along_axis_(self, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ...) -> _Self: ...
    def rad2deg_(self) -> _Self: ...
    def radians_(self) -> _Self: ...
    def reciprocal_(self) -> _Self: ...
    def relu_(self) -> _Self: ...
    def relu6_(self) -> _Self: ...
    def remainder_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def repeat_interleave_(self, repeats: _b.int, axis: _b.int | None = ..., *, dim: _Any = ..., dims: _Any = ..., output_size: _Any = ...) -> _Self: ...
    def right_shift_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def rms_norm_(self, weight: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def roi_align_(self, rois: _Any, batch_indices: _Any, output_size: _b.int | _Sequence[_b.int], sampling_ratio: _b.int | _Sequence[_b.int] = ..., spatial_scale: _b.float = ..., aligned: _b.bool = ..., mode: _Literal['avg', 'max'] = ...) -> _Self: ...
    def roll_(self, shift: _b.int | _Sequence[_b.int] = ..., axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., shifts: _Any = ...) -> _Self: ...
    def round_(self, decimals: _b.int = ...) -> _Self: ...
    def rsqrt_(self) -> _Self: ...
    def scatter_elements_(self, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ...) -> _Self: ...
    def scatter_nd_(self, indices: _Any = ..., updates: _Any = ..., batch_dims: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, index: _Any = ..., src: _Any = ...) -> _Self: ...
    def searchsorted_(self, values: _Any = ..., side: _Literal['left', 'right'] = ..., *, sorter: _Any = ..., sorted_sequence: _Any = ..., right: _Any = ...) -> _Self: ...
    def selu_(self, alpha: _b.float = ..., gamma: _b.float = ...) -> _Self: ...
    def sgn_(self) -> _Self: ...
    def shift_left_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def shift_right_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def shift_right_logical_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def shrink_(self, lambd: _b.float = ..., bias: _b.float = ...) -> _Self: ...
    def sigmoid_(self) -> _Self: ...
    def sign_(self) -> _Self: ...
    def silu_(self, alpha: _b.float = ...) -> _Self: ...
    def sin_(self) -> _Self: ...
    def sinc_(self) -> _Self: ...
    def sinh_(self) -> _Self: ...
    def slice_(self, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def slice_scatter_(self, update: _Any, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ...) -> _Self: ...
    def sliding_windows_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def smooth_l1_loss_(self, target: _Any, beta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def soft_margin_loss_(self, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ...) -> _Self: ...
    def softmax_(self, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def softplus_(self, beta: _b.float = ...) -> _Self: ...
    def softshrink_(self, lambd: _b.float = ...) -> _Self: ...
    def softsign_(self) -> _Self: ...
    def sort_(self, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ...) -> _Self: ...
    def sort_groups_(self, descending: _b.bool = ...) -> _Self: ...
    def sort_rows_(self, descending: _b.bool = ...) -> _Self: ...
    def space_to_depth_(self, block: _b.int, mode: _Literal['DCR', 'CRD'] = ...) -> _Self: ...
    def sqrt_(self) -> _Self: ...
    def square_(self) -> _Self: ...
    def std_(self, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ...) -> _Self: ...
    def stop_gradient_(self) -> _Self: ...
    def sub_(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self: ...
    def subtract_(self, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ...) -> _Self: ...
    def sum_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ...) -> _Self: ...
    def sum_square_(self, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ...) -> _Self: ...
    def svdvals_(self) -> _Self: ...
    def swish_(self, alpha: _b.float = ...) -> _Self: ...
    def take_(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self: ...
    def take_along_axis_(self, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ...) -> _Self: ...
    def tan_(self) -> _Self: ...
    def tanh_(self) -> _Self: ...
    def tanhshrink_(self) -> _Self: ...
    def thresholded_relu_(self, alpha: _b.float = ..., value: _b.float = ...) -> _Self: ...
    def tile_(self, repeats: _b.int | _Sequence[_b.int] = ..., *, dims: _Any = ...) -> _Self: ...
    def trace_(self, offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dtype: _Any = ...) -> _Self: ...
    def transposed_convolution_(self, weight: _Any, size: _b.int | _Sequence[_b.int], stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., low: _b.int | _Sequence[_b.int] = ...) -> _Self: ...
    def tril_(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self: ...
    def triu_(self, k: _b.int = ..., *, diagonal: _Any = ...) -> _Self: ...
    def true_divide_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def trunc_(self) -> _Self: ...
    def truncate_divide_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def var_(self, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ...) -> _Self: ...
    def where_(self, x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def window_argmax_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def window_max_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def window_sum_(self, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ...) -> _Self: ...
    def xlog1py_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def xlogy_(self, y: _Any = ..., *, other: _Any = ...) -> _Self: ...
    def zeta_(self, y: _Any = ..., *, other: _Any = ..., q: _Any = ...) -> _Self: ...
