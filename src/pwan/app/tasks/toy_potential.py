"""The task behind ``experiment=toy_potential``: 1-D potentials, and the paper's corollaries on their flat regions.

The paper's figure does not name its points, so the sets here are our own, with what the text says of them: the mass
type moves the three leftmost source points to the left, and all others lie in flat regions and stay.

Each corollary is checked on two potentials: a maximiser of the Kantorovich-Rubinstein form found by linear programming
(in 1-D the Lipschitz condition concerns neighbours only), and the one that the network learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from tqdm import tqdm

from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.toy_potential import Settings
from pwan.bench.summary import write_table
from pwan.report.toy_figures import PotentialPanel, draw_potentials
from pwan.transport import TransportProblem, check_problem, exact, neural
from pwan.transport.settings import NeuralSettings

ROUNDING = 1e-9  # of a mass in a plan, as a share of it
GRID = 2001  # positions of a drawn curve
MARGIN = 0.1  # around the points, as a share of their extent
# of what a check may miss: rounding of the linear programme; the network's own error, in units of the points
TOLERANCE = {"exact": 1e-6, "learned": 0.02}


@dataclass(frozen=True)
class LinePotential:
    """A potential on the line, linear between its nodes and level outside of them.

    Attributes:
        nodes: (n,) rising positions.
        values: (n,) of the potential at the nodes.
        threshold: h; no value is below -h.
    """

    nodes: np.ndarray
    values: np.ndarray
    threshold: float

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        return np.interp(positions, self.nodes, self.values)


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    named = problems(settings)  # refuses wrong input before anything is written
    write_config(folder, checked.resolved)
    summary = make_potentials(named, NeuralSettings(updates=settings.updates, seed=checked.cell.seed), folder)
    print(summary.to_string(index=False, float_format=lambda x: f"{x:.4g}", na_rep="-"))
    return 0


def problems(settings: Settings) -> dict[str, TransportProblem]:
    """Name -> problem, the mass type first.

    Raises:
        ValueError: the points, a mass or a distance do not fit, as ``check_problem``.
    """
    x, y = (np.array(getattr(settings, f.name), dtype=float)[:, None] for f in fields(settings)[:2])
    named = {f"L_M,{m:g}": check_problem(x, y, mass=m) for m in settings.masses}
    return named | {f"L_D,{h:g}": check_problem(x, y, distance=h) for h in settings.distances}


def make_potentials(
    named: dict[str, TransportProblem],
    settings: NeuralSettings,
    out_dir: Path,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Find and learn the potentials, check the corollaries, and write tables and the figure into ``out_dir``.

    Files: ``potentials.csv`` (discrepancy, x, exact, learned, gradient of the learned one), ``summary.csv`` and
    ``toy_potential.png`` and ``.pdf``.

    Returns:
        The checks, a line each: discrepancy, potential (exact or learned), check, points (how many it concerns),
        expected, found (the worst of them), tolerance, holds. A check that concerns no point holds.
    """
    learned = _learn(list(named.values()), settings, progress)
    checks, curves, panels = [], [], []
    for (name, problem), result in zip(named.items(), learned, strict=True):
        value, plan = exact.solve(problem, exact.ExactSettings())
        line, lowest, highest = maximiser(problem)
        network = result.potential
        assert network is not None
        x, y = problem.reference[:, 0], problem.source[:, 0]
        span = max(x.max(), y.max()) - min(x.min(), y.min())
        grid = np.linspace(min(x.min(), y.min()) - MARGIN * span, max(x.max(), y.max()) + MARGIN * span, GRID)
        slope = network.gradient(grid[:, None])[:, 0]  # (k,)

        def on_line(positions: np.ndarray, network: neural.Potential = network) -> np.ndarray:
            return network(positions[:, None])

        h = network.threshold * network.scale
        rows = _checks(problem, plan, line, line.threshold, np.diff(line.values) / np.diff(line.nodes))
        rows.append(_check("value of the primal form", 1, value, dual_value(problem, line, line.threshold)))
        checks += [_judge(name, "exact", row) for row in rows]
        rows = _checks(problem, plan, on_line, h, slope)
        rows += _gradient_checks(problem, plan, network, span / GRID)
        rows.append(_check("value of the primal form", 1, value, result.value))
        if problem.mass is not None:
            rows.append(_check("h among those of all maximisers", 1, float(np.clip(h, lowest, highest)), h))
        checks += [_judge(name, "learned", row) for row in rows]
        exact_curve, learned_curve = line(grid), on_line(grid)
        curves.append(
            pd.DataFrame(
                {"discrepancy": name, "x": grid, "exact": exact_curve, "learned": learned_curve, "gradient": slope}
            )
        )
        title = f"{name}: exact value {value:.3f}, learned {result.value:.3f}"
        active = plan.sum(1) > 0, plan.sum(0) > 0
        panels.append(PotentialPanel(title, grid, exact_curve, learned_curve, slope, *active, h))
    write_table(pd.concat(curves), out_dir / "potentials.csv", float_format="%.6g")
    frame = pd.DataFrame(checks)
    write_table(frame, out_dir / "summary.csv", float_format="%.6g")
    draw_potentials(x, y, panels, out_dir / "toy_potential.png")
    return frame


def maximiser(problem: TransportProblem) -> tuple[LinePotential, float, float]:
    """A maximiser of the Kantorovich-Rubinstein form of a 1-D problem, and the least and largest h of all maximisers.

    The variables of the linear programme are f at the points and h, with -h <= f <= 0 and slopes of at most 1 between
    neighbours (paper, Theorems 1 and 2). Where maximisers of the mass type differ in h, the one in the middle is taken.
    """
    positions = np.concatenate([problem.reference, problem.source])[:, 0]  # (q + r,)
    nodes, where = np.unique(positions, return_inverse=True)
    n = len(nodes)
    # the objective as a vector: a at the reference, -b at the source, m - m_b (or -m_b) at h
    gain = np.zeros(n + 1)
    np.add.at(gain, where, np.concatenate([problem.reference_weights, -problem.source_weights]))
    gain[-1] = (problem.mass or 0.0) - problem.source_weights.sum()
    step = sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n + 1))
    bound = sparse.hstack([-sparse.eye_array(n), np.full((n, 1), -1.0)])  # -f - h <= 0
    matrix = sparse.vstack([step, -step, bound]).tocsr()
    limits = np.concatenate([np.diff(nodes), np.diff(nodes), np.zeros(n)])
    h = (problem.distance, problem.distance) if problem.distance is not None else (0.0, np.ptp(positions))

    def best(objective: np.ndarray, threshold: tuple[float, float], least: float | None = None) -> np.ndarray:
        """The (n + 1,) variables that maximise an objective, where the gain is at least ``least``."""
        a, b = (matrix, limits) if least is None else (sparse.vstack([matrix, -gain[None]]), np.append(limits, -least))
        solved = linprog(-objective, A_ub=a, b_ub=b, bounds=[(None, 0.0)] * n + [threshold])
        if not solved.success:
            raise RuntimeError(f"the linear programme of the potential failed: {solved.message}")
        return np.asarray(solved.x)

    value = float(gain @ best(gain, h))
    of_h = np.eye(n + 1)[-1]
    least = value - 1e-9 * max(1.0, abs(value))
    lowest, highest = float(best(-of_h, h, least)[-1]), float(best(of_h, h, least)[-1])
    middle = (lowest + highest) / 2
    values = best(gain, (middle, middle))[:-1]
    return LinePotential(nodes, values, middle), lowest, highest


def dual_value(problem: TransportProblem, f: Callable[[np.ndarray], np.ndarray], h: float) -> float:
    """The Kantorovich-Rubinstein form at a potential with -h <= f <= 0 (paper, Theorems 1 and 2)."""
    x, y = problem.reference[:, 0], problem.source[:, 0]
    gain = problem.reference_weights @ f(x) - problem.source_weights @ f(y)
    return float(gain + h * ((problem.mass or 0.0) - problem.source_weights.sum()))


def _learn(
    given: list[TransportProblem], settings: NeuralSettings, progress: Callable[[int, int], None] | None
) -> list[neural.TransportResult]:
    if progress is not None:
        return neural.solve(given, settings, progress)
    with tqdm(total=settings.updates, desc="potential networks", unit="update", mininterval=0.5) as bar:
        return neural.solve(given, settings, lambda done, _: bar.update(done - bar.n) and None)


def _checks(
    problem: TransportProblem, plan: np.ndarray, f: Callable[[np.ndarray], np.ndarray], h: float, slopes: np.ndarray
) -> list[dict[str, Any]]:
    """What must hold of the values of any maximiser f, whose slopes (k,) were measured somewhere on the line."""
    x, y = problem.reference[:, 0], problem.source[:, 0]
    cost = cdist(problem.reference, problem.source)  # (q, r)
    idle_x = plan.sum(1) < problem.reference_weights * (1 - ROUNDING)  # (q,)
    idle_y = plan.sum(0) < problem.source_weights * (1 - ROUNDING)  # (r,)
    far_x, far_y = cost.min(1) > h, cost.min(0) > h  # (q,), (r,)
    i, j = np.nonzero((plan > 0) & (cost > 0))
    return [
        _check("|f'| at most 1", len(slopes), 1.0, max(1.0, np.abs(slopes).max())),
        _check("f = 0 at reference points with mass left (flatness on inactive mass)", idle_x.sum(), 0.0, f(x[idle_x])),
        _check("f = -h at source points with mass left (flatness on inactive mass)", idle_y.sum(), -h, f(y[idle_y])),
        _check("f = 0 at reference points farther than h (flat region)", far_x.sum(), 0.0, f(x[far_x])),
        _check("f = -h at source points farther than h (flat region)", far_y.sum(), -h, f(y[far_y])),
        _check("f falls by 1 a length between carried pairs", len(i), 1.0, (f(x[i]) - f(y[j])) / cost[i, j]),
    ]


def _gradient_checks(
    problem: TransportProblem, plan: np.ndarray, network: neural.Potential, step: float
) -> list[dict[str, Any]]:
    """Gradients of the learned potential: 0 at discarded points, of norm 1 at carried ones; PWAN climbs f."""
    points = np.concatenate([problem.reference, problem.source])  # (q + r, 1)
    active = np.concatenate([plan.sum(1), plan.sum(0)]) > 0
    i, j = np.nonzero((plan > 0) & (problem.reference != problem.source.T))
    towards = np.sign(problem.reference[i] - problem.source[j])  # (p, 1)
    # measured on the partner's side: the last point that is carried may lie on the edge of a flat region, at a kink
    at_source = network.gradient(problem.source[j] + step * towards) * towards  # (p, 1)
    at_reference = network.gradient(problem.reference[i] - step * towards) * towards  # (p, 1)
    idle = network.gradient(points[~active])[:, 0] if not active.all() else np.empty(0)
    return [
        _check("f' = 0 at discarded points", len(idle), 0.0, idle),
        _check("slope 1 at carried source points, towards the partner", len(j), 1.0, at_source),
        _check("slope -1 at carried reference points, towards the partner", len(i), -1.0, -at_reference),
    ]


def _check(check: str, points: int, expected: float, found: Any) -> dict[str, Any]:
    """A line of the table with the worst of what was found; NaN where it concerns no point."""
    values = np.ravel(found)
    worst = float(values[np.abs(values - expected).argmax()]) if values.size else float("nan")
    return {"check": check, "points": int(points), "expected": expected, "found": worst}


def _judge(discrepancy: str, potential: str, row: dict[str, Any]) -> dict[str, Any]:
    tolerance = TOLERANCE[potential]
    holds = not abs(row["found"] - row["expected"]) > tolerance  # NaN holds: there was nothing to check
    return {"discrepancy": discrepancy, "potential": potential, **row, "tolerance": tolerance, "holds": holds}
