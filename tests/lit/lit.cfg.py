"""Configuration of the lit tests: run them with `lit tests/lit`, or with `pytest tests/lit`, one test per file.

RUN lines find `tenon-opt`, `tenon`, `xdsl-opt` and `filecheck` in the folder that the parameter `commands` names, or
else beside the Python that runs lit. After `// REQUIRES: mlir` they may use `%mlir_opt`, `%mlir_runner`, and what these
take to go on from loop IR: `%mlir_to_llvm` lowers it to LLVM's dialect, `%mlir_entry` runs `@entry` with the library
that prints. `// REQUIRES: nvrtc` is for what compiles for a GPU.
"""

import os
import shutil
import sys
from pathlib import Path

import lit.formats

from tenon.runtime.cuda.nvrtc import why_unavailable

config.name = "tenon"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).parent)
default_exec_root = Path(__file__).parents[2] / "build" / "lit"
config.test_exec_root = lit_config.params.get("exec_root", str(default_exec_root))

folders = [lit_config.params.get("commands", ""), str(Path(sys.executable).parent), config.environment["PATH"]]
config.environment["PATH"] = os.pathsep.join(filter(None, folders))
config.environment["TENON_VERIFY"] = "1"
config.environment["TENON_CACHE_DIR"] = str(Path(config.test_exec_root) / "cache")

TO_LLVM = (
    "convert-vector-to-scf convert-scf-to-cf expand-strided-metadata lower-affine convert-vector-to-llvm "
    "convert-math-to-llvm finalize-memref-to-llvm convert-arith-to-llvm convert-index-to-llvm convert-func-to-llvm "
    "convert-cf-to-llvm reconcile-unrealized-casts"
)

mlir_opt, mlir_runner = (shutil.which(f"{tool}-22") or shutil.which(tool) for tool in ("mlir-opt", "mlir-runner"))
if mlir_opt and mlir_runner:
    config.available_features.add("mlir")
    libraries = ",".join(map(str, (Path(mlir_runner).resolve().parents[1] / "lib").glob("libmlir*runner_utils.so*")))
    config.substitutions += [
        ("%mlir_opt", mlir_opt),
        ("%mlir_runner", mlir_runner),
        ("%mlir_to_llvm", " ".join(f"--{name}" for name in TO_LLVM.split())),
        ("%mlir_entry", f"-e entry --entry-point-result=void --shared-libs={libraries}"),
    ]
if why_unavailable() is None:
    config.available_features.add("nvrtc")
