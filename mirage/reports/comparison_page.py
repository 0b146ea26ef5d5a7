"""The page of a comparison: differences between configurations, their intervals, p values and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from mirage.metrics.registry import METRICS, main_of_comparison
from mirage.reports import comparison_pictures as pictures
from mirage.reports import distributions, growth_page
from mirage.reports.measures import class_table, figure, immediate_words, inputs, slowdowns_of, suspended_words, waits_of
from mirage.reports.page import Part, Section, Table, Verdict, report
from mirage.reports.run_data import LOG, Run
from mirage.reports.run_page import CHECK
from mirage.reports.timeline import Steps, Timeline
from mirage.statistics.comparison_text import DIFFERENT, QUESTIONS, THESE_JOBS, judged, others, p_text, pair_of
from mirage.text.words import counted, duration, number, percent
from mirage.verdict.features import unused_in_all
from mirage.verdict.verdict import WORDS, verdict_of

Content = Mapping[str, Any]
_OFTEN = 5  # from this number on, suspensions of a job are one class


def page(name: str, content: Content, experiment: Mapping[str, Any], runs: Mapping[str, Run]) -> str:
    """The page as HTML.

    name: name of the comparison's folder
    content: content of comparison.json
    experiment: content of experiment.json
    runs: by name of their folder
    """
    sections = _sections(name, content, experiment, runs)
    return report(f"Comparison {name}", _summary(content, runs), _verdict(content, runs), sections)


def by_label(content: Content, runs: Mapping[str, Run]) -> dict[str, list[Run]]:
    """The runs of each configuration, the baseline first."""
    return {one["label"]: [runs[folder] for folder in one["runs"]] for one in content["configurations"]}


def _summary(content: Content, runs: Mapping[str, Run]) -> Iterable[str]:
    groups = by_label(content, runs)
    listed = ", ".join(f"{label} ({counted(len(members), 'run')})" for label, members in groups.items())
    left_out = content["jobs"]["left_out"]
    sizes = {
        label: f"{counted(of_label[0].nodes, 'node')} with {counted(of_label[0].processors, 'processor')}"
        for label, of_label in groups.items()
    }
    one_size = len(set(sizes.values())) == 1
    machine = (
        f"an emulated machine of {next(iter(sizes.values()))}" if one_size else f"emulated machines of {'; '.join(sizes.values())}"
    )
    yield (
        f"{listed}: the same {counted(content['jobs']['compared'], 'job')} on {machine}"
        + (f" ({number(left_out)} others could not be measured in all runs)." if left_out else ".")
    )
    for other in others(content):
        pair = pair_of(content["metrics"][content["answer"]], content["baseline"], other)
        yield f"{other} against {content['baseline']}: {pair['words']}."


def _verdict(content: Content, runs: Mapping[str, Run]) -> Verdict:
    invalid, inconclusive = content["validity"]["invalid"], content["validity"]["inconclusive"]
    lines = [
        f"{len(reasons)} of {len(runs)} runs are {words}"
        for reasons, words in ((invalid, "not valid"), (inconclusive, "inconclusive"))
        if reasons
    ]
    if not lines:
        return Verdict(True, f"All {len(runs)} runs are valid.")
    answer = f"{', '.join(lines)}: differences may be caused by the emulation."
    return Verdict(False, answer, [f"{run}: {'; '.join(why)}" for run, why in {**invalid, **inconclusive}.items()])


def _sections(name: str, content: Content, experiment: Mapping[str, Any], runs: Mapping[str, Run]) -> Iterable[Section]:
    groups, base = by_label(content, runs), content["baseline"]
    main = main_of_comparison(content)
    answers = []
    for other in others(content):
        answers += _findings(content, base, other, main)
        if forest := pictures.forest(content, base, other, main):
            answers.append(Part(pictures.FOREST, forest))
    yield Section("Results", answers)
    if growth := content.get("growth"):
        yield growth_page.section(growth)
    further = [pair for pair in content["metrics"]["wait_mean"]["pairs"] if pair["baseline"] != base]
    if further:
        pairs = [(pair["baseline"], pair["configuration"]) for pair in further]
        yield Section("Other pairs", [part for pair in pairs for part in _findings(content, *pair, main)])
    yield Section("Waits and slowdowns", _distributions(groups))
    yield Section("Waits by class of jobs", list(_classes(content)))
    yield _busy_nodes(content, groups)
    yield _over_time(groups)
    unused = unused_in_all([run.metrics for run in runs.values()], experiment)
    if "suspended_fraction" not in unused:
        yield Section("Suspensions", _suspensions(groups))
    if not all(run.is_generated for run in runs.values()):
        yield _real_machine(groups)
    yield Section(
        "Runs",
        [
            Part(
                "Each row links to the page of its run, which has its validity, nodes over time and all metrics.",
                table=_runs(content, runs, experiment),
                is_wide=True,
            )
        ],
    )
    # comparison.json has no metrics that came later.
    known = content["metrics"].keys() - unused
    rest = [name for name, one in METRICS.items() if name in known and name not in main and not one.same_as]
    parts = [part for other in others(content) for part in _findings(content, base, other, rest)]
    yield Section("All other metrics", parts)
    yield Section("Method", [Part(_method(content), is_wide=True)])
    yield Section("Inputs", [Part("", table=table, is_wide=True) for table in inputs(experiment, unused)])
    yield Section("How to reproduce the numbers", [Part(CHECK, table=_commands(name), is_wide=True)])


# ---- results ----


def _findings(content: Content, base: str, other: str, names: Sequence[str]) -> list[Part]:
    """A table of these metrics, and sentences about those that differ or are equivalent for these jobs."""
    pairs = [(METRICS[name].in_sentences, pair_of(content["metrics"][name], base, other)) for name in names]
    parts = [Part("", table=_differences(content, base, other, names), is_wide=True)]
    if sentences := [pair["words"] for _, pair in pairs if pair[THESE_JOBS]["verdict"] in DIFFERENT]:
        parts.append(Part(f"Differences of {other} against {base} that are significant:", points=sentences))
    else:
        parts.append(Part(f"No difference of {other} against {base} is significant here.", is_wide=True))
    if equal := [f"{noun}: {pair['words']}" for noun, pair in pairs if pair[THESE_JOBS]["verdict"] == "equivalent"]:
        parts.append(Part("Metrics that are the same within the margin:", points=equal))
    return parts


def _differences(content: Content, base: str, other: str, names: Iterable[str]) -> Table:
    rows = []
    for name in names:
        metric = content["metrics"][name]
        pair = pair_of(metric, base, other)
        means = [figure(name, pair[key]) for key in ("baseline_mean", "mean")]
        difference, unit = (pair["difference"], metric["unit"]) if pair["percent"] is None else (pair["percent"], "%")
        answers = [cell for question in QUESTIONS for cell in _answer(pair, question, unit, metric["better"])]
        rows.append((metric["noun"], *means, "-" if difference is None else f"{signed(difference)} {unit}".strip(), *answers))
    headings = ("metric", base, other, "difference", *(head for jobs in QUESTIONS.values() for head in (jobs, "p", "verdict")))
    return Table(f"{other} against {base}: means over the runs, 95 % intervals", headings, rows, prose=(6, 9))


def _answer(pair: Mapping[str, Any], question: str, unit: str, better: str) -> list[str]:
    """Interval (in per cent, or in the metric's unit where the baseline is 0), corrected p value and verdict."""
    finding = pair[question]
    between = finding["interval" if pair["percent"] is None else "percent_interval"]
    return [
        "-" if between is None else f"{signed(between[0])} to {signed(between[1])} {unit}".strip(),
        "-" if finding["p_corrected"] is None else p_text(finding["p_corrected"]),
        judged(finding["verdict"], better),
    ]


def signed(value: float) -> str:
    """A difference as text: +12, -3.4, +1,200; 0 if it is rounded to 0."""
    text = f"{value:+,.0f}" if abs(value) >= 99.5 else f"{value:+.1f}"
    return "0" if text in ("+0.0", "-0.0") else text


def _method(content: Content) -> str:
    method = content["method"]
    return (
        "Differences are between the means over the runs of each configuration, for the "
        f"{counted(content['jobs']['compared'], 'job')} that could be measured in all runs. Intervals are "
        f"{percent(method['level'])} intervals: for these jobs by the spread of the runs, for others like them also by "
        f"leaving out each of {number(method['blocks'])} blocks of jobs, where the queue had at least {number(method['cycles'])} "
        "independent cycles. What the emulation may have added widens both. "
        f"p is corrected for all comparisons of metrics, classes and configurations ({_counts(method['compared'])}) by Holm's "
        "method: the chance of any false claim of better or worse is at most 5 % for each. Configurations are equivalent if the "
        f"{percent(method['equivalence_level'])} interval is within {method['margin']:g} % (two one-sided tests at 5 %). "
        "docs/comparison-method.md describes the method."
    )


def _counts(compared: Mapping[str, int]) -> str:
    return ", ".join(f"{number(compared[question])} for {jobs}" for question, jobs in QUESTIONS.items())


# ---- other sections ----


def _pooled(some: Sequence[Run]) -> pl.DataFrame:
    """The measured jobs of several runs."""
    return pl.concat(run.population.inside for run in some)


def _distributions(groups: Mapping[str, Sequence[Run]]) -> list[Part]:
    settings = next(iter(groups.values()))[0].metrics["settings"]
    inside = {label: _pooled(runs_of_label) for label, runs_of_label in groups.items()}
    drawn = [
        distributions.waits({label: waits_of(jobs) for label, jobs in inside.items()}),
        distributions.slowdowns({label: slowdowns_of(jobs, settings) for label, jobs in inside.items()}, float(settings["tau"])),
    ]
    return [Part(f"{picture.description} All runs of a configuration are combined.", picture) for picture in drawn]


def _classes(content: Content) -> Iterable[Part]:
    """Tables of the differences of the mean wait of these jobs by size and run time, and of the numbers of jobs."""
    rows = {(row["size"], row["runtime"]): row for row in content["classes"]}
    base = content["baseline"]
    for other in others(content):
        pairs = {key: {"pair": pair_of(row["metrics"]["wait_mean"], base, other)} for key, row in rows.items()}
        table = class_table(f"Mean wait of {other} against {base}", pairs, "pair", _class_words, lambda pair, _: _sure(pair))
        yield Part("", table=table, is_wide=True)
    words = (
        "For these jobs: shaded cells with shorter or longer are significant differences. Differences with = are within the margin "
        "of equivalence. Those in brackets are undecided. - stands for unknown differences."
    )
    yield Part(words, table=class_table("Jobs", rows, "jobs", number, lambda value, known: 0.0), is_wide=True)


def _sure(pair: Mapping[str, Any]) -> float:
    return 0.7 if pair[THESE_JOBS]["verdict"] in DIFFERENT else 0.0


def _class_words(pair: Mapping[str, Any]) -> str:
    verdict = pair[THESE_JOBS]["verdict"]
    if pair["difference"] is None or verdict == "unknown":
        return "-"
    unit, value = ("%", pair["percent"]) if pair["percent"] is not None else ("s", pair["difference"])
    if verdict in DIFFERENT:
        return f"{signed(abs(value)).lstrip('+')} {unit} {'shorter' if value < 0 else 'longer'}"
    return f"= {signed(value)} {unit}" if verdict == "equivalent" else f"({signed(value)} {unit})"


def _busy_nodes(content: Content, groups: Mapping[str, Sequence[Run]]) -> Section:
    """Distributions of busy nodes with their differences, and the shares of jobs that started immediately."""
    known = {
        label: [one.metrics["distribution"] for one in members if one.metrics.get("distribution")]
        for label, members in groups.items()
    }
    parts = []
    if all(known.values()) and len({one.nodes for members in groups.values() for one in members}) == 1:
        nodes = next(iter(groups.values()))[0].nodes
        parts += [Part(picture.description, picture) for picture in pictures.busy_nodes(known, nodes, content["baseline"])]
    below = float(content["settings"]["immediate_below"])
    immediate = content["metrics"]["immediate_fraction"]["configurations"]
    rows = [
        (label, percent(one["mean"]), ", ".join(percent(value) for value in one["replicas"])) for label, one in immediate.items()
    ]
    in_log = next(iter(groups.values()))[0].log_immediate(below)
    if in_log is not None:
        rows.append((f"{LOG}, the same jobs", percent(in_log), "-"))
    table = Table("Jobs that started immediately", ("configuration", "mean", "each run"), rows)
    parts.append(Part(immediate_words(below), table=table, is_wide=True))
    return Section("Busy nodes, and jobs that started immediately", parts)


def _mean(some: Sequence[Run], name: str) -> float | None:
    values = [value for run in some if (value := run.values.get(name)) is not None]
    return sum(values) / len(values) if values else None


def _over_time(groups: Mapping[str, Sequence[Run]]) -> Section:
    """Processors in use and requested over time, for the first run of each configuration."""
    first = {
        label: members[0] for label, members in groups.items() if members[0].window is not None and members[0].window.length > 0
    }
    if not first:
        return Section(
            "Over time", lacks=["No job has a recorded submission, start and end, so that nothing can be drawn over time."]
        )
    shown = dict(list(first.items())[:6])
    levels = {label: run.levels() for label, run in shown.items()}
    # Times count from each run's own beginning, because submissions of replicas are shifted.
    busy, waiting = (
        [Steps(label, both[kind].times - both[kind].times[0], both[kind].values) for label, both in levels.items()]
        for kind in (0, 1)
    )
    frame = Timeline(0.0, max(float(one.times[-1]) for one in busy))
    panels = [
        frame.lines(name, title, f"{_means(series)}.", series, "processors", top=top)
        for name, title, series, top in (
            ("busy", "Processors in use", busy, max(run.processors for run in shown.values())),
            ("waiting", "Processors requested by waiting jobs", waiting, None),
        )
    ]
    words = "The first run of each configuration. Time is trace time since the first submission."
    return Section("Over time", [Part(words, timeline=Timeline(frame.begin, frame.end, panels), is_wide=True)])


def _means(series: Sequence[Steps]) -> str:
    return "; ".join(f"{one.name}: {number(round(one.mean(0, float(one.times[-1])), 1))} on average" for one in series)


def _suspensions(groups: Mapping[str, Sequence[Run]]) -> list[Part]:
    """Numbers and durations of suspensions by configuration, and the agreement of sigsleep's and Slurm's records."""
    names = ("suspended_fraction", "suspensions_mean", "suspended_mean")
    rows = [(label, *(figure(name, _mean(members, name)) for name in names)) for label, members in groups.items()]
    headings = ("configuration", "jobs suspended", "suspensions of a job, mean", "time suspended, mean of all jobs")
    sentences = {label: suspended_words([run.metrics["validity"] for run in members]) for label, members in groups.items()}
    parts = [Part("", table=Table("Suspensions", headings, rows), is_wide=True)]
    if any(sentences.values()):
        parts.append(
            Part("Over all runs of a configuration:", points=[f"{label}: {words}" for label, words in sentences.items() if words])
        )
    counts = {label: _times_suspended(members) for label, members in groups.items()}
    if any(sum(times[1:]) for times in counts.values()):
        often = ["never", *(f"{times} x" for times in range(1, _OFTEN)), f"{_OFTEN} x or more"]
        lines = [(label, *map(number, times)) for label, times in counts.items()]
        parts.append(
            Part(
                "", table=Table("Jobs of all runs, by how often each was suspended", ("configuration", *often), lines), is_wide=True
            )
        )
    return parts


def _times_suspended(some: Sequence[Run]) -> list[int]:
    """Number of measured jobs of these runs that were suspended 0, 1, 2, ... times; the last class is `_OFTEN` or more."""
    counts = [0] * (_OFTEN + 1)
    for run in some:
        jobs = run.population.inside.select("id")
        if (known := run.schedule.suspensions) is not None:
            times = jobs.join(known.group_by("job").agg(times=pl.len()), left_on="id", right_on="job", how="left")["times"]
            for often, count in times.fill_null(0).clip(0, _OFTEN).value_counts().iter_rows():
                counts[often] += count
    return counts


def _real_machine(groups: Mapping[str, Sequence[Run]]) -> Section:
    """Comparison of the first run of each configuration with the log."""
    first = {label: members[0] for label, members in groups.items()}
    unknown = next((run.recorded for run in first.values() if isinstance(run.recorded, str)), None)
    if unknown is not None:
        return Section("Comparison with the log", lacks=[unknown])
    rows: list[tuple[str, ...]] = []
    near, reason = None, ""
    for label, run in first.items():
        if run.nearness is None:
            continue
        near = run.nearness
        reason = reason or near["inconclusive"]
        correlation = near["rank_correlation"]
        rows.append(
            (
                label,
                *(duration(near["waits"][name]["run"]) for name in ("wait_mean", "wait_median")),
                percent(near["differences"]["within_minute"]["value"]),
                "-" if correlation is None else f"{correlation['value']:.2f}",
            )
        )
    if near is not None:
        rows.insert(0, (LOG, *(duration(near["waits"][name]["record"]) for name in ("wait_mean", "wait_median")), "-", "-"))
    headings = ("", "mean wait", "median wait", "jobs whose waits differ by at most a minute", "rank correlation with the log")
    words = f"This comparison is inconclusive: {reason}. " if reason else ""
    words += (
        "The log's waits depend on another policy, other jobs, outages, operators and users; the pages of the runs list what is "
        "known about them. The table has the first run of each configuration."
    )
    return Section(
        "Comparison with the log", [Part(words, table=Table("Waits in the log and in the emulation", headings, rows), is_wide=True)]
    )


def _runs(content: Content, runs: Mapping[str, Run], experiment: Mapping[str, Any]) -> Table:
    shifts = experiment.get("shifts") or {}
    labels = {folder: one["label"] for one in content["configurations"] for folder in one["runs"]}
    rows = [
        (
            folder,
            labels[folder],
            WORDS[verdict_of(run.metrics["validity"])],
            *(figure(name, run.values.get(name)) for name in ("wait_mean", "bounded_slowdown_mean", "utilisation")),
            "-" if folder not in shifts else f"{shifts[folder]:.1f} s",
        )
        for folder, run in runs.items()
    ]
    headings = ("run", "configuration", "verdict", "mean wait", "mean bounded slowdown", "utilisation", "submissions later by")
    return Table("Runs", headings, rows, links=[f"{folder}/report.html" for folder in runs])


def _commands(name: str) -> Table:
    rows = [
        ("all files and pages, from the records of the replay, Slurm and sigsleep", f"make check RUN={name}"),
        ("this page, and those of the runs", f"make report RUN={name}"),
        ("comparison.json and its table, from jobs.csv and metrics.json of the runs", f"make compare RUN={name}"),
        ("all metrics, as tables on the terminal", f"make metrics RUN={name}"),
        ("the metrics of a run", f"make metrics TRACE=results/{name}/RUN/jobs.csv, where RUN is one of the runs"),
    ]
    return Table("Commands", ("result", "command"), rows, prose=(1,))
