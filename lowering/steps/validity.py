"""What no list of steps may bring about, whatever the single steps allow: asked once, before code is written."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue

from tenon.dialects.families.monoid import combining_monoid
from tenon.dialects.upstream.walking import ops_of
from tenon.lowering.kernels.selection import Selection, selection_of
from tenon.lowering.kernels.statement import LoopKind, root_of
from tenon.lowering.steps.bind import Resident, resident_obstacle
from tenon.lowering.steps.contract import MMA, WGMMA, Contract
from tenon.lowering.steps.library import library_obstacles
from tenon.lowering.steps.nest import THREADS, Bind, Loop, Nest, NestAccess, NestStatement, Space
from tenon.lowering.steps.pipeline import Registers, registers_obstacle
from tenon.lowering.steps.scan_loops import ScanLoops, scanned_by
from tenon.lowering.steps.tile_copies import tile_sizes


def bound_reductions(nest: Nest, statement: NestStatement) -> list[Loop]:
    """The loops along axes that a statement reduces whose iterations run at the same time, and whose threads have to
    combine what they have, which an instruction does by itself."""
    if nest.contraction_of(statement) is not None:
        return []
    return [loop for loop in nest.loops_of(statement.reduced) if loop.bind is not None and loop.extent > 1]


def chosen_by(statement: NestStatement) -> Selection | None:
    """The selection that a statement is."""
    generic = statement.statement
    if not statement.reduced or LoopKind.SEQUENTIAL in generic.kinds:
        return None
    return selection_of(generic.body, generic.accumulators)


def nest_obstacle(nest: Nest) -> str | None:
    """Why a nest cannot be written as code of threads, or None."""
    return next(_obstacles(nest), None)


def _obstacles(nest: Nest) -> Iterator[str]:
    if nest.library:
        yield from library_obstacles(nest)
        return
    warp = nest.machine.warp
    if nest.bound(Bind.WARP, Bind.LANE) and nest.count(Bind.LANE) != warp:
        yield f"{nest.count(Bind.LANE)} iterations are bound to the lanes of a warp, which has {warp}"
    yield from _sharing_obstacles(nest)
    for part in {tile.part for tile in nest.tiles.values() if tile.part}:
        if not any(loop.name == part and loop.in_order for loop in nest.loops):
            yield f"what is copied is for iterations of {part}, which is no loop in order"
    tiles = sum(tile_bytes(nest, access) for access in tiled(nest))
    sums = sum(exchanged_bytes(nest, statement) for statement in nest.statements)
    if tiles + sums > nest.machine.largest_shared:
        parts = [f"{what} take {n} bytes" for what, n in (("tiles", tiles), ("sums across threads", sums)) if n]
        yield f"{' and '.join(parts)} of shared memory of {nest.machine.largest_shared}"
    yield from _like_reductions(nest)
    yield from _fragments_obstacles(nest)
    yield from _rotation_obstacles(nest)
    yield from _box_obstacles(nest)
    yield from _warpgroup_obstacles(nest)
    yield from _later_obstacles(nest)
    written = {output.buffer for statement in nest.statements for output in statement.outputs}
    shared = nest.shared_in_order()
    if nest.pieces is not None:  # statements along its axis run piece by piece
        shared.append(nest.loop(nest.pieces.loop))
    yield from _like_obstacles(nest)
    for number, statement in enumerate(nest.statements):
        inline = all(nest.space(output.buffer) is Space.INLINE for output in statement.outputs)
        if any(root_of(load.memref) in written for load in statement.statement.body_loads()):
            yield f"statement {number} reads at computed indices what the kernel writes"
        if statement.reduced and not inline:
            yield from _reduction_obstacles(nest, number, statement)
        for access in (*statement.inputs, *statement.outputs):
            if access.access.is_used or access in statement.outputs:
                yield from _access_obstacles(nest, number, statement, access, shared)


def _later_obstacles(nest: Nest) -> Iterator[str]:
    """What later steps have brought about that is against steps which were right when they were done."""
    for known in nest.contractions:
        step = Contract(known.depth.name, WGMMA if known.by_warpgroup else MMA)
        for obstacle in step.obstacles(nest, known.statement, nest.loop(known.depth.name)):
            yield f"{step}: {obstacle}"
    if nest.registers is not None:
        if (obstacle := registers_obstacle(nest, *nest.registers)) is not None:
            yield f"{Registers(*nest.registers)}: {obstacle}"
        if nest.resident > 1:
            yield f"a multiprocessor holds one block whose threads have different registers, not {nest.resident}"
    if nest.resident and (obstacle := resident_obstacle(nest, nest.resident)) is not None:
        yield f"{Resident(nest.resident)}: {obstacle}"


def _box_obstacles(nest: Nest) -> Iterator[str]:
    """What is against having a warp of its own copy boxes, which meets the others at the barriers of these alone."""
    boxes = [buffer for buffer, tile in nest.tiles.items() if tile.boxes]
    if not boxes:
        if nest.lasting or nest.registers is not None:
            yield "no warp of its own copies boxes, for which blocks last and registers differ"
        return
    operands = [a.buffer for known in nest.contractions if known.by_warpgroup for a in (known.left, known.right)]
    for buffer, tile in nest.tiles.items():
        if not tile.boxes:
            yield f"threads copy {nest.name_of(buffer)}, and a warp of its own copies boxes of {nest.name_of(boxes[0])}"
        if buffer not in operands:
            yield f"{nest.name_of(buffer)} is copied as boxes, which wgmma alone reads, and no contraction takes it so"
    loops = copied_for(nest)
    if prod(loop.extent for loop in loops) > 1 and loops[-1].stages == 1:
        yield f"boxes are copied at {loops[-1].name}, and no pipeline has several under way"
    around = [loop for known in nest.contractions for loop in nest.loops_of(known.statement.axes) if loop.in_order]
    summed = {axis for known in nest.contractions for axis in known.statement.reduced}
    for loop in around:
        if loop.axis not in summed:
            yield f"boxes are copied for one sum, and there is one for each iteration of loop {loop.name}"
    if nest.pieces is not None or len(nest.contractions) > 1:
        yield "boxes are copied for one sum, and there are several"
    if in_place(nest) or any(exchanged_bytes(nest, statement) for statement in nest.statements):
        yield "threads meet, and the warp that copies boxes does not"
    threads = nest.count(*THREADS) + nest.copiers
    if threads > nest.machine.largest_block:
        yield f"with the warp that copies boxes, a block would have {threads} threads of {nest.machine.largest_block}"


def copied_for(nest: Nest) -> list[Loop]:
    """The loops in order for whose iterations, one after the other, a warp of its own copies boxes."""
    at = next((tile.at for tile in nest.tiles.values() if tile.boxes), None)
    statement = nest.contractions[0].statement if nest.contractions else None
    if at is None or statement is None:
        return []
    loops = [loop for loop in nest.loops_of(statement.reduced) if loop.in_order]
    return loops[: loops.index(nest.loop(at)) + 1]


def _rotation_obstacles(nest: Nest) -> Iterator[str]:
    rotated = [loop for loop in nest.loops if loop.rotated]
    if not rotated:
        return
    if not any(known.by_warpgroup for known in nest.contractions):
        yield f"loop {rotated[0].name} takes turns, and no warpgroup multiplies matrices along it"
    elif any(
        s.reduced and o.buffer in nest.kernel.function.body.block.args for s in nest.statements for o in s.outputs
    ):
        yield f"loop {rotated[0].name} takes turns, and the sums themselves are stored"


def _warpgroup_obstacles(nest: Nest) -> Iterator[str]:
    """What is against products that threads go on without: those of pieces are waited for where they are, one product
    alone in the loop at which its operands are copied."""
    found = [known for known in nest.contractions if known.by_warpgroup]
    if not found or nest.pieces is not None:
        return
    if len(nest.contractions) > 1:
        yield "wgmma is for one product of a kernel, or for products of pieces"
    loops = {
        tile.at if (tile := nest.tiles.get(a.buffer)) is not None else None for a in (found[0].left, found[0].right)
    }
    if len(loops) != 1:
        yield "operands are copied at different loops"
    elif None in loops:
        yield "operands of wgmma are copied once, not at a loop"


def _fragments_obstacles(nest: Nest) -> Iterator[str]:
    """What is against reading parts of arguments in shared memory as fragments, or in another way."""
    operands = [access.buffer for known in nest.contractions for access in (known.left, known.right)]
    for access in tiled(nest):
        name = nest.name_of(access.buffer)
        if nest.space(access.buffer) is Space.FRAGMENTS:
            if access.buffer not in operands:
                yield f"{name} is packed to {Space.FRAGMENTS.value}, and no contraction takes it"
        elif access.buffer in operands:
            continue
        elif nest.tiles[access.buffer].swizzle != 1:
            yield f"runs of {name} trade places in shared memory, which only fragments are loaded from"
        elif nest.tiles[access.buffer].panel:
            yield f"{name} is in panels in shared memory, which only wgmma reads"


def _like_reductions(nest: Nest) -> Iterator[str]:
    """What is against reducing along loops that have the threads of others: no instruction does it."""
    for loop in (loop for loop in nest.loops if loop.like):
        for number, statement in enumerate(nest.statements):
            if loop.axis in statement.reduced and nest.contraction_of(statement) is None:
                yield f"statement {number} reduces axis {loop.axis}, whose loop {loop.name} has threads of another one"


def _like_obstacles(nest: Nest) -> Iterator[str]:
    """What is against loops that have the threads of others."""
    for loop in (loop for loop in nest.loops if loop.like):
        axes = {loop.axis, nest.loop(loop.like).axis}
        for number, statement in enumerate(nest.statements):
            contraction = nest.contraction_of(statement)
            if axes <= set(statement.axes) and (contraction is None or contraction.depth.axis not in axes):
                yield f"statement {number} has axes {' and '.join(sorted(axes))}, which have the same threads"


def tiled(nest: Nest) -> list[NestAccess]:
    """The accesses whose elements are in shared memory, each place once."""
    inputs = [a for s in nest.statements for a in s.inputs if a.buffer in nest.tiles and a.access.is_used]
    return list({access.place: access for access in inputs}.values())


def tile_bytes(nest: Nest, access: NestAccess) -> int:
    """What the tile of an access takes of shared memory, in all of its stages."""
    tile = nest.tiles[access.buffer]
    stages = nest.loop(tile.at).stages if tile.at is not None else 1
    return stages * prod(tile_sizes(nest, access, tile)) * access.access.element_bytes


def exchanged_bytes(nest: Nest, statement: NestStatement) -> int:
    """What the threads that reduce together take of shared memory: for each what it has, one of all lanes in a warp
    that do."""
    across = bound_reductions(nest, statement)
    lanes = [loop for loop in across if loop.bind is Bind.LANE]
    if len(lanes) == len(across):
        return 0
    threads = prod(loop.extent for loop in nest.bound(*THREADS) if loop not in lanes)
    outputs, parts = statement.outputs, 1
    if is_scanned(statement) and (scan := scanned_by(statement)) is not None:
        loops = ScanLoops.of(nest, statement.reduced[0])
        outputs = [outputs[n] for n in scan.states]
        parts = prod(loop.extent for loop in loops.parts) if isinstance(loops, ScanLoops) else 1
    kept = [parts * prod(loop.extent for loop in nest.loops_of(o.axes) if loop.written_out) for o in outputs]
    sizes = [output.access.element_bytes for output in outputs]
    return threads * sum(count * size for count, size in zip(kept, sizes, strict=True))


def in_place(nest: Nest) -> list[tuple[SSAValue, SSAValue]]:
    """The pairs of arguments that may be the same memory of which the kernel writes one."""
    function = nest.kernel.function
    attribute = function.attributes.get("shared_arguments")
    if not isinstance(attribute, DenseArrayBase):
        return []
    buffers = [function.body.block.args[int(number)] for number in attribute.get_values()]
    pairs = zip(buffers[::2], buffers[1::2], strict=True)
    return [(one, other) for one, other in pairs if nest.writers(one) or nest.writers(other)]


def _sharing_obstacles(nest: Nest) -> Iterator[str]:
    """What is against threads of their own for the elements of arguments that may be the same memory: an element that
    is written has to be read before, by the same thread or, behind a barrier, by others of its block."""
    loaded = {root_of(op.memref) for op in ops_of(nest.kernel.function, memref.LoadOp)}
    for pair in in_place(nest):
        accesses = [(s, a) for s in nest.statements for a in (*s.inputs, *s.outputs) if a.buffer in pair]
        accesses = [(s, a) for s, a in accesses if a.access.is_used or a in s.outputs]
        meets = len({(a.factors, a.constants, a.access.shape, a.access.element_bytes) for _, a in accesses}) > 1
        for statement, access in accesses:
            others = [loop for loop in nest.others(access.axes) if loop.extent > 1]
            meets |= any(loop.bind is Bind.GRID for loop in others)
            if others and access in statement.inputs:
                meets |= nest.space(access.buffer) is not Space.REGISTERS
                meets |= any(loop.in_order for loop in nest.loops_of(access.axes))
        if meets or loaded & set(pair):
            names = " and ".join(map(nest.name_of, pair))
            yield f"{names} may be the same memory, and a thread writes what another one reads"


def _reduction_obstacles(nest: Nest, number: int, statement: NestStatement) -> Iterator[str]:
    generic, across = statement.statement, bound_reductions(nest, statement)
    if is_scanned(statement):
        loops = ScanLoops.of(nest, statement.reduced[0])
        if isinstance(loops, str):
            yield f"statement {number}: {loops}"
        if any(loop.bind is Bind.GRID for loop in across):
            yield f"statement {number} is scanned along the grid"
        return
    for axis in statement.reduced:
        loops = [loop for loop in nest.loops_of([axis]) if loop.bind is None]
        strides = [loop.stride for loop in sorted(loops, key=lambda loop: loop.written_out)]
        if strides != sorted(strides, reverse=True) and not _combines(statement):
            yield f"statement {number} meets the elements along axis {axis} in another order"
    unbound = [loop.axis for loop in nest.loops_of(statement.reduced) if loop.bind is None and loop.extent > 1]
    if chosen_by(statement) is not None and unbound != sorted(unbound, key=statement.reduced.index):
        yield f"statement {number} meets its elements in another order than that of their places"
    if not across:
        return
    if not _combines(statement) and chosen_by(statement) is None:
        yield f"statement {number} is no reduction that threads can share"
    elif any(initial is None for initial in generic.initial):
        yield f"statement {number} goes on from what its outputs hold, and several threads have a part of them"
    if any(loop.bind is Bind.GRID for loop in across):
        yield f"statement {number} is reduced along the grid"


def is_scanned(statement: NestStatement) -> bool:
    """Whether a statement is written as a scan: it is one, and no reduction that needs no order."""
    return not _combines(statement) and chosen_by(statement) is None and scanned_by(statement) is not None


def _combines(statement: NestStatement) -> bool:
    generic = statement.statement
    return LoopKind.SEQUENTIAL not in generic.kinds and all(
        combining_monoid(generic.body, accumulator) is not None for accumulator in generic.accumulators
    )


def _access_obstacles(
    nest: Nest, number: int, statement: NestStatement, access: NestAccess, shared: list[Loop]
) -> Iterator[str]:
    name, buffer = nest.name_of(access.buffer), access.buffer
    writers = nest.writers(buffer)
    is_output = access in statement.outputs
    if is_output and (statement.reduced or nest.space(buffer) is Space.REGISTERS):
        yield from _kept_obstacles(nest, statement, access)
    if not writers:
        return
    places = {output.place for n in writers for output in nest.statements[n].outputs if output.buffer is buffer}
    if access.place not in places or len(places) != 1:
        yield f"{name} is used at another place than where it is written"
    own = not any(loop.extent > 1 for loop in nest.others(access.axes))
    if not own and number <= writers[0] and _reads_memory(statement, access):
        yield f"several threads read {name}, and one of them writes it"
    if is_output and len(writers) == 1:
        return
    if own and buffer in nest.kernel.function.body.block.args:
        return  # it can be read where it is stored, by the thread that stored it
    if nest.space(buffer) is Space.GLOBAL:
        yield f"{name} is written and read by several threads: pack it to registers"
    open_loops = [loop for loop in nest.loops_of(access.axes) if loop.in_order and loop not in shared]
    if nest.space(buffer) is Space.REGISTERS and open_loops:
        yield f"{name} is kept in registers along loop {open_loops[0].name}, which is not written out"


def _reads_memory(statement: NestStatement, access: NestAccess) -> bool:
    """Whether an access reads what is in memory before the kernel writes there."""
    if access in statement.inputs:
        return True
    number, generic = statement.outputs.index(access), statement.statement
    return generic.initial[number] is None and generic.reads_output(number)


def _kept_obstacles(nest: Nest, statement: NestStatement, access: NestAccess) -> Iterator[str]:
    """What is against keeping an output in registers until it is stored."""
    plain = access.plain_axes()
    name = nest.name_of(access.buffer)
    if not is_scanned(statement) and any(
        a is None and any(factors) for a, factors in zip(plain, access.factors, strict=True)
    ):
        yield f"{name} is kept in registers, and its index is no loop"
    reduced_axes = set(access.axes) & set(statement.reduced)
    if reduced_axes and not is_scanned(statement):
        yield f"{name} is written again and again along axis {min(reduced_axes)}"
    count = prod(loop.extent for loop in nest.loops_of(access.axes) if loop.written_out)
    if count > nest.machine.thread_registers:
        yield f"{count} elements of {name} would be kept in registers"
