from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from pwan.app import main
from pwan.bench import job, trials
from pwan.bench.cell import MethodEntry, trial_seed
from pwan.bench.rows import RowFile, read_rows
from pwan.bench.settings import TrainerSettings
from pwan.bench.trials import Task, devices_of, potential_and_gradient_norm, register_trials
from pwan.problem import Progress
from pwan.shapes import load
from pwan.synthesis import make_problem

CONF = Path(__file__).parents[2] / "conf"
TINY = {"rank": 20, "steps": 24, "stages": 0, "warmup": 5, "updates": 2, "width": 16, "features": 8}


def outcomes(cell, method, options, numbers):
    problem = make_problem(load(cell.shape), cell.synthesis, seed=0, trials=numbers)
    seeds = [trial_seed(0, trial) for trial in numbers]
    task = Task.of(problem, method=method, options=options, trials=numbers, seeds=seeds, one_thread=True)
    return problem, register_trials(task, lambda report: None)


def test_the_course_of_a_registration_is_kept(cell):
    problem, (trial,) = outcomes(cell, "pwan", TINY, [0])
    r, q, kept = problem.source.shape[1], problem.reference.shape[1], trial.arrays
    assert kept["curve_step"].tolist() == list(range(1, 25))  # few steps: each of them
    # the answer after the last step is what came out before refinement
    assert kept["curve_mse"][-1] == pytest.approx(trial.measured["mse_unrefined"], rel=1e-5)
    for name in ("loss", "threshold", "gradient_norm"):
        assert kept[f"history_{name}"].shape == (24,)
    assert kept["potential"].shape == kept["gradient_norm"].shape == (r,)
    assert kept["reference_potential"].shape == kept["reference_gradient_norm"].shape == (q,)
    assert (kept["reference_potential"] <= 0).all() and kept["gradient_norm"].max() > 0.1
    assert kept["snapshot_step"].tolist() == [1, 3] and kept["snapshots"].shape == (2, r, 3)


def test_a_batch_keeps_snapshots_of_trial_0_and_no_curves(cell):
    # methods that take the problems in turn count the steps of the whole batch
    _, (first, second) = outcomes(cell, "cpd", {}, [0, 1])
    assert "snapshots" in first.arrays and "snapshots" not in second.arrays
    assert len(first.arrays["curve_step"]) == len(second.arrays["curve_mse"]) == 0


def test_long_runs_are_looked_at_now_and_then_and_at_their_end(cell, shifting, monkeypatch):
    from pwan import methods

    module = methods.find(shifting)
    plain = module.register

    def long(problem, settings, *, seeds, observer=None):
        for step in range(1, 1004):
            observer(Progress(step, 1003, lambda: problem.source))
        return plain(problem, settings, seeds=seeds)

    monkeypatch.setattr(module, "register", long)
    _, (trial,) = outcomes(cell, shifting, {}, [0])
    steps = trial.arrays["curve_step"]
    assert steps[0] == 20 and steps[-1] == 1003 and len(steps) == 51
    assert "history_loss" not in trial.arrays and "potential" not in trial.arrays


def test_gradient_norm_of_a_known_potential():
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = torch.tensor([2.0, -1.0, 2.0], dtype=torch.float64)  # of length 3
    values, norms = potential_and_gradient_norm(lambda x: (x @ direction).clamp(max=0.0), points)
    expected = (points @ direction).clamp(max=0.0).numpy()
    assert values == pytest.approx(expected, rel=1e-6)
    assert norms == pytest.approx(np.where(expected < 0, 3.0, 0.0), rel=1e-6)


def test_one_batch_of_problems_of_unequal_sizes_is_one_after_the_other(tmp_path):
    # a voxel filter leaves another number of points in each trial
    arguments = [
        "experiment=noise_bunny",
        "problem.points=300",
        "problem.voxel=0.2",
        "method=[soft_assignment]",
        "trials=2",
    ]
    more = ["workers=0", "logger=none", "options.pictures=[]", f"output={tmp_path}"]
    assert main([*arguments, *more], conf=CONF) == 0
    rows = read_rows(tmp_path)
    assert [row["batch"] for row in rows] == [1, 1] and {row["status"] for row in rows} == {"ok"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_missed_at_once():
    with pytest.raises(ValueError, match="trainer=gpu needs a GPU, but torch finds none here; take trainer=loop"):
        devices_of("pwan", TrainerSettings("gpu"))
    assert devices_of("cpd", TrainerSettings("gpu")) == {}


def test_the_batches_of_a_gpu_hold_so_many_points(cell, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "BATCH_POINTS", 2 * cell.synthesis.points + 1)
    with RowFile(tmp_path) as rows:
        made = job.Job(cell, MethodEntry("cpd", "cpd"), load(cell.shape), tmp_path, rows, TrainerSettings(), {})
    assert made._batches([0, 2, 5]) == [[0, 2], [5]]


def test_batches_are_dealt_out_over_gpus_and_rows_do_not_tell_how_many(cell, tmp_path, monkeypatch):
    gpus = {count: [f"cuda:{k}" for k in range(count)] for count in (1, 2)}
    monkeypatch.setattr(trials.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(trials, "devices_here", lambda count, kind: gpus[count])
    entry = MethodEntry("pwan", "pwan")
    settings = {"transform": "nonrigid", "parametrisation": "modes"}
    made = {}
    for count in (1, 2):
        with RowFile(tmp_path / str(count)) as rows:
            trainer = TrainerSettings("gpu", devices=count)
            made[count] = job.Job(cell, entry, load(cell.shape), tmp_path, rows, trainer, settings)
    assert made[1]._batches(list(range(5))) == [[0, 1, 2, 3, 4]]
    assert made[2]._batches(list(range(5))) == [[0, 1, 2], [3, 4]]
    assert made[1].settings == made[2].settings
    asked = []
    monkeypatch.setattr(trials.pipeline, "register", lambda *a, place, **k: asked.append([place.device]))
    monkeypatch.setattr(trials.torch.cuda, "device", nullcontext)
    monkeypatch.setattr(trials, "worker_number", lambda: 3)
    task = Task("pwan", {}, (0,), (1,), {}, True, TrainerSettings("gpu", devices=2))
    trials._drive(task, None, None)
    assert asked == [["cuda:1"]]
