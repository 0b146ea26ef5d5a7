"""Tests of the dependencies with which jobs are submitted, from sacct's SubmitLine and from SWF's preceding jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.traces import sacct, swf
from mirage.traces.trace import Trace, read_trace
from mirage.workloads.dependencies import Condition, Dependency, Target, parse
from mirage.workloads.not_played import counts
from mirage.workloads.selection import Selection
from mirage.workloads.workload import Workload, prepare
from slurm_mirage.base.errors import WrongUse

EXAMPLE = Path(__file__).parents[2] / "logs" / "dependencies.sacct"


def prepared(trace: Trace, depend: str = "keep", **more: object) -> Workload:
    return prepare(trace, Selection(), classes=[(20, 4)], slack=10.0, depend=depend, **more)  # type: ignore[arg-type]


# ---- the value of --dependency ----


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("afterok:7", Dependency((Condition("afterok", (Target(7),)),))),
        ("AfterOK:7", Dependency((Condition("afterok", (Target(7),)),))),
        ("afterany:7_3:8_*", Dependency((Condition("afterany", (Target(7, 3), Target(8))),))),
        ("after:7+10", Dependency((Condition("after", (Target(7, None, 10),)),))),
        ("7,8", Dependency((Condition("afterany", (Target(7),)), Condition("afterany", (Target(8),))))),
        ("7_2", Dependency((Condition("afterany", (Target(7, 2),)),))),
        ("afterok:7?afternotok:8", Dependency((Condition("afterok", (Target(7),)), Condition("afternotok", (Target(8),))), True)),
    ],
)
def test_dependencies(text: str, meant: Dependency) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    "text", ["singleton", "expand:7", "afterok", "afterok:", "afterok:x", "afterok:0", "afterok:7,8?9", "", ","]
)
def test_unsupported_dependencies_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


_targets = st.builds(Target, st.integers(1, 10**9), st.none() | st.integers(0, 10**6), st.integers(0, 99))
_conditions = st.builds(
    Condition,
    st.sampled_from(["after", "afterany", "afterok", "afternotok", "aftercorr"]),
    st.lists(_targets, min_size=1, max_size=4).map(tuple),
)


def _text(condition: Condition) -> str:
    words = (
        f"{target.job}" + (f"_{target.task}" if target.task is not None else "") + (f"+{target.minutes}" if target.minutes else "")
        for target in condition.targets
    )
    return ":".join((condition.kind, *words))


@given(st.lists(_conditions, min_size=1, max_size=4), st.booleans())
def test_any_dependency_is_parsed(conditions: list[Condition], either: bool) -> None:
    either = either and len(conditions) > 1
    assert parse(("?" if either else ",").join(map(_text, conditions))) == Dependency(tuple(conditions), either)


@given(st.text(alphabet="aftercorkny:,?0129_*+() sxil", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        assert parse(text).conditions
    except ValueError as error:
        assert str(error)


# ---- dependencies in sacct's output ----

DAY = "2026-03-01T"


def log(*jobs: dict[str, str]) -> Trace:
    """A trace from sacct: jobs 1, 2, ... submitted ten minutes apart, each of which ran for five minutes without a wait."""
    usual = {
        "JobID": "",
        "Submit": "",
        "Start": "",
        "Elapsed": "00:05:00",
        "State": "COMPLETED",
        "AllocCPUS": "1",
        "SubmitLine": "",
    }
    heading = {name: "" for job in jobs for name in job}
    lines = []
    for number, job in enumerate(jobs, 1):
        at = f"{DAY}{10 + number // 6:02d}:{number % 6}0:00"
        raw = {"JobIDRaw": str(number)} if "JobIDRaw" in heading else {}
        lines.append({**heading, **usual, "JobID": str(number), **raw, "Submit": at, "Start": at, **job})
    text = "\n".join(["|".join(lines[0]), *("|".join(fields[name] for name in lines[0]) for fields in lines)])
    frame, header, notes, _ = sacct.parse_sacct(text.encode(), "log")
    return Trace(frame, header, notes, "sacct", "")


NEVER_RAN = {"State": "CANCELLED", "Start": "None", "Elapsed": "00:00:00", "End": f"{DAY}23:00:00"}


def submitted(*jobs: dict[str, str]) -> tuple[list[str], dict[str, int]]:
    chosen = prepared(log({"End": ""}, *jobs))
    return chosen.jobs["dependency"].to_list()[1:], {key: count for key, count in chosen.notes.items() if "depend" in key}


@pytest.mark.parametrize(
    ("line", "dependency"),
    [
        ("sbatch --dependency=afterok:1 a.sh", "afterany:1"),
        ("sbatch --dependency afterany:1 a.sh", "afterany:1"),
        ("sbatch --depend=afterok:1 a.sh", "afterany:1"),
        ("sbatch -d afterok:1 a.sh", "afterany:1"),
        ("sbatch -dafterok:1 a.sh", "afterany:1"),
        ("sbatch --dependency=1 a.sh", "afterany:1"),
        ("sbatch --dependency='afterok:1' a.sh", "afterany:1"),
        ("sbatch --dependency=after:1+5 a.sh", "after:1+5"),
        ("sbatch -d 1 -n 4 a.sh", "afterany:1"),
        ("sbatch -n4 --parsable -d afterok:1 a.sh --depth 50", "afterany:1"),
        ("srun -n 4 --dependency=afterok:1 a.out", "afterany:1"),
        ("sbatch --dependency= a.sh", ""),
        ("sbatch --dependency='' a.sh", ""),
        # Words after the script, or in --wrap, are not sbatch's.
        ("sbatch a.sh -d 1", ""),
        ("sbatch -n 4 a.sh --dependency=afterok:1", ""),
        ("sbatch -n 4 a.sh --depth 1", ""),
        ("sbatch -n 4 a.sh --deploy=prod", ""),
        ("sbatch -n 4 -- -d afterok:1", ""),
        ("sbatch -n 4 --wrap=python a.py --dependency afterok:1", ""),
        ("sbatch -n 4 --wrap python -d afterok:1", ""),
        ("srun -n 4 a.out -d afterok:1", ""),
        ("sbatch --deadline=1 a.sh", ""),
        ("sbatch a.sh", ""),
    ],
)
def test_submit_lines(line: str, dependency: str) -> None:
    assert submitted({"SubmitLine": line})[0] == [dependency]


def test_a_job_that_ran_is_submitted_with_afterany() -> None:
    """It starts even if a job fails in the emulation that did not in the log, or vice versa."""
    for kind in ("afterok", "afternotok", "afterany"):
        assert submitted({"SubmitLine": f"sbatch --dependency={kind}:1"}) == (["afterany:1"], {"dependencies": 1})


@pytest.mark.parametrize(
    ("kind", "state", "dependency"),
    [
        ("afterok", "FAILED", "never"),
        ("afterok", "TIMEOUT", "never"),
        ("afterok", "COMPLETED", "afterany:2"),
        ("afternotok", "COMPLETED", "never"),
        ("afternotok", "FAILED", "afterany:2"),
        ("afterany", "FAILED", "afterany:2"),
    ],
)
def test_a_job_whose_condition_was_not_fulfilled_is_never_started(kind: str, state: str, dependency: str) -> None:
    line = f"sbatch --dependency={kind}:2"
    assert submitted({"State": state}, {**NEVER_RAN, "SubmitLine": line})[0] == ["", dependency]
    either = f"sbatch --dependency={kind}:2?afterany:1"
    assert submitted({"State": state}, {**NEVER_RAN, "SubmitLine": either})[0] == ["", "afterany:2?afterany:1"]


def test_jobs_outside_of_the_selection_are_left_out_and_counted() -> None:
    assert submitted({"SubmitLine": "sbatch -d afterok:77"}) == ([""], {"dependencies_outside": 1})
    assert submitted({"SubmitLine": "sbatch -d afterok:77:1"}) == (["afterany:1"], {"dependencies": 1, "dependencies_outside": 1})
    assert submitted({"SubmitLine": "sbatch -d afterok:77?afterok:1"}) == ([""], {"dependencies_outside": 1})
    assert submitted({"SubmitLine": "sbatch -d singleton"}) == ([""], {"dependencies_unknown": 1})
    assert submitted({"SubmitLine": "sbatch -d afterok:3"}, {})[0] == ["", ""], "a job that comes later"


def test_dependencies_that_the_log_contradicts_are_left_out_and_counted() -> None:
    first = {"Elapsed": "02:00:00"}
    assert submitted(first, {"SubmitLine": "sbatch -d afterok:2"}) == (["", ""], {"dependencies_contradicted": 1})
    result = submitted(first, {"SubmitLine": "sbatch -d afterok:2?afterok:1"})
    assert result == (["", "afterany:1"], {"dependencies": 1}), "the other one was enough"


def test_arrays() -> None:
    tasks = ({"JobID": "9_0", "JobIDRaw": "10"}, {"JobID": "9_1", "JobIDRaw": "11"}, {"JobID": "9_2", "JobIDRaw": "9"})

    def last(**job: str) -> str:
        return submitted(*tasks, {"JobIDRaw": "12", "JobID": "12", **job})[0][-1]

    assert last(SubmitLine="sbatch -d afterok:9") == "afterany:10:11:9"
    assert last(SubmitLine="sbatch -d afterok:9_*") == "afterany:10:11:9"
    assert last(SubmitLine="sbatch -d afterok:9_1") == "afterany:11"
    assert last(SubmitLine="sbatch -d afterok:11") == "afterany:11"
    assert last(JobID="12_1", SubmitLine="sbatch -a 0-2%2 -d aftercorr:9") == "afterany:11"
    assert last(JobID="12_7", SubmitLine="sbatch -a 7 -d aftercorr:9") == "afterany:10:11:9", "it has no counterpart"


def test_without_the_knob_nothing_waits() -> None:
    chosen = prepared(log({}, {"SubmitLine": "sbatch -d afterok:1"}), depend="none")
    assert chosen.jobs["dependency"].to_list() == ["", ""]
    assert chosen.notes == {"requested_time_unknown": 2}


def test_minutes_after_a_start_are_shrunk() -> None:
    chosen = prepared(log({}, {"SubmitLine": "sbatch -d after:1+10"}), shrink_percent=20)
    assert chosen.jobs["dependency"][1] == "after:1+2"


@pytest.mark.parametrize("depend", ["keep", "none"])
def test_jobs_that_were_held_until_they_were_cancelled_never_start(depend: str) -> None:
    with_columns = {"Eligible": f"{DAY}10:00:00", "Reason": "None"}
    held_by_user = NEVER_RAN | {"Reason": "JobHeldUser"}
    never_eligible = NEVER_RAN | {"Eligible": "Unknown"}
    depends = never_eligible | {"SubmitLine": "sbatch --dependency=afterok:1 j.sh"}
    trace = log(
        with_columns, with_columns | held_by_user, with_columns | never_eligible, with_columns | depends, with_columns | NEVER_RAN
    )
    chosen = prepared(trace, depend)
    # Whether the job with a dependency waits is decided by the dependency, and by the knob.
    assert chosen.jobs["dependency"].to_list() == ["", "never", "never", "afterany:1" if depend == "keep" else "", ""]
    assert chosen.notes["held"] == 2
    # Without these columns nothing is known of it.
    assert "held" not in prepared(log({}, NEVER_RAN), depend).notes


def test_a_name_with_a_line_break_is_no_name_of_a_partition() -> None:
    chosen = prepared(log({"Partition": "batch\x0bat\u2028ch"}, {"Partition": "b{{a}}t$(c)h"}))
    assert chosen.jobs["partition_name"].to_list() == ["", "b{{a}}t$(c)h"]


def test_the_example() -> None:
    trace = read_trace(EXAMPLE)
    chosen = prepared(trace)
    dependencies_by_job = {number: text for number, text in chosen.jobs.select("id", "dependency").iter_rows() if text}
    assert dependencies_by_job == {
        4006: "afterany:4005",
        4007: "afterany:4006",
        4018: "afterany:4017:4012:4013:4014:4015:4016",
        4019: "afterany:4012",
        4020: "afterany:4013",
        4021: "afterany:4014",
        4023: "afterany:4022",
        4024: "never",
        4025: "afterany:4002",
        4026: "after:4005+6",
    }
    expected = {"dependencies": 9, "dependencies_never": 1, "dependencies_outside": 1, "dependencies_unknown": 1}
    assert {key: count for key, count in chosen.notes.items() if "depend" in key} == expected
    assert [chosen.notes[name] for name in ("array_tasks", "arrays")] == [9, 2]
    assert counts(chosen.jobs)["array_limit"]["jobs"] == 6
    names = chosen.jobs.select("partition_name", "qos_name", "memory").row(5)
    assert names == ("batch", "high", 1000 * 1024)


# ---- SWF's fields 17 and 18 ----


def following(*jobs: tuple[int, float, int, float], depend: str = "think", **more: object) -> Workload:
    """The workload of jobs of 60 s, each given as number, submission, preceding job and think time."""
    text = "".join(f"{n} {at} 0 60 1 -1 -1 1 90 -1 1 1 1 -1 1 1 {before} {think}\n" for n, at, before, think in jobs)
    frame, header, notes, _ = swf.parse_swf(text.encode(), "log")
    return prepared(Trace(frame, header, notes, "swf", ""), depend, **more)


def test_preceding_jobs() -> None:
    chosen = following(
        (1, 0, -1, -1), (2, 50, 1, 30), (3, 60, 77, 5), (4, 70, 2, -1), (5, 80, 6, 1), (6, 90, 2, 0), shrink_percent=50
    )
    assert chosen.jobs["follows"].to_list() == [None, 1, None, None, None, 2]
    assert chosen.jobs["think_virtual"].to_list() == [None, 15, None, None, None, 0]
    assert {key: chosen.notes[key] for key in ("following", "following_outside", "think_time_unknown")} == {
        "following": 2, "following_outside": 2, "think_time_unknown": 1,
    }  # fmt: skip


def test_without_the_knob_or_the_fields_jobs_keep_their_own_times() -> None:
    for depend in ("keep", "none"):
        assert following((1, 0, -1, -1), (2, 50, 1, 30), depend=depend).jobs["follows"].to_list() == [None, None]


def test_the_written_workload_has_preceding_jobs() -> None:
    chosen = following((1, 0, -1, -1), (2, 50, 1, 30))
    assert chosen.to_swf().select("preceding_job", "think_time").rows() == [(-1, -1), (1, 30)]


def test_think_is_refused_for_sacct() -> None:
    with pytest.raises(WrongUse, match=re.escape("dependencies: think is for SWF (fields 17 and 18)")):
        prepared(log({}), depend="think")
