"""The task behind ``experiment=datasets``: pictures of the shapes as they are and bent (the paper's figure of them)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from pwan import shapes
from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.datasets import Settings
from pwan.bench.summary import write_table
from pwan.problem import mean_squared_error
from pwan.report.dataset_figure import MOVED, STILL, Cloud, draw_clouds
from pwan.settings import nearest
from pwan.synthesis import make_problem


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    known = shapes.names(checked.cell.shape_source)
    for name in settings.shapes:
        if name not in known:
            raise ValueError(f"options.shapes: there is no shape {name!r}{nearest(name, known)}; there are {known}")
    pictures, lines = [], []
    for name in settings.shapes:
        shape = shapes.load(name, checked.cell.shape_source)
        points = min(checked.cell.synthesis.points, len(shape.points))
        synthesis = replace(checked.cell.synthesis, points=points)
        problem = make_problem(shape, synthesis, seed=checked.cell.seed, trials=[settings.trial])
        assert problem.truth is not None
        still, moved = problem.source[0].numpy(), problem.truth[0].numpy()
        pictures.append(
            (
                f"{name}, {len(still):,} of {len(shape.points):,} points",
                [Cloud(still, STILL, "shape"), Cloud(moved, MOVED, "bent")],
            )
        )
        squared = float(mean_squared_error(problem.source, problem.truth))
        lines.append(
            {
                "shape": name,
                "shape_source": shape.source,
                "points": len(shape.points),
                "drawn": len(still),
                "mse_initial": squared,
            }
        )
    write_config(folder, checked.resolved)
    frame = pd.DataFrame(lines)
    write_table(frame, folder / "summary.csv")
    title = f"The shapes and a smooth deformation, lambda {checked.cell.synthesis.deformation_lambda:g}"
    draw_clouds(pictures, title, folder / "datasets.png")
    print(frame.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    return 0
