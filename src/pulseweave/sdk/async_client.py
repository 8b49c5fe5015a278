"""The asynchronous client, made from ``client.py`` by ``scripts/make_async_client.py``.

Change that one, then run the script; a test compares. The same calls, keys and retries.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Self, TypeVar

from pulseweave.kernel.errors import OutcomeUnknown, Unavailable, WeaveError
from pulseweave.sdk import requests as r
from pulseweave.sdk.calls import Call, should_repeat
from pulseweave.sdk.retry import ENDED, TRIES, new_key, now_s, pause_s
from pulseweave.sdk.transport import (
    AsyncEmbeddedTransport,
    AsyncHttpTransport,
    AsyncTransport,
    MaybeSent,
    NotSent,
)
from pulseweave.wire import admin, recovery, workflows

M = TypeVar("M")


async def _rest(duration_s: float) -> None:
    """Between tries: there is nothing to wait on but time."""
    await asyncio.sleep(duration_s)


class AsyncClient:
    """A client of one server. ``url`` and ``token`` default to WEAVE_URL and WEAVE_TOKEN.

    Thread-safe; usable in a forked child, which opens its own connections (B129).
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: AsyncTransport | None = None,
        tries: int = TRIES,
    ) -> None:
        self._transport = transport or AsyncHttpTransport(
            url or os.environ.get("WEAVE_URL", "http://127.0.0.1:8420")
        )
        self._token = token or os.environ.get("WEAVE_TOKEN")
        self._tries = tries
        self.definitions = AsyncDefinitions(self)
        self.instances = AsyncInstances(self)
        self.recovery = AsyncRecovery(self)
        self.reviews = AsyncReviews(self)
        self.tasks = AsyncTasks(self)
        self.admin = AsyncAdmin(self)

    @classmethod
    def embedded(cls, url: str = "sqlite:///weave.db") -> "AsyncClient":
        """A client with a whole server inside this process."""
        transport = AsyncEmbeddedTransport(url)
        return cls(transport=transport, token=transport.token)

    def __repr__(self) -> str:
        return f"AsyncClient({self._transport!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def do(self, call: Call[M], *, tries: int | None = None) -> M:
        """Send a call until it is answered, at most ``tries`` times. Raises WeaveError.

        What may have been carried out is repeated only where the key or its nature protects it.
        """
        body = call.encoded()
        headers = call.headers(self._token)
        error: WeaveError = Unavailable("not sent")
        for attempt in range(tries or self._tries):
            if attempt:
                await _rest(pause_s(attempt))
            try:
                status, _, answer = await self._transport.send(
                    call.method, call.url, body, headers=headers, timeout_s=call.timeout_s
                )
                return call.decode(status, answer)
            except NotSent as lost:
                error = Unavailable(f"the server can't be reached: {lost}")
            except MaybeSent as lost:
                error = OutcomeUnknown(f"the answer was lost: {lost}", idempotency_key=call.key)
                if not call.repeatable:
                    break
            except WeaveError as told:
                if not should_repeat(told) or not call.repeatable:
                    raise
                error = told
        raise error

    async def me(self) -> admin.Me:
        return await self.do(r.me())


class AsyncDefinitions:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def put(self, definition: Any) -> workflows.DefinitionSummary:
        """Register a ``Workflow`` or a document; the same content again is the same."""
        document = definition.document() if hasattr(definition, "document") else definition
        return await self._client.do(r.put_definition(document))

    async def get(self, name: str, version: int) -> workflows.DefinitionDetail:
        return await self._client.do(r.get_definition(name, version))

    async def list(self) -> AsyncIterator[workflows.DefinitionSummary]:
        cursor: str | None = None
        while True:
            page = await self._client.do(r.list_definitions(cursor=cursor))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return


class AsyncRun:
    """A started instance: what it was when last read, and how to read it again."""

    def __init__(self, client: AsyncClient, summary: workflows.InstanceSummary) -> None:
        self._client = client
        self.summary = summary

    @property
    def id(self) -> str:
        return self.summary.id

    @property
    def state(self) -> str:
        return self.summary.state

    @property
    def created(self) -> bool:
        """Whether this start made it; False: it was there already."""
        return bool(self.summary.created)

    async def detail(self) -> workflows.InstanceDetail:
        detail = await self._client.instances.get(self.id)
        self.summary = detail
        return detail

    async def wait(
        self, timeout: float = 60.0, *, for_review: bool = True
    ) -> workflows.InstanceDetail:
        """Wait until it has ended, or, with ``for_review``, needs a person. Raises TimeoutError."""
        ends_at = now_s() + timeout
        rest_s = 0.02
        while True:
            detail = await self.detail()
            if detail.state in ENDED or (for_review and detail.state == "NEEDS_REVIEW"):
                return detail
            if now_s() >= ends_at:
                raise TimeoutError(f"instance {self.id} is {detail.state} after {timeout} s")
            await _rest(min(rest_s, max(0.0, ends_at - now_s())))
            rest_s = min(rest_s * 1.5, 1.0)


class AsyncInstances:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def start(
        self,
        definition: str,
        *,
        key: str,
        input: Any = None,  # noqa: A002
        version: int | None = None,
    ) -> AsyncRun:
        """Start, idempotent by (definition, key)."""
        given = {} if input is None else input
        call = r.start_instance(definition, key=key, input=given, version=version)
        return AsyncRun(self._client, await self._client.do(call))

    async def start_many(
        self, starts: Sequence[workflows.StartInstance]
    ) -> list[workflows.StartOutcome]:
        return (await self._client.do(r.start_instances(starts))).items

    async def get(self, instance_id: str) -> workflows.InstanceDetail:
        return await self._client.do(r.get_instance(instance_id))

    async def list(self, **query: Any) -> AsyncIterator[workflows.InstanceSummary]:
        """Newest first; filters: state, definition, instance_key, in_review, paused."""
        cursor: str | None = None
        while True:
            page = await self._client.do(r.list_instances(**query, cursor=cursor))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def history(self, instance_id: str) -> AsyncIterator[workflows.JournalEntry]:
        cursor: str | None = None
        while True:
            page = await self._client.do(r.history(instance_id, cursor=cursor))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def audit(self, instance_id: str | None = None) -> AsyncIterator[recovery.AuditEntry]:
        cursor: str | None = None
        while True:
            page = await self._client.do(r.audit(instance_id, cursor=cursor))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def signal(
        self,
        instance_id: str,
        name: str,
        payload: Any = None,
        *,
        correlation: str | None = None,
        key: str | None = None,
    ) -> workflows.SignalAccepted:
        """Tell the instance something that it waits for, or will wait for; once per ``key``."""
        body = workflows.SendSignal(name=name, correlation=correlation, payload=payload)
        return await self._client.do(r.signal(instance_id, body, key=key or new_key()))

    async def _control(
        self,
        verb: Literal["pause", "resume", "cancel"],
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str,
        key: str | None,
    ) -> recovery.Receipt:
        return await self._client.do(
            r.control(
                verb,
                instance_id,
                key=key or new_key(),
                expected_control_revision=expected_control_revision,
                reason=reason,
            )
        )

    async def pause(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return await self._control(
            "pause",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )

    async def resume(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return await self._control(
            "resume",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )

    async def cancel(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return await self._control(
            "cancel",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )


class AsyncRecovery:
    """The recovery operations. Each takes the command's fields; ``key`` names the
    logical command.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def _recover(
        self, operation: str, instance_id: str, command: Any, *, key: str | None, dry_run: bool
    ) -> recovery.Receipt:
        call = r.recover(operation, instance_id, command, key=key or new_key(), dry_run=dry_run)
        return await self._client.do(call)

    async def review_task(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """REV-1: settle what an execution did."""
        body = recovery.ReviewTask(**command)
        return await self._recover("review-task", instance_id, body, key=key, dry_run=dry_run)

    async def resolve_step(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """RES-1: conclude a leaf."""
        body = recovery.ResolveStep(**command)
        return await self._recover("resolve-step", instance_id, body, key=key, dry_run=dry_run)

    async def retry_step(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """RET-1: a new activation inside the original budget and deadline."""
        body = recovery.RetryStep(**command)
        return await self._recover("retry-step", instance_id, body, key=key, dry_run=dry_run)

    async def continue_poll(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """CPO-1: a poll verified PENDING waits for its next round."""
        body = recovery.ContinuePoll(**command)
        return await self._recover("continue-poll", instance_id, body, key=key, dry_run=dry_run)

    async def rearm_wait(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """REA-1: a signal or timer in review waits again."""
        body = recovery.RearmWait(**command)
        return await self._recover("rearm-wait", instance_id, body, key=key, dry_run=dry_run)

    async def continue_instance(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """CON-1: leave review."""
        body = recovery.Continue(**command)
        return await self._recover("continue", instance_id, body, key=key, dry_run=dry_run)

    async def acknowledge_contradiction(
        self, instance_id: str, *, key: str | None = None, **command: Any
    ) -> recovery.Receipt:
        """REC-13."""
        body = recovery.AcknowledgeContradiction(**command)
        return await self._client.do(r.acknowledge(instance_id, body, key=key or new_key()))


class AsyncReviews:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> AsyncIterator[recovery.ReviewItem]:
        """What needs a person, the longest waiting first, each with its ready commands."""
        cursor: str | None = None
        while True:
            page = await self._client.do(r.list_reviews(cursor=cursor))
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return


class AsyncTasks:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self, *, queue: str, handler: str, task_key: str, **more: Any
    ) -> workflows.TaskView:
        """A task that no workflow owns, idempotent by ``task_key``."""
        body = workflows.CreateTask(queue=queue, handler=handler, task_key=task_key, **more)
        return await self._client.do(r.create_task(body))

    async def get(self, task_id: str) -> workflows.TaskView:
        return await self._client.do(r.get_task(task_id))

    async def cancel(
        self,
        task_id: str,
        *,
        expected_task_revision: str,
        reason: str,
        instance_id: str | None = None,
        key: str | None = None,
    ) -> recovery.Receipt:
        body = recovery.CancelTask(expected_task_revision=expected_task_revision, reason=reason)
        call = r.cancel_task(task_id, body, key=key or new_key(), instance_id=instance_id)
        return await self._client.do(call)

    async def review(
        self, task_id: str, *, key: str | None = None, **command: Any
    ) -> recovery.Receipt:
        """PUL-13."""
        body = recovery.ReviewOwnTask(**command)
        return await self._client.do(r.review_task(task_id, body, key=key or new_key()))

    async def declare_lost(
        self, task_id: str, *, key: str | None = None, **command: Any
    ) -> recovery.Receipt:
        """REC-17."""
        body = recovery.DeclareLost(**command)
        return await self._client.do(r.declare_lost(task_id, body, key=key or new_key()))

    async def events(self, partition: int, *, after: str = "0") -> workflows.TaskEventPage:
        return await self._client.do(r.task_events(partition, after=after))


class AsyncAdmin:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def queues(self) -> list[admin.QueueView]:
        return (await self._client.do(r.list_queues())).items

    async def set_queue(self, name: str, **settings: Any) -> admin.QueueSettings:
        return await self._client.do(r.set_queue(name, admin.QueueSettings(**settings)))

    async def applications(self) -> list[admin.ApplicationView]:
        return (await self._client.do(r.list_applications())).items

    async def set_application(self, name: str, **settings: Any) -> admin.ApplicationSettings:
        return await self._client.do(r.set_application(name, admin.ApplicationSettings(**settings)))

    async def tokens(self) -> list[admin.TokenView]:
        return (await self._client.do(r.list_tokens())).items

    async def create_token(self, **order: Any) -> admin.TokenView:
        return await self._client.do(r.create_token(admin.CreateToken(**order)))

    async def revoke_token(self, token_id: str) -> admin.TokenView:
        return await self._client.do(r.revoke_token(token_id))

    async def inbox(self) -> list[admin.InboxRecord]:
        return (await self._client.do(r.list_inbox())).items
