"""A replay on an event clock with the resource manager in memory, as a program: `event_replay.py RUN_FOLDER USER_ID`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from in_memory_rm import InMemory

from slurm_mirage.replay.replay import replay
from slurm_mirage.rm import registry


def main() -> None:
    """Become the user, and replay the run, or go on with it. The jobs of a manager in memory end with this program."""
    folder, user = Path(sys.argv[1]), int(sys.argv[2])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    manager = InMemory(folder)
    registry.IMPLEMENTATIONS["memory"] = registry.Implementation(lambda settings, lock: manager, manager.records)
    replay(folder, registry.connect)


if __name__ == "__main__":
    main()
