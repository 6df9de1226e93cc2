"""How problems are made from a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.settings import check_ranges


@dataclass(frozen=True)
class SynthesisSettings:
    """How a problem is made from a shape; lengths are in the shape's units (an RMS radius of 1 if packaged).

    Attributes:
        points: N, points drawn for each set before cropping; the two draws are independent, so no point of one is the
            same as one of the other.
        voxel: edge of the grid that thins both sets after they are drawn (and the reference deformed) to the mean of
            the points in each occupied cube (the paper's human bodies); 0 for none. N is then what is left of a set.
        outlier_ratio: outliers added to the reference, in units of N (the paper's noise experiments: 0.2 to 1.2).
        keep: share of each cropped set that the crop leaves (the paper's s), above 0.5 where both are; 1 for no crop.
        crop: which of the sets is cropped: "both", or "source" (an incomplete one is matched to a complete one) or
            "reference" alone.
        deformation: "random", the smooth one that the next settings describe, or "partner": the reference is drawn from
            the shape's partner, whose rows belong to those of the points (recorded frames of a face, say), or from the
            surface of its counterpart, to which single vertices are matched (two human bodies).
        surface: which sets are drawn evenly over the surface where the partner is one too (the packaged bodies, hands
            and heads): "none", or "reference", the source being vertices in their order (all of them where N is their
            number, so that the shape's faces are the source's), or "both".
        weights: "none" (each point counts once), or "even": source points weigh what they stand for of the surface, as
            :func:`pwan.weights.even_weights` has it; the draws of a surface are even as they are.
        turn: degrees by which the reference is turned, about its mean and an axis of random direction.
        beta: width of the deformation's kernel exp(-d^2 / (2 beta^2)).
        rank: Nystrom rank of the deformation, at most the shape's size.
        deformation_lambda: stiffness; the mean squared displacement is about D / lambda (the released code: 10 for
            noise, 50 for partial problems).
        noise: standard deviation of the normal noise added once to each coordinate of the reference (the paper's text;
            the released code adds it twice, which gives 0.028).
        box: edge of the outliers' box over that of the reference's.
        distance: the problem's distance threshold (the paper's h), or None for none.
        mass_factor: the problem's mass over the true one, (2 keep - 1) N, or keep N where one set is cropped; 1 is the
            paper's choice. The mass is never more than the smaller set (appendix "Parameter selection": what too small
            or too large an m does).

    Raises:
        ValueError: a value out of its range.
    """

    points: int = 500
    voxel: float = 0.0
    outlier_ratio: float = 0.0
    keep: float = 1.0
    crop: Literal["both", "source", "reference"] = "both"
    deformation: Literal["random", "partner"] = "random"
    surface: Literal["none", "reference", "both"] = "none"
    weights: Literal["none", "even"] = "none"
    turn: float = 0.0
    beta: float = 2.0
    rank: int = 100
    deformation_lambda: float = 10.0
    noise: float = 0.02
    box: float = 1.2
    distance: float | None = None
    mass_factor: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("points", "rank", "beta", "deformation_lambda", "box", "distance", "mass_factor"),
            at_least_zero=("voxel", "outlier_ratio", "noise"),
        )
        if self.crop == "both" and not 0.5 < self.keep <= 1:
            raise ValueError(
                f"keep must be above 0.5 and at most 1, got {self.keep}; with less the two crops may share nothing "
                "and the mass (2 keep - 1) N would not be positive (crop=source and crop=reference allow less)"
            )
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep must be above 0 and at most 1, got {self.keep}; it is the share that is left")
        if self.weights == "even" and (self.surface != "reference" or self.crop != "reference"):
            raise ValueError(
                f"weights=even is for a source of vertices that stays whole: surface=reference and crop=reference, got "
                f"surface={self.surface} and crop={self.crop}"
            )
        if self.surface != "none" and (self.deformation != "partner" or self.voxel):
            raise ValueError(
                f"surface={self.surface} needs deformation=partner and voxel=0, got deformation={self.deformation} and "
                f"voxel={self.voxel}; a random deformation draws from the surface by itself"
            )
