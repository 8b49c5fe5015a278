"""The façade: its parts by subject, over one core."""

from dataclasses import dataclass, field

from pulseweave.app.admin import Admin
from pulseweave.app.core import Core
from pulseweave.app.recovery import Recovery
from pulseweave.app.tasks import Tasks
from pulseweave.app.workflows import Workflows


@dataclass(slots=True)
class Facade:
    core: Core
    workflows: Workflows = field(init=False)
    recovery: Recovery = field(init=False)
    tasks: Tasks = field(init=False)
    admin: Admin = field(init=False)

    def __post_init__(self) -> None:
        self.workflows = Workflows(self.core)
        self.recovery = Recovery(self.core)
        self.tasks = Tasks(self.core)
        self.admin = Admin(self.core)
