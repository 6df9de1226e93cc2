"""A package of which each file is an entry: found by its name, and loaded only when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from types import ModuleType

from pwan.settings import nearest


@dataclass(frozen=True)
class Catalogue:
    """The files of a package, each with a class ``Settings``. Names that begin with an underscore are no entries.

    Attributes:
        package: the package's full name.
        kind: what an entry is, for error messages.
        elsewhere: names of entries that have no file here; for error messages too.
    """

    package: str
    kind: str
    elsewhere: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """The names of all entries, sorted: one for each file."""
        path = importlib.import_module(self.package).__path__
        return sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))

    def find(self, name: str) -> ModuleType:
        """The module of an entry.

        Raises:
            ValueError: no such entry; names the nearest one.
        """
        self.check_name(name)
        return importlib.import_module(f"{self.package}.{name}")

    def check_name(self, name: str) -> None:
        """Refuse a name that no entry has.

        Raises:
            ValueError: no such entry; names the nearest one.
        """
        if name not in self.names():
            there = sorted([*self.names(), *self.elsewhere])
            near = nearest(name, there)
            raise ValueError(f"unknown {self.kind} {name!r}{near}; the {self.kind}s are {', '.join(there)}")

    def settings_class(self, name: str) -> type:
        """An entry's ``Settings``: those of ``_settings/<name>.py`` where there is such a file, since the entry's own
        file may take seconds to import.

        Raises:
            ValueError: no such entry; names the nearest one.
        """
        self.check_name(name)
        alone = f"{self.package}._settings.{name}"
        found = importlib.util.find_spec(alone) is not None
        return importlib.import_module(alone if found else f"{self.package}.{name}").Settings
