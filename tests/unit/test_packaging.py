"""What a user gets from `pip install tenon`: a wheel with everything in it, in an environment that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("dialects", "passes", "lowering", "runtime", "tools")

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    """Output of a command that must succeed, run away from the sources and without what the tests' Python sees."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TENON_"))}
    completed = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, f"{command}\n{completed.stdout}{completed.stderr}"
    return completed.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the wheel is built from, because a build leaves files beside the sources."""
    source = tmp_path_factory.mktemp("source")
    leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("tenon", *LAYERS):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=leftovers)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    return source


@pytest.fixture(scope="module")
def source_files(source: Path) -> set[str]:
    """Where every file of the packages has to be in the wheel."""
    return {
        (Path(folder) / name).relative_to(source).as_posix()
        for folder, _, names in os.walk(source / "tenon", followlinks=True)
        for name in names
    }


@pytest.fixture(scope="module")
def wheel(source: Path, source_files: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", directory, source, cwd=directory)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment that holds the wheel and what it depends on, nothing else."""
    directory = tmp_path_factory.mktemp("installed")
    venv.create(directory, with_pip=True)
    scripts = directory / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel, cwd=directory)
    return scripts


def test_wheel_holds_every_file_of_the_packages(wheel: Path, source_files: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert packed == source_files


def test_wheel_is_typed_and_licensed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "tenon/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_import(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import tenon; print(tenon.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_sources_are_the_package(tmp_path: Path) -> None:
    """In the root of a clone the interpreter sees the sources, whatever is installed."""
    compiled = shutil.ignore_patterns("__pycache__")  # other tests write there meanwhile
    shutil.copytree(ROOT / "tenon", tmp_path / "tenon", symlinks=True, ignore=compiled)
    for layer in LAYERS:
        assert (ROOT / "tenon" / layer).readlink() == Path("..", layer)
        shutil.copytree(ROOT / layer, tmp_path / layer, ignore=compiled)
    program = "import tenon; print(tenon.__file__, float(tenon.exp(0.0)))"
    where, value = run(sys.executable, "-c", program, cwd=tmp_path).split()
    assert Path(where) == tmp_path / "tenon" / "__init__.py"
    assert value == "1.0"


def test_tenon_opt(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "tenon-opt", "--version", cwd=tmp_path).startswith("tenon-opt 0.1.0 (xdsl 0.74.")
    assert "--verify-each" in run(installed / "tenon-opt", "--help", cwd=tmp_path)
    (tmp_path / "f.mlir").write_text("func.func @f(%x: i32) {\n  %y = arith.addi %x, %x : i32\n  func.return\n}\n")
    assert "arith.addi" not in run(installed / "tenon-opt", "f.mlir", "-p", "dce", cwd=tmp_path)


def test_tenon(installed: Path, tmp_path: Path) -> None:
    assert "Usage: tenon " in run(installed / "tenon", "--help", cwd=tmp_path)


def test_xdsl_opt_knows_the_dialect(installed: Path, tmp_path: Path) -> None:
    """Stock `xdsl-opt` finds Tenon's ops through the entry point."""
    program = "from xdsl.universe import Universe; print(*Universe.get_multiverse().all_dialects)"
    assert "tenon" in run(installed / "python", "-c", program, cwd=tmp_path).split()
    run(installed / "xdsl-opt", "--version", cwd=tmp_path)
