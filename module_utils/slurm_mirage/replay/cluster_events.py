"""Plays the events of a run (jobs.cluster_events): each once, whatever is killed meanwhile.

The journal has `event_began` before an event is carried out, and `event_done` with its outcome afterwards. An event that began, but
has no outcome because the replay was killed, is carried out again if that changes nothing; of the others it is looked up whether
they were carried out.
"""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..base import hostlist, processes
from ..base.errors import WrongUse
from ..base.processes import INSTANCE_VARIABLE
from ..clock import real_limit, real_time
from ..farm import absent
from ..jobs import cluster_events as events
from ..jobs.cluster_events import ClusterEvent
from ..rm.api import Refused, ResourceManagerError, Unclear
from ..rm.daemon_kinds import FIRST_CONTROLLER
from .actions import DONE, REFUSED, UNKNOWN, Cancel, Event, Happen
from .process import Failed
from .submitter import Submitter

log = logging.getLogger("replay")

PATIENCE = 60.0
"""Real seconds for the farm to take daemons away, or to start the controller again."""
PAUSE = 0.01
"""Real seconds between two looks at the farm's state, where time does not stand while this program works."""
AGAIN_AFTER = 1.0
"""Seconds of this process's clock between two questions whether the first controller has taken control back."""
LOOK = 0.2
"""Seconds of the cluster's time between two looks for a controller that was restarted."""
COMMAND_LIMIT = 300.0
"""Real seconds for a user's command."""
FORGOTTEN_WITHIN = 10.0
"""Virtual seconds before the last answer of a controller that was killed. It saves its state within 5 s, and may have forgotten
what it was told in this time."""
OUTPUT = re.compile(r"event-\d+\.output", re.ASCII)
"""Names of the files in the run's folder to which commands of the user's write."""
LONGEST_WORDS = 400
"""Characters of a refusal in the journal."""
_REPEATABLE = frozenset(
    {events.DOWN, events.DRAIN, events.RESUME, events.RESERVE, events.RELEASE, events.SET, events.HOLD, events.RELEASE_JOB}
)
"""Changes of the controller's state that are the same when they are made twice."""
_DONE_IF_REFUSED = frozenset({events.RESUME, events.RESERVE, events.RELEASE})
"""Changes that Slurm refuses if they were made before: that was the replay which was killed."""
_TAKES = {events.FAIL: (True, False), events.RETURN: (False, False), events.SILENCE: (True, True), events.ANSWER: (False, True)}
"""Actions that take nodes away or return them: whether they are away then, and whether they are only stopped."""
_TAKES_CONTROLLER = {events.FAILOVER: True, events.TAKE_BACK: False}
"""Actions that take the first controller away or return it: whether it is away then."""


@dataclass(frozen=True)
class Away:
    """The daemons that are away from the cluster: gone, or stopped."""

    gone: Set[str] = frozenset()
    stopped: Set[str] = frozenset()

    def after(self, event: ClusterEvent) -> Away:
        """Those that are away after an event."""
        if event.action in _TAKES_CONTROLLER:
            is_gone, first = _TAKES_CONTROLLER[event.action], {FIRST_CONTROLLER}
            return Away(self.gone | first if is_gone else self.gone - first, self.stopped)
        if event.action not in _TAKES:
            return self
        is_away, is_stopped = _TAKES[event.action]
        before = self.stopped if is_stopped else self.gone
        names = set(hostlist.expand(event.target))
        now = before | names if is_away else before - names
        return Away(self.gone, now) if is_stopped else Away(now, self.stopped)


class EventPlayer:
    """Carries out the events of a run for a `Submitter`.

    end_controller: ends the controller with this process id by this signal, and lets the farm start it again
    """

    def __init__(
        self,
        submitter: Submitter,
        planned: Sequence[ClusterEvent],
        instance: Path,
        end_controller: Callable[[int, signal.Signals], None],
    ) -> None:
        self._all, self._planned, self._instance = submitter, planned, instance
        self._end_controller = end_controller
        self._numbers = {row.id: row.index for row in submitter.plan}
        self._takes_back = False
        """True while `take_back_if_due` carries out a take-back, whose commands call it again. It does nothing then."""

    # ---- what was carried out ----

    def _done(self) -> Iterable[ClusterEvent]:
        """The events that were carried out, in their order."""
        outcomes = self._all.history.events_done
        return (event for event in self._planned if event.number in outcomes and outcomes[event.number]["outcome"] == DONE)

    @property
    def held(self) -> Set[int]:
        """Ids of the jobs that events hold."""
        held: set[int] = set()
        for event in self._done():
            if event.action == events.HOLD:
                held.add(self._numbers[int(event.target)])
            elif event.action == events.RELEASE_JOB:
                held.discard(self._numbers[int(event.target)])
        return {self._all.history.job_ids[index] for index in held if index in self._all.history.job_ids}

    def counts(self) -> dict[str, int]:
        """The number of events by their outcome; those that the run did not reach are `not_reached`."""
        outcomes = [event["outcome"] for event in self._all.history.events_done.values()]
        counts = {outcome: outcomes.count(outcome) for outcome in (DONE, REFUSED, UNKNOWN)}
        return {**counts, "not_reached": len(self._planned) - len(outcomes)}

    # ---- carrying out ----

    def play(self, event: ClusterEvent, ended: Set[int]) -> list[Event]:
        """Carry out an event; what to journal. Raises Failed or Stopped."""
        began = self._all.history.events_began.get(event.number)
        if began is None:
            seen = self._seen(event)
            self._all.journal.append("event_began", index=event.number, real=self._all.now(), seen=seen, **_outside())
        else:
            seen = began["seen"]
        outcome, words = self._outcome(event, ended, None if began is None else seen)
        log.info("event %d: %s %s %s: %s %s", event.number, event.action, event.target, event.argument, outcome, words)
        done: Event = {"event": Happen.event, "index": event.number, "outcome": outcome, "words": words, **_outside()}
        if event.action == events.CANCEL and outcome == DONE:
            return [done, {"event": Cancel.event, "index": self._numbers[int(event.target)]}]
        return [done]

    def take_back_if_due(self) -> None:
        """Carry out the take-back of the failover that is in force, if it is due. While no controller answers, it comes before the
        actions that are due earlier: they wait for an answer. Raises Failed or Stopped."""
        if self._takes_back or FIRST_CONTROLLER not in self.away().gone:
            return
        outcomes, timeline = self._all.history.events_done, self._all.timeline
        left = (event for event in self._planned if event.action in _TAKES_CONTROLLER and event.number not in outcomes)
        event = next(left, None)
        if event is None or event.action != events.TAKE_BACK or timeline.instant(Happen(event)) > self._all.now():
            return
        self._takes_back = True
        try:
            self._all.note(self.play(event, frozenset()))
        finally:
            self._takes_back = False

    def _seen(self, event: ClusterEvent) -> int:
        """What tells afterwards whether an event was carried out: of a requeue how often the job was requeued before, of a
        controller that is ended when it was started, of a take-back when the one before was; 0 for others."""
        if event.action == events.TAKE_BACK:
            # No question: between the two controllers none answers.
            return self._all.history.boot_time or 0
        if _ends_controller(event):
            return self._all.retry_until_answered(self._all.manager.controller).boot_time
        if event.action == events.REQUEUE and (job_id := self._job_id(event)) is not None:
            return self._all.retry_until_answered(lambda: self._all.manager.requeues(job_id))
        return 0

    def _outcome(self, event: ClusterEvent, ended: Set[int], seen: int | None) -> tuple[str, str]:
        """Carry out an event: the outcome, and Slurm's words for a refusal.

        seen: None, or if a replay that was killed may have carried it out, what it saw before
        """
        if seen is not None and (known := self._known_outcome(event, seen)) is not None:
            return known
        refusal: list[str] = []

        def attempt() -> None:
            refusal.clear()
            try:
                self._carry_out(event, ended)
            except (Refused, Unclear) as error:
                refusal.append(" ".join(str(error).split())[:LONGEST_WORDS])

        self._all.retry_until_answered(attempt, f"event {event.number} ({event.action} {event.target}): ")
        if refusal and seen is not None and event.action in _DONE_IF_REFUSED:
            return DONE, ""
        return (REFUSED, refusal[0]) if refusal else (DONE, "")

    def _known_outcome(self, event: ClusterEvent, seen: int) -> tuple[str, str] | None:
        """The outcome of an event that a replay which was killed had begun; None if it has to be carried out, perhaps again."""
        manager = self._all.manager
        if _ends_controller(event):
            is_other = self._all.retry_until_answered(manager.controller).boot_time != seen
            has_file = event.action != events.CONFIGURE or not self._change_configuration(event.target)
            return (DONE, "") if is_other and has_file else None
        if event.action == events.REQUEUE and (job_id := self._job_id(event)) is not None:
            was_requeued = self._all.retry_until_answered(lambda: manager.requeues(job_id)) > seen
            return (DONE, "") if was_requeued else None
        if event.action == events.RUN and self._file(event, "started").exists():
            return self._end_of_command(event)
        return None

    def _carry_out(self, event: ClusterEvent, ended: Set[int]) -> None:
        """Raises ResourceManagerError, Failed and Stopped."""
        manager, action = self._all.manager, event.action
        if action in (events.DOWN, events.DRAIN, events.RESUME):
            reason = f"event {event.number}: {event.argument or action}"
            manager.set_nodes(event.target, action, reason)
        elif action in _TAKES:
            self.take_away(self.away(event))
        elif action in _TAKES_CONTROLLER:
            self._all.doubtful = True
            self.take_away(self.away(event))
            if action == events.TAKE_BACK:
                self._await_other_controller(self._all.history.events_began[event.number]["seen"])
        elif action == events.RESERVE:
            manager.reserve(event.target, event.argument, self._began_virtual())
        elif action == events.RELEASE:
            manager.release_reservation(event.target)
        elif action == events.SET:
            kind, _, name = event.target.partition(" ")
            manager.change(kind, str(self._known_job(int(name), ended)) if kind == "job" else name, event.argument)
        elif action == events.CONFIGURE:
            self._configure(event)
        elif action == events.KILL_CONTROLLER:
            self._end(signal.SIGKILL)
        elif action in events.JOB_ACTIONS:
            self._change_job(event, ended)
        elif action == events.RUN:
            self._run(event)
        else:
            raise Refused(f"this release cannot play {action}")

    # ---- jobs ----

    def _job_id(self, event: ClusterEvent) -> int | None:
        return self._all.history.job_ids.get(self._numbers[int(event.target)])

    def _known_job(self, number: int, ended: Set[int]) -> int:
        """The id of a job of the trace. Raises Refused if it was not submitted, or has ended."""
        index = self._numbers[number]
        if index not in self._all.history.job_ids:
            raise Refused(f"job {number} was not submitted yet")
        if index in ended:
            raise Refused(f"job {number} has ended")
        return self._all.history.job_ids[index]

    def _change_job(self, event: ClusterEvent, ended: Set[int]) -> None:
        job_id, manager = self._known_job(int(event.target), ended), self._all.manager
        if event.action == events.CANCEL:
            if self._all.may_cancel():
                manager.cancel([job_id])
        elif event.action == events.REQUEUE:
            manager.requeue([job_id])
        elif event.action == events.HOLD:
            manager.hold([job_id])
        else:
            manager.release([job_id])

    # ---- daemons ----

    def away(self, event: ClusterEvent | None = None) -> Away:
        """The daemons that are away after all events that were carried out, and after `event`."""
        away = Away()
        for done in self._done():
            away = away.after(done)
        return away if event is None else away.after(event)

    def take_away(self, away: Away) -> None:
        """Let the farm take these daemons away, and return all others; wait until it has. Raises Failed and Stopped.

        On an event clock this thread does not pause meanwhile, so time stands.
        """
        text = absent.text_of(away.gone, away.stopped)
        deadline, is_told = real_time.now() + PATIENCE, False
        while True:
            farm = absent.farm_of(self._instance)
            if farm is not None and is_told and farm.get(absent.STATE_KEY) == absent.digest_of(text):
                return
            if farm is not None and not is_told:
                try:
                    absent.request(self._instance, farm, text)
                    is_told = True
                except absent.NoFarm:
                    continue
                except (OSError, WrongUse) as error:
                    raise Failed(f"{self._instance}/{absent.FILE} cannot be written: {error}") from error
            if not real_time.is_preloaded():
                time.sleep(PAUSE)
            if real_time.now() > deadline:
                raise Failed(f"the farm of {self._instance} did not take nodes away within {PATIENCE:g} s")
            self._all.waker.check()

    def _end(self, number: signal.Signals) -> None:
        """End the controller by a signal. Raises Refused if it does not run, Failed and Stopped."""
        farm = absent.farm_of(self._instance)
        pid = farm["controller_pid"] if farm is not None else 0
        if not pid or processes.start_time(pid) is None or not processes.belongs(pid, str(self._instance)):
            raise Refused("the controller does not run")
        self._all.doubtful = True
        self._end_controller(pid, number)

    def _await_other_controller(self, seen: int) -> None:
        """Wait until another controller answers than that which was `seen`. Raises Failed and Stopped."""
        waker = self._all.waker
        deadline = waker.time.real_now() + PATIENCE
        while True:
            # While the two change places a question may have no answer.
            with contextlib.suppress(ResourceManagerError):
                if self._all.manager.controller().boot_time != seen:
                    return
            if waker.time.real_now() > deadline:
                raise Failed(f"the first controller did not take control back within {PATIENCE:g} s; see its log")
            waker.sleep(AGAIN_AFTER)

    def controller_ended(self) -> tuple[int | None, float]:
        """The event that has ended the controller since its last restart was noticed, and the real instant; None if none has."""
        history = self._all.history
        noticed = history.restarts[-1]["real"] if history.restarts else 0.0
        ends = [event.number for event in self._planned if event.action in _TAKES_CONTROLLER or _ends_controller(event)]
        began = [(number, float(history.events_began[number]["real"])) for number in ends if number in history.events_began]
        return next(((number, real) for number, real in reversed(began) if real >= noticed), (None, 0.0))

    def repeat_forgotten(self, since: float) -> None:
        """Make the changes again that a controller may have forgotten, which was killed after the instant `since`.

        Raises Failed or Stopped.
        """
        outcomes = self._all.history.events_done
        within = self._all.clock.virtual_to_real(FORGOTTEN_WITHIN)
        for event in self._done():
            if event.action in _REPEATABLE and outcomes[event.number]["real"] >= since - within:
                outcome, words = self._outcome(event, frozenset(), None)
                log.info("event %d is repeated after a restart of the controller: %s %s", event.number, outcome, words)

    # ---- the configuration ----

    def _change_configuration(self, name: str) -> bool:
        return self._all.retry_until_answered(lambda: self._all.manager.change_configuration(name))

    def _configure(self, event: ClusterEvent) -> None:
        """Let the controller take over another configuration. Raises ResourceManagerError, Failed and Stopped."""
        manager, history = self._all.manager, self._all.history
        manager.change_configuration(event.target)
        self._tell_standby()
        if event.argument == events.RESTART:
            self._end(signal.SIGTERM)
            return
        is_known = manager.controller().boot_time == history.boot_time
        since = self._all.now()
        manager.reconfigure()
        boot_time = manager.controller().boot_time
        if is_known and boot_time != history.boot_time:
            # Slurm 23.11 and later start a new process for it, which forgets nothing.
            self._all.journal.append("restarted", real=self._all.now(), since=since, boot_time=boot_time, by_event=event.number)

    def begin(self) -> None:
        """Before the start of the run: end a configuration that an unfinished run has left. Raises Failed or Stopped."""
        if any(event.action == events.CONFIGURE for event in self._planned) and self._change_configuration(""):
            self._restart_controller()

    def restore_configuration(self) -> None:
        """After the run: let the controller read the cluster's own configuration again, if an event began to change it.

        Raises Failed or Stopped.
        """
        began = self._all.history.events_began
        if any(event.action == events.CONFIGURE and event.number in began for event in self._planned):
            self._change_configuration("")
            self._tell_standby()
            self._restart_controller()

    def _tell_standby(self) -> None:
        """Let a second controller that is not in charge read its configuration again."""
        absent.signal_standby(self._instance, signal.SIGHUP)

    def _restart_controller(self) -> None:
        """End the controller in order, and wait for the answer of the next one. Raises Failed or Stopped."""
        controller, waker = self._all.manager.controller, self._all.waker
        deadline = waker.time.real_now() + PATIENCE
        before = self._all.retry_until_answered(controller).boot_time
        try:
            self._end(signal.SIGTERM)
        except Refused as error:
            log.error("the configuration is not the cluster's own one before the next start of the controller: %s", error)
            return
        while self._all.retry_until_answered(controller).boot_time == before:
            if waker.time.real_now() > deadline:
                raise Failed(f"the controller was not restarted within {PATIENCE:g} s")
            waker.sleep(LOOK)

    # ---- commands of the user ----

    def _file(self, event: ClusterEvent, suffix: str) -> Path:
        return self._all.folder / f"event-{event.number}.{suffix}"

    def _run(self, event: ClusterEvent) -> None:
        """Run a command of the user's in the run's folder, and wait for its end. Raises Refused if it fails or takes too long."""
        script = 'set -C; : > "$1.started" || exit 0; sh -c "$2" > "$1.output" 2>&1; echo $? > "$1.exit"'
        command = ["/bin/sh", "-c", script, "sh", f"event-{event.number}", event.argument]
        environment = {**self._all.manager.environment(), INSTANCE_VARIABLE: str(self._instance)}
        try:
            real_limit.run(command, "", COMMAND_LIMIT, env=environment, cwd=self._all.folder, start_new_session=True)
        except subprocess.TimeoutExpired as error:
            raise Refused(f"the command did not end within {COMMAND_LIMIT:g} s") from error
        except OSError as error:
            raise Refused(f"the command cannot be run: {error.strerror}") from error
        outcome, words = self._end_of_command(event)
        if outcome != DONE:
            raise Refused(words)

    def _end_of_command(self, event: ClusterEvent) -> tuple[str, str]:
        """The outcome of a command that was started, once it has ended."""
        over, deadline = threading.Event(), real_time.now() + COMMAND_LIMIT
        while real_time.now() < deadline:
            try:
                code = self._file(event, "exit").read_text().strip()
            except FileNotFoundError:
                code = ""
            if code:
                return (DONE, "") if code == "0" else (REFUSED, f"exit code {code}; see {self._file(event, 'output').name}")
            self._all.waker.check()
            real_time.pause(over, 0.05)
        return UNKNOWN, "the command has no exit code"

    def _undo(self, attempt: Callable[[], None]) -> None:
        """Undo a change, unless that is refused: a reservation may have ended, and a node may have been returned."""

        def undo() -> None:
            try:
                attempt()
            except (Refused, Unclear) as error:
                log.info("nothing to undo: %s", error)

        self._all.retry_until_answered(undo)

    def _began_virtual(self) -> float:
        """The virtual second since the epoch at which the schedule begins, with the interruptions so far."""
        start = self._all.history.start
        assert start is not None
        return float(start["virtual"]) + self._all.clock.real_to_virtual(self._all.history.shift)

    def finish(self) -> None:
        """All jobs have ended: return daemons and nodes, and remove reservations, that events have left.

        Raises Failed and Stopped.
        """
        if self._planned and absent.read(self._instance):
            self.take_away(Away())
        out, reserved = set[str](), set[str]()
        for event in self._done():
            if event.action in (events.DOWN, events.DRAIN):
                out.update(hostlist.expand(event.target))
            elif event.action == events.RESUME:
                out.difference_update(hostlist.expand(event.target))
            elif event.action == events.RESERVE:
                reserved.add(event.target)
            elif event.action == events.RELEASE:
                reserved.discard(event.target)
        if out:
            self._undo(lambda: self._all.manager.set_nodes(hostlist.compress(out), events.RESUME, ""))
        for name in sorted(reserved):
            self._undo(partial(self._all.manager.release_reservation, name))


def _ends_controller(event: ClusterEvent) -> bool:
    return event.action == events.KILL_CONTROLLER or (event.action == events.CONFIGURE and event.argument == events.RESTART)


def _outside() -> dict[str, float]:
    """What an event of the journal has in addition on an event clock: the real instant, by which the farm notes ends of daemons."""
    return {"outside": real_time.now()} if real_time.is_preloaded() else {}
