"""The lock of an instance, with real processes and real locks."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from modules import Caller

from slurm_mirage.base import processes
from slurm_mirage.base.processes import INSTANCE_VARIABLE, start_time
from slurm_mirage.instance import instance_lock
from slurm_mirage.instance.instance_lock import Busy, Callers, Content, Holder, release, remove, take, work_in

HOLD = (
    "import os, sys, time; from pathlib import Path; from slurm_mirage.instance import instance_lock as lock\n"
    "holder = lock.Holder.of_process(os.getpid(), sys.argv[2], '/clone')\n"
    "try: lock.take(Path(sys.argv[1]), holder, sys.argv[2])\n"
    "except lock.Busy as busy: print(busy, flush=True); sys.exit(1)\n"
    "print('taken', flush=True); time.sleep(600)"
)
REPLAY = (
    "import sys, time; from pathlib import Path; from slurm_mirage.replay.process import Waker, sign_lock, take_lock\n"
    "path = Path(sys.argv[1]); path.mkdir(parents=True, exist_ok=True); lock = take_lock(path / 'replay.lock', Waker())\n"
    "sign_lock(lock); print('replays', flush=True); time.sleep(600)"
)
CALLERS = "from slurm_mirage.instance.instance_lock import Callers; print(Callers.of_this_process(), flush=True)"


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Directory of an instance that does not exist yet."""
    return tmp_path / "instances/c"


def lock_file(instance: Path) -> Path:
    return instance.parent / ".c.lock"


@contextmanager
def process(code: str, *words: object, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A program with these variables in its environment, that has said its first line, which is its attribute `said`."""
    command = [sys.executable, "-c", code, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}) as started:
        try:
            assert started.stdout is not None
            started.said = started.stdout.readline().strip()  # type: ignore[attr-defined]
            yield started
        finally:
            started.kill()


def replay_of(instance: Path, run: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A process that has locked a run's folder as its replay does."""
    return process(REPLAY, instance / "runs" / run, **{INSTANCE_VARIABLE: str(instance)})


def me(order: str = "mine") -> Holder:
    return Holder.of_process(os.getpid(), order, "/here")


def kill(started: subprocess.Popen[str]) -> None:
    started.kill()
    started.wait()


def test_another_order_is_refused_as_long_as_the_holder_lives(instance: Path) -> None:
    with process(HOLD, instance, "y1") as holder:
        words = (
            r"^cluster=c: run y1 goes on in it \(started \d\d:\d\d by \S+@\S+ in /clone\); wait for its end \(BUSY=wait\), take "
        )
        with pytest.raises(Busy, match=words):
            take(instance, me(), "y2")
        work = work_in(instance)
        assert work is not None and (work.order, work.run) == ("y1", "y1")
        assert stat.S_IMODE(lock_file(instance).stat().st_mode) == 0o600
        kill(holder)
        assert work_in(instance) is None
        take(instance, me(), "y2")
    work = work_in(instance)
    assert work is not None and work.order == "mine"


def test_of_many_at_once_one_gets_the_lock(instance: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(instance)]
    started = [subprocess.Popen([*command, f"r{n}"], stdout=subprocess.PIPE, text=True) for n in range(8)]
    try:
        said = [one.stdout.readline() for one in started if one.stdout is not None]
        assert said.count("taken\n") == 1
        winner = f"r{said.index('taken' + chr(10))}"
        assert sum(f"run {winner} goes on in it" in words for words in said) == 7
    finally:
        for one in started:
            one.kill()
            one.communicate()


def test_the_holder_takes_it_for_each_of_its_runs_and_keeps_when_it_began(instance: Path) -> None:
    take(instance, me(), "y-100")
    began = Content.read(lock_file(instance).read_bytes())
    take(instance, me(), "y-50")
    now = Content.read(lock_file(instance).read_bytes())
    assert began is not None and now is not None
    assert (now.run, now.since, now.anchors) == ("y-50", began.since, ((os.getpid(), start_time(os.getpid())),))


def test_it_is_renewed_in_one_step(instance: Path) -> None:
    """A holder that is killed meanwhile leaves a whole file: another one is put in its place."""
    take(instance, me(), "y-100-with-a-long-name")
    whole = lock_file(instance).read_bytes()
    with lock_file(instance).open("rb") as before:
        take(instance, me(), "y")
        assert before.read() == whole
    renewed = Content.read(lock_file(instance).read_bytes())
    assert renewed is not None and renewed.run == "y"
    assert stat.S_IMODE(lock_file(instance).stat().st_mode) == 0o600
    assert [path.name for path in lock_file(instance).parent.iterdir()] == [".c.lock"]


def test_a_replay_outlives_its_holder_and_keeps_the_lock(instance: Path) -> None:
    with replay_of(instance, "y1") as replay, process(HOLD, instance, "y1") as holder:
        kill(holder)
        with pytest.raises(Busy, match=r"run y1 goes on in it \(started .* in /clone\)"):
            take(instance, me(), "y2")
        with pytest.raises(Busy):
            take(instance, me(), "y1.other")
        take(instance, me(), "y2", own=["y1"])
        release(instance, me())
        # The same run follows its replay; when that is over, the lock ends with the holder.
        with process(HOLD, instance, "y1") as next_holder:
            assert next_holder.said == "taken"  # type: ignore[attr-defined]
            kill(replay)
            with pytest.raises(Busy):
                take(instance, me(), "y2")
            kill(next_holder)
        take(instance, me(), "y2")


def test_released_it_is_free_and_leaves_nothing(instance: Path) -> None:
    take(instance, me(), "y1")
    release(instance, me("other order, same process"))
    assert not instance.parent.exists()
    release(instance, me())
    with process(HOLD, instance, "y2"):
        release(instance, me())
        assert work_in(instance) is not None


def test_released_during_a_replay_it_still_says_who_began_that(instance: Path) -> None:
    with replay_of(instance, "mine"):
        take(instance, me(), "mine")
        release(instance, me())
        work = work_in(instance)
        assert work is not None and work.by_whom.endswith("in /here)")
    assert work_in(instance) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"holder": {}}', "\0" * 70000, '{"holder": 1, "run": 2}'])
def test_what_is_no_lock_holds_nothing(instance: Path, text: str) -> None:
    instance.parent.mkdir()
    lock_file(instance).write_text(text)
    assert work_in(instance) is None
    take(instance, me(), "y1")
    work = work_in(instance)
    assert work is not None and work.order == "mine"


def test_a_lock_of_an_earlier_boot_holds_nothing(instance: Path) -> None:
    take(instance, me("before"), "before")
    content = json.loads(lock_file(instance).read_bytes())
    lock_file(instance).write_text(json.dumps({**content, "boot": "another"}))
    assert work_in(instance) is None


def test_a_link_is_not_followed(instance: Path, tmp_path: Path) -> None:
    instance.parent.mkdir()
    (tmp_path / "precious").write_text("kept")
    lock_file(instance).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"\.c\.lock"):
        take(instance, me(), "y1")
    assert (tmp_path / "precious").read_text() == "kept"


def test_teardown_removes_it_whoever_holds_it(instance: Path) -> None:
    with process(HOLD, instance, "y1"):
        assert remove(instance)
        assert not remove(instance)
        take(instance, me(), "y2")


# ---- holders on other machines ----


def far(order: str = "y1", pid: int = 1, place: str = "/there") -> Holder:
    return Holder(order, "root@control", place, "another machine", pid, 1)


def test_a_holder_elsewhere_lives_with_its_connection_and_a_while_longer(instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with process("import time; print('connected', flush=True); time.sleep(600)") as sshd:
        take(instance, far(), "y1", anchors=[sshd.pid])
        monkeypatch.setattr(instance_lock, "GRACE", 0.0)
        with pytest.raises(Busy, match="by root@control in /there"):
            take(instance, far("y2", pid=2), "y2")
        kill(sshd)
        monkeypatch.setattr(instance_lock, "GRACE", 600.0)
        # Ansible has closed the connection and will open another one.
        with pytest.raises(Busy):
            take(instance, me(), "y2")
        monkeypatch.setattr(instance_lock, "GRACE", 0.0)
        take(instance, me(), "y2")


def test_the_same_order_from_the_same_clone_elsewhere_goes_on(instance: Path) -> None:
    take(instance, far(), "y1")
    with pytest.raises(Busy):
        take(instance, far(place="/another clone", pid=2), "y1")
    take(instance, far(pid=2), "y1")
    release(instance, far(pid=2))
    assert work_in(instance) is None


def test_the_same_order_from_the_same_clone_here_is_refused_as_long_as_the_first_lives(instance: Path) -> None:
    with process(HOLD, instance, "y1"), pytest.raises(Busy):
        take(instance, Holder.of_process(os.getpid(), "y1", "/clone"), "y1")


@pytest.mark.parametrize("name", ["sshd: root@notty", "/usr/sbin/sshd", "sshd-session: root [priv]"])
def test_the_callers_of_a_module_over_ssh_are_its_connection(name: str) -> None:
    words = [name, "-c", 'sh -c \'"$0" -c "$1"; true\' "$0" "$1"; true', sys.executable, CALLERS]
    with subprocess.Popen(words, executable="/bin/sh", stdout=subprocess.PIPE, text=True) as sshd:
        assert sshd.stdout is not None
        assert sshd.stdout.read().strip() == str(Callers((sshd.pid,), None))


def test_the_caller_of_a_local_module_is_ansible_playbook(tmp_path: Path) -> None:
    program = tmp_path / "ansible-playbook"
    program.write_text("import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])")
    with subprocess.Popen([sys.executable, str(program), CALLERS], stdout=subprocess.PIPE, text=True) as playbook:
        assert playbook.stdout is not None
        assert playbook.stdout.read().strip() == str(Callers((playbook.pid,), playbook.pid))


# ---- the modules ----


def test_the_module_takes_renews_and_releases(instance: Path, call: Caller) -> None:
    holder = {**vars(me("y1"))}
    for _ in range(2):
        assert call("slurm_instance_lock", directory=str(instance), run="y1", holder=holder)["changed"] is False
    told = call("slurm_instance_lock_info", directory=str(instance))
    assert told["order"] == "y1" and told["by_whom"].startswith("(started ")
    with process(HOLD, instance, "y2") as other:
        assert "run y1 goes on in it" in other.said  # type: ignore[attr-defined]
    call("slurm_instance_lock", directory=str(instance), run="y1", holder=holder, state="released")
    assert not lock_file(instance).exists()
    assert call("slurm_instance_lock_info", directory=str(instance))["order"] == ""


def test_the_module_refuses_in_one_line(instance: Path, call: Caller) -> None:
    with process(HOLD, instance, "y1"):
        result = call("slurm_instance_lock", directory=str(instance), run="y2", holder=vars(me("y2")))
        assert result["failed"] and result["busy"]
        assert result["msg"].startswith("wrong use: CLUSTER=c: run y1 goes on in it (started ")
        call("slurm_instance_lock", check=True, directory=str(instance), state="absent")
        assert lock_file(instance).exists()
        assert call("slurm_instance_lock", directory=str(instance), state="absent")["changed"]
        assert not call("slurm_instance_lock", directory=str(instance), state="absent")["changed"]


def test_a_holder_that_is_none_is_refused(instance: Path, call: Caller) -> None:
    result = call("slurm_instance_lock", directory=str(instance), run="y2", holder={"order": "y2"})
    assert result["failed"] and not result["busy"] and "holder: is not the holder of a lock" in result["msg"]


def test_a_stopped_holder_keeps_the_lock(instance: Path) -> None:
    with process(HOLD, instance, "y1") as holder:
        holder.send_signal(signal.SIGSTOP)
        while not processes.is_stopped(holder.pid):
            time.sleep(0.01)
        with pytest.raises(Busy):
            take(instance, me(), "y2")


def test_a_reused_process_id_is_another_process(instance: Path) -> None:
    take(instance, replace(me("before"), started=1), "before")
    assert work_in(instance) is None
