"""`make check`: computes every file of a finished run, sweep or comparison again from its records, and compares the files.

Nothing is written; differences are printed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage.campaign import search_results, sweep_table
from mirage.campaign.conclusion import computed, members_of
from mirage.experiment import report, runs
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import COMPARISON_FILE, METRICS_FILE, PREDICTION_FILE, SEARCH_FILE, SWEEP_FILE
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

# Relative and absolute tolerance: another version may sum in another order.
_EQUAL = 1e-6
# Differences that are printed for each file.
_SHOWN = 3


def check(knobs: Knobs, screen: Screen) -> Ending:
    """Compute all files again. The command fails if one differs, except for pages of a run that another version of the code made.

    The numbers of such a page are those of the other files, which were compared; its words and pictures are of its version.
    """
    folder, version = report.folder_of(knobs.output.run), runs.git_version()
    run = report.name_of(folder)
    count, different = 0, []
    for path, differences in _files(folder, version):
        count += 1
        name = path.relative_to(folder.parent)
        screen.say(f"{name}: {'as computed' if not differences else '; '.join(differences[:_SHOWN])}")
        if differences:
            more = len(differences) - _SHOWN
            if more > 0:
                screen.say(f"{name}: and {more} more")
            different.append(name)
    if not different:
        return Ending("ok", f"{count} files of results/{run} are equal to what is computed from the records")
    if all(name.name == report.NAME for name in different) and _is_of_another_version(folder, version):
        same = f"{count - len(different)} of {count} files of results/{run} are equal to what is computed from the records"
        return Ending("ok", f"{same}; the others are pages of another version: make report RUN={run} writes them again")
    names = ", ".join(map(str, different))
    words = f"{len(different)} of {count} files differ from what is computed from the records: {names}"
    return Ending("failed", f"{words}. Another release may have made them")


def _is_of_another_version(folder: Path, version: Mapping[str, Any] | None) -> bool:
    """Whether the files in `folder` may have been made by other code than that of the clone.

    version: `runs.git_version` of the clone. The code is the same if experiment.json has the same commit, without changed files.
    """
    made = RunFolder(folder).experiment.get("git")
    return made is None or version is None or made != version or bool(made["changed"])


def _files(folder: Path, version: Mapping[str, Any] | None) -> Iterator[tuple[Path, list[str]]]:
    """Each computed file, with its differences from what its records give."""
    if (folder / COMPARISON_FILE).is_file():
        content = RunFolder(folder).experiment
        members = members_of(content)
        for one in members:
            yield from _of_run(folder / one.folder, version)
        stored = RunFolder(folder).comparison
        again = json.loads(json.dumps(computed(folder, members, stored["method"]["margin"])))
        yield folder / COMPARISON_FILE, list(_differences(stored, again))
    elif (folder / SEARCH_FILE).is_file():
        for path in sorted(folder.glob("t*-1")):
            if (path / METRICS_FILE).is_file():
                yield from _of_run(path, version)
        again = json.loads(json.dumps(search_results.computed(folder)))
        yield folder / SEARCH_FILE, list(_differences(RunFolder(folder).search, again))
    elif (folder / SWEEP_FILE).is_file():
        runs = sweep_table.runs_of(folder)
        for _, run, _ in runs:
            if (run / METRICS_FILE).is_file():
                yield from _of_run(run, version)
        yield folder / SWEEP_FILE, _same(folder / SWEEP_FILE, sweep_table.content(runs).encode())
    elif (folder / PREDICTION_FILE).is_file():
        for name in RunFolder(folder).prediction["courses"]:
            yield from _of_run(folder.parent / name, version)
    else:
        yield from _of_run(folder, version)
    for path, text in report.pages(folder)[1].items():
        yield path, _same(path, text.encode())


def _of_run(folder: Path, version: Mapping[str, Any] | None) -> Iterator[tuple[Path, list[str]]]:
    """Files of a run that are computed from the records of the replay, of Slurm and of sigsleep, with their differences."""
    from mirage.verdict.run_results import results  # loads polars

    run = RunFolder(folder)
    if not (metrics := run.metrics):
        raise WrongUse(f"{folder.name} is not a finished run (metrics.json is not there)", parameter="run")
    settings, thresholds = metrics["settings"], metrics["validity"]["thresholds"]
    inputs = run.experiment.get("inputs", {})
    cuts = inputs.get("WARMUP_CUT", "0"), inputs.get("COOLDOWN_CUT", "0")
    again = results(run, settings["processors"], settings["nodes"], settings["tau"], thresholds, cuts)
    # Another version may word the same reasons differently; only their numbers are compared.
    stored, computed_now = metrics, again.metrics
    if _is_of_another_version(folder, version):
        stored, computed_now = _without_reasons(stored), _without_reasons(computed_now)
    for name, content in again.files.items():
        path = folder / name
        yield path, list(_differences(stored, computed_now)) if name == METRICS_FILE else _same(path, content)


def _without_reasons(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The content of metrics.json with the numbers of reasons in place of their texts."""
    validity = {**metrics["validity"]}
    validity |= {name: len(validity[name]) for name in ("reasons", "inconclusive", "inconclusive_metrics")}
    return {**metrics, "validity": validity, "null_reasons": dict.fromkeys(metrics["null_reasons"], "")}


def _same(path: Path, content: bytes) -> list[str]:
    if not path.is_file():
        return ["is not there"]
    return [] if path.read_bytes() == content else ["differs from what is computed"]


def _differences(stored: Any, result: Any, where: str = "") -> Iterator[str]:
    """Differences between the JSON content of a file and what was computed. Members that only the computed content has are ignored:
    later releases add members."""
    if isinstance(stored, dict) and isinstance(result, dict):
        for name, value in stored.items():
            yield from _differences(value, result.get(name), f"{where}.{name}" if where else name)
    elif isinstance(stored, list) and isinstance(result, list) and len(stored) == len(result):
        for place, (value, other) in enumerate(zip(stored, result, strict=True)):
            yield from _differences(value, other, f"{where}[{place}]")
    elif not _equal(stored, result):
        yield f"{where} is {_short(stored)}, computed {_short(result)}"


def _equal(stored: Any, result: Any) -> bool:
    if isinstance(stored, (int, float)) and isinstance(result, (int, float)):
        return math.isclose(stored, result, rel_tol=_EQUAL, abs_tol=_EQUAL)
    return bool(stored == result)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
