"""Commands that are interrupted, killed or given twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from slurm_mirage.base.files import read_json

from .lane import DONE, Ended, Lane, expect, until
from .table import Wrong, fault

REFUSED_WITHIN = 15.0
"""Seconds for the refusal of a second command, with the start of Python and Ansible on a busy host."""


def _interrupted(lane: Lane, ended: Ended) -> None:
    expect(ended, ("failed",), r"interrupted.*same command")
    lane.goes_on()


@fault(
    "ctrl-c-build", "Ctrl-C on `make experiment` while it builds the cluster", "`failed: interrupted`; the same command finishes"
)
def ctrl_c_build(lane: Lane) -> None:
    command = lane.start_experiment()
    until(lambda: (lane.directory / "etc").is_dir() or not command.is_running, "folder of the instance")
    command.interrupt()
    _interrupted(lane, lane.ended(command))


@fault(
    "ctrl-c-replay", "Ctrl-C on `make experiment` during the replay", "`failed: interrupted`; the same command follows the replay"
)
def ctrl_c_replay(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    pid = lane.replay_pid()
    command.interrupt()
    ended = lane.ended(command)
    if lane.replay_pid() != pid:
        raise Wrong("the replay did not go on after Ctrl-C")
    _interrupted(lane, ended)


@fault(
    "ctrl-c-collection",
    "Ctrl-C on `make experiment` while it collects the records",
    "`failed: interrupted`; the same command finishes",
)
def ctrl_c_collection(lane: Lane) -> None:
    command = lane.start_experiment()
    until(lambda: lane.progress().get("phase") == "finished", "end of the replay")
    command.interrupt()
    _interrupted(lane, lane.ended(command))


@fault("make-killed", "SIGKILL to make's process group during the replay", "the same command follows the replay and finishes")
def make_killed(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    command.kill_group()
    command.end()
    lane.goes_on()


@fault("same-run-twice", "two `make experiment` with the same RUN at once", "one is refused at once, the other ends `ok`")
def same_run_twice(lane: Lane) -> None:
    first = lane.start_experiment()
    lane.until_submitted(first, 1)
    second = lane.experiment(label="the second command")
    expect(second, ("wrong use",), "another make|goes on|works on")
    _within(second)
    expect(lane.ended(first), DONE)
    lane.complete()


@fault(
    "two-runs-at-once",
    "two `make experiment` of one cluster with different RUN, started together",
    "one is refused or waits; the jobs of the two are never in the cluster together",
    quick=True,
)
def two_runs_at_once(lane: Lane) -> None:
    lane.build()
    runs = [lane.run("-1"), lane.run("-2")]
    commands = [lane.start_experiment(run) for run in runs]
    # Either may be refused: each is timed by a thread of its own.
    with ThreadPoolExecutor(len(commands)) as pool:
        labels = [f"experiment {number}" for number in range(1, len(commands) + 1)]
        ended = list(pool.map(lambda command, label: lane.ended(command, label=label), commands, labels))
    done = [run for run, end in zip(runs, ended, strict=True) if end.word in DONE]
    if not done:
        raise Wrong(f"neither of the two ended with `ok:` or `inconclusive:`, but with {' and '.join(end.line for end in ended)}")
    for end in ended:
        if end.word not in DONE:
            expect(end, ("wrong use", "failed"), r"goes on|another|in use|busy|lock")
            _within(end)
    for run in done:
        lane.complete(run)
    spans = sorted(
        (float(result["began"]), float(result["ended"]))
        for result in (read_json(lane.results(run) / "result.json") for run in done)
    )
    if len(spans) == 2 and spans[1][0] < spans[0][1]:
        at = datetime.fromtimestamp(spans[1][0])
        raise Wrong(f"both runs were replayed at once, from {at:%H:%M:%S} on, and ended `ok`")


def _within(ended: Ended) -> None:
    if ended.seconds > REFUSED_WITHIN:
        raise Wrong(f"it was refused after {ended.seconds:.0f} s, wanted at most {REFUSED_WITHIN:g} s")


@fault("two-clusters", "`make experiment` on two clusters side by side", "both end `ok`")
def two_clusters(lane: Lane) -> None:
    other = Lane(f"{lane.cluster}2")
    other.fault, other.scratch = lane.fault, lane.scratch
    lane.stack.callback(lambda: other.start("teardown").end())
    commands = [one.start_experiment(one.run()) for one in (lane, other)]
    for one, command in zip((lane, other), commands, strict=True):
        expect(lane.ended(command, label=f"experiment on cluster {'AB'[one is other]}"), DONE)
        one.complete()
    expect(lane.make("teardown", CLUSTER=other.cluster), ("ok",))
    other.remove_results()
    if left := other.left():
        raise Wrong(f"left of the second cluster: {', '.join(left)}")


@fault(
    "teardown-in-run",
    "`make teardown` during the replay",
    "the experiment ends in one line; the same command plays it from its beginning",
)
def teardown_in_run(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    expect(lane.make("teardown"), ("ok",))
    expect(lane.ended(command), ("failed",))
    if left := lane.left():
        raise Wrong(f"left after make teardown: {', '.join(left)}")
    lane.goes_on(words=DONE)
