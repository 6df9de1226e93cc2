"""
Two fish in the plane
=====================

Points of shape (N, 2) are registered as those of shape (N, 3) are. This is the fish with which coherent point drift was
first shown.
"""

from pwan import register, shapes

fish = shapes.load("fish")
result = register(fish.partner, fish.points, steps=100)
print(result.stop_reason)
figure = result.plot()
