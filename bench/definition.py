"""The workflow of the measurements: three no-op steps, one after the other."""

from typing import Any

STEPS = 3


def three_steps(effect: str = "at_most_once") -> dict[str, Any]:
    return {
        "name": "bench",
        "version": 1,
        "steps": [
            {
                "task": f"step{n}",
                "queue": "bench",
                "handler": "bench.noop",
                "input": {"n": n},
                "effect": effect,
                "lease": "60s",
            }
            for n in range(1, STEPS + 1)
        ],
    }
