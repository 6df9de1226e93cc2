"""What one method made of a problem, and the colours of points in all figures; needs no library that draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REFERENCE = "#4477aa"
UNMATCHED = "#bbccdd"  # of the reference
SOURCE = "#cc3311"
LEFT = "#ee99aa"  # of the source, not matched
TRUTH = "#117733"


@dataclass(frozen=True)
class Registration:
    """What one method made of a problem.

    Attributes:
        method: its name.
        words: a few, such as its error.
        transformed: (r, D) the moved source.
        matched: (r,) which source points are matched.
        reference_matched: (q,) which reference points are matched.
        potential: (r,) at ``unrefined``; None for methods without a potential.
        reference_potential: (q,) at the reference; None for methods without a potential.
        unrefined: (r, D) the moved source as the method proper left it; None where it is not drawn.
        distance: (r,) of the moved source to the reference, in spacings of the reference; None where it is not drawn.
        reference_distance: (q,) of the reference to the moved source, in the same unit.
        faces: (F, 3) triangles of the source's points, for the view of distances; None without any.
        reference_faces: (F, 3) the same of the reference.
    """

    method: str
    words: str
    transformed: np.ndarray
    matched: np.ndarray
    reference_matched: np.ndarray
    potential: np.ndarray | None = None
    reference_potential: np.ndarray | None = None
    unrefined: np.ndarray | None = None
    distance: np.ndarray | None = None
    reference_distance: np.ndarray | None = None
    faces: np.ndarray | None = None
    reference_faces: np.ndarray | None = None
