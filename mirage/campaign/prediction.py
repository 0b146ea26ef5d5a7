"""A prediction: runs of possible courses of a site's queue, side by side, and when the waiting jobs started in them.

results/RUN has predict.json, starts.csv and report.html, and each course a run of its own in results/RUN-1, RUN-2, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage.campaign import prediction_results
from mirage.campaign.at_once import first_run_host, home_of, note_on, runs_at_once
from mirage.campaign.lanes import RunsLeft
from mirage.experiment import preflight, report, run_length, runs
from mirage.experiment.courses import Courses
from mirage.experiment.endings import Ending
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.order import Order, execute
from mirage.experiment.prepare import Prepared
from mirage.experiment.remarks import remarks
from mirage.records.file_names import EXPERIMENT_FILE, JOBS_FILE, STATUS_FILE
from mirage.terminal.screen import Screen
from mirage.text.words import counted
from slurm_mirage.base.files import write_json

COURSES = 8
"""Courses without REPLICAS."""


@dataclass(frozen=True)
class _Run:
    """The run of a course."""

    order: Order
    prepared: Prepared
    folder: Path


@dataclass(frozen=True)
class Prediction:
    """A prediction, checked as far as possible without a cluster."""

    courses: Courses
    order: Order
    folder: Path
    inputs: dict[str, str]
    runs: Sequence[_Run]

    @classmethod
    def of(cls, courses: Courses) -> Prediction:
        """Prepare the runs. Raises WrongUse."""
        knobs = courses.knobs
        count = knobs.campaign.replicas or COURSES
        order = Order(knobs, preflight.inventory(knobs.cluster), preflight.config(knobs.scheduler), courses.source)
        inputs = {**order.inputs(knobs.jobs.shrinks), "REPLICAS": str(count)}
        # Without RUN the name follows from the inputs, so that the same command, also with another JOB, finds it again.
        folder = runs.RESULTS / (knobs.output.run or runs.name_by_inputs("predict", inputs))
        made = []
        for number in range(1, count + 1):
            own = replace(order, source=courses.source_of(number))
            made.append(_Run(own, courses.prepared(number, own.source.trace), folder.with_name(f"{folder.name}-{number}")))
        return cls(courses, order, folder, inputs, made)

    def run(self, screen: Screen) -> Ending:
        """Run the courses that are not finished, and write and print the results."""
        knobs = self.order.knobs
        if not self._is_finished():
            preflight.privileges(knobs.cluster)
            names = [one for run in self.runs for one in (run.folder.name, runs.calibration_of(run.folder.name))]
            folders = [run.folder for run in self.runs]
            with InstanceUse(knobs.cluster, self.folder.name, names, folders, screen, first_run_host(knobs.cluster)) as use:
                # Another make may have finished it while this one waited.
                if not self._is_finished():
                    endings = self._play(names, use, screen)
                    if any(not ending.is_final for ending in endings.values()):
                        return self._unfinished(endings)
        else:
            screen.say(f"results/{self.folder.name} is finished: nothing is run again")
        return self._conclude(screen)

    def _is_finished(self) -> bool:
        """Return True if each course has its jobs.csv. Raises WrongUse if the folder holds a prediction with other inputs."""
        return runs.earlier(self.folder, self.inputs) is not None and all((run.folder / JOBS_FILE).is_file() for run in self.runs)

    def _play(self, names: Sequence[str], use: InstanceUse, screen: Screen) -> dict[Path, Ending]:
        """Run what is not finished; the endings of all runs that have ended."""
        knobs, speed = self.order.knobs, self.order.knobs.clock.speed
        active = preflight.running(knobs.cluster)
        use.when_free(lambda: preflight.nothing_disturbed(knobs, active if active in names else self.folder.name))
        preflight.has_room(knobs)
        done = {run.folder: runs.earlier(run.folder, run.order.inputs(knobs.jobs.shrinks)) for run in self.runs}
        endings = {folder: ending for folder, ending in done.items() if ending is not None}
        left = [run for run in self.runs if run.folder not in endings]
        for run in left:
            preflight.no_leftover(knobs.cluster, run.folder)
        self._announce(left, screen)
        if not (self.folder / EXPERIMENT_FILE).exists():
            preflight.before_2038(knobs.cluster, sum(run.prepared.passing for run in left))
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / EXPERIMENT_FILE, self.order.description(self.inputs) | {"run": self.folder.name})
            runs.keep_knobs(self.folder, knobs)

        def play(run: _Run, lane: Lane) -> bool:
            lane.screen.tell(run.prepared.announcement())
            endings[run.folder] = ending = execute(run.order, run.prepared, run.folder, lane, self.folder)
            lane.screen.tell(ending.line)
            return ending.is_final

        rest = RunsLeft(
            knobs,
            self.order.inventory,
            speed,
            self.folder,
            use,
            on_head=names,
            left=left,
            play=play,
            which=lambda run: f"results/{run.folder.name}",
            name=lambda run: run.folder.name,
            folder_of=lambda run: run.folder,
            home=lambda run: home_of(knobs.cluster, run.folder, run.folder.name),
            foot=lambda: f"{len(endings)} of {len(self.runs)} courses finished",
        )
        with runs.only_one(self.folder):
            (self.folder / STATUS_FILE).unlink(missing_ok=True)
            rest.run_beside([run.folder for run in self.runs], endings, screen)
        return endings

    def _announce(self, left: Sequence[_Run], screen: Screen) -> None:
        knobs, queue, first = self.order.knobs, self.courses.queue, self.runs[0].prepared
        for line in (*self.courses.left(), *remarks(first)):
            screen.say(line)
        count = runs_at_once(knobs, knobs.clock.speed, len(left))
        lengths = [length for run in left if (length := run.prepared.length()) is not None]
        estimate = sum(run.prepared.estimate() for run in left) / count
        words = run_length.in_words(knobs.clock.speed, estimate, run_length.total(lengths, count) if lengths else None)
        now = self.courses.taken.date(self.courses.taken.end)
        jobs = f"{counted(queue.running.height, 'running job')} and {queue.waiting.height} waiting ones at {now}"
        screen.say(f"{jobs}: {len(self.runs)} courses{f', {count} at once' if count > 1 else ''}, {words}")
        if (note := note_on(knobs.cluster, knobs.clock.speed, count)) is not None:
            screen.say(note)

    def _unfinished(self, endings: dict[Path, Ending]) -> Ending:
        folder, ending = next((folder, ending) for folder, ending in endings.items() if not ending.is_final)
        unfinished = Ending(ending.word, f"{folder.name}: {ending.message}")
        unfinished.store(self.folder)
        return unfinished

    def _conclude(self, screen: Screen) -> Ending:
        knobs = self.order.knobs
        content: dict[str, Any] = prediction_results.write(self.folder, self.courses, [run.folder for run in self.runs])
        wanted = self.courses.wanted(knobs.output.job)
        prediction_results.show(content, wanted, screen)
        ending = prediction_results.ending_of(self.folder, [run.folder for run in self.runs], len(wanted))
        ending.store(self.folder)
        report.write(self.folder, screen)
        return ending
