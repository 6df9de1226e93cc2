"""Non-rigid point set registration by partial distribution matching (PWAN, Wang et al., ICLR 2022).

- :func:`register`: move a source onto a reference, matching all or a part of it.
- :func:`register_many`: a template onto many scans, with the mean and the modes of their shapes.
- :func:`register_sequence`: lead one set through the frames of something that moves.
- :func:`shape_model`: these of shapes whose points correspond already.
- :class:`PwanSettings`: the settings of PWAN; :func:`register` names those of the other methods.
- :func:`partial_wasserstein`: the partial Wasserstein-1 discrepancies of two sets, exact or by a potential network.
- :func:`read_points`: points, and all that belongs to each of them, from a file of any usual format.
- :func:`write_points`: moved points in the format and layout of the file that they came from.
- ``pwan.methods.names()``: the methods at hand.
"""

from typing import TYPE_CHECKING

from pwan.lazy import lazily

if TYPE_CHECKING:
    from pwan import methods
    from pwan.api import register
    from pwan.many import register_many, register_sequence, shape_model
    from pwan.pointfiles import PointFile, read_points, write_points
    from pwan.problem import RegistrationProblem, RegistrationResult
    from pwan.registration.settings import PwanSettings
    from pwan.transport import partial_wasserstein

__version__ = "0.1.0"
__all__ = [
    "PointFile",
    "PwanSettings",
    "RegistrationProblem",
    "RegistrationResult",
    "__version__",
    "methods",
    "partial_wasserstein",
    "read_points",
    "register",
    "register_many",
    "register_sequence",
    "shape_model",
    "write_points",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "PointFile": "pwan.pointfiles",
        "PwanSettings": "pwan.registration.settings",
        "RegistrationProblem": "pwan.problem",
        "RegistrationResult": "pwan.problem",
        "methods": "pwan.methods",
        "partial_wasserstein": "pwan.transport",
        "read_points": "pwan.pointfiles",
        "register": "pwan.api",
        "register_many": "pwan.many",
        "register_sequence": "pwan.many",
        "shape_model": "pwan.many",
        "write_points": "pwan.pointfiles",
    },
)
