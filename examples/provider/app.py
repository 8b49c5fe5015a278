"""The provider's HTTP surface: what its customers call, what shows its ledger, what makes it fail.

A business request is noted, meets its fault if there is one, and what it asks for is committed
before any byte of an answer. All of it runs on one event loop: two requests never apply at once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.provider.bodies import FIELDS, QUERY, check, parse
from examples.provider.faults import Fault, Faults, Held, Holds, Mode, Stopping, Wanted
from examples.provider.ledger import EFFECTS, Call, Ledger, Refused, Row
from examples.provider.provisioning import STATUS, Plan, Plans, status
from examples.provider.server import NoAnswer

LATE_MS_DEFAULT = 1_000
WAIT_MS_DEFAULT = 30_000
KIND_OF = {f"{kind}s": kind for kind in EFFECTS}  # /charges: charge

#: What a request does once its fault allows: from the request's number to the answer.
Act = Callable[[int], Response]


class ProviderApp:
    """The application over one ledger."""

    def __init__(self, ledger_path: Path) -> None:
        self._ledger = Ledger(ledger_path)
        self._faults = Faults()
        self._plans = Plans()
        self._holds = Holds()
        self.asgi = Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/ledger", self._totals),
                Route("/effects", self._effects),
                Route("/requests", self._requests),
                Route("/faults", self._show_faults),
                Route("/faults", self._set_fault, methods=["POST"]),
                Route("/faults", self._clear_faults, methods=["DELETE"]),
                Route("/faults/release", self._release, methods=["POST"]),
                Route("/faults/wait", self._wait),
                Route("/plans", self._show_plans),
                Route("/plans", self._set_plan, methods=["POST"]),
                Route("/clusters/{cluster_id}/status", self._status),
                Route("/{kinds}", self._apply, methods=["POST"]),
                Route("/{kinds}", self._list),
                Route("/{kinds}/{effect_id}", self._show),
            ],
            exception_handlers={
                Refused: _refusal,
                Stopping: _no_answer,
                ClientDisconnect: _no_answer,
            },
            lifespan=self._lifespan,
        )

    def stop(self) -> None:
        """End all waiting: what is on hold gets no answer, what hangs is never applied."""
        self._holds.stop()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        self._ledger.close()

    # --- business ---------------------------------------------------------------------------------

    async def _apply(self, request: Request) -> Response:
        kind = _kind(request)
        raw = await request.body()
        try:
            wanted = self._wanted(kind, raw)
        except Refused:
            self._ledger.receive(_call(request, kind, None), None)
            raise
        fault = self._faults.meet(kind, wanted["order_id"])
        forget_key = fault is not None and fault.mode is Mode.FORGET_KEYS

        def act(request_id: int) -> Response:
            effect, new = self._ledger.apply(request_id, wanted, forget_key=forget_key)
            return JSONResponse(_shown(effect), 201 if new else 200)

        return await self._perform(_call(request, kind, wanted["order_id"]), fault, act)

    def _wanted(self, kind: str, raw: bytes) -> Row:
        """The content of the effect that a body asks for."""
        body = parse(raw, required=FIELDS[kind])
        if kind == "refund":
            charge_id = body["charge_id"]
            charge = _existing(self._ledger.find("charge", charge_id), "charge", charge_id)
            body |= {name: charge[name] for name in FIELDS["charge"]}
        content = dict.fromkeys(("order_id", "amount", "currency", "charge_id", "machine"))
        return {"kind": kind, **content, **body}

    async def _list(self, request: Request) -> Response:
        kind = _kind(request)
        order_id = request.query_params.get("order_id")

        def act(_request_id: int) -> Response:
            effects = self._ledger.effects(kind, order_id)
            return JSONResponse({f"{kind}s": [_shown(effect) for effect in effects]})

        fault = self._faults.meet(QUERY, order_id)
        return await self._perform(_call(request, QUERY, order_id), fault, act)

    async def _show(self, request: Request) -> Response:
        kind, effect_id = _kind(request), request.path_params["effect_id"]
        effect = self._ledger.find(kind, effect_id)
        order_id = None if effect is None else effect["order_id"]

        def act(_request_id: int) -> Response:
            return JSONResponse(_shown(_existing(effect, kind, effect_id)))

        fault = self._faults.meet(QUERY, order_id)
        return await self._perform(_call(request, QUERY, order_id), fault, act)

    async def _status(self, request: Request) -> Response:
        cluster_id = request.path_params["cluster_id"]
        cluster = self._ledger.find("cluster", cluster_id)
        order_id = None if cluster is None else cluster["order_id"]

        def act(request_id: int) -> Response:
            known = _existing(cluster, "cluster", cluster_id)
            return JSONResponse(status(self._ledger, self._plans, known, request_id=request_id))

        fault = self._faults.meet(STATUS, order_id)
        return await self._perform(_call(request, STATUS, order_id), fault, act)

    async def _perform(self, call: Call, fault: Fault | None, act: Act) -> Response:
        """Note the request, then do what it asks for, or what its fault makes of it."""
        if fault is None:
            return act(self._ledger.receive(call, None))
        mode = fault.mode
        request_id = self._ledger.receive(call, mode)
        if mode is Mode.REFUSE:
            raise Refused(402, "declined", f"this {call.kind} is declined; nothing was done")
        if mode is Mode.ERROR_BEFORE:
            return _server_error()
        held = Held(request_id, call.kind, call.order_id, mode)
        try:
            if mode is Mode.HANG:
                await self._holds.hold(held)
            answer = act(request_id)
            if mode in (Mode.HOLD, Mode.LATE_ANSWER):
                await self._holds.hold(held, at_most_ms=fault.delay_ms)
        finally:
            held.finished.set()
        if mode is Mode.DROP_ANSWER:
            return NoAnswer()
        return _server_error() if mode is Mode.ERROR_AFTER else answer

    # --- the ledger, for those who want to know what really happened ------------------------------

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _totals(self, _request: Request) -> Response:
        return JSONResponse(self._ledger.totals())

    async def _effects(self, request: Request) -> Response:
        wanted = check(request.query_params, (), ("kind", "order_id"))
        effects = self._ledger.effects(wanted.get("kind"), wanted.get("order_id"))
        return JSONResponse({"effects": effects})

    async def _requests(self, request: Request) -> Response:
        wanted = check(request.query_params, (), ("kind", "order_id"))
        requests = self._ledger.requests(wanted.get("kind"), wanted.get("order_id"))
        return JSONResponse({"requests": requests})

    # --- how clusters come about ------------------------------------------------------------------

    async def _show_plans(self, _request: Request) -> Response:
        return JSONResponse({"plans": self._plans.shown()})

    async def _set_plan(self, request: Request) -> Response:
        self._plans.add(Plan(**parse(await request.body(), (), ("order_id", "pending", "end"))))
        return JSONResponse({"plans": self._plans.shown()}, 201)

    # --- faults -----------------------------------------------------------------------------------

    async def _show_faults(self, _request: Request) -> Response:
        held = [held.shown() for held in self._holds.matching(Wanted())]
        return JSONResponse({"faults": self._faults.shown(), "held": held})

    async def _set_fault(self, request: Request) -> Response:
        body = parse(await request.body(), ("kind", "mode"), ("order_id", "times", "delay_ms"))
        mode = Mode(body.pop("mode"))
        if mode is Mode.LATE_ANSWER:
            body.setdefault("delay_ms", LATE_MS_DEFAULT)
        elif "delay_ms" in body:
            raise Refused(400, "invalid_request", f"delay_ms belongs to {Mode.LATE_ANSWER} alone")
        self._faults.add(Fault(mode=mode, **body))
        return JSONResponse({"faults": self._faults.shown()}, 201)

    async def _clear_faults(self, _request: Request) -> Response:
        self._faults.clear()
        return JSONResponse({"faults": []})

    async def _release(self, request: Request) -> Response:
        body = parse(await request.body(), (), ("kind", "order_id", "mode"))
        return JSONResponse({"released": await self._holds.release(Wanted(**body))})

    async def _wait(self, request: Request) -> Response:
        params: Row = dict(request.query_params)
        if params.get("timeout_ms", "").isdecimal():
            params["timeout_ms"] = int(params["timeout_ms"])
        wanted = check(params, (), ("kind", "order_id", "mode", "timeout_ms"))
        timeout_ms = wanted.pop("timeout_ms", WAIT_MS_DEFAULT)
        try:
            found = await self._holds.wait(Wanted(**wanted), at_most_ms=timeout_ms)
        except TimeoutError:
            message = f"no such request was held within {timeout_ms} ms"
            raise Refused(408, "timeout", message) from None
        return JSONResponse({"held": [held.shown() for held in found]})


def _kind(request: Request) -> str:
    kinds = request.path_params["kinds"]
    if kinds not in KIND_OF:
        raise Refused(404, "not_found", f"there is no /{kinds}; there are {', '.join(KIND_OF)}")
    return KIND_OF[kinds]


def _call(request: Request, kind: str, order_id: str | None) -> Call:
    headers = request.headers
    return Call(kind, order_id, headers.get("Idempotency-Key"), headers.get("Attempt"))


def _existing(effect: Row | None, kind: str, effect_id: str) -> Row:
    if effect is None:
        raise Refused(404, "not_found", f"there is no {kind} with the id {effect_id}")
    return effect


def _shown(effect: Row) -> Row:
    """An effect as customers see it: with the id under its kind's name."""
    names = ("order_id", "amount", "currency", "charge_id", "machine", "applied_at")
    content = {name: effect[name] for name in names if effect[name] is not None}
    return {f"{effect['kind']}_id": effect["id"], **content}


def _server_error() -> Response:
    """The same before and after the effect: it tells nothing."""
    return JSONResponse({"code": "internal_error", "message": "something went wrong"}, 500)


def _refusal(_request: Request, refused: Exception) -> Response:
    if not isinstance(refused, Refused):
        raise refused
    return JSONResponse({"code": refused.code, "message": refused.message}, refused.status)


def _no_answer(_request: Request, _reason: Exception) -> Response:
    return NoAnswer()
