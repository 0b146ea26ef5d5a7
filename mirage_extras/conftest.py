"""Settings of the aspects' tests, which use the helpers in tests/unit (`pythonpath` of pyproject.toml)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from shared_fixtures import browser, call  # noqa: F401

pytest.register_assert_rewrite("browser")

# No test is timed: on a busy machine an example may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
