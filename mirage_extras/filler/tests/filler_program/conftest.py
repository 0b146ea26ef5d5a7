"""The fixtures of sigsleep's tests."""

from __future__ import annotations

from tests.sigsleep.conftest import builds, hangup, launch, program, start  # noqa: F401
