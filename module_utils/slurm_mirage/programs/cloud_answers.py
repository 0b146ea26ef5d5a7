"""Waits for the servers of a cloud: `python -m slurm_mirage.programs.cloud_answers STAGE SECONDS`, on the control machine.

STAGE is `answer` (SSH answers) or `done` (cloud-init has finished as well). The program reads `cloud.answers.SshAccess` as JSON
from standard input, probes all servers in parallel until they have reached STAGE, for at most SECONDS, and prints the result of
`cloud.answers.report` as JSON. Exit code: 0 when all servers have reached STAGE, otherwise 1.
"""

from __future__ import annotations

import json
import sys

from ..cloud.answers import SshAccess, has_reached, report, wait_for_all


def main(stage: str, seconds: str) -> int:
    """Wait for the servers that standard input describes; returns the exit code."""
    states = wait_for_all(SshAccess(**json.load(sys.stdin)), stage, float(seconds))
    print(json.dumps(report(states)))
    return int(not all(has_reached(stage, server) for server in states.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
