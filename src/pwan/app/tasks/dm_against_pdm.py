"""The task behind ``experiment=dm_against_pdm``: matching all of two sets against matching a part of them (the paper's
first figure).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pwan import methods, shapes
from pwan.app.checked import Checked
from pwan.app.tasks import check_loop, write_config
from pwan.app.tasks._settings.dm_against_pdm import Settings
from pwan.bench.cell import MethodEntry, trial_seed
from pwan.bench.summary import write_table
from pwan.files import save_arrays
from pwan.methods import soft_assignment
from pwan.problem import RegistrationResult, mean_squared_error
from pwan.registration.settings import PwanSettings
from pwan.report.dataset_figure import Cloud, draw_clouds
from pwan.report.registered import LEFT, REFERENCE, SOURCE, TRUTH, UNMATCHED
from pwan.synthesis import make_problem


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    check_loop(checked)
    cell = checked.cell
    shape = shapes.load(cell.shape, cell.shape_source)
    problem = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[settings.trial])
    truth = problem.truth
    assert truth is not None
    used = {entry.name: {"method": entry.method, **entry.resolved(problem)} for entry in checked.entries}
    write_config(folder, {**checked.resolved, "method": used})
    source, reference = problem.source[0].numpy(), problem.reference[0].numpy()
    arrays = {"source": source, "reference": reference, "truth": truth[0].numpy()}
    initial = float(mean_squared_error(problem.source, truth))
    pictures = [
        (f"input sets, MSE {initial:.4f}", [Cloud(reference, REFERENCE, "reference"), Cloud(source, SOURCE, "source")])
    ]
    lines = []
    for entry in checked.entries:
        seeds = [trial_seed(cell.seed, settings.trial)]
        result = methods.run(entry.method, problem, entry.options, seeds=seeds)
        moved, error = result.transformed[0].numpy(), float(mean_squared_error(result.transformed, truth))
        matched, met = _matched(entry, result)
        kind = "all" if matched.all() and met.all() else "a part"
        clouds = [
            Cloud(reference[~met], UNMATCHED, "reference, not matched"),
            Cloud(reference[met], REFERENCE, "reference"),
            Cloud(moved[~matched], LEFT, "source, not matched"),
            Cloud(moved[matched], SOURCE, "source"),
        ]
        pictures.append((f"{entry.name}: {kind} is matched, MSE {error:.4f}", clouds))
        arrays |= {f"{entry.name}_transformed": moved, f"{entry.name}_matched": matched}
        lines.append(
            {
                "method": entry.name,
                "mse_initial": initial,
                "mse_unrefined": float(mean_squared_error(result.transformed_unrefined, truth)),
                "mse": error,
                "matched_fraction": float(matched.mean()),
                "seconds": result.seconds[0],
                "status": result.status[0],
                "stop_reason": result.stop_reason[0],
            }
        )
    partners = [Cloud(reference, REFERENCE, "reference"), Cloud(truth[0].numpy(), TRUTH, "source, true positions")]
    pictures.append(("ground truth", partners))
    frame = pd.DataFrame(lines)
    write_table(frame, folder / "summary.csv")
    save_arrays(folder / "points.npz", arrays)
    draw_clouds(
        pictures,
        f"{shape.name} ({shape.source}): matching all against matching a part",
        folder / "dm_against_pdm.png",
        one_frame=True,
    )
    print(frame.drop(columns="stop_reason").to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    return 0 if (frame["status"] == "ok").all() else 1


def _matched(entry: MethodEntry, result: RegistrationResult) -> tuple[np.ndarray, np.ndarray]:
    """Of the source (r,) and the reference (q,): all, by a method that knows no limit, wherever its points ended."""
    matched, met = result.matched[0].numpy(), result.reference_matched[0].numpy()
    if isinstance(methods.settings(entry.method, entry.options), PwanSettings | soft_assignment.Settings):
        return matched, met
    return np.ones_like(matched), np.ones_like(met)
