"""A run's two records of one schedule, slurmdbd's and the run's own, on a real cluster: jobs that are preempted and requeued, nodes
that fail, arrays, cancellations, and jobs that reach their limit.

Needs root and an instance with accounting on this host, without other jobs, and is skipped otherwise:

    make cluster CLUSTER=records NODES=20 CPUS=4 ACCOUNTING=yes
    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/records pytest -m cluster tests/cluster/test_records_real.py
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirage.metrics.metrics import METRICS
from mirage.records.file_names import JOBS_FILE, SACCT_FILE
from mirage.records.schedule import Schedule, read_schedule
from slurm_mirage.base.processes import INSTANCE_VARIABLE

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
NODES, CPUS, JOBS = 20, 4, 150
COLUMNS = (
    "JobID", "JobIDRaw", "User", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State", "TimelimitRaw", "ReqCPUS",
    "AllocCPUS", "SubmitLine",
)  # fmt: skip
BY_PARTITION: dict[str, Any] = {
    "accounting": True,
    "settings": {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE", "JobRequeue": 1},
    "partitions": [
        {"name": "low", "Default": True, "MaxTime": "UNLIMITED", "PriorityTier": 1},
        {"name": "high", "MaxTime": "UNLIMITED", "PriorityTier": 2, "PreemptMode": "OFF"},
    ],
}
BY_QOS: dict[str, Any] = {
    "accounting": True,
    "settings": {
        "PreemptType": "preempt/qos", "PreemptMode": "REQUEUE", "PriorityType": "priority/multifactor", "PriorityWeightQOS": 1000,
        "AccountingStorageEnforce": ["associations", "limits", "qos"], "JobRequeue": 0,
    },
    "qos": [{"name": "low"}, {"name": "high", "Priority": 100, "Preempt": "low"}],
    "partitions": [{"name": "batch", "Default": True, "MaxTime": "UNLIMITED"}],
}  # fmt: skip
"""Jobs that are preempted, or whose node fails, are not requeued: they end as PREEMPTED or NODE_FAIL."""
SECOND, SHARE, RATIO = 1.0, 0.002, 0.01
"""How far metrics may be apart, as sacct prints whole seconds: of those in seconds, of shares of the machine and of the jobs, and
of means of slowdowns, as a share of the larger one (no job runs less than 2 min)."""


def log(by_qos: bool) -> str:
    """Jobs in sacct's columns: a tenth in arrays, a fifth of high priority, some that are cancelled or reach their limit."""
    chance = random.Random(37)
    rows: list[tuple[object, ...]] = []
    at, number = 0, 100

    def row(name: str, raw: int, high: bool, wait: int, run: int, limit: int, size: int, state: str, words: str = "") -> None:
        level = "high" if high else "low"
        submit = datetime(2026, 3, 2) + timedelta(seconds=at)
        start = submit + timedelta(seconds=wait)
        end, started = max(submit, start) + timedelta(seconds=run), wait >= 0
        rows.append(
            (
                name, raw, f"u{chance.randint(1, 6)}", "batch" if by_qos else level, level if by_qos else "normal",
                submit.isoformat(), start.isoformat() if started else "None", end.isoformat(),
                run if started else 0, state, limit, size, size if started else 0, f"sbatch {words} job.sh",
            )
        )  # fmt: skip

    while len(rows) < JOBS:
        at += chance.randint(0, 300)
        high, run = chance.random() < 0.2, 120 + int(chance.lognormvariate(6.5, 1.0))
        size, limit = chance.choice([4, 8, 16, 40] if high else [1, 2, 3, 4, 4, 8, 12, 32]), run // 40 + 2
        kind = chance.random()
        if kind < 0.1:
            tasks = chance.randint(3, 8)
            words = f"--array=0-{tasks - 1}{chance.choice(['', '%2'])}"
            for task in range(tasks):
                row(f"{number}_{task}", number + task, high, 30, run, limit, min(size, 8), "COMPLETED", words)
            number += tasks
            continue
        if kind < 0.15:
            row(str(number), number, high, -1, chance.randint(30, 2000), limit, size, "CANCELLED by 5")
        elif kind < 0.2:
            row(str(number), number, high, 60, run, limit, size, "CANCELLED by 5")
        elif kind < 0.27:
            row(str(number), number, high, 60, limit * 60 + 20, limit, size, "TIMEOUT")
        else:
            row(str(number), number, high, 60, run, limit, size, "COMPLETED")
        number += 1
    return "".join("|".join(map(str, line)) + "\n" for line in (COLUMNS, *rows))


def events() -> str:
    """Nodes that fail, and nodes that are set down and resumed."""
    lines = ["instant,action,target,argument"]
    lines += [f"{1800 * place},fail,n{6 + place},{chosen}" for place, chosen in enumerate(["10min", "40min", "2h"] * 3, 1)]
    for place in range(1, 4):
        lines += [f"{4000 * place},down,n{place},disk", f"{4000 * place + 1500},resume,n{place},"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def cluster() -> str:
    directory = os.environ.get(INSTANCE_VARIABLE)
    if os.geteuid() or not directory or not (Path(directory) / "etc/slurmdbd.conf").exists():
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} does not name an instance with accounting")
    return Path(directory).name


@pytest.fixture(params=["partition", "qos"])
def config(request: pytest.FixtureRequest) -> Iterator[str]:
    """A configuration in which jobs of high priority preempt others: by partition, or by QOS."""
    path = ROOT / f"configs/records-test-{request.param}-{os.getpid()}.yml"
    path.write_text(json.dumps(BY_QOS if request.param == "qos" else BY_PARTITION))
    yield path.stem
    path.unlink()


def make(target: str, **knobs: object) -> str:
    words = [f"{name}={value}" for name, value in knobs.items()]
    answer = subprocess.run(["make", target, *words], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert answer.stdout.strip().splitlines()[-1].startswith(("ok:", "inconclusive:")), answer.stdout + answer.stderr
    return answer.stdout


def instants(schedule: Schedule) -> list[tuple[tuple[float | None, ...], tuple[object, ...]]]:
    """Of each job and of each earlier execution: instants in seconds from the first submission, and what has to be equal. The
    numbers of jobs differ."""
    zero = schedule.jobs["submit"].min()
    assert isinstance(zero, float)
    columns = ("submit", "eligible", "start", "end")
    rows: list[tuple[tuple[float | None, ...], tuple[object, ...]]] = []
    for row in schedule.jobs.iter_rows(named=True):
        known = tuple(None if row[name] is None else row[name] - zero for name in columns)
        rows.append((known, (row["state"], row["processors"], row["nodes"], row["requested"])))
    if schedule.executions is not None:
        rows += [((start - zero, end - zero), ()) for start, end in schedule.executions.select("start", "end").iter_rows()]
    return rows


def unmatched(ours: Schedule, theirs: Schedule) -> list[object]:
    """Rows of the first record without one of the second that is the same within a second."""
    rest, missing = instants(theirs), []
    for known, equal in instants(ours):
        for place, (other, as_equal) in enumerate(rest):
            if equal == as_equal and len(known) == len(other) and all(map(within_a_second, known, other)):
                del rest[place]
                break
        else:
            missing.append((known, equal))
    return [*missing, *rest]


def within_a_second(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else abs(one - other) <= SECOND


def test_slurmdbd_and_the_run_tell_the_same(cluster: str, config: str, tmp_path: Path) -> None:
    by_qos = "qos" in config
    trace, happens = tmp_path / "log.txt", tmp_path / "events.csv"
    trace.write_text(log(by_qos))
    happens.write_text(events())
    folder = ROOT / "results" / config
    make(
        "experiment", CLUSTER=cluster, NODES=NODES, CPUS=CPUS, CONFIG=config, TRACE=trace, EVENTS=happens, OVERRUN="kill",
        RUN=folder.name,
    )  # fmt: skip
    lines = (folder / SACCT_FILE).read_text().splitlines()
    states = Counter(line.split("|")[lines[0].split("|").index("State")].split()[0] for line in lines[1:])
    print(f"\n{len(lines) - 1} lines of sacct: {dict(states)}")
    assert states["PREEMPTED"] >= 20 and states["NODE_FAIL"] >= 3 and states["CANCELLED"] and states["TIMEOUT"]
    assert any("_" in line.split("|")[0] for line in lines)

    ours, theirs = read_schedule(folder / JOBS_FILE), read_schedule(folder / SACCT_FILE)
    assert (ours.executions is None) == by_qos
    assert not unmatched(ours, theirs)

    found = []
    for name in (JOBS_FILE, SACCT_FILE):
        make("metrics", TRACE=folder / name, NODES=NODES, CPUS=CPUS, OUT=tmp_path / f"{name}.json")
        found.append(json.loads((tmp_path / f"{name}.json").read_text()))
    one, other = found
    assert one["jobs"] == other["jobs"] and one["excluded"] == other["excluded"] and one["censored"] == other["censored"]
    assert other["metrics"]["absent_fraction"] is None, "sacct does not tell which nodes were out of service"
    both = [name for name in METRICS if None not in (one["metrics"][name], other["metrics"][name])]
    assert len(both) > 30
    wrong = []
    for name in both:
        values, unit = [measured["metrics"][name] for measured in found], METRICS[name].unit
        largest = SECOND if unit == "s" else SHARE if max(values) <= 1 else RATIO * max(values)
        print(f"{name:30} {values[0]:14.6f} {values[1]:14.6f} {unit}")
        if abs(values[0] - values[1]) > largest:
            wrong.append(name)
    assert not wrong
    shutil.rmtree(folder)
