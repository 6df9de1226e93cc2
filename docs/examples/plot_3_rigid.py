"""
A turn and a shift alone
========================

``transform="rigid"`` allows nothing else: ``result.affine`` is a rotation. The armadillo is turned by 25 degrees, and half of the
reference is missing.
"""

import numpy as np

from pwan import register, shapes

rng = np.random.default_rng(2)
points = rng.permutation(shapes.load("armadillo").points)[:900]
angle = np.radians(25)
turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
source, reference = points[:400], points[400:] @ turn + [0.3, 0.1, 0]
reference = reference[reference[:, 1] > np.median(reference[:, 1])]

result = register(source, reference, mass=200, transform="rigid", steps=80, stages=1)
off = np.degrees(np.arccos((np.trace(result.affine.T @ turn) - 1) / 2))
print(
    f"the rotation is {off:.1f} degrees from the true one, the shift {np.abs(result.translation - [0.3, 0.1, 0]).max():.3f}"
)
figure = result.plot()
