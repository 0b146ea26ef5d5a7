"""search.json: what the runs of a search tell, from these runs, its experiment.json and the proof's comparison.json only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.campaign.search_plan import SearchPlan
from mirage.experiment.endings import Ending
from mirage.metrics import metrics
from mirage.metrics.registry import METRICS
from mirage.records.file_names import COMPARISON_FILE, EXPERIMENT_FILE, METRICS_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.statistics.comparison_text import DIFFERENT, THESE_JOBS, pair_of
from mirage.statistics.limits import BROKEN, HOLDS, UNDECIDED, Limit
from mirage.tuning.conclusions import Response, Trial
from mirage.tuning.told import startup
from mirage.tuning.tunables import settings_text
from slurm_mirage.base.errors import WrongUse

BASE, BEST = "base", "best"
"""Labels of the configurations of the proof."""
BETTER, WORSE, EQUIVALENT, NOT_SHOWN = "better", "worse", "equivalent", "not shown"
"""What the proof says of the best trial."""
_USED = ("ok", "inconclusive")


def label_of(number: int, *, is_early: bool = False) -> str:
    """Label of a trial's run; its folder is `t01-1`, that of its first part `t01-early-1`."""
    return f"t{number:02}{'-early' if is_early else ''}"


def folder_of(folder: Path, number: int, *, is_early: bool = False) -> Path:
    """The run folder of a trial."""
    return folder / f"{label_of(number, is_early=is_early)}-1"


def trial_of(folder: Path, plan: SearchPlan, number: int) -> Trial | None:
    """A trial from its run folders, without what it is against the base; None if it has not begun."""
    whole, early = (RunFolder(folder_of(folder, number, is_early=is_early)) for is_early in (False, True))
    begun = whole.experiment or early.experiment
    point = plan.point(str(begun.get("inputs", {}).get("SETTINGS") or "")) if begun else None
    if point is None:
        return None
    figures, of_part = _figures(whole), _figures(early)
    figure, second = (figures.get(name) for name in (plan.goal, plan.second))
    part = of_part.get(plan.goal)
    if part is None and plan.early_jobs and figures:
        part = _of_first_jobs(whole, plan)
    return Trial(number, point, figure, part, is_early=not whole.experiment and bool(of_part), second=second)


def _figures(run: RunFolder) -> Mapping[str, float | None]:
    """The metrics of a finished run; none of one that is not valid."""
    ending = Ending.load(run.path)
    if ending is None or ending.word not in _USED or not run.has(METRICS_FILE):
        return {}
    figures: Mapping[str, float | None] = run.measured["metrics"]
    return figures


def _of_first_jobs(run: RunFolder, plan: SearchPlan) -> float | None:
    """The goal over the first part of the jobs of a run of all jobs."""
    first, settings = run.workload["id"].head(plan.early_jobs), run.metrics["settings"]
    jobs = of_run(run).jobs
    try:
        content = metrics.compute(
            jobs.filter(jobs["id"].is_in(first.implode())),
            settings["processors"],
            settings.get("nodes"),
            settings["tau"],
            immediate_below=settings["immediate_below"],
        )
    except WrongUse:
        return None
    value: float | None = content["metrics"][plan.goal]
    return value


def against_base(trial: Trial, folder: Path, plan: SearchPlan) -> Trial:
    """The trial with the limits that its run is beyond, against that of the base."""
    if not plan.limits or trial.figure is None:
        return trial
    base, own = (_figures(RunFolder(folder_of(folder, number))) for number in (1, trial.number))
    return replace(trial, breaks=[str(limit) for limit in plan.parsed_limits if _is_beyond(limit, base, own)])


def _is_beyond(limit: Limit, base: Mapping[str, float | None], own: Mapping[str, float | None]) -> bool:
    before, after = base.get(limit.metric), own.get(limit.metric)
    if before is None or after is None:
        return False
    change = after - before
    if limit.in_percent:
        change = 100 * change / abs(before) if before else (0.0 if not change else limit.change + change)
    return limit.judge((change, change)) == BROKEN


def response_of(folder: Path, plan: SearchPlan) -> Response:
    """The trials of a finished search."""
    trials: list[Trial] = []
    while (trial := trial_of(folder, plan, len(trials) + 1)) is not None:
        trials.append(against_base(trial, folder, plan))
    return replace(plan.response, trials=trials)


def computed(folder: Path) -> dict[str, Any]:
    """Content of search.json."""
    experiment = RunFolder(folder).experiment
    plan = SearchPlan.read(experiment.get("search") or {}, folder / EXPERIMENT_FILE)
    course = experiment.get("course", {})
    return content_of(folder, plan, response_of(folder, plan), course.get("stopped", ""))


def content_of(folder: Path, plan: SearchPlan, response: Response, stopped: str) -> dict[str, Any]:
    """Content of search.json. stopped: why the search ended (`explore`)"""
    best, is_flat = response.best(), response.is_flat(plan.margin)
    wrong, pairs = response.misranked()
    proof = _proof(folder.parent / proof_of(plan, best), plan) if best is not None and needs_proof(response, plan) else None
    return {
        "goal": plan.goal,
        "second": plan.second,
        "limits": plan.limits,
        "margin": plan.margin,
        "jobs": plan.jobs,
        "first_trials": startup(plan.axes),
        "settings": [
            {"name": name, "values": list(values), "base": values[place], **effect}
            for name, values, place, effect in zip(plan.names, plan.values, plan.base, _effects(response), strict=True)
        ],
        "trials": [_as_member(plan, trial) for trial in response.trials],
        "front": [trial.number for trial in response.front()],
        "best": None if best is None else best.number,
        "flat": is_flat,
        "range_percent": response.range_percent(),
        "first_part": {
            "jobs": plan.early_jobs,
            "rank_correlation": response.rank_correlation(),
            "decided": any(trial.is_early for trial in response.trials),
            "misranked": wrong,
            "pairs": pairs,
        },
        "stopped": stopped,
        "proof": proof,
    }


def needs_proof(response: Response, plan: SearchPlan) -> bool:
    """Whether the best trial is another one than the base, and not all are alike."""
    best = response.best()
    return best is not None and best.point != plan.base and not response.is_flat(plan.margin)


def proof_of(plan: SearchPlan, best: Trial) -> str:
    """Name of the comparison in results/ that proves a trial."""
    return f"{plan.proof}-{label_of(best.number)}"


def _effects(response: Response) -> list[dict[str, Any]]:
    found = response.effects()
    if not found:
        return [{"share": None, "by_value": None} for _ in response.axes]
    return [{"share": one.share, "by_value": list(one.by_value)} for one in found]


def _as_member(plan: SearchPlan, trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "run": f"{label_of(trial.number, is_early=trial.is_early)}-1",
        "settings": {name: values[place] for name, values, place in zip(plan.names, plan.values, trial.point, strict=True)},
        "changed": plan.changed(trial.point),
        "figure": trial.figure,
        "second": trial.second,
        "first_part": trial.early,
        "ended_after_first_part": trial.is_early,
        "breaks": list(trial.breaks),
    }


def _proof(folder: Path, plan: SearchPlan) -> dict[str, Any] | None:
    """What the comparison on other jobs says; None if it is not there."""
    if not (folder / COMPARISON_FILE).is_file():
        return None
    content = RunFolder(folder).comparison
    pair = pair_of(content["metrics"][plan.goal], BASE, BEST)
    verdict = pair[THESE_JOBS]["verdict"]
    better = METRICS[plan.goal].better
    word = EQUIVALENT if verdict == "equivalent" else NOT_SHOWN
    if verdict in DIFFERENT:
        word = BETTER if verdict == better else WORSE
    return {
        "run": folder.name,
        "jobs": content["jobs"]["compared"],
        "verdict": word,
        "words": pair[THESE_JOBS]["words"],
        "valid": content["validity"]["valid"],
        "limits": {str(limit): _of_limit(limit, content) for limit in plan.parsed_limits},
    }


def _of_limit(limit: Limit, content: Mapping[str, Any]) -> str:
    """Whether a limit holds in the comparison, by the interval of 95 %."""
    finding = pair_of(content["metrics"][limit.metric], BASE, BEST)[THESE_JOBS]
    interval: Sequence[float] | None = finding["percent_interval" if limit.in_percent else "interval"]
    return UNDECIDED if interval is None else limit.judge((interval[0], interval[1]))


def ending_of(run: str, content: Mapping[str, Any]) -> Ending:
    """How the search ended. run: name of its folder. content: search.json"""
    tried, where = f"{len(content['trials'])} trials", f"(results/{run}/search.json)"
    goal, trials = content["goal"], content["trials"]
    if not trials or trials[0]["figure"] is None:
        return Ending("invalid", f"the run of the base has no {goal} that can be trusted: results/{run}/t01-1 says why")
    if content["flat"]:
        return Ending("ok", f"no setting matters here: {goal} stays {_within(content)} of the base in {tried} {where}")
    if content["best"] is None:
        return Ending("inconclusive", f"none of {tried} keeps {content['limits']}, which is against the base {where}")
    best = trials[content["best"] - 1]
    unknown = [trial["run"] for trial in trials if trial["figure"] is None and not trial["ended_after_first_part"]]
    if not best["changed"] and len(trials) - len(unknown) < content["first_trials"]:
        few = f"fewer than {content['first_trials']} tell nothing"
        if unknown:
            why = f"{len(unknown)} of {tried} have no {goal} that can be trusted, and {few}: results/{run}/{unknown[0]} says why"
            return Ending("inconclusive", f"{why} {where}")
        return Ending(
            "inconclusive", f"BUDGET is used up after {tried}, and {few}; the same command with a longer one goes on {where}"
        )
    if not best["changed"]:
        return Ending("ok", f"the base is the best of {tried}: nothing better was found {where}")
    found = f"{settings_text(best['changed'])} is the best of {tried}"
    proof = content["proof"]
    if proof is None:
        return Ending("inconclusive", f"{found}, and not proven on other jobs yet: the same command goes on {where}")
    shown = f"on {proof['jobs']} other jobs"
    broken = [limit for limit, verdict in proof["limits"].items() if verdict != HOLDS]
    if not proof["valid"]:
        return Ending("inconclusive", f"{found}; {shown} a run is not valid: results/{proof['run']} says why {where}")
    if proof["verdict"] == BETTER and broken:
        verdicts = ", ".join(f"{limit} is {proof['limits'][limit]}" for limit in broken)
        return Ending("inconclusive", f"{found} and better {shown}: {proof['words']}; but {verdicts} there {where}")
    word = {BETTER: "ok", EQUIVALENT: "ok", WORSE: "ok", NOT_SHOWN: "inconclusive"}[proof["verdict"]]
    says = {
        BETTER: f"and better {shown}",
        EQUIVALENT: f"but no setting matters {shown}",
        WORSE: f"but worse {shown}: keep the base",
        NOT_SHOWN: f"which is not shown {shown}; more REPLICAS or JOBS may show it",
    }[proof["verdict"]]
    return Ending(word, f"{found}, {says}: {proof['words']} {where}")


def _within(content: Mapping[str, Any]) -> str:
    """`within 0.0 to 0.3 %`"""
    low, high = content["range_percent"] or (0.0, 0.0)
    return f"within {low + 0.0:+.1f} to {high + 0.0:+.1f} %"
