"""The catalogue of tasks, which is the folder ``tasks``."""

from __future__ import annotations

from pwan.catalogue import Catalogue

REGISTER = "register"  # a task without Hydra, of pwan.app.own_scans
TASKS = Catalogue("pwan.app.tasks", "task", elsewhere=(REGISTER,))
