"""The imperative face: tensors that compute at once, and a tape of what they computed.

In order: `modes` (whether calls are recorded), `tape` (what is recorded of a call), `backward` (a tape as one program),
`tape_programs` (which are compiled, and found again), `tensor` (the class, over the functions of the ops), `views`
(indexing, views, changes in place).
"""
