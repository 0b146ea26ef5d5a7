"""The folder of a run: its files, and what reads the records of its resource manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.records.file_names import (
    CALIBRATION_FILE,
    COMPARISON_FILE,
    COMPLAINTS_FILE,
    DETAILS_FILE,
    EXPERIMENT_FILE,
    JOURNAL_FILE,
    METRICS_FILE,
    OFFSETS_FILE,
    PLAN_FILE,
    PREDICTION_FILE,
    PROGRESS_FILE,
    QUEUE_FILE,
    RECORDED_FILE,
    RESULT_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    SEARCH_FILE,
    SHARES_FILE,
    STATUS_FILE,
    WAITS_FILE,
    WORKLOAD_FILE,
)
from mirage.records.shapes import (
    CALIBRATION_JSON,
    COMPARISON_JSON,
    COMPLAINTS_JSON,
    EXPERIMENT_JSON,
    JUDGED_JSON,
    MEASURED_JSON,
    METRICS_JSON,
    OFFSETS_JSON,
    PREDICTION_JSON,
    QUEUE_JSON,
    SEARCH_JSON,
    STATUS_JSON,
    WAITED_JSON,
)
from slurm_mirage.base import strict_json
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_files import PROGRESS, RESULT, RUN_SETTINGS
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.base.strict_json import OBJECT, Damaged, Shape, without_null
from slurm_mirage.jobs.plan import PlanRow, read_plan
from slurm_mirage.replay.details import details_in
from slurm_mirage.replay.journal import replay_lines
from slurm_mirage.rm.api import Freed, JobDetails, Records
from slurm_mirage.rm.evidence import Layout, Scheduling
from slurm_mirage.rm.managers import DEFAULT, KEY
from slurm_mirage.rm.registry import IMPLEMENTATIONS

# Commands that read no tables, such as make status, do not load polars.
if TYPE_CHECKING:
    import polars as pl

    from mirage.records.run_records import Journal, SigsleepRecords

NOT_OF_THIS_RELEASE = ": it is not of this release"


@dataclass(frozen=True)
class RunFolder:
    """A run's folder; those of a sweep and of a comparison have some of its files, too.

    Each file is read once, when it is first asked for. The results of the `read_` methods, which only the join of the records
    needs, are not kept. A file that is written later is not read again; use another RunFolder. A JSON file that is not there is
    empty. Everything raises Damaged for JSON of another shape, and WrongUse for other files that cannot be read.
    """

    path: Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    def has(self, name: str) -> bool:
        """Whether the folder has the file."""
        return (self.path / name).exists()

    @cached_property
    def _contents(self) -> dict[str, Any]:
        """Contents of the JSON files that were read and exist, by name."""
        return {}

    def _json(self, name: str, shape: Shape) -> Any:
        """The content of a JSON file; None without one."""
        path = self.path / name
        if name not in self._contents:
            try:
                self._contents[name] = strict_json.read(path)
            except FileNotFoundError:
                return None
        if fault := shape.fault(self._contents[name], ""):
            raise Damaged(f"{path}: {fault}{NOT_OF_THIS_RELEASE if fault.endswith(' is missing') else ''}")
        return self._contents[name]

    def _object(self, name: str, shape: Shape) -> dict[str, Any]:
        """The content of a JSON file that is an object; empty without one."""
        content: dict[str, Any] | None = self._json(name, shape)
        return content or {}

    # ---- the run ----

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """experiment.json: the inputs of the run, and where it was begun."""
        return self._object(EXPERIMENT_FILE, EXPERIMENT_JSON)

    @cached_property
    def status(self) -> dict[str, Any]:
        """status.json: how the command of the run ended."""
        return self._object(STATUS_FILE, STATUS_JSON)

    @cached_property
    def calibration(self) -> dict[str, Any]:
        """calibration.json: the speed that was chosen for the run."""
        return self._object(CALIBRATION_FILE, CALIBRATION_JSON)

    @cached_property
    def workload(self) -> pl.DataFrame:
        """workload.csv: a row for each job."""
        import polars as pl

        from mirage.traces.csv_frame import check_lines

        path = self.path / WORKLOAD_FILE
        check_lines(path, "run")
        try:
            return pl.read_csv(path, infer_schema_length=None)
        except pl.exceptions.PolarsError as error:
            raise WrongUse(f"{path}: cannot be read ({error})", parameter="run") from error

    @cached_property
    def recorded(self) -> pl.DataFrame | None:
        """recorded.csv: what the log records of the jobs; None without one."""
        from mirage.records.recorded import read_recorded

        return read_recorded(self.path / RECORDED_FILE, "run") if self.has(RECORDED_FILE) else None

    def read_plan(self) -> list[PlanRow]:
        """plan.csv: what was to be submitted."""
        return read_plan(self.path / PLAN_FILE)

    # ---- the resource manager ----

    @cached_property
    def _run_settings(self) -> RunSettings:
        return RunSettings(self.path / RUN_FILE, self._object(RUN_FILE, OBJECT))

    @cached_property
    def manager_name(self) -> str:
        """Name of the resource manager; Slurm's without a run.json that names another one."""
        return self._run_settings.text(KEY, DEFAULT)

    @cached_property
    def manager(self) -> Records:
        """What reads the records of the resource manager."""
        return self._run_settings.one_of(KEY, IMPLEMENTATIONS, DEFAULT).records

    @cached_property
    def configuration(self) -> str:
        """The configuration in force during the run; empty if it was not collected."""
        return self.manager.configuration(self.path)

    @cached_property
    def scheduling(self) -> Scheduling:
        """What the resource manager did by itself."""
        return self.manager.scheduling(self.configuration)

    @cached_property
    def layout(self) -> Layout | None:
        """The machine as its configuration describes it; None if it does not."""
        return self.manager.layout(self.path)

    def machine(self, processors: int, nodes: int) -> Layout:
        """The machine of the run; equal nodes if it has no configuration that describes `nodes` nodes."""
        layout = self.layout
        return layout if layout and len(layout.nodes) == nodes else Layout.of_equal(processors, nodes)

    # ---- the records of the jobs ----

    @cached_property
    def settings(self) -> dict[str, Any]:
        """run.json. Raises WrongUse unless it has the numbers speed and shrink_percent."""
        if not (settings := self._object(RUN_FILE, RUN_SETTINGS)):
            raise WrongUse(f"{self.path / RUN_FILE}: is not there", parameter="run")
        return settings

    @cached_property
    def start(self) -> dict[str, Any] | None:
        """The first event of the journal, the start of the replay; None without a journal."""
        if not self.has(JOURNAL_FILE):
            return None
        with (self.path / JOURNAL_FILE).open("rb") as stream:
            return replay_lines(stream.readline())[0].start

    @cached_property
    def journal(self) -> Journal:
        """journal.jsonl, the events of the replay. Raises WrongUse if the replay has not begun."""
        from mirage.records.run_records import read_journal

        return read_journal(self.path / JOURNAL_FILE)

    def read_completions(self) -> pl.DataFrame:
        """The manager's record of ended jobs (`run_records.read_completions`)."""
        from mirage.records.run_records import read_completions

        return read_completions(self.path / self.manager.completions_file, self.manager, self.journal.completion_offset)

    def read_details(self) -> list[JobDetails]:
        """suspended.jsonl: what the manager said of jobs after their end; torn lines are left out."""
        from mirage.records.run_records import read_bytes

        return list(details_in(read_bytes(self.path / DETAILS_FILE), self.manager)) if self.has(DETAILS_FILE) else []

    def read_freed(self) -> Freed:
        """When the processors of the jobs were free again."""
        return self.manager.freed(self.path)

    def read_sigsleep(self) -> SigsleepRecords:
        """The jobs' own records."""
        from mirage.records.run_records import read_sigsleep

        return read_sigsleep(self.path)

    def read_queue(self) -> list[Mapping[str, Any]]:
        """queue.json: jobs that had not ended when the records were collected."""
        queue: list[Mapping[str, Any]] | None = self._json(QUEUE_FILE, QUEUE_JSON)
        return queue or []

    # ---- what was measured beside the jobs ----

    @cached_property
    def samples(self) -> pl.DataFrame:
        """samples.csv: the state of the cluster and of the host in the course of the run (`run_samples.read_figures`)."""
        from mirage.records.run_samples import read_figures

        return read_figures(self.path / SAMPLES_FILE)

    @cached_property
    def shares(self) -> pl.DataFrame:
        """shares.csv: shares, usage and fair-share factors of the accounts in the course of the run."""
        from mirage.records.run_samples import read_figures

        return read_figures(self.path / SHARES_FILE, texts=("account",))

    @cached_property
    def diagnostics(self) -> pl.DataFrame:
        """The manager's diagnostics in the course of the run; those of the backfill scheduler as in BACKFILL_DIAGNOSTICS."""
        from mirage.records.run_samples import read_figures

        figures = read_figures(self.path / self.manager.diagnostics_file)
        names = {own: name for own, name in self.manager.diagnostic_names.items() if name not in figures.columns}
        return figures.rename(names, strict=False)

    @cached_property
    def progress(self) -> dict[str, Any]:
        """progress.json: the state of the replay when the records were collected."""
        return self._object(PROGRESS_FILE, PROGRESS)

    @cached_property
    def result(self) -> dict[str, Any]:
        """result.json, what the replay found at its end; progress.json without it."""
        return without_null(self._object(RESULT_FILE, RESULT) or self.progress)

    @cached_property
    def clock_offsets(self) -> dict[str, Any]:
        """clock_offsets.json of a run on several hosts: lists `before` and `after` of measurements of `clock_offset` by host."""
        return without_null(self._object(OFFSETS_FILE, OFFSETS_JSON))

    @cached_property
    def complaints(self) -> dict[str, Any]:
        """complaints.json; empty if it was not collected.

        `head` is the name of the head; `counts` and `lines` have, by host and kind, the number of the daemons' error messages and
        the first of them; `events` has the list of the farm's events by host (slurm_mirage/farm/events.py).
        """
        return without_null(self._object(COMPLAINTS_FILE, COMPLAINTS_JSON))

    # ---- the results ----

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """metrics.json."""
        return self._object(METRICS_FILE, METRICS_JSON)

    @cached_property
    def measured(self) -> dict[str, Any]:
        """metrics.json, of which only the values of the metrics and the verdict are checked."""
        return self._object(METRICS_FILE, MEASURED_JSON)

    @cached_property
    def validity(self) -> dict[str, Any]:
        """The verdict in metrics.json; nothing else of it is checked."""
        validity: dict[str, Any] = self._object(METRICS_FILE, JUDGED_JSON).get("validity", {})
        return validity

    @cached_property
    def wait_causes(self) -> dict[str, Any] | None:
        """Why jobs waited, in metrics.json, of which nothing else is checked; None without the file."""
        member: dict[str, Any] | None = self._object(METRICS_FILE, WAITED_JSON).get("wait_causes")
        return member

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """comparison.json."""
        return self._object(COMPARISON_FILE, COMPARISON_JSON)

    @cached_property
    def search(self) -> dict[str, Any]:
        """search.json."""
        return self._object(SEARCH_FILE, SEARCH_JSON)

    @cached_property
    def prediction(self) -> dict[str, Any]:
        """predict.json."""
        return self._object(PREDICTION_FILE, PREDICTION_JSON)

    @cached_property
    def waits(self) -> pl.DataFrame:
        """waits.csv: why jobs waited, columns of `WAITS_SCHEMA`. Raises WrongUse if it is not there."""
        from mirage.metrics.jobs_frame import WAITS_SCHEMA
        from mirage.traces.csv_frame import read_csv

        return read_csv(self.path / WAITS_FILE, WAITS_SCHEMA, "run")
