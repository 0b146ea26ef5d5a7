"""Replays the workload of a run folder: `python3 -m slurm_mirage.programs.replay RUNDIR`.

Runs as the instance's user on the head host. Exit code: 0 finished, 1 failed, 2 wrong use, 3 stopped by SIGTERM or SIGINT.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import extras
from ..base.errors import WrongUse
from ..base.printing import say
from ..base.run_settings import RunSettings
from ..clock.clock import Clock
from ..replay.process import Failed, Stopped
from ..replay.replay import Companion, replay
from ..rm import registry


def beside(settings: RunSettings, folder: Path, lock: int, clock: Clock, may_submit: Callable[[], bool]) -> Companion | None:
    """What an extra does beside the replay of the run in `folder`; None if there is nothing. Raises WrongUse and OSError."""
    made = (of(settings, folder, lock, clock, may_submit) for of in extras.offers("replay", "beside"))
    return next((companion for companion in made if companion is not None), None)


def main(arguments: Sequence[str]) -> int:
    """Replay the run in the folder `arguments[0]`; returns the exit code."""
    if len(arguments) != 1:
        say("wrong use: python3 -m slurm_mirage.programs.replay RUNDIR", file=sys.stderr)
        return 2
    try:
        replay(Path(arguments[0]), registry.connect, beside)
    except Stopped:
        return 3
    except Failed as error:
        say(f"failed: {error}", file=sys.stderr)
        return 1
    except WrongUse as error:
        say(error.module_message(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
