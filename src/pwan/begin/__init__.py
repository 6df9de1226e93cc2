"""Where to begin and how much to match, where nobody knows: a start, a mass and a distance."""
