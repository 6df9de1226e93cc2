"""A step of PWAN against the same step written plainly with automatic differentiation, measured in turn.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/network_update.py

A step is u updates of the network and one of the transform. An update is the gradient of the mass-type objective and,
where the method takes it, of the penalty, followed by Adam. Both sides have the same network, points and
coherence energy; the penalty is taken on the same updates. The last column is the share of this machine's own rate in a
matrix product that the updates reach, counting their products alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from pwan import shapes
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.registration.solver import Solver
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.transport.potential import pieces

FLOAT = 4  # bytes
SIZES = ((500, 1.2, 8), (5_000, 0.0, 4), (50_000, 0.0, 2))  # source points, outliers a point, rounds


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


def plain_update(solver: Solver) -> tuple[Callable[[bool], None], list[Tensor]]:
    """One update by automatic differentiation, with torch's Adam on the layers' own tensors; they are given as well."""
    network, settings = solver.network, solver.settings
    weights, biases, out, bias = pieces(network.parameters.detach(), network.shapes)
    tensors = [t for w, b in zip(weights, biases, strict=True) for t in (w[0].T.clone(), b[0, 0].clone())]
    tensors += [out[0].clone(), bias[0].clone()]
    parameters = [t.requires_grad_() for t in tensors]
    optimiser = torch.optim.Adam(parameters, lr=settings.network_rate)
    q, r = solver.game.reference.shape[1], solver.transform.source.shape[1]
    points = torch.cat((solver.game.reference, solver.transform.points()), 1)[0].detach()
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

    return update, parameters


def plain_transform_step(solver: Solver) -> Callable[[list[Tensor]], None]:
    """One step of the transform y A + t + V by automatic differentiation through the network of these tensors."""
    y, d, s = solver.transform.source[0], solver.transform.dimension, solver.settings
    basis, coherence = solver.transform.basis, solver.game.energy.coherence
    assert coherence is not None
    a, t = torch.eye(d, requires_grad=True), torch.zeros(d, requires_grad=True)
    v = torch.zeros(coherence.basis.shape[-1] if basis is not None else len(y), d, requires_grad=True)
    kind = torch.optim.Adam if s.optimiser == "adam" else torch.optim.RMSprop
    optimiser = kind([a, t, v], lr=s.rate or 0.0)
    weight = (coherence.spectrum / (coherence.spectrum + s.sigma))[0, :, None]

    def step(parameters: list[Tensor]) -> None:
        moved = y @ a + t + (v if basis is None else basis[0] @ v)
        f = -plain_output(solver, moved, parameters).abs()
        optimiser.zero_grad()
        (-f.topk(len(y)).values.sum() / len(y)).backward()
        assert v.grad is not None
        with torch.no_grad():
            smoother = coherence.gradient(v[None], s.sigma)[0] if basis is None else weight * v
            v.grad.add_(smoother, alpha=s.coherence or 0.0)
        optimiser.step()

    return step


def seconds(work: Callable[[], object], device: str, repeats: int = 1) -> float:
    """Mean wall-clock seconds of the work, when all of it is done on the device."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return (time.perf_counter() - start) / repeats


def product_rate(device: str, size: int) -> float:
    """Floating-point operations a second of a square matrix product."""
    a, b = torch.randn(2, size, size, device=device)
    for _ in range(3):
        a @ b
    return 2.0 * size**3 / seconds(lambda: a @ b, device, 5)


def operations(solver: Solver, penalised: bool) -> tuple[float, float]:
    """Floating-point operations and bytes of one network update.

    The bytes are those of a pass that reads and writes each array of the points once: features in the forward pass and
    in the gradient of the first layer, each layer's output and its derivative written once and read twice.
    """
    network, (b, n, _) = solver.network, solver.game.reference.shape
    points = b * (n + solver.setup.sizes.r)
    every = sum(i * o for i, o in network.shapes)
    deeper = sum(i * o for i, o in network.shapes[1:])
    features = network.shapes[0][0]
    outputs = sum(o for _, o in network.shapes)
    phases = 2 * network.dimension * network.architecture.features  # to the features and back
    multiplications = every + deeper + every + (2 * every - deeper + phases if penalised else 0)
    numbers = 2 * features + 6 * outputs + (3 * features + 3 * outputs if penalised else 0)
    return 2.0 * points * multiplications, float(FLOAT * points * numbers)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[size for size, _, _ in SIZES], help="source points")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    known = {size: (ratio, rounds) for size, ratio, rounds in SIZES}
    print(
        f"{'points':>7} {'settings':<8} {'penalty on':<12} {'updates, plain ms':>17} {'pwan':>8} {'ratio':>6} "
        f"{'step, plain ms':>15} {'pwan':>9} {'ratio':>6} {'of the rate':>11}"
    )
    for size in chosen.sizes:
        ratio, rounds = known.get(size, (1.2, 2))
        synthesis = SynthesisSettings(points=size, outlier_ratio=ratio)
        problem = make_problem(shapes.load("bunny"), synthesis, seed=0, trials=[0])
        for name, settings in (("pwan", PwanSettings(sample=0, update_points=0)), ("paper", PaperSettings())):
            compare(size, name, Registration(problem, settings, [0]).solver, rounds)


def compare(size: int, name: str, solver: Solver, rounds: int) -> None:
    """Print one row: rounds of a step of each, in turn."""
    taken = [solver.game.loss.takes_penalty(k) for k in range(solver.settings.updates)]  # those of one step
    plain, parameters = plain_update(solver)
    plain_transform = plain_transform_step(solver)
    solver.step()  # with the warm-up
    arithmetic = sum(operations(solver, penalised)[0] for penalised in taken)
    times = []
    for _ in range(rounds):
        rate = product_rate("cpu", 1024)
        marks = [time.perf_counter()]
        for penalised in taken:
            plain(penalised)
        marks.append(time.perf_counter())
        plain_transform(parameters)
        marks.append(time.perf_counter())
        solver.step(on_part=lambda part, to=marks: to.append(time.perf_counter()))
        marks.append(time.perf_counter())
        plain_updates, plain_rest, ours, rest, _ = (b - a for a, b in pairwise(marks))
        plain_step, step = plain_updates + plain_rest, ours + rest
        times.append(
            (plain_updates, ours, ours / plain_updates, plain_step, step, step / plain_step, arithmetic / rate / ours)
        )
    a, b, ratio, c, d, of_steps, reached = (statistics.median(t) for t in zip(*times, strict=True))
    points, share = sum(solver.setup.sizes), f"{sum(taken)} of {len(taken)}"
    print(
        f"{points:>7} {name:<8} {share:<12} {a * 1e3:17.1f} {b * 1e3:8.1f} {ratio:6.2f} {c * 1e3:15.1f} "
        f"{d * 1e3:9.1f} {of_steps:6.2f} {reached:11.0%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
