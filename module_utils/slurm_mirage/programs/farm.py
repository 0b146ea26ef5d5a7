"""Starts the farm of an instance, or prints its state.

    python3 -m slurm_mirage.programs.farm run DIRECTORY      supervise the daemons until SIGTERM (the systemd unit starts this)
    python3 -m slurm_mirage.programs.farm status DIRECTORY   print the state as JSON

Exit code: 0; 1 when another farm runs in DIRECTORY, its lock is not a regular file, or the host refuses a network namespace that
the daemons need; 2 for wrong arguments; 3 from `status` when no farm runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

from ..base import user_folders
from ..base.errors import WrongUse
from ..base.printing import say
from ..farm.farm import Farm, read_state
from ..farm.spawner import NoIsolation


def main(arguments: list[str]) -> int:
    """Run the command `arguments`, [run|status, DIRECTORY]; returns the exit code."""
    if len(arguments) != 2 or arguments[0] not in ("run", "status"):
        say("usage: python3 -m slurm_mirage.programs.farm run|status DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(arguments[1]).resolve()
    if arguments[0] == "status":
        state = read_state(directory)
        print(json.dumps(state or {"phase": "stopped"}, indent=1))
        return 0 if state else 3
    try:
        lock = user_folders.open_file(directory, "run/farm.lock", os.O_WRONLY | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except WrongUse as error:
        say(f"farm: {error}", file=sys.stderr)
        return 1
    except BlockingIOError:
        say(f"farm: another farm runs in {directory}", file=sys.stderr)
        return 1
    try:
        return Farm(directory).run()
    except NoIsolation as error:
        say(f"farm: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
