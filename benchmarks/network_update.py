"""One network update against the same network written plainly with automatic differentiation, measured in turn.

    OMP_NUM_THREADS=1 python benchmarks/network_update.py

An update is the gradient of the mass-type objective and, where the method takes it, of the penalty, followed by Adam.
Both sides update the same network on the same points; the penalty is taken on the same share of the updates.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from pwan import shapes
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.registration.solver import Solver
from pwan.synthesis import SynthesisSettings, make_problem

POINTS, ROUNDS = 500, 12  # 500 source and 1,100 reference points: 1,600


def plain_output(solver: Solver, points: Tensor, parameters: list[Tensor]) -> Tensor:
    """The network's output as one would write it with torch's own layers."""
    network = solver.network
    x = points
    if network.frequencies is not None:
        phase = points @ network.frequencies[0]
        x = torch.cat((points, phase.sin(), phase.cos()), -1)
    outputs = [x]
    for weight, bias in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
        outputs.append(
            torch.nn.functional.leaky_relu(
                torch.nn.functional.linear(outputs[-1], weight, bias), network.architecture.slope
            )
        )
    last = torch.cat((outputs[-1], outputs[2]), -1) if network.skip else outputs[-1]
    return torch.nn.functional.linear(last, parameters[-2], parameters[-1])[..., 0]


def plain_update(solver: Solver) -> Callable[[bool], None]:
    """One update by automatic differentiation, with torch's Adam on the layers' own tensors."""
    network, settings = solver.network, solver.settings
    weights, biases, out, bias = network._views(network.parameters.detach())
    tensors = [t for w, b in zip(weights, biases, strict=True) for t in (w[0].T.clone(), b[0, 0].clone())]
    tensors += [out[0].clone(), bias[0].clone()]
    parameters = [t.requires_grad_() for t in tensors]
    optimiser = torch.optim.Adam(parameters, lr=settings.network_rate)
    q, r = solver.reference.shape[1], solver.transform.source.shape[1]
    points = torch.cat((solver.reference, solver.transform.points()), 1)[0].detach()
    mass = r

    def update(penalised: bool) -> None:
        x = points.clone().requires_grad_() if penalised else points
        output = plain_output(solver, x, parameters)
        f = -output.abs()
        loss = (f[q:].topk(mass).values.sum() - f[:q].sum()) / r
        if penalised:
            (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
            loss = loss + settings.kappa * (slope.norm(dim=-1) - 1).relu().square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return update


def main() -> None:
    torch.set_num_threads(1)
    problem = make_problem(
        shapes.load("bunny"), SynthesisSettings(points=POINTS, outlier_ratio=1.2), seed=0, trials=[0]
    )
    print(f"{'settings':<8} {'penalty on':<12} {'plain ms':>9} {'pwan ms':>9} {'ratio':>7}")
    for name, settings in (("pwan", PwanSettings()), ("paper", PaperSettings())):
        solver = Registration(problem, settings, [0]).solver
        features = torch.cat((solver.reference_features, solver.network.features(solver.transform.points())), 1)
        plain = plain_update(solver)
        taken = [solver._takes_penalty(k) for k in range(settings.updates)]  # those of one step
        ratios, times = [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for penalised in taken:
                plain(penalised)
            middle = time.perf_counter()
            with torch.no_grad():
                for penalised in taken:
                    solver._update_network(features, penalised)
            end = time.perf_counter()
            times.append(((middle - start) / len(taken) * 1e3, (end - middle) / len(taken) * 1e3))
            ratios.append((end - middle) / (middle - start))
        a, b = (statistics.median(t) for t in zip(*times, strict=True))
        share = f"{sum(taken)} of {len(taken)}"
        print(f"{name:<8} {share:<12} {a:9.2f} {b:9.2f} {statistics.median(ratios):7.2f}")


if __name__ == "__main__":
    main()
