"""The command tree. Modules of commands are loaded when one of them is called."""

import sys

from cyclopts import App

from pulseweave import __version__
from pulseweave.cli import output
from pulseweave.kernel.errors import WeaveError

_COMMANDS = "pulseweave.cli.commands"

app = App(
    name="weave",
    help="Durable workflows that never guess what an external call did.",
    version=__version__,
)

_HOMES = {
    "dev": "serving:dev",
    "server": "serving:server",
    "worker": "working:worker",
    "apply": "workflows:apply",
    "start": "workflows:start",
    "ps": "workflows:ps",
    "show": "workflows:show",
    "history": "workflows:history",
    "signal": "signalling:signal",
    "pause": "control:pause",
    "resume": "control:resume",
    "cancel": "control:cancel",
    "review": "reviews:review",
    "recover": "recovering:app",
    "audit": "auditing:audit",
    "queues": "admin:queues",
    "inbox": "admin:inbox_app",
    "token": "admin:token_app",
    "db": "database:app",
    "doctor": "doctor:doctor",
    "demo": "demo:demo",
}

for _name, _home in _HOMES.items():
    app.command(f"{_COMMANDS}.{_home}", name=_name)


def run() -> None:
    """Run a command; refusals become exit codes by their kind."""
    try:
        answer = app(sys.argv[1:], result_action="return_value")
    except WeaveError as error:
        output.problem(error)
        sys.exit(output.exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(answer if isinstance(answer, int) else 0)
