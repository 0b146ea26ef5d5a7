"""upgrade.md: the answer of an upgrade rehearsal in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polars import col

from mirage.experiment.endings import Ending
from mirage.metrics.registry import METRICS, main_of_comparison
from mirage.records.file_names import RELEASES_FILE, UPGRADE_FILE
from mirage.records.first_difference import Differences
from mirage.records.run_folder import RunFolder
from mirage.site import own_parser
from mirage.statistics.claims import hardly_waits
from mirage.statistics.comparison_text import THESE_JOBS, others, pair_of
from mirage.terminal.screen import Screen
from mirage.terminal.table import rounded_text
from mirage.text import markdown
from mirage.text.markdown import Markdown
from mirage.text.words import counted, number
from slurm_mirage.base.files import read_json

SHOWN = 12
"""Lines about settings that are shown of each kind."""
_LONG = 300  # characters of such a line, and of one in a block
_EMPTY = Markdown("")

Content = Mapping[str, Any]


def conclude(folder: Path, ending: Ending, screen: Screen) -> Ending:
    """Write and print upgrade.md of a finished comparison of releases. Returns its ending: that of the comparison, or that nothing
    waited."""
    content = RunFolder(folder).comparison
    metrics = [RunFolder(folder / name).metrics for one in content["configurations"] for name in one["runs"]]
    if ending.word == "ok" and hardly_waits(metrics):
        advice = "take a busier part of the log (FROM and TO, or OFFSET), fewer NODES, or a model with a higher LOAD"
        ending = Ending("inconclusive", f"hardly a job waits, so the releases decide nothing differently; {advice}")
        ending.store(folder)
    lines = [line for other in others(content) for line in (Markdown(""), *_about(folder, content, other, ending))][1:]
    markdown.write(folder / UPGRADE_FILE, lines)
    screen.say(*lines, "", f"this text: results/{folder.name}/{UPGRADE_FILE}")
    return ending


def _about(folder: Path, content: Content, other: str, ending: Ending) -> Iterator[Markdown]:
    base = content["baseline"]
    yield Markdown("# Slurm {} instead of {}").format(other, base)
    yield _EMPTY
    if ending.word != "ok":
        yield Markdown("{}: {}.").format(ending.word, ending.message)
    else:
        words = pair_of(content["metrics"][content["answer"]], base, other)["words"]
        yield Markdown("{}: {}.").format(METRICS[content["answer"]].noun, words)
    yield _EMPTY
    yield from markdown.table(("metric", base, other, "for these jobs"), _means(content, other))
    yield from (_EMPTY, Markdown("## Where the schedules part"), _EMPTY)
    yield from _parting(folder, content, other)
    yield from (_EMPTY, Markdown("## slurmctld"), _EMPTY)
    before, after = (_costs(folder, content, label) for label in (base, other))
    yield from markdown.table(("", base, other), ((what, before[what], after[what]) for what in before))
    yield from (_EMPTY, Markdown("## Settings"), _EMPTY)
    yield from _settings(folder, content, other)


def _means(content: Content, other: str) -> Iterator[list[str]]:
    """The cells of each main metric: both means, and the difference for these jobs in words."""
    for name in main_of_comparison(content):
        pair, unit = pair_of(content["metrics"][name], content["baseline"], other), content["metrics"][name]["unit"]
        means = [rounded_text(pair[mean], unit, is_short=True) for mean in ("baseline_mean", "mean")]
        yield [name, *means, pair[THESE_JOBS]["words"]]


def _runs_of(content: Content, label: str) -> list[str]:
    runs: list[str] = next(one["runs"] for one in content["configurations"] if one["label"] == label)
    return runs


def _parting(folder: Path, content: Content, other: str) -> Iterator[Markdown]:
    """The starts that differ, by replica, and the first decision that differs, of the first replica that has one."""
    base = content["baseline"]
    pairs = zip(_runs_of(content, base), _runs_of(content, other), strict=True)
    found = [Differences((RunFolder(folder / one), RunFolder(folder / two)), (one, two)) for one, two in pairs]
    jobs = counted(found[0].pairs.height, "job")
    if all(one.moved.is_empty() for one in found):
        where = f"all {len(found)} pairs" if len(found) > 1 else "the pair"
        yield Markdown("Nowhere: in {} of runs each of the {} starts and ends at the same instant.").format(where, jobs)
        return
    far = ", ".join(str(one.far.height) for one in found)
    yield Markdown("Starts that differ by more than a minute, of {}, with the same submissions: {}.").format(jobs, far)
    parted = next((one for one in found if one.far.height), None) or next(one for one in found if one.moved.height)
    yield _EMPTY
    yield from markdown.block([line.strip() for line in parted.first_lines()], _LONG)
    yield _EMPTY
    again = f'make diff RUNS="{folder.name}/{parted.names[0]} {folder.name}/{parted.names[1]}"'
    yield Markdown("All of it: {}.").format(markdown.code(again))


def _costs(folder: Path, content: Content, label: str) -> dict[str, str]:
    """Means over the runs of a release: pace, slurmctld's processor time, its largest memory."""
    found: dict[str, list[float]] = {"pace": [], "processor": [], "memory": []}
    for name in _runs_of(content, label):
        run = RunFolder(folder / name)
        clock = (run.validity or {}).get("event_clock") or {}
        if clock.get("virtual_seconds") and clock.get("real_seconds"):
            found["pace"].append(clock["virtual_seconds"] / clock["real_seconds"])
        if clock.get("scheduler_seconds") is not None:
            found["processor"].append(clock["scheduler_seconds"])
        if "controller_memory_kb" in run.samples.columns:
            found["memory"] += (
                run.samples.select(col("controller_memory_kb").drop_nulls().max() / 1024).drop_nulls().to_series().to_list()
            )
    means = {what: sum(values) / len(values) if values else None for what, values in found.items()}
    return {
        "seconds of the cluster in a real second": number(means["pace"]),
        "processor time of slurmctld in a run, s": number(means["processor"]),
        "largest memory of slurmctld, MiB": number(means["memory"]),
    }


def _settings(folder: Path, content: Content, other: str) -> Iterator[Markdown]:
    """The lines that each release's parser refuses of SLURM_CONF, and the settings in force that differ between the releases."""
    releases, base = read_json(folder / RELEASES_FILE), content["baseline"]
    for label in (base, other):
        yield from _shown(f"{label}, of your slurm.conf", releases.get(label, {}).get("refused", []))
    shown = [_in_force(RunFolder(folder / _runs_of(content, label)[0])) for label in (base, other)]
    lines = own_parser.other_defaults(*shown) if all(shown) else []
    yield from _shown("in force", lines)
    if not lines and not any(one.get("refused") for one in releases.values()):
        yield Markdown("None differs: both releases read all lines, and show the same settings in force.")


def _shown(what: str, lines: Sequence[str]) -> Iterator[Markdown]:
    yield from (Markdown("- {}: {}").format(what, markdown.code(line, _LONG)) for line in lines[:SHOWN])
    if len(lines) > SHOWN:
        yield Markdown("- {}: {} more").format(what, len(lines) - SHOWN)


def _in_force(run: RunFolder) -> str:
    """The answer of `scontrol show config` in a run; empty without it."""
    return run.manager.configuration(run.path)
