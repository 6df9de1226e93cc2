"""Settings of the task ``precision``: those of the network."""

from pwan.transport.settings import NeuralSettings as Settings

__all__ = ["Settings"]
