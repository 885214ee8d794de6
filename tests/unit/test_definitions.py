"""What is wrong with the definition of an op is said where it is defined, or else by what uses the hook at fault."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser

import tenon
from tenon import (
    FLOAT_TENSOR,
    IndexingOp,
    IndexMapOp,
    Kernel,
    OpaqueOp,
    ReductionOp,
    ScatterOp,
    UnaryOp,
    element_of,
    operand_def,
    result_def,
    setting,
    shape_of,
    tensor_op,
    tensor_type,
)
from tenon.dialects.definition.signature import UPSTREAM_DIALECTS
from tenon.dialects.universe import registered_dialects
from tenon.runtime.lower import new_context

X = np.arange(6.0).reshape(2, 3)


def made(family: type[Any], name: str, **members: Any) -> type[Any]:
    """A class of a family, which is no op yet."""
    return type("MadeOp", (family,), {"__module__": __name__, "name": name, **members})


def given(*arguments: Any) -> Any:
    """What type checkers do not see."""
    return arguments


def unary(name: str, **members: Any) -> type[Any]:
    return made(UnaryOp, name, **{"scalar": staticmethod(lambda x, **_: x), **members})


def moving(name: str, family: type[Any], **hooks: Any) -> Any:
    """An op that moves elements of `x`, and has `u` besides if it scatters."""
    operands = {"x": operand_def(FLOAT_TENSOR), "result": result_def(FLOAT_TENSOR)}
    operands |= {"u": operand_def(FLOAT_TENSOR)} if family is ScatterOp else {}
    return tensor_op(made(family, name, **operands, **hooks))


def opaque(name: str, source: Callable[..., Any]) -> Any:
    operands = {"x": operand_def(FLOAT_TENSOR), "result": result_def(FLOAT_TENSOR)}
    hooks = {"infer": classmethod(lambda cls, x: x), "reference": staticmethod(lambda x: x)}
    return tensor_op(made(OpaqueOp, name, KERNELS=(Kernel("mine", "llvm", source),), **operands, **hooks))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no_identifier": (lambda: tensor_op(unary("made.my op")), r"MadeOp \(made.my op\): its name may have letters, di"),
    "member": (
        lambda: tensor_op(unary("made.a", apply=setting(int))),
        "'apply' cannot be declared, as it is something",
    ),
    **{
        name: (lambda name=name: tensor_op(unary("made.a", **{name: setting(int)})), f"'{name}' cannot be declared, as")
        for name in ("lambda", "cls", "attributes", "location")
    },
    "array_of_scalar": (
        lambda: tensor_op(unary("made.h", scalar=staticmethod(lambda x, **_: X))).apply(X),
        r"^made.h: the result of scalar is an array of shape \(2, 3\) where a value or a number is needed",
    ),
    "gradient_of_none": (
        lambda: tenon.grad(
            lambda x: tensor_op(unary("made.i", scalar=staticmethod(lambda x, **_: None))).apply(x).sum()
        )(X),
        "^made.i: the result of scalar is a NoneType where a value or a number is needed",
    ),
    "gradient_of_sum": (
        lambda: tenon.grad(
            lambda x: tensor_op(unary("made.m", scalar=staticmethod(lambda x, **_: x / tenon.sum(x)))).apply(x).sum()
        )(X),
        "^tenon.sum: does not work element by element, so it cannot be used inside a scalar body",
    ),
    "verifier": (
        lambda: tensor_op(unary("made.n", verify_=lambda self: None)),
        r"\(made.n\): verify_ looks at .* is said by InferenceError in check, of settings, or in infer",
    ),
    "element_type": (
        lambda: tensor_op(unary("made.j", result_element=classmethod(lambda cls, x: "f64"))).apply(X),
        "^made.j: result_element gives a str where an element type is needed",
    ),
    "initial": (
        lambda: moving(
            "made.k",
            ReductionOp,
            axis=setting(tuple, default=None),
            keepdims=setting(bool, default=False),
            initial=staticmethod(lambda element: None),
            scalar=staticmethod(lambda accumulator, x: x),
        ).apply(X),
        "^made.k: the result of initial is a NoneType where a number is needed",
    ),
    "combine": (
        lambda: moving(
            "made.l",
            ScatterOp,
            UPDATES="u",
            target=staticmethod(lambda index, x, u: index),
            combine=staticmethod(lambda old, new: (old, new)),
        ).apply(X, X),
        "^made.l: the result of combine is a tuple where a value or a number is needed",
    ),
    **{
        f"laid_out_{what}": (
            lambda function=function, what=what: tensor_op(
                unary(f"made.o_{what}", LAYOUTS={"x": (1, 0)}, laid_out=staticmethod(function))
            ).apply(X),
            f"^made.o_{what}: laid_out {message}",
        )
        for what, function, message in (
            (
                "shape",
                lambda x: x,
                "gives tensor<3x2xf64> for result, by which it is tensor<3x2xf64> and not tensor<2x",
            ),
            ("dtype", lambda x: tenon.cast(x.T, dtype="f32"), "gives tensor<2x3xf32> for result, by which it is"),
            ("two", lambda x: (x, x), r"returns \(Value, Value\) where 1 traced values are needed"),
        )
    },
    **{
        name.lower(): (
            lambda name=name, given=given: tensor_op(unary("made.p", **{name: given})),
            f"{name} is .* where a",
        )
        for name, given in (("ALIASES", "p"), ("KEYWORDS", ["dim"]), ("LAYOUTS", (1, 0)))
    },
    "canonicalize": (
        lambda: tensor_op(unary("made.q", canonicalize=staticmethod(lambda op: None))),
        r"canonicalize\(op\) is given \(op, rewriter\)",
    ),
    "kernels": (
        lambda: tensor_op(made(OpaqueOp, "made.r", KERNELS=("llvm",), result=result_def(FLOAT_TENSOR))),
        "KERNELS is .* where a tuple of Kernels is needed",
    ),
    "source": (lambda: Kernel(*given("mine", "llvm", "define")), "^kernel 'mine': source is no function"),
    "dialect": (lambda: tensor_op(unary("math.cube")), "the dialect 'math' is one of MLIR's"),
    "out": (lambda: tensor_op(unary("made.a", out=setting(int))), "'out' cannot be declared, as it is the argument"),
    "no_op_yet": (lambda: unary("made.a").apply(X), "^MadeOp is no op yet: write @tensor_op above its class$"),
    "choice": (lambda: setting(str, default="c", choices=("a",)), "^setting: the default 'c' is not one of 'a'$"),
    "integer": (
        lambda: tensor_op(unary("made.g", k=setting(int))).apply(X, k=1 << 63),
        "^made.g: setting 'k': 9223372036854775808 is no integer of 64 bits$",
    ),
    "large_float": (
        lambda: tensor_op(unary("made.g", k=setting(float))).apply(X, k=10**400),
        "^made.g: setting 'k': int too large to convert to float$",
    ),
    "target": (lambda: Kernel(*given("mine", "lvm", str)), "^kernel 'mine': target is 'lvm', not one of llvm, cuda$"),
    "updates": (
        lambda: moving(
            "made.b", ScatterOp, target=staticmethod(lambda i, x, u: i), combine=staticmethod(lambda o, n: n)
        ),
        r"\(made.b\): UPDATES is 'updates' where the name of an operand is needed \(operands: x, u\)",
    ),
    "places_of_updates": (
        lambda: moving(
            "made.c",
            ScatterOp,
            UPDATES="u",
            target=staticmethod(lambda index, x, u: index[:1]),
            combine=staticmethod(lambda old, new: new),
        ).apply(X, X),
        "^made.c: target gives 1 indices for rank 2.*test_definitions.py",
    ),
    "places_read": (
        lambda: moving(
            "made.d",
            IndexingOp,
            infer=staticmethod(lambda x: x),
            element=staticmethod(lambda index, x: x.read(index[0])),
        ).apply(X),
        "^made.d: read is given 1 indices for an operand of rank 2.*test_definitions.py",
    ),
    "fraction_of_place": (
        lambda: moving(
            "made.dd",
            IndexingOp,
            infer=staticmethod(lambda x: x),
            element=staticmethod(lambda index, x: x.read(index[0] * 0.5, index[1])),
        ).apply(X),
        "^an index is a number of dtype f32 where an integer is needed; cast it",
    ),
    "no_batch": (
        lambda: tenon.vmap(tensor_op(unary("made.ee", batch=classmethod(lambda cls, size, batched, x: None))).apply)(X),
        "^made.ee: batch gives a NoneType where tensor<2x3xf64> is needed.*test_definitions.py",
    ),
    "no_text": (
        lambda: opaque("made.f", lambda *_: None).apply(X),
        "^made.f: kernel 'mine' for llvm: its source gives a NoneType where text is needed.*test_definitions.py",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(Exception, match=message):
        make()


def test_a_function_of_another_op_is_not_taken_over_without_a_word() -> None:
    first = tensor_op(unary("made.same_name", scalar=staticmethod(lambda x: x + 1)))
    with pytest.warns(
        UserWarning, match="other.same_name: tenon.same_name is this op from now on; made.same_name is rea"
    ):
        tensor_op(unary("other.same_name", scalar=staticmethod(lambda x: x + 2)))
    np.testing.assert_array_equal(tenon.same_name(X), X + 2)
    np.testing.assert_array_equal(first.apply(X), X + 1)


def test_an_index_of_a_source_may_be_a_number() -> None:
    def infer(x: Any) -> Any:
        return tensor_type((shape_of(x) or ())[:-1], element_of(x))

    def source(index: tuple[AffineExpr, ...], shape: tuple[int, ...], /) -> tuple[Any, ...]:
        return (*index, 1)

    middle = moving("made.middle", IndexMapOp, infer=staticmethod(infer), source=staticmethod(source)).apply
    np.testing.assert_array_equal(middle(X), X[:, 1])
    np.testing.assert_array_equal(tenon.grad(lambda x: middle(x).sum())(X), [[0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    "body",
    [
        "define void @{symbol}(ptr %x, ptr %y) {{ %v = load double, ptr %x store double %v, ptr %y ret void }}",
        "  define internal {{ double }} @in_{symbol}(double %a) alwaysinline {{ ; begins {{\n"
        "    %r = insertvalue {{ double }} undef, double %a, 0\n    ret {{ double }} %r }} ; ends\n"
        "  define void @{symbol}(ptr %x, ptr %y) {{\n    %v = load double, ptr %x\n"
        "    %r = call {{ double }} @in_{symbol}(double %v)\n    %w = extractvalue {{ double }} %r, 0\n"
        "    store double %w, ptr %y\n    ret void }}",
        "define internal void @in_{symbol}(ptr byval({{ double }}) %x,  ; }}\n"
        '    ptr sret({{ double }}) %y) "note"="; {{" {{\n  %v = load double, ptr %x\n'
        "  store double %v, ptr %y\n  ret void\n}}\n"
        "define void @{symbol}(\n  ptr %x,\n  ptr %y)\n{{\n"
        "  call void @in_{symbol}(ptr byval({{ double }}) %x, ptr sret({{ double }}) %y)\n  ret void\n}}",
    ],
    ids=["one_line", "indented", "header_on_two_lines"],
)
def test_text_of_kernels_may_be_written_in_any_lines(body: str) -> None:
    one = opaque("made.copied", lambda symbol, *_: body.format(symbol=symbol)).apply
    x = np.array([3.0])
    np.testing.assert_array_equal(one(x), x)
    np.testing.assert_array_equal(tenon.jit(lambda x: one(x + 1) * 2)(x), [8.0])


def test_texts_of_any_letters_read_back() -> None:
    named = tensor_op(unary("made.named_by", by=setting(str), at=setting("padding", default=0))).apply
    text = str(tenon.jit(lambda x: named(x, by='größe "💥"\n\\', at="ö")).trace(X))
    (op,) = [op for op in Parser(new_context(), text).parse_module().walk() if op.name == "made.named_by"]
    assert isinstance(op, tenon.TensorOp)
    assert op.settings == {"by": 'größe "💥"\n\\', "at": "ö"}


def test_what_does_not_move_has_a_gradient_of_zero() -> None:
    """A number, and truth values that become floats."""
    for name, scalar in (("made.m", lambda x, **_: 2.0), ("made.n", lambda x, **_: x > 0)):
        op = tensor_op(unary(name, scalar=staticmethod(scalar))).apply
        np.testing.assert_array_equal(tenon.grad(lambda x, op=op: (op(x) + x).sum())(X), np.ones_like(X))


def test_dialects_that_ops_cannot_be_named_after() -> None:
    own = {dialect.name for dialect in registered_dialects()}
    assert {*new_context().registered_dialect_names} - own == UPSTREAM_DIALECTS
