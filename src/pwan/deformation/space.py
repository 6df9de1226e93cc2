"""A found transform as a function on all of space: y -> y A + t + V(y), its Jacobian, and where it folds.

The displacement is V(y) = sum_l K(y, c_l) w_l, a kernel sum around a few centres, or it is known at the points of a
shape and led on from there (:mod:`pwan.deformation.surface_map`). PWAN's is the out-of-sample Nystrom
extension of its modes: V = Psi W with Psi = Phi E and Phi(y) = K(y, centres) U S^(-1/2), so w = U S^(-1/2) E W. The
same form holds the displacements of CPD and BCPD (Gaussian kernels) and thin-plate splines.

Shapes: M points, D coordinates, k centres. Points are rows, and a Jacobian's entry [i, j] is d moved_j / d y_i, so that
the Jacobian of y -> y A is A.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from pwan.arrays import real_array
from pwan.deformation.corrected import Corrected, correction_of
from pwan.deformation.grid import Direction, DisplacementGrid, to_grid
from pwan.deformation.kernels import Displacement, KernelName, KernelSum
from pwan.deformation.surface_map import SURFACE, SurfaceDisplacement
from pwan.files import save_arrays
from pwan.normalisation import Frame
from pwan.words import transform_words

BLOCK_NUMBERS = 1 << 18  # kernel values held at once: 2 MB, which a processor's cache holds
FORMAT = "pwan transform 2"  # of the file that a transform is kept in
# of a registration of files, it began where the start had moved the source
OLD_FORMAT = "pwan transform 1"


@dataclass(frozen=True, eq=False)
class SpaceTransform:
    """One problem's transform of all of space, in input coordinates and float64 whatever the method computed in.

    Calling it moves points. It takes numpy arrays, torch tensors or nested lists of shape (M, D) and answers with the
    same kind (numpy for lists, the tensor's device), in blocks: besides the answer a few megabytes are held, however
    many points there are. It can be pickled, and kept in a file with :meth:`save`.

    At the source points of the registration it gives the result's ``transformed``, but for what PWAN rounds: single
    precision, and coordinates that are rounded to about 2^-16 of the RMS radius before V is taken. Far from all of
    them a Gaussian V fades and the affine part alone is left; a thin-plate V does not fade.

    Attributes:
        frame: of this problem alone; the other fields are in its normalised coordinates.
        affine: (D, D) A.
        translation: (1, D) t.
        displacement: V.
    """

    frame: Frame
    affine: Tensor
    translation: Tensor
    displacement: Displacement

    def __call__(self, points: Any) -> Any:
        """Where points (M, D) in input coordinates go: (M, D) float64.

        Raises:
            ValueError: another shape, or no real numbers.
        """
        return self._in_blocks(points, self._moved, (self._dimension,))

    def jacobians(self, points: Any) -> Any:
        """d moved_j / d y_i at points (M, D) in input coordinates: (M, D, D) float64. A normal n, as a column, turns
        into the direction J^(-1) n.

        Raises:
            ValueError: another shape, or no real numbers.
        """
        return self._in_blocks(points, self._jacobians, (self._dimension,) * 2)

    def jacobian_determinants(self, points: Any) -> Any:
        """By how much the map stretches volume at points (M, D) in input coordinates: (M,) float64; below zero where it
        turns space inside out.

        Raises:
            ValueError: another shape, or no real numbers.
        """
        return self._in_blocks(points, lambda block: torch.linalg.det(self._jacobians(block)), ())

    def folded(self, points: Any) -> float:
        """The share of the points at which the Jacobian determinant is negative: the displacement folds there (or the
        affine part is a mirror image).

        Raises:
            ValueError: no points, another shape, or no real numbers.
        """
        determinants = self.jacobian_determinants(points)
        if not len(determinants):
            raise ValueError("the folded share of no points is not defined; give at least one point")
        return float((determinants < 0).sum()) / len(determinants)

    def __repr__(self) -> str:
        return transform_words(type(self).__name__, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold of it, in input coordinates: moved = y @ affine + translation + V(y).

        ``affine`` (D, D), ``translation`` (D,), ``scale`` (the D-th root of |det affine|), and ``displacement``: None
        for V = 0, else its ``kernel``, its ``width`` (the Gaussian's beta in units of the source's points, else None)
        and the number of its ``centres``, which :meth:`save` keeps. Where landmarks are pinned the centres are those of
        both sums, and ``pinned_width`` is the width of the correction's Gaussian.
        """
        none = torch.zeros_like(self.translation)[None]
        affine, translation, _ = self.frame.transform_to_input(self.affine[None], self.translation[None], none)
        v = self.displacement
        bent: dict[str, Any] = {
            "kernel": v.kind,
            "width": None if v.width is None else v.width * float(self.frame.source_scale),
            "centres": len(v.centres),
        }
        if isinstance(v, Corrected):
            bent["pinned_width"] = v.correction.beta * float(self.frame.source_scale)
        return {
            "affine": affine[0].tolist(),
            "translation": translation[0, 0].tolist(),
            "scale": float(torch.linalg.det(affine[0]).abs()) ** (1 / self._dimension),
            "displacement": bent if len(v.centres) else None,
        }

    def after(self, scale: float, rotation: Any, translation: Any) -> SpaceTransform:
        """The whole way of points that first go to ``scale * points @ rotation + translation``, as one transform.

        Args:
            scale: positive.
            rotation: (D, D), orthogonal.
            translation: (D,) in input units.
        """
        like: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}
        turn, shift = torch.as_tensor(rotation, **like), torch.as_tensor(translation, **like)
        frame = replace(
            self.frame,
            source_centre=(self.frame.source_centre - shift) @ turn.mT / scale,
            source_scale=self.frame.source_scale / scale,
        )
        return replace(self, frame=frame, affine=turn @ self.affine, displacement=self.displacement.turned(turn))

    def to_grid(
        self,
        points: Any,
        *,
        direction: Direction = "forward",
        spacing: float | None = None,
        tolerance: float | None = None,
    ) -> DisplacementGrid:
        """The displacement around points (N, D) of the source on a regular grid, for 3D Slicer, ANTs and ITK: see
        :func:`pwan.deformation.grid.to_grid`, and :func:`pwan.deformation.grid_files.write_grid` for a file."""
        surface = self.displacement.kind == SURFACE
        return to_grid(self, points, direction=direction, spacing=spacing, tolerance=tolerance, at_points=surface)

    def save(self, path: str | Path) -> None:
        """Write all of it to a file (npz, under exactly the name given), which appears in one move.

        Raises:
            OSError: the file cannot be written.
        """
        v = self.displacement
        arrays = {f.name: getattr(self.frame, f.name) for f in fields(Frame)} | v.arrays()
        arrays |= {"affine": self.affine, "translation": self.translation}
        words = {"format": np.array(FORMAT), "kernel": np.array(v.kind), "beta": np.array(v.width or 1.0)}
        save_arrays(Path(path), words | {name: array.numpy() for name, array in arrays.items()})

    @classmethod
    def load(cls, path: str | Path) -> SpaceTransform:
        """The transform that :meth:`save` kept; it gives the same points to the bit.

        Warns of a file of an older version: where a registration of files wrote it, the start is not in it.

        Raises:
            OSError: no such file, or it cannot be read.
            ValueError: it does not hold a transform.
        """
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as kept:
                words = {name: kept[name].item() for name in ("format", "kernel", "beta")}
                version = words.pop("format")
                if version not in (FORMAT, OLD_FORMAT) or words["kernel"] not in (*get_args(KernelName), SURFACE):
                    raise KeyError
                arrays = {name: torch.from_numpy(kept[name]) for name in kept.files if name not in ("format", *words)}
            frame = Frame(*(arrays.pop(f.name) for f in fields(Frame)))
            correction = correction_of(arrays)
            displacement: Displacement
            if words["kernel"] == SURFACE:
                displacement = SurfaceDisplacement(*(arrays.pop(f.name) for f in fields(SurfaceDisplacement)))
            else:
                displacement = KernelSum(arrays.pop("centres"), arrays.pop("weights"), **words)
            if correction is not None:
                displacement = Corrected(displacement, correction)
            transform = cls(frame=frame, displacement=displacement, **arrays)
        except (KeyError, ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
            raise ValueError(
                f"{path} does not hold a transform; expected a file that a transform's save() wrote ({FORMAT!r})"
            ) from None
        if version == OLD_FORMAT:
            warnings.warn(
                f"{path} was written by an older version: if a registration of files wrote it, it moves only points "
                'that the "start" in result.json has moved before (scale * points @ rotation + translation). Register '
                "again for a file with the whole way in it",
                UserWarning,
                stacklevel=2,
            )
        return transform

    @property
    def _dimension(self) -> int:
        return self.affine.shape[0]

    def _moved(self, points: Tensor) -> Tensor:
        displacement = self.displacement(self.frame.normalised_source(points[None])[0])
        return self.frame.apply(points[None], self.affine[None], self.translation[None], displacement[None])[0]

    def _jacobians(self, points: Tensor) -> Tensor:
        gradient = self.displacement.gradient(self.frame.normalised_source(points[None])[0])  # (M, D, D)
        return (self.affine + gradient) * (self.frame.reference_scale / self.frame.source_scale)

    @torch.no_grad()
    def _in_blocks(self, points: Any, of_block: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Any:
        """``of_block`` from (n, D) to (n, *shape) for all points, a block at a time, as the kind of array given."""
        given = real_array("points", points)
        if given.ndim != 2 or given.shape[1] != self._dimension:
            raise ValueError(f"points must have shape (M, {self._dimension}), got {tuple(given.shape)}")
        out = torch.empty(len(given), *shape, dtype=torch.float64, device="cpu")
        rows = max(1, BLOCK_NUMBERS // max(1, len(self.displacement.centres), self._dimension**2))
        for start in range(0, len(given), rows):
            block = torch.from_numpy(np.array(given[start : start + rows], np.float64, order="C"))
            out[start : start + rows] = of_block(block)
        return out.to(points.device) if isinstance(points, Tensor) else out.numpy()


def on_space(
    frame: Frame, affine: Tensor, translation: Tensor, displacements: Sequence[Displacement]
) -> list[SpaceTransform]:
    """The normalised maps (B, D, D), (B, 1, D) and their displacements as one transform of space for each problem."""
    return [
        SpaceTransform(frame.select(k), affine[k].double().clone(), translation[k].double().clone(), displacement)
        for k, displacement in enumerate(displacements)
    ]
