"""The shape: a fixed set of points and, where it is known, the surface that they lie on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwan.shapes.surface import sample_surface


@dataclass(frozen=True, eq=False)
class Shape:
    """A point set of the catalogue. Its arrays are read-only, since one shape may serve many problems.

    Attributes:
        name: as in the catalogue.
        source: where it came from, for the rows: "packaged", "analytic", "paper:folder" or "paper:download".
        points: (n, D) float64, the fixed default set.
        partner: (p, D) float64 or None, the set that belongs to it, in the same coordinates: the other fish, or the
            paper's bent bunny, armadillo or monkey (row i of the partner belongs to row i of the points).
        vertices: (v, 3) float64 or None, of the surface in the points' coordinates.
        faces: (f, 3) int or None, of the surface. Where the vertices are the points, the same faces over the rows of a
            partner are the partner's surface.
        matches: (6890,) int or None, SHREC'19 only: the vertex that corresponds to each vertex of the SMPL model.
        counterpart: Shape or None, the second shape of a pair whose surfaces differ in connectivity (two of SHREC'19):
            vertex ``matches[k]`` of the one belongs to vertex ``counterpart.matches[k]`` of the other. Such a shape has
            no ``partner``, since their vertices have no common rows.
    """

    name: str
    source: str
    points: np.ndarray
    partner: np.ndarray | None = None
    vertices: np.ndarray | None = None
    faces: np.ndarray | None = None
    matches: np.ndarray | None = None
    counterpart: Shape | None = None

    def __post_init__(self) -> None:
        for array in (self.points, self.partner, self.vertices, self.faces, self.matches):
            if array is not None:
                array.setflags(write=False)

    def sample(self, n: int, generator: np.random.Generator) -> np.ndarray:
        """n points, (n, D) float64: a random part of the default set, or fresh points of the surface if n exceeds it.

        Raises:
            ValueError: n is not positive, or exceeds the default set of a shape that has no surface.
        """
        if n < 1:
            raise ValueError(f"shape {self.name}: the number of points must be at least 1, got {n}")
        if n <= len(self.points):
            return self.points[generator.choice(len(self.points), n, replace=False)]
        if self.vertices is None or self.faces is None:
            raise ValueError(
                f"shape {self.name} ({self.source}) has {len(self.points)} points and no surface to draw more from, "
                f"but {n} were asked for; ask for at most {len(self.points)} or take a shape with a surface"
            )
        return sample_surface(self.vertices, self.faces, n, generator)
