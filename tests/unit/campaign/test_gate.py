"""A gate as far as it needs no cluster: what is refused, when replicas are added, what it says and which code it ends with.

The runs of its comparisons are simulated: those of `after` wait longer by a factor, and each replica differs by some noise.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated_runs
from campaigns import run_of, with_errors
from markdown_parts import ABLE, STRANGE, kinds, rendered
from other_managers import OTHERS, config_of

from mirage.campaign import campaign, gate_summary
from mirage.campaign.campaign import Campaign
from mirage.commands.gate import gate
from mirage.experiment import preflight, runs
from mirage.experiment.configuration_changes import Changes
from mirage.experiment.endings import Ending
from mirage.knobs import resolve
from mirage.statistics.limits import LOOKS, PASSES_FROM, UNDECIDED, Answer, Limit
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json

SWF = """; MaxProcs: 8
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
"""
CONF = """
SchedulerType=sched/backfill
SchedulerParameters=bf_continue,bf_interval=30
SlurmctldLogFile=/var/log/slurmctld.log
NodeName=n[1-4] CPUs=2
PartitionName=batch Nodes=ALL Default=YES
"""
WAITS = 3600 * np.random.default_rng(7).lognormal(0, 1, 100)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(runs, "RESULTS", folder)
    (tmp_path / "two.swf").write_text(SWF)
    monkeypatch.chdir(tmp_path)
    Path("old.conf").write_text(CONF)
    return folder


class Cluster:
    """Plays the runs of a campaign: `after` waits as long as `factor` and, for a replica, `far` say, each run by `noise` longer or
    shorter, those of a pair by the same if `is_paired`.
    """

    def __init__(
        self,
        factor: float,
        noise: float = 0.005,
        *,
        waits: Any = WAITS,
        fails_at: int = 0,
        is_paired: bool = False,
        far: Callable[[int], float] = lambda _: 1.0,
    ) -> None:
        self.factor, self.noise, self.waits, self.fails_at, self.is_paired = factor, noise, waits, fails_at, is_paired
        self.far = far
        self.played: list[str] = []

    def play(self, planned: Campaign) -> Ending | None:
        planned.folder.mkdir(exist_ok=True)
        if not (planned.folder / "experiment.json").exists():
            write_json(planned.folder / "experiment.json", planned._description())
        for part in planned.played():
            if part.ending() is not None:
                continue
            if self.fails_at and len(self.played) == self.fails_at:
                self.fails_at = 0
                return Ending("failed", "the cluster is gone")
            label, replica = part.member.label, part.member.replica
            random = np.random.default_rng([replica, label == "after" and not self.is_paired])
            factor = (self.factor * self.far(replica) if label == "after" else 1.0) * random.uniform(1 - self.noise, 1 + self.noise)
            run = with_errors(run_of(label, replica, self.waits * factor), emulation=0.001, replicas=2 * self.noise)
            part.folder.mkdir()
            run.jobs.write_csv(part.folder / "jobs.csv")
            write_json(part.folder / "metrics.json", run.metrics)
            Ending("ok", "done").store(part.folder)
            self.played.append(part.folder.name)
        return None


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], Cluster]:
    """Lets the runs be played by a `Cluster`."""

    def use(cluster: Cluster) -> Cluster:
        monkeypatch.setattr(campaign, "InstanceUse", lambda *_: nullcontext())
        monkeypatch.setattr(preflight, "privileges", lambda _: None)
        monkeypatch.setattr(Campaign, "_run_rest", lambda planned, _use, _screen: cluster.play(planned))
        return cluster

    return use


def ended(**given: str) -> tuple[Ending, str]:
    """The ending of `make gate` and what it wrote."""
    told = {"BEFORE": "old.conf", "AFTER": "new.conf", "TRACE": "two.swf", "RUN": "g", "SPEED": "event"} | given
    screen = Screen(stream := io.StringIO())
    return gate(resolve.resolve(told, "gate"), screen), stream.getvalue()


def change(old: str = "bf_interval=30", new: str = "bf_interval=60") -> None:
    Path("new.conf").write_text(CONF.replace(old, new))


def summary(run: str = "g") -> list[str]:
    lines = (runs.RESULTS / run / "gate.md").read_text().splitlines()
    assert len(lines) <= gate_summary.LINES
    return lines


def test_a_harmless_change_passes(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(1.0))
    change()
    ending, told = ended()
    assert ending.line == "ok: gate passed: 5 limits hold (results/g/gate.md)" and ending.code == 0
    assert Ending.load(results / "g") == ending
    assert cluster.played == read_json(results / "g/experiment.json")["order"] and len(cluster.played) == 2 * PASSES_FROM
    lines = summary()
    assert lines[0] == "# gate passed" and "\n".join(lines) in told
    assert len([line for line in lines if line.endswith("| holds |")]) == 5
    assert "- `SchedulerParameters: bf_interval=30 -> bf_interval=60`" in lines
    assert lines[-1] == "80 runs of 100 jobs; all about them: results/g/report.html"
    assert ended()[0] == ending and len(cluster.played) == 2 * PASSES_FROM, "nothing is run again"


def test_what_stands_in_files_is_no_markdown(results: Path) -> None:
    (results / "g").mkdir()
    answer = Answer(Limit("wait_mean", 5.0, in_percent=True), UNDECIDED, 3, 1.0, 2.0, why=STRANGE)
    lines = gate_summary.summary(
        ("gate failed", STRANGE), results / "g", (STRANGE, STRANGE), [answer], Changes([STRANGE], [STRANGE], [STRANGE])
    )
    assert sum("PLANTED" in line for line in lines) == 4 and len(lines) <= gate_summary.LINES
    assert all(line.isprintable() and not line.startswith("::") for line in lines)
    assert kinds("\n".join(lines)) <= ABLE | {"text", "code_inline"}
    assert [token.type for token in rendered("\n".join(lines))].count("heading_open") == 1


def test_a_harmful_change_is_stopped(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(1.3))
    change()
    ending, _ = ended()
    assert ending.code == 1 and ending.line.startswith("failed: gate failed: wait_mean:+5% is broken (+3")
    assert len(cluster.played) == 20 and summary()[0] == "# gate failed"
    ending, _ = ended(LIMITS="wait_mean:+4min")
    assert ending.word == "failed" and len(cluster.played) == 20, "the same runs are judged by other limits"


def test_a_change_that_is_inside_the_noise_is_undecided(on: Callable[[Cluster], Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = on(Cluster(1.05, noise=0.2))
    monkeypatch.setattr(Campaign, "takes", lambda *_: 0.0 if len(cluster.played) < 10 else 1e6)
    change()
    ending, _ = ended(LIMITS="wait_mean:+5%", BUDGET="30min")
    assert ending.code == 1 and ending.line.startswith("inconclusive: gate undecided: wait_mean:+5% is undecided (")
    assert "BUDGET of 30 min is used up, 40 runs of each take about" in ending.line
    assert len(cluster.played) == 20 and summary()[0] == "# gate undecided"
    monkeypatch.setattr(Campaign, "takes", lambda *_: 0.0)
    monkeypatch.setattr("mirage.campaign.gate.LOOKS", LOOKS[:3])
    ending, _ = ended(LIMITS="wait_mean:+5%")
    assert len(set(cluster.played)) == len(cluster.played) == 2 * LOOKS[2], "the same command goes on"
    assert ending.word == "inconclusive" and "20 replicas of each do not decide it" in ending.line


def test_equal_schedules_hold_each_limit_that_allows_no_change(
    on: Callable[[Cluster], Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From as many pairs on as it takes to see a group of a tenth of the phases."""
    cluster = on(Cluster(1.0, noise=0.2, is_paired=True))
    monkeypatch.setattr(Campaign, "takes", lambda *_: 0.0 if len(cluster.played) < 20 else 1e6)
    change()
    limits = "wait_mean:+1% wait_p95:+0s"
    ending, _ = ended(LIMITS=limits)
    assert ending.word == "inconclusive" and len(cluster.played) == 20
    assert len([line for line in summary() if "40 pairs of runs tell whether it holds, 10 are alike" in line]) == 2
    monkeypatch.setattr(Campaign, "takes", lambda *_: 0.0)
    ending, _ = ended(LIMITS=limits)
    assert ending.code == 0 and len(cluster.played) == 80
    assert "2 limits hold: each job starts and ends at the same instant under both, in all 40 pairs of runs" in ending.line
    assert len([line for line in summary() if line.endswith("| 0 to 0 % | holds |")]) == 1
    ending, _ = ended(LIMITS="wait_mean:-5%")
    assert ending.word == "failed" and "wait_mean:-5% is broken (0 %, interval " in ending.line
    # One job of one run starts a moment later: then what the emulation may have added counts.
    monkeypatch.setattr(Campaign, "takes", lambda *_: 1e6 if len(cluster.played) == 80 else 0.0)
    jobs = runs.RESULTS / "g/after-3/jobs.csv"
    text = jobs.read_text()
    row = text.splitlines()[50]
    start = row.split(",")[3]
    jobs.write_text(text.replace(row, row.replace(f",{start},", f",{float(start) + 0.001},", 1)))
    monkeypatch.setattr("mirage.campaign.gate.LOOKS", LOOKS[: LOOKS.index(40) + 1])
    monkeypatch.setattr(Campaign, "takes", lambda *_: 0.0)
    ending, _ = ended(LIMITS=limits)
    assert ending.word == "inconclusive" and "wait_p95:+0s is undecided" in ending.line


def test_a_group_of_phases_that_the_first_pairs_miss_is_seen(
    on: Callable[[Cluster], Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that lengthens the waits in each fifth run, from the eleventh on, by 60 %."""
    cluster = on(Cluster(1.0, noise=0.0, far=lambda replica: 1.6 if replica > 10 and replica % 5 == 0 else 1.0))
    monkeypatch.setattr("mirage.campaign.gate.LOOKS", LOOKS[: LOOKS.index(40) + 1])
    change()
    ending, _ = ended(LIMITS="wait_mean:+5%")
    assert ending.word == "inconclusive" and len(cluster.played) == 80


def test_replicas_are_added_until_the_limits_are_decided(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(1.3, noise=0.05))
    change()
    ending, _ = ended(LIMITS="wait_mean:+10%")
    assert ending.word == "failed" and 6 < len(cluster.played) < 80
    experiment = read_json(results / "g/experiment.json")
    replicas = len(cluster.played) // 2
    assert replicas in LOOKS and experiment["inputs"]["REPLICAS"] == str(replicas)
    assert experiment["order"] == cluster.played and sorted(experiment["shifts"]) == sorted(cluster.played)
    assert {name for one in read_json(results / "g/comparison.json")["configurations"] for name in one["runs"]} == set(
        cluster.played
    )


def test_a_gate_goes_on_after_a_failure(on: Callable[[Cluster], Cluster]) -> None:
    whole, broken = Cluster(1.3, noise=0.05), Cluster(1.3, noise=0.05, fails_at=8)
    change()
    on(whole)
    expected, _ = ended(LIMITS="wait_mean:+10%", RUN="whole")
    on(broken)
    ending, _ = ended(LIMITS="wait_mean:+10%")
    assert (ending.line, ending.code) == ("failed: the cluster is gone", 1)
    assert not (runs.RESULTS / "g/gate.md").exists()
    ending, _ = ended(LIMITS="wait_mean:+10%")
    assert ending.message == expected.message.replace("whole", "g") and broken.played == whole.played
    assert summary()[:-1] == summary("whole")[:-1]


def test_an_interruption_while_replicas_are_added_loses_nothing(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(1.3))
    change()
    first, _ = ended()
    (results / "g/status.json").unlink()
    assert ended()[0] == first and len(cluster.played) == 20
    assert Ending.load(results / "g") == first


def test_a_log_in_which_nothing_waits_is_undecided(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(1.0, waits=np.full(100, 0.2)))
    change()
    ending, _ = ended()
    assert ending.word == "inconclusive" and len(cluster.played) == 6
    assert "hardly a job waits; take a busier part of the log (FROM and TO)" in ending.line


@pytest.mark.parametrize("verdict", ["invalid", "inconclusive"])
def test_a_run_that_is_not_valid_decides_nothing(on: Callable[[Cluster], Cluster], results: Path, verdict: str) -> None:
    on(Cluster(1.3))
    change()
    assert ended()[0].word == "failed"
    metrics = read_json(results / "g/after-2/metrics.json")
    write_json(results / "g/after-2/metrics.json", metrics | {"validity": simulated_runs.verdict(verdict, "too slow")})
    ending, _ = ended()
    assert ending.line.startswith("inconclusive: gate undecided: ") and "after-2 is not valid: too slow" in ending.line
    assert not [line for line in summary() if "| broken" in line]


def test_what_does_not_fit_into_the_budget_is_not_begun(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(1.3))
    change()
    ending, _ = ended(BUDGET="1s")
    assert ending.word == "inconclusive" and not cluster.played
    assert "40 runs of each take about" in ending.line and "and BUDGET is 1 s: give more, or fewer jobs" in ending.line
    _, told = ended(BUDGET="2min")
    assert len(cluster.played) == 20
    assert "note: a gate passes with 40 runs of each or more, which take about " in told and "and BUDGET is 2 min" in told


def test_a_change_without_a_part_in_scheduling_passes_without_runs(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(1.3))
    change("/var/log/slurmctld.log", "/var/log/slurm/slurmctld.log")
    ending, _ = ended()
    assert ending.line == "ok: gate passed: nothing differs that has a part in scheduling; nothing was run (results/g/gate.md)"
    assert not cluster.played and summary()[-1] == "- 2 more without a part in scheduling"
    change()
    assert ended()[0].code == 1 and len(cluster.played) == 20, "the name may be used again"


def test_a_change_that_is_left_out_of_the_emulation_is_undecided(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(1.0))
    change("SchedulerType", "JobSubmitPlugins=lua\nSchedulerType")
    ending, _ = ended()
    assert ending.word == "inconclusive" and not cluster.played
    assert "give it the same value in both: JobSubmitPlugins=lua: " in ending.line
    assert summary()[-1].startswith("- ``JobSubmitPlugins=lua: ") and summary()[-1].endswith("`` (left out)")


def test_names_of_configurations_are_compared(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(1.3))
    ending, _ = ended(BEFORE="backfill", AFTER="fifo", NODES="4", CPUS="2")
    assert ending.code == 1 and set(cluster.played) == {f"{label}-{k}" for label in ("before", "after") for k in range(1, 11)}
    assert "- `SchedulerType: sched/backfill -> sched/builtin`" in summary()
    assert read_json(results / "g/experiment.json")["inputs"]["CONFIGS"] == "backfill fifo"


def test_files_are_inputs_by_their_content(results: Path, on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(1.3))
    change()
    ended()
    inputs = read_json(results / "g/experiment.json")["inputs"]
    assert inputs["before SLURM_CONF"] != inputs["after SLURM_CONF"] and len(inputs["after SLURM_CONF"]) == 64
    assert json.loads(inputs["after CLASSES"])[0]["count"] == 4
    change(new="bf_interval=90")
    with pytest.raises(WrongUse, match=r"run: results/g has other inputs: after SLURM_CONF was"):
        ended()


def test_without_run_the_name_follows_from_the_inputs(results: Path, on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(1.3))
    change()
    ended(RUN="")
    ended(RUN="")
    assert len(cluster.played) == 20
    change(new="bf_interval=90")
    ended(RUN="")
    assert len(cluster.played) == 40 and len(list(results.glob("gate-*/gate.md"))) == 2


def test_the_summary_of_many_limits_and_changes_is_short(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(1.3))
    Path("new.conf").write_text(
        CONF + "".join(f"{word}={k}\n" for k, word in enumerate(("KillWait", "WaitTime", "MaxArraySize"), 7))
    )
    names = ("wait_median", "wait_p90", "wait_p95", "wait_p99", "wait_max", "response_mean", "utilisation")
    ended(LIMITS=" ".join(f"{name}:+90%" if name != "utilisation" else "utilisation:-50%" for name in names) + " wait_mean:+1%")
    lines = summary()
    assert "wait_mean:+1%" in lines[6] and "broken" in lines[6], "the broken ones first"
    assert "and 1 more, undecided" in lines and "- 1 other differences" not in lines
    assert len([line for line in lines if line.startswith("- ")]) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"BEFORE": ""}, "before: nothing is given; it may be the path of a slurm.conf, or the name of a configuration"),
        ({"AFTER": ""}, "after: nothing is given"),
        ({"AFTER": "fifo"}, "after=fifo: BEFORE and AFTER are a file and a name"),
        ({"BEFORE": "nosuch", "AFTER": "fifo"}, "before: there is no configs/nosuch.yml; it may be one of: "),
        *(
            ({"BEFORE": "fifo", "AFTER": config_of(name)}, f"after: {config_of(name)} is a configuration of {name}")
            for name in OTHERS
        ),
        ({"AFTER": "./nosuch.conf"}, "after: nosuch.conf: "),
        ({"BEFORE": "./nosuch.conf"}, "before: nosuch.conf: "),
        *(({"RM": f"slurm {name}"}, f"rm=slurm {name}: a gate is for Slurm only") for name in OTHERS),
        ({"EVENTS": "none none"}, "events=none none: only make compare takes several"),
        ({"FILLER": "no slots"}, "filler=no slots: only make compare takes several"),
        ({"NODES": "4"}, "NODES: BEFORE says that too; give BEFORE, or NODES"),
    ],
)
def test_wrong_use_writes_nothing(results: Path, given: dict[str, str], words: str) -> None:
    change()
    with pytest.raises(WrongUse) as refusal:
        ended(**given)
    assert str(refusal.value).startswith(words)
    assert list(results.iterdir()) == []


def test_another_machine_is_refused() -> None:
    change("n[1-4]", "n[1-5]")
    with pytest.raises(WrongUse, match=r"after=new.conf: has 5 nodes with 10 processors, and BEFORE has 4 nodes with 8"):
        ended()


def test_a_slurm_conf_beside_before_is_refused() -> None:
    change()
    with pytest.raises(WrongUse, match=r"^SLURM_CONF: BEFORE says that too"):
        ended(SLURM_CONF="old.conf", **{resolve.GIVEN: "SLURM_CONF"})
