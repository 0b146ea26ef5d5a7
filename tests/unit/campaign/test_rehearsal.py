"""An upgrade rehearsal as far as it needs no cluster: which releases are read by, what it says, how it ends.

The runs are simulated: those of the second release wait longer by a factor. The releases' commands are programs that say what their
parsers would say.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import run_of, with_errors
from markdown_parts import ABLE, STRANGE, kinds
from other_managers import OTHERS

from mirage.campaign import campaign, releases
from mirage.campaign.campaign import Campaign
from mirage.commands.compare import compare
from mirage.experiment import preflight, runs
from mirage.experiment.endings import Ending
from mirage.experiment.lane import Lane
from mirage.knobs import resolve
from mirage.statistics.intervals import Floats
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json

SWF = """; MaxProcs: 8
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
"""
CONF = """LaunchType=launch/slurm
SchedulerParameters=bf_interval=30
NodeName=n[1-4] CPUs=2
PartitionName=batch Nodes=ALL Default=YES
"""
PARSER = """#!/bin/sh
if grep -q {word} "$SLURM_CONF"; then
    echo 'scontrol: error: _parse_next_key: Parsing error at unrecognized key: {word}' >&2
    exit 1
fi
"""
SHOWN = "PriorityType = {priority}\nSLURM_VERSION = {version}\n"
OLD, NEW = "22.05.8", "25.11.7"
WAITS = 3600 * np.random.default_rng(7).lognormal(0, 1, 100)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two builds, of which the newer one does not know LaunchType, in a folder that all users may read."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "two.swf").write_text(SWF)
    (tmp_path / "site.conf").write_text(CONF)
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for version, word in ((OLD, "Nothing"), (NEW, "LaunchType")):
            commands = Path(folder, f"slurm-{version}/bin")
            commands.mkdir(parents=True)
            (commands.parent / releases.STAMP).write_text(f"{version} sha256:{version[:2] * 32}\n")
            (commands / "scontrol").write_text(PARSER.format(word=word))
            (commands / "scontrol").chmod(0o755)
        monkeypatch.setattr(releases, "PREFIXES", Path(folder))
        monkeypatch.setattr(releases, "PACKAGED", Path(folder, "none"))
        yield tmp_path / "results"


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the runs of NEW wait as many times as long as those of OLD."""

    def use(factor: float, waits: Floats = WAITS, only: int | None = None) -> None:
        def play(planned: Campaign, *_: object) -> Ending | None:
            planned.folder.mkdir(exist_ok=True)
            write_json(planned.folder / "experiment.json", planned._description())
            for part in planned.played():
                label, replica = part.member.label, part.member.replica
                factors = np.ones(len(waits))
                factors[only if only is not None else slice(None)] = factor if label.startswith(NEW) else 1.0
                noise = 1 + 0.001 * replica
                run = with_errors(run_of(label, replica, waits * factors * noise), emulation=0.0001, replicas=0.005)
                part.folder.mkdir()
                run.jobs.write_csv(part.folder / "jobs.csv")
                clock = {"virtual_seconds": 8000.0, "real_seconds": 4.0 if label == OLD else 8.0, "scheduler_seconds": 2.5}
                validity = {**run.metrics["validity"], "event_clock": clock}
                write_json(part.folder / "metrics.json", {**run.metrics, "validity": validity})
                described = {"inputs": planned._inputs_of(part), "knobs": {"NODES": "4", "CPUS": "2"}}
                write_json(part.folder / "experiment.json", described)
                memory = 20480 if label == OLD else 40960
                (part.folder / "samples.csv").write_text(f"real,controller_memory_kb\n1.0,1024\n2.0,{memory}\n3.0,\n")
                priority = "priority/basic" if label == OLD else "priority/multifactor"
                (part.folder / "scontrol.txt").write_text(SHOWN.format(priority=priority, version=label))
                Ending("ok", "done").store(part.folder)
            return None

        monkeypatch.setattr(campaign, "InstanceUse", lambda *_: nullcontext())
        monkeypatch.setattr(preflight, "privileges", lambda _: None)
        monkeypatch.setattr(Campaign, "_run_rest", play)

    return use


def ended(**given: str) -> tuple[Ending, str]:
    told = {"SLURMS": f"{OLD} {NEW}", "TRACE": "two.swf", "RUN": "up", "SPEED": "event", "NODES": "4", "CPUS": "2", "REPLICAS": "3"}
    screen = Screen(stream := io.StringIO())
    return compare(
        resolve.resolve({name: text for name, text in (told | given).items() if text}, "compare"), screen
    ), stream.getvalue()


def test_releases_that_decide_alike_are_equivalent(on: Callable[..., None], results: Path) -> None:
    on(1.0)
    ending, told = ended()
    assert ending.word == "ok" and ending.message.startswith(f"{NEW} against {OLD}: equivalent within 5 % for these jobs")
    text = (results / "up/upgrade.md").read_text()
    assert text in told and text.startswith(f"# Slurm {NEW} instead of {OLD}\n")
    assert "Nowhere: in all 3 pairs of runs each of the 100 jobs starts and ends at the same instant." in text
    assert "| seconds of the cluster in a real second | 2,000 | 1,000 |" in text
    assert "| processor time of slurmctld in a run, s | 2.50 | 2.50 |" in text
    assert "| largest memory of slurmctld, MiB | 20 | 40 |" in text
    assert "- in force: `PriorityType: priority/basic -> priority/multifactor`" in text
    experiment = read_json(results / "up/experiment.json")
    assert experiment["inputs"][f"{NEW} SLURM_SOURCE"] == f"{NEW} sha256:{'25' * 32}"
    (results / "up/upgrade.md").unlink()
    assert ended(SLURMS="", NODES="", CPUS="", TRACE="", SPEED="", REPLICAS="")[0] == ending, "make compare RUN=up"
    assert (results / "up/upgrade.md").read_text() == text


def test_the_first_start_that_differs_is_named(on: Callable[..., None], results: Path) -> None:
    on(3.0, only=41)
    _, _ = ended()
    text = (results / "up/upgrade.md").read_text()
    assert "Starts that differ by more than a minute, of 100 jobs, with the same submissions: 1, 1, 1." in text
    (first,) = (line for line in text.splitlines() if line.startswith("the first job that differs, at "))
    assert first.endswith(": 42, 7 processors")
    assert f'`make diff RUNS="up/{OLD}-1 up/{NEW}-1"`' in text


def test_a_change_is_said_with_its_interval(on: Callable[..., None], results: Path) -> None:
    on(1.3)
    ending, _ = ended()
    assert "30 % longer mean wait for these jobs (29 to 31 %)" in ending.message


def test_a_log_in_which_nothing_waits_is_inconclusive(on: Callable[..., None], results: Path) -> None:
    on(1.0, waits=np.full(100, 0.2))
    ending, _ = ended()
    assert ending.word == "inconclusive" and ending.code == 1
    assert ending.message.startswith(
        "hardly a job waits, so the releases decide nothing differently; take a busier part of the log"
    )
    assert read_json(results / "up/status.json")["ending"] == "inconclusive"


def test_lines_of_a_slurm_conf_that_only_one_release_reads_are_listed(on: Callable[..., None], results: Path) -> None:
    on(1.0)
    ending, _ = ended(SLURM_CONF="site.conf", NODES="", CPUS="", **{resolve.GIVEN: "SLURM_CONF"})
    assert ending.word == "ok"
    text = (results / "up/upgrade.md").read_text()
    assert f"- {NEW}, of your slurm.conf: `site.conf line 1: LaunchType is not known`\n" in text


def test_what_a_parser_says_is_no_markdown(on: Callable[..., None], results: Path) -> None:
    on(3.0, only=41)
    ending, _ = ended()
    releases = read_json(results / "up/releases.json")
    releases[NEW]["refused"] = [STRANGE] * 14
    write_json(results / "up/releases.json", releases)
    again, told = ended(SLURMS="", NODES="", CPUS="", TRACE="", SPEED="", REPLICAS="")
    assert again == ending
    text = (results / "up/upgrade.md").read_text()
    assert text in told and text.count("PLANTED") == 12
    assert all(line.isprintable() for line in told.splitlines())
    assert kinds(text) <= ABLE | {"text", "code_inline", "fence"}


def test_a_configuration_that_one_release_cannot_read_is_refused(
    on: Callable[..., None], results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mirage.experiment import configuration

    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/own.yml").write_text("settings: {LaunchType: launch/slurm}\n")
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    on(1.0)
    with pytest.raises(WrongUse) as refusal:
        ended(CONFIG="own")
    assert f"{NEW} cannot read 1 of the lines that the others read" in str(refusal.value)
    assert "the line LaunchType: LaunchType is not known" in str(refusal.value)
    assert list(results.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"CONFIGS": "fifo backfill"}, "leave out CONFIGS"),
        ({"FILLER": "no slots"}, "leave out several FILLER or EVENTS"),
        *(({"RM": f"slurm {name}"}, "leave out RM") for name in OTHERS),
    ],
)
def test_only_releases_differ(results: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        ended(**given)
    assert list(results.iterdir()) == []


def test_one_build_twice(on: Callable[..., None], results: Path) -> None:
    on(1.0)
    ending, told = ended(SLURMS=f"{OLD} {OLD}", RUN="twice")
    assert f"note: 2 arms are one build of Slurm {OLD}: equal schedules are expected" in told
    assert ending.word == "ok" and (results / f"twice/{OLD}-222222-b-3").is_dir()


class Played:
    """A stand-in for the use of an instance: a playbook of a run leaves the farm's specification, teardown removes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.orders: list[str] = []

    def play(self, playbook: str, variables: Mapping[str, Any], *_: object) -> None:
        self.orders.append(f"{playbook} {variables.get('slurm_prefix', '').rpartition('-')[2]}".rstrip())
        (self.directory / "etc").mkdir(parents=True, exist_ok=True)
        if playbook == "teardown":
            (self.directory / "etc/farm.json").unlink()
            return
        command = [f"{variables['slurm_prefix']}/sbin/slurmctld", "-D"]
        daemons = [{"kind": "munged", "command": ["/usr/sbin/munged"]}, {"kind": "slurmctld", "command": command}]
        write_json(self.directory / "etc/farm.json", {"daemons": daemons})
        write_json(self.directory / "instance.json", {"rm": "slurm"})


def test_an_instance_is_removed_for_another_release(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slurmctld could not read, or would go on with, what the other one saved."""
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    told = {"TRACE": "two.swf", "RUN": "up", "SPEED": "event", "NODES": "4", "CPUS": "2", "REPLICAS": "1"}
    builds = releases.by_label(releases.read(f"{NEW} {OLD} {OLD}", is_here=True))
    planned = Campaign.of(resolve.resolve(told), arms=releases.arms(builds))
    used = Played(tmp_path / "instances" / planned.knobs.cluster.name)
    lane = Lane.only(planned.knobs.cluster, used, Screen(io.StringIO()))  # type: ignore[arg-type]
    planned.folder.mkdir()
    write_json(planned.folder / "experiment.json", {})
    for part in planned.parts:
        planned._play(part, planned.prepared[part.member.label], lane)
    assert used.orders == [f"experiment {NEW}", "teardown", f"experiment {OLD}", f"experiment {OLD}"]
