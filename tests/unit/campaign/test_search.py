"""A search as far as it needs no cluster: what is refused, which jobs it takes, how it ends, and that it goes on after a kill.

Its runs are simulated: the waits of all jobs are multiplied by a function of SETTINGS.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from campaigns import run_of, with_errors

from mirage.campaign import campaign, search_plan
from mirage.campaign import search as campaign_search
from mirage.campaign.campaign import Campaign
from mirage.campaign.lanes import RunsLeft
from mirage.campaign.search import Search
from mirage.campaign.search_plan import SearchPlan
from mirage.commands import search as command
from mirage.commands.search import search
from mirage.experiment import preflight, runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve
from mirage.records.run_folder import RunFolder
from mirage.statistics.limits import parse
from mirage.terminal.screen import Screen
from mirage.tuning.tunables import parse_settings
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json

JOBS, SEARCHED = 90, 60
ONE = 5.0  # real seconds of a run
WAITS = 3600 * np.random.default_rng(7).lognormal(0, 1, JOBS)
TUNE = "bf_interval=10,30,60,120 bf_max_job_test=5,50,500"
CONF = """
SchedulerType=sched/backfill
SchedulerParameters=bf_continue,bf_interval=60
PriorityType=priority/multifactor
NodeName=n[1-4] CPUs=2
PartitionName=batch Nodes=ALL Default=YES
"""
PROOF = ("base-1", "best-1", "base-2", "best-2", "base-3", "best-3")
Factor = Callable[[Mapping[str, str]], float]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(runs, "RESULTS", folder)
    lines = [f"{k + 1} {60 * k} 5 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1" for k in range(JOBS)]
    (tmp_path / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    Path("site.conf").write_text(CONF)
    return folder


class Killed(BaseException):
    """The command is killed here."""


class Cluster:
    """Plays runs: all jobs wait `factor` of their settings times as long, in the proof `other` times.

    longest: what the longest wait is multiplied by.
    killed_at: the number of the run during which the command is killed. bad: settings under which a run is not valid.
    """

    def __init__(
        self,
        factor: Factor,
        *,
        other: Factor | None = None,
        killed_at: int = 0,
        bad: Factor = lambda _: 0.0,
        takes: float = ONE,
        longest: Factor = lambda _: 1.0,
    ) -> None:
        self.takes, self.longest = takes, longest
        self.factor, self.other, self.killed_at, self.bad = factor, other or factor, killed_at, bad
        self.played: list[str] = []
        self.now = 0.0

    def play(self, planned: Campaign) -> Ending | None:
        planned.folder.mkdir(exist_ok=True)
        if not (planned.folder / "experiment.json").exists():
            write_json(planned.folder / "experiment.json", planned._description())
        for part in planned.parts:
            if part.ending() is None:
                self._run(planned, part)
        return None

    def _run(self, planned: Campaign, part: Any) -> None:
        self.now += self.takes
        self.played.append(f"{part.folder.parent.name}/{part.folder.name}")
        inputs = planned._inputs_of(part)
        part.folder.mkdir(exist_ok=True)
        write_json(part.folder / "experiment.json", {"run": part.name(), "inputs": inputs})
        if len(self.played) == self.killed_at:
            raise Killed
        settings = parse_settings(inputs["SETTINGS"])
        factor = (self.other if "proof" in part.folder.parent.name else self.factor)(settings)
        jobs = planned.prepared[part.member.label].workload.jobs
        noise = np.random.default_rng(part.member.replica).uniform(0.999, 1.001)
        waits = WAITS[: jobs.height] * factor * noise
        run = with_errors(run_of(part.member.label, part.member.replica, waits), emulation=0.001, replicas=0.002)
        run.metrics["metrics"]["wait_max"] *= self.longest(settings)
        jobs.write_csv(part.folder / "workload.csv")
        run.jobs.write_csv(part.folder / "jobs.csv")
        write_json(part.folder / "metrics.json", run.metrics)
        Ending("invalid" if self.bad(settings) else "ok", "done").store(part.folder)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], Cluster]:
    """Lets the runs be played by a `Cluster`."""

    def use(cluster: Cluster) -> Cluster:
        for module in (campaign, campaign_search):
            monkeypatch.setattr(module, "InstanceUse", lambda *_: nullcontext(NoUse()))
        monkeypatch.setattr(preflight, "privileges", lambda _: None)
        monkeypatch.setattr(Search, "_check", lambda *_: None)
        monkeypatch.setattr(RunsLeft, "run", lambda *_: True)
        monkeypatch.setattr(Campaign, "play_left", lambda planned, *_, **__: cluster.play(planned))
        monkeypatch.setattr(Campaign, "_run_rest", lambda planned, _use, _screen: cluster.play(planned))
        monkeypatch.setattr(Campaign, "takes", lambda planned, one=None: ONE * len(planned.parts))
        monkeypatch.setattr(campaign_search, "time", SimpleNamespace(monotonic=lambda: cluster.now))
        monkeypatch.setattr(campaign_search.report, "write", lambda *_: None)
        monkeypatch.setattr(command, "runs_at_once", lambda *_: 2)
        return cluster

    return use


class NoUse:
    def when_free(self, action: Callable[[], Any]) -> Any:
        return action()


def ended(target: Callable[..., Ending] = search, **given: str) -> tuple[Ending, str]:
    told = {"TUNE": TUNE, "TRACE": "log.swf", "SPEED": "event", "RUN": "s", "BUDGET": "80s", "NODES": "4", "CPUS": "2"} | given
    if "SLURM_CONF" in given:
        told = {name: value for name, value in told.items() if name not in ("NODES", "CPUS")} | {"MIRAGE_GIVEN": "SLURM_CONF"}
    screen = Screen(stream := io.StringIO())
    return target(resolve.resolve(told, "search"), screen), stream.getvalue()


def interval(settings: Mapping[str, str]) -> float:
    """Shorter intervals are better, and hardly anything else matters."""
    return 0.5 + int(settings.get("bf_interval", 30)) / 60 + 0.001 * (int(settings.get("bf_max_job_test", 500)) == 5)


def content(run: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = RunFolder(runs.RESULTS / run).search
    return found


def test_the_best_setting_is_found_and_proven_on_the_jobs_after_them(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(interval))
    ending, told = ended()
    assert ending.word == "ok" and ending.line.startswith("ok: bf_interval=10 is the best of "), ending.line
    assert "and better on 30 other jobs: 33 % shorter mean wait" in ending.line
    found = content()
    assert found["jobs"] == SEARCHED and found["trials"][0]["changed"] == {} and not found["flat"]
    shares = {one["name"]: one["share"] for one in found["settings"]}
    assert shares["bf_interval"] > 0.9
    assert "  SchedulerParameters=bf_interval=10" in told and "importance of bf_interval" in told
    proof = read_json(results / found["proof"]["run"] / "experiment.json")
    assert proof["inputs"]["FROM"] == str(60 * SEARCHED) and proof["inputs"]["JOBS"] == "30" and proof["inputs"]["CHARGE"] == "yes"
    assert proof["inputs"]["best SETTINGS"] == "bf_interval=10" and proof["inputs"]["base SETTINGS"] == ""
    assert read_json(results / "s/t01-1/experiment.json")["inputs"]["SETTINGS"] == ""
    assert Ending.load(results / "s") == ending
    before = list(cluster.played)
    again, told = ended()
    assert again == ending and cluster.played == before and "finished: nothing is run again" in told


def test_a_flat_response_is_said_so_and_nothing_is_proven(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(lambda _: 1.0))
    ending, told = ended(BUDGET="2h")
    assert ending.line.startswith("ok: no setting matters here: wait_mean stays within +0.0 to +0.0 % of the base in ")
    assert content()["proof"] is None and content()["stopped"] == "flat" and "in slurm.conf" not in told
    assert len(cluster.played) <= 8 and not [name for name in cluster.played if "proof" in name]


def test_nothing_better_than_the_base(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(lambda settings: 1.0 + 0.3 * len(settings)))
    ending, _ = ended()
    assert ending.line.startswith("ok: the base is the best of ") and content()["best"] == 1


@pytest.mark.parametrize(
    ("other", "word", "says"),
    [
        (lambda settings: 1.0 + 0.5 * len(settings), "ok", "but worse on 30 other jobs: keep the base"),
        (lambda settings: 1.0 + 0.002 * len(settings), "ok", "but no setting matters on 30 other jobs"),
    ],
)
def test_what_other_jobs_do_not_show_is_said(on: Callable[[Cluster], Cluster], other: Factor, word: str, says: str) -> None:
    on(Cluster(interval, other=other))
    ending, _ = ended(REPLICAS="11", BUDGET="400s")
    assert ending.word == word and says in ending.line, ending.line


def test_one_replica_proves_nothing(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(interval))
    ending, _ = ended(REPLICAS="1")
    assert ending.word == "inconclusive" and "not shown on 30 other jobs; more REPLICAS or JOBS may show it" in ending.line


def test_more_replicas_prove_what_fewer_did_not(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(interval))
    before, _ = ended(REPLICAS="1")
    trials, played = content()["trials"], list(cluster.played)
    ending, _ = ended(REPLICAS="3")
    assert before.word == "inconclusive" and ending.line.startswith("ok: ") and "better on 30 other jobs" in ending.line
    assert content()["trials"] == trials
    assert sorted(cluster.played[len(played) :]) == sorted(f"{content()['proof']['run']}/{name}" for name in PROOF[2:])
    assert ended(REPLICAS="1")[0] == ending and len(cluster.played) == len(played) + 4, "fewer are no other search"


def test_no_trial_keeps_a_limit(on: Callable[[Cluster], Cluster]) -> None:
    """A limit below 0 demands an improvement, which the base does not have either."""
    on(Cluster(interval))
    ending, _ = ended(LIMITS="wait_max:-99%")
    assert ending.word == "inconclusive" and "none of 10 trials keeps wait_max:-99%" in ending.line
    assert content()["best"] is None and content()["proof"] is None


def test_trials_that_are_not_valid_tell_nothing(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(interval, bad=lambda settings: bool(settings)))
    ending, _ = ended()
    assert ending.word == "inconclusive", ending.line
    assert (
        "9 of 10 trials have no wait_mean that can be trusted, and fewer than 5 tell nothing: results/s/t02-1 says" in ending.line
    )


def test_a_trial_beyond_a_limit_does_not_win(on: Callable[[Cluster], Cluster]) -> None:
    """With the shortest interval the mean wait is the shortest one, and the longest wait doubles."""
    factors = {"10": 0.2, "60": 0.8}
    on(
        Cluster(
            lambda settings: factors.get(settings.get("bf_interval", "30"), 1.0),
            longest=lambda settings: 10.0 if settings.get("bf_interval") == "10" else 1.0,
        )
    )
    ending, _ = ended(LIMITS="wait_max:+10%", BUDGET="2h")
    trials = content()["trials"]
    assert ending.line.startswith("ok: bf_interval=60 is the best of 12 trials, and better on 30 other jobs"), ending.line
    beyond = [one["number"] for one in trials if one["breaks"] == ["wait_max:+10%"]]
    assert beyond == [one["number"] for one in trials if one["settings"]["bf_interval"] == "10"] and len(beyond) == 3
    assert not {*beyond} & {*content()["front"]} and content()["proof"]["limits"] == {"wait_max:+10%": "holds"}
    plan = SearchPlan.read(read_json(runs.RESULTS / "s/experiment.json")["search"], Path("x"))
    assert plan.second == "wait_max" and plan.limits == "wait_max:+10%"


@pytest.mark.parametrize("killed_at", [1, 4, 13, 18])
def test_a_killed_search_goes_on(on: Callable[[Cluster], Cluster], results: Path, killed_at: int) -> None:
    """Also in the proof: the trials, their settings and the answer are those of a search that was not killed."""
    on(Cluster(interval))
    ending, _ = ended(BUDGET="2h")
    trials, played = content()["trials"], sorted(path.name for path in results.glob("s/t*"))
    shutil.rmtree(results)
    results.mkdir()
    cluster = on(Cluster(interval, killed_at=killed_at))
    with pytest.raises(Killed):
        ended(BUDGET="2h")
    cluster.killed_at = 0
    again, _ = ended(BUDGET="2h")
    assert again == ending and content()["trials"] == trials
    assert sorted(path.name for path in results.glob("s/t*")) == played
    assert len(cluster.played) <= len(set(cluster.played)) + 1, "only the run that was killed is played twice"


def test_more_time_goes_on_where_budget_ended_it(on: Callable[[Cluster], Cluster]) -> None:
    cluster = on(Cluster(interval))
    ended(BUDGET="70s")
    few = len(content()["trials"])
    assert content()["stopped"] == "time" and few == (70 - 6 * ONE) / ONE
    ended(BUDGET="400s")
    assert len(content()["trials"]) > few and content()["trials"][0]["run"] == "t01-1"
    assert len([name for name in cluster.played if name == "s/t01-1"]) == 1


def test_too_few_trials_tell_nothing(on: Callable[[Cluster], Cluster]) -> None:
    """Runs that take longer than was expected use BUDGET up."""
    cluster = on(Cluster(lambda settings: 1.0 + 0.3 * len(settings), takes=20.0))
    ending, _ = ended(BUDGET="70s")
    assert ending.word == "inconclusive" and "used up after 2 trials, and fewer than 5 tell nothing" in ending.line
    ending, _ = ended(BUDGET="3h")
    assert ending.line.startswith("ok: the base is the best of ") and cluster.played.count("s/t01-1") == 1


def test_a_grid_of_two_points(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(lambda _: 1.0))
    assert ended(TUNE="bf_continue")[0].line.startswith("ok: no setting matters here: ")
    on(Cluster(lambda settings: 0.5 if settings else 1.0))
    assert ended(TUNE="bf_continue", RUN="two")[0].line.startswith("ok: bf_continue=yes is the best of 2 trials, and better on ")


def test_a_budget_that_is_too_short_begins_nothing(on: Callable[[Cluster], Cluster], results: Path) -> None:
    cluster = on(Cluster(interval))
    ending, _ = ended(BUDGET="50s")
    assert ending.word == "inconclusive" and "and the proof take about" in ending.line and not cluster.played
    assert not (results / "s").exists()


def test_a_base_that_is_not_valid_ends_the_search(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(interval, bad=lambda settings: not settings))
    ending, _ = ended()
    assert ending.word == "invalid" and "results/s/t01-1 says why" in ending.line


def test_the_first_part_of_the_jobs(on: Callable[[Cluster], Cluster], monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    monkeypatch.setattr(command, "_saves", lambda *_: True)
    cluster = on(Cluster(interval))
    ending, told = ended(BUDGET="400s")
    part = content()["first_part"]
    assert ending.word == "ok" and part["jobs"] == SEARCHED // 3 and part["rank_correlation"] > 0.9
    early = [name for name in cluster.played if "early" in name]
    assert early and "first part of the jobs (20): rank correlation" in told
    assert part["decided"] == any(one["ended_after_first_part"] for one in content()["trials"])
    assert read_json(results / early[0] / "experiment.json")["inputs"]["JOBS"] == "20"


def test_search_json_is_computed_again_from_the_runs(on: Callable[[Cluster], Cluster], results: Path) -> None:
    from mirage.campaign.search_results import computed

    on(Cluster(interval))
    ended(LIMITS="wait_max:+10%")
    stored = read_json(results / "s/search.json")
    import json

    assert json.loads(json.dumps(computed(results / "s"))) == stored
    metrics = read_json(results / "s/t02-1/metrics.json")
    metrics["metrics"]["wait_mean"] += 100.0
    write_json(results / "s/t02-1/metrics.json", metrics)
    assert computed(results / "s")["trials"][1] != stored["trials"][1]


def test_over_a_sites_slurm_conf(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(lambda settings: 1.0 + int(settings.get("PriorityWeightAge", 0)) / 1000))
    ending, told = ended(
        SLURM_CONF="site.conf", TUNE="PriorityWeightAge=0..1000 bf_interval=30,60", SETTINGS="PriorityWeightAge=520"
    )
    assert "tuned: bf_interval=30,60, the base has 60" in told and "the base has 520" in told
    assert "PriorityWeightAge=" in ending.line and "  PriorityWeightAge=" in told


def test_a_value_of_the_base_in_other_words_is_no_other_one(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(lambda settings: 1.0 + (settings.get("PriorityMaxAge") == "1-0")))
    _, told = ended(SLURM_CONF="site.conf", TUNE="PriorityMaxAge=1-0,7-0", SETTINGS="PriorityMaxAge=168:00:00")
    assert "tuned: PriorityMaxAge=1-0,7-0, the base has 7-0" in told
    assert [one["settings"]["PriorityMaxAge"] for one in content()["trials"]] == ["7-0", "1-0"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"TUNE": ""}, "nothing is given"),
        ({"CHARGE": "no"}, "bf_interval decides how much slurmctld computes, which takes no time then"),
        ({"TUNE": "PriorityWeightAge"}, "PriorityWeightAge has no part in PriorityType=priority/basic"),
        ({"TUNE": "PriorityWeightFairshare", "SLURM_CONF": "site.conf"}, "has no part without accounting"),
        ({"CONFIG": "fifo"}, "bf_interval has no part in SchedulerType=sched/builtin"),
        ({"TUNE": "bf_interval=30"}, "bf_interval has only the value 30, that of the base"),
        ({"JOBS": "80"}, "10 jobs after them are too few to prove what is found; take at most 60 of these 90"),
        ({"SHRINK": "100:50:10"}, "a sweep is not possible here"),
        ({"SPEED": "20", "CHARGE": "no", "TUNE": "PriorityFavorSmall", "SLURM_CONF": "site.conf"}, "it may be event"),
    ],
)
def test_what_is_refused(on: Callable[[Cluster], Cluster], given: dict[str, str], message: str, results: Path) -> None:
    on(Cluster(interval))
    with pytest.raises(WrongUse) as error:
        ended(**given)
    assert message in error.value.message and not list(results.iterdir())


def test_other_inputs_are_another_search(on: Callable[[Cluster], Cluster]) -> None:
    on(Cluster(interval))
    ended()
    for given in ({"TUNE": "bf_interval=10,30"}, {"GOAL": "wait_p95"}, {"LIMITS": "wait_max:+5%"}, {"SEED": "2"}, {"MARGIN": "2%"}):
        with pytest.raises(WrongUse) as error:
            ended(**given)
        assert "has other inputs" in error.value.message


def test_a_generated_workload_is_proven_on_that_of_the_next_seed() -> None:
    knobs = resolve.resolve({"MODEL": "lublin", "JOBS": "30", "NODES": "8", "CPUS": "4", "TUNE": TUNE}, "search")
    from mirage.experiment.prepare import source

    shares = search_plan.shares_of(knobs, source(knobs.workload, knobs.nodes.machine))
    assert shares.proof == {"SEED": 2} and shares.searched == 30 and shares.early == 0


def test_the_front_has_the_metric_of_the_first_other_limit() -> None:
    assert search_plan.second_of("wait_mean", parse("wait_mean:+1% utilisation:-1%")) == "utilisation"
    assert search_plan.second_of("wait_mean", ()) == "wait_max" and search_plan.second_of("wait_max", ()) == "wait_mean"
