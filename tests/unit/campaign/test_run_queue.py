"""Runs that are handed out to instances side by side."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest

from mirage.campaign.run_queue import RunQueue


def queue(runs: str, homes: dict[str, str] | None = None, at_once: int = 2, first_alone: bool = False) -> RunQueue[str]:
    names = ["c", *(f"c-{number}" for number in range(2, at_once + 1))]
    return RunQueue(runs, lambda run: (homes or {}).get(run), names, first_alone)


def test_runs_go_in_order_each_to_the_first_free_instance() -> None:
    left = queue("abcd")
    assert [left.take(), left.take()] == [("a", "c"), ("b", "c-2")]
    assert left.take() is None, "no instance is free"
    assert left.going == {"c": "a", "c-2": "b"}
    left.give_back("c-2")
    assert left.take() == ("c", "c-2")
    left.give_back("c")
    assert left.take() == ("d", "c")
    left.give_back("c")
    assert left.take() is None


def test_runs_that_have_begun_go_on_first_and_where_they_were() -> None:
    left = queue("abcd", {"c": "c-5", "d": "c"})
    assert [left.take(), left.take()] == [("c", "c-5"), ("d", "c")]
    left.give_back("c-5")
    assert left.take() == ("a", "c-2"), "the further instance is for its own run only"


def test_a_run_waits_for_its_own_instance() -> None:
    left = queue("ab", {"a": "c", "b": "c"})
    assert left.take() == ("a", "c")
    assert left.take() is None
    left.give_back("c")
    assert left.take() == ("b", "c")


def test_a_closed_queue_hands_out_nothing() -> None:
    left = queue("abc")
    assert left.take() is not None and not left.is_closed
    left.close()
    assert left.take() is None and left.is_closed


@pytest.mark.parametrize("how", ["open", "give_back", "close"])
def test_others_wait_until_the_first_run_lets_them_begin(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = queue("abc", first_alone=True)
    assert not left.waits
    assert left.take() == ("a", "c")
    assert left.waits
    taken: list[tuple[str, str] | None] = []
    other = threading.Thread(target=lambda: taken.append(left.take()))
    waits, wait_for = threading.Event(), left._changed.wait_for
    monkeypatch.setattr(left._changed, "wait_for", lambda ready: (waits.set(), wait_for(ready)))
    other.start()
    assert waits.wait(120) and not taken
    {"open": left.open, "close": left.close, "give_back": lambda: left.give_back("c")}[how]()
    other.join(120)
    assert taken == {"open": [("b", "c-2")], "give_back": [("b", "c")], "close": [None]}[how]
    assert not left.waits


@pytest.mark.parametrize("seed", range(5))
def test_threads_play_each_run_once_and_never_two_on_an_instance(seed: int) -> None:
    chance = random.Random(seed)
    runs = [str(number) for number in range(60)]
    homes = {run: f"c-{chance.randint(1, 6)}" for run in runs if chance.random() < 0.3}
    left = RunQueue(runs, homes.get, ["c", "c-2", "c-3"])
    busy: Counter[str] = Counter()
    played: list[tuple[str, str]] = []
    overlaps: list[str] = []

    def work() -> None:
        while (taken := left.take()) is not None:
            run, name = taken
            busy[name] += 1
            time.sleep(chance.random() / 1000)
            overlaps.extend([name] if busy[name] > 1 else [])
            played.append((run, name))
            busy[name] -= 1
            left.give_back(name)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(run for run, _ in played) == sorted(runs)
    assert not overlaps
    assert all(homes.get(run, name) == name for run, name in played)


def test_an_instance_goes_on_with_the_arm_that_it_has() -> None:
    """Two arms, a and b, of three runs each, on two instances: each keeps its arm, and helps with the other's at the end."""
    queue = RunQueue(["a1", "b1", "b2", "a2", "a3", "b3"], lambda _: None, ["c", "c-2"], arm_of=lambda run: run[0])
    assert [queue.take(), queue.take()] == [("a1", "c"), ("b1", "c-2")]
    queue.give_back("c-2")
    assert queue.take() == ("b2", "c-2")
    queue.give_back("c")
    assert queue.take() == ("a2", "c")
    queue.give_back("c")
    assert queue.take() == ("a3", "c")
    queue.give_back("c")
    assert queue.take() == ("b3", "c")
    assert queue.take() is None
