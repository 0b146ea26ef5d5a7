"""Why jobs waited, on a real cluster: a workload of 60 jobs in which each cause occurs alone, for known times.

Needs root and an instance of tests/cluster/why.conf on this host, without other jobs, and is skipped otherwise:

    make cluster CLUSTER=why SLURM_CONF=tests/cluster/why.conf ACCOUNTING=yes
    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/why pytest -m cluster tests/cluster/test_why_real.py

KTH_LOG names KTH-SP2-1996.unfiltered.swf.gz for the test with its jobs, which builds a cluster of its own name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from mirage.records.wait_causes import WAITS_SCHEMA
from slurm_mirage.base.processes import INSTANCE_VARIABLE

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
CONFIGURATION = "tests/cluster/why.conf"
BLOCK = 10800
"""Seconds between the beginnings of two parts of the workload."""
HOUR = 3600
STEP = 32.0
"""The largest error of the ends of a span: seconds between two backfill cycles, and two of slurmctld's own timers."""
SCHEDULER = {
    "bf_interval": 30, "bf_max_job_test": 5, "bf_max_job_user": 3, "bf_node_space_size": 100, "bf_continue": True,
}  # fmt: skip
COLUMNS = (
    "JobID", "User", "Partition", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State", "TimelimitRaw", "ReqCPUS",
    "AllocCPUS", "ReqNodes", "AllocNodes", "Licenses", "SubmitLine",
)  # fmt: skip
Spans = list[tuple[str, float, float]]


@dataclass
class Workload:
    """Jobs in sacct's columns, events, and why each job that waits has to wait: cause, from, to."""

    rows: list[dict[str, str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    expected: dict[int, Spans] = field(default_factory=dict)
    at: int = 0

    def job(
        self,
        after: int,
        runs: int,
        words: str = "--nodes=8 --ntasks=8 --cpus-per-task=4",
        *,
        user: int = 1,
        partition: str = "batch",
        limit: int = 120,
        eligible: int | None = None,
        licences: str = "",
        waits: Spans | None = None,
    ) -> int:
        """A job that is submitted so many seconds after the beginning of the part; waits: relative to that."""
        number = len(self.rows) + 1
        options = dict(word.removeprefix("--").split("=") for word in words.split() if "=" in word)
        nodes = int(options.get("nodes", "1"))
        processors = int(options["ntasks"]) * int(options.get("cpus-per-task", "1"))
        begin = after if eligible is None else eligible
        values = (
            number, f"u{user}", partition, self.instant(after), *([self.instant(begin)] * 2), self.instant(begin + runs), runs,
            "COMPLETED", limit, processors, processors, nodes, nodes, licences, f"sbatch {words} job.sh",
        )  # fmt: skip
        self.rows.append(dict(zip(COLUMNS, map(str, values), strict=True)))
        if waits:
            edges = [after, *(end for _, _, end in waits)]
            self.expected[number] = [
                (cause, self.at + begin, self.at + end) for (cause, _, end), begin in zip(waits, edges, strict=False)
            ]
        return number

    def instant(self, after: int) -> str:
        return (datetime(2026, 3, 2) + timedelta(seconds=self.at + after)).isoformat()

    def event(self, after: int, words: str) -> None:
        self.events.append(f"{self.at + after},{words}")

    def part(self) -> None:
        """Begin the next part, when all jobs of the one before are over."""
        self.at += BLOCK

    def write(self, folder: Path) -> tuple[Path, Path]:
        log, events = folder / "sacct.txt", folder / "events.csv"
        log.write_text("\n".join(["|".join(COLUMNS), *("|".join(row.values()) for row in self.rows)]) + "\n")
        events.write_text("\n".join(["instant,action,target,argument", *self.events]) + "\n")
        return log, events


WHOLE = "--nodes=1 --ntasks=1 --cpus-per-task=4"
SEVEN = "--nodes=7 --ntasks=7 --cpus-per-task=4"


def until(cause: str, end: float) -> tuple[str, float, float]:
    return (cause, 0.0, end)


def workload() -> Workload:
    made = Workload()
    for _ in range(4):
        made.job(0, HOUR)
        made.job(60, 600, waits=[until("resources", HOUR)])
        made.part()
    made.job(0, HOUR)
    made.job(60, HOUR, waits=[until("resources", HOUR)])
    made.job(70, 600, WHOLE, limit=150, waits=[until("priority", HOUR), until("resources", 2 * HOUR)])
    made.job(80, 600, WHOLE, limit=150, waits=[until("priority", 2 * HOUR)])
    made.part()
    for _ in range(2):
        made.job(0, HOUR, "--nodes=8 --ntasks=8 --ntasks-per-node=1")
        made.job(60, 600, WHOLE, waits=[until("fragmentation", HOUR)])
        made.part()
    made.event(0, f"reserve,m,start={made.at + 1800} duration=1h nodes=ALL flags=MAINT,IGNORE_JOBS")
    for after in (60, 70):
        made.job(after, 600, WHOLE, waits=[until("reservation", 5400)])
    made.part()
    first = made.job(0, HOUR, WHOLE)
    for after in (60, 70, 80):
        words = f"{WHOLE} --dependency=afterany:{first}"
        made.job(after, 600, words, eligible=HOUR, waits=[until("dependency", HOUR)])
    made.part()
    for words, cause in (("", "begin"), (" --hold", "held")):
        for after in (60, 70, 80):
            made.job(after, 600, WHOLE + words, eligible=HOUR, waits=[until(cause, HOUR)])
        made.part()
    for target, limit, cause, users in (
        ("qos normal", "MaxJobsPerUser", "user limit", (1, 1, 1)),
        ("account u2", "GrpJobs", "account limit", (2, 2, 2)),
        ("qos normal", "GrpJobs", "QOS limit", (1, 3, 4)),
    ):
        made.event(0, f"set,{target},{limit}=1")
        made.job(30, HOUR, WHOLE, user=users[0])
        made.job(60, 600, WHOLE, user=users[1], waits=[until(cause, HOUR + 30)])
        made.job(70, 600, WHOLE, user=users[2], waits=[until(cause, HOUR + 630)])
        made.event(9000, f"set,{target},{limit}=-1")
        made.part()
    made.event(0, "set,partition side,State=DOWN")
    for after in (60, 70, 80):
        made.job(after, 600, WHOLE, partition="side", waits=[until("partition limit", HOUR)])
    made.event(HOUR, "set,partition side,State=UP")
    made.part()
    made.job(0, HOUR, WHOLE, licences="matlab:2")
    for after in (60, 70):
        made.job(after, 600, WHOLE, licences="matlab:1", waits=[until("licence", HOUR)])
    made.job(80, 600, WHOLE, licences="matlab:2", waits=[until("licence", HOUR + 600)])
    made.part()
    # The sixth job of the queue, and then the fourth one of a user, would fit on a free node.
    for users in ((2, 3, 4, 5, 6), (2, 2, 2)):
        made.job(0, HOUR, SEVEN)
        for place, user in enumerate(users):
            ahead = HOUR + 600 * (place - 1)
            waits = [until("resources", HOUR)] if not place else [until("priority", ahead), until("resources", ahead + 600)]
            made.job(60 + place, 600, user=user, waits=waits)
        last = HOUR + 600 * (len(users) - 1)
        waits = [until("backfill", HOUR), until("priority", last), until("resources", last + 600)]
        made.job(70, 300, WHOLE, user=users[-1], limit=10, waits=waits)
        made.part()
    for _ in range(2):
        made.event(0, "drain,n[1-4],test")
        made.event(HOUR, "resume,n[1-4],")
        made.job(60, 600, waits=[until("nodes down", HOUR)])
        made.part()
    made.job(0, HOUR, SEVEN, limit=3000)
    made.job(60, 600, waits=[until("resources", HOUR)])
    return made


@pytest.fixture
def cluster() -> Iterator[str]:
    directory = os.environ.get(INSTANCE_VARIABLE)
    if os.geteuid() or not directory or "PartitionName=side" not in (Path(directory) / "etc/slurm.conf").read_text():
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} does not name an instance of {CONFIGURATION}")
    yield Path(directory).name


@pytest.fixture
def config() -> Iterator[str]:
    """A configuration of the scheduler with low limits of the backfill cycles."""
    path = ROOT / f"configs/why-test-{os.getpid()}.yml"
    path.write_text(json.dumps({"settings": {"SchedulerParameters": SCHEDULER}}))
    yield path.stem
    path.unlink()


_runs = count()


@pytest.fixture
def results() -> Path:
    """A folder in results for a run; a test that has passed removes it."""
    return ROOT / f"results/why-test-{os.getpid()}-{next(_runs)}"


def experiment(folder: Path, *endings: str, **knobs: object) -> str:
    """Run an experiment; its output. endings: beginnings of its last line that are right, too"""
    words = [f"{name}={value}" for name, value in {**knobs, "RUN": folder.name}.items()]
    answer = subprocess.run(["make", "experiment", *words], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert answer.stdout.strip().splitlines()[-1].startswith(("ok:", "inconclusive:", *endings)), answer.stdout + answer.stderr
    return answer.stdout


def test_each_cause_alone(cluster: str, config: str, results: Path, tmp_path: Path) -> None:
    made = workload()
    assert len(made.rows) == 60
    log, events = made.write(tmp_path)
    machine = {"CLUSTER": cluster, "SLURM_CONF": CONFIGURATION, "ACCOUNTING": "yes", "CONFIG": config}
    experiment(results, **machine, TRACE=log, EVENTS=events)
    spans = pl.read_csv(results / "waits.csv", schema=WAITS_SCHEMA)
    zero = pl.read_csv(results / "jobs.csv")["submit"].min()
    assert isinstance(zero, float | int)
    right = total = 0.0
    wrong: list[str] = []
    for job, expected in made.expected.items():
        found = [
            (cause, begin - zero, end - zero)
            for cause, begin, end in spans.filter(pl.col("job") == job).select("cause", "from", "to").iter_rows()
        ]
        for cause, begin, end in expected:
            same = [(one, since, to) for one, since, to in found if one == cause and to > begin and since < end]
            total += end - begin
            right += sum(min(to, end) - max(since, begin) for _, since, to in same)
            if not same or abs(same[0][1] - begin) > STEP or abs(same[-1][2] - end) > STEP:
                wrong.append(f"job {job}: {cause} from {begin} to {end}, found {found}")
    print(f"\nright: {right:.0f} of {total:.0f} s ({right / total:.2%}); {len(wrong)} spans off by more than {STEP:.0f} s")
    print("\n".join(wrong))
    assert right >= 0.95 * total
    covered = {cause for expected in made.expected.values() for cause, _, _ in expected}
    assert covered <= set(spans["cause"])
    settings = set(spans.filter(pl.col("cause") == "backfill")["reason"])
    assert {"bf_max_job_test", "bf_max_job_user"} <= settings
    assert "bf_window" in spans.filter(pl.col("job") == 60)["reason"].to_list()
    assert json.loads((results / "metrics.json").read_text())["wait_causes"]["unexplained"] < 0.05
    assert not wrong
    shutil.rmtree(results)


def test_little_of_the_waits_of_kth_stays_unexplained(results: Path) -> None:
    log = os.environ.get("KTH_LOG")
    if os.geteuid() or not log:
        pytest.skip("skipped: KTH_LOG does not name KTH-SP2-1996.unfiltered.swf.gz")
    cluster = os.environ.get("CLUSTER", "why-kth")
    try:
        experiment(results, CLUSTER=cluster, TRACE=log, OFFSET=19151, JOBS=200, NODES=100, CPUS=1)
    finally:
        subprocess.run(["make", "teardown", f"CLUSTER={cluster}"], cwd=ROOT, capture_output=True, timeout=300, check=False)
    waited = json.loads((results / "metrics.json").read_text())["wait_causes"]
    print(f"\n{waited['causes']}")
    assert waited["reasons_recorded"] and waited["waited"] > 100 * HOUR / 10
    assert waited["unexplained"] < 0.05
    shutil.rmtree(results)
