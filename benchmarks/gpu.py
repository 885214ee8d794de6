"""`python -m benchmarks.gpu [NAME…]`: measure workloads on the GPU that is there, beside PyTorch.

    python -m benchmarks.gpu --list
    python -m benchmarks.gpu 'matmul-*' --peers torch
    python -m benchmarks.gpu --write              all, and docs/gpu-benchmarks.md
    python -m benchmarks.gpu --prepare 0/8        compile every eighth workload for all, and measure nothing

Times are those of the device: events around many calls, of which each takes the next of several sets of inputs, so that
they are not in L2 when they are read. Contestants take turns, and the median of their rounds counts. A workload whose
calls take the host longer than the device is limited by that, which `host` tells: the time in which a call returns.
Limits are measured first: the bandwidth of a copy, and the rate of PyTorch's products of large matrices.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_workloads import WORKLOADS, GpuWorkload

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "build" / "gpu-benchmarks.json", ROOT / "docs" / "gpu-benchmarks.md"
PEERS = ("torch", "torch.compile")
BEYOND_L2 = 2**28
"""Bytes of all sets of inputs together."""
MOST_SETS = 6
ROUNDS = 7


class Contestant:
    """Calls of one function on the sets of inputs in turn."""

    def __init__(self, call: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> None:
        self.call, self.sets, self.next = call, sets, 0
        self.device: list[float] = []
        self.host: list[float] = []
        self.calls = 1

    def run(self, count: int) -> None:
        for _ in range(count):
            self.call(*self.sets[self.next])
            self.next = (self.next + 1) % len(self.sets)

    def round(self, torch: Any) -> None:
        """Time `calls` calls."""
        device, host = timed(torch, lambda: self.run(self.calls))
        self.device.append(device / self.calls)
        self.host.append(host / self.calls)

    def prepare(self, torch: Any, seconds: float) -> None:
        """Compile, warm up, and choose how many calls a round has."""
        self.run(3 * len(self.sets))
        self.round(torch)
        self.calls = max(len(self.sets), min(1000, round(seconds / ROUNDS / max(self.device.pop(), 1e-6))))
        self.host.clear()


def limits(torch: Any) -> dict[str, float]:
    """Bytes a second of a copy, read and written, and operations a second of PyTorch's products."""
    found: dict[str, float] = {}
    x, y = [torch.empty(2**28, dtype=torch.float32, device="cuda") for _ in range(2)]
    found["bytes"] = 2 * x.nbytes / best(torch, lambda: y.copy_(x))
    for kind, dtype in (
        ("bf16", torch.bfloat16),
        ("f16", torch.float16),
        ("f32", torch.float32),
        ("f64", torch.float64),
    ):
        size = 8192 if kind.endswith("16") else 4096
        a, b = [torch.randn(size, size, device="cuda").to(dtype) for _ in range(2)]
        found[kind] = 2 * size**3 / best(torch, lambda a=a, b=b: a @ b)
    return found


def timed(torch: Any, work: Callable[[], Any]) -> tuple[float, float]:
    """The seconds that some work takes the device, and after which it has been given to it."""
    start, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda.synchronize()
    began = time.perf_counter()
    start.record()
    work()
    issued = time.perf_counter() - began
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3, issued


def best(torch: Any, work: Callable[[], Any]) -> float:
    """Seconds of the fastest of ten runs after five."""
    return min([timed(torch, work)[0] for _ in range(15)][5:])


def contestants(
    workload: GpuWorkload, sets: Sequence[Sequence[Any]], peers: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Who computes it, by name, as functions of PyTorch's arrays or of what these are to others."""
    import torch

    import tenon

    ours = workload.in_tenon(tenon)
    call = ours if workload.is_step else tenon.jit(ours, device="cuda")
    yield "tenon", (call, [[as_cupy(x) for x in one] for one in sets])
    in_torch = workload.in_torch(torch)
    if "torch" in peers:
        yield "torch", (in_torch, sets)
    if "torch.compile" in peers and workload.compiled:
        torch._dynamo.reset()  # pyright: ignore
        made = workload.in_compiled_torch
        yield "torch.compile", (made(torch) if made else torch.compile(in_torch, dynamic=False), sets)


def as_cupy(tensor: Any) -> Any:
    """PyTorch's array as CuPy's, in the same memory."""
    import cupy  # pyright: ignore[reportMissingImports]
    import ml_dtypes
    import torch

    if tensor.dtype == torch.bfloat16:
        return cupy.from_dlpack(tensor.view(torch.int16)).view(ml_dtypes.bfloat16)
    return cupy.from_dlpack(tensor)


def as_torch(result: Any) -> Any:
    """A result of any contestant as PyTorch's array."""
    import torch

    if isinstance(result, torch.Tensor):
        return result.detach()
    if str(result.dtype) == "bfloat16" and hasattr(result, "view") and "cupy" in type(result).__module__:
        return torch.from_dlpack(result.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(result)


def error_of(result: Any, expected: Any) -> float:
    """The norm of the deviation over that of the exact results; all results together."""
    results = result if isinstance(result, (tuple, list)) else [result]
    expecteds = expected if isinstance(expected, (tuple, list)) else [expected]
    worst = 0.0
    for one, exact in zip(results, expecteds, strict=True):
        given = as_torch(one)
        if given.shape != exact.shape:
            raise ValueError(f"a result has shape {tuple(given.shape)} where {tuple(exact.shape)} is right")
        if not exact.is_floating_point():
            worst = max(worst, float((given.to(exact.dtype) != exact).double().mean()))
            continue
        difference = float((given.to(exact.dtype) - exact).double().norm())
        worst = max(worst, difference / max(float(exact.double().norm()), 1e-30))
    return worst


def prepared(workload: GpuWorkload, peers: Sequence[str]) -> Iterator[str]:
    """Have all contestants compile a workload; what fails."""
    import torch

    for name, (call, given) in contestants(workload, [workload.inputs(torch)], peers):
        try:
            call(*given[0])
        except Exception as problem:
            yield f"{workload.name}: {name}: {shown(problem)}"


def measured(workload: GpuWorkload, peers: Sequence[str], seconds: float) -> dict[str, Any]:
    """The row of a workload: times and errors by contestant, and what failed."""
    import torch

    torch.manual_seed(0)
    first = workload.inputs(torch)
    size = sum(x.nbytes for x in first)
    count = max(2, min(MOST_SETS, -(-BEYOND_L2 // size))) if size else 1
    sets = [first, *[workload.inputs(torch) for _ in range(count - 1)]]
    row: dict[str, Any] = {"name": workload.name, "section": workload.section, "device": {}, "host": {}, "error": {}}
    row |= {"bytes": workload.bytes, "operations": workload.operations, "kind": workload.kind}
    expected = None
    with contextlib.suppress(torch.OutOfMemoryError):
        expected = workload.in_torch(torch)(*[workload.widened(torch, x) for x in first])
    ready: dict[str, Contestant] = {}
    for name, (call, given) in contestants(workload, sets, peers):
        try:
            contestant = Contestant(call, given)
            result = call(*given[0])
            if expected is not None:
                row["error"][name] = error_of(result, expected)
            del result
            contestant.prepare(torch, seconds)
            ready[name] = contestant
        except Exception as problem:
            row.setdefault("failed", {})[name] = shown(problem)
            traceback.print_exc(limit=-6)
    del expected
    for _ in range(ROUNDS):
        for contestant in ready.values():
            contestant.round(torch)
    for name, contestant in ready.items():
        row["device"][name] = statistics.median(contestant.device)
        row["host"][name] = statistics.median(contestant.host)
    return row


def shown(problem: Exception) -> str:
    """An error in short."""
    return f"{type(problem).__name__}: {problem}"[:600]


def floor(row: Mapping[str, Any], rates: Mapping[str, float]) -> tuple[float, str]:
    """The least time that a workload can take, and what it is bound by."""
    moving = row["bytes"] / rates["bytes"]
    computing = row["operations"] / rates[row["kind"]] if row["operations"] else 0.0
    return (moving, "bytes") if moving >= computing else (computing, row["kind"])


def figures(row: Mapping[str, Any], rates: Mapping[str, float]) -> tuple[float, str, str]:
    """Tenon's seconds, which share of these is the least time, and its error."""
    ours = row["device"]["tenon"]
    least, bound = floor(row, rates)
    share = f"{100 * least / ours:.0f} % {bound}" if least else ""
    return ours, share, f"{row['error']['tenon']:.0e}" if "tenon" in row["error"] else ""


def line(row: Mapping[str, Any], rates: Mapping[str, float]) -> str:
    """A row as text."""
    if "tenon" not in row["device"]:
        return f"{row['name']:34} {row.get('failed')}"
    ours, share, error = figures(row, rates)
    peers = " ".join(f"{name} {time / ours:.2f}" for name, time in row["device"].items() if name != "tenon")
    failed = f" {row['failed']}" if "failed" in row else ""
    host = 1e6 * row["host"]["tenon"]
    return f"{row['name']:34} {1e6 * ours:9.1f} us {share:>12} host {host:6.1f} us {error} | {peers}{failed}"


def page(data: Mapping[str, Any]) -> str:
    """The results as a page."""
    machine, rates = data["machine"], data["limits"]
    products = ", ".join(f"{kind} {rates[kind] / 1e12:.0f}" for kind in rates if kind != "bytes")
    text = [
        "# Benchmarks on a GPU",
        "",
        f"`python -m benchmarks.gpu --write` wrote this page on one {machine['gpu']} ({machine['software']}).",
        "Times are those of the device, in one process; contestants take turns, inputs are not in L2. Numbers under",
        "peers are their time over Tenon's: more than 1 means that Tenon is faster. *Share* is the least time that the",
        f"bytes (at {rates['bytes'] / 1e12:.2f} TB/s, that of a copy) or the operations (at {products} TFLOP/s, of",
        "products by PyTorch) take, over Tenon's time. *Host* is the time in which a call returns. Errors are norms of",
        "deviations over norms of results.",
        "",
    ]
    names = [peer for peer in PEERS if any(peer in row["device"] for row in data["rows"])]
    sections = dict.fromkeys(row["section"] for row in data["rows"])
    for section in sections:
        text += [f"## {section}", ""]
        text += [f"| workload | Tenon | share | host | error | {' | '.join(names)} |"]
        text += ["|---|" + "---:|" * (4 + len(names))]
        for row in data["rows"]:
            if row["section"] != section:
                continue
            if "tenon" not in row["device"]:
                text.append(f"| {row['name']} | fails |" + " |" * (3 + len(names)))
                continue
            ours, share, error = figures(row, rates)
            cells = [f"{1e6 * ours:.4g} µs", share, f"{1e6 * row['host']['tenon']:.0f} µs", error]
            cells += [f"{row['device'][peer] / ours:.2f}" if peer in row["device"] else "" for peer in names]
            text.append(f"| {row['name']} | {' | '.join(cells)} |")
        text.append("")
    return "\n".join(text)


def machine_facts(torch: Any) -> dict[str, str]:
    import cupy  # pyright: ignore[reportMissingImports]

    import tenon.runtime.cuda.nvrtc as nvrtc

    software = f"CUDA {'.'.join(map(str, nvrtc.version()))}, CuPy {cupy.__version__}, PyTorch {torch.__version__}"
    return {"gpu": torch.cuda.get_device_name(), "software": software}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="names or patterns of workloads; all by default")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each contestant's rounds, 0.1 s")
    parser.add_argument("--prepare", metavar="I/N", help="compile the I-th of N parts, and measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that keeps the results")
    parser.add_argument("--write", action="store_true", help="write docs/gpu-benchmarks.md")
    options = parser.parse_args(arguments)
    patterns, peers = options.names or ["*"], options.peers.split(",")
    chosen = [w for w in WORKLOADS if any(fnmatch.fnmatch(w.name, pattern) for pattern in patterns)]
    if options.list or not chosen:
        print("\n".join(w.name for w in WORKLOADS))
        return 0 if options.list else 1
    if options.write and options.names:
        parser.error("--write is for all workloads")
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if options.prepare:
        part, _, parts = options.prepare.partition("/")
        for workload in chosen[int(part) :: int(parts)]:
            for problem in prepared(workload, peers):
                print(problem, flush=True)
        return 0
    data: dict[str, Any] = {"machine": machine_facts(torch), "limits": limits(torch), "rows": []}
    print(data["machine"], {name: f"{rate / 1e12:.2f}T" for name, rate in data["limits"].items()}, flush=True)
    for workload in chosen:
        try:
            row = measured(workload, peers, options.seconds)
        except Exception:
            traceback.print_exc(limit=-6)
            continue
        data["rows"].append(row)
        print(line(row, data["limits"]), flush=True)
        torch.cuda.empty_cache()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps(data, indent=1))
    if options.write:
        PAGE.write_text(page(data))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
