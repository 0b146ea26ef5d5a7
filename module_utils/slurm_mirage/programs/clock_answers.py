"""UDP server that tells other hosts this host's time: `python3 -m slurm_mirage.programs.clock_answers ADDRESS PORT PORTS SECONDS`.

It serves for SECONDS seconds at ADDRESS, on the first free of PORTS ports from PORT on, and prints that port as its first line. The
Ansible module clock_answers starts it. clock.clock_offset has the protocol.
"""

from __future__ import annotations

import sys

from ..clock.clock_offset import listen, serve


def main(arguments: list[str]) -> int:
    """Run the server with the arguments ADDRESS, PORT, PORTS and SECONDS; returns the exit code."""
    address, (port, ports, seconds) = arguments[0], map(int, arguments[1:])
    with listen(address, port, ports) as server:
        print(server.getsockname()[1], flush=True)
        serve(server, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
