"""The passes on tensor IR, in the order in which they run.

`TENSOR_PIPELINE` is read from top to bottom: a sentence, a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass


def _loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        return getattr(import_module(f"tenon.passes.{module}"), name)

    return load


# Every pass of this folder by name; its module is imported when the pass is first asked for.
PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    "differentiate": _loader("transform.differentiate", "DifferentiatePass"),
    "split-gradient": _loader("transform.split_gradient", "SplitGradientPass"),
    "check-results": _loader("transform.check_results", "CheckResultsPass"),
    "batch": _loader("transform.batch", "BatchPass"),
    "infer-shapes": _loader("simplify.infer_shapes", "InferShapesPass"),
    "specialize": _loader("transform.specialize", "SpecializePass"),
    "name-sizes": _loader("transform.name_sizes", "NameSizesPass"),
    "inline": _loader("transform.inline", "InlinePass"),
    "decompose": _loader("simplify.decompose", "DecomposePass"),
    "canonicalize": _loader("simplify.canonicalize", "CanonicalizePass"),
    "cse": _loader("simplify.cse", "CommonSubexpressionEliminationPass"),
    "dce": _loader("simplify.dce", "DeadCodeEliminationPass"),
    "layout": _loader("layout.layout", "LayoutPass"),
    "convolution-forms": _loader("layout.convolution_forms", "ConvolutionFormsPass"),
    "split-frozen": _loader("transform.split_frozen", "SplitFrozenPass"),
    "hoist-invariants": _loader("loops.hoist_invariants", "HoistInvariantsPass"),
    "sort-updates": _loader("loops.sort_updates", "SortUpdatesPass"),
    "split-components": _loader("loops.split_components", "SplitComponentsPass"),
    "distribute-scans": _loader("loops.distribute_scans", "DistributeScansPass"),
    "block-scans": _loader("loops.block_scans", "BlockScansPass"),
    "pack-invariants": _loader("loops.pack_invariants", "PackInvariantsPass"),
    "split-products": _loader("loops.split_products", "SplitProductsPass"),
    "keep-products": _loader("loops.keep_products", "KeepProductsPass"),
    "chain-products": _loader("loops.chain_products", "ChainProductsPass"),
    "recompute": _loader("fuse.recompute", "RecomputePass"),
    "common-loops": _loader("fuse.common_loops", "CommonLoopsPass"),
    "sum-in-steps": _loader("fuse.sum_in_steps", "SumInStepsPass"),
    "reciprocals": _loader("simplify.reciprocals", "ReciprocalsPass"),
    "fuse": _loader("fuse.fuse", "FusePass"),
    "fuse-structured": _loader("fuse.fuse_structured", "FuseStructuredPass"),
    "split-index-sets": _loader("fuse.split_index_sets", "SplitIndexSetsPass"),
}

TENSOR_PIPELINE: tuple[str, ...] = (
    # What can be told of unknown shapes is told.
    "infer-shapes",
    # Private functions take the place of their calls, so that what follows sees one function.
    "inline",
    # Ops that ask for a layout get it, while they still are the ops that ask.
    "layout",
    # Composite ops are written out in terms of others.
    "decompose",
    # Convolutions become the same sums over loops that vectors fill.
    "convolution-forms",
    # What that leaves trivial is simplified,
    "canonicalize",
    # updates at computed places become work for many threads,
    "sort-updates",
    # what no step of a loop changes is computed in front of it,
    "hoist-invariants",
    # and what is computed twice is computed once, such as what left two loops.
    "cse",
    # Points of few components are computed component by component.
    "split-components",
    # The gradient of a scan reads the products that the scan computed.
    "keep-products",
    # What the steps of a scan do not need from each other is computed for all of them at once.
    "distribute-scans",
    # The transposes in what was written out cancel or become part of other ops,
    "layout",
    # what scans read of products is computed for as many steps as a cache holds,
    "block-scans",
    # and matrices that loops read in each step are put into the order in which they do,
    "pack-invariants",
    # with products of their own for what a step takes apart,
    "split-products",
    # which leaves something to simplify
    "canonicalize",
    # and to merge.
    "cse",
    # Nothing stays that is not needed.
    "dce",
    # What depends on frozen arguments alone is computed once, by a function of its own.
    "split-frozen",
    # Two products and a softmax between them are to be one kernel.
    "chain-products",
    # What is large, and cheap to compute a strip at a time, is computed again rather than kept.
    "recompute",
    # Ops on both sides of a reshape run over the same dimensions, where both can be cut into the same parts.
    "common-loops",
    # What is added up over other loops than the rows of a value adds up rows first, where these are at hand.
    "sum-in-steps",
    # What divides many numbers is inverted once, and multiplies them.
    "reciprocals",
    # Ops that share their loops are outlined into kernels. This ends the tensor stage.
    "fuse",
)
