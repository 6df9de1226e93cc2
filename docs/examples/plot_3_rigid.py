"""
A turn and a shift alone
========================

``transform="rigid"`` allows nothing else: ``result.affine`` is a rotation. The armadillo is turned by 25 degrees and
shifted, and half of the reference is missing.
"""

import numpy as np

from pwan import register, shapes

points = np.random.default_rng(2).permutation(shapes.load("armadillo").points)[:900]
angle, shift = np.radians(25), [0.3, 0.1, 0]
turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
source, reference = points[:400], points[400:] @ turn + shift
reference = reference[reference[:, 1] > np.median(reference[:, 1])]

result = register(source, reference, mass=200, transform="rigid", steps=80, stages=1)
off = np.degrees(np.arccos((np.trace(result.affine.T @ turn) - 1) / 2))
print(f"the rotation is {off:.1f} degrees from the true one")
print(f"the shift is {np.linalg.norm(result.translation - shift):.3f} from the true one")
figure = result.plot()
