"""The examples of the documentation run, and give what the text says."""

# Ops that are defined here are found under `tenon`, which its stubs do not know.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import tenon
from tenon.lowering.grid_schedules.decide_steps import DECIDERS
from tenon.lowering.grids.apply_steps import ApplyStepsPass
from tenon.lowering.steps.step import parse
from tenon.lowering.steps.table import STEPS
from tenon.runtime.lower import new_context
from tenon.tools.architecture import picture

ROOT = Path(__file__).parents[2]
X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])


def blocks(path: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def defined() -> dict[str, Any]:
    """What the whole examples of the page on defining an op define."""
    names: dict[str, Any] = {"__name__": "documentation"}
    for block in blocks("docs/defining-an-op.md"):
        if block.startswith(("import", "from", "@tensor_op")):
            exec(block, names)
    return names


def soft(x: Any) -> Any:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


ORACLES: dict[str, Callable[..., Any]] = {
    "leaky": lambda x: np.where(x > 0, x, 0.01 * x),
    "soft": soft,
    "product": lambda x: x @ x.T,
    "square_sum": lambda x: (x**2).sum(),
    "every_other": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("name", ORACLES)
def test_examples_of_defining_an_op(defined: dict[str, Any], name: str) -> None:
    function = getattr(tenon, name)
    arguments = (X, X.T) if name == "product" else (X,)
    np.testing.assert_allclose(function(*arguments), ORACLES[name](X), rtol=1e-14)

    def total(x: Any) -> Any:
        return tenon.sum(tenon.sin(function(x, x.T) if name == "product" else function(x)))

    step = 1e-6
    slopes = np.zeros_like(X)
    for index in np.ndindex(X.shape):
        moved = np.zeros_like(X)
        moved[index] = step
        slopes[index] = (np.sin(ORACLES[name](X + moved)).sum() - np.sin(ORACLES[name](X - moved)).sum()) / (2 * step)
    np.testing.assert_allclose(tenon.grad(total)(X), slopes, rtol=1e-6, atol=1e-8)


def test_example_of_a_window(defined: dict[str, Any]) -> None:
    windows = [X[:, i : i + 2] for i in range(X.shape[1] - 1)]
    expected = np.stack([(window**2).sum(-1) for window in windows], axis=-1)
    np.testing.assert_allclose(tenon.energy(X, width=2), expected, rtol=1e-14)
    np.testing.assert_allclose(tenon.energy(X, width=2, stride=2), expected[:, ::2], rtol=1e-14)


def test_errors_that_the_page_quotes(defined: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"mine\.leaky: unknown setting 'slope' \(settings: negative_slope\)"):
        tenon.leaky(X, slope=1.0)
    with pytest.raises(tenon.InferenceError, match=r"mine\.product: dimension k is 3 in a and 2 in b"):
        tenon.product(X, X)
    printed = str(tenon.jit(lambda x: tenon.leaky(x, negative_slope=0.2)).trace(np.zeros(4, np.float32)))
    assert "mine.leaky %x {negative_slope = 0.2} : tensor<4xf32> -> tensor<4xf32>" in printed


def test_first_example_of_the_readme() -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(blocks("README.md")[0], names)
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(tenon.squareplus(x), (x + np.sqrt(x * x + 4)) / 2, rtol=1e-14)
    assert tenon.squareplus.op is names["SquareplusOp"]


def test_example_of_an_opaque_op(defined: dict[str, Any]) -> None:
    """C code that was compiled on the spot, called by LLVM text, with a gradient."""
    names = dict(defined)
    for block in blocks("docs/defining-an-op.md"):
        if "running_maximum" in block:
            exec(block, names)
    data = np.random.default_rng(0).standard_normal((3, 1000))
    np.testing.assert_array_equal(tenon.jit(tenon.running_maximum)(data), np.maximum.accumulate(data, axis=-1))
    with pytest.raises(ValueError, match=r"no kernel for llvm takes \(tensor<3x1000xf32>\): c takes f64"):
        tenon.running_maximum(data.astype(np.float32))


WHOLE = ["getting-started", "transforms", "sharp-bits", "tensors", "nn", "debugging", "training"]


@pytest.mark.parametrize("page", WHOLE)
def test_examples_of_whole_pages(page: str) -> None:
    names: dict[str, Any] = {"__name__": "documentation"}
    found = blocks(f"docs/{page}.md")
    assert found
    for block in found:
        exec(block, names)


def test_what_a_page_shows_is_what_its_blocks_print() -> None:
    command = [sys.executable, Path(__file__).with_name("literate.py"), "--check", ROOT / "docs/one-sitting.md"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\nto take it over: python tests/unit/literate.py docs/one-sitting.md"


def test_the_picture_of_the_architecture_is_that_of_the_sources() -> None:
    drawn = (ROOT / "docs/architecture.svg").read_text()
    assert drawn == picture(), "run: python -m tenon.tools.architecture docs/architecture.svg"


PAGES = ["README.md", "CONTRIBUTING.md", *[f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")]]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_pages_name_exist(page: str) -> None:
    """A path such as `dialects/families` or `lowering/pipeline.py`, and links to other pages."""
    text, folder = (ROOT / page).read_text(), (ROOT / page).parent
    named = re.findall(r"`((?:dialects|passes|lowering|runtime|tools|tenon|tests|docs)/[\w/.]+)`", text)
    linked = [link for link in re.findall(r"\]\(([\w/.-]+)[)#]", text) if "/" in link or "." in link]
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing + [link for link in linked if not (folder / link).exists()]


def test_what_the_page_on_fusion_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("docs/fusion.md")
    exec(block, {"np": np, "tenon": tenon})
    assert f"```\n{capsys.readouterr().out}```" in (ROOT / "docs/fusion.md").read_text()


def schedules_page() -> str:
    return (ROOT / "docs/gpu-schedules.md").read_text()


def test_the_page_on_schedules_lists_all_steps_and_deciders() -> None:
    """Deciders in the order in which they are asked; each step of the table is one that can be read."""

    def first_cells(section: str) -> list[str]:
        text = schedules_page().split(f"\n## {section}\n")[1].split("\n## ")[0]
        return [
            quoted for cell in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for quoted in re.findall("`(.+?)`", cell)
        ]

    assert {parse(text, STEPS).name for text in first_cells("Steps")} == set(STEPS)
    assert first_cells("Who decides") == list(DECIDERS)


def test_the_schedule_of_the_page_gives_the_nest_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, *_ = re.findall(r"^```mlir\n(.*?)^```", schedules_page(), re.DOTALL | re.MULTILINE)
    (nest,) = re.findall(r"^```\n(// after.*?)^```", schedules_page(), re.DOTALL | re.MULTILINE)
    ApplyStepsPass(after_step=True).apply(Context(), Parser(new_context(), kernel).parse_module())
    assert nest in capsys.readouterr().out
