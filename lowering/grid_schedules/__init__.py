"""Which steps a kernel is to take on a GPU: deciders, each a function from a nest to a list of steps."""
