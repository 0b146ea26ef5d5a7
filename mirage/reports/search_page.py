"""The page of a search: the answer, the front, the importance of the settings, and all trials with links to their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mirage.metrics.registry import METRICS
from mirage.records.file_names import SEARCH_FILE
from mirage.records.run_folder import RunFolder
from mirage.reports import search_pictures as pictures
from mirage.reports.measures import figure, inputs
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.run_page import CHECK
from mirage.text.words import counted, percent
from mirage.verdict.features import unused_in_all
from slurm_mirage.base.strict_json import Damaged

Content = Mapping[str, Any]
_STOPPED = {
    "flat": "no setting matters",
    "all": "every point was tried",
    "time": "BUDGET was used up",
    "base": "the run of the base is not valid",
}


def page(folder: RunFolder, answer: str, is_good: bool) -> str:
    """The page as HTML, from search.json, experiment.json and the runs. answer: how the search ended"""
    content = _checked(folder)
    goal = METRICS[content["goal"]].in_sentences
    tuned = ", ".join(one["name"] for one in content["settings"])
    stopped = _STOPPED.get(content["stopped"], "")
    trials, jobs = counted(len(content["trials"]), "trial"), counted(content["jobs"], "job")
    summary = [
        f"{trials} of {tuned} for the best {goal}, on the same {jobs}. "
        f"The first trial is the base{f'; the search ended because {stopped}' if stopped else ''}."
    ]
    return report(f"Search {folder.name}", summary, Verdict(is_good, answer), _sections(folder, content))


def _checked(folder: RunFolder) -> Content:
    """search.json. Raises Damaged for one that names what there is not."""
    content = folder.search
    names, numbers = [one["name"] for one in content["settings"]], [one["number"] for one in content["trials"]]
    is_known = {content["goal"], content["second"]} <= METRICS.keys()
    is_whole = all({*names} <= one["settings"].keys() for one in content["trials"])
    values = all(one["by_value"] is None or len(one["by_value"]) == len(one["values"]) for one in content["settings"])
    if not (is_known and is_whole and values and names and numbers == [*range(1, len(numbers) + 1)]):
        raise Damaged(f"{folder.path / SEARCH_FILE}: is not that of a search of this release")
    return content


def _sections(folder: RunFolder, content: Content) -> Iterator[Section]:
    drawn = [picture for picture in (pictures.front(content), pictures.importance(content)) if picture is not None]
    parts = [Part(picture.description, picture) for picture in drawn]
    yield Section("Front and importance", [*parts, Part(_importance_words(content), is_wide=True)])
    yield Section("Proof on other jobs", [Part(words, points=points, is_wide=True) for words, points in _proof(content)])
    of_values = [Part(picture.description, picture) for picture in pictures.by_value(content)]
    of_course = pictures.course(content, content["trials"])
    yield Section("Settings", [*of_values, *([Part(of_course.description, of_course)] if of_course else [])])
    yield Section("Trials", [Part(_first_part_words(content), table=_trials(content), is_wide=True)])
    metrics = [found for one in content["trials"] if (found := RunFolder(folder.path / one["run"]).metrics)]
    unused = unused_in_all(metrics, folder.experiment)
    yield Section("Inputs", [Part("", table=table, is_wide=True) for table in inputs(folder.experiment, unused)])
    commands = [
        ("all files and pages, from the records of the replay, Slurm and sigsleep", f"make check RUN={folder.name}"),
        ("this page, from search.json", f"make report RUN={folder.name}"),
        ("why jobs of a trial waited", f"make why RUN={folder.name}/t01-1"),
        ("what differs between two trials", f'make diff RUNS="{folder.name}/t01-1 {folder.name}/t02-1"'),
    ]
    table = Table("Commands", ("result", "command"), commands, prose=(1,))
    yield Section("How to reproduce the numbers", [Part(CHECK, table=table, is_wide=True)])


def _importance_words(content: Content) -> str:
    if all(one["share"] is None for one in content["settings"]):
        return "The importance of the settings is not known: too few trials have a figure, or all have the same."
    return (
        "Importance is the variance of what a setting alone changes, over its values, as a share of that of all settings: by a "
        "Gaussian process through the trials (docs/search.md). It says nothing of values that were not tried."
    )


def _proof(content: Content) -> Iterable[tuple[str, list[str]]]:
    proof = content["proof"]
    if proof is None:
        yield "Nothing was to be proven, or the comparison on other jobs is not there yet.", []
        return
    limits = [f"{limit}: {verdict}" for limit, verdict in proof["limits"].items()]
    where = f"results/{proof['run']}/report.html"
    yield f"The best trial against the base on {counted(proof['jobs'], 'other job')}: {proof['words']} ({where}).", limits


def _first_part_words(content: Content) -> str:
    words = "Each row links to the page of its run."
    part = content["first_part"]
    if not part["jobs"]:
        return words
    if part["rank_correlation"] is None:
        return f"{words} How the first {part['jobs']} jobs rank the trials is not known."
    use = "decided which of the later trials went on" if part["decided"] else "did not decide which trials went on"
    return (
        f"{words} The first {part['jobs']} jobs rank the trials as all jobs do with a rank correlation of "
        f"{part['rank_correlation']:.2f}; {part['misranked']} of {part['pairs']} pairs are the other way round. They {use}."
    )


def _trials(content: Content) -> Table:
    goal, second = content["goal"], content["second"]
    base = content["trials"][0]["figure"] if content["trials"] else None
    names = [one["name"] for one in content["settings"]]
    rows = [
        (
            f"t{one['number']:02}",
            pictures.kind_of(content, one),
            *(one["settings"][name] for name in names),
            figure(goal, one["figure"]),
            _change(one["figure"], base),
            figure(second, one["second"]),
            figure(goal, one["first_part"]),
            ", ".join(one["breaks"]) or ("ended after the first part" if one["ended_after_first_part"] else ""),
        )
        for one in content["trials"]
    ]
    heads = (METRICS[goal].in_sentences, "against the base", METRICS[second].in_sentences, "of the first part", "remark")
    links = [f"{one['run']}/report.html" for one in content["trials"]]
    return Table("Trials", ("trial", "kind", *names, *heads), rows, links=links)


def _change(value: float | None, base: float | None) -> str:
    if value is None or not base:
        return "-"
    change = value / base - 1
    return f"{'-' if change < 0 else '+'}{percent(abs(change))}" if change else "0 %"
