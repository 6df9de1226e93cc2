"""The hand-written passes against automatic differentiation of the same network written plainly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwan.transport import potential
from pwan.transport.potential import PotentialNetwork
from pwan.transport.settings import Architecture

ARCHITECTURES = {
    "paper": Architecture(),
    "paper, ReLU": Architecture(slope=0.0),
    "fourier": Architecture((32,) * 4, features=16, frequency=2.0, init="kaiming"),
    "two layers": Architecture((24, 24), features=8, init="kaiming"),
    "one layer": Architecture((16,)),
    "no skip": Architecture((8, 8, 8), skip=False),
}


def plain(network: PotentialNetwork, points: Tensor, parameters: Tensor) -> Tensor:
    """The network's output as one would write it, (B, n, D) to (B, n)."""
    x = points
    if network.frequencies is not None:
        phase = points @ network.frequencies
        x = torch.cat((points, phase.sin(), phase.cos()), -1)
    at, outputs = 0, [x]
    for n_in, n_out in network.shapes:
        weight = parameters[:, at : at + n_in * n_out].unflatten(1, (n_in, n_out))
        bias = parameters[:, None, at + n_in * n_out : at + n_in * n_out + n_out]
        at += n_in * n_out + n_out
        outputs.append(torch.nn.functional.leaky_relu(outputs[-1] @ weight + bias, network.architecture.slope))
    last = torch.cat((outputs[-1], outputs[2]), -1) if network.skip else outputs[-1]
    return (last * parameters[:, None, at:-1]).sum(-1) + parameters[:, -1:]


def double_network(architecture: Architecture, dimension: int = 3) -> PotentialNetwork:
    network = PotentialNetwork(architecture, dimension, [1, 2])
    network.parameters.data = network.parameters.data.double()
    if network.frequencies is not None:
        network.frequencies = network.frequencies.double()
    return network


@pytest.mark.parametrize("block", [2048, 100, 37], ids=["all at once", "one problem", "some points"])
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_passes_equal_automatic_differentiation(
    name: str, dimension: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(potential, "BLOCK", block)
    network = double_network(ARCHITECTURES[name], dimension)
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(2, 100, dimension, generator=generator, dtype=torch.float64, requires_grad=True)
    a = torch.randn(2, 100, generator=generator, dtype=torch.float64)
    parameters = network.parameters.detach().clone().requires_grad_()
    expected = plain(network, points, parameters)
    (slopes,) = torch.autograd.grad(expected.sum(), points, create_graph=True)
    norms = slopes.norm(dim=-1)
    bound = 0.7 * float(norms.detach().median())
    penalty = (norms - bound).relu().square().sum()
    assert float(penalty.detach()) > 0
    (with_penalty,) = torch.autograd.grad((a * expected.sin()).sum() + penalty, parameters, retain_graph=True)
    (without,) = torch.autograd.grad((a * expected.sin()).sum(), parameters)

    features = network.features(points.detach())
    out = torch.empty_like(network.parameters)
    got, got_norms = network.accumulate_gradient(features, lambda o: a * o.cos(), lambda n: 2 * (n - bound).relu(), out)
    torch.testing.assert_close(got, expected.detach())
    torch.testing.assert_close(got_norms, norms.detach())
    torch.testing.assert_close(out, with_penalty)
    _, no_norms = network.accumulate_gradient(features, lambda o: a * o.cos(), None, out)
    assert no_norms is None
    torch.testing.assert_close(out, without)
    got, got_slopes = network.output_and_gradient(features)
    torch.testing.assert_close(got, expected.detach())
    torch.testing.assert_close(got_slopes, slopes.detach())


def test_released_network_has_18945_parameters() -> None:
    assert PotentialNetwork(Architecture(), 3, [0]).parameters.shape == (1, 18945)


def test_a_problem_of_a_batch_has_the_network_it_has_alone() -> None:
    both = PotentialNetwork(ARCHITECTURES["fourier"], 3, [5, 6])
    alone = PotentialNetwork(ARCHITECTURES["fourier"], 3, [6])
    assert torch.equal(both.parameters[1], alone.parameters[0])
    points = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(both.output(both.features(points))[1], alone.output(alone.features(points[1:]))[0])
    one = both.only(1)
    assert torch.equal(one.output(one.features(points[1:])), alone.output(alone.features(points[1:])))
