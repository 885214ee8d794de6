"""How native calls go: by the first entry that fits, or by the Python function; see `entry_code`."""

from __future__ import annotations

from tenon.runtime.call.devices.native_arrays import (
    allocate_on_device,
    launch_on_device,
    note_lost,
    take_over_on_device,
)
from tenon.runtime.call.entry_code import code, number_of_thread, place_inputs, python, release
from tenon.runtime.call.layout import ANY_PRECISION, CALL_SLOT, ENTRY, REF, REFS
from tenon.runtime.call.native_arguments import same, take_apart
from tenon.runtime.call.native_donation import count_changes, give_away
from tenon.runtime.call.native_guards import all_hold, loaded
from tenon.runtime.call.native_memory import scratch
from tenon.runtime.call.native_results import allocate, alone, put_together
from tenon.runtime.call.native_tensors import as_tensors, decide
from tenon.runtime.cpu.ir_types import I1, I8, I32, I64, PTR, VOID, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.python_objects import ARRAY

# Of the C headers: `~PY_VECTORCALL_ARGUMENTS_OFFSET`.
_COUNT_OF_ARGUMENTS = (1 << 63) - 1
_copy_bytes = code.external("llvm.memcpy.p0.p0.i64", VOID, PTR, PTR, I64, I1)


@code.function(VOID, entry=pointer(ENTRY), data=pointer(PTR), arrays=REFS, slots=pointer(I64), arena=PTR)
def run(entry: Value, data: Value, arrays: Value, slots: Value, arena: Value) -> None:
    """The program itself, on the memory of leaves, results, sizes and arena, with what is held between the leaves."""
    inputs, outputs, sizes = entry.input_count, entry.result_count, entry.number_count
    before_arena = inputs + outputs + sizes
    pointers = code.array(PTR, before_arena + 1)
    place_inputs(entry, data, pointers)
    with code.each(outputs) as i:
        pointers[inputs + i] = arrays[i].to(pointer(ARRAY)).data
    numbers = entry.numbers
    with code.each(sizes) as i:
        pointers[inputs + outputs + i] = slots.at(numbers[i])
    pointers[before_arena] = arena
    with code.if_(entry.releases == 0):
        entry.main(pointers)
    with code.else_():
        thread = python.PyEval_SaveThread()
        entry.main(pointers)
        python.PyEval_RestoreThread(thread)


@code.function(I1)
def has_raised() -> Operand:
    """Whether Python raised what the program called; then there is an exception."""
    code.return_if(python.pending[0] == 0, False)
    answer = python.PyObject_CallNoArgs(python.raise_pending)
    code.return_if(answer.is_null, True)
    python.Py_DecRef(answer)
    return False


_leaves = {
    "objects": REFS,
    "data": pointer(PTR),
    "registers": REFS,
    "slots": pointer(I64),
    "given": REFS,
    "state": pointer(I64),
}


@code.function(
    REF,
    entry=pointer(ENTRY),
    objects=REFS,
    data=pointer(PTR),
    registers=REFS,
    arrays=REFS,
    status=pointer(I32),
)
def results_on_device(
    entry: Value, objects: Value, data: Value, registers: Value, arrays: Value, status: Value
) -> Operand:
    """As `results_of`, on a GPU."""
    with code.if_(~allocate_on_device(entry, arrays)):
        python.PyErr_Clear()
        code.return_(None)
    status.store(1)
    is_launched = launch_on_device(entry, data, objects, arrays)
    with code.if_(is_launched), code.if_(take_over_on_device(entry, objects, arrays)):
        code.return_(put_together(entry, arrays, registers))
    with code.if_(entry.takes_over != 0):
        note_lost(entry, objects)
    release(arrays, 0, entry.result_count)
    return None


@code.function(REF, entry=pointer(ENTRY), **_leaves, arena=PTR, status=pointer(I32))
def results_of(
    entry: Value,
    objects: Value,
    data: Value,
    registers: Value,
    slots: Value,
    given: Value,
    state: Value,
    arena: Value,
    status: Value,
) -> Operand:
    """The result for arguments that fit; null with status 1 and an exception, with 0 where there is no memory for the
    results: the general way has an error for that which names the program."""
    arrays = code.array(REF, entry.result_count)
    result = code.local(REF, None)
    with code.if_(entry.launch.is_not_null):
        code.return_(results_on_device(entry, objects, data, registers, arrays, status))
    is_allocated = allocate(entry, objects, slots, arrays)
    with code.if_(~is_allocated):
        python.PyErr_Clear()
        code.return_(None)
    run(entry, data, arrays, slots, arena)
    give_away(entry, objects)
    count_changes(entry, given)
    with code.if_(has_raised()):
        release(arrays, 0, entry.result_count)
        status.store(1)
        code.return_(None)
    with code.if_(as_tensors(entry, given, arrays, state)):
        result.set(put_together(entry, arrays, registers))
    with code.if_(result.is_null):
        status.store(1)
    return result


@code.function(REF, entry=pointer(ENTRY), **_leaves, status=pointer(I32))
def launch(
    entry: Value,
    objects: Value,
    data: Value,
    registers: Value,
    slots: Value,
    given: Value,
    state: Value,
    status: Value,
) -> Operand:
    """The result for arguments that fit; null with status 0 where there is no arena, and with 1 and an exception."""
    slot = entry.arena_slot
    with code.if_(slot >= 0):
        start = code.array(PTR)
        memory = scratch(slots[slot], entry.byte, start)
        code.return_if(memory.is_null, None)
        result = results_of(entry, objects, data, registers, slots, given, state, start.load(), status)
        python.Py_DecRef(memory)
        code.return_(result)
    arena = entry.arena
    code.return_if(arena.is_null, None)
    # taken before anything else: to allocate may run finalizers, which may call the same, or let other threads do so
    entry.put(arena=code.select(entry.takes_arena == 0, arena, None))
    result = results_of(entry, objects, data, registers, slots, given, state, arena, status)
    entry.put(arena=arena)
    return result


@code.function(REF, entry=pointer(ENTRY), arguments=REFS, total=I64, status=pointer(I32))
def call_by_entry(entry: Value, arguments: Value, total: Value, status: Value) -> Operand:
    """The result of a call by one entry; null with status 0 where it does not fit, and with 1 and an exception."""
    leaves = entry.leaf_count
    # behind the registers that steps name, those of copies and of the arrays of tensors
    registers, objects = code.array(REF, entry.registers + leaves + leaves), code.array(REF, leaves)
    given, state = code.array(REF, leaves), code.local(I64, 0)
    slots, copies = code.array(I64, entry.slots), code.local(I64, entry.registers)
    data, ends, numbers = code.array(PTR, leaves), code.array(PTR, leaves), code.array(I64, leaves)
    end, result = code.local(I64, total), code.local(REF, None)
    status.store(0)
    with code.each(total) as i:
        registers[i] = arguments[i]
    extras = entry.extras
    with code.each(entry.extra_count) as i:
        found = loaded(extras[i])
        with code.if_(found.is_null):
            release(registers, total, total + i)
            code.return_(None)
        registers[total + i] = found
    end.set(total + entry.extra_count)
    is_fit = take_apart(
        entry, registers, end.address, copies.address, slots, objects, data, ends, numbers, given, state.address
    )
    with code.if_(is_fit), code.if_(alone(entry, objects, data, ends)), code.if_(decide(entry, given, state.address)):
        result.set(launch(entry, objects, data, registers, slots, given, state.address, status))
    release(registers, total, end)
    release(registers, entry.registers, copies)
    return result


@code.function(I1, entry=pointer(ENTRY), count=I64, given=REF)
def names_fit(entry: Value, count: Value, given: Value) -> Operand:
    """Whether the names of the keyword arguments are the expected ones, in their order."""
    names = entry.names
    with code.each(count) as i:
        code.return_unless(same(python.PyTuple_GetItem(given, i), names[i]), False)
    return True


@code.function(REF, called=REF, arguments=REFS, count_and_flags=I64, names=REF)
def tenon_call(called: Value, arguments: Value, count_and_flags: Value, names: Value) -> Operand:
    """The vector call of a callable (PEP 590): by the first entry that fits, else by the Python function."""
    status, keywords = code.local(I32), code.local(I64, 0)
    count = count_and_flags & _COUNT_OF_ARGUMENTS
    with code.if_(names.is_not_null):
        keywords.set(python.PyTuple_Size(names))
    total = count + keywords
    slot = called.to(pointer(I8)).at(called.type.place_of_call).to(pointer(CALL_SLOT))
    table = slot.table
    entries = table.place("entries")
    epoch, precision, i = python.epoch[0], number_of_thread(python.precisions), code.local(I64, 0)
    with code.if_(python.traces[0] == 0), code.loop():
        # how many there are changes when another thread, or a finalizer, changes the table
        code.break_if(i >= table.count)
        entry = entries[i]
        i.set(i + 1)
        is_alike = (entry.epoch == epoch) & (entry.positional == count) & (entry.keywords == keywords)
        left = entry.calls_left
        is_wanted = is_alike & (left != 0) & ((entry.precision == precision) | (entry.precision == ANY_PRECISION))
        with (
            code.if_(is_wanted),
            code.if_(names_fit(entry, keywords, names)),
            code.if_(all_hold(entry.guards, entry.guard_count)),
        ):
            result = call_by_entry(entry, arguments, total, status.address)
            with code.if_(result.is_not_null):
                with code.if_(left > 0):
                    entry.put(calls_left=left - 1)
                code.return_(result)
            code.return_if(status != 0, None)
    objects = code.array(REF, total + 1)
    objects[0] = called
    _copy_bytes(objects.at(1), arguments, total << 3, False)
    return python.PyObject_Vectorcall(table.general, objects, count + 1, names)
