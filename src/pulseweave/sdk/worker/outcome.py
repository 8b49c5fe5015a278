"""From what a handler did to what is reported (PUL-4): known, or honestly unknown."""

import logging
from typing import Any

from pulseweave.kernel import canonical, limits
from pulseweave.sdk.worker.context import Cancelled as HandlerCancelled
from pulseweave.sdk.worker.context import TaskFailed
from pulseweave.wire.worker import Cancelled, ClaimedTask, Failed, Report, Succeeded, Unknown

log = logging.getLogger("pulseweave.worker")

_DETAIL_CHARS_MAX = 2_000


def of_result(task: ClaimedTask, result: Any) -> Report:
    """A result. One that can't be told: the effect has happened all the same, so nobody knows it
    (B082, B086).
    """
    try:
        text = canonical.encode(result)
    except canonical.InvalidJson as error:
        return unknown(task, f"the handler's result is no JSON: {error}", ended=True)
    if len(text) > limits.PAYLOAD_BYTES_MAX:
        bound = limits.PAYLOAD_BYTES_MAX
        message = f"the handler's result has {len(text)} bytes, at most {bound} are allowed"
        return unknown(task, message, ended=True)
    return Succeeded(task_id=task.task_id, token=task.token, result=canonical.parse(text))


def of_exception(task: ClaimedTask, error: BaseException, *, started: bool) -> Report:
    """What an exception tells: after the start only TaskFailed and Cancelled are known."""
    if isinstance(error, TaskFailed):
        return failed(
            task, error.code, error.message, retryable=error.retryable, details=error.details
        )
    if not started:
        told = f"{type(error).__name__}: {error}"
        return failed(task, "HANDLER_ERROR", told, retryable=True)
    if isinstance(error, HandlerCancelled):
        return Cancelled(task_id=task.task_id, token=task.token)
    log.warning("task %s (%s): outcome unknown", task.task_id, task.handler, exc_info=error)
    return unknown(task, f"{type(error).__name__}: {_told(error)}", ended=True)


def failed(
    task: ClaimedTask, code: str, message: str, *, retryable: bool, details: Any = None
) -> Report:
    try:
        canonical.encode(details)
    except canonical.InvalidJson as error:
        details = {"unencodable": str(error)}
    return Failed(
        task_id=task.task_id,
        token=task.token,
        code=str(code)[: limits.CODE_CHARS_MAX],
        message=_cut(str(message)),
        details=details,
        retryable=retryable,
    )


def unknown(task: ClaimedTask, detail: str, *, ended: bool) -> Report:
    return Unknown(task_id=task.task_id, token=task.token, detail=_cut(detail), ended=ended)


def _told(error: BaseException) -> str:
    """The exception's text, whatever its ``__str__`` does (B088)."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever a handler\'s __str__ does
        return "(its text could not be made)"


def _cut(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARS_MAX else text[:_DETAIL_CHARS_MAX] + "…"
