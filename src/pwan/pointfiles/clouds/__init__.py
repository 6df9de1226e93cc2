"""Clouds of scanners: PCD, LAS and LAZ."""
