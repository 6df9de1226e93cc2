"""The part of the build that pyproject.toml cannot say: conf/ stands beside src/ and goes into the package."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConfiguration(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # an editable installation reads the clone's own
            built = Path(self.build_lib) / "pwan" / "conf"
            shutil.rmtree(built, ignore_errors=True)
            shutil.copytree("conf", built)


setup(cmdclass={"build_py": BuildWithConfiguration})
