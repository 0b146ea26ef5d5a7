"""gate.md: the answer of a gate in Markdown, for a merge request."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from mirage.experiment import report
from mirage.experiment.configuration_changes import Changes
from mirage.experiment.endings import Ending
from mirage.metrics.registry import METRICS
from mirage.records.file_names import COMPARISON_FILE
from mirage.statistics.comparison_text import figures
from mirage.statistics.limits import BROKEN, HOLDS, UNDECIDED, Answer, Interval
from mirage.terminal.table import rounded_text
from mirage.verdict.advice import counted

LINES = 20
"""Most lines of the summary."""
_ROWS, _CHANGES = 7, 3
_LONG, _REASON = 110, 90  # characters of a setting that differs, and of a reason


def sentence(verdict: str, answers: Sequence[Answer], why: str) -> str:
    """The answer in a sentence. why: in addition to what the answers say"""
    if verdict == HOLDS:
        return why if why and not answers else f"{counted(len(answers), 'limit')} hold{f': {why}' if why else ''}"
    named = [f"{one.limit} is {one.verdict}{_in_brackets(one)}" for one in answers if one.verdict == verdict]
    return ": ".join(part for part in (", ".join(named), why) if part)


def summary(ending: Ending, folder: Path, files: tuple[str, str], answers: Sequence[Answer], changes: Changes) -> str:
    """The text of gate.md, at most LINES lines. folder: results/RUN. files: BEFORE and AFTER"""
    lines = [f"# {ending.word}", "", f"BEFORE `{files[0]}`, AFTER `{files[1]}`: {ending.message}.", ""]
    lines += _table(answers)
    every = [*changes.played, *(f"{line} (left out)" for line in changes.left_out)]
    every += [f"{len(changes.rest)} more without a part in scheduling"] if changes.rest else []
    shown = every if len(every) <= _CHANGES else [*every[: _CHANGES - 1], f"{len(every) - _CHANGES + 1} other differences"]
    lines += [f"- {_short(line, _LONG)}" for line in shown]
    if (folder / COMPARISON_FILE).is_file():
        content = report.comparison_of(folder)
        count = sum(len(one["runs"]) for one in content["configurations"])
        page = f"results/{folder.name}/{report.NAME}"
        lines += ["", f"{count} runs of {counted(content['jobs']['compared'], 'job')}; all about them: {page}"]
    return "\n".join(lines) + "\n"


def _table(answers: Sequence[Answer]) -> list[str]:
    """The limits, the broken ones first."""
    if not answers:
        return []
    order = (BROKEN, UNDECIDED, HOLDS)
    rows = sorted(answers, key=lambda one: order.index(one.verdict))
    lines = ["| limit | before | after | change | interval | verdict |", "|---|---|---|---|---|---|"]
    for one in rows[:_ROWS]:
        unit = METRICS[one.limit.metric].unit
        means = [rounded_text(mean, unit, is_short=True) for mean in (one.before, one.after)]
        verdict = f"{one.verdict}: {_short(one.why, _REASON)}" if one.why else one.verdict
        lines.append(f"| {' | '.join([str(one.limit), *means, _change(one), _between(one.interval, one.limit.unit), verdict])} |")
    return [*lines, *([f"and {len(rows) - _ROWS} more, {rows[-1].verdict}"] if len(rows) > _ROWS else []), ""]


def _short(text: str, length: int) -> str:
    return textwrap.shorten(text.replace("|", "/"), length, placeholder=" ...")


def _in_brackets(one: Answer) -> str:
    """` (+12 %, interval +8.0 to +16 %)`"""
    if one.interval is None:
        return f" ({one.why})" if one.why else ""
    return f" ({_change(one)}, interval {_between(one.interval, one.limit.unit)})"


def _change(one: Answer) -> str:
    return "-" if one.change is None else f"{_signed(one.change)} {one.limit.unit}".strip()


def _between(interval: Interval | None, unit: str) -> str:
    return "-" if interval is None else f"{_signed(interval[0])} to {_signed(interval[1])} {unit}".strip()


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{figures(abs(value))}" if value else "0"
