"""The ops, one class each, in rooms; each imports only those above it in this list. `library` loads them all.

`elementwise`  the same function of every element
`control`      choices and loops
`reduce`       elements along axes combined: reductions, norms, losses
`contract`     sums of products: products of matrices, convolutions, windows
`move`         elements put elsewhere: shapes, slices, indices
`factor`       factorizations of matrices
`order`        sorting and searching
`random`       random numbers
"""
