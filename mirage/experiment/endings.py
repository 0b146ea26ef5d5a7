"""How a command ends: one last line, an exit code, and the same in results/RUN/status.json."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from slurm_mirage.base.files import read_json, write_json

CODES = {"ok": 0, "invalid": 1, "failed": 1, "wrong use": 2}


@dataclass(frozen=True)
class Ending:
    """`word` is a key of CODES; `message` becomes one line."""

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
        write_json(folder / "status.json", status)

    @classmethod
    def load(cls, folder: Path) -> Ending | None:
        """How the run in `folder` ended; None when it has not ended, or was killed before it could say so."""
        status = read_json(folder / "status.json")
        if status is None:
            return None
        return cls(status["ending"], status["message"].removeprefix(f"{status['ending']}: "))

    @property
    def is_final(self) -> bool:
        """Whether the run is over: a failed one goes on when the same command is given again."""
        return self.word in ("ok", "invalid")


class Failed(Exception):
    """Something that was started did not work; becomes a `failed:` ending."""


class Interrupted(Exception):
    """The user asked to stop (SIGINT, SIGTERM)."""
