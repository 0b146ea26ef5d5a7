"""What the fillers' own records say while a run goes on: which ones have done all their work, and which have saved anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..filler_log import FillerRecord, scan_fillers


@dataclass
class Progress:
    """Reads the record of the fillers as it grows."""

    path: Path
    completed: set[int] = field(default_factory=set)
    """Numbers of fillers that have done all their work."""
    saves: dict[int, int] = field(default_factory=dict)
    """How many saves of a filler succeeded, by number."""
    _offset: int = 0

    def read(self) -> None:
        """Read what was written since the last call. Raises OSError."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        parts = list(scan_fillers(data))
        # Bytes at the end may be the beginning of a record.
        torn = 0 if not parts or isinstance(parts[-1], FillerRecord) else parts[-1].length
        self._offset += len(data) - torn
        for part in parts:
            if isinstance(part, FillerRecord):
                self.saves[part.id] = self.saves.get(part.id, 0) + (part.is_saved and not part.repeated)
                if part.completed:
                    self.completed.add(part.id)
