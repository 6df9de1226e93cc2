"""A registration from problem to result around the solver's steps, whoever drives them (a loop or a Lightning
trainer).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Literal

import torch
from torch import Tensor

from pwan.deformation.kernels import KernelSum
from pwan.deformation.space import on_space
from pwan.devices.ranks import Place
from pwan.normalisation import EXTENT_RATIO, extent, matches_whole_source, normalise
from pwan.problem import (
    FAILED,
    OK,
    Observer,
    Progress,
    RegistrationProblem,
    RegistrationResult,
    SpaceMap,
    check_seeds,
)
from pwan.registration.matched import matched_points
from pwan.registration.potential import FoundPotential
from pwan.registration.presets import resolve, resolve_kind, weigh_the_same
from pwan.registration.refining import refine
from pwan.registration.settings import PwanSettings
from pwan.registration.solver import Solver
from pwan.registration.state import of_problems

CASES = "all of the source matched by a reference as heavy, all by one of another weight, or a part of it"
HISTORY = ("loss", "threshold", "gradient_norm")


class Registration:
    """One batch of problems on its way: normalised, solved step by step, refined, and brought back.

    Attributes:
        solver: takes the steps; see :class:`pwan.registration.solver.Solver`.
        frame: leads back from normalised to input coordinates.
        input: the problem as stated, with the one limit that counts.
        problem: the same, normalised.
    """

    def __init__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        seeds: Sequence[int],
        place: Place | None = None,
    ) -> None:
        """Of several ranks each is given the same problem, and takes every step and finishes with the others."""
        check_seeds(problem, seeds)
        if len(same_case(problem, settings)) > 1:
            raise ValueError(f"one batch here is of one case, {CASES}; pwan.register takes all of them")
        started = time.perf_counter()
        self.seeds, self.place = list(seeds), place
        self.kind, limited = resolve_kind(problem, settings.type)
        self.settings, self.soft = resolve(settings, limited, self.kind)
        self.input = limited
        if self.settings.normalisation == "none":
            _warn_of_unit(limited)
        self.problem, self.frame = normalise(
            limited, self.settings.normalisation, keep_scale=self.settings.transform == "rigid"
        )
        self.solver = Solver(self.problem, self.settings, self.kind, self.seeds, place)
        self._records: list[dict[str, Tensor]] = []
        self.seconds = (time.perf_counter() - started) / len(problem)  # of each problem's share

    def step(self, update_transform: Callable[[], Any] | None = None) -> dict[str, Tensor]:
        """One PWAN step; what it returns is kept for the history. See :meth:`Solver.step`."""
        started = time.perf_counter()
        record = self.solver.step(update_transform)
        self._records.append(record)
        self.seconds += (time.perf_counter() - started) / len(self.input)
        return record

    def leaving(self) -> list[int]:
        """The problems for which nothing is left to do. They are to be finished now, while the network is theirs."""
        if self.solver.steps_done >= self.solver.steps:
            return list(range(len(self.input)))
        return self.solver.at_rest().nonzero().flatten().tolist()

    def part(self, rows: list[int]) -> Registration:
        """Some of the problems as a registration of their own, which goes on from the same step.

        Its numbers keep their bits, but where only some problems of the batch lie in a plane or far from the others.
        """
        part = Registration(self.input.select(rows), self.settings, [self.seeds[k] for k in rows], self.place)
        part.load_state_dict(of_problems(self.state_dict(), rows))
        part.seconds += self.seconds
        return part

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
        t = self.solver.setup.transform
        return self.frame.apply(self.input.source, t.final_affine(p), t.translation(p), t.displacement(p))

    @torch.no_grad()
    def finish(self) -> RegistrationResult:
        """Refine, and bring everything back to input coordinates."""
        started = time.perf_counter()
        solver, transform, answer = self.solver, self.solver.setup.transform, self.solver.answer()
        threshold, transported = solver.evaluate(answer)
        loss = self._records[-1]["loss"].cpu() if self._records else None
        refined, words = refine(solver, self.problem, self.soft, self.seeds, answer, transported, loss)
        transformed, affine, translation, displacement = self.frame.bring_back(
            self.input.source,
            transform.final_affine(refined),
            transform.translation(refined),
            transform.displacement(refined),
        )
        maps = self.space_maps(refined)
        matched, reference_matched = matched_points(transformed, self.input, self.kind, maps)
        history = (
            {name: torch.stack([record[name] for record in self._records]).cpu() for name in HISTORY}
            if self._records
            else {name: self.input.source.new_empty(0, len(self.input)) for name in HISTORY}
        )
        diverged, stopped = solver.diverged_at.tolist(), solver.stopping.stopped_at.tolist()
        steps = [bad or at or solver.steps_done for bad, at in zip(diverged, stopped, strict=True)]
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
                f"diverged at step {bad}: the numbers left the finite or the points their surroundings; the source is "
                "given back where it started; lower rate or network_rate"
                if bad
                else word
                for bad, word in zip(diverged, words, strict=True)
            ],
            steps=steps,
            seconds=[self.seconds + (time.perf_counter() - started) / len(self.input)] * len(self.input),
            potential=[self._potential(k, threshold[k]) for k in range(len(self.input))],
            transform=maps,
            history=[
                {name: values[:last, k].tolist() for name, values in history.items()} for k, last in enumerate(steps)
            ],
        )

    def space_maps(self, parameters: Tensor) -> list[SpaceMap] | None:
        """The transforms with these parameters (B, P, D) as functions on space; None where V is free at each point."""
        setup, transform = self.solver.setup, self.solver.setup.transform
        affine, translation = transform.final_affine(parameters), transform.translation(parameters)
        if transform.kind != "nonrigid":
            return [*on_space(self.frame, affine, translation, [KernelSum.zero(transform.dimension)] * len(affine))]
        if transform.basis is None or setup.coherence is None:
            return None
        bent = setup.coherence.on_space(parameters[:, transform.dimension + 1 :], affine)
        return [*on_space(self.frame, affine, translation, bent)]

    def _potential(self, k: int, threshold: Tensor) -> FoundPotential:
        bound: Literal["fold", "clamp", "none"] = "none" if self.kind == "complete" else self.settings.bound
        centre, scale = self.frame.reference_centre[k], float(self.frame.reference_scale[k])
        return FoundPotential(self.solver.potential(k), centre.clone(), scale, float(threshold), bound)


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    place: Place | None = None,
) -> RegistrationResult:
    """Register a batch of problems with PWAN; see :class:`PwanSettings`, and :class:`Place` for where.

    Problems of which all of the source is to be matched, by a reference as heavy or by another, and problems of which a
    part is have different settings, so a batch that mixes these cases is solved case by case.
    """
    check_seeds(problem, seeds)
    groups = same_case(problem, settings)
    parts: list[list[int]] = []
    results: list[RegistrationResult] = []
    where = problem.source.clone()
    for done, index in enumerate(groups):
        running = Registration(problem.select(index), settings, [seeds[k] for k in index], place)
        while index:
            leaving = running.leaving()
            if not leaving:
                running.step()
                if observer is not None:
                    _tell(observer, running, index, where, done, len(groups))
                continue
            staying = [k for k in range(len(index)) if k not in leaving]
            left = running.part(leaving) if staying else running
            results.append(left.finish())
            parts.append([index[k] for k in leaving])
            where[parts[-1]] = results[-1].transformed
            index = [index[k] for k in staying]
            running = running.part(staying) if staying else running
    return results[0] if len(results) == 1 else merged(parts, results)


def _warn_of_unit(problem: RegistrationProblem) -> None:
    """Warn of references whose RMS radius is far off 1, where nothing scales them."""
    scale = extent(problem.reference, problem.reference_weights)[1].flatten()
    worst = float(scale[int(scale.log().abs().argmax())])
    if not 1 / EXTENT_RATIO <= worst <= EXTENT_RATIO:
        warnings.warn(
            "normalisation=none takes lengths as they are, and PWAN's settings are made for an RMS radius near 1, but "
            f"that of the reference is {worst:.4g}; divide both sets, and a distance, by it, or take "
            "normalisation=joint",
            UserWarning,
            stacklevel=3,
        )


def _tell(observer: Observer, running: Registration, index: list[int], where: Tensor, done: int, groups: int) -> None:
    """Tell the observer of a step; ``where`` holds the problems that are not running, ``index`` numbers those that
    are."""
    solver = running.solver

    def transformed() -> Tensor:
        return where.index_copy(0, torch.tensor(index, dtype=torch.int64, device=where.device), running.transformed())

    observer(Progress(done * solver.steps + solver.steps_done, groups * solver.steps, transformed))


def same_case(problem: RegistrationProblem, settings: PwanSettings) -> list[list[int]]:
    """The numbers of the problems, grouped by what their settings follow from: whether all of the source is to be
    matched, and if so, whether both sets weigh the same."""
    _, limited = resolve_kind(problem, settings.type)
    whole, same = matches_whole_source(limited), weigh_the_same(limited)
    cases = (whole & same, whole & ~same, ~whole)
    return [group for case in cases if (group := case.nonzero().flatten().tolist())]


def merged(groups: list[list[int]], results: list[RegistrationResult]) -> RegistrationResult:
    """The results of groups of problems as one, in the problems' order."""
    order = [k for group in groups for k in group]
    place = [order.index(k) for k in range(len(order))]
    merged: dict[str, Any] = {}
    for f in fields(RegistrationResult):
        values = [getattr(result, f.name) for result in results]
        if values[0] is None:  # settings alone decide on it, so all are
            merged[f.name] = None
        elif isinstance(values[0], Tensor):
            merged[f.name] = torch.cat(values)[place]
        else:
            joined = [value for part in values for value in part]
            merged[f.name] = [joined[k] for k in place]
    return RegistrationResult(**merged)
