"""A server for tests of the HTTP API: the assembled application, called as over HTTP.

Nothing here goes round the API but what no credential may do: namespaces and first tokens are made
as the operator of the installation makes them, and the engine's steps are called by hand. Every
answer is checked against the table of endpoints: status and code must be declared, and the body
must have the declared type.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import msgspec
from sqlalchemy import delete, exists, insert, literal, select, union_all

from pulseweave.api.endpoint import Endpoint
from pulseweave.api.openapi import codes_of
from pulseweave.api.problems import MEDIA_TYPE
from pulseweave.api.table import PREFIX, TABLE
from pulseweave.core.identity import Permission
from pulseweave.kernel import canonical, limits
from pulseweave.kernel.clock import ManualClock
from pulseweave.kernel.codes import CODES
from pulseweave.kernel.entropy import SeededEntropy
from pulseweave.runtime.steps import Steps
from pulseweave.server.assemble import assemble
from pulseweave.store import schema as t
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token
from pulseweave.txn.doctor import Finding, examine
from pulseweave.wire.admin import Problem

EVERYTHING = frozenset(Permission)
WHY = {"reason": "looked at the provider", "evidence_ref": "provider:1"}
#: Rows that an upgrade makes and no test changes.
UNTOUCHED = {t.stripes.name, t.schema_info.name}
#: The names of the others that have rows: most of them have none after most tests.
_WITH_ROWS = union_all(
    *(
        select(literal(table.name)).where(exists(select(literal(1)).select_from(table)))
        for table in t.metadata.sorted_tables
        if table.name not in UNTOUCHED
    )
)
#: A request without a token, where ``None`` would mean the world's own.
NOBODY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, ready to be sent, changed and sent again. ``raw`` wins over ``body``."""

    method: str
    path: str
    body: Any = None
    raw: bytes | AsyncIterator[bytes] | None = None
    key: str | None = None
    token: str | None = None
    headers: Mapping[str, str] | None = None

    def but(self, **changed: Any) -> "Asked":
        return replace(self, **changed)

    def but_body(self, **changed: Any) -> "Asked":
        """With other fields in the body; msgspec.UNSET takes one out."""
        body = {**self.body, **changed}
        return replace(
            self, body={k: v for k, v in body.items() if v is not msgspec.UNSET}, raw=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``body``: the parsed JSON, numbers as they were written."""

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any

    @property
    def code(self) -> str | None:
        refused = self.headers["content-type"] == MEDIA_TYPE
        return str(self.body["code"]) if refused else None

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


def key_of(endpoint: Endpoint) -> str:
    """The endpoint's name in tables: ``POST /instances``."""
    return f"{endpoint.method} {endpoint.path}"


BY_KEY = {key_of(endpoint): endpoint for endpoint in TABLE}
_PATTERNS = [
    (endpoint, re.compile(re.sub(r"\{\w+\}", "[^/]+", endpoint.path)))
    for endpoint in sorted(TABLE, key=lambda e: e.path.count("{"))
]


def endpoint_at(asked: Asked) -> Endpoint:
    """The row of the table that a request is for."""
    path = asked.path.partition("?")[0].removeprefix(PREFIX)
    fitting = (e for e, pattern in _PATTERNS if pattern.fullmatch(path))
    return next(endpoint for endpoint in fitting if endpoint.method == asked.method)


class Server:
    """The application over one database, which has the schema. One serves many tests.

    It has two namespaces, and of each a token that may do everything. ``virtual``: time stands
    still unless a test moves it, on each database alike.
    """

    def __init__(self, url: str, runner: asyncio.Runner, *, virtual: bool = True) -> None:
        self.url = url
        self.runner = runner
        self.clock = ManualClock()
        entropy = SeededEntropy(7)
        self.assembly = assemble(
            url, clock=self.clock if virtual else None, entropy=entropy if virtual else None
        )
        self.database = self.assembly.database
        if virtual:
            self.database.capabilities = replace(self.database.capabilities, now_sql=None)
        self.core = self.assembly.app.core
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.assembly.api), base_url="http://weave"
        )
        for namespace in ("default", "other"):
            create_namespace(self.database, namespace)
        self.token = self.make_token("operator")
        self.foreigner = self.make_token("foreigner", namespace="other")
        self._first = self.everything()

    def make_token(
        self,
        name: str,
        *,
        permissions: frozenset[Permission] = EVERYTHING,
        queues: frozenset[str] | None = None,
        namespace: str = "default",
        lifetime_ms: int | None = None,
    ) -> str:
        """A token; ``queues`` None: all of them."""
        order = TokenOrder(
            namespace=namespace,
            application="default",
            name=name,
            permissions=permissions,
            queues=queues or frozenset(),
            all_queues=queues is None,
            lifetime_ms=lifetime_ms,
        )
        token, _ = create_token(
            self.database, order, actor="test", ids=self.core.ids, entropy=self.core.entropy
        )
        return token

    def everything(self) -> dict[str, list[tuple[object, ...]]]:
        """Every row of every table, by the table's name."""
        with self.database.reader.connect() as connection:
            return {
                table.name: [
                    tuple(row)
                    for row in connection.execute(
                        select(table).order_by(*table.primary_key.columns)
                    )
                ]
                for table in t.metadata.sorted_tables
            }

    def reset(self) -> None:
        """All rows as they were at first."""
        with self.database.writer.begin() as connection:
            at_first = {name for name, rows in self._first.items() if rows} - UNTOUCHED
            for name in sorted({*at_first, *connection.scalars(_WITH_ROWS)}):
                table = t.metadata.tables[name]
                connection.execute(delete(table))
                names = table.columns.keys()
                rows = [dict(zip(names, row, strict=True)) for row in self._first[name]]
                if rows:
                    connection.execute(insert(table), rows)
        self.core.forget_beliefs()

    def close(self) -> None:
        self.runner.run(self.http.aclose())
        self.assembly.stop()


class ApiWorld:
    """See the module: what a test does with a server, whose rows are as they were at first."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.database = server.database
        self.core = server.core
        self.steps = Steps(self.database, self.core.ids, self.core.entropy)
        self.token = server.token
        self.foreigner = server.foreigner
        self.make_token = server.make_token
        self.everything = server.everything
        self._made = 0
        server.reset()

    # --- who and when -----------------------------------------------------------------------------

    def pass_ms(self, duration_ms: int) -> None:
        self.server.clock.advance_ms(duration_ms)

    def new_key(self) -> str:
        self._made += 1
        return f"key-{self._made}"

    # --- requests ---------------------------------------------------------------------------------

    def send(self, asked: Asked) -> Answer:
        """One request. What the table doesn't declare is an error of the test's subject."""
        return self.server.runner.run(self.sending(asked))

    async def sending(self, asked: Asked) -> Answer:
        """The same, for those that send many together."""
        headers = dict(asked.headers or {})
        token = self.token if asked.token is None else asked.token
        if token != NOBODY:
            headers["Authorization"] = f"Bearer {token}"
        if asked.key is not None:
            headers["Idempotency-Key"] = asked.key
        content = asked.raw
        if content is None and asked.body is not None:
            content = canonical.encode(asked.body).encode("ascii")
        path = PREFIX + asked.path if not asked.path.startswith(PREFIX) else asked.path
        got = await self.server.http.request(asked.method, path, content=content, headers=headers)
        body = canonical.parse(got.content, depth_max=limits.ANSWER_DEPTH_MAX)
        answer = Answer(status=got.status_code, headers=got.headers, text=got.text, body=body)
        check_answer(endpoint_at(asked), answer)
        return answer

    def get(self, path: str, *, token: str | None = None) -> Answer:
        return self.send(Asked(method="GET", path=path, token=token))

    def post(
        self, path: str, body: Any = None, *, key: str | None = None, token: str | None = None
    ) -> Answer:
        return self.send(Asked(method="POST", path=path, body=body, key=key, token=token))

    def put(self, path: str, body: Any, *, token: str | None = None) -> Answer:
        return self.send(Asked(method="PUT", path=path, body=body, token=token))

    def done(self, answer: Answer) -> Any:
        """The body of an answer that must not be a refusal."""
        assert answer.status < 300, answer.text
        return answer.body

    # --- workflows --------------------------------------------------------------------------------

    def flow(self, *steps: Mapping[str, Any], name: str = "flow", **more: Any) -> None:
        """Register a definition, version 1; without steps it has one task, ``a``."""
        document = {"name": name, "version": 1, "steps": list(steps) or [task("a")], **more}
        path = f"/definitions/{name}/versions/{document['version']}"
        self.done(self.put(path, {"document": document}))

    def begin(self, instance_key: str = "k", value: Any = None, *, name: str = "flow") -> str:
        body = {"definition": name, "instance_key": instance_key, "input": value or {}}
        return str(self.done(self.post("/instances", body))["id"])

    def look(self, instance_id: str) -> Any:
        return self.done(self.get(f"/instances/{instance_id}"))

    def step(self, instance_id: str, step_key: str = "a") -> Any:
        """The current activation of a step."""
        found = self.look(instance_id)["activations"]
        return next(a for a in found if a["step_key"] == step_key and a["current"])

    def settle(self) -> None:
        self.steps.settle()

    def in_review(self, instance_key: str = "k") -> str:
        """An instance of ``flow`` whose only task has an unknown outcome."""
        instance_id = self.begin(instance_key)
        self.work({"outcome": "UNKNOWN", "detail": "the answer was lost"})
        return instance_id

    # --- workers ----------------------------------------------------------------------------------

    def turn(self, *, token: str | None = None, **told: Any) -> Any:
        return self.done(self.post("/worker/turn", {"worker": "w", **told}, token=token))

    def claim(self, queue: str = "q") -> dict[str, Any]:
        """Claim one task: ``task_id`` and ``token``, and the whole of it as ``task``."""
        (found,) = self.turn(claim={"queues": [queue], "limit": 1})["claimed"]
        return {"task_id": found["task_id"], "token": found["token"]}

    def running(self, queue: str = "q") -> dict[str, Any]:
        """Claim one task and start it."""
        lease = self.claim(queue)
        (answer,) = self.turn(starts=[lease])["starts"]
        assert answer["accepted"], answer
        return lease

    def report(self, lease: Mapping[str, Any], told: Mapping[str, Any]) -> Any:
        (answer,) = self.turn(reports=[{**lease, **told}])["reports"]
        return answer

    def work(self, told: Mapping[str, Any] | None = None, *, queue: str = "q") -> dict[str, Any]:
        """Claim, start and report one task, then settle; its lease."""
        lease = self.running(queue)
        answer = self.report(lease, told or {"outcome": "SUCCEEDED", "result": {"ok": True}})
        assert answer["accepted"], answer
        self.settle()
        return lease

    # --- tasks and recovery -----------------------------------------------------------------------

    def create_task(self, task_key: str = "t", **more: Any) -> Any:
        body = {"queue": "q", "handler": "do", "task_key": task_key, **more}
        return self.done(self.post("/tasks", body))

    def task(self, task_id: str) -> Any:
        return self.done(self.get(f"/tasks/{task_id}"))

    def ready(self, instance_id: str, operation: str, **fill: Any) -> Asked:
        """The command that the instance itself offers for an operation, filled in (REC-15)."""
        offers = [
            offer
            for item in self.look(instance_id)["reviews"]
            for offer in item["operations"]
            if offer["path"].endswith(f"/{operation}")
        ]
        offer = next((o for o in offers if o["applies"]), offers[0])
        given = {
            **WHY,
            "execution_settled": True,
            "safe_to_retry": True,
            "review_resolved": True,
            "pending_confirmed": True,
            "wait_verified": True,
            "verdict": "SUCCEEDED",
            "result": {"ok": True},
            **fill,
        }
        command = {**offer["command"], **{name: given.get(name) for name in offer["to_fill"]}}
        return Asked(method="POST", path=offer["path"], body=command, key=self.new_key())

    def partition(self) -> int:
        """The first partition of the result stream."""
        return int(self.done(self.get("/me"))["partitions"][0])

    def findings(self) -> list[Finding]:
        """What the doctor finds in the whole database."""
        return [finding for page in examine(self.database) for finding in page.findings]


def task(key: str, **more: Any) -> dict[str, Any]:
    """A task step in queue ``q``."""
    return {"task": key, "queue": "q", "handler": f"do.{key}", **more}


def check_answer(endpoint: Endpoint, answer: Answer) -> None:
    """Status, code and form are those of the table; a problem is whole (REC-12)."""
    if answer.code is None:
        assert answer.status in endpoint.statuses, (answer.status, answer.text)
        msgspec.convert(answer.body, endpoint.answer)
        return
    problem = msgspec.convert(answer.body, Problem)
    entry = CODES[problem.code]
    assert answer.status == problem.status == entry.status
    assert problem.title == entry.title
    assert problem.needed
    assert problem.code in codes_of(endpoint), f"{key_of(endpoint)} declares no {problem.code}"
