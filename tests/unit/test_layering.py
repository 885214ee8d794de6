"""The folders are layers: each imports only those to its left, lowering and runtime never name a single op, and passes
ask for one only where it is their subject. No modules import each other in a circle, the rooms of a folder import each
other in the order that its `__init__.py` states, and rooms, files and functions are of a size that can be read. The
facts of a machine are in one file.

The sources are read, not run: what an import inside a function, one for types alone or a loader string would do
counts as well.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tenon.lowering.pipeline import PASSES as LOWERING_PASSES
from tenon.passes.machine import Gpu, Machine
from tenon.passes.pipeline import PASSES as TENSOR_PASSES

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
LAYERS = ("dialects", "passes", "lowering", "runtime", "tools")
FRONT_DOOR = "tenon"  # stands above all layers, so that only it and the tools may import it
MODULE_PATH = re.compile(rf"tenon(\.({'|'.join(LAYERS)})(\.\w+)*)?(:\w+)?")


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def trees() -> dict[Path, ast.Module]:
    """All sources, parsed."""
    return {path: ast.parse(path.read_text()) for top in (*LAYERS, FRONT_DOOR) for path in sources(top)}


def module_name(path: Path) -> str:
    """The name of a source file's module; a package's ends with `__init__`, as one that is imported does not."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == FRONT_DOOR else ("tenon", *parts))


def imported_modules(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module that is imported, or that something is imported from, wherever and
    however."""
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


def import_graph(sources: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """For each of the modules, by name, which of them it imports; `from package import module` imports the module."""
    known = {name.removesuffix(".__init__"): name for name in sources}
    graph: dict[str, set[str]] = {}
    for module, tree in sources.items():
        names = {name for _, name in imported_modules(tree, module)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = ".".join(module.split(".")[: -node.level]) if node.level else ""
                package = ".".join(filter(None, (base, node.module)))
                members = {f"{package}.{alias.name}" for alias in node.names}
                names |= members
                if members <= known.keys():
                    names.discard(package)
        graph[module] = {known[name] for name in names if name in known} - {module}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[start] = seen
    groups = {tuple(sorted(other for other in reached[one] if one in reached[other])) for one in graph}
    return [list(group) for group in sorted(groups) if group]


def rooms_in_order(docstring: str) -> list[str]:
    """What the docstring of a folder lists at the beginnings of lines, in order: its rooms, and single files."""
    return re.findall(r"^`(\w+)`  ?", docstring, re.MULTILINE)


def against_the_order(folder: str, rooms: Sequence[str], graph: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The imports among what lies in `folder` (`tenon.passes`) of what `rooms` has behind what imports it.

    Files that are not listed come last.
    """

    def position(module: str) -> int:
        room = module.removeprefix(f"{folder}.").partition(".")[0]
        return rooms.index(room) if room in rooms else len(rooms)

    def is_inside(module: str) -> bool:
        return module.startswith(f"{folder}.")

    return [
        (module, target)
        for module in sorted(filter(is_inside, graph))
        for target in sorted(filter(is_inside, graph[module]))
        if position(target) > position(module)
    ]


def long_functions(tree: ast.AST) -> list[tuple[str, int]]:
    """The functions of too many lines, with how many these are."""
    return [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]


def passes_in(tree: ast.AST) -> list[str]:
    """The classes that are passes: those with a name, of a base that is called a pass."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("Pass") for base in node.bases)
        and any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "name" for s in node.body)
    ]


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


@cache
def definitions() -> list[tuple[str, str]]:
    """Class and op name of each op."""
    return [definition for path in sources("dialects") for definition in op_definitions(trees()[path])]


@cache
def graph_of_sources() -> Mapping[str, set[str]]:
    """Which modules each imports."""
    return import_graph({module_name(path): tree for path, tree in trees().items()})


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_left(layer: str) -> None:
    violations = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(layer)
        for line, name in forbidden_imports(trees()[path], module_name(path), layer)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize("layer", ["lowering", "runtime"])
def test_no_op_is_named(layer: str) -> None:
    classes, names = {class_name for class_name, _ in definitions()}, {name for _, name in definitions()}
    violations = [
        f"{path.relative_to(ROOT)}:{line} names {what}"
        for path in sources(layer)
        for line, what in named_ops(trees()[path], classes, names)
    ]
    assert not violations, "\n".join(violations)


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = circles(graph_of_sources())
    assert not found, "\n".join(map(", ".join, found))


@pytest.mark.parametrize(
    ("first", "second", "is_circle"),
    [
        ("from tenon.dialects.b import f", "from tenon.dialects.a import g", True),
        ("from tenon.dialects.b import f", "def f():\n    from tenon.dialects.a import g", True),
        ("from tenon.dialects.b import f", "if TYPE_CHECKING:\n    from tenon.dialects.a import G", True),
        ("from tenon.dialects.b import f", "from tenon.dialects import a", True),
        ("from tenon.dialects.b import f", "from . import a", True),
        ("from tenon.dialects.b import f", "from .a import g", True),
        ("import tenon.dialects.b", "import_module('tenon.dialects.a')", True),
        ("from tenon.dialects.b import f", "from tenon.dialects import c", True),
        ("from tenon.dialects.b import f", "import xdsl", False),
        ("from tenon.dialects.b import f", "'a text about tenon.dialects.a'", False),
    ],
)
def test_what_counts_as_a_circle(first: str, second: str, is_circle: bool) -> None:
    package = "from tenon.dialects.a import g as c"
    modules = {"tenon.dialects.__init__": package, "tenon.dialects.a": first, "tenon.dialects.b": second}
    found = circles(import_graph({name: ast.parse(source) for name, source in modules.items()}))
    assert bool(found) is is_circle
    assert not found or {"tenon.dialects.a", "tenon.dialects.b"} <= set(found[0])


FOLDERS_OF_ROOMS = ("dialects", "dialects/ops", "passes", "lowering", "runtime", FRONT_DOOR)
MOST_FILES, MOST_LINES, MOST_LINES_OF_A_FUNCTION = 20, 400, 60


@pytest.mark.parametrize("folder", FOLDERS_OF_ROOMS)
def test_rooms_import_in_order(folder: str) -> None:
    rooms = rooms_in_order(ast.get_docstring(trees()[ROOT / folder / "__init__.py"]) or "")
    there = {path.name for path in (ROOT / folder).iterdir() if (path / "__init__.py").is_file()} - {*LAYERS}
    assert there <= set(rooms), f"{folder}/__init__.py does not state the place of {there - set(rooms)}"
    gone = [
        room for room in rooms if not (ROOT / folder / room).is_dir() and not (ROOT / folder / f"{room}.py").is_file()
    ]
    assert not gone, f"{folder}/__init__.py states the place of {gone}"
    graph = graph_of_sources()
    prefix = "tenon" if folder == FRONT_DOOR else "tenon." + folder.replace("/", ".")
    if folder == FRONT_DOOR:  # its rooms alone: what it stands on, and the names it offers, are another matter
        inside = {name for name in graph if name.split(".")[1] not in (*LAYERS, "__init__")}
        graph = {name: graph[name] & inside for name in inside}
    found = against_the_order(prefix, rooms, graph)
    assert not found, "\n".join(f"{module} imports {target}" for module, target in found)


def test_every_room_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {str(path.parent.relative_to(ROOT)) for path in trees() if path.name == "__init__.py"}
    missing = [room for room in sorted(rooms) if "/" in room and not re.search(rf"`{room}[/`]", page)]
    assert not missing, f"docs/architecture.md does not name {', '.join(missing)}"


def test_sizes_of_rooms() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in trees())
    assert {room: count for room, count in counts.items() if count > MOST_FILES} == {}


def test_sizes_of_files() -> None:
    counts = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in trees()}
    found = {file: count for file, count in counts.items() if count > MOST_LINES}
    assert not found


def test_sizes_of_functions() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}": count
        for path, tree in trees().items()
        for name, count in long_functions(tree)
    }
    assert not found


@pytest.mark.parametrize("layer", ["passes", "lowering"])
def test_a_pass_is_a_file(layer: str) -> None:
    found = {str(path.relative_to(ROOT)): passes_in(trees()[path]) for path in sources(layer)}
    assert {file: names for file, names in found.items() if len(names) > 1} == {}
    assert any(found.values())


@pytest.mark.parametrize(
    ("module", "source", "is_against"),
    [
        ("first.a", "from tenon.passes.second.b import f", True),
        ("first.a", "def f():\n    from tenon.passes.second.b import f", True),
        ("first.a", "if TYPE_CHECKING:\n    from tenon.passes.second.b import F", True),
        ("first.a", "from tenon.passes.second import b", True),
        ("first.a", "from tenon.passes.pipeline import f", True),
        ("second.b", "from tenon.passes.first.a import f", False),
        ("second.b", "from tenon.passes.second.c import f", False),
        ("pipeline", "from tenon.passes.second.b import f", False),
    ],
)
def test_what_counts_as_against_the_order(module: str, source: str, is_against: bool) -> None:
    rooms = rooms_in_order("Passes, in rooms.\n\n`first`   one\n`second`  two, see `third`\n")
    assert rooms == ["first", "second"]
    modules = dict.fromkeys(("first.a", "second.b", "second.c", "pipeline"), "") | {module: source}
    graph = import_graph({f"tenon.passes.{name}": ast.parse(text) for name, text in modules.items()})
    assert bool(against_the_order("tenon.passes", rooms, graph)) is is_against


def test_what_counts_as_a_long_function() -> None:
    def source(lines: int) -> str:
        return "class A:\n    def f(self):\n" + "        x = 1\n" * (lines - 1)

    assert long_functions(ast.parse(source(MOST_LINES_OF_A_FUNCTION))) == []
    longer = MOST_LINES_OF_A_FUNCTION + 1
    assert long_functions(ast.parse(source(longer))) == [("f", longer)]


def test_what_counts_as_a_pass() -> None:
    source = (
        "class A(ModulePass):\n    name = 'a'\nclass B(FunctionPass, ABC):\n    pass\nclass C(B):\n    name = 'c'\n"
    )
    assert passes_in(ast.parse(source)) == ["A"]
    assert passes_in(ast.parse(source.replace("C(B)", "C(FunctionPass)"))) == ["A", "C"]


BUILDERS = {"apply", "build", "build_from", "create", "get", "of"}
SUBJECTS = {
    "passes/layout/": "transposes and convolutions are what the patterns move and rewrite",
    "passes/simplify/equations_": "an equation says of which ops it holds",
    "passes/simplify/fold.py": "what is folded becomes constants",
    "passes/simplify/reciprocals.py": "which numbers a divisor may be follows from the ops that it comes from",
    "passes/simplify/decompose.py": "a checkpoint is put in its place",
    "passes/loops/": "the steps of a scan, and sums in it, are what is taken apart",
    "passes/transform/batch": "each op with regions is batched by a rule of its own",
}
"""Passes whose subject are single ops."""


def asked_ops(tree: ast.AST, classes: set[str], names: set[str]) -> list[tuple[int, str]]:
    """Line and text of every place that asks for one op, by its class or its name; what it builds is left out."""
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=attribute)) if attribute in BUILDERS:
                left_out.add(owner)
            case ast.Call(func=made):
                left_out.add(made)
            case ast.arg(annotation=ast.AST() as annotation) | ast.AnnAssign(annotation=annotation):
                left_out.update(ast.walk(annotation))
            case ast.FunctionDef(returns=ast.AST() as annotation):
                left_out.update(ast.walk(annotation))
            case _:
                pass
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tenon.dialects.")
        for alias in node.names
        if alias.name in classes
    }
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in imported and node not in left_out:
                found.append((node.lineno, name))
            case ast.Attribute(attr=name) if name in classes and node not in left_out:
                if ast.unparse(node.value).startswith(("tenon.dialects", "ops")):
                    found.append((node.lineno, name))
            case ast.Constant(value=str(text)) if text in names:
                found.append((node.lineno, text))
            case _:
                pass
    return found


def test_passes_ask_for_families_and_traits() -> None:
    classes, names = {name for name, _ in definitions() if name.endswith("Op")}, {name for _, name in definitions()}
    found = [
        (str(path.relative_to(ROOT)), line, what)
        for path in sources("passes")
        for line, what in asked_ops(trees()[path], classes, names)
    ]
    violations = [f"{path}:{line} asks for {what}" for path, line, what in found if not path.startswith((*SUBJECTS,))]
    assert not violations, "\n".join(violations)
    assert all(any(path.startswith(subject) for path, _, _ in found) for subject in SUBJECTS)


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("isinstance(op, AddOp)", True),
        ("match op:\n    case AddOp():\n        pass", True),
        ("OPS = (AddOp, int)", True),
        ("op.name == 'tenon.add'", True),
        ("AddOp.build_from([x, y])", False),
        ("AddOp(x, y)", False),
        ("def f(op: AddOp | None) -> AddOp: ...", False),
    ],
)
def test_what_counts_as_asking_for_an_op(source: str, asks: bool) -> None:
    source = f"from tenon.dialects.ops.elementwise.arithmetic import AddOp\n{source}"
    assert bool(asked_ops(ast.parse(source), {"AddOp"}, {"tenon.add"})) is asks


FACT_NAMES = re.compile(
    r"(^|_)(caches?|lines?|pages?|registers?|vector_bits|lanes|warp|near(est)?|far|l[123])(_|$)", re.I
)
FACT_WORDS = re.compile(r"\b(caches?|pages?|registers?)\b", re.I)
FACTS = {f.name for kind in (Machine, Gpu) for f in dataclasses.fields(kind)} | {"cache"}
NO_FACTS = {
    "dialects/interpreter/linalg.py:_TILE_POINTS": "points that NumPy computes at once",
    "dialects/ops/order/radix_sorting.py:DIGIT_BITS": "the algorithm's, which decides how many passes a sort takes",
    "lowering/grid_schedules/contractions.py:LONGEST": "multiply-adds of the code that is made",
    "lowering/grid_schedules/contractions.py:MOST_REGISTERS": "what the assembler needs beside those that are counted",
    "lowering/grids/body_code.py:MANY": "results of the code that is made",
    "lowering/llvm/types.py:MOST_LANES": "LLVM's limit",
    "lowering/loop_passes/mark_final.py:_LARGEST_IN_REGISTERS": "LLVM's limit",
    "lowering/loop_passes/prefetch_rows.py:LOCALITY": "the name of a level in upstream's op",
    "lowering/nests/body.py:SECOND_LEVEL": "the name of a level in upstream's op",
    "lowering/nests/panels.py:ROWS_AHEAD": "a number of rows",
    "lowering/schedules/tile.py:VECTOR_LOAD_COST": "cycles of the cost model, relative to those of a product",
    "lowering/schedules/tile.py:WINDOW_REST": "what the code for windows holds beside them, on any machine",
    "runtime/cpu/compile_parallel.py:LINES_OF_A_PART": "lines of text",
}
"""Constants that speak of caches or registers and are no facts of a machine."""


def is_number(node: ast.AST | None) -> bool:
    """Whether an expression is made of numbers alone, and is not 0."""
    leaves = [leaf for leaf in ast.walk(node) if isinstance(leaf, ast.expr)] if node is not None else []
    if not leaves or not all(isinstance(leaf, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple) for leaf in leaves):
        return False
    values = [leaf.value for leaf in leaves if isinstance(leaf, ast.Constant)]
    return any(values) and all(type(value) in (int, float) for value in values)


def machine_numbers(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each number that is a fact of a machine: a constant that is called so, or whose comment speaks
    of caches, pages or registers, and a default or an argument of that name."""
    lines, tree = source.splitlines(), ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body):
                for statement, behind in zip(body, [*body[1:], None], strict=True):
                    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                    if not isinstance(statement, ast.Assign | ast.AnnAssign) or not is_number(statement.value):
                        continue
                    said = lines[statement.lineno - 1].partition("#")[2]
                    if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                        said += str(behind.value.value)
                    name = ", ".join(map(ast.unparse, targets))
                    if FACT_NAMES.search(name) or FACT_WORDS.search(said):
                        yield statement.lineno, name
            case ast.keyword(arg=str(name), value=value) if name in FACTS and is_number(value):
                yield value.lineno, name
            case ast.arguments():
                positional = [*node.posonlyargs, *node.args]
                named = zip(reversed(positional), reversed(node.defaults), strict=False)
                for argument, default in (*named, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
                    if default is not None and argument.arg in FACTS and is_number(default):
                        yield default.lineno, argument.arg
            case _:
                pass


@pytest.mark.parametrize("layer", ["dialects", "passes", "lowering", "runtime"])
def test_facts_of_a_machine_are_in_one_file(layer: str) -> None:
    found = [
        (str(path.relative_to(ROOT)), line, name)
        for path in sources(layer)
        if path != ROOT / "passes" / "machine.py"
        for line, name in machine_numbers(path.read_text())
    ]
    violations = [f"{path}:{line} {name}" for path, line, name in found if f"{path}:{name}" not in NO_FACTS]
    assert not violations, "\n".join(violations)
    known = {f"{path}:{name}" for path, _, name in found}
    assert not [name for name in NO_FACTS if name.startswith(f"{layer}/") and name not in known]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("CACHE_BYTES = 1 << 20", ["CACHE_BYTES"]),
        ("STRIP = 256 * 1024  # a quarter of the cache", ["STRIP"]),
        ('class A:\n    most: int = 16\n    """Vectors that lie in registers together."""', ["most"]),
        ("def f(bits, *, l2: int = 1 << 20): ...", ["l2"]),
        ("f(registers=32)", ["registers"]),
        ("MOST_ROWS = 96", []),
        ("STRIP = GENERIC.l2 // 4  # a quarter of the cache", []),
        ("f(registers=machine.registers, vector_bits=0)", []),
    ],
)
def test_what_counts_as_a_fact_of_a_machine(source: str, found: list[str]) -> None:
    assert [name for _, name in machine_numbers(source)] == found


def test_ops_are_found() -> None:
    """The test above would hold for no ops at all."""
    assert ("AddOp", "tenon.add") in definitions()


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


def test_make_finds_the_tests_of_each_pass() -> None:
    """`make pass NAME=...` greps for them: by the text that runs a pass, and by the module that defines it."""
    recipe = (ROOT / "Makefile").read_text().partition("\npass:")[2]
    runs, imports = (pattern.replace("$$", "$") for pattern in re.findall(r"grep -rlE '(.*?)'", recipe))
    texts = [path.read_text() for path in (ROOT / "tests" / "lit").rglob("*.mlir")]
    for name, load in (TENSOR_PASSES | LOWERING_PASSES).items():
        found = re.compile(runs.replace("$(NAME)", name), re.MULTILINE)
        assert any(map(found.search, texts)), name
        imported = re.compile(imports.replace("$(subst -,_,$(NAME))", name.replace("-", "_")), re.MULTILINE)
        module = load().__module__
        named_like_it = module.rpartition(".")[2] == name.replace("-", "_")
        assert bool(imported.search(f"from {module} import Pass")) == named_like_it, name


def names_in(tree: ast.AST, path: Path) -> set[str]:
    """What a source file and its room are called, and what it defines, uses or spells out in a string of one word."""
    names = {path.stem, path.parent.name}
    for node in ast.walk(tree):
        found = [getattr(node, field, None) for field in ("name", "id", "attr", "arg")]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            found += node.value.split(".")
        names.update(name for name in found if isinstance(name, str))
    return names


def test_what_docstrings_of_files_refer_to_is_there() -> None:
    known = set[str]().union(*(names_in(tree, path) for path, tree in trees().items()))
    stale = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees().items()
        for name in re.findall(r"`([a-z]\w*_\w+)`", ast.get_docstring(tree) or "")
        if name not in known
    ]
    assert not stale, "\n".join(stale)
