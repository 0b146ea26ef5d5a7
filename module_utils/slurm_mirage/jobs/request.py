"""What a job asks for beside processors, memory for each, a time limit, and a partition: the column `request` of a plan."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields

from ..base.errors import WrongUse

_GRES = r"[A-Za-z_][\w-]*(:[A-Za-z_][\w.+-]*)?:[1-9]\d{0,8}"
_GPUS = r"([A-Za-z_][\w.+-]*:)?[1-9]\d{0,8}"
_LICENCE = r"[\w@./-]+(:[1-9]\d{0,8})?"
_FORMS = {
    "switches": r"[1-9]\d{0,5}(@[\d:-]{1,20})?",
    "constraint": r"[\w.+=&|*()\[\],-]+",
    "licences": rf"{_LICENCE}(,{_LICENCE})*",
    "reservation": r"[\w.,+-]+",
    "gres": rf"{_GRES}(,{_GRES})*",
    "gpus": rf"{_GPUS}(,{_GPUS})*",
    "gpus_per_task": rf"{_GPUS}(,{_GPUS})*",
}
"""Forms of the texts, none of which has a blank."""


@dataclass(frozen=True)
class Request:
    """What a job asks for. The default of each member means that the job does not ask for it."""

    nodes: int = 0
    """Fewest nodes."""
    most_nodes: int = 0
    """Most nodes; 0 with `nodes`: so many nodes."""
    tasks: int = 0
    """Tasks; 0: one for each processor."""
    cpus_per_task: int = 0
    tasks_per_node: int = 0
    memory_per_node: int = 0
    """MiB; like the next one, it is instead of the memory for each processor."""
    memory_per_gpu: int = 0
    exclusive: bool = False
    contiguous: bool = False
    switches: str = ""
    """Most leaf switches, and for how long the job waits for so few: 1, 2@60."""
    nice: int = 0
    """Slurm's --nice; less than 0 puts the job before others, as only the cluster's own user may."""
    constraint: str = ""
    """Features of nodes with Slurm's operators."""
    licences: str = ""
    """Names with numbers, joined by commas: matlab:2,ansys."""
    reservation: str = ""
    gres: str = ""
    """GRES of each node: gpu:2,nvme:1, gpu:a100:4."""
    gpus: str = ""
    """GPUs of the whole job, perhaps with types: 8, a100:8."""
    gpus_per_task: str = ""
    begin: float = 0.0
    """Virtual seconds after the submission before which the job may not start."""
    hold: float = 0.0
    """Virtual seconds after the submission at which the job is released; it is submitted held."""

    @classmethod
    def parse(cls, text: str) -> Request:
        """The request in a column of a plan. Raises WrongUse."""
        values: dict[str, int | float | str | bool] = {}
        for word in text.split():
            name, _, value = word.partition("=")
            values[name] = _value(name, value)
        return cls(**values)  # type: ignore[arg-type]

    @property
    def words(self) -> str:
        """The members that differ from their defaults: `nodes=2 gres=gpu:4`."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return " ".join(
            f"{name}={value:d}" if isinstance(value, bool) else f"{name}={value}" for name, value, no in values if value != no
        )

    @property
    def has_shape(self) -> bool:
        """Whether the job asks for numbers of nodes or tasks, or whole nodes."""
        return bool(self.nodes or self.tasks or self.cpus_per_task or self.tasks_per_node or self.exclusive)

    @property
    def sizes(self) -> tuple[int, int]:
        """Fewest and most nodes; 0: not limited."""
        return self.nodes, self.most_nodes or self.nodes


NO_REQUEST = Request()


_DEFAULTS = {field.name: field.default for field in fields(Request)}


def _value(name: str, text: str) -> int | float | str | bool:
    """The value of a member. Raises WrongUse."""
    default = _DEFAULTS.get(name)
    if isinstance(default, bool) and text == "1":
        return True
    if isinstance(default, str) and re.fullmatch(_FORMS[name], text):
        return text
    sign = "-?" if name == "nice" else ""
    if isinstance(default, int) and not isinstance(default, bool) and re.fullmatch(rf"{sign}[1-9]\d{{0,9}}", text):
        return int(text)
    if isinstance(default, float) and re.fullmatch(r"[\d.e+-]{1,30}", text):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if 0 < number < math.inf:
            return number
    raise WrongUse(f"request: {name}={text[:40]!r} may be one of {', '.join(_DEFAULTS)} with its value")


def is_valid(name: str, text: str) -> bool:
    """Whether the member of a request can have this text."""
    return bool(re.fullmatch(_FORMS[name], text))


def counts_of(listed: str) -> list[tuple[str, int]]:
    """Names, which may have a type, and numbers of a list: gpu:a100:2,nvme:1 or matlab:2,ansys, which is one."""
    items = (re.fullmatch(r"(.*?)(?::(\d+))?", item) for item in listed.split(",") if item)
    return [(match[1], int(match[2] or 1)) for match in items if match is not None]


def gpus_of(listed: str) -> list[tuple[str, int]]:
    """Types ("": any) and numbers of GPUs: 8, or a100:4,v100:4."""
    return [(kind, int(number)) for kind, _, number in (item.rpartition(":") for item in listed.split(",") if item)]
