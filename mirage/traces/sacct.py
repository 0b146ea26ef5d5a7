"""Converts sacct's output, with any set of columns in any order (sacct(1)), to SWF.

Every field of SWF that sacct's output has is filled. Times become seconds since the first submission. Names of users, groups,
partitions and QOS become numbers in alphabetical order; the header lists the names of partitions and QOS.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.traces import log_text, sacct_executions, sacct_json, sacct_requests, states, swf
from mirage.traces.sacct_table import DURATION, MEMORY, NO_VALUE, SacctTable, date, read_table
from mirage.traces.unread import Unread

_TEXT = ("User", "UID", "Group", "GID", "Partition", "QOS")
_USED = (
    *_TEXT, "JobID", "JobIDRaw", "End", "Elapsed", "ElapsedRaw", "Suspended", "State", "Timelimit", "TimelimitRaw",
    "AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES", "AllocNodes", "NNodes", "ReqNodes", "ReqMem", "SubmitLine",
    "Eligible", "Cluster", "Account", "ArrayLimit",
)  # fmt: skip
# Source columns of the frame's additional columns.
_ADDED = {
    "nodes": ("AllocNodes", "NNodes", "AllocTRES"),
    "held": ("Eligible", "Reason"),
    "state": ("State",),
    "eligible": ("Eligible",),
}
_PROCESSORS = ("AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES")
_UNKNOWN_COUNT = 2.0**31  # no machine has so many processors or nodes, and no job so many minutes or seconds
_PER_PROCESSOR_32, _PER_PROCESSOR_64 = 1 << 31, 1 << 63
"""Flags of Slurm's memory (MEM_PER_CPU in slurm.h): with the highest bit set the other bits are MiB per processor. Releases of
sacct that are older than the record print the flag as part of the number."""
_LARGEST_NODE = 1 << 26  # MiB: 64 TiB
_MARGIN = 16  # the last numbers below a power of 2 are marks for no value
_CLOSE = 0.01  # sacct rounds amounts of memory
_NOT_STARTED = [state for state in states.WAITING if state != "REQUEUED"]  # sacct may print an estimated start
_ARRAYS = ("array_job", "array_task", "array_limit")
_ARRAY_LIMIT = r"^[0-9][0-9,:-]*%([0-9]{1,9})$"


def read_sacct(path: Path | str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Reads sacct's output, plain or gzip: `-P`, `-p`, with any `--delimiter`, CSV, or `--json`.

    Required columns: JobID or JobIDRaw, Submit, Start, one of End, Elapsed and ElapsedRaw, and one of AllocCPUS, NCPUS, ReqCPUS,
    AllocTRES, ReqTRES, AllocNodes, NNodes and ReqNodes. docs/formats.md lists the optional ones.

    Returns the jobs in the file's order as an SWF frame (`swf.SCHEMA`), an SWF header, the number of jobs by oddity, and what is
    left out because it cannot be read. The frame has these additional columns where sacct's output has their source:

    state: Slurm's job state (states.py)
    eligible: seconds at which the job could start for the first time; null if that is after its end, or never
    suspended: seconds; not part of `run_time`, like sacct's Elapsed
    nodes: allocated nodes; -1 if none or unknown
    asked_nodes: requested nodes; only if the output has no column of processors (note `nodes_only`)
    earlier: list of start and end (seconds) of executions before the last one, whose work was lost; only if a job has one
    resized: list of instants (seconds), processors and nodes of changes of size in the last execution; only if a job has one
    array_job, array_task: 7 and 3 for JobID 7_3; null for other jobs
    array_limit: the most tasks of the job's array that may run at once; null if not limited
    dependency: the value of sbatch's --dependency; null for other jobs
    held: whether the job was cancelled while it waited and never could start (`sacct_requests.held`)
    not_played: kinds of requests that a replay may not emulate (`sacct_requests.KINDS`), a list; only if a job has one
    request: what the job asked for, the words of a `Request` without instants; only if a job asked for something
    begin, hold: seconds after the submission at which the job became eligible, or was released from the hold with which it was
        submitted; null if it was at once, or waited for others; only if a job has one

    Raises WrongUse, with the line number, if half of the lines or more cannot be read unambiguously.
    """
    return parse_sacct(log_text.load(path).data, str(path))


def parse_sacct(data: bytes, name: str, has_owners: bool = False) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Parses the content of a file as `read_sacct` does; error messages call the file `name`.

    has_owners: whether the frame has the names of users and accounts, in `user_name` and `account`, as far as they are known
    """
    table = sacct_json.read_json(data, name) if data.lstrip().startswith((b"{", b"[")) else read_table(data, name)
    return *of_table(table, has_owners), table.unread


def of_table(table: SacctTable, has_owners: bool = False) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    """The jobs, the header and the oddities of a table, as `parse_sacct` returns them."""
    facts = _facts(table.jobs)
    revoked = (facts["state"] == states.REVOKED).fill_null(False)
    facts = facts.filter(~revoked)
    jobs, lines = sacct_executions.joined(facts.filter(pl.col("submit").is_not_null()))
    jobs = _with_tasks_in_order(jobs)
    frame = _as_swf(jobs)
    present = set(table.jobs.columns)
    notes = {
        **table.notes,
        "submission_unknown": facts.filter(pl.col("submit").is_null()).height,
        "pending_arrays": jobs.filter("several").height,
        "cancelled_before_start": jobs.filter("unused").height,
        "not_ended": jobs.filter(~pl.col("over")).height,
        **lines,
        "revoked": int(revoked.sum()),
        "clusters_taken_as_one_machine": _clusters(table.jobs),
        "state_unknown": jobs.filter(~pl.col("state").is_in(states.KNOWN)).height,
        "suspended": frame.filter(pl.col("suspended") > 0).height,
        "nodes_only": 0 if present & set(_PROCESSORS) else jobs.height,
        **{note: int(facts[note].sum()) for note in (*_CONTRADICTIONS, "memory_flag", "marks_for_no_value")},
        **swf.oddities(frame),
    }
    absent = [name for name, sources in _ADDED.items() if not set(sources) & present]
    absent += ["suspended"] if "Suspended" not in present and not (frame["suspended"] > 0).any() else []
    absent += [] if notes["nodes_only"] else ["asked_nodes"]
    absent += [name for name in ("user_name", "account") if not has_owners or frame[name].null_count() == frame.height]
    absent += [name for name in ("earlier", "resized", "not_played") if frame[name].list.len().sum() == 0]
    absent += [] if (frame["request"] != "").any() else ["request"]
    for columns in (_ARRAYS, ("dependency",), ("begin",), ("hold",)):
        absent += columns if frame[columns[0]].null_count() == frame.height else ()
    return frame.drop(absent), _header(jobs), {reason: count for reason, count in notes.items() if count}


def _clusters(rows: pl.DataFrame) -> int:
    """The number of clusters that the column Cluster names; 0 for one."""
    number = rows["Cluster"].replace("", None).drop_nulls().n_unique() if "Cluster" in rows.columns else 0
    return number if number > 1 else 0


def _with_tasks_in_order(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs; the tasks of an array share its numbers in the order of the tasks.

    Slurm splits a task from its array when it starts, with a new number; the last one keeps the array's own, which is the lowest.
    """
    place = pl.col("array_task").rank("ordinal").cast(pl.Int64) - 1
    in_order = pl.col("number").sort().gather(place).over("array_job", "submit")
    tasks = jobs.filter(pl.col("array_job").is_not_null() & pl.col("array_task").is_not_null()).with_columns(number=in_order)
    if tasks.is_empty():
        return jobs
    return jobs.update(tasks.select("line", "number"), on="line")


def _duration(column: str) -> pl.Expr:
    """A column of durations in seconds; null for UNLIMITED, Partition_Limit, an empty field and a mark for no value."""
    parts = pl.col(column).str.extract_groups(f"^{DURATION}$")
    days, day_hours, day_minutes, day_seconds, hours, minutes, seconds = (
        parts.struct.field(str(part)).cast(pl.Float64) for part in range(1, 8)
    )
    with_days = days * 86400 + day_hours * 3600 + day_minutes.fill_null(0) * 60 + day_seconds.fill_null(0)
    value = pl.coalesce(with_days, hours.fill_null(0) * 3600 + minutes * 60 + seconds)
    return pl.when(~value.is_between(NO_VALUE, 2**32) & (value < _UNKNOWN_COUNT * 60)).then(value)


def _number(column: str) -> pl.Expr:
    """A column of counts; null for other text and for a mark for no value."""
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value < _UNKNOWN_COUNT).then(value)


def _whole(column: str, pattern: str) -> pl.Expr:
    return pl.col(column).str.extract(pattern).cast(pl.Int64)


def _resource(column: str, kind: str) -> pl.Expr:
    """The amount of one kind (`cpu`) in a column of trackable resources (`cpu=16,mem=4000M,node=2`)."""
    value = pl.col(column).str.extract(rf"(?:^|,){kind}=([0-9]{{1,20}})(?:,|$)").cast(pl.Float64)
    return pl.when(value < _UNKNOWN_COUNT).then(value)


def _scaled(number: pl.Expr, unit: pl.Expr, units: str) -> pl.Expr:
    """Multiplies a number by its unit, a letter of `units`: each is 1024 times the one before, the first is 1."""
    powers = {letter: 1024.0**power for power, letter in enumerate(units)}
    return number.cast(pl.Float64) * unit.replace_strict(powers, default=1.0, return_dtype=pl.Float64)


def _nodes(column: str) -> pl.Expr:
    text = pl.col(column).str
    value = _scaled(text.extract(r"^([0-9.]+)[KMGTP]?$"), text.extract(r"([KMGTP])$"), " KMGTP")
    return pl.when(value < _UNKNOWN_COUNT).then(value)


def _first_above_0(*values: pl.Expr) -> pl.Expr:
    return pl.coalesce(pl.when(value > 0).then(value) for value in values)


def _mebibytes(number: pl.Expr, unit: pl.Expr) -> pl.Expr:
    """An amount of memory in MiB; null with the unit `?`, of an amount that Slurm cannot print."""
    unit = pl.when(unit == "").then(pl.lit("M")).otherwise(unit)
    return pl.when(unit != "?").then(_scaled(number, unit, "KMGTPE") / 1024)


def _with_memory(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Adds requested memory per processor in kB (`memory`), whether ReqMem has the flag of memory per processor as part of its
    number (`memory_flag`), whether it is a mark for no value (`memory_mark`), and whether ReqTRES says otherwise
    (`reqmem_contradicts_reqtres`).

    rows: columns of sacct as text, with numbers `asked_nodes` and `asked` (processors), null if unknown. Each step adds
    columns: polars takes 0.1 s or more to plan one expression in which the steps are nested.
    """
    col, when = pl.col, pl.when
    nodes = pl.coalesce("asked_nodes", pl.lit(1.0))
    parts = col("ReqMem").str.extract_groups(f"^{MEMORY}$")
    tres = col("ReqTRES").str.extract_groups(r"(?:^|,)mem=([0-9]{1,20}(?:\.[0-9]{1,9})?)([KMGTPE?]?)(?:,|$)")
    rows = rows.with_columns(parts=parts, tres=tres).with_columns(
        number=col("parts").struct.field("1"), unit=col("parts").struct.field("2"), each=col("parts").struct.field("3"),
        of_job=_mebibytes(col("tres").struct.field("1"), col("tres").struct.field("2")),
    )  # fmt: skip
    rows = rows.with_columns(amount=_mebibytes(col("number"), col("unit")))
    amount, each, processors = col("amount"), col("each"), col("asked")
    # No processor or node has 2 PiB, so there the number has the flag, or is a mark for no value; many nodes may have.
    rows = rows.with_columns(
        of_one=when(each == "").then(amount / nodes).otherwise(amount),
        without_flag=_without_flag(col("number"), col("unit"), amount),
        of_job=when(col("of_job") / nodes < _PER_PROCESSOR_32 - _MARGIN).then(col("of_job")) / processors,
    )
    flagged = (amount >= _PER_PROCESSOR_32) & (col("of_one") >= _LARGEST_NODE)
    in_all = when(each == "n").then(amount * col("asked_nodes")).otherwise(amount)
    plain = when(each == "c").then(amount).otherwise(in_all / processors)
    plain = when(col("of_one") < _PER_PROCESSOR_32 - _MARGIN).then(plain)
    rows = rows.with_columns(flagged=flagged, each_asked=when(flagged).then(col("without_flag")).otherwise(plain))
    one, of_job = col("each_asked"), col("of_job")
    # ReqMem=0 means all memory of a node; ReqTRES has the amount.
    other = ((one - of_job).abs() > _CLOSE * pl.max_horizontal(one, of_job)) & (one > 0) & (of_job > 0)
    no_amount = col("number").is_not_null() & (col("unit") == "?") & amount.is_null()
    return rows.with_columns(
        memory=_first_above_0(one, of_job) * 1024,
        memory_flag=(col("flagged") & col("without_flag").is_not_null()).fill_null(False),
        memory_mark=(no_amount | (amount.is_not_null() & one.is_null())).fill_null(False),
        reqmem_contradicts_reqtres=other.fill_null(False),
    )


def _without_flag(number: pl.Expr, unit: pl.Expr, amount: pl.Expr) -> pl.Expr:
    """MiB per processor of a number with the flag of memory per processor; null for a mark for no value. A number of 64 bits is
    exact only as a whole one."""
    whole = number.cast(pl.UInt64, strict=False)
    rest: pl.Expr = pl.when(amount < 2.0**32 - _MARGIN).then(amount - _PER_PROCESSOR_32)
    for power, letter in enumerate(("", "G", "T", "P")):
        flag = pl.lit(_PER_PROCESSOR_64 >> (10 * power), pl.UInt64)
        of_unit = (unit == letter) if letter else unit.is_in(["", "M"])
        rest = pl.when(of_unit & (whole >= flag)).then((whole - flag).cast(pl.Float64) * 1024.0**power).otherwise(rest)
    return pl.when((rest > 0) & (rest < _PER_PROCESSOR_32 - _MARGIN)).then(rest)


_CONTRADICTIONS = (
    "reqmem_contradicts_reqtres",
    "elapsed_contradicts_end",
    "numbers_of_processors_contradict",
    "timelimits_contradict",
)
_COUNTS = ("ElapsedRaw", "TimelimitRaw", "AllocCPUS", "NCPUS", "ReqCPUS")
_NODES = ("AllocNodes", "NNodes", "ReqNodes")


def _differ(*values: pl.Expr) -> pl.Expr:
    """Whether there are two known values that differ."""
    return (pl.min_horizontal(values) != pl.max_horizontal(values)).fill_null(False)


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    """The values of each line as numbers, null where unknown.

    Boolean columns: `over`: the job has ended; `unused`: it ended while it waited (sacct prints no start then, or, in older
    versions, the end as the start); `several`: the line stands for all waiting tasks of an array; and those of `_CONTRADICTIONS`,
    `memory_flag` and `marks_for_no_value`.
    """
    col, when = pl.col, pl.when
    columns = rows.columns
    rows = rows.with_columns(pl.lit("").alias(c) for c in _USED if c not in columns)
    of_lines, options = sacct_requests.command_lines(rows["SubmitLine"])
    rows = rows.join(options, on="SubmitLine", how="left", maintain_order="left")
    state = col("State").str.extract(r"^([A-Z_]+|\?)")
    # A truncated state (OUT_OF_ME+) is the state with that prefix.
    cut = {word[:9]: word for word in states.KNOWN}
    state = when(col("State").str.ends_with("+")).then(state.replace(cut)).otherwise(state)
    given = [_first_above_0(value) for value in (_number("AllocCPUS"), _number("NCPUS"), _resource("AllocTRES", "cpu"))]
    allocated = _first_above_0(*given)
    asked = _first_above_0(_number("ReqCPUS"), _resource("ReqTRES", "cpu"), allocated)
    asked_nodes = _first_above_0(_nodes("ReqNodes"), _resource("ReqTRES", "node"), _nodes("NNodes"))
    written = pl.coalesce(_whole("array", _ARRAY_LIMIT), _whole("JobID", r"%([0-9]{1,9})\]$"))
    array_limit = pl.coalesce(written, _first_above_0(_number("ArrayLimit")).cast(pl.Int64))
    dependency = when(col("dependency") != "").then("dependency")
    # sacct prints whole seconds. A job with a dependency, or with a limit of tasks, becomes eligible later as well.
    waits = (date("Eligible") > date("Submit") + 1) & dependency.is_null() & (array_limit.fill_null(0) == 0)
    limit = pl.coalesce(_duration("Timelimit"), _number("Timelimit") * 60)
    marks = [col(c).cast(pl.Float64, strict=False) >= _UNKNOWN_COUNT for c in _COUNTS]
    marks += [(col(c) != "") & _nodes(c).is_null() for c in _NODES]
    facts = _with_memory(rows.lazy().with_columns(asked=asked, asked_nodes=asked_nodes)).select(
        "line",
        *(when(col(c) != "").then(col(c)).alias(c) for c in (*_TEXT, "Account")),
        *("asked", "asked_nodes", "memory", "memory_flag", "memory_mark", "reqmem_contradicts_reqtres"),
        state=state,
        key=pl.concat_str("Cluster", pl.lit("\1"), "JobID" if "JobID" in columns else "JobIDRaw"),
        number=pl.coalesce(_number("JobIDRaw"), col("JobID").str.extract(r"^([0-9]+)").cast(pl.Float64)),
        several=col("JobID").str.contains("[", literal=True),
        # The components of a heterogeneous job (7+0) can be referred to by its number too.
        array_job=_whole("JobID", "^([0-9]{1,15})[_+]"),
        array_task=_whole("JobID", "^[0-9]+_([0-9]{1,15})$"),
        array_limit=array_limit,
        dependency=dependency,
        not_played=sacct_requests.not_played(columns, array_limit, waits),
        submit=date("Submit"),
        start=when(~state.is_in(_NOT_STARTED).fill_null(False)).then(date("Start")),
        end=date("End"),
        eligible=date("Eligible"),
        **({"Reason": col("Reason")} if "Reason" in columns else {}),
        suspended=_duration("Suspended"),
        elapsed=pl.coalesce(_number("ElapsedRaw"), _duration("Elapsed")),
        limit=pl.coalesce(_number("TimelimitRaw") * 60, limit),
        allocated=allocated,
        nodes=_first_above_0(_nodes("AllocNodes"), _nodes("NNodes"), _resource("AllocTRES", "node")),
        numbers_of_processors_contradict=_differ(*given),
        timelimits_contradict=(((_number("TimelimitRaw") * 60) - limit).abs() >= 60).fill_null(False),
        marks=pl.any_horizontal(mark.fill_null(False) for mark in marks),
    )
    facts = facts.with_columns(
        status=col("state").replace_strict(states.SWF_STATUS, default=-1, return_dtype=pl.Int64),
        over=col("state").is_null()
        | col("state").is_in(list(states.SWF_STATUS))
        | (~col("state").is_in(states.LIVE) & col("end").is_not_null()),
        marks_for_no_value=col("marks") | col("memory_mark"),
    ).drop("marks", "memory_mark")
    facts = facts.with_columns(**_times())
    nothing = col("start").is_null() | (col("elapsed").fill_null(0) <= 0)
    unused = (col("state").is_in(states.ENDED_WAITING) & nothing).fill_null(False)
    facts = facts.with_columns(
        unused=unused,
        held=sacct_requests.held(columns, unused, col("eligible")),
        status=when(unused).then(states.SWF_STATUS["CANCELLED"]).otherwise("status"),
    )
    read = facts.collect()
    read = read.hstack(sacct_requests.asked_for(rows, read, of_lines))
    return read.with_columns(not_played=pl.concat_list("not_played", "kinds").list.unique(maintain_order=True)).drop("kinds")


def _times() -> dict[str, pl.Expr]:
    """Run time and time suspended, which together lead from the recorded start to the recorded end, of jobs that have ended; and
    whether the columns say otherwise."""
    col, when = pl.col, pl.when
    span = when("over").then(col("end") - col("start"))
    span = when(span >= 0).then(span)
    suspended = col("suspended").fill_null(0)
    elapsed = pl.coalesce(when(col("elapsed").is_not_null()).then(pl.min_horizontal("elapsed", span)), span - suspended)
    recorded = col("elapsed") + suspended
    too_long = col("elapsed") > span + 1
    is_backwards = col("over") & (col("end") < col("start"))
    other = too_long | is_backwards | (col("suspended").is_not_null() & ((recorded - span).abs() > 1))
    return {
        "elapsed": elapsed,
        "suspended": when(span.is_not_null() & (elapsed > 0)).then(span - elapsed).otherwise(suspended).clip(0),
        "elapsed_contradicts_end": (other & (col("elapsed") > 0)).fill_null(False),
    }


def _as_swf(facts: pl.DataFrame) -> pl.DataFrame:
    """The SWF columns and the additional ones; the wait of a job that never ran is its time in the queue."""
    col, when = pl.col, pl.when
    ran, first = ~col("unused"), col("submit").min()
    columns = {
        "job_number": col("number"),
        "submit": col("submit") - first,
        "wait": when(ran).then("start").otherwise("end") - col("submit"),
        "run_time": when(col("over") & ran).then("elapsed"),
        "allocated_processors": when(ran).then("allocated"),
        "requested_processors": col("asked"),
        "requested_time": when(col("limit") > 0).then("limit"),
        "requested_memory": when(col("memory") > 0).then("memory"),
        "status": when(col("over") | ~col("state").is_in(states.WAITING)).then("status"),
        "user": pl.coalesce("User", "UID").rank("dense"),
        "group": pl.coalesce("Group", "GID").rank("dense"),
        "queue": col("QOS").rank("dense"),
        "partition": col("Partition").rank("dense"),
    }
    values = [columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()]
    nodes = when(ran & col("start").is_not_null()).then("nodes").fill_null(-1).cast(pl.Int64)
    origin = facts["submit"].min()
    moved = {
        name: col(name).list.eval(pl.struct(*(pl.element().struct.field(instant) - (origin or 0) for instant in instants), *others))
        for name, instants, others in (
            ("earlier", ("start", "end"), ()),
            ("resized", ("start",), (pl.element().struct.field("allocated"), pl.element().struct.field("nodes"))),
        )
    }
    never = (col("eligible") > col("end")).fill_null(False)
    # The tasks of an array that may not run yet, and jobs that wait for others, become eligible later as well.
    waits = (col("eligible") > col("submit") + 1) & ~never & col("dependency").is_null() & (col("array_limit").fill_null(0) == 0)
    later = when(waits.fill_null(False)).then(col("eligible") - col("submit"))
    held = col("is_held") & ~col("has_begin")
    # A job that is requeued becomes eligible two minutes after the instant at which it was submitted again.
    of_requeue = (col("earlier").list.len() > 0).fill_null(False) & later.is_null() & ~col("has_begin").fill_null(False)
    kinds = when(of_requeue).then(col("not_played").list.set_difference(["begin"])).otherwise("not_played")
    return facts.select(
        *values, "state", "suspended", *_ARRAYS, "dependency", "held", "request", nodes=nodes, not_played=kinds,
        begin=when(~held).then(later), hold=when(held).then(later), user_name="User", account="Account",
        asked_nodes=col("asked_nodes").fill_null(-1).cast(pl.Int64), eligible=when(~never).then(col("eligible") - first), **moved,
    )  # fmt: skip


def _header(facts: pl.DataFrame) -> dict[str, str]:
    """The SWF header: Unix time of the first submission (0: unknown), and the names of queues (QOS) and partitions by number."""
    first = facts.select(pl.col("submit").min()).item()
    header = {"UnixStartTime": f"{first or 0:.0f}", "Conversion": "from sacct; its times, taken as UTC"}
    for label, column in (("Queue", "QOS"), ("Partition", "Partition")):
        names = facts[column].drop_nulls().unique().sort().to_list()
        if names:
            header[label] = "\n".join(f"{number} {name}" for number, name in enumerate(names, 1))
    return header
