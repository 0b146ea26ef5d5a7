"""What is told and set before a run starts: times at a speed, slack, sampling, and what shrinking leaves of the time limits."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.cluster_events.planned import words_of
from mirage.experiment import host_pace, replay_costs, run_length
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.prepare import LONGEST_SAMPLE, SAMPLES, Prepared, selection_of, source
from mirage.experiment.remarks import never_started, remarks, shrink_in_words
from mirage.knobs import resolve as knobs
from mirage.records.run_folder import RunFolder
from mirage.traces.swf import parse_swf
from mirage.traces.trace import Trace
from mirage.workloads.selection import Selection
from slurm_mirage.base.errors import WrongUse


def log(*jobs: tuple[float, float, float]) -> Trace:
    """An SWF log of jobs with one processor: submission, run time, requested time."""
    lines = (f"{n} {submit} 0 {run} 1 -1 -1 1 {asked} -1 1 1 1 -1 -1 -1 -1 -1\n" for n, (submit, run, asked) in enumerate(jobs, 1))
    return Trace(parse_swf("".join(lines).encode(), "log")[0], {}, {}, "swf", "")


def prepared(trace: Trace, **given: object) -> Prepared:
    values = knobs.resolve({"NODES": "10", "CPUS": "1", **{name: str(value) for name, value in given.items()}})
    return Prepared.make(values, trace, values.jobs.shrinks[0])


SPAN = log((0, 600, 7200), (36000, 14400, 14400))
"""Two jobs that end 14 hours after the first submission; the second uses its whole limit."""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"SPEED": 1}, "2 jobs, longest 4 h, 14 h of the cluster's time: 12 to 17 h at SPEED=1"),
        ({"SPEED": 100, "SHRINK": 50}, "2 jobs, longest 2 h, 7 h of the cluster's time: 3.7 to 6.1 min at SPEED=100"),
        ({}, "2 jobs, longest 4 h, 14 h of the cluster's time, at a speed to be picked"),
    ],
)
def test_announcements(given: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: 1.0)
    assert prepared(SPAN, **given).announcement() == words


def test_fillers_take_real_time() -> None:
    """On the event clock some 800 executions of slots of 600 s on ten nodes in 14 hours; at a constant speed none."""

    def replay(**given: object) -> float:
        length = prepared(SPAN, CONFIG="backfill", **given).length()
        assert length is not None
        return length.replay

    without = replay(SPEED="event")
    assert 40 < replay(SPEED="event", FILLER="slots") - without < 80
    assert 0.2 < replay(SPEED="event", FILLER="planned") - without < 20
    assert replay(SPEED=50, FILLER="slots") == replay(SPEED=50)


def test_the_schemes_periods_are_the_clusters_time() -> None:
    """Period and drift are seconds of the cluster's clock: neither SHRINK nor SPEED changes them in the plan."""
    given = {"SUBMISSION": "period=60 drift=-5", "SHRINK": 50}
    assert prepared(SPAN, **given).dues == prepared(SPAN, **given, SPEED=500).dues == [0.0, 55.0]


BUSY = log((0, 5000, 7200), (10, 4000, 7200), (1000, 300, 600), (1300, 300, 600), (1400, 300, 600))
"""All wait for 0 s: two run when the third is submitted."""


@pytest.mark.parametrize(
    ("given", "dues"),
    [
        ({}, [0, 0, 0, 300, 400]),
        ({"FROM": 900}, [0, 0, 100, 400, 500]),
        ({"PRESET": "none"}, [0, 300, 400]),
        ({"FROM": 900, "PRESET": "none"}, [0, 300, 400]),
        # The scheme counts jobs of the selection only, and begins with the presets.
        ({"FROM": 900, "SUBMISSION": "period=60"}, [0, 0, 0, 60, 120]),
        ({"SUBMISSION": "period=60 warmup=2"}, [0, 0, 0, 0, 60]),
    ],
)
def test_presets_are_due_at_once_and_the_others_at_their_own_times(given: dict[str, object], dues: list[float]) -> None:
    place = {} if "FROM" in given else {"OFFSET": 2}
    assert prepared(BUSY, **{"PRESET": "all", **place, **given}).dues == dues


def test_presets_and_sizes_are_told() -> None:
    run = prepared(BUSY, OFFSET=2, PRESET="running", SIZES="scale")
    assert run.announcement().startswith("3 jobs, and 2 preset, longest 67 min, 67 min of the cluster's time")
    told = remarks(run)
    assert told[:2] == [
        "sizes of jobs: 2.5 times those of the log, to the nearest processor (SIZES=scale)",
        "preset, as they were when the selection begins: 2 running, 0 queued",
    ]


def test_a_selection_that_begins_while_jobs_run_suggests_presets() -> None:
    (line,) = [line for line in remarks(prepared(BUSY, OFFSET=2)) if line.startswith("warning: when the selection begins")]
    assert "2 jobs of the log run on 2 processors and 0 wait" in line and "PRESET=all" in line
    for more in ({"OFFSET": 2, "PRESET": "all"}, {"OFFSET": 0}):
        assert not [line for line in remarks(prepared(BUSY, **more)) if "selection begins, " in line and "warning" in line]


def test_what_jobs_that_never_started_add_is_told() -> None:
    ran = "1 0 0 100 6 -1 -1 6 200 -1 1 1 1 -1 -1 -1 -1 -1\n"
    never = "{} 0 {} -1 -1 -1 -1 2 100 -1 5 1 1 -1 -1 -1 -1 -1\n"

    def told(text: str) -> list[str]:
        return never_started(prepared(Trace(parse_swf(text.encode(), "log")[0], {}, {}, "swf", "")).workload)

    assert told(ran) == []
    (line,) = told(ran + never.format(2, 50) + never.format(3, 9000))
    # 2 x 50 s until the cancellation and 2 x 100 s requested, beside 6 x 100 s.
    assert line.startswith("never started in the log: 2 jobs;") and "at most 33 % of the work" in line


def test_a_selection_from_the_knobs() -> None:
    values = knobs.resolve({"FROM": "2016-04-01", "TO": "9", "QUEUES": "1, night", "USERS": "4", "JOBS": "3", "MIN_RUNTIME": "1.5"})
    chosen = selection_of(values.workload)
    assert (chosen.begin, chosen.end, chosen.queues, chosen.users) == ("2016-04-01", "9", ("1", "night"), ("4",))
    assert (chosen.jobs, chosen.offset, chosen.min_runtime) == (3, 0, 1.5)
    assert selection_of(knobs.resolve({}).workload) == Selection()


def test_the_second_estimate_of_a_run_is_that_of_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run took three times as long as predicted; slurmctld computed for twice as long."""
    monkeypatch.setattr(run_length, "slowness", lambda: 1.0)
    first = prepared(SPAN, SPEED="event")
    run, length = first.predicted, first.length()
    assert length is not None and (length.steady, length.rest, length.around) == (run.scheduler, run.rest, run.around)
    took = 2 * run.scheduler, 3 * (run.scheduler + run.rest) - 2 * run.scheduler, 3 * run.around
    monkeypatch.setattr(host_pace, "played", lambda: [host_pace.Played(run, *took)])
    again = prepared(SPAN, SPEED="event").length()
    assert again is not None and again.range()[0] < 3 * (length.replay + length.around) < again.range()[1]
    assert again.range()[1] / again.range()[0] == pytest.approx(host_pace.LAST_RANGE**2)
    assert first.costs.job > 2 * replay_costs.of_a_job(10)


@settings(deadline=None)
@given(st.floats(0.01, 100_000))
def test_samples_are_enough_and_not_too_many(speed: float) -> None:
    run = prepared(SPAN, SPEED=f"{speed:.6f}")
    interval, real = run.sample_interval(), run.real_estimate()
    assert real is not None and 1.0 <= interval <= LONGEST_SAMPLE
    assert interval == 1.0 or real / interval >= SAMPLES * (1 - 1e-12)


def test_extended_limits_are_told_and_are_the_same_at_every_speed() -> None:
    # Of limits of 4 h: used up, missed by half a minute, by an hour; and 50 min beyond one of 10 min.
    busy = log((0, 14400, 14400), (1, 14370, 14400), (2, 10800, 14400), (3, 3600, 600))
    told = ["time limit extended: 2 jobs, by 26 min in the median, 51 min at most (OVERRUN=extend, slack 10 s)"]
    assert remarks(prepared(busy)) == remarks(prepared(busy, SPEED=500)) == told
    assert remarks(prepared(busy, SPEED=500, OVERRUN="kill")) == []


LIMITS = [60 * minutes for minutes in (5, 10, 15, 30, 60, 90, 120, 240, 480, 720, 1440, 2880)]
MANY = log(*((10 * n, 30, limit) for n, limit in enumerate(LIMITS)))


@pytest.mark.parametrize(
    ("trace", "shrink", "after", "instead"),
    [
        (MANY, "100", None, None),
        (MANY, "50", 12, None),
        (MANY, "0.2", 4, "SPEED=500"),
        (MANY, "0.0001", 1, "SPEED=100000"),
        (log((0, 30, 300), (1, 30, 600)), "10", 1, None),  # half of them
        (log((0, 30, 300), (1, 30, 600), (2, 30, 360)), "10", 1, "SPEED=10"),
        (log((0, 30, 60), (1, 30, 70), (2, 30, 80)), "70", 1, "SPEED=1.4"),
    ],
)
def test_limits_that_collapse(trace: Trace, shrink: str, after: int | None, instead: str | None) -> None:
    lines = remarks(prepared(trace, SHRINK=shrink))
    before = trace.frame["requested_time"].n_unique()
    told = [line for line in lines if line.startswith("distinct")]
    assert told == ([] if after is None else [f"distinct time limits: {after}, in the log {before} (a limit has whole minutes)"])
    assert sum(line.startswith("not shrunk: bf_interval, ") for line in lines) == (after is not None)
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert len(warnings) == (instead is not None)
    if instead is not None:
        assert warnings[0].endswith(f"; {instead} with SHRINK=100 is as short, and keeps them")


def test_the_speed_that_is_offered_counts_the_one_given() -> None:
    assert "SPEED=10000 with SHRINK=100" in remarks(prepared(MANY, SHRINK="0.2", SPEED=20))[-1]


def test_shrink_in_words() -> None:
    assert shrink_in_words(Decimal("0.2")) == "0.2 %: 500 times shorter"
    assert shrink_in_words(Decimal(200)) == "200 %: 2 times longer"


def test_a_speed_that_is_picked_later_changes_the_estimate(tmp_path: Path) -> None:
    """SPEED=auto: what was written before the speed was known is replaced, and the rest of experiment.json stays."""
    folder = tmp_path / "r"
    prepared(SPAN, SPEED="auto").write(folder, {"inputs": {"SPEED": "auto"}})
    before = (folder / "plan.csv").read_text()
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    with ExitStack() as stack:
        opened = {path.name: stack.enter_context(path.open("rb")) for path in folder.iterdir()}
        prepared(SPAN, SPEED=500).write_again(folder)
        assert {name: file.read() for name, file in opened.items()} == whole, "no file is written in place"
    experiment = json.loads((folder / "experiment.json").read_text())
    assert experiment["inputs"] == {"SPEED": "auto"}
    assert experiment["workload"]["estimate_real"] == 50400 / 500
    assert (folder / "plan.csv").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_lines_of_the_log_that_cannot_be_read_are_told_and_left_out(tmp_path: Path) -> None:
    lines = [f"{n} {n} 0 60 1 -1 -1 1 120 -1 1 1 1 -1 -1 -1 -1 -1\n" for n in range(1, 6)]
    (tmp_path / "torn.swf").write_text("".join([*lines[:2], "3 3 0 6\n", *lines[3:]]))
    values = knobs.resolve({"TRACE": str(tmp_path / "torn.swf"), "NODES": "10", "CPUS": "1"})
    found = source(values.workload, values.nodes.machine)
    words = "1 of 5 lines could not be read: line 3: has 4 fields, a job in SWF has 18"
    assert found.description["unread"] == words
    for selection in ({}, {"FROM": "2"}, {"JOBS": "2"}):
        run = prepared(found.trace, **selection)
        assert run.workload.excluded == {"line of the log that cannot be read": 1}
        assert {words, "left out: 1 jobs (line of the log that cannot be read)"} <= set(remarks(run))
    run = prepared(found.trace)
    run.write(tmp_path / "run", {})
    written = json.loads((tmp_path / "run/experiment.json").read_text())
    assert written["workload"]["excluded"] == {"line of the log that cannot be read": 1}


@pytest.mark.parametrize(
    ("given", "wait", "waits"),
    [({}, 7, [7.0, 7.0]), ({"SUBMISSION": "period=60"}, 7, None), ({}, -1, None), ({"TRACE": ""}, 7, None)],
)
def test_what_the_log_records_of_the_jobs(given: dict[str, str], wait: int, waits: list[float] | None, tmp_path: Path) -> None:
    path, folder = tmp_path / "log.swf", tmp_path / "run"
    path.write_text("".join(f"{n} {100 * n} {wait} 50 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n" for n in (1, 2)))
    values = knobs.resolve({"NODES": "10", "CPUS": "1", "TRACE": str(path), **given})
    made = Prepared.make(values, source(values.workload, values.nodes.machine).trace, values.jobs.shrinks[0])
    made.write(folder, {})
    recorded = RunFolder(folder).recorded
    if waits is None:
        assert recorded is None
    else:
        assert recorded is not None
        assert (recorded["start"] - recorded["submit"]).to_list() == waits and recorded["selected"].all()


def test_the_events_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    path.write_text("1h,fail,n[3-4],30min\n0,hold,2,\n")
    made = prepared(SPAN, EVENTS=str(path), MAINTENANCE="once 10h 1h n1 announced=8h", SHRINK=50, SPEED="event")
    assert [(event["at"], event["action"], event["target"]) for event in made.events_of_replay()] == [
        (0, "hold", "2"), (1800, "fail", "n[3-4]"), (2700, "return", "n[3-4]"), (3600, "reserve", "maintenance-1"),
    ]  # fmt: skip
    assert made.events_of_replay()[3]["argument"] == "StartTime=18000 Duration=1800 Nodes=n1 Flags=MAINT,IGNORE_JOBS Users=root"
    assert made.announcement().startswith("2 jobs, 4 events, longest")
    made.write(tmp_path / "run", {})
    lines = (tmp_path / "run/events.csv").read_text().splitlines()
    assert lines[0] == "number,instant,action,target,argument,source" and lines[2] == "1,3600,fail,n[3-4],,week.csv:1"
    prepared(SPAN).write(tmp_path / "without", {})
    assert not (tmp_path / "without/events.csv").exists()


def test_replicas_draw_failures_of_their_own() -> None:
    made = prepared(SPAN, FAILURES="mtbf=1d repair=1h", SPEED="event")
    other = replace(made, replica=2)
    assert made.events and made.events != other.events
    assert made.events == prepared(SPAN, FAILURES="mtbf=1d repair=1h", SPEED="event", CONFIG="fifo").events, (
        "arms have the same ones"
    )
    begins = [event.instant for event in made.events if event.action == "fail"]
    assert max(begins) <= 2 * made.estimate() and max(begins) > made.estimate()


def test_events_of_a_run_can_be_given_again_with_their_sources(tmp_path: Path) -> None:
    (tmp_path / "week.csv").write_text("1h,fail,n1,1d\n2h,drain,n2,\n")
    made = prepared(SPAN, EVENTS=str(tmp_path / "week.csv"), FAILURES="mtbf=1d repair=1h", MAINTENANCE="daily 08:00 1h n3")
    made.write(tmp_path / "run", {})
    again = prepared(SPAN, EVENTS=str(tmp_path / "run/events.csv"))
    assert again.events_of_replay() == made.events_of_replay()
    assert {event.source for event in made.events} == {"week.csv:1", "week.csv:2", "FAILURES", "MAINTENANCE"}
    for one, other in zip(again.events, made.events, strict=True):
        assert one.source == other.source or other.source.startswith("week.csv:")
    assert [event.action for event in made.events if event.target == "n1"] == ["fail", "return"], "it fails once at a time"


def test_windows_are_at_hours_of_the_logs_calendar() -> None:
    dated = replace(SPAN, header={"UnixStartTime": "1700000000", "TimeZoneString": "Europe/Zurich"})  # Tue 23:13:20 there
    (of_log,) = prepared(dated, MAINTENANCE="weekly wed 08:00 1h all").events
    assert words_of(of_log.argument)["StartTime"] == str(8 * 3600 + 46 * 60 + 40)
    assert not prepared(SPAN, MAINTENANCE="weekly wed 08:00 1h all").events, "without one it is Monday"


def test_a_run_begins_at_the_weekday_and_hour_of_the_log() -> None:
    dated = replace(SPAN, header={"UnixStartTime": "1700000000", "TimeZoneString": "Europe/Zurich"})  # Tue 23:13:20 there
    assert prepared(dated).second_of_week == (47 * 60 + 13) * 60 + 20
    assert prepared(SPAN).second_of_week == 0, "without a date on Monday"
    on_event_clock, constant = prepared(SPAN, SPEED="event"), prepared(SPAN, SPEED="20")
    assert on_event_clock.passing == on_event_clock.estimate() + 7 * 86400 and constant.passing == constant.estimate()


def test_no_event_is_generated_after_the_last_possible_end_of_the_run() -> None:
    plain = prepared(SPAN)
    last = max(plain.dues) + 60 * sum(plain.requests.limits)
    made = prepared(SPAN, FAILURES="mtbf=10min repair=1s", MAINTENANCE=f"once {math.ceil(last) + 1} 1h all", SPEED="event")
    begins = [event.instant for event in made.events if event.action == "fail"]
    assert 2 * made.estimate() > last >= max(begins) > 0.9 * last
    assert not [event for event in made.events if event.action == "reserve"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"EVENTS": "a.csv b.csv"}, "only make compare takes several"),
        ({"EVENTS": "missing.csv"}, "missing.csv: cannot be read"),
        (
            {"EVENTS": "clash.csv", "MAINTENANCE": "once 1h 1h n1"},
            "clash.csv:1: MAINTENANCE has reservations of the name maintenance-7",
        ),
        ({"MAINTENANCE": "once 1h 1h n11"}, "there is no node n11; the nodes are n[1-10]"),
    ],
)
def test_events_that_a_run_cannot_have(given: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clash.csv").write_text("1h,reserve,maintenance-7,nodes=n1 duration=1h\n")
    with pytest.raises(WrongUse) as caught:
        prepared(SPAN, **given)
    assert words in str(caught.value)


def test_nodes_that_do_not_answer_are_noticed_only_in_runs_with_such_events(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,not-responding,n1,1h\n")
    (tmp_path / "b.csv").write_text("1,drain,n1,\n")

    def noticed(**given: str) -> bool:
        return "mirage_silent_nodes" in cluster_variables(knobs.resolve({"NODES": "10", "CPUS": "1", **given}))

    assert noticed(EVENTS=str(tmp_path / "a.csv")) and noticed(FAILURES="mtbf=1d repair=1h")
    assert noticed(EVENTS=f"none {tmp_path / 'b.csv'} {tmp_path / 'a.csv'}"), "an arm of the comparison has them"
    assert not noticed(EVENTS=str(tmp_path / "b.csv")) and not noticed()


@pytest.mark.parametrize(
    ("given", "account", "owner"),
    [
        ({"ACCOUNTING": "yes"}, "u12", "u12"),
        ({}, "", ""),
        ({"MALLEABLE": "0.5"}, "u12", ""),
    ],
)
def test_whom_jobs_belong_to(given: dict[str, object], account: str, owner: str) -> None:
    """Malleable jobs are the instance's user's, as is its broker."""
    line = "{} 0 0 60 1 -1 -1 1 60 -1 1 {} 1 -1 -1 -1 -1 -1\n"
    jobs = parse_swf((line.format(1, 12) + line.format(2, -1)).encode(), "log")[0]
    rows = prepared(Trace(jobs, {}, {}, "swf", ""), **given).plan("r")
    assert [(row.account, row.owner) for row in rows] == [(account, owner), ("", "")]


def test_a_user_beyond_those_that_slurm_can_know_is_refused() -> None:
    jobs = parse_swf(b"1 0 0 60 1 -1 -1 1 60 -1 1 200000000 1 -1 -1 -1 -1 -1\n", "log")[0]
    with pytest.raises(WrongUse, match=r"^trace: user 200000000 is above 199999999"):
        prepared(Trace(jobs, {}, {}, "swf", ""), ACCOUNTING="yes").plan("r")
