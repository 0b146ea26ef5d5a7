"""All workload models: name, content, reference and program of each, once. The table of docs/models.md is `as_markdown`.

Standard library only: the help text of make lists the names before anything is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage.workloads.models.draft import Model


@dataclass(frozen=True)
class Entry:
    """A workload model.

    name: value of the knob MODEL
    what: which workload it generates
    reference: authors, title, year
    arrivals: how jobs are submitted; LOAD changes their rate
    requested: requested times; ESTIMATES replaces them
    program: module of this package and name of the `Model` in it
    """

    name: str
    what: str
    reference: str
    arrivals: str
    requested: str
    program: tuple[str, str]

    def load(self) -> Model:
        """The model itself. Takes a moment: numpy and scipy are imported."""
        module, name = self.program
        model: Model = getattr(import_module(f"mirage.workloads.models.{module}"), name)
        return model


_LUBLIN = "Lublin and Feitelson 2003"

_ALL = (
    Entry(
        "raijin",
        "NCI Raijin, 2016",
        "section 4.1 of the thesis",
        "uniform",
        "round values (assumption)",
        ("raijin", "MODEL"),
    ),
    Entry("lublin", "a supercomputer: all jobs", _LUBLIN, "day cycle", "none", ("lublin", "MODEL")),
    Entry("lublin-batch", "a supercomputer: batch jobs", _LUBLIN, "day cycle", "none", ("lublin", "BATCH_MODEL")),
    Entry("lublin-interactive", "a supercomputer: interactive jobs", _LUBLIN, "day cycle", "none", ("lublin", "INTERACTIVE_MODEL")),
    Entry(
        "feitelson96",
        "a supercomputer, with repeated jobs",
        "in the style of Feitelson 1996",
        "Poisson, 10 s",
        "none",
        ("feitelson96", "MODEL"),
    ),
    Entry(
        "lomonosov",
        "Lomonosov-1, 2017",
        "Polyakov and Dubenskaya 2018",
        "uniform",
        "exact",
        ("lomonosov", "MODEL"),
    ),
    Entry(
        "susu",
        "ten months at South Ural State University, about 2011",
        "Golovinsky et al. 2011",
        "uniform",
        "round values (assumption)",
        ("susu", "MODEL"),
    ),
    Entry(
        "dmr",
        "three malleable applications on 64 nodes, 2017",
        "DMR API",
        "Poisson, 10 s",
        "none",
        ("dmr", "MODEL"),
    ),
)

MODELS = {entry.name: entry for entry in _ALL}
"""All models by name, in the order of help texts."""


def as_markdown() -> str:
    """The table of docs/models.md."""
    lines = ["| MODEL | workload | source | arrivals | requested times |", "|---|---|---|---|---|"]
    lines += [f"| {one.name} | {one.what} | {one.reference} | {one.arrivals} | {one.requested} |" for one in _ALL]
    return "\n".join(lines) + "\n"
