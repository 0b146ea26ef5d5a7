"""Reads a workload log: SWF, sacct's output and others (docs/formats.md); the content decides which, not the name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from mirage.site.archive import is_archive, opened
from mirage.traces import batsim_csv, captured, job_table, log_text, other_formats, sacct, sacct_table, sim_events, swf
from mirage.traces.swf_header import number
from mirage.traces.unread import Unread
from slurm_mirage.base.errors import WrongUse

HEADER = "the log's header"
PEAK_USE = "estimated: the most processors in use at once; the log does not name its machine"
LARGEST_JOB = "estimated: the largest job; the log does not name its machine"
"""Sources of a machine's number of processors (`Trace.machine_source`)."""
NODES_ONLY = "nodes_only"
"""Note of a log that records nodes of jobs, and no processors."""


@dataclass(frozen=True)
class Trace:
    """The content of a log.

    frame: the jobs, in the file's order, as an SWF frame (`swf.SCHEMA`; `sacct.read_sacct` lists the columns that sacct adds)
    header: SWF header, label to value
    notes: number of jobs by oddity of the log
    format: "swf", "sacct", "batsim", "events" or "oda.job"
    sha256: checksum of the file itself, packed or not; of an archive of mirage-capture that of its manifest
    unread: lines that could not be read and are left out
    """

    frame: pl.DataFrame
    header: dict[str, str]
    notes: dict[str, int]
    format: str
    sha256: str
    unread: Unread = field(default_factory=Unread)

    @property
    def has_names(self) -> bool:
        """Whether the header has the names of partitions and QOS with which the jobs were submitted."""
        return self.format in ("sacct", sim_events.FORMAT, job_table.FORMAT)

    def machine(self) -> tuple[int, int | None]:
        """Processors and nodes of the machine: MaxProcs and MaxNodes of the header.

        Defaults: without MaxProcs the larger of the processors of the largest job and `peak_use`; without MaxNodes None.
        """
        return _number(self.header.get("MaxProcs")) or self._estimate[0], _number(self.header.get("MaxNodes"))

    def machine_source(self) -> str:
        """Source of the number of processors that `machine` returns: HEADER, PEAK_USE or LARGEST_JOB."""
        return HEADER if _number(self.header.get("MaxProcs")) else self._estimate[1]

    def in_whole_nodes(self, cpus: float) -> Trace:
        """The log with the processors of its jobs, where it records their nodes only (`NODES_ONLY`): whole nodes of `cpus`."""
        if NODES_ONLY not in self.notes:
            return self
        sizes = {"allocated_processors": "nodes", "requested_processors": "asked_nodes"}
        known = (
            pl.when(pl.col(nodes) > 0).then((pl.col(nodes) * cpus).ceil()).otherwise(-1).cast(pl.Int64).alias(name)
            for name, nodes in sizes.items()
        )
        return replace(self, frame=self.frame.with_columns(known))

    @cached_property
    def _estimate(self) -> tuple[int, str]:
        """Estimate of the machine's processors, and its source."""
        widest = self.frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max()).item()
        peak = peak_use(self.frame)
        if peak > (widest or 0):
            return peak, PEAK_USE
        return max(1, int(widest or 0)), LARGEST_JOB


def read_trace(path: Path | str, for_metrics: bool = False) -> Trace:
    """Reads an SWF log, output of sacct, Batsim's jobs.csv or events of slurm_sim_tools, plain or gzip, or the log in an archive of
    mirage-capture, which has sacct's format, or a Parquet table oda.job. Raises WrongUse for any other content.

    for_metrics: whether only what metrics need may be read; the text formats are read as a whole
    """
    if is_archive(path):
        taken = opened(path)
        frame, header, notes, unread = captured.read(taken)
        return Trace(frame, header, notes, "sacct", taken.sha256, unread)
    if job_table.is_table(path):
        frame, header, notes, unread, digest = job_table.read_table(path, for_metrics)
        return Trace(frame, header, notes, job_table.FORMAT, digest, unread)
    text, name = log_text.load(path), str(path)
    kind = _kind(text.data, name)
    frame, header, notes, unread = _PARSERS[kind](text.data, name)
    return Trace(frame, header, notes, kind, text.sha256, unread)


_PARSERS = {
    "swf": swf.parse_swf,
    "sacct": sacct.parse_sacct,
    "batsim": batsim_csv.parse_batsim,
    sim_events.FORMAT: sim_events.parse_events,
}


def _kind(data: bytes, name: str) -> str:
    """The format, decided by the first line that is neither blank nor an SWF comment. Raises WrongUse if it is another one."""
    content = re.search(rb"^[ \t\r]*([^;\s].*)$", data, re.MULTILINE)
    if content is None:
        return "swf"
    text = content[1].decode("utf-8", "replace").rstrip("\r")
    line = data.count(b"\n", 0, content.start(1)) + 1
    where = f"{name} line {line}"
    lines = [text, *data[content.end() : content.end() + _FIRST].decode("utf-8", "replace").split("\n")[1:]]
    if words := other_formats.of_lines(lines):
        raise WrongUse(f"{where}: {words}", parameter="trace")
    if text.startswith(("{", "[")):
        return "sacct"
    if sim_events.is_event(other_formats.content_of(lines)):
        return sim_events.FORMAT
    if batsim_csv.is_heading(text):
        return "batsim"
    if sacct_table.recognised(text):
        return "sacct"
    if re.match(r"[-+.\d]+(\s|$)", text) and not _NO_NUMBER.search(text):
        return "swf"
    start = text[:30]
    delimiter = next((one for one in "|\t,;" if one in text), " ")
    if re.match(r"[0-9]", text) and text.count(delimiter) > 1:
        raise WrongUse(
            f"{where}: {start!r} has {text.count(delimiter) + 1} fields and no heading (as of sacct --noheader), and they are not "
            f"those of a command in docs/formats.md; a first line may name them: {sacct_table.needed()}",
            parameter="trace",
        )
    if other_formats.is_template(lines):
        raise WrongUse(f"{name}: is a template: render it first", parameter="trace")
    raise WrongUse(f"{where}: {start!r} is neither a job in SWF nor a heading of sacct -P with JobID", parameter="trace")


_FIRST = 1 << 14  # bytes after the first line, in which the format is looked for
_NO_NUMBER = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]")  # a date, which SWF does not have


def peak_use(frame: pl.DataFrame) -> int:
    """The most processors that the recorded jobs of an SWF frame had allocated at the same time; 0 without recorded waits.

    A job has its processors from its start for its run time; suspensions are not added. Executions before the last one count. At an
    instant at which one job ends and another starts, the first has returned its processors.
    """
    col = pl.col
    ran = frame.lazy().filter((col("wait") >= 0) & (col("submit") >= 0) & (col("run_time") > 0) & (col("allocated_processors") > 0))
    start, size = col("submit") + col("wait"), col("allocated_processors")
    parts = [ran.select(start=start, end=start + col("run_time"), size=size)]
    if "earlier" in frame.columns:
        before = frame.lazy().filter(size > 0).select(size.alias("size"), "earlier").explode("earlier").drop_nulls()
        parts.append(before.unnest("earlier").select("start", "end", "size"))
    held = pl.concat(parts).collect()
    starts, begun = _cumulated(held["start"], held["size"])
    ends, returned = _cumulated(held["end"], held["size"])
    # In use after each start: what was begun so far, less what jobs that ended by then have returned.
    in_use = begun[1:] - returned[np.searchsorted(ends, starts, side="right")]
    return int(in_use.max(initial=0))


def _cumulated(instants: pl.Series, sizes: pl.Series) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The instants in order, and the sum of the sizes before each of them and after the last one."""
    order = np.argsort(instants.to_numpy())
    return instants.to_numpy()[order], np.concatenate([[0], sizes.to_numpy()[order].cumsum()])


def _number(value: str | None) -> int | None:
    """The number of a label; None unless it is a whole one from 1 to 10^9 - 1."""
    found = number(value) or 0.0
    return int(found) if found.is_integer() and 0 < found < 1e9 else None
