"""A client of the provider, for handlers and tests. Each error says what is known of the outcome.

Known, nothing was applied: ``ProviderRefused``, ``RequestNotSent``. Unknown, it may have been
applied or still be: ``ProviderUnreachable`` (no answer came), ``ProviderFailed`` (one came that
does not tell). Nothing is ever sent a second time.
"""

from types import TracebackType
from typing import Any, Self

import httpx2

Json = dict[str, Any]


class ProviderError(Exception):
    """The provider did not do what was asked, or did not say so."""


class ProviderRefused(ProviderError):
    """A 4xx: nothing was applied."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class ProviderFailed(ProviderError):
    """A 5xx, which says nothing of the effect: the outcome is unknown."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ProviderUnreachable(ProviderError):
    """The request went out and no answer came: the outcome is unknown."""


class RequestNotSent(ProviderUnreachable):
    """No connection came about, so nothing was sent: this one is known to have had no effect."""


class Provider:
    """Safe to share between threads. ``timeout_ms``: how long to wait for each answer."""

    def __init__(self, url: str, *, timeout_ms: int = 30_000) -> None:
        self._timeout_ms = timeout_ms
        self._http = httpx2.Client(
            base_url=url,
            # A connection for each request: one that idled might be cut just as it is used again,
            # and the request would look as if it had got lost on its way.
            limits=httpx2.Limits(max_keepalive_connections=0),
            trust_env=False,  # a proxy would have outcomes of its own
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- business: `key` is the idempotency key, `attempt` is noted in the ledger -----------------

    def charge(
        self,
        order_id: str,
        amount: int,
        currency: str,
        *,
        key: str | None = None,
        attempt: int | None = None,
    ) -> Json:
        body = {"order_id": order_id, "amount": amount, "currency": currency}
        return self._apply("/charges", body, key, attempt)

    def transfer(
        self,
        order_id: str,
        amount: int,
        currency: str,
        *,
        key: str | None = None,
        attempt: int | None = None,
    ) -> Json:
        body = {"order_id": order_id, "amount": amount, "currency": currency}
        return self._apply("/transfers", body, key, attempt)

    def refund(self, charge_id: str, *, key: str | None = None, attempt: int | None = None) -> Json:
        return self._apply("/refunds", {"charge_id": charge_id}, key, attempt)

    def reserve(self, order_id: str, *, key: str | None = None, attempt: int | None = None) -> Json:
        return self._apply("/reservations", {"order_id": order_id}, key, attempt)

    def notify(self, order_id: str, *, key: str | None = None, attempt: int | None = None) -> Json:
        return self._apply("/notifications", {"order_id": order_id}, key, attempt)

    def ship(self, order_id: str, *, key: str | None = None, attempt: int | None = None) -> Json:
        return self._apply("/shipments", {"order_id": order_id}, key, attempt)

    def request_cluster(
        self, order_id: str, *, key: str | None = None, attempt: int | None = None
    ) -> Json:
        return self._apply("/clusters", {"order_id": order_id}, key, attempt)

    def status(self, cluster_id: str, *, attempt: int | None = None) -> Json:
        """``{cluster_id, order_id, status}``; status PENDING, READY or BROKEN."""
        headers = {} if attempt is None else {"Attempt": str(attempt)}
        return self._ask("GET", f"/clusters/{cluster_id}/status", headers=headers)

    def configure(
        self, order_id: str, machine: str, *, key: str | None = None, attempt: int | None = None
    ) -> Json:
        body = {"order_id": order_id, "machine": machine}
        return self._apply("/configurations", body, key, attempt)

    def monitor(self, order_id: str, *, key: str | None = None, attempt: int | None = None) -> Json:
        return self._apply("/monitors", {"order_id": order_id}, key, attempt)

    def charges(self, order_id: str) -> list[Json]:
        """The charges of an order, as a customer may ask for them."""
        found: list[Json] = self._ask("GET", "/charges", params={"order_id": order_id})["charges"]
        return found

    # --- what really happened ---------------------------------------------------------------------

    def ledger(self) -> Json:
        """``{kinds: {charge: {count, amounts: {EUR: …}}, …}, orders: {order_id: {charge: …}}}``."""
        return self._ask("GET", "/ledger")

    def effects(self, *, kind: str | None = None, order_id: str | None = None) -> list[Json]:
        """The rows of the effects applied, in order."""
        params = _given(kind=kind, order_id=order_id)
        found: list[Json] = self._ask("GET", "/effects", params=params)["effects"]
        return found

    def requests(self, *, kind: str | None = None, order_id: str | None = None) -> list[Json]:
        """The rows of the business requests received, in order, whatever became of them."""
        params = _given(kind=kind, order_id=order_id)
        found: list[Json] = self._ask("GET", "/requests", params=params)["requests"]
        return found

    # --- faults -----------------------------------------------------------------------------------

    def set_fault(
        self,
        kind: str,
        mode: str,
        *,
        order_id: str | None = None,
        times: int | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Make requests of a kind fail; ``times`` None: until the faults are cleared."""
        fault = _given(kind=kind, mode=mode, order_id=order_id, times=times, delay_ms=delay_ms)
        self._ask("POST", "/faults", body=fault)

    def faults(self) -> Json:
        """``{faults: […], held: […]}``."""
        return self._ask("GET", "/faults")

    def clear_faults(self) -> None:
        """What is on hold stays so until it is released."""
        self._ask("DELETE", "/faults")

    def wait_held(
        self,
        *,
        kind: str | None = None,
        order_id: str | None = None,
        mode: str | None = None,
        timeout_ms: int = 30_000,
    ) -> list[Json]:
        """The requests on hold, as soon as one of that description is. Raises TimeoutError."""
        params = _given(kind=kind, order_id=order_id, mode=mode, timeout_ms=timeout_ms)
        try:
            answer = self._ask("GET", "/faults/wait", params=params, extra_ms=timeout_ms)
        except ProviderRefused as refused:
            if refused.code == "timeout":
                raise TimeoutError(refused.message) from None
            raise
        found: list[Json] = answer["held"]
        return found

    def release(
        self, *, kind: str | None = None, order_id: str | None = None, mode: str | None = None
    ) -> int:
        """Let requests on hold go on; how many. Their effects are in the ledger on return."""
        wanted = _given(kind=kind, order_id=order_id, mode=mode)
        released: int = self._ask("POST", "/faults/release", body=wanted)["released"]
        return released

    def plan(
        self, *, order_id: str | None = None, pending: int | None = None, end: str | None = None
    ) -> None:
        """Say how clusters come about: PENDING so often, then READY or BROKEN."""
        self._ask("POST", "/plans", body=_given(order_id=order_id, pending=pending, end=end))

    # --- inside -----------------------------------------------------------------------------------

    def _apply(self, path: str, body: Json, key: str | None, attempt: int | None) -> Json:
        headers = {"Idempotency-Key": key, "Attempt": None if attempt is None else str(attempt)}
        return self._ask("POST", path, body=body, headers=_given(**headers))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Json | None = None,
        headers: Json | None = None,
        extra_ms: int = 0,
    ) -> Json:
        try:
            answer = self._http.request(
                method,
                path,
                json=body,
                params=params,
                headers=headers,
                timeout=(self._timeout_ms + extra_ms) / 1000,
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise RequestNotSent(f"{method} {path}: {error}") from error
        except httpx2.TransportError as error:
            raise ProviderUnreachable(f"{method} {path}: {error}") from error
        if answer.status_code >= 500:
            raise ProviderFailed(answer.status_code, f"{method} {path}")
        told: Json = answer.json()
        if answer.status_code >= 400:
            raise ProviderRefused(answer.status_code, told["code"], told["message"])
        return told


def _given(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
