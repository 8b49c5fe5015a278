"""Measurements: what a step costs, and how many steps a second there are, as users run it."""
