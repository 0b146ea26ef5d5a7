"""Conversions between the three kinds of time in an experiment.

* trace seconds: time in the workload log;
* virtual seconds: time that Slurm and the jobs see, trace seconds * shrink / 100;
* real seconds: time of the machine, virtual seconds / speed.

An instant of virtual time is computed from an anchor: one moment whose real and virtual time are both known. All processes of a
cluster read the anchor and the speed from the clock file, which is one line of text:

    mirage-clock 1 REAL_NS VIRTUAL_NS SPEED

sigsleep reads this file as well (files/sigsleep/README.md). The shrink factor is a property of the workload and is not in the file.
"""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..base.errors import WrongUse

MAX_SPEED = 1_000_000
_BILLION = 1_000_000_000
_MAX_NS = 2**63 - 1
_LINE = re.compile(r"mirage-clock 1 (\d{1,19}) (\d{1,19}) (\d{1,7}(?:\.\d{1,9})?)\n?", re.ASCII)


@dataclass(frozen=True)
class Clock:
    """A virtual clock that runs `speed` times as fast as the real one.

    `real_ns` and `virtual_ns` (nanoseconds since the epoch) are the anchor: the same moment on both clocks. `shrink` (per cent)
    converts trace time to virtual time. The default is real time and a trace that is not shrunk. The speed is rounded to nine
    decimals, as in the clock file. Raises WrongUse when a value is out of range.
    """

    real_ns: int = 0
    virtual_ns: int = 0
    speed: float = 1.0
    shrink: float = 100.0

    def __post_init__(self) -> None:
        if not (0 <= self.real_ns <= _MAX_NS and 0 <= self.virtual_ns <= _MAX_NS):
            raise WrongUse("clock: the anchor may be nanoseconds since the epoch, from 0 to 2^63 - 1")
        if not (math.isfinite(self.speed) and 1 / _BILLION <= self.speed <= MAX_SPEED):
            raise WrongUse(f"may be a number from 0.000000001 to {MAX_SPEED}, not {self.speed}", parameter="speed")
        if not (math.isfinite(self.shrink) and self.shrink > 0):
            raise WrongUse(f"may be a number of per cent above 0, not {self.shrink}", parameter="shrink")
        object.__setattr__(self, "speed", round(self.speed * _BILLION) / _BILLION)

    # ---- durations, in seconds ----

    def trace_to_virtual(self, seconds: float) -> float:
        """Convert trace seconds to virtual seconds."""
        return seconds * self.shrink / 100

    def virtual_to_trace(self, seconds: float) -> float:
        """Convert virtual seconds to trace seconds."""
        return seconds * 100 / self.shrink

    def virtual_to_real(self, seconds: float) -> float:
        """Convert virtual seconds to real seconds."""
        return seconds / self.speed

    def real_to_virtual(self, seconds: float) -> float:
        """Convert real seconds to virtual seconds."""
        return seconds * self.speed

    def real_to_trace(self, seconds: float) -> float:
        """Convert real seconds to trace seconds."""
        return self.virtual_to_trace(self.real_to_virtual(seconds))

    # ---- instants, in nanoseconds since the epoch ----

    def virtual_at(self, real_ns: int) -> int:
        """Return the virtual instant at the real instant `real_ns`, rounded down.

        Uses integers, as sigsleep does: a float of today's nanoseconds since the epoch is wrong by 100 ns or more.
        """
        return self.virtual_ns + (real_ns - self.real_ns) * self._speed_billionths // _BILLION

    def real_at(self, virtual_ns: int) -> int:
        """Return the first real instant at which virtual time is `virtual_ns` or later."""
        return self.real_ns - (self.virtual_ns - virtual_ns) * _BILLION // self._speed_billionths

    def virtual_now(self) -> int:
        """Return the current virtual instant."""
        return self.virtual_at(time.time_ns())

    # ---- the clock file ----

    @classmethod
    def start_now(cls, speed: float = 1.0, shrink: float = 100.0) -> Clock:
        """Return a clock whose virtual time equals the real time of this call."""
        now = time.time_ns()
        return cls(now, now, speed, shrink)

    @classmethod
    def read(cls, path: str | Path, shrink: float = 100.0) -> Clock:
        """Read a clock file. Raises WrongUse when it is missing or malformed."""
        try:
            return cls.parse(Path(path).read_bytes(), path, shrink)
        except OSError as error:
            raise WrongUse(f"clock file {path}: {error.strerror}") from error

    @classmethod
    def parse(cls, content: bytes, path: str | Path, shrink: float = 100.0) -> Clock:
        """Return the clock in the content of the clock file `path`. Raises WrongUse when it is malformed."""
        try:
            match = _LINE.fullmatch(content.decode("ascii"))
        except UnicodeDecodeError as error:
            raise WrongUse(f"clock file {path}: not a text file") from error
        if match is None:
            raise WrongUse(f"clock file {path}: may be one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED")
        try:
            return cls(int(match[1]), int(match[2]), float(match[3]), shrink)
        except WrongUse as error:
            raise WrongUse(f"clock file {path}: {error}") from error

    def write(self, path: str | Path) -> None:
        """Write the clock file atomically, readable by all users because jobs read it. Raises OSError."""
        path = Path(path)
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(self.line())
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    def line(self) -> str:
        """Return the text of the clock file."""
        speed = f"{self.speed:.9f}".rstrip("0").rstrip(".")
        return f"mirage-clock 1 {self.real_ns} {self.virtual_ns} {speed}\n"

    @property
    def _speed_billionths(self) -> int:
        return round(self.speed * _BILLION)
