"""From knobs to what a run needs before a cluster is touched: its workload, its plan, an estimate."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from mirage.experiment import configuration, site
from mirage.knobs.machine import Machine
from mirage.knobs.table import Value
from mirage.terminal.screen import about
from mirage.traces import swf
from mirage.traces.local_time import LocalTime
from mirage.traces.trace import Trace, read_trace
from mirage.workloads import models, requests, routing
from mirage.workloads.selection import Selection
from mirage.workloads.workload import Workload, prepare
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.jobs import plan as submissions
from slurm_mirage.rm.slurm import accounting

# Virtual seconds between a job's end and its time limit that cover its launch, so that a job which uses its
# whole limit is not killed for the time that Slurm takes to start it. The same at every speed, so that a scheduler plans by
# the same limits: what a launch takes longer on a fast clock is left to OverTimeLimit (speed_settings.py).
SLACK = 10.0
# Samples over a run, and real seconds between two at most.
SAMPLES, LONGEST_SAMPLE = 60, 10.0


# A generated workload where MODEL and JOBS say nothing.
DEFAULT_MODEL, DEFAULT_JOBS = "raijin", 1000
LOAD_OF_A_LOG = "LOAD: a log has its own load; it may be given for a workload that is generated, without TRACE"


@dataclass(frozen=True)
class Source:
    """Where the jobs come from: a log, or the generator; and what experiment.json says of it."""

    trace: Trace
    description: dict[str, Any]


def number_of(value: Value) -> float:
    """A knob's number as the float that the pure functions take."""
    assert isinstance(value, (int, Decimal))
    return float(value)


def whole_of(value: Value) -> int:
    """The same for whole numbers."""
    assert isinstance(value, int)
    return value


def speed_of(knobs: dict[str, Value]) -> float | None:
    """How many times faster than real time the cluster lives; None as long as `auto` has not picked it."""
    speed = knobs["SPEED"]
    return float(speed) if isinstance(speed, Decimal) else None


def machine_of(knobs: dict[str, Value]) -> Machine:
    """The emulated machine."""
    if isinstance(machine := knobs["CLASSES"], Machine):
        return machine
    return Machine.of_equal_nodes(whole_of(knobs["NODES"]), whole_of(knobs["CPUS"]))


def selection_of(knobs: dict[str, Value]) -> Selection:
    """Which jobs of a log are wanted."""
    queues, users = (tuple(name.strip() for name in str(knobs[knob]).split(",") if name) for knob in ("QUEUES", "USERS"))
    return Selection(
        jobs=None if knobs["JOBS"] is None else whole_of(knobs["JOBS"]),
        offset=whole_of(knobs["OFFSET"]),
        min_runtime=number_of(knobs["MIN_RUNTIME"]),
        begin=str(knobs["FROM"] or ""),
        end=str(knobs["TO"] or ""),
        queues=queues,
        users=users,
    )


def source(knobs: dict[str, Value]) -> Source:
    """Read TRACE, or generate the workload of a run without one, by MODEL if that is given. Raises WrongUse for what is no log."""
    if knobs["TRACE"] and knobs["LOAD"] is not None:
        raise WrongUse(LOAD_OF_A_LOG)
    if not knobs["TRACE"] and knobs["MODEL"]:
        trace = generated(knobs)
        digest = hashlib.sha256(trace.frame.write_csv().encode()).hexdigest()
        made: dict[str, Any] = {
            "path": None,
            "generated": trace.header["Note"],
            "sha256": digest,
            "time": asdict(LocalTime.of(trace)),
        }
        return Source(replace(trace, sha256=digest), made)
    if not knobs["TRACE"]:
        machine = machine_of(knobs)
        frame = models.default_workload(machine.processors, whole_of(knobs["SEED"]))
        # The jobs themselves, because another release may generate others from the same seed.
        digest = hashlib.sha256(frame.write_csv().encode()).hexdigest()
        trace = Trace(frame, header_of(machine), {}, "generated", digest)
        return Source(trace, {"path": None, "generated": "default_workload", "sha256": digest})
    path = Path(str(knobs["TRACE"]))
    trace = read_trace(path)
    about_it: dict[str, Any] = {
        "path": str(path.resolve()),
        "format": trace.format,
        "sha256": trace.sha256,
        "jobs": trace.frame.height,
        "notes": trace.notes,
        "time": asdict(LocalTime.of(trace)),
    }
    return Source(trace, about_it)


def generated(knobs: dict[str, Value]) -> Trace:
    """The JOBS jobs (DEFAULT_JOBS if it says nothing) that MODEL generates for the machine."""
    model, seed, machine = str(knobs["MODEL"] or DEFAULT_MODEL), whole_of(knobs["SEED"]), machine_of(knobs)
    count = DEFAULT_JOBS if knobs["JOBS"] is None else whole_of(knobs["JOBS"])
    load = None if knobs["LOAD"] is None else number_of(knobs["LOAD"])
    frame = models.generate(model, count, seed, machine.processors, load=load)
    return Trace(frame, models.header(model, seed, machine.processors, machine.nodes, load=load), {}, "generated", "")


def header_of(machine: Machine) -> dict[str, str]:
    """What an SWF header says of a machine."""
    return {"MaxProcs": str(machine.processors), "MaxNodes": str(machine.nodes)}


def workload(knobs: dict[str, Value], trace: Trace, shrink: Decimal) -> Workload:
    """Select and shrink the jobs. Raises WrongUse, for one that is wider than the cluster too."""
    return prepare(
        trace,
        # A generated workload has as many jobs as JOBS says.
        replace(selection_of(knobs), jobs=None) if knobs["MODEL"] and not knobs["TRACE"] else selection_of(knobs),
        classes=[(some.count, some.cpus) for some in machine_of(knobs).classes],
        slack=SLACK,
        shrink_percent=float(shrink),
        overrun=str(knobs["OVERRUN"]),
        sizes=str(knobs["SIZES"]),
        preset=str(knobs["PRESET"]),
        depend=str(knobs["DEPENDENCIES"]),
    )


def due_times(knobs: dict[str, Value], chosen: Workload) -> list[float]:
    """When each job is due, in virtual seconds after the start of the replay: presets at once, the others at their own times after
    them, or by the scheme of PERIOD, which counts them only."""
    submits = chosen.jobs["submit_virtual"].to_list()
    presets = chosen.presets()
    period = number_of(knobs["PERIOD"])
    dues = submissions.due_times(
        submits[presets:],
        warmup=whole_of(knobs["WARMUP"]),
        group=whole_of(knobs["GROUP"]),
        period=period,
        drift=number_of(knobs["DRIFT"]),
    )
    since = submits[presets] if period == 0 else 0.0
    return [0.0] * presets + [since + due for due in dues]


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start. Times in virtual seconds."""

    knobs: dict[str, Value]
    shrink: Decimal
    workload: Workload
    dues: list[float]

    @classmethod
    def make(cls, knobs: dict[str, Value], trace: Trace, shrink: Decimal) -> Prepared:
        if knobs["DEPENDENCIES"] == "think" and knobs["PERIOD"] != 0:
            raise WrongUse("DEPENDENCIES: think submits jobs at instants of their own, PERIOD in groups; give one of them")
        chosen = workload(knobs, trace, shrink)
        return cls(knobs, shrink, chosen, due_times(knobs, chosen))

    def executions(self) -> list[float]:
        """How long each job will run: a cancelled one no longer than until its cancellation."""
        rows = self.workload.jobs.select("ran", "runtime_virtual", "cancel_after_virtual").iter_rows()
        return [run if cancel is None else min(run, cancel) if ran else 0.0 for ran, run, cancel in rows]

    def estimate(self) -> float:
        """Seconds from the first submission to the last end, if no job waits, or if all processors are
        always busy: the longer of both. What a scheduler makes of it comes on top.
        """
        runs = self.executions()
        last_end = max(due + run for due, run in zip(self.dues, runs, strict=True))
        area = sum(run * width for run, width in zip(runs, self.workload.jobs["processors"].to_list(), strict=True))
        return max(last_end, self.dues[0] + float(area) / machine_of(self.knobs).processors)

    def real_estimate(self) -> float | None:
        """The same in real seconds; None as long as SPEED=auto has picked no speed."""
        speed = speed_of(self.knobs)
        return None if speed is None else self.estimate() / speed

    def sample_interval(self) -> float:
        """Real seconds between two samples of the host and of Slurm: SAMPLES of them at least, but none faster than 1 s."""
        return min(LONGEST_SAMPLE, max(1.0, (self.real_estimate() or 0.0) / SAMPLES))

    def announcement(self) -> str:
        """What will be done, and about how long it takes: `100 jobs, and 34 preset, longest 6 min, about 9 min`.

        On a virtual clock: `100 jobs, longest 6 h, 9 h of the cluster's time: about 5 min at SPEED=100`.
        """
        presets = self.workload.presets()
        count = self.workload.jobs.height - presets
        jobs = "1 job" if count == 1 else f"{count} jobs"
        jobs += f", and {presets} preset" if presets else ""
        jobs += f", longest {about(max(self.executions()))}"
        if self.knobs["SPEED"] == 1:
            return f"{jobs}, about {about(self.estimate())}"
        return f"{jobs}, {in_both_times(self.estimate(), speed_of(self.knobs))}"

    @cached_property
    def requests(self) -> requests.Requests:
        """Partition, QOS and memory that each job is submitted with: the configuration's rules go over what the log says."""
        config = configuration.of(self.knobs)
        seed = whole_of(self.knobs["SEED"])
        partitions, qos = (routing.routes(self.workload.jobs, config.routing, seed, goal) for goal in routing.GOALS)
        there = configuration.offer(config, self.knobs, machine_of(self.knobs))
        return requests.requests_of(self.workload.jobs, partitions, qos, there, float(self.shrink) / 100)

    def plan(self, run: str) -> list[submissions.PlanRow]:
        """The rows of plan.csv for a run of that name."""
        charged = configuration.of(self.knobs).has_accounting(self.knobs)
        asked = self.requests
        jobs = self.workload.jobs.iter_rows(named=True)
        return [
            submissions.PlanRow(
                index=index,
                id=job["id"],
                due=due,
                processors=job["processors"],
                nodes=job["nodes_wanted"],
                runtime=job["runtime_virtual"],
                limit_minutes=limit,
                cancel_after=job["cancel_after_virtual"],
                partition=partition,
                name=f"{run}.{job['id']}",
                account=accounting.account_of(job["user"]) if charged else "",
                qos=level,
                memory=memory,
                dependency=job["dependency"],
                follows=job["follows"],
                think=job["think_virtual"] or 0.0,
            )
            for index, (job, due, partition, level, memory, limit) in enumerate(
                zip(jobs, self.dues, asked.partitions, asked.qos, asked.memory, asked.limits, strict=True)
            )
        ]

    def write(self, folder: Path, experiment: dict[str, Any], run: str = "") -> None:
        """Make results/RUN with its inputs, in one step. run: its name on the head, by default the folder's."""
        new = folder.parent / f".new-{folder.name}"
        new.mkdir(parents=True, exist_ok=True)
        self._write_into(new, run or folder.name, experiment)
        if folder.exists():
            folder.rmdir()
        new.rename(folder)

    def write_again(self, folder: Path, run: str = "") -> None:
        """Put the inputs of this preparation in the place of another one's, which did not know the speed yet, or the run's name."""
        self._write_into(folder, run or folder.name, read_json(folder / "experiment.json") or {})

    def _write_into(self, folder: Path, run: str, experiment: dict[str, Any]) -> None:
        swf.write_swf(self.workload.to_swf(), header_of(machine_of(self.knobs)), folder / "workload.swf")
        self.workload.jobs.write_csv(folder / "workload.csv")
        site.write(self.knobs, folder)
        submissions.write_plan(folder / "plan.csv", self.plan(run))
        selection = {
            "excluded": self.workload.excluded,
            "notes": self.workload.notes,
            "requests": self.requests.counts,
            "limits": self.workload.limits,
            "slack": SLACK,
            "estimate": self.estimate(),
            "estimate_real": self.real_estimate(),
        }
        write_json(folder / "experiment.json", experiment | {"workload": selection})


def in_both_times(virtual: float, speed: float | None) -> str:
    """A length of the cluster's time, and how long that is: `9 h of the cluster's time: about 5 min at SPEED=100`."""
    told = f"{about(virtual)} of the cluster's time"
    return f"{told}, at a SPEED to be picked" if speed is None else f"{told}: about {about(virtual / speed)} at SPEED={speed:g}"
