"""Settings of the aspects' tests, which use the helpers in tests/unit (`pythonpath` of pyproject.toml)."""

from __future__ import annotations

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
