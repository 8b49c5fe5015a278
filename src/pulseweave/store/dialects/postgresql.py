"""PostgreSQL by psycopg 3."""

from typing import Any

from pulseweave.store.dialects import Capabilities

CAPABILITIES = Capabilities(
    name="postgresql",
    now_sql="SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint)",
    row_locks=True,
    version_min=(13,),
    transactional_ddl=True,
    json_keys=True,
    json_inserts=True,
)

CONNECT_ARGS: dict[str, Any] = {
    "options": "-c timezone=UTC -c lock_timeout=10s -c idle_in_transaction_session_timeout=60s",
    "connect_timeout": 10,
    "application_name": "weave",
}
