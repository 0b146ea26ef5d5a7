"""The metrics of the kinds of jobs, in the order in which they are shown."""

from __future__ import annotations

from mirage.kinds.filler import metrics as filler
from mirage.kinds.malleable import metrics as malleable

METRICS = (*malleable.METRICS, *filler.METRICS)
