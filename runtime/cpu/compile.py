"""LLVM IR text to object code for a CPU.

Object code depends only on the text and the `Target`, and names what it needs of the C library, so that another process
on a CPU with the same features loads it without compiling (`load`). llvmlite is imported when the first of these
functions needs it, and holds one lock for the whole process, which `compile_parallel` does without.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from tenon.runtime.cpu.llvm_lock import emitted, run_passes
from tenon.runtime.cpu.llvm_parts import Passes, split
from tenon.runtime.cpu.target_check import check_target
from tenon.runtime.knobs import knobs

if TYPE_CHECKING:
    from llvmlite.binding import ContextRef, ModulePassManager, ModuleRef, PassBuilder, TargetMachine

_ARM = ("aarch64", "arm64")
_F16_FEATURES = ("f16c", "zfh")
_SCALING_FEATURES = ("avx512f", "avx512vl")
_HALVED_BITS = 512
"""Zen 4 has units of half as much (AMD's Software Optimization Guide for it, section 2.1)."""
_PACKING_FEATURES = {"16": "avx512vbmi2", "32": "avx512f", "64": "avx512f"}
_DOT_FEATURES = {"bf16": "avx512bf16", "i8": "avx512vnni"}
_TILE_FEATURES = {"bf16": "amx-bf16", "i8": "amx-int8"}
_SLOW_DOTS = {"bf16": "amx-bf16"}
"""Dot products that take twice as long as the multiply-adds they stand for where there are tiles for them as well: on
Intel's Sapphire Rapids, 124 in place of 249 billion products of a core in a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """What object code is compiled for: LLVM's triple, CPU name and features, the width of its vector registers,
    whether it has fused multiply-adds (`expand-math`), and the elements of whose groups it has dot products in all
    widths (the argument of `emit_llvm`)."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    multiply_add: bool = True
    dots: tuple[str, ...] = ()

    @property
    def registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.vector_bits == 512 or self.triple.startswith(_ARM) else 16

    @property
    def halves(self) -> bool:
        """Whether the processor carries out instructions on a whole register in two halves."""
        return self.cpu == "znver4" and self.vector_bits == _HALVED_BITS

    @property
    def native_f16(self) -> bool:
        """Whether the hardware converts between f16 and f32 (the argument of `emit_llvm`)."""
        enabled = _enabled(self.features)
        return self.triple.startswith(_ARM) or any(enabled.get(name) for name in _F16_FEATURES)

    @property
    def packs(self) -> tuple[str, ...]:
        """The bits of lanes of which one instruction packs those that a mask selects, in the longest vectors."""
        enabled = _enabled(self.features)
        if self.vector_bits < 512:
            return ()
        return tuple([bits for bits, feature in _PACKING_FEATURES.items() if enabled.get(feature)])

    @property
    def tiles(self) -> tuple[str, ...]:
        """The elements of which instructions multiply matrices in tile registers."""
        enabled = _enabled(self.features)
        named = [name for name, feature in _TILE_FEATURES.items() if enabled.get(feature) and enabled.get("amx-tile")]
        return tuple(named) if self.vector_bits == 512 else ()

    @property
    def native_scaling(self) -> bool:
        """Whether one instruction multiplies floats in registers of any width by powers of two (`expand-math`)."""
        enabled = _enabled(self.features)
        return self.vector_bits == 512 and all(enabled.get(name) for name in _SCALING_FEATURES)


def host_target() -> Target:
    """This machine's CPU with all its features, as far as `TENON_TARGET_CPU` and `TENON_TARGET_FEATURES` leave it so.

    Features that are set are added to those of the machine, or of the CPU that is named. Raises `ValueError` for what
    LLVM does not know.
    """
    return _target(knobs.target_cpu, knobs.target_features)


@cache
def _target(cpu: str | None, changes: str | None) -> Target:
    from llvmlite import binding

    triple = binding.get_default_triple()
    known = binding.get_host_cpu_features()
    # LLVM ends the process over a name that it does not know, unless that mode is on
    mode = "+64bit" if cpu is not None and triple.startswith("x86_64") else ""
    own = known.flatten() if cpu is None else mode
    features = ",".join(filter(None, (own, changes)))
    if cpu is not None or changes is not None:
        check_target(triple, cpu or binding.get_host_cpu_name(), own, changes, tuple(known))
    if cpu is None:
        enabled = _enabled(features)
        vector_bits = 512 if enabled.get("avx512f") else 256 if enabled.get("avx") else 128
        multiply_add = enabled.get("fma", not triple.startswith("x86_64"))
        target = Target(triple, binding.get_host_cpu_name(), features, vector_bits, multiply_add)
        if changes is not None:
            return _measured(target)
        dots = [name for name, feature in _DOT_FEATURES.items() if enabled.get(feature) and enabled.get("avx512vl")]
        return replace(target, dots=_fast_dots(dots, enabled))
    return _measured(Target(triple, cpu, features, 0))


def _measured(target: Target) -> Target:
    """The target with what the assembly of `_probe_assembly` says of its instructions: what turns a feature off turns
    off those that imply it as well, so that without multiply-adds there is no AVX-512."""
    assembly = _probe_assembly(target)
    vector_bits = 512 if "zmm" in assembly else 256 if "ymm" in assembly else 128
    dots = _fast_dots(_measured_dots(assembly, vector_bits), _enabled(target.features))
    return replace(target, vector_bits=vector_bits, multiply_add="fmadd" in assembly, dots=dots)


def _fast_dots(dots: Iterable[str], enabled: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple([name for name in dots if not enabled.get(_SLOW_DOTS.get(name, ""))])


def _enabled(features: str) -> dict[str, bool]:
    """What a feature list turns on and off; the last word on a feature counts."""
    return {change[1:]: change[0] == "+" for change in features.split(",") if change}


def _probe_assembly(target: Target) -> str:
    """What LLVM makes of a long vector, of a multiply-add, and of what it can do by the instructions that come with dot
    products: a CPU's name does not say which features it implies, and LLVM ends the process over an intrinsic that is
    missing."""
    text = """
define void @double(ptr %x) {
  %a = load <16 x float>, ptr %x
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %x
  ret void
}
declare double @llvm.fma.f64(double, double, double)
define double @multiply_add(double %a, double %b, double %c) {
  %d = call double @llvm.fma.f64(double %a, double %b, double %c)
  ret double %d
}
"""
    for lanes in (8, 16) if target.triple.startswith("x86_64") else ():
        groups = f"<{4 * lanes} x i8>"
        wide = f"<{4 * lanes} x i32>"
        text += f"""
define void @narrow{lanes}(ptr %x) {{
  %a = load <{lanes} x float>, ptr %x
  %b = fptrunc <{lanes} x float> %a to <{lanes} x bfloat>
  store <{lanes} x bfloat> %b, ptr %x
  ret void
}}
declare i32 @llvm.vector.reduce.add.v{4 * lanes}i32({wide})
define i32 @dot{lanes}({groups} %a, {groups} %b) {{
  %c = zext {groups} %a to {wide}
  %d = sext {groups} %b to {wide}
  %e = mul {wide} %c, %d
  %r = call i32 @llvm.vector.reduce.add.v{4 * lanes}i32({wide} %e)
  ret i32 %r
}}
"""
    return native_assembly(text, target, optimization=0)


def _measured_dots(assembly: str, vector_bits: int) -> tuple[str, ...]:
    """The elements of dot products, by the instructions in the assembly of `_probe_assembly`."""

    def has(instruction: str, *results: str) -> bool:
        return all(
            re.search(rf"^\t(?:{{vex}}\t)?{instruction}\w*\t.*%{result}\d+$", assembly, re.MULTILINE)
            for result in results
        )

    if vector_bits < 512:
        return ()
    # Sixteen floats become half a register of bf16, eight a quarter.
    found = {"bf16": has("vcvtneps2bf16", "ymm", "xmm"), "i8": has("vpdpbusd", "zmm", "ymm")}
    return tuple([name for name, is_found in found.items() if is_found])


class _Machines(threading.local):
    """The machines of a thread: one serves one thread at a time, and takes longer to make than to use for a kernel."""

    def __init__(self) -> None:
        self.known: dict[tuple[Target, int], TargetMachine] = {}


_machines = _Machines()


def target_machine(target: Target, optimization: int = 2) -> TargetMachine:
    """What generates code for `target` in this thread."""
    machine = _machines.known.get((target, optimization))
    if machine is None:
        machine = _machines.known[target, optimization] = new_machine(target, optimization)
    return machine


def new_machine(target: Target, optimization: int) -> TargetMachine:
    """What generates code for `target`, for whoever asks."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()  # for assembly in the text of kernels
    # 'pic' and 'small': with other settings the process aborts once external symbols are involved
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=optimization, reloc="pic", codemodel="small"
    )


def parsed(llvm_ir: str, target: Target, machine: TargetMachine, context: ContextRef | None = None) -> ModuleRef:
    """The IR in `context`; raises `ValueError` with LLVM's message for text that it refuses."""
    from llvmlite import binding

    try:
        module = binding.parse_assembly(llvm_ir, context)
        # LLVM ends the process over IR that is not valid; verifying costs a hundredth of compiling
        module.verify()
    except RuntimeError as error:
        raise ValueError(f"tenon: LLVM refused the IR{_function_at(str(error), llvm_ir)}: {error}") from None
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    return module


def _function_at(message: str, llvm_ir: str) -> str:
    """The function that holds the line which LLVM's message names; that of a kernel's own text is called by its op."""
    place = re.search(r":(\d+):\d+: error", message)
    above = llvm_ir.split("\n")[: int(place[1])] if place else []
    found = [name[1] for line in above if (name := re.match(r"\s*define\b[^@]*@(\"[^\"]*\"|[\w.$-]+)", line))]
    return f" of @{found[-1]}" if found else ""


def pass_builder(machine: TargetMachine, optimization: int = 2) -> PassBuilder:
    """What runs LLVM's passes for a machine."""
    from llvmlite import binding

    tuning = binding.create_pipeline_tuning_options(speed_level=optimization)
    # loops come with explicit vectors; packing what is left never paid for its compile time
    tuning.slp_vectorization = False
    tuning.loop_vectorization = True
    tuning.loop_interleaving = True
    return binding.create_pass_builder(machine, tuning)


def pass_manager(passes: Passes, builder: PassBuilder) -> ModulePassManager:
    """LLVM's passes for a part that some are run on.

    The few write out short loops, keep in registers what these stored, and load once what is loaded again: that is what
    kernels whose loops are vectors already have of all the others.
    """
    from llvmlite import binding

    if passes is Passes.ALL:
        return builder.getModulePassManager()
    manager = binding.create_new_module_pass_manager()
    manager.add_loop_unroll_pass()
    manager.add_simplify_cfg_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_new_gvn_pass()
    return manager


def _optimized(llvm_ir: str, target: Target, optimization: int) -> tuple[ModuleRef, TargetMachine]:
    """The IR after LLVM's passes, as far as its functions are for them."""
    machine = target_machine(target, max(optimization, 1))
    return optimized(llvm_ir, target, machine, optimization), machine


def optimized(
    llvm_ir: str, target: Target, machine: TargetMachine, optimization: int = 2, context: ContextRef | None = None
) -> ModuleRef:
    """The IR in `context` (by default the one that all share) after LLVM's passes, as far as its functions are for them
    (`llvm_parts`). Raises `ValueError` with LLVM's message for text that it refuses."""
    parts = split(llvm_ir) if optimization > 0 else {Passes.NONE: llvm_ir}
    modules = {passes: parsed(text, target, machine, context) for passes, text in parts.items()}
    for passes, module in modules.items():
        if passes is not Passes.NONE:
            builder = pass_builder(machine, optimization)
            pass_manager(passes, builder).run(module, builder)
    first, *others = modules.values()
    for other in others:
        first.link_in(other)
    return first


def compile_object(llvm_ir: str, target: Target | None = None, *, optimization: int = 2) -> bytes:
    """Object code of the IR for `target` (by default this machine).

    `optimization` is 0 (code generation only, for kernels that are already scheduled), 1, 2 or 3. Raises `ValueError`
    with LLVM's message for text that it refuses.
    """
    module, machine = _optimized(llvm_ir, target or host_target(), optimization)
    return machine.emit_object(module)


def compile_native(llvm_ir: str, target: Target) -> bytes:
    """Object code of functions that `ir_writer` wrote; raises `ValueError` with LLVM's message for text it refuses.

    They say themselves what is part of what calls it. Then only their locals have to become registers, and conditions
    and addresses simpler: all the other passes take ten times as long and make no call faster.
    """
    from llvmlite import binding

    machine = target_machine(target, 1)
    module = parsed(llvm_ir, target, machine, binding.create_context())
    manager = binding.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    run_passes(manager, module, pass_builder(machine, 1))
    return emitted(machine, module)


def native_assembly(llvm_ir: str, target: Target | None = None, *, optimization: int = 2) -> str:
    """The assembly of what `compile_object` gives, to be read."""
    module, machine = _optimized(llvm_ir, target or host_target(), optimization)
    return machine.emit_assembly(module)
