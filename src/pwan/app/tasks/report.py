"""The task ``report``: everything under a folder of results as one HTML page, and the figures of accuracy."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from pwan.app.checked import Checked
from pwan.app.overview import overview_section
from pwan.app.results import (
    FIGURES,
    MARKERS,
    SOURCE_WORDS,
    Files,
    Results,
    benchmark_command,
    experiment_folders,
    hardest_cell,
    is_trials_picture,
    made_by_task,
    read_table,
    result_files,
    results_of,
    varying_axes,
    with_swept_options,
)
from pwan.app.single_trials import (
    KEPT,
    NOT_REMADE,
    Trial,
    Views,
    first_trials,
    having_points,
    median_trial,
    trial_of,
    worst_trials,
    write_worst,
)
from pwan.app.tables import DIGITS, beside_paper, over_shapes, summary_table
from pwan.app.tasks._settings.report import Settings, check_folder
from pwan.bench.pictures import EXAMPLE
from pwan.bench.rows import PACKED, Row, write_packed
from pwan.bench.summary import NAME as SUMMARY
from pwan.bench.summary import PAIRED, compare, summarise, write_table
from pwan.files import save_bytes
from pwan.problem import OK
from pwan.report.accuracy_figure import draw_accuracy
from pwan.report.cells_figure import draw_cells
from pwan.report.error_curves import least_to_most
from pwan.report.example_figure import draw_examples
from pwan.report.page import Picture, Scene, Section, Table, fewer_colours, write_page
from pwan.report.published import PublishedTable, published_numbers, table_for

PAGE = "report.html"
_LINKS = "the largest errors lead to pictures, a view shows the first method's worst trial"
_COLLECTED = ("results.csv", PACKED, PAIRED, "figure.png", "worst.png")
_FOLDED = ("config.yaml", "error.txt")


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    page = make_report(Path(settings.folder).resolve(), settings)
    with contextlib.suppress(OSError):
        folder.rmdir()  # Hydra's folder for this run: the results are elsewhere, and it goes only if it is empty
    print(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB); figures: {page.with_name(FIGURES)}")
    return 0


def make_report(root: Path, settings: Settings) -> Path:
    """Write the page and the figures of everything found under the folder, and return the page's path.

    Raises:
        ValueError: no such folder, nothing found in it, or a file of results that cannot be read.
    """
    check_folder(root)
    folders = list(experiment_folders(root))
    if not folders:
        raise ValueError(
            f"nothing to report in {root}: no folder in it holds {', '.join(MARKERS[:-1])} or {MARKERS[-1]}; "
            "run an experiment first, or name another folder with options.folder=..."
        )
    if settings.collect is not None:
        _check_names(folders)
    figures = root / FIGURES
    found = [results_of(part, root) for part in folders]
    worst = [worst_trials(results) for results in found]
    views = write_worst(list(zip(found, worst, strict=True)), figures)
    sections, drawn = [], []
    for results, trials in tqdm(zip(found, worst, strict=True), desc="report", unit="experiment", total=len(found)):
        drawn.append(_worst_picture(results, trials, figures))
        sections.append(_section(results, root, figures, settings, views, drawn[-1]))
    overview = overview_section(found, figures, views)
    write_page("pwan: results", [*overview, *sections], root / PAGE)
    if settings.collect is not None:
        target = Path(settings.collect).resolve()
        for results, section, picture in zip(found, sections, drawn, strict=True):
            _collect(results, section, picture, target / results.folder.name)
        for one in (one for section in overview for one in section.pictures):
            save_bytes(target / one.path.name, one.path.read_bytes())
    return root / PAGE


def _check_names(folders: Sequence[Path]) -> None:
    """Refuse to collect two experiments that would lie in one folder.

    Raises:
        ValueError: names both.
    """
    named: dict[str, Path] = {}
    for folder in folders:
        other = named.setdefault(folder.name, folder)
        if other != folder:
            raise ValueError(
                f"options.collect would put both {other} and {folder} into a folder {folder.name}; collect one of them "
                f"at a time, for example with options.folder={folder}"
            )


def _section(
    results: Results,
    root: Path,
    figures: Path,
    settings: Settings,
    views: Views,
    worst: Sequence[Picture],
) -> Section:
    folder, name, rows, frame = results.folder, results.name, results.rows, results.frame
    configs = [
        (f"{path.relative_to(folder)}", path.read_text(errors="replace"))
        for path in result_files(folder, ".yaml", ".txt")
        if path.name in _FOLDED
    ]
    pictures = result_files(folder, ".png")
    others = [Picture(str(path.relative_to(folder)), path) for path in pictures if not is_trials_picture(path)]
    tables = [
        Table(str(path.relative_to(folder)), read_table(path), folded=path.name != SUMMARY)
        for path in result_files(folder, ".csv")
        if not (rows and (path.name == SUMMARY or _is_part(path, folder)))
    ]
    if not rows:
        return Section(name, made_by_task(folder), tables, others, files=configs, pictures_first=True)

    table = table_for(frame)
    ours = [
        Table(f"Summary: {len(rows)} trials; {_LINKS}", summary_table(results, root, views), digits=DIGITS),
        *([] if table is None else beside_paper(frame, table)),
        *over_shapes(frame),
    ]
    panels = _examples(results, figures)
    curves = [
        Picture(f"Accuracy: {title}", files[0])
        for title, files in curves_of(frame, figures, name, table, settings.band)
    ]
    if not curves:
        curves = _cells(frame, results.homes, figures, name)
    hardest = hardest_cell(results)
    scenes, notes = _scene(hardest, results.files)
    trials = [path for path in pictures if is_trials_picture(path)]
    wanted = set(hardest["settings"].map(results.homes))
    shown = [path for path in trials if settings.pictures == "all" or path.parent in wanted]
    if len(shown) < len(trials):
        notes.append(
            f"{len(trials) - len(shown)} pictures of trials in other cells are not on this page "
            "(options.pictures=all puts them here); they lie in the cells' folders."
        )
    folded = [Picture(f"Worst, median and best trial: {path.relative_to(folder)}", path, folded=True) for path in shown]
    drawn = [*curves, *panels, *others, *worst, *folded]
    return Section(name, _made(rows, frame), [*ours, *tables], drawn, scenes, notes, configs, pictures_first=True)


def _collect(results: Results, section: Section, worst: Sequence[Picture], target: Path) -> None:
    """The results of an experiment as its folder in the project has them; a README there is left alone."""
    target.mkdir(parents=True, exist_ok=True)
    renewed = set()  # of the files that an experiment need not have
    if results.rows:
        renewed |= {"results.csv", PACKED}
        current = results.frame.to_dict("records")
        write_table(summarise(current), target / "results.csv")
        shown = set(results.frame["settings"])
        write_packed((row for row in results.rows if row["settings"] in shown), target / PACKED)
        paired = compare(current)
        if len(paired):
            renewed.add(PAIRED)
            write_table(paired, target / PAIRED)
    elif (results.folder / SUMMARY).exists():
        renewed.add("results.csv")
        save_bytes(target / "results.csv", (results.folder / SUMMARY).read_bytes())
    numbers = published_numbers(results.folder.name)
    if numbers is not None:
        write_table(numbers, target / "paper.csv")
    pictures = [picture.path for picture in section.pictures if not picture.folded]
    panels = [path for path in pictures if path.stem.endswith("_examples")]
    if pictures:
        renewed.add("figure.png")
        save_bytes(target / "figure.png", (panels or pictures)[0].read_bytes())
    for picture in worst:
        renewed.add("worst.png")
        save_bytes(target / "worst.png", fewer_colours(picture.path))  # a third of the size
    for name in set(_COLLECTED) - renewed:
        (target / name).unlink(missing_ok=True)


def _is_part(path: Path, folder: Path) -> bool:
    """Whether the file of a cell is contained in one of the whole sweep."""
    return path.parent != folder and (folder / path.name).exists()


def curves_of(
    frame: pd.DataFrame, folder: Path, name: str, table: PublishedTable | None, band: str
) -> Iterator[tuple[str, list[Path]]]:
    """A figure for each value of what else varies, against the number that takes the most values; seeds are pooled."""
    frame, swept = with_swept_options(frame)
    varying = [axis for axis in varying_axes(frame) if axis != "seed"] + swept
    numeric = [axis for axis in varying if pd.api.types.is_numeric_dtype(frame[axis])]
    if not numeric:
        return
    axis = max(numeric, key=lambda name: frame[name].nunique())
    others = [other for other in varying if other != axis]
    groups = frame.groupby(others, sort=False, dropna=False) if others else [((), frame)]
    for key, group in groups:
        if group[axis].nunique() < 2 or group.duplicated([axis, "seed", "method", "trial"]).any():
            continue  # one point does not make a curve, nor do two values at one point
        title = ", ".join([name, *(f"{other}={value}" for other, value in zip(others, key, strict=True))])
        folder.mkdir(exist_ok=True)
        path = folder / f"{_slug(title)}_accuracy.png"
        fixed = [f"{column} {group[column].iloc[0]}" for column in ("shape", "points") if column not in varying]
        fixed += _of_the_paper(group)
        title = f"{title} ({', '.join(fixed)})" if fixed else title
        group = group.dropna(subset=[axis])
        files = draw_accuracy(group, axis, title, path, band=band, published=table, seconds=axis in swept)
        yield title, files


def _cells(frame: pd.DataFrame, homes: dict[str, Path], folder: Path, name: str) -> list[Picture]:
    """Where no number orders the cells of a sweep: each with its methods beside each other."""
    top = Path(os.path.commonpath(list(homes.values())))
    named = frame.assign(cell=frame["settings"].map(lambda key: str(homes[key].relative_to(top))))
    if named["cell"].nunique() < 2:
        return []
    folder.mkdir(exist_ok=True)
    files = draw_cells(named, ", ".join([name, *_of_the_paper(frame)]), folder / f"{_slug(name)}_cells.png")
    return [Picture(f"Accuracy in each cell: {name}", files[0])]


def _of_the_paper(frame: pd.DataFrame) -> list[str]:
    """What a figure's title says of the points where all are the paper's own."""
    return [SOURCE_WORDS["paper"]] if set(frame["shape_source"]) == {"paper"} else []


def _examples(results: Results, figures: Path) -> list[Picture]:
    """Trial 0 of all cells that have such a picture of their own, as one."""
    drawn = results.frame["settings"].map(lambda key: (results.homes[key] / EXAMPLE).exists())
    examples = first_trials(results, drawn)
    if not examples:
        return []
    figures.mkdir(exist_ok=True)
    path = figures / f"{_slug(results.name)}_examples.png"
    file = draw_examples(examples, f"{results.name}: trial 0 of each cell", path)[0]
    return [Picture("Trial 0 of each cell: initial sets, and as each method left them", file)]


def _worst_picture(results: Results, trials: Sequence[tuple[str, Trial]], figures: Path) -> list[Picture]:
    """The trial of each cell that the first method did worst, with the best of the others there, as one picture."""
    if not trials:
        return []
    figures.mkdir(exist_ok=True)
    kept = f", of those {KEPT}" if any(trial.picked_from for _, trial in trials) else ""
    title = f"the worst trial of {trials[0][1].row['method']} in each cell{kept}, and the best of the others there"
    examples = [
        trial.example(", ".join(filter(None, [words, f"trial {trial.row['trial']}"])), most=2)
        for words, trial in trials
    ]
    file = draw_examples(examples, f"{results.name}:\n{title}", figures / f"{_slug(results.name)}_worst.png")[0]
    return [Picture(title[0].upper() + title[1:], file, folded=True)]


def _scene(rows: pd.DataFrame, files: Files) -> tuple[list[Scene], list[str]]:
    """The view of one trial: that with the first method's median error, of those that all methods have points of."""
    having = having_points(rows, files)
    if having.empty:
        return [], ["There is no interactive view: no registered points were kept."]
    chosen, words = median_trial(rows, having)
    try:
        trial = trial_of(chosen, having, files, words)
        return [trial.scene(f"the median one of {chosen['method']} in the hardest cell")], []
    except NOT_REMADE as error:
        return [], [f"There is no interactive view of trial {chosen['trial']}: {error}"]


def _made(rows: list[Row], frame: pd.DataFrame) -> list[tuple[str, str]]:
    """How the rows were made."""
    trials = least_to_most(frame.groupby("settings").size())
    return [
        (
            "Command (put together from the rows; settings of methods that were overridden: see config.yaml)",
            benchmark_command(frame),
        ),
        ("Trials", f"{trials} for each method and cell; {len(rows)} rows in all, {_failures(rows)} failed"),
        *(
            (label, "; ".join(sorted({str(row[key]) for row in rows if row.get(key) is not None})) or "not known")
            for label, key in (
                ("Versions", "versions"),
                ("Machine", "host"),
                ("Device", "device"),
                ("Threads", "threads"),
                ("Origin of the shape", "shape_origin"),
            )
        ),
    ]


def _failures(rows: list[Row]) -> int:
    return sum(row["status"] != OK for row in rows)


def _slug(text: str) -> str:
    """A file's name for a title, without the suffix; the dots become points of a name that pathlib does not cut."""
    return re.sub(r"[^\w=-]+", "-", text)
