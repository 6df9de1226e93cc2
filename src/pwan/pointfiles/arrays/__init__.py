"""Arrays: NPY, NPZ, MAT and headerless binary files."""
