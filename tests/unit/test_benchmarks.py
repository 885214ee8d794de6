"""The rules of the benchmarks: what is compared with what, what is refused, and what a row says. No call is timed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

harness: Any = importlib.import_module("benchmarks.harness")
peers: Any = importlib.import_module("benchmarks.peers")
report: Any = importlib.import_module("benchmarks.report")
workload: Any = importlib.import_module("benchmarks.workload")
workloads: Any = importlib.import_module("benchmarks.workloads")

X = np.array([1.0, -2.0, 4.0], np.float32)


def contestant(function: Any) -> Any:
    """A contestant that runs `function` on the arrays in NumPy."""
    return peers.numpy(function)


def doubling(**contestants: Any) -> Any:
    """A workload whose result is twice its input."""
    return workload.Workload(
        "doubling", "Test", lambda: (X,), contestants, exact=workload.in_f64(lambda x: 2 * x), has_limit=False
    )


def row(**values: Any) -> Any:
    """A row with a target of half the limit and 1.5 times the best."""
    target = workload.Target(limit=0.5, best=1.5, peers={"torch": 3.0})
    return harness.Row("doubling", "Test", values.pop("threads", 1), values.pop("target", target), **values)


def test_ratio_is_the_median_of_peers_over_ours_in_each_round() -> None:
    samples = {"tenon": [1.0, 2.0, 1.0], "jax": [3.0, 4.0, 9.0], "torch": [1.0, 1.0, 1.0]}
    assert harness.ratios_of(samples) == {"tenon": {"jax": 3.0, "torch": 1.0}}


def test_contestants_take_turns_in_changing_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(harness, "MOST_CALLS", 1)
    monkeypatch.setattr(harness, "SHORT", 0.0)
    monkeypatch.setattr(harness, "MOST_ROUNDS", 20)
    samples = harness.take_turns({name: lambda name=name: calls.append(name) for name in "abc"}, seconds=10.0)
    assert "".join(calls[:6]) == "aabbcc"  # twice to see how long each takes
    rounds = ["".join(calls[at : at + 3]) for at in range(6, len(calls), 3)]
    assert {"".join(sorted(names)) for names in rounds} == {"abc"}
    # None always follows the same one, whose arrays may be its own.
    assert {names[at : at + 2] for names in rounds for at in (0, 1)} == {"ab", "ba", "ac", "ca", "bc", "cb"}
    assert [len(taken) for taken in samples.values()] == [20, 20, 20]


def test_a_slow_first_call_does_not_decide_how_many_make_a_block() -> None:
    count = 0

    def run() -> None:
        nonlocal count
        count += 1
        if count == 1:
            time.sleep(2 * harness.SHORT)

    samples = harness.take_turns({"it": run}, 0.0)
    assert count > 50 * len(samples["it"])


def test_caches_that_others_emptied_are_filled_before_a_turn_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_ROUNDS", 5)
    filled = {"a": 0, "b": 0}

    def run(name: str, other: str) -> None:
        time.sleep(5e-4 if filled[name] >= 2 else 3e-3)
        filled[name], filled[other] = filled[name] + 1, 0

    samples = harness.take_turns({"a": lambda: run("a", "b"), "b": lambda: run("b", "a")}, 0.0)
    assert max(map(min, samples.values())) < 3e-3


def test_wrong_numbers_are_not_timed() -> None:
    wrong = contestant(lambda x: 2 * x + np.float32(0.01))
    measured = harness.measure(doubling(tenon=contestant(lambda x: x + x), jax=wrong), 1, ["jax"], 0.0)
    assert "jax" not in measured.seconds
    assert measured.absent["jax"] == "WrongResultError: doubling: jax is off by 1.3e-03, above 1e-05"
    assert measured.errors == {"tenon": 0.0}


@pytest.mark.parametrize("result", [np.full(3, np.nan, np.float32), np.zeros((3, 1), np.float32)], ids=["nan", "shape"])
def test_results_that_cannot_be_compared_are_refused(result: Any) -> None:
    with pytest.raises(harness.WrongResultError, match="doubling: tenon"):
        harness.check("tenon", [result], [np.zeros(3)], doubling())
    with pytest.raises(harness.WrongResultError, match="0 results where 1 are right"):
        harness.check("tenon", [], [np.zeros(3)], doubling())


def test_absent_and_failing_peers_are_named() -> None:
    def lacks(_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    def fails(_: Any) -> Any:
        raise NotImplementedError("no such kernel\nand more")

    contestants = {"tenon": contestant(lambda x: 2 * x), "jax": lacks, "torch": fails, "numpy": fails}
    measured = harness.measure(doubling(**contestants), 1, ["jax", "torch"], 0.0)
    assert measured.absent == {"jax": "absent (jax)", "torch": "NotImplementedError: no such kernel"}


def test_a_peer_that_is_only_the_reference_is_not_timed() -> None:
    made = workload.Workload(
        "doubling",
        "Test",
        lambda: (X,),
        {"tenon": contestant(lambda x: 2 * x), "torch": contestant(lambda x: 2 * x)},
        exact="torch",
        has_limit=False,
    )
    assert list(harness.measure(made, 1, [], 0.0).seconds) == ["tenon"]


def test_errors_in_ulp_and_relative() -> None:
    exact = np.array([1.0, 1024.0])
    off = np.array([1.0, 1024.0], np.float32) + np.array([0, 2**-12], np.float32)
    assert workload.ulp_error(off, exact) == 2.0
    assert workload.relative_error(off, exact) == 2.0**-22


def test_shortfalls_name_what_is_missed() -> None:
    values = {"seconds": {"tenon": 1.0}, "fastest": {"tenon": 1.0}, "limit": 0.4, "binds": "memory"}
    missed = row(**values, ratios={"tenon": {"jax": 1.2, "torch": 2.0}}).shortfalls()
    assert missed == ["40 % of memory", "1.20 × jax", "2.00 × torch"]
    reached = row(**{**values, "limit": 0.6}, ratios={"tenon": {"jax": 1.6, "torch": 3.5}})
    assert reached.shortfalls() == []
    assert row(absent={"tenon": "TypeError: no"}).shortfalls() == ["TypeError: no"]


def test_several_threads_and_given_memory_have_targets_of_their_own() -> None:
    target = workload.Target(limit=0.9, limit_of_several=0.5, best=1.0, best_into=3.0)
    values = {"seconds": {"tenon": 1.0, "tenon, out=": 1.0}, "fastest": {"tenon": 1.0}, "limit": 0.6, "target": target}
    ratios = {"tenon": {"jax": 1.5}, "tenon, out=": {"jax": 1.5}}
    assert row(**values, ratios=ratios, threads=2).shortfalls() == []
    assert row(**values, ratios=ratios, binds="compute").shortfalls() == ["60 % of compute"]
    assert row(**values, ratios=ratios).shortfalls("tenon, out=") == ["1.50 × jax"]


def test_workloads_are_chosen_by_name_and_by_pattern() -> None:
    assert [w.name for w in workloads.select(["exp-1e6", "matmul-f32-64"])] == ["matmul-f32-64", "exp-1e6"]
    chosen = [w.name for w in workloads.select(["matmul-bf16-*"])]
    assert chosen == ["matmul-bf16-512", "matmul-bf16-1024"]
    assert len(workloads.select([])) == len(workloads.all_workloads())


def test_an_unknown_name_is_refused_with_those_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no workload is named 'softmx-4096x1024'; did you mean softmax-4096x1024"):
        workloads.select(["softmx-4096x1024"])
    assert importlib.import_module("benchmarks.__main__").main(["nothing-like-it"]) == 2
    assert "no workload is named 'nothing-like-it'" in capsys.readouterr().err


def test_every_workload_has_ours_and_a_peer() -> None:
    for made in workloads.all_workloads().values():
        others = [name for name in made.contestants if name not in harness.OURS]
        assert "tenon" in made.contestants, made.name
        assert set(others) <= set(peers.PEERS), made.name
        assert others, made.name


def test_the_page_shows_rows_with_reasons_and_results_survive_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"seconds": {"tenon": 2e-3}, "fastest": {"tenon": 2e-3}, "errors": {"tenon": 1e-7}, "limit": 1e-3}
    measured = row(**values, binds="memory", ratios={"tenon": {"jax": 1.25, "torch": 4.0}})
    machine = {"processor": "one", "cores": "2", "system": "Linux", "versions": "numpy 2"}
    results = report.Results(machine, {1: {"copy, L2": 1e11}}, {("doubling", 1): measured})
    results.write(tmp_path / "results.json")
    read = report.Results.read(tmp_path / "results.json")
    assert read == results
    monkeypatch.setattr(report, "reasons", lambda: {"doubling": "half of it is copied twice"})
    text = report.page(read)
    assert "| doubling | 1 | 2 ms | 1e-07 | 50 % memory |  | 4.00 |  |  |  | 1.25 |" in text
    assert "| 50 %, 1.5 × best, 3 × torch | 1.25 × jax |" in text
    assert "- doubling: half of it is copied twice" in text
    assert "- 1 thread: copy, L2 100 GB/s" in text


def test_the_networks_have_the_same_parameters_everywhere() -> None:
    torch = pytest.importorskip("torch")
    networks: Any = importlib.import_module("benchmarks.networks")
    ours: Any = importlib.import_module("benchmarks.networks.in_tenon")
    theirs: Any = importlib.import_module("benchmarks.networks.in_torch")
    for network in networks.NETWORKS:
        model = theirs.MODULES[network]()
        assert {name: tuple(p.shape) for name, p in model.named_parameters()} == networks.shapes(network)
        mine, _ = ours.start(network, networks.problem(network))
        assert {name: p.shape for name, p in mine.named_parameters()} == networks.shapes(network)
        assert all(p.dtype == torch.float32 for p in model.parameters())


def test_what_new_memory_costs_is_said_of_large_results(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(harness, "MOST_ROUNDS", 1)
    monkeypatch.setattr(harness.environment, "fresh_memory", lambda: nullcontext(asked.append(1)))
    for elements, expected in ((3, []), (harness.environment.FRESH, ["numpy", "tenon"])):
        measured = harness.measure(
            workload.Workload(
                "doubling",
                "Test",
                lambda n=elements: (np.ones(n, np.float32),),
                {name: contestant(lambda x: x + x) for name in ("tenon", "numpy")},
                exact=workload.in_f64(lambda x: 2 * x),
                has_limit=False,
            ),
            1,
            ("numpy",),
            0.0,
        )
        assert sorted(measured.fresh) == expected
        assert len(asked) == len(expected) / 2
    shown = row(seconds={"tenon": 1.0}, fresh={"tenon": 1.25, "jax": 2.0, "numpy": 1.5})
    results = report.Results({"processor": "", "cores": "", "system": "", "versions": ""}, {}, {("doubling", 1): shown})
    assert "| 1.25 (NumPy 1.50, jax 2.00) |" in report.page(results)


def test_threads_of_numpy_sleep_when_a_pause_ends() -> None:
    code = (
        "import time, numpy as np; x = np.ones((512, 512), np.float32); x @ x; "
        f"time.sleep({harness.PAUSE}); before = time.process_time(); time.sleep(0.05); "
        "print(time.process_time() - before)"
    )
    environment = importlib.import_module("benchmarks.environment")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment.variables(2), capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.01  # of the thread that was awake for all of the 50 ms
