"""The verdict on a run, as it is read from the member "validity" of metrics.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirage.records.shapes import VERDICTS

VALID, INVALID, INCONCLUSIVE = VERDICTS

WORDS = {VALID: "valid", INVALID: "not valid", INCONCLUSIVE: "inconclusive"}
"""The verdict as it is shown."""


def verdict_of(validity: Mapping[str, Any]) -> str:
    """VALID, INVALID or INCONCLUSIVE."""
    verdict: str = validity["verdict"]
    return verdict


def inconclusive_metrics(validity: Mapping[str, Any]) -> dict[str, str]:
    """The metrics that a run does not resolve, or that the emulation may have changed too much, with the reasons."""
    return {**validity["uncertain_metrics"], **validity["inconclusive_metrics"]}


def worst(verdicts: Iterable[str]) -> str:
    """The verdict on several runs: INVALID if one is, else INCONCLUSIVE if one is."""
    distinct = set(verdicts)
    return next((verdict for verdict in (INVALID, INCONCLUSIVE) if verdict in distinct), VALID)


def with_reasons(validity: Mapping[str, Any]) -> str:
    """The verdict in words, with the reasons unless it is valid."""
    return ": ".join([WORDS[verdict_of(validity)], *filter(None, ["; ".join(validity["reasons"])])])
