"""``weave worker MODULE:WORKER``."""

import logging
import sys
from importlib import import_module
from pathlib import Path

from pulseweave.kernel import points
from pulseweave.kernel.errors import WeaveError
from pulseweave.sdk.worker import Worker


def worker(target: str, /) -> int:
    """Run the worker that stands in a module: ``weave worker shop.handlers:worker``. SIGTERM drains
    it.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    points.arm_from_environment()
    return _find(target).run().exit_code


def _find(target: str) -> Worker:
    module_name, _, name = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise WeaveError("NOT_FOUND", f"{target}: {error}") from error
    found = getattr(module, name or "worker", None)
    if not isinstance(found, Worker):
        raise WeaveError("NOT_FOUND", f"{target} is no Worker: name it as MODULE:WORKER")
    return found
