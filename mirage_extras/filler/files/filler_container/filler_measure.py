"""Measures what saving by CRIU costs on this host, in the words of FILLER_JOBS.

    filler_measure.py programs [--memory MIB,...] [--repeats N] [--seconds S] [--folder DIR]
    filler_measure.py journal DIR...

`programs` runs `chain` with each size of memory N times, alone and as a filler in turns: the filler is saved after a third of S
seconds, restored, and runs to its end, with the result that it has alone. `journal` reads what fillers have noted in their folders.

Both print seconds of saving and restoring, and the size of a save: mean, and smallest and largest value. `programs` has the speed
as well: the processor time of the program alone as a share of the filler's. It is time in user mode, so that neither other work on
the host nor saving and restoring counts. The last line has the words.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from criu import Criu, Refused
from filler_container import PROGRAMS, programs

_MIB = 1 << 20
_CALIBRATION = 0.5
"""Seconds for which a program runs at least, to find how many rounds take the time that is asked for."""


@dataclass
class Costs:
    """Measured values: seconds of saving and restoring, bytes of a save, seconds of processor time alone and as a filler."""

    save: list[float] = field(default_factory=list)
    restore: list[float] = field(default_factory=list)
    size: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    filler: list[float] = field(default_factory=list)

    @property
    def speeds(self) -> list[float]:
        return [alone / filler for alone, filler in zip(self.alone, self.filler)]

    def lines(self) -> list[str]:
        rows = [("save", self.save, "s", 1.0), ("restore", self.restore, "s", 1.0), ("files of a save", self.size, "MiB", _MIB)]
        rows += [("alone", self.alone, "s", 1.0), ("as a filler", self.filler, "s", 1.0), ("speed", self.speeds, "", 1.0)]
        return [_row(name, values, unit, scale) for name, values, unit, scale in rows if values]

    def words(self) -> str:
        """Return the words of FILLER_JOBS. A filler that seems faster than the program alone counts as equally fast."""
        found = [("save", _mean(self.save)), ("restore", _mean(self.restore)), ("speed", min(1.0, _mean(self.speeds)))]
        return "FILLER_JOBS=" + '"' + " ".join(f"{name}={value:.3g}" for name, value in found if value) + '"'


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _row(name: str, values: Sequence[float], unit: str, scale: float) -> str:
    mean, least, most = (value / scale for value in (_mean(values), min(values), max(values)))
    return f"  {name:<16} {mean:8.3f} {unit:<3} ({least:.3f} to {most:.3f}, {len(values)} times)"


def of_journals(folders: Sequence[Path]) -> Costs:
    """Return what fillers have noted. Raises OSError or ValueError for a journal that cannot be read."""
    costs = Costs()
    for folder in folders:
        for line in (folder / "journal.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "saved":
                costs.save.append(entry["seconds"])
                costs.size.append(entry["size"])
            elif entry["event"] == "restored":
                costs.restore.append(entry["seconds"])
    return costs


def measure(criu: Criu, memory: int, repeats: int, seconds: float, folder: Path) -> Costs:
    """Measure a program with `memory` MiB that runs for about `seconds`. Raises Refused, also if a result is wrong."""
    rounds, took = 4, _alone(memory, 4, folder)[0]
    while took < _CALIBRATION:
        rounds *= 2
        took = _alone(memory, rounds, folder)[0]
    rounds = max(rounds, int(rounds * seconds / took))
    costs = Costs()
    for key in range(repeats):
        alone, expected = _alone(memory, rounds, folder)
        costs.alone.append(alone)
        if (found := _as_filler(criu, memory, rounds, seconds / 3, folder, key, costs)) != expected:
            raise Refused(f"{memory} MiB, {rounds} rounds: the result is {found} instead of {expected}")
    return costs


def _command(memory: int, rounds: int, result: Path) -> list[str]:
    return [str(PROGRAMS / "chain"), "--memory", str(memory), "--rounds", str(rounds), "--result", str(result)]


def _alone(memory: int, rounds: int, folder: Path) -> tuple[float, str]:
    """Run the program; returns its processor time and its result."""
    result = folder / "alone"
    process = subprocess.Popen(_command(memory, rounds, result))
    return _user_time(process.pid), result.read_text().strip()


def _as_filler(criu: Criu, memory: int, rounds: int, first: float, folder: Path, key: int, costs: Costs) -> str:
    """Run the program, saved and restored after `first` seconds; adds the costs, and returns its result."""
    result = folder / "filler"
    result.unlink(missing_ok=True)
    command = _command(memory, rounds, result)
    pid = criu.start(command, key)
    time.sleep(first)
    save = criu.save(pid, command, folder, leave_running=False)
    used = _user_time(pid)
    costs.save.append(save.seconds)
    costs.size.append(save.size)
    costs.restore.append(criu.restore(save, folder))
    costs.filler.append(used + _user_time(pid))
    return result.read_text().strip() if result.exists() else "missing"


def _user_time(pid: int) -> float:
    """Wait for the end of the child; returns its processor time in user mode."""
    return os.wait4(pid, 0)[2].ru_utime


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="filler_measure.py", description="Measures the costs of fillers that CRIU saves.")
    orders = parser.add_subparsers(dest="order", required=True)
    run = orders.add_parser("programs", help="measure programs of given memory on this host")
    run.add_argument("--memory", default="64,256,1024", help="MiB, separated by commas (%(default)s)")
    run.add_argument("--repeats", type=int, default=5, help="how often (%(default)s)")
    run.add_argument("--seconds", type=float, default=6.0, help="seconds of work (%(default)s)")
    run.add_argument("--folder", type=Path, default=None, help="where saves are written (a temporary folder)")
    programs(run)
    orders.add_parser("journal", help="read the journals of fillers").add_argument("folders", nargs="+", type=Path, metavar="DIR")
    given = parser.parse_args(words)
    try:
        if given.order == "journal":
            costs = of_journals(given.folders)
            print("\n".join([*costs.lines(), costs.words()]))
            return 0
        criu = Criu(given.criu, given.at_pid)
        with tempfile.TemporaryDirectory(prefix="filler-", dir=given.folder) as name:
            if reason := criu.refusal(Path(name), 0):
                raise Refused(f"CRIU cannot save processes on this host ({reason})")
            for memory in (int(word) for word in given.memory.split(",")):
                costs = measure(criu, memory, given.repeats, given.seconds, Path(name))
                print("\n".join([f"{memory} MiB", *costs.lines(), costs.words()]), flush=True)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError, Refused) as error:
        print(f"filler_measure: failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
