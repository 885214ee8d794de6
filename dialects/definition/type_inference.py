"""Types of results as an interface of ops: what follows from operands, settings and regions, for any tool to ask.

`op.get_trait(InfersTypes).infer_return_types(op)` is what MLIR calls `InferTypeOpInterface`. xDSL's own pass
`shape-inference` finds it, too, and the pass `infer-shapes` takes it through control flow and calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import Rewriter
from xdsl.traits import HasShapeInferencePatternsTrait

from tenon.dialects.types.shapes import InferenceError, refine, show
from tenon.dialects.types.types import element_of, shape_of, tensor_type


class InfersTypes(HasShapeInferencePatternsTrait):
    """The types of the op's results follow from what it is given.

    Ops with regions also say what the arguments of these are, and what they have to yield, each as far as it is known:
    a list of types for each region, which may be shorter than what the region has.
    """

    def infer_return_types(self, op: Operation) -> Sequence[Attribute]:
        """The types of the results; raises `InferenceError`, naming the op, for operands that do not go together."""
        raise NotImplementedError(f"{type(self).__name__} says what types results have")

    def infer_argument_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        """The types of the arguments of each region."""
        return ()

    def infer_yielded_types(self, op: Operation) -> Sequence[Sequence[Attribute]]:
        """The types of what each region has to yield."""
        return ()

    @classmethod
    def get_shape_inference_patterns(cls) -> tuple[RewritePattern, ...]:
        return (_RefineResults(),)


class _RefineResults(RewritePattern):
    """An op's result types, known better; what a function returns is part of its own type."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        before = [result.type for result in op.results]
        refine_results(op)
        if before == [result.type for result in op.results]:
            return
        rewriter.handle_operation_modification(op)
        for user in (use.operation for result in op.results for use in result.uses):
            if isinstance(user, func.ReturnOp) and isinstance(function := user.parent_op(), func.FuncOp):
                function.update_function_type()


def refine_results(op: Operation) -> None:
    """Set the types of the results of an op that infers them to all that is known of them."""
    trait = op.get_trait(InfersTypes)
    if trait is not None:
        refine_values(op.results, trait.infer_return_types(op), f"{op.name}: result")


def refine_values(values: Sequence[SSAValue], types: Sequence[Attribute], what: str) -> None:
    """`refine_value` for the first of `values`, as many as there are types; errors number them."""
    for position, (value, type_) in enumerate(zip(values, types, strict=False)):
        refine_value(value, type_, f"{what} {position}")


def refine_value(value: SSAValue, type_: Attribute, what: str) -> None:
    """Set the type of `value`, which errors call `what`, to all that is known of it by its own type and by `type_`."""
    # Types are compared by their shapes: a size with a name is equal to an unknown one as a type.
    known, given = shape_of(value.type), shape_of(type_)
    if element_of(value.type) != element_of(type_):
        raise ValueError(f"{what} has dtype {element_of(value.type)}, and {element_of(type_)} is given")
    try:
        refined = tensor_type(refine(known, given), element_of(type_))
    except InferenceError as error:
        message = f"{what} has shape {show(known)}, and {show(given)} is given: {error}"
        raise InferenceError(message, error.sizes) from None
    if shape_of(refined) != known:
        Rewriter.replace_value_with_new_type(value, refined)
