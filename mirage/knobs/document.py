"""`python -m mirage.knobs.document` writes docs/knobs.md to standard output: the table of knobs, grouped by purpose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mirage.aspects import listed
from mirage.knobs.knob import GROUPS, OF_STUDIES, Knob
from mirage.knobs.table import TABLE

OFFLINE = ("workload", "workload-report", "metrics", "simulate")
RUNS = ("experiment", *listed("targets", "OF_RUN"), "compare", "studies", "gate", "search")
SETS = (("studies", OF_STUDIES), ("runs", RUNS), ("offline", OFFLINE))
"""Targets that are written as one word, where a knob has all of them."""

HEAD = """\
# Knobs

<!-- Generated from mirage/knobs/table.py: .venv/bin/python -m mirage.knobs.document > docs/knobs.md -->

A knob is given to make, as in `make experiment NODES=100 SHRINK=50`, in the environment, or in a
[file](results.md#a-run-as-a-file). All are checked before anything is started or written. Where the last column names an Ansible
variable, an inventory can have a value too; a given knob has precedence. Targets: "studies" are all values of STUDY, study-NAME one
of them; "runs" experiment, sandbox, compare, gate, search and the studies; "offline" workload, workload-report, metrics and
simulate.
"""
COLUMNS = ("knob", "default", "meaning", "may be", "targets; variable")


def document() -> str:
    """The text of docs/knobs.md. `make help` reads the first three columns."""
    parts = [HEAD]
    for group in GROUPS:
        rows = [_row(*COLUMNS), "|---" * len(COLUMNS) + "|"]
        rows += [_row(*_cells(knob)) for knob in TABLE if knob.group == group]
        parts.append("\n".join([f"## {group}", "", *rows, ""]))
    return "\n".join(parts)


def _cells(knob: Knob) -> tuple[str, ...]:
    default = f"`{knob.default}`" if knob.default else knob.shown or "-"
    variable = f"; `{knob.variable}`" if knob.variable else ""
    may_be = re.sub("^the path of [^;]*", "a path", knob.may_be)
    return f"`{knob.name}`", default, knob.meaning, may_be, ", ".join(_shortened(knob.targets)) + variable


def _shortened(targets: Sequence[str]) -> list[str]:
    """The targets, with the name of a set of `SETS` in place of its first member."""
    names = list(targets)
    for name, members in SETS:
        if set(members) <= set(names):
            names[names.index(members[0])] = name
            names = [one for one in names if one not in members]
    return names


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(document(), end="")
