"""Reads the events of slurm_sim_tools, the tools of the Slurm simulator of the University at Buffalo, as an SWF frame.

    -dt 10.50 -e submit_batch_job | -sim-walltime 84805.00 --uid=user001 -J jobid_00001 -n 32 -t 3-00:00:00 --mem=500G pseudo.job

An event is the second at which it happens, its kind, and after the bar the arguments of sbatch, with two of the simulator's own:
`-sim-walltime`, how long the job runs (below 0: until its limit), and `-cancel-in`, after how long it is cancelled. Lines with `#`
at the beginning are comments. The file has requests and no schedule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from mirage.traces import asked, sacct, sacct_table, submit_line, swf
from mirage.traces.unread import Unread

FORMAT = "events"
"""`Trace.format` of these files."""
_LINE = r"^\s*-dt\s+([0-9]{1,9}(?:\.[0-9]{0,9})?)\s+-e\s+submit_batch_job\s*\|(.*)$"
_NUMBER = r"(-?[0-9]{1,9}(?:\.[0-9]{0,9})?)"
_OWN = {"runs": "sim-walltime", "cancelled": "cancel-in", "number": "j(?:id|ob-id)?"}
"""The simulator's own arguments."""
_NAME = r"\s-(?:J\s*|-job-name[=\s])job(?:id)?_([0-9]{1,15})\b"
"""The job's number in its name, as the tools of the simulator read it."""
_EPOCH = 1_000_000_000
"""Unix time that stands for second 0, which the file does not date."""
_MOST_NAMED = 10
_PLAIN = re.compile(r"--?[A-Za-z][A-Za-z0-9-]{0,30}")
_READ = ("account", "array", "dependency", "job-name", "partition", "qos", "time", "uid")
_OF_NO_EFFECT = """
acctg-freq chdir comment cpu-bind cpu-freq distribution error export get-user-env gpu-bind gpu-freq input kill-on-invalid-dep
mail-type mail-user mem-bind no-requeue open-mode output parsable profile quiet requeue signal verbose wait
"""
"""Options that do not matter to the scheduler."""


def is_event(line: str) -> bool:
    """Whether a line is an event of these files."""
    return re.match(r"\s*-dt\s+[0-9.]+\s+-e\s+\w+", line) is not None


def parse_events(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """The jobs in the file's order as an SWF frame with the columns that `sacct.read_sacct` adds for requests, and `user_name`
    and `account` if they are given; a header with the names of partitions and QOS; the number of jobs by oddity; and what cannot be
    read.

    Waits are unknown, but for a job with -cancel-in, which is CANCELLED after so long in the queue. `notes` has the number of jobs
    with each argument that is not read (`argument_--NAME_not_read`). Error messages call the file `name`. Raises WrongUse, with the
    first line, if half of the lines or more cannot be read.
    """
    lines = pl.DataFrame({"text": data.decode("utf-8", "replace").split("\n")}).with_row_index("line", 1)
    lines = lines.filter(pl.col("text").str.contains(r"^\s*[^#\s]"))
    parts = pl.col("text").str.extract_groups(_LINE)
    events = lines.with_columns(at=parts.struct.field("1").cast(pl.Float64), arguments=" " + parts.struct.field("2"))
    faults = {line: _fault(text) for line, text in events.filter(pl.col("at").is_null()).select("line", "text").iter_rows()}
    arguments = pl.col("arguments").str
    own = {short: rf"\s--?{option}[=\s]\s*{_NUMBER}" for short, option in _OWN.items()}
    # Without what differs from job to job few texts remain.
    others = arguments.replace_all("|".join(own.values()), " ").str.replace(_NAME, " ").str.replace_all(r"\s+", " ")
    jobs = events.drop_nulls("at").with_columns(
        **{short: arguments.extract(pattern).cast(pl.Float64) for short, pattern in own.items()},
        named=arguments.extract(_NAME).cast(pl.Int64),
        SubmitLine="sbatch" + others,
    )
    found = [_of_line(line) for line in jobs["SubmitLine"].unique().to_list()]
    options = pl.DataFrame(found, schema=list(_Options.__annotations__), orient="row", infer_schema_length=None)
    jobs = jobs.join(options.cast(dict.fromkeys(_TEXTS, pl.String)), on="SubmitLine", how="left", maintain_order="left")
    unread = Counter[str](jobs["unread"].explode(empty_as_null=True).drop_nulls().to_list())
    jobs = jobs.with_columns(cancelled=pl.when(pl.col("cancelled") >= 0).then("cancelled"))
    submit = _EPOCH + pl.col("at").floor().cast(pl.Int64)
    rows = jobs.select(
        "line", *(pl.col(column) for column in _TEXTS),
        JobIDRaw=pl.col("line").cast(pl.String), Submit=submit.cast(pl.String), Start=pl.lit("Unknown"),
        End=(submit + pl.col("cancelled").ceil().cast(pl.Int64)).cast(pl.String).fill_null("Unknown"),
        State=pl.when(pl.col("cancelled").is_null()).then(pl.lit("PENDING")).otherwise(pl.lit("CANCELLED")),
    )  # fmt: skip
    table = sacct_table.checked(rows, name, {}, faults)
    frame, header, notes = sacct.of_table(table, has_owners=True)
    frame = _with_times(frame, jobs.join(table.jobs.select("line"), on="line", how="semi"))
    notes = {note: count for note, count in notes.items() if note not in ("not_ended", *swf.oddities(frame))}
    notes |= {
        "runs_until_its_limit": jobs.filter(pl.col("runs") < 0).height,
        **swf.oddities(frame),
        **{f"argument_{argument}_not_read": count for argument, count in _named(unread).items()},
    }
    header = {label: text for label, text in header.items() if label != "UnixStartTime"}
    header["Conversion"] = "from events of slurm_sim_tools"
    return frame, header, {note: count for note, count in notes.items() if count}, table.unread


def _fault(text: str) -> str:
    """What is wrong with a line that is not read."""
    kind = re.match(r"\s*-dt\s+[0-9.]+\s+-e\s+(\w{1,40})", text)
    if kind and kind[1] != "submit_batch_job":
        return f"the event {kind[1]!r} is not read, only submit_batch_job is"
    return f"{text.strip()[:30]!r} is not -dt SECOND -e submit_batch_job | ARGUMENTS"


class _Options(NamedTuple):
    """What the arguments of sbatch say, as sacct prints it; unread: arguments that are not read."""

    SubmitLine: str
    User: str
    Account: str
    Partition: str
    QOS: str
    Timelimit: str
    ReqCPUS: str
    ReqNodes: str
    ReqMem: str
    unread: list[str]


_TEXTS = [column for column in _Options.__annotations__ if column != "unread"]


def _of_line(line: str) -> _Options:
    unread: list[str] = []
    given = submit_line.options(line, unread)
    known = {name for name, _ in asked.given(given)}
    read = {*known, *_READ, *_OF_NO_EFFECT.split(), submit_line.HETEROGENEOUS}
    unread += [f"--{name}" for name in given if name not in read]
    request = asked.request_of(asked.Asked(asked.given(given)))
    nodes = max(request.nodes, 1)
    tasks = request.tasks or nodes * max(request.tasks_per_node, 1)
    memory = given.get("mem-per-cpu", "")
    each = f"{memory.upper()}c" if memory else f"{given.get('mem', '').upper()}n"
    user, account, partition, qos, limit = (given.get(name, "") for name in ("uid", "account", "partition", "qos", "time"))
    processors = str(tasks * max(request.cpus_per_task, 1))
    return _Options(line, user, account, partition, qos, limit, processors, str(nodes), each if each != "n" else "", unread)


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent arguments by name, and all others as `others`: the names are text of the file."""
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [(name, count) for name, count in most if _PLAIN.fullmatch(name)][:_MOST_NAMED]
    rest = sum(counts.values()) - sum(count for _, count in shown)
    return dict(shown) | ({"of_others": rest} if rest else {})


def _with_times(frame: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The frame with the file's seconds and numbers, and without a state where no end is known."""
    col, when = pl.col, pl.when
    frame = frame.hstack(jobs.select("at", "runs", "cancelled", "number", "named"))
    waited = col("cancelled").is_not_null()
    return frame.with_columns(
        job_number=pl.coalesce("number", "named", "job_number").cast(pl.Int64),
        submit=col("at"),
        wait=col("cancelled").fill_null(-1.0),
        run_time=when(waited).then(-1.0).when(col("runs") < 0).then("requested_time").otherwise(col("runs").fill_null(-1.0)),
        allocated_processors=pl.lit(-1, pl.Int64),
        status=when(waited).then(5).otherwise(-1).cast(pl.Int64),
        state=when(waited).then("state"),
    ).drop("at", "runs", "cancelled", "number", "named")
