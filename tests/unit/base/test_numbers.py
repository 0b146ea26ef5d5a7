"""Whole numbers in the words of records (module_utils/slurm_mirage/base/numbers.py)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.numbers import MOST, whole_number
from slurm_mirage.rm.slurm import array_words
from slurm_mirage.rm.slurm.records import parse_completed


@given(st.integers(-MOST, MOST))
def test_every_number_of_64_bits_is_read(number: int) -> None:
    assert whole_number(str(number), least=-MOST) == number


@given(st.text(max_size=30))
def test_any_other_word_is_no_number(word: str) -> None:
    number = whole_number(word, least=-MOST)
    assert number is None or (word.isascii() and number == int(word))


@pytest.mark.parametrize("word", [None, "", "-1", "²", "٣", "1.0", "1_0", " 1", "1\n", "9" * 5000])
def test_words_that_python_reads_or_fails_to_read_are_no_numbers(word: str | None) -> None:
    assert whole_number(word) is None


def test_a_line_of_the_completion_log_with_endless_numbers_has_none() -> None:
    endless = "9" * 5000
    line = f"JobId=7 Name=r.1.array JobState=COMPLETED ArrayJobId={endless} ArrayTaskId={endless} ProcCnt={endless} NodeCnt=²"
    job = parse_completed(line)
    assert job is not None and (job.job_id, job.name, job.processors, job.nodes) == (7, "r.1.array", None, None)
    assert parse_completed(line.replace("JobId=7", f"JobId={endless}")) is None
    assert array_words.name_of(f"r.{endless}.array", "3") == f"r.{endless}.array"
