"""The task behind ``experiment=fish_precision``: the paper's table of exact and learned partial Wasserstein values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from pwan import shapes
from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.precision import Settings
from pwan.bench.summary import write_table
from pwan.choices import Kind
from pwan.problem import RegistrationProblem
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PaperSettings
from pwan.report.precision_figure import PrecisionPanel, draw_learning, draw_precision
from pwan.report.published import PRECISION
from pwan.shapes import Shape
from pwan.transport import TransportProblem, TransportResult, check_problem, exact, neural

NAN = float("nan")
LOOK = 10  # steps of the paper's network from one point of its curve to the next


@dataclass(frozen=True)
class Quantity:
    """One line of the table.

    Attributes:
        name: such as L_M,25.
        problem: the transport problem.
        divisor: what its value is divided by.
    """

    name: str
    problem: TransportProblem
    divisor: float


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    if settings.seed != Settings().seed:
        raise ValueError(f"options.seed is not read; the seed of every task is seed=, here seed={settings.seed}")
    shape = shapes.load(checked.cell.shape, checked.cell.shape_source)
    _quantities(shape)  # refuses a shape that does not fit before anything is written
    write_config(folder, checked.resolved)
    frame = make_table(shape, folder, settings=replace(settings, seed=checked.cell.seed))
    print(frame.drop(columns="note").to_string(index=False, float_format=lambda x: f"{x:.4f}", na_rep="-"))
    print("\n".join(filter(None, frame["note"])))
    return 0


def make_table(
    shape: Shape,
    out_dir: Path,
    *,
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Make the precision table and its figures: ``summary.csv``, ``precision.png``, and with the paper's network
    ``paper_network.csv`` and ``paper_network.png``, in ``out_dir``.

    Args:
        shape: a 2-D shape with a partner: ``points`` is the source, ``partner`` the reference.
        out_dir: an existing folder.
        settings: of the neural solver and of the paper's network.
        progress: called after each update of the neural solver with the updates done and of all; progress bars when not
            given.

    Returns:
        A row for each value: quantity, exact, neural, lower_bound (of the exact value, see ``TransportResult``),
        relative_error (of neural, unsigned), paper_network (mean over the seeds, NaN without it) with its
        paper_network_deviation and its largest paper_network_gradient_norm, published_true, published_neural, seconds
        (of the neural value), note.
        Values are divided by the number of source points as in the paper, W1 is not (its weights sum to 1).

    Raises:
        ValueError: the shape is not 2-D or has no partner.
    """
    quantities = _quantities(shape)
    problems = [quantity.problem for quantity in quantities]
    solved = [exact.solve(problem, exact.ExactSettings()) for problem in problems]
    start = time.perf_counter()
    learned = _learn(problems, settings, progress)
    seconds = (time.perf_counter() - start) / len(problems)
    curves = _paper_curves(quantities, settings, quiet=progress is not None)
    frame = pd.DataFrame(
        [
            _row(quantity, value, result, curves, seconds, shape)
            for quantity, (value, _), result in zip(quantities, solved, learned, strict=True)
        ]
    )
    write_table(frame, out_dir / "summary.csv")
    if len(curves):
        write_table(curves, out_dir / "paper_network.csv")
        exact_values = dict(zip(frame["quantity"], frame["exact"], strict=True))
        draw_learning(curves, exact_values, _learning_title(shape, settings), out_dir / "paper_network.png")
    error = frame["relative_error"][frame["quantity"] != "W1"].mean()
    drawn = [
        i for i, quantity in enumerate(quantities) if quantity.problem.mass is not None
    ]  # the paper's four columns
    assert shape.partner is not None
    draw_precision(
        shape.partner,
        shape.points,
        [
            PrecisionPanel(_title(frame.iloc[i]), plan=solved[i][1], potential=potential)
            for i in drawn
            if (potential := learned[i].potential) is not None
        ],
        f"{shape.name} ({shape.source}): mean relative error of the six partial values {error:.2%}\n{_w1_note(shape)}",
        out_dir / "precision.png",
    )
    return frame


def _quantities(shape: Shape) -> list[Quantity]:
    """The seven values: the paper's own for its fish, else the like ones for the shape at hand."""
    source, reference = shape.points, shape.partner
    if reference is None or source.shape[1] != 2:
        raise ValueError(
            f"the precision table needs a 2-D shape with a partner, but shape {shape.name} is {source.shape[1]}-D "
            f"{'without' if reference is None else 'with'} a partner; take shape=fish"
        )
    q, r = len(reference), len(source)
    masses, distances = ([25.0, 50.0, 78.0], [0.648, 1.09, 5.0]) if _is_papers(shape) else _like_the_papers(shape)
    uniform = check_problem(reference, source, None, None, np.full(q, 1 / q), np.full(r, 1 / r))
    return [
        *(Quantity(f"L_M,{m:g}", check_problem(reference, source, m, None), r) for m in masses),
        *(Quantity(f"L_D,{h:.4g}", check_problem(reference, source, None, h), r) for h in distances),
        Quantity("W1", uniform, 1.0),
    ]


def _like_the_papers(shape: Shape) -> tuple[list[float], list[float]]:
    """The paper's shares of the smaller set, the thresholds h that carry these masses, and one that carries all.

    At the threshold that belongs to m the derivative of L_M,m by m is h (Lagrange duality).
    """
    source, reference = shape.points, np.asarray(shape.partner)
    n = min(len(source), len(reference))
    masses = [float(max(1, round(n * share))) for share in (25 / 78, 50 / 78, 1.0)]

    def cost(mass: float) -> float:
        return exact.solve(check_problem(reference, source, mass), exact.ExactSettings())[0]

    thresholds = [cost(m) - cost(m - 1) if m > 1 else cost(m) for m in masses[:2]]
    everything = np.concatenate([source, reference])
    diagonal = float(np.linalg.norm(np.ptp(everything, axis=0)))
    return masses, [h for h in thresholds if h > 0] + [2 * diagonal]


def _learn(
    problems: list[TransportProblem], options: Settings, progress: Callable[[int, int], None] | None
) -> list[TransportResult]:
    if progress is not None:
        return neural.solve(problems, options, progress)
    with tqdm(total=options.updates, desc="potential networks", unit="update", mininterval=0.5) as bar:
        return neural.solve(problems, options, lambda done, _: bar.update(done - bar.n) and None)


def _paper_curves(quantities: list[Quantity], settings: Settings, *, quiet: bool) -> pd.DataFrame:
    """What the paper's network learns while the source stays where it is.

    Returns:
        A row for each ``LOOK`` steps of each network: quantity, seed, updates (so far), value, and gradient_norm, the
        largest one of its output at the points. No rows without steps.
    """
    rows: list[dict[str, Any]] = []
    if settings.paper_steps:
        steps = len(quantities) * settings.paper_steps
        with tqdm(total=steps, desc="the paper's network", unit="step", disable=quiet) as bar:
            for quantity in quantities:
                rows += _paper_curve(quantity, settings, bar)
    return pd.DataFrame(rows, columns=["quantity", "seed", "updates", "value", "gradient_norm"])


def _paper_curve(quantity: Quantity, settings: Settings, bar: tqdm[Any]) -> list[dict[str, Any]]:
    """The rows of one quantity, see :func:`_paper_curves`."""
    rows: list[dict[str, Any]] = []
    learning = _paper_registration(quantity, settings)
    for step in range(1, settings.paper_steps + 1):
        found = learning.step(update_transform=lambda: None)  # the transform stays the identity
        bar.update()
        if step % LOOK == 0 or step == settings.paper_steps:
            done = {"quantity": quantity.name, "updates": step * learning.settings.updates}
            each = zip(learning.seeds, found["loss"].tolist(), found["gradient_norm"].tolist(), strict=True)
            rows += [{**done, "seed": seed, "value": value, "gradient_norm": norm} for seed, value, norm in each]
    return rows


def _paper_registration(quantity: Quantity, settings: Settings) -> Registration:
    """PWAN as released, about to learn the potential of the quantity, in the points' own units; one for each seed."""
    problem, seeds = quantity.problem, list(range(settings.seed, settings.seed + settings.paper_seeds))
    # W1 carries all of both sets, which is the complete type; its weights are equal, and losses are over the source's
    kind: Kind = "distance" if problem.distance is not None else "complete" if quantity.divisor == 1.0 else "mass"

    def for_each(value: Any) -> Tensor:
        return torch.from_numpy(np.array([value] * len(seeds)))

    batch = RegistrationProblem(
        source=for_each(problem.source),
        reference=for_each(problem.reference),
        mass=for_each(problem.mass) if kind == "mass" else None,
        distance=for_each(problem.distance) if kind == "distance" else None,
    )
    released = PaperSettings(
        type=kind,
        transform="affine",  # of which nothing moves: the smallest
        normalisation="none",
        penalty_every=settings.paper_penalty_every,
        steps=settings.paper_steps,
    )
    return Registration(batch, released, seeds)


def _row(
    quantity: Quantity, value: float, result: TransportResult, curves: pd.DataFrame, seconds: float, shape: Shape
) -> dict[str, Any]:
    true, network = PRECISION[quantity.name] if _is_papers(shape) else (NAN, NAN)
    assert result.lower_bound is not None
    curve = curves[curves["quantity"] == quantity.name]
    last = curve[curve["updates"] == curve["updates"].max()]
    return {
        "quantity": quantity.name,
        "exact": value / quantity.divisor,
        "neural": result.value / quantity.divisor,
        "lower_bound": result.lower_bound / quantity.divisor,
        "relative_error": abs(result.value - value) / abs(value) if value else NAN,
        "paper_network": last["value"].mean(),
        "paper_network_deviation": last["value"].std(ddof=0),
        "paper_network_gradient_norm": last["gradient_norm"].max(),
        "published_true": true,
        "published_neural": network,
        "seconds": seconds,
        "note": _w1_note(shape) if quantity.name == "W1" else "",
    }


def _learning_title(shape: Shape, settings: Settings) -> str:
    every = settings.paper_penalty_every
    taken = {0: f"the first of {PaperSettings().updates} updates", 1: "every update"}.get(
        every, f"one update in {every}"
    )
    return f"{shape.name} ({shape.source}): the paper's network, {settings.paper_seeds} seeds, penalty on {taken}"


def _title(row: pd.Series) -> str:
    return f"{row['quantity']}: exact {row['exact']:.4f}, neural {row['neural']:.4f}"


def _is_papers(shape: Shape) -> bool:
    return shape.name == "fish" and shape.source.startswith("paper")


def _w1_note(shape: Shape) -> str:
    assert shape.partner is not None
    note = f"W1: weights 1/{len(shape.partner)} (reference) and 1/{len(shape.points)} (source)"
    return note + ("; the paper's 1.0835 was not reproduced" if _is_papers(shape) else "")
