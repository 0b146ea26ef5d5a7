"""Fixtures of the tests here and of those in mirage_extras."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from modules import Caller


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls a module of library/ as Ansible does."""
    return Caller(capsys)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one for all tests of this process."""
    from browser import PROGRAM, started

    if PROGRAM is None:
        pytest.skip("skipped: chromium is not there: apt-get install chromium")
    with started() as one:
        yield one
