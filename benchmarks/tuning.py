"""Methods and settings side by side on many cells: what PWAN's defaults were chosen by, and how they were checked.

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/tuning.py pwan 'pwan steps=120 width=96' --cells noise_* --seeds 0-9
    python benchmarks/tuning.py pwan cpd bcpd gmmreg tpsrpm soft_assignment --seeds 100-119

Defaults are chosen on seeds 0 to 9; seeds 100 to 119 are for a last check that the choice never saw. Each entry is a
method of conf/method (its file's name, then what differs from it). Trials that are there already are not run again, so
the same command prints the table of what there is. The bodies need the paper's points (PWAN_DATA).
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from pwan import shapes
from pwan.app.config import method_entries
from pwan.bench.cell import Cell, MethodEntry, settings_hash, trial_seed
from pwan.bench.rows import RowFile, environment
from pwan.bench.trials import Task, Trial, register_trials
from pwan.pool import Failure, run_tasks
from pwan.problem import OK
from pwan.synthesis import SynthesisSettings, make_problem

CONF = Path(__file__).parents[1] / "conf"
SHAPES, BODIES = ("bunny", "monkey", "armadillo"), ("humans_18_19", "humans_30_31")


def cells() -> dict[str, tuple[str, str, SynthesisSettings]]:
    """Shape, where it is from, and synthesis by the cell's name; the numbers of conf/problem and conf/experiment."""
    files = {name: OmegaConf.load(CONF / "problem" / f"{name}.yaml") for name in ("noise", "partial", "complete")}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "noise_0.2": ("noise", {"outlier_ratio": 0.2}),
        "noise_1.2": ("noise", {"outlier_ratio": 1.2}),
        "partial_0.7": ("partial", {"keep": 0.7}),
        "partial_0.85": ("partial", {"keep": 0.85}),
        "complete": ("complete", {}),
    }
    found = {
        f"{kind}_{shape}": (shape, "packaged", SynthesisSettings(**{**files[file], **changed}))
        for kind, (file, changed) in kinds.items()
        for shape in SHAPES
    }
    body = OmegaConf.load(CONF / "experiment" / "humans_complete.yaml").problem
    for name in BODIES:
        found[name] = (name, "paper", SynthesisSettings(**{**files["complete"], **body}))
    return found


@dataclass(frozen=True)
class Wanted:
    """One registration: an entry in one cell, with one seed."""

    entry: MethodEntry
    name: str
    cell: Cell

    def task(self) -> Task:
        problem = make_problem(
            shapes.load(self.cell.shape, self.cell.shape_source), self.cell.synthesis, seed=self.cell.seed, trials=[0]
        )
        return Task.of(
            problem,
            method=self.entry.method,
            options=self.entry.options,
            trials=[0],
            seeds=[trial_seed(self.cell.seed, 0)],
            one_thread=True,
        )


def entry(text: str) -> MethodEntry:
    """A method's YAML with what is written after its name put over it."""
    name, *changed = text.split()
    node = OmegaConf.merge(OmegaConf.load(CONF / "method" / f"{name}.yaml")[name], OmegaConf.from_dotlist(changed))
    options = OmegaConf.to_container(node)
    assert isinstance(options, dict)
    return method_entries({text: {"method": name, **options}})[0]


def numbers(text: str) -> list[int]:
    """ "0-9" or "3"."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def run(
    texts: Sequence[str], names: Sequence[str], seeds: Sequence[int], workers: int, rows: RowFile
) -> list[dict[str, Any]]:
    """Run what is missing; the rows of everything that was asked for."""
    catalogue = cells()
    asked: dict[str, Wanted] = {}
    columns: list[tuple[str, str]] = []  # two entries may come to the same settings in a cell
    for seed in seeds:  # a first look at all cells before a second one at any
        for name in names:
            shape, source, synthesis = catalogue[name]
            cell = Cell("tuning", shape, source, synthesis, seed)
            problem = None
            for text in texts:
                chosen = entry(text)
                if problem is None:
                    problem = make_problem(shapes.load(shape, source), synthesis, seed=seed, trials=[0])
                key = settings_hash(cell, MethodEntry(chosen.method, chosen.method, {}), chosen.resolved(problem))
                asked.setdefault(key, Wanted(chosen, name, cell))
                columns.append((text, key))
    known = {row["settings"] for row in rows.rows}
    missing = [key for key in asked if key not in known]
    bar = tqdm(total=len(missing), desc="registrations", smoothing=0)

    def tasks() -> Iterator[Task]:
        for key in missing:
            yield asked[key].task()

    def on_done(number: int, outcome: list[Trial] | Failure) -> None:
        key = missing[number]
        one = asked[key]
        if isinstance(outcome, Failure):
            measured: dict[str, Any] = {
                "status": "failed",
                "stop_reason": outcome.reason,
                "mse": None,
                "mse_unrefined": None,
            }
        else:
            measured = outcome[0].measured
        rows.append(
            {
                "cell": one.name,
                "entry": one.entry.name,
                "seed": one.cell.seed,
                "settings": key,
                "trial": 0,
                **measured,
                **environment(),
            }
        )
        bar.update()

    run_tasks(register_trials, tasks(), workers=workers, on_done=on_done, on_progress=lambda number, report: None)
    bar.close()
    by_key = {row["settings"]: row for row in rows.rows}
    return [{**by_key[key], "entry": text} for text, key in columns]


def table(rows: Sequence[dict[str, Any]], texts: Sequence[str], names: Sequence[str]) -> None:
    """Medians before / after refinement, the worst in brackets, and the median seconds; a failed trial is infinite."""
    print(f"| cell | {' | '.join(texts)} |")
    print(f"|---|{'---|' * len(texts)}")
    for name in names:
        columns = []
        for text in texts:
            here = [row for row in rows if row["cell"] == name and row["entry"] == text]
            errors = {
                column: [row[column] if row["status"] == OK else math.inf for row in here]
                for column in ("mse_unrefined", "mse")
            }
            unrefined, refined = (statistics.median(values) for values in errors.values())
            seconds = statistics.median([row["seconds"] for row in here if row["status"] == OK] or [math.inf])
            failed = sum(row["status"] != OK for row in here)
            columns.append(
                f"{unrefined:.2g} / {refined:.2g} ({max(errors['mse']):.2g}), {seconds:.1f} s"
                + (f", {failed} FAILED" if failed else "")
            )
        print(f"| {name} | {' | '.join(columns)} |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("entries", nargs="+", help="a method of conf/method, then what differs: 'pwan steps=120'")
    parser.add_argument("--cells", nargs="*", default=["noise_*", "partial_*", "complete_*"], help="names or patterns")
    parser.add_argument("--seeds", type=numbers, default=numbers("0-9"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=Path, default=Path("outputs/tuning"), help="the folder of the rows")
    chosen = parser.parse_args(arguments)
    names = [name for name in cells() if any(fnmatch.fnmatch(name, pattern) for pattern in chosen.cells)]
    if not names:
        parser.error(f"no cell is named {' '.join(chosen.cells)}; the cells are {', '.join(cells())}")
    with RowFile(chosen.rows) as rows:
        table(run(chosen.entries, names, chosen.seeds, chosen.workers, rows), chosen.entries, names)


if __name__ == "__main__":
    main()
