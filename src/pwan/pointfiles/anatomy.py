"""In which of the two coordinate systems of medical images a file says its points are: 3D Slicer writes it into meshes
("SPACE=LPS"), .fcsv ("CoordinateSystem = LPS", or 0 for RAS and 1 for LPS) and .mrk.json.
"""

from __future__ import annotations

import re
from typing import Literal

from pwan.pointfiles.content import PointFile

HEAD = 200  # lines that are looked at
_WORD = re.compile(r"(?i)\b(?:SPACE|CoordinateSystem)\s*=\s*(RAS|LPS|0|1)\b")


def anatomical(file: PointFile) -> Literal["lps", "ras"] | None:
    """As "lps" x leads to a patient's left and y to the back, as "ras" to the right and the front; None where the file
    does not say which."""
    layout = file.layout
    if file.format == "markups":
        said = str(layout["document"]["markups"][0].get("coordinateSystem", "LPS")).upper()
        return "ras" if said in ("RAS", "0") else "lps"
    lines = [*layout.get("comments", ()), *(line for _, line in layout.get("head", ()))]
    lines += [line for line in layout.get("lines", ())[:HEAD] if line.startswith("#")]
    if file.format == "stl":
        lines.append(layout["name"].decode("latin-1"))
    found = next((match[1].upper() for line in lines if (match := _WORD.search(line))), None)
    return None if found is None else "ras" if found in ("RAS", "0") else "lps"
