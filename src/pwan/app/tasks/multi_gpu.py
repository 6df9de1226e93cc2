"""The task behind ``experiment=multi_gpu``: time a step of PWAN with its points dealt out over devices."""

from __future__ import annotations

import math
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from pwan import methods, shapes
from pwan.app.checked import Checked
from pwan.app.tasks import check_loop, write_config
from pwan.app.tasks._settings.multi_gpu import Settings
from pwan.bench.cell import Cell, MethodEntry, settings_hash, trial_seed
from pwan.bench.rows import Row, RowFile, environment, newest
from pwan.bench.summary import write_table
from pwan.devices.ranks import Place, Ranks, devices_here
from pwan.lightning.processes import launch
from pwan.problem import mean_squared_error
from pwan.randomness import numpy_generator
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings
from pwan.report.multi_gpu_figure import draw_multi_gpu
from pwan.synthesis import make_problem

PARTS = ("network", "transform")


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    check_loop(checked)
    cell, entry = checked.cell, _one_pwan(checked)
    available = devices_here(max(settings.devices), settings.kind)
    kind = "cpu" if available[0] == "cpu" else "gpu"
    shape = shapes.load(cell.shape, cell.shape_source)
    sizes, counts = sorted(set(settings.sizes)), sorted(set(settings.devices))
    shape.sample(sizes[-1], numpy_generator(cell.seed, "largest"))  # refuses a shape without a surface to draw from
    example = make_problem(shape, cell.with_points(min(sizes[0], 1000)).synthesis, seed=cell.seed, trials=[0])
    pwan = _timed_settings(entry, settings.steps)
    used = methods.resolved(entry.method, entry.options, example)
    with RowFile(folder) as rows:
        write_config(folder, {**checked.resolved, "method": {entry.name: {"method": entry.method, **used}}})
        keys = []
        for points, count in tqdm([(p, c) for p in sizes for c in counts], desc="measurements", unit="run"):
            sized, devices = cell.with_points(points), available[:count]
            measured = {"timed": settings.steps, "devices": [_name(device) for device in devices]}
            key = settings_hash(sized, entry, {**used, **measured})
            keys.append(key)
            if not any(row["settings"] == key for row in rows.rows):
                result = launch(measure, devices, sized, pwan, settings.steps)
                about = {"settings": key, "trial": 0, "method": entry.name, **environment()}
                rows.append(
                    {"experiment": cell.experiment, **sized.axes(), **about, "kind": kind, "devices": count, **result}
                )
            summary = _summary([row for row in newest(rows.rows) if row["settings"] in keys], settings.steps)
            write_table(summary, folder / "summary.csv")
            draw_multi_gpu(summary, f"{shape.name} ({shape.source}), {_words(summary)}", folder / "multi_gpu.png")
    print(summary.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    print(f"measured on {_words(summary)}")
    return 0


def measure(ranks: Ranks, device: str, cell: Cell, settings: PwanSettings, steps: int) -> Row:
    """Time the steps of one registration on this rank's device, together with the other ranks.

    Args:
        ranks: this process among those that share the registration.
        device: of this rank.
        cell: whose trial 0 is registered.
        settings: of PWAN.
        steps: that are timed.

    Returns:
        Means a step: seconds_network and seconds_transform (both with their communication), seconds_communication
        (waiting for other ranks included), bytes (that a rank hands to its reductions); mse_initial and mse, of
        the unrefined source in squared input units; device, by its own name. Beside them memory, the bytes that the
        rank which took most had at most, without what the libraries take.
    """
    before = _peak(device)
    shape = shapes.load(cell.shape, cell.shape_source)
    problem = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[0])
    assert problem.truth is not None
    registration = Registration(problem, settings, [trial_seed(cell.seed, 0)], Place(ranks, device))
    solver = registration.solver
    seconds, last = dict.fromkeys(PARTS, 0.0), 0.0

    def lap(part: str) -> None:
        nonlocal last
        if device != "cpu":
            torch.cuda.synchronize(device)  # a GPU's work is done later than it is asked for
        now = time.perf_counter()
        seconds[part] += now - last
        last = now

    solver.step(on_part=lap)  # the network's warm-up, and whatever a device does at first use
    seconds, ranks.timed, sent = dict.fromkeys(PARTS, 0.0), True, ranks.bytes_sent
    communication = 0.0
    bar = tqdm(total=steps, desc=f"{problem.source.shape[1]} points, {ranks.size} x {device}", leave=False, delay=5)
    bar.disable = bar.disable or ranks.rank > 0
    last = time.perf_counter()
    for _ in range(steps):
        solver.step(on_part=lap)
        communication += ranks.seconds()
        bar.update()
    bar.close()
    sent = ranks.bytes_sent - sent
    (memory,) = ranks.largest(torch.tensor([_peak(device) - before], dtype=torch.float64, device=device))
    return {
        **{f"seconds_{part}": seconds[part] / steps for part in PARTS},
        "seconds_communication": communication / steps,
        "bytes": sent // steps,
        "memory": int(memory),
        "mse_initial": float(mean_squared_error(problem.source, problem.truth)),
        "mse": float(mean_squared_error(registration.transformed(solver.transform.parameters.cpu()), problem.truth)),
        "device": _name(device),
    }


def _peak(device: str) -> int:
    """Bytes that this process, or its GPU, has held at most."""
    if device != "cpu":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _name(device: str) -> str:
    return "cpu" if device == "cpu" else torch.cuda.get_device_name(device)


def _one_pwan(checked: Checked) -> MethodEntry:
    entry = checked.entries[0]
    chosen = methods.settings(entry.method, entry.options)
    if len(checked.entries) > 1 or not isinstance(chosen, PwanSettings):
        names = ", ".join(entry.name for entry in checked.entries)
        raise ValueError(f"the multi_gpu task times one method, a PWAN, but got {names}; take method=pwan")
    if chosen.parametrisation == "free" and chosen.transform == "nonrigid":
        raise ValueError(
            f"method {entry.name} has parametrisation=free, whose unknowns are as many as the points and cannot be "
            "dealt out over devices; take parametrisation=modes"
        )
    return entry


def _timed_settings(entry: MethodEntry, steps: int) -> PwanSettings:
    """The method's settings, with all the timed steps in the first stage and on all points, so that they are alike."""
    chosen = methods.settings(entry.method, entry.options)
    alike = {"coarse_steps": 0, "stages": 0, "sample": 0, "sample_first": 0, "tolerance": 0.0}
    return replace(chosen, steps=steps + 1, refinement="none", **alike)


def _summary(rows: list[Row], steps: int) -> pd.DataFrame:
    """A line for each row, by size and number of devices; speed_up is over the fewest devices of the size."""
    lines: list[dict[str, Any]] = []
    for points in sorted({row["points"] for row in rows}):
        measured = sorted((row for row in rows if row["points"] == points), key=lambda row: row["devices"])
        for row in measured:
            total, first = (sum(r[f"seconds_{part}"] for part in PARTS) for r in (row, measured[0]))
            lines.append(
                {
                    "points": points,
                    "devices": row["devices"],
                    "kind": row["kind"],
                    "device": row["device"],
                    "steps": steps,
                    **{f"seconds_{part}": row[f"seconds_{part}"] for part in PARTS},
                    "communication_share": row["seconds_communication"] / total,
                    "bytes_a_step": row["bytes"],
                    "memory_mb": row.get("memory", math.nan) / 1e6,
                    "speed_up": first / total,
                    "mse_initial": row["mse_initial"],
                    "mse": row["mse"],
                }
            )
    return pd.DataFrame(lines)


def _words(summary: pd.DataFrame) -> str:
    if (summary["kind"] == "gpu").all():
        return "GPUs: " + ", ".join(dict.fromkeys(summary["device"]))
    return "CPU ranks of one thread each, on no GPU"
