"""The synchronous client. One logical command has one idempotency key, kept over its own retries
(B093).
"""

import os
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Literal, Self, TypeVar

from pulseweave.kernel.errors import OutcomeUnknown, Unavailable, WeaveError
from pulseweave.sdk import requests as r
from pulseweave.sdk.calls import Call, should_repeat
from pulseweave.sdk.retry import ENDED, TRIES, new_key, now_s, pause_s
from pulseweave.sdk.transport import EmbeddedTransport, HttpTransport, MaybeSent, NotSent, Transport
from pulseweave.wire import admin, recovery, workflows

M = TypeVar("M")


def _rest(duration_s: float) -> None:
    """Between tries: there is nothing to wait on but time."""
    Event().wait(duration_s)


class Client:
    """A client of one server. ``url`` and ``token`` default to WEAVE_URL and WEAVE_TOKEN.

    Thread-safe; usable in a forked child, which opens its own connections (B129).
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: Transport | None = None,
        tries: int = TRIES,
    ) -> None:
        self._transport = transport or HttpTransport(
            url or os.environ.get("WEAVE_URL", "http://127.0.0.1:8420")
        )
        self._token = token or os.environ.get("WEAVE_TOKEN")
        self._tries = tries
        self.definitions = Definitions(self)
        self.instances = Instances(self)
        self.recovery = Recovery(self)
        self.reviews = Reviews(self)
        self.tasks = Tasks(self)
        self.admin = Admin(self)

    @classmethod
    def embedded(cls, url: str = "sqlite:///weave.db") -> "Client":
        """A client with a whole server inside this process."""
        transport = EmbeddedTransport(url)
        return cls(transport=transport, token=transport.token)

    def __repr__(self) -> str:
        return f"Client({self._transport!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def do(self, call: Call[M], *, tries: int | None = None) -> M:
        """Send a call until it is answered, at most ``tries`` times. Raises WeaveError.

        What may have been carried out is repeated only where the key or its nature protects it.
        """
        body = call.encoded()
        headers = call.headers(self._token)
        error: WeaveError = Unavailable("not sent")
        for attempt in range(tries or self._tries):
            if attempt:
                _rest(pause_s(attempt))
            try:
                status, _, answer = self._transport.send(
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

    def me(self) -> admin.Me:
        return self.do(r.me())


class Definitions:
    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, definition: Any) -> workflows.DefinitionSummary:
        """Register a ``Workflow`` or a document; the same content again is the same."""
        document = definition.document() if hasattr(definition, "document") else definition
        return self._client.do(r.put_definition(document))

    def get(self, name: str, version: int) -> workflows.DefinitionDetail:
        return self._client.do(r.get_definition(name, version))

    def list(self) -> Iterator[workflows.DefinitionSummary]:
        cursor: str | None = None
        while True:
            page = self._client.do(r.list_definitions(cursor=cursor))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return


class Run:
    """A started instance: what it was when last read, and how to read it again."""

    def __init__(self, client: Client, summary: workflows.InstanceSummary) -> None:
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

    def detail(self) -> workflows.InstanceDetail:
        detail = self._client.instances.get(self.id)
        self.summary = detail
        return detail

    def wait(self, timeout: float = 60.0, *, for_review: bool = True) -> workflows.InstanceDetail:
        """Wait until it has ended, or, with ``for_review``, needs a person. Raises TimeoutError."""
        ends_at = now_s() + timeout
        rest_s = 0.02
        while True:
            detail = self.detail()
            if detail.state in ENDED or (for_review and detail.state == "NEEDS_REVIEW"):
                return detail
            if now_s() >= ends_at:
                raise TimeoutError(f"instance {self.id} is {detail.state} after {timeout} s")
            _rest(min(rest_s, max(0.0, ends_at - now_s())))
            rest_s = min(rest_s * 1.5, 1.0)


class Instances:
    def __init__(self, client: Client) -> None:
        self._client = client

    def start(
        self,
        definition: str,
        *,
        key: str,
        input: Any = None,  # noqa: A002
        version: int | None = None,
    ) -> Run:
        """Start, idempotent by (definition, key)."""
        given = {} if input is None else input
        call = r.start_instance(definition, key=key, input=given, version=version)
        return Run(self._client, self._client.do(call))

    def start_many(self, starts: Sequence[workflows.StartInstance]) -> list[workflows.StartOutcome]:
        return self._client.do(r.start_instances(starts)).items

    def get(self, instance_id: str) -> workflows.InstanceDetail:
        return self._client.do(r.get_instance(instance_id))

    def list(self, **query: Any) -> Iterator[workflows.InstanceSummary]:
        """Newest first; filters: state, definition, instance_key, in_review, paused."""
        cursor: str | None = None
        while True:
            page = self._client.do(r.list_instances(**query, cursor=cursor))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def history(self, instance_id: str) -> Iterator[workflows.JournalEntry]:
        cursor: str | None = None
        while True:
            page = self._client.do(r.history(instance_id, cursor=cursor))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def audit(self, instance_id: str | None = None) -> Iterator[recovery.AuditEntry]:
        cursor: str | None = None
        while True:
            page = self._client.do(r.audit(instance_id, cursor=cursor))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return

    def signal(
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
        return self._client.do(r.signal(instance_id, body, key=key or new_key()))

    def _control(
        self,
        verb: Literal["pause", "resume", "cancel"],
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str,
        key: str | None,
    ) -> recovery.Receipt:
        return self._client.do(
            r.control(
                verb,
                instance_id,
                key=key or new_key(),
                expected_control_revision=expected_control_revision,
                reason=reason,
            )
        )

    def pause(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return self._control(
            "pause",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )

    def resume(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return self._control(
            "resume",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )

    def cancel(
        self,
        instance_id: str,
        *,
        expected_control_revision: str,
        reason: str = "",
        key: str | None = None,
    ) -> recovery.Receipt:
        return self._control(
            "cancel",
            instance_id,
            expected_control_revision=expected_control_revision,
            reason=reason,
            key=key,
        )


class Recovery:
    """The recovery operations. Each takes the command's fields; ``key`` names the
    logical command.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def _recover(
        self, operation: str, instance_id: str, command: Any, *, key: str | None, dry_run: bool
    ) -> recovery.Receipt:
        call = r.recover(operation, instance_id, command, key=key or new_key(), dry_run=dry_run)
        return self._client.do(call)

    def review_task(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """REV-1: settle what an execution did."""
        body = recovery.ReviewTask(**command)
        return self._recover("review-task", instance_id, body, key=key, dry_run=dry_run)

    def resolve_step(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """RES-1: conclude a leaf."""
        body = recovery.ResolveStep(**command)
        return self._recover("resolve-step", instance_id, body, key=key, dry_run=dry_run)

    def retry_step(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """RET-1: a new activation inside the original budget and deadline."""
        body = recovery.RetryStep(**command)
        return self._recover("retry-step", instance_id, body, key=key, dry_run=dry_run)

    def continue_poll(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """CPO-1: a poll verified PENDING waits for its next round."""
        body = recovery.ContinuePoll(**command)
        return self._recover("continue-poll", instance_id, body, key=key, dry_run=dry_run)

    def rearm_wait(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """REA-1: a signal or timer in review waits again."""
        body = recovery.RearmWait(**command)
        return self._recover("rearm-wait", instance_id, body, key=key, dry_run=dry_run)

    def continue_instance(
        self, instance_id: str, *, key: str | None = None, dry_run: bool = False, **command: Any
    ) -> recovery.Receipt:
        """CON-1: leave review."""
        body = recovery.Continue(**command)
        return self._recover("continue", instance_id, body, key=key, dry_run=dry_run)

    def acknowledge_contradiction(
        self, instance_id: str, *, key: str | None = None, **command: Any
    ) -> recovery.Receipt:
        """REC-13."""
        body = recovery.AcknowledgeContradiction(**command)
        return self._client.do(r.acknowledge(instance_id, body, key=key or new_key()))


class Reviews:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Iterator[recovery.ReviewItem]:
        """What needs a person, the longest waiting first, each with its ready commands."""
        cursor: str | None = None
        while True:
            page = self._client.do(r.list_reviews(cursor=cursor))
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return


class Tasks:
    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, *, queue: str, handler: str, task_key: str, **more: Any) -> workflows.TaskView:
        """A task that no workflow owns, idempotent by ``task_key``."""
        body = workflows.CreateTask(queue=queue, handler=handler, task_key=task_key, **more)
        return self._client.do(r.create_task(body))

    def get(self, task_id: str) -> workflows.TaskView:
        return self._client.do(r.get_task(task_id))

    def cancel(
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
        return self._client.do(call)

    def review(self, task_id: str, *, key: str | None = None, **command: Any) -> recovery.Receipt:
        """PUL-13."""
        body = recovery.ReviewOwnTask(**command)
        return self._client.do(r.review_task(task_id, body, key=key or new_key()))

    def declare_lost(
        self, task_id: str, *, key: str | None = None, **command: Any
    ) -> recovery.Receipt:
        """REC-17."""
        body = recovery.DeclareLost(**command)
        return self._client.do(r.declare_lost(task_id, body, key=key or new_key()))

    def events(self, partition: int, *, after: str = "0") -> workflows.TaskEventPage:
        return self._client.do(r.task_events(partition, after=after))


class Admin:
    def __init__(self, client: Client) -> None:
        self._client = client

    def queues(self) -> list[admin.QueueView]:
        return self._client.do(r.list_queues()).items

    def set_queue(self, name: str, **settings: Any) -> admin.QueueSettings:
        return self._client.do(r.set_queue(name, admin.QueueSettings(**settings)))

    def applications(self) -> list[admin.ApplicationView]:
        return self._client.do(r.list_applications()).items

    def set_application(self, name: str, **settings: Any) -> admin.ApplicationSettings:
        return self._client.do(r.set_application(name, admin.ApplicationSettings(**settings)))

    def tokens(self) -> list[admin.TokenView]:
        return self._client.do(r.list_tokens()).items

    def create_token(self, **order: Any) -> admin.TokenView:
        return self._client.do(r.create_token(admin.CreateToken(**order)))

    def revoke_token(self, token_id: str) -> admin.TokenView:
        return self._client.do(r.revoke_token(token_id))

    def inbox(self) -> list[admin.InboxRecord]:
        return self._client.do(r.list_inbox()).items
