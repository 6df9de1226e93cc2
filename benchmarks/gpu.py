"""What PWAN takes on a GPU: a cell of a hundred trials as one batch, and a step of one large problem.

    python benchmarks/gpu.py                                    the first GPU, at most 6 minutes
    python benchmarks/gpu.py --device cpu --trials 2 --points 60 --sizes 200 --steps 3     a quick look anywhere

Times stand beside what the arithmetic and the memory traffic of a step would need at the rates that the same device
reaches in a large matrix product and in a copy, and beside the same network written plainly with automatic
differentiation.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from network_update import FLOAT, operations, plain_update, product_rate, seconds

from pwan import shapes
from pwan.bench.cell import trial_seed
from pwan.devices.ranks import Place
from pwan.problem import OK, RegistrationProblem, mean_squared_error
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

GIGA = 1e9
MEBI = 2**20


def rates(device: str, size: int) -> tuple[float, float]:
    """Floating-point operations a second of a square matrix product, and bytes a second of a copy (read and write)."""
    given = torch.randn(size * size * 8, device=device)
    taken = torch.empty_like(given)
    for _ in range(3):
        taken.copy_(given)
    return product_rate(device, size), 2.0 * FLOAT * given.numel() / seconds(lambda: taken.copy_(given), device, 5)


def batch(problem: RegistrationProblem, seeds: Sequence[int], device: str, *, captured: bool, coarse: bool) -> None:
    """Register all the trials at once, and print how long it took and how well they ended."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if coarse else "highest")
    try:
        start = time.perf_counter()
        registration = Registration(problem, PwanSettings(), seeds, Place(device=device))
        registration.solver.may_capture &= captured
        stepped = seconds(lambda: [registration.step() for _ in range(registration.solver.steps)], device)
        result = registration.finish()
        total = time.perf_counter() - start
    finally:
        torch.set_float32_matmul_precision(before)
    assert problem.truth is not None
    errors = [
        statistics.median(mean_squared_error(points, problem.truth).tolist())
        for points in (result.transformed_unrefined, result.transformed)
    ]
    failed = sum(status != OK for status in result.status)
    words = f"{'captured' if captured else 'launched'}, {'TF32' if coarse else 'float32'}"
    print(
        f"{len(problem)} trials, {words}: {total:.2f} s, {stepped:.2f} s of it "
        f"{registration.solver.steps_done} steps; median MSE {errors[0]:.5f} unrefined, {errors[1]:.5f} refined; "
        f"{failed} failed",
        flush=True,
    )


def large(size: int, steps: int, device: str, product: float, copy: float) -> None:
    """Print time and memory of a step of one problem on all its points."""
    shape = shapes.load("bunny")
    problem = make_problem(shape, SynthesisSettings(points=size), seed=0, trials=[0])
    settings = replace(PwanSettings(), steps=steps + 2, stages=0, sample=0, refinement="none")
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    solver = Registration(problem, settings, [0], Place(device=device)).solver
    setup = time.perf_counter() - start
    warm = seconds(solver.step, device)
    solver.step()  # records the graph
    step = seconds(solver.step, device, steps)
    memory = torch.cuda.max_memory_allocated() / MEBI if on_gpu else float("nan")
    game = solver.game
    taken = [game.loss.takes_penalty(k) for k in range(settings.updates)]
    counts = [operations(solver, penalised) for penalised in taken]
    arithmetic, traffic = (sum(c[0] for c in counts) / product, sum(c[1] for c in counts) / copy)
    plain, _ = plain_update(solver)
    plain(True)
    by_hand = seconds(lambda: [plain(penalised) for penalised in taken], device, max(1, steps // 5))
    features = torch.cat((game.sample.reference_features, game.network.features(game.sample.points)), 1)
    with torch.no_grad():
        ours = seconds(
            lambda: [game.update_potential(features, game.sample.seen, p) for p in taken], device, max(1, steps // 5)
        )
    print(
        f"{size:>8} {setup:>8.2f} {warm:>8.2f} {step * 1e3:>9.2f} {arithmetic * 1e3:>11.2f} {traffic * 1e3:>8.2f} "
        f"{max(arithmetic, traffic) / step:>7.0%} {memory:>9.0f} {ours * 1e3:>8.2f} {by_hand * 1e3:>8.2f} "
        f"{by_hand / ours:>6.2f}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 700_000])
    parser.add_argument("--steps", type=int, default=20)
    chosen = parser.parse_args(arguments)
    device, on_gpu = chosen.device, chosen.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        parser.error("no GPU here; --device cpu with small sizes tries the script")
    name = torch.cuda.get_device_name(device) if on_gpu else "CPU"
    product, copy = rates(device, 8192 if on_gpu else 512)
    print(f"{name}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    print(f"float32 matrix product {product / 1e12:.1f} TFLOP/s, copy {copy / GIGA:.0f} GB/s (read and write)\n")
    synthesis = SynthesisSettings(points=chosen.points, outlier_ratio=1.2)
    trials = list(range(chosen.trials))
    problem = make_problem(shapes.load("bunny"), synthesis, seed=0, trials=trials)
    seeds = [trial_seed(0, trial) for trial in trials]
    print(f"noise_bunny, outlier ratio 1.2, {chosen.points} points, as one batch")
    cases = [(True, False), (True, False), (False, False), (True, True)] if on_gpu else [(False, False)]
    for captured, coarse in cases:  # the first one holds what the device does at first use
        batch(problem, seeds, device, captured=captured, coarse=coarse)
    print(
        f"\nOne problem, as many points in both sets; a step is {PwanSettings().updates} network updates and one of "
        "the transform; in ms, set-up and warm-up in s\n"
        f"{'points':>8} {'setup s':>8} {'warm s':>8} {'step':>9} {'arithmetic':>11} {'traffic':>8} {'reached':>7} "
        f"{'MiB':>9} {'updates':>8} {'plain':>8} {'ratio':>6}"
    )
    for size in chosen.sizes:
        large(size, chosen.steps, device, product, copy)


if __name__ == "__main__":
    main()
