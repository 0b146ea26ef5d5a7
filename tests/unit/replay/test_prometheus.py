"""metrics.prom: read by Prometheus' own parser, and by a strict reading of the format beside it."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import line_values
import pytest
from hypothesis import given

from slurm_mirage.replay import prometheus
from slurm_mirage.replay.monitor import Status
from slurm_mirage.rm.api import DiagnosticMetric
from slurm_mirage.rm.slurm.commands import Slurm

METRICS = (*prometheus.REPLAY_METRICS, *prometheus.CLOCK_AND_HOST_METRICS, *prometheus.BY_STATE)
DIAGNOSTICS = Slurm.records.diagnostic_metrics
DOCUMENT = (Path(__file__).parents[3] / "docs/live.md").read_text()
LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"(?P<name>[a-z_]+)\{{(?P<labels>{LABEL}(?:,{LABEL})*)\}} (?P<value>\S+)")


def full() -> dict[str, Any]:
    """progress.json in the middle of a run."""
    status = Status(
        "one", 200, "mirage", 500.0, phase="submitting", submitted=132, running=41, pending=12, done=79, lag=0.008,
        retries=2, resubmitted=1, elapsed=75.25, time_left_least=41.5, time_left_most=60.0, nodes_not_responding=3,
        states={"running": 40, "pending": 12, "suspended": 1}, ended={"completed": 78, "node_fail": 1},
        processors=240, processors_busy=172, nodes={"idle": 17, "allocated": 43},
        scheduler={"bf_last_cycle_us": 7289, "bf_max_cycle_us": 48165, "bf_last_depth": 5, "bf_queue_length": 6,
                   "main_last_cycle_us": 16, "server_threads": 3, "agent_queue": 7, "data_since": None},
        cpu_busy=0.445, memory_available_bytes=23818407936, real=1795236588.687, virtual=1795274188.5,
    )  # fmt: skip
    return asdict(status)


def values(text: str) -> dict[str, float]:
    """The samples by name and labels, without what all have: the prefix slurm_mirage_ and the labels cluster and run."""
    found = {}
    for match in SAMPLE.finditer(text):
        labels = [word for word in match["labels"].split(",") if not word.startswith(("cluster=", "run="))]
        found["".join([match["name"].removeprefix("slurm_mirage_"), *labels])] = float(match["value"])
    return found


def test_values_are_in_base_units() -> None:
    told = values(prometheus.render(full(), DIAGNOSTICS))
    assert told["backfill_last_cycle_seconds"] == 0.007289
    assert told["backfill_max_cycle_seconds"] == 0.048165
    assert told["host_memory_available_bytes"] == 23818407936
    assert told["host_cpu_busy_ratio"] == 0.445
    assert told["virtual_time_seconds"] == 1795274188.5
    assert told["processors_busy"], told["processors"] == (172, 240)
    assert told['jobs_ended_totalstate="completed"'] == 78


def test_lengths_are_real_on_the_event_clock() -> None:
    """There progress.json has virtual ones, and how many virtual seconds a real one has."""
    progress = {**full(), "speed": 1.0, "pace": 2000.0, "elapsed": 50_000.0, "real_left_least": 20.0, "real_left_most": 30.0}
    told = values(prometheus.render(progress, DIAGNOSTICS))
    assert told["clock_speed_ratio"] == 2000.0
    assert told["run_elapsed_seconds"] == 25.0
    assert (told["run_left_least_seconds"], told["run_left_most_seconds"]) == (20.0, 30.0)
    assert "run_left_most_seconds" not in values(prometheus.render({**progress, "real_left_most": None}, DIAGNOSTICS))


def test_every_line_is_of_the_format_and_each_family_is_told_once() -> None:
    text = prometheus.render(full(), DIAGNOSTICS)
    assert text.endswith("\n")
    family, kinds = "", {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in kinds
        elif line.startswith("# TYPE "):
            _, _, name, kinds[family] = line.split()
            assert name == family
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None and match["name"] == family, line
            assert match["labels"].startswith('cluster="mirage",run="one"')
    assert all((kind == "counter") == name.endswith("_total") for name, kind in kinds.items())


def test_prometheus_reads_it() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="skipped: prometheus_client is not there")
    text = prometheus.render({**full(), "run": 'a "b"\\c\nd'}, DIAGNOSTICS)
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert len(families) == len(METRICS) + len(DIAGNOSTICS) + 1
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families.values())
    submitted = families["slurm_mirage_jobs_submitted"]
    assert (submitted.type, submitted.samples[0].value) == ("counter", 132)
    assert submitted.samples[0].labels == {"cluster": "mirage", "run": 'a "b"\\c\nd'}
    jobs = {sample.labels["state"]: sample.value for sample in families["slurm_mirage_jobs"].samples}
    assert jobs == {"running": 40, "pending": 12, "suspended": 1, "completing": 0, "configuring": 0, "other": 0}


def test_what_is_not_known_yet_is_left_out() -> None:
    told = values(prometheus.render(asdict(Status("one", 200)), DIAGNOSTICS))
    assert "processors" not in told and "run_left" not in told and "backfill_depth_jobs" not in told
    assert told["workload_jobs"] == 200
    assert told['run_phasephase="waiting"'] == 1


def test_a_short_progress_is_told_as_far_as_it_goes() -> None:
    told = values(prometheus.render({"run": "one", "jobs": 3, "submitted": 2, "phase": "finished"}, DIAGNOSTICS))
    assert told["jobs_submitted_total"] == 2
    assert [name for name, value in told.items() if name.startswith("run_phase") and value] == ['run_phasephase="finished"']


def test_a_reader_never_meets_half_of_it(tmp_path: Path) -> None:
    path = tmp_path / prometheus.NAME
    prometheus.write(path, full(), DIAGNOSTICS)
    before = path.stat().st_ino
    with path.open() as stream:
        prometheus.write(path, {**full(), "submitted": 133}, DIAGNOSTICS)
        assert values(stream.read())["jobs_submitted_total"] == 132
    assert values(path.read_text())["jobs_submitted_total"] == 133
    assert path.stat().st_ino != before
    assert [other.name for other in tmp_path.iterdir()] == [prometheus.NAME], "nothing that a collector would read too"


@pytest.mark.parametrize("metric", [*METRICS, *DIAGNOSTICS, prometheus.PHASE], ids=lambda metric: metric.name)
def test_the_document_lists_it(metric: prometheus.Metric | DiagnosticMetric) -> None:
    kind = metric.kind if isinstance(metric, prometheus.Metric) else "gauge"
    assert f"| `{metric.name}` | {kind} |" in DOCUMENT


@given(line_values.values)
def test_any_label_is_one_value_of_one_sample(text: str) -> None:
    rendered = prometheus.render({**full(), "run": text, "nodes": {text: 3}}, DIAGNOSTICS)
    lines = [line for line in rendered.split("\n")[:-1] if not line.startswith("#")]
    matches = [SAMPLE.fullmatch(line) for line in lines]
    assert all(matches)
    escapes = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
    for match in filter(None, matches):
        label = re.search(r'run="((?:[^"\\\n]|\\["\\n])*)"', match["labels"])
        assert label is not None
        read = re.sub(r'\\["\\n]', lambda escape: escapes[escape[0]], label[1])
        assert read == text.encode(errors="backslashreplace").decode()
