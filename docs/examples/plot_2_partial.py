"""
Two sets that overlap only in part
==================================

Both sets are cropped to 70% of the bunny, at random sides. ``distance`` says how far a point may be matched, in the
units of the points: nobody needs to know how much overlaps.
"""

from pwan import register, shapes
from pwan.synthesis import SynthesisSettings, make_problem

settings = SynthesisSettings(points=500, keep=0.7, deformation_lambda=50)
problem = make_problem(shapes.load("bunny"), settings, seed=0, trials=[0])
source, reference, truth = problem.source[0], problem.reference[0], problem.truth[0]

result = register(source, reference, distance=0.1)
print(f"{result.matched.double().mean():.0%} of the source are matched")
for name, points in (("before", source), ("after", result.transformed)):
    print(f"mean squared distance from the truth {name}: {(points - truth).square().sum(1).mean():.4f}")
figure = result.plot()
