"""Small run folders with what malleable jobs and the broker leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run_folders import VIRTUAL_ZERO, MadeFolder


class MalleableFolder(MadeFolder):
    """A run folder with `broker`, the lines of the broker's journal."""

    def __init__(self, folder: Path, **values: Any) -> None:
        super().__init__(folder, **values)
        self.broker: list[dict[str, Any]] = []

    def resized(self, number: int, before: int, after: int, asked: float, done: float, cost: float = 0.0, **values: Any) -> None:
        """Lines of the broker's journal: a change of size, and what it cost."""
        kind = "none" if before == after else "expand" if after > before else "shrink"
        entry = {"job": 100 + number, "mode": "check", "kind": kind, "from": before, "to": after, "outcome": "done", "reason": ""}
        times = {"asked": VIRTUAL_ZERO + asked, "decided": VIRTUAL_ZERO + asked, "done": VIRTUAL_ZERO + done}
        self.broker.append({**entry, **times, "way": "merge", "for": None, "used": None, **values})
        if kind != "none":
            paid = done + cost if kind == "expand" else done
            self.broker.append({"job": 100 + number, "resumed": VIRTUAL_ZERO + paid, "cost": cost})

    def write(self) -> Path:
        if self.broker:
            self.files["resizes.jsonl"] = "".join(json.dumps(entry) + "\n" for entry in self.broker).encode()
        return super().write()
