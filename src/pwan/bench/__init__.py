"""Benchmarks: cells, trials in worker processes, result rows, summaries, tracking."""
