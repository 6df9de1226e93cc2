"""What a transform costs whatever the discrepancy says: C(T_theta) of Eq. bending, and what is not in the paper: a
penalty on A, and the pull of the landmarks; or the rigid energy in C's place.
"""

from __future__ import annotations

from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.rigidity import Rigidity
from pwan.deformation.transform import Transform
from pwan.registration.landmarks import Pull
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings


class Energy:
    """C and what stands beside it, of the current parameters of a transform.

    Args:
        settings: resolved.
        transform: T_theta of all source points of this rank.
        identity: (B, P, D) its parameters where it moves nothing.
        coherence: of the same points; None where V = 0.
        rigidity: of the rigid energy, in whose place it stands; None for the other one.
        schedule: tells how stiff that is.
        landmarks: their pull, the same on all ranks, or None.
    """

    def __init__(
        self,
        settings: PwanSettings,
        transform: Transform,
        identity: Tensor,
        coherence: Coherence | None,
        rigidity: Rigidity | None,
        schedule: Schedule,
        landmarks: Pull | None,
    ) -> None:
        self.settings, self.transform, self.identity = settings, transform, identity
        self.coherence, self.rigidity, self.schedule, self.landmarks = coherence, rigidity, schedule, landmarks
        self.curvature = identity.new_empty(0)  # (B, P, P) as of the last gradient; of the rigid energy's steps

    def add_gradient(self, out: Tensor) -> None:
        """Add the gradient with respect to the parameters to ``out`` (B, P, D).

        It is the same on all ranks, and so is added to what is summed over them.
        """
        s, d, theta = self.settings, self.transform.dimension, self.transform.parameters
        if self.landmarks is not None:
            out += self.landmarks.gradient(theta)
        if self.rigidity is not None:
            stiffness = self.schedule.stiffness()
            gradient, curvature = self.rigidity.gradient(theta)
            out += (stiffness * gradient).to(out.dtype)
            self.curvature = stiffness * curvature
            if self.landmarks is not None:
                self.curvature += self.landmarks.curvature()
            return
        assert s.coherence is not None and s.affine_penalty is not None
        if s.transform != "rigid" and s.affine_penalty:
            out[:, :d] += s.affine_penalty * (theta - self.identity)[:, :d]
        if self.coherence is None:
            return
        modes = self.transform.basis is not None
        out[:, d + 1 :] += self.coherence.slope(self.transform.coefficients, s.coherence, s.sigma, modes=modes)
