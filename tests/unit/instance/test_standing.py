"""Whether a cluster stands as its inputs say: the record of a build, and what differs from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farm_states import farm_state

from slurm_mirage.base.files import file_digest, read_json, write_json
from slurm_mirage.instance import standing as module
from slurm_mirage.instance.standing import RECORD, Record, Standing, Wanted, forget, standing
from slurm_mirage.rm.api import Registered

WANTED = Wanted("inputs", "fifo", "run-1")
COUNTS = {"wanted": 2, "up": 2, "ready": 2}


class Manager:
    """A resource manager with two nodes, of which those in `out` are drained, and with the jobs of `queue`."""

    def __init__(self) -> None:
        self.out: set[str] = set()
        self.queue: list[dict[str, Any]] = []
        self.forgets = False

    def forgets_runs(self) -> bool:
        return self.forgets

    def registered(self) -> Registered:
        return Registered({"idle": 2 - len(self.out), "drained": len(self.out)}, 2 - len(self.out), not self.out)

    def return_nodes(self) -> str:
        names, self.out = ",".join(sorted(self.out)), set()
        return names

    def queue_owners(self) -> list[dict[str, Any]]:
        return self.queue


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    manager = Manager()
    monkeypatch.setattr(module, "manager_at", lambda *_: manager)
    return manager


@pytest.fixture
def built(tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a cluster that was built with WANTED and whose farm, this process, runs."""
    monkeypatch.setattr("slurm_mirage.base.processes.belongs", lambda *_: True)
    directory = tmp_path / "one"
    for name in ("etc/nodes", "lib", "bin", "run", "runs", "state"):
        (directory / name).mkdir(parents=True)
    (directory / "etc/farm.json").write_text("{}")
    (directory / "etc/slurm.conf").write_text("ClusterName=one\n")
    for number in range(3):
        (directory / f"etc/nodes/n{number}.conf").write_text("Include")
    (directory / "bin/sigsleep").write_text("program")
    (tmp_path / "slurmctld").write_text("program")
    run_farm(directory)
    Record.of_host(directory, WANTED, [tmp_path / "slurmctld"], {"port": 17000}).write(directory)
    return directory


def run_farm(directory: Path, **counts: int) -> None:
    state = farm_state(specification=file_digest(directory / "etc/farm.json"), daemons={"slurmd": {**COUNTS, **counts}})
    write_json(directory / "run/farm.json", state)


def look(directory: Path, wanted: Wanted = WANTED, **more: bool) -> Standing:
    return standing(directory, wanted, [directory.parent / "slurmctld"], Path("/usr/bin"), **more)


def test_a_cluster_stands_as_it_was_built(built: Path) -> None:
    assert look(built) == Standing(stands=True, is_installed=True, facts={"port": 17000})
    assert (built / RECORD).stat().st_mode & 0o777 == 0o600


def test_other_inputs_or_none_or_no_record_are_a_new_build(built: Path) -> None:
    assert look(built, Wanted("others", "fifo")) == Standing()
    assert look(built, Wanted("", "")) == Standing()
    (built / RECORD).write_text("{}")
    assert look(built) == Standing()
    forget(built)
    forget(built)
    assert look(built) == Standing()
    assert look(built.parent / "none") == Standing()


def change(path: str, text: str = "changed") -> Callable[[Path], object]:
    return lambda directory: (directory / path).write_text(text)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (change("etc/slurm.conf"), "etc/slurm.conf was changed"),
        (change("etc/nodes/n1.conf"), "etc/nodes was changed"),
        (change("etc/more.conf"), "etc/more.conf was changed"),
        (lambda directory: (directory / "bin/sigsleep").unlink(), "bin/sigsleep was changed"),
        (lambda directory: (directory / "bin/sigsleep").chmod(0o4755), "bin/sigsleep was changed"),
        (change("../slurmctld"), "slurmctld was replaced"),
        (lambda directory: run_farm(directory, ready=1), "1 of 2 slurmd run"),
        (lambda directory: (directory / "run/farm.json").unlink(), "the farm does not run"),
    ],
)
def test_what_somebody_changed_is_named(built: Path, act: Callable[[Path], object], words: str) -> None:
    act(built)
    result = look(built)
    assert (result.stands, result.is_installed) == (False, False)
    assert len(result.notes) == 1 and result.notes[0].startswith("the cluster is built again: ") and words in result.notes[0]


def test_drained_nodes_are_returned_to_service_and_named(built: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READY_TIMEOUT", 0.0)
    manager.out = {"n2"}
    checked = look(built, mends=False)
    assert not checked.is_installed and checked.notes == ["the cluster is built again: nodes are not ready: 1 drained, 1 idle"]
    assert manager.out == {"n2"}
    assert look(built) == Standing(True, True, "", ["nodes were out of service and are returned to it: n2"], {"port": 17000})


def test_another_configuration_restarts_slurmctld_with_a_clean_state_if_no_job_is_there(built: Path, manager: Manager) -> None:
    other = Wanted("inputs", "easy", "run-2")
    assert look(built, other) == Standing(is_installed=True, fresh="run-2", facts={"port": 17000})
    manager.queue = [{"job_id": 1}]
    assert look(built, other) == Standing(is_installed=True, facts={"port": 17000})


@pytest.fixture
def restarts(built: Path) -> Iterator[list[str]]:
    """The names for which the farm, this process, was asked for a clean state. It answers a SIGHUP as a farm does."""
    names: list[str] = []

    def restart(*_: object) -> None:
        names.append(read_json(built / "etc/farm.json")["fresh"])
        (built / "state/fresh_for").write_text(names[-1])
        run_farm(built)

    before = signal.signal(signal.SIGHUP, restart)
    yield names
    signal.signal(signal.SIGHUP, before)


def test_a_run_that_needs_a_clean_state_gets_it_once(built: Path, manager: Manager, restarts: list[str]) -> None:
    fresh = Wanted("inputs", "fifo", "run-2", is_fresh=True)
    assert look(built, fresh, mends=False) == Standing(is_installed=True, fresh="run-2", facts={"port": 17000})
    assert restarts == []
    for _ in range(2):
        assert look(built, fresh) == Standing(stands=True, is_installed=True, facts={"port": 17000})
        assert restarts == ["run-2"]
    (built / "state/fresh_for").write_text("run-1")
    manager.queue = [{"job_id": 1}]
    assert not look(built, fresh).is_installed, "jobs of another run have to end: the whole cluster is cleared"


def test_a_slurmctld_that_does_not_get_ready_is_built_again(
    built: Path, restarts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_TIMEOUT", 0.0)
    monkeypatch.setattr(module, "_are_ready", lambda _: False)
    result = look(built, Wanted("inputs", "fifo", "run-2", is_fresh=True))
    assert (result.stands, result.is_installed, len(restarts)) == (False, False, 1)
    assert result.notes == ["the cluster is built again: slurmctld did not get ready with a clean state"]
    assert Record.load(built) is None


def test_with_a_database_the_whole_cluster_is_cleared(built: Path) -> None:
    Record.of_host(built, WANTED, [built.parent / "slurmctld"], {"slurm_controller_accounting_wanted": True}).write(built)
    assert not look(built, Wanted("inputs", "fifo", "run-2", is_fresh=True)).is_installed
    other = look(built, Wanted("inputs", "easy", "run-2"))
    assert other.is_installed and not other.fresh


def test_another_manager_that_forgets_runs_is_not_cleared(built: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "manager_of", lambda _: "openpbs")
    fresh = Wanted("inputs", "fifo", "run-2", is_fresh=True)
    assert not look(built, fresh).is_installed
    manager.forgets = True
    assert look(built, fresh).stands
    assert not look(built, Wanted("inputs", "easy", "run-2", is_fresh=True)).is_installed
    manager.queue = [{"job_id": 1}]
    assert not look(built, fresh).is_installed


def test_a_planted_link_is_not_read(built: Path) -> None:
    os.symlink("/proc/self/environ", built / "state/fresh_for")  # noqa: PTH211
    assert look(built, Wanted("inputs", "fifo", "run-2", is_fresh=True), mends=False).fresh == "run-2"


def test_nodes_that_an_unfinished_run_took_away_are_returned(built: Path) -> None:
    (built / "run/absent").write_text("n1\nn2 stopped\n")
    run_farm(built)
    state = read_json(built / "run/farm.json")
    write_json(built / "run/farm.json", {**state, "absent": "0123"})
    before = signal.signal(signal.SIGUSR1, lambda *_: run_farm(built))
    try:
        found = look(built)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found.stands and found.notes == ["nodes that an unfinished run had taken away are returned: n[1-2]"]
    assert not (built / "run/absent").exists()
    assert look(built).notes == []
