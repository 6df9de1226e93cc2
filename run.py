"""The command line: ``python run.py experiment=noise_bunny``. Works from a plain clone.

Hydra completes words in a shell after ``eval "$(python run.py -sc install=bash)"`` in files that say @hydra.main.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "src"))

if __name__ == "__main__":
    try:
        from pwan.app import main

        code = main(sys.argv[1:], conf=ROOT / "conf")
    except KeyboardInterrupt:  # before there was anything to keep
        code = 130
    sys.exit(code)
