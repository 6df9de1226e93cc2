"""What a registration of two files may be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pwan import methods
from pwan.settings import check_ranges

LIMIT = 200_000  # points of a set that are registered; of more a random part is, and all are moved


@dataclass(frozen=True)
class ScanSettings:
    """Settings of :func:`pwan.scans.register_files`.

    Attributes:
        source: the file that moves. reference: the file that stays.
        output: the folder for the results, made if it is not there.
        mass: how many points of the source's file are to be matched (the paper's m). distance: how far a point may be
            matched (the paper's h), in the reference's units. At most one of them; with neither the mass is estimated.
        landmarks: a text file of known pairs, which pull softly: source, reference and, if there, weight a line; points
            by their numbers in the files, from 0. In 3-D three that are not on one line, in 2-D two different ones give
            the start as well, but not with init="none" (with scale as well: the scale and the shift alone).
        init: "auto" looks for a rotation and a shift to start from, and leaves sets alone that are near each other;
            "none" starts from the files as they are.
        scale: look for a scale too (and a shift, also with init="none"), for files in different units.
        sample: so many points of the source's surface are registered (it must have faces), and its vertices moved.
        source_weights, reference_weights: "even": the file's points count as an even sample of its shape, a vertex by
            the areas of its faces, in a file without faces a point by its local density; "none": each point counts
            once; "auto": "even" for a file with faces, "none" without, and where the method takes no weights.
        method, method_settings: a method of ``pwan.methods`` and what differs from its defaults.
        seed: the same seed gives the same result.
        drop_invalid: leave out points with NaN or infinite coordinates.
        overwrite: write over results that are there.
        source_key, reference_key, source_raw, reference_raw: as ``key`` and ``raw`` of :func:`pwan.read_points`.
    """

    source: str
    reference: str
    output: str = "registered"
    mass: float | None = None
    distance: float | None = None
    landmarks: str | None = None
    init: Literal["auto", "none"] = "auto"
    scale: bool = False
    sample: int | None = None
    source_weights: Literal["auto", "even", "none"] = "auto"
    reference_weights: Literal["auto", "even", "none"] = "auto"
    method: str = "pwan"
    method_settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    drop_invalid: bool = False
    overwrite: bool = False
    source_key: str | None = None
    reference_key: str | None = None
    source_raw: str | None = None
    reference_raw: str | None = None

    def __post_init__(self) -> None:
        check_ranges(self, positive=("mass", "distance", "sample"))
        if self.mass is not None and self.distance is not None:
            raise ValueError("give mass (how many points are matched) or distance (how far), not both")
        if (self.mass or self.distance) and self.type_of_method() == "complete":
            raise ValueError(f"method {self.method} matches all of both sets; leave mass and distance out")
        if self.landmarks is not None:
            methods.check_pairs(self.method)
        if "even" in (self.source_weights, self.reference_weights):
            methods.check_weights(self.method)

    def chosen(self) -> Any:
        """The method's settings, checked."""
        return methods.settings(self.method, self.method_settings)

    def type_of_method(self) -> str | None:
        """What the method's discrepancy is told to limit; None for methods without a type."""
        return getattr(self.chosen(), "type", None)
