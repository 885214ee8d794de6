"""What each operation of `arith` and `math` is in LLVM, on scalars and vectors, after `legalize-arith`.

All take operands of one type. Where LLVM has no instruction, the C library's function is called, lane by lane.
"""

from __future__ import annotations

INSTRUCTIONS = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.divsi": "sdiv",
    "arith.divui": "udiv",
    "arith.remsi": "srem",
    "arith.remui": "urem",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
    "arith.shli": "shl",
    "arith.shrui": "lshr",
    "arith.shrsi": "ashr",
    "arith.addf": "fadd",
    "arith.subf": "fsub",
    "arith.mulf": "fmul",
    "arith.divf": "fdiv",
    "arith.remf": "frem",
    "arith.negf": "fneg",
}

CONVERSIONS = {
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
    "arith.fptosi": "fptosi",
    "arith.fptoui": "fptoui",
}

INTRINSICS = {
    "arith.maxsi": "smax",
    "arith.minsi": "smin",
    "arith.maxui": "umax",
    "arith.minui": "umin",
    "math.absf": "fabs",
    "math.absi": "abs",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.ctlz": "ctlz",
    "math.ctpop": "ctpop",
    "math.cttz": "cttz",
    "math.floor": "floor",
    "math.fma": "fma",
    "math.round": "round",
    "math.roundeven": "roundeven",
    "math.sqrt": "sqrt",
    "math.trunc": "trunc",
    "vector.fma": "fma",
}

FLAGS_OF_INTRINSICS = {"abs": "false", "ctlz": "false", "cttz": "false"}
"""The i1 that says whether an intrinsic leaves results open: none does."""

C_FUNCTIONS = {
    "math.acos": "acos",
    "math.acosh": "acosh",
    "math.asin": "asin",
    "math.asinh": "asinh",
    "math.atan": "atan",
    "math.atan2": "atan2",
    "math.atanh": "atanh",
    "math.cbrt": "cbrt",
    "math.cos": "cos",
    "math.cosh": "cosh",
    "math.erf": "erf",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.expm1": "expm1",
    "math.log": "log",
    "math.log10": "log10",
    "math.log1p": "log1p",
    "math.log2": "log2",
    "math.powf": "pow",
    "math.sin": "sin",
    "math.sinh": "sinh",
    "math.tan": "tan",
    "math.tanh": "tanh",
}
