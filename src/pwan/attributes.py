"""What points carry beside their place and a match respects: normals, colours, labels.

Times a weight w they are further coordinates, in units of length, of the product of space and attributes, in which all
distances are then taken: d((y, a), (x, b))^2 = |y - x|^2 + w^2 |a - b|^2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pwan.arrays import real_array
from pwan.weights import median_spacing

Kind = Literal["normals", "numbers", "labels"]

NORMALS: Kind = "normals"  # the name of attributes that are made unit vectors and turn
# where nobody says the weight, in spacings of the reference (benchmarks/README.md, section "Attributes")
WEIGHT = 1.0  # of numbers and normals
LABELS = 3.0  # of labels
MOST_LABELS = 100  # that differ; more are numbers, by all appearance


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attributes of both sets of B problems, times their weights.

    Attributes:
        source: (B, r, A) float64, in the units of the points.
        reference: (B, q, A) likewise.
        normals: whether the first D columns are normals, which turn with the transform; all others stay.
        labels: how many of the last columns are those of labels.
    """

    source: Tensor
    reference: Tensor
    normals: bool = False
    labels: int = 0

    def __getitem__(self, problems: list[int]) -> Attributes:
        """Those of some of the problems."""
        return replace(self, source=self.source[problems], reference=self.reference[problems])

    def __truediv__(self, unit: Tensor) -> Attributes:
        """In another unit of length, (B,)."""
        unit = unit[:, None, None]
        return replace(self, source=self.source / unit, reference=self.reference / unit)

    def rows(self, source: Tensor, reference: Tensor | None) -> Attributes:
        """Those of some of the points: rows (B, k) of the source, and of the reference or None for all of it."""
        return replace(
            self,
            source=_rows(self.source, source),
            reference=self.reference if reference is None else _rows(self.reference, reference),
        )

    def followed(self, count: int) -> Attributes:
        """With those of so many points more behind each set, which are those of its first one."""
        source, reference = (
            torch.cat((of, of[:, :1].expand(-1, count, -1)), 1) for of in (self.source, self.reference)
        )
        return replace(self, source=source, reference=reference)

    def turned_round(self) -> Attributes:
        """Of the reference that moves onto the source."""
        return replace(self, source=self.reference, reference=self.source)

    @property
    def one_hot(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Which labels the points have, bool (B, r, L) and (B, q, L); None without labels."""
        if not self.labels:
            return None
        return self.source[..., -self.labels :].numpy() > 0, self.reference[..., -self.labels :].numpy() > 0

    def check(self, source: Tensor, reference: Tensor) -> None:
        """Refuse attributes that are not of these points, (B, r, D) and (B, q, D).

        Raises:
            ValueError: another type or number, or numbers that are not finite.
        """
        for name, points in (("source", source), ("reference", reference)):
            given = getattr(self, name)
            if given.dtype != torch.float64 or given.ndim != 3 or given.shape[:2] != points.shape[:2]:
                raise ValueError(
                    f"the attributes of the {name} must be float64 of shape {(*points.shape[:2], 'A')}, a row for each "
                    f"point; got {given.dtype} of shape {tuple(given.shape)}"
                )
            if not bool(given.isfinite().all()):
                raise ValueError(
                    f"the attributes of the {name} must be finite, but {int((~given.isfinite()).sum())} numbers are "
                    "not; correct them, or leave out their points"
                )
        counts = self.source.shape[2], self.reference.shape[2]
        if counts[0] != counts[1] or not counts[0] or (self.normals and counts[0] < source.shape[2]):
            least = source.shape[2] if self.normals else 1
            raise ValueError(
                f"both sets must have the same attributes, {least} numbers a point or more; got {counts[0]} of the "
                f"source and {counts[1]} of the reference"
            )


def attributes_of(source: Any, reference: Any, weight: Any, y: Tensor, x: Tensor, *, single: bool) -> Attributes | None:
    """The attributes of points (B, r, D) and (B, q, D), from what :func:`pwan.register` is given.

    A label is one of as many axes as there are labels, so that two different ones are a weight apart; normals are made
    unit vectors. Where nobody says the weight w, it is a spacing of the reference (the median distance of its points to
    the nearest other one), of labels, which are certain, three of them; and each column of numbers is divided by its
    RMS deviation from its mean over both sets, so that all of one name together deviate by a spacing. A column that is
    the same number everywhere is left out.

    Args:
        source: arrays or a mapping of names to arrays, see ``register``; None for none.
        reference: the same of the reference.
        weight: w, in units of length for a difference of 1; or a mapping of names to such; None for that above.
        y: the source's points.
        x: the reference's points.
        single: whether the arrays have no leading B.

    Returns:
        None without any, or where all are the same everywhere.

    Raises:
        ValueError: attributes that do not fit the points or each other, or a weight that is not positive.
    """
    given = {"source": source, "reference": reference}
    missing = [name for name, of_set in given.items() if of_set is None]
    if missing:
        if len(missing) == 1:
            (other,) = given.keys() - missing
            raise ValueError(
                f"{other}_attributes are given without {missing[0]}_attributes; give the same of both sets"
            )
        if weight is not None:
            raise ValueError(
                "attribute_weight is given without attributes; give source_attributes and reference_attributes"
            )
        return None
    named = {name: of_set if isinstance(of_set, Mapping) else {"": of_set} for name, of_set in given.items()}
    _check_names(named)
    weights = _weights(weight, list(named["source"]))
    spacing = y.new_tensor([spacing_of(points) for points in x.numpy()])  # (B,)
    kinds: dict[Kind, list[list[Tensor]]] = {"normals": [], "numbers": [], "labels": []}  # in this order
    for name in named["source"]:
        words = [f"{role}_attributes" + (f" {name!r}" if name else "") for role in named]
        both = [_array(word, of_set[name]) for word, of_set in zip(words, named.values(), strict=True)]
        both = [array[None] for array in both] if single else both
        kind, columns = _block(name, both, words, (y, x), spacing[:, None, None], weights.get(name))
        kinds[kind].append(columns)
    parts = [
        torch.cat(of_set, -1) for of_set in zip(*(one for of_kind in kinds.values() for one in of_kind), strict=True)
    ]
    together = torch.cat(parts, 1)
    differs = (together != together[:, :1]).any(1).any(0)  # (A,)
    normals, labels = bool(kinds[NORMALS]), sum(columns[0].shape[2] for columns in kinds["labels"])
    differs[: y.shape[2] if normals else 0] = True
    if not bool(differs.any()):
        return None
    kept = int(differs[len(differs) - labels :].sum())
    return Attributes(parts[0][..., differs], parts[1][..., differs], normals, kept)


def spacing_of(points: np.ndarray) -> float:
    """The median distance of points (N, D), of which some may be at one place, to the nearest other place."""
    return median_spacing(np.unique(points, axis=0))


def _check_names(named: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse attributes of which one set lacks some.

    Raises:
        ValueError: names the attributes, and those that are there.
    """
    for role, other in (("reference", "source"), ("source", "reference")):
        lacking = [name for name in named[other] if name not in named[role]]
        if lacking:
            there = ", ".join(repr(name) for name in named[role] if name) or "unnamed ones"
            which = ", ".join(repr(name) for name in lacking if name) or "unnamed ones"
            raise ValueError(f"{role}_attributes lack {which} of the {other}; there are {there}; give the same of both")
    if not named["source"]:
        raise ValueError("source_attributes are empty; give some, or leave them out")


def _weights(weight: Any, names: list[str]) -> dict[str, float]:
    """The weight of each name that has one.

    Raises:
        ValueError: a name that is no attribute, or a weight that is no positive number.
    """
    each = dict(weight) if isinstance(weight, Mapping) else {} if weight is None else dict.fromkeys(names, weight)
    for name, value in each.items():
        if name not in names:
            raise ValueError(f"attribute_weight names {name!r}, which is no attribute; there are {', '.join(names)}")
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not (math.isfinite(value) and value > 0):
            raise ValueError(f"attribute_weight must be positive and finite, in units of length; got {value!r}")
    return {name: float(value) for name, value in each.items()}


def _array(words: str, given: Any) -> np.ndarray:
    """Numbers, or labels as text or whole numbers.

    Raises:
        ValueError: neither.
    """
    try:
        array = None if isinstance(given, (Tensor, np.ma.MaskedArray)) else np.asarray(given)
    except ValueError:  # rows of different lengths
        array = None
    text = array is not None and array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat)
    if array is not None and (text or array.dtype.kind in "US"):
        return array.astype(str)
    return real_array(words, given, "biuf")


def _block(
    name: str,
    both: list[np.ndarray],
    words: list[str],
    points: tuple[Tensor, Tensor],
    spacing: Tensor,
    told: float | None,
) -> tuple[Kind, list[Tensor]]:
    """What one name is, and its columns (B, r, A) and (B, q, A), in units of length.

    Args:
        name: of the attribute.
        both: (B, N) or (B, N, A) of both sets, as given.
        words: what to call each of them.
        points: (B, N, D) of both sets.
        spacing: (B, 1, 1) of the reference.
        told: the weight, where somebody says it.

    Raises:
        ValueError: attributes that do not fit the points or each other.
    """
    for word, array, of_set in zip(words, both, points, strict=True):
        alone = int(len(of_set) == 1)
        if array.ndim not in (2, 3) or array.shape[:2] != of_set.shape[:2] or 0 in array.shape:
            raise ValueError(
                f"{word} must hold a row of numbers, or a label, for each of the points of shape "
                f"{tuple(of_set.shape)[alone:]}; got shape {array.shape[alone:]}"
            )
    labelled = [array.ndim == 2 and array.dtype.kind in "USbiu" for array in both]
    if name != NORMALS and all(labelled):
        weight = LABELS * spacing if told is None else torch.full_like(spacing, told)
        return "labels", [weight * hot for hot in _one_hot(words, both)]
    weight = WEIGHT * spacing if told is None else torch.full_like(spacing, told)
    for word, array, label in zip(words, both, labelled, strict=True):
        if label or array.dtype.kind in "US":
            raise ValueError(
                f"{word} holds labels where numbers belong; give real numbers (floats), or labels, one a point, in both"
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"{word} must be finite, but {int((~np.isfinite(array)).sum())} numbers are not; correct them, or "
                "leave out their points"
            )
    y, x = (torch.from_numpy(np.array(array, dtype=np.float64)).reshape(*array.shape[:2], -1) for array in both)
    if y.shape[2] != x.shape[2] or (name == NORMALS and y.shape[2] != points[0].shape[2]):
        expected = f"{points[0].shape[2]} numbers a point, as normals have" if name == NORMALS else "as many numbers"
        raise ValueError(
            f"{words[0]} and {words[1]} must hold {expected}; got {y.shape[2]} a point of the source and "
            f"{x.shape[2]} of the reference"
        )
    if name == NORMALS:
        lengths = [normal.norm(dim=-1, keepdim=True) for normal in (y, x)]
        return NORMALS, [
            weight * normal / torch.where(length > 0, length, 1.0)
            for normal, length in zip((y, x), lengths, strict=True)
        ]
    mean = (y.mean(1, keepdim=True) + x.mean(1, keepdim=True)) / 2
    y, x = y - mean, x - mean
    if told is None:
        deviation = ((y.square().mean(1, keepdim=True) + x.square().mean(1, keepdim=True)) / 2).sqrt()  # (B, 1, A)
        varying = (deviation > 0).sum(-1, keepdim=True).clamp(min=1).to(deviation)
        weight = weight / torch.where(deviation > 0, deviation * varying.sqrt(), 1.0)
    return "numbers", [weight * y, weight * x]


def _one_hot(words: list[str], both: list[np.ndarray]) -> list[Tensor]:
    """Labels (B, N) as points (B, N, L) of which two are 1 apart where their labels differ.

    Raises:
        ValueError: text and numbers, or so many labels that they are no labels.
    """
    if len({array.dtype.kind in "US" for array in both}) > 1:
        raise ValueError(
            f"{words[0]} and {words[1]} must both hold text or both hold numbers, as labels of one kind do"
        )
    labels = np.unique(np.concatenate([array.ravel() for array in both]))
    if len(labels) > MOST_LABELS:
        raise ValueError(
            f"{words[0]} and {words[1]} hold {len(labels)} different labels, but at most {MOST_LABELS} are taken; give "
            "numbers as floats"
        )
    return [torch.from_numpy((array[..., None] == labels) * math.sqrt(0.5)) for array in both]


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[2]))
