"""Weave: durable workflows that never guess what an external call did.

The parts, from the bottom: `kernel` (standard library only), `core` (pure decisions), `store` (every SQL
fact), `txn` (one module per command), `app` (the only door), `api`, `console` and `runtime`, `server`,
`cli`. Beside them `wire` (messages) and `sdk` (client and worker), which import nothing of the server.
"""

__version__ = "0.1.0"
