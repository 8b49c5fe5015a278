"""A whole server inside this process, for ``Client.embedded``: same façade, same API, no socket.

Stands above the server's layers; the SDK finds it by name when it is asked for, and never imports
it.
"""

import asyncio
from threading import Thread

import httpx2

from pulseweave.core.identity import Permission
from pulseweave.kernel.clock import Clock
from pulseweave.runtime.steps import Steps
from pulseweave.server.assemble import assemble
from pulseweave.store.engine import open_database
from pulseweave.store.migrate import upgrade
from pulseweave.txn.admin.namespaces import create_namespace
from pulseweave.txn.admin.tokens import TokenOrder, create_token


class Embedded:
    """An engine and an API in this process. ``send`` is the SDK's transport. Without ``engine`` the
    caller takes its steps himself (``steps``), as a test with a clock of its own does.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, engine: bool = True) -> None:
        database = open_database(url)
        upgrade(database)
        database.close()
        self._assembly = assemble(url, clock=clock, engine=engine)
        core = self._assembly.app.core
        create_namespace(core.database, "default")
        order = TokenOrder(
            namespace="default",
            application="default",
            name="embedded",
            permissions=frozenset(Permission),
            queues=frozenset(),
            all_queues=True,
            lifetime_ms=None,
        )
        self.token, _ = create_token(
            core.database, order, actor="embedded", ids=core.ids, entropy=core.entropy
        )
        self._assembly.start()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="weave-embedded", daemon=True)
        self._thread.start()
        self._http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self._assembly.api), base_url="http://embedded"
        )

    def steps(self) -> Steps:
        core = self._assembly.app.core
        return Steps(core.database, core.ids, core.entropy)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        """One request, answered as over HTTP."""
        request = self._http.request(method, path, content=body, headers=headers, timeout=timeout_s)
        answer = asyncio.run_coroutine_threadsafe(request, self._loop).result()
        return answer.status_code, dict(answer.headers), answer.content

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._assembly.stop()


def open_embedded(url: str) -> Embedded:
    return Embedded(url)
