"""Filler jobs: the words that describe them, and the command line of one.

Fillers are jobs beside the workload, on one node each, which fill nodes that would be idle. They may be stopped at any time, and go
on from their last save, also on another node. They are numbered 1, 2, ... The words are one text:

    [work=SECONDS|FILE] [save=S] [restore=S] [interval=S] [slot=S] [speed=C] [count=N]

A later word takes the place of an earlier one. FILE has a length of work in seconds on each line.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import WrongUse
from ...jobs.decimals import DECIMAL, DECIMALS, LARGEST_NUMBER, decimal_text, seconds

NO, SLOTS, PLANNED = "no", "slots", "planned"
"""Values of FILLER: no fillers; fillers that end with their slot; fillers that run until a job of the workload is planned on their
node (mirage_extras/filler/README.md)."""
FORM = "[work=SECONDS|FILE] [save=S] [restore=S] [interval=S] [slot=S] [speed=C] [count=N]"
LARGEST_COUNT = 10_000_000
EXIT_REQUEUE = 99
"""Exit code of a filler that left its node and is to be started again: the end of a slot, or a request to save."""


@dataclass(frozen=True)
class Filler:
    """The properties of a run's fillers. Times are in seconds."""

    work: tuple[float, ...] = (36000.0,)
    """Lengths of the fillers' work as a bare process: one for all of them, or one for each."""
    save: float = 10.0
    """What a save costs: no work is done meanwhile."""
    restore: float = 5.0
    """What each start costs, the first one included, before work begins."""
    interval: float = 600.0
    """Time of work between two periodic saves; 0: none."""
    slot: float = 600.0
    """Length of a slot; slots begin at multiples of it."""
    speed: float = 1.0
    """Work done per second, compared with a bare process: above 0, up to 1."""
    count: int | None = None
    """How many fillers there are; None: as many as there is room for."""

    @classmethod
    def parse(cls, text: str) -> Filler:
        """Parse the words; a FILE is read. Raises WrongUse."""
        given: dict[str, str] = {}
        for word in text.split():
            name, equals, value = word.partition("=")
            if not equals or not value or name not in ("work", "save", "restore", "interval", "slot", "speed", "count"):
                raise WrongUse(f"filler: {word!r} may be one of {FORM}")
            given[name] = value
        works, is_list = _works(given["work"]) if "work" in given else (cls.work, False)
        times = {name: seconds(given[name], name) for name in ("save", "restore", "interval", "slot") if name in given}
        if times.get("slot") == 0:
            raise WrongUse("slot=0: more than 0 seconds")
        speed = _speed(given["speed"]) if "speed" in given else cls.speed
        count = _count(given["count"]) if "count" in given else len(works) if is_list else None
        if is_list and count is not None:
            if count > len(works):
                raise WrongUse(f"count={count}: there are only {len(works)} lengths of work")
            works = works[:count]
        return cls(work=works, speed=speed, count=count, **times)

    def text(self) -> str:
        """The words. They need no file: several lengths of work are in the text, as work=SECONDS,SECONDS,..."""
        words = [
            "work=" + ",".join(map(decimal_text, self.work)),
            *(f"{name}={decimal_text(getattr(self, name))}" for name in ("save", "restore", "interval", "slot", "speed")),
        ]
        return " ".join([*words, *([] if self.count is None else [f"count={self.count}"])])

    def scaled(self, factor: float) -> Filler:
        """The same fillers with all times multiplied by a factor above 0."""
        times = {name: getattr(self, name) * factor for name in ("save", "restore", "interval", "slot")}
        return replace(self, work=tuple(work * factor for work in self.work), **times)

    def check_slots(self) -> None:
        """Raises WrongUse if no slot is long enough for any work."""
        if self.slot <= self.restore + self.save:
            raise WrongUse(
                f"slot={decimal_text(self.slot)}: more than restore and save, {decimal_text(self.restore + self.save)} s"
            )

    def work_of(self, number: int) -> float | None:
        """Seconds of work of filler `number`, from 1 on; None if there is no such filler."""
        if number < 1 or (self.count is not None and number > self.count):
            return None
        return self.work[number - 1] if len(self.work) > 1 else self.work[0]

    def command_line(self, number: int, program: str, clock: str | None, record: Path, state: Path, slots: bool) -> str:
        """The line for /bin/sh that runs filler `number` on a node, from its last save on.

        program: path of sigsleep. clock: the clock file that it works by, None in real time. record: the file to which all fillers
        write. state: the file of this filler's save, which every node must see. slots: whether it leaves its node at a slot's end.
        The times of this object are virtual seconds here. Raises WrongUse if there is no such filler.
        """
        work = self.work_of(number)
        if work is None:
            raise WrongUse(f"filler {number}: may be 1 to {self.count or LARGEST_COUNT}")
        words = [program, "--id", str(number), "--cores", "1", "--runtime", decimal_text(work), "--log", str(record)]
        words += ["--state", str(state), "--save-cost", decimal_text(self.save), "--restore-cost", decimal_text(self.restore)]
        if self.interval:
            words += ["--interval", decimal_text(self.interval)]
        if slots:
            words += ["--slot", decimal_text(self.slot)]
        words += ["--speed", decimal_text(self.speed)]
        if clock:
            words += ["--clock", clock]
        return f"exec {shlex.join(words)}"


def _speed(text: str) -> float:
    speed = round(float(text), DECIMALS) if DECIMAL.match(text) else 0.0
    if not 0 < speed <= 1:
        raise WrongUse(f"speed={text}: above 0, up to 1")
    return speed


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,8}", text) or not 1 <= int(text) <= LARGEST_COUNT:
        raise WrongUse(f"count={text}: a whole number from 1 to {LARGEST_COUNT}")
    return int(text)


def _works(text: str) -> tuple[tuple[float, ...], bool]:
    """Of SECONDS, SECONDS,SECONDS,... or the path of a file: the lengths, and whether they are a list, one for each filler."""
    if not re.fullmatch(r"-?[0-9.,]+", text):
        return _works_of_file(Path(text)), True
    works = tuple(seconds(each, "work") for each in text.split(","))
    if not all(works):
        raise WrongUse("work=0: more than 0 seconds")
    return works, len(works) > 1


def _works_of_file(path: Path) -> tuple[float, ...]:
    """Empty lines and comments (#) are skipped."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"work={path}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    works = []
    for number, line in enumerate(lines, start=1):
        cell = line.partition("#")[0].strip()
        if not cell:
            continue
        if not DECIMAL.match(cell) or not 0 < float(cell) <= LARGEST_NUMBER:
            raise WrongUse(f"work={path}: line {number} may be seconds above 0, as 36000")
        works.append(round(float(cell), DECIMALS))
    if not works:
        raise WrongUse(f"work={path}: no length of work")
    if len(works) > LARGEST_COUNT:
        raise WrongUse(f"work={path}: more than {LARGEST_COUNT} lengths of work")
    return tuple(works)
