"""The page of the study of malleable jobs: tables 2 to 4 and figures 3 to 8 of the source beside those of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.text.words import counted, number
from mirage.verdict.verdict import VALID, WORDS, verdict_of
from mirage_extras.malleable.studies import pictures
from mirage_extras.malleable.studies.measured import Figure, StudyRun

_TITLES = {
    "table 2": "Table 2: actions of flexible sleep",
    "table 3": "Table 3: flexible sleep, fixed, synchronous and asynchronous",
    "table 4": "Table 4: fixed and malleable applications",
    "figure 4": "Figure 4: time until the last end",
}
_WORDS = {
    "table 2": "Times are from the question of a job to the end of the action; with an asynchronous check the wait of its resizer "
    "is in them. The largest workload of the study is taken.",
    "table 3": "Gains are against the fixed jobs, means over the workloads' sizes.",
    "table 4": "The source's flexible jobs have preferred sizes (preferred). Under wide optimisation (wide) they have none.",
    "figure 4": "The available text of the source has no numbers of its figures.",
}


def page(
    name: str, runs: Sequence[StudyRun], found: Sequence[Figure], comparisons: Sequence[str], resizes: Sequence[Mapping[str, Any]]
) -> str:
    """The page as HTML.

    name: of the study's folder in results/
    comparisons: names of the folders of its comparisons, beside it
    resizes: rows of the benchmark of figure 3
    """
    return report(f"Study {name}", _summary(runs, found), _verdict(runs), _sections(runs, found, comparisons, resizes))


def _summary(runs: Sequence[StudyRun], found: Sequence[Figure]) -> Iterable[str]:
    yield (
        f"{counted(len(runs), 'run')} on emulated nodes, beside the figures of \u201cDMR API: Improving the cluster productivity "
        "by turning applications into malleable\u201d. Intervals (95 %) are over the replicas: what the emulation varies by, not "
        "other workloads."
    )
    known = [one for one in found if one.difference is not None]
    unexplained = [f"{one.table}, {one.row}: {one.column}" for one in known if one.remark == "unexplained"]
    yield (
        f"Of {counted(len(known), 'figure')} of the source, {len(unexplained)} differ without an explanation"
        + (f" ({'; '.join(unexplained)})." if unexplained else ".")
    )


def _verdict(runs: Sequence[StudyRun]) -> Verdict:
    found = [(run.folder.name, run.metrics()["validity"]) for run in runs]
    told = {words: [one for one in found if verdict_of(one[1]) == verdict] for verdict, words in WORDS.items() if verdict != VALID}
    if not any(told.values()):
        return Verdict(True, f"All {len(runs)} runs are valid.")
    answer = ", ".join(f"{len(some)} of {len(runs)} runs are {words}" for words, some in told.items() if some)
    reasons = [f"{folder}: {'; '.join(validity['reasons'])}" for some in told.values() for folder, validity in some]
    return Verdict(False, f"{answer}.", reasons)


def _sections(
    runs: Sequence[StudyRun], found: Sequence[Figure], comparisons: Sequence[str], resizes: Sequence[Mapping[str, Any]]
) -> Iterable[Section]:
    for table, title in _TITLES.items():
        rows = [one for one in found if one.table == table]
        parts = [Part(_WORDS[table], table=_table(title, rows), is_wide=True)] if rows else []
        lacks = [] if rows else ["No run of this study has them."]
        yield Section(title, parts, lacks)
    drawn = [
        pictures.bars(found, "makespan, s", "makespan", "Figure 4: time until the last end"),
        pictures.bars(found, "wait, s", "wait", "Figure 5: mean wait"),
    ]
    yield Section("Figures 4 and 5", [Part(one.description, one) for one in drawn if one is not None])
    yield Section("Figure 6: over time", [Part(one.description, one, is_wide=True) for one in pictures.over_time(runs)])
    yield Section("Figures 7 and 8: each job", [Part(one.description, one, is_wide=True) for one in pictures.by_application(runs)])
    if resizes:
        picture = pictures.resize_times(resizes)
        words = "Asked for on an idle cluster at SPEED=1, on the same path as in a run (make bench PART=resize). "
        yield Section("Figure 3: time of a resize", [Part(words + picture.description, picture)])
    else:
        yield Section(
            "Figure 3: time of a resize", lacks=["make bench PART=resize measures it; results/bench/resize.json is not there."]
        )
    pages = [(name, f"../{name}/report.html") for name in comparisons]
    links = Table("Comparisons", ("comparison", "page"), pages, links=[link for _, link in pages])
    yield Section("Comparisons with all metrics", [Part("Each has the pages of its runs.", table=links)])


def _table(caption: str, rows: Sequence[Figure]) -> Table:
    shown = [
        (
            f"{one.row}: {one.column}",
            number(one.source),
            number(one.mean) + ("" if one.half is None else f" ± {number(one.half)}"),
            "-" if one.difference is None else f"{one.difference:+.0f} %",
            one.remark if one.source is not None else "",
        )
        for one in rows
    ]
    return Table(caption, ("figure", "source", "here", "difference", "explanation"), shown, prose=(4,))
