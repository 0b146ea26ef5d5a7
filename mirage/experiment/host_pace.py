"""What earlier runs on the event clock took on this host beside what was predicted: results/.pace.json, the latest KEPT of them.

The file belongs to the user who runs experiments. One that is missing, damaged or cannot be read counts as empty. A run of another
host, or of another release with other costs (replay_costs.py), does not count.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache

from mirage import RESULTS
from mirage.experiment import replay_costs
from slurm_mirage.base.files import write_atomically
from slurm_mirage.base.strict_json import TEXT, Damaged, Each, Number, Object, read

PATH = RESULTS / ".pace.json"
KEPT = 200
FIRST_RANGE, LAST_RANGE = math.sqrt(3.0), 1.35
"""Factor between an estimate and both ends of its range, without a run like it, and after the same run."""
FADES = 0.9
"""Weight of a run less that of the next one."""
DOUBT = 0.15
"""Weight of the prediction beside that of the same run, 1."""
AROUND_BUSY = 1.3
"""Power of the slowness of a host by which the command around a replay takes longer: it starts many programs, one after another."""
LARGEST = 20.0
"""Factor between prediction and reality at most."""
_SECONDS = Number(1e-3, 1e9)


@dataclass(frozen=True)
class Predicted:
    """A run as its estimate has it. Seconds are real, on a host at rest, by the model alone.

    cpus: processors of a node. scheduler: slurmctld's processor time. rest: what the replay takes besides. around: what the command
    takes around the replay. slow: how many times longer a computation takes (run_length.slowness). work: what has to be done to the
    cluster before (`standing.Work`). configuration, workload: what the run is of, in words.
    """

    nodes: int
    cpus: float
    scheduler: float
    rest: float
    around: float
    slow: float
    work: str
    configuration: str
    workload: str

    @property
    def _replay(self) -> float:
        return self.scheduler + self.rest

    def likeness(self, other: Predicted) -> float:
        """How much alike the replays are, from 0 to 1, which is the same run. Each factor of four in the nodes halves it."""
        apart = abs(math.log2(self.nodes / other.nodes)) / 2 + abs(math.log2(self.cpus / other.cpus)) / 2
        apart += 2 * abs(self.scheduler / self._replay - other.scheduler / other._replay)
        apart += abs(math.log2(self._replay / other._replay)) / 4
        apart += ((self.configuration != other.configuration) + (self.workload != other.workload)) / 2
        return float(2.0**-apart)

    def likeness_of_host(self, other: Predicted) -> float:
        """How much alike the loads of the host are, from 0 to 1.

        A factor of 1.4 in the slowness halves it. So does a host that was twice as slow as at rest in both: its load changes.
        """
        apart = 2 * abs(math.log2(self.slow / other.slow)) + math.log2(min(self.slow, other.slow))
        return float(2.0**-apart)

    def likeness_around(self, other: Predicted) -> float:
        """How much alike what the commands do around the replays is, from 0 to 1."""
        apart = abs(math.log2(self.nodes / other.nodes)) / 2
        return 2.0**-apart * self.likeness_of_host(other) if self.work == other.work else 0.0


@dataclass(frozen=True)
class Played:
    """What a run took: real seconds, and slurmctld's processor time."""

    run: Predicted
    scheduler: float
    rest: float
    around: float


@dataclass(frozen=True)
class Corrected:
    """A prediction is multiplied by `ratio`; the ends of its range are that times `factor`, and over it."""

    ratio: float = 1.0
    factor: float = FIRST_RANGE


_SHAPE = Each(
    Object(
        {
            "model": TEXT,
            "run": Object(
                {
                    "nodes": Number(1, 1e9, whole=True),
                    "cpus": Number(1e-3, 1e9),
                    "slow": Number(1, 1e3),
                    **dict.fromkeys(("scheduler", "rest", "around"), _SECONDS),
                    **dict.fromkeys(("work", "configuration", "workload"), TEXT),
                }
            ),
            **dict.fromkeys(("scheduler", "rest", "around"), _SECONDS),
        }
    )
)


@cache
def _model() -> str:
    """Names the host and the constants of the prediction."""
    names = ("JOB", "JOB_NODES", "TIMERS", "TESTED", "TRIED", "TRIED_CPUS", "LOOKS", "BUILTIN", "OF_SCHEDULER")
    return f"{platform.node()} {os.cpu_count()} {[getattr(replay_costs, name) for name in names]}"


def played() -> list[Played]:
    """The runs of this host and model, the latest last."""
    try:
        rows = read(PATH, _SHAPE)[-KEPT:]
    except (OSError, Damaged):
        return []
    names = Predicted.__dataclass_fields__
    return [
        Played(Predicted(**{name: row["run"][name] for name in names}), row["scheduler"], row["rest"], row["around"])
        for row in rows
        if row["model"] == _model()
    ]


def keep(run: Played) -> None:
    """Add a run to the record. A record that cannot be written stays as it is."""
    rows = [{"model": _model(), **asdict(one)} for one in [*played(), run][-KEPT:]]
    if not _SHAPE.fault(rows[-1:], "pace"):
        with suppress(OSError):
            write_atomically(PATH, json.dumps(rows, indent=0) + "\n")


def corrected(run: Predicted, before: Sequence[Played]) -> tuple[Corrected, Corrected, Corrected]:
    """Slurmctld's processor time, the rest of the replay, and the command around it, by the runs before."""
    return (
        _by(before, lambda one: (run.likeness(one.run), one.scheduler / one.run.scheduler)),
        _by(before, lambda one: (run.likeness(one.run) * run.likeness_of_host(one.run), one.rest / (one.run.rest * one.run.slow))),
        _by(before, lambda one: (run.likeness_around(one.run), one.around / (one.run.around * one.run.slow**AROUND_BUSY))),
    )


def _by(before: Sequence[Played], pair: Callable[[Played], tuple[float, float]]) -> Corrected:
    """pair: how much a run is alike, and what it took over what was predicted."""
    total, of_logs, most, pairs = DOUBT, 0.0, 0.0, []
    for age, one in enumerate(reversed(before)):
        alike, ratio = pair(one)
        weight, log = alike**2 * FADES**age, math.log(min(LARGEST, max(1 / LARGEST, ratio)))
        total, of_logs, most = total + weight, of_logs + weight * log, max(most, alike)
        pairs.append((weight, log))
    mean = of_logs / (total - DOUBT) if total > DOUBT else 0.0
    apart = math.sqrt(sum(weight * (log - mean) ** 2 for weight, log in pairs) / total)
    factor = max(FIRST_RANGE ** (1 - most) * LAST_RANGE**most, math.exp(2 * apart))
    return Corrected(math.exp(of_logs / total), min(FIRST_RANGE, factor))
