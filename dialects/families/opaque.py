"""Opaque ops: named kernels given as target code, for what loops cannot say (a library call, hand-written assembly).

    @tenon.tensor_op
    class HypotOp(tenon.OpaqueOp):
        name = "my.hypot"
        ...
        KERNELS = (Kernel("libm", "llvm", hypot_llvm, is_f64, "f64 of one shape"),)

In IR an opaque op becomes a call of a kernel without a body, whose attributes say all there is to know: per target
either `<target>_kernel` and `<target>_source`, for CUDA with `cuda_launch`, or `<target>_refused`, why no kernel was
taken; `reference` and `settings`, with which the interpreter computes it, and which operands are `unsigned`, which
types of later stages do not say.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar, Literal

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tenon.dialects.definition.registry import OpClass, registry
from tenon.dialects.definition.signature import flat
from tenon.dialects.definition.value import emit, insertion_point
from tenon.dialects.families import StructuredOp, as_tuple, require_hooks
from tenon.dialects.support.user_traceback import call_user
from tenon.dialects.types.shapes import InferenceError
from tenon.dialects.types.types import (
    AnyTensor,
    element_of,
    element_type,
    is_bool,
    is_known,
    is_unsigned,
    numpy_dtype,
    shape_of,
)

Target = Literal["llvm", "cuda"]
TARGETS: tuple[Target, ...] = ("llvm", "cuda")
_MOST_THREADS = 1024
"""Of a block, on any GPU."""


def _any_types(types: Sequence[Any], settings: dict[str, Any]) -> bool:
    return True


def _one_block(types: Sequence[Any], settings: dict[str, Any]) -> tuple[int, int]:
    return 1, 256


@dataclass(frozen=True)
class Kernel:
    """Target code of an opaque op.

    `source(symbol, operand_types, result_types, settings)` gives the text: LLVM IR that defines `void @symbol(ptr, …)`
    for `target="llvm"`, or CUDA C++ that defines `extern "C" __global__ void symbol(…)` for `target="cuda"`, run by
    `launch(operand_types, settings)`: so many blocks, and threads of each. Parameters are the operands' and then the
    results' memory, row-major; no result overlaps another argument. LLVM text may declare and call what is in the
    process, such as the C library; what it defines besides gets names of its own.
    `accepts(operand_types, settings)` says for what the kernel is right, and `why` puts that into words.
    """

    name: str
    target: Target
    source: Callable[[str, Sequence[Any], Sequence[Any], dict[str, Any]], str]
    accepts: Callable[[Sequence[Any], dict[str, Any]], bool] = _any_types
    why: str = "any operands"
    launch: Callable[[Sequence[Any], dict[str, Any]], tuple[int, int]] = _one_block

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise ValueError(f"kernel {self.name!r}: target is {self.target!r}, not one of {', '.join(TARGETS)}")
        if not isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"kernel {self.name!r}: its name is a {type(self.name).__name__} where text is needed")
        for what in ("source", "accepts", "launch"):
            if not callable(getattr(self, what)):
                raise TypeError(f"kernel {self.name!r}: {what} is no function")


class OpaqueOp(StructuredOp):
    """An op whose kernels Tenon does not look into; it has no gradient unless it defines `vjp`.

    The first kernel of a target that accepts operands and settings is taken.
    """

    KERNELS: ClassVar[tuple[Kernel, ...]] = ()

    @staticmethod
    @abstractmethod
    def reference(*operands: np.ndarray[Any, Any], **settings: Any) -> Any:
        """The result on NumPy arrays (a tuple for several): what the kernels are tested against."""

    @classmethod
    def check_family(cls) -> None:
        if not cls.KERNELS:
            raise TypeError(f"{cls.__name__} ({cls.name}) must define `KERNELS`")
        known: Any = cls.KERNELS
        if not isinstance(known, tuple | list) or not all(isinstance(kernel, Kernel) for kernel in known):
            raise TypeError(f"{cls.__name__} ({cls.name}): KERNELS is {known!r} where a tuple of Kernels is needed")
        require_hooks(cls, "infer", "reference")

    @classmethod
    def inferred_types(cls, operand_types: Sequence[Any], settings: dict[str, Any]) -> tuple[AnyTensor, ...]:
        """The result types, whose sizes are known where those of the operands are."""
        types = super().inferred_types(operand_types, settings)
        if all(map(is_known, operand_types)) and not all(map(is_known, types)):
            shown = ", ".join(map(str, types))
            raise InferenceError(
                f"{cls.called()}: infer leaves a size of its results open ({shown}), and it may depend on sizes of the "
                "operands and on settings, not on values; give the greatest size that there can be, and as another "
                "result how many elements count, or compute it by a plain function of Python's, outside of programs"
            )
        return types

    @classmethod
    def choose(cls, target: Target, types: Sequence[Any], settings: dict[str, Any]) -> Kernel | str:
        """The kernel for `target`, or why there is none: each candidate with what it takes."""
        candidates = [kernel for kernel in cls.KERNELS if kernel.target == target]
        for kernel in candidates:
            if kernel.accepts(types, settings):
                return kernel
        given = ", ".join(map(str, types))
        refusals = "; ".join(f"{k.name} takes {k.why}" for k in candidates)
        if refusals:
            return f"no kernel for {target} takes ({given}): {refusals}"
        trait = "CpuOnly" if target == "cuda" else "CudaOnly"
        return f"has no kernel for {target}; where it shall have none, say traits = traits_def(Pure(), {trait}())"

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        values, types = flat(operands), [r.type for r in self.results]
        symbol = _declared(_module(), self, [v.type for v in values], types)
        return list(emit(func.CallOp(symbol, values, types)).results)

    def kernel_attributes(self, symbol: str, types: Sequence[Any], results: Sequence[Any]) -> dict[str, Attribute]:
        """What a declaration says about the op: kernels or refusals, and what the interpreter needs."""
        attributes: dict[str, Attribute] = {"kernel": UnitAttr()}
        for target in TARGETS:
            chosen = self.choose(target, types, self.settings)
            if isinstance(chosen, str):
                attributes[f"{target}_refused"] = StringAttr(f"{self.name}: {chosen}")
                continue
            source = call_user(chosen.source, symbol, types, results, self.settings)
            if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                given = f"a {type(source).__name__}"
                raise ValueError(f"kernel {chosen.name!r} for {target}: its source gives {given} where text is needed")
            if symbol not in source:
                raise ValueError(f"kernel {chosen.name!r} for {target}: its source does not define {symbol}")
            attributes[f"{target}_kernel"] = StringAttr(chosen.name)
            attributes[f"{target}_source"] = StringAttr(source)
            if target == "cuda":
                attributes["cuda_launch"] = DenseArrayBase.from_list(i64, _launch(chosen, types, self.settings))
        attributes["reference"] = StringAttr(self.name)
        if unsigned := [number for number, type_ in enumerate(types) if is_unsigned(element_of(type_))]:
            attributes["unsigned"] = DenseArrayBase.from_list(i64, unsigned)
        attributes["settings"] = DictionaryAttr(
            {k: v for k, v in self.properties.items() if k in self.SIGNATURE.settings}
        )
        return attributes


def _launch(kernel: Kernel, types: Sequence[Any], settings: dict[str, Any]) -> tuple[int, int]:
    """How many blocks, and threads of each; raises `ValueError` for what no GPU has."""
    given: Any = kernel.launch(types, settings)
    pair = tuple(given) if isinstance(given, tuple | list) else ()
    if len(pair) == 2 and all(hasattr(number, "__index__") for number in pair):
        blocks, threads = map(index, pair)
        if 0 < blocks < 1 << 31 and 0 < threads <= _MOST_THREADS:
            return blocks, threads
    raise ValueError(
        f"kernel {kernel.name!r} for cuda: launch gives {given!r} where (blocks, threads) are needed, 1 or more and at "
        f"most {_MOST_THREADS} threads"
    )


def op_of(declaration: func.FuncOp) -> OpClass | None:
    """The op of the kernel that a declaration stands for, if it names one that there is."""
    name = declaration.attributes.get("reference")
    return registry().get(name.data) if isinstance(name, StringAttr) else None


def evaluate_reference(
    declaration: func.FuncOp, arguments: Sequence[Any], dtypes: Sequence[np.dtype[Any]] | None = None
) -> tuple[Any, ...]:
    """The results of the kernel that `declaration` stands for, by the op's `reference`, which cannot change operands.

    Where results are arguments, too (after bufferization), they are written and nothing is returned. `dtypes` are those
    of the results where the declaration's types, which have no signs, do not say them. Raises `ValueError` when the
    declaration names no op, and `TypeError` or `ValueError` for results that are not what `infer` said.
    """
    op = op_of(declaration)
    if op is None or not issubclass(op, OpaqueOp):
        raise ValueError(f"function @{declaration.sym_name.data} has no body and no reference among the registered ops")
    settings: Any = declaration.attributes["settings"]
    count: Any = declaration.attributes.get("num_inputs")
    targets: Sequence[Any] = () if count is None else arguments[count.value.data :]
    inputs = [_read_only(array) for array in arguments[: len(arguments) - len(targets)]]
    unsigned = declaration.attributes.get("unsigned")
    for number in unsigned.get_values() if isinstance(unsigned, DenseArrayBase) else ():
        inputs[int(number)] = inputs[int(number)].view(f"u{inputs[int(number)].itemsize}")
    properties: dict[str, Attribute] = dict(settings.data)
    results = as_tuple(op.reference(*op.group(inputs, properties), **op.python_settings(properties)))
    if count is None:
        types = declaration.function_type.outputs.data
        dtypes = dtypes or [numpy_dtype(element_of(type_)) for type_ in types]
        wanted = [(shape_of(type_) or (), dtype) for type_, dtype in zip(types, dtypes, strict=True)]
        return tuple([result.astype(result_dtype) for result, result_dtype in _checked(op, results, wanted)])
    wanted = [(target.shape, target.dtype) for target in targets]
    for target, (result, _) in zip(targets, _checked(op, results, wanted), strict=True):
        target[...] = result
    return ()


def _read_only(array: Any) -> np.ndarray[Any, Any]:
    """The memory of the program, or of its caller, as it must not be changed."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _checked(
    op: type[OpaqueOp], results: Sequence[Any], wanted: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
) -> list[tuple[np.ndarray[Any, Any], np.dtype[Any]]]:
    """What `reference` returned as arrays, with the dtypes that they are stored in."""
    if len(results) != len(wanted):
        raise TypeError(f"{op.name}: reference returns {len(results)} results where {len(wanted)} are inferred")
    names = op.SIGNATURE.results if not op.SIGNATURE.variadic_results else [f"result {i}" for i in range(len(wanted))]
    checked: list[tuple[np.ndarray[Any, Any], np.dtype[Any]]] = []
    for name, result, (shape, dtype) in zip(names, results, wanted, strict=True):
        if result is None:
            raise TypeError(f"{op.name}: reference returns None where {name}, an array of shape {shape}, is needed")
        array = np.asarray(result)
        if array.shape != shape:
            raise ValueError(f"{op.name}: reference gives {name} the shape {array.shape} where {shape} is inferred")
        if _rank(array.dtype) > _rank(dtype):
            raise TypeError(f"{op.name}: reference gives {name} the dtype {array.dtype} where {dtype} is inferred")
        checked.append((array, dtype))
    return checked


def _rank(dtype: np.dtype[Any]) -> int:
    """Truth values, integers, floats: each can be converted to those behind it, but not to those before it."""
    try:
        element = element_type(dtype)
    except TypeError:
        return 3
    return 0 if is_bool(element) else 1 if isinstance(element, IntegerType) else 2


def kernel_of(declaration: func.FuncOp, target: Target) -> str:
    """How errors call a kernel that brings its text: by its op and the name that this gave it, as far as it says."""
    op, kernel = declaration.attributes.get("reference"), declaration.attributes.get(f"{target}_kernel")
    where = op.data if isinstance(op, StringAttr) else f"@{declaration.sym_name.data}"
    return f"{where}: kernel {kernel.data!r} for {target}" if isinstance(kernel, StringAttr) else f"{where}: its text"


def wrong_parameters(declaration: func.FuncOp, target: Target, result: str, parameters: Sequence[str]) -> ValueError:
    """What is wrong where the text of a kernel, whose results are memory, too, defines it with these parameters."""
    count, inputs = len(declaration.function_type.inputs), declaration.attributes.get("num_inputs")
    pointer = "ptr" if target == "llvm" else "*"
    expected = f"void ({', '.join([pointer] * count)})"
    if isinstance(inputs, IntegerAttr):
        expected += f": operands ({inputs.value.data}), then results ({count - inputs.value.data})"
    given = f"{result} ({', '.join(parameters)})"
    return ValueError(f"{kernel_of(declaration, target)} defines {given}, and is called as {expected}")


def split_parameters(text: str) -> list[str]:
    """Parameters of a function in LLVM IR or C++, at the commas between them."""
    found, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in "({<[") - (token in ")}>]")
        if token == "," and not depth:
            found.append("")
        else:
            found[-1] += token
    stripped = [" ".join(parameter.split()) for parameter in found]
    return stripped if any(stripped) else []


_TOKEN = re.compile(r"\"[^\"]*\"|[(){}<>\[\],]|[^\"(){}<>\[\],]+")


def _module() -> ModuleOp:
    point = insertion_point()
    assert point is not None
    parent: Operation | None = point.block.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    assert isinstance(parent, ModuleOp), "an opaque op outside of a module"
    return parent


def _declared(module: ModuleOp, op: OpaqueOp, types: Sequence[Any], results: Sequence[Any]) -> str:
    """The symbol of the kernel for `op`; a declaration that says the same is used again."""
    known = {f.sym_name.data: f for f in module.ops if isinstance(f, func.FuncOp)}
    number = 0
    while True:
        symbol = f"opaque_{op.name.rpartition('.')[2]}_{number}"
        declaration = func.FuncOp.external(symbol, list(types), list(results))
        declaration.attributes.update(op.kernel_attributes(symbol, types, results))
        existing = known.get(symbol)
        if existing is None:
            break
        if existing.attributes == declaration.attributes and existing.function_type == declaration.function_type:
            return symbol
        number += 1
    module.body.block.add_op(declaration)
    return symbol
