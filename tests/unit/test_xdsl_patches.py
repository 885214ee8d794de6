"""The patches of `dialects/upstream/patches` for xDSL: each applies to the installed version, the tests that it brings
fail without it and pass with it, and its header names the upstream report or has one to file.

A patch that does not apply any more was taken, or has to be written anew: a version of xDSL is the time to look.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import xdsl

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "dialects" / "upstream" / "patches").glob("*.patch"))
RUNNER = Path(__file__).parent / "xdsl_own_tests.py"
ENDLESS = "tests/utils/test_mlir_lexer_strings.py"


def own_tests(patch: Path) -> list[str]:
    return re.findall(r"^\+\+\+ b/(tests/.*)$", patch.read_text(), re.MULTILINE)


def git_apply(folder: Path, *arguments: str | Path) -> None:
    # Outside of any repository, even where the folder lies in one.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    result = subprocess.run(["git", "apply", *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, f"xDSL {xdsl.__version__}: {result.stderr}"


def outcomes(folder: Path, limit: float) -> dict[str, str]:
    """What becomes of all tests in `folder`, whose xDSL is taken, or the installed one where it has none."""
    tests = [test for patch in PATCHES for test in own_tests(patch)]
    result = subprocess.run(
        [sys.executable, RUNNER, str(limit), *tests],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources of the installed xDSL."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(xdsl.__path__[0], folder / "xdsl")
    return folder


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_header_names_the_report_or_has_it(patch: Path) -> None:
    header = patch.read_text().partition("\n---\n")[0]
    assert re.search(r"^Subject: \[PATCH\] \w+: ", header, re.MULTILINE)
    fields = re.findall(r"^(Report|Title|Follow-up to file|Input|Happens|Expected): \S", header, re.MULTILINE)
    assert fields in (
        ["Report", "Title", "Input", "Happens", "Expected"],
        ["Report", "Follow-up to file", "Input", "Happens", "Expected"],
    )
    assert own_tests(patch), "brings no test"


def test_each_patch_applies_to_the_installed_version(installed: Path) -> None:
    for patch in PATCHES:
        git_apply(installed, "--check", patch)


def test_what_fails_without_the_patches_passes_with_them(installed: Path, tmp_path: Path) -> None:
    git_apply(tmp_path, "--include=tests/*", *PATCHES)
    before = outcomes(tmp_path, 1)
    assert [test for test, outcome in before.items() if outcome == "passed"] == []
    assert [test for test, outcome in before.items() if outcome == "timed out"] == [ENDLESS]
    git_apply(installed, *PATCHES)
    after = outcomes(installed, 0)
    assert {test: outcome for test, outcome in after.items() if outcome != "passed"} == {}
