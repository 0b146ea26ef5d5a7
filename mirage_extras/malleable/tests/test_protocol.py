"""Requests of malleable jobs: what is read, and what is refused with which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.extras.malleable.broker.protocol import LONGEST, BadRequest, Check, Ready, Resumed, aborted, expanded, parse


def test_requests() -> None:
    assert parse(b"mirage 1 check 7 2 1 8 2 0") == Check(7, 2, 1, 8, 2, 0)
    assert parse(b"mirage 1 icheck 7 2 1 8 2 4") == Check(7, 2, 1, 8, 2, 4, is_async=True)
    assert parse(b"mirage 1 ready 7 2") == Ready(7, 2)
    assert parse(b"mirage 1 resumed 7 0.25") == Resumed(7, 0.25)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "begins with: mirage 1"),
        (b"mirage 2 check 7 2 1 8 2 0", "begins with: mirage 1"),
        (b"mirage 1", "one of check, icheck, ready, resumed"),
        (b"mirage 1 grow 7", "one of check"),
        (b"mirage 1 check 7 2 1 8 2", "mirage 1 check JOB PRESENT MIN MAX FACTOR PREFERRED"),
        (b"mirage 1 check 7 2 8 1 2 0", "the minimum 8 is above the maximum 1"),
        (b"mirage 1 check 7 2 1 8 1 0", "the factor has to be 2 or more"),
        (b"mirage 1 check 7 2 2 8 2 1", "the preferred size 1 is not within 2 to 8"),
        (b"mirage 1 check 7 0 1 8 2 0", "'0' is not a number of nodes"),
        (b"mirage 1 check 0 2 1 8 2 0", "'0' is not a job id"),
        (b"mirage 1 check 7 -2 1 8 2 0", "'-2' is no"),
        (b"mirage 1 check 7 99999999999999 1 8 2 0", "is not a number of nodes"),
        (b"mirage 1 resumed 7 nan", "'nan' is not a number of seconds"),
        (b"mirage 1 resumed 7 -1", "'-1' is not a number of seconds"),
        (b"mirage 1 ready 7 \xc3\xbc", "not ASCII"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        parse(line)


@given(st.binary(max_size=LONGEST))
def test_nonsense_is_refused_and_nothing_else_happens(line: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(b"mirage 1 " + line if line[:6] != b"resume" else line)


def test_an_answer_is_one_line() -> None:
    assert aborted(2, "scontrol:\n no\tanswer") == "aborted 2 scontrol: no answer"
    assert expanded(2, ["n1", "n3"]) == "expanded 2 n1,n3"
