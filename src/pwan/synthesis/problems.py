"""Making the problems of a cell from a shape and the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pwan.devices.threads import threads
from pwan.problem import RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.shapes import Shape
from pwan.shapes.surface import draw_on_faces, on_faces, sample_surface
from pwan.synthesis.corruption import crop, turn, uniform_outliers
from pwan.synthesis.deformation import random_deformation
from pwan.synthesis.matching import carried_by_matches
from pwan.synthesis.settings import SynthesisSettings
from pwan.synthesis.voxel import voxel_means
from pwan.weights import even_weights


def make_problem(shape: Shape, settings: SynthesisSettings, *, seed: int, trials: Sequence[int]) -> RegistrationProblem:
    """One problem for each trial, as a batch; trial t's problem depends on (seed, t) alone, not on its batch.

    The source is N random points of the shape; the reference is an independent draw of N points, deformed, turned,
    cropped, with noise, then outliers after them (``surface`` says where both are drawn); the truth is where the
    deformation takes the source, free of noise: that of a counterpart is known at matched vertices and continued
    from them (:func:`carried_by_matches`). Each cropped set has a plane of its own. The mass is the overlap on
    average, (2 keep - 1) N with the smaller set's N, or keep N with that of the cropped one where one is, times the
    mass factor, but at most the size of the smaller set as it is registered.

    Returns:
        source and truth (B, round(keep N), D); reference (B, round(keep N) + round(outlier_ratio N), D), N in place of
        round(keep N) for a set that is not cropped; mass (B,); distance (B,) if the settings name one.

    Raises:
        ValueError: no trials, too few points for a registration, more points than a shape without a surface has, a
            shape without what the deformation needs, or trials whose thinned sets differ in size.
    """
    if not trials:
        raise ValueError("trials is empty; name at least one trial")
    with threads(1):  # the same problem to the last bit, however many cores there are
        made = [_make_one(shape, settings, seed, trial) for trial in trials]
    sources, references, truths, masses = zip(*made, strict=True)
    sizes = {(len(source), len(reference)) for source, reference in zip(sources, references, strict=True)}
    if len(sizes) > 1:
        raise ValueError(
            f"one batch needs trials of equal sizes, but the voxel filter left (source, reference) {sorted(sizes)} "
            "points; take the trials one by one (workers=1 or more, not workers=0), or voxel=0"
        )
    return RegistrationProblem(
        source=torch.from_numpy(np.stack(sources)),
        reference=torch.from_numpy(np.stack(references)),
        mass=torch.from_numpy(np.array(masses, dtype=np.float64)),
        distance=None
        if settings.distance is None
        else torch.from_numpy(np.full(len(trials), settings.distance, dtype=np.float64)),
        truth=torch.from_numpy(np.stack(truths)),
        **_of_mesh(shape, settings, sources),
    )


def _of_mesh(shape: Shape, settings: SynthesisSettings, sources: Sequence[np.ndarray]) -> dict[str, Any]:
    """The source's faces and its weights, where it is all vertices of a mesh and the settings ask for weights."""
    if settings.weights == "none":
        return {}
    whole = shape.faces is not None and settings.points == len(shape.points)
    weights = [even_weights(source, shape.faces if whole else None) for source in sources]
    out: dict[str, Any] = {"source_weights": torch.from_numpy(np.stack(weights))}
    if whole:
        out["source_faces"] = torch.from_numpy(np.stack([np.asarray(shape.faces, dtype=np.int64)] * len(sources)))
    return out


def _make_one(
    shape: Shape, settings: SynthesisSettings, seed: int, trial: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Source, reference, truth and mass of one trial."""

    def generator(purpose: str) -> np.random.Generator:
        return numpy_generator(seed, trial, purpose)

    if settings.deformation == "random":
        draw = _deformed
    elif shape.counterpart is not None:
        draw = _two_surfaces
    else:
        draw = _paired_rows
    source, reference, truth = draw(shape, settings, generator)
    if settings.turn:
        reference, truth = turn(settings.turn, generator("turn"), reference, truth)
    sizes = len(source), len(reference)
    kept_source, kept_reference = (round(settings.keep * size) for size in sizes)
    if settings.crop != "reference" and kept_source < sizes[0]:
        rows = crop(source, kept_source, generator("source crop"))
        source, truth = source[rows], truth[rows]
    if settings.crop != "source" and kept_reference < sizes[1]:
        reference = reference[crop(reference, kept_reference, generator("reference crop"))]
    reference = reference + settings.noise * generator("noise").standard_normal(reference.shape)
    outliers = round(settings.outlier_ratio * sizes[1])
    reference = np.concatenate([reference, uniform_outliers(reference, outliers, settings.box, generator("outliers"))])
    if settings.crop == "both":
        overlap = (2 * settings.keep - 1) * min(sizes)
    else:  # all that is left of the cropped set has partners
        overlap = float(kept_source if settings.crop == "source" else kept_reference)
    # rounded, since 0.8 would leave a trace of its binary form
    return source, reference, truth, min(round(settings.mass_factor * overlap, 9), len(source), len(reference))


# The draws: source, reference and truth of one trial before they are cropped.


def _deformed(
    shape: Shape, settings: SynthesisSettings, generator: Callable[[str], np.random.Generator]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    displacement = random_deformation(
        shape.points,
        beta=settings.beta,
        rank=settings.rank,
        deformation_lambda=settings.deformation_lambda,
        centre_generator=generator("deformation landmarks"),
        generator=generator("deformation"),
    )
    (source,) = voxel_means(shape.sample(settings.points, generator("source")), settings.voxel)
    truth = source + displacement(source)
    reference = shape.sample(settings.points, generator("reference"))
    (reference,) = voxel_means(reference + displacement(reference), settings.voxel)
    return source, reference, truth


def _two_surfaces(
    shape: Shape, settings: SynthesisSettings, generator: Callable[[str], np.random.Generator]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    drawn: list[np.ndarray] = []
    matched: list[np.ndarray] = []
    for body, purpose in ((shape, "source"), (shape.counterpart, "reference")):
        if body is None or body.vertices is None or body.faces is None or body.matches is None:
            raise ValueError(f"shape {shape.name}: a pair of shapes needs surfaces and matches in both of them")
        points = sample_surface(body.vertices, body.faces, settings.points, generator(purpose))
        drawn += voxel_means(points, settings.voxel)
        matched.append(body.vertices[body.matches])
    source, reference = drawn
    return source, reference, carried_by_matches(source, *matched)


def _paired_rows(
    shape: Shape, settings: SynthesisSettings, generator: Callable[[str], np.random.Generator]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the shape's points and the same ones of its partner; other rows of the partner as the reference."""
    n, known = settings.points, shape.points
    if shape.partner is None or shape.partner.shape != known.shape:
        raise ValueError(
            "deformation=partner needs a shape whose partner has the same rows, but shape "
            f"{shape.name} ({shape.source}) has none; take deformation=random, or a shape such as body_walk, or "
            "faces_1_2 or humans_18_19 of source=paper"
        )
    if settings.surface != "both" and n > len(known):
        raise ValueError(f"shape {shape.name} has {len(known)} pairs of points, but {n} were asked for")
    if settings.surface != "none":
        return _on_surfaces(shape, shape.partner, settings, generator)
    rows, other_rows = (generator(purpose).choice(len(known), n, replace=False) for purpose in ("source", "reference"))
    source, truth = voxel_means(known[rows], settings.voxel, shape.partner[rows])
    (reference,) = voxel_means(shape.partner[other_rows], settings.voxel)
    return source, reference, truth


def _on_surfaces(
    shape: Shape, partner: np.ndarray, settings: SynthesisSettings, generator: Callable[[str], np.random.Generator]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The reference from the partner's surface; the source from the shape's surface, or vertices of it in order."""
    n, vertices, faces = settings.points, shape.vertices, shape.faces
    if vertices is None or faces is None or vertices.shape != partner.shape:
        raise ValueError(
            f"surface={settings.surface} needs a shape whose partner is a surface with the same faces, but shape "
            f"{shape.name} ({shape.source}) has none; take surface=none, or a shape such as body_walk"
        )
    reference = sample_surface(partner, faces, n, generator("reference"))
    if settings.surface == "both":
        places = draw_on_faces(vertices, faces, n, generator("source"))
        return on_faces(vertices, faces, *places), reference, on_faces(partner, faces, *places)
    rows = np.sort(generator("source").choice(len(vertices), n, replace=False))
    return vertices[rows], reference, partner[rows]
