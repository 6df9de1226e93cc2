"""Numbers for claims of the paper that no experiment gives: experiments/README.md says which they answer.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/claims.py theory                  # PWAN_DATA set, for the fish
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/claims.py sets                    # PWAN_DATA set
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/claims.py nothing                 # PWAN_DATA set
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/claims.py cells outputs           # or experiments
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/claims.py training outputs/noise_bunny outputs/partial_bunny

theory: the gradient by the potential against differences of exact values, special cases, seconds of the exact solver.
sets: sizes of the shapes, spacing of the points, overlap that two random crops leave. nothing: how far the source moves
where hardly any mass is to be matched. cells: what the summaries of the experiments noise_<shape> and partial_<shape>
say together. training: the potential at the end, its gradient and the courses of MSE and discrepancy, of the finished
trials of PWAN below a folder.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf
from scipy.spatial import KDTree

from pwan import register, shapes
from pwan.app.results import SOURCE_WORDS
from pwan.choices import ACCURACY_SHAPES
from pwan.problem import mean_squared_error
from pwan.report.looks import in_words
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.transport import partial_wasserstein

LOW = 0.1  # a gradient norm below which a point hardly pulls
BENT = SynthesisSettings(points=1000, deformation_lambda=50.0)  # the partial problems, whole
OVERLAPS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


# theory


def theory(arguments: argparse.Namespace) -> None:
    """Theorems 1 and 2 and the corollary on special cases, on the fish."""
    fish = shapes.load("fish", "paper")
    source, reference = fish.points, fish.partner
    assert reference is not None
    partial_wasserstein(reference, source, mass=25.0)  # loads the solver, which is not to be timed
    for limit in ({"mass": 25.0}, {"mass": 50.0}, {"mass": 78.0}, {"distance": 0.648}, {"distance": 1.09}):
        started = time.perf_counter()
        exact = partial_wasserstein(reference, source, **limit)
        seconds = time.perf_counter() - started
        slope = differences(reference, source, limit, arguments.step)
        learned = partial_wasserstein(reference, source, solver="neural", updates=arguments.updates, **limit)
        assert learned.potential is not None
        found = -learned.potential.gradient(source)
        lengths = np.linalg.norm(found), np.linalg.norm(slope)
        values = [result.value / len(source) for result in (exact, learned)]
        print(
            f"{limit}: exact {values[0]:.4f} in {seconds:.3f} s, learned {values[1]:.4f}; gradient: "
            f"cosine {(slope * found).sum() / np.prod(lengths):.4f}, length {lengths[0] / lengths[1]:.3f}"
        )
    whole, wide = float(len(source)), 100.0
    limits: list[dict[str, float]] = [{}, {"mass": whole}, {"distance": wide}]
    for others in (reference[: len(source)], reference):
        all_of_it, mass, distance = (partial_wasserstein(others, source, **limit).value for limit in limits)
        print(
            f"{len(source)} against {len(others)} points: all matched {all_of_it:.6f}, L_M,{whole:g} {mass:.6f}, "
            f"L_D,{wide:g} + h m {distance + wide * whole:.6f}"
        )


def differences(reference: np.ndarray, source: np.ndarray, limit: dict[str, float], step: float) -> np.ndarray:
    """(r, D) the slope of the exact value at each coordinate of the source, by central differences."""
    slope = np.zeros_like(source)
    for at in np.ndindex(*source.shape):
        ends = []
        for sign in (1, -1):
            moved = source.copy()
            moved[at] += sign * step
            ends.append(partial_wasserstein(reference, moved, **limit).value)
        slope[at] = (ends[0] - ends[1]) / (2 * step)
    return slope


# sets


def sets(arguments: argparse.Namespace) -> None:
    """Sizes, spacings and overlaps of the paper's own shapes."""
    for name in arguments.shapes:
        shape = shapes.load(name, "paper")
        problem = make_problem(shape, BENT, seed=0, trials=range(arguments.trials))
        inside = [nearest(one, one, 2) for one in problem.reference.numpy()]
        between = [
            nearest(truth, one, 1) for truth, one in zip(problem.truth.numpy(), problem.reference.numpy(), strict=True)
        ]
        print(
            f"{name}: {len(shape.points):,} points; 1,000 of them are {np.mean(inside):.3f} apart, and aligned ones "
            f"{np.mean(between):.3f} from the reference"
        )
        for keep in OVERLAPS:
            cropped = replace(BENT, keep=keep)
            share = np.array([partners(shape, cropped, 0, trial)[0].mean() for trial in range(arguments.trials)])
            print(
                f"  keep {keep}: least by the formula {(2 * keep - 1) / keep:.2f}, share of the source with a partner "
                f"{np.median(share):.2f} ({share.min():.2f} to {share.max():.2f})"
            )


def nearest(points: np.ndarray, others: np.ndarray, which: int) -> float:
    """The mean distance to the nearest other point (``which`` 2 leaves out the point itself)."""
    distances, _ = KDTree(others).query(points, k=[which])
    return float(distances.mean())


def partners(shape: shapes.Shape, settings: SynthesisSettings, seed: int, trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Which points of the kept source and of the kept reference have a partner: the nearest point of the other set
    before it was cropped is kept too. Outliers have none."""
    whole, kept = (
        make_problem(shape, replace(settings, noise=0.0, outlier_ratio=0.0, keep=keep), seed=seed, trials=[trial])
        for keep in (1.0, settings.keep)
    )
    assert whole.truth is not None and kept.truth is not None
    truth, reference = kept.truth[0].numpy(), kept.reference[0].numpy()
    of_source = is_kept(truth, whole.reference[0].numpy(), reference)
    of_reference = is_kept(reference, whole.truth[0].numpy(), truth)
    return of_source, np.append(of_reference, np.zeros(round(settings.outlier_ratio * settings.points), dtype=bool))


def is_kept(points: np.ndarray, others: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Whether the other set's nearest point is among those of it that were kept."""
    _, rows = KDTree(others).query(points)
    distances, _ = KDTree(kept).query(others[rows])
    return distances < 1e-9


# nothing


def nothing(arguments: argparse.Namespace) -> None:
    """How far the source moves by an m or h near 0, as the root of the mean square; partial bunnies, keep 0.7."""
    made = replace(BENT, keep=0.7, distance=0.05)
    problem = make_problem(shapes.load("bunny", "paper"), made, seed=0, trials=range(arguments.trials))
    assert problem.truth is not None
    print(f"doing nothing: MSE {float(mean_squared_error(problem.source, problem.truth).median()):.3g}")
    small: dict[str, tuple[str, Sequence[float]]] = {
        "pwan": ("mass", (400.0, 1.0, 0.01)),
        "pwan_distance": ("distance", (0.05, 0.001)),
    }
    for method, (name, values) in small.items():
        for value in values:
            limit: dict[str, Any] = {name: value}
            found = [
                register(source, reference, method=method, refinement="none", **limit).transformed
                for source, reference in zip(problem.source, problem.reference, strict=True)
            ]
            moved = torch.stack([torch.as_tensor(points) for points in found])
            far = mean_squared_error(moved, problem.source).sqrt()
            error = mean_squared_error(moved, problem.truth)
            print(f"{method}, {name} {value:g}: moved {float(far.median()):.3f}, MSE {float(error.median()):.3g}")


# cells


NOISE = {name: f"noise_{name}" for name in ACCURACY_SHAPES}
PARTIAL = {name: f"partial_{name}" for name in ACCURACY_SHAPES}
BASELINES = ("tpsrpm", "gmmreg", "bcpd", "cpd")  # the first is in the noise figure alone


def cells(arguments: argparse.Namespace) -> None:
    """A table of what the accuracy figures' 39 cells say, by their summaries: a column for each source of points."""
    columns = {}
    for source in SOURCE_WORDS:
        noise, partial = (read_cells(arguments.folders, names, source) for names in (NOISE, PARTIAL))
        columns[source] = dict(chain(noise_lines(noise), partial_lines(partial)))
    print(f"| | {' | '.join(SOURCE_WORDS.values())} |\n|---|---|---|")
    for name in columns["packaged"] | columns["paper"]:
        print(f"| {name} | {' | '.join(columns[source].get(name, '') for source in SOURCE_WORDS)} |")


def read_cells(folders: Sequence[str], names: dict[str, str], source: str) -> pd.DataFrame:
    """One row for each method of the cells that have all, indexed by "shape", the swept value and the method."""
    found = []
    for folder, (shape, name) in product(folders, names.items()):
        at = Path(folder) / name
        # results_as_published.csv has the same cells once more, of fewer trials
        kept = (path for path in (at / "results.csv", at / "results_packaged.csv") if path.exists())
        for path in sorted(chain(kept, at.glob("*/summary.csv"))):
            rows = pd.read_csv(path)
            found.append(rows[rows.shape_source == source].assign(shape=shape))
    if not found:
        return pd.DataFrame()
    key = "outlier_ratio" if "noise" in next(iter(names.values())) else "keep"
    rows = pd.concat(found).drop_duplicates(["shape", key, "method"], keep="last")
    rows = rows.set_index(["shape", key, "method"]).sort_index()
    wanted = {"pwan", "soft_assignment", *(BASELINES if key == "outlier_ratio" else ("pwan_distance", *BASELINES[1:]))}
    return rows.groupby(level=[0, 1]).filter(lambda cell: wanted <= set(cell.index.get_level_values(2)))


def of(rows: pd.DataFrame, method: str, column: str = "mse_median") -> pd.Series:
    """One number for each cell."""
    return rows.xs(method, level="method")[column]


def span(numbers: pd.Series, digits: int = 2) -> str:
    """ "0.0024 to 0.0046", or one number."""
    least, most = (f"{float(f'{value:.{digits}g}'):g}" for value in (numbers.min(), numbers.max()))
    return least if least == most else f"{least} to {most}"


def mean_ratio(numbers: pd.Series) -> str:
    return f"{np.exp(np.log(numbers).mean()):.2f} ({span(numbers)})"


def below(ours: pd.Series, rows: pd.DataFrame, baselines: Sequence[str]) -> str:
    """In how many cells ours is below the best baseline."""
    best = pd.concat([of(rows, method) for method in baselines], axis=1).min(axis=1)
    return f"{int((ours < best).sum())} of {len(best)}"


def noise_lines(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    if rows.empty:
        return
    plain, refined = of(rows, "pwan", "mse_unrefined_median"), of(rows, "pwan")
    yield "**among outliers**: cells, trials", f"{len(plain)} of 18, {span(of(rows, 'pwan', 'trials'), 3)}"
    for name, ours in (("before refinement", plain), ("after it", refined)):
        yield f"PWAN's median {name}", span(ours)
        yield f"cells in which PWAN {name} is the lowest of the paper's five methods", below(ours, rows, BASELINES)
        yield f"TPS-RPM's median over PWAN's {name}", mean_ratio(of(rows, "tpsrpm") / ours)
        yield f"soft_assignment's median over PWAN's {name}", mean_ratio(of(rows, "soft_assignment") / ours)
    for method in ("gmmreg", "bcpd", "cpd"):
        ratio = of(rows, method) / plain
        for value in (0.2, 1.2):
            if value in ratio.index.get_level_values(1):
                yield (
                    f"{in_words(method)}'s median over PWAN's before refinement, {value} outliers a point",
                    span(ratio.xs(value, level=1)),
                )
    deviation = of(rows, "tpsrpm", "mse_std") / of(rows, "pwan", "mse_std")
    for shape in NOISE:
        if shape in deviation.index.get_level_values(0):
            of_shape = deviation[shape]
            parts = of_shape[of_shape.index < 0.7], of_shape[of_shape.index > 0.7]
            yield (
                f"TPS-RPM's deviation over PWAN's, {shape}: up to 0.6, from 0.8 on",
                ", ".join(span(part) for part in parts if len(part)),
            )
    yield (
        "worst trial of PWAN, of soft_assignment, of TPS-RPM",
        ", ".join(f"{of(rows, method, 'mse_max').max():.2g}" for method in ("pwan", "soft_assignment", "tpsrpm")),
    )


def partial_lines(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    if rows.empty:
        return
    baselines = BASELINES[1:]
    mass, distance = (of(rows, method, "mse_unrefined_median") for method in ("pwan", "pwan_distance"))
    yield "**parts missing**: cells, trials", f"{len(mass)} of 21, {span(of(rows, 'pwan', 'trials'), 3)}"
    for method, kind in (("pwan", "m-PWAN"), ("pwan_distance", "d-PWAN")):
        for name, column in (("before refinement", "mse_unrefined_median"), ("after it", "mse_median")):
            ours = of(rows, method, column)
            yield f"{kind} {name}: median at keep 0.7; at 1", ends(ours)
            yield f"cells in which {kind} {name} is below the paper's baselines", below(ours, rows, baselines)
    yield "d-PWAN's median over m-PWAN's before refinement", mean_ratio(distance / mass)
    yield "the same after it", mean_ratio(of(rows, "pwan_distance") / of(rows, "pwan"))
    worse = pd.concat([mass, distance], axis=1).max(axis=1)
    best = pd.concat([of(rows, method) for method in baselines], axis=1).min(axis=1)
    yield "best baseline's median over the worse type's before refinement: at 0.7; at 1", ends(best / worse)
    wider = pd.concat([of(rows, method, "mse_std") for method in ("pwan", "pwan_distance")], axis=1).max(axis=1)
    least = pd.concat([of(rows, method, "mse_std") for method in baselines], axis=1).min(axis=1)
    yield "least deviation of a baseline over the larger of both types': at 0.7; at 1", ends(least / wider)
    beyond = {method: of(rows, method) > of(rows, method, "mse_initial_median") for method in baselines}
    yield (
        "cells in which a baseline's median is above doing nothing",
        ", ".join(f"{in_words(method)} {int(above.sum())}" for method, above in beyond.items()),
    )
    for name, ours in (("before refinement", mass), ("after it", of(rows, "pwan"))):
        yield f"soft_assignment's median over m-PWAN's {name}", mean_ratio(of(rows, "soft_assignment") / ours)
    yield (
        "soft_assignment's deviation over m-PWAN's",
        mean_ratio(of(rows, "soft_assignment", "mse_std") / of(rows, "pwan", "mse_std")),
    )


def ends(numbers: pd.Series) -> str:
    """Of the hardest and of the easiest keep ratio, as far as they are there."""
    return "; ".join(
        span(numbers.xs(keep, level=1)) if keep in numbers.index.get_level_values(1) else "-" for keep in (0.7, 1.0)
    )


# training


def training(arguments: argparse.Namespace) -> None:
    """The last potential, and how smoothly MSE and discrepancy fall, of each cell's trials of PWAN."""
    for folder in arguments.folders:
        for kept in sorted(Path(folder).rglob(f"points/{arguments.method}-*")):
            numbers = [trial_numbers(kept, int(path.stem)) for path in sorted(kept.glob("*.npz"))[: arguments.trials]]
            if numbers:
                print(f"{kept.parents[1].name}, {len(numbers)} trials of {arguments.method}, medians:")
                for name in numbers[0]:
                    values = [one[name] for one in numbers]
                    print(f"  {name}: {np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})")


def trial_numbers(kept: Path, trial: int) -> dict[str, float]:
    """What one finished trial says."""
    settings = OmegaConf.to_object(OmegaConf.load(kept.parents[1] / "config.yaml"))
    assert isinstance(settings, dict)
    with np.load(kept / f"{trial}.npz") as file:
        arrays: dict[str, Any] = dict(file)
    return dict(numbers_of(settings, arrays, trial))


def numbers_of(settings: dict[str, Any], arrays: dict[str, Any], trial: int) -> Iterator[tuple[str, float]]:
    made = SynthesisSettings(**settings["problem"])
    shape = shapes.load(settings["shape"]["name"], settings["shape"]["source"])
    source, reference = partners(shape, made, settings["seed"], trial)
    good = np.concatenate([reference, source])
    norm = np.concatenate([arrays["reference_gradient_norm"], arrays["gradient_norm"]])
    mse, loss = arrays["curve_mse"], arrays["history_loss"]
    yield (
        "mean f of the reference less that of the source",
        float(arrays["reference_potential"].mean() - arrays["potential"].mean()),
    )
    for name, these in (("outliers", ~good), ("others", good)):
        if these.any():
            yield f"median |grad f| of the {name}", float(np.median(norm[these]))
    yield (
        f"share of the outliers with |grad f| below {LOW}",
        float((norm[~good] < LOW).mean()) if not good.all() else 1.0,
    )
    yield f"share of the others with |grad f| below {LOW}", float((norm[good] < LOW).mean())
    yield "largest |grad f| at the points, last step", float(norm.max())
    yield "share of the points with |grad f| above 1.05, last step", float((norm > 1.05).mean())
    yield "largest |grad f| at the points, median over the steps", float(np.median(arrays["history_gradient_norm"]))
    yield "largest MSE over the least before it", float((mse / np.minimum.accumulate(mse)).max())
    yield "last MSE over the least", float(mse[-1] / mse.min())
    yield "share of the steps on which the discrepancy rises", float((np.diff(loss) > 0).mean())
    yield "MSE, first over last", float(mse[0] / mse[-1])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    one = kinds.add_parser("theory")
    one.add_argument("--updates", type=int, default=4000)
    one.add_argument("--step", type=float, default=1e-6)
    one.set_defaults(run=theory)
    one = kinds.add_parser("sets")
    one.add_argument("--shapes", nargs="+", default=ACCURACY_SHAPES)
    one.add_argument("--trials", type=int, default=20)
    one.set_defaults(run=sets)
    one = kinds.add_parser("nothing")
    one.add_argument("--trials", type=int, default=5)
    one.set_defaults(run=nothing)
    one = kinds.add_parser("cells")
    one.add_argument("folders", nargs="+")
    one.set_defaults(run=cells)
    one = kinds.add_parser("training")
    one.add_argument("folders", nargs="+")
    one.add_argument("--method", default="pwan")
    one.add_argument("--trials", type=int, default=20)
    one.set_defaults(run=training)
    arguments = parser.parse_args(argv)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
