"""The faults by name, and the results of their last runs: results/faults/NAME.json and results/faults.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from mirage import RESULTS
from slurm_mirage.base.files import read_json, write_atomically, write_json

if TYPE_CHECKING:
    from tests.faults.lane import Lane

PAGE = RESULTS / "faults.md"
FOLDER = RESULTS / "faults"


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    name: what FAULTS selects.
    group: heading in results/faults.md; docs/development.md has a row for it.
    injected: what is injected, and on which command.
    wanted: how the command has to end, and what has to hold afterwards.
    inject: injects the fault and checks what has to hold. Raises Wrong, or Skipped.
    quick: whether the fault is part of `make test`.
    on_bed: whether it needs several hosts (molecule/testbed).
    """

    name: str
    group: str
    injected: str
    wanted: str
    inject: Callable[[Lane], None]
    quick: bool = False
    on_bed: bool = False


@dataclass
class Result:
    """How a fault ended.

    judgement: `right`, `wrong: why` or `skipped: why`
    endings: last lines of the commands, each after the name of its command
    left: what was left after make teardown; empty for nothing
    seconds: duration of the row
    """

    name: str
    judgement: str = ""
    endings: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.judgement == "right"

    def store(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_json(FOLDER / f"{self.name}.json", asdict(self))


class Wrong(Exception):
    """The fault had another effect than wanted. The message is one line."""


class Skipped(Exception):
    """The fault cannot be injected on this machine. The message says why."""


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, injected: str, wanted: str, *, quick: bool = False, on_bed: bool = False
) -> Callable[[Callable[[Lane], None]], Callable[[Lane], None]]:
    """Add the decorated function to FAULTS. Its group is the first line of its module's docstring."""

    def add(inject: Callable[[Lane], None]) -> Callable[[Lane], None]:
        if name in FAULTS:
            raise ValueError(f"two faults are named {name}")
        group = (inject.__globals__["__doc__"] or "").splitlines()[0].rstrip(".")
        FAULTS[name] = Fault(name, group, injected, wanted, inject, quick, on_bed)
        return inject

    return add


def load(names: Sequence[str]) -> dict[str, Result]:
    """The stored results by name; faults without a result are left out."""
    stored = {name: read_json(FOLDER / f"{name}.json") for name in names}
    return {name: Result(**content) for name, content in stored.items() if content is not None}


def write_page() -> None:
    """Write results/faults.md of the faults that have a result."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_atomically(PAGE, page(load(list(FAULTS))))


_HEAD = """# Faults

The last result of each fault that was injected; results/faults/NAME.json has the same, with the durations.
[docs/development.md](../docs/development.md) explains the columns.

"""


def page(results: dict[str, Result]) -> str:
    """The text of results/faults.md: a row for each result."""
    counts = [sum(result.judgement.startswith(word) for result in results.values()) for word in ("right", "wrong", "skipped")]
    text = f"{_HEAD}{len(results)} faults: {counts[0]} right, {counts[1]} wrong, {counts[2]} skipped.\n"
    group = ""
    for name, fault in FAULTS.items():
        if name not in results:
            continue
        if fault.group != group:
            group = fault.group
            text += f"\n## {group}\n\n| fault | injected | wanted | last lines | left | judgement |\n|---|---|---|---|---|---|\n"
        result = results[name]
        cells = [
            f"`{name}`" + (" (quick)" if fault.quick else ""),
            fault.injected,
            fault.wanted,
            "<br>".join(_code(line) for line in result.endings) or "-",
            ", ".join(result.left) or "nothing",
            result.judgement,
        ]
        text += "| " + " | ".join(_cell(cell) for cell in cells) + " |\n"
    return text


def _code(line: str) -> str:
    return "`" + line.replace("`", "'") + "`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
