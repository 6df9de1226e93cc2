"""How a shape may move, chosen by measurement: as a smooth displacement of space, or rigid around each point.

No energy is best for all: the Gaussian kernel's is for heads and for shapes that differ as a whole, the rigid one for
limbs that turn. So a few candidates register few points, each is judged without a truth, and the best one goes on to
all points. Not in the paper.

What tells a right registration from a wrong one, on the packaged pairs that serve for tuning: the points of *both* sets
lie near the other one (a wrong one leaves a limb of the reference alone), and of those that do, the one whose source is
stretched least.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.geodesic import faces_of_each
from pwan.deformation.graph import parted, shape_graph
from pwan.deformation.normals import in_product
from pwan.deformation.spectral import spectral_match
from pwan.problem import OK, Observer, Progress, RegistrationProblem, RegistrationResult
from pwan.registration import coarse, pipeline
from pwan.registration.presets import resolve_kind
from pwan.registration.settings import PwanSettings
from pwan.weights import weighted_median, weighted_quantile

# All were chosen on the packaged bodies, hands and heads that serve for tuning.
FEW = 800  # points of the source that a candidate registers
FEWEST = 300  # of either set: fewer do not show how a shape goes on, and the Gaussian kernel is taken
QUANTILE = 0.95  # of the matched points, whose distances are judged
# Within so many spacings both sets lie near each other, up to such a |log| of lengths between neighbours: no other
# candidate is tried after the Gaussian kernel, and after the rigid energy, by which lengths follow the sets' noise.
CLEAR_SMOOTH = (2.6, 0.12)
CLEAR_RIGID = (2.4, 0.33)
TORN = 0.65  # |log| of lengths: who stretches more is taken only where all do; right results were below .52
STRETCHED = 3000  # points at most whose neighbours' lengths are compared
SAME_DISTANCE = 0.35  # spacings by which a candidate may be farther than the nearest one and still be judged by stretch
FROM_GUESS = 30  # steps of the first stage for all points, which begin where the few have led
SMOOTH = "the Gaussian kernel"
RIGID = "the rigid energy"
GEODESIC = "the geodesic kernel"
ALONG: dict[str, Any] = {"kernel": "geodesic", "normalisation": "joint"}  # settings of its candidate
TURNING: dict[str, Any] = {"energy": "rigid", **ALONG}  # of the candidates by the rigid energy
LED = f"{RIGID} led by "
LED_RATE = 0.03  # of those that begin where something else has led, and shall not leave it
PARTS = 6  # registrations that an observer is told of: five of few points at most, and that of all


@dataclass(frozen=True)
class Fit:
    """How well a registration of few points fits, without a truth.

    Attributes:
        source: the distance within which 95% of the matched source points have a reference point, in spacings of the
            reference.
        reference: the same of the matched reference points and the moved source.
        stretch: the 95% quantile of |log| of how the lengths between neighbours of the source changed, beside what all
            of them did.
    """

    source: float
    reference: float
    stretch: float

    @property
    def distance(self) -> float:
        """The larger one of both sets' distances, since a set that lies near a part of the other one does not fit."""
        return max(self.source, self.reference)


def measure_fit(
    source: np.ndarray,
    moved: np.ndarray,
    reference: np.ndarray,
    mass: float | tuple[float, float],
    source_weights: np.ndarray | None = None,
    reference_weights: np.ndarray | None = None,
    edges: np.ndarray | None = None,
) -> Fit:
    """How source points (r, D), moved to (r, D), fit the reference (q, D) of which ``mass`` points are matched, or as
    many of each set; of weights (r,) and (q,), where they have some, by which all is counted. Both sets may have
    attributes behind.
    Lengths are compared along ``edges`` (F, 3) of the source, and else between near neighbours."""
    tree = KDTree(reference)
    places, place = np.unique(reference, axis=0, return_inverse=True)  # a mesh may repeat its vertices
    spacings = KDTree(places).query(places, 2)[0][place.reshape(-1), 1]
    spacing = max(weighted_median(spacings, reference_weights), np.finfo(np.float64).tiny)
    to_reference, to_source = tree.query(moved)[0], KDTree(moved).query(reference)[0]
    near = []
    masses = mass if isinstance(mass, tuple) else (mass, mass)
    for lengths, weights, due in zip(
        (to_reference, to_source), (source_weights, reference_weights), masses, strict=True
    ):
        total = len(lengths) if weights is None else float(weights.sum())
        near.append(weighted_quantile(lengths, weights, min(1.0, QUANTILE * due / total)) / spacing)
    return Fit(near[0], near[1], _stretch(source, moved[:, : source.shape[1]], edges))


def _stretch(source: np.ndarray, moved: np.ndarray, faces: np.ndarray | None) -> float:
    """See :class:`Fit`; of very many points without edges some."""
    if faces is None:
        rows = np.linspace(0, len(source) - 1, min(len(source), STRETCHED)).round().astype(np.int64)
        source, moved = source[rows], moved[rows]
    edges = shape_graph(source, faces).tocoo()
    before, after = (np.linalg.norm(x[edges.row] - x[edges.col], axis=1) for x in (source, moved))
    apart = (before > 0) & (after > 0)
    change = np.log(after[apart] / before[apart])
    return float(np.quantile(np.abs(change - np.median(change)), QUANTILE)) if len(change) else 0.0


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    drive: coarse.Drive = pipeline.register,
) -> RegistrationResult:
    """As :func:`pwan.registration.coarse.register`; with ``flexibility="auto"``, with the kernel that fits best.

    Each problem of a batch chooses for itself. The result's ``choice`` says what was chosen, and why.
    """
    given = replace(settings, flexibility="given")
    if settings.flexibility == "given":
        return coarse.register(problem, given, seeds=seeds, observer=observer, drive=drive)
    kind, limited = resolve_kind(problem, settings.type)
    if kind == "distance":  # whose matched points follow from the fit itself
        return coarse.register(problem, given, seeds=seeds, observer=observer, drive=drive)
    results = [
        _register_one(limited.select([k]), settings, [seed], _of_one(observer, problem, k), drive)
        for k, seed in enumerate(seeds)
    ]
    return results[0] if len(results) == 1 else pipeline.merged([[k] for k in range(len(results))], results)


def chosen_options(options: Mapping[str, Any], choice: str) -> dict[str, Any]:
    """The options of a registration that chose for itself, as all points were registered, from its ``choice``."""
    given = {**options, "flexibility": "given", "kernel": "gaussian", "energy": "bending"}
    if not choice.startswith((RIGID, GEODESIC)):
        return given
    chosen = dict(TURNING if choice.startswith(RIGID) else ALONG)
    if choice.startswith(LED):
        chosen |= _led(options.get("rate"), 0.0)  # the stiffness follows
    return {**given, **chosen, **_from_guess(options.get("steps"), options.get("stiffness", PwanSettings.stiffness))}


def _from_guess(steps: int | None, stiffness: float) -> dict[str, Any]:
    """Settings of all points, which the few have led near: they need not be stiff first."""
    return {"steps": steps or FROM_GUESS, "stiffness_start": stiffness}


def _register_one(
    problem: RegistrationProblem,
    settings: PwanSettings,
    seeds: list[int],
    observer: Observer | None,
    drive: coarse.Drive,
) -> RegistrationResult:
    started = time.perf_counter()
    search = _Search(problem, replace(settings, flexibility="given"), seeds, observer, drive)
    best = search.best()
    words = f"{best.name} fits best: " + "; ".join(
        f"{of.name}: within {of.fit.distance:.2g} spacings, lengths changed by {np.expm1(of.fit.stretch):.0%}"
        for of in search.tried
    )
    chosen = best.settings
    if best.name != SMOOTH and best.result.transform is not None:
        there = best.result.transform[0](problem.source[0])
        problem = replace(_parted(problem, there) if best.parted else problem, guess=there[None])
        chosen = replace(chosen, **_from_guess(settings.steps, settings.stiffness))
    last = _part(observer, problem, PARTS - 1)
    own = time.perf_counter() - started
    if best.name == SMOOTH and search.of_all():
        if last is not None:
            last(Progress(best.result.steps[0], best.result.steps[0], lambda: best.result.transformed))
        return replace(best.result, seconds=[own], choice=[words])
    result = coarse.register(problem, chosen, seeds=seeds, observer=last, drive=drive)
    return replace(result, seconds=[result.seconds[0] + own], choice=[words])


@dataclass(frozen=True)
class _Candidate:
    """A registration of few points, and how it fits; ``parted`` where its source's graph lost its bridges."""

    name: str
    settings: PwanSettings
    result: RegistrationResult
    fit: Fit
    parted: bool


class _Search:
    """Candidates of one problem, one after the other until one is clear."""

    def __init__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        seeds: list[int],
        observer: Observer | None,
        drive: coarse.Drive,
    ) -> None:
        self.problem, self.seeds, self.observer, self.drive = problem, seeds, observer, drive
        self.smooth = replace(settings, kernel="gaussian", energy="bending")
        self.turning = replace(self.smooth, **TURNING)
        self.few = coarse.sampled(problem, seeds, FEW)
        # complete transport matches all
        self.mass = float(self.few.source_total if self.few.mass is None else self.few.mass[0])
        self.tried: list[_Candidate] = []

    def best(self) -> _Candidate:
        """Of those that lie about as near as the nearest the one that is stretched least; a torn one only where all
        are."""
        self._try_all()
        whole = [one for one in self.tried if one.fit.stretch <= TORN] or self.tried
        least = min(one.fit.distance for one in whole)
        return min((one for one in whole if one.fit.distance <= least + SAME_DISTANCE), key=lambda one: one.fit.stretch)

    def of_all(self) -> bool:
        """Whether the candidates are registrations of all points already, by all of the settings."""
        some = self.smooth.coarse_steps or self.smooth.sample or self.smooth.sample_first
        sizes = [(of.source.shape[1], of.reference.shape[1]) for of in (self.few, self.problem)]
        return not some and sizes[0] == sizes[1]

    def _try_all(self) -> None:
        if _clear(self._try(SMOOTH, self.smooth).fit, *CLEAR_SMOOTH):
            return
        if min(self.problem.source.shape[1], self.problem.reference.shape[1]) < FEWEST:
            return
        rigid = self._try(RIGID, self.turning)
        if _clear(rigid.fit, *CLEAR_RIGID):
            return
        self._try(GEODESIC, replace(self.smooth, **ALONG))
        if self.mass < QUANTILE * float(self.few.source_total.maximum(self.few.reference_total)):
            return  # a part of a shape has other slow functions, and its way back leads nowhere
        running = pipeline.Registration(self.few, self.turning, self.seeds)
        turned = self.drive(coarse.turned_round(self.few, [running]), self.turning, seeds=self.seeds)
        back, there = coarse.way_back(running, turned), coarse.way_there(running, rigid.result)
        if back is not None:
            plan = torch.from_numpy(back.plan)
            partner = plan.argmax(0)
            few = _parted(self.few, self.few.reference[0][partner])  # a hand that lies at a hip is led away from it
            self._led("the reference's way back", few, partner, plan.sum(0))
        if there is not None:
            few = self.few
            source, reference = _graph(few.source, few.source_faces), _graph(few.reference, few.reference_faces)
            plan = torch.from_numpy(there.plan)
            partner = torch.from_numpy(spectral_match(source, reference, plan.argmax(0).numpy()))
            self._led("the shapes' slow functions", few, partner, plan.sum(0))

    def _led(self, by: str, few: RegistrationProblem, partner: Tensor, weights: Tensor) -> None:
        """Tries the rigid energy from where the points' partners (r,) of weights (r,) lead. It is loose at once: stiff
        it would leave the guess."""
        there = coarse.led(pipeline.Registration(few, self.turning, self.seeds), partner, weights)(few.source[0])
        loose = replace(self.turning, **_led(self.turning.rate, self.turning.stiffness))
        self._try(f"{LED}{by}", loose, replace(few, guess=there[None]))

    def _try(self, name: str, settings: PwanSettings, problem: RegistrationProblem | None = None) -> _Candidate:
        few, given = self.few, problem or self.few
        part = _part(self.observer, self.problem, len(self.tried))
        result = self.drive(given, replace(settings, sample=0, sample_first=0), seeds=self.seeds, observer=part)
        there, staying = in_product(few, result.transformed, result.transform)
        y, moved, x = (points[0].numpy() for points in (few.source, there, staying))
        a, b = (None if weights is None else weights[0].numpy() for weights in few.masses)
        edges = None if given.source_faces is few.source_faces else given.source_faces
        fit = measure_fit(y, moved, x, self.mass, b, a, None if edges is None else edges[0].numpy())
        if result.status[0] != OK:
            fit = Fit(np.inf, np.inf, np.inf)
        self.tried.append(_Candidate(name, settings, result, fit, edges is not None))
        return self.tried[-1]


def _led(rate: float | None, stiffness: float) -> dict[str, Any]:
    return {"stiffness_start": stiffness, "rate": rate or LED_RATE}


def _graph(points: Tensor, faces: Tensor | None) -> csr_array:
    return shape_graph(points[0].numpy(), *faces_of_each(faces, 1))


def _parted(problem: RegistrationProblem, moved: Tensor) -> RegistrationProblem:
    """The one problem with its source's edges, without those that bridge parts which ``moved`` (r, D) takes apart."""
    (faces,) = faces_of_each(problem.source_faces, 1)
    edges = parted(problem.source[0].numpy(), faces, moved.numpy())
    return replace(problem, source_faces=torch.from_numpy(edges)[None])


def _clear(fit: Fit, distance: float, stretch: float) -> bool:
    return fit.distance <= distance and fit.stretch <= stretch


def _of_one(observer: Observer | None, problem: RegistrationProblem, k: int) -> Observer | None:
    """Tells the observer of problem k of a batch, whose others stay where they are."""
    if observer is None or len(problem) == 1:
        return observer

    def of_all(progress: Progress) -> None:
        def transformed() -> Tensor:
            return problem.source.index_copy(
                0, torch.tensor([k], dtype=torch.int64, device=problem.source.device), progress.transformed()
            )

        steps = progress.steps * len(problem)
        observer(replace(progress, step=k * progress.steps + progress.step, steps=steps, transformed=transformed))

    return of_all


def _part(observer: Observer | None, problem: RegistrationProblem, number: int) -> Observer | None:
    """Tells of one of the registrations as a part of the whole; while few points are registered, all stay."""
    if observer is None:
        return None

    def of_whole(progress: Progress) -> None:
        last = number == PARTS - 1
        moved = progress.transformed if last else lambda: problem.source
        step = number * progress.steps + progress.step
        observer(Progress(step, PARTS * progress.steps, moved, before=(PARTS - 1) * progress.steps))

    return of_whole
