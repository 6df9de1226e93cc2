"""What the points of two files carry beside their place: the columns that the match shall respect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pwan.attributes import LABELS, NORMALS, WEIGHT, Attributes, attributes_of, spacing_of
from pwan.pointfiles import PointFile
from pwan.scans.settings import ScanSettings
from pwan.settings import nearest

OfBoth = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def read_attributes(
    settings: ScanSettings,
    files: tuple[PointFile, PointFile],
    rows: tuple[np.ndarray | None, np.ndarray],
    notes: list[str],
) -> OfBoth | None:
    """The attributes of these rows of the source's and of the reference's file, as :func:`pwan.register` takes them;
    None where none are asked for, and of points that are not the file's.

    Columns of numbers are one attribute together, those that are the files' normals another one, and each column of
    labels one of its own.

    Raises:
        ValueError: a file lacks a column, text where numbers belong, fractions where labels do, or numbers that are not
            finite; names the file.
    """
    numbers, labels = names_of(settings.attributes), names_of(settings.labels)
    if rows[0] is None or not (numbers or labels):
        return None
    (source, y_rows), (reference, x_rows) = zip(files, (rows[0], rows[1]), strict=True)
    both = _of_file(source, y_rows, numbers, labels), _of_file(reference, x_rows, numbers, labels)
    y, x = source.points[y_rows], reference.points[x_rows]
    in_lengths(settings, *both, y, x)  # checks them
    spacing = spacing_of(x)
    weights = (f"{WEIGHT * spacing:.3g} of numbers and normals", f"{LABELS * spacing:.3g} of labels")
    chosen = [words for words, names in zip(weights, (numbers, labels), strict=True) if names]
    weight = " and ".join(chosen) if settings.attribute_weight is None else f"{settings.attribute_weight:.3g}"
    notes.append(f"the match respects {', '.join(numbers + labels)} of both files, with a weight of {weight}")
    return both


def in_lengths(
    settings: ScanSettings,
    of_source: Mapping[str, np.ndarray],
    of_reference: Mapping[str, np.ndarray],
    source: np.ndarray,
    reference: np.ndarray,
) -> Attributes | None:
    """The attributes of points (r, D) and (q, D) times their weights, as the registration takes them.

    Raises:
        ValueError: as :func:`pwan.attributes.attributes_of`.
    """
    places = (torch.from_numpy(points)[None] for points in (source, reference))
    return attributes_of(of_source, of_reference, settings.attribute_weight, *places, single=True)


def names_of(given: str | None) -> list[str]:
    """The names in a list of columns, as "nx,ny,nz" or "[nx, ny, nz]"."""
    names = [name.strip().strip("'\"") for name in (given or "").strip().removeprefix("[").removesuffix("]").split(",")]
    return [name for name in names if name]


def _of_file(file: PointFile, rows: np.ndarray, numbers: list[str], labels: list[str]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    normal_names = file.normal_names
    if normal_names and (NORMALS in numbers or all(name in numbers for name in normal_names)):
        assert file.normals is not None
        found[NORMALS] = _numbers(file, NORMALS, file.normals)
        numbers = [name for name in numbers if name != NORMALS and name not in normal_names]
    if numbers:
        columns = [_numbers(file, name, _column(file, name)) for name in numbers]
        found[", ".join(numbers)] = np.column_stack(columns)
    found |= {name: _labels(file, name, _column(file, name)) for name in labels}
    return {name: values[rows] for name, values in found.items()}


def _column(file: PointFile, name: str) -> np.ndarray:
    if name not in file.fields:
        there = ", ".join(file.fields) or "nothing but coordinates"
        raise ValueError(f"{file.path} has no column {name!r}{nearest(name, list(file.fields))}; it has {there}")
    return np.asarray(file.fields[name])


def _numbers(file: PointFile, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name!r} of {file.path} holds text, such as {_first(values)!r}; name it in labels=")
    bad = ~np.isfinite(values).reshape(len(values), -1).all(1)
    if bad.any():
        raise ValueError(
            f"{name!r} of {file.path} must be finite, but {int(bad.sum())} points have none (the first is point "
            f"{file.rows[bad.argmax()]}); repair the column, or leave these points out"
        )
    return values.astype(np.float64)


def _labels(file: PointFile, name: str, values: np.ndarray) -> np.ndarray:
    if values.ndim != 1:
        raise ValueError(f"{name!r} of {file.path} has {values.shape[1]} numbers a point; expected one label for each")
    if values.dtype.kind == "f":
        fractions = values[~(np.isfinite(values) & (values % 1 == 0))]
        if len(fractions):
            raise ValueError(
                f"{name!r} of {file.path} holds {fractions[0]:g}; expected whole numbers or text as labels, or name it "
                "in attributes="
            )
        return values.astype(np.int64)
    return values


def _first(values: np.ndarray) -> Any:
    return str(values.flat[0])[:40]
