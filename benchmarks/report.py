"""Results as text: a line per row while it runs, and a page with tables and a picture of all of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import OURS, Row
from benchmarks.peers import PEERS

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks.svg"
REASONS = Path(__file__).with_name("reasons.toml")
HEADINGS = {"onednn": "oneDNN", "numpy": "NumPy"}


@dataclass
class Results:
    """What was measured, by name and thread count, with the machine's figures; kept in a file between runs."""

    machine: dict[str, str] = field(default_factory=dict)
    limits: dict[int, dict[str, float]] = field(default_factory=dict)
    rows: dict[tuple[str, int], Row] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Results:
        """What the file holds; nothing where there is none."""
        if not path.exists():
            return Results()
        data = json.loads(path.read_text())
        rows = [Row.from_json(row) for row in data["rows"]]
        limits = {int(threads): figures for threads, figures in data["limits"].items()}
        return Results(data["machine"], limits, {(row.name, row.threads): row for row in rows})

    def write(self, path: Path) -> None:
        """Replace the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"machine": self.machine, "limits": self.limits, "rows": [row.to_json() for row in self.rows.values()]}
        path.write_text(json.dumps(data, indent=1))


def reasons() -> dict[str, str]:
    """Why rows fall short, by name, or by name and thread count (`name@2`)."""
    return tomllib.loads(REASONS.read_text()) if REASONS.exists() else {}


def _amount(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def _error(row: Row, contestant: str) -> str:
    error = row.errors.get(contestant)
    if error is None:
        return ""
    return f"{error:.2f} ulp" if row.target.ulp is not None else f"{error:.0e}"


def _fraction(row: Row, contestant: str) -> str:
    fraction = row.fraction(contestant)
    return "" if fraction is None else f"{100 * fraction:.0f} % {row.binds}"


def _fresh(row: Row, contestant: str) -> str:
    """What new memory costs: Tenon, and its peers."""
    if contestant not in row.fresh:
        return ""
    peers = ", ".join(f"{HEADINGS.get(peer, peer)} {row.fresh[peer]:.2f}" for peer in PEERS if peer in row.fresh)
    return f"{row.fresh[contestant]:.2f} ({peers})" if peers else f"{row.fresh[contestant]:.2f}"


def measured_contestants(row: Row) -> list[str]:
    """Tenon's contestants that have a time; Tenon itself where none has."""
    return [name for name in OURS if name in row.seconds] or ["tenon"]


def line(row: Row) -> str:
    """A row for the terminal, a line for each of Tenon's contestants."""
    lines: list[str] = []
    for contestant in measured_contestants(row):
        taken = row.seconds.get(contestant)
        own = _amount(taken, row.unit) if taken else "-"
        peers = " ".join(f"{peer} {ratio:.2f}" for peer, ratio in row.ratios.get(contestant, {}).items())
        missed = row.shortfalls(contestant)
        verdict = f"misses: {'; '.join(missed)}" if missed else "reached"
        name = row.name + ("" if contestant == "tenon" else " out=")
        figures = f"{own:>9} {_error(row, contestant):>9} {_fraction(row, contestant):>13}"
        lines.append(f"{name:<30} {row.threads} {figures} | {peers} | {row.target.text()}: {verdict}")
    lines += [f"{'':<32} {name}: {why}" for name, why in row.absent.items() if name != "tenon, out="]
    return "\n".join(lines)


def limits_text(figures: Mapping[str, float], threads: int) -> str:
    """The machine's figures in a line."""
    operations = [f"{name} {value / 1e9:.0f} G/s" for name, value in figures.items() if "adds" in name]
    bytes_ = [f"{name} {value / 1e9:.0f} GB/s" for name, value in figures.items() if "adds" not in name]
    return f"{threads} thread{'s' if threads > 1 else ''}: {', '.join(operations + bytes_)}"


def _table(rows: Iterable[Row], unit: str) -> list[str]:
    own = "memory" if unit == "B" else "time"
    heads = [
        "workload",
        "threads",
        own,
        "error",
        "of the limit",
        *[HEADINGS.get(p, p) for p in PEERS],
        "fresh memory",
        "target",
        "",
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        for contestant in measured_contestants(row):
            taken = row.seconds.get(contestant)
            ratios = row.ratios.get(contestant, {})
            missed = row.shortfalls(contestant)
            verdict = "; ".join(missed) if missed else "reached" if row.target.text() else ""
            cells = [
                row.name + ("" if contestant == "tenon" else ", `out=`"),
                str(row.threads),
                _amount(taken, row.unit) if taken else "",
                _error(row, contestant),
                _fraction(row, contestant),
                *[f"{ratios[peer]:.2f}" if peer in ratios else "" for peer in PEERS],
                _fresh(row, contestant),
                row.target.text(),
                verdict,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _reason_lines(rows: Iterable[Row], known: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for row in rows:
        short = any(row.shortfalls(contestant) for contestant in measured_contestants(row))
        reason = known.get(f"{row.name}@{row.threads}", known.get(row.name))
        if short and reason and f"- {row.name}: {reason}" not in lines:
            lines.append(f"- {row.name}: {reason}")
    return ["Why rows fall short:", "", *lines, ""] if lines else []


INTRODUCTION = """\
# Benchmarks

`make bench` measures this page, without torch.compile, whose compilations take longer than all else (with it: `make
bench PEERS=`); `python -m benchmarks matmul-f32-512 'softmax-*' --threads 1` measures single rows, with all peers.

Ratios are the peer's time over Tenon's (above 1, Tenon is faster): medians over rounds in which all take turns in one
process, with the same threads on the same cores, 10 to 30 ms of calls that are not timed before each turn of short
calls, and a `malloc` that keeps all memory that was freed, so that none is measured with caches that another has
emptied, or with fresh pages where another has used ones. What those cost each is *fresh memory*: how many times as long
Tenon (and its peers) take on one thread where memory of 128 KiB or more comes from the system at each call. Numbers are
checked before time, against NumPy in f64 or a peer; the error is the largest deviation over the largest number, or in
units in the last place. The limit is the time that the arithmetic takes at the measured peak of multiply-adds, or that
reading the inputs and writing the results once takes at the measured rates for as much memory, whichever is longer.
`oneDNN` is called through torch (for convolutions: torch with the channels innermost), NumPy has OpenBLAS at its best
setting for the processor. *best* is the fastest peer of the row. An empty place is a peer that has no such function, or
was not measured. Reasons that have times were found on an AMD EPYC unless they name another processor: they say what
bounds a row, not how long it takes on this one.
"""

COMPILING = """\
Seconds of the first training step in a new process, imports not counted: traced, compiled and run. Each framework
starts with empty caches, or with what it kept on disk the time before; rows with `imports` count from the start of the
process. Memory is the largest resident size over that before the model was made, after a start from the disk cache; the
arena is the scratch memory that the compiled step has, and its limit the most bytes that are needed at once.
"""


def page(results: Results) -> str:
    """The page for all results."""
    machine, known = results.machine, reasons()
    lines = [INTRODUCTION]
    lines.append(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {machine['versions']}.\n")
    lines += [f"- {limits_text(figures, threads)}" for threads, figures in sorted(results.limits.items())]
    lines += ["", f"![Time of the fastest peer over Tenon's]({PICTURE.name})", ""]
    sections: dict[str, list[Row]] = {}
    for row in results.rows.values():
        sections.setdefault(row.section, []).append(row)
    for section, rows in sections.items():
        lines += [f"## {section}", ""]
        if section == "Compiling":
            lines.append(COMPILING)
        lines += [*_table(rows, rows[0].unit), "", *_reason_lines(rows, known)]
    return "\n".join(lines).rstrip() + "\n"


def draw(results: Results, path: Path) -> None:
    """The picture: each row's fastest peer over Tenon, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "tenon"
    names = list(dict.fromkeys(name for name, _ in results.rows))
    figure: Any = pyplot.figure(figsize=(9, 0.19 * len(names) + 1.2))
    axes = figure.add_subplot()
    for threads, marker in ((1, "o"), (2, "D")):
        rows = [row for row in results.rows.values() if row.threads == threads]
        points = [(best[1], names.index(row.name)) for row in rows if (best := row.best())]
        if points:
            label = f"{threads} thread{'s' if threads > 1 else ''}"
            axes.scatter(*zip(*points, strict=True), s=22, marker=marker, label=label)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.3)
    axes.set_xlabel("time of the fastest peer over Tenon's: right of 1, Tenon is faster")
    axes.legend(loc="best", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write_page(results: Results) -> None:
    """Write `docs/benchmarks.md` and its picture."""
    PAGE.write_text(page(results))
    draw(results, PICTURE)
