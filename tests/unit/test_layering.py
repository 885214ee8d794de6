"""The folders are layers: each imports only those to its left, and lowering and runtime never name a single op.

The sources are read, not imported: what an import inside a function or a loader string would do counts as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
LAYERS = ("dialects", "passes", "lowering", "runtime", "tools")
FRONT_DOOR = "tenon"  # stands above all layers, so that only it and the tools may import it
MODULE_PATH = re.compile(rf"tenon(\.({'|'.join(LAYERS)})(\.\w+)*)?(:\w+)?")


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == FRONT_DOOR else ("tenon", *parts))


def imported_modules(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module that is imported, wherever and however."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    base = ".".join([*module.split(".")[: -node.level], *([base] if base else [])])
                if base == "tenon":  # what is imported is the layer, or something of the front door
                    yield from ((node.lineno, f"tenon.{alias.name}") for alias in node.names)
                else:
                    yield node.lineno, base
            case ast.Constant(value=str(text)) if text != "tenon" and MODULE_PATH.fullmatch(text):
                yield node.lineno, text.partition(":")[0]
            case _:
                pass


def forbidden_imports(tree: ast.AST, module: str, layer: str) -> list[tuple[int, str]]:
    allowed = {*LAYERS[: LAYERS.index(layer) + 1], *([FRONT_DOOR] if layer == "tools" else [])}

    def is_forbidden(name: str) -> bool:
        package, _, rest = name.partition(".")
        folder = rest.partition(".")[0]
        return package == "tenon" and (folder if folder in LAYERS else FRONT_DOOR) not in allowed

    return [(line, name) for line, name in imported_modules(tree, module) if is_forbidden(name)]


def op_definitions(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Class and op name of each op that is defined: families have no op name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                match statement:
                    case ast.Assign(targets=[ast.Name(id="name")], value=ast.Constant(value=str(name))) if (
                        name.startswith("tenon.")
                    ):
                        yield node.name, name
                    case _:
                        pass


def named_ops(tree: ast.AST, classes: set[str], names: set[str]) -> list[tuple[int, str]]:
    """Line and text of every place that speaks of one op: its class, its function in `ops`, or its name."""
    from_dialects: set[str] = set()
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("tenon.dialects"):
                from_dialects |= {alias.asname or alias.name for alias in node.names}
                if not module.startswith("tenon.dialects.upstream"):  # ops of other dialects may have equal names
                    found += [(node.lineno, alias.name) for alias in node.names if alias.name in classes]
            case ast.Import():
                from_dialects |= {a.asname for a in node.names if a.asname and a.name.startswith("tenon.dialects")}
            case ast.Constant(value=str(text)) if text in names:
                found.append((node.lineno, text))
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            is_op = base == "ops" and f"tenon.{node.attr.rstrip('_')}" in names
            is_class = node.attr in classes
            if (is_op or is_class) and (base in from_dialects or base.startswith("tenon.dialects")):
                found.append((node.lineno, f"{base}.{node.attr}"))
    return found


DEFINITIONS = [definition for path in sources("dialects") for definition in op_definitions(ast.parse(path.read_text()))]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_left(layer: str) -> None:
    violations = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(layer)
        for line, name in forbidden_imports(ast.parse(path.read_text()), module_name(path), layer)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize("layer", ["lowering", "runtime"])
def test_no_op_is_named(layer: str) -> None:
    classes, names = {class_name for class_name, _ in DEFINITIONS}, {name for _, name in DEFINITIONS}
    violations = [
        f"{path.relative_to(ROOT)}:{line} names {what}"
        for path in sources(layer)
        for line, what in named_ops(ast.parse(path.read_text()), classes, names)
    ]
    assert not violations, "\n".join(violations)


def test_ops_are_found() -> None:
    """The test above would hold for no ops at all."""
    assert ("AddOp", "tenon.add") in DEFINITIONS


@pytest.mark.parametrize(
    ("layer", "source", "forbidden"),
    [
        ("passes", "from tenon.dialects.definition.tensor_op import TensorOp", None),
        ("passes", "from tenon.passes.fuse.fuse import Fuse", None),
        ("passes", "import xdsl.passes, numpy", None),
        ("passes", "from tenon import dialects", None),
        ("passes", "from tenon.lowering.tile import Tile", "tenon.lowering.tile"),
        ("passes", "import tenon.runtime.knobs as knobs", "tenon.runtime.knobs"),
        ("passes", "from tenon import lowering", "tenon.lowering"),
        ("passes", "from ..lowering import tile", "tenon.lowering"),
        ("passes", "def f():\n    from tenon.tools import opt", "tenon.tools"),
        ("passes", "LOADERS = {'tile': 'tenon.lowering.tile:Tile'}", "tenon.lowering.tile"),
        ("passes", "import_module('tenon.lowering.tile')", "tenon.lowering.tile"),
        ("dialects", "import tenon", "tenon"),
        ("runtime", "from tenon import jit", "tenon.jit"),
        ("runtime", "import tenon.nn", "tenon.nn"),
        ("tools", "import tenon", None),
        ("tools", "from tenon.runtime.knobs import knobs", None),
    ],
)
def test_what_counts_as_an_import(layer: str, source: str, forbidden: str | None) -> None:
    found = [name for _, name in forbidden_imports(ast.parse(source), f"tenon.{layer}.example", layer)]
    assert found[:1] == ([forbidden] if forbidden else [])


@pytest.mark.parametrize(
    ("source", "names_an_op"),
    [
        ("from tenon.dialects.definition.tensor_op import TensorOp", False),
        ("from tenon.dialects.families import ElementwiseOp", False),
        ("from xdsl.dialects.arith import AddOp", False),
        ("from xdsl.dialects import arith\narith.AddOp", False),
        ("'tenon.lowering'", False),
        ("from tenon.dialects.ops.elementwise.arithmetic import AddOp", True),
        ("def f():\n    from tenon.dialects.ops.elementwise.arithmetic import AddOp as Plus", True),
        ("from tenon.dialects import arithmetic\narithmetic.AddOp", True),
        ("import tenon.dialects.ops.elementwise.arithmetic as arithmetic\narithmetic.AddOp", True),
        ("import tenon.dialects.ops.elementwise.arithmetic\ntenon.dialects.arithmetic.AddOp", True),
        ("op.name == 'tenon.add'", True),
        ("from tenon.dialects.definition.value import ops\nops.add(x, y)", True),
    ],
)
def test_what_counts_as_naming_an_op(source: str, names_an_op: bool) -> None:
    assert bool(named_ops(ast.parse(source), {"AddOp"}, {"tenon.add"})) is names_an_op
