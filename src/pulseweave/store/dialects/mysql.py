"""MariaDB and MySQL by PyMySQL."""

from typing import Any

from pulseweave.store.dialects import Capabilities

MARIADB = Capabilities(
    name="mariadb",
    now_sql="SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
    row_locks=True,
    version_min=(10, 6),
    transactional_ddl=False,
)
MYSQL = Capabilities(
    name="mysql",
    now_sql=MARIADB.now_sql,
    row_locks=True,
    version_min=(8, 0),
    transactional_ddl=False,
)

CONNECT_ARGS: dict[str, Any] = {
    "charset": "utf8mb4",
    "connect_timeout": 10,
    "read_timeout": 60,
    "write_timeout": 60,
    "init_command": (
        "SET time_zone = '+00:00', "
        "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', "
        "innodb_lock_wait_timeout = 10"
    ),
}
