"""The settings of a registration of two files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pwan import methods
from pwan.settings import check_ranges, convert_fields, nearest

# settings of a method that say how the shape may move: who gives one of them has chosen
FLEXIBILITY = (
    "flexibility",
    "energy",
    "kernel",
    "geodesic_share",
    "beta",
    "rank",
    "coherence",
    "affine_penalty",
    "coarse_steps",
)
GRIDS = tuple(f"{way}.{end}" for way in ("forward", "back") for end in ("h5", "tfm", "nrrd", "nii.gz"))
MESHES = ("glb", "ply", "obj")
SHORT = {"grid": ("forward.h5", "back.h5")}
LIMIT = 200_000  # points of a set, at most, that are registered; of more a random part is, and all are moved


@dataclass(frozen=True)
class ScanSettings:
    """Settings of :func:`pwan.scans.register_files`.

    Attributes:
        source: the file that moves.
        reference: the file that stays.
        output: the folder for the results, made if it does not exist.
        mass: how many points of the source's file are to be matched (the paper's m). Give mass or distance, not both;
            with neither the mass is estimated.
        distance: how far a point may be matched (the paper's h), in the reference's units. PWAN's methods move the
            points by mass or distance, soft_assignment by the mass; of other results they say which points are matched.
        landmarks: a text file with a landmark (a known pair of points) a line, as numbers of points from 0 (source,
            reference and, if there, weight) or as positions (x,y,z,x,y,z); or two files of named points, of the source
            and of the reference, matched by name ("a.fcsv,b.fcsv" or a tuple): text, .fcsv, .mrk.json or .pp. Landmarks
            pull softly. Three in 3-D that are not on one line, or two different ones in 2-D, give the start as well:
            not with init="none", but with scale=True they then give the scale and the shift alone.
        pinned: bring the landmarks together in the end, as ``pinned`` of :func:`pwan.register`.
        init: "auto" looks for a rotation and a shift to start from, and leaves sets alone that are near each other;
            "none" starts from the files as they are.
        scale: look for a scale too (and a shift, also with init="none"), for files in different units.
        sample: register this many points drawn on the source's surface (it must have faces), and move its vertices.
        source_weights: "even": the file's points count as an even sample of its shape, a vertex by the areas of its
            faces, in a file without faces a point by its local density; "none": each point counts once; "auto": "even"
            for a file with faces, "none" without, and where the method takes no weights.
        reference_weights: the same of the reference.
        attributes: names of columns of both files whose numbers the match shall respect, as "red,green,blue" or
            "[nx,ny,nz]": distances are d((y, a), (x, b))^2 = |y - x|^2 + w^2 |a - b|^2 then, while the points move in
            space alone. Columns that are the files' normals (nx, ny, nz and other spellings), or "normals" whatever
            they are called, become unit vectors that turn with the transform.
        labels: names of columns of both files that hold labels, whole numbers or text.
        attribute_weight: w, in the units of the points for a difference of 1, of all of these; None: a spacing of the
            reference, by which numbers then deviate from their mean, and three of labels.
        method: a method of ``pwan.methods``.
        method_settings: what differs from the method's defaults.
        seed: the same seed gives the same result.
        drop_invalid: leave out points with NaN or infinite coordinates.
        overwrite: write over results that exist.
        keep_flagged: take points that a LAS file flags as withheld or as noise, which are left out otherwise.
        columns: which columns of both files are the coordinates, as ``columns`` of :func:`pwan.read_points`, as one
            text: "2,3,4" or "east,north,height".
        source_columns: of the source's file, in place of ``columns``.
        reference_columns: the same of the reference's file.
        export: what other programs read, names with commas between: "glb", "ply", "obj" for the moved mesh;
            "forward.nii.gz", "back.h5" and the like for a displacement grid, from the source to the reference or back,
            in a file of that name (h5, tfm, nrrd, nii.gz); "grid" for forward.h5 and back.h5.
        export_spacing: between the nodes of the grids; without one it follows from the map.
        export_coordinates: what the points are in, for the grids, whose files are in LPS: "lps", "ras", or "auto" for
            what the source's file says, else "lps".
        source_key: of the source's file, as ``key`` of :func:`pwan.read_points`.
        reference_key: the same of the reference's file.
        source_raw: of the source's file, as ``raw`` of :func:`pwan.read_points`, as one text: "float32 x 4".
        reference_raw: the same of the reference's file.
    """

    source: str
    reference: str
    output: str = "registered"
    mass: float | None = None
    distance: float | None = None
    landmarks: str | tuple[str, ...] | None = None
    pinned: bool = False
    init: Literal["auto", "none"] = "auto"
    scale: bool = False
    sample: int | None = None
    source_weights: Literal["auto", "even", "none"] = "auto"
    reference_weights: Literal["auto", "even", "none"] = "auto"
    attributes: str | None = None
    labels: str | None = None
    attribute_weight: float | None = None
    method: str = "pwan"
    method_settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    drop_invalid: bool = False
    overwrite: bool = False
    keep_flagged: bool = False
    columns: str | None = None
    source_columns: str | None = None
    reference_columns: str | None = None
    export: str | None = None
    export_spacing: float | None = None
    export_coordinates: Literal["auto", "lps", "ras"] = "auto"
    source_key: str | None = None
    reference_key: str | None = None
    source_raw: str | None = None
    reference_raw: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        check_ranges(self, positive=("mass", "distance", "sample", "attribute_weight", "export_spacing"))
        if self.mass is not None and self.distance is not None:
            raise ValueError("give mass (how many points are matched) or distance (how far), not both")
        if (self.mass or self.distance) and self.type_of_method() == "complete":
            raise ValueError(f"method {self.method} matches all of both sets; leave mass and distance out")
        unknown = [name for name in self.exports if name not in (*GRIDS, *MESHES)]
        if unknown:
            known = (*SHORT, *MESHES, *GRIDS)
            raise ValueError(
                f"nothing is exported as {unknown[0]!r}{nearest(unknown[0], known)}; there are {', '.join(known)}"
            )
        if self.landmarks is not None:
            methods.check_landmarks(self.method)
            if not 1 <= len(self.landmark_files) <= 2:
                raise ValueError(
                    "landmarks must be one file of pairs, or two of named points, source and reference, got "
                    f"{len(self.landmark_files)}: {', '.join(self.landmark_files)}"
                )
        elif self.pinned:
            raise ValueError("pinned brings landmarks together, and there are none; give landmarks=, or leave it out")
        if "even" in (self.source_weights, self.reference_weights):
            methods.check_weights(self.method)
        if self.attributes or self.labels:
            methods.check_attributes(self.method)
            if self.sample is not None:
                raise ValueError("attributes are of the file's points, but sample= draws others; leave one of both out")
        elif self.attribute_weight is not None:
            raise ValueError("attribute_weight is given without attributes; name columns with attributes= or labels=")

    @property
    def exports(self) -> tuple[str, ...]:
        """The names in ``export``, short ones spelt out, each once."""
        names = [name.strip().lower() for name in (self.export or "").split(",") if name.strip()]
        return tuple(dict.fromkeys(one for name in names for one in SHORT.get(name, (name,))))

    @property
    def landmark_files(self) -> tuple[str, ...]:
        """The one file of pairs, or the two of named points; empty without landmarks. A comma parts two files where no
        file has the whole as its name."""
        if self.landmarks is None or isinstance(self.landmarks, tuple):
            return self.landmarks or ()
        whole = "," not in self.landmarks or os.path.exists(self.landmarks)
        return (self.landmarks,) if whole else tuple(part.strip() for part in self.landmarks.split(","))

    def chosen(self) -> Any:
        """The method's settings, checked."""
        return methods.settings(self.method, self.method_settings)

    def method_options(self) -> dict[str, Any]:
        """What differs from the method's defaults; see :func:`flexible`."""
        return flexible(self.method, self.method_settings)

    def type_of_method(self) -> str | None:
        """What limits the method's discrepancy, its setting ``type``; None for methods without one."""
        return getattr(self.chosen(), "type", None)


def flexible(method: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The settings told, with ``flexibility="auto"`` where nobody has said how the shape may move and the method can
    choose."""
    used = methods.settings(method, told)
    bends = getattr(used, "transform", "") == "nonrigid" and getattr(used, "parametrisation", "") == "modes"
    if not bends or any(name in told for name in FLEXIBILITY):
        return dict(told)
    return {**told, "flexibility": "auto"}
