"""The member of run.json that belongs to filler jobs."""

from __future__ import annotations

from ...base.strict_json import OBJECT, Maybe

MEMBERS = {"filler": Maybe(OBJECT)}
