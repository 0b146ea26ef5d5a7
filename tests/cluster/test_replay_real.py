"""The replay on a real cluster: every job is submitted exactly once and runs, even if slurmctld or the replay is killed.

A killed slurmctld may run a job a second time under the same id, which the replay cannot prevent. Such jobs are counted
(played_twice) and allowed in tests that kill slurmctld.

Needs a running instance on this host with at least 64 processors, SPEED=1 and no other jobs, whose farm restarts slurmctld:

    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/mirage pytest -m cluster tests/cluster

The test of memory and partitions needs an instance with tests/cluster/memory.conf and is skipped otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from copies import left_out

from slurm_mirage.base import processes
from slurm_mirage.base.hostlist import expand
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.instance.instance import commands_of
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.jobs.sigsleep_log import read_log
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.node_commands import NodeCommands

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0


@dataclass
class Run:
    """A run folder of the instance and its replay."""

    instance: Path
    folder: Path
    plan: list[PlanRow]

    @property
    def name(self) -> str:
        return self.folder.name

    def start(self) -> subprocess.Popen[bytes]:
        owner = (self.instance / "run").stat()
        become: dict[str, Any] = {}
        if os.geteuid() == 0:
            become = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        return subprocess.Popen(
            [sys.executable if os.geteuid() else "/usr/bin/python3", "-m", "slurm_mirage.programs.replay", str(self.folder)],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.instance / "runs" / "lib"), INSTANCE_VARIABLE: str(self.instance)},
            cwd=self.instance,
            stderr=subprocess.PIPE,
            **become,
        )

    def finish(self) -> dict[str, Any]:
        process = self.start()
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, stderr.decode()
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return result

    def described(self) -> dict[int, dict[str, Any]]:
        """Return Slurm's last record of each job, by the job's number. Times are whole seconds."""
        lines = map(json.loads, (self.folder / "suspended.jsonl").read_text().splitlines())
        return {int(job["name"].rpartition(".")[2]): job for job in lines}

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "journal.jsonl").read_text().splitlines()]

    def submissions(self) -> int:
        path = self.folder / "journal.jsonl"
        return path.read_text().count('"event": "submitted"') if path.exists() else 0

    def wait_for_submissions(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.submissions() < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def check_each_job_was_played_once(self, controller_killed: bool = False) -> None:
        records, damage = read_log(self.folder / "sigsleep.log")
        assert damage == []
        runs = Counter((record.id, record.slurm_job_id) for record in records if record.completed)
        played = Counter(number for number, _ in runs)
        result = json.loads((self.folder / "result.json").read_text())
        again = [job for job, count in runs.items() if count > 1]
        assert result["played_twice"] == len(again)
        assert again == [] or controller_killed
        kept = {row.id for row in self.plan if row.cancel_after is None}
        assert {number: count for number, count in played.items() if count > 1} == {}
        assert kept - played.keys() == set()
        cancelled = {row.id for row in self.plan} - kept
        assert cancelled & played.keys() == set(), "they are cancelled long before they are done"
        assert {event["index"] for event in self.events() if event["event"] == "cancelled"} == {
            row.index for row in self.plan if row.id in cancelled
        }
        submitted = [event["index"] for event in self.events() if event["event"] == "submitted" and not event.get("found")]
        followers = {row.index for row in self.plan if row.follows is not None}
        assert len(submitted) == len(set(submitted)), "none twice"
        in_order = [index for index in submitted if index not in followers]
        assert in_order == sorted(in_order)
        progress = json.loads((self.folder / "progress.json").read_text())
        assert (progress["phase"], progress["submitted"], progress["running"]) == ("finished", len(self.plan), 0)


@pytest.fixture
def instance() -> Path:
    directory = os.environ.get(INSTANCE_VARIABLE)
    if not directory:
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} names no running instance")
    path = Path(directory)
    if os.geteuid() not in (0, (path / "run").stat().st_uid):
        pytest.skip("skipped: only root or the instance's user may do this")
    return path


@pytest.fixture
def make(instance: Path) -> Iterator[Any]:
    made: list[Run] = []
    slurm = Slurm(str(instance / "etc" / "slurm.conf"), str(commands_of(instance)), str(instance))
    library = instance / "runs" / "lib"
    shutil.copytree(ROOT / "module_utils" / "slurm_mirage", library / "slurm_mirage", dirs_exist_ok=True, ignore=left_out)

    def make_run(jobs: int, gap: float, runtime: float, **changes: Any) -> Run:
        """Create a run with jobs of 1 to 4 processors; every 20th job would run for a minute and is cancelled after 2 s."""
        rng = random.Random(1)
        folder = instance / "runs" / f"test-{os.getpid()}-{time.time_ns() % 10**9}"
        folder.mkdir()
        plan = []
        for i in range(jobs):
            cancelled = i % 20 == 19
            seconds = 60.0 if cancelled else runtime * (0.5 + rng.random())
            after = 2.0 if cancelled else None
            name = f"{folder.name}.{100 + i}"
            plan.append(PlanRow(i, 100 + i, i * gap, 1 + rng.randrange(4), None, seconds, 3, after, "", name))
        plan = [PlanRow(**{**vars(row), **changes.get("row", {})}) for row in plan]
        plan = [PlanRow(**{**vars(row), **changes.get("rows", {}).get(row.id, {})}) for row in plan]
        write_plan(folder / "plan.csv", plan)
        settings = {
            "run": folder.name,
            "instance": str(instance),
            "plan_sha256": hashlib.sha256((folder / "plan.csv").read_bytes()).hexdigest(),
            "slurm_conf": str(instance / "etc" / "slurm.conf"),
            "bin": str(commands_of(instance)),
            "sigsleep": str(instance / "bin" / "sigsleep"),
            "sigsleep_log": str(folder / "sigsleep.log"),
            "clock": None,
            "speed": 1,
            "sample_interval": 2,
        }
        (folder / "run.json").write_text(json.dumps(settings))
        owner = (instance / "run").stat()
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
        made.append(Run(instance, folder, plan))
        return made[-1]

    yield make_run
    for run in made:
        names = {row.name for row in run.plan}
        slurm.cancel([job.job_id for job in slurm.queue() if job.name in names])
        shutil.rmtree(run.folder)
    shutil.rmtree(library)


def test_nodes_that_slurm_has_drained_by_itself_return_to_service(instance: Path) -> None:
    """A node that somebody has drained for a reason of their own does not."""
    slurm = NodeCommands(str(instance / "etc" / "slurm.conf"), str(commands_of(instance)), str(instance))
    command = [f"{commands_of(instance)}/scontrol", "update"]
    environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(instance / "etc" / "slurm.conf")}
    owner = (instance / "run").stat()
    account: dict[str, Any] = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}

    def update(node: str, *changes: str) -> None:
        subprocess.run([*command, f"NodeName={node}", *changes], env=environment, check=True, timeout=60, **account)

    def drained() -> int:
        return slurm.nodes().groups["drained"]

    names = [node.name for node in slurm.present_nodes()][:3]
    for name, reason in zip(names, ("Kill task failed", "Duplicate jobid", "Kill task failed again?"), strict=True):
        update(name, "State=DRAIN", f"Reason={reason}")
    try:
        assert drained() == 3
        assert set(expand(slurm.resume_nodes())) == set(names[:2])
        assert drained() == 1
        assert slurm.resume_nodes() == ""
    finally:
        update(names[2], "State=RESUME")
    assert drained() == 0


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def kill_controller(instance: Path) -> None:
    """Kill slurmctld and wait until it has been restarted."""
    path = instance / "run" / "slurmctld.pid"

    def written() -> str:
        with suppress(FileNotFoundError):  # the farm removes it before it starts another one
            return path.read_text()
        return ""

    old = written()
    os.kill(int(old), signal.SIGKILL)
    deadline = time.monotonic() + 60
    while written() in (old, ""):
        assert time.monotonic() < deadline, "nobody starts slurmctld again"
        time.sleep(0.05)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def programs(run: Run) -> list[int]:
    """The processes of the run's jobs."""
    record = str(run.folder / "sigsleep.log")
    return [pid for pid in processes.of_instance(str(run.instance)) if record in processes.command_line(pid)]


def test_a_whole_run(make: Any) -> None:
    run = make(60, 0.05, 2.0)
    result = run.finish()
    run.check_each_job_was_played_once()
    assert result["states"] == {"COMPLETED": 57, "CANCELLED": 3}
    assert (result["retries"], result["resubmitted"], result["interruptions"], result["restarts"]) == (0, 0, [], [])
    assert result["halted"] == 0
    # A new slurmctld reports that the file of its saved jobs is missing.
    assert set(result["messages"]) <= {"other error"}
    events = [event for event in run.events() if event["event"] == "submitted"]
    ids = [event["slurm_id"] for event in events]
    assert ids == sorted(ids)
    assert all(event["began"] >= event["due"] for event in events), "never too early"
    described = [json.loads(line) for line in (run.folder / "suspended.jsonl").read_text().splitlines()]
    assert sorted(job["name"] for job in described) == sorted(row.name for row in run.plan)
    assert {job["state"] for job in described} == {"COMPLETED", "CANCELLED"}
    for name in ("samples.csv", "sdiag.csv"):
        header, *rows = (run.folder / name).read_text().splitlines()
        assert rows and {row.count(",") for row in rows} == {header.count(",")}
    again = run.start()
    assert again.wait(PATIENCE) == 0
    assert run.submissions() == 60, "a finished run is not run again"


def test_a_stopped_replay_is_continued(make: Any) -> None:
    run = make(60, 0.05, 2.0)
    process = run.start()
    run.wait_for_submissions(20)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 3
    submitted = run.submissions()
    time.sleep(1.5)
    assert run.submissions() == submitted
    result = run.finish()
    run.check_each_job_was_played_once()
    (interruption,) = result["interruptions"]
    assert interruption["gap"] > 1.4
    shifted = [event["due"] for event in run.events() if event["event"] == "submitted"]
    jump = shifted[submitted] - shifted[submitted - 1]
    assert jump == pytest.approx(0.05 + interruption["gap"], abs=0.01), "the rest of the schedule keeps its gaps"


def test_only_one_replay_of_a_run_runs(make: Any) -> None:
    run = make(40, 0.05, 1.0)
    process = run.start()
    run.wait_for_submissions(2)
    second = run.start()
    _, stderr = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"is being replayed by process {process.pid}" in stderr.decode()
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once()


def test_the_replay_is_killed_repeatedly(make: Any) -> None:
    run = make(150, 0.02, 2.0)
    rng = random.Random(2)
    for _ in range(8):
        process = run.start()
        time.sleep(rng.uniform(0.2, 0.8))
        kill(process)
    run.finish()
    run.check_each_job_was_played_once()


def test_the_controller_is_killed(make: Any, instance: Path) -> None:
    run = make(150, 0.05, 6.0)
    process = run.start()
    run.wait_for_submissions(70)
    killed = time.time()
    kill_controller(instance)
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once(controller_killed=True)
    result = json.loads((run.folder / "result.json").read_text())
    [restart] = result["restarts"]
    assert killed - 30 < restart["since"] <= killed, "the last answer of the one that was killed"
    opened = max(event["real"] for event in run.events() if event["event"] == "opened")
    assert result["halted"] == pytest.approx(opened - restart["since"], abs=0.01)


def test_the_controller_is_killed_repeatedly(make: Any, instance: Path) -> None:
    run = make(200, 0.05, 5.0)
    process = run.start()
    for submitted in (60, 120, 150):
        run.wait_for_submissions(submitted)
        kill_controller(instance)
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once(controller_killed=True)


def test_the_controller_and_the_replay_are_killed(make: Any, instance: Path) -> None:
    run = make(150, 0.05, 6.0)
    process = run.start()
    run.wait_for_submissions(70)
    os.kill(int((instance / "run" / "slurmctld.pid").read_text()), signal.SIGKILL)
    time.sleep(0.3)
    kill(process)
    result = run.finish()
    run.check_each_job_was_played_once(controller_killed=True)
    assert len(result["restarts"]) == 1 and len(result["interruptions"]) == 1


def test_a_cancelled_job_ends_though_the_new_controller_has_it_as_waiting(make: Any, instance: Path) -> None:
    """It started after the controller had saved its state. Its cancellation is due while no controller answers."""
    run = make(1, 0.0, 60.0, row={"cancel_after": 6.0})
    slurm = Slurm(str(instance / "etc" / "slurm.conf"), str(commands_of(instance)), str(instance))
    partitions = slurm.open_partitions()
    slurm.set_partitions(partitions, are_open=False)
    process = run.start()
    try:
        run.wait_for_submissions(1)
        process.send_signal(signal.SIGSTOP)
        submitted = time.time()
        saved = instance / "state" / "job_state"
        wait_until(lambda: saved.exists() and saved.stat().st_mtime > submitted, "the job is saved")
        time.sleep(max(0.0, submitted + 6 - time.time()))
        slurm.set_partitions(partitions, are_open=True)
        wait_until(lambda: programs(run) != [], "the job runs")
        kill_controller(instance)
    finally:
        process.send_signal(signal.SIGCONT)
        slurm.set_partitions(partitions, are_open=True)
    assert process.wait(PATIENCE) == 0
    assert programs(run) == []
    result = json.loads((run.folder / "result.json").read_text())
    assert (result["states"], len(result["restarts"])) == ({"CANCELLED": 1}, 1)


def test_the_controller_is_killed_while_the_jobs_end(make: Any, instance: Path) -> None:
    run = make(60, 0.01, 6.0)
    process = run.start()
    run.wait_for_submissions(60)
    time.sleep(4)
    kill_controller(instance)
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once(controller_killed=True)


def test_a_rejected_submission_ends_the_run_with_one_line(make: Any) -> None:
    run = make(3, 0.0, 1.0, row={"partition": "nosuch"})
    process = run.start()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stderr.decode() == (
        "failed: job 100 (number 1 of the plan): sbatch: Batch job submission failed: Invalid partition name specified\n"
    )
    progress = json.loads((run.folder / "progress.json").read_text())
    assert progress["phase"] == "failed" and "Invalid partition" in progress["message"]


def kill_repeatedly(run: Run, seed: int) -> None:
    """Kill the replay six times, then let it finish."""
    rng = random.Random(seed)
    for _ in range(6):
        process = run.start()
        time.sleep(rng.uniform(0.3, 1.2))
        kill(process)
    run.finish()


def is_sbatch(words: list[str], instance: Path) -> bool:
    """Return whether a command line runs the sbatch of the Slurm release of the instance."""
    return words[:1] == [f"{commands_of(instance)}/sbatch"]


def prepared(process: subprocess.Popen[bytes], instance: Path) -> list[int]:
    """The sbatch processes of a replay that were started without the job's command, and wait for it."""
    children = [pid for pid, parent in processes.parents().items() if parent == process.pid]
    words = {pid: processes.command_line(pid) for pid in children}
    return [pid for pid, line in words.items() if is_sbatch(line, instance) and not any("--wrap" in word for word in line)]


def test_the_replay_is_killed_repeatedly_in_a_burst(make: Any, instance: Path) -> None:
    """All jobs are due at once. What it had prepared ends with it, and nothing is submitted by that."""
    run = make(300, 0.0, 1.0)
    rng = random.Random(5)
    waited = 0
    for submitted in range(30, 240, 30):
        process = run.start()
        run.wait_for_submissions(submitted)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(process.pid, signal.SIGSTOP)
        left = {pid: processes.start_time(pid) for pid in prepared(process, instance)}
        waited += len(left)
        kill(process)
        deadline = time.monotonic() + 10
        while any(started is not None and processes.is_alive(pid, started) for pid, started in left.items()):
            assert time.monotonic() < deadline, "it waits for its script"
            time.sleep(0.01)
    assert waited > 0
    result = run.finish()
    run.check_each_job_was_played_once()
    assert result["copies_cancelled"] == 0


def test_the_controller_is_killed_in_a_burst(make: Any, instance: Path) -> None:
    run = make(300, 0.0, 1.0)
    process = run.start()
    for submitted in (100, 200):
        run.wait_for_submissions(submitted)
        kill_controller(instance)
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once(controller_killed=True)
    assert [pid for pid in processes.of_instance(str(instance)) if is_sbatch(processes.command_line(pid), instance)] == []


def test_dependencies_hold_when_the_replay_is_killed(make: Any) -> None:
    """Chains of three jobs, and one job that depends on all chains. Some jobs are cancelled, which ends them as well."""
    chains = [(100 + i, 101 + i, 102 + i) for i in range(0, 45, 3)]
    rows: dict[int, dict[str, Any]] = {}
    for first, second, third in chains:
        rows |= {second: {"dependency": f"afterany:{first}"}, third: {"dependency": f"after:{first},afterany:{second}"}}
    rows[145] = {"dependency": "afterany:" + ":".join(str(third) for *_, third in chains)}
    rows[146] = {"dependency": "never", "cancel_after": 3.0}
    run = make(48, 0.05, 2.0, rows=rows)
    kill_repeatedly(run, 3)
    run.check_each_job_was_played_once()
    records = run.described()
    ran = {number for number, job in records.items() if job["node_list"] not in ("", "(null)")}
    assert ran >= {row.id for row in run.plan if row.cancel_after is None}
    for first, second, third in chains:
        # For a job that was cancelled while pending, Slurm writes its end as its start.
        assert second not in ran or records[second]["start"] >= records[first]["end"]
        assert third not in ran or records[third]["start"] >= records[second]["end"]
    assert records[145]["start"] >= max(records[third]["end"] for *_, third in chains)
    assert records[146]["state"] == "CANCELLED" and 146 not in ran


def test_dependencies_hold_when_the_controller_is_killed(make: Any, instance: Path) -> None:
    """slurmctld loses the jobs of its last seconds. They are submitted again, with the new ids of the jobs on which they depend."""
    rows = {number: {"dependency": f"afterany:{number - 5}"} for number in range(105, 160)}
    run = make(60, 0.05, 2.0, rows=rows)
    process = run.start()
    run.wait_for_submissions(40)
    kill_controller(instance)
    assert process.wait(PATIENCE) == 0
    run.check_each_job_was_played_once(controller_killed=True)
    records, _ = read_log(run.folder / "sigsleep.log")
    began = {record.id: record.start_ns for record in records if record.completed}
    ended = {record.id: record.end_ns for record in records}
    late = [number for number in rows if number in began and number - 5 in ended and began[number] < ended[number - 5]]
    assert late == []


def test_jobs_follow_others_when_the_replay_is_killed(make: Any) -> None:
    """Six users each submit their next job half a second after the end of the previous one."""
    users = [range(100 + user, 136, 6) for user in range(6)]
    rows = {number: {"follows": number - 6, "think": 0.5} for numbers in users for number in numbers[1:]}
    run = make(36, 0.02, 1.0, rows=rows)
    kill_repeatedly(run, 4)
    run.check_each_job_was_played_once()
    records = run.described()
    for numbers in users:
        for before, after in pairwise(numbers):
            assert records[after]["submit"] >= records[before]["end"], (
                "times are whole seconds, so the half second may not be visible"
            )
    ended = {event["index"]: event["real"] for event in run.events() if event["event"] == "ended"}
    submitted = {event["index"]: event["began"] for event in run.events() if event["event"] == "submitted"}
    assert ended.keys() == {number - 106 for number in rows}
    assert all(submitted[index + 6] >= real + 0.5 for index, real in ended.items())


def test_memory_and_partitions_limit_running_jobs(make: Any, instance: Path) -> None:
    """Of three jobs that each need more than half of a node's memory, two run at a time in a partition of two nodes."""
    configuration = (instance / "etc" / "slurm.conf").read_text()
    if "CR_CPU_Memory" not in configuration or "PartitionName=debug" not in configuration:
        pytest.skip("skipped: the instance is not that of tests/cluster/memory.conf")
    run = make(3, 0.0, 4.0, row={"processors": 1, "memory": 9000, "partition": "debug"})
    run.finish()
    records = sorted(run.described().values(), key=lambda job: job["start"])
    assert {job["partition"] for job in records} == {"debug"}
    assert {job["node_list"] for job in records} == {"n1", "n2"}
    assert records[2]["start"] >= min(job["end"] for job in records[:2])


def test_events_are_carried_out_once_whatever_is_killed(make: Any, instance: Path) -> None:
    """Nodes that fail, do not answer and are drained, a reservation, a held job, a command, and a killed controller; the replay is
    killed at random moments. The nodes that fail have no jobs: Slurm lets requeued ones wait for two minutes."""
    slurm = NodeCommands(str(instance / "etc" / "slurm.conf"), str(commands_of(instance)), str(instance))
    names = [node.name for node in slurm.present_nodes()]
    first, second, third = names[0], names[-1], names[-2]
    planned = [
        (1.0, "drain", first, "disk"),
        (2.0, "fail", second, ""),
        (2.0, "not-responding", third, ""),
        (3.0, "run", "", "squeue --noheader | wc -l; echo once >> once"),
        (4.0, "reserve", "test-events", f"StartTime=3600 Duration=600 Nodes={first} Users=root"),
        (5.5, "hold", "110", ""),
        (6.0, "resume", first, ""),
        (7.0, "return", second, ""),
        (7.5, "responding", third, ""),
        (9.0, "release-job", "110", ""),
        (9.5, "kill-controller", "", ""),
        (10.0, "release", "test-events", ""),
    ]
    # Interruptions move the events, and not the end of a job that has started: job 110 is there when it is released.
    run: Run = make(jobs=24, gap=0.5, runtime=4.0, rows={110: {"runtime": 20.0}})
    settings = json.loads((run.folder / "run.json").read_text())
    keys = ("at", "action", "target", "argument")
    settings["events"] = [dict(zip(keys, event, strict=True)) for event in planned]
    (run.folder / "run.json").write_text(json.dumps(settings))
    rng = random.Random(5)
    for _ in range(6):
        process = run.start()
        time.sleep(0.8 + 2 * rng.random())
        kill(process)
    result = run.finish()
    outcomes = {event["index"]: event for event in run.events() if event["event"] == "event_done"}
    assert len(outcomes) == len([event for event in run.events() if event["event"] == "event_done"]) == len(planned)
    assert {number: event["words"] for number, event in outcomes.items() if event["outcome"] != "done"} == {}
    assert result["events"] == {"done": len(planned), "refused": 0, "unknown": 0, "not_reached": 0}
    assert (run.folder / "once").read_text() == "once\n"
    assert (run.folder / "event-3.output").read_text().strip().isdigit()
    assert len(result["restarts"]) == 1
    run.check_each_job_was_played_once(controller_killed=True)
    deadline = time.monotonic() + PATIENCE
    while not slurm.registered().all_ready:
        assert time.monotonic() < deadline, "nodes did not return"
        time.sleep(0.2)
