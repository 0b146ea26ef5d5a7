"""Malleable jobs: the words that describe one, the sizes that it may have, and its speed-up.

The words are one text, in the column `malleable` of plan.csv and in sigsleep's option --malleable:

    MIN:MAX:FACTOR:PREFERRED [check=S] [inhibitor=S] [speedup=linear|amdahl:F|table:FILE] [cost=CONSTANT:PER_PROCESS] [async]

Sizes are whole nodes. PREFERRED is - for none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import WrongUse
from ...jobs.decimals import DECIMAL, DECIMALS, LARGEST_NUMBER, decimal_text, seconds

OPTIONS = "[check=S] [inhibitor=S] [speedup=linear|amdahl:F|table:FILE] [cost=CONSTANT:PER_PROCESS] [async]"
FORM = f"MIN:MAX:FACTOR:PREFERRED {OPTIONS}"
LARGEST_SIZE = 1_000_000

_ROWS = re.compile(r"[0-9]+=[0-9.]+(,[0-9]+=[0-9.]+)*\Z")


@dataclass(frozen=True)
class Speedup:
    """How many times faster than on one node a job's work advances on n nodes.

    parallel: Amdahl's parallel fraction F, the speed-up is 1 / ((1 - F) + F / n); 1 is linear. Not used if there are rows.
    rows: (nodes, speed-up), nodes ascending; linear between two rows, constant before the first one and after the last one.
    """

    parallel: float = 1.0
    rows: tuple[tuple[int, float], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Speedup:
        """From linear, amdahl:F, table:FILE, or the rows themselves: table:NODES=SPEEDUP,NODES=SPEEDUP,...

        FILE has a line `NODES SPEEDUP` for each row; empty lines and comments (#) are skipped. Raises WrongUse.
        """
        model, _, rest = text.partition(":")
        if text == "linear":
            return cls()
        if model == "amdahl":
            if not DECIMAL.match(rest) or (parallel := round(float(rest), DECIMALS)) > 1:
                raise WrongUse(f"speedup={text}: the parallel fraction is a number from 0 to 1, as in amdahl:0.95")
            return cls(parallel)
        if model == "table" and rest:
            if _ROWS.match(rest):
                return cls(rows=_rows([pair.split("=") for pair in rest.split(",")], "speedup=table"))
            return cls(rows=_rows_of_file(Path(rest)))
        raise WrongUse(f"speedup={text}: may be linear, amdahl:F or table:FILE")

    def text(self) -> str:
        """The text that `parse` reads. Rows are in the text, so that it needs no file."""
        if self.rows:
            return "table:" + ",".join(f"{nodes}={decimal_text(value)}" for nodes, value in self.rows)
        return "linear" if self.parallel == 1 else f"amdahl:{decimal_text(self.parallel)}"

    def of(self, nodes: int) -> float:
        """The speed-up on so many nodes."""
        if not self.rows:
            return nodes / ((1 - self.parallel) * nodes + self.parallel)
        above = bisect_right([row[0] for row in self.rows], nodes)
        if above in (0, len(self.rows)):
            return self.rows[above - 1 if above else 0][1]
        (left, low), (right, high) = self.rows[above - 1], self.rows[above]
        return low + (high - low) * (nodes - left) / (right - left)


@dataclass(frozen=True)
class Malleable:
    """What a malleable job asks for. Sizes in whole nodes, times in virtual seconds."""

    minimum: int
    maximum: int
    factor: int
    """A resize multiplies or divides the size by a power of it."""
    preferred: int | None = None
    check: float = 15.0
    """Seconds of execution between two points at which the job may be resized."""
    inhibitor: float = 0.0
    """A point within so many seconds after the last check is skipped."""
    speedup: Speedup = Speedup()
    cost_constant: float = 0.0
    """Seconds that each resize costs, in which no work advances."""
    cost_per_process: float = 0.0
    """Seconds that a resize costs for each node that the job gets or gives up."""
    asynchronous: bool = False
    """Whether the job goes on while a resize is decided, which then happens at its next point."""

    @classmethod
    def parse(cls, text: str) -> Malleable:
        """Parse the words of a malleable job; a speed-up table is read. Raises WrongUse."""
        words = text.split()
        sizes = words[0].split(":") if words else []
        if len(sizes) != 4:
            raise WrongUse(f"malleable job {text!r}: may be {FORM}")
        minimum, maximum, factor = (_whole(each, name, 1) for each, name in zip(sizes, ("minimum", "maximum", "factor")))
        preferred = None if sizes[3] == "-" else _whole(sizes[3], "preferred size", 1, " or -")
        if minimum > maximum:
            raise WrongUse(f"malleable job {words[0]}: the minimum {minimum} is above the maximum {maximum}")
        if factor < 2:
            raise WrongUse(f"malleable job {words[0]}: the factor {factor} may be 2 or more")
        if preferred is not None and not minimum <= preferred <= maximum:
            raise WrongUse(f"malleable job {words[0]}: the preferred size {preferred} is not within {minimum} to {maximum}")
        options = _options(words[1:])
        check = seconds(options.get("check", "15"), "check")
        if check == 0:
            raise WrongUse("check=0: more than 0 seconds")
        constant, colon, per_process = options.get("cost", "0:0").partition(":")
        if not colon:
            raise WrongUse(f"cost={constant}: may be CONSTANT:PER_PROCESS, in seconds")
        return cls(
            minimum,
            maximum,
            factor,
            preferred,
            check,
            seconds(options.get("inhibitor", "0"), "inhibitor"),
            Speedup.parse(options.get("speedup", "linear")),
            seconds(constant, "cost"),
            seconds(per_process, "cost"),
            "async" in options,
        )

    def text(self) -> str:
        """The words, as `parse` reads them, without options that have their defaults. A speed-up table is given by its rows."""
        words = [f"{self.minimum}:{self.maximum}:{self.factor}:{self.preferred or '-'}"]
        if self.check != 15:
            words.append(f"check={decimal_text(self.check)}")
        if self.inhibitor:
            words.append(f"inhibitor={decimal_text(self.inhibitor)}")
        if self.speedup != Speedup():
            words.append(f"speedup={self.speedup.text()}")
        if self.cost_constant or self.cost_per_process:
            words.append(f"cost={decimal_text(self.cost_constant)}:{decimal_text(self.cost_per_process)}")
        return " ".join([*words, *(["async"] if self.asynchronous else [])])

    def sizes(self, start: int) -> list[int]:
        """The sizes that a job may have that starts with `start` nodes, ascending: start x FACTOR^k and start / FACTOR^k within
        MIN to MAX. `start` itself may be outside: then the job asks for a resize at its first point.

        Raises WrongUse if no other size is reached from there, or not the preferred one.
        """
        sizes = reachable(start, self.minimum, self.maximum, self.factor)
        reached = f"reached from {start} nodes by the factor {self.factor}"
        if not set(sizes) - {start}:
            raise WrongUse(f"no size from {self.minimum} to {self.maximum} is {reached}")
        if self.preferred is not None and self.preferred not in sizes:
            raise WrongUse(f"the preferred size {self.preferred} is not {reached}: {', '.join(map(str, sizes))}")
        return sizes

    def cost(self, before: int, after: int) -> float:
        """Seconds that a resize costs."""
        return self.cost_constant + self.cost_per_process * abs(after - before)


def reachable(start: int, minimum: int, maximum: int, factor: int) -> list[int]:
    """The sizes start x factor^k and start / factor^k, whole numbers, within minimum to maximum, ascending."""
    size = start
    while size % factor == 0:
        size //= factor
    sizes = []
    while size <= maximum:
        if size >= minimum:
            sizes.append(size)
        size *= factor
    return sizes


def _options(words: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in options:
            raise WrongUse(f"malleable job: {name} is given twice")
        if word != "async" and not (name in ("check", "inhibitor", "speedup", "cost") and value):
            raise WrongUse(f"malleable job: {word!r} may be one of {OPTIONS}")
        options[name] = value
    return options


def _whole(text: str, name: str, least: int, other: str = "") -> int:
    if not re.fullmatch("[0-9]{1,7}", text) or not least <= int(text) <= LARGEST_SIZE:
        raise WrongUse(f"malleable job: the {name} {text!r} may be a whole number from {least} to {LARGEST_SIZE}{other}")
    return int(text)


def _rows_of_file(path: Path) -> tuple[tuple[int, float], ...]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"speed-up table {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    cells = [cells for line in lines if (cells := line.partition("#")[0].split())]
    return _rows(cells, f"speed-up table {path}")


def _rows(cells: Sequence[Sequence[str]], name: str) -> tuple[tuple[int, float], ...]:
    rows: list[tuple[int, float]] = []
    for number, pair in enumerate(cells, start=1):
        if len(pair) != 2 or not re.fullmatch("[0-9]{1,7}", pair[0]) or not DECIMAL.match(pair[1]):
            raise WrongUse(f"{name}: row {number} may be NODES SPEEDUP")
        nodes, value = int(pair[0]), round(float(pair[1]), DECIMALS)
        if not 1 <= nodes <= LARGEST_SIZE or not 0 < value <= LARGEST_NUMBER:
            raise WrongUse(f"{name}: row {number}: 1 to {LARGEST_SIZE} nodes, and a speed-up above 0")
        if rows and nodes <= rows[-1][0]:
            raise WrongUse(f"{name}: row {number}: {nodes} nodes is not above the row before ({rows[-1][0]})")
        rows.append((nodes, value))
    if not rows:
        raise WrongUse(f"{name}: no row NODES SPEEDUP")
    return tuple(rows)
