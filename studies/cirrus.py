"""`make study STUDY=cirrus TRACE=record SLURM_CONF=slurm.conf`: EPCC's Cirrus, emulated beside its record (studies/cirrus.md).

Each window of the record is a comparison of its own (results/STUDY-WINDOW), whose arms are the models of unknowns.py, so that an
interrupted study goes on as `make compare` does. results/STUDY holds the models' logs, study.csv and study.html over all windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mirage.campaign.arms import Arms
from mirage.campaign.campaign import Campaign
from mirage.experiment import clock_choice, configuration, runs
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Value
from mirage.terminal.screen import Screen
from mirage.text.words import counted
from mirage.traces.trace import Trace, read_trace
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically
from slurm_mirage.base.hostlist import expand
from studies import unknowns
from studies.beside_record import Played, played_of, write
from studies.own_knobs import chosen, name_of, refuse
from studies.unknowns import BASE, DAY, EPOCH, HOUR, MODELS, Model

NAME = "study-cirrus"
KNOBS = {"PRESET": "all", "REPLICAS": "1", "ACCOUNTING": "no"}
OWN = ("MODEL", "CONFIGS", "OFFSET", "JOBS", "FROM", "TO", "ESTIMATES", "SIZES")
"""Knobs that the study chooses."""
PARTITION, CPUS = "standard", 36
ABOUT = "The real slurmctld with the slurm.conf of EPCC's Cirrus plays its record of January 2024."
SHORT_MODELS = (BASE, "exact", "x5", "peak")


@dataclass(frozen=True)
class Window:
    """A part of the record, in seconds of it. words: what it is. fifo: mean wait of its jobs in ElastiSim's published schedule."""

    name: str
    words: str
    begin: float
    end: float
    fifo: float | None = None

    def knobs(self) -> dict[str, str]:
        """FROM and TO."""
        dates = (datetime.fromtimestamp(EPOCH + one, UTC).replace(tzinfo=None).isoformat() for one in (self.begin, self.end))
        return dict(zip(("FROM", "TO"), dates, strict=True))


SHORT_WINDOWS = (Window("day", "the day whose mean wait is the nearest to that of the whole record", 22 * DAY, 23 * DAY, 1171.0),)
WINDOWS = (
    Window("quiet", "three days with short waits", 15 * DAY, 18 * DAY, 18087.0),
    Window("between-1", "three days between", 8 * DAY, 11 * DAY, 5370.0),
    Window("between-2", "three days between", 20 * DAY, 23 * DAY, 8104.0),
    Window("full", "three days with a full machine", 26 * DAY, 29 * DAY, 53813.0),
)
RECORD_SHA256 = "34fd22adfb282612f7584313466b7c3925406e142a8df90bc606492bb0693e70"
"""Of the published record, to whose jobs `Window.fifo` belongs."""


def study_cirrus(given: Knobs, screen: Screen) -> Ending:
    """Play each window under each model, or go on where an earlier command stopped, and make the page."""
    refuse(given, NAME, OWN)
    for knob, path in (("trace", given.workload.trace), ("slurm_conf", given.scheduler.slurm_conf)):
        if not path:
            raise WrongUse(f"{NAME} needs a file of EPCC's; studies/cirrus.md says where it is", parameter=knob)
    record = read_trace(Path(str(given.workload.trace)))
    is_full, name = given.campaign.is_full, name_of(given, NAME)
    windows = WINDOWS if is_full else SHORT_WINDOWS
    models = {label: model for label, model in MODELS.items() if is_full or label in SHORT_MODELS}
    folder = runs.RESULTS / name
    logs = _write_logs(folder, record, models, given.workload.seed)
    screen.say(f"{counted(len(windows), 'window')} of the record, each under {counted(len(models), 'model')} of what it lacks")
    found: list[Played] = []
    endings: list[Ending] = []
    for window in windows:
        knobs = chosen(given, {**KNOBS, **window.knobs(), "RUN": f"{name}-{window.name}"}).with_values({"TRACE": str(logs[BASE])})
        arms = arms_of(knobs, window, record, models, logs, folder)
        campaign = Campaign.of(knobs, clock_choice.chosen(knobs, screen), arms)
        ending = campaign.run(screen)
        if not ending.is_final:
            return ending
        endings.append(ending)
        found.append(_played(campaign, record, window))
        write(folder, ABOUT, found, models)
        screen.say(f"study: results/{name}/study.html")
    told = "; ".join(one.in_words() for one in found)
    return next((one for one in endings if one.word != "ok"), Ending("ok", f"mean waits {told} (results/{name}/study.html)"))


def _played(campaign: Campaign, record: Trace, window: Window) -> Played:
    """The schedules of a window whose campaign is finished."""
    knobs = campaign.prepared[BASE].knobs
    partition = configuration.of(knobs.scheduler).offer(knobs, knobs.nodes.machine).partitions[PARTITION]
    processors = sum(kind.count * kind.cpus for kind in partition.nodes)
    published = window.fifo if record.sha256 == RECORD_SHA256 else None
    hours = f"from hour {window.begin / HOUR:.0f} to hour {window.end / HOUR:.0f} of the record"
    fewer = {label: CPUS * _in_service(record, window) for label, model in MODELS.items() if model.is_peak}
    return played_of(campaign, processors, CPUS, window.name, f"{window.words}, {hours}", published, fewer)


def _in_service(record: Trace, window: Window) -> int:
    """The fewest nodes that hold what the record had in use at once in a window."""
    return -(-unknowns.peak(record.frame, window.begin, window.end) // CPUS)


def _write_logs(folder: Path, record: Trace, models: Mapping[str, Model], seed: int) -> dict[str, Path]:
    """Write the log of each model, and return their paths. Raises WrongUse for a record that does not reach the last window."""
    submits = record.frame["submit"]
    last = max(window.end for window in (*SHORT_WINDOWS, *WINDOWS))
    if not (record.frame["wait"] > 0).any() or float(submits.max() or 0.0) < last:  # type: ignore[arg-type]
        raise WrongUse(f"is not Cirrus's record of January 2024: it has no waits, or ends before second {last:.0f}", "trace")
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for label, model in models.items():
        paths[label] = folder / f"{label}.sacct.txt"
        write_atomically(paths[label], unknowns.log_of(record.frame, model, PARTITION, CPUS, seed))
    return paths


def arms_of(
    knobs: Knobs, window: Window, record: Trace, models: Mapping[str, Model], logs: Mapping[str, Path], folder: Path
) -> Arms:
    """The values of knobs of each model's runs in a window. folder: where files of events are written."""
    site = configuration.site_of(knobs.scheduler)
    partition = next((one for one in site.partitions if one["name"] == PARTITION), None) if site is not None else None
    if partition is None:
        raise WrongUse(f"has no partition {PARTITION}, as Cirrus's has", parameter="slurm_conf")
    assert site is not None
    is_all, listed = partition["Nodes"] == "ALL", partition["Nodes"]
    nodes = [name for of_class in site.nodes for name in of_class.each] if is_all else expand(listed)
    arms: dict[str, dict[str, Value]] = {}
    for label, model in models.items():
        arms[label] = {"TRACE": str(logs[label]), **model.knobs}
        if model.is_peak:
            path = folder / f"{window.name}-{label}.events.csv"
            write_atomically(path, unknowns.out_of_service(nodes, len(nodes) - _in_service(record, window)))
            arms[label]["EVENTS"] = str(path)
    return arms
