"""A displacement grid in a file that ITK, ANTs and 3D Slicer read, by SimpleITK.

These files are in LPS: x to the left, y to the back, z up (of a patient). Points "as in the file" are taken to be in
LPS, as 3D Slicer takes meshes whose file does not say otherwise; those in RAS have x and y turned round on the way.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from pwan.deformation.grid import DisplacementGrid
from pwan.extras import needs
from pwan.files import naming

Coordinates = Literal["lps", "ras"]
TRANSFORMS = ("h5", "tfm")  # as a displacement-field transform
IMAGES = ("nrrd", "nii.gz")  # as an image of vectors


def write_grid(grid: DisplacementGrid, path: str | os.PathLike[str], *, coordinates: Coordinates = "lps") -> None:
    """Write a grid, in one move: .h5 or .tfm as ITK's displacement-field transform, .nrrd or .nii.gz as an image of
    vectors. NIfTI holds the grid's place in single precision.

    Args:
        grid: of :func:`pwan.deformation.grid.to_grid`.
        path: the file; its end says the format.
        coordinates: what the points were in, "lps" or "ras".

    Raises:
        MissingExtraError: SimpleITK is not installed.
        OSError: the file cannot be written.
        ValueError: another end of the name, or other coordinates.
    """
    place, ends = Path(path), (*TRANSFORMS, *IMAGES)
    end = next((end for end in ends if place.name.lower().endswith(f".{end}")), None)
    if end is None:
        raise ValueError(f"{place}: expected a name that ends in .{', .'.join(ends)}; name another file")
    if coordinates not in ("lps", "ras"):
        raise ValueError(f"coordinates must be lps or ras, got {coordinates!r}")
    with needs("export", "a displacement grid"):
        import SimpleITK as sitk
    d = len(grid.origin)
    turn = np.ones(d)
    turn[:2] = -1.0 if coordinates == "ras" else 1.0
    # SimpleITK's arrays are z, y, x
    array = (grid.displacements * turn).transpose(*range(d - 1, -1, -1), d)
    image = sitk.GetImageFromArray(array, isVector=True)
    image.SetOrigin((grid.origin * turn).tolist())
    image.SetSpacing([grid.spacing] * d)
    image.SetDirection(np.diag(turn).ravel().tolist())
    with naming(place), tempfile.TemporaryDirectory(prefix=".pwan-", suffix=".tmp", dir=place.parent) as folder:
        half = str(Path(folder) / f"grid.{end}")
        try:
            if end in TRANSFORMS:
                sitk.WriteTransform(sitk.DisplacementFieldTransform(image), half)
            else:
                sitk.WriteImage(image, half, True)
        except RuntimeError as error:  # of ITK, which says hundreds of letters
            raise OSError(f"{place}: it could not be written: {str(error).strip().splitlines()[-1]}") from None
        os.replace(half, place)
