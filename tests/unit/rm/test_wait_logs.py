"""Why jobs waited, from lines of slurmctld's logs as 22.05 and 25.11 write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from slurm_mirage.jobs.arrays import task_id
from slurm_mirage.rm.evidence import WaitWord
from slurm_mirage.rm.slurm.log_words import seconds_of
from slurm_mirage.rm.slurm.wait_reasons import SCHEDULER_LOG, limit_of, reasons_in_logs, to_csv, wait_word

HOUR = "2026-11-22T10"
ZERO = seconds_of(f"{HOUR}:00:00.000".encode())
BACKFILL = "sched/backfill: _attempt_backfill: "


def stamped(lines: list[tuple[float, str]], lead: str = "") -> str:
    return "".join(f"{lead}[{HOUR}:{int(at) // 60:02}:{at % 60:06.3f}] {text}\n" for at, text in lines)


def found(
    folder: Path,
    main: list[tuple[float, str]],
    scheduler: list[tuple[float, str]],
    since: float = 0.0,
    users: Mapping[int, str] | None = None,
) -> list[tuple[float, int, str, str]]:
    log = folder / "log"
    log.mkdir(exist_ok=True)
    (log / "slurmctld.log").write_text("before the run\n" + stamped(main))
    (log / SCHEDULER_LOG).write_text(stamped(scheduler, "sched: "))
    assert ZERO is not None
    rows = reasons_in_logs(log, len("before the run\n"), ZERO + since, users)
    return [(float(instant) - ZERO, *row) for instant, *row in rows]  # type: ignore[misc]


def cycle(at: float, *lines: str, end: str = "BACKFILL: reached end of job queue") -> list[tuple[float, str]]:
    texts = ["beginning", *lines, *([end] if end else []), "completed testing 2(2) jobs, usec=1"]
    return [(at, BACKFILL + text) for text in texts]


def test_what_the_main_scheduler_says(tmp_path: Path) -> None:
    pending = "State=PENDING. Reason={}. Priority=100. Partition=batch."
    lines = [
        (1.0, "Running job scheduler for default depth."),
        (1.0, "JobId=5. " + pending.format("Resources")),
        (
            1.0,
            "JobId=6 unable to schedule in Partition=batch (per _failed_partition()). State=PENDING. Previous-Reason=None."
            " Previous-Desc=(null). New-Reason=Priority. Priority=99.",
        ),
        (2.0, "JobId=5. " + pending.format("Resources")),
        (3.0, "JobId=5. " + pending.format("Licenses")),
        (
            4.0,
            "JobId=6. unable to schedule in Partition=batch (per PART_FLAG_SCHED_FAILED). Retaining previous scheduling"
            " Reason=QOSMaxJobsPerUserLimit. Desc=(null). Priority=99.",
        ),
        (5.0, "JobId=8_*. State=PENDING. Reason=Required nodes are reserved. Priority=90"),
        (6.0, "JobId=8_3(12). " + pending.format("Resources")),
    ]
    assert found(tmp_path, [], lines) == [
        (1.0, 5, "reason", "Resources"),
        (1.0, 6, "reason", "Priority"),
        (3.0, 5, "reason", "Licenses"),
        (4.0, 6, "reason", "QOSMaxJobsPerUserLimit"),
        (5.0, -8, "reason", "Required nodes are reserved"),
        (6.0, task_id(8, 3), "reason", "Resources"),
    ]
    assert found(tmp_path, [], lines, since=5.5) == [(6.0, task_id(8, 3), "reason", "Resources")]


def test_jobs_before_which_a_pass_ended(tmp_path: Path) -> None:
    main = [(0.5, f"_slurm_rpc_submit_batch_job: JobId={job} InitPrio=100 usec=300") for job in (5, 6, 7)]
    main.append((0.7, "sched: Allocate JobId=7 NodeList=n1 #CPUs=4 Partition=batch"))
    lines = [
        (1.0, "JobId=5. State=PENDING. Reason=Resources. Priority=1. Partition=b."),
        (1.0, "already tested 1 jobs, breaking out"),
    ]
    assert found(tmp_path, main, lines) == [(1.0, 5, "reason", "Resources"), (1.0, 6, "reason", "Priority")]


@pytest.mark.parametrize(
    ("end", "setting"),
    [
        ("BACKFILL: bf_max_job_test: limit of 1 reached", "bf_max_job_test"),
        ("BACKFILL: system state changed, breaking out after testing 1(1) jobs", "bf_continue"),
        ("BACKFILL: bf_max_job_start limit of 1 reached", "bf_max_job_start"),
        ("BACKFILL: table size limit of 9 reached", "bf_node_space_size"),
        ("", "bf_max_time"),
    ],
)
def test_jobs_that_a_cycle_did_not_reach(tmp_path: Path, end: str, setting: str) -> None:
    said = [(0.5, f"JobId={job}. State=PENDING. Reason=Priority. Priority=1. Partition=b.") for job in (5, 6)]
    test = "BACKFILL: test for JobId={} Prio=1 Partition=batch Reservation=NONE"
    main = [
        *cycle(1.0, test.format(5), end=end),
        *cycle(2.0, test.format(5), end=end),
        *cycle(3.0, test.format(5), test.format(6)),
        (4.0, BACKFILL + "beginning"),
        (4.0, BACKFILL + "no jobs to backfill"),
    ]
    assert found(tmp_path, main, said)[2:] == [(1.0, 6, "backfill", setting), (3.0, 6, "backfill", "")]


@pytest.mark.parametrize("end", ["BACKFILL: bf_max_job_test: limit of 1 reached", ""])
def test_a_cycle_whose_tests_were_not_written_tells_nothing(tmp_path: Path, end: str) -> None:
    """Where few lines are allowed, tests are written only after a cycle that did not reach the end of the queue."""
    said = [(0.5, f"JobId={job}. State=PENDING. Reason=Priority. Priority=1. Partition=b.") for job in (5, 6)]
    test = "BACKFILL: test for JobId=5 Prio=1 Partition=batch Reservation=NONE"
    main = [*cycle(1.0, end=end), *cycle(2.0, test, end=end)]
    assert [row[:3] for row in found(tmp_path, main, said)[2:]] == [(2.0, 6, "backfill")]


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("have already checked 1 jobs for user 1001; skipping JobId=6", "bf_max_job_user"),
        ("have already checked 1 jobs for user 1001 on partition batch; skipping job 6, JobId=6", "bf_max_job_user_part"),
        ("have already checked 1 jobs for partition batch; skipping JobId=6", "bf_max_job_part"),
        ("have already checked 1 jobs for user 1001, assoc 3; skipping JobId=6", "bf_max_job_assoc"),
        ("JobId=6 StartTime set to time after current backfill window. No reservation created", "bf_window"),
        ("JobId=6 start_res after current backfill window", "bf_window"),
    ],
)
def test_jobs_that_a_cycle_skips(tmp_path: Path, line: str, setting: str) -> None:
    said = [(0.5, "JobId=6. State=PENDING. Reason=Priority. Priority=1. Partition=b.")]
    test = "BACKFILL: test for JobId=6 Prio=1 Partition=batch Reservation=NONE"
    main = [
        *cycle(1.0, test, f"BACKFILL: {line}"),
        (2.0, "sched/backfill: _start_job: Started JobId=6 in batch on n1"),
        *cycle(3.0),
    ]
    assert found(tmp_path, main, said)[1:] == [(1.0, 6, "backfill", setting)]


@pytest.mark.parametrize(
    ("sentence", "limit", "word"),
    [
        ("the job is at or exceeds max jobs per-user limit 2 with 2 for QOS q", "max jobs per-user for QOS q", WaitWord.USER),
        (
            "the job is at or exceeds max jobs per-acct (a1) limit 2 with 2 for QOS q",
            "max jobs per-acct (a1) for QOS q",
            WaitWord.ACCOUNT,
        ),
        ("the job is at or exceeds group max jobs limit 1 with 1 for QOS q", "group max jobs for QOS q", WaitWord.QOS),
        (
            "if allowed the job request will exceed QOS q max tres(cpu) per user limit 8 with already used 8 + requested 4",
            "QOS q max tres(cpu) per user",
            WaitWord.USER,
        ),
        (
            "if allowed the job request will exceed QOS q group max tres(node) limit 8 with already used 8 + requested 4",
            "QOS q group max tres(node)",
            WaitWord.QOS,
        ),
        (
            "if allowed the job request will exceed assoc 7(a1/(null)/(null)) group max tres(cpu)"
            " limit 8 with already used 8 + requested 4",
            "assoc 7(a1/(null)/(null)) group max tres(cpu)",
            WaitWord.ACCOUNT,
        ),
        (
            "if allowed the job request will exceed assoc 7(a1/u2/(null)) group max tres(cpu)"
            " limit 8 with already used 8 + requested 4",
            "assoc 7(a1/u2/(null)) group max tres(cpu)",
            WaitWord.USER,
        ),
        ("assoc 7 is at or exceeds max jobs limit 1 with 1 for account a1", "max jobs for account a1", WaitWord.USER),
        (
            "assoc 7 is at or exceeds group max jobs limit 1 with 1 for account a1",
            "group max jobs for account a1",
            WaitWord.ACCOUNT,
        ),
        (
            "the job is requesting more than allowed with assoc 7(a1/u2/(null)) max tres(cpu) limit of 8 with 16",
            "assoc 7(a1/u2/(null)) max tres(cpu)",
            WaitWord.USER,
        ),
        ("time limit 60 exceeds QOS max wall pj 30", "QOS max wall pj", WaitWord.QOS),
        ("time limit 60 exceeds account max 30", "account max", WaitWord.USER),
    ],
)
def test_limits(tmp_path: Path, sentence: str, limit: str, word: WaitWord) -> None:
    assert (limit_of(sentence), wait_word(limit_of(sentence))) == (limit, word)
    main = [(1.0, f"debug2: JobId=5 being held, {sentence}"), (2.0, f"debug2: JobId=5 being held, {sentence}")]
    assert found(tmp_path, main, []) == [(1.0, 5, "reason", limit)]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("AssocMaxJobsLimit", WaitWord.USER),
        ("AssocMaxWallDurationPerJobLimit", WaitWord.USER),
        ("AssocGrpJobsLimit", WaitWord.ACCOUNT),
        ("QOSMaxJobsPerUserLimit", WaitWord.USER),
        ("MaxCpuPerAccount", WaitWord.ACCOUNT),
        ("QOSGrpJobsLimit", WaitWord.QOS),
        ("QOS q account max running tres(cpu) minutes", WaitWord.ACCOUNT),
        ("QOS q user max running tres(cpu) minutes", WaitWord.USER),
    ],
)
def test_whose_limit_a_reason_names(reason: str, word: WaitWord) -> None:
    assert wait_word(reason) is word


@pytest.mark.parametrize(
    ("sentence", "reason", "word"),
    [
        ("assoc 7 is at or exceeds max jobs limit 1 with 1", "max jobs for user u2 of account a1", WaitWord.USER),
        ("assoc 7 is at or exceeds group max jobs limit 1 with 1", "group max jobs for user u2 of account a1", WaitWord.USER),
        ("assoc 6 is at or exceeds group max jobs limit 1 with 1", "group max jobs for account a1", WaitWord.ACCOUNT),
        ("the job request with assoc 7 will exceed group wall limit 9 if ran with 10", "group wall for user u2 of account a1",
         WaitWord.USER),
    ],
)  # fmt: skip
def test_the_user_of_an_association(tmp_path: Path, sentence: str, reason: str, word: WaitWord) -> None:
    main = [(1.0, f"debug2: JobId=5 being held, {sentence} for account a1")]
    assert found(tmp_path, main, [], users={7: "u2"}) == [(1.0, 5, "reason", reason)]
    assert wait_word(reason) is word


def test_partitions_that_refuse_a_job(tmp_path: Path) -> None:
    texts = ["JobId=5 requested down partition batch", "JobId=5 requested inactive partition batch"]
    texts.append("JobId=5 can't run in partition batch: Requested time limit is invalid")
    reasons = ["PartitionDown", "PartitionInactive", "PartitionConfig"]
    main = [(at + 1.0, f"debug2: {text}") for at, text in enumerate(texts)]
    assert found(tmp_path, main, []) == [(at + 1.0, 5, "reason", reason) for at, reason in enumerate(reasons)]


def test_a_log_of_an_earlier_run_is_skipped(tmp_path: Path) -> None:
    old = [(at / 100, f"JobId=3. State=PENDING. Reason=Resources{at}. Priority=1. Partition=batch.") for at in range(9000)]
    new = [(95.0, "JobId=5. State=PENDING. Reason=Resources. Priority=1. Partition=batch.")]
    assert found(tmp_path, [], [*old, *new], since=94.0) == [(95.0, 5, "reason", "Resources")]
    assert found(tmp_path, [], [*old, *new], since=89.5)[:1] == [(89.5, 3, "reason", "Resources8950")]


def test_the_file(tmp_path: Path) -> None:
    assert to_csv([("1.000", 5, "backfill", "")]) == "virtual,job_id,about,reason\n1.000,5,backfill,\n"
    assert list(reasons_in_logs(tmp_path / "none", 0, 0.0)) == []
