"""The path from tensor IR to loop IR, read from top to bottom, and the stage that a module stands at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects import func, linalg
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass

from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.families.control_flow import ControlFlowOp
from tenon.dialects.types.assumptions import knowing, positive_sizes
from tenon.lowering.function_pass import Change, FunctionPass, SizesPass
from tenon.lowering.options import LoweringOptions
from tenon.passes.machine import GENERIC, Gpu, Machine
from tenon.passes.pipeline import PASSES as TENSOR_PASSES
from tenon.passes.pipeline import TENSOR_PIPELINE
from tenon.passes.verification import Verification


def _loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        from importlib import import_module

        return getattr(import_module(f"tenon.lowering.{module}"), name)

    return load


PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    "convert-tensor-to-structured": _loader("buffers.convert_tensor_to_structured", "ConvertTensorToStructuredPass"),
    "vanish-weights": _loader("math.vanish_weights", "VanishWeightsPass"),
    "erase-narrow-types": _loader("math.erase_narrow_types", "EraseNarrowTypesPass"),
    "write-updates": _loader("buffers.write_updates", "WriteUpdatesPass"),
    "alternate-buffers": _loader("buffers.alternate_buffers", "AlternateBuffersPass"),
    "bufferize": _loader("buffers.bufferize", "BufferizePass"),
    "few-rows": _loader("schedules.few_rows", "FewRowsPass"),
    "schedule": _loader("schedules.schedule", "SchedulePass"),
    "skip-masked": _loader("schedules.skip_masked", "SkipMaskedPass"),
    "convert-structured-to-loops": _loader("nests.convert_structured_to_loops", "ConvertStructuredToLoopsPass"),
    "separate-updates": _loader("grid_schedules.separate_updates", "SeparateUpdatesPass"),
    "gather-overlaps": _loader("grid_schedules.gather_overlaps", "GatherOverlapsPass"),
    "sum-beside-rows": _loader("grid_schedules.sum_beside_rows", "SumBesideRowsPass"),
    "reduce-in-parts": _loader("grid_schedules.reduce_in_parts", "ReduceInPartsPass"),
    "scan-in-parts": _loader("grid_schedules.scan_in_parts", "ScanInPartsPass"),
    "decide-steps": _loader("grid_schedules.decide_steps", "DecideStepsPass"),
    "apply-steps": _loader("grids.apply_steps", "ApplyStepsPass"),
    "vectorize-updates": _loader("loop_passes.vectorize_updates", "VectorizeUpdatesPass"),
    "separate-rows": _loader("loop_passes.separate_rows", "SeparateRowsPass"),
    "prefetch-rows": _loader("loop_passes.prefetch_rows", "PrefetchRowsPass"),
    "hold-rows": _loader("loop_passes.hold_rows", "HoldRowsPass"),
    "stream-stores": _loader("loop_passes.stream_stores", "StreamStoresPass"),
    "parallelize": _loader("loop_passes.parallelize", "ParallelizePass"),
    "prefetch-next": _loader("loop_passes.prefetch_next", "PrefetchNextPass"),
    "places-ahead": _loader("loop_passes.places_ahead", "PlacesAheadPass"),
    "block-sums": _loader("loop_passes.block_sums", "BlockSumsPass"),
    "expand-math": _loader("math.expand_math", "ExpandMathPass"),
    "interleave-chains": _loader("loop_passes.interleave_chains", "InterleaveChainsPass"),
    "hoist-loads": _loader("loop_passes.hoist_loads", "HoistLoadsPass"),
    "mark-final": _loader("loop_passes.mark_final", "MarkFinalPass"),
    "legalize-arith": _loader("math.legalize_arith", "LegalizeArithPass"),
    "map-to-grid": _loader("cuda.map_to_grid", "MapToGridPass"),
    "approximate-rounded": _loader("cuda.approximate_rounded", "ApproximateRoundedPass"),
}


@dataclass(frozen=True)
class Stage:
    """A stage of IR: its name, and the passes that lead from it to the next one."""

    name: str
    passes: tuple[str, ...]


def stages(options: LoweringOptions) -> tuple[Stage, ...]:
    """The stages in order, with the passes that each is lowered by."""
    machine, on_gpu = options.machine, options.gpu is not None
    schedule = (_spec("schedule", _machine(machine), options.tuning),)
    parts: tuple[str, ...] = ("few-rows",)
    bufferize, updates = "bufferize", ("write-updates",)
    if options.gpu is not None:
        names = ("sum-beside-rows", "reduce-in-parts", "scan-in-parts")
        in_parts = (_spec(name, _machine(options.gpu)) for name in names)
        parts = ("separate-updates", "gather-overlaps", *in_parts)
        serialised = f"serialised={','.join(options.serialised)}" if options.serialised else ""
        gpu = _machine(options.gpu)
        schedule = (_spec("decide-steps", gpu, serialised, options.tuning), _spec("apply-steps", gpu))
        bufferize, updates = _spec("bufferize", f"alignment={options.gpu.access}"), ()
    return (
        # The ops as they were traced.
        Stage("tensor", _tensor_passes(options)),
        # Fusion groups are kernels.
        Stage(
            "fused",
            (
                "convert-tensor-to-structured",
                *(() if on_gpu else ("vanish-weights",)),
                "fuse-structured{loops=true}",
                *(() if on_gpu else ("split-index-sets",)),
            ),
        ),
        # Every op is a linalg.generic on tensors.
        Stage("structured", ("erase-narrow-types", *updates, "alternate-buffers", bufferize, *parts)),
        # Tensors are buffers in one arena.
        Stage(
            "buffered",
            (
                *schedule,
                *(("skip-masked",) if options.skipping and not on_gpu else ()),
                _spec("convert-structured-to-loops", _machine(machine)),
            ),
        ),
        # Kernels are loops over vectors and scalars.
        Stage("loops", () if on_gpu else _loop_passes(machine, options.exact_math)),
    )


def _loop_passes(machine: Machine, exact_math: str) -> tuple[str, ...]:
    exact = f"exact={exact_math}" if exact_math else ""
    return (
        _spec("vectorize-updates", _differing("vector-bits", machine.vector_bits, GENERIC.vector_bits)),
        "separate-rows",
        _spec(
            "prefetch-rows",
            _differing("least", machine.l2, GENERIC.l2),
            _differing("ahead", machine.page, GENERIC.page),
            _differing("line", machine.line, GENERIC.line),
        ),
        _spec("hold-rows", _differing("vectors", machine.registers // 4, GENERIC.registers // 4)),
        _spec("stream-stores", f"cache={machine.l3}", _differing("line", machine.line, GENERIC.line)),
        "parallelize",
        _spec(
            "prefetch-next",
            _differing("least", machine.l2, GENERIC.l2),
            _differing("nearest", machine.l1, GENERIC.l1),
        ),
        _spec("places-ahead", _differing("vector-bits", machine.vector_bits, GENERIC.vector_bits)),
        "block-sums",
        _spec(
            "expand-math",
            exact,
            _differing("scaling", machine.scaling, GENERIC.scaling),
            _differing("multiply-add", machine.multiply_add, GENERIC.multiply_add),
        ),
        _spec("interleave-chains", _differing("registers", machine.registers, GENERIC.registers)),
        "hoist-loads",
        "mark-final",
        "legalize-arith",
    )


def _machine(machine: Machine | Gpu) -> str:
    """The option `machine` of a pass."""
    text = machine.text()
    return f'machine="{text}"' if text else ""


def _differing(name: str, value: int, default: int) -> str:
    """An option of a pass, if it is not what it is by default."""
    return f"{name}={str(value).lower()}" if value != default else ""


def _spec(name: str, *options: str) -> str:
    """A pass with those options that are given, as on the command line."""
    given = " ".join(filter(None, options))
    return f"{name}{{{given}}}" if given else name


def _tensor_passes(options: LoweringOptions) -> tuple[str, ...]:
    """The passes on tensors, with what they are told of the target.

    On a GPU a contraction is not cut into strips: its tiles are in registers, where what is done to each element finds
    them, and a row is work for many threads. What minimal filtering saves, its passes over memory cost there many times
    over; matrix instructions multiply halves.
    """
    filtering = "" if options.filtering and options.gpu is None else "filtering=false"
    machine = _machine(options.machine)
    told: dict[str, tuple[str, ...]] = {
        "convolution-forms": (filtering, machine),
        "layout": (machine,),
        "block-scans": (machine,),
        "pack-invariants": (machine,),
        "common-loops": (machine,),
        "fuse": ("updates=arithmetic", machine),
    }
    if options.machine.packs:
        told["decompose"] = (f"packs={','.join(options.machine.packs)}",)
    left_out: tuple[str, ...] = ("chain-products", "sort-updates")
    if options.gpu is not None:
        long_rows = f"long-rows={options.gpu.multiprocessors}"
        told |= {
            "fuse": ("strips=false", "ranges=false", "updates=any", long_rows),
            "decompose": ("serial-rows=false",),
        }
        told["convolution-forms"] = (filtering, machine, "matrices=true")
        told["sort-updates"] = () if options.gpu.deterministic else ("deterministic=false",)
        left_out = (
            "block-scans",
            "pack-invariants",
            "split-products",
            "recompute",
            "common-loops",
            "sum-in-steps",
            "reciprocals",
        )
    return tuple([_spec(name, *told.get(name, ())) for name in TENSOR_PIPELINE if name not in left_out])


def stage_of(module: ModuleOp) -> str:
    """The name of the stage that `module` stands at, told by the ops in it."""
    has_linalg = has_tensor = has_tenon = False
    for op in module.walk():
        has_tenon = has_tenon or isinstance(op, TensorOp | ControlFlowOp)
        has_linalg = has_linalg or isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp)
        has_tensor = has_tensor or any(isinstance(r.type, TensorType) for r in op.results)
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    has_tensor = has_tensor or any(isinstance(t, TensorType) for f in functions for t in f.function_type.inputs)
    if has_tenon:
        return "fused" if any("kernel" in f.attributes for f in functions) else "tensor"
    if has_tensor or not (has_linalg or any(f.function_type.inputs.data for f in functions)):
        # A function of upstream ops alone may not have been fused; kernels are what later stages lower. One that takes
        # nothing, not even scratch memory, is yet to be given that.
        return "structured"
    return "buffered" if has_linalg else "loops"


Observer = Callable[[str, ModuleOp], None]


def run_passes(
    ctx: Context, module: ModuleOp, passes: Sequence[str], observe: Observer | None = None, *, verify: bool = True
) -> None:
    """Run passes (names with options, as on the command line) in place; `observe(pass, module)` after each.

    With `verify`, raise a `VerifyException` that says which pass left what invalid.
    """
    verification = Verification() if verify else None
    with knowing([size for op in module.ops if isinstance(op, func.FuncOp) for size in positive_sizes(op)]):
        if verification is not None:
            verification.check(module)
        for text in passes:
            pass_ = _made(text)
            pass_.apply(ctx, module)
            if verification is not None:
                verification.after(pass_.name, module)
            if observe is not None:
                observe(pass_.name, module)


def _made(text: str) -> ModulePass:
    """The pass that `text` names, with its options."""
    name = text.partition("{")[0]
    return _parsed(text, (TENSOR_PASSES if name in TENSOR_PASSES else PASSES)[name])


@lru_cache(maxsize=256)
def _parsed(text: str, load: Callable[[], type[ModulePass]]) -> ModulePass:
    """One pass for all modules, since passes do not change: to parse options takes as long as to run a pass on a small
    kernel."""
    from xdsl.utils.arg_spec import parse_pipeline

    (spec,) = parse_pipeline(text)
    return load().from_spec(spec)


def lower(
    ctx: Context, module: ModuleOp, options: LoweringOptions, observe: Observer | None = None, *, verify: bool = True
) -> ModuleOp:
    """Take `module` from the stage that it stands at through the passes of that stage and of all later ones; see
    `run_passes`."""
    passes = [text for stage in _stages_from(module, options) for text in stage.passes]
    run_passes(ctx, module, passes, observe, verify=verify)
    return module


def lower_by_function(
    ctx: Context, module: ModuleOp, options: LoweringOptions, *, verify: bool = True
) -> Iterator[func.FuncOp]:
    """Take `module` through passes of `lower`; then, as the result is asked for them, take its functions
    one by one through those at the end that work on functions. The module is what `lower` gives when all were."""
    texts = [text for stage in _stages_from(module, options) for text in stage.passes]
    made = {text: _made(text) for text in texts}
    # What changes nothing anyway is no reason for functions to wait for each other.
    texts = [text for text in texts if not isinstance(pass_ := made[text], SizesPass) or pass_.concerns(module)]
    passes = [made[text] for text in texts]
    together = max([0, *[number for number, pass_ in enumerate(passes, 1) if not _is_lazy(pass_, verify=verify)]])
    run_passes(ctx, module, texts[:together], verify=verify)
    changes = [(pass_, pass_.change(module)) for pass_ in passes[together:] if isinstance(pass_, FunctionPass)]
    return _changed(functions_in_order(module), changes, verify)


def _is_lazy(pass_: ModulePass, *, verify: bool) -> bool:
    """Whether a pass works on functions one by one; to verify what it does, it must not have changed other ones."""
    return isinstance(pass_, FunctionPass) and not (verify and pass_.changes_entries)


def lower_to_buffers(
    ctx: Context, module: ModuleOp, options: LoweringOptions, *, verify: bool = True
) -> Sequence[Stage]:
    """Take `module` to the stage "buffered" as `lower` does, if it is before. The stages from where it is then on."""
    order = _stages_from(module, options)
    by_function = next(index for index, stage in enumerate(order) if stage.name in ("buffered", "loops"))
    run_passes(ctx, module, [text for stage in order[:by_function] for text in stage.passes], verify=verify)
    return order[by_function:]


def _stages_from(module: ModuleOp, options: LoweringOptions) -> tuple[Stage, ...]:
    """The stage that `module` stands at, and those that follow."""
    order = stages(options)
    return order[[stage.name for stage in order].index(stage_of(module)) :]


def _changed(
    functions: Sequence[func.FuncOp], changes: Sequence[tuple[FunctionPass, Change]], verify: bool
) -> Iterator[func.FuncOp]:
    for function in functions:
        verification = Verification() if verify else None
        for pass_, change in changes:
            if pass_.takes(function):
                change(function)
                if verification is not None:
                    verification.after(pass_.name, function)
        yield function


def functions_in_order(module: ModuleOp) -> list[func.FuncOp]:
    """The functions that have a body: the kernels, and then what calls them."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks]
    return sorted(functions, key=lambda function: "kernel" not in function.attributes)
