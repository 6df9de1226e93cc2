"""What a registration of two files leaves in its folder: all of it or nothing."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pwan
from pwan.deformation.normals import turned
from pwan.deformation.space import SpaceTransform
from pwan.extras import needs
from pwan.files import alone_in, naming, unfinished_in
from pwan.pointfiles import write_points
from pwan.scans.exporting import copy_beside, taken, write_exports
from pwan.scans.folder import MATCHES, RESULT, TRANSFORM, check_output, files, stale
from pwan.scans.outcome import Outcome
from pwan.scans.settings import ScanSettings
from pwan.trust.verdict import BEYOND

with needs("scans", "register_files"):  # at once: they come last, and are not to fail after all the work
    import pandas as pd

    from pwan.report.page import Scene, Section, Table, write_page
    from pwan.report.registered import Registration
    from pwan.report.scene import scene_json


def write_output(settings: ScanSettings, outcome: Outcome) -> tuple[str, ...]:
    """Write all files into a folder of their own inside the output folder, and then move them to their places.

    Returns:
        What was decided, in sentences.

    Raises:
        OSError: the folder cannot be written to; what was half written is removed.
        ValueError: the format cannot hold the points.
    """
    final, folder = files(settings), Path(settings.output)
    with unfinished_in(folder) as half, naming(folder, half):
        unfinished = {what: half / path.name for what, path in final.items()}
        pair = outcome.pair
        extra = {"matched": outcome.matched, "displacement": outcome.points - pair.source_file.points}
        normals = _turned_normals(outcome)
        written = write_points(unfinished["points"], pair.source_file, outcome.points, fields=normals, extra=extra)
        copied = taken(pair.source_file, copy_beside(pair.source_file, half), folder, settings.overwrite)
        told, notes = write_exports(settings, outcome, normals, unfinished)
        notes = [*written.notes, *notes]
        if copied:
            notes.append(f"copied beside the moved mesh, which names them: {', '.join(map(str, copied))}")
        if (transform := outcome.transform) is not None:
            transform.save(unfinished["transform"])
        _matches(outcome).to_csv(unfinished["matches"], index=False)
        contents = summary(settings, outcome)
        contents["notes"] += notes
        contents["exports"] = told
        unfinished["result"].write_text(json.dumps(contents, indent=1, allow_nan=False), encoding="utf-8")
        _page(settings, outcome, contents, unfinished["page"])
        with alone_in(folder):
            check_output(settings)  # another run may have ended here since this one began
            for copy in copied:
                (folder / copy).parent.mkdir(parents=True, exist_ok=True)
                os.replace(half / copy, folder / copy)
            for path in stale(settings) if settings.overwrite else ():
                path.unlink()
            for what, path in final.items():
                if unfinished[what].exists():
                    os.replace(unfinished[what], path)
                else:
                    path.unlink(missing_ok=True)  # of an earlier run
        return tuple(notes)


def summary(settings: ScanSettings, outcome: Outcome) -> dict[str, Any]:
    """What result.json holds."""
    pair, start, limits, result = outcome.pair, outcome.start, outcome.limits, outcome.result
    linear, shift = result.affine, result.translation[0]
    if start is not None:  # y -> (s y R + t) A + b + V
        linear, shift = start.scale * start.rotation @ linear, start.translation @ linear + shift
    near = outcome.distance[outcome.matched] if outcome.matched.any() else outcome.distance
    return {
        "trusted": outcome.verdict.trusted,
        "confidence": outcome.verdict.confidence,
        "verdict": list(outcome.verdict.sentences),
        "warnings": list(outcome.verdict.warnings),
        "source": {"file": str(pair.source_file.path), "points": len(pair.source_file.points)},
        "reference": {"file": str(pair.reference_file.path), "points": len(pair.reference_file.points)},
        "registered_points": [len(pair.source), len(pair.reference)],
        "weights": {
            "source": "none" if pair.source_weights is None else "even",
            "reference": "none" if pair.reference_weights is None else "even",
        },
        "transform": {
            "affine": linear.tolist(),
            "translation": shift.tolist(),
            "scale": float(abs(np.linalg.det(linear)) ** (1 / len(linear))),
            "displacement": f"in {TRANSFORM}, with all of the transform" if result.transform else None,
        },
        "start": None
        if start is None
        else {
            "scale": start.scale,
            "rotation": start.rotation.tolist(),
            "translation": start.translation.tolist(),
            "changed": start.changed,
            "reason": start.reason,
            "rival": start.rival if math.isfinite(start.rival) else None,
        },
        "mass": None
        if outcome.mass is None
        else outcome.mass * len(pair.source_file.points) / len(pair.source),  # in points of the file
        "mass_registered": outcome.mass,
        "distance": outcome.distance_limit,
        "limits": "given, or all of the smaller set" if limits is None else limits.reason,
        "threshold": _threshold(result),
        "matched": {"points": int(outcome.matched.sum()), "share": float(outcome.matched.mean())},
        "matches": _told_of_matches(outcome),
        "residual": {
            "mean": float(near.mean()),
            "median": float(np.median(near)),
            "q95": float(np.quantile(near, 0.95)),
            "max": float(near.max()),
            "spacing": outcome.measured.spacing,
        },
        "landmarks": _landmarks(outcome),
        "far_from_the_other_set": _far(outcome),
        "may_do_better": None if outcome.again is None else asdict(outcome.again),
        "faces": None if outcome.faces is None else asdict(outcome.faces),
        "folded_share": outcome.measured.folded,
        "status": result.status,
        "stop_reason": _stop_reason(outcome),
        "choice": result.choice,
        "seconds": outcome.seconds,
        "settings": asdict(settings),
        "method_settings": outcome.method_settings,
        "notes": list(pair.notes),
        "version": pwan.__version__,
    }


def _stop_reason(outcome: Outcome) -> str:
    """The method's; of one that has settled it does not say that it ran out of steps."""
    reason = str(outcome.result.stop_reason)
    if not outcome.measured.settled:
        return reason
    ran_out = r"took all (\d+) (steps|iterations|evaluations)( without reaching the tolerance)?"
    return re.sub(ran_out, r"settled within its \1 \2", reason)


def _told_of_matches(outcome: Outcome) -> dict[str, Any]:
    """What to know of matches.csv: how many rows it has, how many points of the reference stand in them, and a word."""
    rows = outcome.partner[outcome.matched]
    points = len(np.unique(rows))
    many = f"many to one: its {len(rows)} source points have {points} reference points between them"
    return {
        "rows": len(rows),
        "reference_points": points,
        "note": f"{many}; each has its nearest one, and the column shared says how many have the same"
        if points < len(rows)
        else "one to one: each source point has its nearest reference point, and no two have the same",
    }


def _landmarks(outcome: Outcome) -> dict[str, Any] | None:
    """The landmarks, by their numbers in the files or by their positions, how far they are apart, as the files are and
    in the end, and what pinning them bent."""
    pair, landmarks, ended = outcome.pair, outcome.pair.landmarks, outcome.measured.landmarks
    if landmarks is None or ended is None:
        return None
    before, (here, there) = landmarks.before, landmarks.places.swapaxes(0, 1)
    if landmarks.points is not None:
        here, there = pair.source_file.rows[landmarks.points[:, 0]], pair.reference_file.rows[landmarks.points[:, 1]]
    after = [length for _, length in ended.each]
    values = landmarks.names, here.tolist(), there.tolist(), landmarks.weights.tolist(), before.tolist(), after
    names = ("name", "source", "reference", "weight", "before", "after")
    return {
        "count": ended.count,
        "median_before": float(np.median(before)),
        "median": ended.median,
        "max": ended.largest,
        "pairs": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)],
        "pinned": None if outcome.measured.pinned is None else asdict(outcome.measured.pinned),
    }


def _far(outcome: Outcome) -> dict[str, Any]:
    """How much of each set lies far from the other one, and where the largest part of it does."""
    sides = zip(("source", "reference"), outcome.left, strict=True)
    names = ("share", "together", "centre", "radius")
    return {"spacings": BEYOND, **{side: {name: getattr(one, name) for name in names} for side, one in sides}}


def _threshold(result: Any) -> float | None:
    """The distance threshold h at the end, in the reference's units; None where it is not finite."""
    thresholds, transform = result.history.get("threshold"), result.transform
    if not thresholds or not math.isfinite(thresholds[-1]) or not isinstance(transform, SpaceTransform):
        return None
    return float(thresholds[-1]) * float(transform.frame.reference_scale)


def _turned_normals(outcome: Outcome) -> dict[str, np.ndarray]:
    """The source's normals by their field names, turned with the map, of their old lengths."""
    file = outcome.pair.source_file
    normals = file.normals
    transform = outcome.transform
    if normals is None or transform is None:
        return {}
    jacobians = transform.jacobians(file.points)  # (N, D, D) d moved_j / d y_i
    return file.normal_fields(turned(torch.from_numpy(normals), torch.from_numpy(jacobians)).numpy())


def _matches(outcome: Outcome) -> pd.DataFrame:
    """Matched source points and their nearest reference points, by their numbers in the files, from 0; ``shared`` is
    how many of these source points have the same reference point."""
    pair, y_rows = outcome.pair, np.flatnonzero(outcome.matched)
    x_rows = pair.reference_rows[outcome.partner[y_rows]]
    _, group, count = np.unique(x_rows, return_inverse=True, return_counts=True)
    return pd.DataFrame(
        {
            "source": pair.source_file.rows[y_rows],
            "reference": pair.reference_file.rows[x_rows],
            "distance": outcome.distance[y_rows],
            "weight": outcome.weight[y_rows],
            "shared": count[group],
        }
    )


def _page(settings: ScanSettings, outcome: Outcome, contents: dict[str, Any], path: Path) -> None:
    pair = outcome.pair
    reference_matched = np.zeros(len(pair.reference), dtype=bool)
    reference_matched[outcome.partner[outcome.matched]] = True
    shown = Registration(
        settings.method,
        "registered",
        outcome.points,
        outcome.matched,
        reference_matched,
        distance=outcome.distance / outcome.measured.spacing,
        reference_distance=outcome.left[1].distance,
        faces=pair.source_file.triangles,
        reference_faces=pair.reference_faces,
    )
    noted = any(left.noted for left in outcome.left)
    scene = scene_json(outcome.at_start, pair.reference, None, [shown], distance_first=noted)
    said = ["To be trusted" if contents["trusted"] else "Not to be trusted as it is", *contents["verdict"]]
    said += [f"Warning: {text}" for text in contents["warnings"]]
    numbers = {
        "matched points": contents["matched"]["points"],
        "matched share": contents["matched"]["share"],
        **{
            f"distance of matched points, {name}": contents["residual"][name]
            for name in ("median", "mean", "q95", "max")
        },
        "spacing of the reference": contents["residual"]["spacing"],
        **({} if contents["landmarks"] is None else {"landmarks, median distance": contents["landmarks"]["median"]}),
        "seconds": contents["seconds"],
    }
    tables = [
        Table("Verdict", pd.DataFrame({"what was found": said})),
        Table("Numbers, in the reference's units", pd.DataFrame(list(numbers.items()), columns=["what", "value"])),
    ]
    if contents["landmarks"] is not None:
        each = pd.DataFrame(contents["landmarks"]["pairs"])[["name", "before", "after"]]
        tables.append(Table("Landmarks, distances in the reference's units", each))
    caption = (
        "Before and after, by the menu; drag to turn, click in the legend to hide. By distance: what is orange or red "
        f"lies farther than {BEYOND:g} spacings of the reference from the other set."
    )
    made = [("Mass", str(contents["limits"])), (MATCHES, contents["matches"]["note"])]
    made += [("Note", text) for text in contents["notes"]]
    if outcome.start is not None:
        made.insert(0, ("Start", outcome.start.reason))
        caption += " Before is where the search for a start put the source." if outcome.start.changed else ""
    section = Section(
        "Result",
        made,
        tables,
        scenes=[Scene(caption, scene)],
        notes=() if outcome.again is None else (f"{outcome.again.when}:\n{outcome.again.command}",),
        files=[(RESULT, json.dumps(contents, indent=1))],
    )
    write_page(f"pwan: {pair.source_file.path.name} onto {pair.reference_file.path.name}", [section], path)
