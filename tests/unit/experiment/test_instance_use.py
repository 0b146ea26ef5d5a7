"""How a command shares an instance with other commands: real locks, real processes, and the modules called by real playbooks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from visible import visible

from mirage.commands.experiment import experiment
from mirage.experiment import instance_use, playbook, preflight, runs
from mirage.experiment.instance_use import InstanceUse
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import resolve
from mirage.terminal.screen import Screen
from slurm_mirage.instance.instance_lock import Busy, Holder, take, work_in

ROOT = Path(__file__).parents[3]
HOLD = (
    "import os, sys, time; from pathlib import Path; from slurm_mirage.instance import instance_lock as lock\n"
    "lock.take(Path(sys.argv[1]), lock.Holder.of_process(os.getpid(), 'y1', '/clone'), 'y1')\n"
    "print('taken', flush=True); time.sleep(600)"
)
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Lock
      slurm_instance_lock:
        directory: "{directory}"
        run: "{{{{ experiment_run }}}}"
        holder: "{{{{ experiment_holder }}}}"
        state: {state}
"""


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the instance c, which does not exist; results are beside it, and the caller counts as root."""
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(instance_use, "LOOK", 0.05)
    return tmp_path / "instances/c"


@contextmanager
def held(instance: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process has the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(instance)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "taken\n"
            yield other
        finally:
            other.kill()


class EndsOther(io.StringIO):
    """What is shown on the screen; ends the other process when somebody waits for it."""

    def __init__(self, other: subprocess.Popen[str]) -> None:
        super().__init__()
        self._other = other

    def write(self, text: str) -> int:
        if "waiting for cluster" in text:
            self._other.kill()
        return super().write(text)


def knobs(**given: str) -> Knobs:
    return resolve({"CLUSTER": "c", "NODES": "4", "CPUS": "4", "JOBS": "5", "RUN": "y2", **given})


def use(values: Knobs, stream: io.StringIO | None = None) -> InstanceUse:
    return InstanceUse(values.cluster, "y2", ["y2"], [], Screen(stream or io.StringIO(), between_lines=0))


def test_a_run_is_refused_before_anything_is_written_while_another_one_goes_on(instance: Path) -> None:
    with held(instance), pytest.raises(Busy, match=r"run y1 goes on in it \(started .* in /clone\)"):
        experiment(knobs(), Screen(io.StringIO()))
    assert not (instance.parent.parent / "results").exists()


def test_a_run_waits_for_the_end_of_another_one(instance: Path) -> None:
    with held(instance) as other:
        stream = EndsOther(other)
        with use(knobs(BUSY="wait"), stream):
            work = work_in(instance)
            assert work is not None and work.order == "y2"
    assert "waiting for cluster c: run y1 goes on in it (started" in stream.getvalue()
    assert not instance.parent.exists()


def test_the_same_run_in_the_same_clone_is_held_by_its_folder(instance: Path) -> None:
    """What a killed command left of Ansible is not ended by a command that works beside it."""
    folder = instance.parent.parent / "results/y2"
    folder.mkdir(parents=True)
    variables = folder.parent / "env/extravars"
    variables.parent.mkdir()
    variables.write_text(f'{{"experiment_results_dir": "{folder}"}}')
    with visible(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "-e", f"@{variables}"])) as left:
        with runs.only_one(folder), InstanceUse(knobs().cluster, "y2", ["y2"], [folder], Screen(io.StringIO())):
            assert left.poll() is None
        with InstanceUse(knobs().cluster, "y2", ["y2"], [folder], Screen(io.StringIO())):
            assert left.wait(timeout=120) < 0


# ---- without access to the lock file ----


@pytest.fixture
def project(tmp_path: Path, instance: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Playbooks that take and release the lock, and an inventory that is not the default one."""
    folder = tmp_path / "project"
    (folder / "playbooks").mkdir(parents=True)
    (folder / "inventories/common").mkdir(parents=True)
    (folder / "ansible.cfg").write_text(f"[defaults]\nlibrary = {ROOT}/library\nmodule_utils = {ROOT}/module_utils\n")
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (folder / "hosts").write_text(f"[all]\nhead {local}\n")
    for name, state in (("experiment", "taken"), ("release", "released")):
        (folder / f"playbooks/{name}.yml").write_text(PLAY.format(directory=instance, state=state))
    monkeypatch.setattr(playbook, "ROOT", folder)
    return folder


def play(one: InstanceUse, project: Path) -> None:
    one.play("experiment", {"experiment_run": "y2"}, project / "hosts", Screen(io.StringIO()), project / "log")


def test_on_other_hosts_the_playbook_takes_the_lock_and_the_end_releases_it(project: Path, instance: Path) -> None:
    with use(knobs(INVENTORY=str(project / "hosts"))) as one:
        assert work_in(instance) is None
        play(one, project)
        work = work_in(instance)
        assert work is not None and work.content is not None
        assert (work.order, work.content.holder.place) == ("y2", str(ROOT))
        with pytest.raises(Busy):
            take(instance, Holder.of_process(os.getppid(), "y3", "/elsewhere"), "y3")
    assert not instance.parent.exists()


def test_on_other_hosts_the_playbook_refuses_or_waits(project: Path, instance: Path) -> None:
    with held(instance) as other:
        with pytest.raises(Busy, match=r"run y1 goes on in it"), use(knobs(INVENTORY=str(project / "hosts"))) as one:
            play(one, project)
        assert work_in(instance) is not None
        stream = EndsOther(other)
        with use(knobs(INVENTORY=str(project / "hosts"), BUSY="wait"), stream) as one:
            play(one, project)
            work = work_in(instance)
            assert work is not None and work.order == "y2"
        assert "run y1 goes on in it (started" in stream.getvalue()
