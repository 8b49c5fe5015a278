"""The provider's ledger: one SQLite file that holds what was asked and what really happened.

Table ``requests`` has a row for each business request, refused ones and repeats included. Table
``effects`` has a row for each thing that was done (a charge, a shipment, a cluster, …), with the
request that caused it. Rows are only ever added, and are on disk before a method returns, so before
any answer is sent. What may never happen: an effect without its request; two effects for one
idempotency key, unless the key was to be forgotten.
"""

import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EFFECTS = (
    *("charge", "refund", "transfer", "reservation", "notification", "shipment"),
    *("cluster", "configuration", "monitor"),
)

#: SQLite's clock in microseconds UTC, exact to a millisecond.
_NOW = "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  received_at INTEGER NOT NULL DEFAULT {_NOW},
  kind TEXT NOT NULL,        -- one of EFFECTS, query or status
  order_id TEXT,             -- NULL: it named none that could be used
  idempotency_key TEXT,
  attempt TEXT,              -- what the caller says of itself, in the header Attempt
  fault TEXT                 -- the mode of the fault that it met
);
CREATE TABLE IF NOT EXISTS effects (
  id TEXT PRIMARY KEY,       -- kind and number of the request: charge_17
  request_id INTEGER NOT NULL UNIQUE REFERENCES requests,
  applied_at INTEGER NOT NULL DEFAULT {_NOW},
  kind TEXT NOT NULL,
  order_id TEXT NOT NULL,
  amount INTEGER,            -- in the currency's smallest unit
  currency TEXT,
  charge_id TEXT,            -- what a refund gives back
  machine TEXT,              -- what a configuration is for
  idempotency_key TEXT,
  attempt TEXT
);
CREATE INDEX IF NOT EXISTS effects_key ON effects (kind, idempotency_key);
CREATE INDEX IF NOT EXISTS effects_order ON effects (order_id, kind);
"""
_RECEIVE = """
INSERT INTO requests (kind, order_id, idempotency_key, attempt, fault)
VALUES (:kind, :order_id, :idempotency_key, :attempt, :fault)
"""
_APPLY = """
INSERT INTO effects
  (id, request_id, kind, order_id, amount, currency, charge_id, machine, idempotency_key, attempt)
SELECT :kind || '_' || id, id, :kind, :order_id, :amount, :currency, :charge_id, :machine,
  idempotency_key, attempt
FROM requests WHERE id = :request_id
"""
_BY_KEY = """
SELECT effects.* FROM effects JOIN requests ON requests.id = :request_id
WHERE effects.kind = :kind AND effects.idempotency_key = requests.idempotency_key
ORDER BY effects.request_id LIMIT 1
"""
_REFUND_OF = "SELECT id FROM effects WHERE kind = 'refund' AND charge_id = ?"
_BY_ID = "SELECT * FROM effects WHERE kind = ? AND id = ?"
_BY_REQUEST = "SELECT * FROM effects WHERE request_id = ?"
_EFFECTS = """
SELECT * FROM effects
WHERE (:kind IS NULL OR kind = :kind) AND (:order_id IS NULL OR order_id = :order_id)
ORDER BY request_id
"""
_REQUESTS = """
SELECT * FROM requests
WHERE (:kind IS NULL OR kind = :kind) AND (:order_id IS NULL OR order_id = :order_id)
ORDER BY id
"""

Row = dict[str, Any]


class Refused(Exception):
    """The provider's known answer that nothing was applied, with its HTTP status and a code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Call:
    """A business request as its caller made it. ``order_id`` None: it named none that is usable."""

    kind: str
    order_id: str | None
    idempotency_key: str | None = None
    attempt: str | None = None


class Ledger:
    """Used from one thread. Several processes may have the file open."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def receive(self, call: Call, fault: str | None) -> int:
        """Note that a request came in, and which fault it met; its number."""
        number = self._connection.execute(_RECEIVE, {**asdict(call), "fault": fault}).lastrowid
        if number is None:
            raise RuntimeError("SQLite gave the request no number")
        return number

    def apply(self, request_id: int, wanted: Row, *, forget_key: bool) -> tuple[Row, bool]:
        """The effect that a request asks for, and whether it is new.

        ``wanted``: kind, order_id, amount, currency, charge_id, machine. Raises Refused when the
        key came with another content before, or the charge has been refunded.
        """
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            earlier = self._first(_BY_KEY, {"kind": wanted["kind"], "request_id": request_id})
            if earlier is not None and not forget_key:
                if any(earlier[name] != value for name, value in wanted.items()):
                    message = f"this key belongs to {earlier['id']}, whose content is another"
                    raise Refused(422, "key_reused", message)
                return earlier, False
            if wanted["kind"] == "refund" and self._first(_REFUND_OF, (wanted["charge_id"],)):
                message = f"{wanted['charge_id']} has been refunded"
                raise Refused(409, "already_refunded", message)
            self._connection.execute(_APPLY, {**wanted, "request_id": request_id})
            applied = self._first(_BY_REQUEST, (request_id,))
        if applied is None:
            raise RuntimeError(f"request {request_id} was never noted")
        return applied, True

    def find(self, kind: str, effect_id: str) -> Row | None:
        return self._first(_BY_ID, (kind, effect_id))

    def effects(self, kind: str | None, order_id: str | None) -> list[Row]:
        """What has happened, in order; None: any."""
        found = self._connection.execute(_EFFECTS, {"kind": kind, "order_id": order_id})
        return [dict(row) for row in found]

    def requests(self, kind: str | None, order_id: str | None) -> list[Row]:
        """What was asked, in order; None: any."""
        found = self._connection.execute(_REQUESTS, {"kind": kind, "order_id": order_id})
        return [dict(row) for row in found]

    def totals(self) -> Row:
        """``{kinds: {charge: {count, amounts: {EUR: …}}, …}, orders: {order_id: {charge: …}}}``."""
        kinds: Row = {}
        orders: Row = {}
        for effect in self.effects(None, None):
            for group in (kinds, orders.setdefault(effect["order_id"], {})):
                total = group.setdefault(effect["kind"], {"count": 0, "amounts": {}})
                total["count"] += 1
                if effect["amount"] is not None:
                    amounts, currency = total["amounts"], effect["currency"]
                    amounts[currency] = amounts.get(currency, 0) + effect["amount"]
        return {"kinds": kinds, "orders": orders}

    def _first(self, statement: str, values: Row | tuple[str | int, ...]) -> Row | None:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else dict(row)
