"""Prepares a run from the knobs: the workload, the plan of submissions and an estimate of its length. Needs no cluster."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from mirage.aspects import offers
from mirage.cluster_events import site_events
from mirage.cluster_events.planned import PlannedEvent, as_csv, for_replay
from mirage.cluster_events.site_events import SiteEvents
from mirage.experiment import (
    aspects,
    configuration,
    fractions,
    growth,
    host_pace,
    replay_costs,
    run_events,
    run_length,
    site,
    standing,
)
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.hosts import host_count
from mirage.knobs.knobs import JobKnobs, Knobs, WorkloadKnobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import SLURM
from mirage.records.file_names import EVENTS_FILE, EXPERIMENT_FILE, PLAN_FILE, RECORDED_FILE, WORKLOAD_FILE, WORKLOAD_SWF_FILE
from mirage.records.recorded import recorded_of
from mirage.records.run_clock import EVENT
from mirage.records.run_folder import RunFolder
from mirage.site.archive import opened
from mirage.text.words import about, counted
from mirage.traces import swf
from mirage.traces.local_time import LocalTime
from mirage.traces.trace import Trace, read_trace
from mirage.workloads import fitting, models, not_played, requests, routing
from mirage.workloads.selection import Selection
from mirage.workloads.workload import Workload, prepare, unusable
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically, write_json
from slurm_mirage.jobs import plan as submissions
from slurm_mirage.jobs.cluster_events import as_settings
from slurm_mirage.jobs.request import Request
from slurm_mirage.replay.expected_queue import Queue, expected_queue
from slurm_mirage.replay.phase import WEEK
from slurm_mirage.replay.real_left import Costs
from slurm_mirage.rm.slurm import accounting, job_users

# Virtual seconds that are added to the run time for a time limit, so that a job that uses its whole limit is not killed because
# of its launch time. Equal at every speed, so that the scheduler plans with the same limits: longer launches on a fast clock are
# covered by OverTimeLimit (clock_settings.py).
SLACK = 10.0
# Number of samples over a run, and the longest interval between two in real seconds.
SAMPLES, LONGEST_SAMPLE = 60, 10.0
# Generated events go on until so many times the expected length of the run.
EVENTS_UNTIL = 2.0


# Model and number of jobs of a generated workload without MODEL and JOBS.
DEFAULT_MODEL, DEFAULT_JOBS = "raijin", 1000
LOAD_OF_A_LOG = "a log has its own load; it may be given for a workload that is generated, without TRACE"


@dataclass(frozen=True)
class Source:
    """Source of the jobs: the log or generated workload, and its description in experiment.json."""

    trace: Trace
    description: dict[str, Any]


def selection_of(knobs: WorkloadKnobs) -> Selection:
    """Selection of the jobs of a log."""
    queues, users = (tuple(name.strip() for name in names.split(",") if name) for names in (knobs.queues, knobs.users))
    return Selection(
        jobs=knobs.jobs,
        offset=knobs.offset,
        min_runtime=float(knobs.min_runtime),
        begin=knobs.begin or "",
        end=knobs.end or "",
        queues=queues,
        users=users,
    )


def selection_of_any(knobs: WorkloadKnobs) -> Selection:
    """Selection of the jobs of a log, or of a generated workload, which has as many jobs as JOBS says."""
    return selection_of(knobs if knobs.trace else replace(knobs, jobs=None))


def source(knobs: WorkloadKnobs, machine: Machine) -> Source:
    """Read TRACE, or generate a workload with MODEL or, without MODEL, the default workload. Raises WrongUse for a file that is not
    a log."""
    if knobs.trace and knobs.load is not None:
        raise WrongUse(LOAD_OF_A_LOG, parameter="load")
    if not knobs.trace and knobs.model:
        trace = generated(knobs, machine)
        digest = hashlib.sha256(trace.frame.write_csv().encode()).hexdigest()
        made: dict[str, Any] = {
            "path": None,
            "generated": trace.header["Note"],
            "sha256": digest,
            "time": asdict(LocalTime.of(trace)),
        }
        return Source(replace(trace, sha256=digest), made)
    if not knobs.trace:
        frame = models.default_workload(machine.processors, knobs.seed, knobs.jobs)
        # Checksum of the jobs, because another release may generate other jobs from the same seed.
        digest = hashlib.sha256(frame.write_csv().encode()).hexdigest()
        trace = Trace(frame, header_of(machine), {}, "generated", digest)
        return Source(trace, {"path": None, "generated": "default_workload", "sha256": digest})
    path = Path(knobs.trace)
    trace = in_whole_nodes(read_trace(path), machine)
    about_it: dict[str, Any] = {
        "path": str(path.resolve()),
        "format": trace.format,
        "sha256": trace.sha256,
        "jobs": trace.frame.height,
        "notes": trace.notes,
        "unread": trace.unread.in_words(),
        "time": asdict(LocalTime.of(trace)),
    }
    return Source(trace, about_it)


def in_whole_nodes(trace: Trace, machine: Machine) -> Trace:
    """The log; with processors, in whole nodes of the emulated machine, if it records nodes only."""
    return trace.in_whole_nodes(machine.processors / machine.nodes)


def generated(knobs: WorkloadKnobs, machine: Machine) -> Trace:
    """Generate JOBS jobs (default: DEFAULT_JOBS) for the machine with MODEL."""
    model, seed = knobs.model or DEFAULT_MODEL, knobs.seed
    count = DEFAULT_JOBS if knobs.jobs is None else knobs.jobs
    load = None if knobs.load is None else float(knobs.load)
    frame = models.generate(model, count, seed, machine.processors, load=load)
    return Trace(frame, models.header(model, seed, machine.processors, machine.nodes, load=load), {}, "generated", "")


def header_of(machine: Machine) -> dict[str, str]:
    """Labels of a machine in an SWF header."""
    return {"MaxProcs": str(machine.processors), "MaxNodes": str(machine.nodes)}


def workload(knobs: Knobs, trace: Trace, shrink: Decimal) -> Workload:
    """Select and shrink the jobs. Raises WrongUse, also for a job that is wider than the cluster."""
    return prepare(
        replace(trace, frame=_fitted(knobs, trace.frame)),
        selection_of_any(knobs.workload),
        classes=[(node_class.count, node_class.cpus) for node_class in knobs.nodes.machine.classes],
        slack=SLACK,
        shrink_percent=float(shrink),
        overrun=knobs.jobs.overrun,
        sizes=knobs.jobs.sizes,
        preset=knobs.jobs.preset,
        depend=knobs.jobs.dependencies,
    )


def _fitted(knobs: Knobs, jobs: pl.DataFrame) -> pl.DataFrame:
    config = configuration.of(knobs.scheduler)
    takes = config.rm == SLURM and not aspects.needs(knobs).own_sizes
    return fitting.fitted(jobs, config.offer(knobs, knobs.nodes.machine) if takes else None)


def refused(knobs: Knobs, jobs: pl.DataFrame) -> pl.Series:
    """For each job of a log, whether SIZES=fit leaves it out because it can never run on the cluster."""
    fitted = _fitted(knobs, jobs)
    return fitted.select(unusable(knobs.nodes.machine.processors, fitted.columns).is_not_null()).to_series()


def _of_site_users(knobs: Knobs, trace: Trace) -> Trace:
    """The log with the numbers and accounts of its users in the script beside SLURM_CONF; users who are not there follow."""
    site = configuration.site_of(knobs.scheduler)
    if "user_name" not in trace.frame.columns:
        return trace
    frame = trace.frame.drop("user_name")
    if site is None or site.accounts is None or not site.accounts.numbers:
        return replace(trace, frame=frame)
    name, accounts = trace.frame["user_name"], site.accounts
    others = sorted(set(name.drop_nulls().unique()) - accounts.numbers.keys())
    numbers = {**accounts.numbers, **{one: number for number, one in enumerate(others, len(accounts.numbers) + 1)}}
    own = name.replace_strict(accounts.defaults, default=None, return_dtype=pl.String).alias("account")
    given = [pl.col("account")] if "account" in frame.columns else []
    user = name.replace_strict(numbers, default=-1, return_dtype=pl.Int64).alias("user")
    return replace(trace, frame=frame.with_columns(user, pl.coalesce(*given, own)))


def _recorded(knobs: Knobs, trace: Trace, chosen: Workload) -> pl.DataFrame | None:
    """`Prepared.recorded`."""
    if not knobs.workload.trace or knobs.jobs.groups is not None:
        return None
    try:
        return recorded_of(trace, chosen.jobs)
    except WrongUse:
        return None


def due_times(knobs: JobKnobs, chosen: Workload) -> list[float]:
    """Submission times in virtual seconds after the start of the replay: presets at 0, the other jobs at their own times, or in
    groups if SUBMISSION is given. Presets do not count as jobs of a group."""
    submits = chosen.jobs["submit_virtual"].to_list()
    presets = chosen.presets()
    if (groups := knobs.groups) is None:
        return [0.0] * presets + [submits[presets] + due for due in submissions.due_times(submits[presets:])]
    return [0.0] * presets + submissions.due_times(
        submits[presets:], warmup=groups.warmup, group=groups.size, period=float(groups.period), drift=float(groups.drift)
    )


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start. Times are in virtual seconds."""

    knobs: Knobs
    shrink: Decimal
    workload: Workload
    dues: list[float]
    replica: int = 1
    """Number of the run among those of the same configuration: each draws fractions of seconds and failures of its own."""
    calendar: datetime | None = None
    """Local date and time of the first submission in the log; None if it is not known."""
    recorded: pl.DataFrame | None = None
    """What the log records of the jobs; None if it records no waits, if the jobs are generated or submitted at other times."""
    start: float | None = None
    """The date of the first submission in seconds since the epoch; None if it is not known."""

    @classmethod
    def make(cls, knobs: Knobs, trace: Trace, shrink: Decimal) -> Prepared:
        if knobs.jobs.dependencies == "think" and knobs.jobs.groups is not None:
            raise WrongUse(
                "think submits jobs at instants of their own, SUBMISSION in groups; give one of them", parameter="dependencies"
            )
        trace = _of_site_users(knobs, trace)
        chosen = aspects.applied(knobs, workload(knobs, trace, shrink), SLACK)
        local, first = LocalTime.of(trace), float(chosen.jobs.select(pl.col("submit").min()).item() or 0.0)
        start = None if local.begin is None else local.begin + first
        recorded = _recorded(knobs, trace, chosen)
        made = cls(knobs, shrink, chosen, due_times(knobs.jobs, chosen), calendar=local.date(first), recorded=recorded, start=start)
        above = int(trace.frame["job_number"].max() or 0) + trace.frame.height  # type: ignore[arg-type]  # some jobs are renumbered
        if grown := growth.applied(knobs, chosen, made.requests, made.offer, SLACK, above):
            # The log has other jobs.
            made = cls(knobs, shrink, grown, due_times(knobs.jobs, grown), calendar=made.calendar, start=start)
        if aspects.needs(knobs).own_sizes:
            aspects.check_partitions(chosen.jobs, made.requests.partitions, made.offer)
        _ = made.events
        return made

    @property
    def second_of_week(self) -> int:
        """The second of the week, from Monday, 00:00 on, that the cluster's calendar shows when the run begins on the event clock:
        that of the first submission in the log's local time; 0 if it is not known."""
        return 0 if self.calendar is None else int((self.calendar - datetime(1970, 1, 5)).total_seconds()) % WEEK

    @property
    def passing(self) -> float:
        """Virtual seconds by which the run sets the cluster's clock forward: on the event clock it waits for its weekday."""
        return self.estimate() + WEEK * (self.knobs.clock.speed == EVENT)

    @cached_property
    def events(self) -> Sequence[PlannedEvent]:
        """The events of the run in the order of their instants. Raises WrongUse."""
        wanted = self.knobs.events
        run_events.check(wanted)
        if not (wanted.path or wanted.failures or wanted.maintenance or self.knobs.workload.site or self.site_events.lines):
            return ()
        second = 100 / float(self.shrink)
        site_conf, config = configuration.site_of(self.knobs.scheduler), configuration.of(self.knobs.scheduler)
        return run_events.of_run(
            self.knobs,
            partitions=self.offer.partitions.keys(),
            jobs=set(self.workload.jobs["id"].to_list()),
            last=self._last_event(),
            until=EVENTS_UNTIL * self.estimate() * second,
            replica=self.replica,
            calendar=self.calendar,
            site=self.site_events.lines,
            hosts=host_count(self.knobs.cluster),
            renamed=site_conf.renamed if site_conf is not None else {},
            has_accounting=config.has_accounting(self.knobs),
            enforces_limits=configuration.enforces_limits({**(site_conf.settings if site_conf else {}), **config.settings}),
        )

    def _last_event(self) -> float:
        """The last instant of an event, in trace seconds: all jobs, one after the other, would have ended."""
        return (max(self.dues) + 60.0 * sum(self.requests.limits)) * 100 / float(self.shrink)

    @cached_property
    def site_events(self) -> SiteEvents:
        """Outages and reservations of SITE, and access to partitions. Raises WrongUse."""
        path, site_conf = self.knobs.workload.site, configuration.site_of(self.knobs.scheduler)
        if site_conf is None:
            return SiteEvents()
        if not path or self.start is None:
            return site_events.of_access(Path(self.knobs.scheduler.slurm_conf), site_conf.of_accounts)
        nodes = {
            name: site_events.resources(of_class.cpus, dict(of_class.extra).get("Gres", ""))
            for of_class in self.knobs.nodes.machine.classes
            for name in of_class.each
        }
        return site_events.of(opened(path), nodes, site_conf.renamed, self.start, self._last_event(), site_conf.of_accounts)

    def events_of_replay(self) -> list[dict[str, Any]]:
        """The events in run.json."""
        return as_settings(for_replay(self.events, float(self.shrink)))

    def executions(self) -> list[float]:
        """Expected run time of each job: for a cancelled job at most until its cancellation."""
        rows = self.workload.jobs.select("ran", "runtime_virtual", "cancel_after_virtual").iter_rows()
        return [run if cancel is None else min(run, cancel) if ran else 0.0 for ran, run, cancel in rows]

    @cached_property
    def queue(self) -> Queue:
        """The queue of the run as a quick simulation has it."""
        config = configuration.of(self.knobs.scheduler)
        machine = self.knobs.nodes.machine.processors
        widths = [min(width, machine) for width in self.workload.jobs["processors"].to_list()]
        waits = [max(one.begin, one.hold) for one in map(Request.parse, self.requests.asked)]
        starts = [due + wait for due, wait in zip(self.dues, waits, strict=True)]
        limits = [60.0 * limit for limit in self.requests.limits]
        cycles = self._costs_of_scheduler.cycles
        return expected_queue(starts, self.executions(), limits, widths, machine, cycles, backfills=config.backfills)

    def estimate(self) -> float:
        """Expected length of the run in virtual seconds."""
        return self.queue.end

    @cached_property
    def work_left(self) -> standing.Work:
        """The changes that the cluster needs before the run."""
        return standing.work_left(cluster_variables(self.knobs, self.shrink), Path(self.knobs.cluster.inventory))

    @cached_property
    def predicted(self) -> host_pace.Predicted:
        """The run on the event clock by the model alone."""
        scheduler, machine, jobs = self.knobs.scheduler, self.knobs.nodes.machine, self.knobs.workload
        costs, share = self._costs_of_model, replay_costs.OF_SCHEDULER
        tests, others = costs.real(0, 0, self.queue.tested), costs.real(self.workload.jobs.height, self._virtual, 0)
        return host_pace.Predicted(
            nodes=machine.nodes,
            cpus=machine.processors / machine.nodes,
            scheduler=tests + share * others,
            rest=(1 - share) * others,
            around=run_length.around_of(machine.nodes, self.work_left, is_event=True),
            slow=run_length.slowness(),
            work=self.work_left.value,
            configuration=f"{scheduler.config} {scheduler.slurm_conf} {scheduler.slurm_source or ''}",
            workload=f"{jobs.trace} {jobs.model or ''} {aspects.needs(self.knobs)}",
        )

    @property
    def _virtual(self) -> float:
        return self.queue.end - min(self.dues)

    @cached_property
    def _costs_of_scheduler(self) -> Costs:
        """Predicted costs of the replay on the event clock without aspects, not corrected by earlier runs."""
        machine, config = self.knobs.nodes.machine, configuration.of(self.knobs.scheduler)
        return replay_costs.costs(machine.nodes, machine.processors, *config.cycles, backfills=config.backfills)

    @cached_property
    def _costs_of_model(self) -> Costs:
        """Predicted costs of the replay on the event clock, not corrected by earlier runs. Those of aspects, such as fillers, are
        spread evenly over its virtual seconds."""
        costs = self._costs_of_scheduler
        return replace(costs, second=costs.second + self._real_seconds_of_aspects / max(self._virtual, 1.0))

    @property
    def costs(self) -> Costs:
        """What the replay costs on the event clock on this host."""
        costs, share = self._costs_of_model, replay_costs.OF_SCHEDULER
        scheduler, rest, _ = host_pace.corrected(self.predicted, host_pace.played())
        others = share * scheduler.ratio + (1 - share) * rest.ratio
        return replace(costs, job=others * costs.job, second=others * costs.second, tested=scheduler.ratio * costs.tested)

    def length(self) -> run_length.Length | None:
        """Expected length in real time of the whole command; None while SPEED is `auto`."""
        speed, nodes = self.knobs.clock.speed, self.knobs.nodes.machine.nodes
        if speed == EVENT:
            run = self.predicted
            scheduler, rest, around = host_pace.corrected(run, host_pace.played())
            steady, others = scheduler.ratio * run.scheduler, rest.ratio * run.rest
            factor = (steady * scheduler.factor + others * rest.factor) / (steady + others)
            return run_length.Length(steady, others, around.ratio * run.around, factor, around.factor)
        if not isinstance(speed, Decimal):
            return None
        seconds = run_length.around_of(nodes, self.work_left, is_event=False)
        return run_length.Length(self._virtual / float(speed), 0.0, seconds, run_length.CONSTANT_RANGE)

    @cached_property
    def _real_seconds_of_aspects(self) -> float:
        """Real seconds by which aspects of the run make a replay on the event clock longer."""
        return float(sum(of(self) for of in offers("experiment", "real_seconds")))

    def real_estimate(self) -> float | None:
        """Expected real seconds of the replay; None while SPEED is `auto`."""
        length = self.length()
        return None if length is None else length.replay

    def sample_interval(self) -> float:
        """Real seconds between two samples of the host and of Slurm, for at least SAMPLES samples; from 1 to LONGEST_SAMPLE."""
        return min(LONGEST_SAMPLE, max(1.0, (self.real_estimate() or 0.0) / SAMPLES))

    def announcement(self) -> str:
        """The line that announces the run: `100 jobs, and 34 preset, longest 6 h, 9 h of the cluster's time: 60 to 240 s`."""
        presets = self.workload.presets()
        count = self.workload.jobs.height - presets
        jobs = "1 job" if count == 1 else f"{count} jobs"
        jobs += f", and {presets} preset" if presets else ""
        jobs += f", {counted(len(self.events), 'event')}" if self.events else ""
        jobs += f", longest {about(max(self.executions()))}"
        return f"{jobs}, {run_length.in_words(self.knobs.clock.speed, self.estimate(), self.length())}"

    @cached_property
    def routed(self) -> tuple[pl.Series, pl.Series]:
        """Partition and QOS of each submission by the routing rules of the configuration; "" for none."""
        rules, seed = configuration.of(self.knobs.scheduler).routing, self.knobs.workload.seed
        partitions, qos = (routing.routes(self.workload.jobs, rules, seed, goal) for goal in routing.GOALS)
        return partitions, qos

    @cached_property
    def offer(self) -> requests.Offer:
        """What jobs can request of the cluster."""
        return configuration.of(self.knobs.scheduler).offer(self.knobs, self.knobs.nodes.machine)

    @cached_property
    def requests(self) -> requests.Requests:
        """Partition, QOS and memory of each submission. The rules of the configuration have precedence over the log."""
        return requests.requests_of(self.workload.jobs, *self.routed, self.offer, float(self.shrink) / 100)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """The jobs of workload.csv: those of the workload, with all kinds of requests that this run does not emulate."""
        chosen = self.workload.jobs
        if "array_limit" in chosen.columns:
            limited = [row.id for row in self.plan("") if row.at_once is not None]
            chosen = chosen.with_columns(not_played.without_array_limit(pl.col("id").is_in(limited)))
        return chosen.with_columns(not_played.with_requests(chosen, self.requests, *self.routed))

    @cached_property
    def site(self) -> dict[str, dict[str, int]]:
        """What of SITE the run has, as `site.table`; empty without SITE."""
        path = self.knobs.workload.site
        if not path:
            return {}
        pairs = {(row.owner, row.account) for row in self.plan("") if row.owner}
        excluded, presets = self.workload.excluded, self.workload.presets()
        jobs = site.Jobs(self.workload.jobs.height - presets, presets, excluded, pairs)
        return site.table(self.knobs.scheduler, opened(path), self.site_events, jobs)

    def plan(self, run: str) -> list[submissions.PlanRow]:
        """Rows of plan.csv for a run with the given name."""
        config = configuration.of(self.knobs.scheduler)
        has_accounts = config.has_accounting(self.knobs)
        charged = has_accounts or config.shares_by_account
        has_owners = has_accounts and not aspects.needs(self.knobs).one_user
        of_site = configuration.site_of(self.knobs.scheduler)
        # The accounts of the log are those of the cluster; a job without one has the account of its user's name.
        named = "account" if has_owners and of_site is not None and of_site.accounts is not None else ""
        asked = self.requests
        dues, run_times = self._with_fractions()
        jobs = self.workload.jobs.iter_rows(named=True)
        rows = [
            submissions.PlanRow(
                index=index,
                id=job["id"],
                due=due,
                processors=job["processors"],
                nodes=job["nodes_wanted"],
                runtime=run_time,
                limit_minutes=limit,
                cancel_after=job["cancel_after_virtual"],
                partition=partition,
                name=f"{run}.{job['id']}",
                account=(job.get(named) or accounting.account_of(job["user"])) if charged else "",
                # In an association of the site another QOS may be the default one.
                qos=level or (accounting.FIRST_QOS if named and job["qos_name"] == accounting.FIRST_QOS else ""),
                memory=memory,
                dependency=job["dependency"],
                follows=job["follows"],
                think=job["think_virtual"] or 0.0,
                extras={name: job[name] for name in submissions.EXTRA_COLUMNS if job.get(name)},
                request=what,
                owner=job_users.name_of(job["user"]) if has_owners else "",
            )
            for index, (job, due, run_time, partition, level, memory, limit, what) in enumerate(
                zip(jobs, dues, run_times, asked.partitions, asked.qos, asked.memory, asked.limits, asked.asked, strict=True)
            )
        ]
        logged = self.workload.jobs
        if (
            "array_job" not in logged.columns
            or configuration.of(self.knobs.scheduler).rm != SLURM
            or aspects.needs(self.knobs).no_arrays
        ):
            return rows
        return submissions.with_arrays(rows, logged["array_job"].to_list(), logged["array_limit"].to_list())

    def _with_fractions(self) -> tuple[list[float], list[float]]:
        """Instants of submissions and run times; on the event clock with fractions of seconds from SEED. Groups of jobs that are
        submitted together, and jobs whose sizes an aspect decides, stay as they are."""
        jobs, seed = self.workload.jobs, self.knobs.workload.seed
        run_times: list[float] = jobs["runtime_virtual"].to_list()
        if self.knobs.clock.speed != EVENT:
            return self.dues, run_times
        groups, has_sizes = self.knobs.jobs.groups, aspects.needs(self.knobs).own_sizes
        arrays = jobs["array_job"].to_list() if "array_job" in jobs.columns else None
        dues = self.dues if groups else fractions.submissions(self.dues, self.workload.presets(), seed, self.replica, arrays)
        return dues, run_times if has_sizes else fractions.run_times(run_times, seed, self.replica)

    def write(self, folder: Path, experiment: dict[str, Any], run: str = "") -> None:
        """Create results/RUN with its inputs in one step. run: name of the run on the head, by default that of the folder."""
        new = folder.parent / f".new-{folder.name}"
        try:
            new.mkdir(parents=True, exist_ok=True)
            self._write_into(new, run or folder.name, experiment)
            if folder.exists():
                folder.rmdir()
            new.rename(folder)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def write_again(self, folder: Path, run: str = "") -> None:
        """Replace the inputs in the folder, after the speed was chosen or the run got another name."""
        self._write_into(folder, run or folder.name, RunFolder(folder).experiment)

    def _write_into(self, folder: Path, run: str, experiment: dict[str, Any]) -> None:
        swf.write_swf(self.workload.to_swf(), header_of(self.knobs.nodes.machine), folder / WORKLOAD_SWF_FILE)
        write_atomically(folder / WORKLOAD_FILE, self.jobs.write_csv())
        if self.recorded is not None:
            write_atomically(folder / RECORDED_FILE, self.recorded.write_csv())
        site.write(self.knobs.scheduler, folder / site.LEFT_OUT)
        try:
            submissions.write_plan(folder / PLAN_FILE, self.plan(run))
        except WrongUse as error:
            source = self.knobs.workload.site or self.knobs.workload.trace
            raise WrongUse(f"{source}: {error.message}", "site" if self.knobs.workload.site else "trace") from None
        selection = {
            "excluded": self.workload.excluded,
            "notes": self.workload.notes,
            "requests": self.requests.counts,
            "limits": self.workload.limits,
            "slack": SLACK,
            "estimate": self.estimate(),
            "estimate_real": self.real_estimate(),
        }
        if self.events:
            write_atomically(folder / EVENTS_FILE, as_csv(self.events))
        if self.knobs.workload.site:
            experiment = experiment | {"site": self.site}
        write_json(folder / EXPERIMENT_FILE, experiment | {"workload": selection})
