"""Similarities of normalised points, many at once, and their least-squares fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwan.deformation.rigid import nearest_rotation


@dataclass(frozen=True)
class Similarities:
    """K similarities of normalised points: y -> scale y rotation + translation.

    Attributes:
        scale: (K,).
        rotation: (K, D, D).
        translation: (K, D).
    """

    scale: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Similarities:
        return Similarities(self.scale[rows], self.rotation[rows], self.translation[rows])

    def __add__(self, other: Similarities) -> Similarities:
        return Similarities(
            np.concatenate((self.scale, other.scale)),
            np.concatenate((self.rotation, other.rotation)),
            np.concatenate((self.translation, other.translation)),
        )

    def to_all_sides(self, shift: float) -> Similarities:
        """Each of them as it is and shifted along each axis, forth and back: (2 D + 1) K of them."""
        d = self.translation.shape[1]
        shifts = np.concatenate((np.zeros((1, d)), shift * np.eye(d), -shift * np.eye(d)))
        rows = np.repeat(np.arange(len(self.scale)), len(shifts))
        translation = (self.translation[:, None] + shifts).reshape(-1, d)
        return Similarities(self.scale[rows], self.rotation[rows], translation)

    def apply(self, points: np.ndarray) -> np.ndarray:
        """(N, D), or (K, N, D) of each, to (K, N, D)."""
        return self.scale[:, None, None] * (points @ self.rotation) + self.translation[:, None]

    def undo(self, points: np.ndarray) -> np.ndarray:
        """(N, D) to (K, N, D) in the coordinates before."""
        return ((points - self.translation[:, None]) @ self.rotation.swapaxes(1, 2)) / self.scale[:, None, None]


@dataclass(frozen=True)
class NormalisedSets:
    """Two sets, each about its own centre, and what leads back to input coordinates.

    Attributes:
        source: (r, D) about its centre, in units of ``source_unit``.
        reference: (q, D) about its centre, in units of its RMS radius.
        source_centre: (D,) in input units.
        reference_centre: (D,) in input units.
        source_unit: the source's own RMS radius where a scale is sought, else the reference's; in input units.
        reference_radius: the reference's RMS radius, in input units.
    """

    source: np.ndarray
    reference: np.ndarray
    source_centre: np.ndarray
    reference_centre: np.ndarray
    source_unit: float
    reference_radius: float

    @classmethod
    def of(cls, source: np.ndarray, reference: np.ndarray, *, scale: bool) -> NormalisedSets:
        """Of points in input coordinates, (r, D) and (q, D); ``scale``: whether a scale is sought."""
        y_centre, x_centre = source.mean(0), reference.mean(0)
        y_radius, x_radius = (np.sqrt(points.var(0).sum()) for points in (source, reference))
        unit = y_radius if scale else x_radius  # with a scale to be found, both sets have an RMS radius of 1
        return cls((source - y_centre) / unit, (reference - x_centre) / x_radius, y_centre, x_centre, unit, x_radius)

    def as_given(self) -> Similarities:
        """The one similarity that leaves the source where it is in input coordinates."""
        shift = (self.source_centre - self.reference_centre)[None] / self.reference_radius
        return Similarities(np.array([self.source_unit / self.reference_radius]), np.eye(shift.shape[1])[None], shift)

    def in_input_units(self, similarities: Similarities, k: int) -> tuple[float, np.ndarray, np.ndarray]:
        """Scale, rotation (D, D) and translation (D,) in input coordinates of the similarity with number k."""
        scale = float(similarities.scale[k] * self.reference_radius / self.source_unit)
        rotation = similarities.rotation[k]
        shift = self.reference_centre + self.reference_radius * similarities.translation[k]
        return scale, rotation, shift - scale * self.source_centre @ rotation


def procrustes(
    points: np.ndarray,
    goals: np.ndarray,
    weights: np.ndarray,
    *,
    rotation: bool,
    scale: bool,
    least_scale: float | None = None,
    most_scale: float | None = None,
) -> Similarities:
    """The similarities that bring points nearest to their goals in weighted least squares (Umeyama 1991).

    Args:
        points: (K, N, D).
        goals: (K, N, D).
        weights: (K, N).
        rotation: whether to find a rotation; without it there is none. It is never a mirror image.
        scale: whether to find a scale; without it the scale is 1.
        least_scale: the least scale that is allowed; None for any.
        most_scale: the largest scale that is allowed; None for any.
    """
    total = weights.sum(1)[:, None]
    y_mean, x_mean = ((weights[..., None] * p).sum(1) / total for p in (points, goals))
    y, x = points - y_mean[:, None], goals - x_mean[:, None]
    covariance = np.einsum("kn,kni,knj->kij", weights, y, x)
    rotations = nearest_rotation(covariance) if rotation else np.broadcast_to(np.eye(y.shape[2]), covariance.shape)
    scales = np.ones(len(y))
    if scale:
        scales = np.einsum("kij,kij->k", covariance, rotations) / np.einsum("kn,kni->k", weights, y**2)
        if least_scale is not None or most_scale is not None:
            scales = scales.clip(least_scale, most_scale)
    shifts = x_mean - scales[:, None] * np.einsum("ki,kij->kj", y_mean, rotations)
    return Similarities(scales, rotations, shifts)


def angles(rotations: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Degrees between rotations (K, D, D) and one (D, D): (K,)."""
    trace = np.einsum("kij,ij->k", rotations, other)
    cosine = (trace - 1) / 2 if other.shape[0] == 3 else trace / 2
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def in_words(rotation: np.ndarray | None, scale: float | None) -> str:
    """What a start does, for its reason: "turned by 90 degrees, scaled by 2"; "shifted" without a rotation (D, D)."""
    words = "shifted"
    if rotation is not None:
        words = f"turned by {angles(rotation[None], np.eye(len(rotation)))[0]:.0f} degrees"
    return words if scale is None else f"{words}, scaled by {scale:.3g}"
