"""The farm with real processes: small shell programs in place of the daemons, which start, fail and hang."""

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
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_mirage.base import processes
from slurm_mirage.base.files import file_digest
from slurm_mirage.clock.clock import Clock
from slurm_mirage.clock.instance_clock import clock_file
from slurm_mirage.farm import absent
from slurm_mirage.farm.daemons import Spec
from slurm_mirage.farm.events import how_it_ended, read_events
from slurm_mirage.farm.farm import Farm, failure_of, read_state

PACKAGE = Path(__file__).parents[3] / "module_utils"
USER = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
REAL_TIME = {"speed": 1.0, "library": ""}
DAEMON = "echo $$ > \"$2\"\ncase $1 in *bad*) echo 'fatal: no such luck'; exit 3;; esac\nsleep 300 &\nwait\n"


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


class Bed:
    """An instance's directory, and the farm that runs there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.farm: subprocess.Popen[bytes] | None = None
        for name in ("etc", "run", "log", "state"):
            (directory / name).mkdir()
            if os.getuid() == 0:
                shutil.chown(directory / name, USER)
        self.program = directory / "daemon.sh"
        self.program.write_text(DAEMON)

    def entry(self, count: int, digest: str = "1", name: str = "n{i}", kind: str = "slurmd", **more: object) -> dict:
        ready = f"{self.directory}/run/{name}.pid"
        command = ["/bin/sh", str(self.program), name, ready]
        entry = {"kind": kind, "name": name, "first": 1, "count": count, "digest": digest, "ready_file": ready}
        return {**entry, "command": command, **more}

    def specify(self, count: int = 5, digest: str = "1", name: str = "n{i}") -> None:
        self.specify_all(self.entry(count, digest, name))

    def specify_all(
        self,
        *entries: dict,
        speed: float = 1.0,
        addresses: dict[str, str] | None = None,
        clock: dict | None = None,
        fresh: str = "",
        saved_in: str = "",
    ) -> None:
        clock = {"library": "", **(clock or {"speed": speed})}
        spec = {"user": USER, "hostname": "localhost", "parallel": 2, "environment": {}, "clock": clock, "identity": "1"}
        spec |= {"daemons": entries, "addresses": addresses or {}, "fresh": fresh, "saved_in": saved_in}
        # Replaced whole, as by Ansible: the farm may still read it after an earlier SIGHUP.
        new = self.directory / "etc/farm.json.new"
        new.write_text(json.dumps(spec))
        new.replace(self.directory / "etc/farm.json")

    def start(self, *program: str, wrapper: tuple[str, ...] = ()) -> None:
        command = [*wrapper, sys.executable, *(program or ("-m", "slurm_mirage.programs.farm", "run")), str(self.directory)]
        marks = {processes.INSTANCE_VARIABLE: str(self.directory)}
        self.farm = subprocess.Popen(command, env={**os.environ, **marks})

    def state(self) -> dict:
        return read_state(self.directory) or {"phase": "none", "daemons": {}}

    def is_up(self, count: int) -> bool:
        """Return whether the farm has read the current specification and all of its `count` slurmd are ready."""
        state = self.state()
        if state.get("specification") != file_digest(self.directory / "etc/farm.json"):
            return False
        return state["phase"] == "running" and state["daemons"]["slurmd"] == {"wanted": count, "up": count, "ready": count}

    def replaced(self, name: str, before: int) -> bool:
        """Return whether another process than `before` has the name now. While it starts, its ready file is missing or empty."""
        return self.daemons().get(name, before) != before

    def daemons(self) -> dict[str, int]:
        """Return the process ids of started daemons by name. Their ready files have the ids inside their PID namespaces."""
        parents = processes.parents()
        commands = {pid: processes.command_line(pid) for pid in processes.of_instance(str(self.directory))}
        first = {pid: words for pid, words in commands.items() if commands.get(parents.get(pid, 0)) != words}
        return {
            words[2]: pid for pid, words in first.items()
            if words[1:2] == [str(self.program)] and Path(words[3]).exists() and Path(words[3]).read_text()
        }  # fmt: skip


@pytest.fixture
def bed() -> Iterator[Bed]:
    # pytest's tmp_path cannot be used: the farm continues as another user, who may not enter it.
    directory = Path("/tmp", f"farm-test-{os.getpid()}-{time.monotonic_ns()}")
    directory.mkdir(mode=0o755)
    bed = Bed(directory)
    yield bed
    if bed.farm is not None:
        bed.farm.terminate()
        bed.farm.wait(120)
    processes.end(processes.of_instance(str(directory)), 5)
    shutil.rmtree(directory)


def test_a_specification_entry_with_count(tmp_path: Path) -> None:
    entry = {"kind": "slurmd", "name": "n{i}", "first": 3, "count": 2, "digest": "d"}
    entry |= {"command": ["slurmd", "-N", "n{i}"], "ready_file": "/run/n{i}.pid"}
    spec = {"user": "u", "hostname": "h", "parallel": 1, "environment": {}, "clock": REAL_TIME, "identity": "1", "daemons": [entry]}
    (tmp_path / "farm.json").write_text(json.dumps(spec))
    daemons = Spec.load(tmp_path / "farm.json").daemons
    assert list(daemons) == ["n3", "n4"]
    assert (daemons["n4"].command, daemons["n4"].ready_file) == (["slurmd", "-N", "n4"], "/run/n4.pid")


def test_the_farm_starts_all_daemons_as_the_unprivileged_user_and_stops_them(bed: Bed) -> None:
    bed.specify(count=7)
    bed.start()
    until(lambda: bed.is_up(7))
    pids = bed.daemons()
    assert len(pids) == 7
    assert {Path(f"/proc/{pid}").owner() for pid in pids.values()} == {USER}
    bed.farm.send_signal(signal.SIGTERM)
    assert bed.farm.wait(120) == 0
    assert processes.of_instance(str(bed.directory)) == {}
    assert read_state(bed.directory) is None


def test_a_killed_daemon_is_restarted(bed: Bed) -> None:
    bed.specify()
    bed.start()
    until(lambda: bed.is_up(5))
    victim = bed.daemons()["n3"]
    os.kill(victim, signal.SIGKILL)
    until(lambda: bed.state().get("restarts") == 1 and bed.is_up(5))
    assert bed.daemons()["n3"] != victim


def test_a_failing_daemon_is_reported_with_its_last_error(bed: Bed) -> None:
    bed.specify(count=1, name="bad{i}")
    bed.program.write_text(
        DAEMON.replace("echo 'fatal", f"echo 'fatal: no such luck' >> {bed.directory}/log/slurmd.bad1.log; echo 'fatal")
    )
    bed.start()
    until(lambda: bool(bed.state().get("failing")))
    assert bed.state()["failing"] == {"bad1": "exit 3: fatal: no such luck"}


def test_a_controller_that_is_killed_again_and_again_comes_back_each_time(bed: Bed) -> None:
    bed.specify_all(bed.entry(1, name="slurmctld", kind="slurmctld"))
    bed.start()

    def is_ready(restarts: int) -> bool:
        state = bed.state()
        return state.get("restarts") == restarts and state["daemons"]["slurmctld"]["ready"] == 1

    for times in range(5):
        until(lambda number=times: is_ready(number))
        assert bed.state()["failing"] == {}
        os.kill(bed.daemons()["slurmctld"], signal.SIGKILL)


def test_the_unexpected_ends_of_daemons_are_events(bed: Bed) -> None:
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    began = time.time()
    victim = bed.daemons()["n2"]
    os.kill(victim, signal.SIGKILL)
    until(lambda: bed.is_up(2) and bed.replaced("n2", victim))
    # A daemon that is restarted for another configuration has not ended unexpectedly.
    bed.specify(count=2, digest="2")
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(2))
    (event,) = read_events(bed.directory, began)
    assert (event["daemon"], event["kind"], event["exit"], event["signal"]) == ("n2", "slurmd", None, 9)
    assert how_it_ended(event) == "killed by signal 9, by a user or by the kernel"
    assert read_events(bed.directory, time.time()) == []


def test_the_end_of_a_farm_is_an_event_of_the_next_one(bed: Bed) -> None:
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.is_up(1))
    assert read_events(bed.directory, 0) == []
    before = bed.daemons()["n1"]
    bed.farm.kill()
    bed.farm.wait()
    os.kill(before, signal.SIGKILL)
    bed.start()
    until(lambda: bed.is_up(1))
    assert [event["daemon"] for event in read_events(bed.directory, 0)] == ["farm"]


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to mount a small file system")
def test_a_full_folder_is_an_event_and_the_farm_goes_on(bed: Bed) -> None:
    for name in ("log", "state"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(bed.directory / name)], check=True)
        shutil.chown(bed.directory / name, USER)
    try:
        bed.specify(count=2)
        bed.start()
        until(lambda: bed.is_up(2))
        for name in ("state", "log"):
            with suppress(OSError), (bed.directory / name / "filler").open("wb", buffering=0) as stream:
                while True:
                    stream.write(b"x" * 4096)
        # The farm looks for full folders before it writes its state, which is in another folder.
        bed.specify(count=1)
        bed.farm.send_signal(signal.SIGHUP)
        until(lambda: bed.is_up(1))
        (bed.directory / "log/filler").unlink()
        until(lambda: len(read_events(bed.directory, 0)) == 2)
        found = {event["path"] for event in read_events(bed.directory, 0)}
        assert found == {str(bed.directory / name) for name in ("state", "log")}
    finally:
        bed.farm.terminate()
        bed.farm.wait(120)
        for name in ("log", "state"):
            subprocess.run(["umount", str(bed.directory / name)], check=True)


def test_a_daemon_that_somebody_has_stopped_is_a_failure_after_some_time(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.specify_all(bed.entry(1, name="munged", kind="munged"))
    farm = Farm(bed.directory)
    with subprocess.Popen(["sleep", "100"]) as process:
        farm.daemons["munged"].pid = process.pid
        process.send_signal(signal.SIGSTOP)
        until(lambda: processes.is_stopped(process.pid))
        assert farm.state()["stopped"] == {}
        monkeypatch.setattr("slurm_mirage.farm.farm.STOPPED_AFTER", 0.0)
        state = farm.state()
        assert state["stopped"] == {"munged": process.pid}
        assert failure_of(state, bed.directory) == (
            f"munged has been stopped by a signal: let it go on with `kill -CONT {process.pid}`"
        )
        process.send_signal(signal.SIGCONT)
        until(lambda: not processes.is_stopped(process.pid))
        assert farm.state()["stopped"] == {} and failure_of(farm.state(), bed.directory) == ""
        process.kill()
    assert failure_of(state | {"stopped": {"munged": "; reboot"}}, bed.directory) == ""


def test_a_clock_that_cannot_be_read_is_a_trouble_and_not_the_end_of_the_farm(bed: Bed) -> None:
    clock_file(bed.directory).write_text("garbage")
    bed.specify_all(bed.entry(1), speed=2.0)
    bed.start()
    until(lambda: "virtual clock cannot be read" in bed.state().get("trouble", ""))
    clock_file(bed.directory).unlink()
    until(lambda: bed.is_up(1))
    assert bed.state()["trouble"] == ""


def test_sighup_applies_a_changed_specification(bed: Bed) -> None:
    bed.specify(count=3)
    bed.start()
    until(lambda: bed.is_up(3))
    before = bed.daemons()
    bed.specify(count=5)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(5))
    assert {name: pid for name, pid in bed.daemons().items() if name in before} == before
    bed.specify(count=2)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(2) and not processes.start_time(before["n3"]))
    bed.specify(count=2, digest="2")
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(2) and bed.replaced("n1", before["n1"]) and bed.replaced("n2", before["n2"]))


def test_a_changed_command_restarts_the_daemons(bed: Bed) -> None:
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    before = bed.daemons()
    other = bed.directory / "other.sh"
    shutil.copy(bed.program, other)
    bed.program = other
    bed.specify(count=2)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(2) and not set(bed.daemons().values()) & set(before.values()))
    assert {processes.command_line(pid)[1] for pid in bed.daemons().values()} == {str(other)}


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_controller_begins_with_a_clean_state_once_for_each_name(bed: Bed, is_shared: bool) -> None:
    folder = bed.directory / "shared" if is_shared else bed.directory
    for name in ("state", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(folder / name, USER)

    def specify(fresh: str) -> None:
        controller, saved_in = bed.entry(1, name="slurmctld", kind="slurmctld"), str(folder) if is_shared else ""
        bed.specify_all(bed.entry(2), controller, speed=2.0, fresh=fresh, saved_in=saved_in)

    def is_ready() -> bool:
        state = bed.state()
        is_read = state.get("specification") == file_digest(bed.directory / "etc/farm.json")
        return is_read and state["phase"] == "running" and all(one["ready"] == one["wanted"] for one in state["daemons"].values())

    saved, record, clock = folder / "state/job_state", folder / "log/jobcomp.log", bed.directory / "state/clock"

    def save() -> None:
        for path in (saved, record):
            path.write_text("saved")
        (folder / "state/hash.0").mkdir(exist_ok=True)
        if os.getuid() == 0:
            for path in (saved, record, folder / "state/hash.0"):
                shutil.chown(path, USER)

    specify("")
    save()
    bed.start()
    until(is_ready)
    assert saved.exists(), "without a name the state is kept"
    before = bed.daemons()
    for name in ("first", "second"):
        save()
        controller = bed.daemons()["slurmctld"]
        specify(name)
        bed.farm.send_signal(signal.SIGHUP)
        # The farm's state still says that all are ready while it removes the files.
        until(lambda one=controller: is_ready() and bed.replaced("slurmctld", one))
        assert not saved.exists() and not record.exists() and not (folder / "state/hash.0").exists()
        assert clock.exists()
    after = bed.daemons()
    assert after["slurmctld"] != before["slurmctld"] and {name: after[name] for name in ("n1", "n2")} == {
        name: before[name] for name in ("n1", "n2")
    }
    save()
    for fresh in ("second", ""):
        specify(fresh)
        bed.farm.send_signal(signal.SIGHUP)
        until(is_ready)
    os.kill(after["slurmctld"], signal.SIGKILL)
    until(lambda: is_ready() and bed.replaced("slurmctld", after["slurmctld"]))
    assert saved.exists(), "neither the same name nor a crash removes the state"


def test_a_failing_daemon_is_not_restarted_after_it_was_removed(bed: Bed) -> None:
    bed.specify(count=2, name="bad{i}")
    bed.start()
    until(lambda: bool(bed.state().get("failing")))
    bed.specify(count=1)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(1))
    assert bed.state()["failing"] == {}
    commands = [processes.command_line(pid) for pid in processes.of_instance(str(bed.directory))]
    assert [words for words in commands if len(words) > 2 and words[2].startswith("bad")] == []


def test_a_daemon_that_ignores_sigterm_on_reload_is_killed(bed: Bed) -> None:
    bed.program.write_text("trap '' TERM\n" + DAEMON.replace("wait", "wait; wait; sleep 300"))
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.is_up(1))
    before = bed.daemons()["n1"]
    bed.specify(count=1, digest="2")
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(1) and bed.replaced("n1", before))
    assert processes.start_time(before) is None
    assert bed.state()["restarts"] == 0
    # A farm that is terminated would wait for the daemon again, and so would the end of the test.
    bed.farm.kill()
    bed.farm.wait()
    for pid in processes.of_instance(str(bed.directory)):
        with suppress(ProcessLookupError):  # it has ended with its namespace
            os.kill(pid, signal.SIGKILL)


def test_a_missing_program_is_reported_and_tried_again(bed: Bed) -> None:
    bed.specify(count=1)
    spec = json.loads((bed.directory / "etc/farm.json").read_text())
    missing = str(bed.directory / "slurmd")
    spec["daemons"][0]["command"][0] = missing
    (bed.directory / "etc/farm.json").write_text(json.dumps(spec))
    bed.start()
    until(lambda: bool(bed.state().get("failing")))
    assert bed.state()["failing"]["n1"].startswith("cannot be started: [Errno 2] No such file or directory")
    Path(missing).symlink_to("/bin/sh")
    until(lambda: bed.is_up(1))


def test_a_daemon_adopted_before_it_was_ready_becomes_ready(bed: Bed) -> None:
    """Its ready file appears after the new farm has adopted it."""
    bed.program.write_text(DAEMON.replace("echo $$", 'until [ -e "$0.go" ]; do sleep 0.05; done; echo $$', 1))
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.state()["daemons"].get("slurmd") == {"wanted": 1, "up": 1, "ready": 0})
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: bed.state()["daemons"].get("slurmd") == {"wanted": 1, "up": 1, "ready": 0})
    Path(f"{bed.program}.go").touch()
    until(lambda: bed.is_up(1))


def test_daemons_and_jobs_ignore_no_signal(bed: Bed) -> None:
    """Python ignores SIGPIPE and SIGXFSZ; its children must not."""
    bed.program.write_text(f"grep SigIgn /proc/self/status > {bed.directory}/run/ignored\n{DAEMON}")
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.is_up(1))
    ignored = int((bed.directory / "run/ignored").read_text().split()[1], 16)
    assert [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1] == []


def test_the_state_has_the_digest_of_the_specification_read_last(bed: Bed) -> None:
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.is_up(1))
    assert bed.state()["specification"] == file_digest(bed.directory / "etc/farm.json")
    bed.specify(count=2)
    assert bed.state()["specification"] != file_digest(bed.directory / "etc/farm.json")
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.state().get("specification") == file_digest(bed.directory / "etc/farm.json"))


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root")
def test_a_farm_started_by_root_follows_no_symbolic_link_at_the_lock_file(bed: Bed) -> None:
    bed.specify(count=1)
    target = bed.directory / "etc/target"
    (bed.directory / "run/farm.lock").symlink_to(target)
    bed.start()
    assert bed.farm.wait(120) != 0
    assert not target.exists()


def test_the_daemons_of_a_killed_farm_are_adopted(bed: Bed) -> None:
    bed.specify(count=4)
    bed.start()
    until(lambda: bed.is_up(4))
    before = bed.daemons()
    bed.farm.kill()
    bed.farm.wait()
    assert read_state(bed.directory) is None
    os.kill(before["n2"], signal.SIGKILL)
    bed.start()
    until(lambda: bed.is_up(4))
    after = bed.daemons()
    assert {name for name in after if after[name] != before[name]} == {"n2"}
    os.kill(after["n1"], signal.SIGKILL)
    until(lambda: bed.is_up(4) and bed.replaced("n1", after["n1"]))


def test_a_run_takes_daemons_away_with_all_that_they_started_until_it_returns_them(bed: Bed) -> None:
    # The kernel sends SIGHUP and SIGCONT to a stopped process when its parent ends.
    # As slurmstepd does, a program outlives its daemon's process, has another environment, and keeps the log file open.
    step = f"(exec env -i setsid sleep 300 >> {bed.directory}/log/slurmd.$1.log) &\nwait\n"
    bed.program.write_text("trap : HUP\n" + DAEMON.replace("sleep 300 &\nwait\n", f"{step}while :; do wait; done\n"))
    bed.specify(count=4)
    bed.start()
    until(lambda: bed.is_up(4))
    before = bed.daemons()
    logs = {name: bed.directory / f"log/slurmd.{name}.log" for name in ("n2", "n3")}
    until(lambda: len(absent.processes_of(logs, processes.of_instance(str(bed.directory)))) == 4)
    text = absent.text_of({"n2", "n3"}, {"n4"})
    absent.request(bed.directory, bed.state(), text)
    until(lambda: bed.state().get(absent.STATE_KEY) == absent.digest_of(text))
    assert not absent.processes_of(logs, processes.of_instance(str(bed.directory)))
    assert processes.is_stopped(before["n4"]) and processes.start_time(before["n1"]) is not None
    assert bed.is_up(2), "those that are gone are not wanted"
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: bed.state().get(absent.STATE_KEY) == absent.digest_of(text))
    time.sleep(1.0)
    assert bed.is_up(2) and not absent.processes_of(logs, processes.of_instance(str(bed.directory))), "another farm leaves them"
    assert [event["daemon"] for event in read_events(bed.directory, 0)] == ["farm"], "those that were taken away have not failed"
    absent.request(bed.directory, bed.state(), "")
    until(lambda: bed.is_up(4))
    after = bed.daemons()
    assert {name for name in after if after[name] != before[name]} == {"n2", "n3"}
    assert not processes.is_stopped(after["n4"])


@pytest.mark.parametrize(
    ("text", "gone", "stopped"),
    [("", set(), set()), ("n1\nn2 stopped\n", {"n1"}, {"n2"}), ("n1 stopped\nn1\n\nn3 other\n", {"n1"}, set())],
)
def test_the_file_of_absent_daemons(text: str, gone: set[str], stopped: set[str]) -> None:
    assert absent.parse(text) == (gone, stopped)
    assert absent.parse(absent.text_of(gone, stopped)) == (gone, stopped)


def test_daemons_of_a_killed_farm_with_another_configuration_are_replaced(bed: Bed) -> None:
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    before = bed.daemons()
    bed.farm.kill()
    bed.farm.wait()
    bed.specify(count=2, digest="2")
    bed.start()
    until(lambda: bed.is_up(2))
    assert not set(before.values()) & set(bed.daemons().values())
    assert all(processes.start_time(pid) is None for pid in before.values())


def test_adopted_daemons_are_stopped_when_they_are_removed(bed: Bed) -> None:
    """They are no children of the farm, which has to check whether they still run."""
    bed.specify(count=6)
    bed.start()
    until(lambda: bed.is_up(6))
    before = bed.daemons()
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: bed.is_up(6))
    assert bed.daemons() == before
    bed.specify(count=1)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(1))
    assert [name for name, pid in before.items() if processes.start_time(pid)] == ["n1"]


def test_on_reload_no_daemon_starts_before_the_departing_ones_have_ended(bed: Bed) -> None:
    """Ports may have moved from one daemon to another. Meanwhile the phase is `starting`."""
    port = f"{bed.directory}/run/port-$1"
    clash = f"[ -e {port} ] && echo $1 >> {bed.directory}/run/clash"
    until_sigterm = DAEMON.replace("sleep 300 &\nwait", "while :; do sleep 0.05; done")
    bed.program.write_text(f"trap 'sleep 0.2; rm {port}; exit' TERM\n{clash}\ntouch {port}\n{until_sigterm}")
    bed.specify(count=6)
    bed.start()
    until(lambda: bed.is_up(6))
    bed.specify_all(bed.entry(6, "2"), bed.entry(2, name="m{i}"))
    bed.farm.send_signal(signal.SIGHUP)
    states = []
    until(lambda: bool(states.append(bed.state())) or bed.is_up(8))
    leaving = [state["leaving"] for state in states if state.get("leaving")]
    assert max(leaving) == 6
    assert {state["phase"] for state in states if state.get("leaving")} == {"starting"}
    assert not (bed.directory / "run/clash").exists()
    assert states[-1]["restarts"] == 0


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to raise a priority and for host names")
def test_host_names_priorities_and_privileges(bed: Bed) -> None:
    output = bed.directory / "run"
    record = f"hostname > {output}/$1.name; grep CapEff /proc/self/status > {output}/$1.caps"
    bed.program.write_text(f"{record}\n{DAEMON}")
    bed.specify_all(
        bed.entry(1, name="slurmctld", kind="slurmctld"),
        bed.entry(2),
        bed.entry(2, name="m{i}", hostname="127.0.0.2"),
        bed.entry(1, name="o{i}", hostname="127.0.0.3"),
    )
    bed.start()
    until(lambda: bed.is_up(5))
    names = {path.stem: path.read_text().strip() for path in output.glob("*.name")}
    assert names == {"slurmctld": "localhost"} | {"n1": "localhost", "n2": "localhost"} | {
        "m1": "127.0.0.2", "m2": "127.0.0.2", "o1": "127.0.0.3"}  # fmt: skip
    if "higher priority" not in bed.state()["refused"]:
        controller = bed.daemons().pop("slurmctld")
        raised = {bed.farm.pid, controller, *(pid for pid, parent in processes.parents().items() if parent == controller)}
        members = processes.of_instance(str(bed.directory))
        assert {pid for pid in members if os.getpriority(os.PRIO_PROCESS, pid) != 0} == raised
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in raised} == {-10}
    assert {int(path.read_text().split()[1], 16) for path in output.glob("*.caps")} == {0}
    # A shell of the instance enters the farm's UTS namespace.
    hostname = subprocess.check_output(["nsenter", "--target", str(bed.state()["pid"]), "--uts", "hostname"], text=True)
    assert hostname == "localhost\n"
    status = Path(f"/proc/{bed.state()['pid']}/status").read_text()
    assert "CapPrm:\t000000c000a40000" in status, "CAP_SYS_CHROOT, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_PERFMON, CAP_BPF, and no other"
    bed.specify_all(bed.entry(1, name="slurmctld", kind="slurmctld"), bed.entry(2), bed.entry(1, name="p{i}", hostname="127.0.0.4"))
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(3))
    assert (output / "p1.name").read_text() == "127.0.0.4\n"


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for a mount namespace")
def test_daemons_see_the_names_of_the_hosts_of_the_cluster(bed: Bed) -> None:
    """Running daemons see the names of hosts that join later, also after a restart of the farm. The host's file is unchanged."""
    of_host = Path("/etc/hosts").read_text()
    bed.specify_all(bed.entry(2), bed.entry(1, name="m{i}"), addresses={"192.0.2.7": "first.wide"})
    bed.start()
    until(lambda: bed.is_up(3))
    before = bed.daemons()

    def seen(name: str = "n1") -> str:
        """Return /etc/hosts as the daemon of this name sees it."""
        return Path(f"/proc/{before[name]}/root/etc/hosts").read_text()

    assert seen() == seen("m1") == f"{of_host.rstrip()}\n# The cluster's.\n192.0.2.7 first.wide\n", "in each PID namespace"
    nodes = bed.entry(2), bed.entry(1, name="m{i}")
    bed.specify_all(*nodes, addresses={"192.0.2.7": "first.wide", "192.0.2.8": "second.wide"})
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: "192.0.2.8 second.wide\n" in seen())

    bed.farm.kill()
    bed.farm.wait()
    bed.specify_all(*nodes, addresses={"192.0.2.9": "third.wide"})
    bed.start()
    until(lambda: bed.is_up(3))
    assert bed.daemons() == before
    assert seen() == f"{of_host.rstrip()}\n# The cluster's.\n192.0.2.9 third.wide\n"
    assert Path("/etc/hosts").read_text() == of_host


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to drop a capability")
def test_without_namespaces_only_a_second_address_is_an_error(bed: Bed) -> None:
    """The farm runs without CAP_SYS_ADMIN, as in a container that may not create namespaces."""
    bed.specify_all(bed.entry(2), bed.entry(1, name="m{i}", hostname="127.0.0.2"))
    bed.start(wrapper=("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"))
    until(lambda: bool(bed.state().get("failing")))
    state = bed.state()
    assert "Operation not permitted: this host allows no private host name 127.0.0.2" in state["failing"]["m1"]
    assert {"private host name", "PID namespaces"} <= state["refused"].keys()
    assert state["daemons"]["slurmd"]["ready"] == 2


def pid_namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for PID namespaces")
def test_neighbouring_nodes_share_a_pid_namespace_with_its_own_proc(bed: Bed) -> None:
    bed.program.write_text(f'cd /proc; echo [0-9]* > "{bed.directory}/run/$1.seen"\n{DAEMON}')
    bed.specify_all(bed.entry(1, name="slurmctld", kind="slurmctld"), {**bed.entry(3), "first": 62}, bed.entry(1, name="m{i}"))
    bed.start()
    until(lambda: bed.is_up(4))
    if "PID namespaces" in bed.state()["refused"]:
        pytest.skip("skipped: this host allows no PID namespaces")
    pids = bed.daemons()
    namespaces = {name: pid_namespace(pid) for name, pid in pids.items()}
    assert namespaces["slurmctld"] == pid_namespace(os.getpid())
    assert namespaces["n62"] == namespaces["n63"]
    assert len(set(namespaces.values())) == 4, "n64 is in the next namespace, and m1 in one of its own"
    visible = (bed.directory / "run/n64.seen").read_text().split()
    assert visible[0] == "1"
    assert len(visible) <= 4
    os.kill(pids["n62"], signal.SIGKILL)
    until(lambda: bed.replaced("n62", pids["n62"]) and bed.is_up(4))
    assert pid_namespace(bed.daemons()["n62"]) == namespaces["n62"]


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for PID namespaces")
def test_pid_namespaces_outlive_a_killed_farm_and_are_replaced_when_killed(bed: Bed) -> None:
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    before = {name: (pid, pid_namespace(pid)) for name, pid in bed.daemons().items()}
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: bed.is_up(2))
    assert {name: (pid, pid_namespace(pid)) for name, pid in bed.daemons().items()} == before
    os.kill(before["n1"][0], signal.SIGKILL)
    until(lambda: bed.replaced("n1", before["n1"][0]) and bed.is_up(2))
    assert pid_namespace(bed.daemons()["n1"]) == before["n1"][1], "the node's jobs are in this namespace"
    holders = [pid for pid in processes.of_instance(str(bed.directory)) if processes.command_line(pid) == ["sleep", "infinity"]]
    for holder in holders:
        os.kill(holder, signal.SIGKILL)
    until(lambda: bed.replaced("n2", before["n2"][0]) and bed.is_up(2))
    bed.farm.terminate()
    assert bed.farm.wait(120) == 0
    assert processes.of_instance(str(bed.directory)) == {}


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for PID namespaces")
def test_a_pid_namespace_that_no_farm_has_noted_is_not_entered(bed: Bed) -> None:
    """Root starts daemons in those that it adopts."""
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    record = bed.directory / "etc/pid_namespaces.jsonl"
    assert record.stat().st_uid == 0 and record.stat().st_mode & 0o777 == 0o600
    (first,) = {pid_namespace(pid) for name, pid in bed.daemons().items() if name.startswith("n")}
    bed.farm.kill()
    bed.farm.wait()
    noted = json.loads(record.read_text())
    record.write_text(json.dumps({**noted, "started": noted["started"] + 1}) + "\n")
    before = bed.daemons()["n1"]
    bed.start()
    until(lambda: bed.is_up(2))
    os.kill(before, signal.SIGKILL)
    until(lambda: bed.replaced("n1", before) and bed.is_up(2))
    assert pid_namespace(bed.daemons()["n1"]) != first


def test_daemons_wait_for_memory(bed: Bed) -> None:
    """The farm reads the host's memory from a file of this test."""
    meminfo = bed.directory / "run/meminfo"

    def available(mib: int) -> None:
        temporary = meminfo.with_suffix(".new")
        temporary.write_text(f"MemTotal: {8192 * 1024} kB\nMemAvailable: {mib * 1024} kB\n")
        temporary.rename(meminfo)

    available(1025)
    program = (
        "import sys; from functools import partial; from pathlib import Path; "
        "from slurm_mirage.farm import farm, pacing; from slurm_mirage.programs.farm import main;"
        "farm.MemoryPace = partial(pacing.MemoryPace, partial(pacing.host_memory, Path(sys.argv[1], 'run/meminfo')));"
        "sys.exit(main(['run', sys.argv[1]]))"
    )
    bed.specify(count=5)
    bed.start("-c", program)
    until(lambda: bed.state().get("waiting_for_memory") is not None)
    assert (bed.state()["phase"], bed.state()["daemons"]["slurmd"]["up"]) == ("starting", 0)
    until(lambda: bed.state()["waiting_for_memory"] >= 1)
    available(4096)
    until(lambda: bed.is_up(5))
    assert bed.state()["waiting_for_memory"] is None
    available(1025)
    bed.specify(count=5, digest="2")
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.state().get("waiting_for_memory") is not None)
    assert (bed.state()["phase"], bed.state()["daemons"]["slurmd"]["up"]) == ("starting", 0)
    available(4096)
    until(lambda: bed.is_up(5))


def test_a_second_farm_of_an_instance_is_refused(bed: Bed) -> None:
    bed.specify(count=1)
    bed.start()
    until(lambda: bed.is_up(1))
    command = [sys.executable, "-m", "slurm_mirage.programs.farm", "run", str(bed.directory)]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (second.returncode, second.stderr) == (1, f"farm: another farm runs in {bed.directory}\n")
    assert bed.is_up(1)


def test_stopping_ends_detached_jobs_but_no_process_outside_the_instance(bed: Bed) -> None:
    bed.program.write_text(DAEMON.replace("sleep", "setsid sleep 299 &\nsleep"))
    bed.specify(count=2)
    stranger = subprocess.Popen(["sleep", "300"])
    bed.start()
    until(lambda: bed.is_up(2) and len(processes.of_instance(str(bed.directory))) >= 5)
    bed.farm.send_signal(signal.SIGTERM)
    assert bed.farm.wait(120) == 0
    assert processes.of_instance(str(bed.directory)) == {}
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for a mount namespace")
def test_a_process_of_an_instance_of_the_same_name_in_a_container_does_not_belong(bed: Bed) -> None:
    """It has the same value of INSTANCE_VARIABLE but sees another file system."""
    command = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {bed.directory} && exec sleep 300"]
    stranger = subprocess.Popen(command, env={**os.environ, processes.INSTANCE_VARIABLE: str(bed.directory)})
    until(lambda: processes.command_line(stranger.pid)[:1] == ["sleep"])
    assert processes.of_instance(str(bed.directory)) == {}
    stranger.kill()
    stranger.wait()


def test_a_change_of_speed_restarts_the_daemons_on_the_clock_and_virtual_time_continues(bed: Bed) -> None:
    munged = bed.entry(1, name="munged", kind="munged")
    controller = bed.entry(1, name="slurmctld", kind="slurmctld", environment={"LD_PRELOAD": "libm.so.6"})
    real = time.time_ns()
    bed.specify_all(munged, controller, bed.entry(3), speed=1000)
    bed.start()
    until(lambda: bed.is_up(3))
    fast, before = Clock.read(clock_file(bed.directory)), bed.daemons()
    assert fast.speed == 1000
    assert real <= fast.real_ns == fast.virtual_ns <= time.time_ns()
    environment = {name: processes.environment(pid) for name, pid in before.items()}
    assert environment["n1"]["SLURM_MIRAGE_CLOCK"] == str(clock_file(bed.directory))
    assert environment["n1"]["LD_PRELOAD"] == f"{bed.directory}/lib/virtual_clock.so"
    assert environment["slurmctld"]["LD_PRELOAD"] == f"{bed.directory}/lib/virtual_clock.so:libm.so.6"
    assert not {"SLURM_MIRAGE_CLOCK", "LD_PRELOAD"} & environment["munged"].keys()

    bed.specify_all(munged, controller, bed.entry(3), speed=1)
    bed.farm.send_signal(signal.SIGHUP)
    until(lambda: bed.is_up(3))
    slow, after = Clock.read(clock_file(bed.directory)), bed.daemons()
    assert slow.speed == 1
    assert slow.virtual_ns == fast.virtual_at(slow.real_ns)
    assert {name for name in before if before[name] == after[name]} == {"munged"}


def test_in_real_time_there_is_no_clock(bed: Bed) -> None:
    bed.specify(count=2)
    bed.start()
    until(lambda: bed.is_up(2))
    assert not clock_file(bed.directory).exists()
    assert "LD_PRELOAD" not in processes.environment(bed.daemons()["n1"])


def test_a_restarted_farm_keeps_the_clock(bed: Bed) -> None:
    bed.specify_all(bed.entry(2), speed=20)
    bed.start()
    until(lambda: bed.is_up(2))
    line, pids = clock_file(bed.directory).read_text(), bed.daemons()
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: bed.is_up(2) and bed.state()["pid"] == bed.farm.pid)
    assert clock_file(bed.directory).read_text() == line
    assert bed.daemons() == pids


def test_daemons_start_in_order_of_their_prerequisites_and_end_in_reverse_order(bed: Bed) -> None:
    """munged, mariadbd and slurmdbd start when the one before is ready, then slurmctld and the slurmd without waiting.

    slurmdbd is ready when it accepts connections on its port.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The program waits for a line that never comes. It has no child that would have to end before it.
    os.mkfifo(bed.directory / "fifo", 0o666)
    (bed.directory / "fifo").chmod(0o666)
    note = f"{bed.directory}/run/notes"
    bed.program.write_text(
        f"echo $1 >> {note}\ntrap 'echo end $1 >> {note}; exit' TERM\necho $$ > $2\nread line <> {bed.directory}/fifo\n"
    )
    slow = bed.entry(1, name="slurmdbd", kind="slurmdbd", ready_port=port, environment={"MYSQL_UNIX_PORT": "/socket"})
    others = [bed.entry(1, name=kind, kind=kind) for kind in ("slurmctld", "mariadbd", "munged")]
    bed.specify_all(bed.entry(2), *others, slow)
    bed.start()
    notes = bed.directory / "run/notes"
    until(lambda: bed.state()["daemons"].get("slurmdbd", {}).get("up") == 1)
    assert bed.state()["daemons"]["slurmdbd"]["ready"] == 0
    with socket.create_server(("127.0.0.1", port)):
        until(lambda: bed.is_up(2))
    assert notes.read_text().split()[:3] == ["munged", "mariadbd", "slurmdbd"]
    until(lambda: len(bed.daemons()) == 6)
    # Start times have a resolution of 0.01 s; within it the process ids give the order.
    started = {name: (processes.start_time(pid), pid) for name, pid in bed.daemons().items()}
    assert started["slurmdbd"] < started["slurmctld"] < min(started["n1"], started["n2"])
    environment = {name: processes.environment(pid) for name, pid in bed.daemons().items()}
    assert [name for name in environment if environment[name].get("MYSQL_UNIX_PORT") == "/socket"] == ["slurmdbd"]
    notes.write_text("")
    bed.farm.terminate()
    bed.farm.wait()
    ended = [line.removeprefix("end ") for line in notes.read_text().splitlines()]
    assert sorted(ended[1:3]) == ["n1", "n2"]
    assert [ended[0], *ended[3:]] == ["slurmctld", "slurmdbd", "mariadbd", "munged"]
