"""The library of malleable programs, in C and in Python: its requests, its answers, and what it does without a broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

Ask = Callable[..., list[str]]


def test_check_asks_with_all_arguments_and_nothing_changes(ask: Ask, serve: Callable) -> None:
    broker = serve(b"none 2\n", b"none 2 nobody waits\n")
    assert ask("check:1:8:2:4", "icheck:2:8:4:0") == ["none 2 [] has 2: ", "none 2 [] has 2: nobody waits"]
    assert broker.close() == ["mirage 1 check 7 2 1 8 2 4\n", "mirage 1 icheck 7 2 2 8 4 0\n"]


def test_an_expansion_is_done_when_the_call_returns(ask: Ask, serve: Callable) -> None:
    broker = serve(b"expanded 4 n1,n2,n3,n4\n", b"none 4\n")
    assert ask("check:1:8:2:0", "check:1:8:2:0") == ["expand 4 [n1,n2,n3,n4] has 4: ", "none 4 [] has 4: "]
    assert broker.close()[1] == "mirage 1 check 7 4 1 8 2 0\n"


def test_a_shrink_is_done_after_ready(ask: Ask, serve: Callable) -> None:
    broker = serve(b"shrink 1 n1\n", b"shrunk 1 n1\n", b"none 1\n")
    assert ask("check:1:8:2:0", "ready:1", "check:1:8:2:0") == [
        "shrink 1 [n1] has 2: ",
        "shrink 1 [n1] has 1: ",
        "none 1 [] has 1: ",
    ]
    assert broker.close() == ["mirage 1 check 7 2 1 8 2 0\n", "mirage 1 ready 7 1\n", "mirage 1 check 7 1 1 8 2 0\n"]
    # The broker takes back a shrink whose connection ends.
    assert broker.connections == 1


def test_a_job_that_has_lost_nodes_is_told_by_its_next_check(ask: Ask, serve: Callable) -> None:
    serve(b"shrunk 1 n2\n")
    assert ask("check:1:8:2:0") == ["shrink 1 [n2] has 1: "]


def test_a_shrink_that_is_not_done_leaves_the_nodes(ask: Ask, serve: Callable) -> None:
    serve(b"shrink 1 n1\n", b"none 2 the job is suspended\n")
    assert ask("check:1:8:2:0", "ready:1") == ["shrink 1 [n1] has 2: ", "none 2 [] has 2: the job is suspended"]


def test_an_aborted_action_and_a_refusal_have_a_reason(ask: Ask, serve: Callable) -> None:
    serve(b"aborted 2 the resizer waited for 30 s\n", b"refused job 7 is not yours\n")
    assert ask("check:4:8:2:0", "check:4:8:2:0") == [
        "none 2 [] has 2: the resizer waited for 30 s",
        "none 2 [] has 2: refused: job 7 is not yours",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"\n",
        b"yes\n",
        b"none\n",
        b"none x\n",
        b"none 0\n",
        b"none -2\n",
        b"none 99999999999999999999\n",
        b"expanded\n",
        b"expanded 4\n",
        b"expanded 4 n1,n2,n3\n",
        b"expanded 2 n1,\n",
        b"expanded 2 ,n1\n",
        b"expanded 3 n1,,n3\n",
        b"expanded 0 \n",
        b"shrink 1.0 n1\n",
        b"\xff\xfe 1 n1\n",
    ],
)
def test_an_answer_that_is_none_changes_nothing(ask: Ask, serve: Callable, answer: bytes) -> None:
    broker = serve(answer, b"none 2\n")
    first, second = ask("check:1:8:2:0", "check:1:8:2:0")
    assert first == "none 2 [] has 2: the broker's answer cannot be understood"
    assert second == "none 2 [] has 2: "
    assert broker.close()[1] == "mirage 1 check 7 2 1 8 2 0\n"


@pytest.mark.parametrize("answer", [b"", b"expanded 4 n1,n2", b"x" * 2_000_000])
def test_a_broken_connection_changes_nothing_and_the_next_call_connects_again(ask: Ask, serve: Callable, answer: bytes) -> None:
    serve(answer, b"expanded 4 a,b,c,d\n")
    first, second = ask("check:1:8:2:0", "check:1:8:2:0")
    assert first.startswith("none 2 [] has 2: the broker")
    assert second == "expand 4 [a,b,c,d] has 4: "


def test_a_request_reaches_a_broker_that_was_restarted(ask: Ask, serve: Callable) -> None:
    broker = serve(b"none 2\n", None, b"none 2 again\n", None)
    assert ask("check:1:8:2:0", "check:1:8:2:0", "resumed:3") == ["none 2 [] has 2: ", "none 2 [] has 2: again"]
    assert [request.split()[2] for request in broker.close()] == ["check", "check", "resumed"]


def test_without_a_broker_nothing_changes(ask: Ask) -> None:
    assert ask("check:1:8:2:0", "resumed:3", DMR_BROKER="") == ["none 2 [] has 2: there is no broker: DMR_BROKER is not set"]
    (line,) = ask("check:1:8:2:0", "resumed:3")
    assert line.startswith("none 2 [] has 2: ") and "No such file" in line
    (line,) = ask("check:1:8:2:0", "resumed:3", DMR_BROKER="/" + "x" * 200)
    assert line.startswith("none 2 [] has 2: ") and "path" in line


def test_the_names_of_eight_thousand_nodes(ask: Ask, serve: Callable) -> None:
    names = ",".join(f"n{number}" for number in range(1, 8001))
    serve(f"expanded 8000 {names}\n".encode())
    assert ask("check:1:8000:2:0") == [f"expand 8000 [{names}] has 8000: "]


def test_the_inhibitor_skips_checks_after_a_check(ask: Ask, serve: Callable) -> None:
    broker = serve(b"none 2\n")
    assert ask(*["check:1:8:2:0"] * 3, DMR_INHIBITOR="1000") == ["none 2 [] has 2: "] * 3
    assert len(broker.close()) == 1


def test_the_inhibitor_counts_from_the_check_before_the_resize(ask: Ask, serve: Callable) -> None:
    broker = serve(b"none 2\n")
    assert ask("check:1:8:2:0", DMR_INHIBITOR="1000", DMR_CHECKED=f"{time.time() - 900:.6f}") == ["none 2 [] has 2: "]
    assert broker.requests == []
    ask("check:1:8:2:0", DMR_INHIBITOR="1000", DMR_CHECKED=f"{time.time() - 1100:.6f}")
    assert len(broker.close()) == 1


def test_the_present_number_of_nodes_is_that_after_the_last_resize(ask: Ask, serve: Callable) -> None:
    broker = serve(b"none 4\n")
    ask("check:1:8:2:0", DMR_NODES="4")
    assert broker.close() == ["mirage 1 check 7 4 1 8 2 0\n"]


def test_resumed_tells_the_cost(ask: Ask, serve: Callable) -> None:
    broker = serve()
    assert ask("resumed:3") == []
    assert broker.close() == ["mirage 1 resumed 7 3.000000\n"]
