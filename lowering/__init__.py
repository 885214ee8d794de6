"""From tensor IR to code, in rooms; each imports only those above it in this list, and `pipeline` puts the passes in
order.

`options`        what a device and the user tell the passes
`function_pass`  a pass that works on one function at a time
`explanation`    what a kernel could run by, for people
`instructions`   instructions of a GPU that C++ has no words for: fragments, PTX
`loop_ir`        the IR of loops: how it is built and read
`buffers`        tensors to buffers in one arena
`kernels`        what a kernel computes: its statements and their accesses; no decision
`tuning_record`  what was measured to be faster, by kernel and processor
`steps`          what is done to a kernel's loops, step by step, on a GPU; emits nothing
`grid_schedules` which steps; decides
`schedules`      how a kernel's loops are to run on a CPU; decides, and emits nothing
`nests`          the loops of a kernel as its schedule says
`math`           functions as arithmetic
`grids`          what one thread of a GPU executes, as steps say
`loop_passes`    loops to better loops: threads, streams, chains
`llvm`           loops to LLVM IR
`cuda`           loops to CUDA source
"""
