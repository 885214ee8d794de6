"""The native code behind calls of compiled functions: one interpreter of call descriptions for all of them.

A callable has a table (`TABLE`) of entries. An entry (see `entry`) says what a call must look like and what is then
done:

- steps take the arguments apart and compare them with what is expected (`STEP`): objects lie in numbered registers,
  the arguments in the first ones, and leaves are numbered as they come;
- results say which leaf's memory an output takes over, or that it is allocated, and its dtype and shape;
- building puts the results together (`INSTRUCTION`), on a stack.

A call that fits no entry, and everything unusual (memory that is shared, read-only or in use by another thread), goes
to the Python function of the callable, so that errors and rare features are written once, there. What is called of
Python and NumPy comes from a table of addresses that is filled after loading: the code is the same in every process.

`native_arguments`, `native_guards`, `native_results` and `native_call` define its functions.
"""

from __future__ import annotations

from tenon.runtime.call.layout import PYTHON, REFS
from tenon.runtime.cpu.ir_types import I64, VOID, pointer
from tenon.runtime.cpu.ir_values import Operand, Value
from tenon.runtime.cpu.ir_writer import Module

code = Module()
python = code.variable("tenon_addresses", PYTHON)


@code.function(VOID, objects=REFS, first=I64, end=I64)
def release(objects: Value, first: Value, end: Value) -> None:
    """Give references back."""
    with code.each(end, first) as i:
        python.Py_DecRef(objects[i])


def place_inputs(entry: Value, data: Value, addresses: Value) -> None:
    """Write the addresses of a program's inputs: of what is held, and of the leaves in the places between."""
    leaf, constants = code.local(I64, 0), entry.held
    with code.each(entry.input_count) as i:
        held = constants[i]
        with code.if_(held.is_null):
            addresses[i] = data[leaf]
            leaf.set(leaf + 1)
        with code.else_():
            addresses[i] = held


@code.function(I64, numbers=pointer(I64))
def number_of_thread(numbers: Value) -> Operand:
    """What this thread has set among the words of `ThreadNumbers`: 0 if nothing, -1 where that is not known here."""
    count = numbers[0]
    code.return_if(count <= 0, count)
    thread = python.PyThread_get_thread_ident()
    with code.each(count) as i:
        place = i * 2
        code.return_if(numbers[place + 1] == thread, numbers[place + 2])
    return 0
