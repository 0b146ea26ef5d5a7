"""`make why RUN=name JOB=12`: why a job of a finished run waited, span by span. Nothing is written."""

from __future__ import annotations

from polars import col

from mirage.experiment.endings import Ending
from mirage.experiment.report import folder_of
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import WAITS_FILE
from mirage.records.run_folder import RunFolder
from mirage.records.wait_causes import CAUSES, of_job, sentence
from mirage.terminal.screen import Screen
from mirage.text.words import duration
from slurm_mirage.base.errors import WrongUse


def why(knobs: Knobs, screen: Screen) -> Ending:
    """Print the spans of a job's wait with their causes."""
    job = knobs.output.job
    run = RunFolder(folder_of(knobs.output.run))
    if job is None:
        raise WrongUse("nothing is given; it may be the number of a job in jobs.csv of the run", parameter="job")
    if not run.has(WAITS_FILE):
        raise WrongUse(f"results/{run.name} has no {WAITS_FILE}; make check RUN={run.name} says what is missing", parameter="run")
    jobs = run.schedule.jobs
    if jobs.filter(col("id") == job).is_empty():
        raise WrongUse(f"results/{run.name} has no job {job}; jobs.csv has their numbers", parameter="job")
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
