"""The job of resize.py: grows by the factor 2 up to a size and shrinks back to one node, and times each resize.

    python3 resize_program.py OUT LARGEST ROUNDS

It asks the broker as any malleable program does (files/dmr/dmr.py, which stands beside it), and moves no data. OUT gets a JSON list
of {"round", "kind", "from", "to", "seconds", "reason"}; the reason is empty for a resize that was done.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dmr import Broker  # type: ignore[import-not-found]


def main(out: str, largest: str, rounds: str) -> None:
    """Resize and write OUT."""
    broker, done = Broker(), []
    sizes = [1]
    while sizes[-1] * 2 <= int(largest):
        sizes.append(sizes[-1] * 2)
    steps = [*zip(sizes, sizes[1:]), *zip(sizes[:0:-1], sizes[-2::-1])]
    for number in range(1, int(rounds) + 1):
        for before, after in steps:
            began = time.monotonic()
            answer = broker.check_status(after, after, 2)
            if answer.action == "shrink":
                answer = broker.ready(after)
            seconds = time.monotonic() - began
            reason = "" if answer.nodes == after else answer.reason or answer.action
            kind = "expand" if after > before else "shrink"
            done.append({"round": number, "kind": kind, "from": before, "to": after, "seconds": seconds, "reason": reason})
            if reason:
                break
    unfinished = Path(out + ".new")
    unfinished.write_text(json.dumps(done))
    unfinished.rename(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
