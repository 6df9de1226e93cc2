"""
Known pairs of points
=====================

A torus looks the same however it is turned, so the points alone cannot say which way it was. Four landmarks, each a row
of the source and the row of the reference where it belongs, say it; they pull softly.
"""

import numpy as np

from pwan import register, shapes

points = np.random.default_rng(3).permutation(shapes.load("torus").points)[:800]
angle = np.radians(40)
turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
source, reference = points[:400], points[400:] @ turn
directions = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
landmarks = np.stack([(source @ directions.T).argmax(0), (reference @ (directions @ turn).T).argmax(0)], axis=1)

plain = register(source, reference, steps=60, stages=1)
result = register(source, reference, landmarks=landmarks, steps=60, stages=1)
for name, found in (("without landmarks", plain), ("with four", result)):
    off = np.linalg.norm(found.transformed - source @ turn, axis=1).mean()
    print(f"mean distance from the truth {name}: {off:.3f}")
figure = result.plot()
