"""What the tests of several modules need."""

from __future__ import annotations

import pytest
from modules import Caller


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    """Calls a module of library/ as Ansible does."""
    return Caller(capsys)
