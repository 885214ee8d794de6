"""Matrix instructions of a warp: ldmatrix, stmatrix and mma.sync. Facts: PTX ISA 8.8, sections on warp-level matrix
instructions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenon.lowering.instructions.fragment import Digits, Fragment
from tenon.lowering.instructions.instruction import Instruction, assembly, device_function

ACROSS: Digits = ((4, 0, 2), (8, 1, 0))
"""Lanes of a warp over pairs of columns, then rows."""


def _registers(name: str, count: int, first: int) -> tuple[str, str]:
    """The places of an array of registers in PTX, and its elements as constrained operands."""
    places = ", ".join(f"%{first + i}" for i in range(count))
    return f"{{{places}}}", ", ".join(f'"r"({name}[{i}])' for i in range(count))


def _ldmatrix(count: int, transposed: bool) -> Instruction:
    suffix, form = ("_trans", ".trans") if transposed else ("", "")
    name = f"tn_ldmatrix_x{count}{suffix}"
    places, _ = _registers("r", count, 0)
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    ptx = f"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 {places}, [%{count}];"
    text = device_function(
        f"void {name}(unsigned int (&r)[{count}], const void *row)",
        assembly(ptx, outputs, '"r"(tn_shared_address(row))'),
    )
    return Instruction(name, "nvgpu.ldmatrix", text, fragments={"matrix": EIGHT_TRANSPOSED if transposed else EIGHT})


def _stmatrix(count: int, transposed: bool) -> Instruction:
    suffix, form = ("_trans", ".trans") if transposed else ("", "")
    name = f"tn_stmatrix_x{count}{suffix}"
    places, inputs = _registers("r", count, 1)
    ptx = f"stmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 [%0], {places};"
    text = device_function(
        f"void {name}(void *row, const unsigned int (&r)[{count}])",
        assembly(ptx, "", f'"r"(tn_shared_address(row)), {inputs}'),
    )
    fragments = {"matrix": EIGHT_TRANSPOSED if transposed else EIGHT}
    return Instruction(name, "nvvm.stmatrix", text, 90, fragments=fragments)


EIGHT = Fragment((8, 8), ACROSS, (), ((2, 0, 1),))
"""Of one of the matrices of ldmatrix; its rows are at the addresses of eight lanes."""
EIGHT_TRANSPOSED = Fragment((8, 8), ((4, 2, 0), (8, 0, 1)), (), ((2, 1, 0),))


def mma_fragments(per_register: int) -> dict[str, Fragment]:
    """The operands of m16n8, with so many elements in a register, eight times as deep along K."""
    per, depth = per_register, 8 * per_register
    return {
        "a": Fragment((16, depth), ((4, 0, per), (8, 1, 0)), ((2, 8, 0), (2, 0, 4 * per)), ((per, 0, 1),)),
        "b": Fragment((depth, 8), ((4, per, 0), (8, 0, 1)), ((2, 4 * per, 0),), ((per, 1, 0),)),
        "d": Fragment((16, 8), ACROSS, ((2, 0, 1), (2, 8, 0))),
    }


def _mma(element: str, ptx_element: str, per_register: int, accumulator: str = "f32") -> Instruction:
    depth = 8 * per_register
    shape = f"m16n8k{depth}"
    name = f"tn_mma_{shape}_{element}"
    a, a_inputs = _registers("a", 4, 4)
    b, b_inputs = _registers("b", 2, 8)
    constraint, kind = ("r", "int") if accumulator == "s32" else ("f", "float")
    outputs = ", ".join(f'"+{constraint}"(d[{i}])' for i in range(4))
    form = f"mma.sync.aligned.{shape}.row.col.{accumulator}.{ptx_element}.{ptx_element}.{accumulator}"
    ptx = f"{form} {{%0, %1, %2, %3}}, {a}, {b}, {{%0, %1, %2, %3}};"
    text = device_function(
        f"void {name}({kind} (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2])",
        assembly(ptx, outputs, f"{a_inputs}, {b_inputs}", memory=False),
    )
    fragments = mma_fragments(per_register)
    return Instruction(name, "nvgpu.mma.sync", text, fragments=fragments, operations=2 * 16 * 8 * depth)


def _mma_f64() -> Instruction:
    """m16n8k8, from `sm_90` on. Before, four of m8n8k4 do the same: each holds a part of its operands and sums."""
    name, shape = "tn_mma_m16n8k8_f64", (16, 8, 8)

    def statement(form: str, d: Sequence[int], a: Sequence[int], b: Sequence[int]) -> str:
        sums, left, right = (
            "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
            for first, count in ((0, len(d)), (len(d), len(a)), (len(d) + len(a), len(b)))
        )
        ptx = f"mma.sync.aligned.{form}.row.col.f64.f64.f64.f64 {sums}, {left}, {right}, {sums};"
        inputs = ", ".join([f'"d"(a[{i}])' for i in a] + [f'"d"(b[{i}])' for i in b])
        return assembly(ptx, ", ".join(f'"+d"(d[{i}])' for i in d), inputs, memory=False)

    parts = [(half, step) for step in (0, 1) for half in (0, 1)]
    lines = [
        "#if __CUDA_ARCH__ >= 900",
        statement("m16n8k8", range(4), range(4), range(2)),
        "#else",
        *(statement("m8n8k4", (2 * half, 2 * half + 1), (half + 2 * step,), (step,)) for half, step in parts),
        "#endif",
    ]
    signature = f"void {name}(double (&d)[4], const double (&a)[4], const double (&b)[2])"
    text = device_function(signature, "\n" + "\n".join(lines))
    return Instruction(name, "nvgpu.mma.sync", text, fragments=mma_fragments(1), operations=2 * prod(shape))


MATRIX = (
    *(
        make(count, transposed)
        for make in (_ldmatrix, _stmatrix)
        for count in (1, 2, 4)
        for transposed in (False, True)
    ),
    _mma("bf16", "bf16", 2),
    _mma("f16", "f16", 2),
    _mma("tf32", "tf32", 1),
    _mma("s8", "s8", 4, "s32"),
    _mma_f64(),
)
