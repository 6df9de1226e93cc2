"""MAT files up to version 7, by scipy."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence

import numpy as np

from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.numpy_files import from_named


def read(data: bytes, key: str | Sequence[str] | None) -> Content:
    """One variable: the key's, else the only one that can be points or the only one named as points are.

    Raises:
        Fault: the file cannot be read (version 7.3 is HDF5), or the variable is not clear.
    """
    from scipy.io import loadmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of variables that appear twice
            variables = loadmat(io.BytesIO(data))
    except Exception as error:  # scipy raises nearly every kind on damaged files
        said = re.sub(r"\s+", " ", f"{type(error).__name__} {error}")[:120]
        raise Fault(
            f"expected a MAT file of version 4 to 7, found one that cannot be read: {said}. "
            "In MATLAB: save(name, 'points', '-v7')."
        ) from error
    arrays, refused = {}, {}
    for name, value in variables.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.dtype.names is None:
            arrays[name] = value
        elif not name.startswith("__"):
            refused[name] = f"expected a numeric array, found {getattr(value, 'dtype', type(value).__name__)}."
    return from_named(arrays, refused, key, "MAT")
