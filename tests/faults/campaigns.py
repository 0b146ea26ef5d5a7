"""Comparisons whose runs go on side by side."""

from __future__ import annotations

import json
import time

from slurm_mirage.base.files import read_json
from slurm_mirage.instance import instance_lock

from .lane import DONE, ENDED, Command, Ended, Lane, expect, until
from .table import Wrong, fault

RUNS = ("fifo-1", "backfill-1")


class Comparison:
    """A comparison of two runs at once, on the lane's cluster and on a second one that belongs to it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.second = Lane(f"{lane.cluster}-2")
        self.second.fault, self.second.scratch = lane.fault, lane.scratch
        lane.stack.callback(lambda: self.second.start("teardown").end() if self.second.left() else None)

    def start(self) -> Command:
        return self.lane.start("compare", **self.lane.knobs(CONFIGS="fifo backfill", REPLICAS=1, AT_ONCE=2))

    def until_replayed(self, command: Command) -> dict[Lane, str]:
        """Wait until jobs of both runs have been submitted. Returns the name on the head of the run of each cluster."""
        found: dict[Lane, str] = {}

        def both() -> bool:
            for name in RUNS:
                experiment = read_json(self.lane.results(f"{self.lane.run()}/{name}") / "experiment.json") or {}
                for one in (self.lane, self.second):
                    if experiment.get("instance") == one.cluster:
                        found[one] = f"{self.lane.run()}.{name}"
            if not command.is_running:
                raise Wrong(f"the comparison ended before the fault: {self.lane.ended(command).line}")
            return len(found) == 2 and all(one.progress(run).get("submitted", 0) >= 3 for one, run in found.items())

        until(both, "jobs of both runs submitted")
        return found

    def goes_on(self) -> Ended:
        """Give the same command again: it has to finish both runs, with each job once, and leave nothing of the second cluster."""
        ended = self.lane.ended(self.start(), label="the same command")
        expect(ended, ENDED)
        for name in RUNS:
            self.lane.complete(f"{self.lane.run()}/{name}")
        self.nothing_left()
        return ended

    def was_followed(self, instant: float) -> None:
        """Check that the replays which ran at an instant (real seconds since the epoch) went on until their ends."""
        for name in RUNS:
            lines = (self.lane.results(f"{self.lane.run()}/{name}") / "journal.jsonl").read_text().splitlines()
            events = [json.loads(line) for line in lines]
            if events[0]["real"] > instant or any(event["event"] == "resumed" for event in events):
                raise Wrong(f"the same command began another replay of {name}")

    def nothing_left(self) -> None:
        left = self.second.left()
        left += [f"lock of {one.directory}" for one in (self.lane, self.second) if instance_lock.exists(one.directory)]
        if left:
            raise Wrong(f"left after the comparison: {', '.join(left)}")


@fault(
    "compare-killed",
    "SIGKILL to make's process group while `make compare` replays two runs side by side",
    "the same command follows both replays and finishes; nothing is left of the second cluster, and no lock",
)
def compare_killed(lane: Lane) -> None:
    comparison = Comparison(lane)
    command = comparison.start()
    comparison.until_replayed(command)
    killed = time.time()
    command.kill_group()
    command.end()
    comparison.goes_on()
    comparison.was_followed(killed)


@fault(
    "compare-ctrl-c",
    "Ctrl-C while `make compare` replays two runs side by side",
    "`failed: interrupted`; the same command follows both replays and finishes",
)
def compare_ctrl_c(lane: Lane) -> None:
    comparison = Comparison(lane)
    command = comparison.start()
    comparison.until_replayed(command)
    interrupted = time.time()
    command.interrupt()
    expect(lane.ended(command), ("failed",), r"interrupted.*same command")
    comparison.goes_on()
    comparison.was_followed(interrupted)


@fault(
    "compare-run-fails",
    "SIGKILL to the replay on the second of two clusters of `make compare`",
    "`failed:` names that run, and the other one has ended; the same command finishes",
)
def compare_run_fails(lane: Lane) -> None:
    comparison = Comparison(lane)
    command = comparison.start()
    found = comparison.until_replayed(command)
    comparison.second.kill_replay(found[comparison.second])
    expect(lane.ended(command), ("failed",), found[comparison.second].removeprefix(f"{lane.run()}."))
    other = found[lane].removeprefix(f"{lane.run()}.")
    status = read_json(lane.results(f"{lane.run()}/{other}") / "status.json") or {}
    if status.get("ending") not in ENDED:
        raise Wrong(f"the run on the first cluster did not end: {status.get('message', 'no status.json')}")
    comparison.goes_on()


@fault(
    "compare-teardown",
    "`make teardown` after SIGKILL to make's process group, while two runs are replayed side by side",
    "both clusters are removed; the same command plays both runs from their beginning",
)
def compare_teardown(lane: Lane) -> None:
    comparison = Comparison(lane)
    command = comparison.start()
    comparison.until_replayed(command)
    command.kill_group()
    command.end()
    expect(lane.make("teardown"), ("ok",))
    if left := [*lane.left(), *comparison.second.left()]:
        raise Wrong(f"left after make teardown: {', '.join(left)}")
    expect(comparison.goes_on(), DONE)
