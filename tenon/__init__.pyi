"""Made from the definitions of ops by `python -m tenon.tools.stubs`."""


import builtins as _b
from collections.abc import Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal

from tenon.dialects.types.types import ANY_TENSOR as ANY_TENSOR
from tenon.dialects.types.types import BOOL_TENSOR as BOOL_TENSOR
from tenon.runtime.stages import Compiled as Compiled
from tenon.dialects.definition.traits import CpuOnly as CpuOnly
from tenon.dialects.definition.traits import CudaOnly as CudaOnly
from tenon.dialects.types.types import FLOAT_TENSOR as FLOAT_TENSOR
from tenon.autograd.grad_manager import GradManager as GradManager
from tenon.passes.transform.differentiate import GradientError as GradientError
from tenon.dialects.types.types import INTEGER_TENSOR as INTEGER_TENSOR
from tenon.dialects.types.types import INTEGRAL_TENSOR as INTEGRAL_TENSOR
from tenon.dialects.types.shapes import InferenceError as InferenceError
from tenon.runtime.jit import JitFunction as JitFunction
from tenon.dialects.families.opaque import Kernel as Kernel
from tenon.traces.loaded import LoadedFunction as LoadedFunction
from tenon.runtime.stages import Lowered as Lowered
from tenon.dialects.types.types import NUMERIC_TENSOR as NUMERIC_TENSOR
from tenon.dialects.definition.traits import NoGradient as NoGradient
from tenon.eager.tensor import Parameter as Parameter
from tenon.dialects.types.types import STORED_TENSOR as STORED_TENSOR
from tenon.runtime.arguments.arguments import ShapeDtype as ShapeDtype
from tenon.drawing import Size as Size
from tenon.runtime.arguments.interface import SizeMismatchError as SizeMismatchError
from tenon.eager.tensor import Tensor as Tensor
from tenon.runtime.stages import Traced as Traced
from tenon.traces.function import TracedFunction as TracedFunction
from tenon.dialects.definition.value import TracedValueError as TracedValueError
from tenon.dialects.types.size import UndecidedSizeError as UndecidedSizeError
from tenon.dialects.definition.value import Value as Value
from tenon.arrays.inserting import append as append
from tenon.mapping import apply_along_axis as apply_along_axis
from tenon.eager.tensor import as_tensor as as_tensor
from tenon.control_flow import associative_scan as associative_scan
from tenon.dialects.definition.autocast import autocast as autocast
from tenon.drawing import bernoulli as bernoulli
from tenon.arrays.dtypes import bfloat16 as bfloat16
from tenon.arrays.rearranging import broadcast_arrays as broadcast_arrays
from tenon.arrays.rearranging import broadcast_shapes as broadcast_shapes
from tenon.arrays.dtypes import can_cast as can_cast
from tenon.control_flow import checkpoint as checkpoint
from tenon.drawing import clone as clone
from tenon.control_flow import cond as cond
from tenon.arrays.rearranging import cumulative_prod as cumulative_prod
from tenon.arrays.rearranging import cumulative_sum as cumulative_sum
from tenon.custom_rules import custom_gradient as custom_gradient
from tenon.custom_rules import custom_jvp as custom_jvp
from tenon.custom_rules import custom_vjp as custom_vjp
from tenon.arrays.inserting import delete as delete
from tenon.drawing import device as device
from tenon.runtime.arguments.arguments import dim as dim
from tenon.arrays.dtypes import double as double
from tenon.arrays.dtypes import e as e
from tenon.dialects.types.types import element_of as element_of
from tenon.dialects.types.types import element_type as element_type
from tenon.arrays.rearranging import empty as empty
from tenon.arrays.rearranging import empty_like as empty_like
from tenon.eager.modes import enable_grad as enable_grad
from tenon.arrays.dtypes import finfo as finfo
from tenon.arrays.dtypes import float16 as float16
from tenon.arrays.dtypes import float32 as float32
from tenon.arrays.dtypes import float64 as float64
from tenon.control_flow import fori_loop as fori_loop
from tenon.arrays.dtypes import from_dlpack as from_dlpack
from tenon.drawing import from_numpy as from_numpy
from tenon.arrays.integers import gcd as gcd
from tenon.drawing import get_default_device as get_default_device
from tenon.runtime.cpu.threads import get_num_threads as get_num_threads
from tenon.seeds import get_rng_state as get_rng_state
from tenon.transform import grad as grad
from tenon.arrays.dtypes import half as half
from tenon.jacobians import hessian as hessian
from tenon.arrays.dtypes import iinfo as iinfo
from tenon.arrays.dtypes import inf as inf
from tenon.eager.modes import inference_mode as inference_mode
from tenon.arrays.inserting import insert as insert
from tenon.arrays.dtypes import int16 as int16
from tenon.arrays.dtypes import int32 as int32
from tenon.arrays.dtypes import int64 as int64
from tenon.arrays.dtypes import int8 as int8
from tenon.arrays.sets import intersect1d as intersect1d
from tenon.eager.modes import is_grad_enabled as is_grad_enabled
from tenon.drawing import is_tensor as is_tensor
from tenon.arrays.dtypes import isdtype as isdtype
from tenon.arrays.sets import isin as isin
from tenon.jacobians import jacfwd as jacfwd
from tenon.jacobians import jacrev as jacrev
from tenon.runtime.jit import jit as jit
from tenon.transform import jvp as jvp
from tenon.runtime.knobs import knobs as knobs
from tenon.arrays.integers import lcm as lcm
from tenon.transform import linear_transpose as linear_transpose
from tenon.transform import linearize as linearize
from tenon.traces.files import load as load
from tenon.arrays.dtypes import long as long
from tenon.seeds import manual_seed as manual_seed
from tenon.mapping import map as map
from tenon.arrays.rearranging import matrix_transpose as matrix_transpose
from tenon.arrays.rearranging import moveaxis as moveaxis
from tenon.drawing import multinomial as multinomial
from tenon.arrays.dtypes import nan as nan
from tenon.arrays.dtypes import newaxis as newaxis
from tenon.eager.modes import no_grad as no_grad
from tenon.drawing import normal as normal
from tenon.runtime.cpu.threads import num_threads as num_threads
from tenon.drawing import numel as numel
from xdsl.irdl import operand_def as operand_def
from xdsl.irdl import opt_operand_def as opt_operand_def
from xdsl.irdl import opt_result_def as opt_result_def
from tenon.arrays.dtypes import pi as pi
from tenon.mapping import piecewise as piecewise
from tenon.arrays.rearranging import positive as positive
from tenon.drawing import rand as rand
from tenon.drawing import rand_like as rand_like
from tenon.drawing import randint as randint
from tenon.drawing import randn as randn
from tenon.drawing import randn_like as randn_like
from tenon.drawing import randperm as randperm
from tenon.arrays.windows import reduce_window as reduce_window
from tenon.dialects.definition.registry import registry as registry
from tenon.arrays.inserting import resize as resize
from xdsl.irdl import result_def as result_def
from tenon.arrays.dtypes import result_type as result_type
from tenon.control_flow import scan as scan
from tenon.drawing import set_default_device as set_default_device
from tenon.runtime.cpu.threads import set_flush_denormal as set_flush_denormal
from tenon.eager.modes import set_grad_enabled as set_grad_enabled
from tenon.runtime.cpu.threads import set_num_threads as set_num_threads
from tenon.seeds import set_rng_state as set_rng_state
from tenon.arrays.sets import setdiff1d as setdiff1d
from tenon.dialects.definition.settings import setting as setting
from tenon.arrays.sets import setxor1d as setxor1d
from tenon.dialects.types.types import shape_of as shape_of
from tenon.arrays.dtypes import short as short
from tenon.arrays.rearranging import signbit as signbit
from tenon.control_flow import switch as switch
from tenon.eager.tensor import tensor as tensor
from tenon.dialects.definition.registry import tensor_function as tensor_function
from tenon.dialects.definition.tensor_op import tensor_op as tensor_op
from tenon.dialects.types.types import tensor_type as tensor_type
from tenon.arrays.products import tensordot as tensordot
from tenon.traces.function import trace as trace
from xdsl.irdl import traits_def as traits_def
from tenon.mapping import tree_map as tree_map
from tenon.arrays.inserting import trim_zeros as trim_zeros
from tenon.arrays.dtypes import uint16 as uint16
from tenon.arrays.dtypes import uint32 as uint32
from tenon.arrays.dtypes import uint64 as uint64
from tenon.arrays.dtypes import uint8 as uint8
from tenon.arrays.sets import union1d as union1d
from tenon.arrays.sets import unique as unique
from tenon.arrays.sets import unique_all as unique_all
from tenon.arrays.sets import unique_consecutive as unique_consecutive
from tenon.arrays.sets import unique_counts as unique_counts
from tenon.arrays.sets import unique_inverse as unique_inverse
from tenon.arrays.sets import unique_values as unique_values
from tenon.transform import value_and_grad as value_and_grad
from xdsl.irdl import var_operand_def as var_operand_def
from xdsl.irdl import var_result_def as var_result_def
from tenon.arrays.products import vecdot as vecdot
from tenon.mapping import vectorize as vectorize
from tenon.transform import vjp as vjp
from tenon.batching import vmap as vmap
from tenon.control_flow import while_loop as while_loop
from tenon.arrays.dtypes import bool_ as _bool_
from tenon.arrays.dtypes import float32 as _float32
from tenon.arrays.dtypes import int32 as _int32
import tenon.autograd as _autograd
autograd = _autograd
import tenon.cuda as _cuda
cuda = _cuda
import tenon.data as _data
data = _data
import tenon.debug as _debug
debug = _debug
import tenon.func as _func
func = _func
import tenon.linalg as _linalg
linalg = _linalg
import tenon.nn as _nn
nn = _nn
import tenon.onnx as _onnx
onnx = _onnx
import tenon.optim as _optim
optim = _optim
import tenon.quantization as _quantization
quantization = _quantization
import tenon.saving as _saving
saving = _saving
import tenon.testing as _testing
testing = _testing
import tenon.utils as _utils
utils = _utils

__version__: _b.str
bool = _bool_
float = _float32
int = _int32
class ArgReductionOp(_Any): ...
class BinaryOp(_Any): ...
class CombiningOp(_Any): ...
class CompositeOp(_Any): ...
class ContractionOp(_Any): ...
class CumulativeOp(_Any): ...
class ElementwiseOp(_Any): ...
class HostOp(_Any): ...
class IndexMapOp(_Any): ...
class IndexingOp(_Any): ...
class OpaqueOp(_Any): ...
class PrimitiveOp(_Any): ...
class ReductionOp(_Any): ...
class ScatterOp(_Any): ...
class TensorOp(_Any): ...
class UnaryOp(_Any): ...
class WindowOp(_Any): ...

def abs(x: _Any, *, out: _Any = ...) -> _Any:
    """The magnitude of `x`. The least integer stays as it is. The gradient at 0 is 0."""
def absolute(x: _Any, *, out: _Any = ...) -> _Any:
    """The magnitude of `x`. The least integer stays as it is. The gradient at 0 is 0."""
def acos(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [0, pi] whose cosine is `x`; NaN outside of [-1, 1]."""
def acosh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number >= 0 whose hyperbolic cosine is `x`; NaN below 1."""
def adaptive_avg_pool(x: _Any, output_size: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """The mean of each of `output_size` windows that cover the last dimensions of `x` (..., *image). Integers are taken
    as f32. The windows are those of `adaptive_max_pool`."""
def adaptive_max_pool(x: _Any, output_size: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """The largest element of each of `output_size` windows that cover the last dimensions of `x` (..., *image)."""
def add(x: _Any, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ..., out: _Any = ...) -> _Any:
    """The sum of `x` and `y`. Integers wrap."""
def addbmm(x: _Any, batch1: _Any, batch2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the sum of the products (b, m, n) of matrices."""
def addcdiv(x: _Any, tensor1: _Any, tensor2: _Any, *, value: _b.float = ...) -> _Any:
    """x + value * tensor1 / tensor2."""
def addcmul(x: _Any, tensor1: _Any, tensor2: _Any, *, value: _b.float = ...) -> _Any:
    """x + value * tensor1 * tensor2."""
def addmm(x: _Any, mat1: _Any, mat2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the product (m, n) of two matrices."""
def addmv(x: _Any, mat: _Any, vec: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the product of a matrix and a vector."""
def addr(x: _Any, vec1: _Any, vec2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the outer product of two vectors."""
def all(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """Whether all elements of `x` along `axis` are true (not zero); NaN is. True of no elements."""
def allclose(x: _Any, y: _Any = ..., rtol: _b.float = ..., atol: _b.float = ..., equal_nan: _b.bool = ..., *, other: _Any = ...) -> _Any:
    """Whether all elements are close, as `isclose` says: a truth value, and a traced one in a trace."""
def amax(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too."""
def amin(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The smallest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too."""
def aminmax(x: _Any, *, axis: _Any = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The smallest and the largest element along `axis`, or of all."""
def any(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """Whether any element of `x` along `axis` is true (not zero); NaN is. False of no elements."""
def arange(start: _b.float, stop: _b.float | None = ..., step: _b.float = ..., dtype: _b.object = ..., *, device: _b.str | None = ..., requires_grad: _b.bool = ..., end: _Any = ...) -> _Any:
    """The numbers from `start` to before `stop` in steps of `step`; with one number, from 0 to before it."""
def arccos(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [0, pi] whose cosine is `x`; NaN outside of [-1, 1]."""
def arccosh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number >= 0 whose hyperbolic cosine is `x`; NaN below 1."""
def arcsin(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside of [-1, 1]."""
def arcsinh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose hyperbolic sine is `x`."""
def arctan(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [-pi/2, pi/2] whose tangent is `x`."""
def arctan2(y: _Any = ..., x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The angle in [-pi, pi] of the point with ordinate `y` and abscissa `x`. The gradient at (0, 0) is 0."""
def arctanh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
def argmax(x: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The index (i64) of the first largest element of `x` along `axis`, or of the first NaN."""
def argmin(x: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The index (i64) of the first smallest element of `x` along `axis`, or of the first NaN."""
def argpartition(x: _Any = ..., kth: _Any = ..., axis: _b.int | None = ..., *, a: _Any = ..., dim: _Any = ...) -> _Any:
    """The indices (i64) along `axis` of the elements as `partition` rearranges them."""
def argsort(x: _Any, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The indices (i64) that sort `x` along `axis`, smallest element first, or largest first if `descending`."""
def argsort_groups(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The indices (i64) that sort each row of `x` (groups, rows, n). Equal elements keep their order. Elements have at
    most 32 bits."""
def argsort_rows(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The indices (i64) that sort each row of `x` (rows, n), as in `sort_rows`. Equal elements keep their order."""
def argsort_short_rows(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The indices (i32) that sort each row of `x` (rows, n), as in `argsort`. Equal elements keep their order."""
def argwhere(x: _Any, size: _b.int, fill_value: _b.int | _Sequence[_b.int] = ..., *, out: _Any = ...) -> _Any:
    """The indices (`size`, rank of `x`; i64) of the elements of `x` that are not zero, in row-major order."""
def array_split(x: _Any, indices_or_sections: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """`x` cut along `axis` before each of the places of a sequence, or into a number of parts, of which the first ones
    are larger by one where they cannot be equal."""
def asarray(x: _Any, dtype: _b.object = ..., *, device: _b.str | None = ..., copy: _b.bool | None = ...) -> _Any:
    """`x` (traced, an array or nested numbers) as a tensor of `dtype`: by default its own, f32 for Python's floats."""
def asin(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside of [-1, 1]."""
def asinh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose hyperbolic sine is `x`."""
def astype(x: _Any, dtype: _Any, *, copy: _Any = ..., device: _Any = ..., out: _Any = ...) -> _Any:
    """`x` converted to `dtype`."""
def atan(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle in [-pi/2, pi/2] whose tangent is `x`."""
def atan2(y: _Any = ..., x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The angle in [-pi, pi] of the point with ordinate `y` and abscissa `x`. The gradient at (0, 0) is 0."""
def atanh(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose hyperbolic tangent is `x`; NaN outside of [-1, 1]."""
def atleast_1d(x: _Any) -> _Any:
    """`x`, and a number as a vector of one element."""
def atleast_2d(x: _Any) -> _Any:
    """`x`, with axes of size 1 in front up to two."""
def average(x: _Any, axis: _Any = ..., weights: _Any = ..., returned: _b.bool = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The mean along `axis`, or of all elements, in which each counts by its one of `weights`, which have the shape of
    `x` or are a vector along the one axis; with `returned`, and the sums of the weights. Integers are taken as floats."""
def avg_pool(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The mean of each window of `x` (..., *image). Integers are taken as f32."""
def avg_pool1d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The mean of each window of `x` (..., length). Integers are taken as f32. The settings are those of `avg_pool`."""
def avg_pool2d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The mean of each window of `x` (..., height, width). Integers are taken as f32."""
def avg_pool3d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., count_include_pad: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The mean of each window of `x` (..., depth, height, width). Integers are taken as f32. The settings are those of
    `avg_pool`."""
def baddbmm(x: _Any, batch1: _Any, batch2: _Any, *, beta: _b.float = ..., alpha: _b.float = ...) -> _Any:
    """`beta` times `x`, which is broadcast, and `alpha` times the products (b, m, n) of matrices."""
def band(shape: _b.int | _Sequence[_b.int], lower: _b.int | None = ..., upper: _b.int | None = ..., *, out: _Any = ...) -> _Any:
    """Whether `lower <= column - row <= upper` at each place of the matrices in a tensor of `shape`."""
def batch_norm(x: _Any, mean: _Any, variance: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` normalized per channel by known statistics: (x - `mean`) / sqrt(`variance` + eps) * `weight` + `bias`."""
def batch_norm_training(x: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` normalized per channel by its own statistics; returns the result, the mean and the variance of each channel."""
def batch_norm_update(x: _Any, running_mean: _Any, running_variance: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., momentum: _b.float = ..., ddof: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`batch_norm_training` with running statistics, which follow those of the batch; returns the result and both."""
def binary_cross_entropy(x: _Any, target: _Any, weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """-(`target` log `x` + (1 - `target`) log(1 - `x`)) times `weight`, for a probability `x`: by default, its mean."""
def binary_cross_entropy_with_logits(logits: _Any, target: _Any, weight: _Any = ..., positive_weight: _Any = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, pos_weight: _Any = ..., out: _Any = ...) -> _Any:
    """The mean of -(`target` log sigmoid(`logits`) + (1 - `target`) log sigmoid(-`logits`)), without overflow."""
def bincount(x: _Any, weights: _Any = ..., minlength: _b.int = ...) -> _Any:
    """How often each integer from 0 on is in the vector `x`, or the sums of the `weights` of each."""
def bitcast(x: _Any, dtype: _Any, *, out: _Any = ...) -> _Any:
    """The bits of `x` taken as an element of `dtype`, which has the same width. Truth values have none."""
def bitwise_and(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits set in both `x` and `y`; on truth values, whether both are true."""
def bitwise_count(x: _Any, *, out: _Any = ...) -> _Any:
    """How many bits of the magnitude of `x` are set, in the dtype of `x` (NumPy gives uint8)."""
def bitwise_invert(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` with every bit flipped; the opposite of a truth value."""
def bitwise_left_shift(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
def bitwise_not(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` with every bit flipped; the opposite of a truth value."""
def bitwise_or(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits set in `x` or `y`; on truth values, whether one is true."""
def bitwise_right_shift(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
def bitwise_xor(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits in which `x` and `y` differ; on truth values, whether they differ."""
def block_diag(*tensors: _Any) -> _Any:
    """Matrices along the diagonal of one that is 0 elsewhere; vectors are rows, and numbers matrices of one element."""
def bmm(x: _Any, y: _Any = ..., *, mat2: _Any = ...) -> _Any:
    """The products (b, m, n) of the matrices of `x` (b, m, k) and `y` (b, k, n), one each."""
def broadcast_tensors(*tensors: _Any) -> _Any:
    """Each of the tensors, broadcast to the shape in which they meet."""
def broadcast_to(x: _Any, shape: _b.int | _Sequence[_b.int] = ..., *, size: _Any = ..., out: _Any = ...) -> _Any:
    """`x` repeated along its axes of size 1, and along new leading axes, up to `shape`; -1 keeps the size of `x`."""
def bucketize(x: _Any, boundaries: _Any, *, right: _b.bool = ...) -> _Any:
    """Between which `boundaries`, in ascending order, each element lies: the number of those below it, or, with
    `right`, not above it."""
def cartesian_prod(*tensors: _Any) -> _Any:
    """All rows (n, k) of which the i-th element is one of the i-th of k vectors, of which the last changes fastest; of
    one vector, that itself."""
def cast(x: _Any, dtype: _Any, *, copy: _Any = ..., device: _Any = ..., out: _Any = ...) -> _Any:
    """`x` converted to `dtype`."""
def cat(tensors: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The `tensors` one behind the other along `axis`. They have one rank and agree in all other sizes."""
def cbrt(x: _Any, *, out: _Any = ...) -> _Any:
    """The cube root of `x`, of negative numbers, too. The gradient at 0 is infinite."""
def cdist(x: _Any = ..., y: _Any = ..., p: _b.float = ..., compute_mode: _b.str | None = ..., *, x1: _Any = ..., x2: _Any = ...) -> _Any:
    """The distances (..., m, n) in the norm `p` of the rows of `x` (..., m, k) to those of `y` (..., n, k). Where one
    is 0 its gradient is 0. Differences are never taken from products, whatever `compute_mode` of PyTorch's says."""
def ceil(x: _Any, *, out: _Any = ...) -> _Any:
    """The smallest whole number not below `x`. Integers stay as they are. The gradient is 0."""
def celu(x: _Any, alpha: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The positive entries of `x`, `alpha` times (exp(x / alpha) - 1) for the others (Barron, arXiv:1704.07483)."""
def cholesky(x: _Any, upper: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The lower triangular matrices l with l l^T = `x`, of symmetric positive definite matrices (..., n, n); with
    `upper` the upper ones u with u^T u = x. Of others the symmetric part counts. Raises `LinAlgError` where
    there are none."""
def cholesky_inverse(factor: _Any = ..., upper: _b.bool = ..., *, L: _Any = ...) -> _Any:
    """The inverses of the matrices (..., n, n) of which `cholesky` gives the lower triangular `factor`, or the `upper`
    one."""
def cholesky_solve(b: _Any = ..., factor: _Any = ..., upper: _b.bool = ..., *, B: _Any = ..., L: _Any = ..., input2: _Any = ...) -> _Any:
    """The solution x of a x = `b` (..., n, k) by what `cholesky` gives of `a`, the lower triangular `factor` (..., n,
    n), or the `upper` one."""
def choose(x: _Any = ..., choices: _Any = ..., *, a: _Any = ...) -> _Any:
    """Of `choices`, which broadcast with `x`, at each place that whose number the integer there is. Those that are not
    there are moved to the nearest one."""
def chunk(x: _Any, chunks: _b.int, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """`x` cut along `axis` into at most `chunks` parts of one size, of which the last may be smaller."""
def clamp(x: _Any, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ..., out: _Any = ...) -> _Any:
    """`x` limited to [`low`, `high`], either of which may be left out; `high` where `low` is above it. NaN stays."""
def clamp_max(x: _Any, max: _Any) -> _Any:
    """`x`, and `max` where it is greater."""
def clamp_min(x: _Any, min: _Any) -> _Any:
    """`x`, and `min` where it is less."""
def clip(x: _Any, low: _Any = ..., high: _Any = ..., *, min: _Any = ..., max: _Any = ..., out: _Any = ...) -> _Any:
    """`x` limited to [`low`, `high`], either of which may be left out; `high` where `low` is above it. NaN stays."""
def column_stack(tensors: _Any) -> _Any:
    """Tensors beside each other, along their second axis; vectors are columns."""
def combinations(x: _Any, r: _b.int = ..., with_replacement: _b.bool = ...) -> _Any:
    """All choices (n, `r`) of `r` elements of the vector `x`, each in their order there; with `with_replacement`, of
    which each may be chosen again."""
def compress(condition: _Any, x: _Any, axis: _b.int | None = ...) -> _Any:
    """The elements of `x` along `axis` for which `condition` (n,) is true; without `axis`, of all in row-major order."""
def concat(tensors: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The `tensors` one behind the other along `axis`. They have one rank and agree in all other sizes."""
def concatenate(tensors: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The `tensors` one behind the other along `axis`. They have one rank and agree in all other sizes."""
def constant(value: _Any, *, out: _Any = ...) -> _Any:
    """The array `value`, known when the program is compiled."""
def contract(factors: _Any, maps: _Any, extents: _b.int | _Sequence[_b.int], shape: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """The sum, over loops of the given `extents`, of the product of `factors`: the general contraction."""
def conv(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The convolution of images `x` (n, c, ...image) with `weight` (f, c / groups, ...window), plus `bias` (f,)."""
def conv1d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The convolution of signals `x` (n, c, length) with `weight` (f, c / groups, k), plus `bias` (f,): see `conv`."""
def conv2d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The convolution of images `x` (n, c, height, width) with `weight` (f, c / groups, kh, kw), plus `bias` (f,)."""
def conv3d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The convolution of volumes `x` (n, c, depth, height, width) with `weight` (f, c / groups, kd, kh, kw), plus
    `bias` (f,): see `conv`."""
def conv_transpose(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """The transposed convolution of images `x` (n, c, ...image) with `weight` (c, f / groups, ...window), plus `bias`
    (f,): each element of `x` adds the weight, times itself, to a window of the result."""
def conv_transpose1d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """The transposed convolution of signals `x` (n, c, length) with `weight` (c, f / groups, k), plus `bias` (f,): see
    `conv_transpose`."""
def conv_transpose2d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """The transposed convolution of images `x` (n, c, height, width) with `weight` (c, f / groups, kh, kw), plus `bias`
    (f,): see `conv_transpose`."""
def conv_transpose3d(x: _Any, weight: _Any, bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., output_padding: _b.int | _Sequence[_b.int] = ..., output_size: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """The transposed convolution of volumes `x` (n, c, depth, height, width) with `weight` (c, f / groups, kd, kh, kw),
    plus `bias` (f,): see `conv_transpose`."""
def convolution(x: _Any, weight: _Any, stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, out: _Any = ...) -> _Any:
    """Windows of `x` (n, groups, c, ...image) times `weight` (groups, f, c, ...window), added up within each window."""
def convolve(x: _Any = ..., weight: _Any = ..., mode: _b.str = ..., *, a: _Any = ..., v: _Any = ...) -> _Any:
    """The convolution of two vectors of n and m elements: n + m - 1 sums of products of elements whose indices have one
    sum; of them the max(n, m) in the middle ("same"), or those in which all of one vector takes part ("valid")."""
def copy(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` itself, as a value of its own: differentiating with respect to it leaves other uses of `x` alone."""
def copysign(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The magnitude of `x` with the sign of `y`, of zeros, too. The gradient at 0 is 0, and none goes to `y`."""
def corrcoef(x: _Any) -> _Any:
    """The correlations (m, m) of the rows of `x` (m, n): their covariances over the roots of both variances."""
def correlate(x: _Any = ..., weight: _Any = ..., mode: _b.str = ..., *, a: _Any = ..., v: _Any = ...) -> _Any:
    """The sums of products of `weight` with the elements of `x` below it as it slides along: the convolution with
    `weight` in reverse order."""
def cos(x: _Any, *, out: _Any = ...) -> _Any:
    """The cosine of `x` (in radians)."""
def cosh(x: _Any, *, out: _Any = ...) -> _Any:
    """The hyperbolic cosine of `x`."""
def cosine_embedding_loss(x: _Any = ..., y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ..., out: _Any = ...) -> _Any:
    """1 - cos(`x`, `y`) where `target` is 1, max(0, cos(`x`, `y`) - `margin`) where it is -1."""
def cosine_similarity(x: _Any = ..., y: _Any = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., other: _Any = ..., x1: _Any = ..., x2: _Any = ..., out: _Any = ...) -> _Any:
    """The cosine of the angle between `x` and `y`, which broadcast, along `axis`: x y / (|x| |y|)."""
def count_nonzero(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """How many elements (i64) of `x` along `axis` are not zero."""
def cov(x: _Any, correction: _b.float = ...) -> _Any:
    """The covariances (m, m) of the rows of `x` (m, n), each of which is a variable: the sums of the products of their
    differences from the means, over n - `correction`."""
def cross(x: _Any = ..., y: _Any = ..., *, axis: _b.int = ..., x1: _Any = ..., x2: _Any = ..., other: _Any = ..., dim: _Any = ...) -> _Any:
    """The vectors at right angles to those of `x` and `y`, of three elements along `axis`; other axes broadcast."""
def cross_entropy(logits: _Any, labels: _Any = ..., weight: _Any = ..., label_smoothing: _b.float = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ..., out: _Any = ...) -> _Any:
    """The mean over all samples of -log softmax(`logits`) at the class in `labels`, times its weight."""
def cummax(x: _Any, axis: _b.int = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The largest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
    in PyTorch. NaN counts as larger than everything."""
def cummin(x: _Any, axis: _b.int = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The smallest elements of `x` up to each place along `axis`, and their indices (i64): the latest of equal ones, as
    in PyTorch. NaN counts as smaller than everything."""
def cumprod(x: _Any, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """The products of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap. NumPy
    flattens by default; here `axis` is 0."""
def cumsum(x: _Any, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """The sums of the elements of `x` up to each place along `axis`. Integers keep their dtype and wrap; truth values
    are counted as i64. NumPy flattens by default; here `axis` is 0."""
def cumulative_trapezoid(y: _Any, x: _Any = ..., *, dx: _b.float = ..., axis: _b.int = ..., dim: _Any = ...) -> _Any:
    """The areas below `y` along `axis` up to each point but the first, by trapezoids, as `trapezoid` has them."""
def deform_conv(x: _Any, weight: _Any, offset: _Any, mask: _Any = ..., bias: _Any = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., groups: _b.int = ..., offset_groups: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The convolution of images `x` (n, c, *image), each element of a window moved by `offset`, with `weight`."""
def deg2rad(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle of `x` degrees in radians."""
def degrees(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle of `x` radians in degrees."""
def depth_to_space(x: _Any, block: _b.int, mode: _Literal['DCR', 'CRD'] = ..., *, out: _Any = ...) -> _Any:
    """`x` (..., c, h, w) with `block` times `block` channels made squares of pixels: (..., c / block², h block,
    w block)."""
def det(x: _Any, *, out: _Any = ...) -> _Any:
    """The determinants (...,) of the square matrices `x` (..., n, n), by elimination with partial pivoting."""
def detach(x: _Any, *, out: _Any = ...) -> _Any:
    """`x`, taken as a constant by differentiation."""
def dft(x: _Any, axis: _b.int = ..., length: _b.int | None = ..., inverse: _b.bool = ..., onesided: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The discrete Fourier transform of `x` (..., 2), pairs of real and imaginary part, or (..., 1), real numbers."""
def diag(x: _Any, k: _b.int = ..., *, diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The matrix with `x` (n,) on its diagonal `k` and zeros elsewhere, or diagonal `k` of a matrix `x`."""
def diag_embed(x: _Any, offset: _b.int = ..., dim1: _b.int = ..., dim2: _b.int = ...) -> _Any:
    """Matrices of zeros along two new axes, `dim1` and `dim2` of the result, with the last axis of `x` on a diagonal,
    `offset` above the main one."""
def diagflat(x: _Any, offset: _b.int = ..., *, k: _Any = ...) -> _Any:
    """The matrix with all elements of `x`, in row-major order, on its diagonal `offset`, and zeros elsewhere."""
def diagonal(x: _Any, offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dim1: _Any = ..., dim2: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` whose index along `axis2` is `offset` more than that along `axis1`, along a new last axis."""
def diagonal_scatter(x: _Any, source: _Any = ..., offset: _b.int = ..., axis1: _b.int = ..., axis2: _b.int = ..., *, dim1: _Any = ..., dim2: _Any = ..., src: _Any = ...) -> _Any:
    """`x` with `source` in the place of what `diagonal` gives of it."""
def diff(x: _Any, n: _b.int = ..., axis: _b.int = ..., *, prepend: _Any = ..., append: _Any = ..., dim: _Any = ...) -> _Any:
    """The differences of neighbours along `axis`, `n` times; `prepend` and `append` are put before and behind `x`."""
def digamma(x: _Any, *, out: _Any = ...) -> _Any:
    """The derivative of log Gamma at `x`; -inf at 0.0, inf at -0.0, NaN at negative whole numbers and -inf."""
def digitize(x: _Any, bins: _Any, right: _b.bool = ...) -> _Any:
    """Between which of `bins`, which rise, or fall if they are known, each element lies: the number of those not above
    it, or, with `right`, below it; of bins that fall, of those above it."""
def dilate(x: _Any, steps: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """`x` with `steps[i]` - 1 zeros between neighbours along each axis i, so that those are `steps[i]` apart."""
def dist(x: _Any, y: _Any = ..., p: _b.float = ..., *, other: _Any = ...) -> _Any:
    """The norm `p` of all elements of `x` - `y`, as of one vector; where it is 0 its gradient is 0."""
def div(x: _Any, y: _Any = ..., *, rounding_mode: _b.str | None = ..., other: _Any = ...) -> _Any:
    """x / y, or that rounded down (`rounding_mode="floor"`) or toward zero (`"trunc"`), in the dtype of both then."""
def divide(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The quotient of `x` and `y`. Integers are taken as f32 (NumPy takes them as f64)."""
def dot(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The sum of products of the vectors `x` and `y` (k). As in PyTorch, matrices are refused: that is `matmul`."""
def dropout(x: _Any, key: _Any, rate: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` with each element set to 0 with probability `rate`, and the others scaled by 1 / (1 - `rate`)."""
def dropout_with_mask(x: _Any, key: _Any, rate: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`dropout`, and which elements of `x` it keeps (i1); returns both."""
def dsplit(x: _Any, indices_or_sections: _Any) -> _Any:
    """`x`, of rank 3 at least, cut along its third axis: before each of the places of a sequence, or into a number of
    equal parts."""
def dstack(tensors: _Any) -> _Any:
    """Tensors behind each other: along their third axis, which matrices get, and vectors as rows of these."""
def dynamic_slice(x: _Any, starts: _Any, sizes: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """The slice of `x`, of the given `sizes`, that begins at `starts` (rank,)."""
def dynamic_update_slice(x: _Any, update: _Any, starts: _Any, *, out: _Any = ...) -> _Any:
    """`x` with `update` in the place of the slice that begins at `starts` (rank,) and has its shape."""
def ediff1d(x: _Any, to_end: _Any = ..., to_begin: _Any = ...) -> _Any:
    """The differences of neighbours among all elements of `x` in a row, behind `to_begin` and before `to_end`."""
def eigh(x: _Any, *, out: _Any = ...) -> _Any:
    """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order, and as columns (..., n,
    n) eigenvectors of length 1. Of other matrices the symmetric part counts."""
def eigvalsh(x: _Any, *, out: _Any = ...) -> _Any:
    """The eigenvalues (..., n) of the symmetric matrices `x` (..., n, n), in ascending order. Of others the symmetric
    part counts."""
def einsum(equation: _b.str, *operands: _Any, optimize: _Any = ...) -> _Any:
    """Sums of products in Einstein notation, as NumPy's: `einsum("bij,bjk->bik", x, y)`."""
def elu(x: _Any, alpha: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The positive entries of `x`, `alpha` times (exp(x) - 1) for the others. The gradient at 0 is `alpha`."""
def embedding(weight: _Any, indices: _Any = ..., *, index: _Any = ..., out: _Any = ...) -> _Any:
    """The rows of `weight` (rows, ...) at `indices` (integers, of any shape)."""
def entr(x: _Any, *, out: _Any = ...) -> _Any:
    """-`x` log(`x`), which is 0 at 0; -inf below."""
def eq(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` and `y` are equal. NaN equals nothing."""
def equal(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` and `y` are equal. NaN equals nothing."""
def erf(x: _Any, *, out: _Any = ...) -> _Any:
    """The error function of `x`: 2/sqrt(pi) times the integral of exp(-t^2) for t from 0 to `x`."""
def erfc(x: _Any, *, out: _Any = ...) -> _Any:
    """The complementary error function of `x`: 1 - erf(x), exact where that is small, too."""
def erfcinv(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose complementary error function is `x`: infinite at 0 and 2, NaN outside of [0, 2]."""
def erfcx(x: _Any, *, out: _Any = ...) -> _Any:
    """exp(`x`^2) times the complementary error function of `x`, which does not vanish for large `x`."""
def erfinv(x: _Any, *, out: _Any = ...) -> _Any:
    """The number whose error function is `x`: infinite at -1 and 1, NaN outside of [-1, 1]."""
def exp(x: _Any, *, out: _Any = ...) -> _Any:
    """e to the power `x`."""
def exp2(x: _Any, *, out: _Any = ...) -> _Any:
    """2 to the power `x`."""
def expand(x: _Any, shape: _b.int | _Sequence[_b.int] = ..., *, size: _Any = ..., out: _Any = ...) -> _Any:
    """`x` repeated along its axes of size 1, and along new leading axes, up to `shape`; -1 keeps the size of `x`."""
def expand_as(x: _Any, other: _Any) -> _Any:
    """`x` broadcast to the shape of `other`."""
def expand_dims(x: _Any, axis: _b.int | _Sequence[_b.int] = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with a new axis of size 1 at each position `axis` of the result."""
def expit(x: _Any, *, out: _Any = ...) -> _Any:
    """The logistic function of `x`: 1 / (1 + exp(-x)), without overflow."""
def expm1(x: _Any, *, out: _Any = ...) -> _Any:
    """e to the power `x`, less one; accurate near 0."""
def extract(condition: _Any, x: _Any = ..., *, arr: _Any = ...) -> _Any:
    """The elements of `x`, in row-major order, where `condition`, of as many elements, is true. It must be known while
    tracing, since the size of the result depends on it."""
def eye(n: _b.int, m: _b.int | None = ..., k: _b.int = ..., dtype: _b.object = ..., *, device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
    """A matrix (`n`, `m`) of zeros, square unless `m` is given, with ones on diagonal `k`."""
def fill_diagonal(x: _Any = ..., val: _Any = ..., *, a: _Any = ...) -> _Any:
    """`x` with a number, or elements one after the other, where the indices along all axes are equal."""
def fix(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` rounded toward zero. Integers stay as they are. The gradient is 0."""
def flatnonzero(x: _Any = ..., size: _b.int | None = ..., fill_value: _b.int = ..., *, a: _Any = ...) -> _Any:
    """The numbers, in row-major order, of the elements of `x` that are not zero. Of arrays `size` may be left out, and
    is then how many these are; a traced function has to state it."""
def flatten(x: _Any, start_dim: _b.int = ..., end_dim: _b.int = ...) -> _Any:
    """`x` with its axes from `start_dim` to `end_dim`, both included, made one."""
def flip(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` in reverse order along `axis`; without it, along all axes."""
def fliplr(x: _Any) -> _Any:
    """`x` with its columns in reverse order."""
def flipud(x: _Any) -> _Any:
    """`x` with its rows in reverse order."""
def float_power(x: _Any, y: _Any = ..., *, exponent: _Any = ...) -> _Any:
    """`x` to the power of `y`, both as f64."""
def floor(x: _Any, *, out: _Any = ...) -> _Any:
    """The largest whole number not above `x`. Integers stay as they are. The gradient is 0."""
def floor_divide(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The quotient of `x` and `y` rounded down, as Python's `//`."""
def fmax(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The greater of two elements; the other where one is NaN."""
def fmin(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The lesser of two elements; the other where one is NaN."""
def fmod(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """What remains of `x` after division by `y`, with the sign of `x`, as C's `fmod` and `%`. Integers modulo 0 give 0."""
def fold(x: _Any, size: _b.int | _Sequence[_b.int], window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The sum of windows `x` (n, c * elements, windows), each put back to where it lies in an image: (n, c, *size)."""
def fold_in(key: _Any, number: _Any) -> _Any:
    """A new key (2 words, i32) for `key` and an integer `number`, of which the lowest 32 bits count: different numbers
    give unrelated keys."""
def frac(x: _Any) -> _Any:
    """What `x` has behind the point, with its sign."""
def frexp(x: _Any) -> _Any:
    """Numbers m with magnitudes from 1/2 to before 1, and integers n (i32), such that `x` = m 2^n; m is `x` and n 0 for
    what is 0 or not finite."""
def full(shape: _Any = ..., value: _Any = ..., dtype: _b.object = ..., *, device: _b.str | None = ..., requires_grad: _b.bool = ..., fill_value: _Any = ..., size: _Any = ...) -> _Any:
    """A tensor of `shape` and `dtype` whose elements are all `value`, which may be named `fill_value`."""
def full_like(x: _Any, value: _b.float = ..., *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., fill_value: _Any = ...) -> _Any:
    """A tensor of `x`'s shape and dtype, or of another `dtype`, whose elements are all `value`."""
def gammainc(a: _Any, x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The lower incomplete gamma function of `a` and `x`, regularized: the integral of t^(a - 1) exp(-t) from 0 to `x`,
    over that to infinity, which is Gamma(`a`). It is 1 where `a` is 0; NaN if an operand is negative, or both are 0 or
    infinite."""
def gammaincc(a: _Any, x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The upper incomplete gamma function of `a` and `x`, regularized: 1 - gammainc(`a`, `x`), exact where that is
    small, too."""
def gammaln(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers."""
def gather(x: _Any, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...]."""
def gather_elements(x: _Any, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` at `indices` along `axis`, everything else being equal: result[i, j] = x[indices[i, j], j]."""
def gather_nd(x: _Any, indices: _Any = ..., batch_dims: _b.int = ..., *, index: _Any = ..., out: _Any = ...) -> _Any:
    """The parts of `x` at `indices`, whose last axis holds indices for the first axes of `x`: x[indices[i]] for each i."""
def ge(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is `y` or above; false for NaN."""
def gelu(x: _Any, approximate: _Literal['none', 'tanh'] = ..., *, out: _Any = ...) -> _Any:
    """`x` times the probability that a standard normal variable is below `x` (Hendrycks and Gimpel, arXiv:1606.08415)."""
def geomspace(start: _b.float, stop: _b.float, num: _b.int = ..., *, endpoint: _b.bool = ..., dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
    """`num` numbers from `start` to `stop`, known ones of one sign, each the same multiple of the one before."""
def global_avg_pool(x: _Any, *, out: _Any = ...) -> _Any:
    """The mean of each channel of `x` (n, c, ...image), as (n, c, 1, ...). Integers are taken as f32."""
def global_lp_pool(x: _Any, p: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The p-norm of each channel of `x` (n, c, ...image), as (n, c, 1, ...): (sum of |x|**p)**(1 / p). Integers are
    taken as f32. The gradient at a channel of zeros is 0."""
def global_max_pool(x: _Any, *, out: _Any = ...) -> _Any:
    """The largest element of each channel of `x` (n, c, ...image), as (n, c, 1, ...); NaN if there is any."""
def glu(x: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The first half of `x` along `axis` times the logistic function of the second."""
def gradient(x: _Any, *distances: _Any, axis: _Any = ..., edge_order: _b.int = ..., spacing: _Any = ..., dim: _Any = ...) -> _Any:
    """The slopes of `x` along each axis, or those of `axis`, by differences of neighbours, exact for parabolas; at the
    ends of order `edge_order`, 1 or 2. Neighbours are 1 apart, or as `distances` say (in PyTorch `spacing`): one
    number for all axes, or for each axis a number, or a vector of where the elements are."""
def greater(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is above `y`; false for NaN, and True is above False."""
def greater_equal(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is `y` or above; false for NaN."""
def grid_sample(x: _Any, grid: _Any, mode: _Literal['linear', 'nearest', 'cubic'] = ..., padding_mode: _Literal['zeros', 'border', 'reflection'] = ..., align_corners: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """Images `x` (n, c, *image) interpolated at the places that `grid` (n, *out, rank) states: (n, c, *out)."""
def group_norm(x: _Any, weight: _Any = ..., bias: _Any = ..., *, groups: _b.int, eps: _b.float = ..., out: _Any = ...) -> _Any:
    """`x` (n, channels, ...) brought to mean 0 and variance 1 in each of `groups` groups of channels of each sample."""
def gt(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is above `y`; false for NaN, and True is above False."""
def hard_sigmoid(x: _Any, alpha: _b.float = ..., beta: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`alpha` `x` + `beta`, limited to [0, 1]; NaN stays. The gradient at the kinks is 0."""
def hard_swish(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` times its hard sigmoid of slope 1/6: 0 up to -3, `x` from 3 on (Howard et al., arXiv:1905.02244)."""
def hardmax(x: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """1 at the first largest element of `x` along `axis`, or at the first NaN, and 0 elsewhere."""
def hardshrink(x: _Any, lambd: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The entries of `x` outside of [-`lambd`, `lambd`], 0 for the others, where the gradient is 0; NaN stays."""
def hardsigmoid(x: _Any, alpha: _b.float = ..., beta: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`alpha` `x` + `beta`, limited to [0, 1]; NaN stays. The gradient at the kinks is 0."""
def hardswish(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` times its hard sigmoid of slope 1/6: 0 up to -3, `x` from 3 on (Howard et al., arXiv:1905.02244)."""
def hardtanh(x: _Any, min_val: _b.float = ..., max_val: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` limited to [`min_val`, `max_val`]; NaN stays. The gradient on the bounds is 0."""
def heaviside(x: _Any, values: _Any, *, out: _Any = ...) -> _Any:
    """0 where `x` is negative, 1 where it is positive, `values` where it is 0; NaN for NaN."""
def hinge_embedding_loss(x: _Any, target: _Any, margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """`x` where `target` is 1, max(0, `margin` - `x`) where it is -1: by default, the mean."""
def hinge_loss(x: _Any, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """max(0, 1 - `target` `x`) for a `target` of 1 or -1: by default, its mean."""
def histc(x: _Any, bins: _b.int = ..., min: _b.float = ..., max: _b.float = ...) -> _Any:
    """How many elements of `x` lie in each of `bins` equal parts of [min, max], in the dtype of `x`, or i64 if that is
    an integer; others do not count. Where both are the same, the least and the greatest element are meant."""
def histogram(x: _Any = ..., bins: _Any = ..., range: _Any = ..., weights: _Any = ..., density: _b.bool = ..., *, a: _Any = ..., weight: _Any = ...) -> _Any:
    """How many elements of `x` lie between neighbouring edges (i64), or the sums of their `weights`, and the edges: a
    vector `bins`, or those of so many equal parts of `range`, of all elements without it. The last part has both of its
    edges. With `density`, over the widths and the sum of all: an integral of 1."""
def hsplit(x: _Any, indices_or_sections: _Any) -> _Any:
    """`x` cut along its second axis, vectors along their only one: before each of the places of a sequence, or into a
    number of equal parts."""
def hstack(tensors: _Any) -> _Any:
    """Tensors beside each other: along their second axis, vectors along their only one."""
def huber_loss(x: _Any, target: _Any, delta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """`d`^2 / 2 for a difference `d` of `x` and `target` up to `delta`, `delta` (|d| - `delta` / 2) above."""
def hypot(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The distance of the point (`x`, `y`) from the origin, without overflow; inf if either is infinite."""
def i0(x: _Any, *, out: _Any = ...) -> _Any:
    """The modified Bessel function of the first kind of order 0 of `x`."""
def i0e(x: _Any, *, out: _Any = ...) -> _Any:
    """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 0 of `x`."""
def i1(x: _Any, *, out: _Any = ...) -> _Any:
    """The modified Bessel function of the first kind of order 1 of `x`."""
def i1e(x: _Any, *, out: _Any = ...) -> _Any:
    """exp(-abs(`x`)) times the modified Bessel function of the first kind of order 1 of `x`."""
def identity(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` itself, as a value of its own: differentiating with respect to it leaves other uses of `x` alone."""
def igamma(a: _Any, x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The lower incomplete gamma function of `a` and `x`, regularized: the integral of t^(a - 1) exp(-t) from 0 to `x`,
    over that to infinity, which is Gamma(`a`). It is 1 where `a` is 0; NaN if an operand is negative, or both are 0 or
    infinite."""
def igammac(a: _Any, x: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The upper incomplete gamma function of `a` and `x`, regularized: 1 - gammainc(`a`, `x`), exact where that is
    small, too."""
def index_add(x: _Any, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, dim: _Any = ...) -> _Any:
    """`x` with the parts of `source` added at the places `index`, a vector of integers, along `axis`."""
def index_copy(x: _Any, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, dim: _Any = ...) -> _Any:
    """`x` with the parts of `source` at the places `index`, a vector of integers, along `axis`."""
def index_fill(x: _Any, axis: _b.int = ..., index: _Any = ..., value: _b.float = ..., *, dim: _Any = ...) -> _Any:
    """`x` with a number at the places `index`, a vector of integers, along `axis`."""
def index_put(x: _Any, indices: _Any, values: _Any, accumulate: _b.bool = ...) -> _Any:
    """`x` after x[indices] = values, which broadcast, or with `accumulate` after these are added there. The indices are
    arrays of integers, which broadcast against each other, or of truth values, for the first axes of `x`."""
def index_select(x: _Any, axis: _b.int = ..., index: _Any = ..., *, dim: _Any = ...) -> _Any:
    """The elements of `x` at the places `index`, a vector of integers, along `axis`."""
def inner(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The sums of products along the last axes of `x` (m..., k) and `y` (n..., k), as (m..., n...)."""
def instance_norm(x: _Any, weight: _Any = ..., bias: _Any = ..., eps: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` (n, channels, ...) brought to mean 0 and variance 1 in each channel of each sample."""
def interp(x: _Any, xp: _Any, fp: _Any, left: _Any = ..., right: _Any = ...) -> _Any:
    """The values at `x` of the function that is `fp` (n,) at `xp` (n,), which rises, and straight in between."""
def inv(x: _Any, *, out: _Any = ...) -> _Any:
    """The inverses of the square matrices `x` (..., n, n). Raises `LinAlgError` for one that is singular. To multiply
    by an inverse, `solve` is faster and more exact."""
def inverse(x: _Any, *, out: _Any = ...) -> _Any:
    """The inverses of the square matrices `x` (..., n, n). Raises `LinAlgError` for one that is singular. To multiply
    by an inverse, `solve` is faster and more exact."""
def invert(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` with every bit flipped; the opposite of a truth value."""
def invert_permutation(x: _Any, *, out: _Any = ...) -> _Any:
    """The permutation that undoes `x` (n,), which holds each of 0, ..., n - 1 once: result[x[i]] = i."""
def iota(shape: _b.int | _Sequence[_b.int], axis: _b.int = ..., dtype: _Any = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The index along `axis` of every element of a tensor of `shape` and `dtype`: 0, 1, 2, ..."""
def isclose(x: _Any, y: _Any = ..., rtol: _b.float = ..., atol: _b.float = ..., equal_nan: _b.bool = ..., *, other: _Any = ...) -> _Any:
    """Whether |x - y| ≤ atol + rtol * |y|, or both are the same infinity; with `equal_nan`, or both are NaN."""
def isfinite(x: _Any, *, out: _Any = ...) -> _Any:
    """Whether `x` is neither infinite nor NaN."""
def isinf(x: _Any, detect_negative: _b.bool = ..., detect_positive: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """Whether `x` is infinite: negative (unless not `detect_negative`) or positive (unless not `detect_positive`)."""
def isnan(x: _Any, *, out: _Any = ...) -> _Any:
    """Whether `x` is NaN."""
def kl_div(x: _Any, target: _Any, log_target: _b.bool = ..., reduction: _Literal['mean', 'sum', 'none', 'batchmean'] = ..., *, out: _Any = ...) -> _Any:
    """The divergence of Kullback and Leibler: `target` (log(`target`) - `x`) for logarithms `x` of probabilities."""
def kron(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The products of each element of `x` (m, n) with all of `y` (p, q), as blocks of (m * p, n * q). Tensors may have
    any rank: the smaller one has axes of size 1 in front."""
def kthvalue(x: _Any, k: _b.int, axis: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The `k`th smallest element along `axis`, counted from 1, and its place."""
def l1_loss(x: _Any, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """The magnitude of the difference of `x` and `target`: by default, its mean. The gradient at 0 is 0."""
def layer_norm(x: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` shifted and scaled to mean 0 and variance 1 along `axis`, times `weight`, plus `bias`, which broadcast
    against `x`."""
def layer_norm_statistics(x: _Any, weight: _Any = ..., bias: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., stash_dtype: _Any = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`layer_norm`, and its mean and reciprocal standard deviation 1 / sqrt(variance + `eps`) along `axis`."""
def ldexp(x: _Any, exponent: _Any = ..., *, other: _Any = ...) -> _Any:
    """`x` times 2 to the power of `exponent`, integers, rounded once."""
def le(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is `y` or below; false for NaN."""
def leading_places(x: _Any, k: _b.int = ..., descending: _b.bool = ..., *, diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The indices (i64) of the first `k` elements of each row of `x` (rows, n) in sorted order, smallest element first,
    or largest first if `descending`. Equal elements keep their order, and NaN is larger than every number."""
def leaky_relu(x: _Any, negative_slope: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The positive entries of `x`, the others times `negative_slope`. The gradient at 0 is `negative_slope`."""
def left_shift(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
def lerp(start: _Any, end: _Any, weight: _Any, *, out: _Any = ...) -> _Any:
    """`start` + `weight` (`end` - `start`): `start` for weight 0 and `end` for weight 1, both exactly."""
def less(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is below `y`; false for NaN, and False is below True."""
def less_equal(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is `y` or below; false for NaN."""
def lgamma(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of the magnitude of the gamma function of `x`; inf at 0 and at negative whole numbers."""
def linear(x: _Any, weight: _Any, bias: _Any = ...) -> _Any:
    """`x` (..., k) by the transposed `weight` (n, k), plus `bias` (n): what `nn.Linear` computes."""
def linspace(start: _b.float, stop: _b.float = ..., num: _b.int = ..., *, endpoint: _b.bool = ..., dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., end: _Any = ..., steps: _Any = ...) -> _Any:
    """`num` numbers at equal distances from `start` to `stop`, the last one left out unless `endpoint`."""
def local_response_norm(x: _Any, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` (n, c, ...image) over (`bias` + `alpha` / `size` * s)**`beta`, where s is the sum of the squares of the
    `size` channels around each: (size - 1) // 2 before it and size // 2 behind it, as far as there are any."""
def log(x: _Any, *, out: _Any = ...) -> _Any:
    """The natural logarithm of `x`: -inf at 0, NaN for negative numbers."""
def log10(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of `x` to base 10: -inf at 0, NaN for negative numbers."""
def log1p(x: _Any, *, out: _Any = ...) -> _Any:
    """The natural logarithm of one plus `x`, accurate near 0: -inf at -1, NaN below."""
def log2(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of `x` to base 2: -inf at 0, NaN for negative numbers."""
def log_ndtr(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of the probability that a standard normal variable is below `x`, exact where that is 0 or 1 as a
    float, too."""
def log_sigmoid(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of the logistic function of `x`, without overflow."""
def log_softmax(x: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """The logarithm of `softmax(x)`, without underflow."""
def log_sum(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The logarithm of the sum of `x` along `axis`; -inf of no elements."""
def logaddexp(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """log(exp(`x`) + exp(`y`)), without overflow."""
def logaddexp2(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """log2(2^`x` + 2^`y`), without overflow."""
def logcumsumexp(x: _Any, axis: _b.int = ..., exclusive: _b.bool = ..., reverse: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The logarithms of the sums of exp(`x`) up to each place along `axis`, without overflow."""
def logdet(x: _Any = ..., *, A: _Any = ...) -> _Any:
    """The logarithms (...,) of the determinants of the square matrices `x` (..., n, n): NaN where one is negative, -inf
    where it is 0."""
def logical_and(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether both `x` and `y` are true (not zero)."""
def logical_not(x: _Any, *, out: _Any = ...) -> _Any:
    """Whether `x` is false (zero)."""
def logical_or(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` or `y` is true (not zero)."""
def logical_xor(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether one of `x` and `y` is true (not zero) and the other is not."""
def logit(x: _Any, eps: _b.float | None = ..., *, out: _Any = ...) -> _Any:
    """The inverse of the logistic function: log(`x` / (1 - `x`)); NaN outside of [0, 1]."""
def logsigmoid(x: _Any, *, out: _Any = ...) -> _Any:
    """The logarithm of the logistic function of `x`, without overflow."""
def logspace(start: _b.float, stop: _b.float = ..., num: _b.int = ..., base: _b.float = ..., *, endpoint: _b.bool = ..., dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., end: _Any = ..., steps: _Any = ...) -> _Any:
    """`base` to the power of `num` numbers at equal distances from `start` to `stop`."""
def logsumexp(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The logarithm of the sum of exp(`x`) along `axis`, without overflow."""
def lp_normalize(x: _Any, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` over its `p`-norm along `axis`, or over `eps` where the norm is below that."""
def lp_pool(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., p: _b.float = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The p-norm of each window of `x` (..., *image): (sum of |x|**p)**(1 / p). Integers are taken as f32."""
def lrn(x: _Any, size: _b.int, alpha: _b.float = ..., beta: _b.float = ..., bias: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` (n, c, ...image) over (`bias` + `alpha` / `size` * s)**`beta`, where s is the sum of the squares of the
    `size` channels around each: (size - 1) // 2 before it and size // 2 behind it, as far as there are any."""
def lt(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` is below `y`; false for NaN, and False is below True."""
def margin_ranking_loss(x: _Any = ..., y: _Any = ..., target: _Any = ..., margin: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, other: _Any = ..., input1: _Any = ..., input2: _Any = ..., out: _Any = ...) -> _Any:
    """max(0, `margin` - `target` (`x` - `y`)): `x` is to be above `y` where `target` is 1, below it where it is -1."""
def masked_fill(x: _Any, mask: _Any, value: _Any) -> _Any:
    """`x` with `value` where `mask`, which is broadcast, is true; the dtype stays."""
def masked_scatter(x: _Any, mask: _Any, source: _Any) -> _Any:
    """`x` with the first elements of `source`, one after the other, where `mask`, which is broadcast, is true. Raises
    `ValueError` where they are too few, unless the mask is not known."""
def masked_select(x: _Any, mask: _Any) -> _Any:
    """The elements of `x` where `mask` is true, both broadcast, as a vector. Raises where it is traced: how many they
    are depends on values."""
def matmul(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The matrix product of `x` (..., m, k) and `y` (..., k, n); leading dimensions broadcast."""
def matrix_rank(x: _Any, *, rtol: _b.float | None = ...) -> _Any:
    """How many singular values of the matrices `x` (..., m, n) are larger than `rtol` times the largest, as i64 (...,);
    `rtol` is the larger of m and n times the machine epsilon by default, which is that of f32 for integers and for
    floats of 16 bits: these are computed in f32."""
def max(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too."""
def max_pool(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., *image); NaN if there is any."""
def max_pool1d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., length); NaN if there is any. The settings are those of
    `max_pool`."""
def max_pool2d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., height, width); NaN if there is any."""
def max_pool3d(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., depth, height, width); NaN if there is any. The settings are
    those of `max_pool`."""
def max_pool_with_indices(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] | None = ..., padding: _b.int | _Sequence[_b.int] | _b.str = ..., dilation: _b.int | _Sequence[_b.int] = ..., ceil_mode: _b.bool = ..., storage_order: _Literal[0, 1] = ..., within: _Literal['image', 'tensor'] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., *image), and where in the image it is (i64); of equal ones the
    first, or the first NaN."""
def max_unpool(x: _Any, indices: _Any = ..., output_size: _b.int | _Sequence[_b.int] = ..., *, index: _Any = ..., out: _Any = ...) -> _Any:
    """Images (..., *`output_size`) of zeros with the elements of `x` (..., *counts) at `indices`, which count the
    elements of each image in row-major order: what undoes `max_pool_with_indices`."""
def maximum(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The larger of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient."""
def mean(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The arithmetic mean of `x` along `axis`; NaN of no elements. Integers are taken as f32."""
def mean_variance_normalization(x: _Any, axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` less its mean along `axis`, over its standard deviation plus `eps`."""
def median(x: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The element in the middle of those along `axis`, or of all, when they are sorted: of an even number the lower
    of the two, as in PyTorch (`quantile(x, 0.5)` is between them, as NumPy's median); NaN if there is any. Without
    places: PyTorch's `median(x, dim)` gives these, too."""
def meshgrid(*xs: _Any, indexing: _b.str = ...) -> _Any:
    """Each of the vectors `xs` along an axis of its own, repeated along those of the others."""
def min(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., start: _b.float | None = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The smallest element of `x` along `axis`; NaN if there is any. Equal ones share the gradient. Of truth values
    (without a `start`) it is one, too."""
def minimum(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The smaller of `x` and `y`; NaN if either is. Where they are equal, each gets half the gradient."""
def mish(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` times the hyperbolic tangent of its softplus (Misra, arXiv:1908.08681). NaN for -inf, as in PyTorch."""
def mm(x: _Any, y: _Any = ..., *, mat2: _Any = ...) -> _Any:
    """The product (m, n) of the matrices `x` (m, k) and `y` (k, n); others than matrices are refused."""
def mod(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """What remains of `x` after division by `y`, with the sign of `y`, as Python's `%`. Integers modulo 0 give 0."""
def mode(x: _Any, axis: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The element that is there most often along `axis`, the smallest of several, and the last place (i64) where it is:
    `(values, indices)`. NaN equals nothing, itself included. Raises `InferenceError` where there are no elements."""
def movedim(x: _Any, source: _Any, destination: _Any, *, dim: _Any = ...) -> _Any:
    """`x` with the axes `source` at the places `destination`, and all others in their order."""
def mse_loss(x: _Any, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """The squared difference of `x` and `target`: by default, its mean."""
def mul(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The product of `x` and `y`. Integers wrap."""
def multi_dot(matrices: _Any) -> _Any:
    """The product of two or more `matrices` (m, k), (k, n), …, multiplied in the order that takes the fewest products,
    as `numpy.linalg.multi_dot` does."""
def multiply(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The product of `x` and `y`. Integers wrap."""
def mv(x: _Any, y: _Any = ..., *, vec: _Any = ...) -> _Any:
    """The product (m) of the matrix `x` (m, k) and the vector `y` (k)."""
def mvlgamma(x: _Any, p: _b.int) -> _Any:
    """The logarithm of the multivariate gamma function of dimension `p`: the sum of lgamma(`x` - j / 2) for j before
    `p`, and p (p - 1) / 4 log(pi)."""
def nan_to_num(x: _Any, nan: _b.float = ..., posinf: _b.float | None = ..., neginf: _b.float | None = ..., *, out: _Any = ...) -> _Any:
    """`x` with `nan` for NaN and `posinf` and `neginf` for the infinities: by default the largest and least number."""
def nanmax(x: _Any, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The largest element along `axis`, or of all, that is not NaN; NaN where there is none."""
def nanmean(x: _Any, axis: _Any = ..., *, keepdims: _b.bool = ..., dtype: _Any = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The mean along `axis`, or of all elements, of those that are not NaN; NaN where there are none."""
def nanmedian(x: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """What `median` is of the elements that are not NaN: of an even number the lower of the two in the middle, as in
    PyTorch (`nanquantile(x, 0.5)` is between them, as NumPy's); NaN where there is none. Without places."""
def nanmin(x: _Any, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The smallest element along `axis`, or of all, that is not NaN; NaN where there is none."""
def nanquantile(x: _Any, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """What `quantile` is of the elements that are not NaN; NaN where there is none."""
def nanstd(x: _Any, axis: _Any = ..., *, ddof: _b.float = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The root of the variance that `nanvar` gives."""
def nansum(x: _Any, axis: _Any = ..., *, keepdims: _b.bool = ..., dtype: _Any = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The sum of `x` along `axis`, or of all elements, in which NaN counts as 0."""
def nanvar(x: _Any, axis: _Any = ..., *, ddof: _b.float = ..., keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The variance along `axis`, or of all elements, of those that are not NaN: over their number less `ddof`, and NaN
    where that is not positive."""
def narrow(x: _Any, axis: _b.int = ..., start: _b.int = ..., length: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """The `length` elements of `x` along `axis` from `start` on, which counts from the end where it is negative."""
def ndtr(x: _Any, *, out: _Any = ...) -> _Any:
    """The probability that a standard normal variable is below `x`, exact in the lower tail."""
def ndtri(x: _Any, *, out: _Any = ...) -> _Any:
    """The number that a standard normal variable is below with probability `x`: infinite at 0 and 1, NaN outside of
    [0, 1]."""
def ne(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` and `y` differ. NaN differs from everything."""
def neg(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` with its sign changed. Integers wrap: the least one stays as it is, unsigned ones become 2^width - `x`."""
def negative(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` with its sign changed. Integers wrap: the least one stays as it is, unsigned ones become 2^width - `x`."""
def nextafter(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The float (f32 or f64) after `x` in the direction of `y`; `y` where they are equal."""
def nll_loss(log_probabilities: _Any, labels: _Any = ..., weight: _Any = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ..., out: _Any = ...) -> _Any:
    """-`log_probabilities` at the class in `labels`, times its weight: by default, the mean over all samples."""
def nonzero(x: _Any, size: _b.int | None = ..., fill_value: _b.int | _b.tuple[_b.int, ...] = ..., *, as_tuple: _b.bool = ...) -> _Any:
    """For each axis of `x` the indices (`size`,) of the elements that are not zero: the columns of `argwhere`, and
    without `as_tuple` that itself, a row (rank of `x`,) for each, which is what PyTorch gives unless it is asked."""
def norm(x: _Any, p: _b.float = ..., axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The `p`-norm of `x` along `axis`: (sum |x|^p)^(1/p); the largest or smallest magnitude for `p` inf or -inf."""
def normalize(x: _Any, p: _b.float = ..., axis: _b.int = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` over its `p`-norm along `axis`, or over `eps` where the norm is below that."""
def not_equal(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """Whether `x` and `y` differ. NaN differs from everything."""
def one_hot(indices: _Any = ..., num_classes: _b.int = ..., axis: _b.int = ..., dtype: _Any = ..., on_value: _b.float = ..., off_value: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., out: _Any = ...) -> _Any:
    """`on_value` at each of the `indices`, `off_value` elsewhere, along a new axis of size `num_classes` at position
    `axis` of the result."""
def ones(*sizes: _Any, shape: _Any = ..., dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., size: _Any = ...) -> _Any:
    """A tensor of ones, of a shape (sizes or one tuple of them, behind which a dtype may be)."""
def ones_like(x: _Any, *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
    """Ones of `x`'s shape and dtype, or of another `dtype`."""
def outer(x: _Any = ..., y: _Any = ..., *, x1: _Any = ..., x2: _Any = ..., vec2: _Any = ...) -> _Any:
    """The products (m, n) of each element of the vector `x` with each of the vector `y`."""
def packbits(x: _Any = ..., axis: _b.int | None = ..., bitorder: _b.str = ..., *, a: _Any = ...) -> _Any:
    """Bytes (ui8), each of eight elements of `x` along `axis`, or of all in row-major order: a bit is set where the
    element is not 0, from the highest bit on, or the lowest ("little"). What lacks at the end is 0."""
def pad(x: _Any, low: _b.int | _Sequence[_b.int] | None = ..., high: _b.int | _Sequence[_b.int] | None = ..., value: _b.float = ..., mode: _Literal['constant', 'edge', 'reflect', 'symmetric', 'wrap'] = ..., *, pad_width: _Any = ..., constant_values: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with `low[i]` elements before it and `high[i]` behind it along each axis i; negative numbers cut off first."""
def partition(x: _Any = ..., kth: _Any = ..., axis: _b.int | None = ..., *, a: _Any = ..., dim: _Any = ...) -> _Any:
    """`x` along `axis`, or all of its elements, rearranged so that at the place `kth`, or at several, there is what is
    there in order; before it is nothing that is larger, and behind it nothing that is smaller. All of it is in order."""
def partition_sort(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The rows of `x` (rows, n) each sorted, on a CPU that packs lanes; elements have 16, 32 or 64 bits there. On a GPU
    it is `sort`."""
def pdist(x: _Any, p: _b.float = ...) -> _Any:
    """The distances (n (n - 1) / 2,) in the norm `p` of the rows of `x` (n, k) to each other: of the first to all that
    follow, then of the second, and so on. Where one is 0 its gradient is 0."""
def percentile(x: _Any, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ...) -> _Any:
    """`quantile` of `q` hundredths."""
def permute(x: _Any, *axes: _Any, dims: _Any = ...) -> _Any:
    """`x` with its axes in the order `axes`, integers or one tuple of them, which may be named `dims`."""
def permute_dims(x: _Any, permutation: _b.int | _Sequence[_b.int] | None = ..., *, axes: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with its axes reordered: axis i of the result is axis `permutation[i]` of `x`, or reversed without it."""
def pinv(x: _Any, rtol: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The pseudoinverses (..., n, m) of the matrices `x` (..., m, n). Singular values of at most `rtol` times the
    largest count as 0; `rtol` is the larger of m and n times the machine epsilon where it is negative, as it is by
    default."""
def poisson_nll_loss(x: _Any, target: _Any, log_input: _b.bool = ..., full: _b.bool = ..., eps: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """exp(`x`) - `target` `x`, the negative log likelihood of a Poisson variable whose rate has the logarithm `x`."""
def polygamma(x: _Any, order: _b.int = ..., *, n: _Any = ..., out: _Any = ...) -> _Any:
    """The derivative of order `order` (1 to 20) of digamma at `x`."""
def polyval(p: _Any, x: _Any) -> _Any:
    """The polynomial with the coefficients `p`, a vector, the highest power first, at `x`."""
def population_count(x: _Any, *, out: _Any = ...) -> _Any:
    """How many bits of `x` are set, in the dtype of `x`. A negative number has those of its two's complement."""
def pow(x: _Any, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ..., out: _Any = ...) -> _Any:
    """`x` to the power `y`. A negative float to a fractional power is NaN. Integers wrap; negative powers of them round
    toward zero, and those of 0 are 0."""
def power(x: _Any, y: _Any = ..., *, other: _Any = ..., exponent: _Any = ..., out: _Any = ...) -> _Any:
    """`x` to the power `y`. A negative float to a fractional power is NaN. Integers wrap; negative powers of them round
    toward zero, and those of 0 are 0."""
def prelu(x: _Any, slope: _Any, *, out: _Any = ...) -> _Any:
    """The positive entries of `x`, the others times `slope`, which broadcasts against `x`."""
def prod(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """The product of `x` along `axis`; 1 of no elements. Integers keep their dtype and wrap (NumPy widens them)."""
def psi(x: _Any, *, out: _Any = ...) -> _Any:
    """The derivative of log Gamma at `x`; -inf at 0.0, inf at -0.0, NaN at negative whole numbers and -inf."""
def ptp(x: _Any, axis: _Any = ..., *, keepdims: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The largest less the smallest element along `axis`, or of all."""
def put_along_axis(x: _Any, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with `updates` at `indices` along `axis`, where `updates` and the other axes of `indices` broadcast, as in
    NumPy; `reduction` as in `scatter_elements`."""
def qr(x: _Any, mode: _b.str = ..., *, out: _Any = ...) -> _Any:
    """Matrices q (..., m, k) with orthonormal columns and upper triangular ones r (..., k, n) with q r = `x` (..., m,
    n); k is the smaller of m and n in the mode "reduced", and m in the mode "complete"."""
def quantile(x: _Any, q: _Any, axis: _b.int | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """What the share `q` of the elements along `axis`, or of all, is at most: between two of them, on the line through
    both (method 7 of Hyndman and Fan, 1996); NaN if there is any. Several shares, in a list, are the first dimension."""
def rad2deg(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle of `x` radians in degrees."""
def radians(x: _Any, *, out: _Any = ...) -> _Any:
    """The angle of `x` degrees in radians."""
def random_bernoulli(key: _Any, p: _Any = ..., shape: _Any = ...) -> _Any:
    """Truth values that are true with probability `p`, for `key` (2 words, i32); by default of the shape of `p`."""
def random_bits(key: _Any, shape: _Any) -> _Any:
    """Random i32 words of `shape` for `key` (2 words, i32)."""
def random_categorical(key: _Any, logits: _Any, count: _b.int | None = ...) -> _Any:
    """Indices (i64) of classes with probabilities softmax(`logits`) along the last axis, for `key` (2 words, i32)."""
def random_exponential(key: _Any, shape: _Any, rate: _Any = ..., dtype: _b.object = ...) -> _Any:
    """Exponentially distributed numbers of `shape` and `dtype` with mean 1 / `rate`, for `key` (2 words, i32)."""
def random_gumbel(key: _Any, shape: _Any, dtype: _b.object = ...) -> _Any:
    """Numbers of `shape` and `dtype` with the standard Gumbel distribution, for `key` (2 words, i32)."""
def random_integers(key: _Any, shape: _Any, low: _b.int, high: _b.int, dtype: _b.object = ...) -> _Any:
    """Integers of `shape` and `dtype` in [`low`, `high`), for `key` (2 words, i32)."""
def random_normal(key: _Any, shape: _Any, mean: _Any = ..., deviation: _Any = ..., dtype: _b.object = ...) -> _Any:
    """Normal numbers of `shape` and `dtype`, for `key` (2 words, i32), by the inverse of the distribution function."""
def random_permutation(key: _Any, x: _Any, axis: _b.int = ...) -> _Any:
    """The numbers 0 to `x` - 1 (i64) in random order, or the slices of a tensor `x` along `axis`, for `key`."""
def random_truncated_normal(key: _Any, shape: _Any, low: _b.float = ..., high: _b.float = ..., dtype: _b.object = ...) -> _Any:
    """Standard normal numbers of `shape` and `dtype` given that they lie in [`low`, `high`], for `key` (2 words, i32)."""
def random_uniform(key: _Any, shape: _Any, low: _Any = ..., high: _Any = ..., dtype: _b.object = ...) -> _Any:
    """Numbers of `shape` and `dtype`, uniform in [`low`, `high`), for `key` (2 words, i32)."""
def ravel(x: _Any) -> _Any:
    """`x` with all axes made one."""
def ravel_multi_index(multi_index: _Any, shape: _Any = ..., *, dims: _Any = ...) -> _Any:
    """The numbers, in row-major order, of the elements at those places of each axis of a tensor of that shape, arrays
    that broadcast. Raises `IndexError` for places that it has not, unless they are not known."""
def reciprocal(x: _Any, *, out: _Any = ...) -> _Any:
    """One divided by `x`. Integers are taken as f32 (NumPy divides them as integers)."""
def relu(x: _Any, *, out: _Any = ...) -> _Any:
    """The positive entries of `x`, zero for the others; NaN stays. The gradient at 0 is 0."""
def relu6(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` limited to [0, 6]; NaN stays. The gradient on the bounds is 0."""
def remainder(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """What remains of `x` after division by `y`, with the sign of `y`, as Python's `%`. Integers modulo 0 give 0."""
def renorm(x: _Any, p: _b.float, axis: _b.int = ..., maxnorm: _b.float = ..., *, dim: _Any = ...) -> _Any:
    """`x`, of which each part along `axis` whose norm of order `p` is larger than `maxnorm` is made as small as that."""
def repeat(x: _Any, repeats: _b.int, axis: _b.int | None = ..., *, dim: _Any = ..., dims: _Any = ..., output_size: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with each element repeated `repeats` times along `axis`; without `axis`, of all elements in row-major order."""
def repeat_interleave(x: _Any, repeats: _b.int, axis: _b.int | None = ..., *, dim: _Any = ..., dims: _Any = ..., output_size: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with each element repeated `repeats` times along `axis`; without `axis`, of all elements in row-major order."""
def reshape(x: _Any, shape: _b.int | _Sequence[_b.int], *, copy: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` in row-major order in a new `shape`, of which one size may be -1 and is then computed."""
def reshape_as(x: _Any, other: _Any) -> _Any:
    """`x` in the shape of `other`."""
def right_shift(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
def rint(x: _Any) -> _Any:
    """The whole number nearest to `x`, halves to the even one, as a float. Integers of 8 and 16 bits become f32, wider
    ones f64. The gradient is 0."""
def rms_norm(x: _Any, weight: _Any = ..., axis: _b.int | _Sequence[_b.int] = ..., eps: _b.float = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` over its root mean square along `axis`, sqrt(mean(x^2) + `eps`), times `weight`."""
def roi_align(x: _Any, rois: _Any, batch_indices: _Any, output_size: _b.int | _Sequence[_b.int], sampling_ratio: _b.int | _Sequence[_b.int] = ..., spatial_scale: _b.float = ..., aligned: _b.bool = ..., mode: _Literal['avg', 'max'] = ..., *, out: _Any = ...) -> _Any:
    """The parts `rois` (k, 4) of images `x` (n, c, height, width), each brought to `output_size`: (k, c, *output_size)."""
def roll(x: _Any, shift: _b.int | _Sequence[_b.int] = ..., axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., shifts: _Any = ..., out: _Any = ...) -> _Any:
    """`x` moved by `shift` places along `axis`, what leaves at one end coming in at the other."""
def rot90(x: _Any, k: _b.int = ..., dims: _Any = ...) -> _Any:
    """`x` turned `k` times by a right angle, from the first of the axes `dims` to the second."""
def round(x: _Any, decimals: _b.int = ..., *, out: _Any = ...) -> _Any:
    """The whole number nearest to `x`, halves to the even one; or, by `decimals`, the nearest number with so many
    places behind the point, or with as many zeros before it if that is negative. Integers stay as they are. The
    gradient is 0."""
def rsqrt(x: _Any, *, out: _Any = ...) -> _Any:
    """One divided by the square root of `x`; NaN for negative numbers."""
def rsub(x: _Any, y: _Any = ..., alpha: _b.float = ..., *, other: _Any = ...) -> _Any:
    """y - alpha * x."""
def scaled_dot_product_attention(query: _Any, key: _Any, value: _Any, attn_mask: _Any = ..., dropout_p: _b.float = ..., is_causal: _b.bool = ..., scale: _b.float | None = ..., enable_gqa: _b.bool = ...) -> _Any:
    """`value` (..., s, v) weighted by the softmax of the products of `query` (..., l, e) and `key` (..., s, e), which
    are multiplied by `scale` (1/√e unless given): (..., l, v), as Vaswani et al. (2017) define it."""
def scatter(x: _Any, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., *, value: _Any = ..., reduce: _b.str | None = ..., dim: _Any = ..., src: _Any = ...) -> _Any:
    """`x` with the elements of `source`, or a number, at the places `index` along `axis`, everything else equal:
    result[index[i, j], j] = source[i, j]; with `reduce` ("add", "multiply") they are added or multiplied."""
def scatter_add(x: _Any, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with `updates` added at `indices` along `axis`: result[..., indices[i], ...] += updates[..., i, ...]."""
def scatter_elements(x: _Any, indices: _Any = ..., updates: _Any = ..., axis: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., src: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with `updates` at `indices` along `axis`, everything else equal: result[indices[i, j], j] = updates[i, j]."""
def scatter_nd(x: _Any, indices: _Any = ..., updates: _Any = ..., batch_dims: _b.int = ..., reduction: _Literal['none', 'add', 'mul', 'min', 'max'] = ..., *, index: _Any = ..., src: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with `updates` at `indices`, whose last axis holds indices for the first axes of `x`: result[indices[i]] =
    updates[i]."""
def scatter_reduce(x: _Any, axis: _b.int = ..., index: _Any = ..., source: _Any = ..., reduce: _b.str = ..., *, include_self: _b.bool = ..., dim: _Any = ..., src: _Any = ...) -> _Any:
    """`x` reduced with the elements of `source` at the places `index` along `axis`, everything else equal, by `reduce`
    ("sum", "prod", "mean", "amax", "amin"); without `include_self`, what `x` has at these places does not count."""
def searchsorted(x: _Any = ..., values: _Any = ..., side: _Literal['left', 'right'] = ..., *, sorter: _Any = ..., sorted_sequence: _Any = ..., right: _Any = ..., out: _Any = ...) -> _Any:
    """The index (i64) in `x`, which is sorted along its last axis, where each of `values` keeps it sorted."""
def select(condition: _Any, x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """`x` where `condition` is true, else `y`. The branch that is not taken gets no gradient, whatever it is."""
def select_scatter(x: _Any, source: _Any = ..., axis: _b.int = ..., index: _b.int = ..., *, dim: _Any = ..., src: _Any = ...) -> _Any:
    """`x` with `source` in the place of its part x[..., index, ...] at an axis."""
def selu(x: _Any, alpha: _b.float = ..., gamma: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`gamma` times the positive entries of `x`, `gamma` `alpha` times (exp(x) - 1) for the others."""
def sgn(x: _Any, *, out: _Any = ...) -> _Any:
    """-1, 0 or 1, as `x` is negative, zero or positive; NaN for NaN. The gradient is 0."""
def shift_left(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the left by `y`; zeros come in. By the width or more, or by less than 0, it is 0."""
def shift_right(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the right by `y`; copies of the sign come in, zeros for unsigned `x`."""
def shift_right_logical(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The bits of `x` moved to the right by `y`; zeros come in, whatever the sign."""
def shrink(x: _Any, lambd: _b.float = ..., bias: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` + `bias` below -`lambd`, `x` - `bias` above `lambd`, 0 between them, where the gradient is 0; NaN stays."""
def sigmoid(x: _Any, *, out: _Any = ...) -> _Any:
    """The logistic function of `x`: 1 / (1 + exp(-x)), without overflow."""
def sign(x: _Any, *, out: _Any = ...) -> _Any:
    """-1, 0 or 1, as `x` is negative, zero or positive; NaN for NaN. The gradient is 0."""
def silu(x: _Any, alpha: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` times the logistic function of `alpha` `x`, also called swish. NaN for -inf, as in PyTorch."""
def sin(x: _Any, *, out: _Any = ...) -> _Any:
    """The sine of `x` (in radians)."""
def sinc(x: _Any, *, out: _Any = ...) -> _Any:
    """sin(pi x) / (pi x), and 1 at 0. Exactly 0 at all other whole numbers, where NumPy gives about 1e-17."""
def sinh(x: _Any, *, out: _Any = ...) -> _Any:
    """The hyperbolic sine of `x`."""
def size(value: _b.int | _Sequence[_b.int], *, out: _Any = ...) -> _Any:
    """The product of the sizes `value`, as an i64 of rank 0: what is known at launch only, as a tensor to compute with."""
def slice(x: _Any, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """The elements of `x` from `starts` to before `limits` in steps of `strides` (1 unless given), an entry per axis."""
def slice_scatter(x: _Any, update: _Any, starts: _b.int | _Sequence[_b.int], limits: _b.int | _Sequence[_b.int], strides: _b.int | _Sequence[_b.int] | None = ..., *, out: _Any = ...) -> _Any:
    """`x` with `update` in the place of the elements that `slice` reads with the same settings."""
def sliding_windows(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The windows of `x` (..., *image): (..., *counts, *window)."""
def slogdet(x: _Any, *, out: _Any = ...) -> _Any:
    """The signs (...,) of the determinants of the square matrices `x` (..., n, n), and the logarithms (...,) of their
    magnitudes, which do not overflow; 0 and -inf for a singular one."""
def smooth_l1_loss(x: _Any, target: _Any, beta: _b.float = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """`d`^2 / (2 `beta`) for a difference `d` of `x` and `target` below `beta`, |d| - `beta` / 2 from there."""
def soft_margin_loss(x: _Any, target: _Any, reduction: _Literal['mean', 'sum', 'none'] = ..., *, out: _Any = ...) -> _Any:
    """log(1 + exp(-`target` `x`)) for a `target` of 1 or -1, without overflow: by default, its mean."""
def softmax(x: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """`x` scaled along `axis` to positive entries that add up to one: exp(x) over its sum."""
def softmax_cross_entropy(logits: _Any, labels: _Any = ..., weight: _Any = ..., label_smoothing: _b.float = ..., axis: _b.int = ..., ignore_index: _b.int | None = ..., reduction: _Literal['mean', 'sum', 'none'] = ..., *, dim: _Any = ..., dims: _Any = ..., target: _Any = ..., out: _Any = ...) -> _Any:
    """`cross_entropy`, and log softmax(`logits`), from which it is computed; returns both."""
def softplus(x: _Any, beta: _b.float = ..., *, out: _Any = ...) -> _Any:
    """log(1 + exp(`beta` x)) / `beta`, without overflow and at full precision for all `x`."""
def softshrink(x: _Any, lambd: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` moved towards 0 by `lambd`, 0 inside of [-`lambd`, `lambd`], where the gradient is 0; NaN stays."""
def softsign(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` / (1 + |`x`|); NaN for an infinity, as in PyTorch."""
def solve(a: _Any = ..., b: _Any = ..., *, left: _b.bool = ..., A: _Any = ..., B: _Any = ...) -> _Any:
    """The solution x of a x = b (of x a = b without `left`): of matrices `a` (..., n, n) and `b` (..., n, k), without
    `left` (..., k, n), whose stacks broadcast, or a vector `b` (n,). Raises `LinAlgError` for a singular `a`."""
def solve_triangular(a: _Any = ..., b: _Any = ..., *, upper: _b.bool | None = ..., lower: _b.bool | None = ..., left: _b.bool = ..., trans: _b.int | _b.str = ..., unitriangular: _b.bool = ..., A: _Any = ..., B: _Any = ..., unit_diagonal: _Any = ...) -> _Any:
    """The solution x of a x = b (of x a = b without `left`), where only one triangle of `a` (..., n, n) counts, with
    ones on its diagonal if `unitriangular` (SciPy's `unit_diagonal`). `b` is (..., n, k), without `left` (..., k, n),
    or a vector (n,)."""
def sort(x: _Any, axis: _b.int = ..., descending: _b.bool = ..., stable: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` sorted along `axis`, smallest element first, or largest first if `descending`."""
def sort_groups(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The rows of `x` (groups, rows, n) each sorted, in the order of `sort_rows`."""
def sort_rows(x: _Any, descending: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """The rows of `x` (rows, n) each sorted, smallest element first, or largest first if `descending`. NaN, which loses
    its sign, is larger than every number; zero is larger than negative zero, but on a GPU, where it is `sort`."""
def space_to_depth(x: _Any, block: _b.int, mode: _Literal['DCR', 'CRD'] = ..., *, out: _Any = ...) -> _Any:
    """`x` (..., c, h, w) with squares of `block` times `block` pixels made channels: (..., c block², h / block, w /
    block). It undoes `depth_to_space` of the same `mode`."""
def spacing(x: _Any) -> _Any:
    """How far the next float (f32 or f64) in the direction away from 0 is from `x`, with the sign of `x`; NaN for what
    is not finite."""
def split(x: _Any, sections: _b.int | None = ..., axis: _b.int = ..., sizes: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` cut along `axis` into `sections` parts of equal size, or into parts of the given `sizes`."""
def split_key(key: _Any, count: _b.int = ...) -> _Any:
    """`count` new keys (count, 2) for `key` (2 words, i32), unrelated to each other, to `key` and to folded ones."""
def sqrt(x: _Any, *, out: _Any = ...) -> _Any:
    """The square root of `x`; NaN for negative numbers."""
def square(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` times itself."""
def squeeze(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` without its axes `axis`, which must have size 1; without `axis`, without all axes of size 1."""
def stack(tensors: _Any, axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """The `tensors`, all of one shape, along a new axis at position `axis` of the result."""
def std(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ..., out: _Any = ...) -> _Any:
    """The standard deviation of `x` along `axis`: the square root of its variance. Integers are taken as f32."""
def std_mean(x: _Any, axis: _Any = ..., *, correction: _b.float = ..., keepdims: _b.bool = ..., unbiased: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The roots of the variances, and the means, that `var_mean` gives."""
def stop_gradient(x: _Any, *, out: _Any = ...) -> _Any:
    """`x`, taken as a constant by differentiation."""
def sub(x: _Any, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ..., out: _Any = ...) -> _Any:
    """`x` less `y`. Integers wrap."""
def subtract(x: _Any, y: _Any = ..., *, other: _Any = ..., alpha: _Any = ..., out: _Any = ...) -> _Any:
    """`x` less `y`. Integers wrap."""
def sum(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., dtype: _Any = ..., out: _Any = ...) -> _Any:
    """The sum of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap (NumPy widens them); truth
    values are counted as i64."""
def sum_square(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., out: _Any = ...) -> _Any:
    """The sum of the squares of `x` along `axis`; 0 of no elements. Integers keep their dtype and wrap."""
def svd(x: _Any, full_matrices: _b.bool = ..., *, out: _Any = ...) -> _Any:
    """Matrices u (..., m, m) and vh (..., n, n) with orthonormal columns and rows, and singular values s (..., k) in
    descending order, k the smaller of m and n, with u diag(s) vh = `x` (..., m, n). Without `full_matrices` u has k
    columns and vh k rows."""
def svdvals(x: _Any, *, out: _Any = ...) -> _Any:
    """The singular values (..., k) of the matrices `x` (..., m, n), in descending order, k the smaller of m and n."""
def swapaxes(x: _Any, axis1: _b.int = ..., axis2: _b.int = ..., *, dim0: _Any = ..., dim1: _Any = ...) -> _Any:
    """`x` with its axes `axis1` and `axis2` exchanged."""
def swapdims(x: _Any, axis1: _b.int = ..., axis2: _b.int = ..., *, dim0: _Any = ..., dim1: _Any = ...) -> _Any:
    """`x` with its axes `axis1` and `axis2` exchanged."""
def swish(x: _Any, alpha: _b.float = ..., *, out: _Any = ...) -> _Any:
    """`x` times the logistic function of `alpha` `x`, also called swish. NaN for -inf, as in PyTorch."""
def t(x: _Any) -> _Any:
    """The matrix `x` transposed; vectors and numbers as they are."""
def take(x: _Any, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` at `indices` along `axis`: result[..., i, ...] = x[..., indices[i], ...]."""
def take_along_axis(x: _Any, indices: _Any = ..., axis: _b.int = ..., *, dim: _Any = ..., dims: _Any = ..., index: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` at `indices` along `axis`, where the other axes of both broadcast, as in NumPy."""
def take_along_dim(x: _Any, index: _Any = ..., axis: _b.int | None = ..., *, dim: _Any = ..., indices: _Any = ...) -> _Any:
    """The elements of `x` at the places `index` along `axis`, where all other axes broadcast; without `axis`, of all
    elements in a row."""
def tan(x: _Any, *, out: _Any = ...) -> _Any:
    """The tangent of `x` (in radians)."""
def tanh(x: _Any, *, out: _Any = ...) -> _Any:
    """The hyperbolic tangent of `x`."""
def tanhshrink(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` less its hyperbolic tangent, accurate near 0. An infinity stays."""
def tensor_split(x: _Any, indices_or_sections: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """`x` cut along `axis` before each of the places of a sequence, or into a number of parts, of which the first ones
    are larger by one where they cannot be equal."""
def threefry(counter_low: _Any, counter_high: _Any, key_low: _Any, key_high: _Any, *, out: _Any = ...) -> _Any:
    """Two words of random bits per counter (`counter_low`, `counter_high`), under the key (`key_low`, `key_high`)."""
def threshold(x: _Any, threshold: _b.float, value: _b.float) -> _Any:
    """`x` where it is greater than `threshold`, `value` elsewhere."""
def thresholded_relu(x: _Any, alpha: _b.float = ..., value: _b.float = ..., *, out: _Any = ...) -> _Any:
    """The entries of `x` above `alpha`, `value` for the others; NaN stays. The gradient at `alpha` is 0."""
def tile(x: _Any, repeats: _b.int | _Sequence[_b.int] = ..., *, dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` repeated `repeats[i]` times along axis i, all of it after all of it. What is shorter, the shape of `x` or
    `repeats`, is continued by ones at the front."""
def top_k(x: _Any, k: _b.int = ..., axis: _b.int = ..., largest: _b.bool = ..., sorted: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The `k` largest elements of `x` along `axis`, or the smallest ones unless `largest`, and their indices (i64)."""
def topk(x: _Any, k: _b.int = ..., axis: _b.int = ..., largest: _b.bool = ..., sorted: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The `k` largest elements of `x` along `axis`, or the smallest ones unless `largest`, and their indices (i64)."""
def transpose(x: _Any, permutation: _b.int | _Sequence[_b.int] | None = ..., *, axes: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with its axes reordered: axis i of the result is axis `permutation[i]` of `x`, or reversed without it."""
def transposed_convolution(x: _Any, weight: _Any, size: _b.int | _Sequence[_b.int], stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., low: _b.int | _Sequence[_b.int] = ..., *, out: _Any = ...) -> _Any:
    """Each element of `x` (n, groups, f, ...counts) times `weight` (groups, f, c, ...window), added up where its window
    lies."""
def trapezoid(y: _Any, x: _Any = ..., *, dx: _b.float = ..., axis: _b.int = ..., dim: _Any = ...) -> _Any:
    """The area below `y` along `axis`, by trapezoids between its points, which lie at `x`, or `dx` apart.
    Integers are taken as floats: of 8 and 16 bits as f32, wider ones as f64."""
def tril(x: _Any, k: _b.int = ..., *, diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` (..., rows, columns) on diagonal `k` and below, zeros above."""
def tril_indices(row: _b.int, col: _b.int, offset: _b.int = ..., *, dtype: _b.object = ..., device: _b.str | None = ...) -> _Any:
    """The places (2, n) of a matrix (`row`, `col`) that are on the diagonal `offset` above the main one and below it,
    in row-major order: rows first, then columns."""
def triu(x: _Any, k: _b.int = ..., *, diagonal: _Any = ..., out: _Any = ...) -> _Any:
    """The elements of `x` (..., rows, columns) on diagonal `k` and above, zeros below."""
def triu_indices(row: _b.int, col: _b.int, offset: _b.int = ..., *, dtype: _b.object = ..., device: _b.str | None = ...) -> _Any:
    """The places (2, n) of a matrix (`row`, `col`) that are on the diagonal `offset` above the main one and above it,
    in row-major order: rows first, then columns."""
def true_divide(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The quotient of `x` and `y`. Integers are taken as f32 (NumPy takes them as f64)."""
def trunc(x: _Any, *, out: _Any = ...) -> _Any:
    """`x` rounded toward zero. Integers stay as they are. The gradient is 0."""
def truncate_divide(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """The quotient of `x` and `y` rounded toward zero, as C's `/` on integers."""
def unbind(x: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """The parts of `x` at each index of `axis`, without that axis; of a `Tensor`, views."""
def unflatten(x: _Any, axis: _b.int = ..., sizes: _Any = ..., *, dim: _Any = ...) -> _Any:
    """`x` with one axis made several, of these sizes, of which one may be -1."""
def unpackbits(x: _Any = ..., axis: _b.int | None = ..., count: _b.int | None = ..., bitorder: _b.str = ..., *, a: _Any = ...) -> _Any:
    """The bits (ui8, 0 or 1) of the bytes `x` along `axis`, or of all in row-major order, from the highest on, or the
    lowest ("little"); `count` of them, with zeros behind the last, or all but the last -`count` if that is negative."""
def unravel_index(indices: _Any, shape: _Any = ..., *, dims: _Any = ...) -> _Any:
    """For each axis of a tensor of that shape where the elements with those numbers, in row-major order, are. Raises
    `IndexError` for numbers that it has not, unless they are not known."""
def unsqueeze(x: _Any, axis: _b.int | _Sequence[_b.int] = ..., *, dim: _Any = ..., dims: _Any = ..., out: _Any = ...) -> _Any:
    """`x` with a new axis of size 1 at each position `axis` of the result."""
def unstack(x: _Any, axis: _b.int = ..., *, dim: _Any = ...) -> _Any:
    """The parts of `x` at each index of `axis`, without that axis; of a `Tensor`, views."""
def unwrap(x: _Any = ..., discont: _b.float | None = ..., axis: _b.int = ..., *, period: _b.float = ..., p: _Any = ...) -> _Any:
    """`x` along `axis` with multiples of `period` added where neighbours differ by more than half of it, or by
    `discont` at least if that is more, so that they do not."""
def vander(x: _Any, n: _b.int | None = ..., increasing: _b.bool = ..., *, N: _Any = ...) -> _Any:
    """The powers (m, `n`) of each element of the vector `x` (m,), from that of `n` - 1 down to that of 0, or up with
    `increasing`; `n` is m unless it is given."""
def var(x: _Any, axis: _b.int | _Sequence[_b.int] | None = ..., ddof: _b.int = ..., keepdims: _b.bool = ..., *, dim: _Any = ..., dims: _Any = ..., keepdim: _Any = ..., correction: _Any = ..., unbiased: _Any = ..., out: _Any = ...) -> _Any:
    """The variance of `x` along `axis`: the mean square distance from the mean, with divisor count - `ddof`."""
def var_mean(x: _Any, axis: _Any = ..., *, correction: _b.float = ..., keepdims: _b.bool = ..., unbiased: _b.bool = ..., dim: _Any = ..., keepdim: _Any = ...) -> _Any:
    """The variances along `axis`, or of all elements, and the means. The former divide by the number of elements less
    `correction`, which is 1 here, as in PyTorch, or 0 if not `unbiased`; `tenon.var` divides by the number."""
def vdot(x: _Any, y: _Any = ..., *, other: _Any = ...) -> _Any:
    """The sum of the products of the elements of two tensors, in row-major order."""
def view(x: _Any, *shape: _Any) -> _Any:
    """`x` in another shape, of which one size may be -1; the same as `reshape`."""
def view_as(x: _Any, other: _Any) -> _Any:
    """`x` in the shape of `other`."""
def vsplit(x: _Any, indices_or_sections: _Any) -> _Any:
    """`x`, of rank 2 at least, cut along its first axis: before each of the places of a sequence, or into a number of
    equal parts."""
def vstack(tensors: _Any) -> _Any:
    """Tensors below each other: along their first axis, vectors as rows."""
def where(condition: _Any, x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """`x` where `condition` is true, else `y`. The branch that is not taken gets no gradient, whatever it is."""
def window_argmax(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """Which element of each window of `x` (..., *image) is the largest, or the first NaN, counted in row-major order
    within the window (i64)."""
def window_max(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The largest element of each window of `x` (..., *image); the gradient goes to the first such element."""
def window_sum(x: _Any, window: _b.int | _Sequence[_b.int] = ..., stride: _b.int | _Sequence[_b.int] = ..., dilation: _b.int | _Sequence[_b.int] = ..., *, kernel_size: _Any = ..., out: _Any = ...) -> _Any:
    """The sum of each window of `x` (..., *image). The settings are those of `sliding_windows`."""
def xlog1py(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """`x` log(1 + `y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where `y` is -1 or below."""
def xlogy(x: _Any, y: _Any = ..., *, other: _Any = ..., out: _Any = ...) -> _Any:
    """`x` log(`y`), and 0 where `x` is 0 unless `y` is NaN. The gradient there is 0 where log(`y`) is not finite."""
def zeros(*sizes: _Any, shape: _Any = ..., dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ..., size: _Any = ...) -> _Any:
    """A tensor of zeros, of a shape (sizes or one tuple of them, behind which a dtype may be)."""
def zeros_like(x: _Any, *, dtype: _b.object = ..., device: _b.str | None = ..., requires_grad: _b.bool = ...) -> _Any:
    """Zeros of `x`'s shape and dtype, or of another `dtype`."""
def zeta(x: _Any, y: _Any = ..., *, other: _Any = ..., q: _Any = ..., out: _Any = ...) -> _Any:
    """The zeta function of Hurwitz: the sum over all k from 0 on of (`y` + k) to the power of -`x`; with a `y` of 1,
    that of Riemann. inf at 1 and for whole `y` up to 0, NaN for `x` below 1 and for other negative `y`."""
