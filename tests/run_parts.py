"""`python -m tests.run_parts [molecule]`: runs the parts of `make test`, or the Molecule scenarios, side by side.

The output of a part is printed when it ends. The last lines are a table of seconds by part and step, the scenarios that passed, and
the parts that failed. A part that fails does not end the others. SIGINT and SIGTERM end all of them. The exit code is 0 or 1.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_mirage.base import processes

ROOT = Path(__file__).parents[1]
OPENPBS = Path("/var/cache/slurm-mirage/source/openpbs.tar.gz")
"""Where an earlier test has kept the archive of OpenPBS's source."""
BUILT = "multihost, build"
"""Name of the part that builds the hosts and the cluster of the scenario multihost."""
BUILD = ("destroy", "create", "check", "converge", "idempotence", "verify")
AFTER_BUILD = ("side-effect", "destroy")
UNTIMED = ("source", "openstack")
"""Scenarios that measure no times: they may run beside the unit tests."""
PATIENCE = 60.0
"""Seconds that a part has for its end after SIGTERM."""


@dataclass(frozen=True)
class Part:
    """A command of `make test`.

    after: parts that have to succeed before.
    width: number of lanes it takes, as it keeps so many processors busy.
    niceness: added to that of its processes.
    is_timed: whether it measures times, so that it does not start before all parts of more than one lane have ended.
    """

    name: str
    command: Sequence[str]
    after: Sequence[str] = ()
    width: int = 1
    niceness: int = 0
    is_timed: bool = False


@dataclass
class Outcome:
    """How a part ended. Steps are pairs of a name and seconds; `code` is None for a part that was not run.

    busy: seconds of processors that its processes took, without those that became children of process 1. began: whether it was run.
    """

    part: Part
    code: int | None = None
    seconds: float = 0.0
    steps: list[tuple[str, float]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    busy: float = 0.0
    began: bool = False

    @property
    def summary(self) -> str:
        """The processor time in words."""
        return f"{self.busy:.0f} s of a processor"


def scenarios() -> tuple[list[str], list[str]]:
    """The Molecule scenarios to run, in the order in which they start, and those to skip."""
    # OpenPBS is no Debian package: its scenario needs an archive of the source.
    has_openpbs = os.environ.get("OPENPBS_SOURCE") or OPENPBS.exists()
    names = [path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml")]
    skipped = [name for name in names if name == "openpbs" and not has_openpbs]
    # Those that take the longest are first.
    order = ["multihost", "multihost_trixie", "local", "source", "openstack"]
    chosen = set(names) - set(skipped)
    return [*(name for name in order if name in chosen), *sorted(chosen - set(order))], skipped


def preparations() -> list[Part]:
    """What scenarios need from the network or a compiler, and what stays in a cache. Beside the unit tests it costs no time."""
    python = sys.executable
    return [
        Part("bookworm", [python, "-m", "testbed", "tree", "--release=bookworm"], niceness=5),
        Part("trixie", [python, "-m", "testbed", "tree", "--release=trixie"], ["bookworm"], niceness=5),
    ]


def molecule_parts() -> list[Part]:
    """The scenarios. The hosts of the longest one are built in a part of its own, which is not timed."""
    trees = {"multihost": [BUILT], "multihost_trixie": ["trixie"]}
    tests = {"multihost": ["sh", "-c", _molecule("multihost", AFTER_BUILD)]}
    return [
        Part(BUILT, ["sh", "-c", _molecule("multihost", BUILD)], ["bookworm"]),
        *(
            Part(
                name,
                tests.get(name, ["molecule", "test", f"--scenario-name={name}"]),
                trees.get(name, ()),
                is_timed=name not in UNTIMED,
            )
            for name in scenarios()[0]
        ),
    ]


def _molecule(scenario: str, steps: Sequence[str]) -> str:
    """Shell commands that run steps of a scenario. After a step that fails its machines are removed."""
    lines = [f"molecule {step} --scenario-name={scenario}" for step in steps]
    return f"{' && '.join(lines)} || {{ molecule destroy --scenario-name={scenario}; exit 1; }}"


def all_parts() -> list[Part]:
    """The parts of `make test`, in the order in which they start where there are lanes for them."""
    return [
        Part("unit", ["make", "unit"], width=os.cpu_count() or 1),
        *preparations(),
        *molecule_parts(),
        Part("faults-quick", ["make", "faults-quick"], is_timed=True),
        Part("lint", ["make", "lint"], niceness=15, is_timed=True),
    ]


# ---- steps ----

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TEST = re.compile(r"(?P<seconds>\d+\.\d+)s +(?P<phase>call|setup|teardown) +(?P<name>\S+)")
_FAULT = re.compile(r"\[\d+/\d+\] +(?P<seconds>\d+) s  (?P<name>[\w-]+):")
_ACTION = re.compile(r"INFO +\w+ ➜ (?P<name>\w+): (?P<state>Executing|Executed)")


class Steps:
    """Reads the duration of steps from the lines of a part: of pytest's slowest tests, of faults, and of Molecule's actions."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self._began = 0.0

    def read(self, line: str, now: float) -> str:
        """Note what a line without colours tells at the time `now`. Returns the name of an action that begins, or an empty text."""
        if match := _TEST.match(line):
            self.steps.append((f"{match['name']} ({match['phase']})", float(match["seconds"])))
        elif match := _FAULT.match(line):
            self.steps.append((match["name"], float(match["seconds"])))
        elif match := _ACTION.search(line):
            if match["state"] == "Executing":
                self._began = now
                return match["name"]
            self.steps.append((match["name"], now - self._began))
        return ""


# ---- running ----


class Parts:
    """Runs parts in lanes: each starts when as many lanes are free as it is wide, and the parts before it have succeeded."""

    def __init__(self, parts: Sequence[Part], lanes: int) -> None:
        self.outcomes = {part.name: Outcome(part) for part in parts}
        self._lanes = lanes
        self._free = lanes
        self._change = threading.Condition()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._waiting = list(parts)
        self.is_interrupted = False

    def run(self) -> None:
        """Run all parts. Returns when the last one has ended."""
        threads: list[threading.Thread] = []
        while self._waiting:
            with self._change:
                part = self._next()
                if part is None:
                    # A signal is handled between two waits.
                    self._change.wait(0.5)
                    continue
                self._waiting.remove(part)
                self._free -= self._width(part)
                self.outcomes[part.name].began = True
            threads.append(threading.Thread(target=self._run, args=(part,)))
            threads[-1].start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)

    def _width(self, part: Part) -> int:
        return min(part.width, self._lanes)

    def _next(self) -> Part | None:
        """The first part that can start. Parts that never can are no longer waiting; each follows those that it needs."""
        if self.is_interrupted:
            self._waiting.clear()
        codes = {name: outcome.code for name, outcome in self.outcomes.items()}
        never = {name for name, code in codes.items() if code}
        for part in list(self._waiting):
            if never.intersection(part.after):
                never.add(part.name)
                self._waiting.remove(part)
            elif part.is_timed and self._wide_parts_left():
                continue
            elif self._width(part) <= self._free and all(codes[name] == 0 for name in part.after):
                return part
        return None

    def _wide_parts_left(self) -> bool:
        """Whether parts of more than one lane wait or run."""
        begun = [outcome.part for outcome in self.outcomes.values() if outcome.began and outcome.code is None]
        return any(part.width > 1 for part in (*self._waiting, *begun))

    def _run(self, part: Part) -> None:
        outcome = self.outcomes[part.name]
        began = time.monotonic()
        say(f"{part.name} begins")
        process = subprocess.Popen(
            ["nice", f"-n{part.niceness}", *part.command],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        with self._change:
            self._running[part.name] = process
        if self.is_interrupted:
            process.terminate()
        self._follow(process, outcome)
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        outcome.seconds = time.monotonic() - began
        with self._change:
            del self._running[part.name]
            outcome.code, outcome.busy = code, usage.ru_utime + usage.ru_stime
            self._free += self._width(part)
            text = "\n".join(
                [
                    f"==== {part.name} ====",
                    *outcome.output,
                    f"{part.name} took {outcome.seconds:.0f} s ({outcome.summary})",
                ]
            )
            print(text, flush=True)
            self._change.notify_all()

    def _follow(self, process: subprocess.Popen[bytes], outcome: Outcome) -> None:
        """Read the output of a part to its end."""
        steps = Steps()
        assert process.stdout is not None
        for data in process.stdout:
            line = data.decode(errors="replace").rstrip("\n")
            outcome.output.append(line)
            if action := steps.read(_COLOURS.sub("", line), time.monotonic()):
                say(f"{outcome.part.name}: {action}")
        outcome.steps = steps.steps

    def end(self) -> None:
        """Send SIGTERM to all processes that the parts have started, and SIGKILL to those that still run after PATIENCE."""
        self.is_interrupted = True
        pids = [process.pid for process in list(self._running.values())]
        processes.end(descendants(pids), PATIENCE)


def descendants(pids: Sequence[int]) -> list[int]:
    """These processes, and all that they have started and that has no other parent yet, as daemons have."""
    parents = processes.parents()
    members, added = set(pids), set(pids)
    while added:
        added = {pid for pid, parent in parents.items() if parent in added} - members
        members |= added
    return sorted(members)


def environment() -> dict[str, str]:
    """The environment of the parts. Molecule's state belongs to this clone, and no colours to a pipe."""
    colours = {"FORCE_COLOR": "1", "ANSIBLE_FORCE_COLOR": "1"} if sys.stdout.isatty() else {}
    return {**os.environ, **colours, "ANSIBLE_HOME": str(ROOT / ".ansible")}


_began = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - _began:6.0f} s  {text}", flush=True)


# ---- the end ----


def failed_tasks(lines: Sequence[str]) -> Iterator[str]:
    """The lines of the tasks on which Molecule has ended, which stand thousands of lines above its end.

    Of a long message the first lines, which name the task, and the last ones, which hold the output of its command.
    """
    task: list[str] = []
    message: list[str] = []
    has_failed = False
    for line in lines:
        plain = re.sub(r"^[\d:]* *│ ?", "", _COLOURS.sub("", line))
        if re.match(r"TASK|RUNNING HANDLER|PLAY", plain):
            if has_failed:
                message = task
            task, has_failed = [], False
        if re.match(r"\[ERROR\]|fatal:|failed:", plain):
            has_failed = True
        task.append(plain[:200])
        if plain.startswith("CRITICAL"):
            yield from message if len(message) <= 24 else [*message[:16], *message[-8:]]
            message = []


def named_tests(lines: Sequence[str]) -> list[str]:
    """The lines of pytest's summary that name a test which failed, each once."""
    return list(dict.fromkeys(line[:300] for line in lines if re.match(r"(FAILED|ERROR) \S+::", line)))


def table(rows: Sequence[tuple[str, str, float]]) -> str:
    """A table of parts and steps with their seconds."""
    lines = [f"{'part':<18}  {'step':<90}  seconds"]
    lines += [f"{part:<18}  {step[:90]:<90}  {seconds:7.1f}" for part, step, seconds in rows]
    return "\n".join(lines)


def report(outcomes: Sequence[Outcome], earlier: Sequence[tuple[str, float]]) -> int:
    """Print the table, failed tasks, tests that failed, and the parts that failed. Returns the exit code."""
    rows = [(name, "", seconds) for name, seconds in earlier]
    for outcome in outcomes:
        rows += [
            (outcome.part.name, outcome.summary, outcome.seconds),
            *((outcome.part.name, *step) for step in outcome.steps),
        ]
    print(table(rows))
    for outcome in outcomes:
        for line in failed_tasks(outcome.output) if outcome.code else ():
            print(line)
        for line in named_tests(outcome.output):
            print(line)
    chosen, skipped = scenarios()
    run = {outcome.part.name: outcome.code for outcome in outcomes}
    passed = [name for name in chosen if run.get(name) == 0]
    others = [name for name in chosen if run.get(name) != 0]
    if skipped:
        print(f"skipped: {' '.join(skipped)} (OPENPBS_SOURCE names no archive of OpenPBS's source)")
    print(f"scenarios that passed: {' '.join(passed) or 'none'}; failed or not run: {' '.join(others) or 'none'}")
    wrong = [name for name, code in run.items() if code != 0]
    if wrong:
        print(f"failed: {' '.join(wrong)}")
    return 1 if wrong else 0


def main(arguments: Sequence[str]) -> int:
    """Run the parts. Arguments NAME=SECONDS are rows of the table for what has run before."""
    earlier = [(name, float(seconds)) for name, _, seconds in (word.partition("=") for word in arguments) if seconds]
    chosen = [*preparations(), *molecule_parts()] if "molecule" in arguments else all_parts()
    parts = Parts(chosen, lanes=(os.cpu_count() or 1) + 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: parts.end())
    parts.run()
    return report(list(parts.outcomes.values()), [*earlier, ("all", time.monotonic() - _began + sum(s for _, s in earlier))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
