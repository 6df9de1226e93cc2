"""PWAN under Lightning: a module around its steps, and the processes that share a registration."""

from pwan.lightning.module import DealtOut, PwanDataModule, PwanModule, fit, register

__all__ = ["DealtOut", "PwanDataModule", "PwanModule", "fit", "register"]
