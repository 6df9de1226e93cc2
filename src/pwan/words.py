"""A few readable lines about a problem, a result or a transform: what ``repr`` gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

SHOWN = 5  # problems of a batch that get a line of their own


def counted(count: int, what: str) -> str:
    """So many of something, in words."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def part_of(part: int, whole: int, what: str) -> str:
    """So many of all are ..., in words up to the verb."""
    return f"{part} of {counted(whole, what)} {'is' if part == 1 else 'are'}"


def problem_words(problem: Any) -> str:
    """Sizes, limits, and what else a :class:`pwan.problem.RegistrationProblem` states."""
    (count, r, d), q = problem.source.shape, problem.reference.shape[1]
    lines = [f"{type(problem).__name__}: {_sets(count, r, q, d)}"]
    for name in ("mass", "distance"):
        if (value := getattr(problem, name)) is not None:
            lines.append(f"{name}: {_some([f'{number:.6g}' for number in value.tolist()])}")
    named = {"truth": "truth", "guess": "guess", "source_faces": "source faces", "reference_faces": "reference faces"}
    further = [words for name, words in named.items() if getattr(problem, name) is not None]
    further += [
        f"{name} weights" for name in ("source", "reference") if getattr(problem, f"{name}_weights") is not None
    ]
    if problem.attributes is not None:
        further.append(f"{problem.attributes.source.shape[2]} attributes")
    if problem.landmarks is not None:
        further.append(f"{problem.landmarks.shape[1]} landmarks" + (" each" if count > 1 else ""))
    if further:
        lines.append(f"with {', '.join(further)}")
    return "\n  ".join(lines)


def result_words(result: Any) -> str:
    """Sizes, status, matched share, seconds and stop reason of a :class:`pwan.problem.RegistrationResult`, whether its
    arrays have a leading B or, as :func:`pwan.register` gives them for one problem, none.
    """
    *batch, r, d = result.transformed.shape
    q, name = result.reference_matched.shape[-1], type(result).__name__
    if not batch:
        matched = int(result.matched.sum())
        return "\n  ".join(
            (
                f"{name}: {_sets(1, r, q, d)}",
                f"status: {result.status}, {result.stop_reason}",
                f"matched: {matched} of {r} source points ({matched / r:.0%}), "
                f"{int(result.reference_matched.sum())} of {q} reference points",
                f"seconds: {result.seconds:.3g}",
            )
        )
    (count,) = batch
    lines = [f"{name}: {_sets(count, r, q, d)}"]
    for k in range(min(count, SHOWN)):
        share = int(result.matched[k].sum()) / r
        lines.append(
            f"{k}: {result.status[k]}, {share:.0%} of the source matched, {result.seconds[k]:.3g} s, "
            f"{result.stop_reason[k]}"
        )
    if count > SHOWN:
        rest = Counter(result.status[SHOWN:])
        lines.append(f"and {count - SHOWN} more: {', '.join(f'{n} {status}' for status, n in rest.items())}")
    return "\n  ".join(lines)


def transform_words(name: str, parts: dict[str, Any]) -> str:
    """A transform by what its ``to_dict`` gives: the affine part, and the kernel of the displacement."""
    bent = parts["displacement"]
    formula = "y @ affine + translation" + ("" if bent is None else " + V(y)")
    rows = [_vector(row) for row in parts["affine"]]
    lines = [
        f"{name}: y -> {formula}, points in {len(rows)}-D",
        f"affine: [{', '.join(rows)}], scale {parts['scale']:.4g}",
        f"translation: {_vector(parts['translation'])}",
    ]
    if bent is not None:
        width = "" if bent["width"] is None else f" of width {bent['width']:.4g}"
        lines.append(f"V: {bent['kernel']} kernel{width}, {bent['centres']} centres")
    return "\n  ".join(lines)


def _sets(count: int, r: int, q: int, d: int) -> str:
    batch = f"{count} problems, " if count > 1 else ""
    return f"{batch}{r} source points onto {q} reference points in {d}-D"


def _vector(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"


def _some(each: list[str]) -> str:
    more = f", and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more
