"""The reference pages: as committed, whole, and right."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tenon
from tenon.dialects.definition import registry as registry_module
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.value import Value
from tenon.tools import reference
from tenon.tools.api_reference import api_pages
from tenon.tools.catalog import Entry, catalog, find_entry
from tenon.tools.cli import main
from tenon.tools.formula import formula
from tenon.tools.reference import pages, plotted

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@cache
def whole() -> dict[str, str]:
    """The pages, made once: their examples are run for that."""
    return pages()


def test_pages_are_those_of_the_definitions() -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    made = whole()
    assert sorted(written) == sorted(made), "run `tenon docs docs/reference`"
    for name, text in made.items():
        assert written[name] == text, f"{name} is out of date; run `tenon docs docs/reference`"


def test_every_activation_has_a_plot() -> None:
    names = {f"{cls.name.removeprefix('tenon.')}.svg" for cls in plotted()}
    assert names == {path.name for path in FOLDER.glob("*.svg")}
    assert len(names) > 10


OWN = [entry for entry in catalog().values() if entry.module.startswith("tenon.dialects.")]


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_every_op_and_function_has_an_example(entry: Entry) -> None:
    assert entry.example, f"{entry.name} has no example in its docstring"
    assert len(entry.example) <= 3
    assert all(len(line) <= 100 for line in entry.example)
    assert any(f"tenon.{entry.name}(" in line for line in entry.example)


def test_pages_have_every_op_and_function_once() -> None:
    others = {"index.md", *api_pages()}
    made = "\n".join(text for name, text in whole().items() if name not in others)
    headings = re.findall(r"^## `(\w+)`", made, flags=re.MULTILINE)
    assert sorted(headings) == sorted(entry.name for entry in OWN)
    assert {"matmul", "split", "eye", "einsum", "cond", "scan"} <= set(headings)


def test_what_is_public_has_a_page_and_a_docstring() -> None:
    made = "\n".join(api_pages().values())
    entries = re.findall(r"^## `(\w+)`.*?\n\n(.*?)(?=^## |\Z)", made, flags=re.MULTILINE | re.DOTALL)
    assert not [name for name, text in entries if not re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).strip()]
    names = {name for name, _ in entries}
    assert {*tenon.nn.__all__, "Adam", "load", "jit", "grad", "scan", "OpaqueOp", "check"} <= names
    modules = ("tenon.transform", "tenon.control_flow")
    operations = {name for name in dir(tenon) if getattr(getattr(tenon, name), "__module__", "") in modules}
    assert operations <= names


def test_pages_are_markdown() -> None:
    """Tables have three columns, and stars of formulas are no emphasis."""
    for name, text in whole().items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        for line in prose.splitlines():
            assert line.count("`") % 2 == 0 or line.startswith("Also"), f"{name}: {line}"
            outside = re.sub(r"`[^`]*`", "", line)
            assert not re.search(r"(?<!\\)\*", outside), f"{name}: {line}"
            assert not outside.startswith("|") or outside.count("|") == 4, f"{name}: {line}"


def test_examples_show_what_python_would() -> None:
    text = whole()
    assert ">>> tenon.divide(np.array([7]), np.array([2]))\narray([3.5], dtype=float32)\n" in text["arithmetic.md"]
    assert "(array([1., 2.]), array([1, 3]))" in " ".join(text["sorting.md"].split())
    assert ">>> p = np.array([2, 0, 1])\n>>> tenon.invert_permutation(p)\narray([1, 2, 0])\n" in text["indexing.md"]


def test_links_lead_somewhere() -> None:
    for path in FOLDER.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", path.read_text()):
            assert not target or (FOLDER / target).exists(), f"{path.name}: {target}"


@pytest.mark.parametrize("cls", [cls for cls in plotted() if formula(cls)], ids=lambda cls: cls.name)
def test_formulas_compute_what_the_op_does(cls: type[tenon.TensorOp]) -> None:
    """The text, run as Python, gives value and gradient of the op."""
    own = formula(cls)
    assert own is not None
    x = np.linspace(-3.05, 2.95, 25)
    names = {n: s.default for n, s in cls.SIGNATURE.settings.items()}
    result = cls.apply(x)

    def evaluated(text: str) -> Value | np.ndarray:
        functions = {name.removeprefix("tenon."): op.apply for name, op in registry().items()}
        return np.asarray(eval(text, {**functions, **names, "x": x, "result": result}))

    if own.results:
        np.testing.assert_allclose(evaluated(own.results[0]), result, rtol=1e-5, atol=1e-12)
    slope = tenon.grad(lambda x: tenon.sum(cls.apply(x)))(x)
    np.testing.assert_allclose(evaluated(own.derivatives["x"]), slope, rtol=2e-5, atol=1e-12)


def test_formula_of_an_op_with_settings() -> None:
    own = formula(registry()["tenon.leaky_relu"])
    assert own is not None
    assert own.results == ("select(x > 0, x, negative_slope * x)",)


def test_command_writes_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "pages", whole)
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "reference"), "--no-plots"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "reference" / "index.md").read_text().startswith("# Ops")
    assert not list((tmp_path / "reference").glob("*.svg"))


def test_ops_of_a_page_in_no_chapter_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_CHAPTERS", {"Only these": ("loss", "no_such_page")})
    monkeypatch.setattr(reference, "_page", lambda entries: "")  # examples of ops need not run for the index
    index = pages()["index.md"]
    assert "## Only these\n\n### [Losses as optimizers minimize them](loss.md)" in index
    assert index.index("## Further ops") < index.index("### [Arithmetic](arithmetic.md)")


def test_ops_are_listed_as_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_REGISTRY", "_FUNCTIONS"):
        monkeypatch.setattr(registry_module, table, dict(getattr(registry_module, table)))

    def define(op_name: str) -> None:
        @tenon.tensor_op
        class OneMoreOp(tenon.ElementwiseOp):
            """The exponential of `x`, once more."""

            name = op_name
            x = tenon.operand_def(tenon.FLOAT_TENSOR)
            result = tenon.result_def(tenon.FLOAT_TENSOR)

            @staticmethod
            def scalar(x: Value) -> Value:
                return tenon.exp(x)

    define("reference_test.once_more")
    with pytest.warns(UserWarning, match="stays the function of Tenon's own"):
        define("reference_test.exp")
    assert find_entry("once_more").call == find_entry("reference_test.once_more").call == "tenon.once_more"
    assert find_entry("reference_test.exp").call.endswith(".OneMoreOp.apply")
    assert find_entry("tenon.exp").call == find_entry("exp").call == "tenon.exp"
    with pytest.raises(ValueError, match="there is no op or function named 'sofmax', did you mean 'softmax'"):
        find_entry("sofmax")


def test_command_lists_functions() -> None:
    lines = CliRunner().invoke(main, ["ops"]).output.splitlines()
    eye = "eye(n, m=None, k=0, dtype='f32', *, device=None, requires_grad=False)"
    assert any(line.startswith(f"{eye}: A matrix") for line in lines)
    assert any(line.startswith("while_loop(condition, body, initial): ") for line in lines)
    assert any(line.startswith("iota(shape, axis=0, dtype='i64'): ") for line in lines)
    shown = CliRunner().invoke(main, ["ops", "eye", "topk", "lp_normalize"]).output
    assert shown.startswith(f"tenon.{eye}  (function)\n\nA matrix")
    assert "\n>>> tenon.eye(2, 3, k=1)\n" in shown
    assert "\ntenon.top_k(x, k, axis=-1, largest=True, sorted=True)  (CompositeOp)\n" in shown
    assert "  (CompositeOp)\n\n`x` over its `p`-norm" in shown, "not the base that it shares with other ops"
