"""The modules slurm_farm and slurm_farm_info, run in process with the real farm and small programs in place of the daemons."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from copies import left_out
from farm_states import farm_state
from modules import ROOT, Caller, load
from other_managers import KNOWN

from slurm_mirage.base import processes
from slurm_mirage.base.files import file_digest, write_json
from slurm_mirage.farm import control, waiting
from slurm_mirage.rm.slurm import daemons, job_users
from slurm_mirage.rm.slurm.daemons import farm_content, layout_of, specifications

USER = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
DAEMON = """#!/bin/sh
case $0 in
*munged) for word; do case $word in --socket=*) echo > "${word#*=}" ;; esac; done ;;
*mariadbd) echo > run/private/mariadb.socket ;;
*slurmctld) echo > run/slurmctld.pid ;;
*slurmdbd) echo > run/slurmdbd.pid ;;
*slurmd) echo > "run/slurmd.$3.pid" ;;
esac
exec sleep 300
"""

without_systemd = pytest.mark.skipif(
    Path("/run/systemd/system").is_dir(), reason="skipped: PID 1 is systemd, the farm would be a unit of this host"
)


@pytest.fixture
def params() -> Iterator[dict[str, Any]]:
    """Parameters for an instance's directory as slurm_instance creates it. The farm's user may not enter pytest's tmp_path."""
    directory = Path("/tmp", f"farm-module-test-{os.getpid()}-{time.monotonic_ns()}")
    for name in ("etc", "run", "log", "sbin", "lib"):
        (directory / name).mkdir(parents=True)
        directory.chmod(0o755)
    if os.getuid() == 0:
        for name in ("run", "log"):
            shutil.chown(directory / name, USER)
    (directory / "etc/munge.key").write_text("secret")
    shutil.copytree(
        ROOT / "module_utils/slurm_mirage",
        directory / "lib/slurm_mirage",
        ignore=left_out,
    )
    for name in ("munged", "slurmctld", "slurmd"):
        (directory / "sbin" / name).write_text(DAEMON)
        (directory / "sbin" / name).chmod(0o755)
    yield {
        "directory": str(directory),
        "user": USER,
        "sbin": str(directory / "sbin"),
        "munge_sbin": str(directory / "sbin"),
        "nodes": nodes(2),
        "wait": 30,
    }
    processes.end(processes.of_instance(str(directory)), 10)
    shutil.rmtree(directory)


def nodes(count: int, digest: str = "1") -> list[dict[str, Any]]:
    return [{"count": count, "digest": digest}]


def state_of_this_process() -> dict[str, Any]:
    """State of a farm without daemons, which is this process."""
    state: dict[str, Any] = {"pid": os.getpid(), "start_time": processes.start_time(os.getpid()), "phase": "running"}
    state |= dict.fromkeys(("leaving", "controller_pid", "restarts", "failing_count"), 0)
    state |= {name: {} for name in ("daemons", "failing", "refused")}
    return state | dict.fromkeys(("identity", "specification", "trouble"), "") | dict.fromkeys(("rate", "waiting_for_memory"))


def slurmd_of(params: dict[str, Any]) -> int:
    return (
        sum(processes.environment(pid).get("SLURM_MIRAGE_DIGEST") is not None for pid in processes.of_instance(params["directory"]))
        - 2
    )


def environment_with(params: dict[str, Any], conf: str) -> dict[str, str]:
    """The environment of slurmctld with this text of its slurm.conf."""
    directory = Path(params["directory"])
    (directory / "etc").mkdir(exist_ok=True)
    (directory / "etc/slurm.conf").write_text(conf)
    found: dict[str, str] = specifications(directory, layout_of(on_one_host(params)))[1]["environment"]
    return found


@pytest.mark.parametrize(
    ("settings", "is_short"),
    [
        ("SlurmctldDebug=verbose\nDebugFlags=NO_CONF_HASH,TraceJobs,Backfill\n", True),
        ("SlurmctldDebug=debug2\nDebugFlags=NO_CONF_HASH,TraceJobs\n", True),
        ("SlurmctldDebug=debug3\nDebugFlags=NO_CONF_HASH,TraceJobs,Backfill\n", False),
        ("SlurmctldDebug=verbose\nDebugFlags=NO_CONF_HASH,Gres\n", False),
        ("", False),
    ],
)
def test_slurmctld_leaves_out_lines_unless_the_configuration_asks_for_more(
    params: dict[str, Any], settings: str, is_short: bool
) -> None:
    assert ("SLURM_MIRAGE_LOG_LINES" in environment_with(params, settings)) is is_short


@pytest.mark.parametrize(
    ("setting", "are_left_out"),
    [
        ("PreemptType=preempt/none\nPreemptMode=OFF\nCompleteWait=0", True),
        ("SchedulerParameters=bf_interval=30,bf_continue,batch_sched_delay=0", True),
        ("SchedulerParameters=batch_sched_delay=20", False),
        ("PreemptType=preempt/partition_prio", False),
        ("PreemptMode=REQUEUE", False),
        ("SuspendProgram=/bin/true", False),
        ("CompleteWait=30", False),
        ("EpilogSlurmctld=/bin/true", False),
        ("SchedulerParameters=bf_interval=30,assoc_limit_stop", False),
        ("SlurmctldDebug=debug4", False),
    ],
)
def test_idle_cycles_are_left_out_unless_the_configuration_changes_what_they_decide(
    params: dict[str, Any], setting: str, are_left_out: bool
) -> None:
    assert (
        "SLURM_MIRAGE_BF_WINDOW" in environment_with(params, f"{setting}\nSlurmctldDebug=verbose\nDebugFlags=TraceJobs,Backfill\n")
    ) is are_left_out


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ("", "86400"),
        ("SchedulerParameters=bf_continue,bf_window=2880,bf_window_linear=60\n", "172800"),
        ("SchedulerParameters=bf_window_linear=60\n", "86400"),
    ],
)
def test_slurmctld_knows_the_window_of_backfilling(params: dict[str, Any], settings: str, seconds: str) -> None:
    assert (
        environment_with(params, f"{settings}SlurmctldDebug=verbose\nDebugFlags=TraceJobs,Backfill\n")["SLURM_MIRAGE_BF_WINDOW"]
        == seconds
    )


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [("", "100"), ("SlurmdTimeout=60000\n", "20000"), ("SlurmdTimeout=0\n", "100"), ("slurmdtimeout=400\n", "133")],
)
def test_slurmctld_knows_when_it_pings_nodes(params: dict[str, Any], settings: str, seconds: str) -> None:
    assert (
        environment_with(params, f"{settings}SlurmctldDebug=verbose\nDebugFlags=TraceJobs,Backfill\n")["SLURM_MIRAGE_PINGS"]
        == seconds
    )


def test_slurmctld_has_an_allocator_of_its_own_where_there_is_one(
    params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, directory = tmp_path / "lib/liballocator.so", Path(params["directory"])
    monkeypatch.setattr(daemons, "ALLOCATOR", f"{tmp_path}/*/liballocator.so".lstrip("/"))
    assert "LD_PRELOAD" not in specifications(directory, layout_of(on_one_host(params)))[1]["environment"]
    library.parent.mkdir()
    library.touch()
    assert specifications(directory, layout_of(on_one_host(params)))[1]["environment"]["LD_PRELOAD"] == str(library)
    users = job_users.library(directory)
    users.parent.mkdir(exist_ok=True)
    users.touch()
    assert specifications(directory, layout_of(on_one_host(params)))[1]["environment"]["LD_PRELOAD"] == f"{users}:{library}"


@without_systemd
def test_the_farm_is_started_reloaded_and_stopped(call: Caller, params: dict[str, Any]) -> None:
    assert call("slurm_farm", check=True, **params)["changed"] is True
    assert processes.of_instance(params["directory"]) == {}
    started = call("slurm_farm", **params)
    assert (started["changed"], started["farm"]["daemons"]["slurmd"]) == (True, {"wanted": 2, "up": 2, "ready": 2})
    assert call("slurm_farm", check=True, **params)["changed"] is False
    again = call("slurm_farm", **params)
    assert (again["changed"], again["farm"]["controller_pid"]) == (False, started["farm"]["controller_pid"])
    more = {**params, "nodes": nodes(4)}
    assert call("slurm_farm", check=True, **more)["changed"] is True
    assert slurmd_of(params) == 2
    grown = call("slurm_farm", **more)
    assert (grown["farm"]["pid"], slurmd_of(params)) == (started["farm"]["pid"], 4)
    digest = call("slurm_farm", **{**more, "controller_digest": "2"})
    assert digest["farm"]["controller_pid"] != started["farm"]["controller_pid"], "the daemon was restarted"
    stop = {"directory": params["directory"], "state": "stopped"}
    assert call("slurm_farm", check=True, **stop)["changed"] is True
    assert slurmd_of(params) == 4
    running = len(processes.of_instance(params["directory"]))
    stopped = call("slurm_farm", **stop)
    assert (stopped["changed"], stopped["ended"]) == (True, running)
    assert processes.of_instance(params["directory"]) == {}
    assert call("slurm_farm", **stop)["changed"] is False


@without_systemd
def test_a_specification_that_the_farm_has_not_read_is_a_change(call: Caller, params: dict[str, Any]) -> None:
    """An earlier call was killed after it had written the specification."""
    call("slurm_farm", **params)
    module = load("slurm_farm")
    defaults = {
        "controller": True,
        "controller_digest": "",
        "second_hostname": "",
        "shared_folder": "",
        "fresh": "",
        "hostname": "localhost",
        "addresses": {},
        "parallel": 32,
        "environment": {},
        "speed": 1.0,
        "event_clock": False,
        "clock": None,
        "controller_hostname": None,
        "wide_steps": False,
        "rm": "slurm",
        "daemons": {},
        "database_port": 0,
        "mariadbd": "/usr/sbin/mariadbd",
        "extras": {},
        "python": sys.executable,
    }
    wanted = {**defaults, **params, "nodes": [{"prefix": "n", "first": 1, "count": 3, "digest": "1", "hostname": None}]}
    write_json(Path(params["directory"], "etc/farm.json"), module.specification(Path(params["directory"]), wanted))
    three = {**params, "nodes": nodes(3)}
    assert call("slurm_farm", check=True, **three)["changed"] is True
    assert call("slurm_farm", **three)["changed"] is True
    assert slurmd_of(params) == 3


def test_slurmctld_of_a_cluster_on_several_hosts_sees_the_host_name_of_its_host(params: dict[str, Any]) -> None:
    defaults = {
        "controller": True,
        "controller_digest": "",
        "second_hostname": "",
        "shared_folder": "",
        "database_port": 0,
        "mariadbd": "",
        "wide_steps": False,
    }
    defaults |= {"hostname": "10.0.0.1", "event_clock": False, "python": sys.executable}
    wanted = {**defaults, **params, "nodes": [], "controller_hostname": "head"}
    munged, slurmctld = specifications(Path(params["directory"]), layout_of(wanted))
    assert "hostname" not in munged and slurmctld["hostname"] == "head"
    assert munged["command"][-1] == "--origin=127.0.0.1", "the hosts' names need no name server"
    assert "hostname" not in specifications(Path(params["directory"]), layout_of({**wanted, "hostname": "head"}))[1]


@without_systemd
def test_a_host_that_is_not_the_head_uses_the_heads_clock(call: Caller, params: dict[str, Any]) -> None:
    """A new clock restarts the daemons that use it, but not munged."""
    directory = Path(params["directory"])
    (directory / "state").mkdir()
    shutil.chown(directory / "state", USER)
    (directory / "lib/virtual_clock.so").write_bytes(b"")
    params |= {"controller": False, "speed": 20.0}
    first, second = (f"mirage-clock 1 1800000000000000000 18{digit}0000000000000000 20\n" for digit in (1, 2))

    def daemons() -> tuple[set[int], set[int]]:
        """Return the process ids of the daemons that use the clock, and of the others."""
        environments = {pid: processes.environment(pid) for pid in processes.of_instance(str(directory))}
        uses_clock = {pid: "SLURM_MIRAGE_CLOCK" in env for pid, env in environments.items() if "SLURM_MIRAGE_DIGEST" in env}
        return {pid for pid, uses in uses_clock.items() if uses}, {pid for pid, uses in uses_clock.items() if not uses}

    assert call("slurm_farm", **params, clock=first)["changed"] is True
    assert (directory / "state/clock").read_text() == first
    before = daemons()
    assert call("slurm_farm", **params, clock=first)["changed"] is False
    assert call("slurm_farm", **params, clock=second)["changed"] is True
    after = daemons()
    assert (directory / "state/clock").read_text() == second
    assert [len(pids) for pids in (*before, *after)] == [2, 1, 2, 1]
    assert before[1] == after[1] and not before[0] & after[0]
    assert call("slurm_farm", **{**params, "speed": 1.0}, clock="")["changed"] is True
    assert not (directory / "state/clock").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"addresses": {"10.0.0.1": "head", "10.0.0.2": "other"}}, "SPEED=event: the event clock is for one host"),
        ({"controller": False, "clock": "mirage-clock 1 1 1 20\n"}, "SPEED=event: the event clock is for one host"),
        ({}, "virtual_clock.so is not there"),
        ({"library": True}, "clock_coordinator is not there"),
        ({"speed": 0, "event_clock": False}, "must be a number above 0, or event"),
        ({"speed": 1e9, "event_clock": False}, "may be a number from"),
    ],
)
def test_an_event_clock_that_is_not_possible_is_refused_in_one_line(
    call: Caller, params: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    directory = Path(params["directory"])
    if arguments.pop("library", False):
        (directory / "lib/virtual_clock.so").write_bytes(b"")
    text = call("slurm_farm", **{**params, "event_clock": True, **arguments})["msg"]
    assert message in text and text.startswith("wrong use: SPEED") and "\n" not in text
    assert not (directory / "etc/farm.json").exists()


def test_the_specification_of_an_event_clock(params: dict[str, Any]) -> None:
    directory, module = Path(params["directory"]), load("slurm_farm")
    for name in ("virtual_clock.so", "clock_coordinator"):
        (directory / "lib" / name).write_bytes(b"")
    wanted = {
        "speed": 1.0,
        "event_clock": True,
        "charge": True,
        "clock": None,
        "addresses": {},
        "rm": "slurm",
        "daemons": {},
        "python": sys.executable,
    }
    clock = module.clock_of(directory, wanted)
    assert (clock["speed"], clock["charge"]) == ("event", True)
    more = {
        "controller": False,
        "hostname": "localhost",
        "controller_hostname": None,
        "controller_digest": "",
        "second_hostname": "",
        "shared_folder": "",
        "database_port": 0,
    }
    layout = layout_of({**params, **wanted, **more, "mariadbd": "", "wide_steps": False, "nodes": []})
    munged, coordinator = specifications(directory, layout)
    assert coordinator["command"] == [f"{directory}/lib/clock_coordinator", f"{directory}/state/clock"]
    assert (munged["kind"], coordinator["kind"]) == ("munged", "clock")
    assert [daemon["kind"] for daemon in specifications(directory, replace(layout, event_clock=False))] == ["munged"]


def on_one_host(params: dict[str, Any]) -> dict[str, Any]:
    """The options of a head without nodes."""
    return {
        **params,
        "controller": True,
        "hostname": "localhost",
        "controller_hostname": None,
        "controller_digest": "",
        "second_hostname": "",
        "shared_folder": "",
        "database_port": 0,
        "event_clock": False,
        "mariadbd": "",
        "wide_steps": False,
        "nodes": [],
        "extras": {},
        "python": sys.executable,
    }


def test_slurmctld_reads_the_file_that_a_run_chooses_where_there_are_other_configurations(params: dict[str, Any]) -> None:
    directory = Path(params["directory"])
    wanted = on_one_host(params)
    layout = layout_of(wanted)
    before = specifications(directory, layout)[1]
    (directory / "etc/active-slurm.conf").symlink_to("../run/slurm.conf")
    after = specifications(directory, layout)[1]
    assert [one["command"][-1] for one in (before, after)] == [f"{directory}/etc/{name}slurm.conf" for name in ("", "active-")]
    assert after["environment"]["SLURM_CONF"] == after["command"][-1]


def test_another_resource_manager_is_refused(call: Caller, params: dict[str, Any]) -> None:
    assert f"rm=torque: one of {KNOWN}" in call("slurm_farm", **params, rm="torque")["msg"].lower()


def test_a_second_slurmctld_runs_beside_the_first(params: dict[str, Any]) -> None:
    directory = Path(params["directory"])
    wanted = on_one_host(params)
    layout = layout_of({**wanted, "second_hostname": "127.0.0.2"})
    _, first, second = specifications(directory, layout)
    assert (first["name"], second["name"], second["kind"], second["hostname"]) == (
        "slurmctld",
        "slurmctld2",
        "slurmctld2",
        "127.0.0.2",
    )
    assert second["command"][-1] == second["environment"]["SLURM_CONF"] == f"{directory}/etc/slurm2.conf"
    assert first["ready_file"] != second["ready_file"], "a slurmctld ends the one whose pid file it finds"
    on_another_host = farm_content(
        directory, {**wanted, "controller": False, "second_hostname": "slurmctld2-wide", "shared_folder": "/shared/wide"}
    )
    assert [daemon["kind"] for daemon in on_another_host["daemons"]] == ["munged", "slurmctld2"]
    assert (on_another_host["daemons"][1]["hostname"], on_another_host["saved_in"]) == ("slurmctld2-wide", "/shared/wide")
    assert "saved_in" not in farm_content(directory, wanted)


@without_systemd
def test_accounting_is_added_and_removed(call: Caller, params: dict[str, Any]) -> None:
    directory = Path(params["directory"])
    for name in ("mariadbd", "slurmdbd"):
        (directory / "sbin" / name).write_text(DAEMON)
        (directory / "sbin" / name).chmod(0o755)
    (directory / "etc/mariadb.cnf").write_text("[mariadbd]")
    (directory / "etc/slurmdbd.conf").write_text("DbdPort=1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        accounting = {**params, "database_port": server.getsockname()[1], "mariadbd": f"{directory}/sbin/mariadbd"}
        kinds = set(call("slurm_farm", **accounting)["farm"]["daemons"])
        assert kinds == {"mariadbd", "munged", "slurmctld", "slurmd", "slurmdbd"}
        # slurmdbd is identified by its environment, because all daemons of this test have become `sleep`.
        environments = {pid: processes.environment(pid) for pid in processes.of_instance(str(directory))}
        (slurmdbd,) = (pid for pid, environment in environments.items() if "MYSQL_UNIX_PORT" in environment)
        assert environments[slurmdbd]["SLURM_CONF"] == f"{directory}/etc/slurm.conf"
        assert environments[slurmdbd]["MYSQL_UNIX_PORT"] == f"{directory}/run/private/mariadb.socket"
        assert call("slurm_farm", **accounting)["changed"] is False
        (directory / "etc/slurmdbd.conf").write_text("DbdPort=2")
        assert call("slurm_farm", **accounting)["changed"] is True
        assert not processes.command_line(slurmdbd), "the daemon was restarted"
    assert set(call("slurm_farm", **params)["farm"]["daemons"]) == {"munged", "slurmctld", "slurmd"}


def test_a_fast_clock_needs_its_library(call: Caller, params: dict[str, Any]) -> None:
    message = call("slurm_farm", **params, speed=20)["msg"]
    assert message.startswith("wrong use: SPEED=20: ") and "virtual_clock.so is not there" in message
    assert not Path(params["directory"], "etc/farm.json").exists()


@without_systemd
def test_changed_code_restarts_the_farm_and_a_killed_farm_is_started(call: Caller, params: dict[str, Any]) -> None:
    first = call("slurm_farm", **params)["farm"]
    with Path(params["directory"], "lib/slurm_mirage/farm.py").open("a") as code:
        code.write("# newer\n")
    second = call("slurm_farm", **params)["farm"]
    assert second["pid"] != first["pid"]
    os.kill(second["pid"], signal.SIGKILL)
    while processes.is_alive(second["pid"], second["start_time"]):
        time.sleep(0.01)
    third = call("slurm_farm", **params)
    assert (third["changed"], third["farm"]["daemons"]["slurmd"]["ready"]) == (True, 2)


@without_systemd
def test_the_error_says_why_a_daemon_does_not_start(call: Caller, params: dict[str, Any]) -> None:
    Path(params["sbin"], "slurmd").write_text("#!/bin/sh\necho 'fatal: no such luck' >> log/slurmd.$3.log\nexit 1\n")
    result = call("slurm_farm", **{**params, "nodes": nodes(1)})
    assert result["msg"] == f"n1 does not start: exit 1: fatal: no such luck; see {params['directory']}/log"
    Path(params["sbin"], "slurmd").unlink()
    assert (
        "cannot be started: [Errno 2] No such file or directory" in call("slurm_farm", **{**params, "nodes": nodes(1, "2")})["msg"]
    )


def starting(params: dict[str, Any], **more: Any) -> Path:
    """Write the state of a farm that has read its specification and is starting daemons; returns its directory."""
    directory = Path(params["directory"])
    write_json(directory / "etc/farm.json", {})
    state = farm_state(
        specification=file_digest(directory / "etc/farm.json"),
        phase="starting",
        daemons={"slurmd": {"wanted": 16384, "up": 5120, "ready": 5100}},
    )
    write_json(directory / "run/farm.json", state | more)
    return directory


def test_the_error_for_too_little_memory_says_what_to_do(params: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError) as error:
        waiting.wait_for(starting(params, waiting_for_memory=60), 3600)
    assert str(error.value).startswith("the host has no memory for more slurmd: 5120 of 16384 run, ")
    assert "take fewer NODES" in str(error.value)


def test_the_error_names_the_failing_daemon_that_others_need(params: dict[str, Any]) -> None:
    failing = {"n1": "exit 1", "slurmctld": "exit 1: fatal: slurmdbd must be up", "slurmdbd": "exit 1: fatal: no such word"}
    with pytest.raises(RuntimeError, match=r"^slurmdbd \(of 3 daemons\) does not start: exit 1: fatal: no such word; see "):
        waiting.wait_for(starting(params, failing=failing, failing_count=3), 3600)


def test_progress_increases_with_each_step_of_a_reload() -> None:
    """The farm reads its specification, then daemons end, then daemons become ready."""

    def state(specification: str, leaving: int, ready: int) -> dict[str, Any]:
        return {"specification": specification, "leaving": leaving, "daemons": {"slurmd": {"ready": ready}}}

    steps = [("old", 0, 3600), ("new", 3600, 3600), ("new", 40, 40), ("new", 0, 0), ("new", 0, 1)]
    progress = [waiting.progress_of(state(*step), "new") for step in steps]
    assert progress == sorted(progress)
    assert len(set(progress)) == len(steps)


@without_systemd
def test_changes_are_refused_while_a_replay_runs(
    call: Caller, params: dict[str, Any], replaying: Callable[[Path, str], None]
) -> None:
    call("slurm_farm", **params)
    spec = Path(params["directory"], "etc/farm.json")
    before = spec.read_text()
    replaying(Path(params["directory"]), "kth")
    assert call("slurm_farm", **params)["changed"] is False
    refused = call("slurm_farm", **{**params, "nodes": nodes(3)})
    assert refused["msg"].startswith("wrong use: NODES, CPUS, PORT, CONFIG: run kth goes on")
    assert spec.read_text() == before


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root")
def test_root_kills_no_process_and_follows_no_link_chosen_by_the_instances_user(call: Caller, params: dict[str, Any]) -> None:
    directory = Path(params["directory"])
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        state = farm_state(pid=stranger.pid, start_time=processes.start_time(stranger.pid))
        (directory / "run/farm.json").write_text(json.dumps(state))
        assert call("slurm_farm", directory=str(directory), state="stopped")["changed"] is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    (directory / "log/farm.log").symlink_to(directory / "etc/target")
    if not Path("/run/systemd/system").is_dir():
        assert "log/farm.log: is a symbolic link; remove it" in call("slurm_farm", **params)["msg"]
        assert not (directory / "etc/target").exists()


def test_info_of_an_instance_that_does_not_run(call: Caller, tmp_path: Path) -> None:
    result = call("slurm_farm_info", directory=str(tmp_path))
    assert [result[key] for key in ("changed", "farm", "nodes", "jobs")] == [False, {"phase": "stopped"}, {}, {}]
    assert 0 < result["memory"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert call("slurm_farm_info", directory=str(tmp_path), wait=1)["msg"] == f"the farm does not run; see {tmp_path}/log"


def test_info_of_a_running_instance(call: Caller, tmp_path: Path, replaying: Callable[[Path, str], None]) -> None:
    (tmp_path / "run").mkdir()
    state = farm_state()
    (tmp_path / "run/farm.json").write_text(json.dumps(state))
    answers = {
        "sinfo": 'case "$*" in *%C) echo "idle|7|0/24/0/24"; echo "mixed|1|3/5/0/8";; *) printf "idle 6\\nplanned 2";; esac',
        "squeue": 'printf "RUNNING\\nPENDING\\nRUNNING\\n"',
        "sdiag": 'echo "Backfilling stats"; echo "  Last cycle: 7289"',
    }
    for name, answer in answers.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n[ "$SLURM_CONF" = {tmp_path}/etc/slurm.conf ] || exit 1\n{answer}\n')
        (tmp_path / name).chmod(0o755)
    replaying(tmp_path, "one")
    progress = {"run": "one", "phase": "submitting", "submitted": 3}
    (tmp_path / "runs/one/progress.json").write_text(json.dumps(progress))
    result = call("slurm_farm_info", directory=str(tmp_path), bin=str(tmp_path), wait=1)
    assert (result["processors"], result["scheduler"]["bf_last_cycle_us"]) == ({"busy": 3, "all": 32}, 7289)
    assert result["progress"] == progress
    assert (result["farm"], result["nodes"], result["jobs"]) == (state, {"idle": 6, "planned": 2}, {"running": 2, "pending": 1})


def test_the_error_names_the_states_of_unregistered_nodes(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    state = farm_state()
    (tmp_path / "run/farm.json").write_text(json.dumps(state))
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'idle 5\nunknown* 2'\n")
    (tmp_path / "sinfo").chmod(0o755)
    result = call("slurm_farm_info", directory=str(tmp_path), bin=str(tmp_path), wait=1)
    assert result["msg"] == f"for 1 s no further node has registered: {{'idle': 5, 'unknown*': 2}}; see {tmp_path}/log"
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'idle 5\ndrained 2'\n")
    result = call("slurm_farm_info", directory=str(tmp_path), bin=str(tmp_path), wait=1)
    told = "2 nodes are drained (in `make shell`: `scontrol update NodeName=NAMES State=RESUME`; `sinfo -R` has the names)"
    assert result["msg"] == f"for 1 s no further node has registered: {{'idle': 5, 'drained': 2}}; {told}"


@without_systemd
def test_a_slurmctld_that_ends_again_and_again_ends_the_wait_for_nodes(call: Caller, params: dict[str, Any]) -> None:
    """It is ready for a moment each time. A query of a slurmctld that is not there takes longer than the test."""
    directory = Path(params["directory"])
    call("slurm_farm", **params)
    failing = "echo 'slurmctld: error: no such key'; echo 'slurmctld: fatal: no such luck'; rm run/slurmctld.pid; exit 1"
    (directory / "sbin/slurmctld").write_text(f"#!/bin/sh\necho > run/slurmctld.pid\nsleep 0.3\n{failing}\n")
    (directory / "sbin/sinfo").write_text("#!/bin/sh\nexec sleep 30\n")
    (directory / "sbin/sinfo").chmod(0o755)
    state = json.loads((directory / "run/farm.json").read_text())
    os.kill(state["controller_pid"], signal.SIGKILL)
    result = call("slurm_farm_info", directory=str(directory), bin=str(directory / "sbin"), wait=300)
    assert result["msg"].startswith("slurmctld does not start: exit 1: error: no such key; fatal: no such luck; ")


@without_systemd
def test_a_farm_that_does_not_start_is_reported_with_its_last_words(call: Caller, params: dict[str, Any]) -> None:
    (Path(params["directory"]) / "lib/slurm_mirage/programs/farm.py").write_text("raise SystemExit('farm: no such luck')\n")
    message = call("slurm_farm", **params)["msg"]
    assert message == f"the farm does not run: farm: no such luck; see {params['directory']}/log/farm.log"


def test_a_new_key_of_munged_alone_is_told_from_other_changes() -> None:
    before = {"user": "u", "daemons": [{"kind": "munged", "digest": ""}, {"kind": "slurmctld", "digest": "1"}]}
    new_key = {**before, "daemons": [{"kind": "munged", "digest": "2"}, before["daemons"][1]]}
    other = {**new_key, "daemons": [new_key["daemons"][0], {"kind": "slurmctld", "digest": "2"}]}
    assert control.is_allowed_in_run(before, new_key)
    assert not control.is_allowed_in_run(before, other)
    assert not control.is_allowed_in_run(before, {**new_key, "user": "v"})
    assert not control.is_allowed_in_run(None, new_key)
    assert not control.is_allowed_in_run(before, before)


@without_systemd
def test_a_damaged_specification_is_written_anew(call: Caller, params: dict[str, Any]) -> None:
    pid = call("slurm_farm", **params)["farm"]["pid"]
    specification = Path(params["directory"], "etc/farm.json")
    specification.write_text("{{")
    again = call("slurm_farm", **params)
    assert (again["changed"], again["farm"]["pid"]) == (True, pid)
    assert json.loads(specification.read_text())["user"] == params["user"]
