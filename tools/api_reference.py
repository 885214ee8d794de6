"""Reference pages of what is no op: compiling, transformations, modules, optimizers, models, and what definitions need.

An entry has the signature and the docstring, and a class its public methods and properties.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence, Set
from importlib import import_module
from typing import Any

from xdsl.ir import Operation

from tenon.tools.markdown import prose

_JIT = (
    *("jit", "JitFunction", "Traced", "Lowered", "Compiled", "ShapeDtype", "dim"),
    *("get_num_threads", "set_num_threads", "num_threads"),
)
_TRANSFORMS = (
    *(
        "grad",
        "value_and_grad",
        "vjp",
        "jvp",
        "linearize",
        "linear_transpose",
        "jacrev",
        "jacfwd",
        "hessian",
        "vmap",
        "checkpoint",
    ),
    *("cond", "switch", "fori_loop", "while_loop", "scan", "associative_scan", "map", "tree_map", "vectorize"),
    *("apply_along_axis", "piecewise"),
    *("custom_vjp", "custom_jvp", "custom_gradient"),
)
_DEFINITIONS = (
    *("tensor_op", "TensorOp", "ElementwiseOp", "UnaryOp", "BinaryOp", "PrimitiveOp", "CompositeOp"),
    *("CombiningOp", "ReductionOp", "ArgReductionOp", "CumulativeOp", "ContractionOp", "WindowOp"),
    *("IndexMapOp", "IndexingOp", "ScatterOp"),
    *("OpaqueOp", "Kernel", "HostOp"),
    *("setting", "tensor_function", "NoGradient", "CpuOnly", "CudaOnly", "InferenceError", "GradientError"),
)
_ARRAYS = (
    *("broadcast_arrays", "broadcast_shapes", "can_cast", "cumulative_prod", "cumulative_sum", "diff", "empty"),
    *("gcd", "lcm", "intersect1d", "setdiff1d", "setxor1d", "union1d"),
    *("append", "delete", "insert", "resize", "trim_zeros", "reduce_window"),
    *("empty_like", "finfo", "from_dlpack", "iinfo", "isdtype", "isin", "matrix_transpose", "moveaxis", "positive"),
    *(
        "outer",
        "result_type",
        "signbit",
        "tensordot",
        "unique_all",
        "unique_consecutive",
        "unique_counts",
        "unique_inverse",
        "unique_values",
        "vecdot",
    ),
)

_TENSORS = (
    *("Tensor", "tensor", "as_tensor", "no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled"),
    *("GradManager", "autocast"),
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal", "bernoulli", "multinomial"),
    *("manual_seed", "from_numpy", "is_tensor", "device", "clone", "numel", "set_default_device"),
)

# Title, module, and the names to document; all public ones of the module where there are none.
_PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "jit": ("Compiling functions", "tenon", _JIT),
    "transforming": ("Transformations and control flow", "tenon", _TRANSFORMS),
    "tensors": ("Tensors", "tenon", _TENSORS),
    "autograd": ("Gradients of tensors: tenon.autograd", "tenon.autograd", ()),
    "autograd_functional": (
        "Derivatives of functions of tensors: tenon.autograd.functional",
        "tenon.autograd.functional",
        (),
    ),
    "definitions": ("What a definition of an op needs", "tenon", _DEFINITIONS),
    "arrays": ("Functions of the array API standard that are no ops", "tenon", _ARRAYS),
    "data": ("Batches of data: tenon.data", "tenon.data", ()),
    "quantization": ("Quantized numbers: tenon.quantization", "tenon.quantization", ()),
    "saving": ("Files of arrays and checkpoints: tenon.saving", "tenon.saving", ()),
    "linalg": ("Linear algebra: tenon.linalg", "tenon.linalg", ()),
    "nn": ("Modules: tenon.nn", "tenon.nn", ()),
    "functional": ("Modules as functions: tenon.nn.functional", "tenon.nn.functional", ()),
    "utils": ("Gradients, parameters, sequences: tenon.nn.utils", "tenon.nn.utils", ()),
    "lr_scheduler": ("Learning rates by PyTorch's names: tenon.optim.lr_scheduler", "tenon.optim.lr_scheduler", ()),
    "func": ("Functions of parameters: tenon.func", "tenon.func", ()),
    "swa_utils": ("Averages of models: tenon.optim.swa_utils", "tenon.optim.swa_utils", ()),
    "parametrize": ("Parameters that are computed: tenon.nn.utils.parametrize", "tenon.nn.utils.parametrize", ()),
    "prune": ("Masks of weights: tenon.nn.utils.prune", "tenon.nn.utils.prune", ()),
    "parametrizations": ("Norms of weights: tenon.nn.utils.parametrizations", "tenon.nn.utils.parametrizations", ()),
    "optim": ("Optimizers: tenon.optim", "tenon.optim", ()),
    "onnx": ("ONNX models: tenon.onnx", "tenon.onnx", ()),
    "debug": ("Looking at values: tenon.debug", "tenon.debug", ()),
    "testing": ("Testing ops: tenon.testing", "tenon.testing", ()),
}


def api_pages() -> dict[str, str]:
    """The pages by file name (`nn.md`); without that of a module whose optional dependency is not installed."""
    made: dict[str, str] = {}
    for name, (title, module, names) in _PAGES.items():
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            continue
        made[f"{name}.md"] = _page(title, found, names or _public(found))
    return made


def api_index() -> list[str]:
    """The lines of the index for these pages."""
    return [f"- [{title}]({name}.md)" for name, (title, _, _) in _PAGES.items()]


def _public(module: Any) -> Sequence[str]:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]
    return getattr(module, "__all__", own)


def _page(title: str, module: Any, names: Sequence[str]) -> str:
    about = "" if module.__name__ == "tenon" else _text(module)
    links = " · ".join(f"[`{name}`](#{name})" for name in names)
    shown = {id(getattr(module, name)) for name in names}
    entries = ["\n".join(_entry(module.__name__, name, getattr(module, name), shown)).strip() for name in names]
    return "\n\n".join(part for part in (f"# {title}", about, links, *entries) if part) + "\n\n[All pages](index.md)\n"


def _entry(module: str, name: str, value: Any, shown: Set[int]) -> Iterator[str]:
    yield f'## `{name}` <a id="{name}"></a>\n'
    yield f"```python\n{module}.{name}{_signature(value)}\n```\n"
    yield f"{_text(value)}\n"
    for method, found in _members(value, shown) if inspect.isclass(value) else ():
        call = "" if isinstance(found, property) else _signature(found, of_member=True)
        yield f"- `{name}.{method}{call}`: {_text(found)}".replace("\n", "\n  ") + "\n"


def _members(cls: type, shown: Set[int]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are documented, of the class and of its bases up to one that is shown too."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if base is not cls and (id(base) in shown or not base.__module__.startswith("tenon.")):
            break
        for name, value in vars(base).items():
            found = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            is_member = isinstance(found, property) or inspect.isfunction(found)
            if is_member and name not in seen and not name.startswith("_") and found.__doc__:
                seen.add(name)
                yield name, found


def _signature(value: Any, *, of_member: bool = False) -> str:
    """As one calls it; nothing for ops, and where a class says no more than that it takes anything."""
    if inspect.isclass(value) and issubclass(value, Operation):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    given = list(found.parameters.values())
    if of_member and given and given[0].name in ("self", "cls"):
        given = given[1:]
    if inspect.isclass(value) and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given):
        return ""
    returned = found.empty if inspect.isclass(value) else found.return_annotation
    text = str(found.replace(parameters=given, return_annotation=returned))
    # Annotations are strings, and the addresses of functions say nothing to a reader.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"<(?:function|object)[^>]*>", "...", text)


def _text(value: Any) -> str:
    return prose(inspect.getdoc(value) or "")
