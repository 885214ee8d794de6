"""Imperative functions as programs: `tenon.trace`, and what it writes to files.

`places` are where a function finds what it reads, and `reads` finds them; `symbols` are tensors in a trace, and
`session` is one; `outcomes` are what a call leaves behind; `guards` tell whether a program still holds, and `program`
runs it. For functions in pieces, `waiting` are tensors whose elements nobody has asked for, `pieces` the calls that
give them, `piece_programs` what is compiled of these, and `known_pieces` finds that again. `function` is `tenon.trace`
itself. `files` writes such functions and reads them, `upgrades` those of former versions; `portable` writes the ops of
users out, by `portable_loops` those that loop, and `loaded` is what was read. `native` describes calls that need no
Python.
"""
