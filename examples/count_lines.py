"""How much there is to write for each worked case: here, and in the framework's own tutorial.

Rule: the lines of a tutorial are the non-blank lines of its code blocks, without shell commands, printed output,
diagrams and lines that stand for omitted code (`...`); what it only links to is not counted. Its files are the distinct
ones that it says to create or edit, tests included. Lines here are all non-blank lines of the example, without tests.

With the tutorials' texts in a folder (Markdown or reStructuredText, `<name>*.txt`), their lines are counted again:

    python examples/count_lines.py FOLDER
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

# Languages of blocks that are not code, and blocks that are code though no language is given.
NOT_CODE = ("bash", "text")
CODE_MARK = re.compile(r"^\s*- (name|func): ")
OMITTED = re.compile(r"^\s*(//|#)?\s*(\.\.\.|……|\.{6})\s*$")


@dataclass(frozen=True)
class Case:
    """A worked case: the example, and what was counted in the tutorial; `only` picks the blocks that are about it."""

    title: str
    example: str
    tutorial: str
    files: tuple[str, ...]
    lines: int
    only: str = ""


CASES = (
    Case(
        "MegEngine `Add`",
        "megengine_add",
        "megengine",
        (
            "dnn/scripts/opr_param_defs.py",
            "dnn/include/megdnn/oprs/general.h",
            "dnn/src/common/add.cpp",
            "dnn/src/common/handle_impl.h",
            "dnn/src/common/opr_trait.h",
            "dnn/src/naive/handle.cpp",
            "dnn/src/naive/add/opr_impl.h",
            "dnn/src/naive/add/opr_impl.cpp",
            "dnn/src/cuda/handle_create.cpp",
            "dnn/src/cuda/add/common.cuh",
            "dnn/src/cuda/add/opr_impl.h",
            "dnn/src/cuda/add/add_forward.cu",
            "dnn/src/cuda/add/add_forward.cpp",
            "dnn/test/common/add.h",
            "dnn/test/naive/add.cpp",
            "dnn/test/cuda/add.cpp",
            "src/opr/include/megbrain/opr/misc.h",
            "src/opr/impl/misc.cpp",
            "src/opr/impl/misc.sereg.h",
            "src/opr/test/misc.cpp",
            "src/serialization/impl/schema.fbs",
            "src/core/include/megbrain/ir/ops.td",
            "imperative/src/impl/ops/add.cpp",
            "imperative/python/megengine/functional/add.py",
            "imperative/python/megengine/functional/__init__.py",
            "imperative/python/megengine/module/add.py",
            "imperative/python/megengine/module/__init__.py",
            "imperative/python/test/unit/functional/test_functional.py",
        ),
        691,
    ),
    Case(
        "OneFlow `leaky_relu_yzh`",
        "oneflow_leaky_relu",
        "oneflow",
        (
            "oneflow/ir/include/OneFlow/OneFlowUserOps.td",
            "oneflow/user/ops/leaky_relu_yzh_op.cpp",
            "oneflow/user/kernels/leaky_relu_yzh_kernel.cpp",
            "oneflow/user/kernels/leaky_relu_yzh_kernel.cu",
            "oneflow/core/functional/impl/activation_functor.cpp",
            "oneflow/core/functional/functional_api.yaml",
            "oneflow/core/autograd/gradient_funcs/activation.cpp",
        ),
        132,
    ),
    Case(
        "LuoJiaNET `Transpose`",
        "luojianet_transpose",
        "luojianet",
        (
            "luojianet_ms/ops/operations/ (the primitive)",
            "luojianet_ms/ccsrc/backend/kernel_compiler/cpu/ (header)",
            "luojianet_ms/ccsrc/backend/kernel_compiler/cpu/ (source)",
            "the file of the gradient rule",
            "test_transpose.py",
        ),
        117,
    ),
    Case(
        "PyTorch `sigmoid`",
        "pytorch_sigmoid",
        "pytorch",
        (
            "aten/src/ATen/native/native_functions.yaml",
            "aten/src/ATen/native/cpu/UnaryOps.cpp",
            "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp",
            "aten/src/ATen/native/cpu/BinaryOpsKernel.cpp",
            "tools/autograd/derivatives.yaml",
            "the file of the module",
        ),
        68,
        "sigmoid|Sigmoid",
    ),
    Case("PyTorch `Conv2d`", "pytorch_conv2d", "pytorch", ("torch/nn/modules/conv.py",), 73, "_ConvNd|DemoNet"),
)


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """The code blocks of a page, in Markdown or reStructuredText, as language and lines."""
    lines, found = text.splitlines(), list[tuple[str, list[str]]]()
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if fence := re.match(r"\s*```(\S*)\s*$", line):
            end = next(i for i in range(position, len(lines)) if lines[i].strip() == "```")
            found.append((fence[1].lower(), lines[position:end]))
            position = end + 1
        elif directive := re.match(r"(\s*)\.\. code:: (\w+)", line):
            indent, start = len(directive[1]), position
            while position < len(lines) and (not lines[position].strip() or _indent(lines[position]) > indent):
                position += 1
            found.append((directive[2], lines[start:position]))
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def tutorial_lines(case: Case, text: str) -> int:
    """The lines of code that the tutorial `text` prints for a case."""
    count = 0
    for language, lines in blocks(text):
        is_code = language not in NOT_CODE or any(CODE_MARK.match(line) for line in lines)
        if is_code and re.search(case.only, "\n".join(lines)):
            count += sum(bool(line.strip()) and not OMITTED.match(line) for line in lines)
    return count


def example_lines(case: Case) -> int:
    """The non-blank lines of the example."""
    text = (FOLDER / f"{case.example}.py").read_text(encoding="utf-8")
    return sum(bool(line.strip()) for line in text.splitlines())


def table() -> str:
    """The comparison in Markdown."""
    rows = ["| case | tutorial: files | lines | here: files | lines |", "|---|--:|--:|--:|--:|"]
    rows += [f"| {c.title} | {len(c.files)} | {c.lines} | 1 | {example_lines(c)} |" for c in CASES]
    return "\n".join(rows)


def main() -> None:
    """Print the table, and the tutorials' lines counted again where their texts are given."""
    print(table())
    for folder in map(Path, sys.argv[1:]):
        for case in CASES:
            (page,) = folder.glob(f"{case.tutorial}-*op*.txt")
            print(f"{page.name}: {case.title}: {tutorial_lines(case, page.read_text(encoding='utf-8'))} lines")


if __name__ == "__main__":
    main()
