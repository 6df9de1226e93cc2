"""
How far two sets are apart
==========================

:func:`pwan.partial_wasserstein` gives the least cost of carrying a mass from one set to the other. The exact solver
says which point goes where. A potential network, here trained briefly, needs less memory for large sets and proves a
lower bound. Its values differ from one point to another by no more than the way between them.
"""

import numpy as np
from matplotlib.figure import Figure

from pwan import partial_wasserstein, shapes

fish = shapes.load("fish")
reference, source = fish.points, fish.partner[:60]
exact = partial_wasserstein(reference, source, mass=40)
neural = partial_wasserstein(reference, source, mass=40, solver="neural", updates=1000)
print(f"exact {exact.value:.3f}, by a potential {neural.value:.3f}, which proves at least {neural.lower_bound:.3f}")

figure = Figure(figsize=(10, 4.5), layout="constrained")
left, right = figure.subplots(1, 2)
for i, j in np.argwhere(exact.plan > 1e-6):
    left.plot(*np.stack([reference[i], source[j]]).T, color="0.7", zorder=0)
left.scatter(*reference.T, s=12, label="reference")
left.scatter(*source.T, s=12, color="tab:red", label="source")
left.set_title("exact: 40 of 60 points are carried")
left.legend(frameon=False)
x, y = np.meshgrid(np.linspace(-2, 2, 80), np.linspace(-2.2, 2.2, 80))
values = neural.potential(np.stack([x.ravel(), y.ravel()], axis=1)).reshape(x.shape)
shown = right.contourf(x, y, values, levels=20)
right.scatter(*reference.T, s=8, color="white")
right.scatter(*source.T, s=8, color="tab:red")
right.set_title("the potential")
figure.colorbar(shown)
for axes in (left, right):
    axes.set_aspect("equal")
    axes.set_axis_off()
