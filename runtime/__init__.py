"""Compiling and calling, in rooms; each imports only those above it in this list. What stands in no room is the story
itself: `jit`, `stages`, `lower`, `executables`, `knobs`.

`store`       the disk cache, files, digests
`arguments`   trees of arrays to leaves, and back
`tracing`     functions run on symbols
`cpu`         text to running code on the processor: compile, load, threads, memory
`cuda`        the same on a GPU
`call`        a call without Python: native code that checks arguments, launches and wraps results
"""
