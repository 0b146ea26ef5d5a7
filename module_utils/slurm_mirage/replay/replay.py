"""The replay of a workload, in a run folder RUNDIR on the head host.

Submits the jobs of RUNDIR/plan.csv one after the other, each at its due instant, cancels those that the plan says, waits until
all have ended, and writes RUNDIR/result.json. It can be killed at any instant, and so can the resource manager's controller: the
same command goes on, and no job is submitted twice or forgotten (docs/replay.md).

One process per run folder.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ..base import processes
from ..base.disk import out_of_space
from ..base.errors import WrongUse
from ..base.files import read_json, write_json
from ..base.log_file import begin_log
from ..base.processes import INSTANCE_VARIABLE
from ..base.run_files import PROGRESS
from ..base.run_settings import RunSettings
from ..base.strict_json import Damaged
from ..clock import clock_page, real_time
from ..clock.clock import Clock
from ..jobs.cluster_events import events_of
from ..jobs.kinds import kind_of
from ..jobs.plan import read_plan
from ..rm.api import CompletedJob, ResourceManager, ResourceManagerError
from .cluster_events import EventPlayer
from .driver import drive, figures_since
from .journal import Journal
from .monitor import Heartbeat, Monitor, Status
from .phase import end_controller, leap_to_begin, restart_controller
from .process import Failed, Settings, Stopped, Waker, sign_lock, take_lock
from .recovery import UNRECORDED, Recovery
from .submitter import Submitter

log = logging.getLogger("replay")

Connect = Callable[[RunSettings, int], ResourceManager]
"""Makes the resource manager of a run from its run.json and the locked file descriptor that a running submission shares."""


class Companion(Protocol):
    """An activity beside a replay, from its start until all jobs of the plan have ended, in threads of its own."""

    failure: Exception | None
    """What ended it before its time."""
    highest_id: int
    """The highest id that a job of its own had."""

    def start(self) -> None:
        """Begin, or go on after a replay that was killed."""
        ...

    def finish(self, sleep: Callable[[float], None]) -> None:
        """All jobs of the plan have ended: leave nothing in the cluster. `sleep` waits for real seconds, or raises Stopped."""
        ...

    def stop(self) -> None:
        """End the threads, and leave everything as it is."""
        ...

    def close(self) -> None:
        """Close files, after `stop`."""
        ...


Beside = Callable[[RunSettings, Path, int, Clock, Callable[[], bool]], "Companion | None"]
"""Makes what goes on beside the replay of a run, if anything does: of its run.json, its folder, the locked file descriptor that a
running submission shares, its clock, and a function that tells whether the controller is known to have all jobs that it had."""
ENDS_INTERVAL = 0.02
"""Real seconds between two looks for the ends of jobs that others follow: a look takes a few microseconds. On an event
clock it is a virtual second, which is as exact as the log."""


NOTICED_AFTER = 5
"""Virtual seconds on an event clock from an event that ends the controller until the replay goes on."""


class Replay:
    """One run of the program over a run folder; `lock` is the locked file descriptor that a running submission shares."""

    def __init__(self, folder: Path, lock: int, waker: Waker, connect: Connect, beside: Beside | None = None) -> None:
        self.folder, self.waker, self.time = folder, waker, waker.time
        run_settings = RunSettings.read(folder / "run.json")
        self.settings = settings = Settings.of(run_settings)
        kind = kind_of(run_settings)
        self.plan = read_plan(folder / "plan.csv")
        digest = hashlib.sha256((folder / "plan.csv").read_bytes()).hexdigest()
        if digest != settings.plan_sha256:
            raise WrongUse(f"{folder}/plan.csv: is not the plan of run.json (its sha256 is {digest})")
        self.instance = Path(settings.instance)
        self.clock = Clock.read(settings.clock) if settings.clock else Clock()
        if not math.isclose(self.clock.speed, settings.speed, rel_tol=1e-6):
            raise WrongUse(f"{settings.speed} in run.json, {self.clock.speed} in {settings.clock}", parameter="speed")
        self.manager = connect(run_settings, lock)
        self.journal = Journal(folder / "journal.jsonl")
        self.history = self.journal.history
        self.status = Status(settings.run, len(self.plan), Path(settings.instance).name, self.clock.speed)
        events = events_of(run_settings)
        self.submitter = Submitter(
            folder, settings, self.plan, self.clock, self.manager, kind, self.journal, waker, self.status, events
        )
        self.events = EventPlayer(self.submitter, events, self.instance, self._end_controller)
        self.submitter.player = self.events
        self.changes_by_itself = not all(event.is_shown for event in events) or any(row.waits_for_instant for row in self.plan)
        self.driver: int | None = None
        self.recovery = Recovery(self.submitter)
        self.companion = beside(run_settings, folder, lock, self.clock, self._is_known) if beside else None
        if self.companion is not None:
            companion = self.companion
            self.submitter.other_ids = lambda: companion.highest_id

    def run(self, driver: int | None = None) -> None:
        """Start or go on, until all jobs have ended. Raises Stopped, Failed or WrongUse.

        driver: the descriptor by which this process drives an event clock
        """
        self.driver = driver
        if driver is not None:
            clock_page.set_changes(self.instance, self.changes_by_itself)
        gap = self._gap()
        if self.history.start and self.history.start["plan_sha256"] != self.settings.plan_sha256:
            raise WrongUse(f"{self.folder}/plan.csv: is not the plan that this run was started with")
        diagnostics = self.manager.records.diagnostic_metrics
        heartbeat = Heartbeat(
            self.status, self.folder, self.clock, self.submitter.timeline.began, diagnostics, self.submitter.halts, self.time
        )
        heartbeat.start()
        monitor = None
        try:
            if self.history.start is None:
                self._start()
                heartbeat.begin()
            else:
                self._resume(gap)
            monitor = self._monitor()
            monitor.start()
            if self.companion is not None:
                self.companion.start()
            self._play(monitor)
            if self.companion is not None:
                self.status.message = "all jobs have ended; those beside the workload save themselves and end"
                self.companion.finish(self.waker.sleep)
            self._finish(monitor)
        except Stopped:
            self._end("stopped", "stopped; the same command goes on")
            raise
        except Exception as error:
            log.error("%s", error, exc_info=not isinstance(error, (Failed, WrongUse)))
            self._end("failed", out_of_space(error, [self.folder]) or str(error))
            raise
        finally:
            self.manager.expect(())
            if self.companion is not None:
                self.companion.stop()
                self.companion.close()
            if monitor is not None:
                monitor.stop()
            heartbeat.stop()
            self.journal.close()

    def _end_controller(self, pid: int, number: signal.Signals) -> None:
        """End the controller with this process id by a signal; on an event clock, wait until it was started again.

        Raises Failed or Stopped.
        """
        if self.driver is not None:
            instant = self.time.now_ns()
            end_controller(self.instance, pid, self.driver, self.waker, number)
            # It depends on the host when this process notices that the controller is back.
            self.waker.sleep_until(instant + NOTICED_AFTER * 1_000_000_000)
        else:
            processes.send(pid, processes.start_time(pid) or 0, number)

    def _is_known(self) -> bool:
        """Whether no comparison with the controller is due, so that jobs may be submitted beside the plan."""
        return not self.history.closed and not self.submitter.doubtful and self.recovery.again_at == math.inf

    def _end(self, phase: str, message: str) -> None:
        """Leave a run that is not finished."""
        try:
            self.recovery.open_partitions()
        except (ResourceManagerError, WrongUse) as error:
            log.error("partitions stay closed until the run goes on: %s", error)
        self.status.phase, self.status.message = phase, message
        if self.history.start:
            try:
                self.journal.append(phase, real=self.time.now(), message=message)
            except OSError as error:  # the disk is full; the next replay needs no line about the end of this one
                log.error("the journal cannot be written: %s", error)

    def say_finished(self) -> None:
        """Write the phase `finished` to progress.json, if the replay was killed after it had written it to the journal only."""
        progress: dict[str, Any] = {}
        with suppress(Damaged):
            progress = read_json(self.folder / "progress.json", PROGRESS) or {}
        if progress.get("phase") != "finished":
            write_json(self.folder / "progress.json", {**progress, "phase": "finished", "message": ""})
        self.journal.close()

    # ---- the course of a run ----

    def _start(self) -> None:
        """Wait for the controller, on an event clock after its restart in phase (phase.py), and journal the start, to which all due
        instants are anchored."""
        submitter = self.submitter
        self.events.begin()
        begin = self._restart_controller()
        submitter.retry_until_answered(self.manager.controller)
        launch_cost = submitter.measure_launch_cost()
        offset = self.manager.completions_size()
        controller = submitter.retry_until_answered(self.manager.controller)
        queue = submitter.retry_until_answered(lambda: self.manager.queue(ended=True))
        earlier = [job for job in queue if job.name in submitter.indices]
        if active := [job.name for job in earlier if job.active]:
            raise WrongUse(
                f"The cluster still has jobs of an earlier run of this name, such as {active[0]}: cancel them", parameter="run"
            )
        if begin is not None:
            self.waker.sleep_until(begin)
            clock_page.begin_record(self.instance, begin)
        now = self.time.now_ns()
        self.journal.append(
            "start",
            real=now / 1e9,
            virtual=self.clock.virtual_at(now) / 1e9,
            boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            boot_time=controller.boot_time,
            next_id=controller.next_id,
            slurm_version=controller.version,
            plan_sha256=self.settings.plan_sha256,
            completion_offset=offset,
            controller_log_offset=self.manager.log_size(),
            launch_cost=launch_cost.record(),
            earlier_ids=[job.job_id for job in earlier],
            **self._clock_at_start(),
        )
        log.info("started: %d jobs, resource manager %s", len(self.plan), controller.version)

    def _restart_controller(self) -> int | None:
        """Restart the controller in phase, on an event clock, without what earlier runs left, unless a job of theirs has not ended;
        one that keeps its phase runs on.

        Returns as `restart_controller`. Raises Failed or Stopped.
        """
        if self.driver is None:
            return None
        queue = self.submitter.retry_until_answered(self.manager.queue)
        if self.manager.keeps_its_phase():
            return leap_to_begin(self.instance, self.waker, self.settings.second_of_week, is_idle=not queue)
        forgotten = () if queue else self.submitter.retry_until_answered(self.manager.saved_by_runs)
        return restart_controller(self.instance, self.driver, self.waker, self.settings.second_of_week, forgotten)

    def _clock_at_start(self) -> dict[str, Any]:
        """What the journal's start event has of an event clock: the real instant, and the coordinator's figures."""
        return {"outside": real_time.now(), "clock": clock_page.figures(self.instance)} if self.settings.event_clock else {}

    def _resume(self, gap: float) -> None:
        """Go on after an interruption: the rest of the schedule moves by its length, so that the gaps between the jobs
        stay. Jobs that were overdue when it began are submitted at once, in order."""
        self.journal.append("resumed", real=self.time.now(), gap=gap, submitted=len(self.history.job_ids))
        log.info("resumed after %.1f s: %d of %d submitted", gap, len(self.history.job_ids), len(self.plan))
        self.submitter.count()
        self.recovery.unsettle()
        self.recovery.compare()

    def _gap(self) -> float:
        """For how long this run was interrupted: since the last instant at which it is known to have been alive, by the journal or
        by the progress."""
        now, outside = self.time.now(), self.time.real_now()
        progress: dict[str, Any] = {}
        with suppress(Damaged):
            progress = read_json(self.folder / "progress.json", PROGRESS) or {}
        real, virtual = float(progress.get("real") or 0.0), float(progress.get("virtual") or 0.0)
        gap = max(0.0, now - max(self.history.last_sign, virtual if self.settings.event_clock else real))
        # An event clock has gone on by days since the last progress was written, but without a replay no faster than real time.
        return min(gap, max(0.0, outside - real)) if self.settings.event_clock else gap

    def _play(self, monitor: Monitor) -> None:
        """Carry out the actions at their instants, until all jobs have ended and a comparison finds no difference."""
        submitter, recovery, timeline = self.submitter, self.recovery, self.submitter.timeline
        while True:
            self.waker.check()
            if monitor.failure is not None:
                raise monitor.failure
            if self.companion is not None and self.companion.failure is not None:
                raise self.companion.failure
            if self._may_disagree(monitor):
                recovery.compare()
            self._note_halts(monitor)
            submitter.note_ends(monitor.ended, recovery.unrecorded.keys())
            instant, action = timeline.next()
            self.status.phase = "submitting" if len(self.history.job_ids) < len(self.plan) else "draining"
            now = self.time.now()
            if action is not None and instant <= now:
                timeline.take(action)
                submitter.carry_out(action, monitor.ended_for_good)
            elif self._all_ended(monitor) and recovery.compare():
                return
            else:
                self._wait(min(instant, recovery.again_at), now)

    def _wait(self, until: float, now: float) -> None:
        """Wait until something is due, until the monitor has looked, or until it is time to look for ends of jobs."""
        on_event_clock, awaits_ends = self.settings.event_clock, self.submitter.timeline.awaits_ends()
        if not on_event_clock or awaits_ends:
            until = min(until, now + (1.0 if on_event_clock or not awaits_ends else ENDS_INTERVAL))
        self.waker.wait(until - now)
        if on_event_clock:
            self.submitter.halts.missed(until, self.time.now())

    def _may_disagree(self, monitor: Monitor) -> bool:
        """Whether journal and controller may disagree."""
        controller = monitor.controller
        fresh = monitor.looked_at > self.recovery.compared_at
        restarted = fresh and controller is not None and controller.boot_time != self.history.boot_time
        unaccounted = fresh and not monitor.unaccounted <= self.recovery.unrecorded.keys()
        return restarted or unaccounted or self.submitter.doubtful or self.time.now() >= self.recovery.again_at

    def _note_halts(self, monitor: Monitor) -> None:
        """Journal the halts that ended before the monitor's last round. A halt with a restart of the controller counts as the
        restart only."""
        controller = monitor.controller
        if controller is None or controller.boot_time != self.history.boot_time:
            return
        for halt in self.submitter.halts.take(monitor.looked_at):
            if not any(restart["real"] > halt.since for restart in self.history.restarts):
                self.journal.append("halted", what=halt.what, since=halt.since, real=halt.until)
                log.warning("the %s was halted for %.1f s", halt.what, halt.until - halt.since)

    def _all_ended(self, monitor: Monitor) -> bool:
        """Whether a round of the monitor after the last comparison found all jobs ended, and no comparison is due."""
        ended = monitor.ended | self.recovery.unrecorded.keys()
        looked = monitor.looked_at > self.recovery.compared_at
        return looked and len(ended) == len(self.plan) and self.recovery.again_at == math.inf

    def _monitor(self) -> Monitor:
        monitor = Monitor(
            self.folder,
            self.manager,
            self.submitter.completion_log(),
            self.plan,
            self.clock,
            self.settings.sample_interval,
            self.status,
            self.submitter.answered,
            self.history.job_ids,
            self.submitter.timeline.position,
            self.submitter.halts,
            self.time,
            self.waker.wake,
            lambda: self.events.held | self.submitter.held(),
            self.settings.costs if self.settings.event_clock else None,
        )
        others = self.submitter.other_ids
        self.submitter.other_ids = lambda: max(others(), monitor.highest_number)
        return monitor

    # ---- the outcome ----

    def _finish(self, monitor: Monitor) -> None:
        monitor.stop()
        self.events.finish()
        write_json(self.folder / "result.json", self._result(monitor))
        # After the end of the run in its result: what happens now is none of its disturbances.
        self.events.restore_configuration()
        self.journal.append("finished", real=self.time.now())
        self.status.phase, self.status.message, self.status.time_left_cause = "finished", "", ""
        self.status.time_left_least = self.status.time_left_most = 0.0
        self.status.real_left_least = self.status.real_left_most = 0.0
        log.info("finished: %s", dict(self._states()))

    def _states(self) -> Counter[str]:
        """Jobs by the state in which the manager recorded their end; of several runs of a job, by the one that counts."""
        last: dict[int, CompletedJob] = {}
        for job in self.submitter.completed:
            index = self.submitter.indices[job.name]
            if job.job_id in self.history.copies:
                continue
            if index not in last or not last[index].ended_for_good:
                last[index] = job
        states = {index: job.state for index, job in last.items()}
        return Counter({**self.recovery.unrecorded, **states, **dict.fromkeys(self.history.stale, UNRECORDED)}.values())

    def _result(self, monitor: Monitor) -> dict[str, Any]:
        """The content of result.json. Lengths and instants are real."""
        history = self.history
        lags = sorted(history.lags.values())
        return {
            "run": self.settings.run,
            "jobs": len(self.plan),
            "submitted": len(history.job_ids),
            "resubmitted": history.resubmitted,
            "retries": history.retries,
            "cancelled": len(history.cancelled),
            "states": dict(self._states()),
            "launch_cost": self.submitter.launch_cost().record(),
            "lag_p50": lags[len(lags) // 2] if lags else None,
            "lag_p99": lags[len(lags) * 99 // 100] if lags else None,
            "lag_max": lags[-1] if lags else None,
            "interruptions": history.interruptions,
            "restarts": history.restarts,
            "halted": round(history.halted, 3),
            "halts": history.halts,
            "copies_cancelled": len(history.copies),
            "stale_runs_cancelled": len(history.stale),
            "played_twice": len(self.recovery.played.twice),
            "released": monitor.released,
            **({"events": self.events.counts()} if self.submitter.events else {}),
            "messages": self._complaints(),
            "began": self.submitter.timeline.began(),
            "last_submission": max(history.submitted_at.values(), default=None),
            "ended": self.time.now(),
            **self._clock_at_end(),
        }

    def _clock_at_end(self) -> dict[str, Any]:
        """What result.json has of an event clock: its figures, and the real instants of the run's start and end."""
        start = self.history.start
        if not self.settings.event_clock or start is None:
            return {}
        outside = {"began": start["outside"], "ended": real_time.now()}
        # After the last end it depends on the host when the replay notices that.
        last = max(self.recovery.played.read().values(), default=0.0)
        served, fingerprint = clock_page.fingerprint(self.instance, last)
        clock = figures_since(self.instance, start["clock"]) | {"served": served, "fingerprint": fingerprint}
        return {"event_clock": clock, "outside": outside}

    def _complaints(self) -> dict[str, int]:
        """Number of the daemons' complaints during the run, by kind."""
        start = self.history.start
        assert start is not None
        return dict(self.manager.complaints(start["real"], start["virtual"], start["controller_log_offset"]))


def replay(folder: Path, connect: Connect, beside: Beside | None = None) -> None:
    """Replay the run in `folder`, or go on with it, with what `beside` makes; does nothing if it is finished.

    Raises WrongUse, Failed or Stopped.
    """
    if not folder.is_dir():
        raise WrongUse(f"{folder}: there is no such run folder")
    waker = Waker()
    waker.install()
    lock = take_lock(folder / "replay.lock", waker)
    driver = None
    try:
        begin_log(folder / "replay.log")
        run = Replay(folder, lock, waker, connect, beside)
        driver = drive(run.instance) if run.settings.event_clock and not run.history.finished else None
        sign_lock(lock)
        os.environ[INSTANCE_VARIABLE] = run.settings.instance
        if run.history.finished:
            run.say_finished()
        else:
            run.run(driver)
    finally:
        if driver is not None:
            os.close(driver)
        os.close(lock)
