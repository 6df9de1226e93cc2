"""The task behind ``experiment=toy_correspondence``: which pairs L_M,6 and L_D,0.9 carry in a small example.

The paper's figure names neither its points nor their number, so the sets here are our own: random points in two
rectangles that overlap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.toy_correspondence import Settings
from pwan.bench.summary import write_table
from pwan.randomness import numpy_generator
from pwan.report.toy_figures import CorrespondencePanel, draw_correspondences
from pwan.transport import check_problem, partial_wasserstein

NAN = float("nan")


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    reference, source = sets(settings, checked.cell.seed)
    for given in ({"mass": settings.mass}, {"distance": settings.distance}):  # refused before anything is written
        check_problem(reference, source, **given)
    write_config(folder, checked.resolved)
    summary = make_correspondences(reference, source, settings, folder)
    print(summary.to_string(index=False, float_format=lambda x: f"{x:.4f}", na_rep="-"))
    return 0


def sets(settings: Settings, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The reference (q, 2) and the source (r, 2): uniform in two rectangles of equal size, one shifted."""
    size = np.array([settings.width, settings.height])
    reference = numpy_generator(seed, "toy_correspondence", "reference").random((settings.reference_points, 2)) * size
    source = numpy_generator(seed, "toy_correspondence", "source").random((settings.source_points, 2)) * size
    return reference, source + np.array(settings.shift)


def make_correspondences(reference: np.ndarray, source: np.ndarray, settings: Settings, out_dir: Path) -> pd.DataFrame:
    """Compute both correspondences and write them into ``out_dir``.

    Files: ``pairs.csv`` (a line for each pair that carries mass: discrepancy, reference, source, distance, mass),
    ``summary.csv`` and ``toy_correspondence.png`` and ``.pdf``.

    The last line of the summary is the paper's remark on Lagrange duality: L_D,h* at the threshold that belongs to m
    carries the same mass at the same cost as L_M,m.

    Returns:
        The summary, a line for each discrepancy: discrepancy, value, carried (mass), longest (distance of a pair that
        carries mass) and shortest_left_out (distance between points that both keep mass; no pair of L_D,h may have
        less than h there).
    """
    by_mass, by_distance = f"L_M,{settings.mass:g}", f"L_D,{settings.distance:g}"
    threshold = dual_threshold(reference, source, settings.mass)
    results = {
        by_mass: partial_wasserstein(reference, source, mass=settings.mass),
        by_distance: partial_wasserstein(reference, source, distance=settings.distance),
    }
    if threshold is not None:
        results[f"L_D,{threshold:.4g} (h*)"] = partial_wasserstein(reference, source, distance=threshold)
    cost = cdist(reference, source)  # (q, r)
    plans = {name: result.plan for name, result in results.items() if result.plan is not None}
    pairs = [line for name, plan in plans.items() for line in _pairs(name, plan, cost)]
    write_table(
        pd.DataFrame(pairs, columns=["discrepancy", "reference", "source", "distance", "mass"]),
        out_dir / "pairs.csv",
        float_format="%.6g",
    )
    summary = pd.DataFrame([_summary(name, results[name].value, plan, cost) for name, plan in plans.items()])
    write_table(summary, out_dir / "summary.csv", float_format="%.6g")
    panels = [
        CorrespondencePanel(
            f"{name}: {plans[name].sum():g} pairs, longest {_longest(plans[name], cost):.2f}", plans[name]
        )
        for name in (by_mass, by_distance)
    ]
    draw_correspondences(reference, source, panels, out_dir / "toy_correspondence.png")
    return summary


def dual_threshold(reference: np.ndarray, source: np.ndarray, mass: float) -> float | None:
    """The h* at which L_D,h* carries the mass m: the middle of the slopes of L_M,m by m on both sides of m.

    None for a mass that is not a whole number, or of all points: there the slope has no two sides of width 1, or no
    upper one.
    """
    if mass != round(mass) or mass >= min(len(reference), len(source)):
        return None
    less, exactly, more = (
        partial_wasserstein(reference, source, mass=m).value if m > 0 else 0.0 for m in (mass - 1, mass, mass + 1)
    )
    return (more - less) / 2 if more - exactly > exactly - less else None


def _pairs(name: str, plan: np.ndarray, cost: np.ndarray) -> list[dict[str, Any]]:
    return [
        {"discrepancy": name, "reference": int(i), "source": int(j), "distance": cost[i, j], "mass": plan[i, j]}
        for i, j in zip(*np.nonzero(plan), strict=True)
    ]


def _summary(name: str, value: float, plan: np.ndarray, cost: np.ndarray) -> dict[str, Any]:
    free_reference, free_source = plan.sum(1) < 1, plan.sum(0) < 1  # (q,), (r,)
    left_out = cost[free_reference][:, free_source]
    return {
        "discrepancy": name,
        "value": value,
        "carried": plan.sum(),
        "longest": _longest(plan, cost),
        "shortest_left_out": left_out.min() if left_out.size else NAN,
    }


def _longest(plan: np.ndarray, cost: np.ndarray) -> float:
    return float(cost[plan > 0].max()) if (plan > 0).any() else NAN
