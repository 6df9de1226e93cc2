"""Adam against torch's."""

import copy

import pytest
import torch

from pwan.transport.adam import LightAdam


def test_adam_takes_the_steps_of_torchs_to_the_bit_and_goes_on_from_its_state() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, 7, generator=generator)
    ours, theirs = start.clone(), start.clone()
    light = LightAdam([ours], lr=0.01, betas=(0.9, 0.99))
    usual = torch.optim.Adam([theirs], lr=0.01, betas=(0.9, 0.99), foreach=False)
    for step in range(20):
        gradient = torch.randn(2, 7, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        light.step()
        usual.step()
        assert torch.equal(ours, theirs)
        if step == 9:
            fresh = LightAdam([ours], lr=0.01, betas=(0.9, 0.99))
            fresh.load_state_dict(copy.deepcopy(usual.state_dict()))
            light = fresh


def test_adam_computes_the_gradient_with_a_closure_and_passes_over_what_has_none() -> None:
    x, unused = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    light = LightAdam([x, unused], lr=0.1)

    def closure() -> float:
        loss = (x**2).sum()
        loss.backward()
        return float(loss.detach())

    assert light.step(closure) == pytest.approx(1.0)
    assert x.item() == pytest.approx(0.9)  # the first step is the rate, whatever the gradient
    assert unused.item() == 1.0
