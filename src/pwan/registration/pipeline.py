"""A registration from problem to result around the solver's steps, whoever drives them (a loop or a Lightning
trainer).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.normalisation import normalise
from pwan.problem import FAILED, OK, Observer, Progress, RegistrationProblem, RegistrationResult
from pwan.registration.presets import resolve, resolve_kind
from pwan.registration.refinement import NearestSettings, nearest_point, soft_assignment
from pwan.registration.settings import PwanSettings
from pwan.registration.solver import DTYPE, Solver


class Registration:
    """One batch of problems on its way: normalised, solved step by step, refined, and brought back.

    Attributes:
        solver: takes the steps; see :class:`pwan.registration.solver.Solver`.
        history: one dict of lists for each problem, filled by :meth:`step`.
    """

    def __init__(self, problem: RegistrationProblem, settings: PwanSettings, seeds: Sequence[int]) -> None:
        if len(seeds) != len(problem):
            raise ValueError(f"seeds must hold one number for each of the {len(problem)} problems, got {len(seeds)}")
        self.started = time.perf_counter()
        self.seeds = list(seeds)
        self.kind, limited = resolve_kind(problem, settings)
        self.settings, self.soft = resolve(settings, limited, self.kind)
        self.input = limited
        self.problem, self.frame = normalise(limited, self.settings.normalisation)
        self.solver = Solver(self.problem, self.settings, self.kind, self.seeds)
        self._records: list[dict[str, Tensor]] = []

    def step(self, update_transform: Callable[[], Any] | None = None) -> dict[str, Tensor]:
        """One PWAN step; what it returns is kept for the history. See :meth:`Solver.step`."""
        record = self.solver.step(update_transform)
        self._records.append(record)
        return record

    def state_dict(self) -> dict[str, Any]:
        """Everything that a step changes."""
        return {"solver": self.solver.state_dict(), "records": list(self._records)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that :meth:`state_dict` of the same registration gave."""
        self.solver.load_state_dict(state["solver"])
        self._records = list(state["records"])

    def transformed(self, parameters: Tensor | None = None) -> Tensor:
        """(B, r, D) float64 the source moved by these parameters (the current answer if None), in input coordinates."""
        p = self.solver.answer() if parameters is None else parameters
        t = self.solver.transform
        return self.frame.apply(self.input.source, t.affine(p), t.translation(p), t.displacement(p))

    @torch.no_grad()
    def finish(self) -> RegistrationResult:
        """Refine, and bring everything back to input coordinates."""
        transform, answer = self.solver.transform, self.solver.answer()
        refined, words = self._refine(answer)
        affine, translation, displacement = self.frame.transform_to_input(
            transform.affine(refined), transform.translation(refined), transform.displacement(refined)
        )
        transformed = self.transformed(refined)
        # the displacement is what makes the identity of the result hold to rounding even at a far origin
        if transform.kind == "nonrigid":
            displacement = transformed - (self.input.source @ affine + translation)
        matched, reference_matched = matched_points(transformed, self.input)
        diverged = self.solver.diverged.tolist()
        return RegistrationResult(
            transformed=transformed,
            transformed_unrefined=self.transformed(answer),
            affine=affine,
            translation=translation,
            displacement=displacement,
            matched=matched,
            reference_matched=reference_matched,
            status=[FAILED if bad else OK for bad in diverged],
            stop_reason=[
                "the numbers left the finite; the last finite state is given" if bad else word
                for bad, word in zip(diverged, words, strict=True)
            ],
            steps=[at or self.solver.steps_done for at in self.solver.stopped_at.tolist()],
            seconds=[(time.perf_counter() - self.started) / len(self.input)] * len(self.input),
            potential=[self._potential(k) for k in range(len(self.input))],
            history=[
                {name: [float(record[name][k]) for record in self._records] for name in self._records[0]}
                if self._records
                else {}
                for k in range(len(self.input))
            ],
        )

    def _refine(self, answer: Tensor) -> tuple[Tensor, list[str]]:
        s, solver = self.settings, self.solver
        words = [
            f"converged at step {at}" if at else f"took all {solver.steps_done} steps"
            for at in solver.stopped_at.tolist()
        ]
        mass = solver.mass
        if s.refinement == "none":
            return answer, words
        if s.refinement == "nearest":
            assert s.coherence is not None and s.affine_penalty is not None
            nearest = NearestSettings(
                steps=s.nearest_steps,
                rate=s.nearest_rate,
                of=s.nearest_of,
                coherence=s.coherence,
                sigma=s.sigma,
                affine_penalty=s.affine_penalty,
            )
            distance = solver.distance if self.kind == "distance" else None
            refined, said = nearest_point(
                solver.transform, solver.coherence, answer, solver.reference, mass, distance, nearest
            )
            return self._guarded(refined, answer), [
                f"{word}; nearest refinement: {after}" for word, after in zip(words, said, strict=True)
            ]
        if self.kind == "distance":
            mass = solver.transported_mass(answer)  # the refinement keeps as many source points as PWAN matched
        refined = soft_assignment(
            solver.transform, solver.coherence, answer, solver.reference, mass, self.soft, self.seeds
        )
        return self._guarded(refined, answer), words

    def _guarded(self, refined: Tensor, answer: Tensor) -> Tensor:
        good = refined.isfinite().all(-1).all(-1) & ~self.solver.diverged
        return torch.where(good[:, None, None], refined, answer)

    def _potential(self, k: int) -> Callable[[Tensor], Tensor]:
        network, frame, kind, fold = self.solver.network, self.frame, self.kind, self.settings.bound == "fold"
        one = network.only(k)
        centre, scale = frame.reference_centre[k], frame.reference_scale[k]

        def potential(points: Tensor) -> Tensor:
            """f at points (N, D) in input coordinates, in input units: (N,); without the lower bound -h."""
            x = ((torch.as_tensor(points).double() - centre) / scale).to(DTYPE)
            output = one.output(one.features(x[None]))[0].double()
            if kind == "complete":
                return output * scale.flatten()
            return -(output.abs() if fold else output.clamp(min=0.0)) * scale.flatten()

        return potential


def matched_points(transformed: Tensor, problem: RegistrationProblem) -> tuple[Tensor, Tensor]:
    """Which points carry transported mass once the sets are aligned (appendix "Refinement": Nearest(m), or within h).

    Of the mass type the m points nearest to the other set, of the distance type those nearer than h; bool (B, r), (B,
    q).
    """
    out: tuple[list[Tensor], list[Tensor]] = ([], [])
    for k, (y, x) in enumerate(zip(transformed, problem.reference, strict=True)):
        for side, (points, others) in enumerate(((y, x), (x, y))):
            lengths = torch.from_numpy(KDTree(others.numpy()).query(points.numpy())[0])
            if problem.distance is not None:
                out[side].append(lengths < problem.distance[k])
                continue
            mass = min(y.shape[0], x.shape[0]) if problem.mass is None else float(problem.mass[k])
            count = min(len(lengths), -int(-mass // 1))  # a point that counts in part is matched
            flags = torch.zeros(len(lengths), dtype=torch.bool)
            flags[lengths.argsort(stable=True)[:count]] = True
            out[side].append(flags)
    return torch.stack(out[0]), torch.stack(out[1])


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
) -> RegistrationResult:
    """Register a batch of problems with PWAN; see :class:`PwanSettings`."""
    registration = Registration(problem, settings, seeds)
    while not registration.solver.finished:
        registration.step()
        if observer is not None:
            observer(Progress(registration.solver.steps_done, registration.solver.steps, registration.transformed))
    return registration.finish()
