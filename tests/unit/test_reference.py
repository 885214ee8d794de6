"""The reference pages: as committed, whole, and right."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tenon
from tenon.dialects.registry import registry
from tenon.dialects.value import Value
from tenon.tools.cli import main
from tenon.tools.formula import formula
from tenon.tools.reference import pages, plotted

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
OWN = [cls for name, cls in registry().items() if cls.__module__.startswith("tenon.dialects.")]


def test_pages_are_those_of_the_definitions() -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    made = pages()
    assert sorted(written) == sorted(made), "run `tenon docs docs/reference`"
    for name, text in made.items():
        assert written[name] == text, f"{name} is out of date; run `tenon docs docs/reference`"


def test_every_activation_has_a_plot() -> None:
    names = {f"{cls.name.removeprefix('tenon.')}.svg" for cls in plotted()}
    assert names == {path.name for path in FOLDER.glob("*.svg")}
    assert len(names) > 10


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.name)
def test_every_op_has_an_example(cls: type) -> None:
    assert ">>>" in (cls.__doc__ or ""), f"{cls.name} has no example in its docstring"


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


def test_command_writes_pages(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "reference"), "--no-plots"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "reference" / "index.md").read_text().startswith("# Ops")
    assert not list((tmp_path / "reference").glob("*.svg"))
