"""The page of a workload: its texts, pictures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from mirage.reports.page import Part, Section, Table, render
from mirage.reports.pictures import Picture
from mirage.reports.workload_pictures import MOST_SIZES, TOP, WEEKDAYS, size_words
from mirage.text.words import counted, duration, number, percent, value
from mirage.workloads.characterise import LEVELS, Characterisation
from mirage.workloads.log_rules import Finding
from mirage.workloads.workload_figures import FIGURES

# The table of sizes ends when its sizes have this share of the jobs, or at this number of rows.
_NEARLY_ALL, _MOST_ROWS = 0.9, 12
# Longest text and largest number of labels of the log's header that are shown.
_LONGEST, _MOST_LABELS = 2000, 40
# Seconds; in shorter workloads the numbers of Mondays, Tuesdays, ... differ noticeably.
_FEW_WEEKS = 28 * 86400
# Levels in the table of distributions.
_SHOWN_LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def page(
    name: str,
    workload: Characterisation,
    pictures: Mapping[str, Picture],
    facts: Mapping[str, str],
    header: Mapping[str, str],
    notes: Mapping[str, int],
    findings: Sequence[Finding] = (),
) -> str:
    """The page as HTML.

    name: name of the workload
    pictures: by name, see `workload_pictures.pictures`
    facts: origin of the workload
    header: header of the log
    notes: number of jobs by oddity of the log
    findings: what the rules of `log_rules` say of it
    """
    return render(
        "workload.html.j2",
        name=name,
        summary=summary(workload),
        key_figures=key_figures(workload),
        findings=_findings(findings),
        sections=list(_sections(workload, pictures)),
        facts=Table("Source", ("", ""), list(facts.items())),
        oddities=_oddities(notes, workload.left_out),
        header=_header(header),
    )


def summary(workload: Characterisation) -> list[str]:
    """The workload in a few sentences."""
    figures = workload.figures
    machine = "" if figures["processors"] is None else f" for {counted(figures['processors'], 'processor')}"
    sentences = [f"{counted(figures['jobs'], 'job')}{machine}"]
    if figures["span"]:
        sentences[0] += f", submitted within {duration(figures['span'])}"
    dates = _dates(workload)
    sentences[0] += f" ({dates})." if dates else "."
    if figures["one_processor_jobs"] is not None:
        service = figures["one_processor_service"]
        uses = "" if service is None else f" and use {percent(service)} of the service units (processors x run time)"
        sentences.append(
            f"Jobs on one processor are {percent(figures['one_processor_jobs'])} of all jobs{uses}; "
            f"half of the jobs have up to {counted(figures['size_median'], 'processor')}."
        )
    if figures["run_time_median"] is not None:
        requested = figures["requested_time_median"]
        sentences.append(
            f"Half of the jobs run for up to {duration(figures['run_time_median'])}"
            + (f" and request up to {duration(requested)}." if requested else ".")
        )
    if figures["offered_load"] is not None:
        used = figures["utilisation"]
        sentences.append(
            f"The offered load is {percent(figures['offered_load'])} of the machine"
            + ("." if used is None else f"; the recorded utilisation is {percent(used)}.")
        )
    return sentences


def key_figures(workload: Characterisation) -> list[Table]:
    """Two tables with all known figures."""
    names = list(FIGURES)
    split = names.index("run_time_mean")
    tables = []
    for caption, group in (("Jobs, sizes, load, users", names[:split]), ("Times", names[split:])):
        known = [(FIGURES[name], workload.figures[name]) for name in group if workload.figures[name] is not None]
        tables.append(Table(caption, ("", "value"), [(meaning, value(amount, unit)) for (unit, meaning), amount in known]))
    return [table for table in tables if table.rows]


def _dates(workload: Characterisation) -> str:
    """Dates of the first and last submission; "" if unknown."""
    span = workload.figures["span"]
    if workload.begin is None or span is None:
        return ""
    dates = [workload.local.date(second) for second in (workload.begin, workload.begin + span)]
    return " to ".join(f"{date:%Y-%m-%d %H:%M}" for date in dates if date) + f", {workload.local.words}" if all(dates) else ""


def _sections(workload: Characterisation, pictures: Mapping[str, Picture]) -> Iterable[Section]:
    """The page's sections, with the reasons for missing data."""
    contents: dict[str, tuple[list[Part | None], tuple[str, ...]]] = {
        "Sizes": ([_sizes(workload, pictures), _common_sizes(workload), _classes(workload, pictures)], ("sizes", "service")),
        "Submissions": ([_hours(workload, pictures), _weekdays(workload, pictures)], ("hours", "weekdays")),
        "Run times and requested times": (
            [_times(workload, pictures), _requests(workload, pictures), _accuracy(workload, pictures)],
            ("run_time", "requested_time", "accuracy"),
        ),
        "Load and users": ([_load(workload, pictures), _users(workload, pictures)], ("offered", "utilisation", "users")),
    }
    for title, (parts, needs) in contents.items():
        yield Section(
            title, [part for part in parts if part], [workload.missing[name] for name in needs if name in workload.missing]
        )


def _total(column: pl.Series) -> float:
    return float(column.sum())


def _share(part: float, whole: float) -> str:
    return percent(part / whole if whole else None)


def _sizes(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "sizes" not in pictures:
        return None
    words = f"Number of jobs by size. {pictures['sizes'].description}"
    if workload.sizes.height > MOST_SIZES:
        words += f" The picture shows the {MOST_SIZES} most common sizes."
    return Part(words, pictures["sizes"])


def _common_sizes(workload: Characterisation) -> Part | None:
    """The table of the most common sizes (Table 4.1 of the thesis)."""
    total = _total(workload.sizes["jobs"])
    if not total:
        return None
    rows: list[tuple[str, ...]] = []
    listed_jobs = 0
    for size, jobs, _ in workload.sizes.sort("jobs", "size", descending=[True, False]).iter_rows():
        if listed_jobs >= _NEARLY_ALL * total or len(rows) == _MOST_ROWS:
            break
        rows.append((number(size), number(jobs), _share(jobs, total)))
        listed_jobs += jobs
    if listed_jobs < total:
        rows.append(
            (
                f"{counted(workload.sizes.height - len(rows), 'other size')}",
                number(total - listed_jobs),
                _share(total - listed_jobs, total),
            )
        )
    table = Table("Most common sizes", ("processors", "jobs", "share of the jobs"), rows)
    return Part(f"{counted(workload.sizes.height, 'different size')} in total.", table=table)


def _classes(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "service" not in pictures:
        return None
    jobs, service = _total(workload.classes["jobs"]), _total(workload.classes["service"])
    rows = [
        (size_words(low, high), number(count), _share(count, jobs), number(used / 3600), _share(used, service))
        for low, high, count, used in workload.classes.iter_rows()
    ]
    headings = ("processors", "jobs", "share", "processor hours", "share")
    words = f"Service units are processors x run time. {pictures['service'].description}"
    return Part(words, pictures["service"], Table("Jobs and service units by size", headings, rows))


def _hours(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "hours" not in pictures:
        return None
    total = _total(workload.hours["jobs"])
    rows = [(f"{hour} to {hour + 1}", number(jobs), _share(jobs, total)) for hour, jobs in workload.hours.iter_rows()]
    words = (
        f"Hours are {workload.local.words}. {pictures['hours'].description}"
        if workload.local.begin is None
        else f"Time zone: {workload.local.words}. {pictures['hours'].description}"
    )
    return Part(words, pictures["hours"], Table("Submissions by hour of the day", ("hour", "jobs", "share"), rows))


def _weekdays(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "weekdays" not in pictures:
        return None
    total = _total(workload.weekdays["jobs"])
    rows = [(WEEKDAYS[day - 1], number(jobs), _share(jobs, total)) for day, jobs in workload.weekdays.iter_rows()]
    words = pictures["weekdays"].description
    if (workload.figures["span"] or 0) < _FEW_WEEKS:
        words += " In so short a workload some days of the week occur more often than others."
    return Part(words, pictures["weekdays"], Table("Submissions by day of the week", ("day", "jobs", "share"), rows))


def _times(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "times" not in pictures:
        return None
    columns = {
        "size": ("processors", number),
        "run_time": ("run time", duration),
        "run_time_service": ("run time, of service units", duration),
        "requested_time": ("requested time", duration),
        "wait": ("recorded wait", duration),
        "interval": ("interval between submissions", duration),
    }
    known = {name: column for name, column in columns.items() if workload.distribution[name].null_count() == 0}
    levels = [workload.distribution.row(round(level * LEVELS), named=True) for level in _SHOWN_LEVELS]
    rows = [(f"{100 * row['level']:.0f} %", *(text_of(row[name]) for name, (_, text_of) in known.items())) for row in levels]
    headings = ("share of the jobs", *(f"{heading}, up to" for heading, _ in known.values()))
    words = f"Cumulative distributions of run times and requested times. {pictures['times'].description}"
    return Part(words, pictures["times"], Table("Distributions", headings, rows))


def _requests(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "requests" not in pictures:
        return None
    total = _total(workload.requests["jobs"])
    rows = [
        (duration(requested), number(requested), number(jobs), _share(jobs, total))
        for requested, jobs in workload.requests.head(2 * TOP).iter_rows()
    ]
    popular = percent(workload.figures["popular_requests"])
    words = (
        f"{counted(workload.requests.height, 'different requested time')}; {popular} of the jobs have one of the ten most frequent."
    )
    return Part(words, pictures["requests"], Table("Requested times", ("time", "seconds", "jobs", "share"), rows))


def _accuracy(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "accuracy" not in pictures:
        return None
    total = _total(workload.accuracy["jobs"])
    rows = [
        (f"{100 * low:.0f} to {100 * high:.0f} %" if high is not None else "100 % or more", number(jobs), _share(jobs, total))
        for low, high, jobs in workload.accuracy.iter_rows()
    ]
    words = pictures["accuracy"].description
    return Part(words, pictures["accuracy"], Table("Run time over requested time", ("share used", "jobs", "share"), rows))


def _load(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "load" not in pictures:
        return None
    rows = []
    for begin, end, offered, used in workload.load.iter_rows():
        date = workload.local.date(begin)
        rows.append(
            (f"{date:%Y-%m-%d %H:%M}" if date else f"{number(begin)} s", duration(end - begin), percent(offered), percent(used))
        )
    words = f"Service units submitted, and in use, as shares of the machine's capacity. {pictures['load'].description}"
    return Part(words, pictures["load"], Table("Load over time", ("from", "length", "offered load", "utilisation"), rows))


def _users(workload: Characterisation, pictures: Mapping[str, Picture]) -> Part | None:
    if "users" not in pictures:
        return None
    known = workload.users.filter(pl.col("user").is_not_null())
    jobs, service = _total(known["jobs"]), _total(known["service"])
    rows = [
        (str(user), number(count), _share(count, jobs), number(used / 3600), _share(used, service))
        for user, count, used in known.head(2 * TOP).iter_rows()
    ]
    headings = ("user", "jobs", "share", "processor hours", "share")
    return Part(pictures["users"].description, pictures["users"], Table("Users with most jobs", headings, rows))


def _oddities(notes: Mapping[str, int], left_out: Mapping[str, int]) -> Table:
    rows = [(f"left out: {reason}", number(count)) for reason, count in left_out.items()]
    rows += [(note.replace("_", " "), number(count)) for note, count in notes.items()]
    return Table("Oddities of the whole log, and jobs left out", ("oddity", "jobs"), rows)


def _findings(findings: Sequence[Finding]) -> Table:
    rows = [(f"{one.severity}: {one.rule}", f"{one.title}: {one.amount}", one.example[:_LONGEST], one.advice) for one in findings]
    return Table("What the rules find", ("rule", "found", "where", "effect on a run, and what to do"), rows, prose=(1, 2, 3))


def _header(header: Mapping[str, str]) -> Table:
    rows = [(label[:80], text[:_LONGEST] + (" ..." if len(text) > _LONGEST else "")) for label, text in header.items()]
    return Table("Header of the log", ("label", "text"), rows[:_MOST_LABELS])
