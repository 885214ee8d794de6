"""Instructions of a warpgroup, four warps from a number divisible by four: wgmma, registers, named barriers, election.
Facts: PTX ISA 8.8, sections on asynchronous warpgroup-level matrix instructions and on setmaxnreg."""

from __future__ import annotations

from tenon.lowering.instructions.fragment import Digits, Fragment
from tenon.lowering.instructions.instruction import Instruction, assembly, device_function
from tenon.lowering.instructions.matrix import ACROSS

WARPGROUP: Digits = (*ACROSS, (4, 16, 0))
COLUMNS = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256)


def wgmma_name(columns: int, element: str | None, suffix: str = "") -> str:
    """What the product of 64 rows by so many columns is called."""
    return f"tn_wgmma_m64n{columns}k{_depth(element)}_{element}{suffix}"


def _depth(element: str | None) -> int:
    return 8 if element == "tf32" else 16


def wgmma(columns: int, element: str, a_in_registers: bool) -> Instruction:
    """D of 64 rows, B from shared memory; A from shared memory or from registers."""
    depth, count = _depth(element), columns // 2
    name = wgmma_name(columns, element, "_registers" if a_in_registers else "")
    a_count = 4 if a_in_registers else 1
    b, scale = count + a_count, count + a_count + 1
    transposes = [] if element == "tf32" else ["BT"] if a_in_registers else ["AT", "BT"]
    a_places = f"{{{', '.join(f'%{count + i}' for i in range(4))}}}" if a_in_registers else f"%{count}"
    immediates = "".join(f", %{scale + 1 + i}" for i in range(len(transposes)))
    d = ", ".join(f"%{i}" for i in range(count))
    form = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{element}.{element}"
    product = f"{form} {{{d}}}, {a_places}, %{b}, p, 1, 1{immediates};"
    ptx = f"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{scale}, 0;\\n{product}\\n}}"
    a_inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if a_in_registers else '"l"(a)'
    inputs = f'{a_inputs}, "l"(b), "r"((int)accumulate)' + "".join(f', "n"({name})' for name in transposes)
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    a_parameter = "const unsigned int (&a)[4]" if a_in_registers else "unsigned long long a"
    signature = f"void {name}(float (&d)[{count}], {a_parameter}, unsigned long long b, bool accumulate)"
    template = ", ".join(f"int {name} = 0" for name in (transposes or ["BT"]))
    fragments = {"d": Fragment((64, columns), WARPGROUP, ((2, 0, 1), (2, 8, 0), (columns // 8, 0, 8)))}
    if a_in_registers:
        per = depth // 8
        digits: Digits = ((4, 0, per), (8, 1, 0), (4, 16, 0))
        fragments["a"] = Fragment((64, depth), digits, ((2, 8, 0), (2, 0, 4 * per)), ((per, 0, 1),))
    text = device_function(signature, assembly(ptx, outputs, inputs), template)
    return Instruction(name, "nvgpu.warpgroup.mma", text, 90, True, fragments, 2 * 64 * columns * depth)


def _plain(name: str, op: str, ptx: str) -> Instruction:
    return Instruction(name, op, device_function(f"void {name}()", assembly(ptx)), 90, True)


def _immediate(name: str, op: str, parameter: str, ptx: str) -> Instruction:
    text = device_function(f"void {name}()", assembly(ptx, "", f'"n"({parameter})'), f"int {parameter}")
    return Instruction(name, op, text, 90, True)


def _wait(name: str, op: str) -> Instruction:
    """Within a basic block the assembler moves arithmetic on sums in front of a wait for all products, and then has
    each wait for the one before (C7514). So the block ends there, by a way out that no thread takes."""
    wait = assembly("wgmma.wait_group.sync.aligned %0;", "", '"n"(Groups)')
    end = assembly("{\\n.reg .pred p;\\nsetp.eq.u32 p, %0, 0;\\n@p exit;\\n}", "", '"r"(gridDim.z)')
    text = device_function(f"void {name}()", f"{wait}\n  if (Groups == 0) {end}", "int Groups")
    return Instruction(name, op, text, 90, True)


def _barrier(what: str, op: str) -> Instruction:
    name = f"tn_named_barrier_{what}"
    text = device_function(
        f"void {name}(unsigned int barrier, unsigned int threads)",
        assembly(f"bar.{what} %0, %1;", "", '"r"(barrier), "r"(threads)'),
    )
    return Instruction(name, op, text)


DESCRIPTOR = """__device__ __forceinline__ unsigned long long tn_wgmma_descriptor(
    const void *shared, unsigned int leading, unsigned int stride, int swizzle) {
  unsigned long long code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return (unsigned long long)((tn_shared_address(shared) & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | code << 62;
}"""
ELECT = """__device__ __forceinline__ bool tn_elect() {
  unsigned int elected;
  asm volatile("{\\n.reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.u32 %0, 1, 0, p;\\n}" : "=r"(elected));
  return elected;
}"""

WARPGROUPS = (
    Instruction("tn_wgmma_descriptor", "nvgpu.warpgroup.generate.descriptor", DESCRIPTOR, 90, True),
    _plain("tn_wgmma_fence", "nvvm.wgmma.fence.aligned", "wgmma.fence.sync.aligned;"),
    _plain("tn_wgmma_commit", "nvvm.wgmma.commit.group.sync.aligned", "wgmma.commit_group.sync.aligned;"),
    _wait("tn_wgmma_wait", "nvvm.wgmma.wait.group.sync.aligned"),
    _immediate("tn_setmaxnreg_dec", "nvvm.setmaxregister", "Registers", "setmaxnreg.dec.sync.aligned.u32 %0;"),
    _immediate("tn_setmaxnreg_inc", "nvvm.setmaxregister", "Registers", "setmaxnreg.inc.sync.aligned.u32 %0;"),
    _barrier("sync", "nvvm.barrier"),
    _barrier("arrive", "nvvm.barrier.arrive"),
    Instruction("tn_elect", "nvvm.elect.sync", ELECT, 90),
    *(
        wgmma(columns, element, a_in_registers)
        for element in ("bf16", "f16", "tf32")
        for columns in COLUMNS
        for a_in_registers in (False, True)
    ),
)
