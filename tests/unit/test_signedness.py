"""Unsigned types are replaced where there are any; a module without them is looked through once."""

from __future__ import annotations

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from tenon.dialects.definition.signedness import Erasure, erase
from tenon.runtime.lower import new_context


def test_unsigned_types_become_signless_and_are_kept_for_callers() -> None:
    text = """
    func.func @main(%x: tensor<4xui8>, %y: tensor<4xf32>) -> tensor<4xui8> {
      func.return %x : tensor<4xui8>
    }
    func.func private @declared(tensor<2xui16>) -> tensor<4xui8>
    """
    module = Parser(new_context(), text).parse_module()
    erase(module)
    main, declared = module.ops
    assert isinstance(main, func.FuncOp)
    assert isinstance(declared, func.FuncOp)
    assert str(main.function_type) == "(tensor<4xi8>, tensor<4xf32>) -> tensor<4xi8>"
    assert str(declared.function_type) == "(tensor<2xi16>) -> tensor<4xi8>"
    assert str(main.attributes["dtypes"]) == "(ui8, f32) -> ui8"


def test_equal_types_without_unsigned_elements_are_not_replaced_by_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    functions: list[func.FuncOp] = []
    for name in ("one", "two"):
        type_ = TensorType(f32, [4])
        body = Block(arg_types=[type_])
        body.add_op(func.ReturnOp(body.args[0]))
        functions.append(func.FuncOp(name, FunctionType.from_lists([type_], [type_]), Region(body)))
    rewritten: list[ModuleOp] = []
    monkeypatch.setattr(Erasure, "apply", lambda _, module: rewritten.append(module))
    erase(ModuleOp(list(functions)))
    assert rewritten == []
