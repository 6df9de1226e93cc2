"""Finding results on the disk, whatever made them, and telling from them how they were made."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from pwan import shapes
from pwan.bench.cell import AXES, Cell
from pwan.bench.last_run import settings_in_order
from pwan.bench.rows import NAME as ROWS
from pwan.bench.rows import Row, check_same_problem, read_rows
from pwan.bench.summary import NAME as SUMMARY
from pwan.bench.summary import completed
from pwan.problem import OK
from pwan.synthesis import SynthesisSettings, make_problem

FIGURES = "report_figures"
MARKERS = (ROWS, SUMMARY, "config.yaml", "multirun.yaml")  # the last is all that an unfinished sweep has at first
# what tells a benchmark's row from those of other tasks
_COLUMNS = {
    *AXES,
    "experiment",
    "method",
    "status",
    "mse_initial",
    "mse",
    "mse_unrefined",
    "matched_fraction",
    "seconds",
}
_NOT_RESULTS = ("wandb", "points", FIGURES)
SOURCE_WORDS = {"packaged": "packaged points", "paper": "the paper's own points"}  # a source of shapes, for titles

Files = Mapping[tuple[str, str, int], Path]  # of registered points, by method, settings hash and trial


def rows_of(folder: Path) -> list[Row]:
    """The benchmark's rows in the folder and below, without rows of another task.

    A setting that did not exist when a row was written has its default in it.
    """
    defaults = vars(SynthesisSettings())
    rows = [{**defaults, **completed(row)} for row in read_rows(folder)]
    return [row for row in rows if row.keys() >= _COLUMNS]


@dataclass(frozen=True)
class Results:
    """What a folder of an experiment holds.

    Attributes:
        name: the folder's, from where the report looks.
        folder: with a sweep's cells below it.
        rows: all of a benchmark's; none of another task's.
        homes: the folder of each settings hash, see :func:`homes_of`.
        frame: the rows of the settings that were run last, see :func:`current_rows`.
        files: the registered points that were kept.
    """

    name: str
    folder: Path
    rows: list[Row]
    homes: dict[str, Path]
    frame: pd.DataFrame
    files: Files


def results_of(folder: Path, root: Path) -> Results:
    """The results in a folder below the one that is reported on, or in that itself."""
    rows, homes = rows_of(folder), homes_of(folder)
    name = str(folder.relative_to(root)) if folder != root else folder.name
    return Results(name, folder, rows, homes, pd.DataFrame(current_rows(rows, homes)), _point_files(folder))


def experiment_folders(root: Path) -> Iterator[Path]:
    """The topmost folders that hold results, sorted: a sweep's folder, not those of its cells."""
    if any((root / marker).is_file() for marker in MARKERS):
        yield root
        return
    for child in sorted(root.iterdir()):
        if child.is_dir() and not child.is_symlink() and child.name not in _NOT_RESULTS and child.name[0] != ".":
            yield from experiment_folders(child)


def result_files(folder: Path, *suffixes: str) -> list[Path]:
    """The files with these suffixes below the folder, but for those of W&B and of this report."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in suffixes and path.is_file() and not set(path.relative_to(folder).parts[:-1]) & {*_NOT_RESULTS}
    )


def is_trials_picture(path: Path) -> bool:
    return path.name.startswith("trials_") and (path.parent / ROWS).exists()


def read_table(path: Path) -> pd.DataFrame:
    """A table, without those columns of a cell that hold the same in all lines.

    Raises:
        ValueError: the file does not hold a table.
    """
    try:
        frame = pd.read_csv(path)
    except ValueError as error:  # pandas' own errors and those of decoding are ValueErrors
        raise ValueError(f"{path} is not a table: {error}; remove or repair it and run again") from None
    return frame.drop(columns=[name for name in AXES if name in frame and frame[name].nunique(dropna=False) <= 1])


def homes_of(folder: Path) -> dict[str, Path]:
    """The folder of each settings hash; the rows of a sweep's cell lie in its own folder."""
    paths = sorted(folder.rglob(ROWS), key=lambda path: (len(path.parts), str(path)))
    return {row["settings"]: path.parent for path in paths for row in rows_of(path.parent)}


def current_rows(rows: list[Row], homes: dict[str, Path]) -> list[Row]:
    """The rows of the settings that each folder's cell and method was run with last; methods in their first order."""

    def place(row: Row) -> tuple[Any, ...]:
        return (homes[row["settings"]], row["method"], *(row[name] for name in AXES))

    turns = {(home, key): n for home in set(homes.values()) for n, key in enumerate(settings_in_order(home))}
    # of settings whose turn is not known the last rows count
    in_order = sorted(rows, key=lambda row: turns.get((homes[row["settings"]], row["settings"]), -1))
    last = {place(row): row["settings"] for row in in_order}
    return [row for row in rows if last[place(row)] == row["settings"]]


def varying_axes(frame: pd.DataFrame) -> list[str]:
    return [name for name in AXES if frame[name].nunique(dropna=False) > 1]


def with_swept_options(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows with a column for each numeric setting that a method's rows do not agree on, and the columns' names.

    Such settings are what a sweep of ``method.<name>.<key>`` varies. The columns are ``method.<key>``; other methods
    have NaN there.
    """
    options = [json.loads(text) if str(text).startswith("{") else {} for text in frame["options"]]
    table = pd.DataFrame(options, index=frame.index).apply(pd.to_numeric, errors="coerce").add_prefix("method.")
    swept = [key for key in table if (table[key].groupby(frame["method"]).nunique() > 1).any()]
    return frame.join(table[swept]), swept


def with_settings_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows with the columns that tell one method's settings in a cell apart, and the columns' names.

    These are swept numbers, see :func:`with_swept_options`; where they are not enough, "options" too, and where these
    are not, "settings".
    """
    frame, columns = with_swept_options(frame)
    for name in ("options", "settings"):
        if (frame.groupby([*AXES, "method", *columns], dropna=False)["settings"].nunique() > 1).any():
            columns = [*columns, name]
    return frame, columns


def cells_in_words(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each cell's rows, and what tells it from the others; empty for a single cell.

    Each of several settings of a method is a cell of its own, with the rows of the methods that have but one.
    """
    frame, columns = with_settings_columns(frame)
    axes = varying_axes(frame)
    for key, rows in frame.groupby(axes, sort=True, dropna=False) if axes else [((), frame)]:
        several = rows.groupby("method")["settings"].transform("nunique") > 1
        variants = rows[several].groupby(columns, sort=True, dropna=False) if several.any() else [((), rows)]
        for swept, variant in variants:
            values = [*key, *(f"{value:g}" if isinstance(value, float) else value for value in swept)]
            words = ", ".join(f"{name} {value}" for name, value in zip([*axes, *columns], values, strict=False))
            yield words, rows[~several | rows.index.isin(variant.index)]


def with_infinite_failures(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(mse=frame["mse"].astype(float).where(frame["status"] == OK, float("inf")))


def have_points(rows: pd.DataFrame, files: Files) -> list[bool]:
    """Of each row whether its registered points were kept."""
    return [(row.method, row.settings, row.trial) in files for row in rows.itertuples()]


def hardest_cell(results: Results) -> pd.DataFrame:
    """The rows of the cell whose methods have the largest median error; of those with registered points, if any."""
    errors = with_infinite_failures(results.frame)
    errors["kept"] = have_points(errors, results.files)
    cells = []
    for _, group in cells_in_words(errors):
        typical = group.groupby("method", sort=False)["mse"].median().median()
        cells.append((bool(group["kept"].any()), typical, group.index))
    index = max(cells, key=lambda cell: cell[:2])[2]
    return results.frame.loc[index]


def _point_files(folder: Path) -> Files:
    files = {}
    for path in sorted(folder.rglob("points/*/*.npz")):
        method, _, settings = path.parent.name.rpartition("-")
        if path.stem.isdigit():
            files[method, settings, int(path.stem)] = path
    return files


def remade_problem(row: Row) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, reference and truth, made again from the row."""
    synthesis = {f.name: _plain(row[f.name]) for f in fields(SynthesisSettings)}
    cell = Cell(row["experiment"], row["shape"], row["shape_source"], SynthesisSettings(**synthesis), int(row["seed"]))
    shape = shapes.load(cell.shape, cell.shape_source)
    problem = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[int(row["trial"])])
    check_same_problem(row, problem, "the results")
    assert problem.truth is not None
    return problem.source[0].numpy(), problem.reference[0].numpy(), problem.truth[0].numpy()


def _plain(value: Any) -> Any:
    """A value of a row as it was before pandas: None for its NaN, Python's own numbers."""
    if isinstance(value, float) and np.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def benchmark_command(frame: pd.DataFrame) -> str:
    """The command that makes these rows, given the methods' YAML files; a line for each cell if they form no grid."""
    defaults = vars(SynthesisSettings())
    # conf/shape has a file for each packaged shape but those of families; paper sets beyond them have none either
    files = set(shapes.names()) - {name for family in shapes.families().values() for name in family}
    shape = "shape" if set(frame["shape"]) <= files else "shape.name"
    keys = {"shape": shape, "shape_source": "shape.source", "seed": "seed"}
    values = {axis: [_spelled(value) for value in frame[axis].unique()] for axis in AXES}
    named = [
        axis
        for axis in AXES
        # the configuration's own default problem has outliers, so their number is always named
        if axis in ("shape", "seed", "outlier_ratio") or values[axis] != [_spelled(defaults.get(axis, "packaged"))]
    ]
    cells = frame[named].drop_duplicates()
    grid = len(cells) == np.prod([len(values[axis]) for axis in named])
    lines = (
        [{axis: ",".join(values[axis]) for axis in named}]
        if grid
        else [{axis: _spelled(cell[axis]) for axis in named} for cell in cells.to_dict("records")]
    )
    methods = ",".join(dict.fromkeys(frame["method"]))
    experiment = frame["experiment"].iloc[0]
    command = f"python run.py{' -m' if grid and len(cells) > 1 else ''} {shlex.quote(f'name={experiment}')}"
    tail = f"trials={frame['trial'].max() + 1} {shlex.quote(f'method=[{methods}]')}"
    return "\n".join(
        " ".join([command, *(f"{keys.get(axis, f'problem.{axis}')}={text}" for axis, text in line.items()), tail])
        for line in lines
    )


def _spelled(value: Any) -> str:
    """A value as the command line takes it."""
    plain = _plain(value)
    return "null" if plain is None else str(plain)


def made_by_task(folder: Path) -> list[tuple[str, str]]:
    """How a task other than the benchmark was run, from its config.yaml: an experiment is named after its file."""
    path = folder / "config.yaml"
    if not path.is_file():
        return []
    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(path))
        name, task, shape = config["name"], config["task"], config["shape"]
    except Exception as error:  # YAML's own errors have no common base
        raise ValueError(f"{path} is not a configuration: {error}; remove or repair it and run again") from error
    return [
        ("Command (put together from config.yaml, which has every setting)", f"python run.py experiment={name}"),
        ("Task", f"{task}, on the shape {shape['name']} ({shape['source']}), seed {config.get('seed')}"),
    ]
