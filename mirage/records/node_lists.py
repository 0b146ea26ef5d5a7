"""The nodes that the jobs of a run had, by the resource manager's own record of ended jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from mirage.records.run_folder import RunFolder
from slurm_mirage.rm.api import CompletedJob
from slurm_mirage.rm.managers import DEFAULT
from slurm_mirage.rm.slurm.records import split_completions

SCHEMA = {"id": pl.Int64, "node_list": pl.String}
"""A row for each job whose nodes are known: its number, and the nodes as the manager writes them, as n[1-3]."""


def node_lists(run: RunFolder, name: str) -> pl.DataFrame | None:
    """The nodes of the jobs of a run with this name; None without a record."""
    path = run.path / run.manager.completions_file
    if not path.is_file():
        return None
    text = path.read_text("utf-8", "replace")
    return from_filetxt(text, name) if run.manager_name == DEFAULT else from_completions(run.manager.completions(text), name)


def from_filetxt(jobcomp: str, run: str) -> pl.DataFrame:
    """Columns id and node_list of the jobs of `run` from the text of Slurm's job completion log (jobcomp/filetxt).

    For a requeued job the node list is that of its last execution. A job whose node list Slurm cut off is left out.
    """
    records, _ = split_completions(jobcomp.encode())
    lines = pl.Series([record.text for record in records], dtype=pl.String).to_frame("line").lazy()
    field = pl.col("line").str
    jobs = lines.select(
        id=field.extract(rf" Name={re.escape(run)}\.(\d+) ").cast(pl.Int64), node_list=field.extract(r" NodeList=(\S+) ")
    )
    known = jobs.filter(pl.col("id").is_not_null() & ~pl.col("node_list").is_in(["(null)", "None"]))
    return known.unique("id", keep="last", maintain_order=True).collect()


def from_completions(completed: Sequence[CompletedJob], run: str) -> pl.DataFrame:
    """The same as `from_filetxt`, from the runs of jobs in the record of any manager."""
    rows = [
        (job.name.removeprefix(f"{run}."), job.hosts)
        for job in completed
        if job.ran and job.hosts and job.name.startswith(f"{run}.")
    ]
    known = pl.DataFrame([(int(number), hosts) for number, hosts in rows if number.isdigit()], schema=SCHEMA, orient="row")
    return known.unique("id", keep="last", maintain_order=True)
