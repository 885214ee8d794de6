"""The passes on tensor IR, in rooms; each imports only those above it in this list, and `pipeline` puts them in order.

`machine`       the facts of a processor or GPU that decide
`tile_products` the products of matrices that tiles pay for
`iteration`     the loops that a tensor op runs over
`named_shapes`  the names that arguments give their dimensions
`dominance`     whether each value is defined before it is used
`simplify`      the same function in fewer ops: canonicalize, fold, cse, dce, decompose, infer-shapes
`layout`        the same sums in another order of axes
`transform`     new functions from old ones: differentiate, batch, inline, specialize, freeze
`loops`         what loops compute once, for all of their steps together, or piece by piece
`fuse`          what runs together in one loop nest
"""
