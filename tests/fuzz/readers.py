"""What is fuzzed: a name, the files that are mutated, and the functions that read them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mirage.knobs import run_file
from mirage.metrics import metrics
from mirage.records.schedule import read_schedule
from mirage.site import site_conf
from mirage.site.archive import open_archive
from mirage.traces.trace import read_trace
from mirage.workloads.log_rules import Log, judged
from mirage.workloads.selection import Selection
from mirage.workloads.workload import prepare
from slurm_mirage.base.hostlist import expand
from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs import sigsleep_log
from slurm_mirage.replay import journal
from slurm_mirage.replay.launch_cost import REAL_TIME
from tests.fuzz import run_readers

LOGS = Path(__file__).parents[1] / "logs"

SWF = b"""; Version: 2.2
; UnixStartTime: 1459468800
; TimeZoneString: Europe/Stockholm
; MaxProcs: 64
; Queue: 1 batch
1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 1 -1 -1 -1
2 3 -1 -1 -1 -1 -1 16 3600 -1 5 3 1 -1 2 -1 1 30
  3    7.5  0  1e2 8 -1 -1   8 3600 -1 0 4 2 -1 2 -1 -1 -1
"""
SACCT = b"""JobID|JobIDRaw|User|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|ReqMem|AllocTRES|NNodes|JobName|SubmitLine
7|7|ann|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|00:02:00|1-00:00:00|8|4Gn|cpu=8,node=1|1|a|sbatch a.sh
7.batch|7.batch||COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|00:02:00||8||cpu=8,node=1|1|batch|
8_[1-4%2]|8|bob|PENDING|2026-03-01T10:00:00+0100|Unknown|Unknown|00:00:00|UNLIMITED|0|4G||1K|b|sbatch --wrap=a|b
9|9|bob|CANCELLED by 5|1772359200|None|2026-03-01 10:02:30|00:00:00|Partition_Limit|0|0||1|b|sbatch --wrap=a
b
10_3|12|bob|TIMEOUT|2026-03-01T10:00:01|2026-03-01T10:00:31|2026-03-01T11:00:30|00:59:59|01:00:00|8|4Gc|cpu=8|1|c|sbatch -dafter:7
"""
JSON = b"""{"meta": {"Slurm": {"release": "24.05"}}, "jobs": [
{"job_id": 7, "cluster": "c", "user": "ann", "partition": "batch", "allocation_nodes": 1, "array": {"job_id": 7,
"task_id": {"set": true, "infinite": false, "number": 3}, "task": ""}, "required": {"CPUs": 8,
"memory_per_cpu": {"set": true, "infinite": false, "number": 1000}},
"state": {"current": ["COMPLETED"], "reason": "None"}, "time": {"elapsed": 3600, "eligible": 1772359200, "end": 1772362810,
"start": 1772359210, "submission": 1772359200, "suspended": 0, "limit": {"set": true, "infinite": false, "number": 120}},
"tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}], "requested": [{"type": "mem", "name": "", "count": 8000}]}},
{"job_id": 8, "time": {"submission": 1772359205}, "state": {"current": "PENDING"}}], "errors": []}
"""
BATSIM = b"""job_id,submission_time,requested_number_of_resources,final_state,starting_time,finish_time,allocated_resources
1,0.0,5,COMPLETED_SUCCESSFULLY,5.5,15.5,0-3 7
w!2,0.5,2,REJECTED,-1,-1,
"""
SIM_EVENTS = b"""# a week
-dt 10.50 -e submit_batch_job | -sim-walltime 100.50 --uid=u2 -J jobid_00007 -N 1 -n 32 -t 3-00:00:00 -q g -p main --mem=500G a.job
-dt 10.75 -e submit_batch_job | -sim-walltime -1 --uid=u1 -N 2-4 -t 90 --mem-per-cpu=2G --comment=x --gres=gpu:2 --exclusive a.job
-dt 11 -e submit_batch_job | -jid 12 -sim-walltime 0 -cancel-in 3 -A lab -t 00:07:00 --ntasks-per-node=12 -c 2 -C CPU-N --frob a.job
"""
CSV = b"""JobID,Submit,Start,End,State,AllocTRES,SubmitLine
7,2026-03-01 10:00:00,2026-03-01 10:00:30,2026-03-01 11:02:30,PREEMPTED,"cpu=4,mem=10G","sbatch ""a"" b"
7,2026-03-01 11:02:31,2026-03-01 12:00:30,2026-03-01 13:02:30,RESIZING,cpu=4,x
7,2026-03-01 11:02:31,2026-03-01 13:02:30,2026-03-01 14:02:30,REQUEUED,cpu=2,x
9,2026-03-01 11:02:31,2026-03-01 13:02:30,2026-03-01 14:02:30,TIMEOUT,cpu=2,x
"""
SLURM_CONF = b"""# a site's slurm.conf
ClusterName=wombat
SlurmctldHost=head(10.0.0.1)
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_max_job_test=500,\\
default_queue_depth=200
AccountingStorageType=accounting_storage/slurmdbd
GresTypes=gpu
NodeName=DEFAULT CPUs=16 RealMemory=64000 State=UNKNOWN
NodeName=cn[1-3,007] Feature=intel
NodeName=g[08-09] Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 Gres=gpu:a100:4 Feature="a100,nvlink"
NodeName=login1
NodeSet=gpus Feature=a100
NodeSet=both Nodes=gpus,cn[1-2]
PartitionName=DEFAULT MaxTime=2-00:00:00
PartitionName=cpu Nodes=cn[1-3] Default=YES AllowGroups=staff
PartitionName=gpu Nodes=gpus MaxTime=08:00:00
PartitionName=all Nodes=ALL
"""
SLEPT = b"".join(
    sigsleep_log.pack(
        sigsleep_log.Record(
            number, 4, "high", 10**9 * number, 10**9 * (number + 1), 10**9 * (number + 9), 5 * 10**9, 6 * 10**9, True,
            (sigsleep_log.Suspension(10**9 * (number + 2), 10**9 * (number + 4)),),
            malleable=sigsleep_log.MalleableRecord((sigsleep_log.Size(10**9 * (number + 1), 2, 0),)) if number == 2 else None,
        )
    )
    for number in range(1, 4)
)  # fmt: skip
EVENTS = (
    {
        "event": "start",
        "real": 100.0,
        "virtual": 90.0,
        "boot_time": 5,
        "next_id": 1,
        "completion_offset": 0,
        "controller_log_offset": 0,
        "plan_sha256": "0",
        "earlier_ids": [],
        "launch_cost": REAL_TIME.record(),
        "run": "r",
    },
    {"event": "submitted", "index": 0, "slurm_id": 1, "real": 101.0, "due": 100.5, "retries": 0},
    {"event": "submitted", "index": 1, "slurm_id": 2, "real": 102.0, "due": 101.5, "retries": 1},
    {"event": "cancelled", "index": 1, "real": 103.0},
    {"event": "ended", "index": 0, "real": 104.0},
    {"event": "resumed", "gap": 2.5, "real": 110.0},
    {"event": "closed", "partitions": ["batch"], "real": 111.0},
    {"event": "restarted", "boot_time": 6, "since": 110.5, "real": 112.0},
    {"event": "resubmitted", "index": 1, "slurm_id": 9, "real": 113.0, "due": 101.5, "retries": 0},
    {"event": "compared", "stale": [[1, 2]], "surplus": [[1, 3]], "real": 114.0},
    {"event": "opened", "real": 115.0},
    {"event": "finished", "real": 120.0},
)
JOURNAL = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()
CLOCK = b"mirage-clock 1 1790000000000000000 1790000012345678901 20.5\n"
HOSTS = b"cn[1-3,007],g[08-09],rack1n[9-10],login,cpn-d07-[24,27]-[01],a[1-2]-[1-3]"


def _archive() -> bytes:
    """A small archive of mirage-capture."""
    table = b"JobID\tJobIDRaw\tUser\n7_1\t7\tu_0123456789\n8\t8\tu_9876543210\n"
    parts = {"sacct/20261101T000000Z.txt": table, "conf/slurm.conf": SLURM_CONF}
    files = {
        name: {"rows": 1, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "key": "a1"}
        for name, data in parts.items()
    }
    manifest = {
        "format": "slurm-mirage-capture", "version": 1, "release": "22.05.8", "begin": 1793491200, "end": 1793664000,
        "piece": 86400, "zone": "UTC", "taken_at": 1793700000, "by": "user", "private_data": [], "not_allowed": [],
        "names": "pseudonyms", "key": "a1", "failed": {}, "left_out": [], "files": files,
    }  # fmt: skip
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in {"manifest.json": json.dumps(manifest).encode(), **parts}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1793700000.5  # not a whole number: a header of PAX
            tar.addfile(info, io.BytesIO(data))
    return written.getvalue()


def _job_table(**options: Any) -> bytes:
    """A small Parquet table oda.job."""
    begins = {"submit_time": 1, "start_time": 1772359205}
    instants = {name: pl.from_epoch(pl.Series([begin, 1772359230])) for name, begin in begins.items()}
    columns: dict[str, Any] = {
        "job_id": [7, 8], **instants, "end_time": pl.from_epoch(pl.Series([1772362800, None])), "requested_seconds": [60.5, None],
        "allocated_cpus": [4, 1], "num_nodes_req": [2, None], "num_gpus_req": [1, 0], "partition": ["a", "b"], "user": ["x", None],
        "job_state": ["COMPLETED", "CANCELLED by 5"], "constraints": ["a100", None], "node_list": ["n[1-2]", "n1"],
    }  # fmt: skip
    written = io.BytesIO()
    pl.DataFrame(columns).write_parquet(written, **options)
    return written.getvalue()


@dataclass(frozen=True)
class Reader:
    """name: the kind of file; seeds: contents that are mutated; read: reads the file at a path as make would; files: how many the
    unit tests read."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[Path], object]
    files: int = 100


def _schedule(path: Path) -> None:
    """As `make metrics`."""
    schedule = read_schedule(path)
    metrics.compute(
        schedule.jobs,
        schedule.processors or 64,
        schedule.nodes,
        suspensions=schedule.suspensions,
        executions=schedule.executions,
        tables=schedule.tables,
        immediate_below=schedule.immediate_below,
        allocations=schedule.allocations,
    )


def _log(path: Path) -> None:
    """As `make metrics` and the preparation of an experiment."""
    _schedule(path)
    trace = read_trace(path)
    for finding in judged(Log.of(trace, Selection(), trace.machine()[0])):
        assert finding.line and finding.count > 0
    prepare(trace, Selection(), classes=[(16, 16)], slack=10.0, sizes="fit", preset="all", depend="keep")


def _journal(path: Path) -> None:
    journal.replay_lines(path.read_bytes(), str(path))
    journal.Journal(path).close()


def _clock(path: Path) -> None:
    clock = Clock.read(path)
    clock.real_at(clock.virtual_at(1_790_000_100_000_000_000))
    path.write_text(clock.line())
    assert Clock.read(path) == clock


def _captured(path: Path) -> None:
    taken = open_archive(path)
    for name in taken.parts:
        taken.lines(name)
    for name in taken.pieces("sacct"):
        list(taken.rows(name))


def _knobs(path: Path) -> None:
    texts = run_file.read(str(path))
    path.write_text(run_file.as_yaml(texts))
    assert run_file.read(str(path)) == texts or not texts


def _host_list(path: Path) -> None:
    try:
        expand(path.read_text(errors="replace"))
    except ValueError as error:
        assert len(str(error)) < 500


KNOBS = b"""# a week
NODES: 100
CHARGE: yes
SHRINK: 100:50:10
TRACE: "logs/a b.swf"
FROM: '2026-03-01T12:00:00'
MAINTENANCE: weekly tue 08:00 6h all
"""

READERS = {
    reader.name: reader
    for reader in (
        Reader("swf", (SWF, (LOGS / "sessions.swf").read_bytes()), _log),
        Reader("sacct", (SACCT, CSV, (LOGS / "dependencies.sacct").read_bytes()), _log),
        Reader("json", (JSON,), _log),
        Reader("batsim", (BATSIM,), _log),
        Reader("events", (SIM_EVENTS,), _log),
        Reader("parquet", (_job_table(), _job_table(compression="uncompressed")), _log, 5),
        Reader("slurm.conf", (SLURM_CONF,), site_conf.read),
        Reader("archive", (_archive(),), _captured),
        Reader("sigsleep", (SLEPT,), _schedule),
        Reader("journal", (JOURNAL,), _journal),
        Reader("clock", (CLOCK,), _clock),
        Reader("hosts", (HOSTS,), _host_list),
        Reader("knobs.yml", (KNOBS,), _knobs),
        *(
            Reader(name, (run_readers.seed(name),), run_readers.measured_with(name), 25)
            for name in ("result.json", "journal.jsonl", "samples.csv", "suspended.jsonl", "jobcomp.log", "run.json")
        ),
        Reader("metrics.json", (run_readers.seed("metrics.json"),), run_readers.shown_metrics, 50),
        Reader("experiment.json", (run_readers.seed("experiment.json"),), run_readers.described_run, 50),
        Reader("jobs.csv", (run_readers.seed("jobs.csv"),), _schedule, 50),
    )
}
