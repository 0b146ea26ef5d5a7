"""Events of a run: when they are carried out, that each is exactly once, and what is refused; with the in-memory manager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_replay_in_memory import Run, run
from visible import visible

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.base.processes import INSTANCE_VARIABLE, start_time
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.farm import absent
from slurm_mirage.jobs import cluster_events
from slurm_mirage.jobs.cluster_events import ClusterEvent, as_settings, events_of
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.actions import Happen, Submit, actions_of
from slurm_mirage.replay.cluster_events import Away
from slurm_mirage.replay.process import Waker
from slurm_mirage.replay.replay import Replay
from slurm_mirage.rm import registry

__all__ = ["run"]


def event(number: int, at: float, action: str, target: str = "", argument: str = "") -> ClusterEvent:
    return ClusterEvent(number, at, action, target, argument)


def plan(run: Run, jobs: int, *events: ClusterEvent, **changes: Any) -> None:
    run.write(jobs, **changes)
    settings = json.loads((run.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps({**settings, "events": as_settings(events)}))


def outcomes(run: Run) -> list[tuple[int, str, str]]:
    return [(line["index"], line["outcome"], line["words"]) for line in run.events() if line["event"] == "event_done"]


def test_events_come_at_their_instants_before_the_submissions_of_the_same_instant() -> None:
    rows = [PlanRow(i, 100 + i, 10.0 * i, 1, None, 5.0, 1, None, "", f"r.{100 + i}") for i in range(3)]
    planned = [event(0, 0, "drain", "n1"), event(1, 10, "resume", "n1"), event(2, 15, "down", "n1"), event(3, 99, "resume", "n1")]
    order = [(type(action), action.index) for action in actions_of(rows, planned)]
    assert order == [(Happen, 0), (Submit, 0), (Happen, 1), (Submit, 1), (Happen, 2), (Submit, 2), (Happen, 3)]


def test_after_which_events_time_alone_may_change_what_the_scheduler_decides(run: Run) -> None:
    shown = ["cancel", "down", "drain", "hold", "release", "release-job", "reserve", "resume"]
    assert sorted(action for action in cluster_events.ACTIONS if event(0, 0.1, action).is_shown) == shown
    of_set = {"partition batch": True, "node n1": True, "job 100": False, "account a": False, "user u": False, "qos q": False}
    assert {target: event(0, 0.1, "set", target).is_shown for target in of_set} == of_set
    lock = os.open(run.folder / "replay.lock", os.O_RDWR | os.O_CREAT)
    for actions, changes in (([], False), (shown, False), ([*shown, "fail"], True), (["set"], True)):
        plan(run, 1, *(event(number, 0.1, action) for number, action in enumerate(actions)))
        assert Replay(run.folder, lock, Waker(run.time), registry.connect).changes_by_itself is changes
    os.close(lock)


def test_each_event_is_carried_out_once_and_counted(run: Run) -> None:
    run.manager.refused.add("n9")
    plan(
        run,
        4,
        event(0, 0, "drain", "n1", "disk"),
        event(1, 0.01, "resume", "n9"),
        event(2, 0.03, "reserve", "week", "StartTime=10 Duration=60 Nodes=ALL"),
        event(3, 0.05, "set", "partition all", "MaxTime=10"),
        event(4, 3600, "resume", "n1"),
    )
    result = run.play()
    assert result["events"] == {"done": 3, "refused": 1, "unknown": 0, "not_reached": 1}
    assert outcomes(run) == [(0, "done", ""), (1, "refused", "n9 is not known"), (2, "done", ""), (3, "done", "")]
    assert run.manager.changes == [
        ("nodes", "n1", "drain", "event 0: disk"),
        ("reserve", "week", "StartTime=10 Duration=60 Nodes=ALL"),
        ("change", "partition", "all", "MaxTime=10"),
        # At the end of the run.
        ("nodes", "n1", "resume", ""),
        ("release", "week"),
    ]
    run.check_each_was_played_once()


def test_a_replay_that_was_killed_after_an_event_knows_that_it_was_carried_out(run: Run) -> None:
    plan(run, 4, event(0, 0, "reserve", "week", "StartTime=10 Duration=60 Nodes=ALL"))
    run.manager.killed_after.add("week")
    with pytest.raises(KeyboardInterrupt):
        run.play()
    assert outcomes(run) == []
    assert run.play()["events"]["done"] == 1
    assert [change[0] for change in run.manager.changes] == ["reserve", "release"], "released at the end of the run"


def test_jobs_are_held_released_requeued_and_cancelled(run: Run) -> None:
    plan(
        run,
        4,
        event(0, 0.09, "hold", "103"),
        event(1, 0.1, "requeue", "100"),
        event(2, 0.12, "cancel", "101"),
        event(3, 1.6, "release-job", "103"),
        event(4, 1.61, "hold", "101"),
    )
    result = run.play()
    assert outcomes(run) == [
        (0, "done", ""), (1, "done", ""), (2, "done", ""), (3, "done", ""), (4, "refused", "job 101 has ended"),
    ]  # fmt: skip
    assert result["states"] == {"COMPLETED": 3, "CANCELLED": 1} and result["released"] == 0
    assert run.manager.requeued[run.manager.named("r.100")[0].id] == 1
    assert run.manager.named("r.103")[0].start - run.manager.named("r.100")[0].submitted > 0.5


def test_a_job_that_was_not_submitted_yet_cannot_be_changed(run: Run) -> None:
    plan(run, 3, event(0, 0, "hold", "102"))
    run.play()
    assert outcomes(run) == [(0, "refused", "job 102 was not submitted yet")]


def test_a_command_runs_once_with_its_output_in_the_folder(run: Run) -> None:
    plan(run, 2, event(0, 0, "run", "", "echo $PATH; echo once >> log"), event(1, 0.01, "run", "", "echo no >&2; exit 3"))
    run.play()
    assert outcomes(run) == [(0, "done", ""), (1, "refused", "exit code 3; see event-1.output")]
    assert (run.folder / "event-0.output").read_text() == "/usr/bin:/bin\n"
    assert (run.folder / "event-1.output").read_text() == "no\n"
    assert (run.folder / "log").read_text() == "once\n"


def test_a_command_that_outlived_its_replay_is_not_run_again(run: Run) -> None:
    plan(run, 2, event(0, 0, "run", "", "echo again >> log"))
    (run.folder / "event-0.started").touch()
    (run.folder / "event-0.exit").write_text("0\n")
    run.play()
    assert outcomes(run) == [(0, "done", "")] and not (run.folder / "log").exists()


def test_after_a_restart_of_the_controller_what_it_may_have_forgotten_is_changed_again(run: Run) -> None:
    plan(run, 6, event(0, 0.01, "drain", "n1"), event(1, 0.02, "run", "", "echo once >> log"))
    run.manager.after[5] = lambda: run.manager.restart(forget=1)
    assert run.play()["restarts"]
    assert [change[2] for change in run.manager.changes] == ["drain", "drain", "resume"], "a drain is the same twice"
    assert (run.folder / "log").read_text() == "once\n"
    run.check_each_was_played_once()


@pytest.fixture
def farm(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that stands for the controller. When it was ended, another one is started, which has forgotten nothing."""
    instance, children, end = run.manager.directory, list[subprocess.Popen[bytes]](), Replay._end_controller
    (instance / "run").mkdir()

    def start() -> None:
        children.append(visible(subprocess.Popen(["sleep", "600"], env={INSTANCE_VARIABLE: str(instance)})))
        state = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "controller_pid": children[-1].pid}
        write_json(instance / "run/farm.json", state)

    def end_and_start(replay: Replay, pid: int, number: signal.Signals) -> None:
        end(replay, pid, number)
        assert children[-1].wait() == -signal.SIGTERM
        run.manager.restart(forget=0)
        start()

    monkeypatch.setattr(Replay, "_end_controller", end_and_start)
    start()
    yield
    children[-1].kill()
    children[-1].wait()


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("new_process", [False, True])
def test_the_controller_reads_another_configuration_and_afterwards_its_own(run: Run, new_process: bool) -> None:
    run.manager.restarts_to_reconfigure = new_process
    plan(run, 4, event(0, 0.03, "configure", "tuned", "reconfigure"))
    result = run.play()
    assert outcomes(run) == [(0, "done", "")]
    assert run.manager.changes == [("configuration", "tuned"), ("reconfigure", "tuned"), ("configuration", "")]
    assert [one["by_event"] for one in result["restarts"]] == [0] * new_process and result["halted"] == 0
    assert not any(line["event"] == "closed" for line in run.events()), "nothing was forgotten"
    run.check_each_was_played_once()


@pytest.mark.usefixtures("farm")
def test_the_controller_is_restarted_in_order_for_what_it_reads_at_its_start(run: Run) -> None:
    plan(run, 6, event(0, 0.03, "configure", "fifo", "restart"))
    result = run.play()
    assert outcomes(run) == [(0, "done", "")]
    assert [one["by_event"] for one in result["restarts"]] == [0]
    assert run.manager.changes == [("configuration", "fifo"), ("configuration", "")]
    run.check_each_was_played_once()


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("way", ["reconfigure", "restart"])
def test_a_replay_that_was_killed_before_the_controller_has_read_it_goes_on(run: Run, way: str) -> None:
    plan(run, 4, event(0, 0.03, "configure", "fifo", way))
    run.manager.killed_after.add("fifo")
    with pytest.raises(KeyboardInterrupt):
        run.play()
    assert run.manager.configuration == "fifo" and outcomes(run) == []
    assert [one["by_event"] for one in run.play()["restarts"]] == [0] * (way == "restart")
    assert outcomes(run) == [(0, "done", "")] and run.manager.configuration == ""
    run.check_each_was_played_once()


@pytest.mark.usefixtures("farm")
def test_a_run_begins_with_the_clusters_own_configuration(run: Run) -> None:
    run.manager.configuration, before = "fifo", run.manager.boot_time
    plan(run, 2, event(0, 3600, "configure", "fifo", "restart"))
    result = run.play()
    assert run.manager.changes == [("configuration", "")] and run.manager.boot_time == before + 1
    assert result["restarts"] == [] and result["events"]["not_reached"] == 1


def test_away_is_what_failures_and_returns_leave() -> None:
    away = Away()
    for done in (
        event(0, 0, "fail", "n[1-3]"),
        event(1, 1, "not-responding", "n4"),
        event(2, 2, "return", "n[1-2]"),
        event(3, 3, "drain", "n9"),
    ):
        away = away.after(done)
    assert (away.gone, away.stopped) == ({"n3"}, {"n4"})
    assert away.after(event(4, 4, "responding", "n4")).stopped == set()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"events": 3}, "events"),
        ({"events": [{"at": -1, "action": "drain", "target": "", "argument": ""}]}, "events[0].at"),
        ({"events": [{"at": 1, "action": "explode", "target": "", "argument": ""}]}, "there is no action 'explode'"),
    ],
)
def test_wrong_events_in_run_json(content: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongUse) as caught:
        events_of(RunSettings(Path("run.json"), content))
    assert words in str(caught.value)


def test_events_are_read_as_they_were_written() -> None:
    planned = [event(0, 0.0, "fail", "n1", ""), event(1, 5.0, "return", "n1", "")]
    assert events_of(RunSettings(Path("run.json"), {"events": as_settings(planned)})) == planned
    assert events_of(RunSettings(Path("run.json"), {})) == []
    assert set(cluster_events.NODE_ACTIONS) <= set(cluster_events.ACTIONS)


def test_the_first_controller_comes_back_when_that_is_due_though_no_controller_answers(run: Run) -> None:
    instance = run.manager.directory
    (instance / "run").mkdir()

    def serve(*_: object) -> None:
        """The farm, which is this process: the manager answers nothing while its controller is away, and is another one then."""
        text = absent.read(instance)
        run.manager.unavailable = 1_000_000 if text else 0
        if not text:
            run.manager.restart(forget=0)
        state = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "controller_pid": 0, "absent": absent.digest_of(text)}
        write_json(instance / "run/farm.json", state)

    plan(run, 6, event(0, 0.03, "failover"), event(1, 0.5, "take-back"), event(2, 0.6, "drain", "n1"))
    before = signal.signal(signal.SIGUSR1, serve)
    try:
        serve()
        result = run.play()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outcomes(run) == [(0, "done", ""), (1, "done", ""), (2, "done", "")]
    assert [one["by_event"] for one in result["restarts"]] == [1]
    run.check_each_was_played_once()
