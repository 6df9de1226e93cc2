"""The tables of the READMEs of experiments/noise_<shape> and partial_<shape>, from the summaries beside them.

    PYTHONPATH=src python benchmarks/readme_tables.py experiments/noise_bunny
    PYTHONPATH=src python benchmarks/readme_tables.py experiments/noise_bunny --suffix _as_published

Prints the median errors and the shares of trials won as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

AXES = {"outlier_ratio": "outliers a point", "keep": "keep s"}


def number(value: float) -> str:
    """Two digits, "0.010" and "0.00051"."""
    text = f"{value:#.2g}"
    return f"{value:.6f}" if "e" in text else text.rstrip(".")


def line(*texts: str) -> str:
    return f"| {' | '.join(texts)} |"


def head(*texts: str) -> Iterator[str]:
    yield line(*texts)
    yield "|" + "---|" * len(texts)


def medians(results: pd.DataFrame) -> Iterator[str]:
    """One line a cell: median ± deviation of each method, of PWAN "before / after ± deviation" of its refinement."""
    axis, methods = axis_of(results), list(results.method.unique())
    yield from head(AXES[axis], "doing nothing", *methods)
    for value, cell in results.groupby(axis):
        rows = cell.set_index("method").loc[methods]
        texts = []
        for method, row in rows.iterrows():
            before = f"{number(row.mse_unrefined_median)} / " if str(method).startswith("pwan") else ""
            texts.append(f"{before}{number(row.mse_median)} ± {number(row.mse_std)}")
        yield line(f"{value:g}", number(rows.mse_initial_median.iloc[0]), *texts)


def won(paired: pd.DataFrame) -> Iterator[str]:
    """One line a cell: the share of trials in which the first method, PWAN, has the lower error than each other one,
    before / after its refinement, with the 95% interval of the latter.
    """
    axis = axis_of(paired)
    others = list(paired.other.unique())
    yield from head(AXES[axis], *others)
    for value, cell in paired.groupby(axis):
        shares = cell.set_index(["other", "error"])
        texts = []
        for other in others:
            before, after = shares.loc[other, "mse_unrefined"], shares.loc[other, "mse"]
            interval = f"({after.won_low:.0%} to {after.won_high:.0%})"
            texts.append(f"{before.won:.0%} / {after.won:.0%} {interval}")
        yield line(f"{value:g}", *texts)


def axis_of(table: pd.DataFrame) -> str:
    """What was swept."""
    return next((axis for axis in AXES if table[axis].nunique() > 1), "outlier_ratio")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suffix", default="", help="of results<suffix>.csv and paired<suffix>.csv")
    arguments = parser.parse_args(argv)
    results = pd.read_csv(arguments.folder / f"results{arguments.suffix}.csv")
    paired = arguments.folder / f"paired{arguments.suffix}.csv"
    print(f"trials {results.trials.min()} to {results.trials.max()}, failed {results.failed.sum()}")
    print("\n".join(medians(results)))
    if paired.exists():  # the packaged points' was not kept
        print("\n".join(["", *won(pd.read_csv(paired))]))


if __name__ == "__main__":
    main()
