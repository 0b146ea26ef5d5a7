"""Sizes of malleable jobs while they ran, and what the broker did: resizes.csv, allocations.csv, and how long jobs should take.

sigsleep's record has each size with its instant; the broker's journal has what it answered each job that asked. The manager's
completion log has the size before each change, and the second of the change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA
from mirage.records.aspects import OfRun, Sources
from mirage.records.file_names import ALLOCATIONS_FILE
from mirage.records.rounding import rounded
from mirage.records.run_records import NS, Schema, in_second, read_bytes
from mirage.records.time_map import TimeMap
from slurm_mirage.base.strict_json import INSTANT, OBJECT, NotStrict, parse
from slurm_mirage.extras.malleable.broker.actions import DONE
from slurm_mirage.extras.malleable.broker.policy import EXPAND, NONE, SHRINK
from slurm_mirage.extras.malleable.words import Malleable

BROKER_FILE = "resizes.jsonl"
"""The broker's journal: a line for each answer. All runs of an instance write to it."""
RESIZES_FILE = "resizes.csv"
"""Exists, like allocations.csv, if jobs could change their size."""
LONGEST_LINE = 65_536
"""Bytes of a line of the journal; the user of the instance can write anything to it."""

RESIZES_SCHEMA: Schema = {
    "job": pl.Int64,
    "instant": pl.Float64,
    "from": pl.Int64,
    "to": pl.Int64,
    "kind": pl.String,
    "mode": pl.String,
    **dict.fromkeys(("asked", "decided", "done", "cost"), pl.Float64),
    "outcome": pl.String,
    "reason": pl.String,
    "way": pl.String,
    "for": pl.Int64,
}
"""Columns of resizes.csv. Instants in trace seconds: `instant` is that of the change, or, where there was none, of the decision."""

_ANSWERS: Schema = {
    "slurm_id": pl.Int64,
    "mode": pl.String,
    "kind": pl.String,
    "from": pl.Int64,
    "to": pl.Int64,
    **dict.fromkeys(("v_asked", "v_decided", "v_done"), pl.Int64),
    "outcome": pl.String,
    "reason": pl.String,
    "way": pl.String,
    "for": pl.Int64,
}
_COSTS: Schema = {"slurm_id": pl.Int64, "v_resumed": pl.Int64, "v_cost": pl.Int64}


@dataclass(frozen=True)
class Resizes(OfRun):
    """What malleable jobs and the broker did in a run.

    jobs: number of malleable jobs; answers: of `of_jobs`; changes: of `resizes`; helpers: names of the broker's jobs
    """

    jobs: int
    answers: pl.DataFrame
    changes: pl.DataFrame
    helpers: list[str]
    pauses: pl.DataFrame
    time: TimeMap

    changes_sizes = True

    def is_own(self) -> pl.Expr:
        return col("name").is_in(self.helpers)

    def surpluses(self, joined: pl.DataFrame) -> pl.DataFrame:
        return surpluses(joined, self.pauses, self.answers)

    def allocations(self, joined: pl.DataFrame) -> pl.DataFrame:
        return allocations(joined, self.answers, self.time)

    def tables(self, allocations: pl.DataFrame) -> dict[str, pl.DataFrame]:
        return {ALLOCATIONS_FILE: allocations, RESIZES_FILE: self.changes}

    def summary(self) -> dict[str, Any]:
        """The member "resizes" of metrics.json."""
        return summary(self.answers, self.changes, self.jobs)


def collect(sources: Sources) -> Resizes | None:
    """What malleable jobs did in the run; None for a run without any."""
    if (jobs := sources.plan.filter(col("malleable") != "").height) == 0:
        return None
    submitted, time = sources.submitted, sources.time
    answers, costs = of_jobs(*read_answers(sources.run.path / BROKER_FILE), submitted, sources.since)
    changes = resizes(answers, costs, submitted, time)
    return Resizes(jobs, answers, changes, helpers(submitted["slurm_id"]), sources.pauses, time)


def read_answers(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What the broker answered the jobs of an instance, and what resizes cost them.

    Answers: slurm_id, mode, kind, from, to, v_asked, v_decided, v_done, outcome, reason, way, for (slurm id).
    Costs: slurm_id, v_resumed, v_cost. Invalid lines are left out. The file may be absent.
    """
    answers: list[tuple[Any, ...]] = []
    costs: list[tuple[Any, ...]] = []
    for line in _lines(path):
        if "resumed" in line:
            costs.append((_whole(line.get("job")), _ns(line.get("resumed")), _ns(line.get("cost"))))
        elif "asked" in line and "begun" not in line:
            sizes = (_whole(line.get(name)) for name in ("from", "to"))
            instants = (_ns(line.get(name)) for name in ("asked", "decided", "done"))
            words = (_word(line.get(name)) for name in ("outcome", "reason", "way"))
            head = (_whole(line.get("job")), _word(line.get("mode")), _word(line.get("kind")))
            answers.append((*head, *sizes, *instants, *words, _whole(line.get("for"))))
    return pl.DataFrame(answers, schema=_ANSWERS, orient="row"), pl.DataFrame(costs, schema=_COSTS, orient="row")


def of_jobs(answers: pl.DataFrame, costs: pl.DataFrame, submitted: pl.DataFrame, since: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The answers and costs (`read_answers`) of the jobs in `submitted` (id, slurm_id) from `since` on (virtual ns), with ids."""
    own = submitted.select("id", "slurm_id")
    answered, paid = (table.join(own, on="slurm_id", maintain_order="left") for table in (answers, costs))
    return answered.filter(col("v_asked") >= since), paid.filter(col("v_resumed") >= since)


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in read_bytes(path).split(b"\n") if path.exists() else []:
        with suppress(NotStrict):
            if 0 < len(line) < LONGEST_LINE:
                yield parse(line, OBJECT)


def _ns(value: Any) -> int | None:
    """Virtual seconds as ns; None for anything that is not a number of seconds."""
    return None if INSTANT.fault(value, "") else round(value * NS)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def helpers(job_ids: pl.Series) -> list[str]:
    """Names of the jobs by which the broker gets nodes for these jobs of the manager."""
    return [f"mirage-{kind}-{job_id}" for kind in ("resizer", "beside") for job_id in job_ids]


def resizes(answers: pl.DataFrame, costs: pl.DataFrame, submitted: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    """The answers other than `none`, in order of their instants; columns of RESIZES_SCHEMA. A cost is the job's first after it."""
    changes = answers.filter(col("kind") != NONE).with_columns(v_instant=pl.coalesce("v_done", "v_decided", "v_asked"))
    paid = costs.sort("v_resumed").with_columns(v_by="v_resumed")
    # A job pays the cost of a shrink before it gives up the nodes, and reports it then.
    paid = paid.select("id", "v_by", "v_cost").sort("v_by")
    nearest: dict[str, Any] = {"by": "id", "strategy": "forward", "check_sortedness": False}
    changes = changes.sort("v_decided").join_asof(paid, left_on="v_decided", right_on="v_by", **nearest)
    numbers = submitted.select(waits="id", **{"for": "slurm_id"})
    changes = changes.join(numbers, on="for", how="left", maintain_order="left")
    done = col("outcome") == DONE
    return changes.sort("v_instant", "id").select(
        job="id",
        instant=time.trace(col("v_instant")),
        **{name: col(name) for name in ("from", "to", "kind", "mode")},
        **{name: time.trace(col(f"v_{name}")) for name in ("asked", "decided", "done")},
        cost=pl.when(done).then(time.length(col("v_cost"))),
        **{name: col(name) for name in ("outcome", "reason", "way")},
        **{"for": col("waits")},
    )


def allocations(joined: pl.DataFrame, answers: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    """Changes of size of the jobs' last executions, in order of job and instant; columns of ALLOCATIONS_SCHEMA.

    They are sigsleep's, within the seconds that Slurm printed if it has the same changes; of jobs that were killed before sigsleep
    could write they follow from the broker's answers. An instant outside of the job's time is moved to its start or end.

    joined: the records of each job, with r_sizes and r_changes
    """
    jobs = joined.filter((col("malleable") != "") & col("v_start").is_not_null())
    span = ("id", "v_start", "v_end", "cpus")
    jobs = jobs.with_columns(cpus=col("processors") // col("nodes"))
    own = jobs.filter(col("r_changes").list.len() > 0)
    nothing = pl.lit(None, pl.List(pl.Int64))
    printed = pl.when(col("s_sizes") == col("r_sizes")).then("s_resized").otherwise(nothing)
    printed = pl.coalesce(printed, pl.lit(None, pl.Int64).repeat_by(col("r_changes").list.len()))
    own = own.select(*span, v_own="r_changes", v_printed=printed, nodes=col("r_sizes").list.slice(1))
    own = own.explode("v_own", "v_printed", "nodes").with_columns(v_from=pl.coalesce(in_second("v_own", "v_printed"), "v_own"))
    own = own.select(*span, "v_from", "nodes")
    done = answers.filter((col("outcome") == DONE) & (col("kind") != NONE)).select("id", v_from="v_done", nodes="to")
    from_broker = jobs.filter(col("r_changes").is_null()).select(span).join(done, on="id", maintain_order="left")
    from_broker = from_broker.filter(col("v_from") >= col("v_start") - NS)
    both = pl.concat([own, from_broker.select(own.columns)])
    instant = pl.max_horizontal("v_start", pl.min_horizontal("v_from", "v_end"))
    return (
        both.sort("id", "v_from", maintain_order=True)
        .select(job="id", **{"from": time.trace(instant)}, nodes="nodes", processors=col("nodes") * col("cpus"))
        .unique(["job", "from"], keep="last", maintain_order=True)
        .select(col(name).cast(kind) for name, kind in ALLOCATIONS_SCHEMA.items())
    )


def surpluses(joined: pl.DataFrame, pauses: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
    """By how many virtual ns each malleable job that sigsleep recorded ran longer than its sizes make it need: id, surplus.

    joined: as for `allocations`; pauses: id, slurm_id, v_suspend, v_resume
    """
    jobs = joined.filter(col("r_sizes").is_not_null())
    ids = jobs.select("id")
    stops = pauses.drop_nulls().join(ids, on="id", how="semi").group_by("id").agg(stops=pl.struct("v_suspend", "v_resume"))
    asked = answers.filter((col("kind") != NONE) & (col("mode") == "check")).drop_nulls(["v_asked", "v_done", "from"])
    waits = (
        asked.join(ids, on="id", how="semi")
        .group_by("id")
        .agg(waits=pl.struct("from", "to", "kind", "outcome", waited=col("v_done") - col("v_asked")))
    )
    table = jobs.join(stops, on="id", how="left").join(waits, on="id", how="left")
    rows = [(job["id"], round(_surplus(job) * NS)) for job in table.iter_rows(named=True)]
    return pl.DataFrame(rows, schema={"id": pl.Int64, "surplus": pl.Int64}, orient="row")


def _surplus(job: Mapping[str, Any]) -> float:
    """The surplus of a job (a row of the table of `surpluses`) in virtual seconds: the work that its sizes allow for in its time,
    less what it was to do, at its last speed.

    No work advances while it is suspended, waits for the broker, or pays for a change of size, each at the size that it has then: a
    change is paid for with the larger one.
    """
    words, sizes = Malleable.parse(job["malleable"]), job["r_sizes"]
    unit = words.speedup.of(sizes[0])
    speeds = [words.speedup.of(nodes) / unit for nodes in sizes]
    instants = [job["r_start"], *job["r_changes"], job["r_end"]]
    stops = [(stop["v_suspend"], stop["v_resume"]) for stop in job["stops"] or ()]
    work = length = 0.0
    for begin, end, speed in zip(instants, instants[1:], speeds, strict=False):
        stopped = sum(max(0, min(end, until) - max(begin, since)) for since, until in stops)
        ran = (max(begin, end) - begin - stopped) / NS
        work, length = work + ran * speed, length + ran
    for before, after in itertools.pairwise(sizes):
        work -= words.cost(before, after) * words.speedup.of(max(before, after)) / unit
    rest = job["r_waited"] / NS
    for wait in job["waits"] or ():
        # The journal's time of a shrink has the payment for it.
        paid = words.cost(wait["from"], wait["to"]) if wait["kind"] == SHRINK and wait["outcome"] == DONE else 0.0
        waited = min(rest, max(0.0, wait["waited"] / NS - paid))
        work, rest = work - waited * words.speedup.of(wait["from"]) / unit, rest - waited
    # At its other points it waited all the time, at regular intervals.
    work -= rest * work / length if length > 0 else 0.0
    return (work - float(job["runtime_virtual"])) / speeds[-1]


def summary(answers: pl.DataFrame, found: pl.DataFrame, jobs: int) -> dict[str, Any]:
    """The member "resizes" of metrics.json: what the broker answered, how long it took (virtual seconds), and what resizes cost.

    answers: result of `read_answers`; found: result of `resizes`; jobs: number of malleable jobs
    """
    took = ((col("v_done") - col("v_asked")) / NS).alias("took")
    table = answers.with_columns(took)

    def times(some: pl.DataFrame) -> dict[str, Any]:
        values = some["took"].drop_nulls()
        numbers = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
        return {"count": some.height, **{name: rounded(value) for name, value in numbers.items()}}

    kinds: dict[str, Any] = {"none": times(table.filter(col("kind") == "none"))}
    for kind in (EXPAND, SHRINK):
        of_kind = table.filter(col("kind") == kind)
        done = times(of_kind.filter(col("outcome") == DONE))
        cost = found.filter((col("kind") == kind) & (col("outcome") == DONE))["cost"]
        kinds[kind] = {
            **done,
            "per_job": rounded(done["count"] / jobs) if jobs else None,
            "not_done": of_kind.filter(col("outcome") != DONE).height,
            "cost_mean": rounded(cost.mean()),
        }
    return {"malleable_jobs": jobs, "checks": table.height, **kinds}
