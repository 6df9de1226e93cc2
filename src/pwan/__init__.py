"""Non-rigid point set registration by partial distribution matching (PWAN, Wang et al., ICLR 2022).

- :func:`register`: move a source onto a reference, matching all or a part of it.
- :func:`partial_wasserstein`: the partial Wasserstein-1 discrepancies of two sets, exact or by a potential network.
- ``pwan.methods.names()``: the methods at hand.
"""

from pwan.api import register
from pwan.problem import RegistrationProblem, RegistrationResult
from pwan.transport import partial_wasserstein

__version__ = "0.1.0"
__all__ = ["RegistrationProblem", "RegistrationResult", "__version__", "partial_wasserstein", "register"]
