"""From tensor IR to code, in rooms; each imports only those above it in this list.
`pipeline` puts the passes in order.

`loop_ir`      the IR of loops: how it is built and read
`buffers`      tensors to buffers in one arena
`kernels`      what a kernel computes: its statements and their accesses; no decision
`schedules`    how a kernel's loops are to run; decides, and emits nothing
`nests`        the loops of a kernel as its schedule says
`loop_passes`  loops to better loops: threads, streams, chains
`math`         functions as arithmetic
`llvm`         loops to LLVM IR
`cuda`         loops to CUDA source
"""
