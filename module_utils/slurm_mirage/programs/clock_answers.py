"""Answers questions about this host's time over UDP: `python3 -m slurm_mirage.programs.clock_answers PORT PORTS SECONDS`.

Answers for SECONDS seconds at the first free of PORTS ports from PORT on, and prints that port first. The Ansible module
clock_answers starts it.
"""

from __future__ import annotations

import sys

from ..clock.clock_offset import listen, serve


def main(arguments: list[str]) -> int:
    """Serve; see the module's text."""
    port, ports, seconds = (int(argument) for argument in arguments)
    with listen(port, ports) as answering:
        print(answering.getsockname()[1], flush=True)
        serve(answering, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
