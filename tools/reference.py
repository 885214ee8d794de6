"""Reference pages, generated from the op definitions: one page for each file of ops, and an index.

An entry has signature, meaning, operands, settings, formula, gradient, and the example of the docstring (its lines
after `>>>`), which is run. Activations are plotted with their gradients.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tenon.runtime.evaluate  # pyright: ignore[reportUnusedImport]  runs the examples
from tenon.dialects.definition.registry import registry
from tenon.dialects.definition.settings import REQUIRED
from tenon.dialects.definition.tensor_op import TensorOp
from tenon.dialects.definition.traits import NoGradient
from tenon.dialects.families import CompositeOp, ElementwiseOp, PrimitiveOp
from tenon.dialects.types.types import BOOLS, FLOAT_TENSOR, FLOATS, INTEGERS, NARROW, TensorConstraint, is_float
from tenon.runtime.knobs import knobs
from tenon.tools.api_reference import api_index, api_pages
from tenon.tools.catalog import Entry, catalog, family_of, section_of, shown, title_and_rest
from tenon.tools.formula import Formula, formula
from tenon.tools.markdown import prose

_DEFINING = ("decompose", "scalar", "indexing", "source", "element", "target")
_GROUPS = {"floats": FLOATS, "integers": INTEGERS, "i1": BOOLS, "narrow types": NARROW}

_CHAPTERS: dict[str, tuple[str, ...]] = {
    "Element by element": (
        *("arithmetic", "rounding", "comparison", "elementary", "pairwise"),
        *("special", "gamma", "piecewise", "activation", "combined"),
    ),
    "Making and converting": ("creation", "constant", "random", "sampling"),
    "Moving elements": (
        *("shape", "pieces", "places", "slicing", "joining", "rearranging", "diagonals", "padding"),
        *("indexing", "band", "dynamic_slicing", "scatter", "grid_sampling"),
    ),
    "Reducing, scanning and sorting": (
        *("reduction", "statistics", "measures", "norms", "cumulative"),
        *("sorting", "rank_sorting", "radix_sorting", "network_sorting", "row_selection", "searching", "quantiles"),
    ),
    "Products and windows": (
        *("contraction", "products", "einsum", "convolution", "transposed_convolution"),
        *("sliding", "pooling", "global_pooling", "fourier"),
    ),
    "Matrices": ("cholesky", "singular", "orthogonal", "solving", "determinant", "spectral"),
    "Networks": ("normalization", "batch_normalization", "loss", "class_loss"),
    "Control": ("control_flow", "scan", "checkpoint", "identity"),
}
"""The parts of the index and their pages; pages that are in none come last, under `_REMAINING`."""

_REMAINING = "Further ops"

_LONGEST = 200
"""Formulas that are longer are not shown: the definition tells more."""


def pages() -> dict[str, str]:
    """The pages by file name (`activation.md`), `index.md` among them."""
    sections: dict[str, list[Entry]] = {}
    for entry in catalog().values():
        if entry.module.startswith("tenon.dialects."):
            sections.setdefault(section_of(entry), []).append(entry)
    written = {f"{section}.md": _page(entries) for section, entries in sections.items()}
    return {"index.md": _index(sections), **api_pages(), **written}


def plotted() -> list[type[TensorOp]]:
    """The ops that get a plot: activations, which are functions of one float."""
    return [
        cls
        for cls in registry().values()
        if cls.__module__ in ("tenon.dialects.ops.elementwise.activation", "tenon.dialects.ops.elementwise.piecewise")
        and issubclass(cls, ElementwiseOp)
        and len(cls.SIGNATURE.operands) == 1
        and cls.SIGNATURE.operands[0].constraint == FLOAT_TENSOR
    ]


def write_pages(folder: Path, *, plots: bool = True) -> list[Path]:
    """Write the pages, and unless `plots` is false a plot `NAME.svg` for each activation, which needs matplotlib."""
    from tenon.runtime.store.files import write_file

    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, text in pages().items():
        write_file(folder / name, text)
        paths.append(folder / name)
    if plots:
        for cls in plotted():
            paths.append(folder / f"{_short(cls)}.svg")
            _plot(cls, paths[-1])
    return paths


def _short(cls: type[TensorOp]) -> str:
    return cls.name.removeprefix("tenon.")


def _index(sections: dict[str, list[Entry]]) -> str:
    entries = [entry for section in sections.values() for entry in section]
    count = sum(entry.op is not None for entry in entries)
    lines = [
        "# Ops and functions",
        "",
        f"{count} ops and {len(entries) - count} functions. `tenon docs` writes these pages from the definitions, and "
        "runs the examples; floats are shown to four decimals.",
        "",
    ]
    lines += [*api_index(), ""]
    chapters = _chapters(sections)
    for chapter, names in chapters.items():
        links = [f"[{name.replace('_', ' ')}]({name}.md) ({len(sections[name])})" for name in names]
        lines.append(f"- {chapter}: {', '.join(links)}")
    for chapter, names in chapters.items():
        lines += ["", f"## {chapter}"]
        for name in names:
            title, _ = title_and_rest(sections[name][0].module)
            lines += ["", f"### [{title}]({name}.md)", ""]
            lines += [f"- [`{e.name}`]({name}.md#{e.name}): {prose(e.summary)}" for e in sections[name]]
    return "\n".join(lines) + "\n"


def _chapters(sections: dict[str, list[Entry]]) -> dict[str, list[str]]:
    """The sections there are, by the chapters of the index."""
    placed = {name for chapter in _CHAPTERS.values() for name in chapter}
    chapters = {**_CHAPTERS, _REMAINING: [name for name in sections if name not in placed]}
    present = {title: [name for name in names if name in sections] for title, names in chapters.items()}
    return {title: names for title, names in present.items() if names}


def _page(entries: Sequence[Entry]) -> str:
    title, rest = title_and_rest(entries[0].module)
    links = " · ".join([f"[`{entry.name}`](#{entry.name})" for entry in entries])
    parts = [
        f"# {title}",
        prose(rest),
        links if len(entries) > 1 else "",
        *["\n".join(_entry(e)).strip() for e in entries],
    ]
    return "\n\n".join([part for part in parts if part]) + "\n\n[All ops](index.md)\n"


def _entry(entry: Entry) -> Iterator[str]:
    yield f'## `{entry.name}` <a id="{entry.name}"></a>\n'
    yield f"```python\n{entry.call}{entry.signature}\n```\n"
    yield f"{prose(entry.text)}\n"
    if entry.op is not None:
        yield from _derived(entry.op)
    if entry.example:
        yield "```pycon"
        yield from _executed(entry)
        yield "```"


def _derived(cls: type[TensorOp]) -> Iterator[str]:
    """What the definition says besides its docstring."""
    if cls.ALIASES:
        yield f"Also called {', '.join(f'`{alias}`' for alias in cls.ALIASES)}.\n"
    if cls.KEYWORDS:
        # Where the name alone says nothing, the array API standard says what it means.
        named = [f"`{own}` as `{name}`" for name, own in cls.KEYWORDS.items() if isinstance(own, str)]
        more = [f"`{name}`" for name, own in cls.KEYWORDS.items() if not isinstance(own, str)]
        yield f"As in the [array API standard](../array-api.md) or PyTorch, also takes {', '.join([*named, *more])}.\n"
    yield from _table(cls)
    own = formula(cls)
    yield from _meaning(cls, own)
    yield f"{_gradient(cls, own)}\n"
    if cls in plotted():
        yield f"![{_short(cls)} and its gradient]({_short(cls)}.svg)\n"


def _table(cls: type[TensorOp]) -> Iterator[str]:
    signature = cls.SIGNATURE
    yield "| argument | kind | dtypes, or default |\n|---|---|---|"
    for operand in signature.operands:
        arity = {"one": "", "optional": ", optional", "variadic": ", a tuple of them"}[operand.arity]
        yield f"| `{operand.name}` | tensor{arity} | {_dtypes(operand.constraint)} |"
    for name, setting in signature.settings.items():
        default = "required" if setting.default is REQUIRED else f"default `{shown(setting.default)}`"
        choices = "" if setting.choices is None else f", one of {', '.join(f'`{c}`' for c in setting.choices)}"
        yield f"| `{name}` | {setting.kind.name.replace('|', 'or')} | {default}{choices} |"
    for name, constraint in _results(cls):
        several = ", any number of them" if signature.variadic_results else ""
        yield f"| → `{name}` | tensor{several} | {_dtypes(constraint)} |"
    yield ""


def _results(cls: type[TensorOp]) -> Iterator[tuple[str, TensorConstraint]]:
    for name, declared in cls.get_irdl_definition().results:
        constraint: Any = declared.constr
        while not isinstance(constraint, TensorConstraint):
            constraint = getattr(constraint, "constr", None) or constraint.constraint
        yield name, constraint


def _dtypes(constraint: TensorConstraint) -> str:
    """The element types, groups that are allowed whole by their name."""
    left = list(constraint.elements)
    names: list[str] = []
    for name, group in _GROUPS.items():
        if all(element in left for element in group):
            names.append(name)
            left = [element for element in left if element not in group]
    return ", ".join([*names, *map(str, left)])


def _meaning(cls: type[TensorOp], own: Formula | None) -> Iterator[str]:
    if own is not None and own.results and len(own.results[0]) <= _LONGEST:
        yield f"Formula{', with default settings' if own.at_defaults else ''}: `{own.results[0]}`"
        yield ""
        return
    # An operand may have the name of a hook.
    hook = next((h for h in _DEFINING if isinstance(vars(cls).get(h), staticmethod | classmethod)), None)
    if hook is not None and not issubclass(cls, PrimitiveOp):
        summary = f"<summary>Definition ({family_of(cls)})</summary>"
        yield f"<details>{summary}\n\n```python\n{_source(cls, hook)}\n```\n\n</details>"
        yield ""


def _source(cls: type[TensorOp], hook: str) -> str:
    combining = vars(cls).get("COMBINE")
    if combining is not None and hook == "scalar":
        return f'COMBINE = "{combining}"'
    return textwrap.dedent(inspect.getsource(inspect.getattr_static(cls, hook).__func__)).strip()


def _gradient(cls: type[TensorOp], own: Formula | None) -> str:
    results = [name for name, constraint in _results(cls) if any(map(is_float, constraint.elements))]
    if cls.has_trait(NoGradient) or not results:
        return "Gradient: none."
    of = "" if len(results) == len(cls.SIGNATURE.results) else f" of {' and '.join(f'`{name}`' for name in results)}"
    slopes = {} if own is None else own.derivatives
    if own is not None and not slopes and (issubclass(cls, PrimitiveOp) or own.results):
        return "Gradient: none."
    if own is not None and slopes and max(map(len, slopes.values())) <= _LONGEST:
        given = ", with default settings," if own.at_defaults else ""
        return f"Gradient{given} {'; '.join(f'by `{name}`: `{text}`' for name, text in slopes.items())}"
    if getattr(cls, "vjp", None) is not None:
        return f"Gradient{of}: by {'a rule of its own' if 'vjp' in vars(cls) else 'the rule of its family'}."
    if issubclass(cls, CompositeOp | ElementwiseOp):
        return f"Gradient{of}: derived from the definition."
    return "Gradient: none."


def _executed(entry: Entry) -> Iterator[str]:
    """The lines of an example, each expression followed by its value, for which nothing is compiled."""
    names: dict[str, Any] = {"np": np, "tenon": tenon}
    for line in entry.example:
        yield f">>> {line}"
        try:
            code = compile(line, f"<example of {entry.name}>", "eval")
        except SyntaxError:
            exec(line, names)
            continue
        try:
            with knobs.override(interpret=True):
                value = eval(code, names)
        except Exception as error:
            error.add_note(f"in the example of {entry.name}: {line}")
            raise
        with np.printoptions(precision=4, suppress=True, floatmode="maxprec"):
            yield _printed(value)


def _printed(value: Any) -> str:
    """A value as a Python session shows it, several results below each other."""
    if not isinstance(value, tuple) or not any(isinstance(part, np.ndarray) for part in value):
        return repr(value)
    parts = [textwrap.indent(repr(part), " ").strip() for part in value]
    return "(" + ",\n ".join(parts) + ")"


def _plot(cls: type[TensorOp], path: Path) -> None:
    """Value and gradient over [-4, 4]."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    import tenon

    x = np.linspace(-4, 4, 801)
    function = cls.apply
    with mpl.rc_context({"svg.hashsalt": cls.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4, 2.4), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(0, color="#bbbbbb", linewidth=0.8)
        axes.axvline(0, color="#bbbbbb", linewidth=0.8)
        axes.plot(x, function(x), label=_short(cls), color="#1f5fbf")
        slope = tenon.grad(lambda x: tenon.sum(function(x)))(x)
        axes.plot(x, slope, label="gradient", color="#d9662b", linestyle="--")
        axes.set_xlim(-4, 4)
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
