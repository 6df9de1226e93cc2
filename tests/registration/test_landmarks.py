"""Known pairs: their energy, its gradient and its least squares in closed form, and what they do to a registration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

import pwan
from pwan import methods, shapes
from pwan.begin.similarities import procrustes
from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import nystrom
from pwan.deformation.transform import Transform
from pwan.problem import RegistrationProblem
from pwan.registration.landmarks import Pull
from pwan.registration.pipeline import Registration
from pwan.registration.refinement import NearestSettings, nearest_point
from pwan.registration.settings import PwanSettings
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.synthesis import SynthesisSettings, make_problem

PAIRS = torch.tensor([[[0, 3], [7, 1], [12, 12], [30, 5], [8, 2]], [[1, 2], [2, 9], [39, 0], [5, 5], [0, 0]]])
WEIGHTS = torch.tensor([[1.0, 2.0, 0.5, 1.0, 3.0], [1.0, 1.0, 2.0, 0.0, 0.0]], dtype=torch.float64)
SMALL: dict[str, Any] = {"steps": 6, "stages": 0, "warmup": 2, "updates": 1, "width": 12, "features": 12, "rank": 15}


def some(kind: str, modes: bool = True) -> tuple[Transform, Tensor]:
    """Two transforms of 40 points, anywhere, and a reference of 15."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(2, 40, 3, generator=generator, dtype=torch.float64)
    basis = Coherence(source, nystrom(source, torch.arange(20).expand(2, -1), 2.0)).basis if modes else None
    transform = Transform(kind, source, basis)  # type: ignore[arg-type]
    transform.parameters.data += 0.3 * torch.randn(transform.parameters.shape, generator=generator, dtype=torch.float64)
    return transform, torch.randn(2, 15, 3, generator=generator, dtype=torch.float64)


def rows_of(transform: Transform, reference: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Source points, goals and weights that sum to 1 of the pairs, (2, 5, ...)."""
    take = [PAIRS[..., side, None].expand(-1, -1, 3) for side in (0, 1)]
    weights = WEIGHTS / WEIGHTS.sum(1, keepdim=True)
    return transform.source.gather(1, take[0]), reference.gather(1, take[1]), weights


@pytest.mark.parametrize("kind", ["nonrigid", "affine", "rigid", "free"])
def test_the_gradient_is_that_of_the_energy(kind: str) -> None:
    transform, reference = some("nonrigid" if kind == "free" else kind, kind != "free")
    pull = Pull(transform, reference, PAIRS, WEIGHTS, 2.5)
    parameters = transform.parameters.detach().clone().requires_grad_()
    moved = transform.points(parameters)
    apart = torch.stack([moved[k, PAIRS[k, :, 0]] - reference[k, PAIRS[k, :, 1]] for k in range(2)])
    weights = WEIGHTS / WEIGHTS.sum(1, keepdim=True)
    expected = 0.5 * 2.5 * (weights * apart.square().sum(-1)).sum(1)  # (2,)
    torch.testing.assert_close(pull.energy(parameters), expected)
    (slope,) = torch.autograd.grad(expected.sum(), parameters)
    torch.testing.assert_close(pull.gradient(parameters.detach()), slope)


def test_equal_weights_are_the_default_and_no_pairs_no_pull() -> None:
    transform, reference = some("affine")
    parameters = transform.parameters.detach()
    equal = Pull(transform, reference, PAIRS, None, 1.0).energy(parameters)
    torch.testing.assert_close(
        equal, Pull(transform, reference, PAIRS, torch.full((2, 5), 7.0), 1.0).energy(parameters)
    )
    none = Pull(transform, reference, PAIRS, torch.zeros(2, 5, dtype=torch.float64), 1.0)
    assert none.energy(parameters).tolist() == [0.0, 0.0]
    problem = RegistrationProblem(transform.source, reference)
    assert Pull.of(problem, transform, reference, 1.0) is None
    assert Pull.of(replace(problem, landmarks=PAIRS), transform, reference, 0.0) is None


def test_affine_pairs_alone_settle_at_weighted_least_squares() -> None:
    transform, reference = some("affine")
    pull = Pull(transform, reference, PAIRS, WEIGHTS, 2.0)
    here, goal, weights = rows_of(transform, reference)
    identity = Transform("affine", transform.source, None).parameters.detach()
    found = pull.settled(identity, torch.zeros(4, dtype=torch.float64))
    root = weights[0].sqrt()[:, None]  # the second problem has three pairs only, which leave an affine map open
    expected = torch.linalg.lstsq(root * torch.cat((here[0], torch.ones(5, 1)), 1), root * goal[0]).solution
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-5)
    reached = transform.points(found)[1, PAIRS[1, :3, 0]]
    torch.testing.assert_close(reached, goal[1, :3], rtol=0, atol=1e-4)


def test_modes_settle_where_pull_and_ridge_balance() -> None:
    transform, reference = some("nonrigid")
    pull = Pull(transform, reference, PAIRS, WEIGHTS, 2.0)
    identity = Transform("nonrigid", transform.source, transform.basis).parameters.detach()
    ridge = torch.linspace(0.1, 0.5, identity.shape[1], dtype=torch.float64)
    ridge[3] = 0.0
    found = pull.settled(identity, ridge)
    balance = pull.gradient(found) + ridge[:, None] * (found - identity)
    torch.testing.assert_close(balance, torch.zeros_like(balance), rtol=0, atol=1e-7)
    assert float((found - identity).abs().amax()) > 0.1


def test_rigid_pairs_settle_at_weighted_procrustes() -> None:
    transform, reference = some("rigid")
    here, goal, weights = rows_of(transform, reference)
    identity = Transform("rigid", transform.source, None).parameters.detach()
    found = Pull(transform, reference, PAIRS, WEIGHTS, 2.0).settled(identity, torch.zeros(4))
    expected = procrustes(here.numpy(), goal.numpy(), weights.numpy(), rotation=True, scale=False)
    np.testing.assert_allclose(transform.affine(found), expected.rotation, atol=1e-6)
    np.testing.assert_allclose(transform.translation(found)[:, 0], expected.translation, atol=1e-6)


def test_rigid_pairs_on_a_line_shift_only_and_none_move_nothing() -> None:
    transform, reference = some("rigid")
    identity = Transform("rigid", transform.source, None).parameters.detach()
    pairs, weights = PAIRS[:, :2], torch.tensor([[1.0, 3.0], [0.0, 0.0]], dtype=torch.float64)
    found = Pull(transform, reference, pairs, weights, 2.0).settled(identity, torch.zeros(4))
    shift = 0.25 * (reference[0, 3] - transform.source[0, 0]) + 0.75 * (reference[0, 1] - transform.source[0, 7])
    torch.testing.assert_close(found[0, 3], shift)
    assert bool((found[0, :3] == 0).all()) and torch.equal(found[1], identity[1])


@pytest.mark.parametrize("kind", ["affine", "rigid"])
def test_the_soft_assignment_of_pairs_alone_is_least_squares(kind: str) -> None:
    transform, reference = some(kind)
    pull = Pull(transform, reference, PAIRS, WEIGHTS + 0.5, 2.0)
    start = Transform(kind, transform.source, None).parameters.detach()  # type: ignore[arg-type]
    far = reference + 1e3  # where no point finds a partner
    settings = SoftSettings(steps=2, affine_ridge=0.0)
    found = soft_assignment(transform, start, far, None, settings, [0, 1], pull=pull)
    torch.testing.assert_close(found, pull.settled(start, torch.zeros(4)), rtol=0, atol=1e-5)
    without = soft_assignment(transform, start, far, None, settings, [0, 1])
    assert float((without - found).abs().max()) > 0.1


def test_the_nearest_refinement_follows_the_pairs() -> None:
    transform, reference = some("rigid")
    pull = Pull(transform, reference, PAIRS, WEIGHTS, 2.0)
    best = pull.settled(Transform("rigid", transform.source, None).parameters.detach(), torch.zeros(4))
    start = best.clone()
    start[:, 0, 1] += 0.05
    start[:, 3] -= 0.05
    nothing = torch.full((2,), 1e-9, dtype=torch.float64)  # the distance, within which nothing lies
    settings = NearestSettings(
        steps=400, rate=5e-4, of="source", rule="energy", coherence=0.0, sigma=0.1, affine_penalty=0.0
    )
    found, _ = nearest_point(transform, None, start, reference, None, nothing, settings, pull)
    least, before, after = (pull.energy(p) for p in (best, start, found))
    assert bool((after - least < 0.05 * (before - least)).all())


def problem_with_pairs(points: int = 60) -> RegistrationProblem:
    """Two crops of a torus twice, with pairs of matched points: 6 in the first problem and 4 in the second."""
    problem = make_problem(shapes.load("torus"), SynthesisSettings(points=points, keep=0.8), seed=0, trials=[0, 1])
    near, to = torch.cdist(problem.truth, problem.reference).min(2)
    rows = near.argsort(dim=1, stable=True)[:, :6]
    weights = torch.ones(2, 6, dtype=torch.float64)
    weights[1, 4:] = 0.0
    return replace(problem, landmarks=torch.stack((rows, to.gather(1, rows)), -1), landmark_weights=weights)


@pytest.mark.parametrize(
    "changed",
    [{}, {"sample": 20}, {"transform": "affine"}, {"transform": "rigid"}, {"parametrisation": "free"}],
    ids=["all", "sampled", "affine", "rigid", "free"],
)
def test_a_step_takes_the_pull_into_account_once(changed: dict[str, Any]) -> None:
    settings = PwanSettings(**SMALL | {"refinement": "none"} | changed)
    with_it, without = (Registration(problem_with_pairs(), settings, [0, 1]).solver for _ in range(2))
    assert not torch.equal(with_it.transform.parameters, with_it.game.energy.identity)  # it began by the pairs
    for solver in (with_it, without):
        solver.transform.parameters += 0.05
        solver.game.sample.move()
    parameters = with_it.transform.parameters.detach().clone()
    assert with_it.game.energy.landmarks is not None
    expected = with_it.game.energy.landmarks.gradient(parameters)
    assert float(expected.abs().amax()) > 1e-4
    without.game.energy.landmarks = None
    gradients = []
    for solver in (with_it, without):
        solver.step(update_transform=lambda: None)
        gradients.append(solver.transform.parameters.grad)
    torch.testing.assert_close(gradients[0] - gradients[1], expected, rtol=1e-4, atol=1e-6)


def test_a_start_by_pairs_balances_what_a_step_adds_to_the_discrepancy() -> None:
    solver = Registration(problem_with_pairs(), PwanSettings(**SMALL), [0, 1]).solver
    energies = torch.zeros_like(solver.transform.parameters)
    solver.game.energy.add_gradient(energies)
    torch.testing.assert_close(energies, torch.zeros_like(energies), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ["pwan", "soft_assignment"])
def test_each_problem_of_a_batch_has_its_own_pairs(method: str) -> None:
    problem = problem_with_pairs()
    options = SMALL if method == "pwan" else {"steps": 5, "rank": 20}
    both = methods.run(method, problem, options, seeds=[3, 4])
    for k in (0, 1):
        one = methods.run(method, problem.select([k]), options, seeds=[3 + k])
        torch.testing.assert_close(both.transformed[k], one.transformed[0], rtol=0, atol=1e-3)
    fewer = replace(problem, landmarks=problem.landmarks[:, :4], landmark_weights=problem.landmark_weights[:, :4])
    again = methods.run(method, fewer.select([1]), options, seeds=[4])
    torch.testing.assert_close(both.transformed[1], again.transformed[0], rtol=0, atol=1e-3)  # weight 0 is no pair
    assert (
        float((both.transformed[0] - methods.run(method, fewer, options, seeds=[3, 4]).transformed[0]).abs().max())
        > 1e-3
    )


def turned() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A bunny among outliers, turned by a right angle and deformed, its reference, the truth, and six pairs."""
    problem = make_problem(shapes.load("bunny"), SynthesisSettings(points=150, outlier_ratio=0.4), seed=1, trials=[0])
    turn = Rotation.from_rotvec(np.pi / 2 * np.array([0.6, 0.8, 0.0])).as_matrix()
    source, reference, truth = (p[0].numpy() for p in (problem.source, problem.reference, problem.truth))
    apart = np.linalg.norm(truth[:, None] - reference[None], axis=-1)
    near = np.argsort(apart.min(1))[:40]
    rows = near[[0, 7, 14, 21, 28, 35]]
    return source @ turn, reference, truth, np.column_stack((rows, apart[rows].argmin(1)))


@pytest.mark.parametrize(("method", "transform"), [("pwan", "nonrigid"), ("pwan", "rigid"), ("soft_assignment", "")])
def test_six_pairs_undo_a_right_angle(method: str, transform: str) -> None:
    source, reference, truth, pairs = turned()
    options = {"transform": transform, "steps": 30, "stages": 0} if transform else {}
    error = [
        float(
            ((pwan.register(source, reference, method=method, landmarks=known, **options).transformed - truth) ** 2)
            .sum(1)
            .mean()
        )
        for known in (None, pairs)
    ]
    assert error[1] < 0.2 * error[0] and error[1] < (0.3 if transform == "rigid" else 0.05), error


def test_a_weight_says_which_pair_counts() -> None:
    source, reference, _, pairs = turned()
    wrong = np.column_stack((pairs, np.ones(6)))
    wrong[2, 1] = np.linalg.norm(reference - reference[pairs[2, 1]], axis=1).argmax()
    light = wrong.copy()
    light[2, 2] = 1e-6

    def ends(landmarks: np.ndarray) -> np.ndarray:
        moved = pwan.register(source, reference, method="soft_assignment", landmarks=landmarks).transformed
        return np.linalg.norm(moved[pairs[:, 0]] - reference[pairs[:, 1]], axis=1)

    assert np.median(ends(light)) < 0.5 * np.median(ends(wrong))
    np.testing.assert_allclose(ends(light), ends(np.delete(pairs, 2, axis=0)), atol=1e-2)


def test_a_list_holds_the_pairs_of_each_problem_of_a_batch() -> None:
    source, reference, _, pairs = turned()
    stacked = np.stack((source, source)), np.stack((reference, reference))
    options: dict[str, Any] = {"method": "soft_assignment", "steps": 5}
    one, none = pwan.register(*stacked, landmarks=[pairs, None], **options).transformed
    first = pwan.register(source, reference, landmarks=pairs, **options).transformed
    np.testing.assert_allclose(one, first, atol=1e-6)
    assert np.abs(none - one).max() > 0.1
    everywhere = pwan.register(*stacked, landmarks=torch.from_numpy(np.stack((pairs, pairs))), **options).transformed
    np.testing.assert_allclose(everywhere[0], one, atol=1e-6)


WRONG: list[tuple[Any, str]] = [
    ([[0, 1, 2, 3]], r"landmarks must be an array \(L, 2\) of whole numbers"),
    ([0, 1], r"landmarks must be an array \(L, 2\)"),
    ([[0, 1], [2]], r"landmarks must be an array \(L, 2\)"),
    ([["a", "b"]], r"landmarks must be an array \(L, 2\)"),
    ([[0.5, 1]], "landmarks must hold whole numbers"),
    ([[np.nan, 1]], "landmarks must hold whole numbers"),
    ([[0, 1], [-1, 1]], "landmark 1 names row -1 of the source, whose rows are 0 to 149"),
    ([[0, 1], [150, 1]], "landmark 1 names row 150 of the source, whose rows are 0 to 149"),
    ([[0, 210]], "landmark 0 names row 210 of the reference, whose rows are 0 to 209"),
    ([[0, 1, -1.0]], "landmark_weights must be finite and zero or positive"),
    ([[0, 1, np.inf]], "landmark_weights must be finite and zero or positive"),
]


@pytest.mark.parametrize(("landmarks", "words"), WRONG)
def test_wrong_pairs_are_refused_in_words(landmarks: Any, words: str) -> None:
    source, reference, _, _ = turned()
    with pytest.raises(ValueError, match=words):
        pwan.register(source, reference, landmarks=landmarks, steps=1)


def test_methods_without_pairs_refuse_them_and_name_those_with() -> None:
    source, reference, _, pairs = turned()
    with pytest.raises(
        ValueError, match="method cpd does not take landmarks; take one of pwan, pwan_.*soft_assignment"
    ):
        pwan.register(source, reference, landmarks=pairs, method="cpd")
    with pytest.raises(ValueError, match="landmarks must hold pairs, or None, for each of the 2 problems, got 1"):
        pwan.register(np.stack((source,) * 2), np.stack((reference,) * 2), landmarks=[pairs])


def test_a_problem_checks_its_pairs() -> None:
    problem = problem_with_pairs()
    for changed, words in (
        ({"landmarks": None}, "landmark_weights are given without landmarks"),
        ({"landmarks": problem.landmarks[:1]}, r"landmarks must have shape \(2, L, 2\)"),
        ({"landmarks": problem.landmarks.double()}, r"landmarks must be whole numbers \(int64\)"),
        ({"landmark_weights": problem.landmark_weights[:, :3]}, r"landmark_weights must be float64 of shape \(2, 6\)"),
        ({"landmarks": problem.landmarks + 48}, "of problem 0 names row"),
    ):
        with pytest.raises(ValueError, match=words):
            replace(problem, **changed)
