"""The tensor dialect, in rooms; each imports only those above it in this list.

`support`       what all rooms use of Python: errors that show the user's line, locks, arrays of other libraries
`upstream`      what xDSL lacks or has wrong
`types`         element types, shapes, sizes
`definition`    what an op is: `TensorOp`, `Value`, settings, signature, traits, registry, text form
`families`      what a family of ops derives from an author's few hooks
`ops`           the ops themselves
`interpreter`   what IR of all stages means, on NumPy arrays; a file per dialect
"""

from tenon.dialects.definition.registry import install_library

install_library("tenon.dialects.ops.library")
