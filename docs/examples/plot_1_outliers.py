"""
A bunny among outliers
======================

A bunny of 400 points, bent at random, with noise and 320 outliers strewn about it: a problem of the paper's kind, for
which the truth is known. Its ``mass`` is 400, the number of points that have a partner. The outliers carry no mass and
leave the result alone.
"""

from pwan import register, shapes
from pwan.synthesis import SynthesisSettings, make_problem

settings = SynthesisSettings(points=400, outlier_ratio=0.8)
problem = make_problem(shapes.load("bunny"), settings, seed=0, trials=[0])
source, reference, truth = problem.source[0], problem.reference[0], problem.truth[0]

result = register(source, reference, mass=400)
for name, points in (("before", source), ("after", result.transformed)):
    print(f"mean squared distance from the truth {name}: {(points - truth).square().sum(1).mean():.4f}")
figure = result.plot()
