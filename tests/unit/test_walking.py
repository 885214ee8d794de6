"""Lists of the ops inside an op are what xDSL's walk gives."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import Operation
from xdsl.parser import Parser

from tenon.dialects.upstream.walking import all_ops, ops_of
from tenon.runtime.lower import new_context

TEXT = """
func.func @f(%n: index, %c: i1) {
  scf.for %i = %n to %n step %n {
    scf.if %c {
      scf.for %j = %i to %n step %n { %s = arith.addi %i, %j : index }
    } else {
      %p = arith.muli %i, %n : index
    }
    %q = arith.muli %i, %i : index
  }
  func.return
}
"""


def test_all_ops_and_those_of_some_kinds_come_in_the_order_of_a_walk() -> None:
    module = Parser(new_context(), TEXT).parse_module()
    walked = list(module.walk())
    assert len(walked) == 13
    assert all_ops(module) == walked
    assert ops_of(module, scf.ForOp) == [op for op in walked if isinstance(op, scf.ForOp)]
    assert ops_of(module, scf.IfOp, arith.MuliOp) == [op for op in walked if isinstance(op, scf.IfOp | arith.MuliOp)]
    assert ops_of(module, Operation) == walked
    assert ops_of(module) == []
