"""Configuration of the lit tests: run them with `lit tests/lit`, or with `pytest tests/lit`, one test per file.

RUN lines find `tenon-opt`, `tenon` and `filecheck` beside the Python that runs lit. After `// REQUIRES: mlir` they may
use `%mlir_opt` and `%mlir_runner`.
"""

import os
import shutil
import sys
from pathlib import Path

import lit.formats

config.name = "tenon"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).parent)
default_exec_root = Path(__file__).parents[2] / "build" / "lit"
config.test_exec_root = lit_config.params.get("exec_root", str(default_exec_root))

scripts = Path(sys.executable).parent
config.environment["PATH"] = os.pathsep.join([str(scripts), config.environment["PATH"]])
config.environment["TENON_CACHE_DIR"] = str(Path(config.test_exec_root) / "cache")

mlir_opt, mlir_runner = (shutil.which(f"{tool}-22") or shutil.which(tool) for tool in ("mlir-opt", "mlir-runner"))
if mlir_opt and mlir_runner:
    config.available_features.add("mlir")
    config.substitutions += [("%mlir_opt", mlir_opt), ("%mlir_runner", mlir_runner)]
