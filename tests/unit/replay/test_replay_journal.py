"""The journal: what it amounts to, torn lines, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import start_event

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.replay.journal import Journal, replay_lines

START = start_event(real=100.0, boot_time=90, next_id=10, plan_sha256="x")


def submitted(index: int, slurm_id: int, real: float, event: str = "submitted", retries: int = 0) -> dict[str, Any]:
    return {"event": event, "index": index, "slurm_id": slurm_id, "due": 100.0, "real": real, "retries": retries}


EVENTS: list[dict[str, Any]] = [
    START,
    submitted(0, 10, 100.1),
    submitted(1, 11, 100.2, retries=3),
    {"event": "cancelled", "index": 1, "real": 101.0},
    {"event": "restarted", "boot_time": 101, "real": 102.0, "since": 101.5},
    {"event": "closed", "partitions": ["batch"], "real": 102.0},
    submitted(1, 14, 104.0, "resubmitted"),
    {"event": "compared", "resubmitted": [1], "found": [], "surplus": [[0, 12]], "stale": [[0, 13]], "real": 104.5},
    {"event": "stopped", "real": 105.0, "message": "m"},
    {"event": "resumed", "gap": 7.0, "real": 112.0},
]


def data(events: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def test_history() -> None:
    history, whole = replay_lines(data(EVENTS))
    assert whole == len(data(EVENTS))
    assert history.start == START
    assert history.job_ids == {0: 10, 1: 14}
    assert history.moved == {1}
    assert history.submitted_at == {0: 100.1, 1: 104.0}
    assert history.lags == pytest.approx({0: 0.1, 1: 0.2})
    assert history.cancelled == set(), "a job that was lost after its cancellation is to be cancelled again"
    assert (history.resubmitted, history.retries, history.copies, history.stale) == (1, 3, {12}, {0})
    assert (history.boot_time, history.highest_id, history.shift, history.last_sign) == (101, 14, 7.0, 112.0)
    assert not history.finished
    assert replay_lines(data([*EVENTS, {"event": "finished", "real": 113.0}]))[0].finished


def test_ends_that_others_follow_move_with_the_schedule() -> None:
    """Without the shift until then: what is due some time after them moves by the interruptions that come later only."""
    history, _ = replay_lines(data([*EVENTS, {"event": "ended", "index": 0, "real": 113.0}]))
    assert history.ended == {0: 106.0}
    again = {"event": "ended", "index": 0, "real": 120.0}
    assert replay_lines(data([*EVENTS, {"event": "ended", "index": 0, "real": 113.0}, again]))[0].ended == {0: 106.0}


def test_closed_partitions_are_known_until_they_are_opened() -> None:
    assert replay_lines(data(EVENTS))[0].closed == ["batch"]
    assert replay_lines(data([*EVENTS, {"event": "opened", "real": 113.0}]))[0].closed == []


def event(kind: str, real: float, **values: Any) -> dict[str, Any]:
    return {"event": kind, "real": real, **values}


CLOSED = event("closed", 110.0, partitions=["batch"])


@pytest.mark.parametrize(
    ("events", "halted", "since"),
    [
        # From the last answer of the controller that died.
        ([CLOSED, event("restarted", 110.1, boot_time=5, since=104.0), event("opened", 120.0)], 16.0, None),
        # It died once more before partitions were opened, and then once later.
        (
            [
                CLOSED,
                event("restarted", 110.1, boot_time=5, since=104.0),
                event("restarted", 115.0, boot_time=6, since=113.0),
                event("opened", 120.0),
                event("closed", 130.0, partitions=["batch"]),
                event("opened", 131.0),
            ],
            17.0,
            None,
        ),
        ([CLOSED, event("restarted", 110.1, boot_time=5, since=104.0)], 0.0, 104.0),
        # Halts; a second that is in two of them, or in a restart, counts once.
        ([event("halted", 120.0, since=100.0, what="controller")], 20.0, None),
        ([event("halted", 120.0, since=100.0, what="replay"), event("halted", 121.0, since=99.0, what="controller")], 21.0, None),
        (
            [
                CLOSED,
                event("restarted", 110.1, boot_time=5, since=104.0),
                event("halted", 112.0, since=108.0, what="controller"),
                event("opened", 120.0),
                event("halted", 122.0, since=110.0, what="replay"),
            ],
            18.0,
            None,
        ),
        # All partitions were closed anyway, so none is opened later.
        ([event("closed", 110.0, partitions=[]), event("restarted", 110.1, boot_time=5, since=104.0)], 0.0, None),
    ],
)
def test_how_long_nothing_could_start(events: list[dict[str, Any]], halted: float, since: float | None) -> None:
    history, _ = replay_lines(data([START, *events]))
    assert (history.halted, history.halted_since) == (pytest.approx(halted), since)


def test_copies_are_known_before_they_are_cancelled() -> None:
    """A replay that was killed between the two knows whose ends these are."""
    history, _ = replay_lines(data([START, event("removing", 104.0, surplus=[[0, 12]], stale=[[1, 13]])]))
    assert (history.copies, history.stale) == ({12}, {1})


def test_ids_of_others_are_known_from_the_start() -> None:
    assert replay_lines(data([START]))[0].highest_id == 9


@given(st.integers(0, len(data(EVENTS))))
def test_a_journal_torn_anywhere_tells_its_whole_lines(cut: int) -> None:
    torn = data(EVENTS)[:cut]
    count = torn.count(b"\n")
    history, whole = replay_lines(torn)
    assert whole == len(data(EVENTS[:count]))
    assert history == replay_lines(data(EVENTS[:count]))[0]


@given(st.integers(0, len(data(EVENTS))))
def test_appending_goes_on_after_a_torn_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    path.write_bytes(data(EVENTS)[:cut])
    journal = Journal(path)
    if journal.history.start is None:
        journal.append(**START)  # type: ignore[arg-type]
    journal.append("cancelled", index=5, real=200.0)
    journal.close()
    history, whole = replay_lines(path.read_bytes())
    assert whole == path.stat().st_size
    assert history == journal.history
    assert 5 in history.cancelled and history.last_sign == 200.0


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([{"event": "cancelled", "index": 0, "real": 1.0}], 1),
        ([START, {"event": "unheard of", "real": 1.0}], 2),
        ([START, {"event": "submitted", "real": 1.0}], 2),
        ([START, START | {"real": None}], 2),
    ],
)
def test_damage_is_reported_with_its_line(lines: list[dict[str, Any]], line: int) -> None:
    with pytest.raises(WrongUse, match=f"^journal.jsonl:{line}: "):
        replay_lines(data(lines))


def test_a_damaged_journal_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"no journal\ntorn")
    with pytest.raises(WrongUse):
        Journal(path)
    assert path.read_bytes() == b"no journal\ntorn"
