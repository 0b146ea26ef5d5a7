"""Complaints in the logs of OpenPBS's daemons: lines of 23.06.06."""

from __future__ import annotations

import calendar
import os
import time
from pathlib import Path

import pytest

from slurm_mirage.extras.openpbs import daemon_log
from slurm_mirage.extras.openpbs.daemon_log import kind_of
from slurm_mirage.rm.evidence import CONNECTION_RENEWED, OTHER_COMPLAINT, Span

STAMP = "11/23/2026 00:54:51.180564"
SECOND = calendar.timegm(time.strptime("2026-11-23 00:54:51", "%Y-%m-%d %H:%M:%S"))
DOWN = f"{STAMP};0001;Server@pbs-head;Svr;Server@pbs-head;stream_eof, n4 down"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (DOWN, "node failure"),
        (f"{STAMP};0001;Server@pbs-head;Svr;net_down_handler;marking all nodes unknown", "node failure"),
        (f"{STAMP};0009;Server@pbs-head;Job;3000.pbs-head;job not running, may have been requeued on node failure", "node failure"),
        (f"{STAMP};0001;pbs_mom;Job;14.pbs-head;Job discarded at request of Server", "node failure"),
        (
            f"{STAMP};0001;Server@pbs-head;Svr;Server@pbs-head;panic_stop_db, Panic shutdown of Server on database error.  Please "
            "check PBS_HOME file system for no space condition.",
            "database",
        ),
        (
            f"{STAMP};0001;Server@pbs-head;Svr;Server@pbs-head;PBS server internal error (15011) in node_save_db, Failed to save "
            "node n1 Execution of Prepared statement insert_node failed: no connection to the server ",
            "database",
        ),
        (
            f"{STAMP};0001;pbs_mom;Svr;pbs_mom;im_eof, Premature end of message from addr 10.77.0.1:15001 on stream 0",
            CONNECTION_RENEWED,
        ),
        (f"{STAMP};0001;pbs_mom;Svr;net_down_handler;net down handler called", CONNECTION_RENEWED),
        (f"{STAMP};0001;pbs_mom;Job;316.pbs-head;im_eof, lost communication with n150, not killing job yet", CONNECTION_RENEWED),
        (
            f"{STAMP};0001;pbs_mom;Svr;pbs_mom;Resource temporarily unavailable (11) in auth_handler, failed to receive auth token",
            CONNECTION_RENEWED,
        ),
        (f"{STAMP};0001;pbs_sched;Svr;pbs_sched;Connection refused (111) in connect_svrpool, no server", "connection cut"),
        (f"{STAMP};0009;Server@pbs-head;Job;57.pbs-head;Mom rejected job due to join job error", "launch failed"),
        (f"{STAMP};0001;pbs_mom;Svr;pbs_mom;im_request, bad connect from 10.77.1.14:15003", "node unknown"),
        (
            f"{STAMP};0001;Server@pbs-head;Svr;Server@pbs-head;is_request, bad attempt to connect from 10.77.1.2:2003, "
            "reason=tfind2:pmom",
            OTHER_COMPLAINT,
        ),
        # What is said at every start, connection, and end of a job, and what is no error.
        (f"{STAMP};0001;pbs_mom;Svr;pbs_mom;finish_exec, chown failed. ERR : No such file or directory", None),
        (f"{STAMP};0001;pbs_mom;Svr;net_restore_handler;net restore handler called", None),
        (f"{STAMP};0001;Comm@pbs-head;Svr;Comm@pbs-head;daemon_protect, write failed. ERR: Permission denied", None),
        (f"{STAMP};0008;pbs_mom;Job;15.pbs-head;walltime 14 exceeded limit 5", None),
        (f"{STAMP};0002;pbs_mom;Svr;im_eof;Server closed connection.", None),
        (f"{STAMP};0002;Server@pbs-head;Node;n4;node up", None),
        (f"{STAMP};0002;Server@pbs-head;Node;n4;node down: communication closed", None),
        (f"{STAMP};0080;pbs_sched;Req;;Starting Scheduling Cycle", None),
        ("11/23/2026 00:54:51;0002;Server@pbs-head;Node;n4;node down: x", "node failure"),
        ("", None),
        ("daemon_protect", None),
    ],
)
def test_kinds(line: str, kind: str | None) -> None:
    assert kind_of(line) == kind
    assert kind is None or kind in daemon_log.KINDS


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    for folder in ("server/server_logs", "server/sched_logs", "server/comm_logs", "moms/n1/mom_logs", "moms/n2/mom_logs"):
        (tmp_path / "pbs" / folder).mkdir(parents=True)
    return tmp_path


def test_complaints_of_all_daemons_within_a_span(instance: Path) -> None:
    error = "0001;pbs_mom;Svr;pbs_mom;im_eof, Premature end of message\n"
    (instance / "pbs/server/server_logs/20261123").write_text(f"{DOWN}\nno line of a log\n{DOWN.replace('00:54:51', '00:54:40')}\n")
    (instance / "pbs/moms/n1/mom_logs/20261123").write_text(f"{STAMP};{error}11/23/2026 00:59:00.000001;{error}")
    old = instance / "pbs/moms/n2/mom_logs/20261123"
    old.write_text(f"{STAMP};{error}")
    os.utime(old, (1000, 1000))  # last written to before the span began
    now = time.time()
    found = list(daemon_log.of_instance(instance, Span(now - 60, SECOND - 1, SECOND + 1)))
    assert [(one.kind, one.log) for one in found] == [("node failure", "server_logs"), (CONNECTION_RENEWED, "mom_logs of n1")]
    assert found[0].line == DOWN
    assert daemon_log.by_kind(found) == {"node failure": 1, CONNECTION_RENEWED: 1}
    endless = daemon_log.by_kind(daemon_log.of_instance(instance, Span(now - 60, SECOND - 100)))
    assert endless == {"node failure": 2, CONNECTION_RENEWED: 2}


def test_an_instance_without_logs(tmp_path: Path) -> None:
    assert list(daemon_log.of_instance(tmp_path, Span(0, 0))) == []
