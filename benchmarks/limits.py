"""What one core or several can do at most: multiply-adds, copies and reads per second, measured on this machine.

The loops are LLVM IR with explicit vectors, compiled by llvmlite for this processor, so that no library is between the
figure and the machine. With several threads each has a part of the memory, and the time is that of all of them.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import binding

from tenon.runtime.processor_facts import may_use_tiles

ACCUMULATORS = 12
"""Independent chains of multiply-adds, which hide the latency of one."""
ROUNDS = 15
LEVELS = {"L2": 1 << 18, "L3": 6 << 20, "memory": 128 << 20}
"""Bytes that a copy reads, and so many it writes, for the figures that are printed."""


@dataclass(frozen=True)
class _Dots:
    """Sums of products of narrow numbers: what a processor has for them in vectors and in tile registers."""

    feature: str
    instruction: str
    result: str
    operand: str
    group: int
    """Products in each element of a result."""
    tile_feature: str
    tile_instruction: str


_DOTS = {
    "bf16": _Dots("avx512bf16", "avx512bf16.dpbf16ps", "<16 x float>", "<32 x bfloat>", 2, "amx-bf16", "tdpbf16ps"),
    "i8": _Dots("avx512vnni", "avx512.vpdpbusd", "<16 x i32>", "<64 x i8>", 4, "amx-int8", "tdpbssd"),
}
_linkers: list[Any] = []


def _compile(text: str, entry: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """The function `entry` of LLVM IR; ctypes releases the GIL while it runs."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), target)
    engine.finalize_object()
    _linkers.append(engine)
    return ctypes.CFUNCTYPE(result, *arguments)(engine.get_function_address(entry))


def _advance(step: int) -> str:
    """The end of a loop up to %n."""
    compare = "%more = icmp slt i64 %next, %n"
    return f"  %next = add i64 %i, {step}\n  {compare}\n  br i1 %more, label %loop, label %end\nend:"


def _chains(accumulator: str, operand: str, step: str, zero: str) -> str:
    """A loop of `ACCUMULATORS` chains; `step` is a call with the operand %x and the accumulator {}."""
    lines = [f"define void @run(i64 %n, ptr %memory) {{\nentry:\n  %x = load {operand}, ptr %memory\n  br label %loop"]
    lines.append("loop:\n  %i = phi i64 [0, %entry], [%next, %loop]")
    chains = range(ACCUMULATORS)
    lines += [f"  %a{k} = phi {accumulator} [{zero}, %entry], [%b{k}, %loop]" for k in chains]
    lines += [f"  %b{k} = " + step.format(f"%a{k}") for k in chains]
    lines.append(_advance(1))
    lines += [f"  store volatile {accumulator} %b{k}, ptr %memory" for k in chains]
    return "\n".join([*lines, "  ret void\n}\n"])


def _tile_products(dots: _Dots) -> tuple[str, int]:
    """The same with matrices in tile registers, two rows by two columns of which share their factors."""
    words = (1, 0, 0, 0, *[64 << 16 | 64] * 4, 0, 0, 0, 0, *[0x10101010] * 2, 0, 0)
    lines = ["@shape = constant [16 x i32] [" + ", ".join(f"i32 {word}" for word in words) + "], align 64"]
    product = f"void @llvm.x86.{dots.tile_instruction}"
    lines += [f"declare void @llvm.x86.{name}" for name in ("ldtilecfg(ptr)", "tilezero(i8)", "tilerelease()")]
    lines += [f"declare {product}(i8, i8, i8)", "define void @run(i64 %n, ptr %memory) {\nentry:"]
    lines.append("  call void @llvm.x86.ldtilecfg(ptr @shape)")
    lines += [f"  call void @llvm.x86.tilezero(i8 {tile})" for tile in range(8)]
    lines.append("  br label %loop\nloop:\n  %i = phi i64 [0, %entry], [%next, %loop]")
    pairs = [(row, column) for row in (4, 5) for column in (6, 7)]
    lines += [f"  call {product}(i8 {k}, i8 {row}, i8 {column})" for k, (row, column) in enumerate(pairs)]
    lines += [_advance(1), "  call void @llvm.x86.tilerelease()\n  ret void\n}\n"]
    return "\n".join(lines), 2 * len(pairs) * 16 * 16 * 16 * dots.group


def _multiply_add_loops(kind: str) -> list[tuple[str, int]]:
    """LLVM IR, and operations per step, of every form of a multiply-add that may be the fastest one."""
    features = binding.get_host_cpu_features()
    loops: list[tuple[str, int]] = []
    if (dots := _DOTS.get(kind)) is not None:
        name, result, operand = f"llvm.x86.{dots.instruction}.512", dots.result, dots.operand
        call = f"call {result} @{name}({result} {{}}, {operand} %x, {operand} %x)"
        loop = _chains(result, operand, call, "zeroinitializer")
        declared = f"declare {result} @{name}({result}, {operand}, {operand})\n"
        loops.append((declared + loop, 2 * 16 * dots.group * ACCUMULATORS))
        if features.get(dots.tile_feature, False) and may_use_tiles():
            loops.append(_tile_products(dots))
        return loops
    scalar, bits = {"f32": ("float", 32), "f64": ("double", 64)}[kind]
    for register in (512, 256, 128):
        if not features.get({512: "avx512f", 256: "avx2"}.get(register, ""), register == 128):
            continue
        lanes = register // bits
        vector, name = f"<{lanes} x {scalar}>", f"llvm.fma.v{lanes}f{bits}"
        call = f"call {vector} @{name}({vector} %x, {vector} %x, {vector} {{}})"
        declared = f"declare {vector} @{name}({vector}, {vector}, {vector})\n"
        loops.append((declared + _chains(vector, vector, call, "zeroinitializer"), 2 * lanes * ACCUMULATORS))
    return loops


def _together(work: list[Callable[[], Any]]) -> float:
    """Seconds until all of `work` is done, each in a thread of its own that has been started already."""
    if len(work) == 1:
        started = time.perf_counter()
        work[0]()
        return time.perf_counter() - started
    barrier = threading.Barrier(len(work) + 1)

    def run(function: Callable[[], Any]) -> None:
        barrier.wait()
        function()

    threads = [threading.Thread(target=run, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


@cache
def peak(kind: str, threads: int) -> float | None:
    """Operations per second (a multiply-add counts as two) with operands of `kind`: f32, f64, bf16 or i8 (dot products
    into f32 and i32); `None` where the processor has no such instruction.
    """
    dots = _DOTS.get(kind)
    if dots is not None and not binding.get_host_cpu_features().get(dots.feature, False):
        return None
    best = 0.0
    for text, operations in _multiply_add_loops(kind):
        run = _compile(text, "run", None, ctypes.c_int64, ctypes.c_void_p)
        memory = [_aligned(64) for _ in range(threads)]
        steps = 400_000 if threads == 1 else 4_000_000  # waking threads takes a tenth of a millisecond
        work = [partial(run, steps, address) for _, address in memory]
        seconds = min(_together(work) for _ in range(ROUNDS))
        best = max(best, operations * steps * threads / seconds)
    return best


def _stream(body: str, hint: str = "") -> str:
    """A loop over 256 bytes at a time; `body` is `copy` or `read`. `hint` goes on the stores."""
    vector = "<16 x float>"
    zero = "zeroinitializer"
    lines = ["define void @run(ptr %from, ptr %to, i64 %n) {\nentry:\n  br label %loop\nloop:"]
    lines.append("  %i = phi i64 [0, %entry], [%next, %loop]")
    if body == "read":
        lines += [f"  %a{k} = phi {vector} [{zero}, %entry], [%b{k}, %loop]" for k in range(4)]
    for k in range(4):
        lines.append(f"  %o{k} = add i64 %i, {64 * k}\n  %p{k} = getelementptr i8, ptr %from, i64 %o{k}")
        lines.append(f"  %v{k} = load {vector}, ptr %p{k}, align 64")
        if body == "read":
            lines.append(f"  %b{k} = fadd {vector} %a{k}, %v{k}")
        else:
            lines.append(f"  %q{k} = getelementptr i8, ptr %to, i64 %o{k}")
            lines.append(f"  store {vector} %v{k}, ptr %q{k}, align 64{hint}")
    lines.append(_advance(256))
    if body == "read":
        lines += [f"  store volatile {vector} %b{k}, ptr %to, align 64" for k in range(4)]
    lines.append("  ret void\n}")
    return "\n".join([*lines, "!0 = !{i32 1}\n" if hint else ""])


def _aligned(size: int) -> tuple[np.ndarray[Any, Any], int]:
    memory = np.ones(size + 64, np.uint8)
    address = memory.ctypes.data
    return memory, address + -address % 64


@cache
def _rate(body: str, size: int, threads: int) -> float:
    """Bytes per second that are read (and, for a copy, written as well, which are counted, too)."""
    part = max(size // threads // 256, 1) * 256
    forms = [_stream(body)] if body == "read" else [_stream(body), _stream(body, ", !nontemporal !0")]
    passes = max(1, (8 << 20 if threads == 1 else 256 << 20) // (part * threads))
    moved = part * threads * passes * (1 if body == "read" else 2)
    memory = [(_aligned(part), _aligned(part if body == "copy" else 64)) for _ in range(threads)]
    best = 0.0
    for form in forms:
        run = _compile(form, "run", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

        def repeat(source: int, target: int, run: Any = run) -> None:
            for _ in range(passes):
                run(source, target, part)

        work = [partial(repeat, source, target) for (_, source), (_, target) in memory]
        best = max(best, moved / min(_together(work) for _ in range(ROUNDS if size < 1 << 26 else 5)))
    return best


def _size_class(size: float) -> int:
    """The power of two that is nearest to `size`, within what is worth a measurement of its own."""
    return 1 << min(max(round(np.log2(max(size, 1))), 14), 28)


def copy_rate(size: float, threads: int) -> float:
    """Bytes read and written per second by a copy of about `size` bytes that were touched before."""
    return _rate("copy", _size_class(size), threads)


def read_rate(size: float, threads: int) -> float:
    """Bytes read per second from about `size` bytes."""
    return _rate("read", _size_class(size), threads)


def least_seconds(kind: str, operations: float, reads: float, writes: float, threads: int) -> tuple[float, str]:
    """The time that cannot be gone below, and what binds: `compute`, or the `memory` that is read and written once.

    What is written goes at the rate of a copy, with as many bytes of what is read; the rest at the rate of reading.
    """
    paired = min(reads, writes)
    memory = 2 * paired / copy_rate(paired, threads) if paired else 0.0
    memory += (writes - paired) / copy_rate(writes, threads) if writes > paired else 0.0
    memory += (reads - paired) / read_rate(reads, threads) if reads > paired else 0.0
    fastest = (peak(kind, threads) or peak("f32", threads)) if operations else None
    compute = operations / fastest if fastest else 0.0
    return (compute, "compute") if compute >= memory else (memory, "memory")


def measured(threads: int) -> dict[str, float]:
    """The figures that head a run: in operations and in bytes per second."""
    figures: dict[str, float] = {}
    for kind in ("f32", "f64", "bf16", "i8"):
        found = peak(kind, threads)
        if found is not None:
            figures[f"{kind} multiply-adds"] = found
    for level, size in LEVELS.items():
        figures[f"copy, {level}"] = copy_rate(size, threads)
        figures[f"read, {level}"] = read_rate(size, threads)
    return figures
