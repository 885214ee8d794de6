"""Copies that a thread does not wait for, and what they are waited for by: cp.async, bulk copies of tensors, mbarriers,
fences. Facts: PTX ISA 8.8, sections on data movement and on mbarrier."""

from __future__ import annotations

from tenon.lowering.instructions.instruction import Instruction, assembly, device_function

HOPPER = 90


def _cp_async() -> str:
    form = "if (Bytes == {0}) {{ {1} }}"
    ptx = "cp.async.{0}.shared.global [%0], [%1], {1}, %2;"
    sizes = ((4, "ca"), (8, "ca"), (16, "cg"))
    ways = [form.format(size, assembly(ptx.format(cache, size), "", OPERANDS)) for size, cache in sizes]
    signature = "void tn_cp_async(void *shared, const void *global, unsigned int valid = Bytes)"
    return device_function(signature, "\n  ".join(ways), "int Bytes")


OPERANDS = '"r"(tn_shared_address(shared)), "l"(global), "r"(valid)'
"""Bytes from `valid` on are zeros."""
BARRIER = '"r"(tn_shared_address(barrier))'


def _plain(name: str, op: str, ptx: str, since: int = 80) -> Instruction:
    return Instruction(name, op, device_function(f"void {name}()", assembly(ptx)), since)


def _counted(name: str, op: str, ptx: str, since: int = 80) -> Instruction:
    """A wait until at most `Groups` of the newest groups are left."""
    text = device_function(f"void {name}()", assembly(ptx, "", '"n"(Groups)'), "int Groups")
    return Instruction(name, op, text, since)


def _on_barrier(name: str, op: str, argument: str, ptx: str) -> Instruction:
    parameter, inputs = (f", unsigned int {argument}", f'{BARRIER}, "r"({argument})') if argument else ("", BARRIER)
    text = device_function(f"void {name}(unsigned long long *barrier{parameter})", assembly(ptx, "", inputs))
    return Instruction(name, op, text, HOPPER)


def _tensor_copy(rank: int, load: bool) -> Instruction:
    names = "xyzvw"[:rank]
    coordinates = ", ".join(f"int {name}" for name in names)
    inputs = '"r"(tn_shared_address(shared)), "l"(map), ' + ", ".join(f'"r"({name})' for name in names)
    places = ", ".join(f"%{2 + i}" for i in range(rank))
    if load:
        name = f"tn_tma_load_{rank}d"
        signature = f"void {name}(void *shared, const TnTensorMap *map, {coordinates}, unsigned long long *barrier)"
        form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ptx, inputs = f"{form} [%0], [%1, {{{places}}}], [%{2 + rank}];", f"{inputs}, {BARRIER}"
    else:
        name = f"tn_tma_store_{rank}d"
        signature = f"void {name}(const TnTensorMap *map, {coordinates}, const void *shared)"
        ptx = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%1, {{{places}}}], [%0];"
    op = "nvgpu.tma.async.load" if load else "nvgpu.tma.async.store"
    return Instruction(name, op, device_function(signature, assembly(ptx, "", inputs)), HOPPER)


WAIT = (
    "{\\n.reg .pred done;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n@!done bra again;\\n}"
)

COPIES = (
    Instruction("tn_cp_async", "nvgpu.device_async_copy", _cp_async()),
    _plain("tn_cp_async_commit", "nvgpu.device_async_create_group", "cp.async.commit_group;"),
    _counted("tn_cp_async_wait", "nvgpu.device_async_wait", "cp.async.wait_group %0;"),
    _on_barrier("tn_mbarrier_init", "nvgpu.mbarrier.init", "count", "mbarrier.init.shared::cta.b64 [%0], %1;"),
    _on_barrier("tn_mbarrier_arrive", "nvgpu.mbarrier.arrive", "", "mbarrier.arrive.shared::cta.b64 _, [%0];"),
    _on_barrier(
        "tn_mbarrier_expect",
        "nvgpu.mbarrier.arrive.expect_tx",
        "bytes",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
    ),
    _on_barrier("tn_mbarrier_wait", "nvgpu.mbarrier.try_wait.parity", "parity", WAIT),
    _plain("tn_fence_mbarrier_init", "nvvm.fence.mbarrier.init", "fence.mbarrier_init.release.cluster;", HOPPER),
    _plain("tn_fence_proxy_async", "nvvm.fence.proxy", "fence.proxy.async.shared::cta;", HOPPER),
    *(_tensor_copy(rank, True) for rank in (2, 3, 4)),
    *(_tensor_copy(rank, False) for rank in (2, 3)),
    _plain("tn_tma_store_commit", "nvvm.cp.async.bulk.commit.group", "cp.async.bulk.commit_group;", HOPPER),
    _counted("tn_tma_store_wait", "nvvm.cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read %0;", HOPPER),
)
