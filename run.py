"""The command line: ``python run.py experiment=noise_bunny``. Works from a plain clone.

Hydra completes words in a shell after ``eval "$(python run.py -sc install=bash)"`` in files that say @hydra.main.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))


def main() -> int:
    from pwan.app import main

    return main(sys.argv[1:], conf=ROOT / "conf")


if __name__ == "__main__":
    from pwan import process

    process.run(main)
