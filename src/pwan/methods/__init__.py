"""The catalogue of methods: one file in this folder adds a method, nothing else is edited.

A method file ``methods/<name>.py`` defines

- ``Settings``: a frozen dataclass with the method's defaults (their only home);
- ``register(problem, settings, *, seeds, observer=None) -> RegistrationResult``: a function from a batch of problems to
  a batch of results. ``seeds`` holds one integer for each problem; ``observer`` is called after each step;
- ``resolved(problem, settings) -> dict``, only where settings that are None follow from the problem: every setting as
  it is used for the problem.

A method whose ``Settings`` have ``pull`` uses a problem's landmarks, and one whose ``Settings`` say ``weighted`` the
weights of its points, one whose ``Settings`` say ``attributed`` their attributes; the others refuse them. One whose
``Settings`` say ``needs_faces`` refuses problems without the source's faces.

Files whose name begins with an underscore are not methods. A method file must import without its optional package.
Where a method file loads torch or scipy, its ``Settings`` may stand in ``_settings/<name>.py``, which loads neither, so
that the command line refuses a wrong key at once; the method file then imports them from there.

``names``, ``find``, ``check_name`` and ``settings_class`` are those of :class:`pwan.catalogue.Catalogue`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pwan.catalogue import Catalogue
from pwan.settings import build_settings

if TYPE_CHECKING:
    from pwan.problem import Observer, RegistrationProblem, RegistrationResult


_CATALOGUE = Catalogue(__name__, "method")
names, find, check_name = _CATALOGUE.names, _CATALOGUE.find, _CATALOGUE.check_name
settings_class = _CATALOGUE.settings_class


def takes_landmarks(name: str) -> bool:
    """Whether a method can use landmarks: its settings say how they pull."""
    return "pull" in setting_names(name)


def check_landmarks(name: str) -> None:
    """Refuse landmarks for a method that cannot use them.

    Raises:
        ValueError: it cannot; names the methods that can.
    """
    _check_takes(name, takes_landmarks, "does not take landmarks", "leave landmarks out")


def takes_weights(name: str) -> bool:
    """Whether a method can use weights of points: the class of its settings says so."""
    return getattr(settings_class(name), "weighted", False)


def check_weights(name: str) -> None:
    """Refuse weights of points for a method that cannot use them.

    Raises:
        ValueError: it cannot; names those that can.
    """
    _check_takes(name, takes_weights, "counts each point once and does not take weights", "leave the weights out")


def check_attributes(name: str) -> None:
    """Refuse attributes of points for a method that cannot use them.

    Raises:
        ValueError: it cannot; names those that can.
    """
    _check_takes(name, _takes_attributes, "sees nothing but the points' places", "leave the attributes out")


def _check_takes(name: str, takes: Callable[[str], bool], why: str, instead: str) -> None:
    """Refuse a method that does not take something; the error says why, and what else to do."""
    if not takes(name):
        able = ", ".join(other for other in names() if takes(other))
        raise ValueError(f"method {name} {why}; take one of {able}, or {instead}")


def _takes_attributes(name: str) -> bool:
    return getattr(settings_class(name), "attributed", False)


def with_weights_it_takes(name: str, problem: RegistrationProblem) -> RegistrationProblem:
    """The problem, without weights of points where the method counts each point once."""
    if takes_weights(name):
        return problem
    return dataclasses.replace(problem, source_weights=None, reference_weights=None)


def needs_faces(name: str) -> bool:
    """Whether a method moves a mesh and not points: the class of its settings says so."""
    return getattr(settings_class(name), "needs_faces", False)


def setting_names(name: str) -> list[str]:
    """The names of all settings of a method."""
    return [f.name for f in dataclasses.fields(settings_class(name))]


def settings(name: str, options: Mapping[str, Any] | None = None, *, over: Any | None = None) -> Any:
    """The method's ``Settings`` with the options put over its defaults, or over a given instance of them.

    Raises:
        ValueError: an option that does not exist (names the nearest one) or has the wrong type or value; ``over`` is
            not of the method's own class.
    """
    if over is not None:
        _check_class(name, over)
        options = {key: getattr(over, key) for key in setting_names(name)} | dict(options or {})
    return build_settings(settings_class(name), options or {}, owner=f"method {name}")


def _check_class(name: str, given: Any) -> None:
    """Refuse what is not an instance of the method's own class: a subclass or a base has other defaults."""
    wanted, came = settings_class(name), type(given)
    if came is wanted:
        return
    if isinstance(given, type):
        words = f"the class {given.__name__} itself; call it: {given.__name__}()"
    else:
        owners = [other for other in names() if settings_class(other) is came]
        words = came.__name__ + "".join(f"; that is the class of method={owner!r}" for owner in owners)
    also = "" if wanted.__name__ == "Settings" else f" ({wanted.__name__})"
    raise ValueError(f"method {name} takes settings of the class {__name__}.{name}.Settings{also}, got {words}")


def resolved(name: str, options: Mapping[str, Any] | None, problem: RegistrationProblem) -> dict[str, Any]:
    """Every setting as the method would use it for the problem, defaults included; JSON can hold it.

    Raises:
        ValueError: a wrong option, or settings that do not fit the problem.
    """
    chosen = settings(name, options)
    module = find(name)
    if not hasattr(module, "resolved"):
        return dataclasses.asdict(chosen)
    try:
        return module.resolved(problem, chosen)
    except ValueError as error:
        raise ValueError(f"method {name}: {error}") from None


def run(
    name: str,
    problem: RegistrationProblem,
    options: Mapping[str, Any] | None = None,
    *,
    over: Any | None = None,
    seeds: Sequence[int],
    observer: Observer | None = None,
) -> RegistrationResult:
    """Register a batch of problems with the named method; ``seeds`` holds one integer for each problem. The options are
    put over its defaults, or ``over`` an instance of its ``Settings``.

    Raises:
        ValueError: a wrong option, a problem that the method cannot register, landmarks, weights or attributes that it
            cannot use,
            or no faces where it needs them.
    """
    if problem.landmarks is not None:
        check_landmarks(name)
    if any(weights is not None for weights in problem.masses):
        check_weights(name)
    if problem.attributes is not None:
        check_attributes(name)
    if problem.source_faces is None and needs_faces(name):
        raise ValueError(f"method {name} moves a mesh; give the source's faces, or take another method")
    from pwan.surroundings import undisturbed  # loads torch

    chosen = settings(name, options, over=over)
    with undisturbed():
        return find(name).register(problem, chosen, seeds=seeds, observer=observer)
