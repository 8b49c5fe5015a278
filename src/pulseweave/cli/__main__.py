"""``python -m pulseweave.cli``."""

from pulseweave.cli import main

main()
