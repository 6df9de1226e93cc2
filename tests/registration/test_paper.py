"""``pwan_paper`` is the authors' released code, ``pwan_text`` the paper's text, each to the letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pwan import shapes
from pwan.devices.ranks import Place
from pwan.problem import RegistrationProblem
from pwan.registration.game import Game
from pwan.registration.pipeline import Registration, register
from pwan.registration.presets import resolve, resolve_kind, resolved
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PaperSettings, PwanSettings, TextSettings
from pwan.registration.setup import set_up
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.transport.potential import pieces

NOISE = {"points": 40, "outlier_ratio": 0.5}
PARTIAL = {"points": 60, "keep": 0.7, "distance": 0.05, "deformation_lambda": 50.0}


def problem(**settings: Any) -> RegistrationProblem:
    return make_problem(shapes.load("bunny"), SynthesisSettings(**settings), seed=0, trials=[0])


@pytest.mark.parametrize(
    ("synthesis", "expected"),
    {
        "noise": (NOISE, ("mass", 1500, "separate", "exact")),
        "partial": (PARTIAL, ("mass", 2000, "none", "learned")),
        "the right end of the partial figure": (PARTIAL | {"keep": 1.0}, ("mass", 2000, "none", "learned")),
        "complete": ({"points": 40}, ("complete", 2000, "separate", "learned")),
    }.values(),
    ids=["noise", "partial", "keep 1", "complete"],
)
def test_the_released_codes_scripts_go_by_the_kind_of_problem(
    synthesis: dict[str, Any], expected: tuple[str, int, str, str]
) -> None:
    used = resolved(problem(**synthesis), PaperSettings())
    assert (used["kind"], used["steps"], used["normalisation"], used["threshold"]) == expected
    assert (used["beta"], used["rank"], used["coherence"], used["sigma"], used["updates"]) == (2.0, 500, 0.01, 0.1, 30)


def test_this_projects_pwan_keeps_its_kind_on_complete_problems() -> None:
    assert resolved(problem(points=40), PwanSettings())["kind"] == "mass"
    assert resolved(problem(**PARTIAL | {"keep": 1.0}), PwanSettings(threshold="learned"))["threshold"] == "exact"


def test_a_batch_of_whole_sets_that_weigh_the_same_and_others_is_solved_case_by_case() -> None:
    given = problem(points=40)
    two = RegistrationProblem(
        given.source.repeat(2, 1, 1),
        given.reference.repeat(2, 1, 1),
        reference_weights=torch.tensor([[1.0], [2.0]], dtype=torch.float64).repeat(1, given.reference.shape[1]),
    )
    settings = PaperSettings(steps=2, updates=1, nearest_steps=1)
    assert [resolved(two.select([k]), settings)["kind"] for k in (0, 1)] == ["complete", "mass"]
    with pytest.raises(ValueError, match="of one case"):
        Registration(two, settings, [0, 0])
    found = register(two, settings, seeds=[0, 0])
    for k in (0, 1):
        torch.testing.assert_close(found.transformed[k], register(two.select([k]), settings, seeds=[0]).transformed[0])


def test_the_text_differs_from_the_released_code() -> None:
    for synthesis, points in ((NOISE, 40), (PARTIAL, 42)):
        used = resolved(problem(**synthesis), TextSettings())
        assert (used["steps"], used["updates"], used["beta"], used["activation_slope"]) == (2000, 20, 1.0, 0.0)
        assert (used["penalty"], used["nearest_of"], used["clip"]) == ("max", "reference", 0.0)
        assert used["coherence"] == pytest.approx(2 * 0.01 / points)
    assert resolved(problem(**NOISE), TextSettings(coherence=0.5))["coherence"] == 0.5


def game(given: RegistrationProblem, settings: PwanSettings) -> tuple[Game, PwanSettings]:
    kind, limited = resolve_kind(given, settings.type)
    used, _ = resolve(settings, limited, kind)
    place = Place(dtype=torch.float64)
    setup = set_up(limited, used, kind, [0], place)
    one = Game(setup, used, [0], Schedule(used, setup.distance, None), place, capturable=False)
    one.sample.resize(given.source.shape[1], 0)
    one.sample.move()
    return one, used


@pytest.mark.parametrize("settings", [PaperSettings(), TextSettings()], ids=["released", "text"])
def test_a_step_descends_the_loss_and_the_energy_as_stated(settings: PwanSettings) -> None:
    """Released: lambda (sigma I + G)^-1 V beside masses of 1/r; text: 2 lambda (...) beside masses of 1."""
    given = problem(**PARTIAL)
    one, used = game(given, settings)
    d, r = 3, given.source.shape[1]
    v = torch.randn(1, r, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    one.transform.parameters[:, d + 1 :] = v
    found = torch.zeros_like(one.transform.parameters)
    one.energy.add_gradient(found)
    assert used.beta is not None
    kernel = torch.exp(-torch.cdist(one.transform.source, one.transform.source).square() / (2 * used.beta**2))
    stated = 0.01 * torch.linalg.solve(0.1 * torch.eye(r, dtype=torch.float64) + kernel, v)
    if isinstance(settings, TextSettings):
        stated = 2 * stated / r  # over r, as the loss is here
    torch.testing.assert_close(found[:, d + 1 :], stated, rtol=1e-4, atol=1e-7)  # the factor leaves tiny modes out


def penalised(one: Game, **changed: Any) -> Tensor:
    """The penalty's part of the network's gradient."""
    one.loss.settings = replace(one.settings, **changed)
    points = torch.cat((one.reference, one.sample.points), 1)
    features = one.network.features(points)
    seen = one.sample.parts[0]
    out, gradients = torch.zeros_like(one.network.parameters), []
    for with_penalty in (True, False):
        source = one.network.output(features)[:, seen.q :]
        share = one.loss(one.network.output(features)[:, : seen.q], source, seen).source_share

        def slope(norms: Tensor, share: Tensor = share) -> Tensor:
            return one.loss.penalty_slope(norms, seen, share)

        one.network.accumulate_gradient(features, torch.zeros_like, slope if with_penalty else None, out)
        gradients.append(out.clone())
    return gradients[0] - gradients[1]


@pytest.mark.parametrize("penalty", ["mean", "max"])
def test_the_released_penalty_is_that_of_the_bounded_potential(penalty: str) -> None:
    one, _ = game(problem(**PARTIAL), replace(PaperSettings(), penalty=penalty))  # type: ignore[arg-type]
    one.network.parameters *= 3.0  # so that slopes exceed 1
    points = torch.cat((one.reference, one.sample.points), 1)
    q = one.reference.shape[1]
    with torch.no_grad():
        outputs = one.network.output(one.network.features(points))[0, q:].abs()
    one.loss.h.fill_(1.001 * float(outputs.median()))  # half of the source is clipped
    flat = one.network.parameters.detach().clone().requires_grad_()
    one.network.parameters = flat
    leaf = points.clone().requires_grad_()
    views = pieces(flat, one.network.shapes)
    one.network.layers = views
    hidden = [leaf]
    for weight, bias in zip(views[0], views[1], strict=True):
        hidden.append(torch.nn.functional.leaky_relu(hidden[-1] @ weight + bias, 0.2))
    last = torch.cat((hidden[-1], hidden[2]), -1)
    f = -((last * views[2]).sum(-1) + views[3]).abs()
    bounded = torch.cat((f[:, :q], f[:, q:].maximum(-one.loss.h[:, None])), 1)
    (slope,) = torch.autograd.grad(bounded.sum(), leaf, create_graph=True)
    norms = slope.norm(dim=-1)
    value = (
        100 * ((norms - 1).clamp(min=0) ** 2).mean() if penalty == "mean" else 100 * norms.square().max().clamp(min=1)
    )
    (expected,) = torch.autograd.grad(value, flat)
    one.network.parameters = torch.nn.Parameter(flat.detach(), requires_grad=False)
    torch.testing.assert_close(penalised(one), expected, rtol=1e-8, atol=1e-10)
    everywhere = penalised(one, penalised="output")
    assert (penalty == "max") or not torch.allclose(everywhere, expected)


def test_no_normalisation_leaves_the_origin_about_which_a_acts() -> None:
    given = problem(**PARTIAL)
    begun = Registration(given, PaperSettings(steps=1, nearest_steps=1), [0])
    torch.testing.assert_close(begun.problem.source, given.source)
    assert not bool(begun.frame.source_centre.any())


@pytest.mark.parametrize("unit", [0.01, 1000.0])
def test_no_normalisation_warns_of_another_unit(unit: float) -> None:
    given = problem(**PARTIAL)
    there = replace(given, source=unit * given.source, reference=unit * given.reference)
    with pytest.warns(UserWarning, match="an RMS radius near 1, but that of the reference is"):
        Registration(there, PaperSettings(steps=1), [0])
    Registration(there, PaperSettings(steps=1, normalisation="joint"), [0])


def test_what_the_released_code_drops_as_failed_is_given_unrefined_and_said() -> None:
    given, settings = problem(**NOISE), PaperSettings(steps=2, updates=2, nearest_steps=3)
    kept = register(given, settings, seeds=[0])
    assert "judged failed" not in kept.stop_reason[0]
    assert not torch.equal(kept.transformed, kept.transformed_unrefined)
    # without a penalty the potential is far from 1-Lipschitz, and gives more than moving all to their nearest points
    free: dict[str, Any] = {"kappa": 0.0, "network_rate": 1e-2, "updates": 30}
    steep = register(given, replace(settings, **free), seeds=[0])
    assert "judged failed, as the released code does" in steep.stop_reason[0]
    torch.testing.assert_close(steep.transformed, steep.transformed_unrefined)
    assert steep.status == ["ok"]
    text = register(given, TextSettings(steps=2, nearest_steps=3, **free), seeds=[0])
    assert "judged" not in text.stop_reason[0]
