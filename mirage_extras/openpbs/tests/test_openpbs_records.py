"""OpenPBS's accounting log and scheduler's log: what 23.06.06 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.extras.openpbs import records
from slurm_mirage.extras.openpbs.records import AccountingLog, OpenPbsRecords
from slurm_mirage.extras.openpbs.scheduler_log import SchedulerLog
from slurm_mirage.rm.api import BACKFILL_DIAGNOSTICS, NOT_ENDED, CompletedJob

OWNER = "user=slurm-x group=slurm-x project=_pbs_project_default"
TIMES = "ctime=1795395187 qtime=1795395187 etime=1795395187"
SIZE = (
    "Resource_List.ncpus=3 Resource_List.nodect=3 Resource_List.place=free Resource_List.select=3:ncpus=1 "
    "Resource_List.walltime=00:10:00"
)
PLACE = "exec_host=n1/0+n1/1*2+n10/0 exec_vnode=(n1:ncpus=1)+(n1:ncpus=1)+(n10:ncpus=1)"
USED = "resources_used.cpupercent=0 resources_used.cput=00:00:00 resources_used.mem=1216kb resources_used.walltime=00:00:03"


def queued(number: int = 14, name: str = "run.1", time: str = "00:53:07") -> str:
    return f"11/23/2026 {time};Q;{number}.pbs-head;{OWNER} jobname={name} queue=batch {TIMES} {SIZE} \n"


def started(number: int = 14, name: str = "run.1", start: int = 1795395187, time: str = "00:53:07") -> str:
    words = f"{OWNER} jobname={name} queue=batch {TIMES} start={start} {PLACE} {SIZE} resource_assigned.ncpus=3 "
    return f"11/23/2026 {time};S;{number}.pbs-head;{words}\n"


def ended(
    kind: str = "E", number: int = 14, name: str = "run.1", start: int = 1795395187, end: int = 1795395191, status: int = 0
) -> str:
    words = f"{OWNER} jobname={name} queue=batch {TIMES} start={start} {PLACE} {SIZE} session=45 end={end} Exit_status={status}"
    return f"11/23/2026 00:53:11;{kind};{number}.pbs-head;{words} {USED} run_count=1\n"


def deleted(number: int = 14, time: str = "00:53:09") -> str:
    return f"11/23/2026 {time};D;{number}.pbs-head;requestor=slurm-x@pbs-head\n"


def completions(*lines: str) -> list[CompletedJob]:
    return OpenPbsRecords().completions("".join(lines))


def test_a_job_that_ran_to_its_end() -> None:
    assert completions(queued(), started(), ended()) == [
        CompletedJob(
            job_id=14,
            name="run.1",
            state="COMPLETED",
            ended_for_good=True,
            partition="batch",
            nodes=2,
            processors=3,
            submit=1795395187,
            eligible=1795395187,
            start=1795395187,
            end=1795395191,
            user="slurm-x",
            hosts="n1,n10",
            exit_code=0,
        )
    ]


@pytest.mark.parametrize(
    ("status", "state"), [(0, "COMPLETED"), (3, "FAILED"), (265, "FAILED"), (-29, "TIMEOUT"), (-1, "FAILED"), (271, "FAILED")]
)
def test_states_by_exit_status(status: int, state: str) -> None:
    assert [(job.state, job.exit_code) for job in completions(ended(status=status))] == [(state, status)]


@pytest.mark.parametrize("status", [271, 0, -1])
def test_a_job_that_was_deleted_while_it_ran(status: int) -> None:
    (job,) = completions(queued(), started(), deleted(), ended(status=status))
    assert (job.state, job.ran, job.start, job.end, job.ended_for_good) == ("CANCELLED", True, 1795395187, 1795395191, True)


def test_a_job_that_was_deleted_while_it_waited() -> None:
    (job,) = completions(queued(19, "w.1"), queued(20), deleted(19))
    assert (job.job_id, job.name, job.state, job.ran) == (19, "w.1", "CANCELLED", False)
    assert (job.submit, job.start, job.end, job.hosts, job.nodes, job.processors) == (1795395187, None, 1795395189, "", 3, 3)


def test_a_waiting_job_that_the_server_gave_up_because_of_its_dependency() -> None:
    aborted = "11/23/2026 00:53:08;A;2.pbs-head;Reject reply code=15001, aux=0, type=52, from @pbs-head Unknown Job Id\n"
    (job,) = completions(queued(2, "r.2"), aborted)
    assert (job.name, job.state, job.ran, job.end, job.ended_for_good) == ("r.2", "CANCELLED", False, 1795395188, True)


def test_a_job_that_was_put_back_in_the_queue_has_several_runs() -> None:
    lines = [queued(), started(), ended("R", status=-11), started(start=1795395200, time="00:53:20")]
    runs = completions(*lines, ended(start=1795395200, end=1795395260))
    assert [(job.state, job.start, job.end, job.ended_for_good) for job in runs] == [
        ("PENDING", 1795395187, 1795395191, False),
        ("COMPLETED", 1795395200, 1795395260, True),
    ]
    assert runs[0].state in NOT_ENDED


def test_a_job_that_was_deleted_after_it_was_put_back_in_the_queue() -> None:
    runs = completions(queued(), started(), ended("R", status=-11), deleted(time="00:54:00"))
    assert [(job.state, job.ran, job.start, job.end) for job in runs] == [
        ("PENDING", True, 1795395187, 1795395191),
        ("CANCELLED", False, None, 1795395240),
    ]


def test_a_held_job_was_not_eligible() -> None:
    (job,) = completions(ended().replace("etime=1795395187", "etime=0"))
    assert (job.eligible, job.submit) == (None, 1795395187)


def test_a_name_with_signs_of_the_format() -> None:
    (job,) = completions(queued(name="a=b;c"), ended(name="a=b;c"))
    assert (job.name, job.partition) == ("a=b;c", "batch")


LINES = (
    queued(1, "r.1") + queued(2, "r.2") + started(1, "r.1") + queued(3, "ä") + deleted(3) + ended("R", 1, "r.1", status=-11)
    + started(2, "r.2") + started(1, "r.1") + ended("E", 2, "r.2", status=-29) + deleted(1) + ended("E", 1, "r.1", status=271)
)  # fmt: skip


@pytest.mark.parametrize("line", ["", "\n", ";;;\n", "11/23/2026 00:53:09;Q;x.pbs-head;\n", ended(number=7)[:-1], "\0\0\0\n"])
def test_lines_that_tell_of_no_ended_job(line: str) -> None:
    assert completions(line) == []


@pytest.mark.parametrize("job_id", ["12[].pbs-head", "12[3].pbs-head"])
def test_arrays_are_seen_by_their_number(job_id: str) -> None:
    """The replay submits none, so that they are jobs of somebody else's."""
    assert [job.job_id for job in completions(ended().replace("14.pbs-head", job_id))] == [12]


def test_jobs_of_an_array_do_not_end_each_other() -> None:
    lines = "".join(started(12, f"a.{i}").replace("12.pbs-head", f"12[{i}].pbs-head") for i in (1, 2))
    both = lines + "".join(ended("E", 12, f"a.{i}").replace("12.pbs-head", f"12[{i}].pbs-head") for i in (1, 2))
    assert [(job.job_id, job.name) for job in completions(both)] == [(12, "a.1"), (12, "a.2")]


def test_reservations_are_no_jobs() -> None:
    assert completions(ended().replace("14.pbs-head", "R12.pbs-head")) == []


@given(st.lists(st.integers(0, len(LINES.encode())), max_size=6))
def test_a_growing_log_is_read_once(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    path = tmp_path_factory.mktemp("log") / "accounting.log"
    log, data, found = AccountingLog(path), LINES.encode(), []
    for end in [*sorted(cuts), len(data)]:
        path.write_bytes(data[:end])
        found += log.read()
    assert found == completions(LINES)
    assert [(job.job_id, job.state) for job in found] == [(3, "CANCELLED"), (1, "PENDING"), (2, "TIMEOUT"), (1, "CANCELLED")]


def test_a_log_from_an_offset_on_and_cleared(tmp_path: Path) -> None:
    path = tmp_path / "accounting.log"
    assert AccountingLog(path).read() == []
    path.write_text(queued(1) + ended(number=1))
    log = AccountingLog(path, path.stat().st_size)
    with path.open("a") as stream:
        stream.write(queued(2, "r.2") + deleted(2))
    assert [(job.job_id, job.name) for job in log.read()] == [(2, "r.2")]
    path.write_text(ended(number=5))
    assert [job.job_id for job in log.read()] == [5]


words = st.text(st.characters(codec="utf-8", exclude_characters="\n =", exclude_categories=("C", "Z")), max_size=8)


@given(st.dictionaries(st.sampled_from(["jobname", "Resource_List.ncpus", "exec_vnode", "account", "end"]), words))
def test_words_are_found_whatever_their_values(fields: dict[str, str]) -> None:
    text = " ".join(f"{key}={value}" for key, value in fields.items())
    assert records.parse_words(text) == fields


@pytest.mark.parametrize(
    ("text", "number"), [("123.pbs-head", 123), ("0.a", 0), ("7", 7), ("", None), ("x.y", None), ("1[2].a", None), ("²", None)]
)
def test_numbers_of_jobs(text: str, number: int | None) -> None:
    assert records.number_of(text) == number


def test_details_are_made_again_from_their_record() -> None:
    record = {"job_id": 3, "name": "r.3", "state": "TIMEOUT", "eligible": 1, "start": 2, "end": None, "hosts": "n1", "runs": 1}
    details = OpenPbsRecords().details(record)
    assert (details.job_id, details.state, details.eligible, details.start, details.end, details.suspended) == (
        3,
        "TIMEOUT",
        1,
        2,
        None,
        None,
    )
    assert details.record == record
    with pytest.raises(KeyError):
        OpenPbsRecords().details({"job_id": 3})


# ---- the scheduler's log ----


def at(second: float, text: str, job: str = "") -> str:
    return f"11/23/2026 00:50:{second:09.6f};0080;pbs_sched;{'Job' if job else 'Req'};{job};{text}\n"


def cycle(first: float, last: float, jobs: int = 1) -> str:
    considered = "".join(at(first, "Considering job to run", f"{number}.pbs-head") for number in range(jobs))
    return (
        at(first, "Starting Scheduling Cycle")
        + considered
        + at(first, "Job run", "3.pbs-head")
        + at(last, "Leaving Scheduling Cycle")
    )


def test_lengths_of_scheduling_cycles(tmp_path: Path) -> None:
    log = SchedulerLog(tmp_path)
    log.update()
    assert (log.last_us, log.max_us, log.jobs, log.cycles) == (None, None, None, 0)
    path = tmp_path / "20261123"
    path.write_text(cycle(1, 1.000750, 3) + cycle(2, 2.25, 4) + "11/23/2026 00:50:29.1;0040;pbs_sched;Job;4.pbs-head;Job run\n")
    log.update()
    assert (log.last_us, log.max_us, log.jobs, log.cycles) == (250_000, 250_000, 4, 2)
    with path.open("a") as stream:
        text = cycle(3, 3.000001, 0)
        stream.write(text[:-20])
        stream.flush()
        log.update()
        assert log.cycles == 2, "the end of the cycle is not there yet"
        stream.write(text[-20:])
    log.update()
    assert (log.last_us, log.max_us, log.jobs, log.cycles) == (1, 250_000, 0, 3)


def test_cycles_before_the_first_look_are_not_among_the_longest(tmp_path: Path) -> None:
    path = tmp_path / "20261123"
    path.write_text(cycle(1, 9, 3) + cycle(10, 11, 2))
    log = SchedulerLog(tmp_path)
    log.update()
    assert (log.last_us, log.max_us, log.jobs, log.cycles) == (1_000_000, None, 2, 0)
    (tmp_path / "20261124").write_text(cycle(3, 3.5))
    log.update()
    assert (log.last_us, log.max_us, log.cycles) == (500_000, 500_000, 1)


def test_of_a_long_log_only_the_end_is_read_at_first(tmp_path: Path) -> None:
    (tmp_path / "20261122").write_text(cycle(1, 9))
    (tmp_path / "20261123").write_text(cycle(1, 5) * 6000 + at(7, "Starting Scheduling Cycle"))
    log = SchedulerLog(tmp_path)
    log.update()
    assert (log.last_us, log.cycles) == (4_000_000, 0)
    with (tmp_path / "20261123").open("a") as stream:
        stream.write(at(8, "Leaving Scheduling Cycle"))
    log.update()
    assert (log.last_us, log.max_us, log.cycles) == (1_000_000, 1_000_000, 1)


def test_diagnostics_have_columns_that_the_metrics_name() -> None:
    columns = set(records.DIAGNOSTICS)
    assert {metric.key for metric in OpenPbsRecords.diagnostic_metrics} <= columns
    assert set(OpenPbsRecords.diagnostic_names) <= columns
    assert set(OpenPbsRecords.diagnostic_names.values()) == set(BACKFILL_DIAGNOSTICS)
