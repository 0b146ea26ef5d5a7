"""A campaign as far as it needs no cluster: what is planned, what is refused, and comparison.json from finished runs."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import pytest
from campaigns import campaign
from journals import start_event
from simulated_runs import verdict

from mirage.campaign import parts
from mirage.campaign.campaign import Campaign
from mirage.campaign.conclusion import Member, conclude, show
from mirage.commands import compare
from mirage.commands.metrics import metrics
from mirage.experiment import aspects, configuration, report, run_length, runs
from mirage.experiment.endings import OF_VERDICT, Ending
from mirage.experiment.lane import Lane
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.terminal.campaign_screen import RunScreen
from mirage.terminal.screen import Screen
from mirage.verdict.verdict import verdict_of
from mirage_extras.filler.knobs import FillerKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.replay.launch_cost import LaunchCost, Width

SWF = """; MaxProcs: 8
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(runs, "RESULTS", folder)
    (tmp_path / "two.swf").write_text(SWF)
    return folder


def values(results: Path, **given: str) -> Knobs:
    told = {
        "CONFIGS": "fifo backfill",
        "TRACE": str(results.parent / "two.swf"),
        "NODES": "4",
        "CPUS": "2",
        "RUN": "r",
        "SPEED": "20",
    }
    return knobs.resolve(told | given)


def finished(folder: Path, labels: str = "ab", replicas: int = 2) -> list[Member]:
    """Run folders as a campaign leaves them, as far as a comparison reads them."""
    members = []
    for run in campaign(1, replicas=replicas, labels=labels):
        (folder / run.folder).mkdir(parents=True)
        run.jobs.write_csv(folder / run.folder / "jobs.csv")
        write_json(folder / run.folder / "metrics.json", run.metrics)
        Ending("ok", "done").store(folder / run.folder)
        members.append(Member(run.label, run.replica, run.folder))
    return members


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["fifo", "backfill"], ["fifo", "backfill"]),
        (["backfill", "backfill", "backfill"], ["backfill", "backfill-b", "backfill-c"]),
        (["a", "a", "a-b"], ["a", "a-c", "a-b"]),
    ],
)
def test_a_configuration_that_is_there_again_has_a_letter(names: list[str], expected: list[str]) -> None:
    assert parts.labels(names) == expected


def test_the_phase_varies_by_replica_and_seed_only() -> None:
    shifts = [parts.shift_of(seed, replica) for seed in (1, 2) for replica in range(1, 30)]
    assert len(set(shifts)) == len(shifts) and all(0 <= shift <= parts.PHASE for shift in shifts)
    assert max(shifts) > 25 and min(shifts) < 5
    assert shifts[0] == parts.shift_of(1, 1)


def names_of(parts: Iterable[parts.Part]) -> list[str]:
    return [part.folder.name for part in parts]


def test_each_round_has_each_configuration_once_in_a_random_order(results: Path) -> None:
    names = ["fifo", "backfill", "suspend"]
    orders = [
        names_of(Campaign.of(values(results, CONFIGS=" ".join(names), REPLICAS="20", SEED=str(seed))).played()) for seed in (1, 2)
    ]
    assert orders[0] != orders[1]
    rounds = [orders[0][k : k + 3] for k in range(0, 60, 3)]
    for number, of_round in enumerate(rounds, 1):
        assert sorted(of_round) == sorted(f"{name}-{number}" for name in names)
    assert len({tuple(name.split("-")[0] for name in of_round) for of_round in rounds}) > 4
    first = [of_round[0].split("-")[0] for of_round in rounds]
    assert all(3 <= first.count(name) <= 12 for name in names)


def test_a_continued_campaign_keeps_its_order(results: Path) -> None:
    planned = Campaign.of(values(results, REPLICAS="4"))
    content = planned._description()
    assert content["order"] == names_of(planned.played()) != names_of(planned.parts)
    assert [one["folder"] for one in content["comparison"]] == names_of(planned.parts), "the baseline is the first of CONFIGS"
    (results / "r").mkdir()
    write_json(results / "r/experiment.json", content)
    assert names_of(Campaign.of(values(results, REPLICAS="4")).played()) == content["order"]
    assert names_of(Campaign.of(values(results, REPLICAS="5")).played())[: len(content["order"])] == content["order"]


@pytest.mark.parametrize(
    ("speed", "replicas", "words"),
    [
        ("20", "3", "REPLICAS=3 of each, the default"),
        ("auto", "3", "REPLICAS=3 of each, the default"),
        ("0.05", "2", "REPLICAS=2 of each, as many as take an hour by this estimate"),
        ("0.01", "1", "one run of each does not show the noise: no difference will be significant. REPLICAS=3 or more show it"),
    ],
)
def test_replicas_are_as_many_as_take_an_hour(results: Path, speed: str, replicas: str, words: str) -> None:
    """The two jobs take 40 s of the cluster's time, and a run some 20 s beside."""
    planned = Campaign.of(values(results, SPEED=speed))
    assert planned.inputs["REPLICAS"] == replicas
    assert len(planned.parts) == 2 * int(replicas)
    planned._announce(Screen(stream := io.StringIO()))
    assert words in stream.getvalue()
    (results / "r").mkdir()
    write_json(results / "r/experiment.json", {"inputs": {"REPLICAS": "7"}})
    assert Campaign.of(values(results, SPEED=speed)).inputs["REPLICAS"] == "7", "as the campaign began"


def test_replicas_that_are_given_are_taken(results: Path) -> None:
    planned = Campaign.of(values(results, REPLICAS="5", SPEED="0.01"))
    assert planned.inputs["REPLICAS"] == "5"
    planned._announce(Screen(stream := io.StringIO()))
    assert "REPLICAS=" not in stream.getvalue()


@pytest.mark.parametrize(("text", "value"), [("5%", 5), ("2.5", 2.5), ("50%", 50)])
def test_the_margin_is_per_cent(text: str, value: float) -> None:
    assert knobs.parse("MARGIN", text) == Decimal(str(value))


@pytest.mark.parametrize("text", ["0", "-5%", "51%", "5 %", "five"])
def test_another_margin_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^MARGIN: .* it may be per cent of the baseline's mean"):
        knobs.parse("MARGIN", text)


def test_replicas_are_played_in_turn_and_pairs_have_the_same_phase(results: Path) -> None:
    planned = Campaign.of(values(results, REPLICAS="2"))
    assert [part.folder.relative_to(results).as_posix() for part in planned.parts] == [
        "r/fifo-1", "r/backfill-1", "r/fifo-2", "r/backfill-2",
    ]  # fmt: skip
    assert [part.name() for part in planned.parts] == ["r.fifo-1", "r.backfill-1", "r.fifo-2", "r.backfill-2"]
    one, other, *rest = [part.shift for part in planned.parts]
    assert one == other and rest[0] == rest[1] != one
    assert planned.inputs["CONFIGS"] == "fifo backfill" and planned.inputs["REPLICAS"] == "2"
    assert "CONFIG" not in planned.inputs and planned.inputs["fifo content"] != planned.inputs["backfill content"]
    assert planned.prepared["fifo"].dues == planned.prepared["backfill"].dues
    assert [one.knobs.scheduler.config for one in planned.prepared.values()] == ["fifo", "backfill"]


def test_values_of_filler_are_compared_with_one_configuration(results: Path) -> None:
    given, arms = aspects.arms(values(results, CONFIGS="", FILLER="no slots planned", REPLICAS="2", SPEED="event"))
    planned = Campaign.of(given, arms=arms)
    labels = [part.folder.name for part in planned.parts]
    assert labels == ["no-1", "slots-1", "planned-1", "no-2", "slots-2", "planned-2"]
    assert [one.knobs.part(FillerKnobs).variant for one in planned.prepared.values()] == ["no", "slots", "planned"]
    assert {one.knobs.scheduler.config for one in planned.prepared.values()} == {"slurm-defaults"}
    assert len({part.shift for part in planned.parts[:3]}) == 1
    assert len({tuple(one.dues) for one in planned.prepared.values()}) == 1
    inputs = [planned._inputs_of(part)["FILLER"] for part in planned.parts[:3]]
    assert inputs == ["no", "slots", "planned"]


def test_files_of_events_are_compared_with_one_configuration(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each arm has its own events, and the failures of all are the same. The content of the files is an input."""
    monkeypatch.chdir(results.parent)
    Path("a+b.csv").write_text("2min,drain,n1,\n")
    Path("week.csv").write_text("1min,drain,n1,\n")
    told = {"CONFIGS": "", "EVENTS": "none a+b.csv week.csv", "FAILURES": "mtbf=20s repair=5s", "SPEED": "event"}
    given, arms = compare._of_calendars(values(results, **told, REPLICAS="2"))
    planned = Campaign.of(given, arms=arms)
    assert [part.folder.name for part in planned.parts[:3]] == ["none-1", "a_b-1", "week-1"]
    drains = {label: [event.instant for event in one.events if event.action == "drain"] for label, one in planned.prepared.items()}
    assert drains == {"none": [], "a_b": [120], "week": [60]}
    failures = [[event for event in one.events if event.source == "FAILURES"] for one in planned.prepared.values()]
    assert failures[0] and failures[0] == failures[1] == failures[2]
    inputs = [planned._inputs_of(part)["EVENTS"] for part in planned.parts[:3]]
    assert inputs == ["none", *(hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in ("a+b.csv", "week.csv"))]


def test_events_are_checked_against_all_configurations(results: Path) -> None:
    path = results.parent / "events.csv"
    path.write_text("1,set,partition urgent,State=DOWN\n")
    with pytest.raises(WrongUse, match=r"events.csv:1: there is no partition urgent; it may be one of .* \(in fifo\)"):
        Campaign.of(values(results, CONFIGS="requeue fifo", EVENTS=str(path)))


def test_later_runs_take_the_launch_cost_of_the_first(results: Path) -> None:
    class Played:
        """What the playbooks would do with a cluster."""

        given: ClassVar[list[object]] = []

        def play(self, playbook: str, variables: dict[str, object], inventory: Path, screen: Screen, log: Path) -> None:
            folder = Path(str(variables["experiment_results_dir"]))
            cost = LaunchCost(Width(1, 0.02 + len(self.given), 0.001, 25)).record()
            start = start_event(launch_cost=cost)
            (folder / "journal.jsonl").write_text(json.dumps(start) + "\n")
            shown = {"validity": verdict(), "metrics": {"wait_mean": 1.0}, "jobs": {"submitted": 2}}
            write_json(folder / "metrics.json", shown)
            self.given.append(variables.get("experiment_launch_cost"))

    planned = Campaign.of(values(results, REPLICAS="2"))
    planned.folder.mkdir()
    write_json(planned.folder / "experiment.json", {"inputs": planned.inputs})
    for part in planned.parts:
        lane = Lane.only(planned.knobs.cluster, Played(), Screen(io.StringIO()))  # type: ignore[arg-type]
        planned._play(part, planned.prepared[part.config], lane)
    first = LaunchCost(Width(1, 0.02, 0.001, 25)).record()
    assert Played.given == [None, first, first, first]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"CONFIGS": "fifo nosuch"}, r"^configs: there is no configs/nosuch.yml; it may be one of: .*fifo"),
        ({"SHRINK": "100:50:10"}, "^shrink: a sweep is not possible here"),
        ({"RUN": "r" * 81, "CONFIGS": f"fifo {'x' * 61}"}, f"^run: {'r' * 81} is too long for runs like"),
        ({"CONFIGS": ""}, "^configs: nothing is given; it may be two names"),
        ({"CONFIGS": "", "RUN": ""}, "^configs: nothing is given; it may be two names"),
        ({"FILLER": "no slots"}, "^filler=no slots: CONFIGS is compared already; it may be one of no, slots and planned"),
        ({"CONFIGS": "", "FILLER": "no slots", "FILLER_JOBS": "save=-1"}, "^filler_jobs: save=-1: seconds, 0 or more"),
    ],
)
def test_wrong_use_writes_nothing(results: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], words: str) -> None:
    if "xx" in change.get("CONFIGS", ""):
        (results.parent / "configs").mkdir()
        for name in ("fifo", "x" * 61):
            (results.parent / f"configs/{name}.yml").write_text("settings: {}")
        monkeypatch.setattr(configuration, "ROOT", results.parent)
    with pytest.raises(WrongUse, match=words):
        compare.compare(values(results, **change), Screen(io.StringIO()))
    assert list(results.iterdir()) == []


@pytest.mark.parametrize("text", ["fifo", "fifo ../x", "fifo,", "a b/c"])
def test_configs_are_two_names_or_more(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^CONFIGS: .* it may be two names or more"):
        knobs.parse("CONFIGS", text)


def test_configs_are_separated_by_blanks_or_commas() -> None:
    assert {knobs.parse("CONFIGS", text) for text in ("fifo backfill", "fifo,backfill", " fifo ,  backfill ")} == {"fifo backfill"}


def test_another_campaign_of_that_name_is_refused(results: Path) -> None:
    before = Campaign.of(values(results, REPLICAS="3"))
    (results / "r").mkdir()
    write_json(results / "r/experiment.json", {"inputs": before.inputs})
    with pytest.raises(WrongUse, match="run: results/r has other inputs: REPLICAS was 3, is 2"):
        compare.compare(values(results, REPLICAS="2"), Screen(io.StringIO()))


def test_a_finished_campaign_is_compared_again_from_its_runs(results: Path) -> None:
    planned = Campaign.of(values(results, REPLICAS="3"))
    folder = results / "r"
    for run, part in zip(campaign(1, count=200, replicas=3, labels=("fifo", "backfill"), gain=0.4), planned.parts, strict=True):
        part.folder.mkdir(parents=True)
        run.jobs.write_csv(part.folder / "jobs.csv")
        write_json(part.folder / "metrics.json", run.metrics)
    members = [vars(part.member) for part in planned.parts]
    write_json(folder / "experiment.json", {"inputs": planned.inputs, "comparison": members})
    only_run = knobs.resolve({"RUN": "r"})
    for part in planned.parts[:5]:
        Ending("ok", "done").store(part.folder)
    with pytest.raises(WrongUse, match=r"results/r is not finished \(backfill-3 is not\)"):
        compare.compare(only_run, Screen(io.StringIO()))
    Ending("ok", "done").store(planned.parts[5].folder)
    ending = compare.compare(only_run, Screen(io.StringIO()))
    assert ending.word == "ok" and "backfill against fifo: 4" in ending.message and "% shorter mean wait" in ending.message
    first = (folder / "comparison.json").read_bytes()
    (folder / "comparison.json").unlink()
    screen = Screen(stream := io.StringIO())
    assert compare.compare(values(results, REPLICAS="3"), screen) == ending
    assert (folder / "comparison.json").read_bytes() == first
    assert "results/r is finished: nothing is run again" in stream.getvalue()
    stored = Ending.load(folder)
    assert stored is not None and stored.line == ending.line


@pytest.mark.parametrize(
    ("validity", "anew"),
    [
        (verdict(interrupted=9.0, halted=0.0), False),
        (verdict("invalid", interrupted=0.0, halted=0.0), False),
        (verdict("invalid", interrupted=0.0, halted=531.0), True),
        (verdict("invalid", interrupted=9.0, halted=None), True),
        (verdict("inconclusive", interrupted=9.0, halted=None), True),
        (verdict("inconclusive", interrupted=0.0, halted=0.0), False),
    ],
)
def test_a_run_that_an_interruption_made_invalid_is_played_anew(results: Path, validity: dict[str, object], anew: bool) -> None:
    part = Campaign.of(values(results)).parts[0]
    part.folder.mkdir(parents=True)
    write_json(part.folder / "experiment.json", {"run": "r.fifo-1", "inputs": {"SEED": "1"}})
    for attempt in range(1, parts.ATTEMPTS + 1):
        assert part.ending() is None
        (part.folder / "jobs.csv").write_text("id")
        (part.folder / "ansible.log").write_text("what was done")
        (part.folder / "recorded.csv").write_text("id")
        write_json(part.folder / "metrics.json", {"validity": validity})
        Ending(OF_VERDICT[verdict_of(validity)], "done").store(part.folder)
        if not (anew and attempt < parts.ATTEMPTS):
            assert part.ending() is not None and not part.is_spoiled()
            break
        assert part.ending() is None and part.is_spoiled()
        part.begin_anew()
        assert {path.name for path in part.folder.iterdir()} == {"experiment.json", "ansible.log", "recorded.csv"}
        experiment = {"run": f"r.fifo-1.{attempt + 1}", "attempt": attempt + 1, "inputs": {"SEED": "1"}}
        assert read_json(part.folder / "experiment.json") == experiment
        assert part.name() == f"r.fifo-1.{attempt + 1}"
    assert part.attempt() == (parts.ATTEMPTS if anew else 1)


def test_an_invalid_run_makes_the_comparison_invalid(results: Path) -> None:
    folder = results / "r"
    members = finished(folder)
    metrics = read_json(folder / "b-2/metrics.json") | {"validity": verdict("invalid", "too late", "too slow")}
    write_json(folder / "b-2/metrics.json", metrics)
    ending = conclude(folder, members, Screen(io.StringIO()))
    assert ending.line == "invalid: 1 of 4 runs: b-2: too late, too slow; results/r/comparison.json"
    assert json.loads((folder / "comparison.json").read_text())["validity"]["invalid"] == {"b-2": ["too late", "too slow"]}


def test_an_inconclusive_run_makes_the_comparison_inconclusive(results: Path) -> None:
    folder = results / "r"
    members = finished(folder)
    validity = {"validity": verdict("inconclusive", "too coarse")}
    write_json(folder / "a-1/metrics.json", read_json(folder / "a-1/metrics.json") | validity)
    ending = conclude(folder, members, Screen(io.StringIO()))
    assert ending.line == "inconclusive: 1 of 4 runs: a-1: too coarse; results/r/comparison.json"
    assert (ending.code, ending.is_final) == (1, True)


@pytest.mark.parametrize(("labels", "replicas"), [("ab", 1), ("abc", 2), ("abcde", 1)])
def test_what_is_shown(results: Path, labels: str, replicas: int) -> None:
    folder = results / "r"
    conclude(folder, finished(folder, labels, replicas), Screen(stream := io.StringIO()))
    told = stream.getvalue().partition("report.html could not be made")[0].splitlines()
    count = replicas * len(labels)
    assert told[1] == f"60 jobs, {count} runs (times in seconds of the trace)"
    answers = [line[:12] for line in told[: 2 * len(labels)] if " against a: " in line]
    assert answers == [f"{other} against a:" for other in labels[1:]] and " against a: " in told[2], "verdicts first"
    assert [line for line in told if line.startswith(" wait_mean ")] and not [line for line in told if line.startswith(" W1 ")]
    assert f"trust: {count} of {count} runs are valid" in told and told[-1] == "all metrics: make metrics RUN=r"
    assert max(map(len, told)) <= 110
    assert len(told) <= 35 - 2, "the path of the page and the ending follow"
    content = read_json(folder / "comparison.json")
    nothing = {"verdict": "unknown", "interval": None, "percent_interval": None}
    content["metrics"]["wait_mean"]["pairs"][0] |= {"mean": None, "difference": None, "percent": None, "noise_floor": None}
    content["metrics"]["wait_mean"]["pairs"][0] |= {"these_jobs": nothing, "other_jobs": nothing}
    show(folder, content, Screen(again := io.StringIO()))
    assert " unknown" in again.getvalue()


LONGEST = "12 % shorter to 3.0 % longer mean wait"


def test_a_comparison_in_which_all_differs_fits_on_its_screen(results: Path) -> None:
    folder = results / "r"
    conclude(folder, finished(folder, replicas=3), Screen(io.StringIO()))
    content = read_json(folder / "comparison.json")
    for metric in content["metrics"].values():
        pair = metric["pairs"][0]
        pair["these_jobs"] |= {"verdict": "higher", "words": f"{LONGEST} for these jobs ({LONGEST})"}
        pair["words"] = f"{pair['these_jobs']['words']}; for others like them {LONGEST}, not certain: {LONGEST}"
    filled = ("filler_load", "wasted_fraction", "resizes_mean")
    for name in filled:
        content["metrics"][name]["configurations"]["b"]["mean"] = 0.5
    show(folder, content, Screen(stream := io.StringIO()))
    lines = stream.getvalue().splitlines()
    assert set(filled) <= {line.split()[0] for line in lines if line.split()}
    assert len(lines) <= 35 - 2
    assert [line for line in lines if line.endswith(" other metrics differ")]


def test_all_metrics_of_a_comparison(results: Path) -> None:
    folder = results / "r"
    conclude(folder, finished(folder, "abc"), Screen(io.StringIO())).store(folder)
    ending = metrics(knobs.resolve({"RUN": "r"}), Screen(stream := io.StringIO()))
    assert ending.line == "ok: all metrics of the comparison results/r"
    rows = [line.split()[0] for line in stream.getvalue().splitlines() if line.split()]
    assert rows.count("W4") == rows.count("wait_mean") == 2 and "W" not in rows and "filler_load" not in rows


def test_the_live_line_tells_which_run_it_is_about() -> None:
    stream = io.StringIO()
    screen = RunScreen(Screen(stream, between_lines=0), "run 3 of 6, backfill-1")
    screen.live("  experiment: Replay the workload")
    screen.say_in_log("  Replay: 24 tasks, of each run")
    screen.say("as it is")
    assert stream.getvalue().splitlines() == [
        "run 3 of 6, backfill-1: experiment: Replay the workload",
        "as it is",
    ]


def test_estimates_are_for_all_runs(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: 1.0)
    planned = Campaign.of(values(results, REPLICAS="3"))
    stream = io.StringIO()
    planned._announce(Screen(stream))
    assert "comparison of fifo, backfill: 6 runs of about 10 s: 52 to 130 s\n" in stream.getvalue()
    assert Decimal(20) == planned.knobs.clock.speed


def test_a_comparison_of_another_release_is_refused(results: Path) -> None:
    folder = results / "r"
    conclude(folder, finished(folder), Screen(io.StringIO()))
    content = read_json(folder / "comparison.json")
    del content["method"]["compared"]
    write_json(folder / "comparison.json", content)
    with pytest.raises(WrongUse, match=r"comparison\.json: method\.compared is missing: it is not of this release$"):
        report.make(folder)
