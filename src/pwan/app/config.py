"""The schema of the configuration, and its way from Hydra to plain checked objects.

``Config`` is the first entry of the defaults list of conf/config.yaml, so Hydra itself refuses keys that it does not
know. What Hydra cannot check, because a list of methods needs an open node, is checked here after composing.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import MISSING, DictConfig, OmegaConf

from pwan import shapes
from pwan.app.catalogue import TASKS
from pwan.app.checked import Checked
from pwan.bench.cell import Cell, MethodEntry
from pwan.bench.settings import TrackingSettings, TrainerSettings
from pwan.settings import build_settings, nearest
from pwan.synthesis import SynthesisSettings

# keys of a method's node that are not settings of the method
NOT_SETTINGS = ("method", "contract_mse", "contract_options", "contract_problem")
# overrides that make no other cell of a sweep; of trainer and logger with all that is in them
_NO_CELL = re.compile(
    r"[+~]*((experiment|method|trials|workers|output|name|retry_failed|task|options\.known)(=|$)"
    r"|(trainer|logger)([.=@]|$))"
)
# what a cell's folder leaves out of the names of its overrides
_SECTIONS = re.compile(r"^\+*(?:[\w/@]+\.)*(?=\w+=)")
_METHOD = re.compile(r"^\+*method\.(?=\w+\.[\w.]+=)")


@dataclass
class ShapeConfig:
    """The group ``shape``: which point set, and whose copy of it ("packaged" or "paper")."""

    name: str = MISSING
    source: str = "packaged"


@dataclass
class Config:
    """The top level of the configuration, with its defaults.

    Attributes:
        task: a file of ``pwan.app.tasks``, for example "benchmark" (register trials).
        name: of the experiment; names the output folder.
        seed: of all random numbers, with the trial and the purpose.
        trials: problems of a cell, numbered from 0.
        workers: "auto", or 0: all trials as one batch, 1: one after the other, n: in n processes.
        retry_failed: run failed trials again that are in the rows already.
        output: folder of the results, relative to where the command is called.
        shape, problem, method, trainer, logger: see the folders of conf/ with these names; ``problem`` holds the
            settings of ``pwan.synthesis``, each node of ``method`` those of its method.
        options: settings of the task (``Settings`` in its file).
    """

    task: str = "benchmark"
    name: str = "custom"
    seed: int = 0
    trials: int = 20
    workers: Any = "auto"
    retry_failed: bool = False
    output: str = "outputs/${name}"
    shape: ShapeConfig = field(default_factory=ShapeConfig)
    problem: dict[str, Any] = field(default_factory=lambda: asdict(SynthesisSettings()))
    method: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=lambda: asdict(TrainerSettings()))
    logger: dict[str, Any] = field(default_factory=lambda: asdict(TrackingSettings()))


KEYS = [f.name for f in fields(Config)]
# the sections whose keys are known before any method is; Hydra lets +key=... pass, so they are checked here
SECTIONS: dict[str, type] = {
    "shape": ShapeConfig,
    "problem": SynthesisSettings,
    "logger": TrackingSettings,
    "trainer": TrainerSettings,
}


def register_schema() -> None:
    """Tell Hydra the schema, and the resolver that names a sweep's folders."""
    schema = OmegaConf.structured(Config)
    for name in ("method", "options"):  # their keys stand in dataclasses, not here: they are checked after composing
        OmegaConf.set_struct(schema[name], False)
    ConfigStore.instance().store(name="schema", node=schema)
    OmegaConf.register_new_resolver("pwan_folder", cell_folder, replace=True)


def check(config: DictConfig) -> Checked:
    """Check what Hydra could not.

    Raises:
        ValueError: names the key, what was expected, and the nearest right one.
    """
    plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    for key in plain:
        if key not in KEYS:
            raise ValueError(f"unknown key '{key}'{nearest(key, KEYS)}; there are {', '.join(KEYS)}")
    sections = {name: build_settings(kind, plain[name], owner=name) for name, kind in SECTIONS.items()}
    options = build_settings(TASKS.settings_class(plain["task"]), plain["options"], owner=f"task {plain['task']}")
    if hasattr(options, "check_files"):
        options.check_files()
    if plain["trials"] < 1:
        raise ValueError(f"trials must be at least 1, got {plain['trials']}")
    workers = plain["workers"]
    if workers != "auto" and not (isinstance(workers, int) and not isinstance(workers, bool) and workers >= 0):
        raise ValueError(f"workers must be auto or a whole number from 0, got {workers!r}")
    shape = sections["shape"]
    names = shapes.names(shape.source)
    if shape.name not in names:
        raise ValueError(
            f"shape {shape.name!r} of source {shape.source} does not exist{nearest(shape.name, names)}; "
            f"there are {', '.join(names)}"
        )
    return Checked(
        plain["task"],
        Cell(plain["name"], shape.name, shape.source, sections["problem"], plain["seed"]),
        method_entries(plain["method"]),
        plain["trials"],
        workers,
        plain["retry_failed"],
        sections["logger"],
        sections["trainer"],
        options,
        {
            **plain,
            **{name: asdict(section) for name, section in sections.items()},
            "options": asdict(options),
            "method": {},
        },
    )


def method_entries(nodes: Mapping[str, Any]) -> list[MethodEntry]:
    """The entries of the node ``method``, in the order of the list of methods."""
    entries = []
    for name, node in nodes.items():
        # every YAML states the bound; a node without it was made by an override such as method.cpd.w=1 alone
        if not isinstance(node, dict) or "contract_mse" not in node:
            listed = [
                other for other, content in nodes.items() if isinstance(content, dict) and "contract_mse" in content
            ]
            raise ValueError(
                f"method.{name} is set, but {name!r} is not in the list of methods {listed}{nearest(name, listed)}; "
                "correct the name, or add it to 'method=[...]' (its YAML must state contract_mse)"
            )
        options = {key: value for key, value in node.items() if key not in NOT_SETTINGS}
        entries.append(MethodEntry(name, node.get("method") or name, options))
    if not entries:
        raise ValueError("the list of methods is empty; name at least one, for example 'method=[pwan]'")
    return entries


def cell_folder(overrides: Sequence[str], sweep: str | None = None) -> str:
    """A folder's name for a sweep's cell: ``problem.keep=0.7`` and ``seed=1`` become ``keep=0.7_seed=1``.

    A method's setting keeps the method's name: ``method.pwan.rank=50`` becomes ``pwan.rank=50``. It did not always: the
    name of before is kept where the sweep's folder, if given, has such a folder with rows of this setting. What chooses
    which methods run, or how, makes no other cell: its rows belong beside those that are there.
    """
    varying = [override for override in sorted(overrides) if not _NO_CELL.match(override)]
    before = _folder_name(varying, [_SECTIONS.sub("", override) for override in varying])
    of_methods = [override for override in varying if _METHOD.match(override)]
    if sweep is not None and of_methods and all(_has_rows_of(Path(sweep, before), one) for one in of_methods):
        return before
    return _folder_name(varying, [(_METHOD if one in of_methods else _SECTIONS).sub("", one) for one in varying])


def _folder_name(overrides: Sequence[str], shortened: Sequence[str]) -> str:
    """The shortened overrides as a name that any file system takes."""
    spelled = ",".join(re.sub(r"^(?=(method|options)\.)", "++", override) for override in overrides)  # as it always was
    name = "_".join(shortened) or "cell"
    safe = re.sub(r"[^\w.=-]", "-", name)[:100]
    return safe if safe == name else f"{safe}-{zlib.crc32(spelled.encode()):08x}"


def _has_rows_of(folder: Path, override: str) -> bool:
    """Whether the folder has a row of the method and setting that an override such as method.pwan.rank=50 names."""
    path = folder / "rows.jsonl"  # read here, for pwan.bench.rows loads torch
    if not path.is_file():
        return False
    parsed = OverridesParser.create().parse_override(override)
    _, method, setting = parsed.key_or_group.split(".", 2)
    value = getattr(parsed.value(), "text", parsed.value())
    for line in path.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError, AttributeError):  # no row, as a last line that was cut off
            row = json.loads(line)
            options = json.loads(row.get("options") or "null")  # None: of a task or a time that did not note them
            if row.get("method") == method and (options is None or (setting, value) in options.items()):
                return True
    return False
