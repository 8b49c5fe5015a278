"""``python -m examples.provider --port 0 --ledger PATH``: serve until SIGTERM.

Listens on 127.0.0.1 alone; port 0 takes a free one. Prints ``{"url": …}`` in one line when ready.
"""

import argparse
import socket
from pathlib import Path

import uvicorn

from examples.provider.app import ProviderApp
from examples.provider.server import Connection, Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.provider", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--ledger", type=Path, required=True, help="the SQLite file; made if new")
    arguments = parser.parse_args()
    if not arguments.ledger.parent.is_dir():
        parser.error(f"there is no folder {arguments.ledger.parent} to put the ledger into")
    app = ProviderApp(arguments.ledger)
    config = uvicorn.Config(app.asgi, http=Connection, ws="none", log_level="warning")
    with socket.create_server(("127.0.0.1", arguments.port)) as listening:
        Server(config, on_stop=app.stop).run([listening])


if __name__ == "__main__":
    main()
