"""gate.md: the answer of a gate in Markdown, for a merge request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mirage.experiment import report
from mirage.experiment.configuration_changes import Changes
from mirage.metrics.registry import METRICS
from mirage.records.file_names import COMPARISON_FILE
from mirage.records.run_folder import RunFolder
from mirage.statistics.comparison_text import figures
from mirage.statistics.limits import BROKEN, HOLDS, UNDECIDED, Answer, Interval
from mirage.terminal.table import rounded_text
from mirage.text import markdown
from mirage.text.markdown import Markdown
from mirage.verdict.advice import counted
from slurm_mirage.base.printing import one_line

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


def summary(
    ended: tuple[str, str], folder: Path, files: tuple[str, str], answers: Sequence[Answer], changes: Changes
) -> list[Markdown]:
    """The lines of gate.md, at most LINES. ended: title and sentence. folder: results/RUN. files: BEFORE and AFTER"""
    what = Markdown("BEFORE {}, AFTER {}: {}.").format(*map(markdown.code, files), ended[1])
    lines = [Markdown("# {}").format(ended[0]), Markdown(""), what, Markdown(""), *_table(answers)]
    every = [Markdown("- {}").format(markdown.code(line, _LONG)) for line in changes.played]
    every += [Markdown("- {} (left out)").format(markdown.code(line, _LONG)) for line in changes.left_out]
    every += [Markdown("- {} more without a part in scheduling").format(len(changes.rest))] if changes.rest else []
    if len(every) > _CHANGES:
        every[_CHANGES - 1 :] = [Markdown("- {} other differences").format(len(every) - _CHANGES + 1)]
    lines += every
    if (folder / COMPARISON_FILE).is_file():
        content = RunFolder(folder).comparison
        count = sum(len(one["runs"]) for one in content["configurations"])
        page, jobs = f"results/{folder.name}/{report.NAME}", counted(content["jobs"]["compared"], "job")
        lines += [Markdown(""), Markdown("{} runs of {}; all about them: {}").format(count, jobs, page)]
    return lines


def _table(answers: Sequence[Answer]) -> Iterator[Markdown]:
    """The limits, the broken ones first."""
    if not answers:
        return
    order = (BROKEN, UNDECIDED, HOLDS)
    rows = sorted(answers, key=lambda one: order.index(one.verdict))
    yield from markdown.table(("limit", "before", "after", "change", "interval", "verdict"), map(_cells, rows[:_ROWS]))
    if len(rows) > _ROWS:
        yield Markdown("and {} more, {}").format(len(rows) - _ROWS, rows[-1].verdict)
    yield Markdown("")


def _cells(one: Answer) -> list[str]:
    unit = METRICS[one.limit.metric].unit
    means = [rounded_text(mean, unit, is_short=True) for mean in (one.before, one.after)]
    verdict = f"{one.verdict}: {one_line(one.why, _REASON)}" if one.why else one.verdict
    return [str(one.limit), *means, _change(one), _between(one.interval, one.limit.unit), verdict]


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
