"""Serves the malleable jobs of an instance: `python3 -m slurm_mirage.extras.malleable.program DIRECTORY PROGRAMS SOCKET`.

DIRECTORY: of the instance; PROGRAMS: folder of the resource manager's commands. The farm starts it, as the instance's user and on
the instance's clock. Exit code: 1 failed, 2 wrong use; it never ends by itself otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...base.errors import WrongUse
from ...base.printing import say
from .broker.server import Server
from .resizing import Resizing


def main(arguments: Sequence[str]) -> int:
    """Serve the instance `arguments[0]`; returns the exit code."""
    if len(arguments) != 3:
        say("wrong use: python3 -m slurm_mirage.extras.malleable.program DIRECTORY PROGRAMS SOCKET", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    try:
        Server(directory, Path(arguments[2]), Resizing.of_broker(directory, arguments[1])).serve()
    except WrongUse as error:
        say(error.module_message(), file=sys.stderr)
        return 2
    except OSError as error:
        say(f"failed: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
