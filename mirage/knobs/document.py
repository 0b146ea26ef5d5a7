"""`python -m mirage.knobs.document` writes docs/knobs.md to standard output: the table of knobs, grouped by purpose."""

from __future__ import annotations

from mirage.knobs.table import GROUPS, TABLE, Knob

HEAD = """\
# Knobs

<!-- Generated from mirage/knobs/table.py: .venv/bin/python -m mirage.knobs.document > docs/knobs.md -->

A knob is given to make, as in `make experiment NODES=100 SHRINK=50`, or in the environment. All knobs are checked before
anything is started or written; a knob that the target does not use is reported. Where the last column names an Ansible variable, an
inventory can have a value too, and so can `-e` when `ansible-playbook` is called without make. A knob that is given has precedence
over the inventory.
"""
COLUMNS = ("knob", "default", "meaning", "may be", "targets", "Ansible variable")


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
    variable = f"`{knob.variable}`" if knob.variable else ""
    return f"`{knob.name}`", default, knob.meaning, knob.may_be, ", ".join(knob.targets), variable


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(document(), end="")
