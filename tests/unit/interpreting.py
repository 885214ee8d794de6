"""Runs IR written by hand on the interpreter; shared by its tests."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tenon.dialects.interpreter.interpreter import Interpreter
from tenon.dialects.universe import UPSTREAM

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
}


def parse(text: str) -> ModuleOp:
    context = Context()
    for name, factory in (get_all_dialects() | {"llvm": UPSTREAM["llvm"]}).items():
        context.register_dialect(name, factory)
    return Parser(context, text).parse_module()


def run(text: str, *arguments: object) -> tuple[Any, ...]:
    module = parse(text)
    module.verify()
    before = str(module)
    results = Interpreter().run(module, "main", arguments)
    assert str(module) == before
    return results


def run_op(op: str, operand_types: list[str], result_type: str, *operands: object) -> Any:
    """Run `op`, which names its operands %0, %1, ..., on scalars."""
    parameters = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(operand_types))
    text = f"func.func @main({parameters}) -> {result_type} {{ %r = {op}\n func.return %r : {result_type} }}"
    (result,) = run(text, *operands)
    assert result.dtype == DTYPES[result_type]
    return result


def apply_to_tensors(op: str, type_: str, result_type: str, *operands: np.ndarray) -> np.ndarray:
    """Run a scalar op over the points of a generic."""
    n = len(operands[0])
    scalars = ", ".join(f"%s{i}: {type_}" for i in range(len(operands)))
    body = op
    for i in range(len(operands)):
        body = body.replace(f"%{i}", f"%s{i}")
    parameters = ", ".join(f"%x{i}: tensor<{n}x{type_}>" for i in range(len(operands)))
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(operands) + 1))
    names = ", ".join(f"%x{i}" for i in range(len(operands)))
    types = ", ".join([f"tensor<{n}x{type_}>"] * len(operands))
    text = f"""func.func @main({parameters}) -> tensor<{n}x{result_type}> {{
      %e = tensor.empty() : tensor<{n}x{result_type}>
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
        ins({names} : {types}) outs(%e : tensor<{n}x{result_type}>) {{
      ^bb0({scalars}, %o: {result_type}):
        %y = {body}
        linalg.yield %y : {result_type}
      }} -> tensor<{n}x{result_type}>
      func.return %r : tensor<{n}x{result_type}>
    }}"""
    (result,) = run(text, *operands)
    assert result.dtype == DTYPES[result_type]
    return result
