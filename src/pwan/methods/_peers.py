"""What the methods of optional packages share: an import that fails in one sentence, and calls that keep to one thread,
warn of nothing and repeat themselves.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from threadpoolctl import threadpool_limits

from pwan.methods._baseline import library_call
from pwan.randomness import derive_seed

COMMAND = "`pip install -r requirements-peers.txt` (outside a clone: pip install 'pwan[peers]')"
SYSTEM_PACKAGES = {"probreg": "libusb-1.0-0"}  # what a package needs beyond pip, by its Debian name
# the Debian packages of the shared libraries that probreg and its open3d load
DEBIAN = {
    "libusb-1.0": "libusb-1.0-0",
    "libEGL": "libegl1",
    "libGL": "libgl1",
    "libX11": "libx11-6",
    "libudev": "libudev1",
    "libidn2": "libidn2-0",
    "libgomp": "libgomp1",
}


def import_peer(name: str) -> ModuleType:
    """Import an optional package; called before the clock starts.

    Raises:
        ImportError: the package, or a shared library that it loads, is missing; the message is one sentence that names
            the command which installs it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the package's own imports have to say
            return importlib.import_module(name)
    except (ImportError, OSError) as error:  # OSError: ctypes did not find a shared library
        raise ImportError(_sentence(name, error)) from error


def _sentence(name: str, error: Exception) -> str:
    library = re.search(r"(lib[\w.+-]+?)\.so[\w.]*: cannot open shared object file", str(error))
    if library:
        package = DEBIAN.get(library[1], f"the package that holds {library[1]}.so")
        return (
            f"{name} is installed, but the system library {library[1]} that it loads is not: "
            f"`apt-get install {package}`"
        )
    if isinstance(error, ModuleNotFoundError):
        system = SYSTEM_PACKAGES.get(name)
        return f"{name} is not installed: {COMMAND}" + (f", after `apt-get install {system}`" if system else "")
    return f"{name} is installed but cannot be imported ({error}): {COMMAND} installs versions that fit each other"


@contextmanager
def peer_call(name: str, seed: int = 0) -> Iterator[None]:
    """Another project's code: one thread and no warnings. The global generators from which some of it draws, numpy's
    and the C library's, are seeded for the call, and numpy's is put back. Whatever it raises is a failed registration.
    """
    state = np.random.get_state()  # noqa: NPY002 (the libraries draw from it)
    derived = derive_seed(seed, name) % 2**32
    np.random.seed(derived)  # noqa: NPY002
    ctypes.CDLL(None).srand(ctypes.c_uint(derived))  # that of Eigen, with which probreg is compiled
    try:
        with library_call(name), threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
