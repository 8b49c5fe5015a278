"""The command ``weave``: tables and trees for people, ``--json`` for programs, exit codes by kind
of refusal.
"""


def main() -> None:
    """Entry point."""
    from pulseweave.cli.app import run  # noqa: PLC0415  # --version and errors stay fast

    run()
