"""What the tests of several modules need."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings
from modules import Caller

# No test is timed: on a busy machine an example may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls a module of library/ as Ansible does."""
    return Caller(capsys)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect a worker's garbage while pytest-xdist still waits for it.

    pytest does so five times more afterwards. On a busy machine that takes longer than the five seconds that the worker has to end.
    """
    if hasattr(session.config, "workerinput"):
        gc.collect()
        gc.freeze()
