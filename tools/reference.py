"""Reference pages, generated from the op definitions: one page for each file of ops, and an index.

An entry has signature, meaning, operands, settings, formula, gradient, and the example of the docstring (its lines
after `>>>`), which is run. Activations are plotted with their gradients.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tenon.runtime.evaluate  # noqa: F401  # pyright: ignore[reportUnusedImport]  runs the examples
from tenon.dialects.base import TensorOp
from tenon.dialects.families import CompositeOp, ElementwiseOp, PrimitiveOp
from tenon.dialects.registry import registry
from tenon.dialects.settings import REQUIRED
from tenon.dialects.traits import NoGradient
from tenon.dialects.types import BOOLS, FLOAT_TENSOR, FLOATS, INTEGERS, TensorConstraint
from tenon.tools.formula import Formula, formula

_DEFINING = ("decompose", "scalar", "indexing", "source", "element", "target")
_GROUPS = {"floats": FLOATS, "integers": INTEGERS, "i1": BOOLS}


def pages() -> dict[str, str]:
    """The pages by file name (`activation.md`), `index.md` among them."""
    sections: dict[str, list[type[TensorOp]]] = {}
    for name, cls in registry().items():
        if name.startswith("tenon.") and cls.__module__.startswith("tenon.dialects."):
            sections.setdefault(cls.__module__.rpartition(".")[2], []).append(cls)
    written = {f"{section}.md": _page(section, ops) for section, ops in sections.items()}
    return {"index.md": _index(sections), **written}


def plotted() -> list[type[TensorOp]]:
    """The ops that get a plot: activations, which are functions of one float."""
    return [
        cls
        for cls in registry().values()
        if cls.__module__ == "tenon.dialects.activation"
        and issubclass(cls, ElementwiseOp)
        and len(cls.SIGNATURE.operands) == 1
        and cls.SIGNATURE.operands[0].constraint == FLOAT_TENSOR
    ]


def write_pages(folder: Path, *, plots: bool = True) -> list[Path]:
    """Write the pages, and unless `plots` is false a plot `NAME.svg` for each activation, which needs matplotlib."""
    from tenon.runtime.files import write_file

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


def _index(sections: dict[str, list[type[TensorOp]]]) -> str:
    count = sum(map(len, sections.values()))
    lines = ["# Ops", "", f"{count} ops, generated from their definitions by `tenon docs`.", ""]
    for section, ops in sections.items():
        lines += [f"## [{_title(section)}]({section}.md)", ""]
        lines += [f"- [`{_short(cls)}`]({section}.md#{_anchor(cls)}): {_summary(cls)}" for cls in ops]
        lines.append("")
    return "\n".join(lines)


def _title(section: str) -> str:
    return section.replace("_", " ").capitalize()


def _anchor(cls: type[TensorOp]) -> str:
    return _short(cls)


def _summary(cls: type[TensorOp]) -> str:
    paragraph = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return paragraph.partition(">>>")[0].strip()


def _page(section: str, ops: list[type[TensorOp]]) -> str:
    module = sys.modules[ops[0].__module__]
    entries = ["\n".join(_entry(cls)) for cls in ops]
    return "\n\n".join([f"# {_title(section)}", inspect.cleandoc(module.__doc__ or ""), *entries]) + "\n"


def _entry(cls: type[TensorOp]) -> Iterator[str]:
    yield f'## `{_short(cls)}` <a id="{_anchor(cls)}"></a>'
    yield ""
    yield "```python\n" + f"tenon.{_short(cls)}{_signature(cls)}" + "\n```"
    yield ""
    text, example = _split(cls)
    yield text
    yield ""
    if cls.ALIASES:
        yield f"Also called {', '.join(f'`{alias}`' for alias in cls.ALIASES)}.\n"
    yield from _table(cls)
    own = formula(cls)
    yield from _meaning(cls, own)
    yield from _gradient(cls, own)
    if cls in plotted():
        yield f"\n![{_short(cls)} and its gradient]({_short(cls)}.svg)"
    if example:
        yield "\n```python"
        yield from _executed(cls, example)
        yield "```"


def _signature(cls: type[TensorOp]) -> str:
    parts: list[str] = []
    for parameter in cls.PARAMETERS.parameters.values():
        default = parameter.default
        shown = "" if default is inspect.Parameter.empty else f"={default if _is_type(default) else repr(default)}"
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(parameter.name + shown)
    return f"({', '.join(parts)})"


def _is_type(value: Any) -> bool:
    return type(value).__module__.startswith("xdsl")


def _split(cls: type[TensorOp]) -> tuple[str, list[str]]:
    """The meaning and the lines of the example in the docstring."""
    lines = inspect.cleandoc(cls.__doc__ or "").splitlines()
    example = [line.removeprefix(">>>").strip() for line in lines if line.startswith(">>>")]
    return "\n".join([line for line in lines if not line.startswith(">>>")]).strip(), example


def _table(cls: type[TensorOp]) -> Iterator[str]:
    signature = cls.SIGNATURE
    yield "| argument | kind | dtypes, or default |\n|---|---|---|"
    for operand in signature.operands:
        arity = {"one": "", "optional": ", optional", "variadic": ", a tuple of them"}[operand.arity]
        yield f"| `{operand.name}` | tensor{arity} | {_dtypes(operand.constraint)} |"
    for name, setting in signature.settings.items():
        default = "required" if setting.default is REQUIRED else f"default `{setting.default}`"
        choices = "" if setting.choices is None else f", one of {', '.join(f'`{c}`' for c in setting.choices)}"
        yield f"| `{name}` | {setting.kind.name} | {default}{choices} |"
    for name, constraint in _results(cls):
        yield f"| → `{name}` | tensor{', any number of them' if signature.variadic_results else ''} | {constraint} |"
    yield ""


def _results(cls: type[TensorOp]) -> Iterator[tuple[str, str]]:
    for name, declared in cls.get_irdl_definition().results:
        constraint: Any = declared.constr
        while not isinstance(constraint, TensorConstraint):
            constraint = getattr(constraint, "constr", None) or constraint.constraint
        yield name, _dtypes(constraint)


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
    if own is not None and own.results:
        yield f"Formula: `{own.results[0]}`"
        yield ""
        return
    # An operand may have the name of a hook.
    hook = next((h for h in _DEFINING if isinstance(vars(cls).get(h), staticmethod | classmethod)), None)
    if hook is not None and not issubclass(cls, PrimitiveOp):
        summary = f"<summary>Definition ({cls.family()})</summary>"
        yield f"<details>{summary}\n\n```python\n{_source(cls, hook)}\n```\n\n</details>"
        yield ""


def _source(cls: type[TensorOp], hook: str) -> str:
    return textwrap.dedent(inspect.getsource(inspect.getattr_static(cls, hook).__func__)).strip()


def _gradient(cls: type[TensorOp], own: Formula | None) -> Iterator[str]:
    if cls.has_trait(NoGradient):
        yield "Gradient: none."
    elif own is not None and own.derivatives:
        parts = "; ".join(f"by `{name}`: `{text}`" for name, text in own.derivatives.items())
        yield f"Gradient {parts}"
    elif own is not None and (issubclass(cls, PrimitiveOp) or own.results):
        yield "Gradient: none."
    elif getattr(cls, "vjp", None) is not None:
        yield "Gradient: by a rule of the op's own." if "vjp" in vars(cls) else "Gradient: by the rule of its family."
    elif issubclass(cls, CompositeOp | ElementwiseOp):
        yield "Gradient: derived from the definition."
    else:
        yield "Gradient: none."


def _executed(cls: type[TensorOp], example: list[str]) -> Iterator[str]:
    """The lines of an example, each expression followed by its value."""
    import tenon

    names: dict[str, Any] = {"np": np, "tenon": tenon}
    for line in example:
        yield f">>> {line}"
        try:
            try:
                code = compile(line, f"<example of {cls.name}>", "eval")
            except SyntaxError:
                exec(line, names)
                continue
            value = eval(code, names)
        except Exception as error:
            error.add_note(f"in the example of {cls.name}: {line}")
            raise
        with np.printoptions(precision=4, suppress=True, floatmode="maxprec"):
            yield "\n".join(str(part) for part in (value if isinstance(value, tuple) else (value,)))


def _plot(cls: type[TensorOp], path: Path) -> None:
    """Value and gradient over [-4, 4]."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    import tenon

    x = np.linspace(-4, 4, 801)
    function = cls.apply
    with mpl.rc_context({"svg.hashsalt": cls.name, "svg.fonttype": "none", "font.size": 9}):
        axes = Figure(figsize=(4, 2.4), layout="constrained").add_subplot()
        axes.axhline(0, color="#bbbbbb", linewidth=0.8)
        axes.axvline(0, color="#bbbbbb", linewidth=0.8)
        axes.plot(x, function(x), label=_short(cls), color="#1f5fbf")
        slope = tenon.grad(lambda x: tenon.sum(function(x)))(x)
        axes.plot(x, slope, label="gradient", color="#d9662b", linestyle="--")
        axes.set_xlim(-4, 4)
        axes.legend(frameon=False)
        axes.figure.savefig(path, metadata={"Date": None})
