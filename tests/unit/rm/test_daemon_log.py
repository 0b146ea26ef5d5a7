"""Complaints of the daemons: lines as Slurm 22.05 writes them, and which of them belong to a run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import start_event

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection.incidents import incidents, span_of
from slurm_mirage.rm.slurm.daemon_log import KINDS, Span, by_kind, complaints, kind_of

STAMP = "[2027-03-01T10:00:00.123]"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("error: slurm_receive_msg [127.0.0.1:40512]: Zero Bytes were transmitted or received", "connection cut"),
        ("error: slurm_msg_sendto: address:port=127.0.0.1:40512 msg_type=8001: Broken pipe", "connection cut"),
        ("error: slurm_msg_sendto: address:port=127.0.0.1:40512 msg_type=8001: Unexpected missing socket error", "connection cut"),
        ("error: forward_thread to n3 (127.0.0.1:17003): Connection refused", "refused connection"),
        ("[12.batch] error: Unable to send job complete message: Communication connection failure", "refused connection"),
        ("error: Unable to register: Unable to contact slurm controller (connect failure)", "refused connection"),
        ("error: slurm_receive_msgs: [[localhost]:17002] failed: Socket timed out on send/recv operation", "time-out"),
        ("agent msg_type=4005 ran for 127 seconds", "time-out"),
        ("error: A node ping cycle took more than 300 seconds. Node RPC requests like ping ...", "time-out"),
        ("error: Munge encode failed: Timed-out", "munge"),
        ("error: Configured MaxJobCount may lead to job_state being larger then maximum buffer size and not saved, based on", None),
        ("error: If munged is up, restart with --num-threads=10", None),
        (
            "error: slurm_unpack_received_msg: [[localhost]:1] auth_g_verify: MESSAGE_EPILOG_COMPLETE has authentication error: X",
            "munge",
        ),
        ("error: Nodes n[3-7] not responding", "node silent"),
        ("error: Nodes n[3-7] not responding, setting DOWN", "node down"),
        ('error: _find_node_record: lookup failure for node "frontend1", alias "frontend1"', None),
        ('error: _find_node_record: lookup failure for node "n7"', "other error"),
        ("error: make_batch_job_cred: Invalid batch host frontend1 for JobId=3; this should never happen", None),
        ("error: Could not open job state file /var/lib/slurm-mirage/mirage/state/job_state: No such file or directory", None),
        ("error: NOTE: Trying backup state save file. Jobs may be lost!", None),
        ("error: NOTE: Trying backup state save file. Information may be lost!", "other error"),
        ("error: _refresh_assoc_mgr_qos_list: no new list given back keeping cached one.", None),
        ("error: MessageTimeout is too high for effective fault-tolerance", None),
        ("Node n3 now responding", None),
        ("error: Duplicate jobid on nodes n4, set to state DRAIN", "duplicate job id"),
        ("error: Job 12 already running, do not launch second copy", "duplicate job id"),
        ("error: Job 65 already killed, do not launch batch job", "launch failed"),
        ("error: slurmd error running JobId=5 on node(s)=n1: Slurmd could not create a batch directory or file", "launch failed"),
        ("Killing non-startable batch JobId=7: Unspecified error", "launch failed"),
        ("Batch JobId=9 missing from batch node n1 (not found BatchStartTime after startup)", "launch failed"),
        ("requeue job JobId=9 due to failure of node n1", "node failure"),
        ("_job_complete: requeue JobId=9 due to node failure", "node failure"),
        ("Resending TERMINATE_JOB request JobId=9 Nodelist=n1", "sent again"),
        ("error: Rank 0 failed sending step completion message directly to slurmctld, retrying", "sent again"),
        ("error: we don't have select plugin type 102", "other error"),
        ("fatal: no", "other error"),
        # What goes well, and what the workload asked for.
        ("[12.batch] error: *** JOB 12 ON n1 CANCELLED AT 2027-03-01T10:00:00 DUE TO TIME LIMIT ***", None),
        ("error: High latency for 1000 calls to gettimeofday(): 1230 microseconds", None),
        ("_slurm_rpc_submit_batch_job: JobId=2 InitPrio=4294901759 usec=345", None),
        ("sched: Allocate JobId=2 NodeList=n1 #CPUs=1 Partition=batch", None),
        ("_job_complete: JobId=2 WEXITSTATUS 0", None),
        ("update_job: setting name to retrying.17.skip for JobId=5", None),
        ("Time limit exhausted for JobId=3", None),
    ],
)
def test_kinds(text: str, kind: str | None) -> None:
    assert kind_of(f"{STAMP} {text}") == kind


@settings(deadline=None)
@given(st.text())
def test_any_line_has_at_most_one_kind(text: str) -> None:
    assert kind_of(text) in (None, *KINDS)
    assert {kind_of(f"{STAMP} error: {line}") for line in text.splitlines()} <= {None, *KINDS}


def stamped(virtual: float, text: str) -> str:
    return f"[{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(virtual))}.000] {text}\n"


@pytest.fixture
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in the time zone that is the parameter; the daemons' logs are in UTC in any zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("time_zone")
@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo"], indirect=True)
def test_only_complaints_of_the_run_count(tmp_path: Path) -> None:
    began, refused = 2_000_000_000.0, "error: connect: Connection refused"
    controller = tmp_path / "slurmctld.log"
    controller.write_text(stamped(began, refused))
    offset = controller.stat().st_size
    with controller.open("a") as stream:
        stream.write(stamped(began + 5, refused) + stamped(began + 6, "error: what is this"))
    (tmp_path / "slurmd.n1.log").write_text(
        stamped(began - 1, refused) + stamped(began, refused) + stamped(began + 9, "error: munge")
    )
    silent = tmp_path / "slurmd.n2.log"
    silent.write_text(stamped(began + 1, refused))
    real = time.time()
    os.utime(silent, (real - 60, real - 60))
    found = list(complaints(tmp_path, Span(real, began), offset))
    assert by_kind(found) == {"munge": 1, "refused connection": 2, "other error": 1}
    assert {one.log for one in found} == {"slurmctld.log", "slurmd.n1.log"}

    until = list(complaints(tmp_path, Span(real, began, began + 5), offset))
    assert by_kind(until) == {"refused connection": 2}
    assert until[0].line == stamped(began + 5, refused).rstrip()


def test_a_log_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(f"{STAMP} error: Nodes n1 not responding\n")
    assert by_kind(complaints(tmp_path, Span(0.0, 0.0), 10_000)) == {"node silent": 1}
    assert by_kind(complaints(tmp_path / "nosuch", Span(0.0, 0.0))) == {}


def test_incidents_of_the_head_and_of_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, real = 2_000_000_000.0, time.time() - 30
    head, other = tmp_path / "head", tmp_path / "other"
    for instance, log in ((head, "slurmctld.log"), (other, "slurmd.n7.log")):
        (instance / "log").mkdir(parents=True)
        lines = "".join(stamped(began + 20 * second, "error: connect: Connection refused") for second in range(50))
        (instance / "log" / log).write_text(stamped(began - 2, "error: munge") + lines)
    folder = head / "runs/r1"
    folder.mkdir(parents=True)
    assert span_of(head, "r1") == ({}, 0)
    assert incidents(head, {}) == {"counts": {}, "lines": [], "events": []}

    offset = len(stamped(began - 2, "error: munge"))
    start = start_event(real=real, virtual=began, controller_log_offset=offset)
    (folder / "journal.jsonl").write_text(json.dumps(start) + "\n")
    (folder / "result.json").write_text(json.dumps({"ended": real + 10}))
    (folder / "run.json").write_text(json.dumps({"speed": 60.0, "shrink_percent": 100.0}))
    span, since = span_of(head, "r1")
    of_head = incidents(head, span, since)
    assert span == {"real": real, "virtual": began, "until": pytest.approx(began + 600), "ended": real + 10}
    assert of_head["counts"] == {"refused connection": 31} and len(of_head["lines"]) == 20
    assert of_head["lines"][0] == f"slurmctld.log: {stamped(began, 'error: connect: Connection refused')}".rstrip()

    of_other = incidents(other, span, most=3)
    assert of_other["counts"] == of_head["counts"] and len(of_other["lines"]) == 3

    assert of_head["events"] == []
    with monkeypatch.context() as patch:
        patch.setattr("slurm_mirage.base.disk.LEAST_FREE", 1 << 62)
        full = incidents(head, span, since)["events"]
    assert {(event["event"], event["path"]) for event in full} == {("full", str(head / "runs"))}

    (folder / "journal.jsonl").write_text("no journal\n")
    with pytest.raises(WrongUse, match=r"^journal.jsonl:1: "):
        span_of(head, "r1")
