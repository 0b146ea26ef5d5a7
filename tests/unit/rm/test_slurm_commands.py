"""The formats of Slurm's answers: what 22.05.8 wrote."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import arrays
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.api import (
    NODE_GROUPS,
    CompletedJob,
    Controller,
    JobDetails,
    JobState,
    QueuedJob,
    Refused,
    Submission,
    Submitted,
    Unavailable,
    Unclear,
)
from slurm_mirage.rm.slurm import commands as slurm_commands
from slurm_mirage.rm.slurm import records
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.records import CompletionLog

DETAILS = (
    "scontrol: show job 2409\n"
    "JobId=2409 JobName=gang.1 UserId=slurm-proto(999) GroupId=slurm-proto(995) MCS_label=N/A Priority=4294899693 Nice=0 "
    "Account=(null) QOS=(null) JobState=COMPLETED Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 RunTime=1-00:01:08 TimeLimit=00:02:00 TimeMin=N/A SubmitTime=1795201391 EligibleTime=1795201391 "
    "AccrueTime=1795201391 StartTime=1795201391 EndTime=1795201403 Deadline=N/A SuspendTime=1795201396 SecsPreSuspend=1 "
    "LastSchedEval=1795201391 Scheduler=Main Partition=batch AllocNode:Sid=localhost:16786 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=20 NumTasks=20 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=20,node=2,billing=20 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* WorkDir=/var/lib/x y StdErr=/dev/null "
    "Power= \n"
    "scontrol: show job 3\n"
    "JobId=3 JobName=r.2 UserId=slurm-proto(999) Priority=4294901757 JobState=PENDING Reason=PartitionNodeLimit Restarts=2 "
    "ExitCode=0:0 RunTime=00:00:00 SubmitTime=1795201265 EligibleTime=1795201265 StartTime=Unknown EndTime=Unknown "
    "SuspendTime=None SecsPreSuspend=0 Partition=batch NodeList= NumNodes=30-30 NumCPUs=30 NumTasks=30\n"
)
COMPLETED = (
    "JobId=721 UserId=slurm-proto(999) GroupId=slurm-proto(995) Name=k4.169 JobState=CANCELLED Partition=batch TimeLimit=2 "
    "StartTime=2026-11-20T18:57:09 EndTime=2026-11-20T18:57:09 NodeList=n1 NodeCnt=1 ProcCnt=2 WorkDir=/var/lib/sp-replay "
    "ReservationName= Tres=cpu=2,mem=1M,node=1,billing=2 Account= QOS= WcKey= Cluster=unknown "
    "SubmitTime=2026-11-20T18:57:01 EligibleTime=2026-11-20T18:57:01 DerivedExitCode=0:0 ExitCode=0:0 \n"
)
SDIAG = """\
*******************************************************
sdiag output at Fri Nov 20 18:47:29 2026 (1795200449)
Data since      Fri Nov 20 18:36:06 2026 (1795199766)
*******************************************************
Server thread count:  3
Agent queue size:     7
Agent count:          0
Agent thread count:   0
DBD Agent queue size: 0

Jobs submitted: 90
Jobs started:   120
Jobs completed: 119
Jobs canceled:  2
Jobs failed:    1

Job states ts:  Fri Nov 20 18:32:25 2026 (1795199545)
Jobs pending:   0
Jobs running:   0

Main schedule statistics (microseconds):
	Last cycle:   16
	Max cycle:    1105
	Total cycles: 6
	Mean cycle:   250
	Mean depth cycle:  0
	Cycles per minute: 1
	Last queue length: 4

Backfilling stats
	Total backfilled jobs (since last slurm start): 70
	Total backfilled jobs (since last stats cycle start): 70
	Total backfilled heterogeneous job components: 0
	Total cycles: 8
	Last cycle when: Fri Nov 20 18:46:59 2026 (1795200419)
	Last cycle: 7289
	Max cycle:  48165
	Last depth cycle: 5
	Last depth cycle (try sched): 9
	Last queue length: 6
	Last table size: 4

Latency for 1000 calls to gettimeofday(): 18 microseconds

Remote Procedure Call statistics by message type
	REQUEST_SUBMIT_BATCH_JOB                ( 4003) count:5      ave_time:721    total_time:3607
"""


def test_job_details() -> None:
    done, waiting = records.parse_details(DETAILS)
    assert done.record == {
        "slurm_id": 2409,
        "name": "gang.1",
        "state": "COMPLETED",
        "reason": "None",
        "restarts": 0,
        "priority": 4294899693,
        "partition": "batch",
        "nodes": 2,
        "node_list": "n[1-2]",
        "cpus": 20,
        "exit_code": "0:0",
        "submit": 1795201391,
        "eligible": 1795201391,
        "start": 1795201391,
        "end": 1795201403,
        "suspend_time": 1795201396,
        "secs_pre_suspend": 1,
        "run_time": 86468,
    }
    assert done == JobDetails(2409, "gang.1", "COMPLETED", 1795201391, 1795201391, 1795201403, 4, done.record)
    shown = [waiting.record[name] for name in ("start", "suspend_time", "nodes", "restarts")]
    assert shown == [None, None, 30, 2]
    assert (waiting.start, waiting.suspended) == (None, None)
    for job in (done, waiting):
        assert Slurm.records.details(json.loads(json.dumps(job.record))) == job, "as suspended.jsonl keeps it"


def test_a_run_time_below_0_is_unknown() -> None:
    """A job that changed its size may have a start later than the controller's present second."""
    job = records.parse_details(DETAILS.replace("1-00:01:08", "INVALID"))[0]
    assert job.record["run_time"] is None


def test_queue() -> None:
    text = (
        "2|2|N/A|PD|N/A|PartitionConfig|8|r.2\n4|4|N/A|R|1795199569|None|2|r|3\n5|5|N/A|TO|1795199569|TimeLimit|1|r.4\n"
        "9|7|3|R|1795199569|None|1|r.20.array\n7|7|4|PD|N/A|Resources|1|r.20.array\n7|7|N/A|PD|N/A|Resources|1|r.20.array\n"
    )
    jobs = slurm_commands.parse_queue(text)
    assert jobs == [
        QueuedJob(2, JobState.PENDING, None, "r.2", "PartitionConfig", processors=8, number=2),
        QueuedJob(4, JobState.RUNNING, 1795199569, "r|3", "None", processors=2, number=4),
        QueuedJob(5, JobState.ENDED, 1795199569, "r.4", "TimeLimit", processors=1, number=5),
        QueuedJob(7_00000_00003, JobState.RUNNING, 1795199569, "r.23", "None", processors=1, number=9),
        QueuedJob(7_00000_00004, JobState.PENDING, None, "r.24", "Resources", processors=1, number=7),
        QueuedJob(7, JobState.PENDING, None, "r.20.array", "Resources", processors=1, number=7),
    ]
    assert [job.active for job in jobs] == [True, True, False, True, True, True]


def test_owners_of_jobs_in_the_queue() -> None:
    assert slurm_commands.parse_queue_owners("12|12|N/A|1795199569|slurm-c|a|b\n13|13|N/A|N/A|nobody|wrap\n") == [
        {"job_id": 12, "name": "a|b", "user": "slurm-c", "submit": 1795199569},
        {"job_id": 13, "name": "wrap", "user": "nobody", "submit": None},
    ]


@pytest.mark.parametrize(
    ("code", "reason", "state", "held"),
    [
        ("PD", "JobHeldUser", JobState.PENDING, True),
        ("PD", "launch failed requeued held", JobState.PENDING, True),
        ("PD", "Resources", JobState.PENDING, False),
        ("S", "None", JobState.SUSPENDED, False),
        ("CG", "None", JobState.COMPLETING, False),
        ("CF", "None", JobState.CONFIGURING, False),
        ("RH", "JobHeldUser", JobState.OTHER, False),
        ("NF", "NodeDown", JobState.ENDED, False),
    ],
)
def test_states_of_jobs(code: str, reason: str, state: JobState, held: bool) -> None:
    [job] = slurm_commands.parse_queue(f"7|7|N/A|{code}|N/A|{reason}|8|r.2\n")
    assert (job.state, job.held, job.active) == (state, held, state is not JobState.ENDED)


def test_completed_job() -> None:
    job = records.parse_completed(COMPLETED.rstrip("\n"))
    assert job is not None
    assert job == CompletedJob(
        721,
        "k4.169",
        "CANCELLED",
        True,
        True,
        "batch",
        1,
        2,
        1795201021,
        1795201021,
        1795201029,
        1795201029,
        "slurm-proto",
        "n1",
        0,
    )
    waited = records.parse_completed(COMPLETED.replace("NodeList=n1", "NodeList=(null)").replace("CANCELLED", "NODE_FAIL"))
    assert waited is not None and (waited.ran, waited.ended_for_good) == (False, False)
    old = records.parse_completed("JobId=1 Name=a JobState=COMPLETED StartTime=Unknown EndTime=2026-11-20T18:57:01")
    assert old is not None and (old.submit, old.start, old.end) == (None, None, 1795201021)


def test_only_whole_lines_are_records() -> None:
    text = COMPLETED + COMPLETED.replace("721", "722")[:-20]
    assert [job.job_id for job in Slurm.records.completions(text)] == [721]


@pytest.mark.parametrize("line", ["", "JobId=x Name=a JobState=COMPLETED", "Name=a JobState=COMPLETED", "\0\0\0"])
def test_lines_that_tell_of_no_job(line: str) -> None:
    assert records.parse_completed(line) is None


words = st.text(st.characters(whitelist_categories=("L", "N"), max_codepoint=0x7E), max_size=8)


@given(st.dictionaries(st.sampled_from(["JobId", "Name", "CPUs/Task", "ReqB:S:C:T", "Tres", "WorkDir"]), words))
def test_words_are_found_whatever_their_values(fields: dict[str, str]) -> None:
    line = " ".join(f"{key}={value}" for key, value in fields.items())
    assert records.parse_words(line) == fields


def test_diagnostics() -> None:
    figures = records.parse_diagnostics(SDIAG)
    assert list(figures) == list(records.DIAGNOSTICS)
    assert list(figures.values()) == [3, 7, 90, 120, 119, 2, 1, 16, 1105, 4, 7289, 48165, 5, 6, 1795200419, 1795199766]
    idle = records.parse_diagnostics(SDIAG.replace("Fri Nov 20 18:46:59 2026 (1795200419)", "N/A"))
    assert idle["bf_last_cycle_when"] is None
    # Releases before 17.11 write an instant in words only, and the epoch's beginning for one that has not been.
    without = re.sub(r" \(\d{9,}\)$", "", SDIAG, flags=re.MULTILINE)
    assert records.parse_diagnostics(without) == figures
    idle = records.parse_diagnostics(without.replace("Fri Nov 20 18:46:59 2026", "Thu Jan  1 00:00:00 1970"))
    assert idle["bf_last_cycle_when"] is None


CONFIG = "BOOT_TIME = 1\nNEXT_JOB_ID = 5\n{}PriorityType = {}\nPriorityWeightFairShare = {}\n"
SLURMDBD = "AccountingStorageType = accounting_storage/slurmdbd\n"


@pytest.mark.parametrize(
    ("storage", "priority", "weight", "has_fair_share"),
    [
        (SLURMDBD, "priority/multifactor", "10000", True),
        (SLURMDBD, "priority/multifactor", "0", False),
        (SLURMDBD, "priority/basic", "10000", False),
        ("AccountingStorageType = (null)\n", "priority/multifactor", "10000", False),
    ],
)
def test_whether_jobs_have_priorities_by_shares(storage: str, priority: str, weight: str, has_fair_share: bool) -> None:
    assert slurm_commands.parse_controller(CONFIG.format(storage, priority, weight)).has_fair_share == has_fair_share


def test_shares_of_accounts() -> None:
    """Accounts without users are left out: the tree above others. An account's own factor is empty with the fair tree."""
    text = (
        "root||0.000000|1.000000|\n root|root|0.500000|0.000000|1.000000\n physics||0.500000|1.000000|\n"
        "  lab1||0.500000|0.750000|\n   lab1|u1|0.500000|0.750000|0.25\n   lab1|u2|0.500000|0.000000|0.75\n"
        "  lab2||parent||\n   lab2|u3|0.500000|0.250000|inf\n"
    )
    shares = slurm_commands.parse_shares(text)
    assert [(one.account, one.share, one.usage) for one in shares] == [("lab1", 0.5, 0.75), ("lab2", 0, 0)]
    assert [one.factor for one in shares] == [0.5, math.inf]


def test_nodes() -> None:
    text = (
        "drained|1|0/0/4/4\nunknown|9|0/36/0/36\nidle|20|0/80/0/80\nidle*|2|0/8/0/8\nmixed|3|7/5/0/12\n"
        "allocated|4|16/0/0/16\ncompleting|1|4/0/0/4\ndown*|5|0/0/20/20\nreserved|1|0/4/0/4\nplanned|2|0/8/0/8\n"
    )
    nodes = slurm_commands.parse_nodes(text)
    assert (nodes.allocated, nodes.processors) == (27, 192)
    assert nodes.states["idle"] == 22 and nodes.states["down"] == 5 and "idle*" not in nodes.states
    assert nodes.groups == {
        "idle": 24,
        "allocated": 8,
        "down": 5,
        "drained": 1,
        "unknown": 9,
        "reserved": 1,
    }
    assert tuple(nodes.groups) == NODE_GROUPS
    assert (nodes.not_responding, nodes.ready, nodes.count, nodes.all_ready) == (7, 31, 48, False)
    assert slurm_commands.parse_nodes("idle|2|0/8/0/8\nreserved|1|0/4/0/4\n").all_ready
    assert not slurm_commands.parse_nodes("").all_ready


def test_controller() -> None:
    text = "BOOT_TIME               = 1795199274\nMinJobAge  = 300 sec\nNEXT_JOB_ID             = 5\nSLURM_VERSION = 22.05.8\n"
    assert slurm_commands.parse_controller(text) == Controller(1795199274, 5, "22.05.8")
    with pytest.raises(Unavailable):
        slurm_commands.parse_controller("BOOT_TIME = N/A\n")


@pytest.mark.parametrize(
    ("complaint", "kind", "message"),
    [
        (
            "sbatch: error: invalid partition specified: nosuch\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            Refused,
            "sbatch: Batch job submission failed: Invalid partition name specified",
        ),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available\n", Refused, None),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n", Unavailable, None),
        ("Requested operation not supported on this system for job 34\n", Refused, None),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", Unavailable, None),
        ("sbatch: error: Batch job submission failed: Unexpected missing socket error\n", Unavailable, None),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received\n", Unavailable, None),
        ("sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed\n", Unavailable, None),
        ("sbatch: error: Batch job submission failed: Resource temporarily unavailable\n", Unavailable, None),
        ("sbatch: error: Batch job submission failed: Something new\n", Unclear, None),
        ("", Unclear, "sbatch: failed without a word"),
    ],
)
def test_failures(complaint: str, kind: type, message: str | None) -> None:
    error = slurm_commands.failure("sbatch", complaint)
    assert type(error) is kind
    assert message is None or str(error) == message


def test_submission_of_processors_and_of_whole_nodes() -> None:
    job = Submission("run.7", "exec sigsleep --id 7", 20, None, 3, "", "/srv")
    assert slurm_commands.submit_arguments(job) == [
        "--parsable",
        "--job-name=run.7",
        "--ntasks=20",
        "--time=3",
        "-D/srv",
        "--output=/dev/null",
        "--wrap=exec sigsleep --id 7",
    ]
    whole = slurm_commands.submit_arguments(Submission("run.8", "x", 20, 2, 3, "large", "/srv"))
    assert {"--nodes=2", "--exclusive", "--partition=large"} < set(whole) and "--ntasks=20" not in whole
    charged = slurm_commands.submit_arguments(Submission("run.9", "x", 1, None, 3, "", "/srv", "u12", "urgent"))
    assert {"--account=u12", "--qos=urgent"} < set(charged)
    owned = slurm_commands.submit_arguments(Submission("run.9", "x", 1, None, 3, "", "/srv", "u12", owner="u12"))
    assert {"--uid=u12", "--account=u12"} < set(owned) and not any(word.startswith("--uid") for word in charged)
    waiting = slurm_commands.submit_arguments(Submission("run.9", "x", 1, None, 3, "", "/srv", "", "", 500, "afterany:7", 60))
    assert {"--mem-per-cpu=500M", "--dependency=afterany:7", "--begin=now+60"} < set(waiting)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (Request(nodes=2), "--nodes=2 --ntasks=20"),
        (Request(nodes=2, most_nodes=4), "--nodes=2-4 --ntasks=20"),
        (Request(tasks=5, cpus_per_task=4, tasks_per_node=2), "--ntasks=5 --cpus-per-task=4 --ntasks-per-node=2"),
        (Request(exclusive=True), "--ntasks=20 --exclusive"),
        (Request(nodes=2, exclusive=True), "--nodes=2 --exclusive"),
        (Request(memory_per_node=900), "--ntasks=20 --mem=900M"),
        (Request(gpus="a100:8", memory_per_gpu=90), "--ntasks=20 --mem-per-gpu=90M --gpus=a100:8"),
        (Request(tasks=4, gpus_per_task="1"), "--ntasks=4 --mem-per-cpu=7M --gpus-per-task=1"),
        (Request(gres="gpu:2", licences="a:2", constraint="[a|b]"), "--gres=gpu:2 --constraint=[a|b] --licenses=a:2"),
        (
            Request(reservation="r", switches="1@60", nice=3, contiguous=True),
            "--reservation=r --switches=1@60 --nice=3 --contiguous",
        ),
        (Request(hold=9.0), "--ntasks=20 --mem-per-cpu=7M --hold"),
    ],
)
def test_what_a_job_asks_for(asked: Request, options: str) -> None:
    words = slurm_commands.submit_options(Submission("run.7", "x", 20, None, 3, "", "/srv", memory=7, request=asked))
    always = {"--parsable", "--job-name=run.7", "--time=3", "-D/srv", "--output=/dev/null", "--mem-per-cpu=7M", "--ntasks=20"}
    wanted = options.split()
    assert [word for word in words if word in wanted] == wanted
    assert set(words) <= {*always, *wanted}
    assert ("--mem-per-cpu=7M" in words) != any(word.startswith("--mem=") or "-gpu=" in word for word in wanted)
    assert len([word for word in words if word.startswith("--ntasks=")]) == (0 if "--nodes=2 --exclusive" in options else 1)


@given(st.lists(st.integers(0, len(COMPLETED) * 4), max_size=6))
def test_a_growing_log_is_read_once(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    whole = "".join(COMPLETED.replace("JobId=721", f"JobId={number}") for number in range(4)).encode()
    path = tmp_path_factory.mktemp("log") / "jobcomp.log"
    log = CompletionLog(path)
    assert log.read() == []
    found: list[int] = []
    for cut in [*sorted(cuts), len(whole)]:
        path.write_bytes(whole[:cut])
        found += [job.job_id for job in log.read()]
        assert len(found) == whole[:cut].count(b"\n")
    assert found == [0, 1, 2, 3]


def test_a_log_from_an_offset_on_and_cleared(tmp_path: Path) -> None:
    path = tmp_path / "jobcomp.log"
    path.write_text(COMPLETED * 3)
    log = CompletionLog(path, len(COMPLETED) * 2)
    assert len(log.read()) == 1
    path.write_text(COMPLETED)
    assert len(log.read()) == 1


def cut_off(number: int, nodes: int = 200) -> str:
    """The line of a job on many nodes without neighbours, as jobcomp/filetxt of Slurm 22.05 writes it: without its end."""
    names = ",".join(f"{2 * node:04}" for node in range(nodes))
    line = COMPLETED.replace("JobId=721", f"JobId={number}").replace("k4.169", f"k4.{number}").replace("CANCELLED", "COMPLETED")
    return line.replace("NodeList=n1 NodeCnt=1 ", f"NodeList=n[{names}] NodeCnt={nodes} ")[: records.CUT_AT]


@given(st.lists(st.integers(0, 5 * records.CUT_AT), max_size=5))
def test_a_line_that_slurm_cut_off_hides_neither_its_job_nor_the_next(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    line = COMPLETED.replace("JobId=721", "JobId=4").replace("k4.169", "k4.4")
    whole = (cut_off(1) + cut_off(2, 100) + cut_off(3) + line + cut_off(5)).encode()
    path = tmp_path_factory.mktemp("log") / "jobcomp.log"
    log = CompletionLog(path)
    found = []
    for cut in [*sorted(cuts), len(whole)]:
        path.write_bytes(whole[:cut])
        found += log.read()
    assert [(job.job_id, job.name, job.state) for job in found] == [
        *((number, f"k4.{number}", "COMPLETED") for number in (1, 2, 3)),
        (4, "k4.4", "CANCELLED"),
        (5, "k4.5", "COMPLETED"),
    ]
    assert [(job.ran, job.nodes, job.processors) for job in found[:4]] == [
        (True, None, None),
        (True, 100, 2),
        (True, None, None),
        (True, 1, 2),
    ]
    assert all(job.start and job.end for job in found)
    assert Slurm.records.completions(whole.decode()) == found


def test_of_a_line_that_was_cut_off_the_last_word_is_not_known() -> None:
    for length in range(cut_off(1).index("NodeList=") + 12, records.CUT_AT):
        job = records.CompletionRecord(cut_off(1, 100)[:length], is_cut=True).job()
        assert job is not None and job.nodes in (None, 100) and job.processors in (None, 2) and job.submit in (None, 1795201021)


ACCOUNTED = (
    "7|7|r.7|TIMEOUT|1795201391|1795201392|1795201450\n8|8|r.8|CANCELLED by 994|1795201391|None|1795201400\n"
    "9|9|r.9|RUNNING|5|6|Unknown\n5_2|12|r.20.array|COMPLETED|1795201391|1795201392|1795201450\n"
    "5_[3-4]|5|r.20.array|CANCELLED by 994|1795201391|None|1795201400\n"
)


@pytest.mark.parametrize(
    ("accounting", "known"),
    [
        (True, {2409: "COMPLETED", 7: "TIMEOUT", 8: "CANCELLED", 5_00000_00002: "COMPLETED", 5: "CANCELLED"}),
        (False, {2409: "COMPLETED"}),
    ],
)
def test_ends_that_slurmctld_has_forgotten_are_asked_of_slurmdbd(tmp_path: Path, accounting: bool, known: dict[int, str]) -> None:
    """As far as there is one; jobs that have not ended are left out."""
    answers = {"scontrol": (DETAILS, 1), "sacct": (ACCOUNTED, 0) if accounting else ("", 1)}
    for program, (text, code) in answers.items():
        (tmp_path / f"{program}.txt").write_text(text)
        (tmp_path / program).write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/{program}.words\ncat {tmp_path}/{program}.txt\nexit {code}\n'
        )
        (tmp_path / program).chmod(0o755)
    found = Slurm("/etc/slurm.conf", str(tmp_path), "/srv").ended([3, 7, 8, 9, 2409])
    assert {job.job_id: job.state for job in found} == known
    assert {job.name for job in found if job.job_id >= 10**10} <= {"r.22"}
    assert "--jobs=3,7,8,9" in (tmp_path / "sacct.words").read_text()
    if accounting:
        late = next(job for job in found if job.job_id == 7)
        assert (late.name, late.eligible, late.start, late.end) == ("r.7", 1795201391, 1795201392, 1795201450)
        assert records.details_of(late.record) == late, "as it is kept in suspended.jsonl"


def test_programs_that_are_not_there() -> None:
    with pytest.raises(WrongUse, match="/nowhere/squeue: there is no such program"):
        Slurm("/etc/slurm.conf", "/nowhere", "/srv").queue()


def test_programs_are_run_with_nothing_of_the_callers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\nenv | cut -d= -f1 | sort | tr '\\n' ' ' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Unclear) as caught:
        Slurm("/etc/slurm.conf", str(tmp_path), "/srv").submit(Submission("n", "c", 1, None, 1, "", "/srv"))
    assert str(caught.value) == "sbatch: PATH PWD SLURM_CONF SLURM_MIRAGE_INSTANCE"


def test_a_command_run_through_another_program_has_the_same_environment(tmp_path: Path) -> None:
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\nenv | cut -d= -f1 | sort | tr '\\n' ' ' >&2\nps -o ni= -p $$ >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Unclear) as caught:
        Slurm("/etc/slurm.conf", str(tmp_path), "/srv", become=("env", "SECRET=1", "nice", "-n", "3")).nodes()
    words = "PATH PWD SLURM_CONF SLURM_MIRAGE_INSTANCE SLURM_TIME_FORMAT TZ"
    assert str(caught.value).split() == ["sinfo:", *words.split(), str(os.nice(0) + 3)]


def test_sbatch_that_was_killed_may_have_submitted(tmp_path: Path) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    with pytest.raises(Unavailable, match="signal 9"):
        Slurm("/etc/slurm.conf", str(tmp_path), "/srv").submit(Submission("n", "c", 1, None, 1, "", "/srv"))


@pytest.fixture
def logging_slurm(tmp_path: Path) -> tuple[Slurm, Path]:
    """Commands that write their words to a file, one call a line; sbatch gives out ids from 1 on, and retries once."""
    calls = tmp_path / "calls"
    for program in ("scontrol", "scancel", "sbatch"):
        path = tmp_path / program
        answer = f"echo 'sbatch: error: x, sleeping and retrying' >&2; wc -l < {calls}" if program == "sbatch" else ""
        path.write_text(f'#!/bin/sh\necho {program} "$@" >> {calls}\n{answer}\n')
        path.chmod(0o755)
    return Slurm("/etc/slurm.conf", str(tmp_path), "/srv"), calls


def test_what_is_done_to_jobs(logging_slurm: tuple[Slurm, Path]) -> None:
    slurm, calls = logging_slurm
    slurm.hold([7, 8])
    slurm.release([7])
    slurm.requeue([7, 9])
    slurm.resize(7, 2)
    slurm.set_dependency(7, "afterany:3")
    slurm.make_placeholder(7, "r.skip")
    slurm.cancel([7, 8])
    slurm.cancel_named("r.7")
    slurm.set_partitions(["a", "b"], are_open=False)
    slurm.set_partitions(["a"], are_open=True)
    assert calls.read_text().splitlines() == [
        "scontrol hold 7,8",
        "scontrol release 7",
        "scontrol requeue 7,9",
        "scontrol update JobId=7 NumNodes=2",
        "scontrol update JobId=7 Dependency=afterany:3",
        "scontrol update JobId=7 JobName=r.skip Priority=0",
        "scancel --quiet 7 8",
        "scancel --quiet --name=r.7",
        "scontrol update PartitionName=a State=DOWN",
        "scontrol update PartitionName=b State=DOWN",
        "scontrol update PartitionName=a State=UP",
    ]


def test_nodes_that_slurmctld_does_not_know_are_asked(logging_slurm: tuple[Slurm, Path]) -> None:
    slurm, calls = logging_slurm
    sinfo = calls.parent / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'unknown*|n[3-5]\nunknown|n9\ndrained*|n8'\n")
    sinfo.chmod(0o755)
    assert slurm.ask_nodes() == "n[3-5],n9"
    sinfo.write_text("#!/bin/sh\n")
    assert slurm.ask_nodes() == ""
    assert calls.read_text().splitlines() == ["scontrol update NodeName=n[3-5],n9 State=UNDRAIN"]


def test_where_slurmctld_keeps_what_runs_leave(tmp_path: Path) -> None:
    """With accounting the jobs stay: slurmdbd knows their numbers."""
    scontrol = tmp_path / "scontrol"

    def files(storage: str) -> list[str]:
        scontrol.write_text(f"#!/bin/sh\necho 'AccountingStorageType   = accounting_storage/{storage}'\n")
        scontrol.chmod(0o755)
        return [str(path) for path in Slurm("/etc/slurm.conf", str(tmp_path), "/srv").saved_by_runs()]

    usage = ["assoc_usage", "qos_usage", "priority_last_decay_ran"]
    assert files("slurmdbd") == [f"/srv/state/{name}{old}" for name in usage for old in ("", ".old")]
    assert files("none") == [*files("slurmdbd"), "/srv/state/job_state", "/srv/state/job_state.old"]


def test_what_is_done_to_tasks_of_arrays(logging_slurm: tuple[Slurm, Path]) -> None:
    """A waiting task is changed before it is cancelled: no record has the end of one that was never apart from its array."""
    slurm, calls = logging_slurm
    task = arrays.task_id(7, 3)
    slurm.release([task, 9])
    slurm.set_dependency(9, f"afterany:8:{task},after:{task}+2")
    slurm.make_placeholder(task, "r.skip")
    slurm.cancel([task, 9])
    assert calls.read_text().splitlines() == [
        "scontrol release 7_3,9",
        "scontrol update JobId=9 Dependency=afterany:8:7_3,after:7_3+2",
        "scontrol update JobId=7_3 JobName=r.skip Priority=0",
        "scontrol update JobId=7_3 Comment=cancelled",
        "scancel --quiet 7_3 9",
    ]


def test_a_task_that_has_ended_is_cancelled_without_an_error(tmp_path: Path) -> None:
    for program, complaint in (("scontrol", "7_3: Job has already finished"), ("scancel", "")):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\necho '{complaint}' >&2\n" + ("exit 1\n" if complaint else ""))
        path.chmod(0o755)
    slurm = Slurm("/etc/slurm.conf", str(tmp_path), "/srv")
    slurm.cancel([arrays.task_id(7, 3)])
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(Unavailable):
        slurm.cancel([arrays.task_id(7, 3)])


def test_the_submission_of_an_array(tmp_path: Path) -> None:
    """One sbatch, whose script runs the program of each task as a job of the array's number."""
    program = tmp_path / "sbatch"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/script\necho 12\n')
    program.chmod(0o755)
    tasks = {
        task: Submission(f"r.{20 + task}", f"echo {task} $SLURM_JOB_ID", 4, None, 5, "p", "/srv", dependency="after:3")
        for task in (0, 2)
    }
    assert Slurm("/etc/slurm.conf", str(tmp_path), "/srv").submit_array("r.20.array", tasks, at_once=1) == Submitted(12)
    words = (tmp_path / "words").read_text()
    assert words.startswith("--parsable --job-name=r.20.array --ntasks=4 --time=5 --partition=p --dependency=after:3 ")
    assert words.endswith("--array=0,2%1\n")
    for task, output in ((0, "0 12\n"), (2, "2 12\n"), (1, "")):
        environment = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_JOB_ID": "12", "SLURM_JOB_ID": "15"}
        result = subprocess.run(["sh", tmp_path / "script"], env=environment, capture_output=True, text=True, check=False)
        assert (result.stdout, result.returncode) == (output, 0 if output else 1)


@pytest.mark.parametrize(("version", "most"), [("22.05.8", 1001), ("17.11.2", 1001), ("17.02.11", 0), ("16.05.6", 0)])
def test_how_large_arrays_may_be(tmp_path: Path, version: str, most: int) -> None:
    """Before 17.11 the record of ended jobs does not say which task a line is of."""
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho 'MaxArraySize            = 1001'\necho 'SLURM_VERSION           = {version}'\n")
    program.chmod(0o755)
    assert Slurm("/etc/slurm.conf", str(tmp_path), "/srv").most_tasks() == most


def test_records_of_tasks() -> None:
    line = COMPLETED.rstrip("\n").replace("JobId=721 ", "JobId=725 ").replace("Name=k4.169 ", "Name=k4.160.array ")
    job = records.parse_completed(line.replace(" DerivedExitCode=", " ArrayJobId=720 ArrayTaskId=9 DerivedExitCode="))
    assert job is not None and (job.job_id, job.name) == (arrays.task_id(720, 9), "k4.169")
    [known] = records.parse_details(
        DETAILS.splitlines()[1].replace("JobName=", "ArrayJobId=720 ArrayTaskId=9 JobName=x.5.array OldName=") + "\n"
    )
    assert (known.job_id, known.name) == (arrays.task_id(720, 9), "x.14")


def test_several_submissions_go_in_order(logging_slurm: tuple[Slurm, Path]) -> None:
    slurm, calls = logging_slurm
    jobs = [Submission(f"r.{number}", "x", 1, None, 1, "", "/srv") for number in (5, 6)]
    assert slurm.submit_many(jobs) == [Submitted(1, retries=1), Submitted(2, retries=1)]
    assert [line.split()[2] for line in calls.read_text().splitlines()] == ["--job-name=r.5", "--job-name=r.6"]
    assert slurm.use_up_id("r.skip") == 3
    assert "--hold --job-name=r.skip" in calls.read_text()


def test_words_of_events() -> None:
    """A node that is down is drained as well, or it would return as soon as it registers."""
    assert slurm_commands.node_words("drain", "event 1: disk") == [["State=DRAIN", "Reason=event 1: disk"]]
    assert [words[0] for words in slurm_commands.node_words("down", "r")] == ["State=DRAIN", "State=DOWN"]
    assert slurm_commands.node_words("resume", "") == [["State=RESUME"]]
    words = slurm_commands.reservation_words("StartTime=100.5 Duration=3600 Nodes=n[1-2] Users=root", 1_800_000_000.0)
    assert words == ["StartTime=2027-01-15T08:01:41", "EndTime=2027-01-15T09:01:41", "Nodes=n[1-2]", "Users=root"]
