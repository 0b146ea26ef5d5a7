"""`make why RUN=name JOB=12`: why a job of a finished run waited, span by span.

Without JOB why all of them did, and the commands that try the settings to which that points; the files that these commands need are
written.
"""

from __future__ import annotations

from polars import col

from mirage import IS_CHECKOUT
from mirage.campaign.conclusion import members_of
from mirage.experiment import wait_trials
from mirage.experiment.endings import Ending
from mirage.experiment.report import folder_of, name_of
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import COMPARISON_FILE, METRICS_FILE, WAITS_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.records.wait_causes import CAUSES, UNEXPLAINED, of_job, sentence
from mirage.terminal.screen import Screen
from mirage.text.words import counted, duration, percent
from mirage.verdict.wait_settings import trials
from slurm_mirage.base.errors import WrongUse


def why(knobs: Knobs, screen: Screen) -> Ending:
    """Print the spans of a job's wait with their causes, or those of the whole run."""
    run = RunFolder(folder_of(knobs.output.run))
    name = name_of(run.path)
    if run.has(COMPARISON_FILE):
        names = ", ".join(f"{name}/{one.folder}" for one in members_of(run.experiment))
        raise WrongUse(f"results/{name} is a comparison; it may be one of its runs: {names}", parameter="run")
    if not run.has(WAITS_FILE):
        raise WrongUse(f"results/{name} has no {WAITS_FILE}; make check RUN={name} says what is missing", parameter="run")
    return _of_run(run, screen) if knobs.output.job is None else _of_job(run, knobs.output.job, screen)


def _of_job(run: RunFolder, job: int, screen: Screen) -> Ending:
    jobs = of_run(run).jobs
    if jobs.filter(col("id") == job).is_empty():
        raise WrongUse(f"results/{name_of(run.path)} has no job {job}; jobs.csv has their numbers", parameter="job")
    spans = run.waits.filter(col("job") == job)
    if spans.is_empty():
        return Ending("ok", f"job {job} did not wait, or its wait has no known end")
    submit = float(jobs.filter(col("id") == job)["submit"].item())
    rows = [
        (f"after {duration(begin - submit)}", f"for {duration(end - begin)}", CAUSES.get(cause, cause), reason or "")
        for begin, end, cause, reason in spans.select("from", "to", "cause", "reason").iter_rows()
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    for after, length, words, reason in rows:
        told = f" ({reason})" if reason else ""
        screen.say(f"{after:{widths[0]}}  {length:{widths[1]}}  {words}{told}")
    return Ending("ok", sentence(of_job(spans, jobs, job)).rstrip("."))


def _of_run(run: RunFolder, screen: Screen) -> Ending:
    member = run.wait_causes
    if member is None:
        raise WrongUse(f"results/{name_of(run.path)} has no {METRICS_FILE}; it may be a finished run", parameter="run")
    if not member["waited"]:
        return Ending("ok", "no job waited")
    for cause, share in sorted(member["causes"].items(), key=lambda one: -one[1]):
        screen.say(f"{percent(share):>8}  {cause}: {CAUSES.get(cause, cause)}")
    screen.say("the longest waits:")
    for one in member["longest"]:
        screen.say(f"  {sentence(one)}")
    found = trials(run)
    for trial in found:
        screen.say(f"{trial.held}; to try {trial.change}{':' * IS_CHECKOUT}")
        if IS_CHECKOUT:
            screen.say(f"  {wait_trials.command(run, trial)}")
    words = (
        f"{counted(member['jobs'], 'job')} waited {duration(member['waited'])}, {percent(member['unexplained'])} of it unexplained"
    )
    settings = f"; {counted(len(found), 'setting')} to try" if found else "; no setting is known to try"
    return Ending("ok", f"{words}{settings if member['causes'].keys() - {UNEXPLAINED} else ''}")
