"""What a row of the table of knobs has, the groups of knobs, and the targets of the Makefile that use the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from mirage import aspects
from mirage.knobs.parse import Parser

# Purposes, by which docs/knobs.md groups the knobs.
CLUSTER = "Cluster"
WORKLOAD = "Workload"
MODELS = "Generated workloads"
TIME = "Time"
EVENTS = "Events"
SCHEDULER = "Scheduler"
COMPARISON = "Comparisons"
METRICS = "Metrics"
OUTPUT = "Runs and files"
GROUPS = (CLUSTER, WORKLOAD, MODELS, TIME, EVENTS, SCHEDULER, COMPARISON, METRICS, OUTPUT)


@dataclass(frozen=True)
class Knob:
    """One row of the table.

    name: what the user gives: NODES.
    member: part of `Knobs` and its member: nodes.count.
    default: the value as text, parsed like a given one.
    parse: parser of the text.
    may_be: allowed values, as the end of the message "NODES: ... is not possible; it may be ...".
    meaning: one line for `make help` and docs/knobs.md.
    targets: targets of the Makefile that use the knob.
    group: its purpose, one of GROUPS.
    shown: what help and documentation show instead of an empty default.
    is_input: whether another value makes another run. Inputs are compared when results/RUN exists.
    variable: name of the variable that gives the value to the roles, and that an inventory may set; empty if no role needs it.
    """

    name: str
    member: str
    default: str
    parse: Parser
    may_be: str
    meaning: str
    targets: tuple[str, ...]
    group: str
    shown: str = ""
    is_input: bool = False
    variable: str = ""

    @property
    def parameter(self) -> str:
        """Name by which domain code names this knob in a WrongUse."""
        return self.name.lower()


OF_ASPECTS_STUDIES = tuple(f"study-{name}" for name in aspects.listed("studies", "STUDIES"))
OF_STUDIES = ("study-scms", "study-suspend", "study-cirrus", "study-site", *OF_ASPECTS_STUDIES)
OF_COMPARE = ("compare", *OF_STUDIES)
OF_SINGLE = ("cluster", "experiment", *aspects.listed("targets", "OF_RUN"))
OF_BUILD = (*OF_SINGLE, *OF_COMPARE, "gate", "search", "predict")
OF_MANAGED = (*OF_SINGLE, "compare", "study-scms")
OF_RUN = ("experiment", *aspects.listed("targets", "OF_RUN"), *OF_COMPARE, "gate", "search")
OF_RUNS = (*OF_RUN, "predict")
"""Targets that have runs; predict decides itself which jobs they submit."""
OF_PLAYED = ("experiment", "compare", "gate", "search")
OF_CLUSTER = (
    *OF_BUILD,
    "status",
    "watch",
    "shell",
    "capture",
    "teardown",
    "infra",
    "provision",
    "deprovision",
    *aspects.listed("targets", "OF_CLUSTER"),
)
FINISHED_RUNS = ("report", "check", "metrics", "why")
"""Targets that read a finished run, which may be one of a comparison."""
OF_OFFLINE = ("workload", "workload-report", "metrics", "simulate")
OF_SELECT = (*OF_RUN, *OF_OFFLINE)
OF_MODELLED = (*OF_RUN, "workload", "workload-report", "simulate")
