"""Schedules as steps: a kernel's loops by name, and what is done to them, one after the other.

A `Nest` (`nest.py`) holds the axes of a kernel, the loops that they are made of, and where its buffers are while it
runs. A step changes it: it is one file here, a frozen dataclass whose fields are its arguments, with

    obstacle(nest)   why it cannot be done, as a text, or None
    apply(nest)      does it

and a line in `table.py`, by which its text form is read. A list of steps is the attribute `schedule` of a kernel, an
array of strings that anyone may write:

    schedule = ["split(i, 1024) -> i0, i1", "split(i1, 4) -> i1, i2", "bind(i0, grid)", "bind(i1, block)",
                "vectorize(i2)", "pack(a0, registers)"]

To add a step: write the file, with what it needs to know as a field of `Loop`, `Nest` or `Tile`; add it to the
table; and let the room `grids`, which writes the code of a thread once all steps are done, read the field. Nothing else
knows of single steps. What no list of steps may bring about is said by `nest_obstacle` (`validity.py`), which is asked
at the end.
"""
