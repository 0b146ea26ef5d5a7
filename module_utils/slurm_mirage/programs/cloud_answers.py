"""Waits for a cloud's servers: `python -m slurm_mirage.programs.cloud_answers STAGE SECONDS`, on the control machine.

Reads from standard input how they are reached (`Way`, as JSON), and writes what is to be said of them as a JSON object. Looks
at them at the same time, again and again for at most SECONDS, and ends with 0 as soon as all are at the STAGE: `answer`, or `done`
for the end of cloud-init.
"""

from __future__ import annotations

import json
import sys

from ..cloud.answers import Way, is_at, look_at_all, told


def main(stage: str, seconds: str) -> int:
    """Look at the servers of standard input."""
    states = look_at_all(Way(**json.load(sys.stdin)), stage, float(seconds))
    print(json.dumps(told(states)))
    return int(not all(is_at(stage, one) for one in states.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
