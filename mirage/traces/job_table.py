"""Reads the open table of job records oda.job (v0.1.0 and v0.2.0, NatLabRockies/hpc-oda-commons), a Parquet file, as an SWF frame.

The schema has job_id, submit_time, start_time, end_time, runtime_seconds, allocated_cpus, partition and node_list, and lets a table
have others; `_COLUMNS` has those that the commons' descriptions of data sets name. Instants are UTC. A table may lack any of them.

The file comes from elsewhere. Its footer is looked at first (parquet_size.py), then another process with limits of time and memory
unpacks all columns once (parquet_trial.py), and only then this one does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from mirage.text.input_file import open_input
from mirage.traces import parquet_trial, sacct_requests, states, swf
from mirage.traces.parquet_size import MARK, Size, size_of
from mirage.traces.unread import Unread
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.pacing import host_memory

FORMAT = "oda.job"
"""`Trace.format` of these tables."""
MEMORY_PER_ROW = 400
"""Bytes of memory for each row, until its metrics are computed."""
MOST_ROWS, LARGEST = 100_000_000, 16 << 30
"""Rows, and bytes of the columns that are read, unpacked."""
MOST_LISTED, MOST_NAMES = 10_000, 1_000_000
"""Partitions or QOS whose names the header lists; names in a column, all of which are unknown if there are more."""

_INSTANTS = ("submit_time", "start_time", "end_time")
_SECONDS = ("runtime_seconds", "requested_seconds")
_COUNTS = (
    "allocated_cpus", "num_cores_alloc", "num_cores_req", "num_nodes_alloc", "num_nodes_req", "num_gpus_req",
    "requested_memory_mib",
)  # fmt: skip
_TEXTS = ("partition", "qos", "queue", "user", "account", "job_state", "constraints")
_COLUMNS = ("job_id", *_INSTANTS, *_SECONDS, *_COUNTS, *_TEXTS)
_FOR_METRICS = (
    "job_id", *_INSTANTS, *_SECONDS, "allocated_cpus", "num_cores_alloc", "num_cores_req", "num_nodes_alloc", "num_nodes_req",
    "job_state",
)  # fmt: skip
"""Columns on which metrics depend."""
_NEEDED = ("job_id", "start_time", "end_time")
_OTHER_NAMES = {"allocated_cpus": ("num_cores_alloc",), "qos": ("queue",)}
"""Columns that stand for another one where that is unknown."""
_LONGEST_NAME = 255
_PLAIN = r"^[^\x00-\x1f\x7f-\x9f\x{2028}\x{2029}]+$"
_MOST = 2.0**31  # Slurm and SWF exports mark unknown numbers by the largest of 31 bits and more
_TICKS = 1_000_000  # per second


def is_table(path: Path | str) -> bool:
    """Whether the regular file begins as a Parquet file does."""
    with open_input(path, "trace") as file:
        return file.peek(len(MARK)).startswith(MARK)


def read_table(path: Path | str, for_metrics: bool) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread, str]:
    """The jobs in the file's order as an SWF frame with the columns `state`, `nodes` and `account`, and those of `sacct.read_sacct`
    for requests; a header; the number of jobs by oddity, with `field_NAME_absent` for each column that the table lacks or that is
    empty; no unread lines; and the checksum of the file.

    for_metrics: only what metrics need is read, without partitions, QOS, users, accounts, memory and requests
    Raises WrongUse for a file that is no such table, that is damaged, or larger than this machine can read.
    """
    path = Path(path).absolute()
    with ThreadPoolExecutor(1) as pool:
        checksum = pool.submit(_sha256, path)
        wanted = _FOR_METRICS if for_metrics else _COLUMNS
        _check_size(path, wanted)
        known = parquet_trial.known_values(path, wanted)
        kinds = _kinds(path)
        table = _Table(path, {name: kinds[name] for name in wanted if known.get(name)})
        frame, header = table.jobs(has_requests=not for_metrics)
        digest = checksum.result()
    absent = [name for name in _COLUMNS if name not in kinds or known.get(name) == 0]
    notes = {**table.notes, **swf.oddities(frame), **{f"field_{name}_absent": frame.height for name in absent}}
    return frame, header, {note: count for note, count in notes.items() if count}, Unread(frame.height), digest


def _sha256(path: Path) -> str:
    with open_input(path, "trace") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kinds(path: Path) -> dict[str, pl.DataType]:
    """The types of the table's columns that are read. Raises WrongUse if it lacks one, or if one has a type that it cannot have."""
    try:
        schema = parquet_trial.scanned(path).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(path, error) from error
    if missing := [name for name in _NEEDED if name not in schema]:
        raise WrongUse(f"{path}: lacks the columns {', '.join(missing)} of {FORMAT}", parameter="trace")
    kinds = {name: schema[name] for name in _COLUMNS if name in schema}
    for name, kind in kinds.items():
        needs = _needs(name, kind)
        if needs:
            raise WrongUse(f"{path}: the column {name} of {FORMAT} has the type {str(kind)[:40]}, not {needs}", parameter="trace")
    return kinds


def _needs(name: str, kind: pl.DataType) -> str:
    """What the type of a column must be; empty if it is."""
    if kind == pl.Null or kind == pl.String:
        return ""
    if name in _INSTANTS:
        return "" if isinstance(kind, pl.Datetime) else "a timestamp"
    if kind.is_numeric() or (name in _SECONDS and isinstance(kind, pl.Duration)):
        return ""
    if isinstance(kind, (pl.Categorical, pl.Enum)) and (name in _TEXTS or name == "job_id"):
        return ""
    return "a text" if name in _TEXTS else "a number"


def _damaged(path: Path, error: Exception) -> WrongUse:
    return WrongUse(f"{path}: is a damaged Parquet file ({str(error).splitlines()[0][:100]!r})", parameter="trace")


def _check_size(path: Path, columns: Collection[str]) -> None:
    """Raises WrongUse for a table that this machine cannot hold."""
    with open_input(path, "trace") as file:
        size = size_of(file, str(path), columns)
    if size.rows == 0:
        raise WrongUse(f"{path}: holds no job", parameter="trace")
    available = host_memory().available * 2**20
    if size.rows > MOST_ROWS or size.unpacked > LARGEST:
        words = f"has {size.rows:,} rows and {size.unpacked >> 20} MiB in the columns that are read"
        raise WrongUse(f"{path}: {words}; it may have {MOST_ROWS:,} and {LARGEST >> 20} MiB", parameter="trace")
    if (need := _need(size)) > available:
        words = f"reading {size.rows:,} rows needs {need >> 20} MiB of memory"
        raise WrongUse(f"{path}: {words}, and this machine has {int(available) >> 20}", parameter="trace")


def _need(size: Size) -> int:
    """Bytes of memory that reading a table and computing its metrics need."""
    return size.rows * MEMORY_PER_ROW + 2 * size.largest


def _plain(text: pl.Expr) -> pl.Expr:
    """A text that can be a name; null for others."""
    return pl.when(text.str.contains(_PLAIN) & (text.str.len_chars() <= _LONGEST_NAME)).then(text)


class _Table:
    """The columns of a table that have values. notes: the number of jobs by oddity."""

    def __init__(self, path: Path, kinds: Mapping[str, pl.DataType]) -> None:
        self._path, self._kinds = path, kinds
        self.notes: dict[str, int] = {}

    def jobs(self, has_requests: bool) -> tuple[pl.DataFrame, dict[str, str]]:
        """The SWF frame, and the header."""
        header = {"Conversion": f"from the Parquet table {FORMAT}", "TimeZoneString": "UTC"}
        numbers = dict.fromkeys(("partition", "queue", "user"), pl.lit(-1, pl.Int64))
        for label, name, column in (("Partition", "partition", "partition"), ("Queue", "qos", "queue"), ("", "user", "user")):
            names = self._names(name)
            if names:
                numbers[column] = self._replaced(name, {one: number for number, one in enumerate(names, 1)}, pl.Int64())
            if label and 0 < len(names) <= MOST_LISTED:
                header[label] = "\n".join(f"{number} {one}" for number, one in enumerate(names, 1))
        instants = [self._instant(name).min() for name in ("submit_time", "start_time")]
        first = self._collected(first=pl.min_horizontal(instants)).item()
        origin = 0 if first is None else first // _TICKS
        if first is not None:
            header["UnixStartTime"] = str(origin)
        frame = self._frame(origin * _TICKS, numbers)
        flags = ("cancelled_before_start", "state_unknown", "runtime_contradicts_end")
        self.notes |= {note: int(frame[note].sum()) for note in flags}
        processors = pl.max_horizontal("allocated_processors", "requested_processors")
        self.notes["nodes_only"] = 0 if frame.select((processors > 0).any()).item() else int((frame["nodes"] > 0).sum())
        unused = [*(name for name in ("nodes", "asked_nodes") if not (frame[name] > 0).any()), *flags]
        unused += [] if self.notes["nodes_only"] else ["asked_nodes"]
        unused += [] if frame["state"].count() else ["state"]
        frame = frame.drop(unused, strict=False)
        # Rows come in many chunks, in which sums would be made in a changing order.
        return (pl.concat([frame, self._requests()], how="horizontal") if has_requests else frame).rechunk(), header

    def _collected(self, *columns: pl.Expr, **named: pl.Expr) -> pl.DataFrame:
        return self._read(parquet_trial.scanned(self._path).select(*columns, **named))

    def _read(self, rows: pl.LazyFrame) -> pl.DataFrame:
        try:
            return rows.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _damaged(self._path, error) from error

    def _one_of(self, name: str) -> list[str]:
        """The columns that have a value: this one, and those that stand for it."""
        return [one for one in (name, *_OTHER_NAMES.get(name, ())) if one in self._kinds]

    def _instant(self, name: str) -> pl.Expr:
        """Microseconds since 1970; null if they are unknown."""
        if name not in self._kinds:
            return pl.lit(None, pl.Int64)
        column, kind = pl.col(name), self._kinds[name]
        if kind == pl.String:
            texts = (column, column + "Z")  # one without a zone is UTC, as a timestamp is
            column = pl.coalesce(one.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False) for one in texts)
        instant = column.dt.epoch("us")
        return pl.when((instant > 0) & (instant < swf.LARGEST)).then(instant)

    def _number(self, name: str, most: float = _MOST - 1) -> pl.Expr:
        """The first number from 0 to below `most`; null if there is none."""
        values: list[pl.Expr] = []
        for one in self._one_of(name):
            column, kind = pl.col(one), self._kinds[one]
            is_span = isinstance(kind, pl.Duration)
            value = column.dt.total_microseconds() / _TICKS if is_span else column.cast(pl.Float64, strict=False)
            values.append(pl.when((value >= 0) & (value < most)).then(value))
        return pl.coalesce(values) if values else pl.lit(None, pl.Float64)

    def _count(self, name: str) -> pl.Expr:
        """A whole number above 0, rounded up; null if it is unknown."""
        value = self._number(name)
        return pl.when(value > 0).then(value.ceil().cast(pl.Int64))

    def _text(self, name: str) -> pl.Expr:
        texts = [pl.col(one).cast(pl.String) for one in self._one_of(name)]
        return pl.coalesce(texts) if texts else pl.lit(None, pl.String)

    def _names(self, name: str) -> list[str]:
        """The texts of a column that can be names, in alphabetical order; none of more than MOST_NAMES."""
        if not self._one_of(name):
            return []
        names = self._collected(name=self._text(name).unique())
        if names.height > MOST_NAMES:
            self.notes[f"too_many_names_in_{name}"] = names.height
            return []
        return names.select(_plain(pl.col("name"))).to_series().drop_nulls().sort().to_list()

    def _replaced(self, name: str, values: Mapping[str, Any], kind: pl.DataType) -> pl.Expr:
        """What the texts of a column stand for; null for others. Without values: null."""
        text = self._text(name)
        return text.replace_strict(values, default=None, return_dtype=kind) if values else pl.lit(None, kind)

    def _states(self) -> dict[str, str]:
        """Slurm's states by the texts that begin with them. Numbers are unknown: those of SWF and of Slurm differ."""
        words = {name: re.split("[^A-Z_]", name.upper())[0] for name in self._names("job_state")}
        return {name: word for name, word in words.items() if word in states.KNOWN}

    def _frame(self, origin: int, numbers: Mapping[str, pl.Expr]) -> pl.DataFrame:
        """The SWF frame, with `state`, `nodes`, `asked_nodes`, and whether a job has the oddities of `notes`.

        origin: the microsecond since 1970 of the log's second 0; numbers: expressions of partition, queue and user
        """
        col, when = pl.col, pl.when
        rows = parquet_trial.scanned(self._path).select(
            **numbers, job_number=pl.coalesce(self._number_of_job(), pl.int_range(1, pl.len() + 1, dtype=pl.Int64)),
            submitted=self._instant("submit_time"), started=self._instant("start_time"), ended=self._instant("end_time"),
            seconds=self._number("runtime_seconds", swf.LARGEST), allocated=self._count("allocated_cpus"),
            asked=pl.coalesce(self._count("num_cores_req"), self._count("allocated_cpus")),
            limit=self._number("requested_seconds"), memory=self._number("requested_memory_mib", swf.LARGEST),
            nodes=self._count("num_nodes_alloc"), asked_nodes=self._count("num_nodes_req"),
            state=self._replaced("job_state", self._states(), pl.String()),
        )  # fmt: skip
        never = col("started").is_null() | (col("started") >= col("ended"))
        unused = (col("state").is_in(states.ENDED_WAITING) & never).fill_null(False)
        rows = rows.with_columns(
            unused=unused,
            span=(col("ended") - col("started")) / _TICKS,
            waited=(when(unused).then("ended").otherwise("started") - col("submitted")) / _TICKS,
        )
        ran, nodes = ~col("unused"), pl.coalesce("asked_nodes", "nodes", 1)
        columns = {
            "submit": (col("submitted") - origin) / _TICKS,
            # A job that started before it was submitted has a wait below 0; one of -1 would be unknown.
            "wait": when(col("waited") == -1).then(-2.0).otherwise("waited"),
            "run_time": when(ran).then(pl.coalesce(when(col("span") >= 0).then("span"), "seconds")),
            "allocated_processors": when(ran).then("allocated"),
            "requested_processors": col("asked"),
            "requested_time": when(col("limit") > 0).then("limit"),
            "requested_memory": when(col("memory") > 0).then("memory") * 1024 * nodes / col("asked"),
            "status": col("state").replace_strict(states.SWF_STATUS, default=-1, return_dtype=pl.Int64),
            **{name: col(name) for name in ("job_number", *numbers)},
        }
        values = [columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()]
        return self._read(
            rows.select(
                *values, "state", *(col(name).fill_null(-1) for name in ("nodes", "asked_nodes")),
                cancelled_before_start="unused",
                state_unknown=col("state").is_null() & ("job_state" in self._kinds),
                runtime_contradicts_end=((col("seconds") - col("span")).abs() > 1).fill_null(False),
            )
        )  # fmt: skip

    def _number_of_job(self) -> pl.Expr:
        kind = self._kinds.get("job_id")
        if kind is None:
            return pl.lit(None, pl.Int64)
        text = pl.col("job_id").cast(pl.String).str.extract(r"^([0-9]{1,15})(?:[^0-9]|$)")
        number = (pl.col("job_id") if kind.is_numeric() else text).cast(pl.Int64, strict=False)
        return pl.when(number.is_between(0, int(swf.LARGEST))).then(number)

    def _requests(self) -> pl.DataFrame:
        """Columns `request` and `not_played` of `sacct.read_sacct`, and `account`, as far as there is one."""
        gpus = pl.format("gres/gpu={}", self._count("num_gpus_req"))
        rows = self._collected(
            pl.int_range(pl.len()), Constraints=_plain(self._text("constraints")).fill_null(""), ReqTRES=gpus.fill_null(""),
            asked_nodes=self._count("num_nodes_req"), nodes=self._count("num_nodes_alloc"),
        )  # fmt: skip
        found = sacct_requests.asked_for(rows, rows, {}).select("request", not_played="kinds")
        has_any = {"request": (found["request"] != "").any(), "not_played": (found["not_played"].list.len() > 0).any()}
        made = found.select(name for name, has in has_any.items() if has)
        if "account" in self._kinds:
            made = made.with_columns(self._collected(account=_plain(self._text("account")))["account"])
        return made
