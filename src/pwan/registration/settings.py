"""All settings of PWAN with their defaults: the only home of these numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.normalisation import Normalisation
from pwan.registration.transform import TransformKind


@dataclass(frozen=True)
class PwanSettings:
    """Settings of PWAN. Lengths are in normalised units (RMS radius of the reference 1) unless said.

    A setting that is None by default follows from the kind of problem; see :func:`pwan.registration.presets.resolve`.

    Attributes:
        type: "mass" (m-PWAN, Loss_M,m), "distance" (d-PWAN, Loss_D,h), "complete" (WGAN: all of both sets), or "auto":
            distance when the problem states a distance and no mass, else mass.
        transform: "nonrigid" y A + t + V, "affine" (V = 0) or "rigid" (V = 0, A in SO(D)).
        parametrisation: "modes" V = Psi W in the kernel's eigenbasis; "free" V itself (released code).
        normalisation: see :func:`pwan.normalisation.normalise`.
        potential: "fourier" (random Fourier features in front of four hidden layers of ``width``) or "paper" (widths 32,
            64, 128, 64 and the skip connection; appendix "Network structure", released code).
        width, features, frequency: of the "fourier" potential.
        activation_slope: of the leaky ReLU; 0.2 in the released code, 0 (the ReLU) in the paper's text.
        threshold: of the mass type. "exact" takes the m largest potentials; "learned" trains h (Algorithm 1) from
            ``threshold_start``.
        penalty: "mean" kappa mean relu(|grad f| - 1)^2 (released code) or "max" kappa max(|grad f|^2, 1) (paper's GP).
        kappa: strength of the gradient penalty, for losses divided by the number of source points.
        penalty_every: every how many network updates the penalty is taken, counted within a step; 0: on the first
            update of a step only (released code).
        network_rate, network_betas: of Adam on the network (and on a learned h).
        updates: u, network updates per step. warmup: network updates before the first step.
        steps: T. rate: of the transform's optimiser. optimiser: "adam" or "rmsprop" (paper). betas: of Adam.
        clip: bound by value on the transform's gradient, 0 for none (released code: 1).
        average: the answer is the mean of this last share of a stage's iterates; 0 takes the last iterate (paper).
        stages, stage_steps: further stages after the T steps, each from the mean of the one before, with the rate
            halved.
        distance_start: d-PWAN begins with this h if it is larger, and reaches h geometrically halfway through T; 0: off.
        beta: width of the coherence kernel exp(-d^2 / (2 beta^2)); the paper's rho is 2 beta^2.
        rank: k, Nystrom landmarks. coherence: lambda. sigma: of the coherence energy.
        affine_penalty: weight of |A - I|^2 / 2 (not in the paper, which leaves A free).
        refinement: "soft", "nearest" (appendix "Refinement") or "none"; see :mod:`pwan.registration.refinement`.
        nearest_steps, nearest_rate: of the nearest refinement's RMSprop; nearest_of: whose points look for their nearest
            one: the "reference" (paper's text) or the "source" (released code).
    """

    type: Literal["auto", "mass", "distance", "complete"] = "auto"
    transform: TransformKind = "nonrigid"
    parametrisation: Literal["modes", "free"] = "modes"
    normalisation: Normalisation = "auto"
    potential: Literal["fourier", "paper"] = "fourier"
    width: int = 32
    features: int = 64
    frequency: float = 4.0
    activation_slope: float = 0.2
    threshold: Literal["exact", "learned"] = "exact"
    threshold_start: float = 0.1
    penalty: Literal["mean", "max"] = "mean"
    kappa: float = 1.0
    penalty_every: int = 2
    network_rate: float = 3e-3
    network_betas: tuple[float, ...] = (0.9, 0.99)
    updates: int = 5
    warmup: int = 50
    steps: int = 100
    rate: float | None = None
    optimiser: Literal["adam", "rmsprop"] = "adam"
    betas: tuple[float, ...] = (0.5, 0.99)
    clip: float = 0.0
    average: float = 0.4
    stages: int = 0
    stage_steps: int = 25
    distance_start: float = 0.2
    beta: float = 2.0
    rank: int = 300
    coherence: float | None = None
    sigma: float = 0.1
    affine_penalty: float | None = None
    refinement: Literal["soft", "nearest", "none"] = "soft"
    nearest_steps: int = 500
    nearest_rate: float = 1e-4
    nearest_of: Literal["source", "reference"] = "reference"
