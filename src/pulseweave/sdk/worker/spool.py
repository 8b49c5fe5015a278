"""An optional local spool of outcomes: a report that can't be delivered outlives its process
(PUL-14).

One file a report, written and synced before the report is first sent, removed when the server has
answered. What a former process left is told again at the next start, as a late report if need be.
"""

import os
from pathlib import Path

import msgspec

from pulseweave.kernel import canonical
from pulseweave.sdk.calls import plain
from pulseweave.wire.worker import Report


class Spool:
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def _path(self, report: Report) -> Path:
        name = canonical.digest_of([report.task_id, report.token]).removeprefix("sha256:")[:32]
        return self._folder / f"{report.task_id}-{name}.json"

    def keep(self, report: Report) -> None:
        """On disk before this returns."""
        path = self._path(report)
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="ascii") as file:
            file.write(canonical.encode(plain(report)))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def drop(self, report: Report) -> None:
        self._path(report).unlink(missing_ok=True)

    def left_behind(self) -> list[Report]:
        """Reports that a former process could not deliver, oldest first."""
        found: list[Report] = []
        for path in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime_ns):
            value = canonical.parse(path.read_bytes())
            report: Report = msgspec.convert(value, Report)
            found.append(report)
        return found
