"""How points may move: kernels and their factors, transforms, coherence, splines, rigid fits, maps on all of space."""
