"""PWAN itself: settings, set-up, the alternating steps, refinements, from problem to result."""
