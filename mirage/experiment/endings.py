"""Endings of commands: the last line, the exit code, and results/RUN/status.json with both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mirage.records.file_names import STATUS_FILE
from mirage.records.run_folder import RunFolder
from slurm_mirage.base.files import write_json

CODES = {"ok": 0, "invalid": 1, "inconclusive": 1, "failed": 1, "wrong use": 2}
"""Exit code of the program by the word of an ending; of all targets."""
OF_VERDICT = {"valid": "ok", "invalid": "invalid", "inconclusive": "inconclusive"}
"""The word of an ending by the verdict on a run."""


@dataclass(frozen=True)
class Ending:
    """How a command ended. `word` is a key of CODES; the message is printed as one line."""

    word: str
    message: str

    @property
    def code(self) -> int:
        return CODES[self.word]

    @property
    def line(self) -> str:
        return f"{self.word}: {' '.join(self.message.split())}"

    def store(self, folder: Path) -> None:
        """Write results/RUN/status.json."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        status = {
            "ending": self.word,
            "code": self.code,
            "message": self.line,
            "run": folder.name,
            "time": now,
        }
        write_json(folder / STATUS_FILE, status)

    @classmethod
    def load(cls, folder: Path) -> Ending | None:
        """Read how the run in `folder` ended. None if it has not ended, or was killed before it wrote status.json."""
        if not (status := RunFolder(folder).status):
            return None
        return cls(status["ending"], status["message"].removeprefix(f"{status['ending']}: "))

    @property
    def is_final(self) -> bool:
        """Whether the run is complete. A failed run continues when the same command is given again."""
        return self.word in OF_VERDICT.values()


def of_worst(endings: Mapping[str, Ending], what: str, where: str) -> Ending | None:
    """The ending of several finished runs that are not all ok, which names the worst ones; None if all are.

    endings: by the names of the runs; what: several of them, a word; where: their results
    """
    for word in ("invalid", "inconclusive"):
        if named := [name for name, ending in endings.items() if ending.word == word]:
            return Ending(word, f"{len(named)} of {len(endings)} {what} ({', '.join(named)}), {where}")
    return None


class Failed(Exception):
    """Something failed after the start. The command ends with `failed:`."""


class Interrupted(Exception):
    """The user asked to stop (SIGINT, SIGTERM)."""
