"""Tenon: define a tensor op once.

The front door: `tenon.jit`, `grad` and their like, a function for every op (`tenon.exp`, `tenon.matmul`, and those of
ops that users define), and what an op definition needs (`tensor_op`, the families, `setting`). Everything is loaded
when first used. Its rooms, each of which imports only those above it in this list, beside this file's names:

`seeds`         of all that is drawn without one of its own
`cuda`          whether tensors can be on a GPU
`transform`     derivatives of functions
`batching`      `vmap`
`jacobians`     `jacrev`, `jacfwd`, `hessian`
`control_flow`  loops and branches
`mapping`       functions of one element, along arrays
`draws`         keys of what is drawn without one
`custom_rules`  functions with derivatives of their own
`eager`         tensors: ops that run when they are called, and the tape
`autograd`      derivatives of tensors
`drawing`       random tensors
`debug`         prints and checks in programs
`arrays`        functions of the array API that are no ops
`linalg`        those of linear algebra
`saving`        trees of arrays as files
`datasets`      examples by index
`samplers`      in which order examples come
`loading`       how batches are made
`data`          batches of examples
`nn`            modules
`optim`         optimizers and schedules of the learning rate
`func`          functions of modules' parameters, by PyTorch's names
`utils`         batches and checkpoints, by PyTorch's names
`quantization`  numbers as integer steps of a scale
`traces`        imperative functions as programs, and programs as files
`onnx`          ONNX models as functions
`testing`       that all that follows from a definition agrees
"""

from __future__ import annotations

import builtins
import gc
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE: dict[str, str] = {
    **dict.fromkeys(("jit", "JitFunction"), "tenon.runtime.jit"),
    **dict.fromkeys(("grad", "linear_transpose", "linearize", "value_and_grad", "vjp", "jvp"), "tenon.transform"),
    **dict.fromkeys(("apply_along_axis", "map", "piecewise", "tree_map", "vectorize"), "tenon.mapping"),
    **dict.fromkeys(("jacfwd", "jacrev", "hessian"), "tenon.jacobians"),
    **dict.fromkeys(
        ("associative_scan", "checkpoint", "cond", "fori_loop", "while_loop", "scan", "switch"), "tenon.control_flow"
    ),
    **dict.fromkeys(("custom_gradient", "custom_jvp", "custom_vjp"), "tenon.custom_rules"),
    **dict.fromkeys(("vmap",), "tenon.batching"),
    **dict.fromkeys(("Traced", "Lowered", "Compiled"), "tenon.runtime.stages"),
    **dict.fromkeys(("ShapeDtype", "dim"), "tenon.runtime.arguments.arguments"),
    **dict.fromkeys(("UndecidedSizeError",), "tenon.dialects.types.size"),
    **dict.fromkeys(("SizeMismatchError",), "tenon.runtime.arguments.interface"),
    **dict.fromkeys(("knobs",), "tenon.runtime.knobs"),
    **dict.fromkeys(("Tensor", "tensor", "as_tensor"), "tenon.eager.tensor"),
    **dict.fromkeys(("Parameter",), "tenon.eager.tensor"),
    **dict.fromkeys(
        (
            *("bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randn", "randn_like", "randperm"),
            *("clone", "device", "from_numpy", "is_tensor", "numel", "get_default_device", "set_default_device"),
            "Size",
        ),
        "tenon.drawing",
    ),
    **dict.fromkeys(("manual_seed", "get_rng_state", "set_rng_state"), "tenon.seeds"),
    **dict.fromkeys(("GradManager",), "tenon.autograd.grad_manager"),
    **dict.fromkeys(("trace", "TracedFunction"), "tenon.traces.function"),
    **dict.fromkeys(("load",), "tenon.traces.files"),
    **dict.fromkeys(("LoadedFunction",), "tenon.traces.loaded"),
    **dict.fromkeys(
        ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "is_grad_enabled"), "tenon.eager.modes"
    ),
    **dict.fromkeys(
        (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"),
            *("e", "inf", "nan", "newaxis", "pi"),
            *("can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type"),
        ),
        "tenon.arrays.dtypes",
    ),
    **dict.fromkeys(("bfloat16", "double", "float16", "half", "long", "short"), "tenon.arrays.dtypes"),
    **dict.fromkeys(
        (
            *(
                "broadcast_arrays",
                "broadcast_shapes",
                "cumulative_prod",
                "cumulative_sum",
                "empty",
                "empty_like",
            ),
            *("matrix_transpose", "moveaxis", "positive", "signbit"),
        ),
        "tenon.arrays.rearranging",
    ),
    **dict.fromkeys(
        (
            *("isin", "unique", "unique_all", "unique_consecutive"),
            *("unique_counts", "unique_inverse", "unique_values"),
            *("intersect1d", "setdiff1d", "setxor1d", "union1d"),
        ),
        "tenon.arrays.sets",
    ),
    **dict.fromkeys(("gcd", "lcm"), "tenon.arrays.integers"),
    **dict.fromkeys(("append", "delete", "insert", "resize", "trim_zeros"), "tenon.arrays.inserting"),
    **dict.fromkeys(("reduce_window",), "tenon.arrays.windows"),
    **dict.fromkeys(("tensordot", "vecdot"), "tenon.arrays.products"),
    **dict.fromkeys(
        ("get_num_threads", "set_num_threads", "num_threads", "set_flush_denormal"), "tenon.runtime.cpu.threads"
    ),
    **dict.fromkeys(
        (
            "ArgReductionOp",
            "BinaryOp",
            "CombiningOp",
            "CompositeOp",
            "ContractionOp",
            "CumulativeOp",
            "ElementwiseOp",
            "IndexMapOp",
            "IndexingOp",
            "PrimitiveOp",
            "ReductionOp",
            "ScatterOp",
            "UnaryOp",
            "WindowOp",
        ),
        "tenon.dialects.families",
    ),
    **dict.fromkeys(("OpaqueOp", "Kernel"), "tenon.dialects.families.opaque"),
    **dict.fromkeys(("HostOp",), "tenon.dialects.families.host"),
    **dict.fromkeys(("autocast",), "tenon.dialects.definition.autocast"),
    **dict.fromkeys(("TensorOp", "tensor_op"), "tenon.dialects.definition.tensor_op"),
    **dict.fromkeys(("registry", "tensor_function"), "tenon.dialects.definition.registry"),
    **dict.fromkeys(("CpuOnly", "CudaOnly", "NoGradient"), "tenon.dialects.definition.traits"),
    **dict.fromkeys(("setting",), "tenon.dialects.definition.settings"),
    **dict.fromkeys(("InferenceError",), "tenon.dialects.types.shapes"),
    **dict.fromkeys(("GradientError",), "tenon.passes.transform.differentiate"),
    **dict.fromkeys(("Value", "TracedValueError"), "tenon.dialects.definition.value"),
    **dict.fromkeys(
        (
            "ANY_TENSOR",
            "BOOL_TENSOR",
            "FLOAT_TENSOR",
            "INTEGER_TENSOR",
            "INTEGRAL_TENSOR",
            "NUMERIC_TENSOR",
            "STORED_TENSOR",
            "element_of",
            "element_type",
            "shape_of",
            "tensor_type",
        ),
        "tenon.dialects.types.types",
    ),
    **dict.fromkeys(
        (
            "operand_def",
            "opt_operand_def",
            "opt_result_def",
            "result_def",
            "traits_def",
            "var_operand_def",
            "var_result_def",
        ),
        "xdsl.irdl",
    ),
}
# What Python has by the same name is meant inside of this file.
_RENAMED = {
    "bool": ("tenon.arrays.dtypes", "bool_"),
    "float": ("tenon.arrays.dtypes", "float32"),
    "int": ("tenon.arrays.dtypes", "int32"),
}
_MODULES = (
    *("autograd", "cuda", "data", "debug", "func", "linalg", "nn", "onnx", "optim", "quantization", "saving"),
    *("testing", "utils"),
)
_CREATING = ("arange", "empty", "eye", "full", "geomspace", "linspace", "logspace", "ones", "zeros")
_OWN_IMPORTS = ("Any", "annotations", "builtins", "gc", "import_module")
# What finds an op by its name, once the runtime is there, and the names that were found.
_FINDER: list[Any] = []
_FOUND: list[str] = []


_MANY = 10_000
"""More new objects than these come from imports; to look through them takes milliseconds."""


def __getattr__(name: str) -> Any:
    # What is imported makes many objects that stay; collections would look through them again and again meanwhile.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _find(name)
    finally:
        if was_enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                # old from now on, without a look at each: full collections alone go through them
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _find(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tenon.{name}")
    if name in _WHERE:
        if _WHERE[name].startswith(("tenon.arrays.", "tenon.dialects.", "tenon.mapping")):
            # An op that is defined or called with what is handed out runs on arrays, too.
            _load_runtime()
        value = globals()[name] = _as_called(name, getattr(import_module(_WHERE[name]), name))
        return value
    if name in _RENAMED:
        module, own = _RENAMED[name]
        return getattr(import_module(module), own)
    if name == "__all__":
        return [name for name in __dir__() if not (name.startswith("_") or hasattr(builtins, name))]
    if name.startswith("_"):
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    if not _FINDER:
        import_module("tenon.dialects.definition.registry").watch_generation(_forget)
        _FINDER.append(_load_runtime().find_function)
    function = _FINDER[0](name)
    if function is None:
        from tenon.dialects.support.suggestion import instead_or_meant

        hint = instead_or_meant(name, __dir__())
        raise AttributeError(f"module 'tenon' has no attribute and no op {name!r}{hint}")
    _FOUND.append(name)
    function = globals()[name] = _as_called(name, function)
    return function


def _as_called(name: str, found: Any) -> Any:
    """What is found under a name, as users call it."""
    return import_module("tenon.dialects.definition.registry").by_default(found) if name in _CREATING else found


def _load_runtime() -> Any:
    """What evaluates ops: importing it registers them and lets them run on arrays; tensors are loaded when one is asked
    for."""
    registry = import_module("tenon.dialects.definition.registry")
    registry.install_front(lambda name: name in _WHERE or name in _MODULES or name in _RENAMED)
    registry.install_tensors(lambda *given: import_module("tenon.drawing").made_as_asked(*given))
    return import_module("tenon.runtime.evaluate")


def _forget() -> None:
    """Look for ops again: one may have taken the place of another."""
    while _FOUND:
        globals().pop(_FOUND.pop(), None)


def __dir__() -> list[str]:
    import_module("tenon.runtime.evaluate")
    functions = import_module("tenon.dialects.definition.registry").function_names()
    found = {name for name in globals() if name not in _OWN_IMPORTS}
    return sorted({*found, *_WHERE, *_RENAMED, *_MODULES, *functions})
