"""Compiling and calling, in rooms; each imports only those above it in this list. What stands in no room is the story
itself: `jit`, `stages`, `lower`, `executables`.

`epoch`         what native calls must have been prepared after
`knobs`         the settings of a process
`python_state`  what of Python is set for the whole process
`arguments`     trees of arrays to leaves, and back
`store`         the disk cache, files, digests
`tracing`       functions run on symbols
`cpu`           text to running code on the processor: compile, load, threads, memory
`call`          a call without Python: native code that checks arguments, launches and wraps results
`cuda`          text to running code on a GPU, and calls of that
`reads`         what functions read besides their arguments, and guards that notice when it is another
"""
