"""All settings of PWAN with their defaults: the only home of these numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from pwan.choices import EnergyKind, KernelKind, Kind, Normalisation, TransformKind, Wanted
from pwan.deformation.settings import NEIGHBOURS, RIGID_BETA, RIGID_RANK, Kernel, check_share
from pwan.settings import check_ranges

LARGE = 10_000  # source points up to which a step sees all of them
SAMPLE_FIRST = 2000  # of more, how many a step of the first stage sees
SAMPLE = 5000  # and a later one
UPDATE_POINTS = 500  # of both sets together that an update of the potential sees (benchmarks/README.md)
RIGID_RATE = 0.1  # of implicit steps
PULL = 3.0  # of landmarks: 1 leaves a turned set in part where it was, 10 gains nothing but follows a wrong one more


FREQUENCY: dict[KernelKind, float] = {"gaussian": 5.0, "geodesic": 3.0}  # of the potential, by the coherence's kernel


@dataclass(frozen=True)
class PwanSettings:
    """Settings of PWAN. Lengths are in normalised units (RMS radius of the reference 1) unless said.

    A setting that is None by default follows from the kind of problem; see :meth:`for_case`.

    Attributes:
        type: "mass" (m-PWAN, Loss_M,m), "distance" (d-PWAN, Loss_D,h), "complete" (WGAN: all of both sets), or "auto":
            distance when the problem states a distance and no mass, else mass. "released" is auto as the released code
            runs: complete where both sets weigh the same, all of them is to be matched and no distance is stated.
        transform: "nonrigid" y A + t + V, "affine" (V = 0) or "rigid" (V = 0, A in SO(D)).
        parametrisation: "modes" V = Psi W in the kernel's eigenbasis; "free" V itself (released code).
        normalisation: see :func:`pwan.normalisation.normalise`. With "none" a reference whose RMS radius is more than
            threefold off 1 raises a warning, since rates and h are in units of that.
        potential: "fourier" (random Fourier features in front of ``layers`` hidden layers of ``width``) or "paper"
            (widths 32, 64, 128, 64 and the skip connection; appendix "Network structure", released code).
        width: units of each hidden layer of the "fourier" potential.
        layers: its number of hidden layers.
        features: its number of random Fourier features, each a sine and a cosine beside the coordinates.
        frequency: standard deviation of their frequencies, in radians a unit of length.
        activation_slope: of the leaky ReLU; 0.2 in the released code, 0 (the ReLU) in the paper's text.
        bound: how the output o becomes f. "fold": -|o| (paper). "clamp": -max(o, 0) at the reference and -o at the
            source, which makes the objective concave in o with the same maximum over all 1-Lipschitz o (not the same
            value for one o); it learns several times faster, since the fold at 0 traps the ascent.
        threshold: of the mass type. "exact" takes the m largest potentials; "learned" trains h (Algorithm 1), which is
            the exact one all the same where all of the source is matched: nothing is clipped there (but see
            ``PaperSettings.for_case``).
        threshold_start: the h that a learned threshold begins with.
        penalty: "mean" kappa mean relu(|grad f| - 1)^2 (released code) or "max" kappa max(|grad f|^2, 1) (paper's GP).
        penalised: whose gradient the penalty takes. "output": the network's at all points. "potential": that of f,
            which is 0 at source points beyond the threshold, where f is clipped at -h (released code).
        kappa: strength of the gradient penalty, for losses divided by the number of source points.
        penalty_every: every how many network updates the penalty is taken, counted within a step; 0: on the first
            update of a step only (released code).
        network_rate: of Adam on the network (and on a learned h).
        network_betas: of the same Adam.
        updates: u, network updates per step: 20 in the paper's text, of its computation times; 30 in all scripts of the
            released code.
        warmup: network updates before the first step.
        steps: T: 2000 in the paper's text for accuracy and 3000 elsewhere; in the released code 1500 for noise, 2000
            for partial sets, 3001 for large ones.
        rate: of the transform's optimiser; with the rigid energy the way in a step of a point that nothing holds.
        optimiser: "adam" or "rmsprop" (paper). The rigid energy takes implicit steps instead, whatever stands here.
        betas: of the transform's optimiser, if that is Adam.
        clip: bound by value on the transform's gradient, 0 for none (released code: 1).
        average: the answer is the mean of this last share of a stage's iterates; 0 takes the last iterate (paper).
        stages: further stages after the T steps, each from the mean of the one before, with the rate halved.
        stage_steps: steps of each further stage.
        coarse_steps: T of a registration of 2,000 points in both directions, from whose better one that of all points
            begins; 0 for none. For sets whose parts move far: it finds limbs, and fewer ``steps`` are left to do. Of
            :func:`pwan.registration.coarse.register`, and so of methods and runs, not of those who drive the steps.
        sample: points of the source that a step sees, with the same share of the reference: all points in turn, a
            sample a step. 0 sees all in each step; None sees all of up to ``LARGE`` points, else ``SAMPLE`` of them.
        sample_first: the same of the first stage, which brings the sets together: the later ones need more points to
            come as near as with all. 0 for as many as later; None for ``SAMPLE_FIRST`` where ``sample`` is None and
            more than ``LARGE`` points are there, else 0.
        update_points: points of both sets together that one network update sees: the points of a step fall into parts
            of about this size, ten at most, each of them all over both sets, which the updates see one after the other.
            The transform's update sees all points of the step. 0 sees all in each; so it is on a GPU, which is as fast.
        reach: of the mass type with its exact threshold, in the stages after the first: a matched point farther than
            this, and than two spacings of the reference, from its partner is no longer moved; 0 for off. Two samples of
            one surface differ by chance in the number of points on a limb, and mass would flow along it to make up for
            that: the sampled W_1 is least elsewhere than at the truth.
        tolerance: stopping rule: a problem stops when the mean of ten iterates differs from that of the ten before by
            less than this, as RMS over the points; 0 for never.
        distance_start: d-PWAN begins with this h if it is larger, and reaches h geometrically halfway through T; 0:
            off.
        flexibility: "given" takes the kernel that the settings name. "auto" lets a few candidates register few points,
            by the Gaussian and by the geodesic kernel, and takes the one that fits best to all points; see
            :mod:`pwan.registration.flexibility`. With a distance (h) it is "given": how well candidates fit tells
            nothing where the matched points follow from the fit itself.
        kernel: of the coherence. "gaussian" moves together what is near in space (paper), "geodesic" what is near along
            the source's shape (:mod:`pwan.deformation.geodesic`): for limbs that lie beside each other. Along the edges
            of the source's faces where the problem has them, else between near neighbours.
        geodesic_share: tau, of the geodesic kernel; the rest is the Gaussian's.
        neighbours: of a source point, where there are no faces.
        beta: width of the coherence kernel exp(-d^2 / (2 beta^2)). The paper's text has exp(-d^2 / rho) with rho = 2,
            which is beta = 1; its released code has beta = 2 there, and beta = 1 where the text has rho = 1, so that
            the numbers of rho are its beta. None for 2, or 1 of the geodesic kernel.
        rank: k, centres of the kernel's low-rank form. None for 100, or 200 of the geodesic kernel.
        energy: of the displacement. "bending" is the kernel's (paper, Eq. bending), for which a limb costs the more the
            farther it moves. "rigid" is how far the transform is from rigid around each point
            (:mod:`pwan.deformation.rigidity`): limbs may turn, and hardly stretch. The kernel's modes are what moves in
            both; its usual width and rank are others for "rigid", .3 and 300. Take it with ``kernel="geodesic"``.
        stiffness: of the rigid energy, at the end of the first stage and later. 1 makes a strain of 10% as strong as a
            mean distance of .005.
        stiffness_start: at the beginning, from which it falls geometrically.
        coherence: lambda, of the bending energy (lambda / 2) Tr(V^T (sigma I + G)^-1 V), beside a loss whose source
            weighs 1 in all: each of r points has the mass 1/r. So it is in the released code. The paper's text has no
            1/2 (gradient 2 lambda ...) and masses of 1 each, which is lambda = 2 / r times its number here: the
            released code is r / 2 times stiffer.
        sigma: of the coherence energy.
        affine_penalty: weight of |A - I|^2 / 2 (not in the paper, which leaves A free).
        pull: of landmarks, where the problem has any: weight of their mean squared distance / 2 (not in the paper).
            The landmarks together count as all of the matched points together at a distance of 1 / ``pull``.
        refinement: "soft", "nearest" (appendix "Refinement") or "none"; see :mod:`pwan.registration.refinement`.
        nearest_steps: of the nearest refinement's RMSprop, at most.
        nearest_rate: of the same RMSprop.
        nearest_of: whose points are matched to their nearest one: those of the "reference" (paper's text) or those of
            the "source" (released code).
        nearest_rule: when that refinement ends; see :func:`pwan.registration.refinement.nearest_point`. "energy" at
            the first increase of what it descends; "released" as in the released code.
    """

    weighted: ClassVar[bool] = True  # a point may count more than another
    attributed: ClassVar[bool] = True  # distances may be those of a product of space and attributes

    type: Wanted = "auto"
    transform: TransformKind = "nonrigid"
    parametrisation: Literal["modes", "free"] = "modes"
    normalisation: Normalisation = "auto"
    potential: Literal["fourier", "paper"] = "fourier"
    width: int = 64
    layers: int = 2
    features: int = 64
    frequency: float | None = None
    activation_slope: float = 0.2
    bound: Literal["fold", "clamp"] = "clamp"
    threshold: Literal["exact", "learned"] = "exact"
    threshold_start: float = 0.1
    penalty: Literal["mean", "max"] = "mean"
    penalised: Literal["output", "potential"] = "output"
    kappa: float = 3.0
    penalty_every: int = 3
    network_rate: float = 5e-3
    network_betas: tuple[float, ...] = (0.9, 0.99)
    updates: int = 5
    warmup: int = 50
    steps: int | None = None
    rate: float | None = None
    optimiser: Literal["adam", "rmsprop"] = "adam"
    betas: tuple[float, ...] = (0.5, 0.99)
    clip: float = 0.0
    average: float = 0.5
    stages: int | None = None
    stage_steps: int = 25
    coarse_steps: int = 0
    sample: int | None = None
    sample_first: int | None = None
    update_points: int = UPDATE_POINTS
    reach: float = 0.2
    tolerance: float = 0.0
    distance_start: float = 0.2
    flexibility: Literal["given", "auto"] = "given"
    kernel: KernelKind = "gaussian"
    geodesic_share: float = 1.0
    neighbours: int = NEIGHBOURS
    beta: float | None = None
    rank: int | None = None
    energy: EnergyKind = "bending"
    stiffness: float = 1.0
    stiffness_start: float = 10.0
    coherence: float | None = None
    sigma: float = 0.1
    affine_penalty: float | None = None
    pull: float = PULL
    refinement: Literal["soft", "nearest", "none"] = "soft"
    nearest_steps: int = 500
    nearest_rate: float = 1e-4
    nearest_of: Literal["source", "reference"] = "reference"
    nearest_rule: Literal["energy", "released"] = "energy"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=(
                *("width", "layers", "updates", "rank", "stage_steps", "neighbours"),
                *("frequency", "network_rate", "rate", "beta", "sigma", "nearest_rate", "threshold_start"),
                *("stiffness", "stiffness_start"),
            ),
            at_least_zero=(
                *("features", "sample", "steps", "warmup", "penalty_every", "stages", "nearest_steps"),
                *("coarse_steps", "sample_first", "update_points"),
                *("reach", "kappa", "coherence", "affine_penalty", "pull", "tolerance", "distance_start", "clip"),
                "activation_slope",
            ),
            below_one=("betas", "network_betas"),
        )
        for name in ("betas", "network_betas"):
            value = getattr(self, name)
            if len(value) != 2:
                raise ValueError(f"{name} must be two numbers, got {value}")
        free = self.parametrisation == "free" and self.transform == "nonrigid"
        if self.energy == "rigid" and (self.transform != "nonrigid" or free or self.refinement == "nearest"):
            raise ValueError(
                "energy=rigid is of a displacement in modes; take transform=nonrigid, modes and refinement=soft or none"
            )
        if self.flexibility == "auto" and (self.transform != "nonrigid" or free):
            raise ValueError("flexibility=auto chooses how a displacement bends; take transform=nonrigid and modes")
        check_share(self.geodesic_share)
        if not 0 <= self.average <= 1:
            raise ValueError(f"average must be from 0 to 1, got {self.average}")
        if self.refinement == "soft" and free:
            raise ValueError(
                "the soft refinement works on the modes; take refinement=nearest with parametrisation=free"
            )
        if self.coarse_steps and free:
            raise ValueError(
                "a coarse registration leads on by its modes; take coarse_steps=0 with parametrisation=free"
            )

    def for_case(self, kind: Kind, *, whole: bool, equal: bool, points: int) -> PwanSettings:
        """These settings with every None filled in for the kind of problem.

        Args:
            kind: what the discrepancy limits.
            whole: all of the source is to be matched.
            equal: both sets have the same number of points.
            points: of the source.
        """
        defaults: dict[str, Any] = {"steps": 80, "stages": 3, "rate": 5e-3, "sample": 0, "sample_first": 0}
        geodesic = self.kernel == "geodesic"
        defaults |= self._of_kernel()
        if self.energy == "rigid":
            defaults["rate"] = RIGID_RATE
        if self.sample is None and points > LARGE:
            defaults |= {"sample": SAMPLE, "sample_first": SAMPLE_FIRST}
        if not whole:
            defaults |= {"coherence": 0.03, "affine_penalty": 1.0}
        elif equal or geodesic:
            defaults |= {"coherence": 0.03, "affine_penalty": 0.1}
        else:  # the reference holds outliers, and as a rule each set is normalised by itself: A has more to do
            defaults |= {"coherence": 0.003, "affine_penalty": 0.01}
        if kind == "distance" and not whole:
            defaults["stages"] = 4  # h reaches its value only halfway through the first
        # where the whole source is matched nothing is clipped, and a learned h would only grow
        return self._filled(defaults) if not whole else replace(self._filled(defaults), threshold="exact")

    @property
    def coherence_kernel(self) -> Kernel:
        """The kernel that the displacement is coherent by."""
        beta, rank = self.beta, self.rank
        if self.energy == "rigid":
            beta, rank = RIGID_BETA if beta is None else beta, RIGID_RANK if rank is None else rank
        return Kernel.of(self.kernel, beta, rank, self.geodesic_share, self.neighbours)

    def _of_kernel(self) -> dict[str, Any]:
        kernel = self.coherence_kernel
        return {"beta": kernel.beta, "rank": kernel.rank, "frequency": FREQUENCY[self.kernel]}

    def _filled(self, defaults: dict[str, Any]) -> Self:
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})


@dataclass(frozen=True)
class PaperSettings(PwanSettings):
    """The settings of the authors' released code, which differ from the paper's text (:class:`TextSettings`) where
    noted in PwanSettings.

    What is kept from this project all the same: eigenvalues of the kernel below a millionth of the largest are dropped
    (in the code's single precision many come out negative, and stay); points are in single precision after rounding to
    2^-16 of the radius; a registration that the code judges failed, and drops, is given unrefined and says so.
    """

    type: Wanted = "released"
    parametrisation: Literal["modes", "free"] = "free"
    potential: Literal["fourier", "paper"] = "paper"
    bound: Literal["fold", "clamp"] = "fold"
    threshold: Literal["exact", "learned"] = "learned"
    penalised: Literal["output", "potential"] = "potential"
    kappa: float = 100.0
    penalty_every: int = 0
    network_rate: float = 1e-4
    network_betas: tuple[float, ...] = (0.0, 0.99)
    updates: int = 30
    warmup: int = 0
    optimiser: Literal["adam", "rmsprop"] = "rmsprop"
    clip: float = 1.0
    average: float = 0.0
    stages: int | None = 0
    distance_start: float = 0.0
    reach: float = 0.0
    rank: int | None = 500
    sample: int | None = 0
    sample_first: int | None = 0
    update_points: int = 0
    refinement: Literal["soft", "nearest", "none"] = "nearest"
    nearest_of: Literal["source", "reference"] = "source"
    nearest_rule: Literal["energy", "released"] = "released"

    def for_case(self, kind: Kind, *, whole: bool, equal: bool, points: int) -> PaperSettings:
        """As the scripts of the released code run the kind of problem.

        Outliers in the reference alone (``whole`` and not ``equal``; its mode "part"): T = 1500, each set normalised,
        nothing clipped. Two sets of which each may hold outliers (mode "partial"), also where by chance nothing is
        missing (the right end of the paper's accuracy figure): T = 2000, no normalisation, clipped at -h. Two whole
        sets (mode "full", type complete; no script): T = 2000, each set normalised. A type that is named stays, so that
        ``pwan_paper_distance`` runs two whole sets as partial ones.
        """
        noise = whole and not equal
        defaults = {"steps": 1500 if noise else 2000, "rate": 1e-4, "coherence": 0.01, "affine_penalty": 0.0}
        settings = self._filled(self._of_kernel() | defaults)
        if self.normalisation == "auto":
            separate = noise or kind == "complete"
            settings = replace(settings, normalisation="separate" if separate else "none")
        return replace(settings, threshold="exact") if noise else settings


@dataclass(frozen=True)
class TextSettings(PaperSettings):
    """The settings of the paper's text (Algorithm 1, Eqs. loss_m, loss_d and bending_grad, appendix "Parameters") where
    it differs from the authors' released code.

    It has ReLUs, the penalty kappa max(|grad f|^2, 1) on every update, point masses of 1, the gradient
    2 lambda (sigma I + G)^-1 V, rho = 2 as exp(-d^2 / rho), u = 20 (said of the computation times), T = 2000
    throughout, no bound on the transform's gradient, and the refinement of the reference's points. It says nothing of
    kappa, of Adam's betas and of the Nystrom rank: kappa and rank are the released code's, the betas Adam's usual ones.
    f is bounded by -h at the source alone, as everywhere here: at the reference it never helps the maximum.
    """

    activation_slope: float = 0.0
    penalty: Literal["mean", "max"] = "max"
    penalty_every: int = 1
    network_betas: tuple[float, ...] = (0.9, 0.999)
    updates: int = 20
    clip: float = 0.0
    beta: float | None = 1.0
    nearest_of: Literal["source", "reference"] = "reference"
    nearest_rule: Literal["energy", "released"] = "energy"

    def for_case(self, kind: Kind, *, whole: bool, equal: bool, points: int) -> PaperSettings:
        """T = 2000, and the text's lambda = 0.01 in this project's units, for r points of mass 1: 2 lambda / r. Each
        set is normalised in the noise experiments, of which alone the text says so.
        """
        stated = self._filled({"steps": 2000, "coherence": 2 * 0.01 / points})
        return super(TextSettings, stated).for_case(kind, whole=whole, equal=equal, points=points)
