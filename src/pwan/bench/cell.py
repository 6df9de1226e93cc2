"""What is run: a cell (one family of problems) and the methods that register its trials."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from pwan import methods
from pwan.deformation.settings import NEIGHBOURS
from pwan.randomness import derive_seed
from pwan.registration.settings import PULL
from pwan.synthesis import SynthesisSettings

if TYPE_CHECKING:
    from pwan.problem import RegistrationProblem


@dataclass(frozen=True)
class Cell:
    """One family of problems.

    Attributes:
        experiment: whose cell it is; a name for tables and folders.
        shape: a name of the catalogue.
        shape_source: "packaged" or "paper".
        synthesis: how problems are made of the shape.
        seed: with the number of a trial it gives the trial's problem.
    """

    experiment: str
    shape: str
    shape_source: str
    synthesis: SynthesisSettings
    seed: int

    def with_points(self, points: int) -> Cell:
        """The same family of problems with another number of points."""
        return replace(self, synthesis=replace(self.synthesis, points=points))

    def axes(self) -> dict[str, Any]:
        """The columns that tell this cell from others in rows and summaries."""
        return {
            "shape": self.shape,
            "shape_source": self.shape_source,
            **asdict(self.synthesis),
            "seed": self.seed,
        }


# axes and methods' settings that earlier rows do not have, with the value those rows stand for: they keep their hash
LATER: dict[str, Any] = {"voxel": 0.0, "crop": "both", "surface": "none", "weights": "none", "turn": 0.0}
# no cell has pairs, so that pull changes no row
LATER_SETTINGS: dict[str, Any] = {"coarse_steps": 0, "reach": 0.0, "sample": 0, "sample_first": 0, "pull": PULL}
# every row of before is by the Gaussian kernel, as its settings say
LATER_SETTINGS |= {"kernel": "gaussian", "geodesic_share": 1.0, "neighbours": NEIGHBOURS, "flexibility": "given"}
LATER_SETTINGS |= {"energy": "bending", "stiffness": 1.0, "stiffness_start": 10.0}
LATER_SETTINGS |= {"rank": None}  # bcpd's, which had no geodesic kernel; of other methods it is a number

AXES = ["shape", "shape_source", *(f.name for f in fields(SynthesisSettings)), "seed"]


@dataclass(frozen=True)
class MethodEntry:
    """One entry of the list of methods.

    Attributes:
        name: of the YAML.
        method: of the method's file.
        options: what differs from the method's defaults.

    Raises:
        ValueError: no such method file, or an option that its settings do not have (names the nearest one).
    """

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        methods.settings(self.method, self.options)

    def resolved(self, problem: RegistrationProblem) -> dict[str, Any]:
        """Every setting as the method uses it for the problem.

        Raises:
            ValueError: the settings do not fit the problem.
        """
        return methods.resolved(self.method, self.options, problem)


def settings_hash(cell: Cell, entry: MethodEntry, resolved: Mapping[str, Any]) -> str:
    """Twelve hex digits that change with anything that could change a row of this cell and method.

    ``resolved`` are the entry's settings as used for the cell's problems, which are all of one kind. The name of the
    experiment, the number of trials and of workers are left out: they change no row.
    """
    axes, used = (
        {name: value for name, value in given.items() if name not in later or value != later[name]}
        for given, later in ((cell.axes(), LATER), (resolved, LATER_SETTINGS))
    )
    text = json.dumps([axes, entry.name, entry.method, used], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def trial_seed(seed: int, trial: int) -> int:
    """The seed that every method gets for one trial."""
    return derive_seed(seed, trial, "method")
