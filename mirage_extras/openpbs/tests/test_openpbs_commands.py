"""The answers of OpenPBS's commands, and their words: what 23.06.06 said."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs import answers
from slurm_mirage.extras.openpbs.answers import failure, instant, parse_details, parse_json, parse_nodes, parse_queue, parse_states
from slurm_mirage.extras.openpbs.commands import AT_ONCE, OpenPbs
from slurm_mirage.extras.openpbs.submission import depend, submit_arguments
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.api import NODE_GROUPS, JobState, QueuedJob, Refused, Submission, Submitted, Unavailable, Unclear

WAITING = {
    "Job_Name": "big",
    "Job_Owner": "slurm-x@pbs-head",
    "job_state": "Q",
    "queue": "batch",
    "Hold_Types": "n",
    "qtime": "Mon Nov 23 00:52:38 2026",
    "Resource_List": {"ncpus": 400, "nodect": 100, "place": "scatter:excl", "select": "100:ncpus=4"},
    "substate": 10,
    "comment": "Can Never Run: Not enough total nodes available",
    "etime": "Mon Nov 23 00:52:38 2026",
}
RAN = {
    "Job_Name": "run.2",
    "job_state": "F",
    "exec_host": "n1/1+n1/2*2+n2/0",
    "Hold_Types": "n",
    "Resource_List": {"ncpus": 4, "nodect": 3, "walltime": "00:00:05"},
    "stime": "Mon Nov 23 00:53:07 2026",
    "obittime": "Mon Nov 23 00:53:22 2026",
    "substate": 92,
    "etime": "Mon Nov 23 00:53:06 2026",
    "run_count": 1,
    "Exit_status": 0,
}
DELETED_WAITING = {"Job_Name": "w", "job_state": "F", "Hold_Types": "u", "substate": 91, "Resource_List": {"ncpus": 1}}
GIVEN_UP = {"Job_Name": "w", "job_state": "F", "Hold_Types": "s", "substate": 92, "depend": "afterany:77.pbs-head@pbs-head"}


def jobs(**known: dict[str, Any]) -> dict[str, Any]:
    """An answer of qstat with jobs by their numbers, as in j12."""
    return {"pbs_version": "23.06.06", "Jobs": {f"{number[1:]}.pbs-head": job for number, job in known.items()}}


# ---- answers ----


def test_an_answer_without_jobs() -> None:
    text = '{\n\t"timestamp":\t1795395248,\n\t"pbs_version":\t"23.06.06",\n\t"pbs_server":\t"pbs-head"\n}\n'
    assert parse_queue(parse_json(text)) == parse_details(parse_json(text)) == []


@pytest.mark.parametrize("text", ["", "Connection refused\n", "[]", '{"Jobs":'])
def test_answers_that_are_no_json(text: str) -> None:
    with pytest.raises(Unclear):
        parse_json(text)


def test_queue() -> None:
    running = {**RAN, "job_state": "R", "substate": 42, "comment": "Job run at Mon Nov 23 at 00:53 on (n1:ncpus=1)"}
    assert parse_queue(jobs(j4=WAITING, j15=running)) == [
        QueuedJob(4, JobState.PENDING, None, "big", "Can Never Run: Not enough total nodes available", False, 400),
        QueuedJob(15, JobState.RUNNING, 1795395187, "run.2", "Job run at Mon Nov 23 at 00:53 on (n1:ncpus=1)", False, 4),
    ]


def test_a_job_that_was_put_back_has_no_start() -> None:
    assert parse_queue(jobs(j1={**RAN, "job_state": "Q"}))[0].start is None


@pytest.mark.parametrize(
    ("letter", "holds", "state", "held"),
    [
        ("Q", "n", JobState.PENDING, False),
        ("H", "u", JobState.PENDING, True),
        ("H", "o", JobState.PENDING, True),
        ("H", "uos", JobState.PENDING, True),
        ("H", "s", JobState.PENDING, False),  # it waits for another job
        ("W", "n", JobState.PENDING, False),
        ("R", "u", JobState.RUNNING, False),
        ("S", "n", JobState.SUSPENDED, False),
        ("E", "n", JobState.COMPLETING, False),
        ("T", "n", JobState.OTHER, False),
        ("F", "n", JobState.ENDED, False),
        ("M", "n", JobState.ENDED, False),
    ],
)
def test_states_of_jobs(letter: str, holds: str, state: JobState, held: bool) -> None:
    (job,) = parse_queue(jobs(j1={**WAITING, "job_state": letter, "Hold_Types": holds}))
    assert (job.state, job.held) == (state, held)


def test_an_array_is_seen_by_its_number() -> None:
    """The replay submits none, so that it is a job of somebody else's."""
    assert [job.job_id for job in parse_queue({"Jobs": {"3[].pbs-head": WAITING, "R4.pbs-head": WAITING}})] == [3]


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (RAN, "COMPLETED"),
        ({**RAN, "substate": 93, "Exit_status": 3}, "FAILED"),
        ({**RAN, "substate": 93, "Exit_status": -29}, "TIMEOUT"),
        ({**RAN, "substate": 91, "Exit_status": 271}, "CANCELLED"),
        (DELETED_WAITING, "CANCELLED"),
        (GIVEN_UP, "CANCELLED"),
        (WAITING, "PENDING"),
        ({**RAN, "job_state": "R"}, "RUNNING"),
    ],
)
def test_states_in_details(job: dict[str, Any], state: str) -> None:
    (details,) = parse_details(jobs(j15=job))
    assert details.state == state


def test_details() -> None:
    (details,) = parse_details(jobs(j15=RAN))
    assert (details.job_id, details.name, details.eligible, details.start, details.end) == (
        15,
        "run.2",
        1795395186,
        1795395187,
        1795395202,
    )
    assert (details.record["hosts"], details.record["runs"], details.suspended) == ("n1,n2", 1, None)
    assert json.loads(json.dumps(details.record)) == details.record
    (waiting,) = parse_details(jobs(j15=DELETED_WAITING))
    assert (waiting.eligible, waiting.start, waiting.end) == (None, None, None)


def test_a_job_that_runs_again_has_no_end() -> None:
    assert parse_details(jobs(j15={**RAN, "job_state": "R", "run_count": 2}))[0].end is None


@given(st.integers(0, 2**32))
def test_instants(seconds: int) -> None:

    assert instant(time.asctime(time.gmtime(seconds))) == seconds


@pytest.mark.parametrize("text", [None, "", "Mon Nov 23", 5])
def test_what_is_no_instant(text: object) -> None:
    assert instant(text) is None


def test_nodes() -> None:
    def node(state: str, in_use: int = 0) -> dict[str, Any]:
        assigned = {"resources_assigned": {"ncpus": in_use}} if in_use else {"resources_assigned": {}}
        return {"state": state, "resources_available": {"mem": "24683668kb", "ncpus": 4}, **assigned}

    states = {
        "n1": node("free"),
        "n2": node("free", 2),
        "n3": node("job-busy", 4),
        "n4": node("job-exclusive", 4),
        "n5": node("down"),
        "n6": node("state-unknown"),
        "n7": node("offline"),
        "n8": node("state-unknown,down"),
        "n9": node("down,offline"),
    }
    nodes = parse_nodes({"nodes": states})
    assert nodes.groups == {"idle": 1, "allocated": 3, "down": 1, "drained": 2, "unknown": 2, "reserved": 0}
    assert tuple(nodes.groups) == NODE_GROUPS
    assert (nodes.count, nodes.ready, nodes.not_responding, nodes.processors, nodes.allocated) == (9, 4, 4, 36, 10)
    assert nodes.states["free"] == 2
    assert not parse_nodes({}).all_ready


def test_numbers_of_jobs_by_state() -> None:
    count = "Transit:0 Queued:2 Held:1 Waiting:0 Running:3 Exiting:1 Begun:0 "
    assert parse_states({"Server": {"pbs-head": {"state_count": count}}}) == {"PENDING": 3, "RUNNING": 3, "COMPLETING": 1}


@pytest.mark.parametrize(
    ("program", "complaint", "kind", "message"),
    [
        ("qsub", "Connection refused\nqsub: cannot connect to server pbs-head (errno=15010)\n", Unavailable, None),
        ("qsub", "Communication failure.\nqsub: cannot connect to server pbs-head (errno=15031)\n", Unavailable, None),
        ("qdel", "Connection refused\nCouldn't connect to cluster: pbs-head\n", Unavailable, None),
        ("qmgr", "Connection refused\nqmgr: cannot connect to server \n", Unavailable, None),
        ("qsub", "pbs_iff: cannot connect to host\npbs_iff: all reserved ports in use\n", Unavailable, None),
        (
            "pbsnodes",
            "Connection refused\n/opt/x/bin/pbsnodes: cannot connect to server pbs-head, error=15010\n",
            Unavailable,
            None,
        ),
        ("qsub", "qsub: Unknown queue\n", Refused, "qsub: Unknown queue"),
        ("qsub", "qsub: illegal -W value\nusage: qsub [-a date_time] [-A account_string]\n", Refused, "qsub: illegal -W value"),
        ("qsub", "qsub: Unknown resource: foo\n", Refused, None),
        ("qsub", "qsub: Job name is too long \n", Refused, "qsub: Job name is too long"),
        ("qsub", "qsub: Queue is not enabled\n", Refused, None),
        ("qsub", "qsub: Maximum number of jobs already in queue q2\n", Refused, None),
        ("qsub", "qsub: Job violates queue and/or server resource limits\n", Refused, None),
        ("qrerun", "qrerun: Unauthorized Request  14.pbs-head\n", Refused, None),
        ("qmgr", "qmgr obj=q2 svr=default: Unauthorized Request \nqmgr: Error (15007) returned from server\n", Refused, None),
        ("qsub", "", Unclear, "qsub: failed without a word"),
        ("qsub", "qsub: a word that nobody knows\n", Unclear, "qsub: a word that nobody knows"),
    ],
)
def test_failures(program: str, complaint: str, kind: type, message: str | None) -> None:
    error = failure(program, complaint)
    assert type(error) is kind
    assert "\n" not in str(error)
    assert message is None or str(error) == message


# ---- words ----


def words_of(**changes: Any) -> dict[str, str]:
    """The options of qsub for a job."""
    job = dataclasses.replace(Submission("r.1", "c 'd'", 12, None, 90, "", "/a b"), **changes)
    words = submit_arguments(job)
    at = words.index("--")
    assert words[at:] == ["--", "/bin/sh", "-c", "cd '/a b' && c 'd'"]
    options = words[1:at]
    assert words[0] == "-f" and len(options) % 2 == 0
    found: dict[str, str] = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        key, _, value = value.partition("=") if option in ("-l", "-W") else (option, "", value)
        found[key] = value
    return found


def test_submission_of_processors_and_of_whole_nodes() -> None:
    assert words_of() == {
        "-N": "r.1",
        "select": "12:ncpus=1",
        "place": "free",
        "walltime": "5400",
        "-o": "/dev/null",
        "-e": "/dev/null",
    }
    whole = words_of(nodes=3, memory=100, partition="long", account="a1")
    assert (whole["select"], whole["place"]) == ("3:ncpus=4:mem=400mb", "scatter:excl")
    assert (whole["-q"], whole["-A"]) == ("long", "a1")
    assert words_of(memory=100)["select"] == "12:ncpus=1:mem=100mb"
    assert words_of(dependency="afterany:12:14,afterok:3")["depend"] == "afterany:12.pbs-head:14.pbs-head,afterok:3.pbs-head"


def test_a_start_that_is_put_off() -> None:
    words = submit_arguments(Submission("r.1", "c", 1, None, 1, "", "/"), 1795395187.9)
    assert words[words.index("-a") + 1] == "202611230053.07"


def test_what_openpbs_has_no_word_for() -> None:
    with pytest.raises(Refused, match="none to u12"):
        words_of(owner="u12")
    with pytest.raises(Refused, match="no QOS"):
        words_of(qos="high")
    for dependency in ("after:15+2", "singleton", "afterany:12?afterok:3", "afterany", "aftercorr:3"):
        with pytest.raises(Refused, match="no such dependency"):
            depend(dependency)


# ---- the commands ----


def programs(folder: Path, text: str, *names: str) -> OpenPbs:
    """OpenPBS's commands of these names, which are shell scripts."""
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    return OpenPbs("/etc/pbs.conf", str(folder), "/srv")


JOB = Submission("r.1", "c", 1, None, 1, "", "/srv")


def test_programs_that_are_not_there() -> None:
    with pytest.raises(WrongUse, match="/nowhere/qstat: there is no such program"):
        OpenPbs("/etc/pbs.conf", "/nowhere", "/srv").queue()


def test_programs_are_run_with_nothing_of_the_callers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PBS_DEFAULT", "elsewhere")
    text = "env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; exit 1\n"
    with pytest.raises(Unclear) as caught:
        programs(tmp_path, text, "qsub").submit(JOB)
    expected = "LC_ALL PATH PBS_CONF_FILE PWD SLURM_MIRAGE_INSTANCE TZ"
    assert str(caught.value) == f"qsub: {expected}"
    through = OpenPbs("/etc/pbs.conf", str(tmp_path), "/srv", become=("env", "SECRET=1", "nice", "-n", "0"))
    with pytest.raises(Unclear) as caught:
        through.submit(JOB)
    assert str(caught.value) == f"qsub: {expected}"


def test_a_submission(tmp_path: Path) -> None:
    assert programs(tmp_path, "echo 123.pbs-head\n", "qsub").submit(JOB) == Submitted(123)


def test_qsub_that_was_killed_or_says_nothing_may_have_submitted(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="signal 9"):
        programs(tmp_path, "kill -9 $$\n", "qsub").submit(JOB)
    with pytest.raises(Unclear):
        programs(tmp_path, "exit 0\n", "qsub").submit(JOB)


def test_a_running_qsub_holds_the_lock(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    programs(tmp_path, f"test -e /proc/self/fd/{descriptor} && echo 5.pbs-head\n", "qsub")
    try:
        assert OpenPbs("/etc/pbs.conf", str(tmp_path), "/srv", descriptor).submit(JOB) == Submitted(5)
    finally:
        os.close(descriptor)


def test_what_is_done_to_jobs(tmp_path: Path) -> None:
    names = ("qsub", "qdel", "qhold", "qrls", "qrerun", "qalter", "qmgr", "qselect", "qstat")
    answer = (
        'echo $(basename "$0") "$@" >> calls\n[ "${0##*/}" = qsub ] && echo 7.pbs-head\n[ "${0##*/}" = qstat ] && echo "{}"; true\n'
    )
    manager = programs(tmp_path, answer.replace("calls", str(tmp_path / "calls")), *names)
    manager.hold([7, 8])
    manager.release([7])
    manager.requeue([7, 9])
    manager.set_dependency(7, "afterany:3")
    manager.make_placeholder(7, "r.skip")
    manager.cancel([7, 8])
    manager.cancel([])
    manager.cancel_named("r.skip")
    assert manager.use_up_id("r.skip") == 7
    manager.set_partitions(["a", "b"], are_open=False)
    manager.set_partitions(["a"], are_open=True)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "qhold -h u 7.pbs-head 8.pbs-head",
        "qrls -h uo 7.pbs-head",
        "qrerun 7.pbs-head 9.pbs-head",
        "qalter -W depend=afterany:3.pbs-head 7.pbs-head",
        "qalter -h u -N r.skip 7.pbs-head",
        "qdel 7.pbs-head 8.pbs-head",
        "qselect -N r.skip",
        "qsub -f -h -N r.skip -l select=1:ncpus=1 -o /dev/null -e /dev/null -- /bin/true",
        "qmgr -c set queue a started = False",
        "qmgr -c set queue b started = False",
        "qmgr -c set queue a started = True",
    ]
    with pytest.raises(Refused, match="does not change the size"):
        manager.resize(7, 2)


RUNS_ON = {**RAN, "job_state": "R", "resources_used": {"walltime": "00:10:06"}}


def test_a_job_that_openpbs_lets_run_beyond_its_limit_is_ended(tmp_path: Path) -> None:
    answer = json.dumps(
        jobs(
            j1=RUNS_ON,
            j2={**RUNS_ON, "resources_used": {"walltime": "00:10:05"}},  # by 600 s
            j3={**RUNS_ON, "job_state": "E"},
            j4={**RUNS_ON, "resources_used": {}, "stime": "Mon Nov 23 00:53:07 2096"},
            j5={**RUNS_ON, "Resource_List": {"ncpus": 1}},
        )
    )
    calls = tmp_path / "calls"
    text = f'echo "${{0##*/}}" "$@" >> {calls}\ncase $0 in *qstat) echo \'{answer}\' ;; esac\n'
    manager = programs(tmp_path, text, "qstat", "qsig")
    assert manager.end_overdue([1, 2, 3, 4, 5], 600.0) == [1]
    assert calls.read_text().splitlines()[1:] == ["qsig -s SIGKILL 1.pbs-head"]
    assert manager.end_overdue([1], 601.0) == [] and len(calls.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("used", "over"), [("00:00:06", 1), ("100:00:00", 359995), ("00:00:05", None), ("5", None), ("a:b:c", None), (7, None)]
)
def test_run_times_over_the_limit(used: object, over: int | None) -> None:
    found = answers.over_limits(jobs(j1={**RUNS_ON, "resources_used": {"walltime": used}}), 1795395187.0)
    assert found == ({} if over is None else {1: over})


def test_run_times_of_which_no_node_has_told() -> None:
    begun = {"job_state": "R", "Resource_List": {"walltime": "00:00:05"}, "stime": "Mon Nov 23 00:53:07 2026"}
    sent = {"job_state": "R", "Resource_List": begun["Resource_List"], "mtime": "Mon Nov 23 00:53:08 2026"}
    known = jobs(j1=begun, j2=sent, j3={**sent, "mtime": "soon"}, j4={**sent, "job_state": "S"})
    assert answers.over_limits(known, 1795395200.0) == {1: 8.0, 2: 7.0}
    assert answers.over_limits(known, 1795395192.5) == {1: 0.5}


@pytest.mark.parametrize("complaint", ["qdel: Unknown Job Id 8.pbs-head", "qdel: Job has finished 8.pbs-head"])
def test_jobs_that_have_ended_are_no_error(tmp_path: Path, complaint: str) -> None:
    programs(tmp_path, f"echo '{complaint}' >&2; exit 153\n", "qdel").cancel([8])


def test_one_job_that_has_ended_hides_no_other_error(tmp_path: Path) -> None:
    text = "echo 'qrerun: Job has finished 8.pbs-head' >&2; echo 'qrerun: Unauthorized Request  9.pbs-head' >&2; exit 159\n"
    with pytest.raises(Refused, match=r"Unauthorized Request  9\.pbs-head"):
        programs(tmp_path, text, "qrerun").requeue([8, 9])


def test_details_of_many_jobs_take_few_requests(tmp_path: Path) -> None:
    """qstat without -E prints only the first of several jobs as JSON."""
    answer = json.dumps(jobs(j15=RAN, j16={**RAN, "Job_Name": "run.3"}))
    calls = tmp_path / "calls"
    answer = f"case \"$*\" in *-E*) echo '{answer}' ;; esac\necho 'qstat: Unknown Job Id 99.pbs-head' >&2; exit 153\n"
    text = f'echo $# "$5 $6" >> {calls}; {answer}'
    manager = programs(tmp_path, text, "qstat")
    found = manager.details(list(range(AT_ONCE + 1)))
    assert {job.job_id: job.name for job in found} == {15: "run.2", 16: "run.3"}
    assert calls.read_text().splitlines() == [f"{AT_ONCE + 5} json 0.pbs-head", f"6 json {AT_ONCE}.pbs-head"]
    assert [job.job_id for job in manager.ended([15, 16])] == [15, 16]


def test_a_server_that_does_not_answer_knows_no_job(tmp_path: Path) -> None:
    text = "echo '{}'; echo 'Connection refused' >&2; echo 'qstat: cannot connect to server pbs-head (errno=15010)' >&2; exit 255\n"
    manager = programs(tmp_path, text, "qstat", "qselect")
    for ask in (manager.jobs_by_state, manager.queue, lambda: manager.details([1]), lambda: manager.queue(["r.1"])):
        with pytest.raises(Unavailable, match="Connection refused"):
            ask()


def test_the_queue_of_some_names(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    answer = json.dumps(jobs(j4=WAITING, j15=RAN))
    text = f'echo "${{0##*/}}" "$@" >> {calls}; case $0 in *qselect) echo 4.pbs-head ;; *) echo \'{answer}\' ;; esac\n'
    manager = programs(tmp_path, text, "qselect", "qstat")
    assert [job.job_id for job in manager.queue(["big"])] == [4]
    assert [job.job_id for job in manager.queue(["big", "x"], ended=True)] == [4, 15]
    assert calls.read_text().splitlines() == [
        "qselect -N big",
        "qstat -E -f -F json 4.pbs-head",
        "qselect -x -N big",
        "qselect -x -N x",
        "qstat -x -E -f -F json 4.pbs-head 4.pbs-head",
    ]


def test_owners_of_jobs_in_the_queue() -> None:
    assert answers.parse_queue_owners(jobs(j4=WAITING)) == [{"job_id": 4, "name": "big", "user": "slurm-x", "submit": 1795395158}]


def test_a_command_without_an_answer_is_ended(tmp_path: Path) -> None:
    programs(tmp_path, "exec sleep 60\n", "qstat")
    manager = OpenPbs("/etc/pbs.conf", str(tmp_path), "/srv", query_timeout=0.1)
    with pytest.raises(Unavailable, match=re.escape("qstat: no answer within 0 s")):
        manager.queue()


def test_openpbs_does_not_get_what_else_a_job_asks_for() -> None:
    with pytest.raises(Refused, match="OpenPBS does not get nodes=2 nice=1"):
        submit_arguments(Submission("r.1", "c", 4, None, 1, "", "/", request=Request(nodes=2, nice=1)))
